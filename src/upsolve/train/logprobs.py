"""Log-probabilities of attempt tokens over a packed batch; only those tokens reach the head.

Legend: B rows, L row length, T attempt tokens, D hidden size, V vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from upsolve.train.pack import PackedBatch

__all__ = ["TokenScores", "attention_mask", "token_scores"]

CHUNK = 1024
"""Tokens whose logits are in memory at once."""


@dataclass(frozen=True, slots=True)
class TokenScores:
    """What the policy says about each attempt token."""

    logp_T: Tensor
    """float32 [T], nats, with gradient."""
    entropy_T: Tensor
    """float32 [T], nats, no gradient."""
    logit_variance_T: Tensor
    """float32 [T], variance of the logits over the vocabulary, no gradient."""


def attention_mask(group_BL: Tensor, attempt_BL: Tensor) -> Tensor:
    """Return a bool mask [B, 1, L, L], True where a token (third axis) sees another (fourth axis)."""
    length = group_BL.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool, device=group_BL.device).tril()
    same_group = group_BL[:, :, None] == group_BL[:, None, :]
    same_attempt = attempt_BL[:, :, None] == attempt_BL[:, None, :]
    return (causal & same_group & (same_attempt | (attempt_BL == 0)[:, None, :]))[:, None]


def score_chunk(hidden_TD: Tensor, target_T: Tensor, head: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return log-probabilities, entropies and logit variances of some tokens."""
    logits = head(hidden_TD).float()
    logp = torch.log_softmax(logits, -1)
    with torch.no_grad():
        entropy = -(logp.exp() * logp).sum(-1)
        variance = logits.var(-1)
    return logp.gather(-1, target_T[:, None])[:, 0], entropy, variance


def token_scores(model: Any, batch: PackedBatch) -> TokenScores:
    """Score every attempt token of a batch. Works for the models of transformers that take a ready four-axis mask."""
    device = next(model.parameters()).device
    ids, positions, group, attempt = (
        torch.from_numpy(array).to(device) for array in (batch.ids_BL, batch.positions_BL, batch.group_BL, batch.attempt_BL)
    )
    hidden = model.get_decoder()(
        input_ids=ids, position_ids=positions, attention_mask=attention_mask(group, attempt), use_cache=False
    ).last_hidden_state
    picked = hidden.flatten(0, 1)[torch.from_numpy(batch.source_T).to(device)]
    target = torch.from_numpy(batch.target_T).to(device)
    head = model.get_output_embeddings()
    parts = [
        checkpoint(score_chunk, picked[i : i + CHUNK], target[i : i + CHUNK], head, use_reentrant=False)
        for i in range(0, len(target), CHUNK)
    ]
    return TokenScores(*(torch.cat(pieces) for pieces in zip(*parts, strict=True)))
