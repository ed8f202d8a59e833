"""The command capture."""

from functools import partial
from typing import Annotated

import typer

from upsolve.cli.app import app

__all__ = ["capture"]


@app.command()
def capture(
    archive: Annotated[str, typer.Argument(help="Folder of an archive to add to; created if it does not exist.")],
    upstream: Annotated[str, typer.Option(help="URL of the server, such as http://server:8000/v1.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine; 0: a free one.")] = 8001,
) -> None:
    """Pass requests of any client on to an OpenAI-compatible server, and store its completions as attempts; judge them with `verify`."""
    from upsolve.archive.store import create_archive
    from upsolve.extras import require
    from upsolve.importers.capture import serve

    require("fastapi", "uvicorn")
    stored = serve(upstream, create_archive(archive), port, say=partial(typer.echo, err=True))
    typer.echo(f"{stored} attempts added; judge them with: upsolve verify {archive}")
