"""Labels that cannot be trusted: equal programs with different outcomes, and flaky verdicts."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from upsolve.archive.preference import OWN, select_contradictions
from upsolve.clean.check import Check, Contents, Fault
from upsolve.clean.code import normalise

__all__ = ["CONTRADICTIONS", "FLAKY"]

EQUAL = f"""
select attempt_id, place, kind, judges from ({select_contradictions()}) join (select attempt_id, place from attempts) using (attempt_id)
order by attempt_id, place
"""  # noqa: S608  a query of ours
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
"""Programs with the same text without comments and white space as a program with the opposite outcome."""
REPEATS = f"""
select attempt_id, place, min(judge) from attempts join (
    select attempt_id, judge from verdicts where list_contains([finding.kind for finding in findings], 'flaky')
    union select attempt_id, judge from verdicts where status <> 'unscored' and {OWN}
    group by attempt_id, judge having bool_or(status = 'passed') and not bool_and(status = 'passed')
) using (attempt_id) group by all order by place
"""  # noqa: S608  a condition of ours


def find_contradictions(contents: Contents, _options: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield attempts whose program passed and failed, also as a program that differs only in white space and comments."""
    seen = set[str]()
    for attempt_id, place, kind, judges in contents.rows(EQUAL):
        seen.add(attempt_id)
        reason = "passed and failed by " + " and ".join(judge or "a judge without a name" for judge in judges)
        yield Fault("attempts", place, attempt_id, reason, kind)
    yield from (fault for fault in find_alike(contents) if fault.record not in seen)


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
                other = next(equal[3] for equal in group if equal[5] != row[5])
                outcomes = "passed, {} failed" if row[5] else "failed, {} passed"
                reason = f"{outcomes.format(other)}; at {task_id} they differ only in white space and comments"
                kind = "equal but for white space and comments"
                yield from (Fault("attempts", place, row[3], reason, kind) for place in row[4])


def find_flaky(contents: Contents, _options: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield attempts with a finding ``flaky``, or that one judge of upsolve both passed and failed."""
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
