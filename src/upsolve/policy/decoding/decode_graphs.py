"""Decoding steps recorded as CUDA graphs: a step of a small model is some thousand short kernels, which take longer to launch than to run.

A graph computes the next steps as long as shapes and places of the cache stay the same. A step with new ones runs as usual, the next one is
recorded; ``BatchedCache.fixed`` makes changes rare.

Legend: B slots, Q new tokens of a slot, D hidden size.
"""

import logging
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from upsolve.policy.decoding.batched_decode import decode_step, forward
from upsolve.policy.decoding.kv_cache import BatchedCache, Step

__all__ = ["DecodeGraphs", "decoder_of"]

LOGGER = logging.getLogger("upsolve.policy")

Run = Callable[[], Tensor]


def record(run: Run) -> tuple[Callable[[], None], Tensor]:
    """Record what a function launches; return a function that launches it again, and the output that every launch overwrites."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run()
    return graph.replay, out


class DecodeGraphs:
    """Feeds the next tokens of each slot, like ``decode_step``; the hidden states returned are valid until the next call."""

    def __init__(self, model: Any, cache: BatchedCache) -> None:
        """Start without a recorded step; the cache keeps its shapes and places for as many steps as it can from now on."""
        self.model, self.cache = model, cache
        cache.fixed = True
        self.form: tuple[Any, ...] = ()
        self.replay: Callable[[], None] | None = None
        self.tokens_BQ = self.hidden_BQD = torch.empty(0)
        self.step: Step | None = None
        self.possible = True
        """Whether steps can be recorded, as far as is known."""

    def __call__(self, tokens_BQ: Tensor) -> Tensor:
        """Return the last hidden states [B, Q, D]."""
        with self.cache.decoding(tokens_BQ.shape[1]) as step:
            if (form := self.cache.form(step)) != self.form:
                self.form, self.replay = form, None
                return forward(self.model, self.cache, tokens_BQ)
            if self.replay is None and not (self.possible and self.record(tokens_BQ, step)):
                return forward(self.model, self.cache, tokens_BQ)
            assert self.replay is not None
            self.tokens_BQ.copy_(tokens_BQ)
            for name in tensors_of(step):
                getattr(self.step, name).copy_(getattr(step, name))
            self.replay()
            return self.hidden_BQD

    def record(self, tokens_BQ: Tensor, step: Step) -> bool:
        """Record the step and return whether that was possible; if not, all further steps run as usual."""
        self.tokens_BQ = tokens_BQ.clone()
        self.step = replace(step, **{name: getattr(step, name).clone() for name in tensors_of(step)})
        self.cache.step = self.step
        try:
            self.replay, self.hidden_BQD = record(partial(forward, self.model, self.cache, self.tokens_BQ))
        except RuntimeError as error:
            self.possible = False
            LOGGER.warning("decoding without CUDA graphs, which is slower: %s", error)
        self.cache.step = step
        return self.possible


def tensors_of(step: Step) -> list[str]:
    """Return the names of the tensors of a step."""
    return [field.name for field in fields(step) if isinstance(getattr(step, field.name), Tensor)]


def decoder_of(model: Any, cache: BatchedCache) -> Callable[[Tensor], Tensor]:
    """Return the function that feeds the next tokens of each slot: with graphs on GPUs, else ``decode_step``."""
    return DecodeGraphs(model, cache) if cache.device.type == "cuda" else partial(decode_step, model, cache)
