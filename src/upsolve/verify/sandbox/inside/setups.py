"""Objects that both processes have from the task's setup, by name: classes, members of enumerations, ``object()`` as a mark, and variables.

Standard library only. Each process executes the setup for itself.
"""

from __future__ import annotations

import json

import values

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

__all__ = ["class_name", "note", "objects", "variables", "written"]

MODULES = ("attempt", "__main__", "tests")
"""Modules in which the two processes execute the setup."""
objects: dict[str, Any] = {}
"""Name -> object of this process; members of an enumeration as ``Color.RED``."""
names: dict[int, str] = {}
"""Id -> name of the setup's objects, and of objects that the attempt has replaced."""
held: list[Any] = []
"""All objects in ``names``, so that their ids stay in use."""


def note(space: dict[str, Any], bound: Iterable[str]) -> None:
    """Store the objects that these names have now."""
    for name, value in objects_in(space, bound):
        objects[name] = value
        names.setdefault(id(value), name)
        held.append(value)


def objects_in(space: dict[str, Any], bound: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yield classes that were defined here, members of enumerations, and marks, with their names."""
    for name in bound:
        value = space.get(name)
        if type(value) is object:
            yield name, value
        elif isinstance(value, type) and value.__module__ in MODULES and value.__qualname__ == name:
            yield name, value
            members = type.__getattribute__(value, "__dict__").get("_member_map_")
            for member, one in members.items() if isinstance(members, dict) else ():
                yield f"{name}.{member}", one


def written(value: Any) -> str:
    """Encode an object of the setup by its name; return an empty string for any other."""
    name = names.get(id(value)) if names else None
    return json.dumps(["setup", name]) if name else ""


def class_name(kind: type) -> str:
    """Return the name of the first class of the setup in a type's order of resolution; empty if there is none."""
    for base in kind.__mro__ if names else ():
        if id(base) in names:
            return names[id(base)]
    return ""


def variables(space: dict[str, Any], bound: Iterable[str]) -> dict[str, str | None]:
    """Return the data of variables, encoded; None for a variable that holds anything but data."""
    found: dict[str, str | None] = {}
    for name in bound:
        try:
            found[name] = values.plain(space.get(name), keep=no_data)
        except Exception:
            found[name] = None
    return found


def no_data(value: Any) -> str:
    """Raise TypeError: a value is not plain data."""
    raise TypeError(type(value).__name__)
