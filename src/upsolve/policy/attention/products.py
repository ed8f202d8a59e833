"""Attention over packed rows by plain matrix products: on CPUs faster than the fused SDPA kernel with a mask.

Legend: B rows, L row length, H query heads, K key-value heads, D head size.
"""

from typing import Any

import torch
from torch import Tensor
from transformers.modeling_utils import AttentionInterface

from upsolve.policy.attention.bundled import bundle_attention

__all__ = ["TREE", "odd_layers", "tree_attention"]

TREE = "upsolve_tree"
"""Name under which the attention is registered with transformers."""


def masked_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, *, scaling: float, cap: float | None) -> Tensor:
    """Return softmax(cap(q k^T scale) + mask) v, [B, L, H, D], over whole rows; the query heads of a key-value head share its keys without a copy."""
    count, heads, length, size = query.shape
    shared = heads // key.shape[1]
    stacked = (query * scaling).reshape(count, key.shape[1], shared * length, size)
    bias = torch.zeros(mask.shape, dtype=query.dtype, device=query.device).masked_fill(~mask, -torch.inf)
    scores = torch.matmul(stacked, key.transpose(-1, -2))
    if cap:
        scores = cap * torch.tanh(scores / cap)
    out = torch.matmul((scores + bias.repeat(1, 1, shared, 1)).softmax(-1), value).reshape(count, heads, length, size)
    return out.transpose(1, 2).contiguous()


uncompiled: Any = torch.compiler.disable(masked_attention)


def tree_attention(
    _module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor, **options: Any
) -> tuple[Tensor, None]:
    """softmax(cap(q k^T scale) + mask) v; cap(x) = c tanh(x / c) if the model caps its scores (``softcap``), else x.

    With the option ``layout``, the number of the layout of packed rows (``carrier_of``), the attention is computed in bundles of chains of tokens, in compiled
    layers as one operation. Without it, it is computed over whole rows, not compiled, with the bool mask [B, 1, L, L], True where a query sees a key.
    """
    if (carrier := options.get("layout")) is not None:
        return bundle_attention(
            query, key, value, carrier=carrier, scaling=options["scaling"], cap=options.get("softcap")
        ), None
    return uncompiled(query, key, value, attention_mask, scaling=options["scaling"], cap=options.get("softcap")), None


AttentionInterface.register(TREE, tree_attention)


def odd_layers(config: Any) -> list[str]:
    """Return the layer types of a model that are neither full nor sliding-window attention (recurrent, chunked)."""
    return sorted({*(getattr(config, "layer_types", None) or ())} - {"full_attention", "sliding_attention"})
