"""The policy in training, over all processes: scoring, optimizer steps, held-out metrics, checkpoints."""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from upsolve.config import ModelConfig, ObjectiveConfig, OptimConfig
from upsolve.policy.machine import GrownMemory, in_bfloat16, keep_memory, precision_of
from upsolve.policy.model import adapters_off, codec_of, frozen_copy, load_policy, save_model, start_copy, value_head
from upsolve.policy.shards import base_weights, first_layers, parts_of, write_weights
from upsolve.policy.tokens import Codec
from upsolve.train.data.pack import PackedBatch
from upsolve.train.run.folder import replace_folder
from upsolve.train.run.monitor import held_out
from upsolve.train.run.processes import Processes
from upsolve.train.update.checkpoint import Progress, restore_checkpoint, save_checkpoint
from upsolve.train.update.compiled import CompiledScorer, compiled_or_plain, worth_compiling
from upsolve.train.update.logprobs import TokenScores
from upsolve.train.update.placement import DeepSpeed, Fsdp2, Replicated, ScoringModule, loaded_by_parts, zero_loss
from upsolve.train.update.reference import fingerprint, read_attempts, reference_logps
from upsolve.train.update.reference_scorer import known_or_chosen, padded_scores
from upsolve.train.update.step import ByAttempt, FrozenScores, merged, statistic_of, step_metrics, sum_gradients

__all__ = ["Learner"]


