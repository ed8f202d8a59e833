"""Labels that contradict each other: programs with opposite outcomes, of one judge or of two."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from upsolve.archive.database import register_parts
from upsolve.archive.preference import OWN

__all__ = ["register_contradictions", "select_contradictions"]

CONTRADICTIONS = f"""
with mixed as (
    select attempt_id from {{verdicts}} where status <> 'unscored'
    group by attempt_id having bool_or(status = 'passed') and not bool_and(status = 'passed')
), votes as (
    select attempt_id, judge, status = 'passed' as passed, total from {{verdicts}} semi join mixed using (attempt_id)
    where status <> 'unscored'
    qualify not {OWN} or row_number() over (partition by attempt_id, judge order by place desc) = 1
), judged as (
    select attempt_id, judge, {OWN} as own, bool_or(passed) as passes, not bool_and(passed) as fails, max(total) as total
    from votes group by attempt_id, judge
), compared as (
    select attempt_id, list(judge order by judge) as judges, bool_or(passes and fails) as itself, bool_or(passes) as passes,
        bool_or(not passes) as fails, bool_or(passes and not own) as recorded_pass, bool_or(not passes and own) as own_failure,
        max(total) filter (passes) as tests, min(total) filter (not passes and total > 0) as failed_tests
    from judged group by attempt_id
)
select attempt_id, task_id, if(itself, 'equal code, one judge', 'equal code, two judges') as kind, judges
from compared join (select distinct attempt_id, task_id from attempts) using (attempt_id)
    left join (select task_id, bool_or(official) as official from tasks group by task_id) using (task_id)
where itself or passes and fails and (official or recorded_pass or own_failure or failed_tests <= tests)
"""  # noqa: S608  a condition of ours
"""Of recorded judges all outcomes count, because each may be of another submission; of upsolve's the last one. What upsolve passes on fewer
tests than a recorded judge that fails it is no contradiction (``archive.preference``)."""


def select_contradictions(verdicts: str = "verdicts") -> str:
    """Return a query for ``attempt_id``, ``task_id``, ``kind`` and ``judges`` of each program whose labels contradict each other.

    Args:
        verdicts: view of the verdicts with the column ``place``, beside views ``attempts`` and ``tasks`` (``archive.database.connect``).
    """
    return CONTRADICTIONS.format(verdicts=verdicts)


def register_contradictions(connection: Any, parts: Mapping[str, Sequence[Path]]) -> None:
    """Add a view ``contradictions`` to a connection with the views of an archive, whose files by table are given."""
    register_parts(connection, "placed_verdicts", parts["verdicts"], table="verdicts", places=True)
    connection.execute(f"create view contradictions as {select_contradictions('placed_verdicts')}")
