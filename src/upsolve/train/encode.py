"""Groups with advantages -> token ids, with what each attempt brings to the loss.

Legend: P prompt tokens, R tokens of one attempt.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from upsolve.advantage import soft_values
from upsolve.config import Recipe
from upsolve.policy.tokens import Codec
from upsolve.reward.credit import blame_weights, token_rewards
from upsolve.reward.judged import Judged
from upsolve.train.groups import TrainGroup
from upsolve.train.pairs import focal_weights
from upsolve.types import Status, content_id

__all__ = ["EncodedAttempt", "EncodedGroup", "encode_groups"]

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EncodedAttempt:
    """An attempt as token ids."""

    ids_R: tuple[int, ...]
    """Completion token ids."""
    advantages_R: Floats
    """Advantage of every token."""
    value: float = 0.0
    """r - V (see LossInputs.values_S)."""
    behavior: float = float("nan")
    """Author's log-probability, nats; nan where unknown."""
    malformed: bool = False
    """True where the code does not compile."""
    count: int = 1
    """How many equal attempts of its group it stands for, >= 1."""
    rewards_R: Floats | None = None
    """Reward of every token, where the advantages are to be made of them (``gae``)."""
    mask_R: NDArray[np.bool_] | None = None
    """False for tokens that count for nothing, such as those of lines that never ran; None: all count."""


@dataclass(frozen=True, slots=True)
class EncodedGroup:
    """A group as token ids, only with the attempts that carry a gradient and fit."""

    prompt_P: tuple[int, ...]
    """Prompt token ids."""
    attempts: tuple[EncodedAttempt, ...]
    """Its attempts, no two of them equal."""

    @property
    def tokens(self) -> int:
        """P + sum of R: what the group costs."""
        return len(self.prompt_P) + sum(len(one.ids_R) for one in self.attempts)

    def attempt_keys(self) -> list[str]:
        """Return the content key of every attempt after its prompt."""
        prompt = str(self.prompt_P)
        return [content_id(prompt, str(one.ids_R)) for one in self.attempts]


def mean(arrays: Sequence[Floats]) -> Floats:
    """Return the mean of arrays, place by place."""
    return np.stack(arrays).mean(0, dtype=np.float64).astype(np.float32)


def merged(attempts: Sequence[EncodedAttempt]) -> tuple[EncodedAttempt, ...]:
    """Return each different attempt once, with its count, and the mean of what its copies bring where that differs."""
    copies: dict[tuple[int, ...], list[EncodedAttempt]] = {}
    for one in attempts:
        copies.setdefault(one.ids_R, []).append(one)
    return tuple(
        replace(
            same[0],
            advantages_R=mean([one.advantages_R for one in same]),
            rewards_R=None if same[0].rewards_R is None else mean([one.rewards_R for one in same if one.rewards_R is not None]),
            value=float(np.mean([one.value for one in same])),
            count=len(same),
        )
        for same in copies.values()
    )


def by_token(recipe: Recipe) -> bool:
    """Return whether tokens of one attempt get something of their own."""
    return recipe.advantage.needs_values or recipe.advantage.blame > 0 or recipe.reward.mask_unexecuted


def laid_out(plain: EncodedAttempt, item: TrainGroup, index: int, codec: Codec, recipe: Recipe) -> EncodedAttempt:
    """Give the tokens of an attempt what is their own, where the recipe asks for that."""
    if by_token(recipe):
        return credited(plain, item, index, codec, recipe)
    objective = recipe.objective
    if objective.record.unit == "pair" and objective.preference.focal:
        attempt, other = item.group.attempts[index], item.group.attempts[1 - index]
        weights_R = focal_weights(attempt.code, other.code, codec.spans_of(attempt))
        return replace(plain, advantages_R=(plain.advantages_R * weights_R).astype(np.float32))
    return plain


def credited(plain: EncodedAttempt, item: TrainGroup, index: int, codec: Codec, recipe: Recipe) -> EncodedAttempt:
    """Lay rewards, advantages and the mask of what never ran on the tokens of an attempt."""
    attempt, verdict = item.group.attempts[index], item.group.verdicts[index]
    assert verdict is not None, "only judged attempts are weighed"
    judged = Judged(item.group.task, attempt, verdict)
    offsets = codec.spans_of(attempt)
    laid = token_rewards(judged, item.parts[index], offsets, recipe.reward)
    advantages_R = plain.advantages_R
    if recipe.advantage.blame and item.advantages_G[index] < 0:
        advantages_R = advantages_R * blame_weights(judged, offsets, recipe.advantage.blame)
    gae = recipe.advantage.needs_values
    return replace(
        plain,
        advantages_R=(advantages_R * laid.mask_R).astype(np.float32),
        rewards_R=laid.rewards_R.astype(np.float32) if gae else None,
        mask_R=laid.mask_R if recipe.reward.mask_unexecuted else None,
    )


def encode_groups(groups: Sequence[TrainGroup], codec: Codec, recipe: Recipe) -> tuple[list[EncodedGroup], Counter[str]]:
    """Tokenise groups; attempts over ``data.max_tokens`` are left out and counted, as are those without a gradient.

    Equal attempts of a group are read once, and count as many.
    """
    encoded: list[EncodedGroup] = []
    left_out: Counter[str] = Counter()
    objective = recipe.objective
    keep_zero = recipe.advantage.needs_values or objective.record.keeps_zero or objective.kl.coefficient > 0
    fewest = 1 if objective.record.unit == "attempt" else 2
    for item in groups:
        prompt = codec.prompt(item.group.task).ids_P
        values = soft_values(item.rewards_G, beta=objective.beta_value)
        kept: list[EncodedAttempt] = []
        for index, (attempt, verdict) in enumerate(zip(item.group.attempts, item.group.verdicts, strict=True)):
            ids = codec.ids_of(attempt)
            if not ids:
                left_out["attempts: empty"] += 1
            elif len(prompt) + len(ids) > recipe.data.max_tokens:
                left_out["attempts: over max_tokens"] += 1
            elif item.advantages_G[index] == 0 and not keep_zero:
                left_out["attempts: zero advantage"] += 1
            else:
                plain = EncodedAttempt(
                    ids_R=ids,
                    advantages_R=np.full(len(ids), item.advantages_G[index], dtype=np.float32),
                    value=float(values[index]),
                    behavior=float("nan") if attempt.behavior_logp is None else attempt.behavior_logp,
                    malformed=verdict is not None and verdict.status is Status.COMPILE_ERROR,
                )
                kept.append(laid_out(plain, item, index, codec, recipe))
        if len(attempts := merged(kept)) >= fewest:
            encoded.append(EncodedGroup(prompt, attempts))
        elif kept:
            left_out["attempts: nothing left to compare with"] += len(kept)
    return encoded, left_out
