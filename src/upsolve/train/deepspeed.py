"""DeepSpeed's ZeRO: what learns and its optimiser spread over processes, as far as its stage says, or kept in the CPU's memory.

Stage 1 spreads the optimiser's state, 2 the gradients as well, 3 the weights, too. DeepSpeed averages gradients where ours are
summed, steps by itself after a step's last backward pass, and keeps its weights flat; all of that ends in this file.
"""

from typing import Any

import torch
from torch import Tensor

from upsolve.errors import TrainingError
from upsolve.train.logprobs import TokenScores
from upsolve.train.pack import PackedBatch
from upsolve.train.placement import Distributed, Moments, ScoringModule, nothing

__all__ = ["DeepSpeed"]


class DeepSpeed(Distributed):
    """A policy and its value head in the hands of a DeepSpeed engine."""

    def __init__(self, *held: Any, settings: dict[str, Any]) -> None:
        """Hand everything over; ``settings`` are DeepSpeed's own, over ours, ``held`` is what ``Replicated`` takes."""
        super().__init__(*held)
        try:
            import deepspeed
            from deepspeed.runtime.zero import register_external_parameter
        except ImportError as error:
            raise TrainingError("model.shard: deepspeed needs DeepSpeed: pip install 'upsolve[deepspeed]'") from error
        scoring, config = ScoringModule(self.model, self.value_head, self.scorer), {**self.defaults(), **settings}
        register_external_parameter(scoring, self.model.get_output_embeddings().weight)  # is read, not run
        self.engine: Any = deepspeed.initialize(model=scoring, optimizer=self.optimizer, config=config)[0]
        self.optimizer = self.engine.optimizer
        self.linked = False

    def defaults(self) -> dict[str, Any]:
        """Return the settings that a run has unless told otherwise."""
        bf16 = self.accelerator.mixed_precision == "bf16"
        return {
            "zero_optimization": {"stage": 3},
            "gradient_clipping": self.optim.clip_norm,
            "train_micro_batch_size_per_gpu": 1,  # a batch is as large as it is: nothing is divided by this
            "torch_autocast": {"enabled": bf16, "dtype": "bfloat16", "lower_precision_safe_modules": []},
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,
            "steps_per_print": 10**9,
        }

    def score(self, batch: PackedBatch) -> TokenScores:
        """Score a batch; all processes together, each its own."""
        return TokenScores(*self.engine(batch))

    def backward(self, loss: Tensor, *, last: bool) -> None:
        """Add the gradients of this process's share of a step's loss; ``last``: it has no more."""
        self.engine.set_gradient_accumulation_boundary(last)
        self.engine.backward(loss * self.accelerator.num_processes)

    def move(self) -> float:
        """Clip and step, at the rate that is set."""
        self.engine.step()
        if not self.linked:
            self.link()
        return float(self.engine.get_global_grad_norm())

    def link(self) -> None:
        """Let ``state`` find the moments of all parameters: stages 1 and 2 look for them when only the first group has stepped."""
        self.linked = True
        if hasattr(self.optimizer, "_lazy_init_hp_params_optimizer_state"):
            self.optimizer._hp_optimizer_states_linked = False
            self.optimizer._lazy_init_hp_params_optimizer_state()

    def full(self, parameter: Tensor, *, keep: bool) -> Tensor:
        """Return a parameter whole and in float32, on the CPU, an empty one in a process that does not keep it. All processes together."""
        from deepspeed.runtime.zero import GatheredParameters
        from deepspeed.utils import safe_get_full_fp32_param

        found = safe_get_full_fp32_param(parameter)
        if found is not None:
            return found.cpu() if keep else torch.empty(0)
        with GatheredParameters([parameter]):  # of what does not learn there is no other
            return parameter.detach().cpu().clone() if keep else torch.empty(0)

    def state(self, *, keep: bool) -> tuple[list[Tensor], Moments]:
        """Return weights and moments as whole tensors, empty ones in a process that does not keep them. All processes together."""
        from deepspeed.utils import safe_get_full_optimizer_state

        find: Any = safe_get_full_optimizer_state
        learning, step = self.parameters(), float(self.states()[0]["step"])
        moments: Moments = {}
        for at, parameter in enumerate(learning):
            both = {name: find(parameter, name) for name in ("exp_avg", "exp_avg_sq")}
            moments[at] = {"step": torch.tensor(step), **{name: each.cpu() for name, each in both.items() if keep}}
        return [self.full(parameter, keep=keep) for parameter in learning], moments

    def states(self) -> list[dict[str, Any]]:
        """Return the states of the optimiser inside."""
        return [*self.optimizer.optimizer.state.values()]

    def load(self, weights: list[Tensor], moments: Moments, example: PackedBatch) -> None:
        """Take whole weights and moments as ``state`` returned them; ``example`` is a batch that this model can score."""
        from deepspeed.utils import safe_set_full_fp32_param, safe_set_full_optimizer_state

        learning = self.parameters()
        for parameter, saved in zip(learning, weights, strict=True):
            safe_set_full_fp32_param(parameter, saved.to(self.accelerator.device))
        self.backward(nothing(self.score(example)), last=True)
        self.step(0.0)  # moves nothing, but gives the optimiser a state, and the weights that the forward pass reads
        for at, each in moments.items():
            for name in ("exp_avg", "exp_avg_sq"):
                safe_set_full_optimizer_state(learning[at], each[name].to(self.accelerator.device), name)
        step = moments[0]["step"]
        for state in self.states():
            state["step"] = step.clone() if isinstance(state["step"], Tensor) else int(step)
