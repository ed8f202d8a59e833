"""Placement of the policy, its gradients and its optimizer: replicated, or sharded by FSDP2 or DeepSpeed.

Sharded, every rank holds 1/n of each tensor. The weights of a layer are all-gathered for its passes and freed afterwards; its gradients are
reduce-scattered. These are collectives: every rank must run the same number of passes.

Replicated, gradients are summed over all ranks in buckets while the backward pass still runs (as DDP does, 2006.15704). PyTorch's DDP
averages instead, every rank has to take part in every last backward pass, and parameters without a gradient (experts that no token was
routed to) are errors or cost a search.

DeepSpeed's ZeRO stage 1 shards the optimizer state, 2 also the gradients, 3 also the weights. DeepSpeed averages gradients where upsolve
sums them, steps at its own gradient accumulation boundaries, and keeps flattened weights; ``DeepSpeed`` hides these differences.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from upsolve.config import ModelConfig, OptimConfig
from upsolve.policy.machine import in_bfloat16
from upsolve.policy.model import trainable, value_head, with_weights
from upsolve.policy.shards import blank_policy, deepspeed_library, gather_layers, materialise, partition_weights, read_weights
from upsolve.train.data.pack import PackedBatch, chunks
from upsolve.train.run.processes import Processes
from upsolve.train.update.logprobs import Scorer, TokenScores
from upsolve.train.update.optimizer import adamw, gradient_norm, set_learning_rate

__all__ = ["DeepSpeed", "Fsdp2", "Moments", "Replicated", "ScoringModule", "loaded_by_parts", "zero_loss"]

BUCKET = 2**24
"""Gradient elements per all-reduce (64 MB in float32)."""


class GradientSum:
    """All-reduces each bucket of gradients as soon as the last backward pass of a step has completed it; all ranks in the same order."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        """Watch trained parameters of one dtype, in the order of the forward pass."""
        self.buckets = chunks(parameters[::-1], BUCKET, nn.Parameter.numel)  # the backward pass begins with the last layer
        self.bucket_of = {id(parameter): number for number, bucket in enumerate(self.buckets) for parameter in bucket}
        self.flats: list[Tensor] = []
        self.works: list[Any] = []
        self.missing: list[int] = []
        for parameter in parameters:
            parameter.register_post_accumulate_grad_hook(self.completed)

    def before_backward(self, *, last: bool) -> None:
        """Make all gradients views of flat tensors, one a bucket; ``last``: this rank's last backward pass of the step follows."""
        if not self.flats:
            for bucket in self.buckets:
                sizes = [parameter.numel() for parameter in bucket]
                self.flats.append(torch.zeros(sum(sizes), dtype=bucket[0].dtype, device=bucket[0].device))
                for parameter, part in zip(bucket, self.flats[-1].split(sizes), strict=True):
                    parameter.grad = part.view_as(parameter)
        self.missing = [len(bucket) for bucket in self.buckets] if last else []

    def completed(self, parameter: Tensor) -> None:
        """Mark the gradient of a parameter as complete; send its bucket if all earlier buckets are ready."""
        if self.missing:
            self.missing[self.bucket_of[id(parameter)]] -= 1
            while len(self.works) < len(self.flats) and self.missing[len(self.works)] == 0:
                self.send()

    def send(self) -> None:
        """Start the all-reduce of the next bucket."""
        self.works.append(torch.distributed.all_reduce(self.flats[len(self.works)], async_op=True))

    def finish(self) -> None:
        """Send the other buckets (zeros for buckets without a gradient), and wait until all are summed. Collective."""
        self.missing = []
        if not self.flats:
            self.before_backward(last=False)
        while len(self.works) < len(self.flats):
            self.send()
        for work in self.works:
            work.wait()
        self.flats, self.works = [], []  # the gradients keep the memory, until they are set to None


CLIP_EPS = 1e-6
"""Added to the norm, as in ``torch.nn.utils.clip_grads_with_norm_``."""

Moments = dict[int, dict[str, Tensor]]
"""Optimizer state by index of the parameter: ``step``, ``exp_avg``, ``exp_avg_sq``."""


