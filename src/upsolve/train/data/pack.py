"""Encoded groups -> packed batches: each prompt once for all its attempts, a long beginning that prompts share once for all of them.

Legend: B rows, L row length, T attempt tokens of the batch one after the other, S attempts of the batch.

    row:       [prompt a][attempt 1][attempt 2]...[prefix of b and c][rest of prompt b][attempt 1]...[rest of prompt c]...[padding]
    attempt:   attends to its prompt, the prefix of its prompt, and itself; its positions continue those of the prompt
    token t:   its log-probability comes from the hidden state before it (for the first token, the last one of the prompt)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from upsolve.config import OptimConfig
from upsolve.policy.tokens import common_prefix
from upsolve.train.data.encode import EncodedGroup

__all__ = ["PackedBatch", "chunks", "pack", "pack_round", "plan_scoring", "plan_steps"]

PREFIX = 48
"""Tokens that prompts must share to be packed with a common prefix: a shorter one, such as a system prompt, saves too little."""
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class PrefixGroups:
    """Groups whose prompts begin alike."""

    groups: tuple[EncodedGroup, ...]
    """The groups, in order."""
    shared: int = 0
    """Tokens of the prefix that is packed once for all of them; 0 for a single group."""

    @property
    def tokens(self) -> int:
        """Tokens of these groups in a packed row."""
        return sum(group.tokens for group in self.groups) - (len(self.groups) - 1) * self.shared


def shared_prefixes(
    groups: Sequence[EncodedGroup], max_groups: int, max_tokens: int, enough: int | None = None
) -> list[PrefixGroups]:
    """Put groups whose prompts share at least ``PREFIX`` tokens together, in the order of their first groups.

    A group joins others, up to ``max_groups`` and ``max_tokens``, if packing the prefix once saves more tokens than the shorter
    prefix costs. At least one token of its prompt stays outside of the prefix. ``enough`` is a smaller token limit; it replaces
    ``max_tokens`` if the prefix fills at most half of it and any two of the groups fit.
    """
    order = sorted(range(len(groups)), key=lambda at: groups[at].prompt_P)
    runs: list[tuple[int, list[int]]] = []
    for at in order:
        shared, members = runs[-1] if runs else (0, [])
        common = common_prefix(groups[members[0]].prompt_P, groups[at].prompt_P) if members else 0
        joined = min(shared, common) if len(members) > 1 else common
        if joined >= PREFIX and len(members) * joined > (len(members) - 1) * shared:
            runs[-1] = (joined, [*members, at])
        else:
            runs.append((0, [at]))
    found: list[tuple[int, PrefixGroups]] = []
    for shared, members in runs:
        largest = max(groups[at].tokens for at in members) - shared
        limit = enough if enough and shared <= enough // 2 and shared + 2 * largest <= enough else max_tokens
        for few in chunks(sorted(members), max_groups, lambda _: 1):
            for part in chunks(few, limit - shared, lambda at, shared=shared: groups[at].tokens - shared):
                unit = PrefixGroups(tuple(groups[at] for at in part), shared if len(part) > 1 else 0)
                found.append((part[0], unit))
    return [unit for _, unit in sorted(found, key=lambda pair: pair[0])]


def chunks(items: Sequence[Item], budget: int, size: Callable[[Item], int]) -> list[list[Item]]:
    """Split items, in order, into lists of at most ``budget`` in ``size``; a larger item is the only one in its list."""
    parts: list[list[Item]] = []
    used = budget + 1
    for item in items:
        if used + size(item) > budget:
            parts.append([])
            used = 0
        parts[-1].append(item)
        used += size(item)
    return parts


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
    """Group within the row, -1 in the padding; a shared prefix is a group without attempts."""
    prefix_BL: Ints
    """Group of the prefix that the prompt of the token's group continues; -2 where there is none."""
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


T = TypeVar("T", EncodedGroup, PrefixGroups)


def tokens_of(group: EncodedGroup | PrefixGroups) -> int:
    """Return the tokens of a group."""
    return group.tokens


def attempts_of(group: EncodedGroup) -> int:
    """Return the attempts of a group as the denominator of the loss counts them, including merged attempts and those with advantage 0."""
    return sum(attempt.count for attempt in group.attempts) + group.zero_attempts


