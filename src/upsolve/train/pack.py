"""Encoded groups -> packed batches: each prompt once for all its attempts, several groups per row.

Legend: B rows, L row length, T attempt tokens of the batch one after the other, S attempts of the batch.

    row:       [prompt a][attempt 1][attempt 2]...[prompt b][attempt 1]...[padding]
    attempt:   attends to its prompt and itself; its positions continue those of the prompt
    token t:   its log-probability comes from the hidden state before it (for the first token, the last one of the prompt)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from upsolve.config import OptimConfig
from upsolve.train.encode import EncodedAttempt, EncodedGroup

__all__ = ["PackedBatch", "pack", "plan_steps"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """A micro-batch: the input of one forward and backward pass."""

    ids_BL: Ints
    """Token ids, 0 in the padding."""
    positions_BL: Ints
    """Positions; those of each attempt continue those of its prompt."""
    group_BL: Ints
    """Group within the row, -1 in the padding."""
    attempt_BL: Ints
    """Attempt within the group, 1..G; 0 in prompts and padding."""
    source_T: Ints
    """Index into B * L of the hidden state that predicts the token."""
    target_T: Ints
    """Id of the token."""
    attempt_T: Ints
    """Attempt of the token, 0..S-1."""
    advantages_T: Floats
    """Advantage of every token."""
    group_S: Ints
    """Group of each attempt within the batch."""
    count_S: Floats
    """How often each attempt occurs in its group."""
    values_S: Floats
    """r - V (``LossInputs.values_S``)."""
    behavior_S: Floats
    """Log-probability of the attempt under its author, nats; nan where unknown."""
    sampler_logp_T: Floats
    """Log-probability that the sampler gave the token, nats; nan where unknown."""
    zero_attempts: int
    """Attempts of its groups left out because their advantage is 0; they count in the denominators of the loss."""
    zero_tokens: int
    """Tokens of these attempts."""
    malformed_S: NDArray[np.bool_]
    """True where the code does not compile."""
    keys: tuple[str, ...]
    """Content key of every attempt (``EncodedGroup.attempt_keys``)."""


def chunks(groups: Sequence[EncodedGroup], budget: int) -> list[list[EncodedGroup]]:
    """Split groups, in order, into lists of at most ``budget`` tokens; a larger group is the only one in its list."""
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
    """Put groups into rows, longest first, each into the fullest row that it fits in (best fit decreasing)."""
    rows: list[tuple[int, list[EncodedGroup]]] = []
    for group in sorted(groups, key=lambda g: -g.tokens):
        open_rows = [i for i, (used, _) in enumerate(rows) if used + group.tokens <= row_tokens]
        if open_rows:
            best = max(open_rows, key=lambda i: rows[i][0])
            rows[best] = (rows[best][0] + group.tokens, [*rows[best][1], group])
        else:
            rows.append((group.tokens, [group]))
    return [row for _, row in sorted(rows, key=lambda r: -r[0])]


def level_rows(groups: Sequence[EncodedGroup], budget: int, multiple: int) -> list[list[EncodedGroup]]:
    """Distribute groups over rows of similar length: the fewest rows within the budget, a multiple of ``multiple``.

    Longest first, each into the shortest row. A group over the budget has a row to itself; there are never more rows than groups.
    """
    wanted = -(-sum(group.tokens for group in groups) // budget)
    wanted = -(-wanted // multiple) * multiple
    while True:
        rows: list[list[EncodedGroup]] = [[] for _ in range(min(wanted, len(groups)))]
        used = [0] * len(rows)
        for group in sorted(groups, key=lambda g: -g.tokens):
            shortest = used.index(min(used))
            rows[shortest].append(group)
            used[shortest] += group.tokens
        if all(size <= budget or len(row) == 1 for size, row in zip(used, rows, strict=True)):
            return sorted(rows, key=lambda row: -sum(group.tokens for group in row))
        wanted += multiple


def plan_steps(groups: Sequence[EncodedGroup], optim: OptimConfig, *, processes: int = 1) -> list[list[PackedBatch]]:
    """Plan an epoch: optimiser steps of at most ``tokens_per_step``, each split into micro-batches of at most ``tokens_per_batch``.

    A micro-batch is one row without padding, and the number of micro-batches, of similar length, is a multiple of ``processes``.
    With ``row_tokens`` it has several rows of similar length, for attention whose cost grows with the square of the row length.
    """
    steps: list[list[PackedBatch]] = []
    for part in chunks(groups, optim.tokens_per_step):
        if optim.row_tokens:
            batches = several_rows(fit_rows(part, optim.row_tokens), optim.tokens_per_batch)
        else:
            batches = [[row] for row in level_rows(part, optim.tokens_per_batch, processes)]
        steps.append([pack(rows) for rows in batches])
    return steps


def several_rows(rows: Sequence[list[EncodedGroup]], budget: int) -> list[list[list[EncodedGroup]]]:
    """Split rows, longest first, into batches within a token budget, padding included."""
    batches: list[list[list[EncodedGroup]]] = []
    width = 0
    for row in rows:
        if not batches or width * (len(batches[-1]) + 1) > budget:
            batches.append([])
            width = sum(group.tokens for group in row)
        batches[-1].append(row)
    return batches


def pack(rows: Sequence[Sequence[EncodedGroup]]) -> PackedBatch:
    """Pack rows of groups into arrays."""
    length = max(sum(g.tokens - len(g.attempts) for g in row) for row in rows)
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
            put(ids[b], positions[b], at, group.prompt_P, first=0)
            last = b * length + end - 1
            for index, tokens in enumerate((one.ids_R for one in group.attempts), start=1):
                put(ids[b], positions[b], end, tokens[:-1], first=prompt)
                attempt[b, end : end + len(tokens) - 1] = index
                source.append(np.concatenate([[last], b * length + end + np.arange(len(tokens) - 1)]))
                target += tokens
                sizes.append(len(tokens))
                end += len(tokens) - 1
            owner[b, at:end] = g
            at = end
    every = [one for row in rows for group in row for one in group.attempts]
    return PackedBatch(
        ids_BL=ids,
        positions_BL=positions,
        group_BL=owner,
        attempt_BL=attempt,
        source_T=np.concatenate(source),
        target_T=np.array(target, dtype=np.int64),
        attempt_T=np.repeat(np.arange(len(sizes)), sizes),
        advantages_T=np.concatenate([one.advantages_R for one in every]),
        group_S=np.repeat(np.arange(sum(map(len, rows))), [len(group.attempts) for row in rows for group in row]),
        count_S=np.array([one.count for one in every], dtype=np.float32),
        values_S=np.array([one.value for one in every], dtype=np.float32),
        behavior_S=np.array([one.behavior for one in every], dtype=np.float32),
        sampler_logp_T=np.concatenate([sampler_logps(one) for one in every]),
        zero_attempts=sum(group.zero_attempts for row in rows for group in row),
        zero_tokens=sum(group.zero_tokens for row in rows for group in row),
        malformed_S=np.array([one.malformed for one in every], dtype=np.bool_),
        keys=tuple(key for row in rows for group in row for key in group.attempt_keys()),
    )


def sampler_logps(one: EncodedAttempt) -> Floats:
    """Return the sampler's log-probabilities of an attempt's tokens [R], nan where they are unknown."""
    return np.full(len(one.ids_R), np.nan, dtype=np.float32) if one.sampler_logps_R is None else one.sampler_logps_R


def put(ids_L: Ints, positions_L: Ints, at: int, tokens: Sequence[int], *, first: int) -> None:
    """Write tokens into a row at ``at``, with positions from ``first`` on."""
    ids_L[at : at + len(tokens)] = tokens
    positions_L[at : at + len(tokens)] = np.arange(first, first + len(tokens))
