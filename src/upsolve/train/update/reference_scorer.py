"""The padded scorer: every attempt with its own copy of the prompt. Packed scorers are checked against it, and it is their fallback.

Legend: S attempts, L longest prompt and attempt together, T attempt tokens, V vocabulary.
"""

import inspect
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from upsolve.errors import ModelError
from upsolve.policy.attention.bundled import TREE
from upsolve.policy.attention.gpu import FLEX, VARLEN
from upsolve.policy.known_checks import cache_check, cached_check, check_file
from upsolve.policy.machine import forwards
from upsolve.policy.model import frozen_linear, trainable
from upsolve.policy.tokens import Codec
from upsolve.train.data.encode import EncodedAttempt, EncodedGroup
from upsolve.train.data.pack import PackedBatch, pack
from upsolve.train.update.logprobs import Scorer, TokenScores, token_scores, values_of
from upsolve.types import Task

__all__ = [
    "UNSUPPORTED",
    "checked_parameters",
    "difference",
    "known_or_chosen",
    "logps_of",
    "packed_scorers",
    "padded_scores",
    "probe",
    "sample_of",
]

UNSUPPORTED = (ModelError, AssertionError, AttributeError, TypeError, ValueError, RuntimeError)
"""Errors that a scorer raises for an unsupported architecture."""
TOLERANCE = 1e-3
"""Largest difference of a log-probability, nats, and of the gradient, relative to its norm."""
ROUNDING = 4.0
"""Tolerance in the precision of the run, as a multiple of the rounding error of the padded scorer in that precision.

The largest errors of two correct scorers over a few dozen tokens were seen to differ by a factor of 2.1.
"""
ATTEMPTS, PROMPT, TOKENS = 6, 24, 48
"""Most attempts of the sample, and the most tokens of each and of its prompt: they bound the activations and logits of the check."""
CHECKED = 2**22
"""Most elements of a gradient that are compared (16 MB): the check holds three such gradients, whatever the size of the model."""

WHOLE_ROWS = partial(token_scores, blocks=False)
"""The packed scorer whose attention has a mask of the whole row."""

ScoresAndGradient = tuple[torch.Tensor, torch.Tensor]
"""Log-probabilities [T], nats, and the gradient of their mean with respect to ``checked_parameters``, flat, float32."""
Precision = Callable[[], AbstractContextManager[Any]]
"""Opens the context in which a run computes."""


def prompts_of(batch: PackedBatch) -> list[tuple[int, ...]]:
    """Return the prompt of every attempt of a batch."""
    length = batch.ids_BL.shape[1]
    _, first = np.unique(batch.attempt_T, return_index=True)
    prompts: list[tuple[int, ...]] = []
    for source in batch.source_T[first]:
        row, end = int(source) // length, int(source) % length + 1
        group, prefix = batch.group_BL[row, end - 1], batch.prefix_BL[row, end - 1]
        own = ((batch.group_BL[row] == group) | (batch.group_BL[row] == prefix)) & (batch.attempt_BL[row] == 0)
        prompts.append(tuple(batch.ids_BL[row][own].tolist()))
    return prompts


def padded_scores(model: Any, batch: PackedBatch, value_head: Any = None) -> TokenScores:
    """Score every attempt token of a batch with padded texts; all logits are kept, so it needs much more memory."""
    device = next(model.parameters()).device
    prompts, sizes = prompts_of(batch), np.bincount(batch.attempt_T)
    attempts = np.split(batch.target_T, np.cumsum(sizes)[:-1])
    longest = max(len(prompt) + len(ids) for prompt, ids in zip(prompts, attempts, strict=True))
    ids_SL, mask_SL = (np.zeros((len(prompts), longest), dtype=np.int64) for _ in range(2))
    source: list[NDArray[np.int64]] = []
    for s, (prompt, ids) in enumerate(zip(prompts, attempts, strict=True)):
        end = len(prompt) + len(ids)
        ids_SL[s, :end] = (*prompt, *ids)
        mask_SL[s, :end] = 1
        source.append(s * longest + np.arange(len(prompt) - 1, end - 1))
    inputs: dict[str, Any] = {"use_cache": False, "output_hidden_states": value_head is not None}
    inputs |= {"input_ids": torch.from_numpy(ids_SL).to(device), "attention_mask": torch.from_numpy(mask_SL).to(device)}
    first = min(map(len, prompts)) - 1  # the first state that predicts a token of an attempt
    plain = model.get_base_model() if hasattr(model, "get_base_model") else model  # inside of its adapters
    if "logits_to_keep" in inspect.signature(plain.forward).parameters:
        inputs["logits_to_keep"] = longest - first
    out = model(**inputs)
    source_T = torch.from_numpy(np.concatenate(source)).to(device)
    places_T = source_T - (source_T // longest + 1) * (
        longest - out.logits.shape[1]
    )  # the first states of a row may be missing
    logits_TV = out.logits.flatten(0, 1).index_select(0, places_T).float()
    scores_TV = logits_TV.log_softmax(-1)
    logp_T = scores_TV.gather(-1, torch.from_numpy(batch.target_T).to(device)[:, None])[:, 0]
    with torch.no_grad():
        entropy_T = -(scores_TV.exp() * scores_TV).sum(-1)
        variance_T = logits_TV.var(-1, correction=0)
    values_T = None
    if value_head is not None:
        values_T = values_of(out.hidden_states[-1].flatten(0, 1).index_select(0, source_T), value_head)
    return TokenScores(logp_T, entropy_T, variance_T, values_T)


