"""Items of containers and what they refer to, read and replaced by methods of the builtin types alone, never of a subclass.

Standard library only.
"""

from __future__ import annotations

from gc import get_referents
from operator import is_

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from typing import Any

    from upsolve.verify.sandbox import values
else:
    import values

__all__ = ["ATOMS", "COPIED", "is_extended", "items_of", "overridden", "parts_of", "references", "replace", "same"]

ATOMS = frozenset((int, str, float, bool, type(None), bytes, complex))
"""Types of values that contain nothing."""
COPIED = (list, dict, set, bytearray)
"""Builtin types whose subclasses can be changed."""
BASES = (*COPIED, int, float, complex, str, bytes, tuple, frozenset)
"""Builtin types whose subclasses are sent as copies by the tests, and with a way to their own attributes by the attempt."""


def is_extended(value: Any, kind: type) -> bool:
    """Return whether a value is an instance of a subclass of a builtin type that has more than the latter; no number of numpy, no mere named tuple."""
    if kind.__module__ in ("builtins", "numpy") or not isinstance(value, BASES):
        return False
    fields = getattr(kind, "_fields", None)
    return fields is None or kind.__mro__[1] is not tuple or any(name[0] != "_" and name not in fields for name in vars(kind))


def overridden(kind: type) -> list[str]:
    """Return the special methods with which a subclass changes what its builtin type shows."""
    base = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    return [
        name
        for name in ("__str__", "__repr__", "__missing__", "__call__")
        if getattr(kind, name, None) is not getattr(base, name, None)
    ]


def items_of(value: Any) -> Any:
    """Return the items of a container, as a tuple or bytes."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, dict):
        return (*dict.keys(value), *dict.values(value))  # pyright: ignore[reportUnknownVariableType,reportUnknownMemberType]
    for base in values.SEQUENCES:
        if isinstance(value, base):
            return tuple(base.__iter__(value))
    return value.tobytes() if type(value).__name__ == "ndarray" else tuple(value)


def parts_of(value: Any) -> list[Any]:
    """Return the items of a container that may contain something, also those in its tuples and frozen sets."""
    parts: dict[int, Any] = {}
    waiting = [value]
    while waiting:
        items = {id(item): item for item in items_of(waiting.pop()) if type(item) not in ATOMS and id(item) not in parts}
        parts |= items
        waiting += [item for item in items.values() if isinstance(item, tuple | frozenset)]
    return [*parts.values()]


def references(holders: list[Any]) -> list[Any]:
    """Return what these objects, and tuples and frozen sets in them, refer to: once for each reference."""
    found: list[Any] = []
    seen: set[int] = set()
    while holders:
        items = [item for item in get_referents(holders.pop()) if type(item) not in ATOMS]
        found += items
        inner = [item for item in items if isinstance(item, tuple | frozenset) and id(item) not in seen]
        seen.update(map(id, inner))
        holders += {id(item): item for item in inner}.values()
    return found


def same(items: Any, known: Any) -> bool:
    """Return whether a container has the same items: the same objects, since comparing them may run code of the attempt."""
    if type(items) is bytes:
        return items == known
    return len(items) == len(known) and all(map(is_, items, known))


def replace(own: Any, value: Any) -> None:
    """Give a container the items of another of its type, or of that which its type extends; ValueError if the types differ."""
    if not isinstance(own, type(value)):
        raise ValueError(f"a {type(own).__name__} has become a {type(value).__name__}")
    if type(own).__name__ == "ndarray":
        own[...] = value
    elif type(own).__name__ == "deque":
        own.clear()
        own.extend(value)
    elif isinstance(own, dict):
        dict.clear(own)  # pyright: ignore[reportUnknownMemberType]
        dict.update(own, value)  # pyright: ignore[reportUnknownMemberType]
    elif isinstance(own, set):
        set.clear(own)  # pyright: ignore[reportUnknownMemberType]
        set.update(own, value)  # pyright: ignore[reportUnknownMemberType]
    else:
        base: Any = list if isinstance(own, list) else bytearray
        base.__setitem__(own, slice(None), value)
