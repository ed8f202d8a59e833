"""``upsolve packages``: install what tasks require."""

import subprocess
import sys
from typing import Annotated

import typer

from upsolve.cli.app import app
from upsolve.errors import ConfigError
from upsolve.verify.languages.headers import make_headers
from upsolve.verify.sandbox.packages import install_command, packages_folder

__all__ = ["packages"]

NAMES = typer.Argument(help="Packages as pip knows them: numpy, scikit-learn==1.7.")
HEADERS = typer.Option("--headers", help="Read the large headers of C++ once, so that its programs compile four times as fast.")


@app.command()
def packages(names: Annotated[list[str] | None, NAMES] = None, headers: Annotated[bool, HEADERS] = False) -> None:
    """Install packages that tasks name in ``requires``, for attempts alone; without a name, list what is installed."""
    folder = packages_folder()
    if headers:
        for file in make_headers():
            typer.echo(str(file))
    if names and subprocess.run(install_command(names), check=False).returncode:
        raise ConfigError(f"pip could not install {' '.join(names)} into {folder}; it says why above")
    if not names and not headers:
        typer.echo(str(folder))
        subprocess.run([sys.executable, "-m", "pip", "list", "--path", str(folder)], check=False)
