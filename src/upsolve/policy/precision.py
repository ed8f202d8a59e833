"""The precision in which a model computes: bfloat16 where the processor multiplies it, else float32."""

import platform
from functools import cache
from typing import Any

import torch

from upsolve.config import ModelConfig

__all__ = ["in_bfloat16", "multiplies_bfloat16", "precision_of"]


@cache
def multiplies_bfloat16() -> bool:
    """Return whether the device on which models are computed has instructions that multiply bfloat16.

    GPUs: AMD's, and NVIDIA's from compute capability 8.0. CPUs: x86-64 with AMX or AVX-512-BF16, and Arm's with BF16 where PyTorch has oneDNN
    (not on macOS). Others convert all numbers before a product: on CPUs, a step of training takes twenty times as long as in float32, or longer.
    """
    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported(including_emulation=False)
    cpu: Any = torch.cpu
    if platform.machine() == "aarch64":
        return torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return cpu._is_avx512_bf16_supported() or cpu._is_amx_tile_supported()


def in_bfloat16(model: ModelConfig) -> bool:
    """Return whether a model computes in bfloat16: ``model.bf16``, or with ``auto`` whether this machine multiplies it."""
    return multiplies_bfloat16() if model.bf16 == "auto" else model.bf16


def precision_of(model: ModelConfig) -> torch.dtype:
    """Return the dtype in which a model computes, and in which it is stored to be sampled."""
    return torch.bfloat16 if in_bfloat16(model) else torch.float32
