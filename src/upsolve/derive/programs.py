"""Derivations whose answers are programs."""

import ast
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from upsolve.derive.derivation import Derivation, Origin, fenced, judged_as, literal_arguments, most
from upsolve.errors import ConfigError
from upsolve.importers.source import Option
from upsolve.languages import PYTHON
from upsolve.languages.names import is_language, language_in, no_language
from upsolve.policy.prompt import FAILURES, OUTCOMES, feedback, starting_points
from upsolve.reward.code import token_distance
from upsolve.solve.databases import schema_in
from upsolve.types import Attempt, Group, Status, Task, TestCase, TestKind, Verdict
from upsolve.verify.limits import JudgeSettings

__all__ = ["COMPLETE", "FASTER", "REPAIR", "TRANSLATE", "line_of", "nearest", "visible_feedback"]

NOISE = 0.05
"""Shortest processor time of a slow program, seconds."""
OF_SCHEMA = ("NoSuchColumn", "NoSuchTable", "NoSuchFunction", "AmbiguousColumn", "Misuse", "WrongArguments")
"""Errors of a query that depend only on the schema, before any row is read."""


def repairs(origin: Origin, most: int = 4) -> Iterator[Group]:
    """Yield tasks that ask to correct a failed program; the answers are its corrections, else the nearest passed program."""
    failed, passed = origin.failed, origin.passed
    if not failed or not passed:
        origin.leave("no attempt failed" if not failed else "no attempt passed")
        return
    corrected = {one.parent_id for one in passed}
    first = [one for one in failed if one.attempt_id in corrected]
    rest = [one for one in failed if one.attempt_id not in corrected]
    chosen = origin.chosen(first, most)
    for attempt in (*chosen, *origin.chosen(rest, most - len(chosen))):
        children = [one for one in origin.judged if one.parent_id == attempt.attempt_id]
        if not any(origin.judged[one].status is Status.PASSED for one in children):
            children = [nearest(attempt, passed), *children]
        children.sort(key=lambda one: origin.judged[one].status is not Status.PASSED)
        asked = replace(origin.task, language=origin.task.language or attempt.language)
        said = visible_feedback(asked, origin.judged[attempt])
        prompt = f"{asked.prompt.strip()}\n\nThis program is wrong:\n{fenced(asked, attempt.code)}\n{said}"
        task = origin.derived(attempt.attempt_id[:8], prompt, reference=children[0].code, language=asked.language)
        yield judged_as(task, [(one, origin.judged[one]) for one in (*children, attempt)])


def visible_feedback(task: Task, verdict: Verdict) -> str:
    """Return the feedback of a failed attempt's verdict as if only visible tests had been run; nothing about hidden tests."""
    is_of_schema = verdict.error_type in OF_SCHEMA and schema_in(f"{task.setup}\n{task.prompt}")
    if verdict.status is Status.COMPILE_ERROR or is_of_schema:
        return feedback(replace(verdict, passed=0, total=0, outcomes=()))
    shown = [place for place, test in enumerate(task.tests) if not test.hidden]
    if not shown or len(verdict.outcomes) != len(task.tests):
        return f"{OUTCOMES[verdict.status]}.\n\nWrite the whole program again, corrected."
    outcomes = tuple(verdict.outcomes[place] for place in shown)
    count = outcomes.count(Status.PASSED)
    first = next((one for one in outcomes if one in FAILURES), None)
    if first is None:
        return f"It passes {count} of {len(shown)} visible tests, and fails a hidden one.\n\nWrite the whole program again, corrected."
    seen = replace(verdict, outcomes=outcomes, passed=count, total=len(shown), status=first)
    ended = next(place for place, one in enumerate(verdict.outcomes) if one in FAILURES)
    if task.tests[ended].hidden:  # the stored error is that of a hidden test
        seen = replace(seen, error_type="", error_message="", error_line=None)
    return feedback(seen, task)


def nearest(attempt: Attempt, others: Sequence[Attempt]) -> Attempt:
    """Return the attempt with the smallest ``token_distance``; among equals the first."""
    return min(others, key=lambda one: token_distance(attempt.code, one.code))


def completions(origin: Origin, most: int = 1) -> Iterator[Group]:
    """Yield tasks that ask to complete the beginning of a passed program (StepCoder, 2402.01391); failed programs with that beginning are answers, too."""
    if not origin.passed:
        origin.leave("no attempt passed")
    for attempt in origin.chosen(origin.passed, most):
        begun = starting_points(attempt.code)
        if not begun:
            origin.leave("the program has one line")
            continue
        beginning = origin.random.choice(begun)
        asked = replace(origin.task, language=origin.task.language or attempt.language)
        unit = "lines" if "\n" in attempt.code.rstrip() else "words"
        prompt = f"{asked.prompt.strip()}\n\nThe solution begins with these {unit}:\n{fenced(asked, beginning)}"
        task = origin.derived(attempt.attempt_id[:8], prompt, reference=attempt.code, language=asked.language)
        wrong = [one for one in origin.failed if one.code.startswith(beginning) and one.language == attempt.language]
        yield judged_as(task, [(one, origin.judged[one]) for one in (attempt, *wrong)])


