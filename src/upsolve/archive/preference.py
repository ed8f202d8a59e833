"""Choice among several verdicts on one attempt, and labels that contradict each other."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from upsolve.archive.database import register_parts
from upsolve.types import Finding, Status, Task, Verdict

__all__ = [
    "IS_SCORE",
    "OUTCOMES",
    "OUTCOME_FINDINGS",
    "OWN",
    "RANK",
    "SCORES",
    "by_judge",
    "choice",
    "is_judge",
    "is_recorded",
    "preferred",
    "register_contradictions",
    "register_scores",
    "score_verdicts",
    "select_contradictions",
]

PREFIX = "upsolve"
"""Beginning of the names of upsolve's own judges."""
OWN = f"starts_with(judge, '{PREFIX}')"
"""SQL condition that the column ``judge`` names a judge of upsolve; other verdicts are recorded (``is_recorded``)."""
IS_SCORE = "starts_with(judge, 'score:')"
"""SQL condition that a verdict holds only a score (``Verdict.is_score``), not an outcome."""
RANK = "((status <> 'unscored')::hugeint << 62) + place"
"""Expression in SQL that is largest for the last scored verdict, or for the last one if none is scored."""

OUTCOME_FINDINGS = frozenset({"traceback", "compile", "flaky", "points"})
"""Kinds of findings about a run of the attempt; all others are about its code and do not depend on the judge."""


def is_recorded(judge: str) -> bool:
    """Return whether the verdicts of a judge were imported with the data instead of given by upsolve, whose judges are ``upsolve-<version>``."""
    return not judge.startswith(PREFIX)


def is_judge(judge: str, name: str) -> bool:
    """Return whether a judge has a name: its full name, or the part before ``:`` or ``-``; an empty name means any."""
    return not name or judge == name or judge.startswith((f"{name}:", f"{name}-"))


def by_judge(name: str) -> str:
    """Return ``is_judge`` as a condition in SQL on the column ``judge``."""
    quoted = name.replace("'", "''")
    return f"(judge = '{quoted}' or starts_with(judge, '{quoted}:') or starts_with(judge, '{quoted}-'))" if name else "true"


def preferred(verdicts: Sequence[Verdict], task: Task, judge: str = "") -> Verdict | None:
    """Return the preferred verdict, of one judge if ``judge`` is given (``is_judge``); None without a verdict.

    A scored verdict is preferred to an unscored one. A verdict of upsolve is preferred to a recorded one only if it is based on as many tests: the
    task's tests are the official ones, or the recorded verdict gives their number (``total``) and upsolve's has at least as many. Otherwise upsolve's
    verdict may be based on a few sample tests, and would turn recorded failures into passes. A preferred verdict without analyses is returned with
    the findings of another verdict. The scores of all verdicts are added; an attempt with scores alone has an unscored verdict.
    """
    return with_scores(preferred_outcome([one for one in verdicts if not one.is_score], task, judge), verdicts)


def preferred_outcome(verdicts: Sequence[Verdict], task: Task, judge: str) -> Verdict | None:
    """Return the preferred verdict among those with an outcome (``preferred``)."""
    verdicts = [verdict for verdict in verdicts if is_judge(verdict.judge, judge)]
    scored = [verdict for verdict in verdicts if verdict.status is not Status.UNSCORED]
    imported = [verdict for verdict in scored if is_recorded(verdict.judge)]
    judged = [verdict for verdict in scored if not is_recorded(verdict.judge)]
    if not scored:
        return verdicts[-1] if verdicts else None
    if not imported:
        return with_analyses(judged[-1], verdicts)
    if judged and (task.official or 0 < imported[-1].total <= judged[-1].total):
        return with_analyses(judged[-1], verdicts)
    return with_analyses(imported[-1], verdicts)


