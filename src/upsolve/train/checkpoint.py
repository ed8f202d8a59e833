"""Everything a run needs to go on bit by bit: written whole or not at all."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from upsolve.errors import TrainingError

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
    round: int = 0
    """Rounds done."""
    in_round: int = 0
    """Steps done of the round after these."""
    groups: int = 0
    """Groups of the rounds done."""
    left_out: dict[str, int] = field(default_factory=dict[str, int])
    """What was not trained on in these, by reason."""
    flagged: dict[str, int] = field(default_factory=dict[str, int])
    """What was flagged in these, by what flagged it."""


def save(folder: Path, learning: Sequence[Tensor], optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    """Write a checkpoint over the last one, atomically."""
    state = {
        "weights": [parameter.detach() for parameter in learning],
        "optimizer": optimizer.state_dict(),
        "progress": asdict(progress),
        "rng": torch.get_rng_state(),
    }
    temporary = folder / f"{FILE}.tmp"
    torch.save(state, temporary)
    temporary.replace(folder / FILE)


def restore(folder: Path, learning: Sequence[Tensor], optimizer: torch.optim.Optimizer) -> Progress:
    """Load the checkpoint of a folder into what learns and its optimiser; without one, start at step 0.

    Raises:
        TrainingError: the checkpoint is damaged or of another model; names the file.
    """
    file = folder / FILE
    if not file.exists():
        return Progress()
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
        with torch.no_grad():
            for parameter, saved in zip(learning, state["weights"], strict=True):
                parameter.copy_(saved)
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])
        return Progress(**state["progress"])
    except (RuntimeError, TypeError, ValueError, KeyError, EOFError, OSError) as error:
        raise TrainingError(f"{file}: cannot go on from it ({error}); remove it to start over") from error
