"""Sample attempts from a policy: by batched decoding or, for models without support for it, by transformers' ``generate``."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from upsolve.config import SampleConfig
from upsolve.policy.allocator import available_bytes
from upsolve.policy.batched_decode import ATTENTION, check_batched_decode, prefill
from upsolve.policy.decode_graphs import decoder_of
from upsolve.policy.generate import generate_attempts
from upsolve.policy.head import head_of
from upsolve.policy.kv_cache import BatchedCache, PromptKV, attempts_that_fit, token_bytes
from upsolve.policy.lookup import Lookup
from upsolve.policy.prefill_order import of_like_length, prefill_runs
from upsolve.policy.request import Part, Request, joint_requests
from upsolve.policy.sampling import DecodeState
from upsolve.policy.tokens import Codec, EncodedPrompt
from upsolve.types import Attempt, Task

__all__ = ["LocalModel", "sample", "sample_each", "token_bytes_of"]

EACH = {"temperature": 1.0, "samples": 1, "seed": 0}
"""Settings in which attempts that are sampled together may differ."""

POSITIONS = 128
"""Most tokens of a decoding step that are worth proposals: with more, computing them takes longer than the steps that they save."""
Job = tuple[Request, EncodedPrompt]
"""A request and its prompt."""
CHECKED: WeakKeyDictionary[Any, dict[tuple[torch.dtype, str], str]] = WeakKeyDictionary()
"""Models in memory -> by dtype and device, the problem that ``check_batched_decode`` found."""


def sample(
    model: Any,
    codec: Codec,
    tasks: Sequence[Task],
    *,
    config: SampleConfig,
    author: str = "",
    on_done: Callable[[int], None] | None = None,
) -> Iterator[Attempt]:
    """Yield ``config.samples`` attempts per task, in the order in which they end.

    ``token_logps`` and ``entropy`` are in nats, of the distribution at temperature 1 without truncation. Each attempt has its own random
    numbers (``upsolve.policy.request``), so up to rounding it does not depend on the rest of the batch; the same model, tasks, config and
    number of threads give the same attempts. Before the first sample of a model, batched decoding is compared with the model's own forward
    pass; if they differ, a warning is logged and ``generate`` is used instead.

    Args:
        model: a causal language model of transformers, in the dtype to sample in.
        codec: the model's tokenizer.
        tasks: tasks to sample.
        config: number of samples, temperature, top-p, length limit, seed and batch size.
        author: author of the attempts; empty: the model's name.
        on_done: called with the number of finished attempts.
    """
    for _, attempt in sample_each(model, codec, tasks, configs=(config,), author=author, on_done=on_done):
        yield attempt


@torch.inference_mode()
def sample_each(
    model: Any,
    codec: Codec,
    tasks: Sequence[Task],
    *,
    configs: Sequence[SampleConfig],
    author: str = "",
    on_done: Callable[[int], None] | None = None,
) -> Iterator[Part]:
    """Yield the index of the settings and the attempt, as ``sample`` does, for several settings at once; each prompt is prefilled once for all.

    Args:
        model: as for ``sample``.
        codec: as for ``sample``.
        tasks: as for ``sample``.
        configs: settings that differ in temperature, number of samples and seed alone.
        author: as for ``sample``.
        on_done: called with the number of finished attempts, of all settings together.

    Raises:
        ValueError: the settings differ in something else.
    """
    if len({config.model_copy(update=EACH).model_dump_json() for config in configs}) > 1:
        raise ValueError("settings that are sampled together may differ in temperature, samples and seed alone")
    if not tasks:
        return
    model.eval()
    if problem := problem_of(model, codec.prompt(tasks[0]).ids_P):
        warnings.warn(
            f"batched decoding does not work with this model ({problem}): sampling by its own generate, slower", stacklevel=2
        )
    decode, done = generate_attempts if problem else decode_batched, 0
    for ended in decode(model, codec, tasks, configs):
        for part, attempt in ended:
            done += 1
            yield part, replace(attempt, author=author) if author else attempt
        if on_done:
            on_done(done)


def problem_of(model: Any, ids: tuple[int, ...]) -> str:
    """Return why batched decoding does not work with a model, "" if it does; a model is checked once in each precision and on each device."""
    form = (model.dtype, str(model.device))
    known = CHECKED.setdefault(model, {})
    if form not in known:
        known[form] = check_batched_decode(model, ids)
    return known[form]


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A ``Sampler`` of a model in this process; its model and tokenizer also serve other uses, such as log-probabilities."""

    model: Any
    """A causal language model of transformers, in the dtype to sample in."""
    codec: Codec
    """The model's tokenizer and prompt format."""

    def __call__(
        self,
        tasks: Sequence[Task],
        *,
        config: SampleConfig,
        author: str = "",
        on_done: Callable[[int], None] | None = None,
    ) -> Iterator[Attempt]:
        """Yield attempts as ``sample`` does."""
        return sample(self.model, self.codec, tasks, config=config, author=author, on_done=on_done)

    def each(
        self,
        tasks: Sequence[Task],
        *,
        configs: Sequence[SampleConfig],
        author: str = "",
        on_done: Callable[[int], None] | None = None,
    ) -> Iterator[Part]:
        """Yield attempts of several settings as ``sample_each`` does."""
        return sample_each(self.model, self.codec, tasks, configs=configs, author=author, on_done=on_done)


