"""Simulations: run a program in all worlds of a task in one job, then check the traces of its actions.

The attempt's process holds stubs that send an action and wait for its answer. The tester's process holds the worlds. Neither process holds the
checks: a small temporal logic over the actions in a world, written as plain nested data:

    event    {go_to: [kitchen]}                        a successful action, one pattern per argument; ~ for any arguments
             {ask: [Ann, ~, ~], gives: tea}            with this answer
             {go_to: ~, raises: DoorError}             an action that failed with this exception
             {say: [hello], when: {location: hall}}    with this state right after it
    check    {exists: event}                           the event happens
             {never: event}                            the event does not happen
             {count: [event, 2]}, {count: [event, [1, 3]]}    number of events: exact, or minimum and maximum
             {before: [a, b]}                          b happens, and a happens before the first b
             {after: [a, b]}                           a happens, and b happens after the last a
             {terminal: {location: hall}}              the final state matches
             {and: [...]}, {or: [...]}, {not: check}
    pattern  a value | ~ (any) | [pattern, ...] | {has: word or words} (a string that contains them, case-insensitive)
             | {one_of: [pattern, ...]} | {key: pattern, ...} (a mapping with at least these keys)

Parsing a check returns a predicate on a ``Trace``; malformed data raises ValueError with the path of the invalid part.
"""

import json
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from upsolve.errors import JudgeError
from upsolve.types import Attempt, Task, TestKind, Verdict
from upsolve.verify.judge.domains import ENTRY_POINT, Domain, domain_of
from upsolve.verify.judge.outcomes import function_outcomes, verdict
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.sandbox.process import Job
from upsolve.verify.sandbox.runner import Exit, run_jobs

__all__ = ["Check", "Step", "Trace", "all_checks", "parse_check", "parsed", "play", "run_simulation", "simulates"]


@dataclass(frozen=True, slots=True)
class Step:
    """An action of the program."""

    action: str
    """Name of the action."""
    args: list[Any]
    """Arguments, plain data."""
    answer: Any
    """Return value, plain data; None if the action failed."""
    failure: str
    """Name of the exception that it raised; empty if none."""
    state: Mapping[str, Any]
    """State of the world right after the action."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The run of a program in one world."""

    steps: tuple[Step, ...]
    """Actions in order of execution."""
    final: Mapping[str, Any]
    """State of the world at the end."""


Check = Callable[[Trace], bool]
Event = Callable[[Step], bool]
Pattern = Callable[[Any], bool]


def all_checks(data: Any, domain: Domain) -> Check:
    """Return the conjunction of a list of checks; raise ValueError if the data is not a list of valid checks."""
    if not isinstance(data, list) or not data:
        raise ValueError(f"checks must be a list of at least one check, got {shown(data)}")
    checks = some_checks(data, domain)
    return lambda trace: all(check(trace) for check in checks)


def parse_check(data: Any, domain: Domain) -> Check:
    """Parse a check into a predicate; raise ValueError with the path of the invalid part."""
    if not isinstance(data, dict) or len(data) != 1:
        raise ValueError(f"a check is a mapping with one key, one of {', '.join(CHECKS)}; got {shown(data)}")
    ((name, body),) = data.items()
    if name not in CHECKS:
        raise ValueError(f"unknown check {name!r}; known: {', '.join(CHECKS)}")
    parse, holds = CHECKS[name]
    try:
        parts = parse(body, domain)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return lambda trace: holds(trace, parts)


def counted(data: Any, domain: Domain) -> tuple[Event, int, int]:
    """Parse an event and its number; return the event, the smallest and the largest number."""
    event_data, number = pair_of(data)
    event, (low, high) = parse_event(event_data, domain), number if isinstance(number, list) else (number, number)
    if type(low) is not int or type(high) is not int or not 0 <= low <= high:
        raise ValueError(f"a count must be an integer >= 0, or [low, high] with 0 <= low <= high; got {shown(number)}")
    return event, low, high


def two_events(data: Any, domain: Domain) -> list[Event]:
    """Parse a list of two events."""
    return [parse_event(event, domain) for event in pair_of(data)]


def is_before(trace: Trace, events: Sequence[Event]) -> bool:
    """Return whether the second event happens, and the first event happens before its first occurrence."""
    index = next((index for index, step in enumerate(trace.steps) if events[1](step)), 0)
    return any(map(events[0], trace.steps[:index]))


