"""Values of the standard library that cross between the processes as text, from which their type makes an equal one.

Standard library only.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from typing import Any

__all__ = ["made", "written"]

MODULES: dict[str, tuple[str, ...]] = {
    "pathlib": ("PosixPath", "PurePosixPath", "PureWindowsPath"),
    "uuid": ("UUID",),
    "ipaddress": tuple(f"IPv{version}{kind}" for version in (4, 6) for kind in ("Address", "Network", "Interface")),
}
"""Types that a text makes, by module."""
TYPES: dict[str, Any] = {
    kind.__name__: kind for kind in (bool, bytearray, bytes, complex, dict, float, frozenset, int, list, range, set, str, tuple)
}
"""Types that are themselves written, by their name."""


def written(value: Any) -> str:
    """Encode a value of an exact type of these; return an empty string for any other."""
    kind = type(value)
    if kind is type:
        name = value.__name__
        return json.dumps(["made", "type", name]) if TYPES.get(name) is value else ""
    module, name = str(kind.__module__).partition(".")[0], kind.__name__
    return json.dumps(["made", f"{module}.{name}", str(value)]) if name in MODULES.get(module, ()) else ""


def made(name: str, text: str) -> Any:
    """Decode a value; ValueError if there is no such type, or no such value of it."""
    if name == "type" and text in TYPES:
        return TYPES[text]
    module, _, kind = name.partition(".")
    if kind not in MODULES.get(module, ()):
        raise ValueError(f"no type {name}")
    import importlib

    return getattr(importlib.import_module(module), kind)(text)
