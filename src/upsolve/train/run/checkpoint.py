"""Checkpoints: weights, optimizer state, random state and progress of a run, written atomically."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils.serialization import config

from upsolve.errors import TrainingError
from upsolve.files import commit_file
from upsolve.train.data.pack import PackedBatch
from upsolve.train.run.folder import CHECKPOINT
from upsolve.train.update.placement import Replicated

__all__ = ["Progress", "restore", "save"]

SAVING: Any = config
"""PyTorch's settings of ``torch.save``."""


@dataclass(slots=True)
class Progress:
    """Progress of a run."""

    step: int = 0
    """Optimizer steps done."""
    best: float = -float("inf")
    """Largest held-out margin so far, nats per token."""
    best_step: int = 0
    """Step of the largest held-out margin."""
    start: dict[str, float] | None = None
    """Held-out metrics before the first step."""
    round: int = 0
    """Rounds finished (offline: epochs)."""
    in_round: int = 0
    """Steps done of the current round."""
    skipped: int = 0
    """Steps skipped because the gradient was not finite."""
    groups: int = 0
    """Groups of the finished rounds."""
    left_out: dict[str, int] = field(default_factory=dict[str, int])
    """Attempts and tasks of the finished rounds that were not trained on, by reason."""
    flagged: dict[str, int] = field(default_factory=dict[str, int])
    """Flagged attempts of the finished rounds, by what flagged them."""


def save(folder: Path, placement: Replicated, progress: Progress, *, writes: bool = True) -> None:
    """Write a checkpoint, replacing the last one. It holds full tensors, so any number of processes can resume from it.

    Collective if the weights are sharded; one process writes.
    """
    weights, moments = placement.state(keep=writes)
    if not writes:
        return
    state: dict[str, Any] = {
        "weights": weights,
        "moments": moments,
        "progress": asdict(progress),
        "rng": torch.get_rng_state(),
        "device_rng": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }
    temporary = folder / f"{CHECKPOINT}.tmp"
    with SAVING.patch("save.compute_crc32", False):  # checksums take most of the time, and ``torch.load`` does not read them
        torch.save(state, temporary)
    commit_file(temporary, folder / CHECKPOINT)


def restore(folder: Path, placement: Replicated, example: PackedBatch) -> Progress:
    """Load the checkpoint of a folder into the policy and its optimizer; without one, start at step 0.

    ``example`` is any batch that the policy can score; DeepSpeed needs one.

    Raises:
        TrainingError: the checkpoint is damaged or of another model; names the file.
    """
    file = folder / CHECKPOINT
    if not file.exists():
        return Progress()
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
        placement.load(state["weights"], state["moments"], example)
        torch.set_rng_state(state["rng"])
        if len(devices := state.get("device_rng", [])) == torch.cuda.device_count():  # else they keep that of their seed
            torch.cuda.set_rng_state_all(devices)
        return Progress(**state["progress"])
    except (RuntimeError, TypeError, ValueError, KeyError, EOFError, OSError) as error:
        raise TrainingError(f"{file}: cannot resume from it ({error}); remove it to start over") from error
