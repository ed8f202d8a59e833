"""Limits that tasks state."""

# pyright: basic
import math
from dataclasses import replace

import pytest

from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.judge.outcomes import function_outcomes, verdict
from upsolve.verify.judge.plans import judge, judge_all
from upsolve.verify.judge.programs import within_budget
from upsolve.verify.limits import JudgeSettings, Limits, limits_for
from upsolve.verify.pool.cache import key_of, lasting
from upsolve.verify.sandbox import runner
from upsolve.verify.sandbox.process import Job
from upsolve.verify.sandbox.runner import Exit, starved

BUSY = "import time\nwhile time.process_time() < {}: pass\nprint(input())\n"
TESTS = (TestCase(TestKind.STDIO, "1\n", "1\n"), TestCase(TestKind.STDIO, "2\n", "2\n"))


def test_limits_of_a_task_by_kind_of_test():
    """Factor 2 and 3 seconds: 6 per test; two STDIO tests are two processes, two CALL tests are one."""
    settings = JudgeSettings(Limits(wall_seconds=10, cpu_seconds=5, memory_bytes=2**30))
    stdio = limits_for(Task("a", "", TESTS, limit_seconds=3), settings)
    assert (stdio.cpu_seconds, stdio.test_seconds, stdio.wall_seconds, stdio.memory_bytes) == (6, 13, 26, 2**30)
    calls = (TestCase(TestKind.CALL, "f(1)", "1"),) * 2
    assert limits_for(Task("a", "", calls, "f", limit_seconds=3), settings).cpu_seconds == 12
    assert limits_for(Task("a", "", TESTS, limit_seconds=0.1), settings).wall_seconds == 10


def test_memory_is_at_least_the_least():
    task = Task("a", "", TESTS, limit_bytes=64 << 20)
    assert limits_for(task, JudgeSettings()).memory_bytes == 256 << 20
    assert limits_for(Task("a", "", TESTS, limit_bytes=2**31), JudgeSettings()).memory_bytes == 2**31
    assert limits_for(task, JudgeSettings(task_limits=0)) == limits_for(Task("a", ""), JudgeSettings()) == Limits()


@pytest.mark.parametrize("limits", [{"limit_seconds": 0}, {"limit_seconds": float("nan")}, {"limit_bytes": -1}])
def test_limits_are_positive(limits):
    with pytest.raises(ValueError, match="must be positive"):
        Task("a", "", **limits)
    with pytest.raises(ValueError, match="task_limits"):
        JudgeSettings(task_limits=-1)


def test_each_task_of_a_batch_has_its_own_limits():
    """0.2 s of work: too long where the task allows 0.1 s, in time where it allows 2 s or where limits are ignored."""
    code = BUSY.format(0.2)
    short, long, none = (Task(name, "", TESTS, limit_seconds=seconds) for name, seconds in (("s", 0.05), ("l", 1), ("n", None)))
    pairs = [(task, Attempt(task.task_id, code)) for task in (short, long, none, short)]
    verdicts = judge_all(pairs, JudgeSettings(Limits(wall_seconds=30, cpu_seconds=20)))
    assert [v.status for v in verdicts] == [Status.TIMEOUT, Status.PASSED, Status.PASSED, Status.TIMEOUT]
    assert (
        judge_all(pairs[:1], JudgeSettings(Limits(wall_seconds=30, cpu_seconds=20), task_limits=0))[0].status is Status.PASSED
    )


def test_limits_are_part_of_the_key_of_a_verdict():
    attempt, settings = Attempt("a", "x"), JudgeSettings()
    keys = {key_of(Task("a", "", TESTS, limit_seconds=seconds), attempt, settings) for seconds in (None, 1, 2)}
    assert len(keys) == 3


def test_the_limit_of_output_grows_with_what_is_expected():
    long, few = "x" * 700_000, JudgeSettings(Limits(output_bytes=1000))
    assert (
        limits_for(Task("a", "", (TestCase(TestKind.STDIO, "", long), TestCase(TestKind.STDIO, "", "y"))), few).output_bytes
        == 1_400_000
    )
    assert limits_for(Task("a", "", (TestCase(TestKind.STDIO, "", "é" * 1000),)), few).output_bytes == 8000
    assert limits_for(Task("a", "", (TestCase(TestKind.STDIO, "", "[1]\n"),) * 500, compare="rows"), few).output_bytes == 4000
    assert limits_for(Task("a", "", (TestCase(TestKind.CALL, "f()", "1"),) * 9, "f"), few).output_bytes == 1000