@torch.inference_mode()
def logps_of(model: Any, texts: Sequence[tuple[Sequence[int], Sequence[int]]], *, most: int) -> list[list[float]]:
    """Return the log-probability of each token of attempts under a model in evaluation mode, nats, by ``padded_scores``.

    Args:
        model: a causal language model of transformers.
        texts: tokens of each prompt and of each attempt, at least one.
        most: tokens of texts of similar length that are scored together, padding included; a longer text is scored alone.
    """
    sizes = [len(prompt) + len(ids) for prompt, ids in texts]
    found: list[list[float]] = [[] for _ in texts]
    left = sorted(range(len(texts)), key=sizes.__getitem__)
    while left:
        count = 1
        while count < len(left) and sizes[left[count]] * (count + 1) <= most:
            count += 1
        chosen, left = left[:count], left[count:]
        rows = [[group(tuple(texts[index][0]), (tuple(texts[index][1]),))] for index in chosen]
        logps: list[float] = padded_scores(model, pack(rows)).logp_T.tolist()
        for index in chosen:
            length = len(texts[index][1])
            found[index], logps = logps[:length], logps[length:]
    return found


def sample_of(batch: PackedBatch) -> PackedBatch:
    """Return a small batch to try a model on: the first tokens of a few attempts, after the last ones of their prompts."""
    sizes = np.bincount(batch.attempt_T)
    attempts = np.split(batch.target_T, np.cumsum(sizes)[:-1])
    by_prompt: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for prompt, ids in [*zip(prompts_of(batch), attempts, strict=True)][:ATTEMPTS]:
        by_prompt.setdefault(prompt[-PROMPT:], []).append(tuple(ids[:TOKENS].tolist()))
    return pack([[group(prompt, tuple(attempts)) for prompt, attempts in by_prompt.items()]])


def probe(codec: Codec, task: Task) -> PackedBatch:
    """Return a small batch to try a model on before there are attempts."""
    codes = ("def f(x):\n    return x + 1", "def f(numbers):\n    return sum(numbers)", "print(1)")
    return pack([[group(codec.prompt(task).ids_P, tuple(codec.completion(code) for code in codes))]])


def group(prompt: tuple[int, ...], attempts: tuple[tuple[int, ...], ...]) -> EncodedGroup:
    """Return a group with these tokens and advantages of 0."""
    return EncodedGroup(prompt, tuple(EncodedAttempt(ids, np.zeros(len(ids), dtype=np.float32)) for ids in attempts))


def checked_parameters(model: Any) -> list[nn.Parameter]:
    """Return the trained parameters whose gradients are compared, at most ``CHECKED`` elements: the smallest, norms, biases or adapters.

    Every layer has one, and its gradient depends on all later attention, so wrong masks or positions are detected without a copy of all
    gradients of the model.
    """
    chosen: list[nn.Parameter] = []
    size = 0
    for parameter in sorted(trainable(model), key=nn.Parameter.numel):
        size += parameter.numel()
        if chosen and size > CHECKED:
            break
        chosen.append(parameter)
    return chosen


@contextmanager
def in_float32(model: Any) -> Generator[None]:
    """Compute frozen linear layers that are stored in lower precision in the precision of the other weights, as quantised layers are."""
    dtype = model.get_input_embeddings().weight.dtype
    linear = (module for module in model.modules() if isinstance(module, nn.Linear) and module.weight.is_floating_point())
    layers: list[Any] = [module for module in linear if module.weight.dtype != dtype]
    with forwards((layer, partial(frozen_linear, layer)) for layer in layers):
        yield


@contextmanager
def learning_only(model: Any, chosen: Sequence[nn.Parameter]) -> Generator[None]:
    """Set ``requires_grad`` for these parameters only, so that no other gradients are computed."""
    before = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    try:
        model.requires_grad_(False)
        for parameter in chosen:
            parameter.requires_grad_(True)
        yield
    finally:
        for parameter, flag in before:
            parameter.requires_grad_(flag)