def choice(total: str = "{}.total") -> str:
    """Return the SQL expression of the outcome that ``preferred`` chooses among the columns ``own``, ``imported`` and ``latest``.

    ``own`` and ``imported`` are the last scored outcomes by upsolve's and by other judges, ``latest`` is the last outcome of all, and
    ``official`` is the field of the task.

    Args:
        total: the number of tests of an outcome, which stands for ``{}``.
    """
    own, imported = total.format("own"), total.format("imported")
    enough = f"coalesce(official, false) or ({imported} > 0 and {imported} <= {own})"
    return (
        f"case when imported is null then coalesce(own, latest) when own is not null and ({enough}) then own else imported end"
    )


def with_analyses(verdict: Verdict, others: Sequence[Verdict]) -> Verdict:
    """Return a verdict; copies analyses from the last analysed verdict if it has none."""
    analysed = next((other for other in reversed(others) if other.analyses), None)
    if verdict.analyses or analysed is None:
        return verdict
    about_code = tuple(finding for finding in analysed.findings if finding.kind not in OUTCOME_FINDINGS)
    return replace(verdict, analyses=analysed.analyses, findings=(*verdict.findings, *about_code))


def with_scores(chosen: Verdict | None, verdicts: Sequence[Verdict]) -> Verdict | None:
    """Return a verdict with the last score of each name. Without a verdict, return the last one that holds only a score, if any."""
    scores = {one.rule: one for verdict in verdicts for one in verdict.findings if one.kind == "score"}
    if not scores:
        return chosen
    chosen = chosen or next((verdict for verdict in reversed(verdicts) if verdict.is_score), None)
    others = (one for one in chosen.findings if one.kind != "score") if chosen else ()
    return chosen and replace(chosen, findings=(*others, *scores.values()))


def score_verdicts(attempt_id: str, scores: Mapping[str, float]) -> list[Verdict]:
    """Return one unscored verdict for each named score of an attempt; such a verdict is stored beside others and replaces none."""
    return [
        Verdict(attempt_id, Status.UNSCORED, judge=f"score:{name}", findings=(Finding("score", name, "", 1, value=value),))
        for name, value in scores.items()
    ]


STATUSES = ", ".join(f"'{status}'" for status in Status)
OUTCOMES = f"""
with by_judge as (
    select attempt_id, {OWN} as own, min(place) as first, max_by(coalesce(total, 0) * 16 + list_position([{STATUSES}], status), {RANK}) as outcome,
        max({RANK}) >> 62 as scored
    from verdicts where not {IS_SCORE} group by attempt_id, judge
), by_program as (
    select attempt_id, max_by(outcome, first) as latest, max_by(outcome, first) filter (own and scored > 0) as own,
        max_by(outcome, first) filter (not own and scored > 0) as imported
    from by_judge group by attempt_id
)
select attempt_id, task_id, [{STATUSES}][{choice("({} // 16)")} % 16] as status
from by_program join (select distinct attempt_id, task_id from attempts) using (attempt_id)
    left join (select task_id, bool_or(official) as official from tasks group by task_id) using (task_id)
"""  # noqa: S608  names of ours
"""A query for ``attempt_id``, ``task_id`` and the ``status`` of the verdict that ``preferred`` chooses, for each program with a verdict, over
views with a column ``place`` (``archive.database.connect``). An outcome is a number, 16 times the number of tests and that of its status,
because DuckDB keeps texts and structs in memory while it aggregates them."""


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
"""All outcomes of a recorded judge count, because each may belong to another submission; of upsolve's judges the last one counts. A program that
upsolve passes on fewer tests than the recorded judge that fails it does not count as a contradiction."""


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


SCORES = """
create view scores as select attempt_id, finding.rule as name, max_by(finding.value, place) as value
from (select attempt_id, place, unnest(findings) as finding from {verdicts})
where finding.kind = 'score' and finding.value is not null group by attempt_id, finding.rule
"""


def register_scores(connection: Any, parts: Mapping[str, Sequence[Path]]) -> None:
    """Add a view ``scores`` to a connection: ``attempt_id``, ``name`` and ``value`` of the last score of each name."""
    register_parts(connection, "scored_verdicts", parts["verdicts"], table="verdicts", places=True)
    connection.execute(SCORES.format(verdicts="scored_verdicts"))
