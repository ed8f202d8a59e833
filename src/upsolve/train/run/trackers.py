"""Trackers of experiments beside TensorBoard: W&B and trackio, whose functions have the same names and arguments."""

import io
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from upsolve.errors import ConfigError
from upsolve.extras import needs_extras
from upsolve.types import content_id

__all__ = ["Tracker", "open_trackers"]


class Tracker:
    """A run at a tracker."""

    def __init__(self, name: str, project: str, folder: Path) -> None:
        """Open the run, or continue it if it is there; it is named after the run's folder, and has the recipe as its configuration.

        Raises:
            MissingExtraError: the tracker is not installed.
            ConfigError: it refuses, such as W&B without an account.
        """
        with needs_extras(), silent():
            self.module: Any = import_module(name)
        run = folder.parent.name if folder.name == "training" else folder.name
        recipe = folder / "recipe.yaml"
        config = yaml.safe_load(recipe.read_text(encoding="utf-8")) if recipe.is_file() else {}
        own: dict[str, Any] = {}
        if name == "wandb":
            own = {"id": content_id(str(folder.resolve())), "dir": str(folder), "settings": self.module.Settings(silent=True)}
        try:
            with silent():
                self.run: Any = self.module.init(project=project, name=run, config=config, resume="allow", **own)
        except Exception as error:  # the trackers have no common exception
            raise ConfigError(
                f"monitor.trackers: {name} does not start ({type(error).__name__}: {error}); WANDB_MODE=offline needs no account"
                if name == "wandb"
                else f"monitor.trackers: {name} does not start ({type(error).__name__}: {error})"
            ) from error

    def write(self, row: Mapping[str, float]) -> None:
        """Log the row of a step."""
        with silent():
            self.run.log({name: value for name, value in row.items() if name != "step"}, step=int(row["step"]))

    def close(self) -> None:
        """Finish the run; trackio would finish it again at the end of the process unless its own function does."""
        with silent():
            self.module.finish()


def silent() -> redirect_stdout[io.StringIO]:
    """Return a context in which standard output, which holds the JSON of ``--json``, keeps what trackio says about itself out."""
    return redirect_stdout(io.StringIO())


def open_trackers(names: Sequence[str], project: str, folder: Path) -> list[Tracker]:
    """Return the trackers of a run; raises as ``Tracker``."""
    return [Tracker(name, project, folder) for name in names]
