"""Attempts that cheat, escape, exhaust or interfere, a folder each in attacks/, and what must come of them: a contract of every backend.

wants = "escape"                            # one of WANTS
language = "bash"                           # of attempt.*; left out: python
kinds.call = ["failed", "runtime_error"]    # by kind of the tests it is tried under: the statuses it may get
own_kernel = ["passed"]                     # left out: none; further statuses it may get where what it reaches is gVisor's, not this machine's

After each, honest attempts must pass that also look for what it may have left. Standard library and the judge only.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from os import getpid
from pathlib import Path

from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict
from upsolve.verify.languages import languages
from upsolve.verify.limits import Limits

__all__ = [
    "GVISOR_LIMITS",
    "HONEST_BASH",
    "HONEST_PYTHON",
    "HONEST_SQL",
    "LIMITS",
    "TESTS",
    "WANTS",
    "Attack",
    "Try",
    "attacks",
    "honest",
    "traces",
    "tries",
]

FOLDER = Path(__file__).parent
WANTS = ("fake pass", "escape", "exhaust", "interfere")
"""What attacks are after, in the order in which they are tried."""
LIMITS = Limits(wall_seconds=2, cpu_seconds=1)
"""What an attack may use: little, for many of them use all of it."""
GVISOR_LIMITS = Limits(wall_seconds=8, cpu_seconds=4)
"""The same under gVisor, where starting a program takes up to 0.1 s."""
TESTS = {
    "call": (TestCase(TestKind.CALL, "f(20)", "6765"), TestCase(TestKind.CALL, "f(7)", "13")),
    "code": (
        TestCase(TestKind.CODE, "assert f(20) == 6765"),
        TestCase(TestKind.CODE, "x = [f(7)]\nassert x == [13] and abs(x[0]) == 13"),
    ),
    "iterated": (TestCase(TestKind.CODE, "for got, wanted in zip(map(f, [20, 7]), [6765, 13]):\n    assert got == wanted"),),
    "caught": (TestCase(TestKind.CODE, "try:\n    x = f(20)\nexcept:\n    x = 6765\nassert x == 6765"),),
    "wrapped": (TestCase(TestKind.CALL, "bool(all((f(20) == 6765, f(7) == 13)))", "True"),),
    "stdio": tuple(
        TestCase(TestKind.STDIO, given, out) for given, out in (("20\n7\n", "6765\n13\n"), ("7\n20\n", "13\n6765\n"))
    ),
    "sql": tuple(
        TestCase(TestKind.STDIO, f"CREATE TABLE given (i INTEGER);\nINSERT INTO given VALUES {given};\n", rows)
        for given, rows in (("(20), (7)", "[20, 6765]\n[7, 13]\n"), ("(10), (1)", "[10, 55]\n[1, 1]\n"))
    ),
}
"""Tests by kind: Fibonacci numbers all."""
MARK = "upsolve-attack"
"""How the names of files begin that attacks try to leave."""
HONEST_PYTHON = f"""
import os
def names(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []
found = os.listdir("/tmp") + os.listdir("/dev/shm")
found += [name for folder in ("/home", "/mnt", "/run", "/var/tmp") for name in names(folder) if "{MARK}" in name]
if found:
    raise RuntimeError(f"found {{found}}")
try:
    os.kill(-1, 0)
except ProcessLookupError:
    pass
else:
    raise RuntimeError("found processes")
def f(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a
"""
HONEST_BASH = f"""
shopt -s nullglob dotglob
found=(/tmp/* /dev/shm/* /home/*{MARK}* /mnt/*{MARK}* /run/*{MARK}* /var/tmp/*{MARK}*)
[ "${{found[*]}}" = /tmp/main.sh ] || {{ echo "found ${{found[*]}}" >&2; exit 3; }}
kill -0 -- -1 2> /dev/null && {{ echo "found processes" >&2; exit 3; }}
while read -r n; do
    a=0 b=1
    while ((n--)); do ((c = a + b, a = b, b = c)); done
    echo "$a"
done
"""
HONEST_SQL = """
WITH RECURSIVE fibonacci(n, a, b) AS (VALUES (0, 0, 1) UNION ALL SELECT n + 1, b, a + b FROM fibonacci WHERE n < 30)
SELECT i, a FROM given JOIN fibonacci ON n = i
"""


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack."""

    name: str
    """Its folder."""
    wants: str
    """One of WANTS."""
    code: str
    """The attempt."""
    kinds: Mapping[str, Sequence[str]]
    """Statuses it may get, by kind of test."""
    language: str = "python"
    """Language of the attempt."""
    own_kernel: Sequence[str] = ()
    """Further statuses it may get with a kernel of its own, where what it reaches is not this machine's."""


@dataclass(frozen=True, slots=True)
class Try:
    """An attack under one kind of tests."""

    attack: Attack
    """What is tried."""
    kind: str
    """A key of TESTS."""

    @property
    def name(self) -> str:
        """Return attack and kind."""
        return f"{self.attack.name}/{self.kind}"

    def missing(self) -> str:
        """Return the tool without which this cannot be tried here, an empty string when there is none."""
        return "" if self.attack.language == "python" else languages()[self.attack.language].missing()

    def pairs(self) -> list[tuple[Task, Attempt]]:
        """Return what is to be judged, in order: the attack, then honest attempts in each sandbox that it may have been in."""
        task = task_of(self.kind)
        first = task, Attempt(task.task_id, self.attack.code, self.attack.language)
        others = {"python": ["python"], "sql": ["sql", "python"]}.get(self.attack.language, ["bash", "python"])
        return [first, *(honest(language, self.name) for language in others)]

    def wrong(self, verdicts: Sequence[Verdict]) -> list[str]:
        """Return what is not as it must be in the verdicts of ``pairs``."""
        first, *after = verdicts
        allowed = {*self.attack.kinds[self.kind]}
        if "gvisor" in first.isolation.split(","):
            allowed |= {"timeout", *self.attack.own_kernel}  # its system calls take longer, too
        found = [] if first.status.value in allowed else [said(first)]
        return found + [f"the next attempt: {said(verdict)}" for verdict in after if verdict.status is not Status.PASSED]


def said(verdict: Verdict) -> str:
    """Return status, error and output of a verdict in a line."""
    parts = (
        verdict.status.value,
        verdict.error_type,
        verdict.error_message,
        verdict.stdout_head[:200],
        verdict.stderr_head[:200],
    )
    return " ".join(part.strip() for part in parts if part.strip()).replace("\n", " ")


def task_of(kind: str) -> Task:
    """Return the task of a kind of tests."""
    queries = {"language": "sql", "compare": "rows"} if kind == "sql" else {}
    return Task(f"attack/{kind}", "", TESTS[kind], "f", **queries)


def honest(language: str, mark: str) -> tuple[Task, Attempt]:
    """Return an honest attempt; the mark tells it from others, for equal attempts are judged once."""
    kind, code = {"python": ("call", HONEST_PYTHON), "bash": ("stdio", HONEST_BASH), "sql": ("sql", HONEST_SQL)}[language]
    comment = "--" if language == "sql" else "#"
    return task_of(kind), Attempt(task_of(kind).task_id, f"{code}{comment} after {mark}\n", language)


@cache
def attacks() -> tuple[Attack, ...]:
    """Return all attacks, by what they want and by name."""
    found: list[Attack] = []
    for file in sorted(FOLDER.glob("*/case.toml")):
        (program,) = file.parent.glob("attempt.*")
        case = tomllib.loads(file.read_text(encoding="utf-8"))
        found.append(Attack(file.parent.name, code=program.read_text(encoding="utf-8"), **case))
    return tuple(sorted(found, key=lambda attack: WANTS.index(attack.wants)))


def tries() -> list[Try]:
    """Return every attack under each of its kinds."""
    return [Try(attack, kind) for attack in attacks() for kind in attack.kinds]


def traces() -> set[str]:
    """Return what attacks have left on this machine: files by name, mounts, and processes in the sandboxes of this process."""
    folders = {*map(Path, ("/", "/tmp", "/var/tmp", "/dev/shm", "/usr", "/etc", "/home", "/mnt")), Path.home(), Path.cwd()}  # noqa: S108
    files = {f"file {file}" for folder in folders for file in folder.glob(f"{MARK}*")}
    mounts = {f"mount {line.split()[4]}" for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()}
    return files | mounts | {f"process {pid}" for pid in left_running()}


def left_running() -> set[int]:
    """Return the processes below this one that are in a namespace of their own and not the first there."""
    parents: dict[int, int] = {}
    inner: set[int] = set()
    for file in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = dict(line.split(":", 1) for line in file.read_text(encoding="utf-8", errors="replace").splitlines())
        except OSError:  # it has ended meanwhile
            continue
        pid, numbers = int(file.parent.name), lines["NSpid"].split()
        parents[pid] = int(lines["PPid"])
        inner |= {pid} if len(numbers) > 1 and numbers[-1] != "1" else set()
    return {pid for pid in inner if is_below(pid, parents)}


def is_below(pid: int, parents: Mapping[int, int]) -> bool:
    """Return whether a process descends from this one."""
    while pid in parents and pid != getpid():
        pid = parents[pid]
    return pid == getpid()
