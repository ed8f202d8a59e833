"""How the processes of a run hold what learns: each the whole of it, or each a part, spread by FSDP2 (by DeepSpeed: ``zero.py``).

Spread, every process holds 1/n of each tensor, cut along its first axis. A layer's weights are gathered for its forward and backward
pass and let go after it; its gradients are summed over the processes and cut again. All of this happens in all processes together:
each must do as many passes as the others.
"""

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from upsolve.config import Recipe
from upsolve.policy.model import trainable
from upsolve.train.logprobs import Scorer, TokenScores
from upsolve.train.pack import PackedBatch

__all__ = ["Distributed", "Fsdp2", "Moments", "Replicated", "ScoringModule", "nothing"]

Moments = dict[int, dict[str, Tensor]]
"""State of the optimiser by number of the parameter: ``step``, ``exp_avg``, ``exp_avg_sq``."""


class Replicated:
    """What learns, with its optimiser, whole in each process; gradients are added up over all."""

    lockstep = False
    """Whether all processes must do as many passes."""

    def __init__(self, model: Any, value_head: Any, scorer: Scorer, accelerator: Accelerator, recipe: Recipe) -> None:
        self.model, self.value_head, self.scorer = model, value_head, scorer
        self.accelerator, self.optim = accelerator, recipe.optim
        self.spread()
        rates = {"policy": recipe.optim.lr, "value": recipe.objective.value.lr}
        self.optimizer = torch.optim.AdamW(
            [{"params": part, "factor": rates[name] / recipe.optim.lr} for name, part in self.parts().items()],
            lr=recipe.optim.lr,
            weight_decay=recipe.optim.weight_decay,
        )

    def spread(self) -> None:
        """Leave everything where it is."""

    def parts(self) -> dict[str, list[nn.Parameter]]:
        """Return what learns of the policy and, where there is one, of its value head."""
        head = {} if self.value_head is None else {"value": [*self.value_head.parameters()]}
        return {"policy": trainable(self.model), **head}

    def parameters(self) -> list[nn.Parameter]:
        """Return what learns."""
        return [parameter for part in self.parts().values() for parameter in part]

    def score(self, batch: PackedBatch) -> TokenScores:
        """Score a batch; where ``lockstep``, all processes together, each its own."""
        return self.scorer(self.model, batch, self.value_head)

    def backward(self, loss: Tensor, *, last: bool) -> None:  # noqa: ARG002  for those who must know
        """Add the gradients of this process's share of a step's loss; ``last``: it has no more."""
        self.accelerator.backward(loss)

    def share(self) -> None:
        """Add up gradients over all processes."""
        for parameter in self.parameters() if self.accelerator.num_processes > 1 else ():
            grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            parameter.grad = self.accelerator.reduce(grad, "sum")  # type: ignore[assignment]

    def step(self, rate: float) -> float:
        """Clip the gradients of all, move the weights, and return the norm that the gradients had; the rate is the policy's."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        return self.move()

    def move(self) -> float:
        """Clip and step, at the rate that is set."""
        self.share()
        norm = float(whole(nn.utils.clip_grad_norm_(self.parameters(), self.optim.clip_norm)))
        self.optimizer.step()
        self.optimizer.zero_grad()
        return norm

    def gathered(self, *, keep: bool) -> Any:
        """Return the policy with all its weights; None in a process that does not keep it. All processes together."""
        return self.model if keep else None

    def full(self, parameter: Tensor, *, keep: bool) -> Tensor:
        """Return a parameter whole, an empty one in a process that does not keep it. All processes together."""
        return whole(parameter.detach(), keep=keep)

    def state(self, *, keep: bool) -> tuple[list[Tensor], Moments]:
        """Return weights and moments as whole tensors, empty ones in a process that does not keep them. All processes together."""
        weights = [self.full(parameter, keep=keep) for parameter in self.parameters()]
        state: Moments = self.optimizer.state_dict()["state"]
        moments = {at: {name: whole(tensor, keep=keep) for name, tensor in each.items()} for at, each in state.items()}
        return weights, moments

    def load(self, weights: list[Tensor], moments: Moments, example: PackedBatch) -> None:  # noqa: ARG002
        """Take whole weights and moments as ``state`` returned them; ``example`` is a batch that this model can score."""
        learning = self.parameters()
        with torch.no_grad():
            for parameter, saved in zip(learning, weights, strict=True):
                parameter.copy_(spread_like(saved, parameter))
        state = {at: {name: spread_like(t, learning[at]) for name, t in each.items()} for at, each in moments.items()}
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state})


class ScoringModule(nn.Module):
    """Scoring as a module: our scorers go past a model's own forward, where the embedding and the head would be gathered."""

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


class Distributed(Replicated):
    """What learns, spread over all processes: its weights are put into a copy of the model to have them in one."""

    lockstep = True

    def spread(self) -> None:
        """Keep a model without weights."""
        self.blank = with_weights(self.model, (parameter.to("meta") for parameter in self.model.parameters()))

    def gathered(self, *, keep: bool) -> Any:
        """Return the policy with all its weights, on the CPU; None in a process that does not keep it. All processes together."""
        weights = [self.full(parameter, keep=keep) for parameter in self.model.parameters()]
        return with_weights(self.blank, weights) if keep else None


class Fsdp2(Distributed):
    """A policy and its value head, spread over all processes by FSDP2."""

    def spread(self) -> None:
        """Spread in place: from here on the parameters of both are ``DTensor``."""
        super().spread()
        self.scoring: Any = ScoringModule(self.model, self.value_head, self.scorer)
        mesh = init_device_mesh(self.accelerator.device.type, (self.accelerator.num_processes,))
        kinds: set[str] = set(self.model._no_split_modules or ())
        layers = [module for module in self.model.modules() if type(module).__name__ in kinds]
        for module in [*reversed(layers), self.scoring]:  # what lies inside of others comes first
            part = fully_shard(module, mesh=mesh, reshard_after_forward=True)
            part.set_gradient_divide_factor(1.0)  # a process's loss is its share of the step's: gradients are summed
            part.set_force_sum_reduction_for_comms(True)  # gloo cannot scale while it sums

    def score(self, batch: PackedBatch) -> TokenScores:
        """Score a batch; all processes together, each its own."""
        return TokenScores(*self.scoring(batch))

    def share(self) -> None:
        """Leave gradients alone: the backward pass has added them up."""


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