def is_after(trace: Trace, events: Sequence[Event]) -> bool:
    """Return whether the first event happens, and the second event happens after its last occurrence."""
    indices = [index for index, step in enumerate(trace.steps) if events[0](step)]
    return bool(indices) and any(map(events[1], trace.steps[indices[-1] + 1 :]))


def some_checks(data: Any, domain: Domain) -> list[Check]:
    """Parse a non-empty list of checks."""
    if not isinstance(data, list) or not data:
        raise ValueError(f"needs a list of at least one check; got {shown(data)}")
    checks: list[Check] = []
    for number, item in enumerate(data, start=1):
        try:
            checks.append(parse_check(item, domain))
        except ValueError as error:
            raise ValueError(f"{number}: {error}") from None
    return checks


def pair_of(data: Any) -> tuple[Any, Any]:
    """Return both items of a list; ValueError if the list does not have exactly two."""
    if not isinstance(data, list) or len(data) != 2:
        raise ValueError(f"needs a list of two items; got {shown(data)}")
    return data[0], data[1]


def parse_event(data: Any, domain: Domain) -> Event:
    """Parse an event into a predicate on a step."""
    actions = domain.arities
    names = [name for name in data if name in actions] if isinstance(data, dict) else []
    if len(names) != 1 or data.keys() - {*names, "gives", "raises", "when"}:
        raise ValueError(
            f"an event names one action, one of {', '.join(actions)}, and may have gives, raises and when; got {shown(data)}"
        )
    (name,) = names
    args = data[name]
    if args is not None and (not isinstance(args, list) or len(args) != actions[name]):
        raise ValueError(
            f"{name} takes {actions[name]} arguments: give a list with one pattern for each, or ~ for any; got {shown(args)}"
        )
    matches, gives = parse_pattern(args), parse_pattern(data.get("gives"))
    failure, state = data.get("raises", ""), parse_state(data.get("when", {}))
    if failure not in ("", *domain.failures):
        raise ValueError(f"raises must be one of {', '.join(domain.failures)}; got {shown(failure)}")

    def event(step: Step) -> bool:
        same = step.action == name and step.failure == failure
        return same and matches(step.args) and gives(step.answer) and state(step.state)

    return event


def parse_state(data: Any) -> Pattern:
    """Parse the pattern of a state into a predicate."""
    if not isinstance(data, dict):
        raise ValueError(f"a state must be a mapping such as {{location: hall}}; got {shown(data)}")
    return parse_pattern(data)


def parse_pattern(data: Any) -> Pattern:
    """Parse a pattern into a predicate on a value."""
    if data is None:
        return lambda _value: True
    if isinstance(data, list):
        items = [parse_pattern(item) for item in data]
        return lambda value: (
            isinstance(value, list) and len(value) == len(items) and all(item(v) for item, v in zip(items, value, strict=True))
        )
    if not isinstance(data, dict):
        return lambda value: type(value) is type(data) and value == data
    if data.keys() == {"has"}:
        words = [data["has"]] if isinstance(data["has"], str) else data["has"]
        if not isinstance(words, list) or not words or not all(isinstance(word, str) and word for word in words):
            raise ValueError(f"has: needs a word or a list of at least one word; got {shown(words)}")
        return lambda value: isinstance(value, str) and all(word.casefold() in value.casefold() for word in words)
    if data.keys() == {"one_of"}:
        if not isinstance(data["one_of"], list):
            raise ValueError(f"one_of: needs a list of patterns; got {shown(data['one_of'])}")
        choices = [parse_pattern(item) for item in data["one_of"]]
        return lambda value: any(choice(value) for choice in choices)
    parts = {key: parse_pattern(item) for key, item in data.items()}
    return lambda value: isinstance(value, dict) and all(key in value and part(value[key]) for key, part in parts.items())


CHECKS: Mapping[str, tuple[Callable[[Any, Domain], Any], Callable[[Trace, Any], bool]]] = {
    "exists": (parse_event, lambda trace, event: any(map(event, trace.steps))),
    "never": (parse_event, lambda trace, event: not any(map(event, trace.steps))),
    "count": (counted, lambda trace, parts: parts[1] <= sum(map(parts[0], trace.steps)) <= parts[2]),
    "before": (two_events, is_before),
    "after": (two_events, is_after),
    "terminal": (lambda data, _: parse_state(data), lambda trace, state: state(trace.final)),
    "and": (some_checks, lambda trace, checks: all(check(trace) for check in checks)),
    "or": (some_checks, lambda trace, checks: any(check(trace) for check in checks)),
    "not": (parse_check, lambda trace, check: not check(trace)),
}
"""Name of a check -> parser of its body, and whether a trace fulfils the check."""


