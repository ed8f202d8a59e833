"""Compare the value that an attempt returned with the expected value, on plain data, outside the attempt's process.

The work is O(n log n) in the length of the value, whatever the attempt returns; an error while comparing means unequal. ``memo`` bounds the memory of
caches: workers are long-lived, and tests can be megabytes long.
"""

import ast
import io
import math
import re
import tokenize
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import wraps
from itertools import islice
from typing import Any, ParamSpec, TypeVar, cast

from upsolve.verify.sandbox.inside.values import Opaque, value_of

__all__ = [
    "LONGEST_NUMBER",
    "MOST_CHARACTERS",
    "NUMBER",
    "PLAIN",
    "Tolerance",
    "answers",
    "as_literal",
    "integer",
    "literal",
    "memo",
    "near",
    "shown",
    "text_or_none",
    "tolerance_of",
    "with_short_integers",
]

MOST_CHARACTERS = 8 << 20
"""Maximum characters of the arguments in one cache; small, since attempts at the same task arrive together."""
P = ParamSpec("P")
T = TypeVar("T")


def memo(function: Callable[P, T]) -> Callable[P, T]:
    """Cache a function of hashable positional arguments; the oldest entries are dropped when their text exceeds ``MOST_CHARACTERS``.

    Calls whose arguments are longer than that are not cached.
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
    """Return the number of characters of the texts in a tuple, including nested tuples."""
    sizes = (
        len(part) if isinstance(part, str) else characters_of(cast("tuple[object, ...]", part))
        for part in parts
        if isinstance(part, str | tuple)
    )
    return sum(sizes)


NUMBERS = (bool, int, float, complex)
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|infinity)", re.IGNORECASE | re.ASCII)
PLAIN = ("lines", "exact", "tokens", "apps", "livecodebench", "checker")
"""Comparisons without a tolerance."""
LONGEST_NUMBER = 400
"""Maximum characters of a number in an output; a longer number is compared as text."""
SHOWN_ITEMS, SHOWN_DEPTH, SHOWN_LENGTH, SHOWN_BITS = 30, 8, 100, 10_000


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Maximum distance of a number from an expected number e, by absolute value (see ``allowed``)."""

    absolute: float
    """Allowed distance, >= 0. If ``relative`` is None, ``absolute`` is also the allowed share of |e|, and the larger of both counts."""
    relative: float | None = None
    """Allowed share of |e|, added to ``absolute``, >= 0; None: ``absolute`` serves for both."""

    def allowed(self, expected: float) -> float:
        """Return absolute + relative |e|, as numpy.allclose; without ``relative``, absolute max(1, |e|). ``expected`` is |e|."""
        if self.relative is None:
            return self.absolute * max(1.0, expected)
        return self.absolute + self.relative * expected


class Pairs(list[Any]):
    """A dict as a list of (key, value) pairs: keys are not hashed, since an attempt could choose keys with colliding hashes."""


class Members(list[Any]):
    """A set as a list of its members, which are not hashed either."""


def decode(data: Any) -> Any:
    """Decode the data of ``values.plain``: dicts become ``Pairs``, sets ``Members``, malformed data ``Opaque``."""
    try:
        return value_of(data, Members, Pairs)
    except Exception:
        return Opaque()


@memo
def literal(source: str) -> Any:
    """Return the value of a Python literal; sets may be written as calls of ``set`` and ``frozenset``, and ``inf`` and ``nan`` as names.

    Raises:
        ValueError: the source is not a literal; the message shows the source.
    """
    short = with_short_integers(source)
    try:
        try:
            return ast.literal_eval(short)
        except (ValueError, TypeError):  # or it has sets of sets
            return value_in(ast.parse(short.strip(), mode="eval").body)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError) as error:
        raise ValueError(f"the expected value is not a Python literal: {source[:200]}") from error


def value_in(node: ast.expr) -> Any:
    """Return the value of an expression of literals, sets and floats (``literal``); raise as ``ast.literal_eval``."""
    match node:
        case ast.Name(id="inf" | "nan" as name):
            return float(name)
        case ast.Call(func=ast.Name(id="set" | "frozenset"), args=[], keywords=[]):
            return frozenset[Any]()
        case ast.Call(func=ast.Name(id="set" | "frozenset"), args=[ast.List() | ast.Tuple() | ast.Set() as items], keywords=[]):
            return frozenset(map(value_in, items.elts))
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str(text))], keywords=[]):
            return float(text)
        case ast.Set(elts=items):
            return frozenset(map(value_in, items))
        case ast.List(elts=items):
            return [*map(value_in, items)]
        case ast.Tuple(elts=items):
            return tuple(map(value_in, items))
        case ast.Dict(keys=keys, values=items) if None not in keys:
            return {value_in(key): value_in(item) for key, item in zip(keys, items, strict=True) if key}
        case ast.UnaryOp(op=ast.USub(), operand=ast.Name() | ast.Call() as operand):
            return -value_in(operand)
        case _:
            return ast.literal_eval(node)


@memo
def literal_text(source: str) -> str | None:
    """Return the canonical text of a literal; None for a value that is equal to no value, such as nan."""
    return text_or_none(literal(source))


