"""Log-probabilities of attempt tokens over a packed batch; only those tokens reach the head.

Legend: B rows, L row length, T attempt tokens, D hidden size, V vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from upsolve.errors import ModelError
from upsolve.train.pack import PackedBatch

__all__ = ["TokenScores", "attention_mask", "token_scores"]

CHUNK = 256
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


class ScoreTokens(torch.autograd.Function):
    """Log-softmax and gather in one, chunk by chunk; the logits are made again in the backward pass instead of being kept.

    d logp_t / d logits = onehot(target) - softmax(logits).
    """

    @staticmethod
    def forward(ctx: Any, hidden_TD: Tensor, weight_VD: Tensor, target_T: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return log-probabilities, entropies and logit variances."""
        ctx.save_for_backward(hidden_TD, weight_VD, target_T)
        logp, entropy, variance = (torch.empty(len(target_T), device=hidden_TD.device) for _ in range(3))
        for i in range(0, len(target_T), CHUNK):
            part = slice(i, i + CHUNK)
            logits = functional.linear(hidden_TD[part], weight_VD).float()
            scores = logits.log_softmax(-1)
            logp[part] = scores.gather(-1, target_T[part, None])[:, 0]
            entropy[part] = -torch.einsum("tv,tv->t", logits.softmax(-1), scores)
            variance[part] = torch.einsum("tv,tv->t", logits, logits) / logits.shape[-1] - logits.mean(-1).square()
        ctx.mark_non_differentiable(entropy, variance)
        return logp, entropy, variance

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, None]:
        """Return the gradients of the hidden states and, where it learns, of the head."""
        hidden_TD, weight_VD, target_T = ctx.saved_tensors
        grad_hidden = torch.empty_like(hidden_TD)
        grad_weight = torch.zeros_like(weight_VD, dtype=torch.float32) if ctx.needs_input_grad[1] else None
        for i in range(0, len(target_T), CHUNK):
            part = slice(i, i + CHUNK)
            push = functional.linear(hidden_TD[part], weight_VD).float().softmax(-1).neg_()
            push.scatter_add_(-1, target_T[part, None], torch.ones_like(push[:, :1]))
            push = push.mul_(gradients[0][part, None]).to(weight_VD.dtype)
            grad_hidden[part] = push @ weight_VD
            if grad_weight is not None:
                grad_weight += push.T @ hidden_TD[part]
        return grad_hidden, None if grad_weight is None else grad_weight.to(weight_VD.dtype), None


def head_weight(model: Any) -> Tensor:
    """Return the head's matrix [V, D].

    Raises:
        ModelError: the head is more than one matrix (a bias, scaled or capped logits).
    """
    head = model.get_output_embeddings()
    odd = [name for name in ("final_logit_softcapping", "logit_scale", "logits_scaling") if getattr(model.config, name, None)]
    if odd or getattr(head, "bias", None) is not None:
        raise ModelError(
            f"the head of {model.name_or_path} is not one plain matrix ({', '.join(odd) or 'bias'}): not supported yet"
        )
    return head.weight


def token_scores(model: Any, batch: PackedBatch) -> TokenScores:
    """Score every attempt token of a batch. Works for the models of transformers that take a ready four-axis mask."""
    device = next(model.parameters()).device
    ids, positions, group, attempt = (
        torch.from_numpy(array).to(device) for array in (batch.ids_BL, batch.positions_BL, batch.group_BL, batch.attempt_BL)
    )
    hidden = model.get_decoder()(
        input_ids=ids, position_ids=positions, attention_mask=attention_mask(group, attempt), use_cache=False
    ).last_hidden_state
    # indexing with [] would add up gradients in whatever order the threads come; index_select keeps one order
    picked = hidden.flatten(0, 1).index_select(0, torch.from_numpy(batch.source_T).to(device))
    target = torch.from_numpy(batch.target_T).to(device)
    weight = head_weight(model)
    dtype = torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else weight.dtype
    return TokenScores(*ScoreTokens.apply(picked.to(dtype), weight.to(dtype), target))
