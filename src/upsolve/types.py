"""The records that cross stage boundaries.

Legend: names hold axis and unit (``wall_seconds``, ``rewards_G``); ``line`` is 1-based; log-probabilities and entropies are in nats.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from hashlib import sha256
from html import escape
from operator import attrgetter
from typing import Any, TypeGuard, cast

__all__ = [
    "Attempt",
    "Finding",
    "Group",
    "OnProgress",
    "Status",
    "Task",
    "TestCase",
    "TestKind",
    "Turn",
    "Verdict",
    "content_id",
    "full_repr",
    "html_facts",
    "is_scored",
    "no_progress",
    "with_points",
    "with_tests",
]

OnProgress = Callable[[str, int, int], None]
"""Called as ``on_progress(stage, done, total)``: name of the stage, such as ``sample``; units done; units in all, 0 if unknown."""


def no_progress(_stage: str, _done: int, _total: int) -> None:
    """Report nothing."""


class Status(StrEnum):
    """Outcome of judging one attempt. ``UNSCORED`` is the judge's own fault and is never worth a reward, not even zero."""

    PASSED = "passed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    RUNTIME_ERROR = "runtime_error"
    COMPILE_ERROR = "compile_error"
    UNSCORED = "unscored"


class TestKind(StrEnum):
    """How an attempt is tested."""

    __test__ = False  # not a pytest class

    CALL = "call"
    """``input`` is a Python expression over the attempt's functions; another process compares its value with a literal."""
    STDIO = "stdio"
    """``input`` is fed to standard input; standard output is compared."""
    CODE = "code"
    """``input`` is statements that raise on failure. They run in another process or, a weaker protection, in the attempt's own; ``Verdict.isolation``
    says where."""
    SIMULATION = "simulation"
    """``input`` is the start of one world, as JSON; the attempt acts in it from another process."""


MOST_SHOWN, MOST_STARTED = 2_000, 60
"""Largest number of characters of a text that a notebook shows, and that a message about a record shows."""


