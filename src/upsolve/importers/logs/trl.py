"""Completions that TRL's GRPO and RLOO trainers log (``log_completions=True``): ``completions/completions_00010.parquet``.

Columns: step, prompt, completion, a column for each reward function, columns of ``log_extra``, advantage. If a file is written more often
than completions are sampled, it repeats the rows of the file before, and is left out.
"""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from upsolve.errors import SourceError
from upsolve.importers.logs.rollouts import ROLLOUT_OPTIONS, Rollout, Rollouts, number_of, text_of
from upsolve.importers.rows import BadRow, Row, build_each, parquet_rows
from upsolve.importers.source import Option, Source
from upsolve.importers.tables.columns import says_opposite

__all__ = ["SOURCE", "read"]

Json = dict[str, Any]


def read(path: Path, *, reward: str = "", **options: Any) -> Iterator[Row]:
    """Yield the tasks, attempts and verdicts of a run.

    Args:
        path: the trainer's ``output_dir``, its folder ``completions``, or one file.
        reward: columns of reward functions, comma separated; the score is the sum of those that apply (are not NaN).
        options: of ``upsolve.importers.logs.rollouts.Rollouts``.

    Raises:
        SourceError: there is no file, or ``reward`` is needed or names no column.
    """
    files = (
        [path]
        if path.is_file()
        else sorted([*path.glob("completions_*.parquet"), *path.glob("completions/completions_*.parquet")])
    )
    if not files:
        raise SourceError(f"{path}: contains no completions_*.parquet; TRL writes them with log_completions=True")
    rollouts, before = Rollouts("trl", **options), ""
    for file in files:
        rows = [row for _, row in parquet_rows(file) if not isinstance(row, BadRow)]
        content = json.dumps([{name: value for name, value in row.items() if name != "step"} for row in rows], default=str)
        if content != before:
            names = reward_columns(file, [name.strip() for name in reward.split(",") if name.strip()])
            yield from build_each(file, enumerate(rows, start=1), partial(records_of, names=names, rollouts=rollouts))
        before = content


def reward_columns(file: Path, wanted: Sequence[str]) -> Sequence[str]:
    """Return the columns of the score: the wanted ones, or the only column of real numbers besides the advantage, if more is better by its name.

    Raises:
        SourceError: a wanted column is missing, or there is not exactly one candidate; names the columns.
    """
    schema: Any = pq.read_schema(file)
    reals = [field.name for field in schema if pa.types.is_floating(field.type) and field.name != "advantage"]
    if missing := [name for name in wanted if name not in schema.names]:
        raise SourceError(f"{file}: has no column {missing[0]}; its columns are {', '.join(schema.names)}")
    if not wanted and (len(reals) != 1 or says_opposite(reals[0])):
        raise SourceError(f"{file}: --reward must name the columns of the score, among {', '.join(reals or schema.names)}")
    return wanted or reals


def records_of(row: Json, *, names: Sequence[str], rollouts: Rollouts) -> Iterator[Row]:
    """Yield the records of a row."""
    scores = [score for name in names if (score := number_of(row[name])) is not None]
    extra = {name: value for name, value in row.items() if name not in ("prompt", "completion")}
    rollout = Rollout(
        prompt=text_of(row["prompt"]), answer=text_of(row["completion"]), score=sum(scores) if scores else None, extra=extra
    )
    yield from rollouts.records(rollout)


SOURCE = Source(
    read,
    "output_dir of a trainer of TRL with log_completions=True, or one of its completions_*.parquet",
    (Option("reward", str, "columns whose sum is the score (default: the only column of real numbers)"), *ROLLOUT_OPTIONS),
)
