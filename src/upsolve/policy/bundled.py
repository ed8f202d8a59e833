"""Attention over chains of tokens in bundles, each padded to one length: few batched matrix products, whatever the number of groups.

Legend: B rows, L row length, H query heads, K key-value heads, S = H / K query heads per key-value head, D head size;
of a bundle: N chains, M queries and E keys of the longest one.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from upsolve.policy.layout import Bundle, Layout

__all__ = ["bundle_attention"]


class BundleAttention(torch.autograd.Function):
    """softmax(cap(scale q k^T) + bias) v over bundles, with cap(x) = c tanh(x / c), or x; the weights are recomputed in the backward pass.

    With weights P of scores C: dV = P^T dO, dC = P (dO V^T - rowsum(P dO V^T)), dQ = scale dC K, dK = scale dC^T Q; a cap multiplies dC
    by 1 - (cap(x) / c)^2. All work on a bundle is done before the next one, so that its scores stay in the cache.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, layout: Layout, scaling: float, cap: float | None
    ) -> Tensor:
        """Return the output [B L, H, D] of queries [B L, H, D], keys and values [B L, K, D]; 0 for tokens of no group."""
        heads = (query.shape[1], key.shape[1])
        rows = layout.rows(*heads)
        q, k, v = picked(query, rows.query).mul_(scaling), picked(key, rows.key), picked(value, rows.key)
        out = v.new_empty(len(q) + 1, v.shape[1])
        out[-1] = 0
        for part, (q_part, out_part), (k_part, v_part) in parts(layout, heads, (q, out), (k, v)):
            torch.bmm(weights_of(q_part, k_part, part, cap)[0], v_part, out=out_part)
        ctx.save_for_backward(query, key, value)
        ctx.layout, ctx.scaling, ctx.cap = layout, scaling, cap
        return out.index_select(0, rows.token).view(*query.shape[:2], -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of queries, keys and values."""
        query, key, value = ctx.saved_tensors
        layout, cap, heads = ctx.layout, ctx.cap, (query.shape[1], key.shape[1])
        rows = layout.rows(*heads)
        q, k, v = picked(query, rows.query).mul_(ctx.scaling), picked(key, rows.key), picked(value, rows.key)
        d_out = picked(gradients[0], rows.query).index_fill_(0, rows.padding, 0)
        d_q, d_k, d_v = q.new_empty(len(q) + 1, q.shape[1]), torch.empty_like(k), torch.empty_like(v)
        d_q[-1] = 0
        for part, queries, keys in parts(layout, heads, (q, d_out, d_q), (k, v, d_k, d_v)):
            (q_part, d_part, d_q_part), (k_part, v_part, d_k_part, d_v_part) = queries, keys
            weights, capped = weights_of(q_part, k_part, part, cap)
            torch.bmm(weights.transpose(1, 2), d_part, out=d_v_part)
            d_weights = torch.bmm(d_part, v_part.transpose(1, 2))
            d_scores = torch.ops.aten._softmax_backward_data(d_weights, weights, -1, weights.dtype)
            if cap and capped is not None:
                d_scores *= 1 - (capped / cap).square()
            torch.bmm(d_scores, k_part, out=d_q_part)
            torch.bmm(d_scores.transpose(1, 2), q_part, out=d_k_part)
        d_query = d_q.index_select(0, rows.token).mul_(ctx.scaling).view(query.shape)
        d_key, d_value = (torch.embedding_bag(summed, rows.copies, rows.first)[0] for summed in (d_k, d_v))
        return d_query, d_key.view(key.shape), d_value.view(value.shape), None, None, None


def picked(tokens: Tensor, rows: Tensor) -> Tensor:
    """Return rows of the tokens' heads [B L, H, D], as [rows, D]."""
    return tokens.reshape(-1, tokens.shape[2]).index_select(0, rows)


def parts(
    layout: Layout, heads: tuple[int, int], queries: tuple[Tensor, ...], keys: tuple[Tensor, ...]
) -> Iterator[tuple[Bundle, list[Tensor], list[Tensor]]]:
    """Yield each bundle with its part of the rows of all queries, [N K, S M, D], and of all keys, [N K, E, D], as views; ``heads``: H and K."""
    query_end = key_end = 0
    for part in layout.bundles:
        batch, query_start, key_start = len(part.key_NE) * heads[1], query_end, key_end
        query_end, key_end = query_end + heads[0] * part.query_NM.size, key_end + heads[1] * part.key_NE.size
        yield (
            part,
            [tensor[query_start:query_end].view(batch, -1, tensor.shape[1]) for tensor in queries],
            [tensor[key_start:key_end].view(batch, -1, tensor.shape[1]) for tensor in keys],
        )


def weights_of(query: Tensor, key: Tensor, part: Bundle, cap: float | None) -> tuple[Tensor, Tensor | None]:
    """Return softmax(cap(q k^T) + bias), [N K, S M, E], of scaled queries [N K, S M, D] and keys [N K, E, D], and the capped scores."""
    scores = torch.bmm(query, key.transpose(1, 2))
    capped = scores.div_(cap).tanh_().mul_(cap).clone() if cap else None
    count, queries, keys = part.bias_NME.shape
    scores.view(count, len(scores) // count, -1, queries, keys).add_(part.bias_NME[:, None, None])
    return torch.softmax(scores, -1), capped


def bundle_attention(
    query: Tensor, key: Tensor, value: Tensor, *, layout: Layout, scaling: float, cap: float | None = None
) -> Tensor:
    """Return the attention output [B, L, H, D] of queries [B, H, L, D], keys and values [B, K, L, D]; under autocast, in its dtype."""
    count, heads, length, _ = query.shape
    kind = query.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else query.dtype
    tokens = [part.transpose(1, 2).reshape(count * length, -1, part.shape[3]).to(dtype) for part in (query, key, value)]
    with torch.autocast(kind, enabled=False):
        out: Any = BundleAttention.apply(*tokens, layout, scaling, cap)
    return out.view(count, length, heads, -1)
