"""Encoding of values between processes: JSON of tagged plain data of exact builtin types.

Numbers, text, True, False and None are written as JSON has them where that is exact; everything else is a list that begins with a tag.
Standard library only: it is shipped into the sandbox. Types outside of ``builtins`` are imported where a value needs them.
"""

from __future__ import annotations

import json
import sys

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "ABSTRACT",
    "BYTES",
    "DEEPEST_SHARED",
    "OWN",
    "QUESTIONS",
    "SCALARS",
    "Opaque",
    "as_builtin",
    "can_change",
    "has_objects",
    "pairs_of",
    "plain",
    "plain_base",
    "value_of",
    "zone_of",
    "zone_parts",
]

quoted = json.encoder.encode_basestring_ascii
EXACT = 1 << 53
"""Smaller integers are encoded as numbers, larger ones as hexadecimal text."""
DEEPEST = 300
"""Deepest nesting that is encoded for the judge; deeper values are opaque, since decoding is recursive."""
DEEPEST_SHARED = 900
"""Deepest nesting that is encoded between tester and attempt."""
LONGEST_NUMBER = 10_000
"""Most characters of a Decimal or of a part of a Fraction, since arithmetic on longer numbers takes too long for the judge."""
LONGEST_SHARED = 1_000_000
"""The same between tester and attempt, where processor time is limited."""
NUMBERS: tuple[tuple[type, str, Any], ...] = (
    (int, "int", hex),
    (float, "float", float.__repr__),
    (complex, "complex", complex.__repr__),
    (bytes, "bytes", bytes.hex),
    (bytearray, "bytearray", bytearray.hex),
)
"""Type, tag, and encoding function; methods of the exact type, never of a subclass."""
SCALARS = frozenset((int, str, float, bool, type(None), bytes, complex))
"""Immutable types of values that contain nothing."""
SEQUENCES: tuple[Any, ...] = (list, tuple, set, frozenset)
TOO_DEEP = '["opaque","too deep"]'
ISO = ("date", "datetime", "time")
ZONED = ("utcoffset", "tzname", "dst")
"""Methods of a time that ask its zone."""
HELD = ("kept", "remote", "exposed", "own", "made", "setup", "@", "sub", "raised")
"""Tags of values that are not plain data: ``kept``, ``remote``: an object of the attempt, by its number and for the first time; ``exposed``: an object of the tests; ``own``: a function of
the attempt by name; ``made``: copied as text; ``setup``: of the setup by name; ``@``: a container that both sides hold; ``sub``: an instance of a subclass of a builtin type; ``raised``: an exception of the attempt."""
BYTES = ("array", "ndarray")
"""Names of the types of arrays, whose items are compared as bytes."""
CHANGING = ("list", "dict", "set", "bytearray", "deque", "Counter", "OrderedDict", "defaultdict", *BYTES)
"""Names of the types of containers that can be changed."""
FACTORIES: tuple[Any, ...] = (None, int, float, str, list, set, dict, tuple, bool)
"""Factories of a defaultdict that keeps its type."""
VIEWS = ("dict_keys", "dict_items")
"""Views of dicts that are equal to sets; dict_values is equal to no other object."""
SETS: dict[str, Any] = {
    "set": set,
    "frozenset": frozenset,
    "dict_keys": lambda values: dict.fromkeys(values).keys(),  # pyright: ignore[reportUnknownLambdaType]
    "dict_items": lambda values: dict(values).items(),  # pyright: ignore[reportUnknownLambdaType]
}
"""Tag -> function that makes a set of its members, or an equal view."""
ABSTRACT = ("Sequence", "MutableSequence", "Set", "MutableSet", "Mapping", "MutableMapping")
"""Classes of ``collections.abc`` that a class extends by name; others are recognised by their methods."""
EQUAL: dict[str, Any] = {
    **dict.fromkeys(("UserList", "UserDict", "UserString"), lambda value: value.data),  # pyright: ignore[reportUnknownLambdaType]
    **dict.fromkeys(("ChainMap", "mappingproxy"), dict),
    "memoryview": bytes,
    "Pattern": lambda value: ("re.Pattern", value.pattern, value.flags),  # pyright: ignore[reportUnknownLambdaType]
    **dict.fromkeys(("SortedList", "SortedKeyList"), list),
    "SortedSet": set,
    **dict.fromkeys(("BooleanTrue", "BooleanFalse"), bool),
    "deque": lambda value: __import__("collections").deque(value, value.maxlen),  # pyright: ignore[reportUnknownLambdaType]
}
"""Name of a type of Python or of a package -> function that returns the equal value of a plain type."""
REBUILT = ("date", "datetime", "time", "timedelta", "Decimal", "Fraction")
"""Types of the standard library whose subclasses are rebuilt as the type itself, from their pickled arguments."""
OWN = ("attempt", "__main__", "tests")
"""Modules of the attempt and of the tests."""
ARRAYS = "biufcUSMm"
"""Kinds of numpy's arrays and scalars of numbers, texts, bytes and times."""
PAIRED = ("Counter", "OrderedDict")
"""Subclasses of dict whose type is kept."""