class Learner:
    """A policy and its optimizer: before ``start_training`` the frozen start (the reference), after it the policy in training."""

    def __init__(
        self,
        model: ModelConfig,
        objective: ObjectiveConfig,
        optim: OptimConfig,
        *,
        seed: int,
        values: bool = False,
        processes: Processes | None = None,
        codec: Codec | None = None,
    ) -> None:
        """Load the model on the device of this process.

        ``seed`` seeds everything random in training, such as the initial weights of adapters. ``values``: train a value head,
        too. ``processes``: None joins the process group; ``codec``: None loads the tokenizer.
        """
        torch.manual_seed(seed)
        self.config, self.objective, self.optim, self.seed, self.values = model, objective, optim, seed, values
        self.bf16 = in_bfloat16(model)
        self.codec = codec or codec_of(model)
        self.processes = processes or Processes()
        shards = model.partitioned and self.processes.count > 1
        keep_memory(keep=not shards)
        self.parts_folder = parts_of(model) if shards else None
        self.parts: tuple[ScoringModule, Any] | None = None
        self.model: Any = self.load()
        self.attention: str = self.model.config._attn_implementation
        self.value_head: Any = None
        self.frozen: Any = None
        self.fingerprint = ""
        self.placed: Replicated | None = None
        self.memory = GrownMemory()

    def load(self) -> Any:
        """Return the whole policy or, with FSDP2 or ZeRO-3 and weights in files that can be read by parts, this rank's part."""
        if self.parts_folder is None:
            return load_policy(self.config, seed=self.seed, device=str(self.processes.device))
        settings: Any = {"processes": self.processes, "seed": self.seed, "values": self.values}
        self.parts = loaded_by_parts(self.config, self.parts_folder, **settings)
        return self.parts[0].model

    def choose_scorer(self, batch: PackedBatch) -> None:
        """Choose the fastest packed scorer that agrees with the padded scorer on a batch; a sharded model is compared in its first layers."""
        self.example, model = batch, self.model
        if self.parts_folder is not None:
            model = first_layers(self.config, self.parts_folder, seed=self.seed).to(self.processes.device)
        self.scorer = known_or_chosen(model, batch, self.precision if self.bf16 else None)
        if self.parts is not None:
            self.model.set_attn_implementation(model.config._attn_implementation)
            self.parts[0].scorer = self.scorer

    @property
    def scoring(self) -> str:
        """How attempts are scored, for logs."""
        compiled = isinstance(self.scorer, CompiledScorer)
        plain = self.scorer.scorer if isinstance(self.scorer, CompiledScorer) else self.scorer
        layout = "padded texts" if plain is padded_scores else "packed rows"
        precision = "bfloat16" if self.bf16 else "float32"
        return f"{layout} in {precision}, attention {self.model.config._attn_implementation}{', compiled layers' if compiled else ''}"

    def precision(self) -> AbstractContextManager[Any]:
        """Return the autocast context of the run; it caches no rounded weights where layers are recomputed, or all would stay in memory."""
        if not self.bf16:
            return nullcontext()
        kind = self.processes.device.type
        return torch.autocast(kind, torch.bfloat16, cache_enabled=not self.config.gradient_checkpointing)

    def start_training(self, folder: Path, *, keep_start: bool, tokens: float = 0) -> Progress:
        """Add the value head, place the policy on the processes, make the optimizer, and resume from a folder's checkpoint.

        ``keep_start``: later rounds are scored under the frozen start: keep a copy, or with adapters switch these off.
        ``tokens``: expected number of tokens of the run, on which ``model.compile: auto`` depends.
        """
        if keep_start and not self.config.lora_rank:
            self.frozen = self.frozen_start()
        if self.values:
            made = None if self.parts is None else self.parts[0].value_head
            self.value_head = made or value_head(self.model, self.processes.device)
        self.model.train()
        if self.compiles(tokens):
            self.scorer = compiled_or_plain(self.model, self.scorer, self.example, self.precision)
        self.placed = self.place()
        return restore_checkpoint(folder, self.placed, self.example)

    def frozen_start(self) -> Any:
        """Return a frozen copy of the start, sharded as the policy is."""
        if self.parts_folder is None:
            return start_copy(self.model, bf16=self.bf16)
        settings: Any = {"processes": self.processes, "seed": self.seed, "frozen": True}
        root, _ = loaded_by_parts(self.config, self.parts_folder, **settings)
        root.model.set_attn_implementation(self.model.config._attn_implementation)
        root.scorer = self.scorer
        return root.eval()

    def compiles(self, tokens: float) -> bool:
        """Return whether to compile the layers for a run over this number of tokens."""
        choice, sharded = self.config.compile, self.config.shard != "none" and self.processes.count > 1
        plain = not self.config.lora_dropout and self.config.quantize == "none"
        return plain and not sharded and (choice == "always" or (choice == "auto" and worth_compiling(self.model, tokens)))

    def place(self) -> Replicated:
        """Replicate or shard the policy over the processes, and make its optimizer."""
        model, modules = self.config, (self.model, self.value_head, self.scorer)
        settings: Any = {
            "processes": self.processes,
            "optim": self.optim,
            "value_lr": self.objective.value.lr,
            "bf16": self.bf16,
        }
        if model.shard == "none" or self.processes.count == 1:
            return Replicated(*modules, **settings)
        if model.shard == "fsdp2":
            return Fsdp2(*modules, **settings, parts=self.parts)
        return DeepSpeed(*modules, **settings, config=model.deepspeed, parts=self.parts)

    @property
    def placement(self) -> Replicated:
        """The policy on this process, with its optimizer; only after ``start_training``."""
        assert self.placed is not None
        return self.placed

    def sampling_copy(self, policy: Any) -> Any:
        """Return a copy of the policy to sample from: in the precision of the run, with the model's original attention."""
        copied = frozen_copy(policy, precision_of(self.config)).to(self.processes.device)
        copied.set_attn_implementation(self.attention)
        return copied

    def score(self, batch: PackedBatch, model: Any = None) -> TokenScores:
        """Score a batch under the policy, or under another model, in the run's precision."""
        with self.precision():
            if model is None or model is self.model:
                if self.placed is not None:
                    return self.placed.score(batch)
                model = self.model if self.parts is None else self.parts[0]
            return model.scores(batch) if isinstance(model, ScoringModule) else self.scorer(model, batch)

    def frozen_logps(self, batches: Sequence[PackedBatch]) -> ByAttempt:
        """Return the log-probabilities of attempts under the frozen start; before training rank 0 computes the scores
        of a model that is not sharded, and the others read them. Collective."""
        if self.placed is not None or self.parts is not None:
            return self.read(batches, frozen=True)[0]
        self.fingerprint = self.fingerprint or fingerprint(self.model, "bf16" if self.bf16 else "fp32")
        self.model.eval()
        with self.processes.accelerator.main_process_first():
            return reference_logps(batches, score=self.score, model_id=self.fingerprint)

    def read(self, batches: Sequence[PackedBatch], *, frozen: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return log-probabilities and values of attempts by content key, under the current policy or the frozen start. Collective."""
        model = self.frozen if frozen and self.frozen is not None else self.model
        own_batches = list(batches[self.processes.index :: self.processes.count])
        if self.needs_dummy(len(batches)):
            own_batches.append(batches[0])  # another process scores the same attempts
        model.eval()
        with adapters_off(model) if frozen and model is self.model else nullcontext():
            scores = read_attempts(own_batches, lambda batch: self.score(batch, model))
        self.model.train()
        gathered = self.processes.gather([scores])
        return {k: v for logps, _ in gathered for k, v in logps.items()}, {
            k: v for _, values in gathered for k, v in values.items()
        }

    def measure(self, batches: Sequence[PackedBatch]) -> dict[str, float]:
        """Return the metrics of held-out attempts (``monitor.held_out``). Collective."""
        self.model.eval()
        row = held_out(self.score, batches)
        self.model.train()
        return row

    def step(self, batches: Sequence[PackedBatch], frozen: FrozenScores, lr: float) -> dict[str, float]:
        """Do one optimizer step and return its metrics, over the attempts of all ranks. Collective."""
        started, placement, index = time.monotonic(), self.placement, self.processes.index
        if self.objective.needs_statistic and len(batches) > 1:
            statistic = statistic_of(batches, frozen, self.read(batches)[0], self.objective)
            frozen = replace(frozen, statistic=statistic.to(self.processes.device))
        dummy = self.needs_dummy(len(batches))
        left = len(batches[index :: self.processes.count]) + dummy

        def backward(loss: Tensor) -> None:
            nonlocal left
            left -= 1
            placement.backward(loss, last=left == 0)

        share = (index, self.processes.count)
        tally = sum_gradients(self.score, batches, self.objective, frozen=frozen, backward=backward, share=share)
        if dummy:
            backward(zero_loss(self.score(batches[0])))
        norm = placement.step(lr)
        self.memory.after_step()
        tally = merged(self.processes.gather([tally]))
        return {"lr": lr, **step_metrics(tally, grad_norm=norm, seconds=time.monotonic() - started)}

    def needs_dummy(self, batches: int) -> bool:
        """Return whether this rank has one micro-batch fewer than others and must run a dummy one to keep collectives in step."""
        lockstep = self.parts is not None or self.placement.lockstep
        return lockstep and self.processes.index >= batches % self.processes.count > 0

    def full_policy(self, *, everywhere: bool = False) -> Any:
        """Return the policy with all its weights, on rank 0 or everywhere, else None. Collective."""
        return self.placement.full_model(keep=everywhere or self.processes.is_main)

    def save(self, folder: Path) -> None:
        """Write the policy into a folder, and replace an existing one; a policy that was read by parts is written a file at a time. Collective."""
        main, placement = self.processes.is_main, self.placement
        if self.parts is None or self.config.lora_rank:
            policy = placement.full_model(keep=main, trained=True)
            if main:
                replace_folder(folder, lambda place: save_model(policy, self.codec, place))
            return
        weights = base_weights(self.model)
        write = partial(write_weights, self.parts[1], lambda name: placement.full(weights[name], keep=main))
        if main:
            replace_folder(folder, lambda place: save_model(self.parts and self.parts[1], self.codec, place, write=write))
        else:
            write(None)

    def save_checkpoint(self, folder: Path, progress: Progress) -> None:
        """Write a checkpoint. Collective."""
        save_checkpoint(folder, self.placement, progress, writes=self.processes.is_main)
