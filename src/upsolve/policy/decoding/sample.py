"""Sample attempts from a policy: by batched decoding or, for models without support for it, by transformers' ``generate``.

Attempts at a task that are equal so far are decoded once: they share a slot, and part when they sample different tokens. This spares a
fifth of the work for 8 attempts at temperature 1, and half of it at 0.6 (benchmarks/LOG.md).

Legend: B slots, Q new tokens of a slot, V vocabulary.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from transformers.generation.configuration_utils import GenerationConfig
from transformers.generation.logits_process import LogitsProcessor
from transformers.generation.stopping_criteria import StoppingCriteria

from upsolve.config import SampleConfig
from upsolve.errors import ModelError
from upsolve.policy.decoding.batched_decode import ATTENTION, check_batched_decode, decoder_of, prefill
from upsolve.policy.decoding.kv_cache import BatchedCache, PromptKV, attempts_that_fit, closed_up, token_bytes
from upsolve.policy.decoding.sampling import DecodeState, Lookup
from upsolve.policy.head import head_of
from upsolve.policy.known_checks import cache_check, cached_check, check_file
from upsolve.policy.machine import available_bytes, packed_weights
from upsolve.policy.request import Part, Request, by_prompt, joint_requests
from upsolve.policy.tokens import Codec, EncodedPrompt, common_prefix
from upsolve.types import Attempt, Task

__all__ = ["LocalModel", "PolicyModel", "generate_attempts", "sample", "sample_each", "sample_requests", "token_bytes_of"]

T = TypeVar("T")
PAD = 0
"""Token after the end of an attempt."""


PREFIX = 16
"""Number of tokens that a prompt must share with the previous prompt to reuse its keys and values."""
TOGETHER, PASS = 1024, 64
"""Most tokens of several prompts that are prefilled in one forward pass, padding included; and the number of tokens whose computation costs as much
as the overhead of a pass: 32 on an AMD EPYC, 140 on a Xeon with AMX, for SmolLM2-135M."""
PADDING, SPARE = 3, 384
"""A prompt longer than ``PADDING`` times the mean length of the shorter prompts plus ``SPARE``, tokens, starts a new part."""


def of_like_length(prompts: Sequence[tuple[T, EncodedPrompt]]) -> Iterator[list[tuple[T, EncodedPrompt]]]:
    """Yield the prompts with their requests in parts that are decoded one after the other, the shortest prompts first.

    The cache stores the prompts of a part with the length of the longest, so a part ends before a prompt that is much longer
    (``PADDING``) than those before it.
    """
    part: list[tuple[T, EncodedPrompt]] = []
    tokens = 0
    for requests, prompt in sorted(prompts, key=lambda one: len(one[1].ids_P)):
        if part and len(prompt.ids_P) - SPARE > PADDING * tokens / len(part):
            yield part
            part, tokens = [], 0
        part.append((requests, prompt))
        tokens += len(prompt.ids_P)
    yield part


def prefill_runs(last: tuple[int, ...], prompts: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, list[tuple[int, ...]]]]:
    """Yield runs of prompts that are prefilled in one pass, each with the number of tokens shared with the previous prompt.

    A prompt joins a run if the run stays within ``TOGETHER`` tokens and computes at most ``PASS`` tokens more than the run and the prompt one after
    the other: padding, and tokens that the prompt could reuse. At least one token besides the last is computed.
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
"""Largest number of tokens of a decoding step with proposals: beyond, computing them takes longer than the steps that they save."""
USED = 7 / 8
"""Share of used slots below which free slots are dropped; dropping copies the slots after them."""
USED_FIXED = 1 / 2
"""The same share if steps keep their shapes (``BatchedCache.fixed``)."""
Job = tuple[Request, EncodedPrompt]
"""A request and its prompt."""


