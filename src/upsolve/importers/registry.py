"""The built-in importers by name."""

from collections.abc import Mapping

from upsolve.importers.benchmarks import evalplus, functions, libraries, multilingual, nbgrader, spider, swe_bench
from upsolve.importers.history import git
from upsolve.importers.logs import ci_reports, rollouts, samples, trajectories
from upsolve.importers.problems import apps, codeforces, codenet, polygon, problem_package
from upsolve.importers.source import Option, Source
from upsolve.importers.tables import jsonl, table
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
"""Such tasks, composed by a grammar."""
SOURCES: Mapping[str, Source] = {
    "apps": apps.SOURCE,
    "apps_plus": apps.PLUS,
    "atif": trajectories.ATIF,
    "bigcodebench": libraries.BIGCODEBENCH,
    "code_contests": codeforces.CODE_CONTESTS,
    "codeforces": codeforces.SOURCE,
    "codenet": codenet.SOURCE,
    "codet": functions.CODET,
    "composed": COMPOSED,
    "cruxeval": functions.CRUXEVAL,
    "ds1000": libraries.DS1000,
    "evalplus": evalplus.SOURCE,
    "git": git.SOURCE,
    "github_log": ci_reports.GITHUB,
    "gitlab_log": ci_reports.GITLAB,
    "humaneval": functions.HUMANEVAL,
    "inspect": trajectories.INSPECT,
    "jsonl": jsonl.SOURCE,
    "junit": ci_reports.JUNIT,
    "kodcode": libraries.KODCODE,
    "ldb": functions.LDB,
    "livecodebench": apps.LIVECODEBENCH,
    "mbpp": functions.MBPP,
    "multipl_e": multilingual.MULTIPLE,
    "mxeval": multilingual.SOURCE,
    "nbgrader": nbgrader.SOURCE,
    "opencodeinstruct": libraries.OPENCODEINSTRUCT,
    "openrlhf": rollouts.OPENRLHF,
    "polygon": polygon.SOURCE,
    "problem_package": problem_package.SOURCE,
    "pytest_json": ci_reports.PYTEST_JSON,
    "refactory": functions.REFACTORY,
    "samples": samples.SOURCE,
    "sarif": ci_reports.SARIF,
    "simulator": SIMULATOR,
    "spider": spider.SOURCE,
    "swe_bench": swe_bench.SOURCE,
    "table": table.SOURCE,
    "taco": apps.TACO,
    "trl": rollouts.TRL,
    "verifiers": trajectories.VERIFIERS,
    "verl": rollouts.VERL,
}
"""Source name -> record."""
