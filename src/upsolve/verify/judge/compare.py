"""Compare the value that an attempt gave with the expected one, on plain data, outside of its process.

Whatever an attempt gives, the work on it grows no faster than n log n with its length, and an error while comparing means unequal.
"""

import ast
import math
import re
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any

from upsolve.verify.judge.memo import memo
from upsolve.verify.sandbox.values import Opaque, value_of

__all__ = [
    "LONGEST_NUMBER",
    "NUMBER",
    "answers",
    "close",
    "decode",
    "equal",
    "literal",
    "near",
    "shown",
    "tolerance_of",
]

NUMBERS = (bool, int, float, complex)
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|infinity)", re.IGNORECASE | re.ASCII)
LONGEST_NUMBER = 400
"""Characters of a number in an output; a longer one equals only what is spelled the same."""
SHOWN_ITEMS, SHOWN_DEPTH, SHOWN_LENGTH, SHOWN_BITS = 30, 8, 100, 10_000


class Pairs(list[Any]):
    """A dict as its pairs: its keys are not hashed, for an attempt could choose keys whose hashes collide."""


class Members(list[Any]):
    """A set as its members, not hashed either."""


def decode(data: Any) -> Any:
    """Return the value that child.plain encoded; anything malformed becomes ``Opaque``. Dicts become ``Pairs``, sets ``Members``."""
    try:
        return value_of(data, Members, Pairs)
    except Exception:
        return Opaque()


@memo
def literal(source: str) -> Any:
    """Return the value of a Python literal (``set()``, ``inf`` and ``nan`` too).

    Raises:
        ValueError: it is not one; names it.
    """
    try:
        return ast.literal_eval(source)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError) as error:
        if source.strip().lstrip("-") in ("inf", "nan"):
            return float(source)
        raise ValueError(f"expected value is not a Python literal: {source[:200]}") from error


@memo
def literal_text(source: str) -> str | None:
    """Return the canonical text of a literal, None where it equals nothing."""
    return text_or_none(literal(source))


def answers(data: Any, expected: str, compare: str) -> bool:
    """Return whether encoded data is the value of a literal: in Python's sense, or within the tolerance of ``floats``."""
    got = decode(data)
    if compare.startswith("floats"):
        try:
            return close(got, literal(expected), tolerance_of(compare))
        except Exception:  # whatever the value did to the comparison, it is the attempt's value
            return False
    text = text_or_none(got)
    return text is not None and text == literal_text(expected)


def equal(got: Any, expected: Any) -> bool:
    """Return whether Python's == would hold between plain values: 1 == 1.0 == True, a list is no tuple, nan is nothing."""
    text = text_or_none(got)
    return text is not None and text == text_or_none(expected)


def text_or_none(value: Any) -> str | None:
    """Return the canonical text of a value, None where it equals nothing: it is or holds nan or an object, or is nested too deep."""
    try:
        return canonical(value)
    except Exception:
        return None


def canonical(value: Any) -> str:
    """Return a text that two plain values share if and only if they are equal.

    Raises:
        ValueError: the value, or a part of it, equals nothing.
    """
    if isinstance(value, str):
        return f"s{len(value)}:{value}"
    if isinstance(value, NUMBERS):
        return number_text(value)
    if isinstance(value, Decimal | Fraction):
        return number_text(builtin_number(value))
    if value is None:
        return "None"
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
    raise ValueError(f"{type(value).__name__} equals nothing")


def number_text(value: complex) -> str:
    """Return the same text for equal numbers, whatever their types; ValueError for nan."""
    if isinstance(value, complex):
        if value.imag:
            return f"{number_text(value.real)}+{number_text(value.imag)}j"
        value = value.real
    if isinstance(value, float):
        if value != value:
            raise ValueError("nan equals nothing")
        if not value.is_integer():
            return value.hex()
    return f"i{int(value):x}"


def builtin_number(value: Decimal | Fraction) -> int | float:
    """Return the int or float that equals a number.

    Raises:
        ValueError: there is none, or it has hundreds of digits before or behind the point.
    """
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) > LONGEST_NUMBER:
        raise ValueError("too long to compare")
    if isinstance(value, Fraction) or value.is_finite():
        whole = int(value)
        if whole == value:
            return whole
    if (number := float(value)) == value:
        return number
    raise ValueError("equals no number of Python's own")


def close(got: Any, expected: Any, tolerance: float) -> bool:
    """Return whether plain values are equal but for numbers within the tolerance (see ``near``); nan is close to nothing.

    It reaches into lists, tuples, values of dicts and members of sets. Keys of dicts must be equal; members of sets are compared in
    their sorted order.
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
    """Return a key that sorts members of any kind: numbers by value, sequences member by member, others by their canonical text."""
    if isinstance(value, bool | int | float):
        return 0, value
    if isinstance(value, tuple | list) and not isinstance(value, Pairs | Members):
        return 1, *map(order, value)
    return 2, canonical(value)


def near(got: complex, expected: complex, tolerance: float) -> bool:
    """Return |got - expected| <= tolerance * max(1, |expected|); two integers must be equal."""
    if (isinstance(got, int) and isinstance(expected, int)) or got == expected:
        return got == expected
    try:
        return math.isfinite(abs(expected)) and abs(got - expected) <= tolerance * max(1.0, abs(expected))
    except OverflowError:  # an integer beyond the range of floats
        return False


def tolerance_of(compare: str) -> float:
    """Return the tolerance of ``floats``, ``rows`` or ``rows_in_order`` (1e-6), or what follows a colon; ValueError names what is wrong."""
    name, _, given = compare.partition(":")
    value = float(given or "1e-6") if not given or NUMBER.fullmatch(given) else math.nan
    if name not in ("floats", "rows", "rows_in_order") or not 0 < value < math.inf:
        known = "lines, exact, tokens, floats, rows, rows_in_order (these three also as floats:TOLERANCE) or checker"
        raise ValueError(f"compare is {known}, not {compare!r}")
    return value


def shown(data: Any) -> str:
    """Return encoded data about as Python would print it, in at most 100 characters."""
    try:
        return short(decode(data), 0)[:SHOWN_LENGTH]
    except (ValueError, RecursionError, MemoryError):
        return "a value too large to print"


def short(value: Any, depth: int) -> str:
    """Return the beginning of a value's text: a few members, a few levels deep."""
    if isinstance(value, Opaque):
        return "something that is not plain data"
    if depth > SHOWN_DEPTH:
        return "..."
    if isinstance(value, str | bytes):
        return repr(value[:SHOWN_LENGTH])
    if isinstance(value, int) and value.bit_length() > SHOWN_BITS:
        raise ValueError("too long")
    if not isinstance(value, list | tuple):
        return repr(value)
    if isinstance(value, Pairs):
        return f"{{{', '.join(f'{short(k, depth + 1)}: {short(v, depth + 1)}' for k, v in islice(value, SHOWN_ITEMS))}}}"
    items = ", ".join(short(item, depth + 1) for item in islice(value, SHOWN_ITEMS))
    if isinstance(value, Members):
        return f"{{{items}}}" if value else "set()"
    return f"[{items}]" if isinstance(value, list) else f"({items}{',' * (len(value) == 1)})"
