"""Limits of an attempt and settings of the judge. Imports the standard library and ``types`` only at run time.

Judges of contests import some modules for every Python program: solutions rely on ``List``, ``deque`` or ``math`` being there.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Container, Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from upsolve.errors import ConfigError
from upsolve.files import cache_folder
from upsolve.languages import missing_packages
from upsolve.types import Task, TestKind

if TYPE_CHECKING:
    from upsolve.config import VerifyConfig

__all__ = [
    "ANALYSES",
    "DECISIVE",
    "ISOLATIONS",
    "PROVIDED",
    "Imports",
    "JudgeSettings",
    "Limits",
    "imports_without",
    "judge_settings",
    "limits_for",
    "prepared",
    "refuse_impossible",
    "with_imports",
]


class Imports(StrEnum):
    """Import statements that are added to Python attempts."""

    NONE = "none"
    CONTEST = "contest"
    """``MODULES`` and ``MEMBERS``."""


MODULES = "bisect collections copy datetime fractions functools heapq itertools math operator random re string sys time"
MEMBERS = {
    "typing": "Any Callable Dict Generator Iterable Iterator List Optional Sequence Set Tuple Union",
    "bisect": "bisect_left bisect_right insort insort_left insort_right",
    "collections": "ChainMap Counter OrderedDict defaultdict deque namedtuple",
    "fractions": "Fraction",
    "functools": "cache cmp_to_key lru_cache partial reduce",
    "heapq": "heapify heappop heappush heappushpop heapreplace nlargest nsmallest",
    "itertools": "accumulate chain combinations count cycle groupby islice permutations product starmap zip_longest",
    "math": "ceil comb cos exp fabs factorial floor gcd hypot inf isqrt log log2 pi sin sqrt tan",
}
"""Imports of the graders of APPS, TACO and LiveCodeBench, for every program; LeetCode's solutions rely on them."""

PROVIDED = frozenset(" ".join([MODULES, *MEMBERS.values()]).split())
"""All names that the added imports bind."""

T = TypeVar("T")


def prepared(rows: Iterable[T], imports: Imports) -> Iterator[T | Task]:
    """Return the rows of a source; the added imports are set up for its Python tasks."""
    if imports is Imports.NONE:
        return iter(rows)
    return (with_imports(row) if isinstance(row, Task) and row.language == "python" else row for row in rows)


def imports_without(names: Container[str] = ()) -> str:
    """Return the imports of ``MODULES`` and ``MEMBERS``, except names that the program itself must define."""
    left = {module: [name for name in members.split() if name not in names] for module, members in MEMBERS.items()}
    lines = [f"import {', '.join(module for module in MODULES.split() if module not in names)}"]
    lines += [f"from {module} import {', '.join(members)}" for module, members in left.items() if members]
    return "\n".join(lines) + "\n"


@lru_cache(maxsize=64)
def with_imports(task: Task) -> Task:
    """Return a task whose setup includes the imports.

    The entry point and names that its tests use are left out: the attempt may define these, and the tests must call the attempt's functions. A task
    with simulated worlds, or with tests that do not parse, is returned unchanged.
    """
    calls = [test.input.strip() for test in task.tests if test.kind in (TestKind.CALL, TestKind.CODE)]
    if any(test.kind is TestKind.SIMULATION for test in task.tests):
        return task
    try:
        used = {node.id for call in calls for node in ast.walk(ast.parse(call)) if isinstance(node, ast.Name)}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return task
    parts = [imports_without(used | {task.entry_point}), task.setup]
    first = "__future__" in task.setup  # must be at the beginning
    return replace(task, setup="".join(reversed(parts) if first else parts))