QUESTIONS = frozenset(
    "startswith endswith isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle "  # noqa: SIM905
    "isupper count index rindex find rfind issubset issuperset isdisjoint equals identical all any is_integer bit_length bit_count".split()
)
"""Methods of texts, containers and numbers that answer a question about them; for an object of the attempt, its own code would answer."""


def plain(
    value: Any,
    depth: int = 0,
    keep: Callable[[Any], str] | None = None,
    share: Callable[[Any, type, Callable[[], str]], str] | None = None,
) -> str:
    """Encode a value as JSON of tagged plain data.

    Subclasses of builtin types are written as the builtin types. Any other value is written by ``keep``; without ``keep`` it becomes opaque: equal to
    no value. Containers that can be changed and instances of subclasses are written by ``share``, given the value, its type and a function that
    encodes it; ``share`` returns an empty string for other values.
    """
    kind = type(value)
    if depth > DEEPEST and (depth > DEEPEST_SHARED or share is None):
        return TOO_DEEP
    if kind is str:
        return quoted(value)
    if kind is int:
        return int.__repr__(value) if -EXACT < value < EXACT else f'["int","{value:x}"]'
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is float and value - value == 0:  # finite
        return float.__repr__(value)
    return (share and share(value, kind, lambda: composite(value, depth, keep, share))) or composite(value, depth, keep, share)


def can_change(value: Any, kind: Any) -> bool:
    """Return whether a value is a mutable container of an exact type that can be encoded."""
    if kind.__name__ not in CHANGING or kind.__module__ not in ("builtins", "collections", "array", "numpy"):
        return False
    if kind.__name__ == "defaultdict":
        return value.default_factory in FACTORIES
    return kind.__name__ != "ndarray" or value.dtype.kind in ARRAYS or has_objects(value)


def has_objects(value: Any) -> bool:
    """Return whether a value is an array of objects."""
    return type(value).__name__ == "ndarray" and value.dtype.kind == "O"


def composite(value: Any, depth: int, keep: Any, share: Any) -> str:
    """Encode a value that is not a plain number or text."""
    kind = type(value)
    if kind is list or kind is tuple:  # most containers: without a further call for each item
        return tagged(kind.__name__, *[plain(item, depth + 1, keep, share) for item in value])

    def inner(item: Any) -> str:
        return plain(item, depth + 1, keep, share)

    if kind.__module__ == "numpy" and (found := library_value(value, kind, inner)):
        return found
    for base, tag, write in NUMBERS:
        if isinstance(value, base):
            return f'["{tag}","{write(value)}"]'
    if isinstance(value, str):
        return quoted(str.__str__(value))
    for base in SEQUENCES:
        if isinstance(value, base):
            return tagged(*sequence_tag(value, base), *map(inner, base.__iter__(value)))
    if isinstance(value, dict):
        pairs = [f"[{inner(k)},{inner(v)}]" for k, v in pairs_of(value)]
        if kind.__name__ == "defaultdict" and can_change(value, kind):
            factory: Any = getattr(value, "default_factory", None)
            return tagged("defaultdict", str(FACTORIES.index(factory)), *pairs)
        return tagged(kind.__name__ if kind.__name__ in PAIRED and kind.__module__ == "collections" else "dict", *pairs)
    if found := library_value(value, kind, inner):
        return found
    if keep:
        return keep(value)
    same = as_builtin(value)
    return tagged("opaque", quoted(kind.__name__)) if same is value else inner(same)


