"""New tests for the tasks of an archive: mutated inputs on which an attempt that passed every present test is wrong.

The expected value comes from the task's reference or, without one, from the attempts that passed and agree. Inputs on which a right answer is not
defined are left out. They are outside the domain of the present tests (``upsolve.suites.domain``), depend on the order of rows, or get another answer
from most of the attempts that passed.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from upsolve.archive.store import Archive
from upsolve.languages.names import is_query_language
from upsolve.solve.outputs import Outputs, outputs_of
from upsolve.suites.grade import cover, failed_tests
from upsolve.suites.inputs import Candidate, Inputs, call_inputs, candidates, program_inputs
from upsolve.suites.rows import database_inputs, reversed_rows
from upsolve.suites.shrink import NewArchive, Portion
from upsolve.types import Attempt, Group, OnProgress, Status, Task, TestCase, TestKind, Verdict, is_scored, no_progress
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.pool.pool import verify

__all__ = ["GrowSettings", "Growth", "grow", "grow_groups", "grown_group"]

PORTION = 16
"""Tasks that are grown and written together."""
ROUNDS = 3
"""Most times that attempts are judged on the new tests; more than one, since a test that ends a run hides the outcomes of later tests."""
AGREED = 2 / 3
"""Share of the finished attempts whose equal outputs become the expected value."""
WRONG = (Status.FAILED, Status.RUNTIME_ERROR)
"""Outcomes that prove an attempt wrong on an input; other outcomes may be those of a right but slow program."""


@dataclass(frozen=True, slots=True)
class GrowSettings:
    """Settings of growing tests."""

    inputs: int = 100
    """Mutated inputs of a task, >= 1."""
    most: int = 10
    """Most new tests of a task, >= 1."""
    agree: int = 3
    """Fewest attempts that must agree on an expected value if a task has no reference."""
    visible: bool = False
    """Grow only from the visible tests: hidden tests are not mutated, and do not decide which attempts have passed."""
    seed: int = 0
    """Seed of the mutations."""


@dataclass
class Growth:
    """New tests of a task, and what happened to its mutated inputs."""

    group: Group
    """The task with its attempts."""
    present: tuple[TestCase, ...]
    """Tests from which new ones are grown."""
    passed: tuple[Attempt, ...]
    """Distinct programs that pass the present tests."""
    skipped: str = ""
    """Reason why nothing was tried; empty otherwise."""
    oracle: str = ""
    """Origin of the expected values: ``reference`` or ``agreement``."""
    candidates: list[Candidate] = field(default_factory=list[Candidate])
    """Inputs that may become tests; they get expected values in the second step."""
    failures: dict[int, set[str]] = field(default_factory=dict[int, set[str]])
    """Candidate -> ids of the programs that are wrong on it."""
    kept: list[int] = field(default_factory=list[int])
    """Candidates that become new tests."""
    left_out: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Reason -> number of inputs that were left out."""

    @property
    def task(self) -> Task:
        """The task."""
        return self.group.task

    @property
    def tests(self) -> list[TestCase]:
        """The new tests."""
        return [self.candidates[index].test for index in self.kept]

    @property
    def caught(self) -> set[str]:
        """Ids of the programs that pass the present tests and fail a new one."""
        return set[str]().union(*(self.failures[index] for index in self.kept))

    def drop(self, reasons: Mapping[int, str]) -> None:
        """Leave candidates out, by index."""
        for index, reason in reasons.items():
            self.left_out.setdefault(reason, []).append(self.candidates[index].test.input)
        self.candidates = [one for index, one in enumerate(self.candidates) if index not in reasons]

    def row(self) -> dict[str, Any]:
        """Return the line of the report."""
        first = len(self.task.tests)
        tests = [
            {
                "test": first + number,
                "origin": one.origin,
                "change": one.change,
                "input": one.test.input,
                "expected": one.test.expected,
            }
            | {"fails": sorted(self.failures[index])}
            for number, (index, one) in enumerate((index, self.candidates[index]) for index in self.kept)
        ]
        return {
            "task_id": self.task.task_id,
            "skipped": self.skipped,
            "expected_from": self.oracle,
            "passed": len(self.passed),
            "caught": sorted(self.caught),
            "new": tests,
            "left_out": {reason: len(inputs) for reason, inputs in self.left_out.items()},
            "examples": {reason: inputs[0][:300] for reason, inputs in self.left_out.items()},
        }


