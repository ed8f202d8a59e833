"""Attempts of an import that may belong to another statement than the one that is stored under the id of their task: they are set aside.

A file whose own task of that id is the stored one keeps its attempts.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from upsolve.archive.parts import read_part, rewrite_part
from upsolve.archive.places import fresh
from upsolve.files import write_text
from upsolve.importers.importing import Job
from upsolve.importers.rows import BadRow
from upsolve.importers.statements import REMEDY, Place, all_places, places_of_part

__all__ = ["Contested", "contested_tasks", "drop_contested", "set_aside"]

EARLIER = "an earlier import"


@dataclass(slots=True)
class Contested:
    """A task whose attempts are set aside."""

    reason: str
    """Why."""
    kept: list[str] = field(default_factory=list[str])
    """Files (``key_of``) whose attempts are kept."""
    language: str = ""
    """Language of the attempts that are set aside; empty for any."""


def key_of(share: str, file: str) -> str:
    """Return a key of a file: those that a reader does not name are told apart by their share."""
    return f"{share} {file}"


def contested_tasks(job: Job, lost: Mapping[str, set[str]], languages: Mapping[str, str]) -> dict[str, Contested]:
    """Return the tasks with different statements, and those whose language attempts without one did not know, by id.

    Args:
        job: the import; its shares are done.
        lost: ``task_id`` -> shares whose task of that id is another one than that of an earlier share.
        languages: languages, but for Python, of the tasks that the import has stored.
    """
    others, same = dict[str, list[tuple[str, Place]]](), dict[str, list[tuple[str, Place]]]()
    assumed = set[str]()
    for share, places in all_places(job.folder):
        assumed |= languages.keys() & {*places.assumed}
        for task_id, found in places.others.items():
            others.setdefault(task_id, []).extend((share, (file, line)) for file, line in found)
    wanted = others.keys() | lost.keys()
    for share, places in all_places(job.folder) if wanted else ():
        for task_id in wanted & places.tasks.keys():
            told = others if share in lost.get(task_id, ()) else same
            told.setdefault(task_id, []).extend((share, (file, line)) for file, line in places.tasks[task_id])
    contested = {task_id: with_language(task_id, languages[task_id]) for task_id in assumed - wanted}
    return contested | {task_id: with_statements(task_id, same.get(task_id, []), others[task_id]) for task_id in sorted(wanted)}


def with_statements(task_id: str, same: list[tuple[str, Place]], others: list[tuple[str, Place]]) -> Contested:
    """Return a task with another statement at some places than at those that have the stored one."""
    stored, other = (where(same[0][1]) if same else EARLIER), where(others[0][1])
    mixed = {key_of(share, file) for share, (file, _) in others}
    kept = {key_of(share, file) for share, (file, _) in same} - mixed
    reason = f"an attempt at the task {task_id}, which is another in {stored} than in {other}: {REMEDY}"
    return Contested(reason, sorted(kept))


def with_language(task_id: str, language: str) -> Contested:
    """Return a task whose attempts without a language were taken for Python, since the task is in a file that was not read before."""
    reason = f"an attempt without a language, and its task {task_id}, of another file, is in {language}: import the tasks first"
    return Contested(f"{reason}, or give attempts their language; begin with a new archive", [], "python")


def where(place: Place) -> str:
    """Return a place as text."""
    file, line = place
    return f"{file}, line {line}" if line else file or "another part of the source"


def set_aside(job: Job, path: Path, contested: Mapping[str, Contested]) -> tuple[int, int]:
    """Write the attempts at contested tasks, and their verdicts, to files of rows set aside; return the numbers of both.

    Args:
        job: the import.
        path: file or folder that messages name where a reader names no file.
        contested: the tasks.
    """
    counts = {"attempts": 0, "verdicts": 0}
    for name in counts if contested else ():
        for part, lost in lost_rows(job, name, contested):
            rows = read_part(part).take([*lost]).to_pylist()
            bad = [
                BadRow(file or str(path), 0, why, str(row)[:500]) for row, (file, why) in zip(rows, lost.values(), strict=True)
            ]
            text = "".join(json.dumps(asdict(row)) + "\n" for row in bad)
            write_text(job.folder / f"settled.{name}.{part.stem}.jsonl", text)
            counts[name] += len(bad)
    return counts["attempts"], counts["verdicts"]


def drop_contested(job: Job, contested: Mapping[str, Contested]) -> None:
    """Remove the attempts at contested tasks, and their verdicts, from the parts of an import; verdicts first: attempts say which."""
    for name in ("verdicts", "attempts") if contested else ():
        for part, lost in lost_rows(job, name, contested):
            table = read_part(part)
            rewrite_part(part, table.filter(pa.array([index not in lost for index in range(table.num_rows)], pa.bool_())))


def lost_rows(job: Job, name: str, contested: Mapping[str, Contested]) -> Iterator[tuple[Path, dict[int, tuple[str, str]]]]:
    """Yield parts with ``attempts`` at contested tasks, or with ``verdicts`` on them: index of a row -> its file, and why it is set aside.

    A part that was rewritten before an interruption has fewer rows than its places, and is left out.
    """
    wanted, key = (contested, "task_id") if name == "attempts" else (tasks_of_lost(job, contested), "attempt_id")
    for part in sorted((fresh(job.archive) / name).glob(f"*-{job.tag}.parquet")):
        share = part.stem.split("-")[1].partition(".")[0]
        files = [file for file, count in getattr(places_of_part(job.folder, part), name) for _ in range(count)]
        rows: list[dict[str, Any]] = read_part(part, [key, "language"] if name == "attempts" else [key]).to_pylist()
        lost = dict[int, tuple[str, str]]()
        for index, (row, file) in enumerate(zip(rows, files, strict=True) if len(rows) == len(files) else ()):
            task = wanted.get(row[key])
            if task and task.language in ("", row.get("language", task.language)) and key_of(share, file) not in task.kept:
                lost[index] = (file, task.reason)
        if lost:
            yield part, lost


def tasks_of_lost(job: Job, contested: Mapping[str, Contested]) -> dict[str, Contested]:
    """Return the contested tasks of the attempts that are set aside, by ``attempt_id``."""
    tasks: dict[str, Contested] = {}
    for part, lost in lost_rows(job, "attempts", contested):
        rows = read_part(part, ["attempt_id", "task_id"]).take([*lost]).to_pylist()
        tasks |= {row["attempt_id"]: contested[row["task_id"]] for row in rows}
    return tasks
