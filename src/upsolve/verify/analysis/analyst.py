"""A subprocess that runs static analyses, so that code which crashes or hangs a parser does not affect the judge."""

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
from upsolve.verify.analysis import Source, source_of
from upsolve.verify.analysis.linters import complexity, lint, security, types
from upsolve.verify.analysis.syntax import dead, syntax
from upsolve.verify.pool.rpc import WorkerLostError, ask, end, serve, start

__all__ = ["ANY_LANGUAGE", "TOOLS", "Analyst", "analyse", "main", "tools"]

Analysis = Callable[[Sequence[Source]], list[tuple[Finding, ...]]]
ANALYSES: Mapping[str, Analysis] = {one.__name__: one for one in (complexity, dead, lint, security, syntax, types)}
TOOLS = {
    "complexity": "lizard",
    "dead": "vulture",
    "lint": "ruff",
    "security": "bandit",
    "syntax": "tree-sitter",
    "types": "ty",
}
"""Analysis -> package that implements it."""
ANY_LANGUAGE = frozenset({"complexity", "syntax"})
"""Analyses that also read languages other than Python."""
SECONDS = 30.0
"""Time limit of one analysis of a batch of programs, seconds; after a timeout each program is analysed alone."""
MEMORY = 4 << 30
MOST = 200
"""Maximum number of findings that one analysis keeps per attempt."""
LOST = "its process ended"


@cache
def tools(analyses: tuple[str, ...]) -> tuple[str, ...]:
    """Return each analysis with its tool and version, such as ``lint: ruff 0.17.5``.

    Raises:
        MissingExtraError: a tool is not installed.
    """
    require(*(TOOLS[name] for name in analyses))
    return tuple(f"{name}: {TOOLS[name]} {version(TOOLS[name])}" for name in sorted(analyses))


def analyse(chunk: Sequence[tuple[Task, Attempt]], verdicts: Sequence[Verdict], names: Sequence[str]) -> list[Verdict]:
    """Return the verdicts with the findings of these analyses added: those of the judge first, then by position in the code.

    An analysis that fails on an attempt adds a finding of the kind ``analysis`` instead, with the analysis as its rule.

    Raises:
        JudgeError: an analysis does not work on this machine; says why.
    """
    sources = [source_of(*pair, verdict) for pair, verdict in zip(chunk, verdicts, strict=True)]
    findings: list[list[Finding]] = [[] for _ in sources]
    for name in names:
        indices = [index for index, source in enumerate(sources) if source.language == "python" or name in ANY_LANGUAGE]
        for index, more in zip(indices, analyst().findings(name, [sources[index] for index in indices]), strict=True):
            own = [finding for finding in more if name != "lint" or finding.kind == "lint" or finding.kind not in names]
            findings[index] += limit_findings(name, own)
    done, pairs = tools(tuple(names)), zip(verdicts, findings, strict=True)
    return [replace(one, findings=merge_findings(one.findings, more), analyses=done) for one, more in pairs]


def limit_findings(name: str, findings: Sequence[Finding]) -> list[Finding]:
    """Return the first ``MOST`` findings by position in the code; if more were found, one finding that states the number of dropped ones."""
    if len(findings) <= MOST:
        return [*findings]
    message = f"the first {MOST} of {len(findings)} findings are kept"
    return [*sorted(findings, key=lambda finding: (finding.line, finding.column))[:MOST], Finding("analysis", name, message, 1)]


def merge_findings(first: Sequence[Finding], others: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings of the judge, then those of analyses by position; of duplicates, the finding of the analysis is kept."""
    duplicates = {(finding.kind, finding.rule, finding.line) for finding in others}
    ordered = sorted(others, key=lambda finding: (finding.line, finding.column, finding.kind, finding.rule))
    return (*(finding for finding in first if (finding.kind, finding.rule, finding.line) not in duplicates), *ordered)


class Analyst:
    """The analysis subprocess, started on first use."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.guard = threading.Lock()

    def findings(self, name: str, sources: Sequence[Source]) -> list[tuple[Finding, ...]]:
        """Return the findings of one analysis for each program; see ``analyse``."""
        if not sources:
            return []
        reply = self.ask(name, sources)
        if reply == LOST:  # it may have ended before this call
            reply = self.ask(name, sources)
        if isinstance(reply, list):
            return reply
        if len(sources) > 1:
            return [found for source in sources for found in self.findings(name, [source])]
        if isinstance(control := self.ask(name, [Source("x = 1\n")]), str):
            raise JudgeError(f"analysis {name}: {control}")
        return [(Finding("analysis", name, " ".join(reply.split())[:500], 1),)]

    def ask(self, name: str, sources: Sequence[Source]) -> list[tuple[Finding, ...]] | str:
        """Send programs to the subprocess; return their findings, or the error as text."""
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
        """End the subprocess and its child processes, if it was started."""
        if self.process:
            end(self.process, session=True)
        self.process = None


@cache
def analyst() -> Analyst:
    """Return this process's Analyst, which ends with the process."""
    one = Analyst()
    atexit.register(one.close)
    return one


def main(parent: int) -> None:
    """Serve requests until standard input ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    serve()


def attempt(name: str, sources: Sequence[Source]) -> Any:
    """Run one analysis; return its findings, or the error as text."""
    try:
        return ANALYSES[name](sources)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