class Replicated:
    """The policy, its value head and their optimizer, replicated on each rank; gradients are summed over the ranks (DDP)."""

    lockstep = False
    """Whether a forward or backward pass is a collective."""
    in_parts = False
    """Whether each rank writes its part of a checkpoint."""

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
        """Shard nothing. On CPUs, copy trained weights into memory of their own: loaded weights are pages of a file, copied page by page at the first
        write.

        Copying all at once takes a twentieth of the time.
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
        """Add the gradients of a micro-batch; ``last``: this micro-batch is the rank's last of the step."""
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
        """Multiply the gradients, whose norm is given, by clip_norm / norm; None: by 1. Fused optimizers multiply during their step."""
        if hasattr(self.optimizer, "grad_scale") or self.optimizer.defaults.get("fused"):
            self.optimizer.grad_scale = None if norm is None else ((norm + CLIP_EPS) / self.optim.clip_norm).clamp(min=1)
        elif norm is not None:
            nn.utils.clip_grads_with_norm_(self.parameters(), self.optim.clip_norm, norm)

    def full_model(self, *, keep: bool, trained: bool = False) -> Any:  # noqa: ARG002  a sharded one needs it
        """Return the policy with all its weights, or ``trained`` ones alone; None on a rank that does not keep it. Collective."""
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

    def held(self) -> tuple[list[Tensor], Moments]:
        """Return weights and moments as this rank holds them, sharded or whole."""
        return [parameter.detach() for parameter in self.parameters()], self.optimizer.state_dict()["state"]

    def room(self, parameter: Tensor, size: torch.Size) -> Tensor:
        """Return an empty tensor for a stored weight or moment of this size, sharded as the parameter is if the sizes agree."""
        return torch.empty_like(parameter) if parameter.shape == size else torch.empty(size)

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


def blank_of(model: Any) -> Any:
    """Return a copy of a model without weights (on the meta device)."""
    return with_weights(model, (parameter.to("meta") for parameter in model.parameters()))


class ScoringModule(nn.Module):
    """A scorer as a module, the root for FSDP2's hooks: scoring bypasses the model's forward, whose hooks would gather the head."""

    def __init__(self, model: Any, value_head: Any, scorer: Scorer) -> None:
        super().__init__()
        self.model, self.value_head, self.scorer = model, value_head, scorer
        self.hooks: list[Any] = []  # of a model that ZeRO-3 has partitioned, until there is an engine

    def scores(self, batch: PackedBatch) -> TokenScores:
        """Score a batch. Collective where the module is sharded."""
        return TokenScores(*self(batch))

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
        self.blank = blank_of(self.model)

    def full_model(self, *, keep: bool, trained: bool = False) -> Any:
        """Return the policy on the CPU, with all its weights or with ``trained`` ones alone; None on a rank that does not keep it.
        Collective."""
        pairs = zip(self.model.parameters(), self.blank.parameters(), strict=True)
        weights = [blank if trained and not own.requires_grad else self.full(own, keep=keep) for own, blank in pairs]
        return with_weights(self.blank, weights) if keep else None


def fully_sharded(model: Any, value_head: Any, scorer: Any, *, processes: Processes, bf16: bool) -> ScoringModule:
    """Shard a model and its value head in place by FSDP2, and return the root; all parameters are ``DTensor`` from here on."""
    root = ScoringModule(model, value_head, scorer)
    mesh = init_device_mesh(processes.device.type, (processes.count,))
    kinds: set[str] = set(model._no_split_modules or ())
    layers = [module for module in model.modules() if type(module).__name__ in kinds]
    # Layers are gathered as autocast would round them: half of the traffic, and no copies that stay until the backward pass. Their
    # inputs keep their dtype, and so do embedding, last norm and value head, which belong to the root.
    half = MixedPrecisionPolicy(torch.bfloat16, torch.float32, cast_forward_inputs=False)
    for module in [*reversed(layers), root]:  # FSDP2 wants inner modules first
        policy = half if bf16 and module is not root else MixedPrecisionPolicy()
        part: Any = fully_shard(module, mesh=mesh, reshard_after_forward=True, mp_policy=policy)
        part.set_gradient_divide_factor(1.0)  # a rank's loss is its share of the step: gradients are summed, not averaged
        part.set_force_sum_reduction_for_comms(True)  # gloo cannot scale while it sums
    return root


def loaded_by_parts(
    config: ModelConfig, folder: Path, *, processes: Processes, seed: int, values: bool = False, frozen: bool = False
) -> tuple[ScoringModule, Any]:
    """Return a policy of which this rank holds only its part, sharded by FSDP2 or ZeRO-3, and a copy on the meta device.

    ``values``: with a value head; ``frozen``: the frozen start, without adapters and trained parameters.
    """
    model = blank_policy(config, folder, seed=seed, frozen=frozen)
    blank, head = blank_of(model), value_head(model, processes.device) if values else None
    if config.shard == "deepspeed":
        partition_weights(model, folder, config.deepspeed, device=processes.device, reads=processes.is_main)
        unset: Any = None  # the scorer is chosen later
        root = ScoringModule(model, head, unset)
        root.hooks = gather_layers(root, model)
        return root, blank
    root = fully_sharded(model, head, None, processes=processes, bf16=in_bfloat16(config))
    materialise(root, processes.device)
    read_weights(model, folder)
    return root, blank