def answers(data: Any, expected: str, compare: str) -> bool:
    """Return whether encoded data equals the value of a literal: by Python's ==, or within a tolerance.

    Comparisons of published sets accept more: a tuple for a list; with ``item`` also a list of the expected value alone; with ``apps`` also
    the first item of an expected list.
    """
    got, name = decode(data), compare.partition(":")[0]
    if is_answer(got, expected, compare):
        return True
    if name in ("apps", "item", "livecodebench") and type(got) is tuple:
        got = [*got]
        if is_answer(got, expected, compare):
            return True
    if name == "item":
        return type(got) is list and len(got) == 1 and is_answer(got[0], expected, compare)
    value = literal(expected) if name == "apps" else None
    return bool(value) and isinstance(value, list) and equal(got, value[0])


def is_answer(got: Any, expected: str, compare: str) -> bool:
    """Return whether a decoded value equals the value of a literal, within the tolerance that ``compare`` states, if any."""
    if compare.startswith(("floats", "item:")):
        try:
            return close(got, literal(expected), tolerance_of(compare))
        except Exception:  # caused by the attempt's value, so the attempt fails
            return False
    text = text_or_none(got)
    return text is not None and text == literal_text(expected)


def equal(got: Any, expected: Any) -> bool:
    """Return whether plain values are equal by Python's ==: 1 == 1.0 == True, a list is not a tuple, nan is equal to no value."""
    text = text_or_none(got)
    return text is not None and text == text_or_none(expected)


def text_or_none(value: Any) -> str | None:
    """Return the canonical text of a value; None if the value is equal to no value: it contains nan or an object, or is nested too deep."""
    try:
        return canonical(value)
    except Exception:
        return None


def canonical(value: Any) -> str:
    """Return the canonical text of a plain value; only equal values have the same text. ValueError if the value contains nan or is not plain data."""
    if isinstance(value, str):
        return f"s{len(value)}:{value}"
    if isinstance(value, NUMBERS):
        return number_text(value)
    if isinstance(value, Decimal | Fraction):
        return number_text(builtin_number(value))
    if value is None or value is ...:
        return str(value)
    if isinstance(value, bytes | bytearray):
        return f"b{value.hex()}"
    if isinstance(value, Pairs | dict):
        pairs: Iterable[Any] = value.items() if isinstance(value, dict) else value
        return f"{{{','.join(sorted(f'{canonical(key)}={canonical(item)}' for key, item in pairs))}}}"
    if isinstance(value, Members | set | frozenset):
        return f"<{','.join(sorted(map(canonical, value)))}>"
    if type(value) is list:
        return f"[{','.join(map(canonical, value))}]"
    if type(value) is tuple:
        return f"({','.join(map(canonical, value))})"
    raise ValueError(f"{type(value).__name__} is equal to no value")


def number_text(value: complex) -> str:
    """Return the canonical text of a number; equal numbers of all types have the same text. ValueError for nan."""
    if isinstance(value, complex):
        if value.imag:
            return f"{number_text(value.real)}+{number_text(value.imag)}j"
        value = value.real
    if isinstance(value, float):
        if value != value:
            raise ValueError("nan is equal to no value")
        if not value.is_integer():
            return value.hex()
    return f"i{int(value):x}"


def builtin_number(value: Decimal | Fraction) -> int | float:
    """Return the int or float that is equal to a number; ValueError if there is none, or its exponent exceeds ``LONGEST_NUMBER``."""
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) > LONGEST_NUMBER:
        raise ValueError("too long to compare")
    if isinstance(value, Fraction) or value.is_finite():
        integer = int(value)
        if integer == value:
            return integer
    if (number := float(value)) == value:
        return number
    raise ValueError("is equal to no int or float")


def close(got: Any, expected: Any, tolerance: Tolerance) -> bool:
    """Return whether plain values are equal, with numbers within the tolerance (see ``near``); nan is close to nothing.

    Lists, tuples, values of dicts and members of sets are compared recursively. Keys of dicts must be equal; members of sets
    are compared in sorted order.
    """
    got = float(got) if isinstance(got, Decimal | Fraction) else got
    if isinstance(expected, NUMBERS) and not isinstance(expected, bool):
        return isinstance(got, NUMBERS) and near(got, expected, tolerance)
    if isinstance(expected, dict):
        left = {canonical(key): value for key, value in got} if isinstance(got, Pairs) else {}
        right = {canonical(key): value for key, value in expected.items()}
        same = isinstance(got, Pairs) and len(got) == len(right) and left.keys() == right.keys()
        return same and all(close(left[key], value, tolerance) for key, value in right.items())
    if isinstance(expected, set | frozenset):
        got, expected = sorted(got, key=order) if isinstance(got, Members) else None, sorted(expected, key=order)
    if isinstance(expected, list | tuple):
        kind = list if isinstance(expected, list) else tuple
        same = type(got) is kind and len(got) == len(expected)
        return same and all(close(a, b, tolerance) for a, b in zip(got, expected, strict=True))
    return equal(got, expected)


