"""Everything a run needs to go on bit by bit: written whole or not at all."""

from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from upsolve.errors import TrainingError
from upsolve.train.pack import PackedBatch
from upsolve.train.placement import Replicated

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


def save(folder: Path, held: Replicated, progress: Progress, *, writes: bool = True) -> None:
    """Write a checkpoint over the last one, atomically; it holds whole tensors and does not tell how they were spread.

    Where they are spread over processes, all call this and one writes.
    """
    weights, moments = held.state(keep=writes)
    if not writes:
        return
    state = {"weights": weights, "moments": moments, "progress": asdict(progress), "rng": torch.get_rng_state()}
    temporary = folder / f"{FILE}.tmp"
    torch.save(state, temporary)
    temporary.replace(folder / FILE)


def restore(folder: Path, held: Replicated, example: PackedBatch) -> Progress:
    """Load the checkpoint of a folder into what learns and its optimiser; without one, start at step 0.

    ``example`` is any batch that the policy can score.

    Raises:
        TrainingError: the checkpoint is damaged or of another model; names the file.
    """
    file = folder / FILE
    if not file.exists():
        return Progress()
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
        held.load(state["weights"], state["moments"], example)
        torch.set_rng_state(state["rng"])
        return Progress(**state["progress"])
    except (RuntimeError, TypeError, ValueError, KeyError, EOFError, OSError) as error:
        raise TrainingError(f"{file}: cannot go on from it ({error}); remove it to start over") from error
