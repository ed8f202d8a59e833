"""How many of the names that a task asks for a program defines, by the form of its text, in any language."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice

__all__ = ["defined_in"]

NEAR = 200
"""Characters of a line that are read on each side of a name."""
MOST = 2000
"""Occurrences of names that are read."""
IMPORTED = 0.5
"""What a name that is only imported counts."""
CASELESS = frozenset({"ada", "fortran", "pascal"})
KEYWORD = re.compile(
    r"(?<![\w$])(?:def|function|func|fun|fn|sub|class|struct|interface|enum|trait|type|module|let|rec|const|var|val|local|procedure|define"
    r"|object|record|package|my|our|auto|proc|subroutine|constant)(?:[ \t]*\([^()]*\))?[ \t(*&]*(?:\w+(?:\.|:{1,2}))?$",
    re.IGNORECASE,
)
"""A word that introduces a definition, at the end of the text before a name; a receiver of Go or a class may stand between."""
LINE_START = re.compile(r"^[ \t(]*(?:[\w.$]+[.:])?$")
ASSIGNED = re.compile(r"[ \t]*(?:=(?![=>])|<-|:{1,2}=|::|:[ \t]*(?:async[ \t]+)?(?:function\b|\())")
TYPED = re.compile(
    r"^[ \t]*(?!(?:return|else|new|throw|case|await|yield|not|and|or|in|assert|print|puts|echo|delete|goto|typeof)\b)[A-Za-z_][\w:<>,.*&\[\]?~ \t]*[ \t*&>\]:]$"
)
CALLED = re.compile(r"[ \t]*[(<]")
DECLARED = re.compile(r"[^\n{]*;[ \t\r]*(?:\n|$)")
METHOD = re.compile(r"[ \t]*\([^()\n]*\)[^\n;=]*\{")
EQUATION = re.compile(r"[^\n=]*=(?!=)")


def defined_in(text: str, names: Sequence[str], language: str) -> float:
    """Return how many of the names a program defines; a name that it imports alone counts a half."""
    if not names:
        return 0
    if language in ("python", "python2", "pypy"):
        defined, imported = python_forms(tuple(names))
        found = {next(filter(None, match.groups())) for match in defined.finditer(text)}
        return len(found) or IMPORTED * (imported.search(text) is not None)
    return len({name for name, before, after in uses(text, tuple(names), language) if is_defined(before, after, language)})


@lru_cache(maxsize=1024)
def python_forms(names: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the forms of definitions and of imports of names in Python."""
    any_name = "|".join(map(re.escape, names))
    defined = (
        rf"^[ \t]*+(?:async[ \t]++)?(?:def|class)[ \t]++({any_name})(?!\w)"
        rf"|^({any_name})(?!\w)[ \t]*+(?::[^=\n]*+)?=(?!=)"
    )
    return re.compile(defined, re.MULTILINE), re.compile(rf"^(?:from|import)\b[^\n]*\b(?:{any_name})(?!\w)", re.MULTILINE)


def uses(text: str, names: tuple[str, ...], language: str) -> list[tuple[str, str, str]]:
    """Return the names in a text, each with what is before and behind it on its line, and the next line."""
    flags = re.IGNORECASE if language in CASELESS else 0
    form = re.compile(rf"(?<![\w$])(?:{'|'.join(map(re.escape, names))})(?![\w$])", flags)
    found: list[tuple[str, str, str]] = []
    for match in islice(form.finditer(text), MOST):
        before = text[max(0, match.start() - NEAR) : match.start()]
        found.append(
            (match[0].lower() if flags else match[0], before.rpartition("\n")[2], text[match.end() : match.end() + NEAR])
        )
    return found


def is_defined(before: str, after: str, language: str) -> bool:
    """Return whether a name is defined where it stands, by the text around it."""
    if KEYWORD.search(before):
        return True
    if LINE_START.match(before):
        if ASSIGNED.match(after) or (language in ("haskell", "ocaml") and EQUATION.match(after)):
            return True
        method = METHOD.match(after)
        if method and "=>" not in method[0] and "function" not in method[0]:
            return True
    return TYPED.match(before) is not None and CALLED.match(after) is not None and DECLARED.match(after) is None
