# pyright: basic
"""The warm server: attempts do not affect each other, and a broken server is replaced."""

import os
import signal
import socket
import tempfile
import threading
from pathlib import Path

import pytest

from upsolve.errors import IsolationError, JudgeError
from upsolve.languages import Language
from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.judge.plans import judge, judge_all
from upsolve.verify.judge.programs import run_job
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.sandbox import runner as sandbox
from upsolve.verify.sandbox.cgroup import ControlGroup
from upsolve.verify.sandbox.process import Server

LIMITS = JudgeSettings(Limits(wall_seconds=5, cpu_seconds=2))
PATIENT = JudgeSettings(Limits(wall_seconds=60, cpu_seconds=2))

LITTER = """
import builtins, ctypes, fcntl, locale, math, os, random, subprocess, sys
for handle in (1, 2, 3):
    fcntl.fcntl(handle, fcntl.F_SETFL, os.O_APPEND | os.O_NONBLOCK)
open("/tmp/left", "w").write("x")
open("/dev/shm/left", "w").write("x")
os.environ["LEFT"] = "x"
os.chdir("/")
os.umask(0)
sys.setrecursionlimit(77)
random.seed(5)
math.sqrt = builtins.left = "x"
shared_memory = ctypes.CDLL(None).shmget(4242, 4096, 0o1666)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            pass
    os._exit(0)

def f():
    return shared_memory >= 0
"""

LOOK = """
import builtins, ctypes, fcntl, math, os, sys
found = [f"flags of {handle}" for handle in (1, 2, 3) if fcntl.fcntl(handle, fcntl.F_GETFL) & (os.O_APPEND | os.O_NONBLOCK)]
found += [name for name in ("/tmp/left", "/dev/shm/left") if os.path.exists(name)]
found += [name for name in ("LEFT",) if name in os.environ]
found += ["cwd"] * (os.getcwd() != "/tmp") + ["umask"] * (os.umask(0o22) == 0) + ["limit"] * (sys.getrecursionlimit() == 77)
found += ["math"] * (math.sqrt == "x") + ["builtins"] * hasattr(builtins, "left")
found += ["shared memory"] * (ctypes.CDLL(None).shmget(4242, 4096, 0) >= 0)
found += ["process"] * (os.path.isdir("/proc/1") or os.path.isdir("/proc/self"))

def f():
    return found
"""


SUM = Task("t", "", (TestCase(TestKind.CALL, "f()", "1"),), "f")
PROGRAM = Task("t", "", (TestCase(TestKind.STDIO, "a\n", "a\n"),))
LOOSE = JudgeSettings(LIMITS.limits, "best_effort")


def run(code, expected, fresh=False):
    if fresh:
        sandbox.forget_server()
    return judge(Task("t", "", (TestCase(TestKind.CALL, "f()", expected),), "f"), Attempt("t", code), LIMITS)


def test_an_attempt_leaves_nothing_for_the_next():
    assert run(LITTER, "False").status is Status.PASSED
    after = run(LOOK, "[]")
    assert after.status is Status.PASSED, after


def test_one_server_serves_many():
    run("def f(): return 1", "1")
    first = sandbox.server().socket
    for i in range(20):
        assert run(f"def f(): return {i}", str(i)).status is Status.PASSED
    assert sandbox.server().socket is first


def children(pid, thread=None):
    return {int(p) for p in Path(f"/proc/{pid}/task/{thread or pid}/children").read_text().split()}


def mine():
    return children(os.getpid(), threading.get_native_id())


def in_a_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_a_killed_server_is_replaced_and_the_attempt_judged():
    def work():
        run("def f(): return 1", "1")
        killed.extend(inner for pid in mine() for inner in children(pid))
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        outcome.append(run("def f(): return 2", "2").status)

    killed, outcome = [], []
    in_a_thread(work)
    assert len(killed) == 1 and outcome == [Status.PASSED]


def test_servers_end_with_their_threads():
    def work():
        run("def f(): return 1", "1")
        started.extend(mine())

    started = []
    in_a_thread(work)
    assert len(started) == 1 and not Path(f"/proc/{started[0]}").exists()


@pytest.mark.slow
def test_time_is_known_even_of_what_was_killed():
    verdict = run("def f():\n    while True: pass", "1")
    assert verdict.status is Status.TIMEOUT and 1.5 < (verdict.cpu_seconds or 0) < 3.5


def test_without_namespaces_what_is_there_is_used_and_nothing_is_left(monkeypatch, tmp_path):
    def work():
        done.append(judge(SUM, Attempt("t", "def f():\n    open('x', 'w').close()\n    return 1\n"), LOOSE))
        done.append(judge(SUM, Attempt("t", "import os\ndef f():\n    return 1 - os.path.exists('x')\n"), LOOSE))
        done.append(
            judge(SUM, Attempt("t", "import colorsys\ndef f():\n    return 1\n"), LOOSE)
        )  # from the interpreter's folder
        done.append(judge(PROGRAM, Attempt("t", "cat > left; cat left", language="bash"), LOOSE))

    setup, done = Server.setup, []
    monkeypatch.setattr(Server, "setup", staticmethod(lambda profile="python": setup(profile) | {"off": ["namespaces"]}))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    tmp_path.chmod(0o777)
    in_a_thread(work)
    assert [verdict.status for verdict in done] == [Status.PASSED] * 4, done
    assert "pidns" not in done[0].isolation and list(tmp_path.iterdir()) == []
    with pytest.raises(IsolationError, match="pidns"):
        run("def f(): return 1", "1", fresh=True)
    sandbox.forget_server()


