"""Draw the next tokens of attempts.

Legend: B attempts decoded at once, a row each, V vocabulary, N most likely tokens kept for the nucleus.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch
from torch import Tensor

from upsolve.config import SampleConfig
from upsolve.policy.request import Request
from upsolve.policy.tokens import Codec
from upsolve.types import Attempt, Task

__all__ = ["Draws", "draw"]

NUCLEUS = 128


def draw(logits_BV: Tensor, uniform_B: Tensor, *, temperature: float, top_p: float) -> Tensor:
    """Draw one token a row: softmax(logits / temperature) cut to the smallest set with mass >= top_p (1904.09751).

    The set is looked for among the 128 most likely tokens. Temperature 0 takes the most likely token.

    Args:
        logits_BV: [B, V] float32.
        uniform_B: [B] float32, the noise: uniform in [0, 1).
        temperature: >= 0.
        top_p: (0, 1].

    Returns:
        Token ids [B], int64.
    """
    if temperature == 0:
        return logits_BV.argmax(-1)
    if top_p >= 1:
        return invert((logits_BV / temperature).softmax(-1), uniform_B)
    probabilities, index = (logits_BV / temperature).softmax(-1).topk(min(NUCLEUS, logits_BV.shape[-1]), dim=-1)
    before = probabilities.cumsum(-1) - probabilities
    kept = probabilities.masked_fill(before >= top_p, 0)
    return index.gather(-1, invert(kept, uniform_B)[:, None])[:, 0]


def invert(weights_BN: Tensor, uniform_B: Tensor) -> Tensor:
    """Draw an index a row, as likely as its weight: invert the cumulative sum. torch.multinomial takes 40 times as long here."""
    total = weights_BN.cumsum(-1)
    return torch.searchsorted(total, uniform_B[:, None] * total[:, -1:], right=True)[:, 0].clamp(max=total.shape[-1] - 1)


@dataclass(slots=True)
class Row:
    """An attempt being decoded."""

    task: Task
    noise: Random
    ids: list[int] = field(default_factory=list[int])
    logps: list[float] = field(default_factory=list[float])
    entropy: float = 0.0


class Draws:
    """Attempts being decoded, a row each; a row that is None is free."""

    def __init__(self, model: Any, codec: Codec, config: SampleConfig, rows: int) -> None:
        """Take the model, its tokenizer, how to sample, and how many rows there are, all free."""
        self.codec, self.config, self.author = codec, config, str(model.name_or_path)
        self.stops_V = torch.from_numpy(codec.stop_mask(model.config.get_text_config().vocab_size)).to(model.device)
        self.rows: list[Row | None] = [None] * rows

    @property
    def busy(self) -> list[int]:
        """Return the rows that are not free."""
        return [index for index, row in enumerate(self.rows) if row is not None]

    @property
    def free_B(self) -> Tensor:  # noqa: N802  B is its axis
        """Return which rows are free, bool [B]."""
        return torch.tensor([row is None for row in self.rows], device=self.stops_V.device)

    def begin(self, index: int, request: Request) -> None:
        """Give a row to an attempt; its noise is its own."""
        self.rows[index] = Row(request.task, Random(request.seed))

    def take(self, logits_BV: Tensor) -> tuple[Tensor, list[Attempt]]:
        """Draw a token a row from float32 logits; return them, [B], and the attempts that ended, whose rows are free now."""
        noise = [0.0 if row is None else row.noise.getrandbits(24) / 2**24 for row in self.rows]  # float32 holds 24 bits
        uniform_B = torch.tensor(noise, device=logits_BV.device)
        tokens_B = draw(logits_BV, uniform_B, temperature=self.config.temperature, top_p=self.config.top_p)
        logp_BV = logits_BV.log_softmax(-1)
        entropy = torch.einsum("bv,bv->b", logits_BV.softmax(-1), logp_BV).neg().tolist()
        chosen = logp_BV.gather(-1, tokens_B[:, None])[:, 0].tolist()
        ended: list[Attempt] = []
        for index, (token, stops) in enumerate(zip(tokens_B.tolist(), self.stops_V[tokens_B].tolist(), strict=True)):
            row = self.rows[index]
            if row is None:
                continue
            row.ids.append(token)
            row.logps.append(min(chosen[index], 0.0))
            row.entropy += entropy[index]
            if stops or len(row.ids) >= self.config.max_tokens:
                ended.append(self.finish(row, truncated=not stops))
                self.rows[index] = None
        return tokens_B, ended

    def finish(self, row: Row, *, truncated: bool) -> Attempt:
        """Turn a row into an attempt."""
        return Attempt(
            task_id=row.task.task_id,
            code=self.codec.decode(row.ids),
            language=row.task.language or "python",
            author=self.author,
            behavior_logp=sum(row.logps),
            tokens=len(row.ids),
            entropy=max(row.entropy / len(row.ids), 0.0),
            truncated=truncated,
            token_ids=tuple(row.ids),
            token_logps=tuple(row.logps),
        )