class Record:
    """Base class of the records: pickled as a tuple of their fields, which is three times as fast as the default of dataclasses."""

    __slots__: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the class and the values of its fields, for pickle."""
        return type(self), attrgetter(*self.__slots__)(self)

    def _repr_html_(self) -> str:
        """Return the fields that have a value, for a notebook."""
        known = {one.name: getattr(self, one.name) for one in fields(cast(Any, self)) if one.repr}
        return html_facts(
            type(self).__name__, {name: value for name, value in known.items() if value not in (None, "", (), False)}
        )


def html_facts(title: str, facts: Mapping[str, Any]) -> str:
    """Return names with their values as HTML for a notebook: escaped, long texts cut, texts of several lines as code."""

    def cell(value: Any) -> str:
        text = value if isinstance(value, str) else repr(value)
        text = escape(text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]} ...")
        return f"<pre>{text}</pre>" if "\n" in text else text

    rows = "".join(
        f"<tr><th>{escape(name)}</th><td style='text-align: left'>{cell(value)}</td></tr>" for name, value in facts.items()
    )
    return f"<b>{escape(title)}</b><table>{rows}</table>"


def full_repr(record: Any) -> str:
    """Return the fields of a record as Python source, as dataclasses write it by default: the text of content ids."""
    named = ", ".join(f"{one.name}={getattr(record, one.name)!r}" for one in fields(record) if one.repr)
    return f"{type(record).__qualname__}({named})"


def start_of(text: object) -> str:
    """Return the first ``MOST_STARTED`` characters of a text, in quotes; for any other value, of its ``repr``."""
    text = text if isinstance(text, str) else repr(text)
    return repr(text if len(text) <= MOST_STARTED else f"{text[:MOST_STARTED]}...")


def content_id(*parts: str) -> str:
    """Return 20 hex digits that name the content: SHA-256 over the length-prefixed UTF-8 parts."""
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    return sha256(b"".join([len(data).to_bytes(8, "big") + data for data in encoded])).hexdigest()[:20]


class Identified(Record):
    """Base class of records with an id that is computed from their content once."""

    __slots__ = ("known_id",)

    known_id: str


@dataclass(frozen=True, slots=True)
class TestCase(Record):
    """One test of a task."""

    __test__ = False
    kind: TestKind
    """How the test is run."""
    input: str
    """An expression, standard input, statements or a world, by ``kind``."""
    expected: str = ""
    """``CALL``: a Python literal. ``STDIO``: the output. ``CODE``: empty. ``SIMULATION``: checks as JSON (``docs/simulators.md``)."""
    hidden: bool = False
    """True for a test that a prompt may not show."""

    def __post_init__(self) -> None:
        if type(self.kind) is not TestKind:
            object.__setattr__(self, "kind", TestKind(self.kind))  # "call" is TestKind.CALL


@dataclass(frozen=True, slots=True)
class Task(Record):
    """A problem with its tests."""

    task_id: str
    """Unique name, ``<source>/<name>``."""
    prompt: str
    """The statement, plain text."""
    tests: tuple[TestCase, ...] = ()
    """All tests, visible and hidden, in order."""
    entry_point: str = ""
    """Name of the required function; empty for a program that reads standard input."""
    language: str = "python"
    """Required language, lower case; empty for any."""
    difficulty: str = ""
    """A label such as ``easy``; empty if unknown."""
    source: str = ""
    """Source of the task, such as ``mbpp``."""
    reference: str = ""
    """A correct program, empty if unknown."""
    setup: str = ""
    """Trusted code run before the attempt, empty if none. ``SIMULATION``: the domain's Python, which the attempt's process never holds."""
    compare: str = "lines"
    """How output (or a call's value) is compared: ``lines``, ``exact``, ``tokens``, ``floats``, ``apps``, ``livecodebench``, ``item``, ``rows``, ``rows_in_order``, ``checker``
    (``docs/importing.md``)."""
    checker: str = ""
    """``checker``: trusted Python that defines ``check(input, expected, output)``, which returns a bool or a share of points, [0, 1], or a program
    (``upsolve.checkers``); empty if none."""
    official: bool = False
    """True if the recorded verdicts come from these tests, so that a verdict of upsolve may replace a recorded one."""
    extra: str = ""
    """JSON object of the source's other fields; empty if none. ``test_weights``: points of each test (``Task.weights``)."""
    requires: tuple[str, ...] = ()
    """Packages outside of the standard library, by the names under which attempts in the task's language load them (docs/languages.md)."""
    limit_seconds: float | None = None
    """Processor time of one test, seconds, > 0; None: the limit of the judge (``verify.task_limits``)."""
    limit_bytes: int | None = None
    """Memory of an attempt, bytes, > 0; None: the limit of the judge."""

    def __repr__(self) -> str:
        return f"Task({self.task_id!r}, {start_of(self.prompt)}, {len(self.tests)} tests)"

    def __post_init__(self) -> None:
        if type(self.tests) is not tuple:
            object.__setattr__(self, "tests", tuple(self.tests))
        if wrong := next((test for test in self.tests if type(test) is not TestCase), None):
            raise TypeError(f"task {self.task_id}: tests are TestCase records, such as TestCase('code', {str(wrong)!r})")
        for name in ("limit_seconds", "limit_bytes"):
            if (value := getattr(self, name)) is not None and not value > 0:
                raise ValueError(f"task {self.task_id}: {name} must be positive, got {value}")

    @property
    def weights(self) -> tuple[float, ...]:
        """Points of each test, >= 0: ``test_weights`` in ``extra``, a list with one number for each test; () without such a list."""
        if '"test_weights"' not in self.extra:
            return ()
        given = json.loads(self.extra).get("test_weights")
        numbers = given if isinstance(given, list) and len(given) == len(self.tests) else []
        is_valid = all(type(one) in (int, float) and 0 <= one < math.inf for one in numbers) and any(numbers)
        return tuple(map(float, numbers)) if is_valid else ()


@dataclass(frozen=True, slots=True)
class Attempt(Identified):
    """An attempt at a task by a person or a model: a submission of 2014 and a rollout of the current step are the same record."""

    task_id: str
    """Id of the task."""
    code: str
    """The program as judged."""
    language: str = "python"
    """Language of the code, lower case."""
    author: str = ""
    """Author: a user, or a model's name."""
    created: str = ""
    """Time of writing, ISO 8601; empty if unknown."""
    parent_id: str = ""
    """``attempt_id`` of the attempt this one repairs; empty if none."""
    behavior_logp: float | None = None
    """Sum over tokens of the author's log-probability, nats, <= 0; of a model at temperature 1 without a nucleus. None if unknown."""
    tokens: int | None = None
    """Length of the sampled completion in the author's tokens, >= 1; None if not sampled."""
    entropy: float | None = None
    """Mean entropy of the author's next-token distribution, nats, >= 0; None if unknown."""
    truncated: bool = False
    """True when sampling stopped at the token limit."""
    count: int = 1
    """How often this content occurs, >= 1."""
    token_ids: tuple[int, ...] | None = None
    """Ids of the sampled tokens; None if unknown. In one attempt of twenty they differ from the tokenizer's ids of the same text."""
    token_logps: tuple[float, ...] | None = None
    """Log-probability of each of ``token_ids`` in the distribution that was sampled, with its temperature and nucleus, nats, <= 0; at
    temperature 1 without a nucleus ``behavior_logp`` is their sum. None where the engine gives none, or not one for each token."""

    def __repr__(self) -> str:
        author = f", author={self.author!r}" if self.author else ""
        return f"Attempt({self.task_id!r}, {start_of(self.code)}, language={self.language!r}{author})"

    def __post_init__(self) -> None:
        if self.token_logps is not None and len(self.token_logps) != len(self.token_ids or ()):
            raise ValueError(
                f"attempt: token_logps has {len(self.token_logps)} values for {len(self.token_ids or ())} token_ids; give one for each token"
            )

    extra: str = ""
    """JSON object of the source's other fields; empty if none."""
    answer: str = ""
    """The whole response that ``code`` was taken from: thinking, prose and code fences; empty if only the code is known."""
    prefix: str = ""
    """Beginning of ``answer``, or of ``code`` without an answer, that the author was given: tokens and log-probabilities are of the rest."""

    @property
    def attempt_id(self) -> str:
        """Content id of task, language and code."""
        try:
            return self.known_id
        except AttributeError:
            object.__setattr__(self, "known_id", content_id(self.task_id, self.language, self.code))
            return self.known_id


@dataclass(frozen=True, slots=True)
class Finding(Record):
    """A finding of an analysis or of the judge, with its position in the code."""

    kind: str
    """``traceback``, ``compile``, ``flaky``, ``points``, ``score``, ``analysis`` (an analysis failed on this code), or the name of an analysis: ``lint``."""
    rule: str
    """Rule code or exception name; for a score its name; for points the number of the test, empty for points of all tests together."""
    message: str
    """Message, one line."""
    line: int
    """First line, >= 1."""
    column: int = 1
    """First column, >= 1."""
    end_line: int | None = None
    """Last line, inclusive; None means ``line``."""
    end_column: int | None = None
    """Column after the last; None means the end of the line."""
    value: float | None = None
    """Number, for kinds that have one: score; share of points; complexity; confidence; share of the code before a syntax error. Else None."""


@dataclass(frozen=True, slots=True)
class Verdict(Record):
    """The result of judging one attempt."""

    attempt_id: str
    """Id of the judged attempt."""
    status: Status
    """Outcome over all tests: that of the first test that did not pass, else ``PASSED``."""
    passed: int = 0
    """Tests passed, 0..total."""
    total: int = 0
    """Tests of the task; 0 when the judge recorded only a status."""
    outcomes: tuple[Status, ...] = ()
    """Outcome of every test in order; empty when not recorded; ``UNSCORED`` for a test that was not reached."""
    judge: str = ""
    """Name and version of the judge: ``upsolve-1``, or ``recorded:<source>``; ``score:<name>`` holds a score and no outcome."""
    isolation: str = ""
    """Layers that were active, comma separated; ``in_process`` marks tests run in the attempt's own process."""
    wall_seconds: float | None = None
    """Elapsed time of the whole attempt, seconds."""
    cpu_seconds: float | None = None
    """User and system time of the attempt and its child processes, seconds."""
    memory_bytes: int | None = None
    """Peak resident memory, bytes."""
    error_type: str = ""
    """Exception name of the first error, empty if none."""
    error_message: str = ""
    """Message of the first error or, for ``UNSCORED``, the fault of the judge; at most 500 characters."""
    error_line: int | None = None
    """Line of the attempt's code that raised, >= 1; None if unknown."""
    stdout_head: str = ""
    """First 1,000 characters of standard output."""
    stderr_head: str = ""
    """First 1,000 characters of standard error."""
    findings: tuple[Finding, ...] = ()
    """Findings of the judge and of analyses."""
    executed_lines: tuple[int, ...] | None = None
    """Executed lines of the attempt; None if they were not recorded."""
    analyses: tuple[str, ...] = ()
    """Analyses that were run, with tool and version: ``lint: ruff 0.17.5``."""
    judge_version: int = 0
    """Version of upsolve's judge (``verify.changes``), >= 0; 0: recorded, or made before versions were stored."""

    def __post_init__(self) -> None:
        if type(self.status) is not Status:
            object.__setattr__(self, "status", Status(self.status))  # "passed" is Status.PASSED

    def __repr__(self) -> str:
        error = f", {start_of(': '.join(filter(None, (self.error_type, self.error_message))))}" if self.error_message else ""
        return f"Verdict({self.status.value}, {self.passed} of {self.total} tests{error}, judge={self.judge!r})"

    @property
    def has_cost(self) -> bool:
        """Whether ``cpu_seconds`` is the cost of one run, measured in rounds (``verify.cost``), without the start of a process."""
        return "cost" in self.isolation.split(",")

    @property
    def is_score(self) -> bool:
        """True if this verdict holds only a score, which is stored beside other verdicts, and no outcome."""
        return self.judge.startswith("score:")

    @property
    def scores(self) -> dict[str, float]:
        """Scores of the attempt by name, finite."""
        return {one.rule: one.value for one in self.findings if one.kind == "score" and one.value is not None}

    @property
    def points(self) -> tuple[float, ...]:
        """Share of points of each test, [0, 1]: as given (``with_points``), else 1 if it passed, else 0; () without outcomes."""
        given = {one.rule: one.value for one in self.findings if one.kind == "points"}
        shares = (given.get(str(number)) for number in range(1, len(self.outcomes) + 1))
        return tuple(
            float(outcome is Status.PASSED) if share is None else share
            for share, outcome in zip(shares, self.outcomes, strict=True)
        )

    @property
    def overall_points(self) -> float | None:
        """Recorded share of points of all tests together, [0, 1]; None if there is none."""
        return next((one.value for one in self.findings if one.kind == "points" and not one.rule), None)


def is_scored(verdict: Verdict | None) -> TypeGuard[Verdict]:
    """Return whether there is a verdict and it is not unscored."""
    return verdict is not None and verdict.status is not Status.UNSCORED


def with_tests(task: Task, chosen: Sequence[int]) -> Task:
    """Return a task with only the tests at the ``chosen`` indices, and their weights."""
    tests = tuple(task.tests[index] for index in chosen)
    if not (weights := task.weights):
        return replace(task, tests=tests)
    extra = {**json.loads(task.extra), "test_weights": [weights[index] for index in chosen]}
    return replace(task, tests=tests, extra=json.dumps(extra))


def with_points(verdict: Verdict, points: Sequence[float | None], overall: float | None = None) -> Verdict:
    """Return a verdict with a share of points of each test and of all together, as findings of kind ``points``; None: not given.

    A share that follows from the outcome of the test (1 if passed, else 0) is not stored.
    """
    others = [one for one in verdict.findings if one.kind != "points"]
    outcomes = zip(points, verdict.outcomes, strict=True)
    shares = {str(number): share for number, (share, outcome) in enumerate(outcomes, 1) if share != (outcome is Status.PASSED)}
    given = [
        Finding("points", rule, "", 1, value=share) for rule, share in {**shares, "": overall}.items() if share is not None
    ]
    return replace(verdict, findings=(*others, *given)) if given or len(others) < len(verdict.findings) else verdict


@dataclass(frozen=True, slots=True)
class Turn(Record):
    """An earlier attempt of a conversation, with its verdict."""

    attempt: Attempt
    """The attempt."""
    verdict: Verdict | None
    """Verdict of the attempt, from which the user's feedback is written; None if the attempt was not judged."""


@dataclass(frozen=True, slots=True)
class Group:
    """Attempts at one task, judged or not. The unit of every advantage."""

    task: Task
    """The shared task."""
    attempts: tuple[Attempt, ...]
    """G attempts."""
    verdicts: tuple[Verdict | None, ...]
    """G verdicts; None for an attempt that was not judged or has only scores (``Verdict.is_score``)."""
    label_right: tuple[float | None, ...] = ()
    """G probabilities that the labels (passed or not) are right, [0, 1] (``archive.labels``); None if unknown, () if not estimated."""
    turns: tuple[tuple[Turn, ...], ...] = ()
    """For each of the G attempts, the earlier attempts that its prompt shows (``data.turns``), oldest first; () if no prompt shows any."""

    def __repr__(self) -> str:
        passed = sum(verdict is not None and verdict.status is Status.PASSED for verdict in self.verdicts)
        return f"Group({self.task.task_id!r}, {len(self.attempts)} attempts, {passed} passed)"

    def __post_init__(self) -> None:
        sizes = {len(self.attempts)}
        if {len(self.verdicts)} != sizes or not {len(self.label_right), len(self.turns)} <= sizes | {0}:
            counts = f"{len(self.attempts)} attempts, {len(self.verdicts)} verdicts, {len(self.label_right)} probabilities, {len(self.turns)} turns"
            raise ValueError(f"group {self.task.task_id}: {counts}")

    @property
    def occurrences(self) -> int:
        """Number of attempts, each counted as often as it occurs (``Attempt.count``)."""
        return sum(attempt.count for attempt in self.attempts)
