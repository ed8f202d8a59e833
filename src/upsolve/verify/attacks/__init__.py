"""Attacks on the judge, one folder each in attacks/, with the statuses that they must get: a contract of every backend.

wants = "escape"                            # one of WANTS
language = "bash"                           # of attempt.*; default: python
kinds.call = ["failed", "runtime_error"]    # kind of tests -> allowed statuses
own_kernel = ["passed"]                     # further statuses allowed under gVisor, whose kernel it attacks; default: none

After each attack, honest attempts must pass; they also look for traces of the attack. Imports only the standard library and the judge.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from os import getpid
from pathlib import Path

from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict
from upsolve.languages import languages
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
"""Goals of attacks, in order of execution."""
LIMITS = Limits(wall_seconds=1, cpu_seconds=0.5)
"""Limits of an attack; low, since many attacks exhaust them."""
GVISOR_LIMITS = Limits(wall_seconds=8, cpu_seconds=4)
"""Limits of an attack under gVisor, where starting a program takes up to 0.1 s."""
TESTS = {
    "call": (TestCase(TestKind.CALL, "f(20)", "6765"), TestCase(TestKind.CALL, "f(7)", "13")),
    "code": (
        TestCase(TestKind.CODE, "assert f(20) == 6765"),
        TestCase(TestKind.CODE, "x = [f(7)]\nassert x == [13] and abs(x[0]) == 13"),
    ),
    "iterated": (TestCase(TestKind.CODE, "for got, wanted in zip(map(f, [20, 7]), [6765, 13]):\n    assert got == wanted"),),
    "caught": (TestCase(TestKind.CODE, "try:\n    x = f(20)\nexcept:\n    x = 6765\nassert x == 6765"),),
    "lent": (TestCase(TestKind.CODE, "seen = []\nf(20, seen.append)\nf(7, lambda x: seen.append(x))\nassert seen == [6765, 13]"),),
    "wrapped": (TestCase(TestKind.CALL, "bool(all((f(20) == 6765, f(7) == 13)))", "True"),),
    "stdio": tuple(
        TestCase(TestKind.STDIO, given, out) for given, out in (("20\n7\n", "6765\n13\n"), ("7\n20\n", "13\n6765\n"))
    ),
    "sql": tuple(
        TestCase(TestKind.STDIO, f"CREATE TABLE given (i INTEGER);\nINSERT INTO given VALUES {given};\n", rows)
        for given, rows in (("(20), (7)", "[20, 6765]\n[7, 13]\n"), ("(10), (1)", "[10, 55]\n[1, 1]\n"))
    ),
}
"""Kind -> tests, all of Fibonacci numbers."""
MARK = "upsolve-attack"
"""Prefix of the names of files that attacks try to leave behind."""
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
    """An attempt that attacks the judge."""

    name: str
    """Name of its folder."""
    wants: str
    """Goal, one of WANTS."""
    code: str
    """Source code of the attempt."""
    kinds: Mapping[str, Sequence[str]]
    """Kind of tests -> allowed statuses."""
    language: str = "python"
    """Language of the attempt."""
    own_kernel: Sequence[str] = ()
    """Further statuses allowed under gVisor, where the attack reaches gVisor's kernel instead of the host's."""


@dataclass(frozen=True, slots=True)
class Try:
    """An attack on one kind of tests."""

    attack: Attack
    """The attack."""
    kind: str
    """Kind of tests, a key of TESTS."""

    @property
    def name(self) -> str:
        """Return ``attack/kind``."""
        return f"{self.attack.name}/{self.kind}"

    def missing(self) -> str:
        """Return the first tool of the attempt's language that is not installed; empty if all are installed."""
        return "" if self.attack.language == "python" else languages()[self.attack.language].missing()

    def pairs(self) -> list[tuple[Task, Attempt]]:
        """Return the attempts to judge: the attack, then an honest attempt per sandbox that it could have affected."""
        task = task_of(self.kind)
        first = task, Attempt(task.task_id, self.attack.code, self.attack.language)
        others = {"python": ["python"], "sql": ["sql", "python"]}.get(self.attack.language, ["bash", "python"])
        return [first, *(honest(language, self.name) for language in others)]

    def wrong(self, verdicts: Sequence[Verdict]) -> list[str]:
        """Return the contract violations in the verdicts of ``pairs``; empty if there are none."""
        first, *after = verdicts
        allowed = {*self.attack.kinds[self.kind]}
        if "gvisor" in first.isolation.split(","):
            allowed |= {"timeout", *self.attack.own_kernel}  # gVisor's system calls are slower, too
        violations = [] if first.status.value in allowed else [outcome_text(first)]
        return violations + [f"the next attempt: {outcome_text(verdict)}" for verdict in after if verdict.status is not Status.PASSED]


