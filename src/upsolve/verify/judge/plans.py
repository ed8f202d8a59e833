"""Task + Attempt -> Verdict. The attempt's process gets code and inputs; expected answers stay outside.

The judging of an attempt is a plan: a generator that yields jobs, is sent their Exits, and returns the verdict. Several plans advance together: one
request to the sandbox holds a job of each plan.

The cost of a program that passed is the processor time of one run of its tests, without the noise of a clock. The tests are repeated until they take
``LEAST_SECONDS``. The cost is the smallest of several such rounds, divided by the number of repetitions. The rounds of attempts that are judged
together are interleaved, so that a busy moment of the machine concerns one round of each.
"""

import ast
import math
import secrets
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from upsolve.errors import IsolationError, JudgeError
from upsolve.languages import PYTHON, language, missing_packages, profile_of
from upsolve.types import Attempt, Finding, Status, Task, TestKind, Verdict
from upsolve.verify.judge.checking import checker_fault
from upsolve.verify.judge.compare import PLAIN, literal, memo, tolerance_of
from upsolve.verify.judge.outcomes import ClaimError, forged, function_outcomes, merged, shares_of, unscored, verdict
from upsolve.verify.judge.programs import Plan, in_language, run_programs
from upsolve.verify.judge.queries import query_fault, run_queries
from upsolve.verify.judge.simulations import parsed, run_simulation, simulates
from upsolve.verify.judge.tested import (
    called_names,
    changes_process,
    is_direct_call,
    literal_call,
    required_names,
    variables_read,
)
from upsolve.verify.limits import Imports, JudgeSettings, Limits, limits_for, with_imports
from upsolve.verify.sandbox.process import SLOTS, Job
from upsolve.verify.sandbox.runner import Exit, run_jobs

__all__ = ["LEAST_SECONDS", "absent_packages", "as_judged", "judge", "judge_all", "judge_chunk", "with_cost"]

Pair = tuple[Task, Attempt]
MOST_CROSSING = 64
"""Maximum number of entries of ``crossing``; small, since attempts at the same task arrive together."""
crossing: dict[tuple[Task, JudgeSettings], bool] = {}
"""Task and settings -> whether the reference shows that the tests can run across processes (see ``can_cross``)."""


def judge(task: Task, attempt: Attempt, settings: JudgeSettings | None = None) -> Verdict:
    """Judge one attempt; if judging fails twice, the verdict is ``UNSCORED`` with the reason.

    Args:
        task: the task with its tests.
        attempt: the code to judge.
        settings: limits and isolation.

    Raises:
        IsolationError: a required layer is missing.
    """
    return judge_all([(task, attempt)], settings)[0]


def judge_all(pairs: Sequence[Pair], settings: JudgeSettings | None = None) -> list[Verdict]:
    """Judge attempts on one sandbox; return their verdicts in the same order; see ``judge``."""
    settings = settings or JudgeSettings()
    pairs = [(as_judged(task, settings) if attempt.language in PYTHON else task, attempt) for task, attempt in pairs]
    by_limits: dict[Limits, list[int]] = {}
    for index, (task, _) in enumerate(pairs):
        by_limits.setdefault(limits_for(task, settings), []).append(index)
    verdicts: dict[int, Verdict] = {}
    for limits, indices in by_limits.items():
        same = judge_together([pairs[index] for index in indices], replace(settings, limits=limits))
        verdicts.update(zip(indices, same, strict=True))
    return [verdicts[index] for index in range(len(pairs))]


def judge_chunk(pairs: Sequence[Pair], settings: JudgeSettings) -> list[Verdict]:
    """Judge attempts (``judge_all``) and run the analyses of the settings on them."""
    verdicts = judge_all(pairs, settings)
    if settings.analyses:
        from upsolve.verify.analysis.analyst import analyse

        return analyse(pairs, verdicts, settings.analyses)
    return verdicts


def judge_together(pairs: Sequence[Pair], settings: JudgeSettings) -> list[Verdict]:
    """Judge attempts under the same limits, several in one request to the sandbox."""
    verdicts: dict[int, Verdict] = {}
    waiting: Iterator[tuple[int, Pair]] = enumerate(pairs)
    at_work: list[tuple[int, Plan, Job]] = []
    built: set[int] = set()
    while True:
        # fewer than SLOTS are active, and none has a program in the folder of profile ``any``
        while (
            len(at_work) < SLOTS and built.isdisjoint(index for index, _, _ in at_work) and (following := next(waiting, None))
        ):
            index, (task, attempt) = following
            at_work += advance(index, judge_repeatedly(task, attempt, settings), None, verdicts)
            built |= {index for index, _, job in at_work if job.profile == "any"}
        if not at_work:
            return [verdicts[index] for index in range(len(pairs))]
        ends = run_each([job for _, _, job in at_work], settings)
        ended = zip(at_work, ends, strict=True)
        at_work = [step for (index, plan, _), end in ended for step in advance(index, plan, end, verdicts)]