class Decoder:
    """The batch of one call: cache, state and current token of each slot."""

    def __init__(
        self,
        model: Any,
        codec: Codec,
        config: SampleConfig,
        *,
        most: int,
        room: tuple[int, int, int],
        failing: Mapping[tuple[int, ...], tuple[int, ...]],
    ) -> None:
        """Start without attempts; ``most``: attempts decoded at the same time, ``room``: as for ``BatchedCache``, ``failing``: prompt -> the same
        prompt with the outcome ``failed``, for ``sample.guidance``."""
        self.model, self.most, self.state, self.head = model, most, DecodeState(model, codec, config, most), head_of(model)
        self.caches = [BatchedCache(most, model.device, room=room) for _ in range(2 if config.guidance else 1)]
        """The slots and, with guidance, the same slots behind the prompts of ``failing``."""
        self.cache, self.failing = self.caches[0], failing
        self.decode, *self.decode_failing = (decoder_of(model, cache) for cache in self.caches)
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
                for cache in self.caches[1:]:
                    cache.add(*prefill(self.model, cache, [self.failing[prompt.ids_P]]))
            if slot is None or not self.shares:
                slot = self.state.free()
                for cache in self.caches:
                    cache.begin(slot, self.last_number)
                self.tokens[slot : slot + 1] = [prompt.ids_P[-1]]
            self.state.begin(slot, request, Lookup(prompt.ids_P) if self.state.config.lookup else None)
        slots, busy = self.state.slots, self.state.busy
        used = USED_FIXED if self.cache.fixed else USED
        if busy and len(busy) <= used * len(slots):  # slots after free ones take their places
            running, last = closed_up(busy), self.last_number
            self.last_number, *_ = [cache.keep(running, last) for cache in self.caches]
            self.state.slots, self.tokens = [slots[index] for index in running], [self.tokens[index] for index in running]

    def step(self) -> list[Part]:
        """Decode a token per attempt, or more if proposed tokens are right; return the attempts that ended."""
        busy = self.state.busy
        drafts = self.state.drafts(min(self.state.config.lookup, max(POSITIONS // len(busy), 1) - 1))
        inputs_BQ = self.inputs(drafts)
        scores_BQV = self.model.get_output_embeddings()(self.decode(inputs_BQ))
        for decode in self.decode_failing:
            scores_BQV = self.guided(scores_BQV, self.model.get_output_embeddings()(decode(inputs_BQ)))
        ended = self.take(scores_BQV[:, 0])
        if inputs_BQ.shape[1] > 1:
            ended += self.take_proposed(scores_BQV, drafts, busy)
        for index, attempts in enumerate(self.state.slots):
            if not attempts:
                for cache in self.caches:
                    cache.end(index)
        return ended

    def guided(self, passed_BQV: Tensor, failed_BQV: Tensor) -> Tensor:
        """Return l + w (l - l'): l are the logits under prompts that ask for a pass, l' under prompts that name a failure, and w is ``sample.guidance``."""
        own, other = (self.head.finished(scores) for scores in (passed_BQV, failed_BQV))
        return own + self.state.config.guidance * (own - other)

    def take(self, scores_BV: Tensor, chosen: Sequence[int] | None = None) -> list[Part]:
        """Sample a token for each attempt of some slots, whose scores are given, and return the attempts that ended."""
        taken = self.state.take(scores_BV, Tensor.float if self.decode_failing else self.head.finished, chosen)
        for cache in self.caches:
            cache.fork(taken.forks)
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


class SampledLogits(LogitsProcessor):
    """Samples with each attempt's random numbers and masks all other tokens, so that the greedy choice of ``generate`` is the sampled token."""

    def __init__(self, state: DecodeState) -> None:
        self.state = state
        self.ended: list[Part] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return [B, V]: 0 at the tokens sampled from ``scores``, -inf elsewhere."""
        del input_ids
        taken = self.state.take(scores)
        self.ended += taken.ended
        tokens_B = torch.tensor([taken.tokens.get(slot, PAD) for slot in range(len(scores))], device=scores.device)
        return torch.full_like(scores, -torch.inf).scatter(-1, tokens_B[:, None], 0.0)


class StopEnded(StoppingCriteria):
    """Stops the sequences whose attempts have ended."""

    def __init__(self, state: DecodeState) -> None:
        self.state = state

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Any:
        """Return bool [B], True for sequences to stop."""
        del scores
        return torch.tensor([not attempts for attempts in self.state.slots], device=input_ids.device)


def generate_attempts(
    model: Any, codec: Codec, by_task: Sequence[Sequence[Request]], config: SampleConfig
) -> Iterator[list[Part]]:
    """Yield the attempts of one ``generate`` call after the other, each with up to ``batch`` of one prompt; ``generation_config`` is replaced meanwhile."""
    before = model.generation_config
    model.generation_config = GenerationConfig()
    plain = GenerationConfig(do_sample=False, max_new_tokens=config.max_tokens, pad_token_id=PAD, use_cache=True)
    try:
        for same in by_task:
            pending, ids_P = iter(same), codec.prompt(*same[0].prompt_key).ids_P
            while batch := list(islice(pending, config.batch)):
                state = DecodeState(model, codec, config, len(batch))
                for index, request in enumerate(batch):
                    state.begin(index, request)
                sampled, ids_BP = SampledLogits(state), torch.tensor([ids_P] * len(batch), device=model.device)
                options: dict[str, Any] = {"logits_processor": [sampled], "stopping_criteria": [StopEnded(state)]}
                model.generate(ids_BP, attention_mask=torch.ones_like(ids_BP), generation_config=plain, **options)
                yield sampled.ended
    finally:
        model.generation_config = before


EACH = {"temperature": 1.0, "samples": 1, "seed": 0}
"""Settings in which attempts that are sampled together may differ."""
CHECKED: WeakKeyDictionary[Any, dict[tuple[torch.dtype, str], str]] = WeakKeyDictionary()
"""Model in memory -> by dtype and device, the problem that ``check_batched_decode`` found."""


def sample(
    model: Any,
    codec: Codec,
    tasks: Sequence[Task],
    *,
    config: SampleConfig,
    author: str = "",
    on_done: Callable[[int], None] | None = None,
) -> Iterator[Attempt]:
    """Yield ``config.samples`` attempts per task, in the order in which they end; ``on_done`` gets the number of finished
    attempts.

    ``token_logps`` are log-probabilities in the sampled distribution; ``behavior_logp`` and ``entropy`` belong to temperature 1 without a nucleus;
    all in nats. Each attempt has its own random numbers (``upsolve.policy.request``), so up to rounding it does not depend on the rest of the batch;
    the same model, tasks, config and number of threads give the same attempts. Before the first sample of a kind of model, batched decoding is
    compared with the model's own forward pass; if they differ, a warning is logged and ``generate`` is used instead.
    """
    for _, attempt in sample_each(model, codec, tasks, configs=(config,), author=author, on_done=on_done):
        yield attempt


def sample_each(
    model: Any,
    codec: Codec,
    tasks: Sequence[Task],
    *,
    configs: Sequence[SampleConfig],
    author: str = "",
    on_done: Callable[[int], None] | None = None,
) -> Iterator[Part]:
    """Yield attempts as ``sample`` does, each with the index of its settings; these may differ only in temperature, samples and seed."""
    if len({config.model_copy(update=EACH).model_dump_json() for config in configs}) > 1:
        raise ValueError("settings that are sampled together may differ in temperature, samples and seed alone")
    by_task = [joint_requests(task, configs) for task in tasks]
    yield from sample_prompts(model, codec, by_task, config=configs[0], author=author, on_done=on_done)


def sample_requests(
    model: Any,
    codec: Codec,
    requests: Sequence[Request],
    *,
    config: SampleConfig,
    author: str = "",
    on_done: Callable[[int], None] | None = None,
) -> Iterator[Part]:
    """Yield ``part`` and the attempt of each request, as ``sample`` does; each prompt is prefilled once for all its requests."""
    return sample_prompts(model, codec, by_prompt(requests), config=config, author=author, on_done=on_done)


@torch.inference_mode()
def sample_prompts(
    model: Any,
    codec: Codec,
    groups: Sequence[Sequence[Request]],
    *,
    config: SampleConfig,
    author: str,
    on_done: Callable[[int], None] | None,
) -> Iterator[Part]:
    """Yield the attempts of requests; the requests are given by prompt."""
    if not groups:
        return
    model.eval()
    if problem := problem_of(model, codec.prompt(*groups[0][0].prompt_key).ids_P):
        warnings.warn(
            f"batched decoding does not work with this model ({problem}): using generate of transformers, which is slower",
            stacklevel=2,
        )
    if config.guidance and (problem or codec.failing is codec):
        raise ModelError(
            f"sample.guidance: {f'batched decoding does not work with this model ({problem})' if problem else 'prompts name no outcome'}; "
            "set it to 0" + ("" if problem else ", or model.prompt.outcome")
        )
    decode, done = generate_attempts if problem else decode_batched, 0
    for ended in decode(model, codec, groups, config):
        for part, attempt in ended:
            done += 1
            yield part, replace(attempt, author=author) if author else attempt
        if on_done:
            on_done(done)


def problem_of(model: Any, ids: tuple[int, ...]) -> str:
    """Return why batched decoding does not work with a model, "" if it does; checked once in each precision, on each device,
    for each form of model."""
    form = (model.dtype, str(model.device))
    known = CHECKED.setdefault(model, {})
    if form not in known:
        file = check_file("batched decoding", model)
        passed = cached_check(file) is not None
        known[form] = "" if passed else check_batched_decode(model, ids)
        if not passed and not known[form]:
            cache_check(file)
    return known[form]


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A ``Sampler`` of a model in this process; its model and tokenizer also serve other uses, such as log-probabilities."""

    model: Any
    """A causal language model of transformers, in the dtype to sample in."""
    codec: Codec
    """The model's tokenizer and prompt format."""

    def __call__(self, tasks: Sequence[Task], *, config: SampleConfig, **how: Any) -> Iterator[Attempt]:
        """Yield attempts as ``sample`` does."""
        return sample(self.model, self.codec, tasks, config=config, **how)

    def each(self, tasks: Sequence[Task], *, configs: Sequence[SampleConfig], **how: Any) -> Iterator[Part]:
        """Yield attempts of several settings as ``sample_each`` does."""
        return sample_each(self.model, self.codec, tasks, configs=configs, **how)

    def sample_requests(self, requests: Sequence[Request], *, config: SampleConfig, **how: Any) -> Iterator[Part]:
        """Yield attempts of requests as the function ``sample_requests`` does."""
        return sample_requests(self.model, self.codec, requests, config=config, **how)


class PolicyModel:
    """Sampler of the policy in training, from its weights in this process (``upsolve.policy.request.PolicySampler``)."""

    __call__ = staticmethod(sample)
    sample_requests = staticmethod(sample_requests)


def decode_batched(model: Any, codec: Codec, groups: Sequence[Sequence[Request]], config: SampleConfig) -> Iterator[list[Part]]:
    """Yield the attempts that ended at each decoding step; the model's attention implementation is replaced during the call."""
    keys = [same[0].prompt_key for same in groups]
    before, prompts = model.config._attn_implementation, codec.prompts(keys)
    others = codec.failing.prompts(keys) if config.guidance else []
    failing = {prompt.ids_P: other.ids_P for prompt, other in zip(prompts, others, strict=False)}
    model.set_attn_implementation(ATTENTION)
    try:
        with packed_weights(model, config.max_tokens):
            for part in of_like_length([*zip(groups, prompts, strict=True)]):
                longest = max(len(prompt.ids_P) for _, prompt in part)
                each = token_bytes_of(model) * (2 if config.guidance else 1)
                fit = attempts_that_fit(each, longest + config.max_tokens, available_bytes())
                counts = [len(same) for same, _ in part]
                most = min(config.batch, sum(counts), fit)
                room = (min(len(part), -(-most // min(counts))), longest - 1, config.max_tokens)
                decoder = Decoder(model, codec, config, most=most, room=room, failing=failing)
                alike = sorted(part, key=lambda job: job[1].ids_P)  # prompts that begin alike come one after the other
                jobs = ((request, prompt) for same, prompt in alike for request in same)
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
