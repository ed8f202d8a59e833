"""Log-probabilities of attempt tokens over a packed batch; only those tokens reach the head.

Legend: B rows, L row length, T attempt tokens, D hidden size, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from upsolve.errors import ModelError
from upsolve.policy.attention.bundled import TREE, carrier_of, keep_layout, odd_layers
from upsolve.policy.attention.gpu import FLEX, VARLEN, block_mask, sequences
from upsolve.policy.attention.layout import group_spans, layout
from upsolve.policy.head import head_of
from upsolve.train.data.pack import PackedBatch
from upsolve.train.update.head_scores import score_tokens, tied_embedding

__all__ = ["Scorer", "TokenScores", "token_scores", "values_of"]

ROW = 64
"""On CPUs rows are padded to a multiple of this number of tokens: for every new shape oneDNN writes a program and keeps it, about 15 MB a
step, and memory in pieces of varying sizes is hard to reuse."""


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Scores of the policy for each attempt token."""

    logp_T: Tensor
    """float32 [T], nats, with gradient."""
    entropy_T: Tensor
    """float32 [T], nats, no gradient."""
    logit_variance_T: Tensor
    """float32 [T], variance of the logits over the vocabulary, no gradient."""
    values_T: Tensor | None = None
    """float32 [T], with gradient: the value head's prediction of the rewards from this token on; None without a value head."""


Scorer = Callable[..., TokenScores]
"""Scores every attempt token of a batch: a model, a packed batch, and a value head where there is one."""


def dense_mask(group_BL: Tensor, attempt_BL: Tensor, positions_BL: Tensor, *, prefix_BL: Tensor, window: int | None) -> Tensor:
    """Return a bool mask [B, 1, L, L], True where a query (third axis) sees a key (fourth axis), at most ``window`` tokens back."""
    length = group_BL.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool, device=group_BL.device).tril()
    same_group = group_BL[:, :, None] == group_BL[:, None, :]
    same_attempt = attempt_BL[:, :, None] == attempt_BL[:, None, :]
    visible = causal & same_group & (same_attempt | (attempt_BL == 0)[:, None, :])
    visible |= prefix_BL[:, :, None] == group_BL[:, None, :]
    if window is not None:
        visible &= positions_BL[:, :, None] - positions_BL[:, None, :] < window
    return visible[:, None]


def window_of(config: Any, positions_BL: NDArray[np.int64]) -> int | None:
    """Return the sliding window of a model, tokens; None if it has none, or if it exceeds the row; ModelError for other kinds
    of layers."""
    if odd := odd_layers(config):
        raise ModelError(
            f"layers of the kind {', '.join(odd)} cannot be packed, because attempts cannot share a prompt in them"
        )
    window: int | None = getattr(config, "sliding_window", None)
    return None if window is None or int(positions_BL.max()) < window else window


def masks(model: Any, batch: PackedBatch, device: torch.device) -> Any:
    """Return the attention mask of whole rows; one per layer type for models in which only some layers have a sliding window."""
    arrays = (batch.group_BL, batch.attempt_BL, batch.positions_BL, batch.prefix_BL)
    group, attempt, positions, prefix = (torch.from_numpy(array).to(device) for array in arrays)
    config = model.config.get_text_config()
    make = partial(
        block_mask if model.config._attn_implementation == FLEX else dense_mask, group, attempt, positions, prefix_BL=prefix
    )
    window = window_of(config, batch.positions_BL)
    if window is not None and getattr(config, "layer_types", None):
        return {"full_attention": make(window=None), "sliding_attention": make(window=window)}
    return make(window=window)


def pad_rows(batch: PackedBatch, multiple: int) -> PackedBatch:
    """Return a batch whose rows are padded to a multiple of ``multiple`` tokens; ``source_T`` still refers to the shorter rows."""
    extra = ((0, 0), (0, -batch.ids_BL.shape[1] % multiple))
    empty = {"ids_BL": 0, "positions_BL": 0, "group_BL": -1, "prefix_BL": -2, "attempt_BL": 0}
    return replace(batch, **{name: np.pad(getattr(batch, name), extra, constant_values=value) for name, value in empty.items()})


