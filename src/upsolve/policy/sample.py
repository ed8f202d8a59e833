"""Sample attempts from a policy: by batched decoding or, for models it does not support, by transformers' own ``generate``."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from upsolve.config import SampleConfig
from upsolve.policy.batched_decode import ATTENTION, BatchedCache, PromptKV, check_batched_decode, decode_step, prefill
from upsolve.policy.generate import generate_attempts
from upsolve.policy.request import Request, requests
from upsolve.policy.sampling import DecodeState
from upsolve.policy.tokens import Codec, EncodedPrompt
from upsolve.types import Attempt, Task

__all__ = ["sample"]

Job = tuple[Request, EncodedPrompt, PromptKV]
"""A request, its prompt, and the prompt's keys and values, filled in when the first attempt at the task starts."""


@torch.inference_mode()
def sample(
    model: Any,
    codec: Codec,
    tasks: Sequence[Task],
    *,
    config: SampleConfig,
    author: str = "",
    on_done: Callable[[int], None] | None = None,
) -> Iterator[Attempt]:
    """Yield ``config.samples`` attempts a task, in the order in which they end.

    ``token_logps`` and ``entropy`` are those of the untempered distribution. Each attempt has its own random numbers
    (``upsolve.policy.request``), so up to rounding it does not depend on the rest of the batch; the same model, tasks, config and
    thread count give the same attempts. Batched decoding is first compared with the model's own forward pass; if they differ, a warning
    says so and ``generate`` samples.

    Args:
        model: a causal language model of transformers, in the dtype to sample in.
        codec: its tokenizer.
        tasks: to be sampled at.
        config: number, temperature, nucleus, length limit, seed and batch size.
        author: who the attempts are by; empty means the model's own name.
        on_done: called with the number of attempts ended so far.
    """
    if not tasks:
        return
    model.eval()
    if problem := check_batched_decode(model, codec.prompt(tasks[0]).ids_P):
        warnings.warn(
            f"batched decoding does not work with this model ({problem}): sampling by its own generate, slower", stacklevel=2
        )
    decode, done = generate_attempts if problem else decode_batched, 0
    for ended in decode(model, codec, tasks, config):
        for attempt in ended:
            done += 1
            yield replace(attempt, author=author) if author else attempt
        if on_done:
            on_done(done)


def decode_batched(model: Any, codec: Codec, tasks: Sequence[Task], config: SampleConfig) -> Iterator[list[Attempt]]:
    """Yield the attempts that ended at each decoding step; the model's attention is replaced meanwhile."""
    before, jobs = model.config._attn_implementation, make_jobs(codec, tasks, config)
    decoder = Decoder(model, codec, config, slots=min(config.batch, len(tasks) * config.samples))
    model.set_attn_implementation(ATTENTION)
    try:
        decoder.refill(jobs)
        while decoder.state.busy:
            yield decoder.step()
            decoder.refill(jobs)
    finally:
        model.set_attn_implementation(before)


def make_jobs(codec: Codec, tasks: Sequence[Task], config: SampleConfig) -> Iterator[Job]:
    """Yield one job per attempt, those at a task together."""
    for task in tasks:
        prompt, prefilled = codec.prompt(task), PromptKV()
        for request in requests([task], config):
            yield request, prompt, prefilled


class Decoder:
    """The batch of one call: cache, state and current token of each slot."""

    def __init__(self, model: Any, codec: Codec, config: SampleConfig, *, slots: int) -> None:
        self.model, self.state = model, DecodeState(model, codec, config, slots)
        self.cache = BatchedCache(slots, model.device)
        self.tokens_B = torch.zeros(slots, dtype=torch.long, device=model.device)

    def refill(self, jobs: Iterator[Job]) -> None:
        """Start the next attempts in the free slots; without any left, drop the free slots once they are half of all."""
        for index, slot in enumerate(self.state.slots):
            if slot is None and (job := next(jobs, None)) is not None:
                request, prompt, prefilled = job
                if not prefilled:
                    prefilled.update(prefill(self.model, self.cache, prompt.ids_P))
                self.cache.fill(index, prefilled)
                self.tokens_B[index] = prompt.ids_P[-1]
                self.state.begin(index, request)
        busy = self.state.busy
        if busy and len(busy) * 2 <= len(self.state.slots):
            self.cache.keep(busy)
            self.tokens_B = self.tokens_B[torch.tensor(busy, device=self.tokens_B.device)]
            self.state.slots = [self.state.slots[index] for index in busy]

    def step(self) -> list[Attempt]:
        """Decode one token per slot and return the attempts that ended."""
        self.cache.length_B.masked_fill_(self.state.free_B, 0)  # free slots overwrite their first token
        self.tokens_B, ended = self.state.take(decode_step(self.model, self.cache, self.tokens_B))
        return ended
