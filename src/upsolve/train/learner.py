"""What learns: the policy, its value head where it has one, the optimiser, and the processes that they are spread over."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs, broadcast_object_list, gather_object
from torch import Tensor

from upsolve.config import Recipe
from upsolve.errors import TrainingError
from upsolve.policy.attention import keep_memory
from upsolve.policy.model import frozen_copy, load_codec, load_model, save_model, value_head, with_adapters
from upsolve.train import checkpoint
from upsolve.train.deepspeed import DeepSpeed
from upsolve.train.logprobs import TokenScores
from upsolve.train.monitor import held_out
from upsolve.train.pack import PackedBatch
from upsolve.train.placement import Fsdp2, Replicated, nothing
from upsolve.train.reference import read_attempts, reference_logps
from upsolve.train.reference_scorer import choose_scorer
from upsolve.train.step import ByAttempt, Known, statistic_of, sum_gradients
from upsolve.train.step_metrics import merged, step_metrics

__all__ = ["Learner"]

PATIENCE = timedelta(hours=12)
"""How long processes wait for the one that samples and judges; torch's own ten minutes are less than a round may take."""
T = TypeVar("T")
Score = Callable[[PackedBatch], TokenScores]


class Learner:
    """A policy, first as the frozen start, then, from ``begin`` on, as what is trained."""

    def __init__(self, recipe: Recipe) -> None:
        if os.environ.get("ACCELERATE_USE_DEEPSPEED", "false").lower() == "true":
            raise TrainingError(
                "started with --use_deepspeed: leave it out and set model.shard: deepspeed (see docs/recipes.md)"
            )
        keep_memory()
        torch.manual_seed(recipe.seed)
        self.recipe = recipe
        self.codec = load_codec(recipe.model.name, offline=recipe.model.offline)
        self.accelerator = Accelerator(
            mixed_precision="bf16" if recipe.model.bf16 else "no",
            cpu=not torch.cuda.is_available(),
            kwargs_handlers=[InitProcessGroupKwargs(timeout=PATIENCE)],
        )
        self.model: Any = load_model(recipe.model.name, device=str(self.accelerator.device), offline=recipe.model.offline)
        self.attention: str = self.model.config._attn_implementation
        self.value_head: Any = None
        self.frozen: Any = None
        self.held: Replicated | None = None

    def check(self, batch: PackedBatch) -> None:
        """Try the ways of scoring on a batch and keep the fastest that is right; see ``choose_scorer``."""
        self.scorer, self.example = choose_scorer(self.model, batch, self.precision if self.recipe.model.bf16 else None), batch

    def precision(self) -> AbstractContextManager[Any]:
        """Open the context in which the run computes."""
        return self.accelerator.autocast()

    def begin(self, folder: Path, *, keep_start: bool) -> checkpoint.Progress:
        """Put adapters and value head on, spread all where asked, make the optimiser, and go on from a folder's checkpoint, if there is one.

        Args:
            folder: where the run lives.
            keep_start: keep the frozen start beside the policy: attempts of later rounds are scored under it.
        """
        recipe = self.recipe
        if keep_start:
            self.frozen = frozen_copy(self.model, torch.float32)
        if recipe.advantage.needs_values:
            self.value_head = value_head(self.model)
        self.model = with_adapters(self.model, recipe.model, seed=recipe.seed)
        self.model.train()
        self.held = self.hold()
        return checkpoint.restore(folder, self.held, self.example)

    def hold(self) -> Replicated:
        """Spread what learns over the processes where asked, and make its optimiser."""
        model = self.recipe.model
        what = (self.model, self.value_head, self.scorer, self.accelerator, self.recipe)
        if model.shard == "none" or self.processes == 1:
            return Replicated(*what)
        return Fsdp2(*what) if model.shard == "fsdp2" else DeepSpeed(*what, settings=model.deepspeed)

    @property
    def learning(self) -> Replicated:
        """Return what is trained, as this process holds it: not before ``begin``."""
        assert self.held is not None
        return self.held

    @property
    def leads(self) -> bool:
        """Return whether this process writes."""
        return self.accelerator.is_main_process

    @property
    def processes(self) -> int:
        """Return how many there are."""
        return self.accelerator.num_processes

    def sampled(self, policy: Any) -> Any:
        """Return a copy of the policy to sample from, in the precision of the run and with the attention that the model came with."""
        copied = frozen_copy(policy, torch.bfloat16 if self.recipe.model.bf16 else torch.float32).to(self.accelerator.device)
        copied.set_attn_implementation(self.attention)
        return copied

    def score(self, batch: PackedBatch) -> TokenScores:
        """Score a batch in the precision of the run."""
        return self.scored(self.model, batch)

    def scored(self, model: Any, batch: PackedBatch) -> TokenScores:
        """Score a batch under a model."""
        with self.precision():
            if self.held is not None and model is self.model:
                return self.held.score(batch)
            return self.scorer(model, batch)

    def start_logps(self, batches: Sequence[PackedBatch]) -> ByAttempt:
        """Return the log-probabilities of attempts under the frozen start, before ``begin``: one process computes, the others read."""
        name = "bf16" if self.recipe.model.bf16 else "fp32"
        self.model.eval()
        with self.accelerator.main_process_first():
            return reference_logps(self.model, batches, score=self.score, precision=name)

    def read(self, batches: Sequence[PackedBatch], *, frozen: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return log-probabilities and values of attempts by key, under the policy as it is now, or under the frozen start."""
        model = self.frozen if frozen else self.model
        mine = list(batches[self.accelerator.process_index :: self.processes])
        if self.idles(len(batches)):
            mine.append(batches[0])  # another process reads the same of it
        model.eval()
        found = read_attempts(mine, lambda batch: self.scored(model, batch))
        self.model.train()
        every = self.collected([found])
        return {k: v for logps, _ in every for k, v in logps.items()}, {k: v for _, values in every for k, v in values.items()}

    def collected(self, mine: list[T]) -> list[T]:
        """Return what all processes have, the first one's first; all of them together."""
        return mine if self.processes == 1 else gather_object(mine)

    def led(self, find: Callable[[], T]) -> T:
        """Return what the first process finds; all of them together, the others do not look."""
        if self.processes == 1:
            return find()
        found: list[Any] = [find() if self.leads else None]
        return broadcast_object_list(found)[0]

    def watch(self, batches: Sequence[PackedBatch]) -> dict[str, float]:
        """Measure held-out attempts."""
        return held_out(self.score, batches)

    def step(self, batches: Sequence[PackedBatch], known: Known, rate: float) -> dict[str, float]:
        """Do one optimiser step and return its figures."""
        started, held, process = time.monotonic(), self.learning, self.accelerator.process_index
        if self.recipe.objective.needs_statistic and len(batches) > 1:
            statistic = statistic_of(batches, known, self.read(batches)[0], self.recipe.objective)
            known = replace(known, statistic=statistic.to(self.accelerator.device))
        idle = self.idles(len(batches))
        left = len(batches[process :: self.processes]) + idle

        def backward(loss: Tensor) -> None:
            nonlocal left
            left -= 1
            held.backward(loss, last=left == 0)

        share = (process, self.processes)
        tally = sum_gradients(self.score, batches, self.recipe.objective, known=known, backward=backward, share=share)
        if idle:
            backward(nothing(self.score(batches[0])))
        norm = held.step(rate)
        tally = merged(self.collected([tally]))
        return {"lr": rate, **step_metrics(tally, grad_norm=norm, seconds=time.monotonic() - started)}

    def idles(self, batches: int) -> bool:
        """Return whether this process has one of so many batches less than others, which cannot do theirs without it."""
        return self.learning.lockstep and self.accelerator.process_index >= batches % self.processes > 0

    def gathered(self, *, everywhere: bool = False) -> Any:
        """Return the policy as one piece; all processes together. Where it is spread, the first one gets it, or all of them."""
        return self.learning.gathered(keep=everywhere or self.leads)

    def save(self, policy: Any, folder: Path) -> None:
        """Write the policy as ``gathered`` returned it."""
        save_model(policy, self.codec, folder)

    def keep(self, folder: Path, progress: checkpoint.Progress) -> None:
        """Write a checkpoint; all processes together."""
        checkpoint.save(folder, self.learning, progress, writes=self.leads)
