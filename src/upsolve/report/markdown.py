"""A report as Markdown, for a pull request: the sentence and the first table open, everything else folded."""

import re
from collections.abc import Sequence

from upsolve.report.content import Change, Example, ReportContent, changes_of, tables_of
from upsolve.report.programs import diff_lines
from upsolve.report.tables import Table

__all__ = ["markdown_of", "markdown_text"]


def markdown_of(content: ReportContent) -> str:
    """Return the report as Markdown (GitHub's and GitLab's tables, ``details``, ```` ```diff ````); no plots."""
    return markdown_text(content, changes_of(content), tables_of(content), unfolded=1)


def markdown_text(content: ReportContent, changes: Sequence[Change], tables: Sequence[Table], *, unfolded: int) -> str:
    """Return sentences, tables, the first ones of them not folded, and the facts and examples of a report as Markdown."""
    texts = [*map(table_text, tables)]
    parts = [f"## {plain(content.title)}", *(paragraph(change) for change in changes)]
    if content.collapsed:
        parts.append(f"**Training was stopped:** {plain(content.collapsed)}")
    parts += texts[:unfolded]
    if texts[unfolded:]:
        parts.append(folded("Tables", "\n\n".join(texts[unfolded:])))
    if content.examples:
        parts.append(folded("Tasks before and after", "\n\n".join(map(example_text, content.examples))))
    if content.facts:
        parts.append(folded("What was run", table_text(Table("", ("", ""), tuple(content.facts.items())))))
    if content.recipe_yaml:
        parts.append(folded("Recipe", fenced("yaml", content.recipe_yaml)))
    return "\n\n".join(parts) + "\n"


def paragraph(change: Change) -> str:
    """Return the sentence about a model, with details and warnings below it."""
    about = change.capability
    below = [about.best.details or "", *about.choices, *about.warnings, *change.drops]
    return "\n".join([f"**{plain(change.label + about.sentence)}**", *(f"\n{plain(line)}" for line in below if line)])


def table_text(table: Table) -> str:
    """Return a table, under its title."""
    rows = [table.header, tuple("---:" if right else "---" for right in table.numeric), *table.rows]
    lines = ["| " + " | ".join(plain(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([*([f"**{plain(table.title)}**", ""] if table.title else []), *lines])


def example_text(example: Example) -> str:
    """Return the programs before and after as a diff."""
    head = f"**{plain(example.task_id)}**: {example.before_status} before, {example.after_status} after"
    lines = [f"{sign}{line}" for sign, line in diff_lines(example.before, example.after)]
    return f"{head}\n\n{fenced('text', example.prompt)}\n\n{fenced('diff', chr(10).join(lines))}"


def folded(title: str, text: str) -> str:
    """Return a text that is shown when its title is clicked."""
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"


def fenced(kind: str, text: str) -> str:
    """Return a code block; its fence is longer than any in the text, which models write."""
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    return f"{fence}{kind}\n{text.rstrip(chr(10))}\n{fence}"


def plain(text: str) -> str:
    """Return a text in one line that Markdown shows as it stands: HTML and emphasis are escaped."""
    return re.sub(r"([\\`*_<>\[\]])", r"\\\1", " ".join(text.split()))