class Fsdp2(Distributed):
    """The policy and its value head sharded by FSDP2."""

    in_parts = True

    def __init__(self, *modules: Any, parts: tuple[ScoringModule, Any] | None = None, **settings: Any) -> None:
        """Place the model; ``parts``: the result of ``loaded_by_parts``, None if every rank has the whole model. Other arguments: ``Replicated``."""
        self.loaded = parts
        super().__init__(*modules, **settings)

    def shard(self) -> None:
        """Shard in place, unless the model is sharded already."""
        if self.loaded is None:
            super().shard()
            settings: Any = {"processes": self.processes, "bf16": self.bf16}
            self.scoring = fully_sharded(self.model, self.value_head, self.scorer, **settings)
            return
        self.scoring, self.blank = self.loaded
        self.scoring.scorer = self.scorer

    def score(self, batch: PackedBatch) -> TokenScores:
        """Score this rank's batch. Collective."""
        return self.scoring.scores(batch)

    def sum_gradients(self) -> None:
        """Do nothing: the backward pass has already reduce-scattered the gradients."""


def zero_loss(scores: TokenScores) -> Tensor:
    """Return 0, with gradients of 0: the loss of a dummy micro-batch that keeps the collectives in step."""
    total = scores.logp_T.sum() if scores.values_T is None else scores.logp_T.sum() + scores.values_T.sum()
    return 0 * total


def full_tensor(tensor: Tensor, *, keep: bool = True) -> Tensor:
    """Return a sharded tensor unsharded, on the CPU; any other tensor unchanged; an empty tensor on a rank that does not keep it. Collective."""
    if not isinstance(tensor, DTensor):
        return tensor
    full = tensor.full_tensor()
    return full.cpu() if keep else torch.empty(0)


def shard_like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """Return this rank's shard of a full tensor that has the shape of a sharded parameter; any other tensor unchanged."""
    if not isinstance(parameter, DTensor) or isinstance(tensor, DTensor) or tensor.shape != parameter.shape:
        return tensor
    return distribute_tensor(tensor, parameter.device_mesh, parameter.placements, src_data_rank=None)


