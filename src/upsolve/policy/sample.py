"""Sample attempts from a policy.

Legend: B lanes, V vocabulary, N most likely tokens kept for the nucleus.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch
from torch import Tensor

from upsolve.config import SampleConfig
from upsolve.policy.attention import keep_memory
from upsolve.policy.lanes import ATTENTION, LaneCache, decode_step, prefill
from upsolve.policy.request import Request, requests
from upsolve.policy.tokens import Codec, EncodedPrompt
from upsolve.types import Attempt, Task

__all__ = ["draw", "sample"]

NUCLEUS = 128


def draw(logits_BV: Tensor, uniform_B: Tensor, *, temperature: float, top_p: float) -> Tensor:
    """Draw one token a row: softmax(logits / temperature) cut to the smallest set with mass >= top_p (1904.09751).

    The set is looked for among the 128 most likely tokens. Temperature 0 takes the most likely token.

    Args:
        logits_BV: [B, V] float32.
        uniform_B: [B] float32, the noise: uniform in [0, 1).
        temperature: >= 0.
        top_p: (0, 1].

    Returns:
        Token ids [B], int64.
    """
    if temperature == 0:
        return logits_BV.argmax(-1)
    if top_p >= 1:
        return invert((logits_BV / temperature).softmax(-1), uniform_B)
    probabilities, index = (logits_BV / temperature).softmax(-1).topk(min(NUCLEUS, logits_BV.shape[-1]), dim=-1)
    before = probabilities.cumsum(-1) - probabilities
    kept = probabilities.masked_fill(before >= top_p, 0)
    return index.gather(-1, invert(kept, uniform_B)[:, None])[:, 0]


def invert(weights_BN: Tensor, uniform_B: Tensor) -> Tensor:
    """Draw an index a row, as likely as its weight: invert the cumulative sum. torch.multinomial takes 40 times as long here."""
    total = weights_BN.cumsum(-1)
    return torch.searchsorted(total, uniform_B[:, None] * total[:, -1:], right=True)[:, 0].clamp(max=total.shape[-1] - 1)


@dataclass(slots=True)
class Lane:
    """An attempt being decoded."""

    task: Task
    noise: Random
    ids: list[int] = field(default_factory=list[int])
    logp: float = 0.0
    entropy: float = 0.0


class Decoder:
    """The state of one call of ``sample``."""

    def __init__(self, model: Any, codec: Codec, config: SampleConfig) -> None:
        self.model, self.codec, self.config = model, codec, config
        self.stop = torch.from_numpy(codec.stop_mask(model.config.vocab_size)).to(model.device)
        self.lanes: list[Lane | None] = []

    def start(self, lanes: int) -> None:
        """Allocate the lanes."""
        self.lanes = [None] * lanes
        self.cache = LaneCache(self.model, lanes)
        self.tokens_B = torch.zeros(lanes, dtype=torch.long, device=self.model.device)

    def refill(self, jobs: Iterator[tuple[Request, EncodedPrompt, list[Any]]]) -> None:
        """Give every free lane the next attempt; drop lanes once the work runs out and half of them are idle."""
        for index, lane in enumerate(self.lanes):
            if lane is None and (job := next(jobs, None)) is not None:
                request, prompt, read = job
                if not read:
                    read.extend(prefill(self.model, self.cache, prompt.ids_P))
                self.cache.fill(index, read)
                self.tokens_B[index] = prompt.ids_P[-1]
                self.lanes[index] = Lane(request.task, Random(request.seed))
        busy = [index for index, lane in enumerate(self.lanes) if lane is not None]
        if busy and len(busy) * 2 <= len(self.lanes):
            self.cache.keep(busy)
            self.tokens_B = self.tokens_B[torch.tensor(busy, device=self.tokens_B.device)]
            self.lanes = [self.lanes[index] for index in busy]

    def step(self) -> list[Attempt]:
        """Decode one token a lane and return the attempts that ended."""
        idle = torch.tensor([lane is None for lane in self.lanes], device=self.tokens_B.device)
        self.cache.length_B.masked_fill_(idle, 0)  # idle lanes run on the spot
        logits = decode_step(self.model, self.cache, self.tokens_B)
        noise = [0.0 if lane is None else lane.noise.getrandbits(24) / 2**24 for lane in self.lanes]  # float32 holds 24 bits
        uniform = torch.tensor(noise, device=logits.device)
        tokens = draw(logits, uniform, temperature=self.config.temperature, top_p=self.config.top_p)
        logp = logits.log_softmax(-1)
        entropy = torch.einsum("bv,bv->b", logits.softmax(-1), logp).neg().tolist()
        chosen = logp.gather(-1, tokens[:, None])[:, 0].tolist()
        self.tokens_B = tokens
        ended: list[Attempt] = []
        for index, (token, stops) in enumerate(zip(tokens.tolist(), self.stop[tokens].tolist(), strict=True)):
            lane = self.lanes[index]
            if lane is None:
                continue
            lane.ids.append(token)
            lane.logp += chosen[index]
            lane.entropy += entropy[index]
            if stops or len(lane.ids) >= self.config.max_tokens:
                ended.append(self.finish(lane, truncated=not stops))
                self.lanes[index] = None
        return ended

    def finish(self, lane: Lane, *, truncated: bool) -> Attempt:
        """Turn a lane into an attempt."""
        return Attempt(
            task_id=lane.task.task_id,
            code=self.codec.decode(lane.ids),
            language=lane.task.language or "python",
            author=str(self.model.name_or_path),
            behavior_logp=min(lane.logp, 0.0),
            tokens=len(lane.ids),
            entropy=max(lane.entropy / len(lane.ids), 0.0),
            truncated=truncated,
            token_ids=tuple(lane.ids),
        )


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

    ``behavior_logp`` and ``entropy`` are those of the untempered distribution. The noise of an attempt is its own
    (``upsolve.policy.request``), so up to rounding it does not matter what else is sampled; same model, tasks, config and thread
    count give the same attempts.

    Args:
        model: a causal language model of transformers, in the dtype to sample in.
        codec: its tokenizer.
        tasks: what to try.
        config: number, temperature, nucleus, length limit, seed and lanes.
        author: who the attempts are by; empty means the model's own name.
        on_done: called with the number of attempts ended so far.
    """
    keep_memory()
    jobs = job_stream(codec, tasks, config)
    decoder = Decoder(model, codec, config)
    before = model.config._attn_implementation
    model.set_attn_implementation(ATTENTION)
    model.eval()
    try:
        decoder.start(min(config.batch, len(tasks) * config.samples))
        decoder.refill(jobs)
        done = 0
        while any(lane is not None for lane in decoder.lanes):
            for attempt in decoder.step():
                done += 1
                yield attempt if not author else named(attempt, author)
            if on_done:
                on_done(done)
            decoder.refill(jobs)
    finally:
        model.set_attn_implementation(before)


def named(attempt: Attempt, author: str) -> Attempt:
    """Return the attempt under another author's name."""
    from dataclasses import replace

    return replace(attempt, author=author)


def job_stream(codec: Codec, tasks: Sequence[Task], config: SampleConfig) -> Iterator[tuple[Request, EncodedPrompt, list[Any]]]:
    """Yield every attempt wanted, the attempts of a task together; the list is where its read prompt is kept."""
    for task in tasks:
        prompt, read = codec.prompt(task), list[Any]()
        for request in requests([task], config):
            yield request, prompt, read
