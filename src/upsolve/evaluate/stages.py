"""The stages of a run with rounds of own samples, read from its folder: without torch, for reports and the viewer."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upsolve.evaluate.runs import load_sweep
from upsolve.evaluate.scores import task_pass_at_k
from upsolve.evaluate.sweep import Sweep
from upsolve.train.run.folder import Trained, load_trained

__all__ = ["CONTROL", "FOLDER", "SUMMARY", "Stage", "load_stages", "place_of"]

FOLDER = "own"
"""Folder of the stages, within that of the run."""
SUMMARY = "stages.json"
"""List of the finished stages, in this folder."""
CONTROL = "archive, as long"
"""Name of the control."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a run with rounds of own samples."""

    name: str
    """``archive``, ``round 1``, ..., or the control (``CONTROL``)."""
    trained: Trained
    """Its training."""
    sweep: Sweep
    """Its model at several temperatures."""
    kept: bool
    """Whether its model was the best on dev tasks so far; the control never is."""
    samples: int = 0
    """Own samples that it drew."""
    passed: int = 0
    """How many of them passed."""

    @property
    def dev(self) -> float:
        """Highest mean pass@1 of dev tasks over temperatures; nan without dev tasks."""
        rates = [[*task_pass_at_k(one.scores, 1).values()] for one in self.sweep.dev]
        return max((sum(rate) / len(rate) for rate in rates if rate), default=float("nan"))


def load_stages(folder: Path) -> tuple[Stage, ...]:
    """Return the finished stages of a run's folder; () for a run without rounds."""
    file = folder / FOLDER / SUMMARY
    rows: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
    places = [file.with_name(place_of(row["name"])) for row in rows]
    return tuple(
        Stage(trained=trained, sweep=load_sweep(place.with_name(f"{place.name}.json")), **row)
        for row, place in zip(rows, places, strict=True)
        if (trained := load_trained(place.with_name(f"{place.name}-training")))
    )


def place_of(name: str) -> str:
    """Return the name of a stage in the names of its files: ``PLACE.json`` its sweep, ``PLACE-training`` the folder of its training."""
    return name.replace(", ", "-").replace(" ", "-")