def fit_rows(groups: Sequence[T], row_tokens: int) -> list[list[T]]:
    """Put groups into rows, longest first, each into the fullest row that it fits in (best fit decreasing)."""
    rows: list[tuple[int, list[T]]] = []
    for group in sorted(groups, key=lambda g: -g.tokens):
        open_rows = [i for i, (used, _) in enumerate(rows) if used + group.tokens <= row_tokens]
        if open_rows:
            best = max(open_rows, key=lambda i: rows[i][0])
            rows[best] = (rows[best][0] + group.tokens, [*rows[best][1], group])
        else:
            rows.append((group.tokens, [group]))
    return [row for _, row in sorted(rows, key=lambda r: -r[0])]


def level_rows(groups: Sequence[T], budget: int, multiple: int) -> list[list[T]]:
    """Distribute groups over rows of similar length: the fewest rows within the budget, a multiple of ``multiple``.

    Longest first, each into the shortest row. A group over the budget has a row to itself; there are never more rows than groups.
    """
    wanted = -(-sum(group.tokens for group in groups) // budget)
    wanted = -(-wanted // multiple) * multiple
    while True:
        rows: list[list[T]] = [[] for _ in range(min(wanted, len(groups)))]
        used = [0] * len(rows)
        for group in sorted(groups, key=lambda g: -g.tokens):
            shortest = used.index(min(used))
            rows[shortest].append(group)
            used[shortest] += group.tokens
        if all(size <= budget or len(row) == 1 for size, row in zip(used, rows, strict=True)):
            return sorted(rows, key=lambda row: -sum(group.tokens for group in row))
        wanted += multiple


def plan_steps(groups: Sequence[EncodedGroup], optim: OptimConfig, *, processes: int = 1) -> list[list[PackedBatch]]:
    """Plan an epoch: optimiser steps of at most ``tokens_per_step`` tokens, or of ``attempts_per_step`` attempts, each split into micro-batches
    of at most ``tokens_per_batch``.

    A micro-batch is one row without padding, and the number of micro-batches, of similar length, is a multiple of ``processes``.
    With ``row_tokens`` it has several rows of similar length, for attention whose cost grows with the square of the row length.

    Groups whose prompts begin alike, such as questions about one database, share a micro-batch: at most ``prefix_groups`` of them. With
    ``prefix_groups`` 0 these groups fill at most half of a step, so that a step mixes tasks; or the whole step if the common beginning takes more
    than a quarter of it, or two groups more than half.
    """
    row, most = longest_row(optim), optim.prefix_groups or len(groups)
    if optim.attempts_per_step:
        parts = [shared_prefixes(part, most, row) for part in chunks(groups, optim.attempts_per_step, attempts_of)]
    else:
        half = None if optim.prefix_groups else min(row, optim.tokens_per_step // 2)
        units = shared_prefixes(groups, most, min(row, optim.tokens_per_step), half)
        parts = chunks(units, optim.tokens_per_step, tokens_of)
    return [in_batches(part, optim, processes) for part in parts]


def pack_round(
    groups: Sequence[EncodedGroup], optim: OptimConfig, *, orders: tuple[int, int] | None, processes: int
) -> list[list[PackedBatch]]:
    """Return the micro-batches of each step of a round; their number is a multiple of ``processes``.

    Online, ``orders`` is (seed, round): ``optim.epochs`` passes over the groups, each in random order. None: one pass, in order.
    """
    if orders is None:
        return plan_steps(groups, optim, processes=processes)
    steps: list[list[PackedBatch]] = []
    for epoch in range(optim.epochs):
        order = np.random.default_rng([*orders, 4, epoch]).permutation(len(groups))
        steps += plan_steps([groups[i] for i in order], optim, processes=processes)
    return steps


def plan_scoring(groups: Sequence[EncodedGroup], optim: OptimConfig) -> list[PackedBatch]:
    """Plan a pass that only scores attempts: micro-batches as ``plan_steps`` makes them, but any number of groups share a prefix."""
    units = shared_prefixes(groups, len(groups), longest_row(optim))
    return [batch for part in chunks(units, optim.tokens_per_batch, tokens_of) for batch in in_batches(part, optim, 1)]


def longest_row(optim: OptimConfig) -> int:
    """Return the token limit of a packed row."""
    return optim.row_tokens or optim.tokens_per_batch


def in_batches(units: Sequence[PrefixGroups], optim: OptimConfig, processes: int) -> list[PackedBatch]:
    """Pack the groups of a step into micro-batches."""
    if optim.row_tokens:
        batches = several_rows(fit_rows(units, optim.row_tokens), optim.tokens_per_batch)
    else:
        batches = [[row] for row in level_rows(units, optim.tokens_per_batch, processes)]
    return [pack([[group for unit in row for group in unit.groups] for row in rows]) for rows in batches]


def several_rows(rows: Sequence[list[T]], budget: int) -> list[list[list[T]]]:
    """Split rows, longest first, into batches within a token budget, padding included."""
    batches: list[list[list[T]]] = []
    width = 0
    for row in rows:
        if not batches or width * (len(batches[-1]) + 1) > budget:
            batches.append([])
            width = sum(group.tokens for group in row)
        batches[-1].append(row)
    return batches


class Grid:
    """The arrays of a packed batch while its rows are written."""

    def __init__(self, rows: int, length: int) -> None:
        self.ids, self.positions, self.attempt = (np.zeros((rows, length), dtype=np.int64) for _ in range(3))
        self.group, self.prefix = (np.full((rows, length), empty, dtype=np.int64) for empty in (-1, -2))
        self.source: list[Ints] = []
        self.target: list[int] = []
        self.sizes: list[int] = []

    def write_row(self, b: int, row: Sequence[PrefixGroups]) -> None:
        """Write groups, one prefix after the other, into row ``b``."""
        at = number = 0
        for unit in row:
            prefix_group = -2
            if unit.shared:
                self.put(b, at, unit.groups[0].prompt_P[: unit.shared], first=0)
                self.group[b, at : at + unit.shared] = prefix_group = number
                at, number = at + unit.shared, number + 1
            for group in unit.groups:
                end = self.write_group(b, at, group, shared=unit.shared)
                self.group[b, at:end] = number
                self.prefix[b, at:end] = prefix_group
                at, number = end, number + 1

    def write_group(self, b: int, at: int, group: EncodedGroup, *, shared: int) -> int:
        """Write a prompt, without the ``shared`` tokens of its prefix, and its attempts at ``at``; return where they end."""
        length = self.ids.shape[1]
        prompt = len(group.prompt_P)
        self.put(b, at, group.prompt_P[shared:], first=shared)
        end = at + prompt - shared
        last = b * length + end - 1
        for index, tokens in enumerate((attempt.ids_R for attempt in group.attempts), start=1):
            self.put(b, end, tokens[:-1], first=prompt)
            self.attempt[b, end : end + len(tokens) - 1] = index
            self.source.append(np.concatenate([[last], b * length + end + np.arange(len(tokens) - 1)]))
            self.target += tokens
            self.sizes.append(len(tokens))
            end += len(tokens) - 1
        return end

    def put(self, b: int, at: int, tokens: Sequence[int], *, first: int) -> None:
        """Write tokens into row ``b`` at ``at``, with positions from ``first`` on."""
        self.ids[b, at : at + len(tokens)] = tokens
        self.positions[b, at : at + len(tokens)] = np.arange(first, first + len(tokens))


def pack(rows: Sequence[Sequence[EncodedGroup]]) -> PackedBatch:
    """Pack rows of groups into arrays; groups of a row whose prompts begin alike come one after the other."""
    units = [shared_prefixes(row, len(row), sum(map(tokens_of, row))) for row in rows]
    grid = Grid(len(rows), max(sum(f.tokens - sum(len(g.attempts) for g in f.groups) for f in row) for row in units))
    for b, row in enumerate(units):
        grid.write_row(b, row)
    groups = [group for row in units for unit in row for group in unit.groups]
    attempts = [attempt for group in groups for attempt in group.attempts]
    return PackedBatch(
        ids_BL=grid.ids,
        positions_BL=grid.positions,
        group_BL=grid.group,
        prefix_BL=grid.prefix,
        attempt_BL=grid.attempt,
        source_T=np.concatenate(grid.source),
        target_T=np.array(grid.target, dtype=np.int64),
        attempt_T=np.repeat(np.arange(len(grid.sizes)), grid.sizes),
        advantages_T=np.concatenate([attempt.advantages_R for attempt in attempts]),
        group_S=np.repeat(np.arange(len(groups)), [len(group.attempts) for group in groups]),
        count_S=np.array([attempt.count for attempt in attempts], dtype=np.float32),
        values_S=np.array([attempt.value for attempt in attempts], dtype=np.float32),
        behavior_S=np.array([attempt.behavior for attempt in attempts], dtype=np.float32),
        sampler_logp_T=np.concatenate(
            [
                np.full(len(attempt.ids_R), np.nan, np.float32) if attempt.sampler_logps_R is None else attempt.sampler_logps_R
                for attempt in attempts
            ]
        ),
        zero_attempts=sum(group.zero_attempts for group in groups),
        zero_tokens=sum(group.zero_tokens for group in groups),
        malformed_S=np.array([attempt.malformed for attempt in attempts], dtype=np.bool_),
        keys=tuple(key for group in groups for key in group.attempt_keys()),
    )
