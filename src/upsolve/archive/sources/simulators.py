"""Tasks with simulated worlds as tests: the folder of a domain, and tasks composed by a grammar (``docs/simulators.md``).

Simulators belong to a later stage (verify), which is imported when needed.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from upsolve.archive.rows import Row
from upsolve.archive.source import Option, Source
from upsolve.plugins import load
from upsolve.types import Task

__all__ = ["COMPOSED", "SIMULATOR", "locate", "read", "read_composed"]


def read(path: Path) -> Iterable[Task]:
    """Yield the tasks of a domain's folder."""
    return load("upsolve.verify.simulators.tasks:read")(path)


def read_composed(path: Path, **options: Any) -> Iterable[Row]:
    """Yield tasks composed by a grammar, each with its attempts (``upsolve.verify.simulators.composed.source``)."""
    return load("upsolve.verify.simulators.composed.source:read")(path, **options)


def locate(path: Path) -> Path:
    """Return the folder of a domain, given by path or by the name of a built-in one."""
    return load("upsolve.verify.simulators.tasks:domain_folder")(path)


SIMULATOR = Source(read, "`robot`, or the folder of a domain", locate=locate)
COMPOSED = Source(
    read_composed,
    "`robot`",
    (
        Option("tasks", int, "number of tasks (default: 480)"),
        Option("seed", int, "random seed (default: 0)"),
        Option("docs", str, "description of the robot's methods in prompts: none, names or full (default: none)"),
        Option("worlds", int, "number of worlds of each task (default: 4)"),
    ),
    locate=locate,
)
