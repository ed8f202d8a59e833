"""Messages of other libraries that tell a user nothing: raised by a library about another library."""

import os
import warnings
from collections.abc import Generator
from contextlib import contextmanager

import torch

__all__ = ["choose_accelerator", "peft_calls"]


@contextmanager
def peft_calls() -> Generator[None]:
    """Ignore transformers' warning that PEFT reads an attribute by its old name."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".is_gradient_checkpointing", category=FutureWarning)
        yield


def choose_accelerator() -> None:
    """Tell DeepSpeed, where it is installed, that there is no GPU: transformers imports it to save a model, and it would log that it found none."""
    if not torch.accelerator.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
