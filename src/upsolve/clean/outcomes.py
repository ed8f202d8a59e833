"""Outcomes: labels that cannot be trusted, tasks without a training signal or with weak tests, tasks and authors with too many attempts, languages."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from upsolve.archive.info import missing_signal
from upsolve.archive.preference import OWN, select_contradictions
from upsolve.clean.check import Action, Check, Contents, Fault
from upsolve.files import cache_folder
from upsolve.suites.grade import grade_archive
from upsolve.suites.sanity import FOUND, check_sanity
from upsolve.verify.analysis.syntax import normalise
from upsolve.verify.limits import JudgeSettings

__all__ = ["BALANCE", "CONTRADICTIONS", "FLAKY", "LANGUAGES", "SANITY", "SIGNAL", "TESTS"]

EQUAL = f"""
select attempt_id, place, kind, judges from ({select_contradictions()}) join (select attempt_id, place from attempts) using (attempt_id)
order by attempt_id, place
"""  # noqa: S608  a query of ours
BARE = r"""regexp_replace(case
    when language in ('python', 'bash', 'perl', 'r', 'ruby') then regexp_replace(code, '#[^\n]*', '', 'g')
    when language in ('sql', 'duckdb', 'lua') then regexp_replace(code, '--[^\n]*', '', 'g')
    else regexp_replace(code, '//[^\n]*|/\*(.|\n)*?\*/', '', 'g') end, '\s+', '', 'g')"""
"""SQL expression of code without white space and, roughly, without comments. Equal values are candidates, which ``normalise`` compares."""
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
"""Query for programs that equal a program with the opposite outcome, apart from comments and white space."""
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
    """Yield programs that differ only in white space and comments from a program with the opposite outcome."""
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
    """Yield attempts with a finding ``flaky``, and attempts that one judge of upsolve both passed and failed."""
    for attempt_id, place, judge in contents.rows(REPEATS):
        reason = f"outcomes of {judge} differ when it is judged again"
        yield Fault("attempts", place, attempt_id, reason, "flaky verdicts")


CONTRADICTIONS = Check(
    find_contradictions,
    "programs that both passed and failed; white space and comments may differ",
    "the same tokens are rewarded and punished; the reward is noise",
)
FLAKY = Check(
    find_flaky,
    "attempts whose outcome differs when they are judged again",
    "rewards depend on chance",
)


MANY = 10
"""A task is crowded if its number of attempts exceeds this multiple of the median over tasks."""
OUTCOMES = """
select place, task_id, count(passed), count(*) filter (passed), count(attempts)
from tasks left join (select task_id, passed, 1 as attempts from attempts left join labels using (attempt_id)) using (task_id)
group by place, task_id order by place
"""
RANKED = """
with turns as (
    select *, row_number() over (partition by {by}, passed order by attempt_id, place) as turn
    from attempts left join labels using (attempt_id)
)
select place, attempt_id, {by}, passed, row_number() over (partition by {by} order by turn, passed, place) as rank from turns
"""
"""Query that numbers attempts within their task or author: alternating between outcomes, each in the order of the attempt ids, which are hashes."""
IN_LANGUAGES = """
with named as (
    select place, attempt_id, if(language in ('', 'python3', 'py'), 'python', language) as language from attempts
), counts as (select language, count(*) as attempts from named group by language order by attempts desc, language)
select place, attempt_id, language from named where language <> (select language from counts limit 1) order by place
"""


def find_silent(contents: Contents, _options: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield tasks whose attempts all have the same outcome."""
    for place, task_id, scored, passed, attempts in contents.rows(OUTCOMES):
        if reason := missing_signal(attempts, scored, passed):
            summary = f"{attempts:,} attempts, {scored:,} scored, {passed:,} passed"
            yield Fault("tasks", place, task_id, summary, f"tasks: {reason}", Action.REPORT)


