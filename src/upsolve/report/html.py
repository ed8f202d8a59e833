"""One self-contained HTML page, which loads no other file."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from upsolve.evaluate.sweep import temperature_name
from upsolve.files import write_text
from upsolve.report.content import Change, ReportContent, changes_of, diff_lines, tables_of
from upsolve.report.plots import (
    change_by_task,
    outcomes,
    pass_by_difficulty,
    pass_by_temperature,
    reliability,
    stopped_at,
    training_curves,
)
from upsolve.report.tables import Table

__all__ = ["write_page", "write_report"]


def pictures_of(content: ReportContent) -> dict[str, str]:
    """Return the plots of a report as SVG text, by title."""
    sweeps, pictures = content.sweeps, dict[str, str]()
    best = "each at its own best temperature"
    if any(sweep.dev for sweep in sweeps):
        pictures["pass@1 by temperature"] = pass_by_temperature(sweeps)
    if sweeps:
        last = temperature_name(sweeps[-1].hot.temperature)
        pictures[f"pass@1 by difficulty, {best}"] = pass_by_difficulty([sweep.best for sweep in sweeps])
        pictures[f"Outcomes of the samples, {last}"] = outcomes([sweep.hot for sweep in sweeps])
    if len(sweeps) > 1:
        pictures[f"Change in pass@1, task by task, {best}"] = change_by_task(sweeps[0].best, sweeps[-1].best)
    if whole := [one for one in content.calibrations if not one.language]:
        pictures["Share of programs that passed by score, in ten bins"] = reliability(whole)
    if content.training:
        rows = [{"step": 0.0, **content.start}, *content.training] if content.start else content.training
        pictures[f"Training, {sum('loss' in row for row in content.training)} steps"] = training_curves(
            rows, limits=content.limits, stopped=stopped_at(content.collapsed), kept=content.kept_step
        )
    return pictures


def write_report(path: str | Path, content: ReportContent) -> None:
    """Write the page, atomically."""
    write_page(path, content, changes_of(content), tables=tables_of(content), pictures=pictures_of(content))


def write_page(
    path: str | Path, content: ReportContent, changes: Sequence[Change], *, tables: Sequence[Table], pictures: Mapping[str, str]
) -> None:
    """Write a page with these sentences, tables and plots (SVG text by title), and the facts and examples of a report, atomically."""
    loader = PackageLoader("upsolve.report", ".")
    page = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    parts = {"content": content, "changes": changes, "tables": tables, "pictures": pictures, "diff_lines": diff_lines}
    text = page.get_template("report.html.j2").render(parts)
    write_text(Path(path), text)
