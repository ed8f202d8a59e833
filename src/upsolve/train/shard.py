"""FSDP2: weights, gradients and the optimiser's state spread over processes, and made whole where they leave them.

Every process holds 1/n of each tensor, cut along its first axis. A layer's weights are gathered for its forward and backward pass and
let go after it; its gradients are summed over the processes and cut again. All of this happens in all processes together: each must
do as many passes as the others.
"""

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from upsolve.train.logprobs import Scorer, TokenScores
from upsolve.train.pack import PackedBatch

__all__ = ["Sharded", "nothing", "spread_like", "whole"]


class Pass(nn.Module):
    """Scoring as a module: our scorers go past a model's own forward, where FSDP2 would gather the embedding and the head."""

    def __init__(self, model: Any, value_head: Any, scorer: Scorer) -> None:
        super().__init__()
        self.model, self.value_head, self.scorer = model, value_head, scorer

    def forward(self, batch: PackedBatch) -> tuple[Tensor | None, ...]:
        """Return the fields of ``TokenScores`` in their order; copies, since FSDP2 hangs its hooks on them and warns of views."""
        scores = self.scorer(self.model, batch, self.value_head)
        values_T = scores.values_T
        return (
            scores.logp_T.clone(),
            scores.entropy_T,
            scores.logit_variance_T,
            None if values_T is None else values_T.clone(),
        )


class Sharded:
    """A policy and its value head, spread over all processes."""

    def __init__(self, model: Any, value_head: Any, scorer: Scorer, device: torch.device, processes: int) -> None:
        """Spread in place: from here on the parameters of both are ``DTensor``."""
        self.model = model
        self.blank = with_weights(model, (parameter.to("meta") for parameter in model.parameters()))
        self.scoring: Any = Pass(model, value_head, scorer)
        mesh = init_device_mesh(device.type, (processes,))
        kinds: set[str] = set(model._no_split_modules or ())
        layers = [module for module in model.modules() if type(module).__name__ in kinds]
        for module in [*reversed(layers), self.scoring]:  # what lies inside of others comes first
            part = fully_shard(module, mesh=mesh, reshard_after_forward=True)
            part.set_gradient_divide_factor(1.0)  # a process's loss is its share of the step's: gradients are summed
            part.set_force_sum_reduction_for_comms(True)  # gloo cannot scale while it sums

    def score(self, batch: PackedBatch) -> TokenScores:
        """Score a batch; all processes together, each its own."""
        return TokenScores(*self.scoring(batch))

    def gathered(self, *, keep: bool) -> Any:
        """Return the policy with all its weights, on the CPU; None in a process that does not keep it."""
        weights = [whole(parameter.detach(), keep=keep) for parameter in self.model.parameters()]
        return with_weights(self.blank, weights) if keep else None


def nothing(scores: TokenScores) -> Tensor:
    """Return 0 with a gradient of 0 in all that learns: the backward pass of a process that only goes along with others."""
    total = scores.logp_T.sum() if scores.values_T is None else scores.logp_T.sum() + scores.values_T.sum()
    return 0 * total


def with_weights(model: Any, weights: Iterable[Tensor]) -> Any:
    """Return a copy of a model with other weights, given in the order of its parameters; what was tied stays tied."""
    pairs = zip(model.parameters(), weights, strict=True)
    return deepcopy(model, {id(old): nn.Parameter(new.detach(), requires_grad=old.requires_grad) for old, new in pairs})


def whole(tensor: Tensor, *, keep: bool = True) -> Tensor:
    """Return a tensor that is spread as one piece on the CPU, any other as it is; all processes together.

    A process that does not keep it gets an empty one.
    """
    if not isinstance(tensor, DTensor):
        return tensor
    full = tensor.full_tensor()
    return full.cpu() if keep else torch.empty(0)


def spread_like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """Return the part of a whole tensor that goes with this process's part of a parameter of the same shape; any other as it is."""
    if not isinstance(parameter, DTensor) or tensor.shape != parameter.shape:
        return tensor
    return distribute_tensor(tensor, parameter.device_mesh, parameter.placements, src_data_rank=None)
