"""Everything a run needs to go on bit by bit: written whole or not at all."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from upsolve.errors import TrainingError
from upsolve.policy.model import trainable

__all__ = ["Progress", "restore", "save"]

FILE = "checkpoint.pt"


@dataclass(slots=True)
class Progress:
    """Where a run is."""

    step: int = 0
    """Optimiser steps done."""
    best: float = -float("inf")
    """Largest held-out score so far."""
    best_step: int = 0
    """The step that had it."""
    start: dict[str, float] | None = None
    """Held-out figures before the first step."""


def save(folder: Path, model: Any, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    """Write a checkpoint over the last one, atomically."""
    state = {
        "weights": [parameter.detach() for parameter in trainable(model)],
        "optimizer": optimizer.state_dict(),
        "progress": (progress.step, progress.best, progress.best_step, progress.start),
        "rng": torch.get_rng_state(),
    }
    temporary = folder / f"{FILE}.tmp"
    torch.save(state, temporary)
    temporary.replace(folder / FILE)


def restore(folder: Path, model: Any, optimizer: torch.optim.Optimizer) -> Progress:
    """Load the checkpoint of a folder into model and optimiser; without one, start at step 0.

    Raises:
        TrainingError: the checkpoint is damaged or of another model; names the file.
    """
    file = folder / FILE
    if not file.exists():
        return Progress()
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
        with torch.no_grad():
            for parameter, saved in zip(trainable(model), state["weights"], strict=True):
                parameter.copy_(saved)
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])
        return Progress(*state["progress"])
    except (RuntimeError, ValueError, KeyError, EOFError, OSError) as error:
        raise TrainingError(f"{file}: cannot go on from it ({error}); remove it to start over") from error
