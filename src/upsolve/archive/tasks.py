"""Tasks by where they are: an archive, or the file or folder of any source."""

import warnings
from pathlib import Path

from upsolve.archive.places import is_url
from upsolve.archive.shipped import SHIPPED
from upsolve.archive.store import open_archive
from upsolve.errors import SourceError
from upsolve.plugins import find
from upsolve.types import Task

__all__ = ["read_tasks"]


def read_tasks(place: str, label: str) -> list[Task]:
    """Return the tasks of an archive or of ``source:path``; warns of the number of rows that the source could not use.

    Args:
        place: folder or name of an archive, or the name of a source and its file or folder: ``humaneval:HumanEval.jsonl.gz``.
        label: what named the place, for messages.

    Raises:
        SourceError: the place is neither, or a file cannot be read; says what is expected.
    """
    if place in SHIPPED or is_url(place) or (Path(place) / "archive.json").is_file():
        return open_archive(place).tasks()
    name, colon, path = place.rpartition(":")
    if not colon:
        raise SourceError(f"{label}: is not an archive; name a file of tasks with its source: humaneval:{place}")
    try:
        source = find("source", name)
    except ValueError as error:
        raise SourceError(f"{label}: {error}") from error
    tasks, unusable = source.tasks(Path(path))
    if unusable:
        warnings.warn(f"{label}: {len(unusable)} rows are left out, such as {unusable[0]}", stacklevel=2)
    if not tasks:
        raise SourceError(f"{label}: {path} contains no task of the source {name}")
    return tasks
