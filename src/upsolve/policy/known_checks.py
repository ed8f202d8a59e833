"""Checks of models that passed, kept between runs: batched decoding and packed scorers are compared with a model's own computation once.

    $UPSOLVE_CACHE/checks/<key>

A check compares two ways to compute the same numbers, so the key holds everything that they depend on, except the values of the
weights: the settings of the model, the code, names, shapes and precisions of its layers, the versions of PyTorch and transformers, and the
processor. Only passed checks are cached; a check that failed runs again, and reports again, in every run.
"""

import os
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from upsolve.files import cache_folder, write_text
from upsolve.types import content_id

__all__ = ["cache_check", "cached_check", "check_file"]

ALWAYS = "always"
"""Value of $UPSOLVE_CHECK that disables reading from the cache."""
PARTS = ("policy", "train")
"""Folders of this package whose code is compared with a model's own."""


def check_file(name: str, model: Any) -> Path:
    """Return the file in which the result of a check of a model is cached."""
    settings = {key: value for key, value in model.config.to_dict().items() if key != "_name_or_path"}
    layers = (f"{name} {tuple(p.shape)} {p.dtype} {p.requires_grad}" for name, p in model.named_parameters())
    versions = (torch.__version__, version("transformers"))
    form = (str(settings), str(model.config._attn_implementation), *layers, *code_of(model), *versions, processor(model.device))
    return cache_folder() / "checks" / content_id(name, *form)


def cached_check(file: Path) -> str | None:
    """Return the cached result of a passed check; None if there is none, or if $UPSOLVE_CHECK is ``always``."""
    if os.environ.get("UPSOLVE_CHECK") != ALWAYS:
        with suppress(OSError):
            return file.read_text()
    return None


def cache_check(file: Path, found: str = "") -> None:
    """Cache the result of a passed check; does nothing if the cache cannot be written: the next run checks again."""
    with suppress(OSError):
        write_text(file, found)


def code_of(model: Any) -> list[str]:
    """Return the classes of a model's modules with the code of their forward passes, and the files of both this code and this package's."""
    found = [(type(module), module.forward, getattr(module.forward, "__code__", None)) for module in model.modules()]
    forwards = {
        (kind, code.co_code.hex() if code else str(type(forward))) for kind, forward, code in found
    }  # builtins have no bytecode
    names = [f"{kind.__module__}.{kind.__qualname__} {code}" for kind, code in forwards]
    files = {getattr(sys.modules.get(kind.__module__), "__file__", None) for kind, _ in forwards}
    own = Path(__file__).parents[1]
    paths = [*(Path(file) for file in files if file), *(path for part in PARTS for path in (own / part).glob("*.py"))]
    return [*sorted(names), *sorted(map(state_of, paths))]


def state_of(path: Path) -> str:
    """Return size and modification time of a file; for a file inside of an archive, its name."""
    try:
        stat = path.stat()
    except OSError:
        return str(path)
    return f"{path} {stat.st_size} {stat.st_mtime_ns}"


def processor(device: torch.device) -> str:
    """Return a name of the processor of a device: its model, and the instructions that PyTorch uses."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = {line for line in lines if line.startswith(("model name", "flags", "Features"))}
    return "\n".join([device.type, torch.backends.cpu.get_cpu_capability(), *sorted(named)])