def decode_batched(model: Any, codec: Codec, tasks: Sequence[Task], configs: Sequence[SampleConfig]) -> Iterator[list[Part]]:
    """Yield the attempts that ended at each decoding step; the model's attention implementation is replaced during the call."""
    before, prompts = model.config._attn_implementation, [(task, codec.prompt(task)) for task in tasks]
    config, samples = configs[0], sum(config.samples for config in configs)
    model.set_attn_implementation(ATTENTION)
    try:
        for part in of_like_length(prompts):
            longest = max(len(prompt.ids_P) for _, prompt in part)
            fit = attempts_that_fit(token_bytes_of(model), longest + config.max_tokens, available_bytes())
            slots = min(config.batch, len(part) * samples, fit)
            room = (min(len(part), -(-slots // samples)), longest - 1, config.max_tokens)
            decoder = Decoder(model, codec, config, slots=slots, room=room)
            jobs = make_jobs(part, configs)
            decoder.refill(jobs)
            while decoder.state.busy:
                yield decoder.step()
                decoder.refill(jobs)
    finally:
        model.set_attn_implementation(before)


def token_bytes_of(model: Any) -> int:
    """Return the bytes of the keys and values of one token under a model."""
    sizes = model.config.get_text_config()
    heads = getattr(sizes, "num_key_value_heads", None) or sizes.num_attention_heads
    size = getattr(sizes, "head_dim", None) or sizes.hidden_size // sizes.num_attention_heads
    return token_bytes(sizes.num_hidden_layers, heads * size, model.dtype.itemsize)


def make_jobs(prompts: Sequence[tuple[Task, EncodedPrompt]], configs: Sequence[SampleConfig]) -> Iterator[Job]:
    """Yield one job per attempt, all of one task before the next; prompts that begin alike come one after the other."""
    for task, prompt in sorted(prompts, key=lambda job: job[1].ids_P):
        for request in joint_requests(task, configs):
            yield request, prompt


class Decoder:
    """The batch of one call: cache, state and current token of each slot."""

    def __init__(self, model: Any, codec: Codec, config: SampleConfig, *, slots: int, room: tuple[int, int, int]) -> None:
        self.model, self.state, self.head = model, DecodeState(model, codec, config, slots), head_of(model)
        self.cache = BatchedCache(slots, model.device, room=room)
        self.decode = decoder_of(model, self.cache)
        self.tokens_B = torch.zeros(slots, dtype=torch.long, device=model.device)
        self.last_ids: tuple[int, ...] = ()
        self.last_prompt: PromptKV = {}
        self.last_number = 0

    def prefilled(self, prompts: Sequence[tuple[int, ...]]) -> Iterator[PromptKV]:
        """Yield the keys and values of prompts; what prompts share with the one before them is not computed again."""
        for shared, run in prefill_runs(self.last_ids, prompts):
            before = self.last_prompt.items() if shared else ()
            prefix = {layer: (key[:, :, :shared], value[:, :, :shared]) for layer, (key, value) in before}
            made = prefill(self.model, self.cache, run, prefix)
            self.last_ids, self.last_prompt = run[-1], made[-1]
            yield from made

    def refill(self, jobs: Iterator[Job]) -> None:
        """Start the next attempts in the free slots; if none are left, drop the free slots once they are at least half of all slots.

        A prompt is prefilled and stored once for all its attempts.
        """
        free = [index for index, slot in enumerate(self.state.slots) if slot is None]
        started = [*zip(free, jobs)]  # noqa: B905  as many as there are
        ids = [self.last_ids, *(prompt.ids_P for _, (_, prompt) in started)]
        prompts = self.prefilled([new for before, new in pairwise(ids) if new != before])
        for before, (index, (request, prompt)) in zip(ids, started):  # noqa: B905
            if prompt.ids_P != before:
                self.last_number = self.cache.add(next(prompts))
            self.cache.begin(index, self.last_number)
            self.tokens_B[index] = prompt.ids_P[-1]
            self.state.begin(index, request, Lookup(prompt.ids_P) if self.state.config.lookup else None)
        busy = self.state.busy
        if busy and len(busy) * 2 <= len(self.state.slots):
            self.cache.keep(busy)
            self.tokens_B = self.tokens_B[torch.tensor(busy, device=self.tokens_B.device)]
            self.state.slots = [self.state.slots[index] for index in busy]

    def step(self) -> list[Part]:
        """Decode a token per slot, or more where proposed tokens are right, and return the attempts that ended."""
        busy = self.state.busy
        drafts = self.state.drafts(min(self.state.config.lookup, max(POSITIONS // len(busy), 1) - 1))
        inputs_BQ = self.inputs(drafts)
        hidden_BQD = self.decode(inputs_BQ)
        product_BQV = self.head.product(hidden_BQD.flatten(0, 1)).unflatten(0, inputs_BQ.shape)
        self.tokens_B, ended = self.state.take(product_BQV[:, 0], self.head.finished)
        if inputs_BQ.shape[1] > 1:
            ended += self.take_proposed(product_BQV, drafts, busy)
        for index, slot in enumerate(self.state.slots):
            if slot is None:
                self.cache.end(index)
        return ended

    def inputs(self, drafts: Sequence[list[int]]) -> Tensor:
        """Return the next inputs [B, Q]: the current token of each slot, and its proposed tokens, padded with token 0."""
        longest = max(map(len, drafts))
        padded = [draft + [0] * (longest - len(draft)) for draft in drafts]
        proposed = torch.tensor(padded, dtype=torch.long, device=self.tokens_B.device)
        return torch.cat([self.tokens_B[:, None], proposed], dim=1)

    def take_proposed(self, product_BQV: Tensor, drafts: Sequence[list[int]], busy: Sequence[int]) -> list[Part]:
        """Sample on where a proposed token is the one that was sampled; return the attempts that ended."""
        ended: list[Part] = []
        new, tokens = product_BQV.shape[1], self.tokens_B.tolist()
        sampled = {slot: tokens[slot] for slot in busy}
        for at in range(1, new):
            right = [slot for slot, token in sampled.items() if self.state.slots[slot] and drafts[slot][at - 1 : at] == [token]]
            for slot in sampled.keys() - right:
                self.cache.drop(slot, new - at)
            if not right:
                break
            tokens_K, more = self.state.take(product_BQV[right, at], self.head.finished, right)
            self.tokens_B[right], sampled = tokens_K, dict(zip(right, tokens_K.tolist(), strict=True))
            ended += more
        return ended
