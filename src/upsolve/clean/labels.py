"""Labels that cannot be trusted: equal programs with different outcomes, and flaky verdicts."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from upsolve.archive.preference import OWN, is_recorded
from upsolve.clean.check import Check, Fault
from upsolve.clean.code import normalise
from upsolve.clean.contents import Contents

__all__ = ["CONTRADICTIONS", "FLAKY"]

JUDGED = f"""
select attempt_id, any_value(task_id), list(distinct place order by place), judge, bool_or(passed), bool_and(passed), max(total)
from (
    select attempt_id, judge, status = 'passed' as passed, total,
        not {OWN} or row_number() over (partition by attempt_id, judge order by verdicts.place desc) = 1 as counts
    from verdicts where status <> 'unscored'
) join (select attempt_id, task_id, place from attempts) using (attempt_id)
where counts group by attempt_id, judge order by attempt_id, judge
"""  # noqa: S608  a condition of ours
"""Outcomes of each program by judge: of recorded judges all, because each may be of another submission; of upsolve's the last one."""
BARE = r"""regexp_replace(case
    when language in ('python', 'bash', 'perl', 'r', 'ruby') then regexp_replace(code, '#[^\n]*', '', 'g')
    when language in ('sql', 'duckdb', 'lua') then regexp_replace(code, '--[^\n]*', '', 'g')
    else regexp_replace(code, '//[^\n]*|/\*(.|\n)*?\*/', '', 'g') end, '\s+', '', 'g')"""
"""Code without white space and, roughly, without comments: a key to find candidates, which ``normalise`` compares."""
ALIKE = f"""
with programs as (
    select task_id, if(language in ('', 'python3', 'py'), 'python', language) as language, {BARE} as bare,
        attempt_id, any_value(code) as code, list(place) as places, any_value(passed) as passed
    from attempts join labels using (attempt_id) group by all
), mixed as (
    select task_id, language, bare from programs group by all having bool_or(passed) and not bool_and(passed)
)
select task_id, language, code, attempt_id, places, passed from programs join mixed using (task_id, language, bare)
order by task_id, language, bare, places[1]
"""  # noqa: S608
"""Programs of which another one has the same text without comments and white space and the other outcome."""
REPEATS = f"""
select attempt_id, place, min(judge) from attempts join (
    select attempt_id, judge from verdicts where list_contains([finding.kind for finding in findings], 'flaky')
    union select attempt_id, judge from verdicts where status <> 'unscored' and {OWN}
    group by attempt_id, judge having bool_or(status = 'passed') and not bool_and(status = 'passed')
) using (attempt_id) group by all order by place
"""  # noqa: S608  a condition of ours


def find_contradictions(contents: Contents, options: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield attempts whose program passed and failed, also as a program that differs only in white space and comments."""
    del options
    seen = set[str]()
    official = {task_id for task_id, task in contents.stored_tasks.items() if task.official}
    for attempt_id, rows in groupby(contents.rows(JUDGED), key=itemgetter(0)):
        judged = [*rows]
        if kind := contradiction(judged, official=judged[0][1] in official):
            seen.add(attempt_id)
            reason = "passed and failed by " + " and ".join(dict.fromkeys(row[3] or "a judge without a name" for row in judged))
            yield from (Fault("attempts", place, attempt_id, reason, kind) for place in judged[0][2])
    yield from (fault for fault in find_alike(contents) if fault.record not in seen)


def contradiction(judged: list[tuple[Any, ...]], *, official: bool) -> str:
    """Return the kind of contradiction between the verdicts on one program, "" if there is none.

    Upsolve may pass on fewer tests what a recorded judge fails (``archive.preference``): this is no contradiction.
    """
    if any(some and not every for *_, some, every, _ in judged):
        return "equal code, one judge"
    passes = [row for row in judged if row[4]]
    failures = [row for row in judged if not row[4]]
    strict = any(
        official or not is_recorded(failed[3]) or is_recorded(passed[3]) or 0 < failed[6] <= passed[6]
        for passed in passes
        for failed in failures
    )
    return "equal code, two judges" if strict else ""


def find_alike(contents: Contents) -> Iterator[Fault]:
    """Yield programs that differ only in white space and comments from one with the other outcome."""
    for (task_id, language), rows in groupby(contents.rows(ALIKE), key=itemgetter(0, 1)):
        groups = defaultdict[str, list[tuple[Any, ...]]](list)
        for row in rows:
            groups[normalise(row[2], language)].append(row)
        for group in groups.values():
            if len({row[5] for row in group}) < 2:
                continue
            for row in group:
                other = next(twin[3] for twin in group if twin[5] != row[5])
                outcomes = "passed, {} failed" if row[5] else "failed, {} passed"
                reason = f"{outcomes.format(other)}; at {task_id} they differ only in white space and comments"
                kind = "equal but for white space and comments"
                yield from (Fault("attempts", place, row[3], reason, kind) for place in row[4])


def find_flaky(contents: Contents, options: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield attempts with a finding ``flaky``, or that one judge of upsolve both passed and failed."""
    del options
    for attempt_id, place, judge in contents.rows(REPEATS):
        reason = f"outcomes of {judge} differ when it is judged again"
        yield Fault("attempts", place, attempt_id, reason, "flaky verdicts")


CONTRADICTIONS = Check(
    find_contradictions,
    "equal programs that passed and failed, also equal but for white space and comments",
    "the same tokens are rewarded and punished; the reward is noise",
)
FLAKY = Check(
    find_flaky,
    "attempts whose outcome differs when they are judged again",
    "rewards depend on chance",
)
