"""Checkpoints: progress, trained weights and moments of a run, and the state of its random numbers.

checkpoint.pt   of policies that every rank holds whole, also in ZeRO-1 and ZeRO-2: full tensors, written by rank 0
checkpoint/     of policies sharded by FSDP2 or ZeRO-3: torch.distributed.checkpoint's form, each rank writes its part

Any number of processes, in any placement, resumes from either.
"""

import shutil
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.tensor import DTensor
from torch.utils.serialization import config

from upsolve.errors import TrainingError, one_line
from upsolve.files import commit_file, commit_folder
from upsolve.train.data.pack import PackedBatch
from upsolve.train.run.folder import CHECKPOINT, PARTS
from upsolve.train.run.nodes import collect
from upsolve.train.update.placement import Moments, Replicated

__all__ = ["Progress", "restore_checkpoint", "save_checkpoint"]

SAVING: Any = config
"""PyTorch's settings of ``torch.save``."""
REST = "rest.pt"
"""File of a checkpoint in parts for everything that is not a rank's tensor: progress and random numbers."""
DAMAGED = (RuntimeError, TypeError, ValueError, LookupError, EOFError, OSError, CheckpointException)
"""Errors of reading a damaged checkpoint."""


@dataclass(slots=True)
class Progress:
    """Progress of a run."""

    step: int = 0
    """Optimizer steps done."""
    best: float = -float("inf")
    """Highest log-probability of held-out passed attempts so far, nats per token."""
    best_step: int = 0
    """Step at which ``best`` was measured."""
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


def save_checkpoint(folder: Path, placement: Replicated, progress: Progress, *, writes: bool = True) -> None:
    """Write a checkpoint, replacing the last one. Collective if the weights are sharded; ``writes``: this is rank 0."""
    rest: dict[str, Any] = {
        "progress": asdict(progress),
        "rng": torch.get_rng_state(),
        "device_rng": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }
    if placement.in_parts:
        save_parts(folder, placement, rest, writes=writes)
        return
    weights, moments = placement.state(keep=writes)
    if writes:
        temporary = folder / f"{CHECKPOINT}.tmp"
        with SAVING.patch(
            "save.compute_crc32", False
        ):  # checksums take most of the time, and ``torch.load`` does not read them
            torch.save({"weights": weights, "moments": moments, **rest}, temporary)
        commit_file(temporary, folder / CHECKPOINT)
        shutil.rmtree(folder / PARTS, ignore_errors=True)


def save_parts(folder: Path, placement: Replicated, rest: dict[str, Any], *, writes: bool) -> None:
    """Write a checkpoint of which each rank writes its part. Collective."""
    temporary, processes = folder / f"{PARTS}.tmp", placement.processes
    if writes or processes.index in processes.disks:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
    processes.wait()
    held, states = placement.held()
    weights = {f"weight.{at}": weight for at, weight in enumerate(held)}
    moments = {f"{name}.{at}": tensor for at, each in states.items() for name, tensor in each.items()}
    with SAVING.patch("save.compute_crc32", False):
        save({**weights, **moments}, checkpoint_id=temporary)
    collect(temporary, processes)
    if writes:
        torch.save(rest, temporary / REST)
        commit_folder(temporary, folder / PARTS)
        (folder / CHECKPOINT).unlink(missing_ok=True)
    processes.wait()


def load_parts(folder: Path, placement: Replicated, example: PackedBatch) -> dict[str, Any]:
    """Load a checkpoint in parts; of sharded tensors only this rank's part is read. Returns everything that is not a rank's tensor."""
    learning, found = placement.parameters(), dict[str, Tensor]()
    metadata = FileSystemReader(folder).read_metadata().state_dict_metadata
    for key, stored in metadata.items():
        kind, _, at = key.rpartition(".")
        own, size = learning[int(at)].detach(), getattr(stored, "size", None) or torch.Size()
        found[key] = own if kind == "weight" and own.shape == size else placement.room(learning[int(at)], size)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        load(found, checkpoint_id=folder, no_dist=True)
    moments: Moments = {}
    for key, tensor in found.items():
        name, _, at = key.rpartition(".")
        own = learning[int(at)]
        flat = tensor.dim() == 1 and tensor.numel() == own.numel() and not isinstance(tensor, DTensor)  # stored by ZeRO-3
        moments.setdefault(int(at), {})[name] = tensor.view(own.shape) if flat else tensor
    weights = [moments[at].pop("weight") for at in range(len(learning))]
    placement.load(weights, moments, example)
    return torch.load(folder / REST, map_location="cpu", weights_only=True)


def restore_checkpoint(folder: Path, placement: Replicated, example: PackedBatch) -> Progress:
    """Load the checkpoint of a folder into the policy and its optimizer; without a checkpoint, start at step 0. TrainingError if it is damaged.

    ``example`` is any batch that the policy can score; DeepSpeed needs one.
    """
    file = folder / CHECKPOINT if (folder / CHECKPOINT).exists() else folder / PARTS
    if not file.exists():
        return Progress()
    try:
        if file.is_dir():
            state = load_parts(file, placement, example)
        else:  # mapped, not read: a rank of a sharded policy takes its part
            state = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
            placement.load(state["weights"], state["moments"], example)
        torch.set_rng_state(state["rng"].clone())
        if len(devices := state.get("device_rng", [])) == torch.cuda.device_count():  # else they keep that of their seed
            torch.cuda.set_rng_state_all(devices)
        return Progress(**state["progress"])
    except DAMAGED as error:
        raise TrainingError(f"{file}: cannot resume from it ({one_line(error)}); remove it to start over") from error
