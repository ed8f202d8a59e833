"""Linear layers on CPUs whose weights are stored as oneDNN multiplies them: otherwise it rearranges all weights for every product.

A decoding step multiplies few tokens by all weights; rearranging takes a quarter to a third of the time of its products in bfloat16.
"""

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from upsolve.policy.allocator import available_bytes

__all__ = ["packed_weights"]

WORTH = 24
"""Decoding steps from which packed weights save more time than it takes to pack them."""
SPARE = 4
"""Free memory that is needed, as a multiple of the bytes of the weights to pack."""
ONEDNN: Any = torch.ops.mkldnn


@contextmanager
def packed_weights(model: Any, steps: int) -> Generator[None]:
    """Compute linear layers, the head included, with packed copies of their weights within the context; weights must not change meanwhile.

    Does nothing where that does not pay off: on GPUs, in float32, for few steps, or where memory is short.

    Args:
        model: a model of transformers.
        steps: expected number of forward passes.
    """
    layers = linear_layers(model) if steps >= WORTH and model.device.type == "cpu" else []
    if SPARE * sum(layer.weight.nbytes for layer in layers) > available_bytes():
        layers = []
    try:
        for layer in layers:
            packed = ONEDNN._reorder_linear_weight(layer.weight.detach())
            layer.forward = partial(product, packed=packed, bias=layer.bias)
        yield
    finally:
        for layer in layers:
            layer.__dict__.pop("forward", None)


def linear_layers(model: Any) -> list[Any]:
    """Return the layers that oneDNN computes in bfloat16: those of subclasses, and sharded ones, compute differently."""
    if not ONEDNN._is_mkldnn_bf16_supported():
        return []
    layers = (module for module in model.modules() if type(module) is nn.Linear and "forward" not in vars(module))
    return [layer for layer in layers if type(layer.weight.data) is Tensor and layer.weight.dtype == torch.bfloat16]


def product(rows: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    """Return W x + b [..., out] for rows x [..., in]."""
    return ONEDNN._linear_pointwise(rows, packed, bias, "none", [], "")