def grow(
    archive: Archive,
    out: str | Path,
    how: GrowSettings | None = None,
    *,
    settings: JudgeSettings | None = None,
    progress: OnProgress = no_progress,
) -> list[dict[str, Any]]:
    """Write an archive with new tests; return a row for each task. The same call resumes an interrupted one.

    New tests are hidden and follow the present ones; ``grown`` in the task's ``extra`` names the origin of each. Programs that passed the present
    tests are judged on all tests; for other programs the outcomes of new tests stay ``UNSCORED``, like tests that were not reached.

    Args:
        archive: the archive, which is only read.
        out: folder of the new archive.
        how: number of inputs, agreement, seed.
        settings: limits and isolation of the judge.
        progress: called with the tasks done and all tasks.

    Raises:
        ArchiveError: the folder holds something else.
        JudgeError: the sandbox broke, or a layer is missing.
    """
    how, settings = how or GrowSettings(), settings or JudgeSettings()
    count = len({*archive.column("tasks", "task_id")})
    new = NewArchive(out, "grow", archive, **asdict(how))
    for portion in new.pending(archive, PORTION):
        new.write(grown_portion(portion, how, settings))
        progress("grow", len(new.rows), count)
    return new.rows


def grown_portion(groups: Sequence[tuple[Group, list[Group]]], how: GrowSettings, settings: JudgeSettings) -> Portion:
    """Return the records of some tasks with their new tests."""
    growths = grow_groups([group for group, _ in groups], how, settings)
    pairs = [(grown_task(one), program) for one in growths if one.kept for program in one.passed]
    fresh = dict[str, Verdict]()
    for verdict in verify(pairs, settings):
        fresh[verdict.attempt_id] = verdict
    portion = Portion()
    for growth, (group, judges) in zip(growths, groups, strict=True):
        portion.tasks.append(grown_task(growth))
        portion.attempts += group.attempts
        portion.verdicts += grown_group(growth, judges, fresh)
        portion.rows.append(growth.row())
    return portion


def grown_task(growth: Growth) -> Task:
    """Return a task with its new tests; ``extra`` names their origin."""
    if not growth.kept:
        return growth.task
    extra = json.loads(growth.task.extra or "{}")
    origins = [{name: one[name] for name in ("test", "origin", "change")} for one in growth.row()["new"]]
    extra["grown"] = [*extra.get("grown", ()), *({**one, "expected_from": growth.oracle} for one in origins)]
    return replace(growth.task, tests=(*growth.task.tests, *growth.tests), extra=json.dumps(extra))


def grown_group(growth: Growth, judges: Sequence[Group], fresh: Mapping[str, Verdict]) -> Iterator[Verdict]:
    """Yield the verdicts of all judges on the attempts at a task with new tests, including the fresh ones."""
    count = len(growth.task.tests)
    verdicts = {(one.attempt_id, one.judge): one for judge in judges for one in judge.verdicts if one is not None}
    for verdict in verdicts.values():
        whole = growth.kept and is_scored(verdict) and len(verdict.outcomes) == count
        if whole and verdict.status is not Status.PASSED:
            outcomes = (*verdict.outcomes, *([Status.UNSCORED] * len(growth.kept)))
            yield replace(verdict, outcomes=outcomes, total=len(outcomes))
        else:
            yield verdict
    if growth.kept:
        yield from (fresh[one.attempt_id] for one in growth.passed if one.attempt_id in fresh)


def grow_groups(groups: Sequence[Group], how: GrowSettings, settings: JudgeSettings) -> list[Growth]:
    """Return the new tests of some tasks, which are run and judged together."""
    growths = [begin(group, how) for group in groups]
    open_ones = [one for one in growths if not one.skipped]
    expect(open_ones, how, settings)
    waiting = open_ones
    for _ in range(ROUNDS):
        waiting = compare([one for one in waiting if one.candidates], settings)
    for growth in open_ones:
        choose(growth, how.most)
    return growths


