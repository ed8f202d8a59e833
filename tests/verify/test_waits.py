# pyright: basic
"""The deadline of an attempt moves by the time for which it waits for a core, within bounds."""

import os
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify import resources
from upsolve.verify.judge.plans import judge
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.resources import LONGEST_RUN, CoreWaits, Thread
from upsolve.verify.sandbox import runner
from upsolve.verify.sandbox.process import Job

UNBOUNDED = 200.0
KINDS = [TestCase(TestKind.CALL, "f()", "1"), TestCase(TestKind.CODE, "assert f() == 1"), TestCase(TestKind.STDIO, "", "1\n")]
OWN = Path("/proc/thread-self")
known = pytest.mark.skipif(
    not ((OWN / "schedstat").exists() and (OWN / "children").exists()), reason="no scheduler statistics here"
)


@contextmanager
def starved(busy=8, nicer=5):
    """Run this thread's servers at a low priority on a core that they share with busy processes: they get about 4% of it."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    runner.forget_server()
    spin = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(spin, start_new_session=True) for _ in range(busy)]  # the kernel may share cores by session
    lower_priority(runner.server().process.pid, nicer)
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()
        os.sched_setaffinity(0, before)
        runner.forget_server()


def lower_priority(launcher, nicer):
    """Lower the priority of a server, and of its session where the kernel shares cores by session."""
    server = next(resources.children_of(resources.PROC / f"{launcher}/task/{launcher}"))
    os.setpriority(os.PRIO_PROCESS, server, min(19, os.getpriority(os.PRIO_PROCESS, 0) + nicer))
    with suppress(OSError):
        Path(f"/proc/{server}/autogroup").write_text(str(nicer))


def judged(test, code, limits):
    program = f"{code}print(f())\n" if test.kind is TestKind.STDIO else code
    return judge(Task("t", "", (test,), "f"), Attempt("t", program), JudgeSettings(limits))


@pytest.fixture
def no_longest_run(monkeypatch):
    """Let runs wait for their core as long as they have to: a thousandth of a busy core still passes these tests."""
    monkeypatch.setattr(resources, "LONGEST_RUN", UNBOUNDED)


@known
@pytest.mark.usefixtures("no_longest_run")
@pytest.mark.parametrize("test", [KINDS[0], *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[1:])])
def test_an_attempt_that_gets_next_to_no_core_has_the_time_of_an_idle_machine(test):
    code = "import time\ndef f():\n    while time.process_time() < 0.015: pass\n    return 1\n"
    with starved():
        verdict = judged(test, code, Limits(wall_seconds=1, cpu_seconds=1))
    assert verdict.status is Status.PASSED, verdict


@known
@pytest.mark.usefixtures("no_longest_run")
def test_an_attempt_without_a_core_is_not_stopped_between_its_output_and_its_value():
    """The verdict must not be ``output_limit`` if a wrong value came first."""
    code = "import time\ndef f():\n    print('x' * (3 << 20), flush=True)\n    while time.process_time() < 0.02: pass\n    return 0\n"
    with starved():
        verdict = judged(KINDS[0], code, Limits(wall_seconds=0.4, cpu_seconds=1))
    assert verdict.status is Status.FAILED, verdict


@known
@pytest.mark.usefixtures("no_longest_run")
def test_an_attempt_that_sleeps_gets_no_more_time_on_a_busy_core():
    with starved(nicer=0):
        verdict = judged(KINDS[0], "import time\ndef f():\n    time.sleep(600)\n", Limits(wall_seconds=0.5, cpu_seconds=1))
    assert verdict.status is Status.TIMEOUT and (verdict.wall_seconds or 99) < 0.3 * UNBOUNDED * 0.5


@known
@pytest.mark.usefixtures("no_longest_run")
@pytest.mark.parametrize(
    "start", ["if os.fork() == 0: break", pytest.param("threading.Thread(target=spin).start()", marks=pytest.mark.slow)]
)
def test_an_attempt_does_not_prolong_its_run_by_keeping_itself_from_a_core(start):
    code = f"import os, threading\ndef spin():\n    while True: pass\ndef f():\n    for _ in range(20):\n        {start}\n    spin()\n"
    verdict = judged(KINDS[0], code, Limits(wall_seconds=0.5, cpu_seconds=1))
    assert verdict.status is Status.TIMEOUT
    assert (verdict.cpu_seconds or 99) < 10 and (verdict.wall_seconds or 99) < 0.3 * UNBOUNDED * 0.5


@known
def test_a_repeated_run_is_not_extended():
    """Ten times the limit and then eight times the limit are the longest that an attempt can take."""
    job = Job(
        {"kind": "program", "code": "while True: pass", "setup": "", "stdin": b"", "lines": False}, None, 0.2, waits=False
    )
    with starved(busy=2, nicer=0):
        (end,) = runner.run_part(runner.server(), [job], Limits())
    assert end.timed_out and end.waited_seconds == 0 and end.wall_seconds < LONGEST_RUN * 0.2 * 5


def process(proc, pid, threads, children=()):
    """Write the files of a process: a thread is (nanoseconds on a core, nanoseconds waited, time slices, state)."""
    for number, (*numbers, state) in enumerate(threads):
        folder = proc / f"{pid}/task/{pid + number}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "schedstat").write_text(" ".join(map(str, numbers)))
        (folder / "stat").write_text(f"{pid} (a) b) {state} 1 2 3")
        (folder / "children").write_text(" ".join(map(str, children if number == 0 else ())))


@pytest.fixture
def core_waits(tmp_path, monkeypatch):
    """The waits of server 20 below launcher 10."""
    monkeypatch.setattr(resources, "PROC", tmp_path)
    process(tmp_path, 10, [(1, 1, 1, "S")], [20])
    process(tmp_path, 20, [(1, 5_000_000_000, 9, "S")], [30])
    found = CoreWaits(10)
    found.begin()
    return found


SECOND = 10**9


@pytest.mark.parametrize(
    ("threads", "waited", "more"),
    [
        ([(SECOND, 0, 5, "S")], 0.0, 0.0),  # it slept
        ([(SECOND // 2, SECOND // 2, 5, "S")], 0.5, 0.5),
        ([(SECOND // 2, SECOND // 4, 5, "S"), (0, SECOND // 2, 5, "S")], 0.75, 0.75),
        ([(0, 0, 0, "R")], 0.0, resources.STEP_SECONDS),  # it waits for its first time slice
        ([(SECOND, 9 * SECOND, 9, "S")], 1.0, 1.0),  # threads that waited at the same time
        ([(3 * SECOND, SECOND, 9, "R")], 1.0, 0.0),  # no CPU time left
    ],
)
def test_how_far_a_deadline_moves(core_waits, tmp_path, threads, waited, more):
    process(tmp_path, 30, threads)
    assert core_waits.measure(1.0, 1.0, 2.0) == pytest.approx((waited, more))


def test_waits_of_the_server_and_of_child_processes_count(core_waits, tmp_path):
    process(tmp_path, 20, [(1, 5_250_000_000, 10, "S")], [30])
    process(tmp_path, 30, [(0, SECOND // 4, 1, "S")], [40, 50])
    process(tmp_path, 40, [(0, SECOND // 4, 1, "Z")])
    assert core_waits.measure(1.0, 1.0, 2.0) == pytest.approx((0.75, 0.75))


def test_a_deadline_never_moves_beyond_the_longest_run(core_waits, tmp_path):
    process(tmp_path, 30, [(0, 100 * SECOND, 9, "R")])
    assert core_waits.measure(LONGEST_RUN - 0.1, 1.0, 2.0) == pytest.approx((LONGEST_RUN - 0.1, 0.1))
    assert core_waits.measure(LONGEST_RUN, 1.0, 2.0)[1] == 0


def test_a_thread_that_runs_is_not_waiting(core_waits, monkeypatch):
    threads = iter([{"30": Thread(SECOND, 0, 5, True)}, {"30": Thread(SECOND + 20_000_000, 0, 5, True)}])
    monkeypatch.setattr(core_waits, "look", lambda: next(threads))
    assert core_waits.measure(1.0, 1.0, 2.0) == (0.0, 0.0)


def test_a_wait_that_ends_during_the_pause_counts(core_waits, monkeypatch):
    """Runnable since it was forked, then 10 ms on a core after a wait of 0.9 s: 0.12 of 1 s are used up."""
    threads = iter([{"30": Thread(0, 0, 0, True)}, {"30": Thread(SECOND // 100, 9 * SECOND // 10, 1, True)}])
    monkeypatch.setattr(core_waits, "look", lambda: next(threads))
    assert core_waits.measure(1.0, 1.0, 2.0) == pytest.approx((0.9, 0.88))


def test_without_scheduler_statistics_no_deadline_moves(tmp_path, monkeypatch):
    monkeypatch.setattr(resources, "PROC", tmp_path)
    assert not CoreWaits(10).known
    process(tmp_path, 10, [(1, 1, 1, "S")], [20])
    process(tmp_path, 20, [(0, 0, 0, "S")], [30])  # a kernel without CONFIG_SCHED_INFO
    found = CoreWaits(10)
    assert not found.known and found.measure(1.0, 1.0, 2.0) == (0.0, 0.0)


def test_a_process_that_ended_since_it_was_listed_is_left_out(core_waits):
    assert core_waits.look() == {}
