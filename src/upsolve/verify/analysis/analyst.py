"""A process that looks at code without running it: what makes a parser crash or hang takes nothing of the judge with it."""

import atexit
import ctypes
import os
import resource
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from typing import Any

from upsolve.errors import JudgeError
from upsolve.extras import require
from upsolve.types import Attempt, Finding, Task, Verdict
from upsolve.verify.analysis.complexity import complexity
from upsolve.verify.analysis.dead import dead
from upsolve.verify.analysis.lint import lint
from upsolve.verify.analysis.security import security
from upsolve.verify.analysis.source import Source, source_of
from upsolve.verify.analysis.syntax import syntax
from upsolve.verify.analysis.typing import types
from upsolve.verify.pool.rpc import WorkerLostError, ask, end, serve, start

__all__ = ["ANY_LANGUAGE", "TOOLS", "Analyst", "analyse", "main", "tools"]

Analysis = Callable[[Sequence[Source]], list[tuple[Finding, ...]]]
ANALYSES: Mapping[str, Analysis] = {
    "complexity": complexity,
    "dead": dead,
    "lint": lint,
    "security": security,
    "syntax": syntax,
    "types": types,
}
TOOLS = {
    "complexity": "lizard",
    "dead": "vulture",
    "lint": "ruff",
    "security": "bandit",
    "syntax": "tree-sitter",
    "types": "ty",
}
"""The package that does each analysis."""
ANY_LANGUAGE = frozenset({"complexity", "syntax"})
"""Analyses that are not for Python alone."""
SECONDS = 30.0
"""What a few programs may take, all together; one that takes longer is left without."""
MEMORY = 4 << 30
MOST = 200
"""Findings of one analysis that are kept of one attempt."""
LOST = "its process ended"


@cache
def tools(analyses: tuple[str, ...]) -> tuple[str, ...]:
    """Return the analyses with what does them and its version, such as ``lint: ruff 0.17.5``.

    Raises:
        MissingExtraError: a tool is not installed.
    """
    require(*(TOOLS[name] for name in analyses))
    return tuple(f"{name}: {TOOLS[name]} {version(TOOLS[name])}" for name in sorted(analyses))


def analyse(chunk: Sequence[tuple[Task, Attempt]], verdicts: Sequence[Verdict], names: Sequence[str]) -> list[Verdict]:
    """Return verdicts with the findings of some analyses added, by place; those of the judge itself come first.

    An attempt that an analysis breaks on gets a finding of the kind ``analysis``, with its name as the rule, instead.

    Raises:
        JudgeError: an analysis does not work at all here; says why.
    """
    sources = [source_of(*pair, verdict) for pair, verdict in zip(chunk, verdicts, strict=True)]
    found: list[list[Finding]] = [[] for _ in sources]
    for name in names:
        places = [place for place, one in enumerate(sources) if one.language == "python" or name in ANY_LANGUAGE]
        for place, more in zip(places, analyst().findings(name, [sources[place] for place in places]), strict=True):
            found[place] += some(name, [one for one in more if name != "lint" or one.kind == "lint" or one.kind not in names])
    done = tools(tuple(names))
    return [
        replace(verdict, findings=together(verdict.findings, more), analyses=done)
        for verdict, more in zip(verdicts, found, strict=True)
    ]


def some(name: str, found: Sequence[Finding]) -> list[Finding]:
    """Return findings of one analysis, the first ``MOST`` by place; one more says so where there are others."""
    if len(found) <= MOST:
        return [*found]
    said = f"the first {MOST} of {len(found)} findings are kept"
    return [*sorted(found, key=lambda one: (one.line, one.column))[:MOST], Finding("analysis", name, said, 1)]


def together(first: Sequence[Finding], more: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings of the judge, then those of analyses by place; an error that both have found is there once, as analysed."""
    again = {(one.kind, one.rule, one.line) for one in more}
    ordered = sorted(more, key=lambda one: (one.line, one.column, one.kind, one.rule))
    return (*(one for one in first if (one.kind, one.rule, one.line) not in again), *ordered)


class Analyst:
    """The process, started when it is needed."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.guard = threading.Lock()

    def findings(self, name: str, sources: Sequence[Source]) -> list[tuple[Finding, ...]]:
        """Return the findings of one analysis; see ``analyse``."""
        if not sources:
            return []
        said = self.ask(name, sources)
        if said == LOST:  # perhaps it had gone before
            said = self.ask(name, sources)
        if isinstance(said, list):
            return said
        if len(sources) > 1:
            return [found for source in sources for found in self.findings(name, [source])]
        if isinstance(control := self.ask(name, [Source("x = 1\n")]), str):
            raise JudgeError(f"analysis {name}: {control}")
        return [(Finding("analysis", name, " ".join(said.split())[:500], 1),)]

    def ask(self, name: str, sources: Sequence[Source]) -> list[tuple[Finding, ...]] | str:
        """Send programs and wait; return their findings, or what went wrong."""
        with self.guard:
            if self.process and self.process.poll() is not None:
                self.close()
            process = self.process = self.process or start(main, os.getpid(), session=True)
            try:
                return ask(process, attempt, name, sources, seconds=SECONDS)
            except TimeoutError as error:
                self.close()
                return str(error)
            except WorkerLostError:
                self.close()
                return LOST

    def close(self) -> None:
        """End the process and those that it started, if there is one."""
        if self.process:
            end(self.process, session=True)
        self.process = None


@cache
def analyst() -> Analyst:
    """Return the one of this process, which ends with it."""
    one = Analyst()
    atexit.register(one.close)
    return one


def main(parent: int) -> None:
    """Answer until the standard input ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    serve()


def attempt(name: str, sources: Sequence[Source]) -> Any:
    """Run one analysis; return its findings, or what went wrong."""
    try:
        return ANALYSES[name](sources)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
