"""Next-token sampling, and the state of the attempts in a batch.

Legend: B slots of the batch, one attempt each, V vocabulary, N most likely tokens in which the nucleus is searched.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from upsolve.config import SampleConfig
from upsolve.policy.lookup import Lookup
from upsolve.policy.request import Part, Request
from upsolve.policy.tokens import Codec
from upsolve.types import Attempt

__all__ = ["DecodeState", "inverse_cdf", "sample_tokens"]

NUCLEUS = 128
"""Number of most likely tokens in which the nucleus is searched."""
BLOCK = 256
"""Indices of a block in the search of an inverse CDF."""
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
    return sample_truncated((logits_BV / temperature).softmax(-1), uniform_B, top_p)


def sample_truncated(probabilities_BV: Tensor, uniform_B: Tensor, top_p: float) -> Tensor:
    """Sample one token id per slot [B] from probabilities that are truncated to their nucleus."""
    if top_p >= 1:
        return inverse_cdf(probabilities_BV, uniform_B)
    likely, index = probabilities_BV.topk(min(NUCLEUS, probabilities_BV.shape[-1]), dim=-1)
    kept = likely.masked_fill(running_sum(likely) - likely >= top_p, 0)
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
    """Sample indices [B] with probabilities proportional to the weights, by the inverse CDF; torch.multinomial is 40 times slower on CPUs.

    The block of the index is searched first, and then the index in its block, because a running sum of all weights is the slowest part of a draw.
    """
    padded_BN = functional.pad(weights_BN, (0, -weights_BN.shape[-1] % BLOCK))
    blocks_BKN = padded_BN.unflatten(-1, (-1, BLOCK))
    sums_BK = running_sum(blocks_BKN.sum(-1))
    target_B1 = uniform_B[:, None] * sums_BK[:, -1:]
    block_B1 = first_above(sums_BK, target_B1)
    before_B1 = functional.pad(sums_BK, (1, 0)).gather(-1, block_B1)
    inside_BN = running_sum(blocks_BKN.take_along_dim(block_B1[:, :, None], 1)[:, 0])
    return (block_B1 * BLOCK + first_above(inside_BN, target_B1 - before_B1))[:, 0]


def first_above(sums_BN: Tensor, target_B1: Tensor) -> Tensor:
    """Return the index [B, 1] of the first running sum above the target; the last index that adds to the sum if rounding leaves none."""
    below = torch.nextafter(sums_BN[:, -1:], sums_BN.new_zeros(1))
    found_B1 = torch.searchsorted(sums_BN, torch.minimum(target_B1, below), right=True)
    return found_B1.clamp(max=sums_BN.shape[-1] - 1)  # sums that are not numbers


@dataclass(slots=True)
class Slot:
    """An attempt being decoded."""

    request: Request
    """The request for it."""
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
        self.slots[index] = Slot(request, Random(request.seed), lookup=lookup)

    def drafts(self, most: int) -> list[list[int]]:
        """Return the tokens, at most ``most``, that are proposed for each slot."""
        return [slot.lookup.draft(most) if slot and slot.lookup else [] for slot in self.slots]

    def draw(self, logits_NV: Tensor, uniform_N: Tensor, at: Sequence[float]) -> tuple[Tensor, Tensor, Tensor]:
        """Return tokens [N], sampled at one temperature each (``at``), their log-probability and the entropy at temperature 1, nats."""
        p_NV, most_N = logits_NV.softmax(-1), logits_NV.amax(-1)
        most_logp_N = p_NV.amax(-1).log()
        entropy_N = most_N - torch.linalg.vecdot(p_NV, logits_NV) - most_logp_N
        if len(temperatures := set(at)) == 1:
            tokens_N = self.tokens_at(at[0], logits_NV, p_NV, uniform_N)
        else:
            tokens_N = torch.empty(len(at), dtype=torch.long, device=logits_NV.device)
            for temperature in temperatures:
                rows = torch.tensor([row for row, other in enumerate(at) if other == temperature], device=logits_NV.device)
                tokens_N[rows] = self.tokens_at(temperature, logits_NV[rows], p_NV[rows], uniform_N[rows])
        return tokens_N, logits_NV.gather(-1, tokens_N[:, None])[:, 0] - most_N + most_logp_N, entropy_N

    def tokens_at(self, temperature: float, logits_NV: Tensor, p_NV: Tensor, uniform_N: Tensor) -> Tensor:
        """Return tokens [N] sampled at a temperature; ``p_NV``: softmax of the logits, which is not computed again at temperature 1."""
        if temperature == 1:
            return sample_truncated(p_NV, uniform_N, self.config.top_p)
        return sample_tokens(logits_NV, uniform_N, temperature=temperature, top_p=self.config.top_p)

    def take(
        self, scores_KV: Tensor, logits: Callable[[Tensor], Tensor] = Tensor.float, chosen: Sequence[int] | None = None
    ) -> tuple[Tensor, list[Part]]:
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
        some = next((slot.request.temperature for slot in slots if slot), 0.0)  # of free slots, too
        at = [slot.request.temperature if slot else some for slot in slots]
        rows = ROWS if scores_KV.device.type == "cpu" else len(noise)
        parts = zip(range(0, len(at), rows), scores_KV.split(rows), uniform_K.split(rows), strict=True)
        drawn = [self.draw(logits(scores_NV), uniform_N, at[row : row + rows]) for row, scores_NV, uniform_N in parts]
        tokens_K, logp_K, entropy_K = (torch.cat(column) for column in zip(*drawn, strict=True))
        columns = (tokens_K, logp_K, entropy_K, self.stops_V[tokens_K])
        ended: list[Part] = []
        for index, slot, token, logp, entropy, stops in zip(indices, slots, *(c.tolist() for c in columns), strict=True):
            if slot is None:
                continue
            slot.add(token, logp, entropy)
            if stops or len(slot.ids) >= self.config.max_tokens:
                ended.append((slot.request.part, self.finish(slot, truncated=not stops)))
                self.slots[index] = None
        return tokens_K, ended

    def finish(self, slot: Slot, *, truncated: bool) -> Attempt:
        """Return the attempt of a slot."""
        task = slot.request.task
        code, answer = self.codec.code_and_answer(slot.ids, task.language)
        return Attempt(
            task_id=task.task_id,
            code=code,
            answer=answer,
            language=task.language or "python",
            author=self.author,
            behavior_logp=sum(slot.logps),
            tokens=len(slot.ids),
            entropy=max(slot.entropy / len(slot.ids), 0.0),
            truncated=truncated,
            token_ids=tuple(slot.ids),
            token_logps=tuple(slot.logps),
        )