def pairs_of(value: Any) -> Any:
    """Return the items of a dict in the order of its keys; an OrderedDict has its own order, and a subclass may define one."""
    if type(value).__iter__ is not dict.__iter__ and type(value).__module__ != "copies":
        try:
            return [(key, dict.__getitem__(value, key)) for key in value]
        except Exception:  # other keys
            pass
    return dict.items(value)


def plain_base(kind: Any) -> Any:
    """Return the type, or its first base class, whose values equal those of a plain type (``as_builtin``); None if there is no such class."""
    for base in kind.__mro__:
        if base.__name__ in (*EQUAL, *REBUILT) and base.__module__ not in OWN:
            return base
    numbers: Any = sys.modules.get("numbers")
    if numbers is None or kind.__module__ in OWN or not issubclass(kind, numbers.Number):
        return None
    return next(base for base in (numbers.Integral, numbers.Rational, numbers.Real, numbers.Number) if issubclass(kind, base))


def as_builtin(value: Any) -> Any:
    """Return the equal value of a plain type, for example for a package's number; the value itself if there is no such value."""
    base = plain_base(type(value))
    if base is None:
        return value
    name = base.__name__
    if name in EQUAL:
        return EQUAL[name](value)
    if name in REBUILT:
        return base(*base.__reduce__(value)[1])
    if name == "Rational":
        from fractions import Fraction

        return Fraction(int(value.numerator), int(value.denominator))
    return {"Integral": int, "Real": float}.get(name, complex)(value)


def tagged(tag: str, *items: str) -> str:
    """Return a tag and its encoded items."""
    return f'["{tag}",{",".join(items)}]' if items else f'["{tag}"]'


def sequence_tag(value: Any, base: Any) -> tuple[str, ...]:
    """Return the tag of a sequence; the tag of a named tuple contains its name and fields."""
    fields = getattr(type(value), "_fields", None) if base is tuple and type(value) is not tuple else None
    if type(fields) is tuple and all(type(name) is str for name in fields):  # pyright: ignore[reportUnknownArgumentType]
        return "named", quoted(type(value).__name__), json.dumps(fields)
    return (base.__name__,)


def library_value(value: Any, kind: type, inner: Callable[[Any], str]) -> str:
    """Encode a value of an exact type of the standard library, or a number of numpy; return an empty string for any other."""
    name, module = kind.__name__, kind.__module__
    if kind is range:
        return tagged("range", plain(value.start), plain(value.stop), plain(value.step))
    if value is ...:
        return '["Ellipsis"]'
    if module == "array" and name == "array":
        return tagged(name, quoted(value.typecode), quoted(value.tobytes().hex()))
    if module == "decimal" and name == "Decimal":
        return tagged("Decimal", quoted(str(value)))
    if module == "fractions" and name == "Fraction":
        return tagged("Fraction", quoted(f"{value.numerator:x}"), quoted(f"{value.denominator:x}"))
    if module == "datetime" and name in ISO:
        return tagged(name, *moment_parts(value))
    if module == "builtins" and name in VIEWS:
        return tagged(name, *map(inner, value))
    if module == "datetime" and name == "timedelta":
        return tagged(name, *map(repr, (value.days, value.seconds, value.microseconds)))
    if module == "collections" and name == "deque":
        return tagged(name, plain(value.maxlen), *map(inner, value))
    if module == "numpy" and name == "ndarray" and value.dtype.kind in ARRAYS:
        return tagged(name, quoted(value.dtype.str), json.dumps(value.shape), quoted(value.tobytes().hex()))
    if module == "numpy" and has_objects(value):
        return tagged("objects", json.dumps(value.shape), *map(inner, value.flat))
    if (
        module == "numpy"
        and getattr(value, "shape", None) == ()
        and value.dtype.kind in ARRAYS
        and type(value.item()) is not kind
    ):
        return tagged("scalar", quoted(value.dtype.str), quoted(value.tobytes().hex()), plain(value.item()))
    return ""


