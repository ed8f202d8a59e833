"""Sample attempts from a policy: in lanes, or, with a model that cannot, by transformers' own ``generate``."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from upsolve.config import SampleConfig
from upsolve.policy.attention import keep_memory
from upsolve.policy.batched_decode import ATTENTION, LaneCache, Read, decode_step, prefill, problem_of
from upsolve.policy.generate import generated
from upsolve.policy.request import Request, requests
from upsolve.policy.sampling import Draws
from upsolve.policy.tokens import Codec, EncodedPrompt
from upsolve.types import Attempt, Task

__all__ = ["sample"]

Job = tuple[Request, EncodedPrompt, Read]
"""An attempt wanted, its prompt, and where that is kept once it is read."""


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

    ``token_logps`` and ``entropy`` are those of the untempered distribution. The noise of an attempt is its own
    (``upsolve.policy.request``), so up to rounding it does not matter what else is sampled; same model, tasks, config and thread
    count give the same attempts. Whether lanes give what the model gives is tried first; where they do not, there is a warning.

    Args:
        model: a causal language model of transformers, in the dtype to sample in.
        codec: its tokenizer.
        tasks: what to try.
        config: number, temperature, nucleus, length limit, seed and lanes.
        author: who the attempts are by; empty means the model's own name.
        on_done: called with the number of attempts ended so far.
    """
    if not tasks:
        return
    keep_memory()
    model.eval()
    if problem := problem_of(model, codec.prompt(tasks[0]).ids_P):
        warnings.warn(f"lanes do not work with this model ({problem}): sampling by its own generate, slower", stacklevel=2)
    way, done = generated if problem else in_lanes, 0
    for ended in way(model, codec, tasks, config):
        for attempt in ended:
            done += 1
            yield replace(attempt, author=author) if author else attempt
        if on_done:
            on_done(done)


def in_lanes(model: Any, codec: Codec, tasks: Sequence[Task], config: SampleConfig) -> Iterator[list[Attempt]]:
    """Yield the attempts that ended, token by token; the model has the attention of lanes meanwhile."""
    before, jobs = model.config._attn_implementation, jobs_of(codec, tasks, config)
    decoder = Decoder(model, codec, config, lanes=min(config.batch, len(tasks) * config.samples))
    model.set_attn_implementation(ATTENTION)
    try:
        decoder.refill(jobs)
        while decoder.draws.busy:
            yield decoder.step()
            decoder.refill(jobs)
    finally:
        model.set_attn_implementation(before)


def jobs_of(codec: Codec, tasks: Sequence[Task], config: SampleConfig) -> Iterator[Job]:
    """Yield every attempt wanted, those of a task together."""
    for task in tasks:
        prompt, read = codec.prompt(task), Read()
        for request in requests([task], config):
            yield request, prompt, read


class Decoder:
    """The lanes of one call."""

    def __init__(self, model: Any, codec: Codec, config: SampleConfig, *, lanes: int) -> None:
        self.model, self.draws = model, Draws(model, codec, config, lanes)
        self.cache = LaneCache(lanes, model.device)
        self.tokens_B = torch.zeros(lanes, dtype=torch.long, device=model.device)

    def refill(self, jobs: Iterator[Job]) -> None:
        """Give every free lane the next attempt; drop lanes once the work runs out and half of them are idle."""
        for index, row in enumerate(self.draws.rows):
            if row is None and (job := next(jobs, None)) is not None:
                request, prompt, read = job
                if not read:
                    read.update(prefill(self.model, self.cache, prompt.ids_P))
                self.cache.fill(index, read)
                self.tokens_B[index] = prompt.ids_P[-1]
                self.draws.begin(index, request)
        busy = self.draws.busy
        if busy and len(busy) * 2 <= len(self.draws.rows):
            self.cache.keep(busy)
            self.tokens_B = self.tokens_B[torch.tensor(busy, device=self.tokens_B.device)]
            self.draws.rows = [self.draws.rows[index] for index in busy]

    def step(self) -> list[Attempt]:
        """Decode one token a lane and return the attempts that ended."""
        self.cache.length_B.masked_fill_(self.draws.free_B, 0)  # idle lanes run on the spot
        self.tokens_B, ended = self.draws.take(decode_step(self.model, self.cache, self.tokens_B))
        return ended
