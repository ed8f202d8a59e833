"""Log-probabilities under the frozen start, computed once and cached by content."""

import os
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from upsolve.files import cache_folder
from upsolve.train.logprobs import TokenScores
from upsolve.train.pack import PackedBatch

__all__ = ["fingerprint", "read_attempts", "reference_logps", "save_arrays"]

Floats = NDArray[np.float32]


def fingerprint(model: Any, precision: str) -> str:
    """Return a content id of all weights except those of adapters, and of the precision of the computation."""
    digest = sha256(precision.encode())
    weights = {name: tensor for name, tensor in model.state_dict().items() if ".lora_" not in name}
    for name, tensor in sorted(weights.items()):
        digest.update(name.encode())
        digest.update(tensor.detach().contiguous().cpu().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:20]


def read_attempts(
    batches: Iterable[PackedBatch], score: Callable[[PackedBatch], TokenScores]
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return the log-probabilities [R] of every attempt by its key, and the value head's values [R] where there is one."""
    logps: dict[str, Floats] = {}
    values: dict[str, Floats] = {}
    for batch in batches:
        with torch.no_grad():
            scores = score(batch)
        ends = np.cumsum(np.bincount(batch.attempt_T))[:-1]
        logps |= zip(batch.keys, np.split(scores.logp_T.float().cpu().numpy(), ends), strict=True)
        if scores.values_T is not None:
            values |= zip(batch.keys, np.split(scores.values_T.float().cpu().numpy(), ends), strict=True)
    return logps, values


def save_arrays(file: Path, arrays: Mapping[str, Floats]) -> None:
    """Write arrays by name, atomically."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(f".{os.getpid()}.tmp.npz")
    np.savez(temporary, **arrays)  # type: ignore[arg-type]
    temporary.replace(file)


def reference_logps(
    batches: Iterable[PackedBatch], *, score: Callable[[PackedBatch], TokenScores], model_id: str
) -> dict[str, Floats]:
    """Return the log-probabilities [R] of every attempt of some batches under the frozen start; cached ones are not computed again.

    Args:
        batches: ``keys`` name the attempts.
        score: scores a batch under the frozen start.
        model_id: its ``fingerprint``.
    """
    file = cache_folder() / "reference" / f"{model_id}.npz"
    cached: dict[str, Floats] = {}
    if file.exists():
        with np.load(file) as stored:
            cached = {key: stored[key] for key in stored.files}
    before, batches = len(cached), list(batches)
    logps, _ = read_attempts([batch for batch in batches if any(key not in cached for key in batch.keys)], score)
    cached |= logps
    if len(cached) > before:
        save_arrays(file, cached)
    return {key: cached[key] for batch in batches for key in batch.keys}
