"""One attempt, one task or one group in full, read from the parts of an archive by the places that the index gives."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from upsolve.archive.database import connect, read_from
from upsolve.archive.preference import preferred
from upsolve.archive.schema import TABLES
from upsolve.errors import ArchiveError
from upsolve.records import from_row
from upsolve.types import Attempt, Group, Task, Verdict
from upsolve.view.index import Index

__all__ = ["GROUP_ROWS", "describe", "entry_at", "read_attempt", "read_groups", "read_tasks", "records_of"]

GROUP_ROWS = 2_000
"""Attempts of a task that are read as one group; of a task with more, the first ones."""


def read_rows(index: Index, table: str, places: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return the stored rows at some places, by place."""
    rows: dict[int, dict[str, Any]] = {}
    with connect({}) as connection:
        for number in sorted({place >> 32 for place in places}):
            here = [place & 0xFFFFFFFF for place in places if place >> 32 == number]
            sql = (
                f"select * from read_parquet(?, file_row_number = true) where file_row_number in ({', '.join(map(str, here))})"  # noqa: S608
            )
            (part,) = read_from(connection, [index.parts[table][number]])
            found = connection.sql(sql, params=[str(part)]).to_arrow_table()
            for row in found.to_pylist():
                rows[(number << 32) + row["file_row_number"]] = {name: row.get(name) for name in TABLES[table].names}
    return rows


def entry_at(index: Index, place: int) -> dict[str, Any]:
    """Return the row of the index at a place; ArchiveError if no attempt is stored there."""
    found = index.query("select * from entries where place = ?", [place]) if index.ready else index.preview
    entry = next((row for row in found if row["place"] == place), None)
    if entry is None:
        raise ArchiveError(f"no attempt is stored at place {place}")
    return entry


def read_tasks(index: Index, names: Sequence[str]) -> dict[str, Task]:
    """Return tasks by id, without tasks of which the archive has only attempts."""
    with connect({"tasks": index.parts["tasks"]}) as connection:
        sql = "select * from tasks where task_id in (select unnest(?))"
        found = connection.sql(sql, params=[[*names]]).to_arrow_table().to_pylist()
    tasks = {row["task_id"]: from_row(Task, row) for row in found}
    return {name: tasks[name] for name in names if name in tasks}


def records_of(index: Index, entries: Sequence[dict[str, Any]]) -> list[tuple[Attempt, list[Verdict]]]:
    """Return the attempts of rows of the index, each with the last scored verdict of each judge."""
    attempts = read_rows(index, "attempts", [entry["place"] for entry in entries])
    verdicts = read_rows(index, "verdicts", [place for entry in entries for place in entry["verdicts"]])
    return [
        (
            from_row(Attempt, {**attempts[entry["place"]], "count": entry["count"]}),
            [from_row(Verdict, verdicts[place]) for place in entry["verdicts"]],
        )
        for entry in entries
    ]


def read_groups(index: Index, names: Sequence[str], most: int = GROUP_ROWS) -> dict[str, tuple[Group, list[int]]]:
    """Return the attempts at tasks with their preferred verdicts, and their places, by task; at most ``most`` of each task, the first ones."""
    few = f"qualify row_number() over (partition by task_id order by place) <= {int(most)}"
    entries = index.query(f"select * from entries where task_id in (select unnest(?)) {few} order by place", [[*names]])  # noqa: S608
    tasks, found = read_tasks(index, names), {name: list[tuple[Attempt, Verdict | None, int]]() for name in names}
    for entry, (attempt, judged) in zip(entries, records_of(index, entries), strict=True):
        task = tasks.setdefault(attempt.task_id, Task(attempt.task_id, ""))
        found[task.task_id].append((attempt, preferred(judged, task, index.judge), entry["place"]))
    groups: dict[str, tuple[Group, list[int]]] = {}
    for name, rows in found.items():
        attempts, verdicts = tuple(row[0] for row in rows), tuple(row[1] for row in rows)
        groups[name] = Group(tasks.get(name) or Task(name, ""), attempts, verdicts), [row[2] for row in rows]
    return groups


def read_attempt(index: Index, place: int) -> dict[str, Any]:
    """Return everything about an attempt, the preferred verdict first; ArchiveError if none is stored at this place."""
    entry = entry_at(index, place)
    ((attempt, judged),) = records_of(index, [entry])
    task = read_tasks(index, [attempt.task_id]).get(attempt.task_id)
    return {
        **describe(entry, attempt, judged, task=task, judge=index.judge),
        "task": task and asdict(task),
        "parent": relative(index, "attempt_id = ?", attempt.parent_id),
        "repairs": relative(index, "parent_id = ?", entry["attempt_id"]),
    }


def describe(
    entry: dict[str, Any], attempt: Attempt, judged: Sequence[Verdict], *, task: Task | None, judge: str = ""
) -> dict[str, Any]:
    """Return the fields of an attempt, without its tokens, and its verdicts, the one that counts first."""
    best = preferred(judged, task or Task(attempt.task_id, ""), judge)
    others = [verdict for verdict in judged if best is None or verdict.judge != best.judge]
    fields = {name: value for name, value in asdict(attempt).items() if name not in ("token_ids", "token_logps")}
    verdicts = [asdict(verdict) for verdict in ([best] if best else []) + others]
    return {"place": entry["place"], "attempt": {**fields, "attempt_id": entry["attempt_id"]}, "verdicts": verdicts}


def relative(index: Index, condition: str, name: str) -> list[dict[str, Any]]:
    """Return place and status of the attempts that a condition on an id finds, at most ten."""
    if not name or not index.ready:
        return []
    return index.query(f"select place, status, author from entries where {condition} order by place limit 10", [name])  # noqa: S608