@pytest.mark.parametrize(
    ("test", "code", "status"),
    [
        (TestCase(TestKind.STDIO, "", "0123456789\n" * 150_000), "for _ in range(150_000): print('0123456789')", Status.PASSED),
        (TestCase(TestKind.STDIO, "", "0123456789\n" * 150_000), "while True: print('0123456789')", Status.OUTPUT_LIMIT),
        (TestCase(TestKind.CALL, "f()", repr("x" * 20_000_000)), "def f(): return 'x' * 20_000_000", Status.PASSED),
        (TestCase(TestKind.CALL, "f()", repr("x" * 20_000_000)), "def f(): return 'x' * 80_000_000", Status.OUTPUT_LIMIT),
    ],
)
def test_long_outputs_pass_where_they_are_expected(test, code, status):
    assert judge(Task("a", "", (test,), "f"), Attempt("a", code)).status is status


def numbered(count, kind=TestKind.STDIO):
    return tuple(TestCase(kind, f"{number}\n", f"{number}\n") for number in range(count))


def test_many_tests_have_the_limits_for_every_ten_and_each_the_limits_of_one():
    few = JudgeSettings(Limits(wall_seconds=3, cpu_seconds=2))

    def said(*, settings=few, **fields):
        limits = limits_for(Task("a", "", **fields), settings)
        return limits.wall_seconds, limits.cpu_seconds, limits.test_seconds, limits.stops

    calls = {"tests": numbered(25, TestKind.CALL), "entry_point": "f"}
    assert said(tests=numbered(10)) == (3, 2, float("inf"), False)
    assert said(tests=numbered(25)) == (7.5, 2, 3, True)
    assert said(**calls) == (7.5, 5, 3, True) and limits_for(Task("a", "", **calls), few).test_cpu_seconds == 2
    assert said(tests=numbered(100), limit_seconds=0.25) == (100 * 2, 0.5, 2, False), "what the task states, for each test"
    own = JudgeSettings(Limits(wall_seconds=3, cpu_seconds=2, test_seconds=1), task_limits=0)
    assert said(settings=own, **calls) == (7.5, 5, 1, False), "after a test that exceeds the user's own limit, others run"


@pytest.mark.slow
@pytest.mark.parametrize("kind", [TestKind.CALL, pytest.param(TestKind.CODE, marks=pytest.mark.slow)])
def test_many_calls_do_not_time_out_together(kind):
    texts = (f"f({n})" if kind is TestKind.CALL else f"assert f({n}) == {n}" for n in range(40))
    tests = tuple(TestCase(kind, text, str(n)) for n, text in enumerate(texts))
    task, settings = Task("a", "", tests, "f"), JudgeSettings(Limits(wall_seconds=2, cpu_seconds=1))
    busy = "import time\ndef f(n):\n    end = time.process_time() + 0.03\n    while time.process_time() < end: pass\n    return n\n"
    honest = judge(task, Attempt("a", busy), settings)
    assert (honest.status, honest.passed) == (Status.PASSED, 40) and honest.cpu_seconds > 1.1, honest
    loads, calls = "while True: pass\n", "def f(n):\n    while n == 3: pass\n    return n\n"
    for code, passed in ((loads, 0), (calls, 3)):
        found = judge(task, Attempt("a", code), settings)
        assert (found.status, found.passed) == (Status.TIMEOUT, passed), found
        assert kind is TestKind.CODE or found.cpu_seconds < 1.9, found


PROGRAM = "import time\nn = int(input())\nif n == 9: {}\nwhile time.process_time() < 0.05: pass\nprint(n)\n"
FUNCTION = "import time\ndef f(n):\n    if n == 9: {}\n    end = time.process_time() + 0.05\n    while time.process_time() < end: pass\n    return n\n"
SPIN, SLEEP = "any(iter(int, 1))", "time.sleep(60)"


@pytest.mark.parametrize(
    ("code", "test_seconds", "lasts"),
    [
        (PROGRAM.format(SLEEP), 0.3, False),
        pytest.param(FUNCTION.format(SLEEP), 0.3, False, marks=pytest.mark.slow),
        pytest.param(PROGRAM.format(SPIN), math.inf, True, marks=pytest.mark.slow),
        (FUNCTION.format(SPIN), math.inf, True),
    ],
)
def test_a_timeout_lasts_if_the_late_test_used_the_processor(code, test_seconds, lasts):
    """The tests together use more processor time than one may: a timeout by sleeping is not reproducible nevertheless."""
    settings = JudgeSettings(Limits(wall_seconds=4, cpu_seconds=0.9, test_seconds=test_seconds))
    calls = tuple(TestCase(TestKind.CALL, f"f({n})", str(n)) for n in range(10))
    found = judge(Task("a", "", calls if "def f" in code else numbered(10), "f"), Attempt("a", code), settings)
    assert found.outcomes[9] is Status.TIMEOUT and found.cpu_seconds > 0.27, found
    assert lasting(found) is lasts, found


