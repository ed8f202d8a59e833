"""Derivations whose answers are programs."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from upsolve.config.select import edit_distance
from upsolve.derive.derivation import Derivation, Origin, fenced, judged_as, most
from upsolve.policy.prompt import FAILURES, OUTCOMES, feedback
from upsolve.types import Attempt, Group, Status, Task, Verdict

__all__ = ["REPAIR", "nearest", "token_distance", "visible_feedback"]

TOKEN = re.compile(r"\w+|[^\w\s]|\n[ \t]*")
"""A name, number or mark, or the end of a line with the indentation of the next."""
LONGEST = 2000
"""Tokens of a program that are compared."""


def repairs(origin: Origin, most: int = 4) -> Iterator[Group]:
    """Yield tasks to correct a failed program; the answers are its corrections, else the nearest passed program."""
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
    """Return the feedback of a failed attempt's verdict, as if only visible tests had been run; nothing of a hidden test."""
    if verdict.status is Status.COMPILE_ERROR:
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
    """Return the attempt with the smallest ``token_distance``; the first of equals."""
    return min(others, key=lambda one: token_distance(attempt.code, one.code))


def token_distance(code: str, other: str) -> int:
    """Return the Levenshtein distance in tokens: names, numbers, marks and indented line ends; of the first ``LONGEST`` tokens."""
    words = [TOKEN.findall(text.strip())[:LONGEST] for text in (code, other)]
    letters = {word: chr(number) for number, word in enumerate(dict.fromkeys(words[0] + words[1]), 1)}
    first, second = ("".join(map(letters.__getitem__, each)) for each in words)
    return edit_distance(first, second) or 0


REPAIR = Derivation(repairs, "correct a failed program by the feedback of its visible tests", (most(4, "failed programs"),))
