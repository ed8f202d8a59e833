"""Tasks that an import has several times: the first one stays, as if its shares had been imported in turn.

One that is there in several languages, and else with the same content, becomes a task of any language.
"""

import json
from collections.abc import Container, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from upsolve.archive.importing import Job, content_in, other_content, places_of_tasks, repeats
from upsolve.archive.parts import read_part, write_part
from upsolve.archive.places import fresh
from upsolve.archive.rows import BadRow
from upsolve.files import write_text
from upsolve.records import from_row
from upsolve.types import Task

__all__ = ["Settled", "settle"]


@dataclass(slots=True)
class Settled:
    """Tasks that an import has several times."""

    drops: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Name of a part -> ids of its tasks that an earlier part has."""
    opened: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Name of a part -> ids of its tasks that are there, or in later parts, in other languages, too: they are made tasks of any language."""
    repeated: int = 0
    """Those with the same content as the first one, but perhaps for the language."""
    bad: int = 0
    """Those with different content."""


def settle(job: Job, path: Path) -> Settled:
    """Leave each task once, the first one; those with different content are set aside.

    What is to be changed is recorded before anything is, so that this can be done again after an interruption.

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
    for name in {**settled.drops, **settled.opened}:
        rewrite(job.archive / "tasks" / name, settled.drops.get(name, ()), settled.opened.get(name, ()))
    return settled


def find_repeated(job: Job, path: Path) -> tuple[Settled, list[BadRow]]:
    """Return the tasks that are there several times, and those of them that are to be set aside."""
    ids = {
        part: read_part(part, ["task_id"]).column(0).to_pylist()
        for part in sorted((fresh(job.archive) / "tasks").glob(f"*-{job.tag}.parquet"))
    }
    seen = set[str]()
    repeated = {task_id for of_part in ids.values() for task_id in of_part if task_id in seen or seen.add(task_id)}
    settled, bad = Settled(), list[BadRow]()
    first: dict[str, tuple[str, tuple[str, str]]] = {}
    for part in (part for part, of_part in ids.items() if not repeated.isdisjoint(of_part)):
        table, places = read_part(part), places_of_tasks(job, part)
        for row in rows_among(table, repeated).to_pylist():
            task = from_row(Task, row)
            content = content_in(task)
            if task.task_id not in first:
                first[task.task_id] = part.name, content
                continue
            home, stored = first[task.task_id]
            if part.name != home:
                settled.drops.setdefault(part.name, []).append(task.task_id)
            if content[0] != stored[0]:
                bad.append(other_content(*places.get(task.task_id, (str(path), 0)), task, stored))
                continue
            settled.repeated += 1
            if not repeats(content, stored):
                settled.opened.setdefault(home, []).append(task.task_id)
                first[task.task_id] = home, (content[0], "")
    settled.bad = len(bad)
    return settled, bad


def rows_among(table: Any, task_ids: Container[str]) -> Any:
    """Return the rows with one of these task ids."""
    return table.filter(pa.array([task_id in task_ids for task_id in table["task_id"].to_pylist()], pa.bool_()))


def rewrite(part: Path, drops: Sequence[str], opened: Sequence[str]) -> None:
    """Remove tasks from a part, and the part if none is left; leave those that become tasks of any language once."""
    if not part.exists():
        return
    table, done, any_language = read_part(part), {*drops}, {*opened}
    keep = [task_id not in done and not done.add(task_id) for task_id in table["task_id"].to_pylist()]
    left = table.filter(pa.array(keep, pa.bool_()))
    pairs = zip(left["task_id"].to_pylist(), left["language"].to_pylist(), strict=True)
    column = left.schema.get_field_index("language")
    languages = pa.array(
        ["" if task_id in any_language else language for task_id, language in pairs], left.schema.field(column).type
    )
    if left.num_rows:
        write_part(part, left.set_column(column, left.schema.field(column), languages))
    else:
        part.unlink()
