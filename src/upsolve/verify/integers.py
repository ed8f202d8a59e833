"""Decimal integers of more digits than Python converts by default (4,300), as text and back."""

import io
import re
import tokenize
from typing import Any

__all__ = ["as_literal", "integer", "with_short_integers"]

DIGITS = 4_000
"""Integers of at most so many digits are converted by Python itself."""
MOST_DIGITS = 200_000
"""Most digits of an integer that is converted: it takes 0.1 s."""
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
        tokens = [token for token in tokenize.generate_tokens(io.StringIO(source).readline) if is_long(token)]
        lines = source.splitlines(keepends=True)
        for token in reversed(tokens):
            row, (start, end) = token.start[0] - 1, (token.start[1], token.end[1])
            lines[row] = lines[row][:start] + hex(integer(token.string.replace("_", ""))) + lines[row][end:]
        return "".join(lines)
    except (tokenize.TokenError, SyntaxError, ValueError, IndexError):
        return source


def is_long(token: tokenize.TokenInfo) -> bool:
    """Return whether a token is a long decimal integer."""
    return token.type == tokenize.NUMBER and LONG.fullmatch(token.string) is not None