def scores_and_gradient(model: Any, batch: PackedBatch, scorer: Scorer, *, alone: bool = True) -> ScoresAndGradient:
    """Return the log-probabilities of a batch by a scorer, and the gradient of their mean in ``checked_parameters``.

    ``alone``: no other gradients are computed; otherwise every parameter keeps its ``requires_grad``, as compiled layers need.
    """
    chosen = checked_parameters(model)
    with learning_only(model, chosen) if alone else nullcontext():
        logp_T = scorer(model, batch).logp_T
        gradients: Any = torch.autograd.grad(logp_T.mean(), chosen, allow_unused=True)
    flat = [torch.zeros_like(p) if grad is None else grad for p, grad in zip(chosen, gradients, strict=True)]
    return logp_T.detach(), torch.cat([grad.flatten().float() for grad in flat])


def difference(scored: ScoresAndGradient, reference: ScoresAndGradient) -> float:
    """Return the difference of two scorers on a batch.

    The larger of max_t |log p_t - log q_t|, nats, and |g - h| / |h| of the gradients of the mean log-probability; ``reference`` are q and h.
    """
    gradient = float((scored[1] - reference[1]).norm() / reference[1].norm())  # 0 / 0 is NaN, which exceeds every tolerance
    return max(float((scored[0] - reference[0]).abs().max()), gradient)


def packed_scorers(model: Any) -> list[tuple[str, Scorer]]:
    """Return the packed scorers for a model on its device, the fastest first, each with its attention implementation."""
    if model.device.type == "cpu":
        return [(TREE, token_scores), (TREE, WHOLE_ROWS)]
    own: str = model.config._attn_implementation
    return [(name, token_scores) for name in (VARLEN, FLEX, TREE if own == "eager" else own)]


def problem_of(
    model: Any, sample: PackedBatch, scorer: Scorer, exact: ScoresAndGradient, checks: Sequence[tuple[Precision, float]]
) -> str:
    """Return why a scorer cannot be used: too large a difference in one of the precisions, or an error; "" if it can."""
    try:
        for precision, allowed in checks:
            with precision():
                distance = difference(scores_and_gradient(model, sample, scorer), exact)
            if not distance <= allowed:
                return f"log-probabilities or gradients differ by {distance:.2g}"
    except UNSUPPORTED as error:
        return str(error) or type(error).__name__
    return ""


def choose_scorer(model: Any, batch: PackedBatch, precision: Precision | None = None) -> Scorer:
    """Return the fastest packed scorer that agrees with the padded one on a sample of a batch.

    A scorer must be within ``TOLERANCE`` in float32 and, if the run has another ``precision``, within ``ROUNDING`` times the rounding
    error of the padded scorer in it; FlashAttention is only compared in the precision of the run. If none agrees, or the architecture
    does not support packing, the padded scorer is returned with a warning. The model keeps the attention of the scorer returned.
    """
    sample, before, problem = sample_of(batch), model.config._attn_implementation, ""
    was_training = model.training
    model.eval()
    with in_float32(model):
        exact = scores_and_gradient(model, sample, padded_scores)
    checks: list[tuple[Precision, float]] = [(partial(in_float32, model), TOLERANCE)]
    if precision is not None:
        with precision():
            rounding = difference(scores_and_gradient(model, sample, padded_scores), exact)
        checks.append((precision, max(TOLERANCE, ROUNDING * rounding)))
    for attention, scorer in packed_scorers(model):
        model.set_attn_implementation(attention)
        problem = problem_of(model, sample, scorer, exact, checks[-1:] if attention == VARLEN else checks)
        if not problem:
            model.train(was_training)
            return scorer
    model.train(was_training)
    model.set_attn_implementation(before)
    warnings.warn(f"packed rows do not work with this model ({problem}): using padded texts, which is slower", stacklevel=2)
    return padded_scores


def known_or_chosen(model: Any, batch: PackedBatch, precision: Precision | None = None) -> Scorer:
    """Return the scorer that was chosen in another run for a model of the same form, else the one that ``choose_scorer`` chooses now.

    A run's precision is that of the weights, or bfloat16. If no packed scorer agrees, every run searches again, and warns.
    """
    ways = {str(number): way for number, way in enumerate(packed_scorers(model))}
    file = check_file(f"scorer, {'precision of the weights' if precision is None else 'bfloat16'}", model)
    if way := ways.get(cached_check(file) or ""):
        model.set_attn_implementation(way[0])
        return way[1]
    scorer = choose_scorer(model, batch, precision)
    chosen = (model.config._attn_implementation, scorer)
    for number, way in ways.items():
        if way == chosen:
            cache_check(file, number)
    return scorer
