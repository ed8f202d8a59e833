"""A function cache bounded by the text of its arguments: workers are long-lived, and tests can be megabytes long."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar, cast

__all__ = ["MOST_CHARACTERS", "memo"]

MOST_CHARACTERS = 8 << 20
"""Maximum characters of the arguments in one cache; small, since attempts at the same task arrive together."""
P = ParamSpec("P")
T = TypeVar("T")


def memo(function: Callable[P, T]) -> Callable[P, T]:
    """Cache a function of hashable positional arguments; the oldest entries go when their text exceeds ``MOST_CHARACTERS``.

    Calls with more than that are not cached.
    """
    cache: dict[tuple[object, ...], T] = {}
    characters = 0

    @wraps(function)
    def remembered(*args: P.args, **named: P.kwargs) -> T:
        nonlocal characters
        if args in cache:
            return cache[args]
        value = function(*args, **named)
        size = entry_size(args)
        if size <= MOST_CHARACTERS:
            while characters + size > MOST_CHARACTERS:
                oldest = next(iter(cache))
                characters -= entry_size(oldest)
                del cache[oldest]
            cache[args] = value
            characters += size
        return value

    return remembered


def entry_size(args: tuple[object, ...]) -> int:
    """Return the size of an entry, characters; short arguments count as 64."""
    return 64 + characters_of(args)


def characters_of(parts: tuple[object, ...]) -> int:
    """Return the number of characters of the texts in a tuple and in its tuples."""
    sizes = (
        len(part) if isinstance(part, str) else characters_of(cast("tuple[object, ...]", part))
        for part in parts
        if isinstance(part, str | tuple)
    )
    return sum(sizes)
