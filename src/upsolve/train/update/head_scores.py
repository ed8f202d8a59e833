"""Log-probabilities of tokens from hidden states, over blocks of the vocabulary, so that the logits are never in memory as a whole.

Legend: B rows, L row length, T tokens, D hidden size, V vocabulary, W width of a block.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from upsolve.policy.head import Head
from upsolve.policy.machine import forwards

__all__ = ["HeadGradient", "block_elements", "score_tokens", "tied_embedding"]


class HeadGradient:
    """Holds the gradient of the head's weight from its backward pass until the gradient of the embedding is added."""

    def __init__(self) -> None:
        """Start without a gradient."""
        self.weight_VD: Tensor | None = None

    def take(self) -> Tensor | None:
        """Return the gradient, if there is one, and drop the reference: autograd copies a gradient that is referenced elsewhere."""
        taken, self.weight_VD = self.weight_VD, None
        return taken


class TiedEmbedding(torch.autograd.Function):
    """Rows of a weight; backward adds to the gradient of the head, before autograd passes it on.

    Autograd hands on the gradient of a weight when all uses of it have been differentiated, and the head is differentiated before the embedding.
    """

    @staticmethod
    def forward(ctx: Any, weight_VD: Tensor, ids_BL: Tensor, padding: int | None, head: HeadGradient) -> Tensor:
        """Return the rows [B, L, D]; rows of the id ``padding`` have no gradient, as in ``nn.Embedding``."""
        ctx.save_for_backward(ids_BL)
        ctx.padding, ctx.head, ctx.shape, ctx.dtype = padding, head, weight_VD.shape, weight_VD.dtype
        return nn.functional.embedding(ids_BL, weight_VD)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient of the weight: None if it was added to the head's."""
        (ids_BL,), (gradient_BLD,) = ctx.saved_tensors, gradients
        if ctx.padding is not None:
            gradient_BLD = gradient_BLD.masked_fill((ids_BL == ctx.padding)[..., None], 0)
        total_VD = ctx.head.take()
        new = total_VD is None
        if new:
            total_VD = torch.zeros(ctx.shape, dtype=ctx.dtype, device=gradient_BLD.device)
        total_VD.index_add_(0, ids_BL.flatten(), gradient_BLD.flatten(0, -2).to(ctx.dtype))
        return total_VD if new else None, None, None, None


def rows_of(weight_VD: Tensor, padding: int | None, shared: HeadGradient, ids_BL: Tensor) -> Tensor:
    """Return rows of the weight [B, L, D] by ``TiedEmbedding``."""
    rows: Any = TiedEmbedding.apply(weight_VD, ids_BL, padding, shared)
    return rows


@contextmanager
def tied_embedding(model: Any, head: Head) -> Generator[HeadGradient | None]:
    """Compute the model's embedding by ``TiedEmbedding`` within the context, if it shares its trained weight with the head; else yield None.

    On CPUs only: on GPUs ``index_add_`` adds in no fixed order.
    """
    embedding, weight_VD = model.get_input_embeddings(), head.weight_VD
    kind = type(embedding)
    tied = kind is nn.Embedding and embedding.weight is weight_VD and weight_VD.requires_grad
    if not tied or weight_VD.device.type != "cpu":
        yield None
        return
    shared = HeadGradient()
    with forwards([(embedding, partial(rows_of, weight_VD, embedding.padding_idx, shared))]):
        yield shared


CPU_BLOCK, GPU_BLOCK = 2**20, 2**25
"""Most logits of a block: on CPUs 4 MiB, which stay in the cache; on GPUs few, large kernels."""
NARROWEST = 256
"""Least width of a block."""
ALIGNED = 128
"""On GPUs the width of a block is a multiple of this: the fast matrix products need rows of whole 16 bytes."""