def advance(index: int, plan: Plan, end: Exit | Exception | None, verdicts: dict[int, Verdict]) -> list[tuple[int, Plan, Job]]:
    """Send a plan the Exit of its job; return its next job in a list, or store its verdict and return an empty list."""
    try:
        job = plan.throw(end) if isinstance(end, Exception) else plan.send(end) if end else next(plan)
    except StopIteration as done:
        verdicts[index] = done.value
        return []
    return [(index, plan, job)]


def run_each(jobs: Sequence[Job], settings: JudgeSettings) -> list[Exit | Exception]:
    """Run jobs together; if the sandbox breaks, run each job alone, so that the error is attributed to one job."""
    try:
        return [*run_jobs(jobs, settings)]
    except IsolationError:
        raise
    except (JudgeError, OSError, ValueError) as error:
        if len(jobs) == 1:
            return [error]
        return [end for job in jobs for end in run_each([job], settings)]


def judge_repeatedly(task: Task, attempt: Attempt, settings: JudgeSettings) -> Plan:
    """Judge ``settings.repeats`` times and return the first verdict, with its cost; if outcomes differ, with a finding ``flaky``."""
    first = yield from judge_with_retry(task, attempt, settings)
    statuses = {(first.status, first.outcomes, first.points): first.status.value}
    for _ in range(settings.repeats - 1):
        other = yield from judge_with_retry(task, attempt, settings)
        statuses.setdefault((other.status, other.outcomes, other.points), other.status.value)
    if len(statuses) == 1:
        return (yield from with_cost(task, attempt, settings, verdict=first, run=plan_of))
    message = f"outcomes differ between {settings.repeats} runs: {', '.join(statuses.values())}"
    return replace(first, findings=(*first.findings, Finding("flaky", "outcome", message, 1)))


def judge_with_retry(task: Task, attempt: Attempt, settings: JudgeSettings) -> Plan:
    """Judge an attempt; if judging raises an exception, judge once more, then return UNSCORED."""
    problem = impossible(task, attempt)
    for _ in range(0 if problem else 2):
        try:
            return (yield from plan_of(task, attempt, settings))
        except ClaimError as error:
            if (yield from control_runs(task, attempt, settings)):
                return forged(task, attempt, str(error))
            problem = str(error)
        except IsolationError:
            raise
        except Exception as error:  # any failure leaves this attempt unscored; the worker continues
            problem = f"{type(error).__name__}: {error}"
    return unscored(task, attempt, problem)


def control_runs(task: Task, attempt: Attempt, settings: JudgeSettings) -> Generator[Job, Exit, bool]:
    """Return whether the task's setup runs with an empty attempt, so that the setup is not at fault (Python or queries; other programs cannot report)."""
    if attempt.language not in PYTHON and not language(attempt.language).engine:
        return False
    try:
        yield from plan_of(task, Attempt(task.task_id, "", attempt.language), settings)
    except ClaimError:
        return False
    return True


def impossible(task: Task, attempt: Attempt) -> str:
    """Return why this judge cannot judge an attempt at this task; an empty string if judging is possible."""
    if not task.tests:
        return f"task {task.task_id} has no tests"
    if task.requires and attempt.language in PYTHON and (absent := missing_packages(task.requires)):
        return f"task {task.task_id} requires {', '.join(absent)}: run `upsolve packages {' '.join(absent)}`"
    try:
        if attempt.language not in PYTHON:
            if language(attempt.language).engine and (fault := query_fault(task)):
                return fault
            if any(test.kind is TestKind.CALL for test in task.tests):
                return f"task {task.task_id}: CALL tests are for Python; {attempt.language} takes STDIO and CODE"
            if simulates(task):
                return f"task {task.task_id}: worlds are for Python, not {attempt.language}"
        for number, test in enumerate(task.tests, start=1):
            if test.kind is TestKind.CALL:
                literal(test.expected)
            if attempt.language in PYTHON and (fault := syntax_fault(test.kind, test.input)):
                return f"task {task.task_id}: test {number} is not Python: {fault}"
            if attempt.language in PYTHON and test.kind is TestKind.CODE and (absent := absent_packages(task, test.input)):
                return f"task {task.task_id}: test {number} imports {absent[0]}: name it in the task's requires"
        if simulates(task):
            parsed(task)
        if task.compare not in PLAIN:
            tolerance_of(task.compare)
        if task.compare == "checker" and (fault := checker_fault(task)):
            return f"task {task.task_id}: {fault}"
    except ValueError as error:
        return f"task {task.task_id}: {error}"
    return ""


