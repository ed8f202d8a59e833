"""The new archive of a command that changes tests, written portion by portion: an interrupted command resumes it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upsolve.archive.places import local_place
from upsolve.archive.store import create_archive
from upsolve.errors import ArchiveError
from upsolve.files import write_text
from upsolve.types import Attempt, Task, Verdict, content_id

__all__ = ["REPORT", "NewArchive", "Portion"]

REPORT = "suites.jsonl"
"""File of the new archive with a line of JSON for each task, after a line that identifies the command."""


@dataclass
class Portion:
    """Records of some tasks."""

    tasks: list[Task] = field(default_factory=list[Task])
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    verdicts: list[Verdict] = field(default_factory=list[Verdict])
    rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Lines of the report, one a task, each with ``task_id``."""


class NewArchive:
    """A new archive and its report; portions that an earlier, interrupted command has written are skipped."""

    def __init__(self, folder: str | Path, settings: Mapping[str, Any]) -> None:
        """Open the folder, or begin it.

        Args:
            folder: new folder, or that of an interrupted command with the same settings.
            settings: what decides the records, as JSON.

        Raises:
            ArchiveError: the folder holds something else; it is left as it is.
        """
        place = local_place(folder)
        self.file, key = place / REPORT, content_id(json.dumps(settings, sort_keys=True))
        if place.exists() and any(place.iterdir()) and not self.file.is_file():
            raise ArchiveError(f"{folder}: the folder is not empty; write the archive into a new folder")
        lines = self.file.read_text(encoding="utf-8").splitlines() if self.file.is_file() else []
        if lines and json.loads(lines[0]).get("settings") != key:
            raise ArchiveError(f"{folder}: holds the result of other settings or of another archive; name a new folder")
        self.rows: list[dict[str, Any]] = [json.loads(line) for line in lines[1:]]
        """Lines of the report."""
        self.head = lines[0] if lines else json.dumps({"settings": key})
        if not lines:
            write_text(self.file, self.head + "\n")
        self.archive = create_archive(place)
        self.done = {row["task_id"] for row in self.rows}
        self.archive.drop(self.tag)  # of a portion that was interrupted

    @property
    def tag(self) -> str:
        """Tag of the parts of the next portion."""
        return f"{len(self.rows):08x}"

    def write(self, portion: Portion) -> None:
        """Append a portion; it is complete when its lines are in the report."""
        self.archive.write(portion.tasks, portion.attempts, portion.verdicts, tag=self.tag)
        self.rows += portion.rows
        self.done |= {row["task_id"] for row in portion.rows}
        write_text(self.file, "".join(f"{line}\n" for line in (self.head, *map(json.dumps, self.rows))))
