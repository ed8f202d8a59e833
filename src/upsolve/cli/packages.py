"""``upsolve packages``: install what tasks require, prepare what languages read."""

import subprocess
import sys
from typing import Annotated

import typer

from upsolve.cli.app import app
from upsolve.errors import ConfigError
from upsolve.languages.packages import install_command, packages_folder
from upsolve.languages.prepare import is_prepared, preparable, prepare

__all__ = ["packages"]

NAMES = typer.Argument(help="Packages to install, as for pip: numpy, scikit-learn==1.7.")
PREPARE = typer.Option(
    "--prepare", "--headers", help="Build precompiled headers, class data and similar files, which speed up compilation."
)


@app.command()
def packages(names: Annotated[list[str] | None, NAMES] = None, prepared: Annotated[bool, PREPARE] = False) -> None:
    """Install packages that tasks name in ``requires``, for attempts alone; without a name, list what is installed and prepared."""
    folder = packages_folder()
    if prepared:
        prepare_all()
    if names and subprocess.run(install_command(names), check=False).returncode:
        raise ConfigError(f"pip could not install {' '.join(names)} into {folder}; see its output above")
    if not names and not prepared:
        typer.echo(str(folder))
        subprocess.run([sys.executable, "-P", "-m", "pip", "list", "--path", str(folder)], check=False)
        for language in preparable():
            typer.echo(
                f"language {language.name}: {'prepared' if is_prepared(language) else 'slow, run `upsolve packages --prepare`'}"
            )


def prepare_all() -> None:
    """Prepare every language that is installed here; one that fails does not keep others from it.

    Raises:
        ConfigError: some failed; names them and says what their tools printed.
    """
    failed: list[str] = []
    for language in preparable():
        try:
            typer.echo(str(prepare(language)))
        except ConfigError as error:
            failed.append(str(error))
    if failed:
        raise ConfigError("\n".join(failed))
