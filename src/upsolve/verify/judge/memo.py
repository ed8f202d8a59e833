"""A memo bounded by the text it remembers: a worker lives as long as its pool, and tests can be megabytes long."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar, cast

__all__ = ["MOST_CHARACTERS", "memo"]

MOST_CHARACTERS = 2 << 20
"""Characters of arguments that one memo remembers; attempts at one task arrive together, so a small memo finds most."""
P = ParamSpec("P")
T = TypeVar("T")


def memo(function: Callable[P, T]) -> Callable[P, T]:
    """Remember what a function of hashable positional arguments returned, until their text exceeds ``MOST_CHARACTERS``; then forget all.

    An argument longer than an eighth of that is not remembered.
    """
    known: dict[tuple[object, ...], T] = {}
    held = 0

    @wraps(function)
    def remembered(*args: P.args, **named: P.kwargs) -> T:
        nonlocal held
        if args in known:
            return known[args]
        value = function(*args, **named)
        size = 64 + sum(len(part) for part in cast("tuple[object, ...]", args) if isinstance(part, str))
        if size <= MOST_CHARACTERS // 8:
            if held + size > MOST_CHARACTERS:
                known.clear()
                held = 0
            known[args] = value
            held += size
        return value

    return remembered
