"""The embedding of models whose head has the same weight: its gradient is added to the head's, without a tensor of the size of the vocabulary.

Legend: B rows, L row length, D hidden size, V vocabulary.
"""

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from upsolve.policy.head import Head

__all__ = ["HeadGradient", "tied_embedding"]


class HeadGradient:
    """Where the backward pass of the head leaves the gradient of its weight, to which that of the embedding is added."""

    def __init__(self) -> None:
        """Start without a gradient."""
        self.weight_VD: Tensor | None = None

    def take(self) -> Tensor | None:
        """Return the gradient, if there is one, and forget it: autograd copies gradients that others hold."""
        taken, self.weight_VD = self.weight_VD, None
        return taken


class TiedEmbedding(torch.autograd.Function):
    """Rows of a weight; backward adds to the gradient that the head left, before autograd hands it on.

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


def is_tied(embedding: Any, weight_VD: Tensor) -> bool:
    """Return whether an embedding looks up rows of this weight, which is trained, and does nothing else."""
    return type(embedding) is nn.Embedding and embedding.weight is weight_VD and weight_VD.requires_grad


@contextmanager
def tied_embedding(model: Any, head: Head) -> Generator[HeadGradient | None]:
    """Compute the model's embedding by ``TiedEmbedding`` within the context, if it has the trained weight of the head; else yield None.

    On CPUs only: on GPUs ``index_add_`` adds in no fixed order.
    """
    embedding, weight_VD = model.get_input_embeddings(), head.weight_VD
    if not is_tied(embedding, weight_VD) or weight_VD.device.type != "cpu":
        yield None
        return
    shared = HeadGradient()
    embedding.forward = partial(rows_of, weight_VD, embedding.padding_idx, shared)
    try:
        yield shared
    finally:
        del embedding.forward