@pytest.mark.parametrize("name", ["no-such-program", "bash\0"])
def test_a_program_that_cannot_be_started_is_no_exit_code_of_the_attempt(name):
    job = run_job(Language("x", "main.sh", (name,)), {"main.sh": b""}, b"", settings=LIMITS, build=None)
    (end,) = sandbox.run_jobs([job], LIMITS)
    assert [*end.records[0]] == ["unrunnable"] and "cannot be run" in end.records[0]["unrunnable"]


def test_a_server_that_dies_for_want_of_memory_is_the_attempts_doing(monkeypatch):
    def dies(*_):
        raise JudgeError("it ended")

    monkeypatch.setattr(Server, "run", dies)
    monkeypatch.setattr(ControlGroup, "out_of_memory", lambda _: True)
    assert run("def f(): return 1", "1").status is Status.MEMORY_LIMIT


@pytest.mark.parametrize("language", ["python", "bash"])
def test_sockets_of_services_are_out_of_reach(language):
    """A socket that lies in a folder is reached by its path, whatever the network namespace and Landlock say."""
    with tempfile.TemporaryDirectory(prefix="upsolve-", dir="/var/tmp" if os.getuid() else "/var/lib") as folder:
        Path(folder).chmod(0o755)
        with socket.socket(socket.AF_UNIX) as service:
            service.bind(f"{folder}/service")
            Path(f"{folder}/service").chmod(0o777)
            service.listen()
            code = f"import socket\nprint(socket.socket(socket.AF_UNIX).connect_ex({folder + '/service'!r}))\n"
            perl = f"perl -MSocket -e 'socket S, AF_UNIX, SOCK_STREAM, 0; print connect(S, sockaddr_un(\"{folder}/service\")) ? 0 : $!+0'"
            task = Task("t", "", (TestCase(TestKind.STDIO, "", "2\n"),))
            verdict = judge(task, Attempt("t", code if language == "python" else perl, language), LIMITS)
            assert (verdict.status, verdict.stdout_head.strip()) == (Status.PASSED, "2")


def test_priorities_of_others_stay_as_they_are():
    code = """
import os
def attempted(which):
    try:
        os.setpriority(which, 0, 19)
    except PermissionError:
        return "refused"
    return "done"
def f():
    return [attempted(which) for which in (os.PRIO_USER, os.PRIO_PGRP, os.PRIO_PROCESS)]
"""
    verdict = run(code, "['refused', 'refused', 'done']")
    assert verdict.status is Status.PASSED, verdict.error_message


BURN = "import os, time\nif os.fork() == 0:\n    if os.fork() == 0:\n        while time.process_time() < {seconds}: pass\n        open('/tmp/done', 'w').close()\n    os._exit(0)\n"


@pytest.mark.parametrize("test", [TestCase(TestKind.CALL, "f()", "1"), TestCase(TestKind.CODE, "assert f() == 1")])
def test_processor_time_of_orphans_is_counted(test):
    wait = "def f():\n    for _ in range(2000):\n        if not os.path.exists('/tmp/done'): time.sleep(0.01)\n    return 1\n"
    verdict = judge(Task("t", "", (test,), "f"), Attempt("t", BURN.format(seconds=0.5) + wait), PATIENT)
    assert verdict.status is Status.PASSED and 0.45 < verdict.cpu_seconds < 1


def test_processor_time_of_orphans_counts():
    task = Task("t", "", (TestCase(TestKind.STDIO, "", ""),))
    settings = JudgeSettings(Limits(wall_seconds=60, cpu_seconds=0.4))
    wait = "for _ in range(2000):\n    if not os.path.exists('/tmp/done'): time.sleep(0.01)\n"
    assert judge(task, Attempt("t", BURN.format(seconds=0.6) + wait), settings).status is Status.TIMEOUT


@pytest.mark.skipif(not ControlGroup().active, reason="no control groups here")
def test_an_attempt_without_memory_does_not_take_its_neighbours_along():
    """The kernel counts kills by group: a neighbour that killed itself is no memory hog."""
    hog = "import os, time\ndef f():\n    if os.fork() == 0:\n        b = bytearray(200 << 20)\n        open('/tmp/full', 'w').close()\n        time.sleep(99)\n    while not os.path.exists('/tmp/full'): time.sleep(0.01)\n    b = bytearray(350 << 20)\n    return 1\n"
    suicide = "import os\ndef f():\n    os.kill(os.getpid(), 9)\n"
    codes = [suicide, hog, suicide + "# 2", "def f(): return 1"]
    settings = JudgeSettings(Limits(wall_seconds=60, cpu_seconds=5, memory_bytes=400 << 20))
    verdicts = judge_all([(SUM, Attempt("t", code)) for code in codes], settings)
    assert [(v.status.value, v.error_type) for v in verdicts] == [
        ("runtime_error", "Signal9"),
        ("memory_limit", "OutOfMemory"),
        ("runtime_error", "Signal9"),
        ("passed", ""),
    ]


@pytest.mark.skipif(not ControlGroup().active, reason="no control groups here")
def test_a_child_killed_for_lack_of_memory_is_not_counted_against_the_next_attempt():
    hog = "import os, time\ndef f():\n    for _ in range(3):\n        if os.fork() == 0:\n            b = bytearray(250 << 20)\n            time.sleep(0.3)\n            os._exit(0)\n    return max(os.wait()[1] for _ in range(3))\n"
    settings = JudgeSettings(Limits(wall_seconds=5, cpu_seconds=2, memory_bytes=400 << 20))
    assert judge(SUM, Attempt("t", hog), settings).status is Status.FAILED  # its child was killed: it returns 9
    after = judge(SUM, Attempt("t", "import os\ndef f():\n    os.kill(os.getpid(), 9)\n"), settings)
    assert (after.status, after.error_type) == (Status.RUNTIME_ERROR, "Signal9")