def moment_parts(value: Any) -> list[str]:
    """Encode a date or time: in ISO format (without a named zone), whether it is the second of two equal times, and its zone."""
    zone: Any = getattr(value, "tzinfo", None)
    if type(zone).__module__ == "zoneinfo" and zone.key:
        return [quoted(value.replace(tzinfo=None).isoformat()), str(value.fold), quoted(zone.key)]
    if type(zone).__name__ == "timezone" and len(zone.__reduce__()[1]) > 1:
        return [quoted(value.replace(tzinfo=None).isoformat()), str(value.fold), zone_parts(zone)]
    if zone is not None and type(zone).__module__ != "datetime":
        return [quoted(value.replace(tzinfo=None).isoformat()), str(value.fold), json.dumps(own_zone_parts(value))]
    return [quoted(value.isoformat()), *([str(value.fold)] if getattr(value, "fold", 0) else [])]


def zone_parts(zone: Any) -> str:
    """Encode a ``datetime.timezone``: days, seconds and microseconds of its offset, and its name if it has one."""
    offset, *name = zone.__reduce__()[1]
    return json.dumps([offset.days, offset.seconds, offset.microseconds, *name])


def own_zone_parts(value: Any) -> list[Any]:
    """Return ``own``, and the offset, name and daylight-saving time that a zone of another class has for a time; None for what it lacks."""
    parts: list[Any] = ["own"]
    for name in ZONED:
        try:
            part = getattr(value, name)()
        except NotImplementedError:
            part = None
        parts.append(part if part is None or type(part) is str else [part.days, part.seconds, part.microseconds])
    return parts


def own_zone(*parts: Any) -> Any:
    """Decode a zone of another class (``own_zone_parts``): it has these values for every time."""
    import datetime

    known = [datetime.timedelta(*part) if isinstance(part, list) else part for part in parts]
    answers = {name: lambda _zone, _time, part=part: part for name, part in zip(ZONED, known, strict=True)}  # pyright: ignore[reportUnknownLambdaType]
    return type("tzinfo", (datetime.tzinfo,), answers)()


def zone_of(days: int, seconds: int, microseconds: int, *name: str) -> Any:
    """Decode a ``datetime.timezone`` (``zone_parts``)."""
    import datetime

    return datetime.timezone(datetime.timedelta(days, seconds, microseconds), *name)


def moment(kind: Any, text: str, fold: int = 0, zone: Any = "") -> Any:
    """Decode a date or time (``moment_parts``)."""
    value = kind.fromisoformat(text)
    if fold:
        value = value.replace(fold=fold)
    if isinstance(zone, list):
        return value.replace(tzinfo=own_zone(*zone[1:]) if zone[0] == "own" else zone_of(*zone))
    if zone:
        import zoneinfo

        value = value.replace(tzinfo=zoneinfo.ZoneInfo(zone))
    return value


class Opaque:
    """A value that is not plain data; equal to no value, not even to itself."""

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


SIMPLE: dict[str, Any] = {
    "int": lambda text: int(text, 16),  # pyright: ignore[reportUnknownLambdaType]
    "float": float,
    "complex": complex,
    "bytes": bytes.fromhex,
}


