"""The built-in importers by name: functions, and maps in the folder ``maps`` here and in ``~/.config/upsolve/maps``."""

import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from upsolve.importers.benchmarks import evalplus, functions, gradescope, nbgrader, spider, swe_bench
from upsolve.importers.history import git
from upsolve.importers.logs import calls, ci_reports, samples, trajectories
from upsolve.importers.problems import codenet, coderunner, polygon, problem_package
from upsolve.importers.source import Option, Source
from upsolve.importers.tables import jsonl, table
from upsolve.importers.tables.plans import MAPS
from upsolve.worlds.composed.source import read as read_composed
from upsolve.worlds.tasks import domain_folder, read

__all__ = ["SOURCES"]

SIMULATOR = Source(read, "`robot`, or the folder of a domain", locate=domain_folder)
"""Tasks with simulated worlds as tests (``docs/simulators.md``)."""
COMPOSED = Source(
    read_composed,
    "`robot`",
    (
        Option("tasks", int, "number of tasks (default: 480)"),
        Option("seed", int, "random seed (default: 0)"),
        Option("docs", str, "description of the robot's methods in prompts: none, names or full (default: none)"),
        Option("worlds", int, "number of worlds of each task (default: 4)"),
    ),
    locate=domain_folder,
)
"""Tasks with simulated worlds that a grammar composes."""
CODE: Mapping[str, Source] = {
    "atif": trajectories.ATIF,
    "calls": calls.SOURCE,
    "codenet": codenet.SOURCE,
    "coderunner": coderunner.SOURCE,
    "codet": functions.CODET,
    "composed": COMPOSED,
    "cruxeval": functions.CRUXEVAL,
    "ds1000": functions.DS1000,
    "evalplus": evalplus.SOURCE,
    "git": git.SOURCE,
    "github_log": ci_reports.GITHUB,
    "gitlab_log": ci_reports.GITLAB,
    "gradescope": gradescope.SOURCE,
    "inspect": trajectories.INSPECT,
    "jsonl": jsonl.SOURCE,
    "junit": ci_reports.JUNIT,
    "ldb": functions.LDB,
    "multipl_e": functions.MULTIPLE,
    "mxeval": functions.MXEVAL,
    "nbgrader": nbgrader.SOURCE,
    "polygon": polygon.SOURCE,
    "problem_package": problem_package.SOURCE,
    "pytest_json": ci_reports.PYTEST_JSON,
    "samples": samples.SOURCE,
    "sarif": ci_reports.SARIF,
    "simulator": SIMULATOR,
    "spider": spider.SOURCE,
    "swe_bench": swe_bench.SOURCE,
    "table": table.SOURCE,
    "verifiers": trajectories.VERIFIERS,
}
"""Source name -> record, for sources with their own code."""


class Sources(Mapping[str, Source]):
    """Source name -> record; a map is read when its name is looked up."""

    def __getitem__(self, name: str) -> Source:
        """Return the record of a name; KeyError if there is none, SourceError if its map has a mistake."""
        return CODE[name] if name in CODE else source_in(map_files()[name])

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        yield from CODE
        yield from (name for name in map_files() if name not in CODE)

    def __len__(self) -> int:
        """Return the number of sources."""
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        """Return whether there is a source of this name."""
        return name in CODE or name in map_files()


SOURCES: Mapping[str, Source] = Sources()
"""Source name -> record."""


def map_files() -> dict[str, Path]:
    """Return the files of the maps by name: upsolve's maps, and the user's maps with other names."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    folders = (Path(home) / "upsolve" / "maps", MAPS)
    return {file.stem: file for folder in folders if folder.is_dir() for file in sorted(folder.glob("*.yaml"))}


source_in = cache(table.source_of)
"""Return the source that the map in a file defines."""
