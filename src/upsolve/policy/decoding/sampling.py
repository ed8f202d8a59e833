"""Next-token sampling, and the state of the attempts in a batch.

Legend: B next-token distributions, one for each slot, V vocabulary, M tokens to draw from them, N most likely tokens in which the nucleus is searched.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from upsolve.config import SampleConfig
from upsolve.policy.request import Part, Request
from upsolve.policy.tokens import Codec
from upsolve.types import Attempt

__all__ = ["DecodeState", "Lookup", "inverse_cdf", "sample_tokens"]

SIZES = (3, 2)
"""Lengths of the token sequences that prompt lookup searches, the longest first."""


class Lookup:
    """Tokens proposed by looking up what followed the last tokens before: prompt lookup decoding (2304.04487).

    A program that corrects another one repeats most of it. The policy scores the proposed tokens in one forward pass; they are kept as long
    as they equal the tokens that are sampled with the attempt's own random numbers. Proposals change the time, and nothing else.
    """

    def __init__(self, prompt: Sequence[int]) -> None:
        self.ids: list[int] = []
        self.after: dict[tuple[int, ...], int] = {}
        """Place of the token that last followed some tokens."""
        for token in prompt:
            self.append(token)

    def append(self, token: int) -> None:
        """Append a token."""
        for size in SIZES:
            self.after[tuple(self.ids[-size:])] = len(self.ids)
        self.ids.append(token)

    def draft(self, most: int) -> list[int]:
        """Return at most ``most`` tokens that followed an earlier occurrence of the last tokens; none if there is no earlier occurrence."""
        places = (self.after.get(tuple(self.ids[-size:])) for size in SIZES)
        place = next((place for place in places if place is not None), len(self.ids))
        return self.ids[place : place + most]


NUCLEUS = 128
"""Number of most likely tokens in which the nucleus is searched."""
BLOCK = 256
"""Number of indices in a block of the inverse-CDF search."""
ROWS = 16
"""Slots whose next-token distributions are computed together on a CPU, so that they stay in its cache."""


def sample_tokens(
    logits_BV: Tensor, uniform_M: Tensor, *, temperature: float, top_p: float, row_M: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Sample tokens [M], and their log-probabilities in the distribution that was sampled, nats: 0 at temperature 0.

    The distribution is softmax(logits / temperature), truncated to the smallest set with mass >= top_p (1904.09751), which is searched among the
    ``NUCLEUS`` most likely tokens. Temperature 0 takes the most likely token. ``row_M``: row of the logits for each token; None: token i uses row i.
    """
    if temperature == 0:
        likeliest_B = logits_BV.argmax(-1)
        tokens_M = likeliest_B if row_M is None else likeliest_B[row_M]
        return tokens_M, logits_BV.new_zeros(len(tokens_M))
    return sample_truncated((logits_BV / temperature).softmax(-1), uniform_M, top_p, row_M)


