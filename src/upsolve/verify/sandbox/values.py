"""Values as they cross between processes: JSON of tagged plain data of exact builtin types.

Standard library only: it is shipped into the sandbox.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False  # typing itself is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Opaque", "plain", "value_of"]

quoted = json.encoder.encode_basestring_ascii
NUMBERS: tuple[tuple[type, str, Any], ...] = (
    (int, "int", hex),
    (float, "float", float.__repr__),
    (complex, "complex", complex.__repr__),
    (bytes, "bytes", bytes.hex),
    (bytearray, "bytes", bytearray.hex),
)
"""Type, tag, and how a value is written: by the type's own method, never by one of a subclass."""
SEQUENCES: tuple[Any, ...] = (list, tuple, set, frozenset)
EMPTY = {list: '["list"]', tuple: '["tuple"]', set: '["set"]', frozenset: '["set"]'}
TOO_DEEP = '["opaque","too deep"]'


def plain(value: Any, depth: int = 0) -> str:
    """Encode a value as JSON of tagged plain data of exact builtin types; anything else becomes opaque, equal to nothing."""
    kind = type(value)
    if depth > 100:
        return TOO_DEEP
    if kind is int:
        return f'["int","{value:x}"]'
    if kind is str:
        return f'["str",{quoted(value)}]'
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    for base, tag, write in NUMBERS:
        if isinstance(value, base):
            return f'["{tag}","{write(value)}"]'
    if isinstance(value, str):
        return f'["str",{quoted(str.__str__(value))}]'
    for base in SEQUENCES:
        if isinstance(value, base):
            items = [plain(item, depth + 1) for item in base.__iter__(value)]
            return f'["{"set" if base is frozenset else base.__name__}",{",".join(items)}]' if items else EMPTY[base]
    if isinstance(value, dict):
        pairs = [f"[{plain(k, depth + 1)},{plain(v, depth + 1)}]" for k, v in dict.items(value)]
        return f'["dict",{",".join(pairs)}]' if pairs else '["dict"]'
    return f'["opaque",{quoted(kind.__name__)}]'


class Opaque:
    """A value that is not plain data; equal to nothing, not even to itself."""

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


SIMPLE: dict[str, Any] = {
    "str": str,
    "int": lambda text: int(text, 16),  # pyright: ignore[reportUnknownLambdaType]
    "float": float,
    "complex": complex,
    "bytes": bytes.fromhex,
}


def value_of(data: Any, as_set: Any = set, as_dict: Any = dict) -> Any:
    """Return the value that ``plain`` encoded, its sets and dicts made from members and pairs; raises on malformed data."""
    if data is None or isinstance(data, bool):
        return data
    tag, *items = data
    if tag in SIMPLE:
        return SIMPLE[tag](items[0])
    if tag == "dict":
        return as_dict([(value_of(k, as_set, as_dict), value_of(v, as_set, as_dict)) for k, v in items])
    if tag in ("list", "tuple", "set"):
        return {"list": list, "tuple": tuple, "set": as_set}[tag]([value_of(item, as_set, as_dict) for item in items])
    return Opaque()