@memo
def syntax_fault(kind: TestKind, source: str) -> str:
    """Return why a Python test does not parse, which is the task's fault; an empty string if all tests parse."""
    if kind not in (TestKind.CALL, TestKind.CODE) or (kind is TestKind.CALL and literal_call(source)):
        return ""
    try:
        ast.parse(source.strip() if kind is TestKind.CALL else source, mode="eval" if kind is TestKind.CALL else "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"{type(error).__name__}: {error}"[:200]
    return ""


def plan_of(task: Task, attempt: Attempt, settings: JudgeSettings) -> Plan:
    """Judge the tests of each kind by the plan for that kind and the attempt's language."""
    shares, verdicts = shares_of(task), list[Verdict]()
    for _, share in shares:
        verdicts.append((yield from plan_of_share(share, attempt, settings)))
    if len(shares) == 1:
        return verdicts[0]
    return merged(task, attempt, [(chosen, one) for (chosen, _), one in zip(shares, verdicts, strict=True)])


def plan_of_share(task: Task, attempt: Attempt, settings: JudgeSettings) -> Plan:
    """Judge tests that are judged together (``kinds.shares_of``)."""
    if attempt.language not in PYTHON:
        tools = language(attempt.language)
        return (yield from (run_queries if tools.engine else in_language)(task, attempt, settings, tools))
    if task.tests[0].kind is TestKind.SIMULATION:
        return (yield from run_simulation(task, attempt, settings))
    if task.tests[0].kind is TestKind.STDIO:
        return (yield from run_programs(task, attempt, settings))
    if needs_tester(task):
        names = called_names(task)
        if names is not None and (yield from can_cross(task, names, settings)):
            return (yield from run_across(task, attempt, names, settings))
    return (yield from run_in_process(task, attempt, settings))


def run_in_process(task: Task, attempt: Attempt, settings: JudgeSettings) -> Plan:
    """Run the tests in the attempt's process. Values of CALL tests are compared outside; a passed CODE test reports a nonce."""
    nonce = secrets.token_hex(8)
    job = {"kind": "tests", "code": attempt.code, "setup": task.setup, "required": required_names(task)}
    job |= {"tests": [as_sent(test.kind, test.input) for test in task.tests], "nonce": nonce, **common_fields(settings)}
    end = yield Job(job, None, settings.limits.wall_seconds, profile=profile_of(task.requires))
    label = "in_process" if needs_tester(task) else ""
    return verdict(task, attempt, function_outcomes(task, end, nonce), ends=[end], label=label)


def needs_tester(task: Task) -> bool:
    """Return whether a test is more than a direct call: then the attempt's process could forge its outcome, and must not evaluate it."""
    calls = (test.kind is TestKind.CALL and is_direct_call(test.input, task.setup, task.entry_point) for test in task.tests)
    return not all(calls)


def as_sent(kind: TestKind, source: str) -> tuple[str, Any]:
    """Encode a test for the sandbox: a call with literal arguments as (name, arguments), which needs no parser there."""
    call = literal_call(source) if kind is TestKind.CALL else None
    return (kind.value, source) if call is None else ("apply", call)


def common_fields(settings: JudgeSettings) -> dict[str, Any]:
    """Return the fields common to all jobs: whether to record lines; elapsed and processor seconds per test (0: no limit)."""
    each, processor = (0 if math.isinf(it) else it for it in (settings.limits.test_seconds, settings.limits.test_cpu_seconds))
    return {"lines": settings.lines, "test_seconds": each, "test_cpu_seconds": processor}


def run_across(task: Task, attempt: Attempt, names: tuple[str, ...], settings: JudgeSettings) -> Plan:
    """Run the tests in a tester's process. If they fail, a second run counts if it passes.

    In the second run, either operators of the attempt get values of the tests that were withheld; or, if the attempt has changed variables of the
    setup, the tests run in the attempt's process.
    """
    across, reports = yield from run_in_tester(task, attempt, names, settings)
    causes = {key for record in reports for key in record}
    if "withheld" in causes and across.status is not Status.PASSED:
        across = (yield from run_told(task, attempt, names, settings)) or across
    if "changed" in causes and across.status is not Status.PASSED:
        beside = yield from run_in_process(task, attempt, settings)
        return beside if beside.status is Status.PASSED else across
    return across


MOST_PLACES = 8
"""Most operators that ``run_told`` verifies, chosen at random."""


def run_told(
    task: Task, attempt: Attempt, names: tuple[str, ...], settings: JudgeSettings
) -> Generator[Job, Exit, Verdict | None]:
    """Run the tests once more, with values of the tests for operators of the attempt; return a verdict that passed, else None.

    An attempt that answers 0 to every difference would pass ``abs(f(2) - 4) < 1e-9``. So equalities and differences get a decoy, each in a further
    run, and another decoy if the test passes; then the test must fail.
    """
    told, reports = yield from run_in_tester(task, attempt, names, settings, tells=True)
    deciding: dict[int, list[int]] = dict(record["deciding"] for record in reports if "deciding" in record)
    if told.status is not Status.PASSED:
        return None
    every, seconds = sorted({place for places in deciding.values() for place in places}), told.wall_seconds or 0.0
    for place in secrets.SystemRandom().sample(every, min(len(every), MOST_PLACES)):
        doubtful = {index for index, places in deciding.items() if place in places}
        for which in (-1, 0):
            if doubtful and seconds <= settings.limits.wall_seconds:
                again, _ = yield from run_in_tester(task, attempt, names, settings, tells=True, decoy=(place, which))
                doubtful = {index for index in doubtful if again.outcomes[index] is Status.PASSED}
                seconds += again.wall_seconds or 0.0
        if doubtful:
            return None
    return told


Told = Generator[Job, Exit, tuple[Verdict, Sequence[Mapping[str, Any]]]]


def run_in_tester(
    task: Task,
    attempt: Attempt,
    names: tuple[str, ...],
    settings: JudgeSettings,
    *,
    tells: bool = False,
    decoy: tuple[int, int] = (-1, 0),
) -> Told:
    """Run the tests in a tester's process, which sends every call to the attempt's process.

    Returns the verdict and the tester's records, which may have a reason for a second run. ``changed``: the attempt's variables of the setup differ
    from those of the tests that read them. ``withheld``: an operator of the attempt did not get a value of the tests. The verdict is labelled
    ``in_process`` if the attempt's code decided a passed test, or if operators of the attempt get these values (``tells``). The operator at place
    ``decoy[0]`` of each test gets the decoy of number ``decoy[1]``.
    """
    job = {
        "kind": "calls",
        "code": attempt.code,
        "setup": task.setup,
        "required": required_names(task),
        "lines": settings.lines,
    }
    common = common_fields(settings)
    shorter = min(common["test_seconds"], common["test_cpu_seconds"] or math.inf)  # the processor time is another process's
    tester = {
        "names": names,
        "setup": task.setup,
        **common,
        "test_seconds": shorter,
        "variables": variables_read(task),
        "tells": tells,
        "decoy": decoy,
    }
    tester["tests"] = [(test.kind.value, test.input) for test in task.tests]
    end = yield Job(job, tester, settings.limits.wall_seconds, profile=profile_of(task.requires))
    if any("unsupported" in record for record in end.reports):
        return (yield from run_in_process(task, attempt, settings)), ()
    result = function_outcomes(task, end, True)
    decided = any(result[0][record["decided"]] is Status.PASSED for record in end.reports if "decided" in record)
    label = "in_process" if decided or tells else "across"
    return verdict(task, attempt, result, ends=[end], label=label), end.reports


def can_cross(task: Task, names: tuple[str, ...], settings: JudgeSettings) -> Generator[Job, Exit, bool]:
    """Return whether the tests can run across processes: as the reference shows or, without one, if they do not watch their process."""
    key = (task, settings)
    if not task.reference:
        return not changes_process(task)
    if key not in crossing:
        reference = Attempt(task.task_id, task.reference)
        across, _ = yield from run_in_tester(task, reference, names, settings)
        beside = None if across.status is Status.PASSED else (yield from run_in_process(task, reference, settings))
        if len(crossing) >= MOST_CROSSING:
            crossing.clear()
        crossing[key] = beside is None or beside.status is not Status.PASSED
    return crossing[key]


def as_judged(task: Task, settings: JudgeSettings) -> Task:
    """Return whether the tests can run across processes: the reference decides; without a reference, tests that watch their process cannot."""
    task = with_imports(task) if settings.imports is Imports.CONTEST else task
    packages = tuple(dict.fromkeys((*task.requires, *settings.packages)))
    return task if packages == task.requires else replace(task, requires=packages)


def absent_packages(task: Task, source: str) -> list[str]:
    """Return the packages that a parsed test imports and the sandbox lacks, sorted; none if the setup creates modules."""
    others = sorted(packages_of(source).difference(task.requires))
    if not others or "sys.modules" in task.setup:
        return []
    return missing_packages(others) if task.requires else others


@memo
def packages_of(source: str) -> frozenset[str]:
    """Return the packages outside the standard library that Python code imports unconditionally: not within a ``try`` or a function."""
    modules = list[str]()
    for statement in ast.parse(source).body if "import" in source else []:
        match statement:
            case ast.ImportFrom(module=str(module), level=0):
                modules.append(module)
            case ast.Import(names=names):
                modules += [alias.name for alias in names]
            case _:
                pass
    return frozenset(module.partition(".")[0] for module in modules) - sys.stdlib_module_names - {"attempt"}


LEAST_SECONDS = 0.05
"""Processor time of a round, seconds, from which its cost is reliable."""
MOST_TIMES, GROWTH = 4096, 16
"""Most repetitions of a round, and the largest factor by which they grow from one trial to the next."""
Run = Callable[[Task, Attempt, JudgeSettings], Plan]
Seconds = Generator[Job, Exit, float | None]


def with_cost(task: Task, attempt: Attempt, settings: JudgeSettings, *, verdict: Verdict, run: Run) -> Plan:
    """Return a verdict whose ``cpu_seconds`` is the cost of an attempt that passed, with the label ``cost``; None if it cannot be measured.

    The cost cannot be measured if the attempt does not pass each round, exceeds the elapsed time of an attempt, or takes less than ``LEAST_SECONDS``
    after ``MOST_TIMES`` repetitions. The verdict of an attempt that did not pass stays as it is.

    Args:
        task: the task with its tests.
        attempt: the attempt.
        settings: limits, and ``cost``, the number of rounds.
        verdict: the attempt's verdict.
        run: the plan that judges an attempt once.
    """
    if not settings.cost or verdict.status is not Status.PASSED:
        return verdict
    plain, times = replace(settings, lines=False), 1
    seconds = yield from one_round(task, attempt, plain, times, run=run)
    while seconds is not None and seconds < LEAST_SECONDS and times < MOST_TIMES:
        enough = LEAST_SECONDS * times / max(seconds, 1e-9)
        times = min(next(2**n for n in range(64) if 2**n >= min(enough, GROWTH * times) and 2**n > times), MOST_TIMES)
        seconds = yield from one_round(task, attempt, plain, times, run=run)
    if seconds is None or seconds < LEAST_SECONDS:
        return replace(verdict, cpu_seconds=None)
    for _ in range(settings.cost - 1):
        another = yield from one_round(task, attempt, plain, times, run=run)
        if another is None:
            return replace(verdict, cpu_seconds=None)
        seconds = min(seconds, another)
    return replace(verdict, cpu_seconds=seconds / times, isolation=f"{verdict.isolation},cost".lstrip(","))


def one_round(task: Task, attempt: Attempt, settings: JudgeSettings, times: int, *, run: Run) -> Seconds:
    """Return the processor time of judging an attempt ``times`` times, seconds; None if it does not pass.

    Tests that only the attempt's process evaluates are repeated there, each time with a freshly loaded program, so that a cache of results gains
    nothing. Other Python programs are judged ``times`` times. Programs in other languages are built once and run ``times`` times on each test.
    """
    if attempt.language not in PYTHON:
        verdict = yield from run(replace(task, tests=task.tests * times), attempt, settings)
        return verdict.cpu_seconds if verdict.status is Status.PASSED else None
    seconds = elapsed = 0.0
    done = 0
    while done < times:
        verdict, inside = yield from repeated(run(task, attempt, settings), attempt, times - 1)
        elapsed += verdict.wall_seconds or 0.0
        if verdict.status is not Status.PASSED or inside is None or elapsed > settings.limits.wall_seconds:
            return None
        seconds += verdict.cpu_seconds or 0.0
        done += times if inside else 1
    return seconds


def repeated(plan: Plan, attempt: Attempt, again: int) -> Generator[Job, Exit, tuple[Verdict, bool | None]]:
    """Run a plan, and evaluate its tests ``again`` if they run in the attempt's process. Returns whether they were repeated; None if a test failed."""
    inside: bool | None = False
    try:
        job = next(plan)
        while True:
            own = job.tester is None and job.attempt.get("kind") == "tests" and job.attempt["code"] == attempt.code
            try:
                end = yield replace(job, attempt={**job.attempt, "again": again}) if own else job
            except Exception as error:
                job = plan.throw(error)
            else:
                if own:
                    inside = True if any("done" in record for record in end.reports) else None
                job = plan.send(end)
    except StopIteration as done:
        return done.value, inside
