"""Attention over packed rows by FlexAttention, on GPUs: fully masked blocks are skipped, no mask is materialised.

Legend: B rows, L row length, H query heads, D head size.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from transformers.modeling_utils import AttentionInterface

__all__ = ["FLEX", "block_mask"]

FLEX = "upsolve_flex"
"""Name under which the attention is registered with transformers."""


@cache
def compiled(what: Any) -> Any:
    """Return a function compiled by torch.compile, once per process, with dynamic shapes."""
    return torch.compile(what, dynamic=True)


def block_mask(
    group_BL: Tensor, attempt_BL: Tensor, positions_BL: Tensor, *, prefix_BL: Tensor, window: int | None
) -> BlockMask:
    """Return the block mask: a token sees its group's prompt with its prefix and its own attempt, causally, at most ``window`` tokens back.

    See PackedBatch for the arrays [B, L].
    """

    def sees(row: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        same_group = group_BL[row, query] == group_BL[row, key]
        own = (attempt_BL[row, query] == attempt_BL[row, key]) | (attempt_BL[row, key] == 0)
        seen = ((key <= query) & same_group & own) | (prefix_BL[row, query] == group_BL[row, key])
        return seen if window is None else seen & (positions_BL[row, query] - positions_BL[row, key] < window)

    rows, length = group_BL.shape
    make = compiled(create_block_mask) if group_BL.is_cuda else create_block_mask
    return make(sees, rows, None, length, length, device=str(group_BL.device))


def flex(
    _module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: BlockMask, **options: Any
) -> tuple[Tensor, None]:
    """softmax(cap(q k^T scale)) v over the pairs of a block mask; cap(x) = c tanh(x / c) if the model caps its scores (``softcap``).

    Under autocast, rotary embeddings return queries and keys in float32 while values are in bfloat16: all are cast to the values' dtype.
    """
    cap = options.get("softcap")

    def capped(score: Tensor, *_place: Tensor) -> Tensor:
        return cap * torch.tanh(score / cap) if cap else score

    attend = compiled(flex_attention) if query.is_cuda else flex_attention
    grouped = query.shape[1] != key.shape[1]
    out = attend(
        query.to(value.dtype),
        key.to(value.dtype),
        value,
        score_mod=capped if cap else None,
        block_mask=attention_mask,
        scale=options["scaling"],
        enable_gqa=grouped,
    )
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register(FLEX, flex)
