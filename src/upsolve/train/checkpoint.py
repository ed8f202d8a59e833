"""Everything a run needs to go on bit by bit: written whole or not at all."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from upsolve.errors import TrainingError
from upsolve.train.shard import spread_like, whole

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


def save(
    folder: Path, learning: Sequence[Tensor], optimizer: torch.optim.Optimizer, progress: Progress, *, writes: bool = True
) -> None:
    """Write a checkpoint over the last one, atomically; it holds whole tensors and does not tell how they were spread.

    Where they are spread over processes, all call this and one writes.
    """
    weights = [whole(parameter.detach(), keep=writes) for parameter in learning]
    moments = optimizer.state_dict()
    moments["state"] = {
        index: {name: whole(tensor, keep=writes) for name, tensor in tensors.items()}
        for index, tensors in moments["state"].items()
    }
    if not writes:
        return
    state = {
        "weights": weights,
        "optimizer": moments,
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
                parameter.copy_(spread_like(saved, parameter))
        optimizer.load_state_dict(spread_moments(state["optimizer"], learning))
        torch.set_rng_state(state["rng"])
        return Progress(**state["progress"])
    except (RuntimeError, TypeError, ValueError, KeyError, EOFError, OSError) as error:
        raise TrainingError(f"{file}: cannot go on from it ({error}); remove it to start over") from error


def spread_moments(state: dict[str, Any], learning: Sequence[Tensor]) -> dict[str, Any]:
    """Return the saved state of an optimiser, each tensor spread as its parameter is."""
    moments = {
        index: {name: spread_like(tensor, learning[index]) for name, tensor in tensors.items()}
        for index, tensors in state["state"].items()
    }
    return {**state, "state": moments}
