"""Configuration of the judge."""

from typing import Literal

from pydantic import Field

from upsolve.config.strict import Strict

__all__ = ["VerifyConfig"]


class VerifyConfig(Strict):
    """Limits of an attempt, isolation, workers."""

    wall_seconds: float = Field(default=10.0, gt=0)
    """Elapsed time of an attempt over all of its tests; of more than ten, over every ten and over each."""
    cpu_seconds: float = Field(default=5.0, gt=0)
    """Processor time of a program for one test, or of all tests that call functions; of more than ten, of every ten and of each."""
    memory_bytes: int = Field(default=512 * 2**20, ge=2**20)
    """Memory of an attempt."""
    output_bytes: int = Field(default=2**20, ge=1)
    """Standard output of an attempt; at least twice what its tests expect. Standard error may have 16 MiB."""
    test_seconds: float | None = Field(default=None, gt=0)
    """Elapsed time of one test; null: only all tests together are limited."""
    task_limits: float = Field(default=2.0, ge=0)
    """Factor for the time limits that tasks state; 0: the limits of tasks (time and memory) are ignored."""
    imports: Literal["none", "contest"] = "none"
    """What Python attempts find imported: ``contest``: ``List``, ``deque``, ``math``, ... as on judges of contests (docs/judge.md)."""
    packages: tuple[str, ...] = ()
    """Packages of Python, by import name, that every attempt may import, besides those that its task requires (``upsolve packages NAME``)."""
    python: str = ""
    """Language of the judge that runs Python programs which read standard input, such as ``pypy``; '': the interpreter that runs upsolve."""
    repeats: int = Field(default=1, ge=1)
    """Times to judge each attempt; more than one finds flaky attempts."""
    analyses: tuple[Literal["complexity", "dead", "lint", "security", "syntax", "types"], ...] = ()
    """Static analyses (docs/analysis.md)."""
    isolation: Literal["required", "best_effort", "gvisor"] = "required"
    """``required``: refuse to judge where a layer of the sandbox is missing; ``best_effort``: use the layers there are; ``gvisor``: those of
    ``required`` under gVisor's kernel (docs/threat-model.md)."""
    workers: int = Field(default=0, ge=0)
    """Attempts judged in parallel; 0: one per core."""
    executor: Literal["local", "ray"] = "local"
    """Worker processes on this machine, or tasks of a Ray cluster."""
    cache: bool = True
    """Cache verdicts by content (code, tests, limits, judge)."""
