"""Log-probabilities under the frozen start, computed once and cached by content: at most 256 MiB a model, for the last eight models."""

import os
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray

from upsolve.errors import TrainingError, one_line
from upsolve.files import cache_folder, replaced
from upsolve.train.data.pack import PackedBatch
from upsolve.train.update.logprobs import TokenScores

__all__ = ["fingerprint", "load_arrays", "read_attempts", "reference_logps", "save_arrays"]

MOST_TOKENS = 1 << 26
"""Most log-probabilities that are cached of a model, 4 bytes each; a single call may exceed the limit."""
MODELS = 8
"""Most models whose log-probabilities are cached."""
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
    with replaced(file) as temporary, temporary.open("wb") as out:  # numpy would end the name of a path with .npz
        np.savez(out, **arrays)  # type: ignore[arg-type]


def load_arrays(file: Path) -> dict[str, Floats]:
    """Return the arrays that ``save_arrays`` has written, in their order; TrainingError if the file is damaged."""
    try:
        with file.open("rb") as handle, np.load(handle) as stored:
            return {key: stored[key] for key in stored.files}
    except (BadZipFile, EOFError, OSError, ValueError, zlib.error) as error:
        raise TrainingError(f"{file}: damaged ({one_line(error)}); start the run fresh (--fresh)") from error


def newest(cached: Mapping[str, Floats], requested: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the requested log-probabilities behind the newest cached ones, together at most ``MOST_TOKENS``."""
    room, others = MOST_TOKENS - sum(map(len, requested.values())), list[str]()
    for key in reversed([*cached]):
        if key not in requested and (room := room - len(cached[key])) >= 0:
            others.append(key)
    return {**{key: cached[key] for key in reversed(others)}, **requested}


def reference_logps(
    batches: Iterable[PackedBatch], *, score: Callable[[PackedBatch], TokenScores], model_id: str
) -> dict[str, Floats]:
    """Return the log-probabilities [R] of every attempt of some batches under the frozen start; cached ones are not computed
    again."""
    file = cache_folder() / "reference" / f"{model_id}.npz"
    cached: dict[str, Floats] = {}
    if file.exists():
        os.utime(file)
        with suppress(TrainingError):  # damaged: computed again
            cached = load_arrays(file)
    batches = list(batches)
    logps, _ = read_attempts([batch for batch in batches if any(key not in cached for key in batch.keys)], score)
    requested = {key: logps[key] if key in logps else cached[key] for batch in batches for key in batch.keys}
    if requested.keys() - cached.keys():
        save_arrays(file, newest(cached, requested))
        files = sorted(file.parent.glob("*.npz"), key=lambda each: each.stat().st_mtime, reverse=True)
        for old in files[MODELS:]:
            old.unlink(missing_ok=True)
    return requested
