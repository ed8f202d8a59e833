"""Names of languages on judges and sites -> names in upsolve."""

import ast
import re
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from upsolve.errors import ConfigError, SourceError
from upsolve.languages import PYTHON, languages
from upsolve.types import Task

__all__ = [
    "asking_for",
    "comparison_of",
    "is_language",
    "is_query_language",
    "judged_languages",
    "language_in",
    "language_looked_like",
    "languages_in",
    "no_language",
    "same_language",
]

MAKERS = re.compile(r"^(?:gnu|microsoft|ms|visual(?![ -]basic)|clang|apple|mono|oracle|node)[ -]+(?=[a-z])")
OTHERS_OF = {
    "ada": "adb",
    "c": "clang gcc",
    "c#": "monocs cs",
    "cpp": "cc clangx",
    "fortran": "f95 f03 f08",
    "java": "openjdk",
    "javascript": "v8js",
    "kotlin": "kt",
    "perl": "pl",
    "python": "py3 pythondata pypy pypy3 cpython",
}
OTHERS = {name: language for language, names in OTHERS_OF.items() for name in names.split()}
"""Names that are not aliases of a language here: tasks do not use them, or they stand for another language (PyPy runs Python)."""
INSIDE = {"cpp": re.compile(r"(?<![\w-])(?:c|g|clang)\+\+"), "c#": re.compile(r"(?<![\w-])c(?:#|[ -]?sharp)")}
"""Names that may stand inside longer names: ``GCC C++``, ``C/C++``, ``.NET Core C#``."""
PYTHON_2 = re.compile(r"^(?:gnu |py\.)?(?:c?python|pypy|pyth|py)(?:[\s(\[:_./,-]|c?python|pypy|version|v)*2")
VERSION = re.compile(r"\s*\(.*|\s+[\d.]+.*")


MARKS = {
    "cpp": re.compile(
        r"#\s*include\s*<(?:iostream|bits/stdc\+\+\.h|vector|string|algorithm|map|set|cmath|cstdio)>|\bstd::|\busing namespace std"
    ),
    "c": re.compile(r"#\s*include\s*[<\"]\w+\.h[>\"]"),
    "java": re.compile(r"\bpublic\s+(?:static\s+|final\s+)*(?:class|void)\b|\bSystem\.out\.print"),
    "go": re.compile(r"^package\s+\w+\s*$", re.MULTILINE),
    "rust": re.compile(r"\bfn\s+\w+\s*\(|\bprintln!\("),
    "c#": re.compile(r"\busing\s+System\b|\bConsole\.(?:Write|Read)"),
    "javascript": re.compile(r"\bconsole\.log\(|\brequire\(['\"]|^function\s+\w+\s*\(", re.MULTILINE),
    "php": re.compile(r"<\?php"),
    "sql": re.compile(
        r"\A\s*(?:--.*\n\s*)*\(?\s*(?:select\b[^;]*\bfrom\b|select\s+(?:[\d'(*]|\w+\()|with\s+(?:recursive\s+)?\S+[^;]*?\bas\s*\(\s*select\b)",
        re.IGNORECASE,
    ),
}
"""Language -> text that its programs nearly always contain; tried in this order on programs that are not Python."""


LONG = 50_000
"""Largest number of characters of a program that are examined."""


def language_looked_like(code: str) -> str:
    """Return the language that a program looks like (for a long one, its beginning): ``python`` if it can be parsed; empty if no language fits."""
    if len(code) > LONG:  # the tree of a program takes 300 times its memory
        code = code[: max((line.start() for line in re.finditer(r"^\w", code[:LONG], re.MULTILINE)), default=0) or LONG]
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return next((name for name, mark in MARKS.items() if mark.search(code)), "")
    return "python"


def judged_languages() -> Mapping[str, Any]:
    """Return the languages that the judge knows besides Python, by name and alias."""
    return languages()


def is_language(word: str) -> bool:
    """Return whether a word is a name of a language that the judge knows."""
    return language_in(word) in {"python", "python2", *judged_languages()}


def is_query_language(word: str) -> bool:
    """Return whether a name is that of a language of queries, such as ``sql``."""
    known = judged_languages().get(language_in(word))
    return known is not None and bool(known.engine)


def comparison_of(word: str) -> str:
    """Return the default comparison of outputs for tasks in a language: ``rows`` for queries, else ``lines``."""
    return "rows" if is_query_language(word) else "lines"


def asking_for(task: Task, language: str) -> Task:
    """Return a task that asks for a language if it accepted any; for an empty language the unchanged task, whose prompt asks for Python.

    Raises:
        ConfigError: no language has this name.
    """
    if task.language or not language:
        return task
    if not is_language(language):
        raise ConfigError(no_language("data.language", language))
    return replace(task, language=language_in(language))


def same_language(first: str, second: str) -> bool:
    """Return whether two names mean the same language; the empty name means Python."""
    return first == second or (language_in(first) or "python") == (language_in(second) or "python")


def languages_in(words: str) -> frozenset[str]:
    """Return the languages of names between commas, such as ``python,c++`` in the option ``--language``; none for an empty text.

    Raises:
        SourceError: no language has one of the names.
    """
    found = [word.strip() for word in words.split(",") if word.strip()]
    for word in found:
        if not is_language(word):
            raise SourceError(no_language("--language", word))
    return frozenset(map(language_in, found))


def no_language(option: str, word: str) -> str:
    """Return the message for an unknown language: option, name, similar names, and all languages."""
    known = judged_languages()
    names = sorted({"python", "python2", *(record.name for record in known.values())})
    close = get_close_matches(word.strip().lower(), {*names, *known, *OTHERS}, n=3)
    similar = f"did you mean {', '.join(close)}? " if close else ""
    return f"{option} {word}: no language has this name; {similar}the languages are {', '.join(names)}"


@lru_cache(maxsize=4096)
def language_in(word: str) -> str:
    """Return the language of a name such as ``C++17 (GCC 9.2.1)``, ``PyPy 3-64`` or ``Java 11``: without maker, compiler and version.

    Python 2 is ``python2``, so that it is not judged as Python 3. An unknown name is returned in lower case.
    """
    name = word.strip().lower()
    known = judged_languages()
    if PYTHON_2.search(name):
        return "python2"
    if inside := next((language for language, form in INSIDE.items() if form.search(name)), ""):
        return inside
    while (shorter := MAKERS.sub("", name)) != name:
        name = shorter
    first = re.match(r"[a-z#+]+", name)
    for form in (name, VERSION.sub("", name), re.split(r"[ (]", name)[0], first[0] if first else name):
        if form in PYTHON:
            return "python" if form else ""
        if form in OTHERS:
            return OTHERS[form]
        if form in known:
            return known[form].name
    return VERSION.sub("", name)
