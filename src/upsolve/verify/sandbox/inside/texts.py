"""Values that are encoded as a text: paths, identifiers, zones, slices, and builtin types and functions by name.

Standard library only. Modules outside of ``builtins`` are imported where a value needs them.
"""

from __future__ import annotations

import json

from values import zone_of, zone_parts

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from typing import Any

__all__ = ["decode_copied", "encode_copied"]

TEXT_TYPES: dict[str, tuple[str, ...]] = {
    "pathlib": ("PosixPath", "PurePosixPath", "PureWindowsPath"),
    "uuid": ("UUID",),
    "zoneinfo": ("ZoneInfo",),
    "ipaddress": tuple(f"IPv{version}{kind}" for version in (4, 6) for kind in ("Address", "Network", "Interface")),
}
"""Types that a text constructs, by module."""
NAMED: dict[str, Any] = {
    one.__name__: one
    for kinds in (
        (bool, bytearray, bytes, complex, dict, float, frozenset, int, list, range, set, str, tuple),
        (abs, all, any, chr, divmod, len, max, min, ord, pow, repr, round, sorted, sum),
    )
    for one in kinds
}
"""Types and pure functions that are encoded by their name."""


def encode_copied(value: Any) -> str:
    """Encode a value of an exact type of these; return an empty string for any other."""
    kind = type(value)
    if kind is slice and all(part is None or type(part) is int for part in slice_parts(value)):
        return json.dumps(["made", "slice", json.dumps(slice_parts(value))])
    if value is NotImplemented:
        return json.dumps(["made", "constant", ""])
    if kind.__name__ == "timezone" and kind.__module__ == "datetime":
        return json.dumps(["made", "timezone", zone_parts(value)])
    if kind is type or kind is type(len):
        name = value.__name__
        return json.dumps(["made", "builtin", name]) if NAMED.get(name) is value else ""
    module, name = str(kind.__module__).partition(".")[0], kind.__name__
    return json.dumps(["made", f"{module}.{name}", str(value)]) if name in TEXT_TYPES.get(module, ()) else ""


def slice_parts(value: Any) -> list[Any]:
    """Return the arguments that make a slice."""
    return [value.start, value.stop, value.step]


def decode_copied(name: str, text: str) -> Any:
    """Decode a copied value; ValueError if the type, or such a value of it, does not exist."""
    if name == "slice":
        return slice(*json.loads(text))
    if name == "constant":
        return NotImplemented
    if name == "timezone":
        return zone_of(*json.loads(text))
    if name == "builtin":
        return NAMED[text]
    module, _, kind = name.partition(".")
    if kind not in TEXT_TYPES.get(module, ()):
        raise ValueError(f"an encoded value has the unknown type {name}")
    import importlib

    return getattr(importlib.import_module(module), kind)(text)
