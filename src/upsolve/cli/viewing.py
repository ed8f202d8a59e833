"""``upsolve view``: tasks, attempts and verdicts in a browser."""

from pathlib import Path
from typing import Annotated

import typer

from upsolve.cli.app import app
from upsolve.errors import ConfigError

__all__ = ["view"]


@app.command()
def view(
    path: Annotated[
        str,
        typer.Argument(
            help="Folder of an archive or of a run, `embedded`, `embedded-sql`, or a log that `upsolve ingest` knows.",
            metavar="ARCHIVE|RUN|LOG",
        ),
    ],
    static: Annotated[
        Path | None,
        typer.Option("--static", help="Write one self-contained HTML page here instead of serving.", metavar="OUT.html"),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of 127.0.0.1; 0: any free port.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
    archive: Annotated[str, typer.Option("--archive", "-a", help="RUN: where the archive of its attempts is now.")] = "",
    source: Annotated[str, typer.Option(help="LOG: the importer that reads it; default: the first that can.")] = "",
    logps: Annotated[
        bool, typer.Option("--logps", help="RUN: load its model, and show the log-probability that it gives to each token.")
    ] = False,
) -> None:
    """Browse tasks, attempts and verdicts in the browser: only from this machine, and nothing is sent elsewhere.

    Of a run, also rewards and advantages of attempts and of their tokens, and the curves of training, live.
    """
    from upsolve.view.opening import open_path

    if static and static.suffix not in (".html", ".htm"):
        raise ConfigError(f"--static {static}: the page is HTML; end the name with .html")
    answers = open_path(path, archive=archive, source=source, logps=logps)
    if static:
        from upsolve.view.static import write_page

        typer.echo(write_page(answers, static))
        return
    from upsolve.view.server import serve

    serve(answers, port, browser=browser, say=typer.echo)
