"""The samples of a run's evaluations (``base.samples.jsonl``, ``trained.samples.jsonl``) as an archive, to be looked at."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from upsolve.archive.store import Archive, open_archive
from upsolve.config import load_recipe
from upsolve.errors import ArchiveError, UpsolveError
from upsolve.records import from_row
from upsolve.types import Attempt, Status, Task, Verdict

__all__ = ["ENDING", "fill_with_samples"]

ENDING = ".samples.jsonl"
"""How the names of the files end."""
JUDGE = "recorded:"
"""Judge of the verdicts, with the name of the evaluation (``recorded:base``): a file keeps status and error of each sample."""


def fill_with_samples(archive: Archive, files: Sequence[Path]) -> None:
    """Append the samples of a run's evaluations, their outcomes, and their tasks as far as the archive of the run beside the files has them.

    Task set and temperature of a sample are in its ``extra``.

    Args:
        archive: an empty archive.
        files: files of one run.

    Raises:
        ArchiveError: a line is not a sample; names file and line.
    """
    pairs = [
        pair_of(file, number, line)
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
    ]
    names = {attempt.task_id for attempt, _ in pairs}
    tasks = [task for task in tasks_beside(files[0]) if task.task_id in names]
    archive.append(tasks=tasks, attempts=[attempt for attempt, _ in pairs], verdicts=[verdict for _, verdict in pairs])


def pair_of(file: Path, number: int, line: str) -> tuple[Attempt, Verdict]:
    """Return the attempt and the verdict of a line."""
    try:
        row: dict[str, Any] = json.loads(line)
        status, error = Status(row.pop("status")), str(row.pop("error", ""))
        where = {name: row.pop(name) for name in ("task_set", "temperature") if name in row}
        attempt = from_row(Attempt, {**row, "extra": json.dumps({**json.loads(row.get("extra") or "{}"), **where})})
    except (ValueError, KeyError, TypeError, AttributeError) as wrong:
        raise ArchiveError(f"{file}: line {number} is not a sample of an evaluation: {wrong!r}") from wrong
    return attempt, Verdict(attempt.attempt_id, status, judge=JUDGE + file.name.removesuffix(ENDING), error_message=error)


def tasks_beside(file: Path) -> Iterator[Task]:
    """Yield the tasks of the archive that the run in the file's folder names; none if there is no recipe, or no archive."""
    try:
        yield from open_archive(load_recipe(file.parent / "recipe.yaml").data.archive).tasks()
    except (UpsolveError, OSError):
        return
