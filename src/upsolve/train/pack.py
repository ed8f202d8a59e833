"""Groups -> packed batches: a prompt once for all its attempts, several groups a row.

Legend: B rows, L row length, T attempt tokens of the batch one after the other, S attempts of the batch.

    row:       [prompt a][attempt 1][attempt 2]...[prompt b][attempt 1]...[padding]
    attempt:   sees its own prompt and itself; positions go on from the end of the prompt, for every attempt anew
    token t:   its log-probability is read off the hidden state before it (the prompt's last one for the first token)
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from upsolve.config import OptimConfig, Recipe
from upsolve.objective.surrogate import soft_value
from upsolve.policy.tokens import Codec
from upsolve.train.groups import TrainGroup
from upsolve.types import Attempt, Status, content_id

__all__ = ["EncodedGroup", "PackedBatch", "encode_groups", "pack", "plan_steps"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EncodedGroup:
    """A group as token ids, only with the attempts that carry a gradient and fit."""

    prompt_P: tuple[int, ...]
    """Prompt token ids."""
    attempts: tuple[tuple[int, ...], ...]
    """Completion token ids."""
    advantages: tuple[float, ...]
    """One an attempt."""
    values: tuple[float, ...]
    """r_i - V, one an attempt (see LossInputs.values_S)."""
    behavior: tuple[float, ...]
    """Author's log-probability, nan where unknown."""
    malformed: tuple[bool, ...]
    """True where the code does not compile."""

    @property
    def tokens(self) -> int:
        """P + sum of R: what the group costs."""
        return len(self.prompt_P) + sum(len(ids) for ids in self.attempts)

    def attempt_keys(self) -> list[str]:
        """Return the content key of every attempt after its prompt."""
        prompt = str(self.prompt_P)
        return [content_id(prompt, str(ids)) for ids in self.attempts]


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """One forward and backward pass."""

    ids_BL: Ints
    """Token ids, 0 in the padding."""
    positions_BL: Ints
    """Positions, restarting after each prompt."""
    group_BL: Ints
    """Group within the row, -1 in the padding."""
    attempt_BL: Ints
    """Attempt within the group, 1..G; 0 in prompts and padding."""
    source_T: Ints
    """Index into B * L of the state that predicts the token."""
    target_T: Ints
    """The token predicted."""
    attempt_T: Ints
    """Attempt of the token, 0..S-1."""
    advantages_S: Floats
    """Advantage."""
    values_S: Floats
    """r - V."""
    behavior_S: Floats
    """Author's log-probability, nan where unknown."""
    malformed_S: NDArray[np.bool_]
    """True where the code does not compile."""
    keys: tuple[str, ...]
    """Content key of every attempt after its prompt."""


def soft_values(rewards_G: NDArray[np.float64], beta: float) -> NDArray[np.float64]:
    """r_i - beta log mean exp(r / beta) over the group (OAPL, 2602.19362)."""
    return rewards_G - float(soft_value(torch.from_numpy(rewards_G), beta=beta))


def encode_groups(groups: Sequence[TrainGroup], codec: Codec, recipe: Recipe) -> tuple[list[EncodedGroup], Counter[str]]:
    """Tokenise groups; attempts over ``data.max_tokens`` are left out and counted, as are those without a gradient."""
    encoded: list[EncodedGroup] = []
    left_out: Counter[str] = Counter()
    keep_zero = recipe.objective.kind == "oapl"
    for item in groups:
        prompt = codec.prompt(item.group.task).ids_P
        values = soft_values(item.rewards_G, recipe.objective.beta_value)
        kept: list[tuple[Attempt, tuple[int, ...], int]] = []
        for index, attempt in enumerate(item.group.attempts):
            ids = codec.completion(attempt.code, closed=not attempt.truncated)  # a cut attempt never closed its fence
            if not ids:
                left_out["attempts: empty"] += 1
            elif len(prompt) + len(ids) > recipe.data.max_tokens:
                left_out["attempts: over max_tokens"] += 1
            elif item.advantages_G[index] == 0 and not keep_zero:
                left_out["attempts: zero advantage"] += 1
            else:
                kept.append((attempt, ids, index))
        if kept:
            verdicts = item.group.verdicts
            encoded.append(
                EncodedGroup(
                    prompt_P=prompt,
                    attempts=tuple(ids for _, ids, _ in kept),
                    advantages=tuple(float(item.advantages_G[i]) for _, _, i in kept),
                    values=tuple(float(values[i]) for _, _, i in kept),
                    behavior=tuple(np.nan if a.behavior_logp is None else a.behavior_logp for a, _, _ in kept),
                    malformed=tuple((v := verdicts[i]) is not None and v.status is Status.COMPILE_ERROR for _, _, i in kept),
                )
            )
    return encoded, left_out


