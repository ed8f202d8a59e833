"""The attacks of tests/attacks, and what must come of them. Standard library and upsolve.verify only: run as another user, too."""

import tomllib
from pathlib import Path

from upsolve.types import Attempt, Task, TestCase, TestKind
from upsolve.verify import sandbox
from upsolve.verify.judge import judge
from upsolve.verify.limits import Judging, Limits

ATTACKS = sorted(path for path in (Path(__file__).parents[1] / "attacks").iterdir() if path.is_dir())
HOW = Judging(Limits(wall_seconds=4, cpu_seconds=1))
KINDS = {
    "call": (TestCase(TestKind.CALL, "f(20)", "6765"), TestCase(TestKind.CALL, "f(7)", "13")),
    "code": (
        TestCase(TestKind.CODE, "assert f(20) == 6765"),
        TestCase(TestKind.CODE, "x = [f(7)]\nassert x == [13] and abs(x[0]) == 13"),
    ),
    "stdio": (TestCase(TestKind.STDIO, "20\n7\n", "6765\n13\n"),),
}
CONTROL = Attempt("attack", "def f(n):\n    a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n    return a\n")


def task_of(case):
    return Task("attack", "", KINDS[case.get("kind", "call")], "f")


def traces():
    """Return what an attempt could leave on this machine: processes, temporary files, mounts."""
    inside = {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}
    return {path.name for path in Path("/tmp").iterdir() if "pytest" not in path.name}, inside


def wrong(folder):
    """Judge one attack, then an honest attempt; return what is not as it must be."""
    case = tomllib.loads((folder / "case.toml").read_text())
    files, mounts = traces()
    verdict = judge(task_of(case), Attempt("attack", (folder / "attempt.py").read_text()), HOW)
    after = judge(task_of({}), CONTROL, HOW)
    found = [] if verdict.status.value in case["status"] else [f"{verdict.status} {verdict.error_type} {verdict.error_message}"]
    found += [] if after.status.value == "passed" else [f"the next attempt: {after}"]
    new_files, new_mounts = traces()
    return (
        found + [f"left {left}" for left in ({*new_mounts} - mounts)] + [f"left {f}" for f in new_files - files if "disk" in f]
    )


def processes_of_the_sandbox():
    """Return how many processes the server of this thread has in its namespace, itself included."""
    launcher = sandbox.server().process.pid
    inner = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    below = [Path(f"/proc/{pid}/task/{pid}/children").read_text().split() for pid in inner]
    return len(inner) + sum(map(len, below))
