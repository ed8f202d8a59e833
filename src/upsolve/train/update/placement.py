"""Placement of the policy, its gradients and its optimizer: replicated, or sharded by FSDP2 (for DeepSpeed see deepspeed.py).

Sharded, every rank holds 1/n of each tensor, split along its first axis. The weights of a layer are all-gathered for its forward and
backward pass and freed afterwards; its gradients are reduce-scattered. These are collectives: every rank must run the same number of
passes.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from upsolve.config import OptimConfig
from upsolve.policy.model import trainable, with_weights
from upsolve.train.data.pack import PackedBatch
from upsolve.train.run.processes import Processes
from upsolve.train.update.gradient_sum import GradientSum
from upsolve.train.update.logprobs import Scorer, TokenScores
from upsolve.train.update.optimizer import adamw, gradient_norm, set_learning_rate

__all__ = ["Distributed", "Fsdp2", "Moments", "Replicated", "ScoringModule", "zero_loss"]

CLIP_EPS = 1e-6
"""Added to the norm, as in ``torch.nn.utils.clip_grads_with_norm_``."""

Moments = dict[int, dict[str, Tensor]]
"""Optimizer state by index of the parameter: ``step``, ``exp_avg``, ``exp_avg_sq``."""


class Replicated:
    """The policy, its value head and their optimizer, replicated on each rank; gradients are summed over the ranks (DDP)."""

    lockstep = False
    """Whether a forward or backward pass is a collective."""

    def __init__(
        self,
        model: Any,
        value_head: Any,
        scorer: Scorer,
        *,
        processes: Processes,
        optim: OptimConfig,
        value_lr: float,
        bf16: bool = False,
    ) -> None:
        """Place the model and make AdamW: ``optim.lr`` for the policy, ``value_lr`` for the value head; ``bf16``: autocast is on."""
        self.model, self.value_head, self.scorer = model, value_head, scorer
        self.processes, self.optim, self.bf16 = processes, optim, bf16
        self.shard()
        alone = processes.count == 1 or self.lockstep
        self.sums = None if alone else GradientSum(self.parameters())
        self.optimizer = adamw(self.parts(), optim, value_lr=value_lr, fused=not self.lockstep)

    def shard(self) -> None:
        """Shard nothing. On CPUs, give trained weights memory of their own: loaded ones are pages of a file, and the first write to a page copies it.

        Copying all at once takes a twentieth of that time.
        """
        for parameter in self.parameters():
            if parameter.device.type == "cpu":
                parameter.data = parameter.data.clone()

    def parts(self) -> dict[str, list[nn.Parameter]]:
        """Return the trainable parameters of the policy and, if there is one, of its value head."""
        head = {} if self.value_head is None else {"value": [*self.value_head.parameters()]}
        return {"policy": trainable(self.model), **head}

    def parameters(self) -> list[nn.Parameter]:
        """Return all trainable parameters."""
        return [parameter for part in self.parts().values() for parameter in part]

    def score(self, batch: PackedBatch) -> TokenScores:
        """Score this rank's batch; collective if ``lockstep``."""
        return self.scorer(self.model, batch, self.value_head)

    def backward(self, loss: Tensor, *, last: bool) -> None:
        """Add the gradients of a micro-batch; ``last``: it is this rank's last one of the step."""
        if self.sums is not None:
            self.sums.before_backward(last=last)
        loss.backward()

    def sum_gradients(self) -> None:
        """Wait for the sum of the gradients over all ranks, most of which the last backward pass has started. Collective."""
        if self.sums is not None:
            self.sums.finish()

    def step(self, lr: float) -> float:
        """Clip the gradients, do one optimizer step with the policy's learning rate ``lr``, and return the norm before clipping.

        Where the norm is not finite the weights and the optimizer's state stay as they are.
        """
        set_learning_rate(self.optimizer, lr)
        return self.clip_and_step()

    def clip_and_step(self) -> float:
        """Clip and step, at the learning rates that are set."""
        self.sum_gradients()
        total = gradient_norm([each.grad for each in self.parameters() if each.grad is not None])
        norm = float(full_tensor(total))
        self.clip(total if norm > 0.999 * self.optim.clip_norm else None)  # below, the factor is 1
        if math.isfinite(norm):
            self.optimizer.step()
        self.optimizer.zero_grad()
        return norm

    def clip(self, norm: Tensor | None) -> None:
        """Multiply the gradients, whose norm is given, by clip_norm / norm; None: by 1. Fused optimizers do it as they step."""
        if hasattr(self.optimizer, "grad_scale") or self.optimizer.defaults.get("fused"):
            self.optimizer.grad_scale = None if norm is None else ((norm + CLIP_EPS) / self.optim.clip_norm).clamp(min=1)
        elif norm is not None:
            nn.utils.clip_grads_with_norm_(self.parameters(), self.optim.clip_norm, norm)

    def full_model(self, *, keep: bool) -> Any:
        """Return the policy with all its weights; None on a rank that does not keep it. Collective."""
        return self.model if keep else None

    def full(self, parameter: Tensor, *, keep: bool) -> Tensor:
        """Return a parameter unsharded; an empty tensor on a rank that does not keep it. Collective."""
        return full_tensor(parameter.detach(), keep=keep)

    def state(self, *, keep: bool) -> tuple[list[Tensor], Moments]:
        """Return weights and moments unsharded; empty tensors on a rank that does not keep them. Collective."""
        weights = [self.full(parameter, keep=keep) for parameter in self.parameters()]
        state: Moments = self.optimizer.state_dict()["state"]
        moments = {at: {name: full_tensor(tensor, keep=keep) for name, tensor in each.items()} for at, each in state.items()}
        return weights, moments

    def load(self, weights: list[Tensor], moments: Moments, example: PackedBatch) -> None:  # noqa: ARG002  DeepSpeed needs it
        """Load weights and moments as ``state`` returned them; ``example`` is a batch that this model can score."""
        learning = self.parameters()
        with torch.no_grad():
            for parameter, saved in zip(learning, weights, strict=True):
                parameter.copy_(shard_like(saved, parameter))
        state = {at: {name: shard_like(t, learning[at]) for name, t in each.items()} for at, each in moments.items()}
        for each in state.values():  # AdamW counts in place: parameters that shared a step would count it once for each of them
            each["step"] = each["step"].clone()
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state})


