"""Attention over chains of tokens in bundles, each padded to one length: few batched matrix products, whatever the number of groups.

Legend: B rows, L row length, H query heads, K key-value heads, S = H / K query heads per key-value head, D head size;
of a bundle: N chains, M queries and E keys of the longest one.
"""

import itertools
from collections.abc import Iterator
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from transformers.modeling_utils import AttentionInterface

from upsolve.policy.attention.layout import Bundle, Layout

__all__ = ["TREE", "bundle_attention", "carrier_of", "keep_layout", "odd_layers", "tree_attention"]

LAYOUTS = WeakValueDictionary[int, Layout]()
NUMBERS = itertools.count()


def carrier_of(layout: Layout) -> Tensor:
    """Return an int64 tensor [1] that names a layout: a custom operation of PyTorch takes tensors and numbers, not objects."""
    number = next(NUMBERS)
    LAYOUTS[number] = layout
    return torch.tensor([number])


def carried(carrier: Tensor) -> Layout:
    """Return the layout that a carrier names; KeyError if the layout was freed."""
    return LAYOUTS[int(carrier)]


def keep_layout(result: Tensor, layout: Layout) -> None:
    """Keep a layout alive as long as the backward pass from a result can need it."""
    node: Any = result.grad_fn
    if node is not None:
        node.metadata["upsolve.layout"] = layout


@torch.library.custom_op("upsolve::bundle_attention", mutates_args=())
def attend(query: Tensor, key: Tensor, value: Tensor, carrier: Tensor, scaling: float, cap: float | None) -> Tensor:
    """Return softmax(cap(scale q k^T) + bias) v over bundles, with cap(x) = c tanh(x / c), or x, as one operation in compiled
    layers.

    Queries [B L, H, D] are in the dtype of the bundles' bias, keys are [B L, K, D], values [B L, K, D'], where D' may differ
    from D. The result is [B L, H D'], 0 for tokens of no group.
    """
    layout, heads = carried(carrier), (query.shape[1], key.shape[1])
    rows = layout.rows(*heads)
    with torch.autocast(query.device.type, enabled=False):
        q, k, v = picked(query, rows.query).mul_(scaling), picked(key, rows.key), picked(value, rows.key)
        out = v.new_empty(len(q) + 1, v.shape[1])
        out[-1] = 0
        for part, (q_part, out_part), (k_part, v_part) in parts(layout, heads, (q, out), (k, v)):
            torch.bmm(weights_of(q_part, k_part, part, cap)[0], v_part, out=out_part)
        return out.index_select(0, rows.token).view(len(query), -1)


@torch.library.custom_op("upsolve::bundle_attention_gradients", mutates_args=())
def attend_backward(
    d_output: Tensor, query: Tensor, key: Tensor, value: Tensor, carrier: Tensor, scaling: float, cap: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of queries, keys and values; the weights are recomputed.

    With weights P of scores C: dV = P^T dO, dC = P (dO V^T - rowsum(P dO V^T)), dQ = scale dC K, dK = scale dC^T Q; a cap multiplies dC
    by 1 - (cap(x) / c)^2. All work on a bundle is done before the next one, so that its scores stay in the cache.
    """
    layout, heads = carried(carrier), (query.shape[1], key.shape[1])
    rows = layout.rows(*heads)
    q, k, v = picked(query, rows.query).mul_(scaling), picked(key, rows.key), picked(value, rows.key)
    d_out = picked(d_output.reshape(*query.shape[:2], -1), rows.query).index_fill_(0, rows.padding, 0)
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
    d_query = d_q.index_select(0, rows.token).mul_(scaling).view(query.shape)
    d_key, d_value = (torch.embedding_bag(summed, rows.copies, rows.first)[0] for summed in (d_k, d_v))
    return d_query, d_key.view(key.shape), d_value.view(value.shape)


@attend.register_fake
def shape_of_output(query: Tensor, _key: Tensor, value: Tensor, *_: Any) -> Tensor:
    """Return an output without values, for the compiler."""
    return query.new_empty(query.shape[0], query.shape[1] * value.shape[2])


@attend_backward.register_fake
def shapes_of_gradients(_d_output: Tensor, *inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return gradients without values, for the compiler."""
    query, key, value = (tensor.new_empty(tensor.shape) for tensor in inputs[:3])
    return query, key, value


def keep_inputs(ctx: Any, inputs: tuple[Any, ...], **_output: Tensor) -> None:
    """Keep the inputs that the backward pass needs."""
    *tensors, ctx.scaling, ctx.cap = inputs
    ctx.save_for_backward(*tensors)


def backward(ctx: Any, d_output: Tensor) -> tuple[Tensor | None, ...]:
    """Return the gradients of all inputs."""
    return *attend_backward(d_output, *ctx.saved_tensors, ctx.scaling, ctx.cap), None, None, None


attend.register_autograd(backward, setup_context=keep_inputs)


def picked(tokens: Tensor, rows: Tensor) -> Tensor:
    """Return rows of the tokens' heads [B L, H, D], as [rows, D]."""
    return tokens.reshape(-1, tokens.shape[2]).index_select(0, rows)


def parts(
    layout: Layout, heads: tuple[int, int], queries: tuple[Tensor, ...], keys: tuple[Tensor, ...]
) -> Iterator[tuple[Bundle, list[Tensor], list[Tensor]]]:
    """Yield each bundle with its slices of all queries, [N K, S M, D], and of all keys, [N K, E, D], as views; ``heads``: H and K."""
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
    query: Tensor, key: Tensor, value: Tensor, *, carrier: Tensor, scaling: float, cap: float | None = None
) -> Tensor:
    """Return the attention output [B, L, H, D] of queries [B, H, L, D], keys and values [B, K, L, D]; under autocast, in its dtype."""
    count, heads, length, _ = query.shape
    kind = query.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else query.dtype
    tokens = [part.transpose(1, 2).reshape(count * length, -1, part.shape[3]).to(dtype) for part in (query, key, value)]
    return attend(*tokens, carrier, scaling, cap).view(count, length, heads, -1)


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
    """Return the layer types of a model that are neither full nor sliding-window attention, such as recurrent or chunked layers."""
    return sorted({*(getattr(config, "layer_types", None) or ())} - {"full_attention", "sliding_attention"})