class DeepSpeed(Distributed):
    """The policy and its value head in a DeepSpeed engine."""

    def __init__(
        self, *modules: Any, config: dict[str, Any], parts: tuple[ScoringModule, Any] | None = None, **settings: Any
    ) -> None:
        """Initialise the engine; ``config`` (DeepSpeed's) overrides ``defaults``; for the other arguments see ``Fsdp2``."""
        self.loaded = parts
        super().__init__(*modules, **settings)
        deepspeed = deepspeed_library()
        scoring = ScoringModule(self.model, self.value_head, self.scorer)
        deepspeed.zero.register_external_parameter(
            scoring, self.model.get_output_embeddings().weight
        )  # scoring uses it directly
        settings = {**self.defaults(), **config}
        self.engine: Any = deepspeed.initialize(model=scoring, optimizer=self.optimizer, config=settings)[0]
        self.optimizer = self.engine.optimizer
        self.linked, self.in_parts = False, self.engine.zero_optimization_stage() == 3
        self.mesh = init_device_mesh(self.processes.device.type, (self.processes.count,)) if self.in_parts else None

    def shard(self) -> None:
        """Do nothing to partitioned weights; the engine's hooks handle them."""
        if self.loaded is None:
            super().shard()
            return
        root, self.blank = self.loaded
        for hook in root.hooks:
            hook.remove()

    def defaults(self) -> dict[str, Any]:
        """Return DeepSpeed's configuration for an empty ``model.deepspeed``."""
        return {
            "zero_optimization": {"stage": 3},
            "gradient_clipping": self.optim.clip_norm,
            "train_micro_batch_size_per_gpu": 1,  # required by DeepSpeed, unused: batches vary in size, and losses are shares of the step
            "torch_autocast": {"enabled": self.bf16, "dtype": "bfloat16", "lower_precision_safe_modules": []},
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,
            "steps_per_print": 10**9,
        }

    def score(self, batch: PackedBatch) -> TokenScores:
        """Score this rank's batch. Collective."""
        return TokenScores(*self.engine(batch))

    def backward(self, loss: Tensor, *, last: bool) -> None:
        """Add the gradients of a micro-batch; ``last``: it is this rank's last one of the step. Collective."""
        self.engine.set_gradient_accumulation_boundary(last)
        self.engine.backward(loss * self.processes.count)

    def clip_and_step(self) -> float:
        """Clip and step, at the learning rates that are set; DeepSpeed itself skips the step if a gradient is not finite."""
        self.engine.step()
        if self.optimizer.overflow:
            return math.inf
        if not self.linked:
            self.link()
        return float(self.engine.get_global_grad_norm())

    def link(self) -> None:
        """Link the moments of all parameters, for ``state``. Stages 1 and 2 link them too early, when only the first group has stepped."""
        self.linked = True
        if hasattr(self.optimizer, "_lazy_init_hp_params_optimizer_state"):
            self.optimizer._hp_optimizer_states_linked = False
            self.optimizer._lazy_init_hp_params_optimizer_state()

    def full(self, parameter: Tensor, *, keep: bool) -> Tensor:
        """Return a parameter unsharded, float32, on the CPU; an empty tensor on a rank that does not keep it. Collective."""
        from deepspeed.runtime.zero import GatheredParameters
        from deepspeed.utils import safe_get_full_fp32_param

        weights = safe_get_full_fp32_param(parameter)
        if weights is not None:
            return weights.cpu() if keep else torch.empty(0)
        with GatheredParameters([parameter]):  # frozen: there is no float32 copy
            return parameter.detach().cpu().clone() if keep else torch.empty(0)

    def state(self, *, keep: bool) -> tuple[list[Tensor], Moments]:
        """Return weights and moments unsharded; empty tensors on a rank that does not keep them. Collective."""
        from deepspeed.utils import safe_get_full_optimizer_state

        find: Any = safe_get_full_optimizer_state
        moments: Moments = {}
        if self.linked:  # else every step so far was skipped: there are no moments yet
            step = float(self.states()[0]["step"])
            for at, parameter in enumerate(self.parameters()):
                both = {name: find(parameter, name) for name in ("exp_avg", "exp_avg_sq")}
                moments[at] = {"step": torch.tensor(step), **{name: each.cpu() for name, each in both.items() if keep}}
        return [self.full(parameter, keep=keep) for parameter in self.parameters()], moments

    def states(self) -> list[dict[str, Any]]:
        """Return the states of the inner optimizer."""
        return [*self.optimizer.optimizer.state.values()]

    def held(self) -> tuple[list[Tensor], Moments]:
        """Return weights and moments as ZeRO-3 partitions them: flattened, in equal slices, of which the last ones are padded."""
        from deepspeed.utils import safe_get_local_fp32_param, safe_get_local_optimizer_state

        weights, moments, read = list[Tensor](), Moments(), safe_get_local_optimizer_state
        step = float(self.states()[0]["step"]) if self.linked else 0.0
        for at, parameter in enumerate(self.parameters()):
            weights.append(self.slice_of(parameter, safe_get_local_fp32_param(parameter)))
            if self.linked:
                both = {name: self.slice_of(parameter, read(parameter, name)) for name in ("exp_avg", "exp_avg_sq")}
                moments[at] = {"step": torch.tensor(step), **both}
        return weights, moments

    def slice_of(self, parameter: Any, part: Tensor) -> Tensor:
        """Return this rank's slice of a flattened parameter, without padding."""
        size, start = int(parameter.ds_numel), self.processes.index * part.numel()
        own = part[: max(0, min(part.numel(), size - start))]
        return DTensor.from_local(own, self.mesh, [Shard(0)], run_check=False, shape=torch.Size([size]), stride=(1,))

    def room(self, parameter: Any, size: torch.Size) -> Tensor:
        """Return an empty tensor for a stored weight or moment; this rank's slice if it was stored flattened."""
        if not self.in_parts or size != (parameter.ds_numel,):
            return torch.empty(size)
        return self.slice_of(parameter, torch.empty(parameter.ds_tensor.numel(), device=self.processes.device))

    def put(self, parameter: Any, value: Tensor, moment: str = "") -> None:
        """Set a weight, or a moment, to a tensor that is whole or this rank's slice."""
        from deepspeed import utils

        own: Any = value.to(self.processes.device)
        kind = "local" if self.in_parts else "full"
        if self.in_parts:
            size, start = parameter.ds_tensor.numel(), self.processes.index * parameter.ds_tensor.numel()
            own = own.to_local() if isinstance(own, DTensor) else own.flatten()[start : start + size]
            own = nn.functional.pad(own, (0, size - own.numel()))
        if moment:
            getattr(utils, f"safe_set_{kind}_optimizer_state")(parameter, own, moment)
        else:
            getattr(utils, f"safe_set_{kind}_fp32_param")(parameter, own)

    def load(self, weights: list[Tensor], moments: Moments, example: PackedBatch) -> None:
        """Load weights and moments as ``state`` returned them; ``example`` is a batch that this model can score."""
        learning = self.parameters()
        for parameter, saved in zip(learning, weights, strict=True):
            self.put(parameter, saved)
        self.backward(zero_loss(self.score(example)), last=True)
        self.step(0.0)  # changes no weight, but creates the optimizer's state and the weights that the forward pass uses
        for at, each in moments.items():
            for name in ("exp_avg", "exp_avg_sq"):
                self.put(learning[at], each[name], name)
        step = moments[0]["step"] if moments else torch.tensor(0.0)
        for state in self.states():
            state["step"] = step.clone() if isinstance(state["step"], Tensor) else int(step)
