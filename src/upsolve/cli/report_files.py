"""Where the reports of commands go: to a file, to standard output, or both."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from upsolve.cli.app import print_json
from upsolve.errors import ConfigError
from upsolve.files import write_text

__all__ = ["destination", "publish"]


def destination(out: Path | None, name: str, *, markdown: bool, as_json: bool) -> tuple[Path | None, bool]:
    """Return the file that a report is written to, and whether it is Markdown.

    Args:
        out: a file; a folder, or a name without an ending, in which the report gets its name; None: the report is printed.
        name: the report's name in a folder, without its ending.
        markdown: whether Markdown is asked for; a file that ends with ``.md`` is Markdown, too.
        as_json: whether JSON is printed.

    Raises:
        ConfigError: the file has another ending than those of pages and Markdown, or JSON and Markdown would both be printed.
    """
    if out is None and markdown and as_json:
        raise ConfigError("--json and --markdown both print: leave one out, or give the Markdown a file (--out report.md)")
    markdown = markdown or (out is not None and out.suffix == ".md")
    if out is None:
        return None, markdown
    if out.is_dir() or not out.suffix:
        return out / f"{name}.{'md' if markdown else 'html'}", markdown
    if out.suffix not in (".md", ".html", ".htm"):
        raise ConfigError(f"--out {out}: reports are pages (.html) or Markdown (.md); give it one of these endings")
    return out, markdown


def publish(
    file: Path | None,
    *,
    markdown: Callable[[], str] | None,
    page: Callable[[Path], None],
    tables: Callable[[], None],
    figures: Callable[[], dict[str, Any]] | None,
) -> None:
    """Write a report to a file, if there is one; then print JSON, Markdown without a file, or tables and the name of the file.

    Args:
        file: what to write; None: only print.
        markdown: returns the report as Markdown; None: it is a page.
        page: writes the page.
        tables: prints the tables.
        figures: returns the figures that are printed as JSON; None: they are not.

    Raises:
        ConfigError: the evaluations cannot be compared, such as those of different tasks.
    """
    try:
        if file and markdown:
            write_text(file, markdown())
        elif file:
            page(file)
        if figures:
            print_json(figures())
        elif markdown and not file:
            typer.echo(markdown(), nl=False)
        elif not markdown:
            tables()
    except ValueError as error:
        raise ConfigError(f"cannot be compared: {error}") from error
    if file and not figures:
        typer.echo(f"report: {file}")
