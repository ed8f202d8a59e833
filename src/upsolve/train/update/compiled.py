"""Scoring with decoder layers compiled by ``torch.compile``, which fuses their elementwise work: two thirds of the memory and, on CPUs with AMX, of the time."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch._dynamo import config as tracing
from torch._functorch import config as functorch_config
from torch.fx.experimental import _config

from upsolve.policy.attention.bundled import TREE
from upsolve.policy.attention.gpu import VARLEN
from upsolve.policy.known_checks import cache_check, cached_check, check_file
from upsolve.policy.machine import forwards
from upsolve.train.data.pack import PackedBatch
from upsolve.train.update.logprobs import Scorer, TokenScores, token_scores
from upsolve.train.update.reference_scorer import (
    ROUNDING,
    TOLERANCE,
    Precision,
    ScoresAndGradient,
    difference,
    in_float32,
    sample_of,
    scores_and_gradient,
)

__all__ = ["CompiledScorer", "compiled_or_plain", "worth_compiling"]

LOGGER = logging.getLogger("upsolve.train")

SHAPES: Any = _config
"""PyTorch's settings of sizes that vary between batches."""
WORTH = 8e12
"""Parameters times tokens of a run from which layers are compiled on a CPU: 60,000 tokens for 135 million parameters.

Compiling takes 10 to 15 s, mostly independent of the size, and saves 0.6 to 1.1 ms a token of SmolLM2-135M with AMX, so that longer runs gain time. Without
AMX, where matrix products take most of a step, it saves memory alone, and the 15 s, 3 with PyTorch's cache, are a small part of such a run.
"""


gradient_of = partial(scores_and_gradient, alone=False)


class CompiledScorer:
    """A scorer that runs with compiled layers; all layers of a kind share one program for every number of tokens."""

    def __init__(self, model: Any, scorer: Scorer) -> None:
        """Prepare the layers of a model; they are compiled when they are first called."""
        from torch._inductor import config as inductor_config

        if inductor_config.cpp.vec_isa_ok is None:  # by $TORCHINDUCTOR_VEC_ISA_OK; trying each kind of AVX takes a compiler 5 s
            inductor_config.cpp.vec_isa_ok = True
        kinds: set[str] = set(model._no_split_modules or ())
        layers: list[Any] = [module for module in model.modules() if type(module).__name__ in kinds]
        self.layers = [(layer, torch.compile(layer.forward, dynamic=True)) for layer in layers]
        self.scorer = scorer

    def __call__(self, model: Any, batch: PackedBatch, value_head: Any = None) -> TokenScores:
        """Score a batch with compiled layers; a model other than that of ``__init__`` is scored with its own layers."""
        with self.compiled():
            return self.scorer(model, batch, value_head)

    @contextmanager
    def compiled(self) -> Generator[None]:
        """Use the compiled layers within the context; copies of the model made outside of it have plain layers.

        The backward pass recomputes elementwise work and rounded weights, but not attention, instead of keeping them: two thirds of the memory, in the
        same time. Programs do not assume that sizes which are equal in the first batch, such as the row's and the head's, are equal in all. Numbers
        such as the scale of attention are constants: as inputs they would have each layer traced twice.
        """
        with (
            forwards(self.layers),
            functorch_config.patch(aggressive_recomputation=True, is_non_builtin_to_include=True),
            SHAPES.patch(use_duck_shape=False),
            tracing.patch(specialize_float=True),
        ):
            yield


def worth_compiling(model: Any, tokens: float) -> bool:
    """Return whether a run over this number of tokens is long enough for compiled layers; only on CPUs with a C++ compiler."""
    size = sum(parameter.numel() for parameter in model.parameters())
    return model.device.type == "cpu" and size * tokens >= WORTH and has_compiler()


def has_compiler() -> bool:
    """Return whether there is a C++ compiler."""
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        return False
    return True


def exact_scores(model: Any, sample: PackedBatch, scorer: Scorer) -> ScoresAndGradient:
    """Return the log-probabilities of a sample and their gradient in float32; FlashAttention, which has no float32, is replaced."""
    attention = model.config._attn_implementation
    if attention == VARLEN:
        model.set_attn_implementation(TREE)
        scorer = partial(token_scores, blocks=False)
    with in_float32(model), torch.autocast(model.device.type, enabled=False):
        exact = gradient_of(model, sample, scorer)
    model.set_attn_implementation(attention)
    return exact


def compiled_or_plain(model: Any, scorer: Scorer, batch: PackedBatch, precision: Precision) -> Scorer:
    """Return a scorer with compiled layers, or the given one, with a warning, if they cannot be compiled or compute something else.

    Log-probabilities and gradients of a sample of the batch must be as close to those in float32 as with plain layers
    (``reference_scorer.choose_scorer``). If a model of the same form passed in another run, it is enough that the layers can be compiled.
    """
    compiled, sample = CompiledScorer(model, scorer), sample_of(batch)
    file = check_file(f"compiled layers, {getattr(scorer, '__name__', 'whole rows')}", model)
    known = cached_check(file) is not None
    exact = None if known else exact_scores(model, sample, scorer)
    with precision():
        plain = None if known else gradient_of(model, sample, scorer)
        try:
            scored = gradient_of(model, sample, compiled)
        except RuntimeError as error:  # all errors of torch.compile are
            LOGGER.warning("layers are not compiled: %s. Set model.compile: never to skip the attempt", error)
            return scorer
    if exact is None or plain is None:
        return compiled
    distance = difference(scored, exact)
    if distance <= max(TOLERANCE, ROUNDING * difference(plain, exact)):
        cache_check(file)
        return compiled
    LOGGER.warning("layers are not compiled: log-probabilities or gradients would differ by %.2g", distance)
    return scorer
