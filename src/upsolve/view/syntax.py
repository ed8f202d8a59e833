"""Spans of a program by the kind of its tokens, for colours."""

from functools import lru_cache
from typing import Any

__all__ = ["syntax_spans"]

MOST_CODE = 100_000
"""Characters of a program that is coloured."""
KINDS = ("Keyword", "String", "Comment", "Number", "Name.Function", "Name.Class", "Name.Builtin", "Operator.Word")
"""Kinds of tokens of Pygments that have a colour; a span names its kind by the place in this list."""
NAMES = {"pypy": "python", "duckdb": "sql", "text": "text"}
"""Languages that Pygments knows by another name."""


def syntax_spans(code: str, language: str) -> list[int]:
    """Return ``start, length, kind, ...`` of the coloured tokens of a program, in characters, each start after the end before it."""
    lexer = lexer_of(language) if len(code) <= MOST_CODE else None
    if lexer is None:
        return []
    spans, end = list[int](), 0
    for at, token, text in lexer.get_tokens_unprocessed(code):
        name = str(token).removeprefix("Token.").replace("Literal.", "")
        kind = next((number for number, known in enumerate(KINDS) if name == known or name.startswith(f"{known}.")), None)
        if kind is not None and text.strip():
            spans += [at - end, len(text), kind]
            end = at + len(text)
    return spans


@lru_cache(maxsize=32)
def lexer_of(language: str) -> Any:
    """Return Pygments' lexer of a language; None if it has none."""
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(NAMES.get(language, language), stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