ANALYSES = frozenset({"complexity", "dead", "lint", "security", "syntax", "types"})
"""Names of the static analyses."""
ISOLATIONS = ("required", "best_effort", "gvisor")
"""Values of ``JudgeSettings.isolation``."""
TESTS_AT_ONCE = 10
"""Number of tests for which the default limits are meant; ``for_many_tests`` scales them for more tests."""
LEAST_MEMORY = 256 * 2**20
"""Smallest memory limit that a task can set, bytes."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of an attempt; all must be positive."""

    wall_seconds: float = 10.0
    """Elapsed time of all tests together, seconds; for many tests see ``for_many_tests``."""
    cpu_seconds: float = 5.0
    """CPU time of one process of the attempt, seconds (the kernel rounds it up to whole seconds)."""
    memory_bytes: int = 512 * 2**20
    """Memory of all processes of the attempt together, and address space of each process in Python or without control group, bytes."""
    output_bytes: int = 2**20
    """Size of standard output, bytes; standard error may have 16 MiB, and is truncated to this size."""
    processes: int = 128
    """Number of concurrent processes and threads."""
    test_seconds: float = float("inf")
    """Elapsed time of one test, seconds; after exceeding it the remaining tests still run, unless ``stops``."""
    test_cpu_seconds: float = float("inf")
    """Processor time of one test where the tests share a process, seconds; if finite, the tests after one that exceeds its time are left out."""

    def __post_init__(self) -> None:
        for name in (f.name for f in fields(self)):
            if getattr(self, name) <= 0:
                raise ValueError(f"limit {name} must be positive, got {getattr(self, name)}")

    @property
    def stops(self) -> bool:
        """True if the tests after one that exceeded its time are skipped."""
        return not math.isinf(self.test_cpu_seconds)

    def named(self) -> dict[str, float]:
        """Return the limits by name; ``test_cpu_seconds`` only if it is finite."""
        return {name: value for name, value in asdict(self).items() if self.stops or name != "test_cpu_seconds"}


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """Settings of the judge."""

    limits: Limits = field(default_factory=Limits)
    """Limits of each attempt."""
    isolation: str = "required"
    """``required``: refuse to judge without the layers of ``sandbox.runner.REQUIRED``; ``best_effort``: use the available
    layers; ``gvisor``: as ``required``, inside a gVisor container, so that attempts do not use the host's kernel."""
    workers: int = 0
    """Number of worker processes, >= 0; 0: one per usable core (affinity mask and control group quota)."""
    executor: str = "local"
    """``local``: processes on this machine; ``ray``: tasks of a Ray cluster; else URLs of services (``verify.pool.services``), with commas."""
    lines: bool = False
    """Record which lines of a Python attempt were executed. The attempt's own process records them, so it can forge them."""
    repeats: int = 1
    """Number of times that each attempt is judged, >= 1; if outcomes differ, the verdict gets a finding ``flaky``."""
    analyses: tuple[str, ...] = ()
    """Static analyses to run, names from ``ANALYSES``."""
    cache: Path | None = None
    """File of the verdict cache; None: no cache."""
    task_limits: float = 2.0
    """Factor for the time limits that tasks state (``Task.limit_seconds``), >= 0, since machines differ; 0: their limits of time and
    memory are ignored."""
    imports: Imports = Imports.NONE
    """Imports that Python attempts get, in addition to the setup of their task."""
    packages: tuple[str, ...] = ()
    """Packages, by import name, that Python attempts may import, in addition to those that their task requires."""
    python: str = ""
    """Language that runs Python programs of STDIO tests without required packages, such as ``pypy``; empty: the warm interpreter."""
    cost: int = 0
    """Number of rounds in which the processor time of a passed attempt is measured (``judge.cost``), >= 0; 0: the time of the judging run is used."""

    def __post_init__(self) -> None:
        if self.isolation not in ISOLATIONS:
            raise ValueError(f"isolation must be one of {', '.join(ISOLATIONS)}; got {self.isolation!r}")
        if wrong := set(self.analyses) - ANALYSES:
            raise ValueError(f"analyses must be of {', '.join(sorted(ANALYSES))}; got {', '.join(sorted(wrong))}")
        if not 0 <= self.task_limits < float("inf"):
            raise ValueError(f"task_limits must be a number >= 0, got {self.task_limits}")
        if self.repeats < 1:
            raise ValueError(f"repeats must be at least 1, got {self.repeats}")
        if self.cost < 0:
            raise ValueError(f"cost must be at least 0, got {self.cost}")
        if self.executor not in ("local", "ray") and not all(
            url.startswith(("http://", "https://")) for url in self.executor.split(",")
        ):
            raise ValueError(
                f"executor must be local, ray or URLs of services (http://a:8000,http://b:8000), got {self.executor!r}"
            )

    def with_analyses(self, names: Iterable[str]) -> JudgeSettings:
        """Return the settings with further analyses."""
        return replace(self, analyses=tuple(sorted({*self.analyses, *names})))


OF_MACHINE = frozenset({"isolation", "workers", "executor", "cache"})
"""Settings of the machine that judges; requests to a service cannot change these."""
DECISIVE = tuple(field.name for field in fields(JudgeSettings) if field.name not in OF_MACHINE)
"""All other settings. They decide verdicts, so requests and cache keys contain all of them."""