def find_unbalanced(contents: Contents, options: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the attempts beyond the caps; without a cap, attempts of crowded tasks, and attempts of an author with more than half of all."""
    removed = set[int]()
    for fault in beyond(contents, "task_id", options["per_task"]):
        removed.add(fault.place)
        yield fault
    yield from (fault for fault in beyond(contents, "author", options["per_author"]) if fault.place not in removed)
    if not options["per_task"]:
        yield from crowded(contents)
    if not options["per_author"]:
        yield from prolific(contents)


def beyond(contents: Contents, by: str, cap: int) -> Iterator[Fault]:
    """Yield the attempts of a task or a known author beyond a cap; none for the cap 0."""
    what = {"task_id": "task", "author": "author"}[by]
    sql = f"select place, attempt_id, {by} from ({RANKED.format(by=by)}) where rank > {cap} and {by} <> '' order by place"  # noqa: S608
    for place, attempt_id, name in contents.rows(sql) if cap else ():
        yield Fault("attempts", place, attempt_id, f"{what} {name} has more than {cap}", f"attempts beyond {cap} of one {what}")


def crowded(contents: Contents) -> Iterator[Fault]:
    """Yield the attempts of tasks that have many times the median number of attempts."""
    counted = "select task_id, count(*) as attempts from attempts group by task_id"
    median = next(contents.rows(f"select median(attempts) from ({counted})"))[0] or 0  # noqa: S608
    sql = f"select place, attempt_id, task_id, attempts from attempts join ({counted}) using (task_id) where attempts > {MANY * median}"  # noqa: S608
    for place, attempt_id, task_id, attempts in contents.rows(f"{sql} order by place"):
        reason = f"{task_id} has {attempts:,} attempts, the median is {median:g}"
        yield Fault("attempts", place, attempt_id, reason, f"attempts at tasks with {MANY} times the median", Action.REPORT)


def prolific(contents: Contents) -> Iterator[Fault]:
    """Yield the attempts of an author with more than half of all attempts."""
    total = contents.count("attempts")
    counted = f"select author, count(*) as n from attempts where author <> '' group by author having 2 * n > {total}"  # noqa: S608
    for place, attempt_id, author, attempts in contents.rows(
        f"select place, attempt_id, author, n from attempts join ({counted}) using (author) order by place"  # noqa: S608
    ):
        reason = f"{author} wrote {attempts:,} of {total:,}"
        yield Fault("attempts", place, attempt_id, reason, "attempts by the author of most of them", Action.REPORT)


def find_languages(contents: Contents, _options: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the attempts in other languages than the most frequent one."""
    for place, attempt_id, language in contents.rows(IN_LANGUAGES):
        yield Fault("attempts", place, attempt_id, language, f"attempts in {language}", Action.REPORT)


SIGNAL = Check(
    find_silent,
    "tasks without both a passed and a failed attempt",
    "no advantage: they cost a judge's time, and only imitation learns from passed attempts",
)
BALANCE = Check(
    find_unbalanced,
    f"attempts at tasks with more than {MANY} times the median, and of the author of most; with `per_task`, `per_author`, those beyond caps",
    "few problems and one style get most of the steps",
    {"per_task": 0, "per_author": 0},
)
LANGUAGES = Check(
    find_languages,
    "attempts in other languages than the most frequent one",
    "each language gets its share of the steps",
)


def find_weak(contents: Contents, options: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield tasks whose visible tests pass a wrong attempt, and tasks with some tests that fail no attempt."""
    del options
    places = {task.task_id: place for place, task in contents.tasks()}
    for grade in grade_archive(contents.archive):
        place, counts = places.get(grade.task_id), grade.totals
        if place is None:
            continue
        if counts.visible_false:
            reason = (
                f"{counts.visible_false:,} of {counts.visible_passed:,} attempts that pass every visible test fail a hidden one"
            )
            yield Fault("tasks", place, grade.task_id, reason, "visible tests that pass wrong attempts", Action.REPORT)
        if grade.redundant and counts.failed:
            reason = f"{counts.redundant} of {counts.tests} tests, {len(grade.least)} suffice"
            yield Fault("tasks", place, grade.task_id, reason, "tests that fail no attempt", Action.REPORT)


TESTS = Check(
    find_weak,
    "tasks whose visible tests pass wrong attempts, and tasks with tests that fail no attempt",
    "wrong attempts are chosen or rewarded where visible tests decide (`upsolve tests grow`); judging takes longer (`upsolve tests shrink`)",
)


def find_insane(contents: Contents, options: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield tasks that an empty or a constant program passes, tasks whose reference fails, and tasks that could not be judged."""
    del options
    places = {task.task_id: place for place, task in contents.tasks()}
    cached = JudgeSettings(cache=cache_folder() / "verdicts.sqlite")
    checked = check_sanity(contents.archive, cached, progress=contents.progress)
    for program, (about, _) in FOUND.items():
        action = Action.REMOVE if program == "empty" else Action.REPORT
        for task_id in checked.found(program):
            if task_id in places:
                outcome = checked.rows[task_id][program]
                yield Fault("tasks", places[task_id], task_id, str(outcome), about, action)
    for task_id, reason in checked.reasons.items():
        if task_id in places:
            yield Fault("tasks", places[task_id], task_id, reason, "not checked", Action.REPORT)


SANITY = Check(
    find_insane,
    "tasks that an empty or a constant program passes, and tasks that their own reference fails",
    "every attempt is rewarded, or the right ones are not",
)