def shown(data: Any) -> str:
    """Return the repr of some data for a message, at most 80 characters."""
    return repr(data)[:80]


def simulates(task: Task) -> bool:
    """Return whether a task's tests are simulations; raise ValueError if only some are."""
    kinds = {test.kind for test in task.tests}
    if TestKind.SIMULATION in kinds and len(kinds) > 1:
        raise ValueError("a task has either worlds or other tests, not both")
    return TestKind.SIMULATION in kinds


@lru_cache(maxsize=16)  # small, since tasks can be large and attempts at the same task arrive together
def parsed(task: Task) -> tuple[list[Any], list[Check]]:
    """Return the worlds and the checks of a task; raise ValueError if they are invalid."""
    domain, worlds, checks = domain_of(task.setup), list[Any](), list[Check]()
    for number, test in enumerate(task.tests, start=1):
        try:
            worlds.append(json.loads(test.input))
            checks.append(all_checks(json.loads(test.expected), domain))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"world {number}: {error}") from None
    return worlds, checks


def simulation_job(task: Task, attempt: Attempt, settings: JudgeSettings) -> Job:
    """Return the job that runs a program in all worlds of a task."""
    domain, each = domain_of(task.setup), settings.limits.test_seconds
    common = {"lines": settings.lines, "test_seconds": 0 if math.isinf(each) else each}
    program = {"kind": "worlds", "code": attempt.code, "setup": domain.stubs(), "call": f"{ENTRY_POINT}(_Actions())", **common}
    tester = {"worlds": parsed(task)[0], "domain": domain.code, "actions": domain.types, **common}
    return Job(program, tester, settings.limits.wall_seconds)


def run_simulation(task: Task, attempt: Attempt, settings: JudgeSettings) -> Generator[Job, Exit, Verdict]:
    """Judge a program in worlds: outcome ``RUNTIME_ERROR`` if the program did not finish, ``FAILED`` if a check does not hold.

    Raises:
        JudgeError: the domain raised an unexpected exception.
    """
    end = yield simulation_job(task, attempt, settings)
    for record in end.records:
        if "world" in record:
            raise JudgeError(f"the world of task {task.task_id} failed: {': '.join(record['world'][:2])}")
    results = traces(task, end)
    reached = [trace is not None and check(trace) for check, trace in zip(parsed(task)[1], results, strict=True)]
    records = tuple({**record, "reached": reached[record["test"]]} if "final" in record else record for record in end.records)
    points = {record["test"]: points_of(task, record) for record in records if "points" in record and not record["reached"]}
    outcomes = function_outcomes(task, end, "", records)
    return verdict(task, attempt, outcomes, ends=[end], label="simulation", points=points)


def points_of(task: Task, record: Mapping[str, Any]) -> float:
    """Return the share of points that a world gives; JudgeError if ``points()`` returns no number in [0, 1]."""
    share = record["points"]
    if isinstance(share, int | float) and 0 <= share <= 1:
        return float(share)
    raise JudgeError(
        f"the world of task {task.task_id} failed: points() must return a number from 0 to 1; it gave {shown(share)}"
    )


def traces(task: Task, end: Exit) -> list[Trace | None]:
    """Return the trace of every world; None for a world in which the program did not finish."""
    ended = {record["test"]: record for record in end.records if "final" in record}
    return [
        Trace(tuple(Step(*step) for step in ended[index]["steps"]), ended[index]["final"]) if index in ended else None
        for index in range(len(task.tests))
    ]


def play(task: Task, code: str, settings: JudgeSettings) -> Sequence[Trace | None]:
    """Run a program in the worlds of a task and return the traces, without a verdict.

    Returns:
        One trace per world; None if the program did not finish in it.

    Raises:
        ValueError: a world or a check is invalid.
        IsolationError: a required layer is missing.
        JudgeError: the sandbox broke.
    """
    return traces(task, run_jobs([simulation_job(task, Attempt(task.task_id, code), settings)], settings)[0])
