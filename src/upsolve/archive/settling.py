"""Tasks that several shares of an import have: the first one stays, as if the shares had been imported in turn."""

import json
from collections.abc import Container
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from upsolve.archive.importing import Job, other_content, places_of_tasks
from upsolve.archive.parts import read_part, write_part
from upsolve.archive.places import fresh
from upsolve.archive.rows import BadRow
from upsolve.archive.store import Archive
from upsolve.files import write_text
from upsolve.records import from_row
from upsolve.types import Task

__all__ = ["Settled", "settle"]


@dataclass(frozen=True, slots=True)
class Settled:
    """Tasks that are in several shares."""

    drops: dict[str, list[str]]
    """Name of a part -> ids of its tasks that an earlier part has."""
    repeated: int = 0
    """Those with the same content as the first one."""
    bad: int = 0
    """Those with different content."""


def settle(job: Job, path: Path) -> Settled:
    """Remove tasks that an earlier share has, too; those with different content are set aside.

    What is to be removed is recorded before anything is, so that this can be done again after an interruption.

    Args:
        job: the import; its shares are done.
        path: file or folder that messages name where a reader names no file.
    """
    record = job.folder / "settled.json"
    if record.exists():
        settled = Settled(**json.loads(record.read_text(encoding="utf-8")))
    else:
        settled, bad = find_repeated(job, path)
        if bad:
            write_text(job.folder / "settled.jsonl", "".join(json.dumps(asdict(row)) + "\n" for row in bad))
        write_text(record, json.dumps(asdict(settled)))
    for name, task_ids in settled.drops.items():
        drop_tasks(job.archive / "tasks" / name, task_ids)
    return settled


def find_repeated(job: Job, path: Path) -> tuple[Settled, list[BadRow]]:
    """Return the tasks that an earlier share has, and those of them that are to be set aside."""
    ids = {
        part: read_part(part, ["task_id"]).column(0).to_pylist()
        for part in sorted((fresh(job.archive) / "tasks").glob(f"*-{job.tag}.parquet"))
    }
    seen = set[str]()
    repeated = {task_id for of_part in ids.values() for task_id in of_part if task_id in seen or seen.add(task_id)}
    drops: dict[str, list[str]] = {}
    first: dict[str, str] = {}
    bad: list[BadRow] = []
    for part in (part for part, of_part in ids.items() if not repeated.isdisjoint(of_part)):
        table, places = read_part(part), places_of_tasks(job, part)
        for row in rows_among(table, repeated).to_pylist():
            task = from_row(Task, row)
            content = Archive.content_of(task)
            if task.task_id in first:
                drops.setdefault(part.name, []).append(task.task_id)
            if first.setdefault(task.task_id, content) != content:
                bad.append(other_content(*places.get(task.task_id, (str(path), 0)), task))
    dropped = sum(map(len, drops.values()))
    return Settled(drops, dropped - len(bad), len(bad)), bad


def rows_among(table: Any, task_ids: Container[str]) -> Any:
    """Return the rows with one of these task ids."""
    return table.filter(pa.array([task_id in task_ids for task_id in table["task_id"].to_pylist()], pa.bool_()))


def drop_tasks(part: Path, task_ids: list[str]) -> None:
    """Remove tasks from a part; the part, too, if no task is left."""
    if not part.exists():
        return
    table = read_part(part)
    left = rows_among(table, {*table["task_id"].to_pylist()} - {*task_ids})
    if not left.num_rows:
        part.unlink()
    elif left.num_rows < table.num_rows:
        write_part(part, left)
