"""DeepSpeed's ZeRO: stage 1 shards the optimizer state, 2 also the gradients, 3 also the weights; each can be offloaded to the CPU.

DeepSpeed averages gradients where upsolve sums them, steps at its own gradient accumulation boundaries, and keeps flattened weights; this
module hides these differences.
"""

import math
from typing import Any

import torch
from torch import Tensor

from upsolve.errors import TrainingError
from upsolve.train.data.pack import PackedBatch
from upsolve.train.update.logprobs import TokenScores
from upsolve.train.update.placement import Distributed, Moments, ScoringModule, zero_loss

__all__ = ["DeepSpeed"]


class DeepSpeed(Distributed):
    """The policy and its value head in a DeepSpeed engine."""

    def __init__(self, *modules: Any, config: dict[str, Any], **settings: Any) -> None:
        """Initialise the engine; ``config`` (DeepSpeed's) overrides ``defaults``; for the other arguments see ``Replicated``."""
        super().__init__(*modules, **settings)
        try:
            import deepspeed
            from deepspeed.runtime.zero import register_external_parameter
        except ImportError as error:
            raise TrainingError("model.shard: deepspeed needs DeepSpeed: pip install 'upsolve[deepspeed]'") from error
        scoring = ScoringModule(self.model, self.value_head, self.scorer)
        register_external_parameter(scoring, self.model.get_output_embeddings().weight)  # scoring uses it outside of its module
        self.engine: Any = deepspeed.initialize(model=scoring, optimizer=self.optimizer, config={**self.defaults(), **config})[
            0
        ]
        self.optimizer = self.engine.optimizer
        self.linked = False

    def defaults(self) -> dict[str, Any]:
        """Return DeepSpeed's configuration where ``model.deepspeed`` is empty."""
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
        """Link the moments of all parameters, for ``state``: stages 1 and 2 do it too early, when only the first group has stepped."""
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

    def load(self, weights: list[Tensor], moments: Moments, example: PackedBatch) -> None:
        """Load weights and moments as ``state`` returned them; ``example`` is a batch that this model can score."""
        from deepspeed.utils import safe_set_full_fp32_param, safe_set_full_optimizer_state

        learning = self.parameters()
        for parameter, saved in zip(learning, weights, strict=True):
            safe_set_full_fp32_param(parameter, saved.to(self.processes.device))
        self.backward(zero_loss(self.score(example)), last=True)
        self.step(0.0)  # changes no weight, but creates the optimizer's state and the weights that the forward pass uses
        for at, each in moments.items():
            for name in ("exp_avg", "exp_avg_sq"):
                safe_set_full_optimizer_state(learning[at], each[name].to(self.processes.device), name)
        step = moments[0]["step"] if moments else torch.tensor(0.0)
        for state in self.states():
            state["step"] = step.clone() if isinstance(state["step"], Tensor) else int(step)
