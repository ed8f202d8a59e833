# pyright: basic
"""Cores and memory that may be used, and verdicts on a machine that is busy with something else."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify import resources
from upsolve.verify.judge.plans import judge
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.pool.cache import lasting
from upsolve.verify.pool.pool import worker_count
from upsolve.verify.sandbox import runner


def test_workers_are_as_many_as_the_cores_that_may_be_used():
    assert worker_count(JudgeSettings()) == resources.usable_cores()
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert worker_count(JudgeSettings()) == 1
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
    assert resources.quota(tmp_path) == wanted
    monkeypatch.setattr(resources, "control_groups", lambda _: [tmp_path / "job", tmp_path])
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    assert resources.usable_cores() == {1.5: 2, 0.5: 1, math.inf: 4}[wanted]


V1 = {"memory.limit_in_bytes": "3000\n", "memory.usage_in_bytes": "1000\n", "memory.stat": "total_inactive_file 10\n"}


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({"memory.max": "2000\n", "memory.current": "1500\n", "memory.stat": "file 900\ninactive_file 400\n"}, 900),
        ({"memory.max": "2000\n", "memory.current": "2500\n"}, 0),
        ({"memory.max": "max\n", "memory.current": "1500\n"}, 10 * 1024),
        (V1, 2010),
        ({}, 10 * 1024),
    ],
)
def test_free_memory_is_that_of_the_group(tmp_path, monkeypatch, files, wanted):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found = resources.figure_in
    monkeypatch.setattr(resources, "figure_in", lambda file, name: 10 if name == "MemAvailable:" else found(file, name))
    monkeypatch.setattr(resources, "control_groups", lambda _: [tmp_path / "job", tmp_path])
    assert resources.usable_memory() == wanted


def test_the_groups_of_a_process_are_its_own_and_those_above(tmp_path, monkeypatch):
    monkeypatch.setattr(resources, "GROUPS", tmp_path)
    own = Path("/proc/self/cgroup").read_text()
    found = resources.control_groups("none")
    unified = next((line.split(":", 2)[2] for line in own.splitlines() if line.startswith("0::")), "/")
    assert found[0] == tmp_path / unified.lstrip("/") and found[-1] == tmp_path
    assert found == sorted(found, reverse=True)


@pytest.fixture
def one_busy_core(monkeypatch):
    """Run on one core, with seven processes that use all they get of it."""
    monkeypatch.setattr(resources, "LONGEST_RUN", 100.0)  # with still more processes on the core, they wait for longer
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    spin = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(spin, start_new_session=True) for _ in range(7)]  # the kernel may share cores by session
    yield
    for other in others:
        other.kill()
        other.wait()
    os.sched_setaffinity(0, before)


BUSY = "import time\ndef f():\n    while time.process_time() < 0.2: pass\n    return 1\n"
LIMITS = JudgeSettings(Limits(wall_seconds=0.8, cpu_seconds=2))
"""Four times the processor time of ``BUSY``, and half of the time that an eighth of a core takes for it."""


@pytest.mark.usefixtures("one_busy_core")
@pytest.mark.parametrize(
    "test",
    [
        TestCase(TestKind.CALL, "f()", "1"),
        pytest.param(TestCase(TestKind.CODE, "assert f() == 1"), marks=pytest.mark.slow),
        TestCase(TestKind.STDIO, "", "1\n"),
    ],
)
def test_a_busy_machine_makes_no_timeout(test):
    code = BUSY
    if test.kind is TestKind.STDIO:  # two processes, within one limit
        code = BUSY.replace("0.2", "0.1") + "print(f())\n"
    assert judge(Task("t", "", (test, test), "f"), Attempt("t", code), LIMITS).status is Status.PASSED


@pytest.mark.usefixtures("one_busy_core")
def test_a_time_limit_of_one_test_waits_for_its_core_too():
    settings = JudgeSettings(Limits(wall_seconds=30, cpu_seconds=2, test_seconds=0.8))
    assert (
        judge(Task("t", "", (TestCase(TestKind.CALL, "f()", "1"),), "f"), Attempt("t", BUSY), settings).status is Status.PASSED
    )


@pytest.mark.usefixtures("one_busy_core")
def test_the_limit_of_processor_time_is_exact_on_a_busy_core():
    """RLIMIT_CPU counts ticks, and whole seconds."""
    task = Task("t", "", (TestCase(TestKind.CALL, "f()", "1"),), "f")
    loop = Attempt("t", "def f():\n    while True: pass\n")
    found = judge(task, loop, JudgeSettings(Limits(wall_seconds=30, cpu_seconds=0.25)))
    assert found.status is Status.TIMEOUT and 0.25 <= (found.cpu_seconds or 0) < 0.45 and lasting(found), found


@pytest.mark.usefixtures("one_busy_core")
def test_what_sleeps_is_not_judged_again(monkeypatch):
    monkeypatch.setattr(runner, "run_again", lambda *_: pytest.fail("run again"))
    sleeper = Attempt("t", "import time\ndef f():\n    time.sleep(60)\n")
    assert judge(Task("t", "", (TestCase(TestKind.CALL, "f()", "1"),), "f"), sleeper, LIMITS).status is Status.TIMEOUT
