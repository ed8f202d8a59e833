"""upsolve: post-train code models on attempts that have already been judged.

The names below are the public API: they keep their meaning within a minor version, everything else may change. Names are imported when first used, so
``import upsolve`` loads nothing. A missing optional dependency raises ``MissingExtraError``, which names the extra. docs/api.md has a line for each
name.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from upsolve.advantage.table import Advantage
    from upsolve.archive.split import Split, split_archive
    from upsolve.archive.store import Archive, create_archive, open_archive
    from upsolve.clean.check import Check
    from upsolve.config import Recipe, load_recipe
    from upsolve.derive.derivation import Derivation
    from upsolve.errors import UpsolveError
    from upsolve.evaluate.benchmarks import HeldOut, evaluate_model, held_out, sweep_model
    from upsolve.evaluate.capability import Capability, capability
    from upsolve.evaluate.comparison import Comparison, compare
    from upsolve.evaluate.runs import load_evaluation, load_sweep, save_evaluation, save_sweep
    from upsolve.evaluate.scores import Evaluation, Sweep, TaskScore
    from upsolve.experiment import run_recipe
    from upsolve.exports.exporting import export_archive
    from upsolve.exports.record import Export
    from upsolve.importers.ingest import ingest
    from upsolve.importers.source import Source
    from upsolve.languages import Language
    from upsolve.objective.table import Objective
    from upsolve.policy.collect import sample_attempts
    from upsolve.policy.engines import Engine
    from upsolve.report.content import ReportContent
    from upsolve.report.html import write_report
    from upsolve.report.run import Run, open_run
    from upsolve.reward.components import Component
    from upsolve.reward.credit import Credit
    from upsolve.reward.hacks import Detector
    from upsolve.solve.choose import Evidence
    from upsolve.solve.search import Parents
    from upsolve.solve.solving import Answer, SolveSettings, solve
    from upsolve.solve.solving import solve as solve_tasks
    from upsolve.train.loop import train as train_policy
    from upsolve.train.run.folder import Trained
    from upsolve.types import Attempt, Finding, Group, Status, Task, TestCase, TestKind, Verdict
    from upsolve.verify.limits import JudgeSettings, Limits
    from upsolve.verify.pool.pool import verify as verify_attempts

__all__ = [
    "Advantage",
    "Answer",
    "Archive",
    "Attempt",
    "Capability",
    "Check",
    "Comparison",
    "Component",
    "Credit",
    "Derivation",
    "Detector",
    "Engine",
    "Evaluation",
    "Evidence",
    "Export",
    "Finding",
    "Group",
    "HeldOut",
    "JudgeSettings",
    "Language",
    "Limits",
    "Objective",
    "Parents",
    "Recipe",
    "ReportContent",
    "Run",
    "SolveSettings",
    "Source",
    "Split",
    "Status",
    "Sweep",
    "Task",
    "TaskScore",
    "TestCase",
    "TestKind",
    "Trained",
    "UpsolveError",
    "Verdict",
    "__version__",
    "capability",
    "compare",
    "create_archive",
    "evaluate_model",
    "export_archive",
    "held_out",
    "ingest",
    "load_evaluation",
    "load_recipe",
    "load_sweep",
    "open_archive",
    "open_run",
    "run_recipe",
    "sample_attempts",
    "save_evaluation",
    "save_sweep",
    "solve",
    "solve_tasks",
    "split_archive",
    "sweep_model",
    "train_policy",
    "verify_attempts",
    "write_report",
]

__version__ = "0.2.0"

SOURCES = {
    "upsolve.advantage.table": ("Advantage",),
    "upsolve.importers.ingest": ("ingest",),
    "upsolve.importers.source": ("Source",),
    "upsolve.archive.split": ("Split", "split_archive"),
    "upsolve.archive.store": ("Archive", "create_archive", "open_archive"),
    "upsolve.clean.check": ("Check",),
    "upsolve.config": ("Recipe", "load_recipe"),
    "upsolve.derive.derivation": ("Derivation",),
    "upsolve.errors": ("UpsolveError",),
    "upsolve.evaluate.benchmarks": ("HeldOut", "evaluate_model", "held_out", "sweep_model"),
    "upsolve.evaluate.capability": ("Capability", "capability"),
    "upsolve.evaluate.comparison": ("Comparison", "compare"),
    "upsolve.evaluate.scores": ("Evaluation", "Sweep", "TaskScore"),
    "upsolve.evaluate.runs": ("load_evaluation", "load_sweep", "save_evaluation", "save_sweep"),
    "upsolve.experiment": ("run_recipe",),
    "upsolve.exports.exporting": ("export_archive",),
    "upsolve.exports.record": ("Export",),
    "upsolve.objective.table": ("Objective",),
    "upsolve.policy.collect": ("sample_attempts",),
    "upsolve.policy.engines": ("Engine",),
    "upsolve.report.content": ("ReportContent",),
    "upsolve.report.html": ("write_report",),
    "upsolve.report.run": ("Run", "open_run"),
    "upsolve.reward.components": ("Component",),
    "upsolve.reward.credit": ("Credit",),
    "upsolve.reward.hacks": ("Detector",),
    "upsolve.solve.choose": ("Evidence",),
    "upsolve.solve.search": ("Parents",),
    "upsolve.solve.solving": ("Answer", "SolveSettings", "solve", "solve_tasks"),
    "upsolve.train.loop": ("train_policy",),
    "upsolve.train.run.folder": ("Trained",),
    "upsolve.types": ("Attempt", "Finding", "Group", "Status", "Task", "TestCase", "TestKind", "Verdict"),
    "upsolve.languages": ("Language",),
    "upsolve.verify.limits": ("JudgeSettings", "Limits"),
    "upsolve.verify.pool.pool": ("verify_attempts",),
}
"""Module -> the public names that it defines; a test compares this table with the imports above."""
RENAMED = {"solve_tasks": "solve", "train_policy": "train", "verify_attempts": "verify"}
"""Public name -> its name in the module, where the package ``upsolve.<name>`` takes the shorter one."""


def __getattr__(name: str) -> Any:
    for module, names in SOURCES.items():
        if name in names:
            from upsolve.extras import needs_extras

            with needs_extras():
                value = getattr(import_module(module), RENAMED.get(name, name))
            return globals().setdefault(name, value)  # ``solve`` is set by its import: the package, which can be called
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
