"""The warm server: nothing of an attempt reaches the next one, and a broken server is replaced."""

import os
import signal
import socket
import tempfile
import threading
from pathlib import Path

import pytest

from upsolve.errors import IsolationError, JudgeError
from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.judge.plans import judge
from upsolve.verify.limits import Judging, Limits
from upsolve.verify.sandbox import runner as sandbox
from upsolve.verify.sandbox.cgroup import ControlGroup
from upsolve.verify.sandbox.process import Server

LIMITS = Judging(Limits(wall_seconds=5, cpu_seconds=2))

LITTER = """
import builtins, ctypes, locale, math, os, random, subprocess, sys
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
import builtins, ctypes, math, os, sys
found = [name for name in ("/tmp/left", "/dev/shm/left") if os.path.exists(name)]
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
LOOSE = Judging(LIMITS.limits, "best_effort")


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


def test_time_is_known_even_of_what_was_killed():
    verdict = run("def f():\n    while True: pass", "1")
    assert verdict.status is Status.TIMEOUT and 1.5 < verdict.cpu_seconds < 3.5


def test_without_namespaces_what_is_there_is_used_and_nothing_is_left(monkeypatch, tmp_path):
    def work():
        done.append(judge(SUM, Attempt("t", "def f():\n    open('x', 'w').close()\n    return 1\n"), LOOSE))
        done.append(judge(SUM, Attempt("t", "import os\ndef f():\n    return 1 - os.path.exists('x')\n"), LOOSE))
        done.append(judge(PROGRAM, Attempt("t", "cat > left; cat left", language="bash"), LOOSE))

    setup, done = Server.setup, []
    monkeypatch.setattr(Server, "setup", staticmethod(lambda profile="python": setup(profile) | {"off": ["namespaces"]}))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    tmp_path.chmod(0o777)
    in_a_thread(work)
    assert [verdict.status for verdict in done] == [Status.PASSED] * 3, done
    assert "pidns" not in done[0].isolation and list(tmp_path.iterdir()) == []
    with pytest.raises(IsolationError, match="pidns"):
        run("def f(): return 1", "1", fresh=True)
    sandbox.forget_server()


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