def begin(group: Group, how: GrowSettings) -> Growth:
    """Return a task with its mutated inputs."""
    task = group.task
    indices = [index for index, test in enumerate(task.tests) if not (how.visible and test.hidden)]
    present = tuple(task.tests[index] for index in indices)
    growth = Growth(group, present, passing(group, frozenset(indices), whole=len(indices) == len(task.tests)))
    if not growth.passed:
        growth.skipped = "no attempt passes the present tests"
    elif len({test.kind for test in present}) != 1 or present[0].kind not in (TestKind.CALL, TestKind.STDIO):
        growth.skipped = "tests are neither calls alone nor standard input alone"
    elif task.compare == "checker":
        growth.skipped = "the task has a checker, so its tests need no expected value"
    elif not task.reference and len(growth.passed) < how.agree:
        growth.skipped = "no reference, and too few attempts to agree on expected values"
    elif (inputs := inputs_of(replace(task, tests=present), growth.passed, how.seed)) is None:
        growth.skipped = "the inputs cannot be mutated"
    else:
        random = Random(f"{how.seed}/{task.task_id}")
        growth.candidates = [
            replace(one, origin=indices[one.origin] if one.origin >= 0 else -1)
            for one in candidates(inputs, present, how.inputs, random)
        ]
    return growth


def passing(group: Group, present: frozenset[int], *, whole: bool) -> tuple[Attempt, ...]:
    """Return the distinct programs that pass the present tests; ``whole``: the present tests are all tests, so that a status suffices."""
    found: dict[str, Attempt] = {}
    for attempt, verdict in zip(group.attempts, group.verdicts, strict=True):
        failed = failed_tests(group.task, verdict)
        if failed is None or verdict is None:
            passed = whole and verdict is not None and verdict.status is Status.PASSED
        else:
            passed = all(verdict.outcomes[index] is Status.PASSED for index in present)
        if passed:
            found.setdefault(attempt.attempt_id, attempt)
    return tuple(found.values())


def inputs_of(task: Task, passed: Sequence[Attempt], seed: int) -> Inputs | None:
    """Return the inputs of a task's tests in a form that can be mutated."""
    if task.tests[0].kind is TestKind.CALL:
        return call_inputs(task)
    if is_query_language(task.language):
        return database_inputs(task, [task.reference, *(one.code for one in passed)], seed)
    return program_inputs(task)


def expect(growths: Sequence[Growth], how: GrowSettings, settings: JudgeSettings) -> None:
    """Fill in the expected value of every candidate, and leave out those without one."""
    right = right_references(growths, settings)
    for growth in growths:
        growth.oracle = "reference" if growth.task.task_id in right else "agreement"
        if growth.oracle == "agreement" and len(growth.passed) < how.agree:
            growth.skipped = "the reference fails the present tests, and too few attempts pass to agree on expected values"
            growth.candidates = []
    runs = [(growth, program) for growth in growths for program in voters(growth) if growth.candidates]
    inputs = [[one.test for one in growth.candidates] for growth, _ in runs]
    tasks = [replace(growth.task, tests=tuple(tests)) for (growth, _), tests in zip(runs, inputs, strict=True)]
    found = outputs_of(tasks, [program for _, program in runs], inputs, settings)
    answers: dict[str, list[Outputs]] = {}
    for (growth, _), output in zip(runs, found, strict=True):
        answers.setdefault(growth.task.task_id, []).append(output)
    for growth in growths:
        if growth.candidates:
            fill(growth, answers[growth.task.task_id], how.agree)
    leave_out_ordered([one for one in growths if one.oracle == "reference" and one.candidates], settings)


def reference_of(task: Task) -> Attempt:
    """Return the reference of a task as an attempt."""
    return Attempt(task.task_id, task.reference, task.language or "python")


def right_references(growths: Sequence[Growth], settings: JudgeSettings) -> set[str]:
    """Return the ids of the tasks whose reference passes the present tests."""
    tasks = [replace(one.task, tests=one.present) for one in growths if one.task.reference]
    verdicts = verify([(task, reference_of(task)) for task in tasks], settings)
    return {task.task_id for task, verdict in zip(tasks, verdicts, strict=True) if verdict.status is Status.PASSED}


def voters(growth: Growth) -> Sequence[Attempt]:
    """Return the programs whose outputs decide the expected values."""
    return [reference_of(growth.task)] if growth.oracle == "reference" else growth.passed