def value_of(data: Any, as_set: Any = None, as_dict: Any = None, held: Callable[..., Any] | None = None) -> Any:
    """Return the value that ``plain`` encoded; raises on malformed data.

    ``as_set`` and ``as_dict``, if given, make every set and dict from its members and pairs; a sequence is then returned as the equal builtin
    sequence. ``held`` decodes texts of ``keep``.
    """
    if not isinstance(data, list):
        if isinstance(data, dict):
            raise ValueError("an encoded value cannot be a JSON object")
        return data
    tag, *items = data
    if tag in SIMPLE:
        return SIMPLE[tag](items[0])
    if tag in HELD:
        return held(tag, *items) if held else Opaque()
    if tag == "dict" or tag in PAIRED or tag == "defaultdict":
        factory = FACTORIES[items.pop(0)] if tag == "defaultdict" else None
        pairs = [(value_of(k, as_set, as_dict, held), value_of(v, as_set, as_dict, held)) for k, v in items]
        return as_dict(pairs) if as_dict else dict_of(tag, pairs, factory)
    if tag == "named":
        name, fields, *items = items
        values = [value_of(item, as_set, as_dict, held) for item in items]
        return tuple(values) if as_set else named_tuple(name, tuple(fields))(*values)
    if tag in ("list", "tuple", "set", "frozenset", "deque", *VIEWS):
        values = [value_of(item, as_set, as_dict, held) for item in items]
        if tag == "list":
            return values
        if tag == "tuple":
            return tuple(values)
        if tag == "deque" and not as_set:
            import collections

            return collections.deque(values[1:], values[0])
        if tag == "deque":
            return Opaque()
        return as_set(values) if as_set else SETS[tag](values)
    if tag == "scalar":
        number = Opaque() if as_set else array_of(items[0], [], items[1])
        return value_of(items[2], as_set) if isinstance(number, Opaque) else number[()]
    if tag == "objects":
        return Opaque() if as_set else objects_of(items[0], [value_of(item, held=held) for item in items[1:]])
    if tag in BYTES:
        return Opaque() if as_set else (array_of if tag == "ndarray" else plain_array)(*items)
    if tag == "bytearray":
        return bytes.fromhex(items[0]) if as_set else bytearray.fromhex(items[0])
    return library_value_of(tag, items, longest=LONGEST_NUMBER if as_set else LONGEST_SHARED)


def library_value_of(tag: Any, items: list[Any], *, longest: int) -> Any:
    """Decode a value of a type of the standard library; a number with more than ``longest`` characters is opaque."""
    if tag == "range":
        return range(*map(value_of, items))
    if tag == "Ellipsis":
        return ...
    if tag in ("Decimal", "Fraction"):
        if max(map(len, items)) > longest or "s" in items[0].lower():  # a signalling NaN raises when it is compared
            return Opaque()
        if tag == "Decimal":
            from decimal import Decimal

            return Decimal(items[0])
        from fractions import Fraction

        return Fraction(int(items[0], 16), int(items[1], 16))
    if tag in (*ISO, "timedelta"):
        import datetime

        if tag == "timedelta":
            return datetime.timedelta(*items)
        return moment(getattr(datetime, tag), *items)
    return Opaque()


def dict_of(tag: str, pairs: list[tuple[Any, Any]], factory: Any) -> Any:
    """Decode an instance of a dict subclass, named by ``tag``, from its pairs."""
    if tag == "dict":
        return dict(pairs)
    import collections

    return collections.defaultdict(factory, pairs) if tag == "defaultdict" else getattr(collections, tag)(dict(pairs))


def plain_array(kind: str, data: str) -> Any:
    """Decode an ``array.array``."""
    import array

    made = array.array(kind)
    made.frombytes(bytes.fromhex(data))
    return made


def array_of(kind: str, shape: list[int], data: str) -> Any:
    """Decode an array; opaque if numpy is not loaded."""
    if "numpy" not in sys.modules or kind[1:2] not in ARRAYS:
        return Opaque()
    numpy: Any = sys.modules["numpy"]
    return numpy.frombuffer(bytearray.fromhex(data), numpy.dtype(kind)).reshape(shape)


def objects_of(shape: list[int], items: list[Any]) -> Any:
    """Decode an array of objects; opaque if numpy is not loaded."""
    if "numpy" not in sys.modules:
        return Opaque()
    numpy: Any = sys.modules["numpy"]
    array = numpy.empty(len(items), dtype=object)
    for index, item in enumerate(items):
        array[index] = item
    return array.reshape(shape)


named: dict[tuple[str, tuple[str, ...]], Any] = {}
"""Named-tuple classes by name and fields; values of one class share it."""


def named_tuple(name: str, fields: tuple[str, ...]) -> Any:
    """Return the class of a named tuple; ValueError or TypeError if its name or fields are invalid."""
    if (name, fields) not in named:
        import collections

        named[name, fields] = collections.namedtuple(name, fields)  # pyright: ignore[reportUntypedNamedTuple]
    return named[name, fields]