def padded_tokens(batch: PackedBatch, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return ``source_T`` and ``target_T``; on CPUs the last entry is repeated until their number is a multiple of ``ROW``."""
    extra = -len(batch.target_T) % ROW if device.type == "cpu" else 0
    source, target = (np.pad(tokens, (0, extra), mode="edge") for tokens in (batch.source_T, batch.target_T))
    return torch.from_numpy(source).to(device), torch.from_numpy(target).to(device)


def hidden_states(model: Any, batch: PackedBatch, *, blocks: bool) -> Tensor:
    """Return the last hidden states [B, L, D] of packed rows."""
    device, length = next(model.parameters()).device, batch.ids_BL.shape[1]
    if device.type == "cpu":
        batch = pad_rows(batch, ROW)
    ids, positions = (torch.from_numpy(array).to(device) for array in (batch.ids_BL, batch.positions_BL))
    inputs: dict[str, Any] = {"input_ids": ids, "position_ids": positions, "use_cache": False}
    everything = window_of(model.config.get_text_config(), batch.positions_BL) is None
    attention, laid = model.config._attn_implementation, None
    if attention == VARLEN or (blocks and everything and attention == TREE):
        rows = group_spans(batch.group_BL, batch.attempt_BL, batch.prefix_BL)
        if attention == VARLEN:
            inputs["sequences"] = sequences(rows, ids.shape[1], device)
        else:
            autocast = torch.is_autocast_enabled(device.type)
            dtype = torch.get_autocast_dtype(device.type) if autocast else model.dtype
            laid = layout(rows, ids.shape[1], device, dtype)
            inputs["layout"] = carrier_of(laid)
        inputs["attention_mask"] = torch.ones(1, 1, 1, 1, dtype=torch.bool)  # passed through; our attention ignores it
    else:
        inputs["attention_mask"] = masks(model, batch, device)
    hidden = model.get_decoder()(**inputs).last_hidden_state[:, :length]
    if laid:
        keep_layout(hidden, laid)
    return hidden


def values_of(hidden_TD: Tensor, value_head: Any) -> Tensor:
    """Return V_t = w h_t + b, float32 [T], of the states that predict the tokens."""
    with torch.autocast(hidden_TD.device.type, enabled=False):
        return value_head(hidden_TD.float())[:, 0]


def token_scores(model: Any, batch: PackedBatch, value_head: Any = None, *, blocks: bool = True) -> TokenScores:
    """Score every attempt token of a packed batch, each prompt once; ModelError if the architecture does not support packing.

    ``blocks``: with our CPU attention, compute only blocks of tokens that see each other; False: whole rows with a mask.
    """
    head = head_of(model)
    if head.bias_V is not None:
        raise ModelError("the language-model head has a bias, which packed rows do not support")
    with tied_embedding(model, head) as shared:
        hidden = hidden_states(model, batch, blocks=blocks)
    # index_select is deterministic; several threads accumulate the gradient of hidden[rows] in no fixed order
    source, target = padded_tokens(batch, hidden.device)
    picked = hidden.flatten(0, 1).index_select(0, source)
    kind, count = hidden.device.type, len(batch.target_T)
    autocast = torch.is_autocast_enabled(kind)
    dtype = torch.get_autocast_dtype(kind) if autocast else torch.promote_types(picked.dtype, head.weight_VD.dtype)
    scores = score_tokens(picked, head.weight_VD, target, dtype=dtype, scale=head.scale, cap=head.cap, shared=shared)
    logp, entropy, variance = (values[:count] for values in scores)
    return TokenScores(logp, entropy, variance, None if value_head is None else values_of(picked[:count], value_head))