def chunks(groups: Sequence[EncodedGroup], budget: int) -> list[list[EncodedGroup]]:
    """Cut a sequence where the next group would go over the budget; a group over it stands alone."""
    parts: list[list[EncodedGroup]] = []
    used = budget + 1
    for group in groups:
        if used + group.tokens > budget:
            parts.append([])
            used = 0
        parts[-1].append(group)
        used += group.tokens
    return parts


def fit_rows(groups: Sequence[EncodedGroup], row_tokens: int) -> list[list[EncodedGroup]]:
    """Put groups into rows, longest first, each into the fullest row that has room (best fit decreasing)."""
    rows: list[tuple[int, list[EncodedGroup]]] = []
    for group in sorted(groups, key=lambda g: -g.tokens):
        open_rows = [i for i, (used, _) in enumerate(rows) if used + group.tokens <= row_tokens]
        if open_rows:
            best = max(open_rows, key=lambda i: rows[i][0])
            rows[best] = (rows[best][0] + group.tokens, [*rows[best][1], group])
        else:
            rows.append((group.tokens, [group]))
    return [row for _, row in sorted(rows, key=lambda r: -r[0])]


def plan_steps(groups: Sequence[EncodedGroup], optim: OptimConfig) -> list[list[PackedBatch]]:
    """Plan an epoch: optimiser steps of at most ``tokens_per_step``, each cut into batches of rows of like length."""
    steps: list[list[PackedBatch]] = []
    for part in chunks(groups, optim.tokens_per_step):
        batches: list[list[list[EncodedGroup]]] = []
        width = 0
        for row in fit_rows(part, optim.row_tokens):
            if not batches or width * (len(batches[-1]) + 1) > optim.tokens_per_batch:
                batches.append([])
                width = sum(group.tokens for group in row)
            batches[-1].append(row)
        steps.append([pack(rows) for rows in batches])
    return steps


def pack(rows: Sequence[Sequence[EncodedGroup]]) -> PackedBatch:
    """Lay rows of groups out as arrays."""
    length = max(sum(len(g.prompt_P) + sum(len(ids) - 1 for ids in g.attempts) for g in row) for row in rows)
    ids, positions, attempt = (np.zeros((len(rows), length), dtype=np.int64) for _ in range(3))
    owner = np.full((len(rows), length), -1, dtype=np.int64)
    source: list[NDArray[np.int64]] = []
    target: list[int] = []
    sizes: list[int] = []
    for b, row in enumerate(rows):
        at = 0
        for g, group in enumerate(row):
            prompt = len(group.prompt_P)
            end = at + prompt
            put(ids[b], positions[b], at, (group.prompt_P, 0))
            last = b * length + end - 1
            for index, tokens in enumerate(group.attempts, start=1):
                put(ids[b], positions[b], end, (tokens[:-1], prompt))
                attempt[b, end : end + len(tokens) - 1] = index
                source.append(np.concatenate([[last], b * length + end + np.arange(len(tokens) - 1)]))
                target += tokens
                sizes.append(len(tokens))
                end += len(tokens) - 1
            owner[b, at:end] = g
            at = end
    every = [group for row in rows for group in row]
    return PackedBatch(
        ids_BL=ids,
        positions_BL=positions,
        group_BL=owner,
        attempt_BL=attempt,
        source_T=np.concatenate(source),
        target_T=np.array(target, dtype=np.int64),
        attempt_T=np.repeat(np.arange(len(sizes)), sizes),
        advantages_S=np.array([a for g in every for a in g.advantages], dtype=np.float32),
        values_S=np.array([v for g in every for v in g.values], dtype=np.float32),
        behavior_S=np.array([v for g in every for v in g.behavior], dtype=np.float32),
        malformed_S=np.array([v for g in every for v in g.malformed], dtype=np.bool_),
        keys=tuple(key for g in every for key in g.attempt_keys()),
    )


def put(ids_L: Ints, positions_L: Ints, at: int, what: tuple[Sequence[int], int]) -> None:
    """Write tokens and their positions into a row."""
    tokens, first = what
    ids_L[at : at + len(tokens)] = tokens
    positions_L[at : at + len(tokens)] = np.arange(first, first + len(tokens))
