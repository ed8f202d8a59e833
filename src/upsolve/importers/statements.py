"""Tasks of one id, whose content is compared, and the places where an import found them."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from upsolve.archive.places import fresh
from upsolve.archive.store import Archive
from upsolve.files import write_text
from upsolve.importers.rows import BadRow
from upsolve.types import Task

__all__ = ["REMEDY", "Place", "Places", "all_places", "content_in", "other_content", "places_of_part", "repeats"]

REMEDY = "give one of the two a new id (of a table: import its file alone, with --name PREFIX of its ids, into a new archive)"
Place = tuple[str, int]
"""File and line; ("", 0) where a reader does not say them."""


@dataclass(slots=True)
class Places:
    """Where the records of a batch stand."""

    tasks: dict[str, list[Place]] = field(default_factory=dict[str, list[Place]])
    """Tasks that are stored, or are a stored one again."""
    others: dict[str, list[Place]] = field(default_factory=dict[str, list[Place]])
    """Tasks that were set aside since another one has their id."""
    attempts: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """Of the attempts in their order: a file, and how many are of it."""
    verdicts: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """The same of the verdicts."""
    assumed: list[str] = field(default_factory=list[str])
    """Tasks at which attempts without a language were taken for Python."""

    def write(self, file: Path) -> None:
        """Write the places as JSON."""
        write_text(file, json.dumps(asdict(self)))


def read_places(file: Path) -> Places:
    """Return the places of a file."""
    return Places(**json.loads(file.read_text(encoding="utf-8")))


def places_of_part(folder: Path, part: Path) -> Places:
    """Return the places of the records in a part, given the folder of its import."""
    file = folder / f"{part.stem.split('-')[1]}.places.json"
    return read_places(file) if file.exists() else Places()


def all_places(folder: Path) -> Iterator[tuple[str, Places]]:
    """Yield each batch of an import: its share, and the places of its records."""
    for file in sorted(fresh(folder).glob("*.places.json")):
        yield file.name.partition(".")[0], read_places(file)


def content_in(task: Task) -> tuple[str, str]:
    """Return the content id of a task but for its language, and the language: tasks that differ in it alone are one task, of any language."""
    return Archive.content_of(replace(task, language="")), sys.intern(task.language)


def repeats(content: tuple[str, str], stored: tuple[str, str]) -> bool:
    """Return whether a task (``content_in``) is a stored one again, which may be of any language."""
    return stored in (content, (content[0], ""))


def other_content(file: str, line: int, task: Task, stored: tuple[str, str]) -> BadRow:
    """Return a task that is stored with different content (``content_in``), set aside."""
    content, language = stored
    reason = f"task {task.task_id} is stored with different content; give one of the two a new id"
    if content == content_in(task)[0]:
        reason = (
            f"task {task.task_id} is stored in {language}, and here in {task.language or 'any language'}; import both at once (as a folder; "
            "CodeNet: --language all) into a new archive, so that it accepts any language, or give one of the two a new id"
        )
    return BadRow(file, line, reason, str(task)[:500])
