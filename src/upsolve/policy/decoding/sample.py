"""Sample attempts from a policy: by batched decoding or, for models without support for it, by transformers' ``generate``."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from transformers.generation.configuration_utils import GenerationConfig
from transformers.generation.logits_process import LogitsProcessor
from transformers.generation.stopping_criteria import StoppingCriteria

from upsolve.config import SampleConfig
from upsolve.policy.decoding.batched_decode import ATTENTION, check_batched_decode
from upsolve.policy.decoding.decoder import Decoder, of_like_length
from upsolve.policy.decoding.kv_cache import attempts_that_fit, token_bytes
from upsolve.policy.decoding.sampling import DecodeState
from upsolve.policy.known_checks import cache_check, cached_check, check_file
from upsolve.policy.machine import available_bytes, packed_weights
from upsolve.policy.request import Part, Request, by_prompt, joint_requests
from upsolve.policy.tokens import Codec, EncodedPrompt
from upsolve.types import Attempt, Task

__all__ = ["LocalModel", "PolicyModel", "generate_attempts", "sample", "sample_each", "sample_requests", "token_bytes_of"]

PAD = 0
"""Token after the end of an attempt."""


class SampledLogits(LogitsProcessor):
    """Samples with each attempt's random numbers and masks all other tokens, so that ``generate``'s greedy choice is the sampled token."""

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
    model: Any, codec: Codec, asked: Sequence[Sequence[Request]], config: SampleConfig
) -> Iterator[list[Part]]:
    """Yield the attempts of each ``generate`` call in turn: up to ``batch`` attempts with one prompt.

    The model's ``generation_config`` (penalties, end-of-text tokens) is replaced during the call and restored afterwards.

    Args:
        model: as for ``sample``.
        codec: as for ``sample``.
        asked: requests by prompt.
        config: top-p, length limit and batch size.
    """
    before = model.generation_config
    model.generation_config = GenerationConfig()
    plain = GenerationConfig(do_sample=False, max_new_tokens=config.max_tokens, pad_token_id=PAD, use_cache=True)
    try:
        for same in asked:
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

    ``token_logps`` are of the distribution that is sampled, ``behavior_logp`` and ``entropy`` of that at temperature 1 without a nucleus, in
    nats. Each attempt has its own random
    numbers (``upsolve.policy.request``), so up to rounding it does not depend on the rest of the batch; the same model, tasks, config and
    number of threads give the same attempts. Before the first sample of a kind of model, batched decoding is compared with the model's own
    forward pass; if they differ, a warning is logged and ``generate`` is used instead.

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


def sample_each(
    model: Any,
    codec: Codec,
    tasks: Sequence[Task],
    *,
    configs: Sequence[SampleConfig],
    author: str = "",
    on_done: Callable[[int], None] | None = None,
) -> Iterator[Part]:
    """Yield the index of the settings and the attempt, as ``sample`` does, for several settings at once, with one prefill a
    prompt.

    Raises:
        ValueError: the settings differ in something else than temperature, number of samples and seed.
    """
    if len({config.model_copy(update=EACH).model_dump_json() for config in configs}) > 1:
        raise ValueError("settings that are sampled together may differ in temperature, samples and seed alone")
    asked = [joint_requests(task, configs) for task in tasks]
    yield from sample_asked(model, codec, asked, config=configs[0], author=author, on_done=on_done)


def sample_requests(
    model: Any,
    codec: Codec,
    requests: Sequence[Request],
    *,
    config: SampleConfig,
    author: str = "",
    on_done: Callable[[int], None] | None = None,
) -> Iterator[Part]:
    """Yield ``part`` and the attempt of each request, as ``sample`` does; each prompt is prefilled once for all its requests.

    Args:
        model: as for ``sample``.
        codec: as for ``sample``.
        requests: one for each attempt.
        config: top-p, length limit and batch size.
        author: as for ``sample``.
        on_done: as for ``sample``.
    """
    return sample_asked(model, codec, by_prompt(requests), config=config, author=author, on_done=on_done)


@torch.inference_mode()
def sample_asked(
    model: Any,
    codec: Codec,
    asked: Sequence[Sequence[Request]],
    *,
    config: SampleConfig,
    author: str,
    on_done: Callable[[int], None] | None,
) -> Iterator[Part]:
    """Yield the attempts of requests, which are given by prompt."""
    if not asked:
        return
    model.eval()
    if problem := problem_of(model, codec.prompt(*asked[0][0].prompt_key).ids_P):
        warnings.warn(
            f"batched decoding does not work with this model ({problem}): sampling by its own generate, slower", stacklevel=2
        )
    decode, done = generate_attempts if problem else decode_batched, 0
    for ended in decode(model, codec, asked, config):
        for part, attempt in ended:
            done += 1
            yield part, replace(attempt, author=author) if author else attempt
        if on_done:
            on_done(done)


def problem_of(model: Any, ids: tuple[int, ...]) -> str:
    """Return why batched decoding does not work with a model, "" if it does; a model is checked once in each precision and on each device.

    A model of the same form that passed in another run is not checked again (``upsolve.policy.known_checks``).
    """
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

    def sample_requests(
        self,
        requests: Sequence[Request],
        *,
        config: SampleConfig,
        author: str = "",
        on_done: Callable[[int], None] | None = None,
    ) -> Iterator[Part]:
        """Yield attempts of requests as the function ``sample_requests`` does."""
        return sample_requests(self.model, self.codec, requests, config=config, author=author, on_done=on_done)


class PolicyModel:
    """The policy in training, sampled as it is (``upsolve.policy.request.PolicySampler``)."""

    __call__ = staticmethod(sample)
    sample_requests = staticmethod(sample_requests)


def decode_batched(model: Any, codec: Codec, asked: Sequence[Sequence[Request]], config: SampleConfig) -> Iterator[list[Part]]:
    """Yield the attempts that ended at each decoding step; the model's attention implementation is replaced during the call.

    Arguments as for ``generate_attempts``.
    """
    before, prompts = model.config._attn_implementation, codec.prompts([same[0].prompt_key for same in asked])
    model.set_attn_implementation(ATTENTION)
    try:
        with packed_weights(model, config.max_tokens):
            for part in of_like_length([*zip(asked, prompts, strict=True)]):
                longest = max(len(prompt.ids_P) for _, prompt in part)
                fit = attempts_that_fit(token_bytes_of(model), longest + config.max_tokens, available_bytes())
                counts = [len(same) for same, _ in part]
                most = min(config.batch, sum(counts), fit)
                room = (min(len(part), -(-most // min(counts))), longest - 1, config.max_tokens)
                decoder = Decoder(model, codec, config, most=most, room=room)
                jobs = make_jobs(part)
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


def make_jobs(prompts: Sequence[tuple[Sequence[Request], EncodedPrompt]]) -> Iterator[Job]:
    """Yield one job per attempt, all of one prompt before the next; prompts that begin alike come one after the other."""
    for same, prompt in sorted(prompts, key=lambda job: job[1].ids_P):
        for request in same:
            yield request, prompt
