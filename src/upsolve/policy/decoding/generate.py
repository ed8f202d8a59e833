"""Sample by transformers' ``generate``: slower than batched decoding, but works for every causal model of transformers.

Legend: B attempts decoded together, P prompt tokens, L tokens so far, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from transformers.generation.configuration_utils import GenerationConfig
from transformers.generation.logits_process import LogitsProcessor
from transformers.generation.stopping_criteria import StoppingCriteria

from upsolve.config import SampleConfig
from upsolve.policy.decoding.sampling import DecodeState
from upsolve.policy.request import Part, joint_requests
from upsolve.policy.tokens import Codec
from upsolve.types import Task

__all__ = ["generate_attempts"]

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


def generate_attempts(model: Any, codec: Codec, tasks: Sequence[Task], configs: Sequence[SampleConfig]) -> Iterator[list[Part]]:
    """Yield the attempts of each ``generate`` call in turn: up to ``batch`` attempts at one task, by all settings.

    The model's ``generation_config`` (penalties, end-of-text tokens) is replaced during the call and restored afterwards.
    """
    before, config = model.generation_config, configs[0]
    model.generation_config = GenerationConfig()
    plain = GenerationConfig(do_sample=False, max_new_tokens=config.max_tokens, pad_token_id=PAD, use_cache=True)
    try:
        for task in tasks:
            pending, ids_P = joint_requests(task, configs), codec.prompt(task).ids_P
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
