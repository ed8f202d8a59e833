"""Rollouts that verl writes to ``trainer.rollout_data_dir`` (or ``validation_data_dir``): ``<step>.jsonl``.

Fields of a line: input, output, gts, score, step, and the reward function's other values.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from upsolve.importers.logs.rollouts import ROLLOUT_OPTIONS, Rollout, Rollouts, number_of
from upsolve.importers.rows import LINES, Row, build_each, data_files, json_lines
from upsolve.importers.source import Source

__all__ = ["SOURCE", "read"]


def read(path: Path, **options: Any) -> Iterator[Row]:
    """Yield the tasks, attempts and verdicts of a file or of all files of a folder, step by step.

    Raises:
        SourceError: the folder contains no .jsonl file, or an option is invalid.
    """
    rollouts = Rollouts("verl", **options)
    files = data_files(path, suffixes=LINES)
    for file in sorted(files, key=lambda file: (file.parent, len(file.stem), file.stem)):  # 9.jsonl before 10.jsonl
        yield from build_each(file, json_lines(file), partial(records_of, rollouts=rollouts))


def records_of(row: dict[str, Any], *, rollouts: Rollouts) -> Iterator[Row]:
    """Yield the records of a line."""
    extra = {name: value for name, value in row.items() if name not in ("input", "output", "score")}
    rollout = Rollout(prompt=row["input"], answer=row["output"], score=number_of(row.get("score")), extra=extra)
    yield from rollouts.records(rollout)


SOURCE = Source(read, "trainer.rollout_data_dir of verl, or one of its .jsonl files", ROLLOUT_OPTIONS)