def block_elements(tokens: int, vocabulary: int, *, gpu: bool) -> int:
    """Return the number of logits that are in memory at once."""
    width = max(NARROWEST, (GPU_BLOCK if gpu else CPU_BLOCK) // max(tokens, 1))
    return tokens * min(vocabulary, width - width % ALIGNED if gpu else width)


def score_tokens(
    hidden_TD: Tensor,
    weight_VD: Tensor,
    target_T: Tensor,
    *,
    dtype: torch.dtype,
    scale: float = 1.0,
    cap: float | None = None,
    shared: HeadGradient | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return log-probabilities [T], with gradient, entropies [T], nats, and variances of the logits [T], all in float32.

    ``weight_VD`` has the dtype in which it is trained, the matrix products have ``dtype``. ``scale`` and ``cap`` are the
    head's. ``shared`` takes the gradient of the weight in the backward pass, for an embedding with the same weight.
    """
    scores: Any = ScoreTokens.apply(hidden_TD, weight_VD, target_T, dtype, scale, cap, shared)
    return scores


class ScoreTokens(torch.autograd.Function):
    """Log-probability, entropy and variance of the logits of each token; the logits are recomputed in the backward pass.

    d logp_t / d logits = onehot(target) - softmax(logits), with the log-normaliser of the forward pass.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden_TD: Tensor,
        weight_VD: Tensor,
        target_T: Tensor,
        dtype: torch.dtype,
        scale: float,
        cap: float | None,
        shared: HeadGradient | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return log-probabilities, entropies and variances of the logits (``score_tokens``)."""
        hidden_TD, head = hidden_TD.to(dtype), Head(weight_VD.to(dtype), scale, cap)
        highest, target = (torch.full(target_T.shape, -torch.inf, device=hidden_TD.device) for _ in range(2))
        total, weighted, plain, squares = (torch.zeros_like(highest) for _ in range(4))
        for first, logits in blocks(hidden_TD, head):
            found = logits.gather(1, column(target_T, first, logits))[:, 0]
            target = torch.where(inside(target_T, first, logits), found, target)
            before, highest = highest, torch.maximum(highest, logits.amax(1))
            shrunk, exp_TW = (before - highest).exp(), (logits - highest[:, None]).exp_()
            total = total * shrunk + exp_TW.sum(1)
            weighted = weighted * shrunk + exp_TW.mul_(logits).sum(1)
            plain += logits.sum(1)
            squares += logits.square_().sum(1)
        norm_T = highest + total.log()
        ctx.save_for_backward(hidden_TD, head.weight_VD, target_T, norm_T)
        ctx.scale, ctx.cap, ctx.shared, ctx.dtype = scale, cap, shared, weight_VD.dtype
        entropy, variance = norm_T - weighted / total, squares / len(weight_VD) - (plain / len(weight_VD)).square()
        ctx.mark_non_differentiable(entropy, variance)
        return target - norm_T, entropy, variance

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of the hidden states and, if the head is trained, of its weight."""
        hidden_TD, weight_VD, target_T, norm_T = ctx.saved_tensors
        head = Head(weight_VD, ctx.scale, ctx.cap)
        grad_hidden = torch.zeros(hidden_TD.shape, device=hidden_TD.device)
        grad_weight = torch.empty_like(weight_VD, dtype=ctx.dtype) if ctx.needs_input_grad[1] else None
        for first, logits in blocks(hidden_TD, head):
            push = (logits - norm_T[:, None]).exp_().neg_()
            push.scatter_add_(1, column(target_T, first, logits), inside(target_T, first, logits)[:, None].float())
            push = push.mul_(gradients[0][:, None] * head.slope(logits)).to(hidden_TD.dtype)
            block = slice(first, first + logits.shape[1])
            grad_hidden += push @ weight_VD[block]
            if grad_weight is not None:
                grad_weight[block] = push.T @ hidden_TD
        if ctx.shared:
            ctx.shared.weight_VD = grad_weight
        return grad_hidden.to(hidden_TD.dtype), grad_weight, None, None, None, None, None


def blocks(hidden_TD: Tensor, head: Head) -> Iterator[tuple[int, Tensor]]:
    """Yield the first token id of each block of the vocabulary with its logits, float32 [T, W]."""
    tokens, vocabulary = max(len(hidden_TD), 1), len(head.weight_VD)
    width = block_elements(tokens, vocabulary, gpu=hidden_TD.is_cuda) // tokens
    for first in range(0, vocabulary, width):
        yield first, Head(head.weight_VD[first : first + width], head.scale, head.cap).logits(hidden_TD)


def inside(target_T: Tensor, first: int, logits_TW: Tensor) -> Tensor:
    """Return bool [T]: whether a token's id is in the block."""
    return (target_T >= first) & (target_T < first + logits_TW.shape[1])


def column(target_T: Tensor, first: int, logits_TW: Tensor) -> Tensor:
    """Return int64 [T, 1]: the column of each token in the block; any column if the token is outside."""
    return (target_T - first).clamp(0, logits_TW.shape[1] - 1)[:, None]
