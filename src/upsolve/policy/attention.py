"""Attention over packed rows by plain matrix products: on CPUs faster than the fused SDPA kernel with a mask.

Legend: B rows, L row length, H query heads, K key-value heads, D head size.
"""

from typing import Any, cast

import torch
from torch import Tensor
from transformers.modeling_utils import AttentionInterface

from upsolve.policy.bundled import bundle_attention
from upsolve.policy.layout import Layout

__all__ = ["TREE", "odd_layers", "tree_attention"]

TREE = "upsolve_tree"
"""Name under which the attention is registered with transformers."""


def tree_attention(
    _module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor, **options: Any
) -> tuple[Tensor, None]:
    """softmax(cap(q k^T scale) + mask) v; cap(x) = c tanh(x / c) if the model caps its scores (``softcap``), else x.

    With the option ``layout`` the attention is computed in bundles of chains of tokens. Without it, it is computed over whole rows with
    the bool mask [B, 1, L, L], True where a query sees a key; the query heads of a key-value head share its keys without a copy.
    """
    cap, packed = options.get("softcap"), cast("Layout | None", options.get("layout"))
    if packed is not None:
        return bundle_attention(query, key, value, layout=packed, scaling=options["scaling"], cap=cap), None
    count, heads, length, size = query.shape
    shared = heads // key.shape[1]
    stacked = (query * options["scaling"]).reshape(count, key.shape[1], shared * length, size)
    bias = torch.zeros(attention_mask.shape, dtype=query.dtype, device=query.device).masked_fill(~attention_mask, -torch.inf)
    scores = torch.matmul(stacked, key.transpose(-1, -2))
    if cap:
        scores = cap * torch.tanh(scores / cap)
    out = torch.matmul((scores + bias.repeat(1, 1, shared, 1)).softmax(-1), value).reshape(count, heads, length, size)
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register(TREE, torch.compiler.disable(tree_attention))  # compiled layers call it uncompiled


def odd_layers(config: Any) -> list[str]:
    """Return the layer types of a model that are neither full nor sliding-window attention (recurrent, chunked)."""
    return sorted({*(getattr(config, "layer_types", None) or ())} - {"full_attention", "sliding_attention"})