def test_a_timer_of_processor_time_that_rings_early_ends_no_test():
    """The timer counts ticks. Eleven tests have a limit of processor time each."""
    tests = tuple(TestCase(TestKind.CALL, f"f({n})", str(n)) for n in range(11))
    rings = "import os, signal\ndef f(n):\n    os.kill(os.getpid(), signal.SIGPROF)\n    return n\n"
    assert judge(Task("a", "", tests, "f"), Attempt("a", rings)).status is Status.PASSED


@pytest.mark.parametrize(("busy", "lasts"), [([True], True), ([True, False], False), ([True, True], True)])
def test_each_late_test_must_have_used_the_processor(busy, lasts):
    """The clock of a test does not stop while the test waits for a core."""
    lines = "".join(f'{{"test": {n}, "timeout": true, "busy": {str(used).lower()}}}\n' for n, used in enumerate(busy))
    end = Exit(0, 0, False, False, 1.0, 0.5, 1, lines.encode(), b"", b"", False, ())
    task = Task("a", "", numbered(len(busy), TestKind.CALL), "f")
    found = verdict(task, Attempt("a", ""), function_outcomes(task, end, ""), ends=[end])
    assert found.status is Status.TIMEOUT and lasting(found) is lasts


def test_what_an_attempt_writes_does_not_buy_a_second_run():
    line = b'{"test": 0, "timeout": true}\n'
    job, end = (
        Job({"kind": "tests", "test_seconds": 2.0}),
        Exit(0, 0, False, False, 1.0, 0.5, 1, line, b"", b"", False, (), 0.0, True),
    )
    assert not starved(job, end) and starved(job, replace(end, wall_seconds=2.0, cpu_seconds=1.0))
    assert not starved(Job({"kind": "tests", "test_seconds": 0}), end)


def test_a_repeated_run_has_the_files_that_were_built(monkeypatch):
    """The first run removes the program: the repetition does not run what the first one left."""
    monkeypatch.setattr(runner, "starved", lambda *_: True)
    assert judge(Task("a", "", TESTS[:1]), Attempt("a", "cat; rm main.sh", "bash")).status is Status.PASSED


@pytest.mark.parametrize(("cpu_seconds", "again"), [(0.03, False), (0.04, True), (0.74, True), (0.76, False), (1.0, False)])
def test_a_late_run_is_repeated_if_it_used_a_thirtysecond_to_three_quarters_of_its_time(cpu_seconds, again):
    end = Exit(None, 9, True, False, 1.5, cpu_seconds, 1, b"", b"", b"", False, (), waited_seconds=0.5, contended=True)
    assert starved(Job({}), end) is again
    assert not starved(Job({}), replace(end, contended=False)) and not starved(Job({}), replace(end, timed_out=False))


@pytest.mark.slow
def test_many_tests_do_not_time_out_together():
    task, settings = Task("a", "", numbered(50)), JudgeSettings(Limits(wall_seconds=1))
    honest = judge(task, Attempt("a", "import time\ntime.sleep(0.04)\nprint(input())\n"), settings)
    assert (honest.status, honest.passed) == (Status.PASSED, 50) and honest.wall_seconds > 1.5, honest
    sleeps = judge(task, Attempt("a", "import time\ntime.sleep(60)\n"), settings)
    assert sleeps.status is Status.TIMEOUT and sleeps.wall_seconds < 3, "one run, within the limit of one"
    late = judge(task, Attempt("a", BUSY.format(0.4)), settings)
    assert late.status is Status.TIMEOUT and late.passed < 15, late


def test_the_time_of_all_tests_may_end_between_two():
    """A run that passes may end with the time of all: the next test is a timeout, since it has none left."""
    task = Task("a", "", numbered(4))
    plan = within_budget(task, [Job({}) for _ in task.tests], JudgeSettings(Limits(wall_seconds=10)))
    next(plan)
    for number, seconds in enumerate((4.0, 6.1)):
        done = b'{"done": true}\n'
        end = Exit(0, 0, False, False, seconds, seconds, 1, done, f"{number}\n".encode(), b"", False, ())
        try:
            plan.send(end)
        except StopIteration as ended:
            (outcomes, errors), _, _ = ended.value
    assert outcomes == [Status.PASSED, Status.PASSED, Status.TIMEOUT, Status.UNSCORED]
    assert errors == [["Timeout", "exceeded the time limit of all tests", None]]