def speedups(origin: Origin, most: int = 1, ratio: float = 3.0) -> Iterator[Group]:
    """Yield tasks that ask for a faster program than a slow passed one; the limit is the geometric mean of the processor times of slow and fast.

    A pair is left out if the slow program takes less than ``NOISE`` seconds or less than ``ratio`` times as long as the fast one.
    """
    has_cost = any(origin.judged[one].has_cost for one in origin.passed)  # costs are compared with costs alone
    verdicts = ((origin.judged[one], one) for one in origin.passed)
    timed = [(verdict.cpu_seconds, one) for verdict, one in verdicts if verdict.cpu_seconds and verdict.has_cost == has_cost]
    fastest = min(timed, key=lambda each: each[0], default=None)
    slow = [
        each
        for each in timed
        if fastest and each[0] >= max(NOISE, ratio * fastest[0]) and each[1].language == fastest[1].language
    ]
    if fastest is None or not slow:
        origin.leave(
            "no processor times are stored"
            if fastest is None
            else f"no passed program takes {NOISE:g} s, and {ratio:g} times as long as the fastest"
        )
        return
    for seconds, attempt in origin.chosen(slow, most):
        asked = replace(origin.task, language=origin.task.language or attempt.language)
        between = math.sqrt(seconds * fastest[0])
        limit = between / len(asked.tests) / JudgeSettings().task_limits  # by which the judge multiplies it
        text = f"This program is right and slow. Write one that takes at most {between / seconds:.0%} of its time."
        prompt = f"{asked.prompt.strip()}\n\n{text}\n{fenced(asked, attempt.code)}"
        fields = {"reference": fastest[1].code, "language": asked.language, "limit_seconds": limit}
        yield judged_as(origin.derived(attempt.attempt_id[:8], prompt, **fields), [(fastest[1], None), (attempt, None)])


def translations(origin: Origin, to: str = "cpp") -> Iterator[Group]:
    """Yield a task to translate a passed Python program; its tests become standard input and output of the other language."""
    if not is_language(to):
        raise ConfigError(no_language("derivation translate, option to", to))
    right = [one for one in origin.passed if one.language in PYTHON]
    tests = [one for test in origin.task.tests if (one := as_lines(origin.task, test))]
    if not right or not tests or len(tests) < len(origin.task.tests) or origin.task.requires:
        origin.leave(
            "no attempt in Python passed" if not right else "tests cannot be written as lines of text, or packages are required"
        )
        return
    (attempt,) = origin.chosen(right, 1)
    calls = any(test.kind is TestKind.CALL for test in origin.task.tests)
    form = f"Read the arguments of `{origin.task.entry_point}`, one a line, the items of a list between spaces. Write its value in the same form."
    prompt = f"Translate this Python program to {to}.{' ' + form if calls else ''}\n{fenced(origin.task, attempt.code)}"
    plain = {"language": language_in(to), "entry_point": "", "setup": "", "reference": "", "limit_seconds": None}
    compare = "floats" if calls and any("." in test.expected for test in tests) else "tokens" if calls else origin.task.compare
    task = origin.derived(language_in(to), prompt, tests=tuple(tests), compare=compare, **plain)
    others = [one for one in origin.judged if one.language == task.language and not calls]
    others.sort(key=lambda one: origin.judged[one].status is not Status.PASSED)
    yield judged_as(task, [(one, origin.judged[one]) for one in others])


def as_lines(task: Task, test: TestCase) -> TestCase | None:
    """Return a test as standard input and output: one argument a line, items of lists between spaces; None if that is impossible."""
    if test.kind is TestKind.STDIO:
        return test
    if not [*literal_arguments(replace(task, tests=(test,)))]:
        return None
    call = ast.parse(test.input.strip(), mode="eval").body
    arguments = [line_of(ast.literal_eval(part)) for part in (call.args if isinstance(call, ast.Call) else ())]
    value = line_of(ast.literal_eval(test.expected.strip()))
    if value is None or None in arguments:
        return None
    return replace(test, kind=TestKind.STDIO, input="".join(f"{line}\n" for line in arguments), expected=f"{value}\n")


def line_of(value: Any) -> str | None:
    """Return a number, a text without line end, or a flat list of numbers or words as a line; None for other values."""
    if type(value) in (int, float):
        return repr(value)
    if type(value) is str and value.isprintable():
        return value
    words = [line_of(item) if type(item) in (int, float, str) else None for item in value] if type(value) is list else [None]
    fits = all(word is not None and word and " " not in word for word in words)
    return " ".join(word or "" for word in words) if fits else None


REPAIR = Derivation(repairs, "correct a failed program by the feedback of its visible tests", (most(4, "failed programs"),))
COMPLETE = Derivation(completions, "complete the beginning of a right program", (most(1, "programs"),))
FASTER = Derivation(
    speedups,
    "write a faster program than one that is right and slow",
    (most(1, "slow programs"), Option("ratio", float, "least ratio of processor times, slow to fast (default: 3)")),
)
TRANSLATE = Derivation(
    translations, "translate a right Python program", (Option("to", str, "language of the answer (default: cpp)"),)
)
