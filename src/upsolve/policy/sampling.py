"""Next-token sampling, and the state of the attempts in a batch.

Legend: B slots of the batch, one attempt each, V vocabulary, N most likely tokens in which the nucleus is searched.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch
from torch import Tensor

from upsolve.config import SampleConfig
from upsolve.policy.lookup import Lookup
from upsolve.policy.request import Request
from upsolve.policy.tokens import Codec
from upsolve.types import Attempt, Task

__all__ = ["DecodeState", "sample_tokens"]

NUCLEUS = 128
"""Number of most likely tokens in which the nucleus is searched."""
ROWS = 16
"""Slots whose next-token distributions are computed together on a CPU, so that they stay in its cache."""


def sample_tokens(logits_BV: Tensor, uniform_B: Tensor, *, temperature: float, top_p: float) -> Tensor:
    """Sample one token per slot from softmax(logits / temperature), truncated to the smallest set with mass >= top_p (1904.09751).

    For top_p < 1 the set is searched among the ``NUCLEUS`` most likely tokens. Temperature 0 takes the most likely token.

    Args:
        logits_BV: [B, V] float32.
        uniform_B: [B] float32, random numbers, uniform in [0, 1).
        temperature: sampling temperature, >= 0.
        top_p: smallest mass of the nucleus, in (0, 1].

    Returns:
        Token ids [B], int64.
    """
    if temperature == 0:
        return logits_BV.argmax(-1)
    if top_p >= 1:
        return inverse_cdf((logits_BV / temperature).softmax(-1), uniform_B)
    probabilities, index = (logits_BV / temperature).softmax(-1).topk(min(NUCLEUS, logits_BV.shape[-1]), dim=-1)
    before = running_sum(probabilities) - probabilities
    kept = probabilities.masked_fill(before >= top_p, 0)
    return index.gather(-1, inverse_cdf(kept, uniform_B)[:, None])[:, 0]


def running_sum(weights_BN: Tensor) -> Tensor:
    """Return cumulative sums [B, N], with deterministic mode off: PyTorch has no deterministic CUDA kernel for cumsum and would raise."""
    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode(0)
    try:
        return weights_BN.cumsum(-1)
    finally:
        torch.set_deterministic_debug_mode(before)


def inverse_cdf(weights_BN: Tensor, uniform_B: Tensor) -> Tensor:
    """Sample indices [B] with probabilities proportional to the weights, by the inverse CDF; torch.multinomial is 40 times slower on CPUs."""
    total = running_sum(weights_BN)
    return torch.searchsorted(total, uniform_B[:, None] * total[:, -1:], right=True)[:, 0].clamp(max=total.shape[-1] - 1)


@dataclass(slots=True)
class Slot:
    """An attempt being decoded."""

    task: Task
    noise: Random
    """Random number generator of this attempt."""
    ids: list[int] = field(default_factory=list[int])
    """Token ids sampled so far."""
    logps: list[float] = field(default_factory=list[float])
    """Log-probabilities of the sampled tokens, nats."""
    entropy: float = 0.0
    """Sum over tokens of the entropy of the next-token distribution, nats."""
    lookup: Lookup | None = None
    """Proposes the next tokens (``sample.lookup``)."""

    def add(self, token: int, logp: float, entropy: float) -> None:
        """Append a sampled token."""
        self.ids.append(token)
        self.logps.append(min(logp, 0.0))
        self.entropy += entropy
        if self.lookup:
            self.lookup.append(token)


class DecodeState:
    """The attempts being decoded, one per slot; a slot that is None is free."""

    def __init__(self, model: Any, codec: Codec, config: SampleConfig, slots: int) -> None:
        """Start with all slots free."""
        self.codec, self.config, self.author = codec, config, str(model.name_or_path)
        self.stops_V = torch.from_numpy(codec.stop_mask(model.config.get_text_config().vocab_size)).to(model.device)
        self.slots: list[Slot | None] = [None] * slots

    @property
    def busy(self) -> list[int]:
        """Indices of the slots in use."""
        return [index for index, slot in enumerate(self.slots) if slot is not None]

    @property
    def free_B(self) -> Tensor:  # noqa: N802  B is its axis
        """True where a slot is free, bool [B]."""
        return torch.tensor([slot is None for slot in self.slots], device=self.stops_V.device)

    def begin(self, index: int, request: Request, lookup: Lookup | None = None) -> None:
        """Start an attempt in a slot."""
        self.slots[index] = Slot(request.task, Random(request.seed), lookup=lookup)

    def drafts(self, most: int) -> list[list[int]]:
        """Return the tokens, at most ``most``, that are proposed for each slot."""
        return [slot.lookup.draft(most) if slot and slot.lookup else [] for slot in self.slots]

    def draw(self, logits_NV: Tensor, uniform_N: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return sampled tokens [N], and their log-probability and the entropy at temperature 1, nats, from float32 logits."""
        logp_NV = logits_NV.log_softmax(-1)
        entropy_N = -(logits_NV.softmax(-1) * logp_NV).sum(-1)
        tokens_N = sample_tokens(logits_NV, uniform_N, temperature=self.config.temperature, top_p=self.config.top_p)
        return tokens_N, logp_NV.gather(-1, tokens_N[:, None])[:, 0], entropy_N

    def take(
        self, scores_KV: Tensor, logits: Callable[[Tensor], Tensor] = Tensor.float, chosen: Sequence[int] | None = None
    ) -> tuple[Tensor, list[Attempt]]:
        """Sample a token for each of K slots; return the tokens [K] and the attempts that ended, whose slots become free.

        Args:
            scores_KV: their next-token scores.
            logits: returns the float32 logits [N, V] of some rows of ``scores_KV``.
            chosen: indices of the slots; None: all.
        """
        indices = range(len(self.slots)) if chosen is None else chosen
        slots = [self.slots[index] for index in indices]
        noise = [0.0 if slot is None else slot.noise.getrandbits(24) / 2**24 for slot in slots]  # float32 holds 24 bits
        uniform_K = torch.tensor(noise, device=scores_KV.device)
        rows = ROWS if scores_KV.device.type == "cpu" else len(noise)
        parts = zip(scores_KV.split(rows), uniform_K.split(rows), strict=True)
        drawn = [self.draw(logits(scores_NV), uniform_N) for scores_NV, uniform_N in parts]
        tokens_K, logp_K, entropy_K = (torch.cat(column) for column in zip(*drawn, strict=True))
        columns = (tokens_K, logp_K, entropy_K, self.stops_V[tokens_K])
        ended: list[Attempt] = []
        for index, slot, token, logp, entropy, stops in zip(indices, slots, *(c.tolist() for c in columns), strict=True):
            if slot is None:
                continue
            slot.add(token, logp, entropy)
            if stops or len(slot.ids) >= self.config.max_tokens:
                ended.append(self.finish(slot, truncated=not stops))
                self.slots[index] = None
        return tokens_K, ended

    def finish(self, slot: Slot, *, truncated: bool) -> Attempt:
        """Return the attempt of a slot."""
        code, answer = self.codec.code_and_answer(slot.ids, slot.task.language)
        return Attempt(
            task_id=slot.task.task_id,
            code=code,
            answer=answer,
            language=slot.task.language or "python",
            author=self.author,
            behavior_logp=sum(slot.logps),
            tokens=len(slot.ids),
            entropy=max(slot.entropy / len(slot.ids), 0.0),
            truncated=truncated,
            token_ids=tuple(slot.ids),
            token_logps=tuple(slot.logps),
        )
