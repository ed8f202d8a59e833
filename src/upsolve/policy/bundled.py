"""Attention over bundles of short groups, each padded to one length: few batched matrix products, whatever the number of groups.

Legend: B rows, L row length, H query heads, K key-value heads, S = H / K query heads per key-value head, D head size;
of a bundle: N groups, M queries and E keys of the longest one.
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
            q = gather(query * scaling, part.token_NM, heads)
            k, v = (gather(tokens, part.key_NE, heads) for tokens in (key, value))
            scatter(torch.bmm(weights_of(q, k, part), v), out, part.token_NM, part.own)
            saved += (q, k, v)
        ctx.save_for_backward(*saved)
        ctx.parts, ctx.scaling, ctx.shapes = parts, scaling, (query.shape, key.shape)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of queries, keys and values."""
        d_tokens, (queries, keys), saved = gradients[0], ctx.shapes, ctx.saved_tensors
        d_query, d_key, d_value = (d_tokens.new_zeros(shape) for shape in (queries, keys, keys))
        pending: list[tuple[Tensor, Bundle, Tensor]] = []
        for at, part in enumerate(ctx.parts):
            q, k, v = saved[3 * at : 3 * at + 3]
            d_out = gather(gather_real(d_tokens, part), None, keys[1], part.token_NM.shape)
            weights = weights_of(q, k, part)
            d_weights = torch.bmm(d_out, v.transpose(1, 2))
            d_scores = torch.ops.aten._softmax_backward_data(d_weights, weights, -1, weights.dtype)
            scatter(torch.bmm(d_scores, k) * ctx.scaling, d_query, part.token_NM, part.own)
            for out, padded in (
                (d_key, torch.bmm(d_scores.transpose(1, 2), q)),
                (d_value, torch.bmm(weights.transpose(1, 2), d_out)),
            ):
                scatter(padded, out, part.key_NE, part.own_keys)
                pending.append((out, part, padded))
        for out, part, padded in pending:  # after the tokens of the prefixes themselves have been written
            add_shared(padded, out, part)
        return d_query, d_key, d_value, None, None


def weights_of(query: Tensor, key: Tensor, part: Bundle) -> Tensor:
    """Return softmax(q k^T + bias), [N K, S M, E], of scaled queries [N K, S M, D] and keys [N K, E, D]."""
    scores = torch.bmm(query, key.transpose(1, 2))
    count, queries, keys = part.bias_NME.shape
    scores.view(count, len(scores) // count, -1, queries, keys).add_(part.bias_NME[:, None, None])
    return torch.softmax(scores, -1)


def gather(tokens: Tensor, index: Tensor | None, heads: int, shape: Sequence[int] = ()) -> Tensor:
    """Return the tokens [B L, H, D] at an index [N, M], or all in that shape, as [N K, S M, D]."""
    picked = tokens if index is None else tokens.index_select(0, index.flatten())
    split = picked.unflatten(0, tuple(index.shape if index is not None else shape)).unflatten(2, (heads, -1))
    return split.permute(0, 2, 3, 1, 4).reshape(split.shape[0] * heads, -1, tokens.shape[2])


def gather_real(tokens: Tensor, part: Bundle) -> Tensor:
    """Return the queries of a bundle among the tokens [B L, H, D], as [N M, H, D]; 0 in the padding."""
    index = part.token_NM.flatten()
    padded = tokens.new_zeros(len(index), *tokens.shape[1:])
    return padded.index_copy_(0, part.own, tokens.index_select(0, index.index_select(0, part.own)))


def scatter(padded: Tensor, out: Tensor, index_NM: Tensor, own: Tensor) -> None:
    """Write [N K, S M, D] of a bundle into ``out`` [B L, H, D], only the positions ``own``."""
    count, length = index_NM.shape
    split = padded.view(count, -1, length, padded.shape[2])  # [N, H, M, D]
    flat = split.transpose(1, 2).flatten(0, 1)
    out.index_copy_(0, index_NM.flatten().index_select(0, own), flat.index_select(0, own))


def add_shared(padded: Tensor, out: Tensor, part: Bundle) -> None:
    """Add the gradients [N K, E, D] of the keys of prefixes to ``out`` [B L, K, D]."""
    split = padded.view(part.key_NE.shape[0], out.shape[1], -1, out.shape[2])  # [N, K, E, D]
    for shared in part.shared:
        total = split[:, :, : shared.tokens].index_select(0, shared.groups).sum(0)
        out[shared.start : shared.start + shared.tokens] += total.transpose(0, 1)


def bundle_attention(query: Tensor, key: Tensor, value: Tensor, *, parts: Sequence[Bundle], scaling: float) -> Tensor:
    """Return the attention output [B, L, H, D] of queries [B, H, L, D], keys and values [B, K, L, D]; under autocast, in its dtype."""
    count, heads, length, size = query.shape
    kind = query.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else query.dtype
    tokens = [heads_first.transpose(1, 2).reshape(count * length, -1, size).to(dtype) for heads_first in (query, key, value)]
    with torch.autocast(kind, enabled=False):
        out: Any = BundleAttention.apply(*tokens, parts, scaling)
    return out.view(count, length, heads, size)