class ScoringModule(nn.Module):
    """A scorer as a module, the root for FSDP2's hooks: scoring bypasses the model's forward, whose hooks would gather the head."""

    def __init__(self, model: Any, value_head: Any, scorer: Scorer) -> None:
        super().__init__()
        self.model, self.value_head, self.scorer = model, value_head, scorer

    def forward(self, batch: PackedBatch) -> tuple[Tensor | None, ...]:
        """Return the fields of ``TokenScores`` in order; copies, because FSDP2 registers hooks on them and warns about views."""
        scores = self.scorer(self.model, batch, self.value_head)
        values_T = scores.values_T
        return (
            scores.logp_T.clone(),
            scores.entropy_T,
            scores.logit_variance_T,
            None if values_T is None else values_T.clone(),
        )


class Distributed(Replicated):
    """The policy sharded over all ranks; ``full_model`` loads the gathered weights into a copy of the model."""

    lockstep = True

    def shard(self) -> None:
        """Keep a model without weights (on the meta device)."""
        self.blank = with_weights(self.model, (parameter.to("meta") for parameter in self.model.parameters()))

    def full_model(self, *, keep: bool) -> Any:
        """Return the policy with all its weights, on the CPU; None on a rank that does not keep it. Collective."""
        weights = [self.full(parameter, keep=keep) for parameter in self.model.parameters()]
        return with_weights(self.blank, weights) if keep else None


class Fsdp2(Distributed):
    """The policy and its value head sharded by FSDP2."""

    def shard(self) -> None:
        """Shard in place: from here on all parameters are ``DTensor``."""
        super().shard()
        self.scoring: Any = ScoringModule(self.model, self.value_head, self.scorer)
        mesh = init_device_mesh(self.processes.device.type, (self.processes.count,))
        kinds: set[str] = set(self.model._no_split_modules or ())
        layers = [module for module in self.model.modules() if type(module).__name__ in kinds]
        # Layers are gathered as autocast would round them: half of the traffic, and no copies that stay until the backward pass. Their
        # inputs keep their dtype, and so do embedding, last norm and value head, which belong to the root.
        half = MixedPrecisionPolicy(torch.bfloat16, torch.float32, cast_forward_inputs=False)
        for module in [*reversed(layers), self.scoring]:  # FSDP2 wants inner modules first
            policy = half if self.bf16 and module is not self.scoring else MixedPrecisionPolicy()
            part = fully_shard(module, mesh=mesh, reshard_after_forward=True, mp_policy=policy)
            part.set_gradient_divide_factor(
                1.0
            )  # the loss of a rank is its share of the step: gradients are summed, not averaged
            part.set_force_sum_reduction_for_comms(True)  # gloo cannot scale while it sums

    def score(self, batch: PackedBatch) -> TokenScores:
        """Score this rank's batch. Collective."""
        return TokenScores(*self.scoring(batch))

    def sum_gradients(self) -> None:
        """Do nothing: the backward pass reduce-scatters them."""


def zero_loss(scores: TokenScores) -> Tensor:
    """Return 0, with gradients of 0: the loss of a dummy micro-batch that keeps the collectives in step."""
    total = scores.logp_T.sum() if scores.values_T is None else scores.logp_T.sum() + scores.values_T.sum()
    return 0 * total


def full_tensor(tensor: Tensor, *, keep: bool = True) -> Tensor:
    """Return a sharded tensor unsharded, on the CPU, and any other unchanged; empty on a rank that does not keep it. Collective."""
    if not isinstance(tensor, DTensor):
        return tensor
    full = tensor.full_tensor()
    return full.cpu() if keep else torch.empty(0)


def shard_like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """Return this rank's shard of a full tensor that has the shape of a sharded parameter; any other tensor unchanged."""
    if not isinstance(parameter, DTensor) or tensor.shape != parameter.shape:
        return tensor
    return distribute_tensor(tensor, parameter.device_mesh, parameter.placements, src_data_rank=None)
