"""Attention over bundles of short groups, each padded to one length: few batched matrix products, whatever the number of groups.

Legend: B rows, L row length, H query heads, K key-value heads, S = H / K query heads per key-value head, D head size;
of a bundle: N groups, M tokens of the longest one.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from upsolve.policy.layout import Bundle

__all__ = ["bundle_attention"]


class BundleAttention(torch.autograd.Function):
    """softmax(scale q k^T) v over bundles. Stores queries, keys and values, and recomputes the weights in the backward pass.

    With weights P of scores C: dV = P^T dO, dC = P (dO V^T - rowsum(P dO V^T)), dQ = scale dC K, dK = scale dC^T Q.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, parts: Sequence[Bundle], scaling: float) -> Tensor:
        """Return the output [B L, H, D] of queries [B L, H, D], keys and values [B L, K, D]; 0 for tokens of no group."""
        heads = key.shape[1]
        out = torch.zeros_like(query)
        saved: list[Tensor] = []
        for part in parts:
            q, k, v = (gather(tokens, part, heads) for tokens in (query * scaling, key, value))
            scatter(torch.bmm(weights_of(q, k, part, heads), v), part, out)
            saved += (q, k, v)
        ctx.save_for_backward(*saved)
        ctx.parts, ctx.scaling, ctx.shapes = parts, scaling, (query.shape, key.shape)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of queries, keys and values."""
        given, (queries, keys), saved = gradients[0], ctx.shapes, ctx.saved_tensors
        d_query, d_key, d_value = (given.new_zeros(shape) for shape in (queries, keys, keys))
        for at, part in enumerate(ctx.parts):
            q, k, v = saved[3 * at : 3 * at + 3]
            d_out = gather(given, part, keys[1], padding=False)
            weights = weights_of(q, k, part, keys[1])
            scatter(torch.bmm(weights.transpose(1, 2), d_out), part, d_value)
            d_weights = torch.bmm(d_out, v.transpose(1, 2))
            d_scores = torch.ops.aten._softmax_backward_data(d_weights, weights, -1, weights.dtype)
            scatter(torch.bmm(d_scores, k) * ctx.scaling, part, d_query)
            scatter(torch.bmm(d_scores.transpose(1, 2), q), part, d_key)
        return d_query, d_key, d_value, None, None


def weights_of(query: Tensor, key: Tensor, part: Bundle, heads: int) -> Tensor:
    """Return softmax(q k^T + bias), [N K, S M, M], of scaled queries [N K, S M, D] and keys [N K, M, D]."""
    scores = torch.bmm(query, key.transpose(1, 2))
    count, length = part.token_NM.shape
    scores.view(count, heads, -1, length, length).add_(part.bias_NMM[:, None, None])
    return torch.softmax(scores, -1)


def gather(tokens: Tensor, part: Bundle, heads: int, *, padding: bool = True) -> Tensor:
    """Return tokens [B L, H, D] of a bundle as [N K, S M, D]; ``padding``: False sets the padding to 0."""
    count, length = part.token_NM.shape
    index = part.token_NM.flatten()
    if padding:
        found = tokens.index_select(0, index)
    else:
        found = tokens.new_zeros(len(index), *tokens.shape[1:])
        found.index_copy_(0, part.own, tokens.index_select(0, index.index_select(0, part.own)))
    split = found.unflatten(0, (count, length)).unflatten(2, (heads, -1))
    return split.permute(0, 2, 3, 1, 4).reshape(count * heads, -1, tokens.shape[2])


def scatter(padded: Tensor, part: Bundle, out: Tensor) -> None:
    """Write [N K, S M, D] of a bundle into ``out`` [B L, H, D], without the padding."""
    count, length = part.token_NM.shape
    split = padded.view(count, -1, length, padded.shape[2])  # [N, H, M, D]
    flat = split.transpose(1, 2).flatten(0, 1)
    out.index_copy_(0, part.token_NM.flatten().index_select(0, part.own), flat.index_select(0, part.own))


def bundle_attention(query: Tensor, key: Tensor, value: Tensor, *, parts: Sequence[Bundle], scaling: float) -> Tensor:
    """Return the attention output [B, L, H, D] of queries [B, H, L, D], keys and values [B, K, L, D]; under autocast, in its dtype."""
    count, heads, length, size = query.shape
    kind = query.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else query.dtype
    tokens = [one.transpose(1, 2).reshape(count * length, -1, size).to(dtype) for one in (query, key, value)]
    with torch.autocast(kind, enabled=False):
        out: Any = BundleAttention.apply(*tokens, parts, scaling)
    return out.view(count, length, heads, size)