def sample_truncated(
    probabilities_BV: Tensor, uniform_M: Tensor, top_p: float, row_M: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Sample token ids [M] from probabilities truncated to their nucleus; also return their log-probabilities in it [M], as ``sample_tokens`` does."""
    rows_M = torch.arange(len(probabilities_BV), device=probabilities_BV.device) if row_M is None else row_M
    if top_p >= 1:
        tokens_M = inverse_cdf(probabilities_BV, uniform_M, rows_M)
        return tokens_M, probabilities_BV[rows_M, tokens_M].log()
    likely_BN, index_BN = probabilities_BV.topk(min(NUCLEUS, probabilities_BV.shape[-1]), dim=-1)
    nucleus_BN = likely_BN.masked_fill(running_sum(likely_BN) - likely_BN >= top_p, 0)
    place_M = inverse_cdf(nucleus_BN, uniform_M, rows_M)
    return index_BN[rows_M, place_M], nucleus_BN[rows_M, place_M].log() - nucleus_BN.sum(-1)[rows_M].log()


def running_sum(weights_BN: Tensor) -> Tensor:
    """Return cumulative sums [B, N], with deterministic mode off: PyTorch has no deterministic CUDA kernel for cumsum and would raise."""
    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode(0)
    try:
        return weights_BN.cumsum(-1)
    finally:
        torch.set_deterministic_debug_mode(before)


def inverse_cdf(weights_BN: Tensor, uniform_M: Tensor, row_M: Tensor | None = None) -> Tensor:
    """Sample indices [M] with probabilities proportional to the weights, by the inverse CDF; torch.multinomial is 40 times
    slower on CPUs.

    The index's block is searched first, then the index in it, because a running sum of all weights is the slowest part of a draw.
    """
    rows_M = torch.arange(len(weights_BN), device=weights_BN.device) if row_M is None else row_M
    missing = -weights_BN.shape[-1] % BLOCK
    padded_BN = functional.pad(weights_BN, (0, missing)) if missing else weights_BN
    blocks_BKN = padded_BN.unflatten(-1, (-1, BLOCK))
    sums_MK = running_sum(blocks_BKN.sum(-1))[rows_M]
    target_M1 = uniform_M[:, None] * sums_MK[:, -1:]
    block_M1 = first_above(sums_MK, target_M1)
    before_M1 = functional.pad(sums_MK, (1, 0)).gather(-1, block_M1)
    inside_MN = running_sum(blocks_BKN[rows_M, block_M1[:, 0]])
    return (block_M1 * BLOCK + first_above(inside_MN, target_M1 - before_M1))[:, 0]


def first_above(sums_BN: Tensor, target_B1: Tensor) -> Tensor:
    """Return the index [B, 1] of the first running sum above the target; if rounding leaves none, the last index with a positive weight."""
    below = torch.nextafter(sums_BN[:, -1:], sums_BN.new_zeros(1))
    found_B1 = torch.searchsorted(sums_BN, torch.minimum(target_B1, below), right=True)
    return found_B1.clamp(max=sums_BN.shape[-1] - 1)  # sums that are not numbers


@dataclass(slots=True)
class Sampling:
    """An attempt being sampled."""

    request: Request
    """The request for it."""
    noise: Random
    """Random number generator of this attempt."""
    ids: list[int] = field(default_factory=list[int])
    """Token ids sampled so far."""
    logps: list[float] = field(default_factory=list[float])
    """Log-probabilities of the sampled tokens in the distribution that was sampled, nats."""
    own_logp: float = 0.0
    """Sum of their log-probabilities at temperature 1, without a nucleus, nats."""
    entropy: float = 0.0
    """Sum over tokens of the entropy of the next-token distribution, nats."""
    lookup: Lookup | None = None
    """Proposes the next tokens (``sample.lookup``)."""

    def add(self, token: int, logp: float, own_logp: float, entropy: float) -> None:
        """Append a sampled token."""
        self.ids.append(token)
        self.logps.append(min(logp, 0.0))
        self.own_logp += min(own_logp, 0.0)
        self.entropy += entropy
        if self.lookup:
            self.lookup.append(token)


@dataclass(slots=True)
class Taken:
    """Results of sampling one token for each attempt."""

    tokens: dict[int, int] = field(default_factory=dict[int, int])
    """The next token of each slot that continues."""
    forks: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Slots whose attempts have diverged, each with the slot in which the attempts with another token continue."""
    ended: list[Part] = field(default_factory=list[Part])
    """Attempts that ended."""


class DecodeState:
    """The attempts of each slot. Attempts that are equal so far share a slot, so that their next-token distribution is computed once."""

    def __init__(self, model: Any, codec: Codec, config: SampleConfig, slots: int) -> None:
        """Start with all slots free."""
        self.codec, self.config, self.author = codec, config, str(model.name_or_path)
        self.stops: list[bool] = codec.stop_mask(model.config.get_text_config().vocab_size).tolist()
        """Whether each token ends an attempt, V."""
        self.slots: list[list[Sampling]] = [[] for _ in range(slots)]

    @property
    def busy(self) -> list[int]:
        """Indices of the slots in use."""
        return [index for index, attempts in enumerate(self.slots) if attempts]

    def free(self) -> int:
        """Return the index of a free slot, or of a new slot after the last."""
        index = next((index for index, attempts in enumerate(self.slots) if not attempts), len(self.slots))
        self.slots[index : index + 1] = [[]]
        return index

    def begin(self, index: int, request: Request, lookup: Lookup | None = None) -> None:
        """Start an attempt in a slot."""
        self.slots[index].append(Sampling(request, Random(request.seed), lookup=lookup))

    def drafts(self, most: int) -> list[list[int]]:
        """Return the tokens, at most ``most``, that are proposed for each slot."""
        first = (attempts[0].lookup if attempts else None for attempts in self.slots)
        return [lookup.draft(most) if lookup else [] for lookup in first]

    def draw(
        self, logits_BV: Tensor, rows: Sequence[int], uniform_M: Tensor, at: Sequence[float]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Sample tokens [M] and their log-probabilities as sampled, and their log-probabilities and the entropy at temperature
        1, nats."""
        p_BV, most_B, row_M = logits_BV.softmax(-1), logits_BV.amax(-1), torch.tensor(rows, device=logits_BV.device)
        most_logp_B = p_BV.amax(-1).log()
        entropy_B = most_B - torch.linalg.vecdot(p_BV, logits_BV) - most_logp_B
        tokens_M, logp_M = torch.empty_like(row_M), torch.empty_like(uniform_M)
        for temperature in set(at):
            chosen = [place for place, other in enumerate(at) if other == temperature]
            some = [rows[place] for place in chosen]
            drawn = self.tokens_at(logits_BV, some, uniform_M[chosen], temperature=temperature, p_BV=p_BV)
            tokens_M[chosen], logp_M[chosen] = drawn
        return tokens_M, logp_M, logits_BV[row_M, tokens_M] + (most_logp_B - most_B)[row_M], entropy_B[row_M]

    def tokens_at(
        self, logits_BV: Tensor, rows: Sequence[int], uniform_M: Tensor, *, temperature: float, p_BV: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return tokens sampled at a temperature, and their log-probabilities in that distribution; ``p_BV``: softmax of the logits."""
        if temperature == 1:
            return sample_truncated(p_BV, uniform_M, self.config.top_p, torch.tensor(rows, device=p_BV.device))
        used = sorted({*rows})
        if len(used) < len(logits_BV):
            logits_BV, rows = logits_BV[used], [used.index(row) for row in rows]
        row_M = torch.tensor(rows, device=logits_BV.device)
        return sample_tokens(logits_BV, uniform_M, temperature=temperature, top_p=self.config.top_p, row_M=row_M)

    def take(
        self, scores_BV: Tensor, logits: Callable[[Tensor], Tensor] = Tensor.float, chosen: Sequence[int] | None = None
    ) -> Taken:
        """Sample a token for each attempt of the chosen slots (None: all) from their scores; ``logits``: scores of rows ->
        float32 logits."""
        indices, taken = range(len(self.slots)) if chosen is None else chosen, Taken()
        rows = ROWS if scores_BV.device.type == "cpu" else len(indices)
        for first in range(0, len(indices), rows):
            some = indices[first : first + rows]
            if attempts := [(row, attempt) for row, index in enumerate(some) for attempt in self.slots[index]]:
                self.add_tokens(logits(scores_BV[first : first + rows]), attempts)
        for index in [index for index in indices if self.slots[index]]:
            self.part(index, taken)
        return taken

    def add_tokens(self, logits_BV: Tensor, attempts: Sequence[tuple[int, Sampling]]) -> None:
        """Sample a token for each attempt from its row of the logits."""
        noise = [attempt.noise.getrandbits(24) / 2**24 for _, attempt in attempts]  # float32 holds 24 bits
        at = [attempt.request.temperature for _, attempt in attempts]
        drawn = self.draw(logits_BV, [row for row, _ in attempts], torch.tensor(noise, device=logits_BV.device), at)
        for (_, attempt), *of_token in zip(attempts, *(column.tolist() for column in drawn), strict=True):
            attempt.add(*of_token)

    def part(self, index: int, taken: Taken) -> None:
        """Sort the attempts of a slot by their last token; attempts with the first token stay in the slot, the rest move to free slots."""
        going: dict[int, list[Sampling]] = {}
        for attempt in self.slots[index]:
            token = attempt.ids[-1]
            if (stops := self.stops[token]) or len(attempt.ids) >= self.config.max_tokens:
                taken.ended.append((attempt.request.part, self.finish(attempt, truncated=not stops)))
            else:
                going.setdefault(token, []).append(attempt)
        self.slots[index] = []
        for token, attempts in going.items():
            slot = index if not self.slots[index] else self.free()
            self.slots[slot], taken.tokens[slot] = attempts, token
            if slot != index:
                taken.forks.append((index, slot))

    def finish(self, attempt: Sampling, *, truncated: bool) -> Attempt:
        """Return an attempt that ended."""
        request = attempt.request
        code, answer = self.codec.code_and_answer(attempt.ids, request.task, request.prefix)
        return Attempt(
            **request.origin,
            code=code,
            answer=answer,
            author=self.author,
            behavior_logp=attempt.own_logp,
            tokens=len(attempt.ids),
            entropy=max(attempt.entropy / len(attempt.ids), 0.0),
            truncated=truncated,
            token_ids=tuple(attempt.ids),
            token_logps=tuple(attempt.logps),
        )
