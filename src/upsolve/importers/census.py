"""Counts over the parts of an archive, computed by DuckDB on the files, in constant memory."""

from dataclasses import dataclass, field

import duckdb

from upsolve.archive.database import connect, register_parts
from upsolve.archive.schema import TABLES
from upsolve.archive.store import Archive

__all__ = ["Census", "census"]

NEW = "select count(*) from (select distinct attempt_id from new_attempts) where attempt_id not in (select attempt_id from old_attempts)"
NO_TASK = "select count(*), any_value(task_id) from new_attempts where task_id not in (select task_id from tasks)"
OTHER_LANGUAGE = """
select count(*), any_value(old.task_id), any_value(old.language), any_value(new.language)
from old_attempts old join new_tasks new using (task_id) where new.language not in ('', old.language)
"""
NO_ATTEMPT = "select count(*) from new_verdicts where attempt_id not in (select attempt_id from attempts)"


@dataclass(frozen=True, slots=True)
class Census:
    """Counts of the records written under one tag."""

    attempts: int
    """Attempts written."""
    new: int
    """Distinct attempts among them that no other part has."""
    orphans: dict[str, int] = field(default_factory=dict[str, int])
    """Number of ``attempts without a task`` and ``verdicts without an attempt`` among them."""
    missing: str = ""
    """Id of a task that an attempt lacks."""
    mistaken: str = ""
    """Says that attempts of earlier imports are in another language than their task, which has come now; empty if none is."""


def census(archive: Archive, tag: str) -> Census:
    """Count the records written under a tag; tasks and attempts that they refer to may be anywhere in the archive."""
    parts = {name: archive.parts(name) for name in TABLES}
    with connect(parts) as connection:
        for name in TABLES:
            new = [part for part in parts[name] if part.stem.endswith(f"-{tag}")]
            register_parts(connection, f"new_{name}", new, table=name)
            register_parts(connection, f"old_{name}", [part for part in parts[name] if part not in {*new}], table=name)
        untold, missing = connection.sql(NO_TASK).fetchall()[0]
        orphans = {"attempts without a task": untold, "verdicts without an attempt": count(connection, NO_ATTEMPT)}
        written = count(connection, "select count(*) from new_attempts")
        mistaken = told(*connection.sql(OTHER_LANGUAGE).fetchall()[0])
        return Census(written, count(connection, NEW), orphans, missing or "", mistaken)


def told(attempts: int, task_id: str, stored: str, language: str) -> str:
    """Return what to do about attempts in another language than their task, which has come after them; empty if there are none."""
    what = f"{attempts} attempts of earlier imports are in another language than their tasks of this one ({task_id}: {stored}, not {language})"
    return f"{what}: if they have no language of their own, import the tasks first, into a new archive" if attempts else ""


def count(connection: "duckdb.DuckDBPyConnection", sql: str) -> int:
    """Return the single number that a query returns."""
    return int(connection.sql(sql).fetchall()[0][0])