def limits_for(task: Task, settings: JudgeSettings) -> Limits:
    """Return the limits of the attempts at a task.

    ``cpu_seconds`` is c = ``task_limits`` * ``Task.limit_seconds`` where each test is a process of its own (STDIO), else c times the number of tests;
    ``test_seconds`` is at most 2 c + 1, and ``wall_seconds`` at least that for every test. ``memory_bytes`` is ``Task.limit_bytes``, but at least
    ``LEAST_MEMORY``: contests limit the memory that is used, the judge limits address space. ``output_bytes`` is at least twice what an attempt must
    write (``longest_output``). Limits that a task does not state come from ``settings.limits``.
    """
    limits, factor = settings.limits, settings.task_limits
    if (room := 2 * longest_output(task)) > limits.output_bytes:
        limits = replace(limits, output_bytes=room)
    if factor and task.limit_bytes is not None:
        limits = replace(limits, memory_bytes=max(LEAST_MEMORY, task.limit_bytes))
    if not factor or task.limit_seconds is None:
        return for_many_tests(task, limits)
    each, count = factor * task.limit_seconds, max(1, len(task.tests))
    separate = all(test.kind is TestKind.STDIO for test in task.tests)
    return replace(
        limits,
        cpu_seconds=each if separate else each * count,
        test_seconds=min(limits.test_seconds, 2 * each + 1),
        wall_seconds=max(limits.wall_seconds, (2 * each + 1) * count),
    )


def for_many_tests(task: Task, limits: Limits) -> Limits:
    """Return limits for many tests: ``wall_seconds`` of the given limits for every ``TESTS_AT_ONCE`` tests.

    ``cpu_seconds`` grow alike if the tests share a process. One test gets at most the given time, so an endless test cannot use up the rest.
    """
    share = len(task.tests) / TESTS_AT_ONCE
    kinds = {test.kind for test in task.tests}
    if share <= 1 or TestKind.SIMULATION in kinds:
        return limits
    separate = kinds == {TestKind.STDIO}
    return replace(
        limits,
        wall_seconds=limits.wall_seconds * share,
        cpu_seconds=limits.cpu_seconds * (1 if separate else share),
        test_seconds=min(limits.test_seconds, limits.wall_seconds),
        test_cpu_seconds=limits.cpu_seconds if math.isinf(limits.test_seconds) else limits.test_cpu_seconds,
    )


def longest_output(task: Task) -> int:
    """Return an upper bound of the expected output of one process, bytes: a program's for one test, rows or returned values for all."""
    sizes = [(test.kind, len(test.expected) * (1 if test.expected.isascii() else 4)) for test in task.tests]
    programs, values = ([size for kind, size in sizes if kind is some] for some in (TestKind.STDIO, TestKind.CALL))
    return max(sum(programs) if task.compare.startswith("rows") else max(programs, default=0), sum(values))


def judge_settings(config: VerifyConfig, *, lines: bool = False, here: bool = True) -> JudgeSettings:
    """Return the settings of the judge from a recipe.

    Args:
        config: the recipe's ``verify`` section.
        lines: record executed lines.
        here: the judge runs on this machine, which must have the packages.

    Raises:
        ConfigError: a package of ``packages`` is not installed here, or ``python`` contradicts another setting.
    """
    c = config
    limits = Limits(c.wall_seconds, c.cpu_seconds, c.memory_bytes, c.output_bytes, test_seconds=c.test_seconds or float("inf"))
    cache = cache_folder() / "verdicts.sqlite" if c.cache else None
    settings = JudgeSettings(limits, c.isolation, c.workers, c.executor, lines, c.repeats, c.analyses, cache, c.task_limits)
    settings = replace(settings, imports=Imports(c.imports), packages=c.packages, python=c.python, cost=c.cost)
    refuse_impossible(settings, here=here)
    return settings


def refuse_impossible(settings: JudgeSettings, *, here: bool = True) -> None:
    """Raise ConfigError for settings that contradict each other or, ``here``, for a package that this machine lacks."""
    if here and settings.executor == "local" and (absent := missing_packages(settings.packages)):
        names = " ".join(absent)
        raise ConfigError(f"verify.packages: not installed for attempts: {', '.join(absent)}; run `upsolve packages {names}`")
    if settings.python and (settings.packages or settings.lines):
        other = "verify.packages" if settings.packages else "recording executed lines"
        raise ConfigError(
            f"verify.python: {settings.python} excludes {other}, which needs the interpreter that runs upsolve; remove one of the two"
        )
