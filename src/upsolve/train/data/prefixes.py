"""Groups whose prompts begin alike are put together, so that their common beginning is packed once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from upsolve.policy.tokens import common_prefix
from upsolve.train.data.encode import EncodedGroup

__all__ = ["PREFIX", "PrefixGroups", "chunks", "shared_prefixes"]

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

    A group joins others if that saves more tokens than the shorter prefix costs. It keeps at least one token of its prompt to itself.

    Args:
        groups: the groups.
        max_groups: most groups that are together.
        max_tokens: most packed tokens of groups that are together; a larger group is alone.
        enough: a smaller limit, where the prefix takes at most half of it and any two groups fit; None: none.
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