def fill(growth: Growth, answers: Sequence[Outputs], agree: int) -> None:
    """Set the expected values by the outputs of the voters; leave out inputs on which voters raise or disagree."""
    reasons: dict[int, str] = {}
    trivial = {not test.expected.strip() for test in growth.present} == {False}
    for index in range(len(growth.candidates)):
        outputs = [(one.votes[index], one.texts[index] or "") for one in answers]
        counts = Counter(form for form, _ in outputs if form is not None)
        most, votes = counts.most_common(1)[0] if counts else (None, 0)
        value = next((text for form, text in outputs if form == most), "")
        if growth.oracle == "reference":
            reason = "" if votes else "the reference raises or has no plain value"
        else:
            reason = "" if votes >= max(agree, AGREED * len(outputs)) else "the attempts that passed do not agree"
        if not reason and trivial and not value.strip():
            reason = "the answer is empty, and no present answer is"
        if reason:
            reasons[index] = reason
        else:
            old = growth.candidates[index]
            growth.candidates[index] = replace(old, test=replace(old.test, expected=value))
    growth.drop(reasons)


def leave_out_ordered(growths: Sequence[Growth], settings: JudgeSettings) -> None:
    """Leave out databases on which the reference returns other rows if the rows of all tables are reversed."""
    chosen = [one for one in growths if is_query_language(one.task.language)]
    turned = [[reversed_rows(one.task, each.test.input) or each.test.input for each in one.candidates] for one in chosen]
    tests = [
        tuple(replace(each.test, input=text) for each, text in zip(one.candidates, texts, strict=True))
        for one, texts in zip(chosen, turned, strict=True)
    ]
    pairs = [(replace(one.task, tests=each), reference_of(one.task)) for one, each in zip(chosen, tests, strict=True)]
    for growth, verdict in zip(chosen, verify(pairs, settings), strict=True):
        reason = "the answer depends on the order of rows"
        growth.drop({index: reason for index, one in enumerate(verdict.outcomes) if one is not Status.PASSED})


def compare(growths: Sequence[Growth], settings: JudgeSettings) -> list[Growth]:
    """Judge the programs on the candidates; drop candidates that a program does not finish, or that most programs fail.

    Return the tasks to judge once more: an omitted candidate has hidden the outcomes of later ones.
    """
    again: list[Growth] = []
    programs = [[*growth.passed, *([reference_of(growth.task)] if growth.oracle == "reference" else ())] for growth in growths]
    pairs = [
        (replace(growth.task, tests=tuple(one.test for one in growth.candidates)), program)
        for growth, own in zip(growths, programs, strict=True)
        for program in own
    ]
    verdicts = iter(verify(pairs, settings))
    for growth, own in zip(growths, programs, strict=True):
        rows = [next(verdicts).outcomes or (Status.UNSCORED,) * len(growth.candidates) for _ in own]
        known = {one.attempt_id for one in growth.passed}
        growth.failures, reasons = {}, dict[int, str]()
        for index, outcomes in enumerate(zip(*rows, strict=True)):
            failed = {one.attempt_id for one, outcome in zip(own, outcomes, strict=True) if outcome in WRONG}
            if any(outcome not in (Status.PASSED, *WRONG, Status.UNSCORED) for outcome in outcomes):
                reasons[index] = "an attempt does not finish"
            elif growth.oracle == "reference" and outcomes[-1] is Status.FAILED:
                reasons[index] = "the reference does not pass its own answer"
            elif growth.candidates[index].edges and failed.issuperset(known):
                reasons[index] = "unlike the present inputs, and no attempt confirms the answer"
            growth.failures[index] = failed
        numbers = [index for index in range(len(growth.candidates)) if index not in reasons]
        growth.failures = {place: growth.failures[index] for place, index in enumerate(numbers)}
        growth.drop(reasons)
        if "an attempt does not finish" in reasons.values():
            again.append(growth)
    return again


def choose(growth: Growth, most: int) -> None:
    """Keep few candidates that together fail every program that any candidate fails; then, up to ``most``, those that fail most programs."""
    by_program: dict[str, set[int]] = {}
    for index, failed in growth.failures.items():
        for program in failed:
            by_program.setdefault(program, set()).add(index)
    first = cover(map(frozenset, by_program.values()))[:most]
    rest = sorted(
        (index for index, failed in growth.failures.items() if failed and index not in first),
        key=lambda i: (-len(growth.failures[i]), i),
    )
    growth.kept = sorted([*first, *rest[: most - len(first)]])
