"""The built-in importers by name."""

from collections.abc import Mapping

from upsolve.importers.benchmarks import (
    bigcodebench,
    codet,
    cruxeval,
    ds1000,
    evalplus,
    humaneval,
    ldb,
    mbpp,
    multilingual,
    nbgrader,
    refactory,
    simulators,
    spider,
    swe_bench,
)
from upsolve.importers.history import git
from upsolve.importers.logs import (
    atif,
    ci_logs,
    inspect_logs,
    junit,
    openrlhf,
    pytest_json,
    samples,
    sarif,
    trl,
    verifiers,
    verl,
)
from upsolve.importers.problems import apps, code_contests, codeforces, codenet, livecodebench, polygon, problem_package, taco
from upsolve.importers.source import Source
from upsolve.importers.tables import instructions, jsonl, table

__all__ = ["SOURCES"]

SOURCES: Mapping[str, Source] = {
    "apps": apps.SOURCE,
    "apps_plus": apps.PLUS,
    "atif": atif.SOURCE,
    "bigcodebench": bigcodebench.SOURCE,
    "code_contests": code_contests.SOURCE,
    "codeforces": codeforces.SOURCE,
    "codenet": codenet.SOURCE,
    "codet": codet.SOURCE,
    "composed": simulators.COMPOSED,
    "cruxeval": cruxeval.SOURCE,
    "ds1000": ds1000.SOURCE,
    "evalplus": evalplus.SOURCE,
    "git": git.SOURCE,
    "github_log": ci_logs.GITHUB,
    "gitlab_log": ci_logs.GITLAB,
    "humaneval": humaneval.SOURCE,
    "inspect": inspect_logs.SOURCE,
    "jsonl": jsonl.SOURCE,
    "junit": junit.SOURCE,
    "kodcode": instructions.KODCODE,
    "ldb": ldb.SOURCE,
    "livecodebench": livecodebench.SOURCE,
    "mbpp": mbpp.SOURCE,
    "multipl_e": multilingual.MULTIPLE,
    "mxeval": multilingual.SOURCE,
    "nbgrader": nbgrader.SOURCE,
    "opencodeinstruct": instructions.SOURCE,
    "openrlhf": openrlhf.SOURCE,
    "polygon": polygon.SOURCE,
    "problem_package": problem_package.SOURCE,
    "pytest_json": pytest_json.SOURCE,
    "refactory": refactory.SOURCE,
    "samples": samples.SOURCE,
    "sarif": sarif.SOURCE,
    "simulator": simulators.SIMULATOR,
    "spider": spider.SOURCE,
    "swe_bench": swe_bench.SOURCE,
    "table": table.SOURCE,
    "taco": taco.SOURCE,
    "trl": trl.SOURCE,
    "verifiers": verifiers.SOURCE,
    "verl": verl.SOURCE,
}
"""Source name -> record."""
