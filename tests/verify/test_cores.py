"""How many workers fit, and verdicts on a machine that is busy with something else."""

import math
import os
import subprocess
import sys
import time

import pytest

from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify import cores
from upsolve.verify.judge.plans import judge
from upsolve.verify.limits import Judging, Limits
from upsolve.verify.pool.pool import worker_count


def test_workers_are_as_many_as_the_cores_that_may_be_used():
    assert worker_count(Judging()) == cores.usable_cores()
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert worker_count(Judging()) == 1
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, math.inf),
        ({"cpu.cfs_quota_us": "50000\n", "cpu.cfs_period_us": "100000\n"}, 0.5),
        ({"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"}, math.inf),
        ({}, math.inf),
    ],
)
def test_the_quota_of_a_group(tmp_path, monkeypatch, files, wanted):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert cores.quota(tmp_path) == wanted
    monkeypatch.setattr(cores, "own_group", lambda _: tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    assert cores.usable_cores() == {1.5: 2, 0.5: 1, math.inf: 4}[wanted]


@pytest.fixture
def one_busy_core():
    """Run on one core, with three processes that use all they get of it."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    yield
    for other in others:
        other.kill()
        other.wait()
    os.sched_setaffinity(0, before)


BUSY = "import time\ndef f():\n    while time.process_time() < 0.6: pass\n    return 1\n"
LIMITS = Judging(Limits(wall_seconds=1.0, cpu_seconds=2))


@pytest.mark.usefixtures("one_busy_core")
@pytest.mark.parametrize(
    "test",
    [TestCase(TestKind.CALL, "f()", "1"), TestCase(TestKind.CODE, "assert f() == 1"), TestCase(TestKind.STDIO, "", "1\n")],
)
def test_a_busy_machine_makes_no_timeout(test):
    code = BUSY
    if test.kind is TestKind.STDIO:  # two processes, within one limit
        code = BUSY.replace("0.6", "0.4") + "print(f())\n"
    assert judge(Task("t", "", (test, test), "f"), Attempt("t", code), LIMITS).status is Status.PASSED


@pytest.mark.usefixtures("one_busy_core")
def test_a_time_limit_of_one_test_waits_for_its_core_too():
    how = Judging(Limits(wall_seconds=8.0, cpu_seconds=2, test_seconds=0.9))
    assert judge(Task("t", "", (TestCase(TestKind.CALL, "f()", "1"),), "f"), Attempt("t", BUSY), how).status is Status.PASSED


@pytest.mark.usefixtures("one_busy_core")
def test_what_sleeps_is_not_judged_again():
    started = time.monotonic()
    sleeper = Attempt("t", "import time\ndef f():\n    time.sleep(60)\n")
    assert judge(Task("t", "", (TestCase(TestKind.CALL, "f()", "1"),), "f"), sleeper, LIMITS).status is Status.TIMEOUT
    assert time.monotonic() - started < 5
