"""The decoding of a batch of attempts: which attempts are decoded, and in which slots.

Attempts at a task that are equal so far are decoded once: they share a slot, and part when they sample different tokens. This spares a fifth of
the work for 8 attempts at temperature 1, and half of it at 0.6 (benchmarks/LOG.md).

Legend: B slots, Q new tokens of a slot, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, TypeVar

import torch
from torch import Tensor

from upsolve.config import SampleConfig
from upsolve.policy.decoding.batched_decode import decoder_of, prefill
from upsolve.policy.decoding.kv_cache import BatchedCache, PromptKV, closed_up
from upsolve.policy.decoding.sampling import DecodeState, Lookup
from upsolve.policy.head import head_of
from upsolve.policy.request import Part, Request
from upsolve.policy.tokens import Codec, EncodedPrompt, common_prefix

__all__ = ["Decoder", "Job", "of_like_length", "prefill_runs"]

T = TypeVar("T")

PREFIX = 16
"""Tokens that a prompt must share with the one before to reuse its keys and values."""
TOGETHER, PASS = 1024, 64
"""Most tokens of several prompts that are prefilled in one forward pass, padding included; and the number of tokens whose computation takes about as
long as the fixed cost of a pass: 32 on an AMD EPYC, 140 on a Xeon with AMX, for SmolLM2-135M."""
PADDING, SPARE = 3, 384
"""A prompt of more tokens than ``PADDING`` times the mean of the shorter ones and ``SPARE`` is decoded after these."""


def of_like_length(prompts: Sequence[tuple[T, EncodedPrompt]]) -> Iterator[list[tuple[T, EncodedPrompt]]]:
    """Yield the prompts, each with what it is for, in parts that are decoded one after the other, the shortest prompts first.

    The cache stores the prompts of a part with the length of the longest, so a part ends before a prompt that is much longer
    (``PADDING``) than those before it.
    """
    part: list[tuple[T, EncodedPrompt]] = []
    tokens = 0
    for asked, prompt in sorted(prompts, key=lambda one: len(one[1].ids_P)):
        if part and len(prompt.ids_P) - SPARE > PADDING * tokens / len(part):
            yield part
            part, tokens = [], 0
        part.append((asked, prompt))
        tokens += len(prompt.ids_P)
    yield part


def prefill_runs(last: tuple[int, ...], prompts: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, list[tuple[int, ...]]]]:
    """Yield runs of prompts that are prefilled in one pass, each with the number of tokens shared with the prompt before.

    A prompt joins a run if the run stays within ``TOGETHER`` tokens and computes at most ``PASS`` tokens more than the run and
    the prompt one after the other: padding, and tokens that the prompt could reuse. At least one token besides the last is
    computed.
    """
    run, shared = list[tuple[int, ...]](), 0
    for ids in prompts:
        alone, joint = (reusable(before, ids) for before in (run[-1] if run else last, last))
        joint = min(shared, joint) if run else joint
        together = (len(run) + 1) * (max(map(len, (*run, ids))) - joint)
        separate = len(run) * (max(map(len, run), default=0) - shared) + len(ids) - alone
        if run and together > min(TOGETHER, separate + PASS):
            yield shared, run
            last, run, joint = run[-1], [], alone
        run.append(ids)
        shared = joint
    if run:
        yield shared, run


def reusable(before: tuple[int, ...], ids: tuple[int, ...]) -> int:
    """Return the number of first tokens of a prompt whose keys and values are taken from the prompt before it."""
    shared = min(common_prefix(before, ids), len(ids) - 2)
    return shared if shared >= PREFIX else 0


POSITIONS = 128
"""Most tokens of a decoding step that are worth proposals: with more, computing them takes longer than the steps that they save."""
USED = 7 / 8
"""Share of the slots in use below which free slots are dropped; dropping copies the slots after them."""
USED_FIXED = 1 / 2
"""The same where steps keep their shapes (``BatchedCache.fixed``)."""
Job = tuple[Request, EncodedPrompt]
"""A request and its prompt."""


class Decoder:
    """The batch of one call: cache, state and current token of each slot."""

    def __init__(self, model: Any, codec: Codec, config: SampleConfig, *, most: int, room: tuple[int, int, int]) -> None:
        """Start without attempts; ``most``: attempts decoded at the same time, ``room``: as for ``BatchedCache``."""
        self.model, self.most, self.state, self.head = model, most, DecodeState(model, codec, config, most), head_of(model)
        self.cache = BatchedCache(most, model.device, room=room)
        self.decode = decoder_of(model, self.cache)
        self.shares = not config.lookup and not self.cache.fixed
        self.tokens = [0] * most
        """The next input of each slot."""
        self.last_ids: tuple[int, ...] = ()
        self.last_prompt: PromptKV = {}
        self.last_number = 0

    def prefilled(self, prompts: Sequence[tuple[int, ...]]) -> Iterator[PromptKV]:
        """Yield the keys and values of prompts; tokens shared with the previous prompt are not computed again."""
        for shared, run in prefill_runs(self.last_ids, prompts):
            before = self.last_prompt.items() if shared else ()
            prefix = {layer: (key[:, :, :shared], value[:, :, :shared]) for layer, (key, value) in before}
            made = prefill(self.model, self.cache, run, prefix)
            self.last_ids, self.last_prompt = run[-1], made[-1]
            yield from made

    def refill(self, jobs: Iterator[Job]) -> None:
        """Start the next attempts that fit, and drop free slots if there are many.

        A prompt is prefilled and stored once for all its attempts.
        """
        started = [*islice(jobs, self.most - sum(map(len, self.state.slots)))]
        ids, slot = [self.last_ids, *(prompt.ids_P for _, prompt in started)], None
        prompts = self.prefilled([new for before, new in pairwise(ids) if new != before])
        for before, (request, prompt) in zip(ids, started):  # noqa: B905
            if prompt.ids_P != before:
                self.last_number, slot = self.cache.add(next(prompts)), None
            if slot is None or not self.shares:
                slot = self.state.free()
                self.cache.begin(slot, self.last_number)
                self.tokens[slot : slot + 1] = [prompt.ids_P[-1]]
            self.state.begin(slot, request, Lookup(prompt.ids_P) if self.state.config.lookup else None)
        self.drop_free()

    def drop_free(self) -> None:
        """Drop the free slots if there are many; slots after them take their places."""
        slots, busy = self.state.slots, self.state.busy
        if not busy or len(busy) > (USED_FIXED if self.cache.fixed else USED) * len(slots):
            return
        kept = closed_up(busy)
        self.last_number = self.cache.keep(kept, self.last_number)
        self.state.slots, self.tokens = [slots[index] for index in kept], [self.tokens[index] for index in kept]

    def step(self) -> list[Part]:
        """Decode a token per attempt, or more if proposed tokens are right, and return the attempts that ended."""
        busy = self.state.busy
        drafts = self.state.drafts(min(self.state.config.lookup, max(POSITIONS // len(busy), 1) - 1))
        inputs_BQ = self.inputs(drafts)
        scores_BQV = self.model.get_output_embeddings()(self.decode(inputs_BQ))
        ended = self.take(scores_BQV[:, 0])
        if inputs_BQ.shape[1] > 1:
            ended += self.take_proposed(scores_BQV, drafts, busy)
        for index, attempts in enumerate(self.state.slots):
            if not attempts:
                self.cache.end(index)
        return ended

    def take(self, scores_BV: Tensor, chosen: Sequence[int] | None = None) -> list[Part]:
        """Sample a token for each attempt of some slots, whose scores are given, and return the attempts that ended."""
        taken = self.state.take(scores_BV, self.head.finished, chosen)
        self.cache.fork(taken.forks)
        self.tokens += [0] * (len(self.state.slots) - len(self.tokens))
        for slot, token in taken.tokens.items():
            self.tokens[slot] = token
        return taken.ended

    def inputs(self, drafts: Sequence[list[int]]) -> Tensor:
        """Return the next inputs [B, Q]: the current token of each slot, and its proposed tokens, padded with token 0."""
        longest = max(map(len, drafts))
        rows = [[token, *draft, *[0] * (longest - len(draft))] for token, draft in zip(self.tokens, drafts, strict=True)]
        return torch.tensor(rows, device=self.model.device)

    def take_proposed(self, scores_BQV: Tensor, drafts: Sequence[list[int]], going: Sequence[int]) -> list[Part]:
        """Sample further tokens as long as the proposed token equals the sampled one; return the attempts that ended."""
        ended, new = list[Part](), scores_BQV.shape[1]
        for at in range(1, new):
            right = [slot for slot in going if self.state.slots[slot] and drafts[slot][at - 1 : at] == [self.tokens[slot]]]
            for slot in {*going} - {*right}:
                self.cache.drop(slot, new - at)
            if not right:
                break
            ended += self.take(scores_BQV[right, at], right)
            going = right
        return ended
