"""One self-contained HTML page: nothing is loaded from anywhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from upsolve.evaluate.comparison import compare
from upsolve.files import write_text
from upsolve.report.plots import change_by_task, outcomes, pass_by_difficulty, training_curves
from upsolve.report.tables import pass_table, profile_table, reward_tables
from upsolve.reward.formula import Rewarded
from upsolve.types import Evaluation

__all__ = ["Example", "ReportContent", "write_report"]


@dataclass(frozen=True, slots=True)
class Example:
    """One task with an attempt from before and one from after."""

    task_id: str
    """The task."""
    prompt: str
    """Its statement."""
    before: str
    """Code before."""
    before_status: str
    """Its status."""
    after: str
    """Code after."""
    after_status: str
    """Its status."""


@dataclass(frozen=True, slots=True)
class ReportContent:
    """All that a report shows."""

    title: str
    """Headline."""
    evaluations: tuple[Evaluation, ...]
    """The first is the baseline; may be empty."""
    ks: tuple[int, ...] = (1,)
    """The k of pass@k."""
    training: tuple[Mapping[str, float], ...] = ()
    """Figures of every step."""
    rewarded: tuple[Rewarded, ...] = ()
    """Groups of the training tasks with their rewards."""
    recipe_yaml: str = ""
    """The resolved recipe."""
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    """What was run and where."""
    examples: tuple[Example, ...] = ()
    """Some attempts."""


def write_report(path: str | Path, content: ReportContent) -> None:
    """Write the page, atomically."""
    loader = PackageLoader("upsolve.report", ".")
    page = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    runs = list(content.evaluations)
    pictures: dict[str, str] = {}
    if runs:
        pictures[f"pass@{content.ks[0]} by difficulty"] = pass_by_difficulty(runs, content.ks[0])
        pictures["Outcomes of the samples"] = outcomes(runs)
    if len(runs) > 1:
        pictures[f"Change in pass@{content.ks[0]}, task by task"] = change_by_task(runs[0], runs[-1], content.ks[0])
    if content.training:
        pictures["Training"] = training_curves(content.training)
    tables = [pass_table(runs, content.ks), profile_table(runs)] if runs else []
    tables += reward_tables(content.rewarded) if content.rewarded else []
    text = page.get_template("report.html.j2").render(
        content=content,
        comparisons=[compare(runs[0], other, content.ks[0]) for other in runs[1:]],
        tables=tables,
        pictures=pictures,
    )
    write_text(Path(path), text)
