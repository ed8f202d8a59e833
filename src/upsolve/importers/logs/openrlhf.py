"""Samples that OpenRLHF's ``batch_inference`` saves: JSON lines with input, output and, from a reward model, reward.

Pairs (prompt, chosen, rejected, as text or messages, with a score of each if there is one) are two attempts; ``chosen`` in ``extra`` says which.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from upsolve.importers.logs.rollouts import ROLLOUT_OPTIONS, Rollout, Rollouts, number_of, text_of
from upsolve.importers.rows import DATA_SUFFIXES, Row, build_each, data_files, json_lines, rows_of_file
from upsolve.importers.source import Source

__all__ = ["SOURCE", "read"]

SINGLE = ("input", "output", "reward")
"""Fields of prompt, answer and score."""
SIDES = {"chosen": "rejected", "rejected": "chosen"}
"""Answer of a pair -> the other one."""
SCORES = ("{}_reward", "{}_score", "score_{}")
"""Fields of the score of an answer, which stands for ``{}``; the first one counts."""


def read(path: Path, **options: Any) -> Iterator[Row]:
    """Yield the tasks, attempts and verdicts of a file, or of all files of rows in a folder.

    Raises:
        SourceError: the folder contains no such file, or an option is invalid.
    """
    rollouts = Rollouts("openrlhf", **options)
    for file in data_files(path):
        rows = rows_of_file(file) if file.name.endswith((*DATA_SUFFIXES,)) else json_lines(file)
        yield from build_each(file, rows, partial(records_of, rollouts=rollouts))


def records_of(row: dict[str, Any], *, rollouts: Rollouts) -> Iterator[Row]:
    """Yield the records of a line."""
    for rollout in [rollout_of(row, side) for side in SIDES] if "chosen" in row else [single_of(row)]:
        yield from rollouts.records(rollout)


def single_of(row: dict[str, Any]) -> Rollout:
    """Return the answer of a line."""
    prompt, answer, score = SINGLE
    extra = {name: value for name, value in row.items() if name not in SINGLE}
    return Rollout(prompt=text_of(row[prompt]), answer=text_of(row[answer]), score=number_of(row.get(score)), extra=extra)


def rollout_of(row: dict[str, Any], side: str) -> Rollout:
    """Return one answer of a pair, with what the line says of it and of both."""
    answer, prompt = row[side], row.get("prompt")
    if isinstance(answer, list):  # messages, which may begin with those of the prompt
        start = 1 + max((index for index, message in enumerate(answer) if message.get("role") == "user"), default=-1)
        answer, prompt = answer[start:], prompt or answer[:start]
    if not prompt:
        raise ValueError("neither a prompt nor messages that begin with one")
    score = next((name for form in SCORES if (name := form.format(side)) in row), "")
    of_other = {name for name in row if SIDES[side] in name.split("_")}
    rest = {name: value for name, value in row.items() if name not in {"prompt", side, score} | of_other}
    extra = {"chosen": side == "chosen", **rest}
    return Rollout(prompt=text_of(prompt), answer=text_of(answer), score=number_of(row.get(score)), extra=extra)


SOURCE = Source(
    read, "a file of samples that OpenRLHF's batch_inference saved, or of pairs (prompt, chosen, rejected)", ROLLOUT_OPTIONS
)
