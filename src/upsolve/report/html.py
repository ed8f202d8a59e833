"""One self-contained HTML page: nothing is loaded from anywhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from upsolve.evaluate.comparison import compare, drops
from upsolve.files import write_text
from upsolve.report.examples import Example
from upsolve.report.plots import change_by_task, outcomes, pass_by_difficulty, training_curves
from upsolve.report.tables import change_table, pass_table, profile_table, reward_tables
from upsolve.reward.formula import Rewarded
from upsolve.types import Evaluation

__all__ = ["ReportContent", "write_report"]


@dataclass(frozen=True, slots=True)
class ReportContent:
    """Everything a report shows."""

    title: str
    """Headline."""
    evaluations: tuple[Evaluation, ...]
    """The first is the baseline; may be empty."""
    ks: tuple[int, ...] = (1,)
    """The k of pass@k."""
    training: tuple[Mapping[str, float], ...] = ()
    """Metrics of every optimizer step."""
    rewarded: tuple[Rewarded, ...] = ()
    """Groups of the training tasks with their rewards."""
    recipe_yaml: str = ""
    """The resolved recipe."""
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Model, sampling, machine and versions, by label."""
    examples: tuple[Example, ...] = ()
    """Attempts shown side by side."""


def write_report(path: str | Path, content: ReportContent) -> None:
    """Write the page, atomically."""
    loader = PackageLoader("upsolve.report", ".")
    page = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    runs = list(content.evaluations)
    pictures: dict[str, str] = {}
    k, ks = (content.ks or (1,))[0], content.ks or (1,)
    if runs:
        pictures[f"pass@{k} by difficulty"] = pass_by_difficulty(runs, k)
        pictures["Outcomes of the samples"] = outcomes(runs)
    if len(runs) > 1:
        pictures[f"Change in pass@{k}, task by task"] = change_by_task(runs[0], runs[-1], k)
    if content.training:
        pictures["Training"] = training_curves(content.training)
    tables = [pass_table(runs, ks)] if runs else []
    tables += [change_table(runs[0], other) for other in runs[1:]]
    tables += [profile_table(runs)] if runs else []
    tables += reward_tables(content.rewarded) if content.rewarded else []
    text = page.get_template("report.html.j2").render(
        content=content,
        comparisons=[(compare(runs[0], other, k), drops(runs[0], other, ks)) for other in runs[1:]],
        tables=tables,
        pictures=pictures,
    )
    write_text(Path(path), text)
