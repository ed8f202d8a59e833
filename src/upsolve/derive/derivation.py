"""Derivations as records; and their input, a task with its attempts (``docs/deriving.md``)."""

import ast
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import Any, TypeVar

from upsolve.archive.split import DERIVED_FROM, origin_of
from upsolve.importers.source import Option
from upsolve.languages import PYTHON
from upsolve.languages.names import is_query_language, same_language
from upsolve.policy.prompt import FAILURES, completion_text, opening
from upsolve.types import Attempt, Group, Status, Task, TestCase, TestKind, Verdict, is_scored

__all__ = ["JUDGE", "TEXT", "Derivation", "Origin", "fenced", "judged_as", "literal_arguments", "most"]

JUDGE = "recorded:derive"
"""Judge of verdicts that follow from the verdicts on the original task."""
TEXT = "text"
"""Language of answers that are not programs."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Derivation:
    """A way to make tasks from the attempts at a task."""

    rows: Callable[..., Iterable[Group]]
    """``rows(origin, **options)`` yields derived tasks, each with answers; the judge fills in a verdict of None."""
    help: str
    """Description in one line."""
    options: tuple[Option, ...] = ()
    """Keyword arguments of ``rows``; each has a default there."""


def most(number: int, what: str) -> Option:
    """Return the option ``most``: the largest number of tasks derived from one task."""
    return Option("most", int, f"most {what} of one task (default: {number})")


@dataclass(frozen=True)
class Origin:
    """A task with its judged attempts, from which tasks are derived."""

    group: Group
    """The task and its attempts."""
    kind: str
    """Name of the derivation."""
    random: Random
    """Random number generator, seeded by the seed, the kind and the task."""
    left_out: Counter[str]
    """Reason -> number of tasks, or of attempts, from which nothing was derived."""

    @property
    def task(self) -> Task:
        """The task."""
        return self.group.task

    @cached_property
    def judged(self) -> dict[Attempt, Verdict]:
        """Distinct programs in a language of the task, each with its scored verdict, in stored order."""
        first: dict[str, tuple[Attempt, Verdict]] = {}
        for attempt, verdict in zip(self.group.attempts, self.group.verdicts, strict=True):
            fits = same_language(self.task.language or attempt.language, attempt.language)
            if fits and is_scored(verdict) and attempt.code.strip():
                first.setdefault(attempt.attempt_id, (attempt, verdict))
        return dict(first.values())

    @property
    def passed(self) -> list[Attempt]:
        """Distinct programs that passed."""
        return [attempt for attempt, verdict in self.judged.items() if verdict.status is Status.PASSED]

    @property
    def failed(self) -> list[Attempt]:
        """Distinct programs that failed."""
        return [attempt for attempt, verdict in self.judged.items() if verdict.status in FAILURES]

    @property
    def is_query(self) -> bool:
        """True if attempts are queries."""
        return is_query_language(self.task.language)

    @property
    def is_python(self) -> bool:
        """True if all attempts are Python programs whose tests another Python program can run."""
        return self.task.language in PYTHON and not self.task.requires and self.task.compare != "checker"

    def leave(self, reason: str, count: int = 1) -> None:
        """Count a reason for which nothing was derived."""
        if count:
            self.left_out[reason] += count

    def chosen(self, items: Sequence[T], count: int) -> list[T]:
        """Return at most ``count`` of the items, chosen by the seed, in their order."""
        return [items[place] for place in sorted(self.random.sample(range(len(items)), min(count, len(items))))]

    def derived(self, key: str, prompt: str, **fields: Any) -> Task:
        """Return a task derived from this one; ``key`` distinguishes it from others of its kind. Fields that are not given are copied from the origin."""
        extra = {**json.loads(self.task.extra or "{}"), DERIVED_FROM: origin_of(self.task), "derivation": self.kind}
        name = f"{self.task.task_id}#{self.kind}-{key}"
        return replace(self.task, task_id=name, prompt=prompt, extra=json.dumps(extra), **fields)

    def asked(self, key: str, prompt: str, test: TestCase, **fields: Any) -> Task:
        """Return a derived task whose answer is a text; the test compares it, or a checker decides."""
        plain = {"entry_point": "", "reference": "", "setup": "", "compare": "lines", "official": True}
        return self.derived(key, prompt, **{**plain, "tests": (test,), "language": TEXT, "requires": (), **fields})


def judged_as(task: Task, answers: Iterable[tuple[Attempt | str, Verdict | Status | None]]) -> Group:
    """Return the group of a derived task.

    Args:
        task: the task.
        answers: attempts at the origin, or texts, each with its verdict on these tests, a known outcome, or None; equal answers count once.
    """
    attempts: dict[str, Attempt] = {}
    verdicts: dict[str, Verdict | None] = {}
    for answer, known in answers:
        one = Attempt(task.task_id, answer, task.language) if isinstance(answer, str) else answer
        own = Attempt(
            task.task_id, one.code, one.language, one.author, one.created
        )  # its log-probabilities are of another prompt
        attempts.setdefault(own.attempt_id, own)
        verdicts.setdefault(own.attempt_id, verdict_on(own, known))
    return Group(task, tuple(attempts.values()), tuple(verdicts.values()))


def verdict_on(attempt: Attempt, known: Verdict | Status | None) -> Verdict | None:
    """Return a known verdict, or a known outcome of the only test, as the verdict on an attempt."""
    if isinstance(known, Status):
        return Verdict(attempt.attempt_id, known, int(known is Status.PASSED), 1, (known,), JUDGE)
    return replace(known, attempt_id=attempt.attempt_id) if known else None


def fenced(task: Task, code: str) -> str:
    """Return a program in a code fence."""
    return opening(task) + completion_text(code)


def literal_arguments(task: Task) -> Iterator[tuple[int, TestCase]]:
    """Yield the tests that call the entry point with literals in order and expect a literal, with their indices."""
    for place, test in enumerate(task.tests):
        try:
            match ast.parse(test.input.strip(), mode="eval").body if test.kind is TestKind.CALL else None:
                case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name == task.entry_point:
                    for part in (*args, ast.parse(test.expected.strip(), mode="eval").body):
                        ast.literal_eval(part)
                    yield place, test
                case _:
                    pass
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
