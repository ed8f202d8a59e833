"""Tasks that an import has several times: the first one stays, as if its shares had been imported in turn.

One that is there in several languages, and else with the same content, becomes a task of any language. Of one with other content the attempts
are set aside, too (``archive.contested``).
"""

import json
from collections.abc import Container, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from upsolve.archive.parts import read_part, rewrite_part
from upsolve.archive.places import fresh
from upsolve.files import write_text
from upsolve.importers.contested import Contested, contested_tasks, drop_contested, set_aside
from upsolve.importers.importing import Job
from upsolve.importers.rows import NOWHERE, BadRow
from upsolve.importers.statements import content_in, other_content, places_of_part, repeats
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
    contested: dict[str, Any] = field(default_factory=dict[str, Any])
    """Id of each task whose attempts are set aside -> fields of ``Contested``."""
    attempts: int = 0
    """Attempts that are set aside."""
    verdicts: int = 0
    """Their verdicts, which are set aside, too."""


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
        settled, bad, lost = find_repeated(job, path)
        if bad:
            write_text(job.folder / "settled.0.jsonl", "".join(json.dumps(asdict(row)) + "\n" for row in bad))
        contested = contested_tasks(job, lost, languages_of(job, settled))
        settled.attempts, settled.verdicts = set_aside(job, path, contested)
        settled.contested = {task_id: asdict(task) for task_id, task in contested.items()}
        write_text(record, json.dumps(asdict(settled)))
    for name in {**settled.drops, **settled.opened}:
        rewrite(job.archive / "tasks" / name, settled.drops.get(name, ()), settled.opened.get(name, ()))
    drop_contested(job, {task_id: Contested(**task) for task_id, task in settled.contested.items()})
    return settled


def languages_of(job: Job, settled: Settled) -> dict[str, str]:
    """Return the languages of the import's tasks, but for those of Python and of any language."""
    languages: dict[str, str] = {}
    for part in sorted((fresh(job.archive) / "tasks").glob(f"*-{job.tag}.parquet")):
        rows: list[dict[str, str]] = read_part(part, ["task_id", "language"]).to_pylist()
        others = {row["task_id"]: row["language"] for row in rows if row["language"] not in ("", "python")}
        languages = others | languages
    opened = {task_id for task_ids in settled.opened.values() for task_id in task_ids}
    return {task_id: language for task_id, language in languages.items() if task_id not in opened}


def find_repeated(job: Job, path: Path) -> tuple[Settled, list[BadRow], dict[str, set[str]]]:
    """Return the tasks that are there several times, those of them that are to be set aside, and the shares that have these, by id."""
    ids = {
        part: read_part(part, ["task_id"]).column(0).to_pylist()
        for part in sorted((fresh(job.archive) / "tasks").glob(f"*-{job.tag}.parquet"))
    }
    seen = set[str]()
    repeated = {task_id for of_part in ids.values() for task_id in of_part if task_id in seen or seen.add(task_id)}
    settled, bad, lost = Settled(), list[BadRow](), dict[str, set[str]]()
    first: dict[str, tuple[str, tuple[str, str]]] = {}
    for part in (part for part, of_part in ids.items() if not repeated.isdisjoint(of_part)):
        table, places = read_part(part), places_of_part(job.folder, part).tasks
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
                (file, line), *_ = places.get(task.task_id, [NOWHERE])
                bad.append(other_content(file or str(path), line, task, stored))
                lost.setdefault(task.task_id, set()).add(part.stem.split("-")[1].partition(".")[0])
                continue
            settled.repeated += 1
            if not repeats(content, stored):
                settled.opened.setdefault(home, []).append(task.task_id)
                first[task.task_id] = home, (content[0], "")
    settled.bad = len(bad)
    return settled, bad, lost


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
    rewrite_part(part, left.set_column(column, left.schema.field(column), languages))
