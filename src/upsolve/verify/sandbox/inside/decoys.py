"""Values that stand in for a value of the tests, to see whether an answer of the attempt depends on it.

Standard library only. An operator of the attempt may get a value of the tests in a second run. An operator that agrees to every value would then
pass as a right answer, so the tester also gives it other values of the same type.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from typing import Any

__all__ = ["decoys", "extremes"]

ORDINARY = 1e15
"""Largest float to which adding 1 makes a clear difference."""


def decoys(value: Any) -> list[Any]:
    """Return two or more values of a value's type that differ from it; none for a type whose values cannot be varied."""
    kind = type(value)
    if kind is float and not -ORDINARY < value < ORDINARY:
        return [0.0, 1.0] if value - value else [value / 2, value * 2]
    if kind in (int, float, complex) or kind.__module__ in ("decimal", "fractions"):
        return [value + 1, value - 1, 3 * value + 7]
    if kind is str or kind is bytes:
        a, b, c = (text if kind is str else text.encode() for text in ("a", "b", "c"))
        return [value + a, value[:-1] + (b if value[-1:].lower() != b else c)]
    if kind is list or kind is tuple:
        varied = decoys(value[0]) if value else []
        return [value + kind((0,)), value[:-1] if value else kind((None,)), *(kind((item, *value[1:])) for item in varied)]
    if kind is set or kind is frozenset:
        return [value | {"decoy"}, value - {next(iter(value))} if value else kind((0,))]
    if kind is dict:
        key = next(iter(value), None)
        return [{**value, "decoy": 0}, {name: value[name] for name in value if name != key} or {0: 0}, *varied_at(value, key)]
    if kind.__module__ == "datetime" and kind.__name__ in ("date", "datetime", "timedelta"):
        day: Any = sys.modules["datetime"].timedelta(1)
        return [value + day, value - day]
    return []


def varied_at(value: dict[Any, Any], key: Any) -> list[dict[Any, Any]]:
    """Return the dict with other values of a key."""
    return [{**value, key: item} for item in decoys(value[key])] if value else []


def extremes(value: Any) -> list[Any]:
    """Return values of a value's type that are smaller and larger than ordinary ones."""
    kind = type(value)
    if kind is int:
        return [-(10**30), 10**30]
    if kind is float:
        return [-1e300, 1e300]
    return ["", "\U0010ffff"] if kind is str else []
