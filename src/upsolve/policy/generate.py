"""Sample by transformers' own ``generate``: slower than lanes, for every kind of model that transformers has.

Legend: B attempts decoded at once, P prompt tokens, L tokens so far, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessor, StoppingCriteria

from upsolve.config import SampleConfig
from upsolve.policy.request import requests
from upsolve.policy.sampling import Draws
from upsolve.policy.tokens import Codec
from upsolve.types import Attempt, Task

__all__ = ["generated"]


class Drawn(LogitsProcessor):
    """Leaves of the logits what was drawn, so that the greedy choice is that."""

    def __init__(self, draws: Draws) -> None:
        self.draws = draws
        self.ended: list[Attempt] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return [B, V] with 0 at the tokens drawn from ``scores``, -inf elsewhere."""
        del input_ids
        tokens_B, ended = self.draws.take(scores.float())
        self.ended += ended
        return torch.full_like(scores, -torch.inf).scatter(-1, tokens_B[:, None], 0.0)


class Ended(StoppingCriteria):
    """Stops the rows whose attempts ended."""

    def __init__(self, draws: Draws) -> None:
        self.draws = draws

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Any:
        """Return bool [B]."""
        del input_ids, scores
        return self.draws.free_B


def generated(model: Any, codec: Codec, tasks: Sequence[Task], config: SampleConfig) -> Iterator[list[Attempt]]:
    """Yield the attempts that ended, up to ``config.batch`` of a task at a time.

    What the model's own ``generation_config`` says (penalties, ends of text) does not count meanwhile.
    """
    before = model.generation_config
    model.generation_config = GenerationConfig()
    plain = GenerationConfig(do_sample=False, max_new_tokens=config.max_tokens, pad_token_id=0, use_cache=True)
    try:
        for task in tasks:
            wanted, ids_P = requests([task], config), codec.prompt(task).ids_P
            while some := list(islice(wanted, config.batch)):
                draws = Draws(model, codec, config, len(some))
                for index, request in enumerate(some):
                    draws.begin(index, request)
                drawn, ids_BP = Drawn(draws), torch.tensor([ids_P] * len(some), device=model.device)
                how: dict[str, Any] = {"logits_processor": [drawn], "stopping_criteria": [Ended(draws)]}
                model.generate(ids_BP, attention_mask=torch.ones_like(ids_BP), generation_config=plain, **how)
                yield drawn.ended
    finally:
        model.generation_config = before