def order(value: Any) -> tuple[Any, ...]:
    """Sort key for values of mixed types: numbers by value, sequences item by item, others by canonical text."""
    if isinstance(value, bool | int | float):
        return 0, value
    if isinstance(value, tuple | list) and not isinstance(value, Pairs | Members):
        return 1, *map(order, value)
    return 2, canonical(value)


def near(got: complex, expected: complex, tolerance: Tolerance) -> bool:
    """Return whether the difference of two numbers is within the tolerance (``Tolerance.allowed``); two integers must be equal."""
    if (isinstance(got, int) and isinstance(expected, int)) or got == expected:
        return got == expected
    try:
        return math.isfinite(abs(expected)) and abs(got - expected) <= tolerance.allowed(abs(expected))
    except OverflowError:  # an integer outside the range of float
        return False


def tolerance_of(compare: str) -> Tolerance:
    """Return the tolerance of a numeric comparison: ``NAME``, ``NAME:TOLERANCE`` or ``NAME:ABSOLUTE:RELATIVE``; without numbers, 1e-6.

    Raises:
        ValueError: the name or a number is invalid.
    """
    name, *numbers = compare.split(":")
    values = [float(number) if NUMBER.fullmatch(number) else math.nan for number in numbers] or [1e-6]
    valid = all(0 <= value < math.inf for value in values) and max(values) > 0
    if name not in ("floats", "item", "rows", "rows_in_order") or not valid or len(values) > 2:
        forms = "these four also as floats:TOLERANCE or floats:ABSOLUTE:RELATIVE"
        raise ValueError(f"compare must be {', '.join(PLAIN)}, item, floats, rows or rows_in_order ({forms}); got {compare!r}")
    return Tolerance(*values)


def shown(data: Any) -> str:
    """Return an abbreviated repr of encoded data, at most 100 characters."""
    try:
        return short(decode(data), 0)[:SHOWN_LENGTH]
    except (ValueError, RecursionError, MemoryError):
        return "a value too large to print"


def short(value: Any, depth: int) -> str:
    """Return the repr of a value, limited to a few members and a few levels of nesting."""
    if isinstance(value, Opaque):
        return "something that is not plain data"
    if depth > SHOWN_DEPTH:
        return "..."
    if isinstance(value, str | bytes):
        return repr(value[:SHOWN_LENGTH])
    if isinstance(value, int) and value.bit_length() > SHOWN_BITS:
        raise ValueError("the number is too long")
    if not isinstance(value, list | tuple):
        return repr(value)
    if isinstance(value, Pairs):
        return f"{{{', '.join(f'{short(k, depth + 1)}: {short(v, depth + 1)}' for k, v in islice(value, SHOWN_ITEMS))}}}"
    items = ", ".join(short(item, depth + 1) for item in islice(value, SHOWN_ITEMS))
    if isinstance(value, Members):
        return f"{{{items}}}" if value else "set()"
    return f"[{items}]" if isinstance(value, list) else f"({items}{',' * (len(value) == 1)})"


DIGITS = 4_000
"""Number of digits up to which Python itself converts integers."""
MOST_DIGITS = 200_000
"""Most digits of an integer that is converted, which takes 0.1 s."""
LONG = re.compile(rf"[0-9_]{{{DIGITS + 1},}}")


def integer(text: str) -> int:
    """Return the integer that decimal text states, as ``parse_int`` of ``json.loads``.

    Raises:
        ValueError: the text is not an integer, or has more than ``MOST_DIGITS`` digits.
    """
    if len(text) <= DIGITS:
        return int(text)
    if text[0] in "+-":
        return -integer(text[1:]) if text[0] == "-" else integer(text[1:])
    if len(text) > MOST_DIGITS or not (text.isascii() and text.isdigit()):
        raise ValueError(f"not an integer of at most {MOST_DIGITS:,} digits: {text[:20]}...")
    half = len(text) // 2
    return integer(text[:-half]) * 10**half + integer(text[-half:])


def as_literal(value: Any) -> str:
    """Return a JSON value as a Python literal; long integers are in hexadecimal."""
    if isinstance(value, list):
        return f"[{', '.join(map(as_literal, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{as_literal(key)}: {as_literal(item)}' for key, item in value.items())}}}"
    return hex(value) if isinstance(value, int) and value.bit_length() > 3 * DIGITS else repr(value)


def with_short_integers(source: str) -> str:
    """Return Python code with its long decimal integers in hexadecimal, which Python reads at any length.

    Code that cannot be divided into tokens, and integers of more than ``MOST_DIGITS`` digits, stay as they are.
    """
    if not LONG.search(source):
        return source
    try:
        tokens = [*tokenize.generate_tokens(io.StringIO(source).readline)]
        lines = source.splitlines(keepends=True)
        for token in (one for one in reversed(tokens) if one.type == tokenize.NUMBER and LONG.fullmatch(one.string)):
            row, (start, end) = token.start[0] - 1, (token.start[1], token.end[1])
            lines[row] = lines[row][:start] + hex(integer(token.string.replace("_", ""))) + lines[row][end:]
        return "".join(lines)
    except (tokenize.TokenError, SyntaxError, ValueError, IndexError):
        return source