def outcome_text(verdict: Verdict) -> str:
    """Return status, error and output of a verdict in one line."""
    parts = (
        verdict.status.value,
        verdict.error_type,
        verdict.error_message,
        verdict.stdout_head[:200],
        verdict.stderr_head[:200],
    )
    return " ".join(part.strip() for part in parts if part.strip()).replace("\n", " ")


def task_of(kind: str) -> Task:
    """Return the task with the tests of a kind."""
    queries = {"language": "sql", "compare": "rows"} if kind == "sql" else {}
    return Task(f"attack/{kind}", "", TESTS[kind], "f", **queries)


def honest(language: str, mark: str) -> tuple[Task, Attempt]:
    """Return a task and an honest attempt; the mark makes it unique, since equal attempts are judged once."""
    kind, code = {"python": ("call", HONEST_PYTHON), "bash": ("stdio", HONEST_BASH), "sql": ("sql", HONEST_SQL)}[language]
    comment = "--" if language == "sql" else "#"
    return task_of(kind), Attempt(task_of(kind).task_id, f"{code}{comment} after {mark}\n", language)


@cache
def attacks() -> tuple[Attack, ...]:
    """Return all attacks, sorted by goal and name."""
    result: list[Attack] = []
    for file in sorted(FOLDER.glob("*/case.toml")):
        (program,) = file.parent.glob("attempt.*")
        case = tomllib.loads(file.read_text(encoding="utf-8"))
        result.append(Attack(file.parent.name, code=program.read_text(encoding="utf-8"), **case))
    return tuple(sorted(result, key=lambda attack: WANTS.index(attack.wants)))


def tries() -> list[Try]:
    """Return every attack with each of its kinds of tests."""
    return [Try(attack, kind) for attack in attacks() for kind in attack.kinds]


def traces() -> set[str]:
    """Return traces of attacks on this machine: marked files, mounts, and processes in the sandboxes of this process."""
    folders = {*map(Path, ("/", "/tmp", "/var/tmp", "/dev/shm", "/usr", "/etc", "/home", "/mnt")), Path.home(), Path.cwd()}  # noqa: S108
    files = {f"file {file}" for folder in folders for file in folder.glob(f"{MARK}*")}
    mounts = {f"mount {line.split()[4]}" for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()}
    return files | mounts | {f"process {pid}" for pid in left_running()}


def left_running() -> set[int]:
    """Return the descendants of this process that are in another pid namespace and are not its pid 1."""
    parents: dict[int, int] = {}
    inner: set[int] = set()
    for file in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = dict(line.split(":", 1) for line in file.read_text(encoding="utf-8", errors="replace").splitlines())
        except OSError:  # the process has ended meanwhile
            continue
        pid, numbers = int(file.parent.name), lines["NSpid"].split()
        parents[pid] = int(lines["PPid"])
        inner |= {pid} if len(numbers) > 1 and numbers[-1] != "1" else set()
    return {pid for pid in inner if is_below(pid, parents)}


def is_below(pid: int, parents: Mapping[int, int]) -> bool:
    """Return whether a process is a descendant of this one."""
    while pid in parents and pid != getpid():
        pid = parents[pid]
    return pid == getpid()
