"""One self-contained HTML page, which loads no other file."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from upsolve.evaluate.scores import temperature_name
from upsolve.files import write_text
from upsolve.report.blocks import Node, digest, html_of, inline_script, listing
from upsolve.report.content import ReportContent, tables_of
from upsolve.report.overview import curves_of, example_block, logged, most_changed, overview_block, table_block
from upsolve.report.plots import change_by_task, outcomes, pass_by_difficulty, pass_by_temperature, reliability
from upsolve.report.tables import Table

__all__ = ["write_page", "write_report"]

COPY = Path(__file__).with_name("copy.js")
"""Buttons at programs."""
POLICY = "default-src 'none'; script-src 'sha256-{script}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def pictures_of(content: ReportContent) -> dict[str, str]:
    """Return title -> plot of a report as SVG text."""
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
    return pictures


def write_report(path: str | Path, content: ReportContent) -> None:
    """Write the page, atomically."""
    compared = max(0, len(content.sweeps) - 1)  # tables that the overview has
    tables, unfolded = tables_of(content)[compared:], 0 if compared else 1
    write_page(path, content, overview_block(content), tables=tables, pictures=pictures_of(content), unfolded=unfolded)


def write_page(
    path: str | Path,
    content: ReportContent,
    head: Node,
    *,
    tables: Sequence[Table],
    pictures: Mapping[str, str],
    unfolded: int,
) -> None:
    """Write a page, atomically: this head, the first tables, and folded sections with plots (title -> SVG text) and the other parts of a report."""
    loader = PackageLoader("upsolve.report", ".")
    page = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    shown = most_changed(content.examples)
    script = inline_script(COPY.read_text(encoding="utf-8") + "copyPrograms(document);")
    parts = {
        "script": script,
        "policy": POLICY.format(script=digest(script)),
        "content": content,
        "head": html_of(head),
        "tables": [table for table in tables if table.rows],
        "pictures": pictures,
        "unfolded": unfolded,
        "more": [example for example in content.examples if example not in shown],
    }
    functions = {
        "curves_of": curves_of,
        "example_block": example_block,
        "html_of": html_of,
        "listing": listing,
        "table_block": table_block,
        "logged": logged(content.training),
    }
    text = page.get_template("report.html.j2").render(parts | functions)
    write_text(Path(path), text)
