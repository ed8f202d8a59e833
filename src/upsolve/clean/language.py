"""Attempts whose code is in another language than they state; Python 2 is another language than Python 3.

A program that is valid in its stated language is never reported. Any other program is reported if it is valid in another language and contains
text that is hardly ever written by accident: a definition, an import, an assignment.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from typing import Any

from upsolve.archive.preference import OWN
from upsolve.clean.check import Check, Contents, Fault
from upsolve.languages import PYTHON, languages
from upsolve.verify.analysis.syntax import nodes_of, own_error, python_tree, tree_of

__all__ = ["LANGUAGE", "language_of"]

HINTS_OF_PYTHON_2 = re.compile(
    r"(?:^|[:;])[ \t]*print\b(?!\s*\()|\bexec\b(?!\s*\()|<>|\bexcept\b[^:\n]{0,200},|\braise\b[^\n]{0,200},|\bdef\s+\w+\([^)]{0,500}\(|\b\d+[lL]\b|\b0\d|^ *\t",
    re.MULTILINE,
)
"""Text that occurs in Python 2 programs and hardly ever in Python 3 programs; the syntax tree then decides."""
PYTHON_2 = frozenset(
    {"<>", "exec_statement", "print_statement", "expression_list in raise_statement", "tuple_pattern in parameters"}
)
"""Node types of tree-sitter that only exist in Python 2, some of them only within another node; the grammar reads both versions."""
ONLY_PYTHON_2 = (
    "Missing parentheses in call to",
    "inconsistent use of tabs",
    "invalid decimal literal",
    "leading zeros in decimal",
    "multiple exception types must be parenthesized",
)
"""Beginnings of CPython's messages about syntax that Python 2 allowed."""
MARKS: Mapping[str, re.Pattern[str]] = {
    "rust": re.compile(r"\bfn\s+\w+\s*[(<]"),
    "go": re.compile(r"^[ \t]*package\s+\w+|\bfunc\s+\w+\(", re.MULTILINE),
    "java": re.compile(r"\b(?:class|interface|enum)\s+\w+[^:{]{0,200}\{"),
    "javascript": re.compile(r"\bfunction\b[^:]{0,200}\{|\b(?:const|let)\s+\w+\s*=|\)\s*=>"),
    "typescript": re.compile(r"\bfunction\b.{0,200}\{|\b(?:const|let)\s+\w+\s*[:=]|\)\s*=>"),
    "php": re.compile(r"<\?php"),
    "c": re.compile(r"#\s*include\s*[<\"]|\)\s*\{"),
    "cpp": re.compile(r"#\s*include\s*[<\"]|\)\s*\{"),
}
"""Languages in which text of another language is hardly ever valid, in the order in which they are tried -> text that their programs contain."""
STATEMENTS = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.For, ast.While, ast.If)
DOUBTFUL = f"""
select attempt_id, any_value(language), any_value(code), list(place order by place)
from attempts where attempt_id not in (
    select attempt_id from verdicts where {OWN} and status in ('passed', 'failed')
) group by attempt_id order by min(place)
"""  # noqa: S608  a condition of ours
"""Query for programs that upsolve has not run; a program that ran is in its stated language."""


def language_of(code: str, language: str) -> str:
    """Return the language in which the code of an attempt is really written; "" if that is the stated one, or if none is found."""
    if not code.strip() or is_valid(code, language):
        return ""
    if language in PYTHON and is_python_2(code):
        return "python2"
    tree = None if language in PYTHON else python_tree(code)
    if tree and any(isinstance(node, STATEMENTS) for node in tree.body):
        return "python"
    others = (name for name, mark in MARKS.items() if name != language and name in installed() and mark.search(code))
    return next((name for name in others if not tree_of(code, name).has_error), "")


def is_valid(code: str, language: str) -> bool | None:
    """Return whether a program has no syntax error; None if its language has no grammar."""
    if language in PYTHON:
        return python_tree(code) is not None
    root = tree_of(code, language)
    return None if root is None else not root.has_error


def is_python_2(code: str) -> bool:
    """Return whether an invalid Python 3 program is valid in Python 2."""
    if not HINTS_OF_PYTHON_2.search(code):
        return False
    root = tree_of(code, "python")
    if root.has_error:
        return False
    found = (
        name for node in nodes_of(root) for name in (node.type, f"{node.type} in {node.parent.type if node.parent else ''}")
    )
    error = own_error(code)
    return any(name in PYTHON_2 for name in found) or (error is not None and error.message.startswith(ONLY_PYTHON_2))


@cache
def installed() -> frozenset[str]:
    """Return the languages of ``MARKS`` whose grammars are installed."""
    return frozenset(name for name in MARKS if find_spec(languages()[name].grammar.partition(":")[0]))


def find(contents: Contents, _options: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield attempts whose code is not in their language."""
    for attempt_id, language, code, places in contents.rows(DOUBTFUL):
        if found := language_of(code, language):
            reason = f"the language is {language or 'not stated'}, the code is {found}"
            yield from (
                Fault("attempts", place, attempt_id, reason, f"{found} code in {language or 'no language'}") for place in places
            )


LANGUAGE = Check(
    find,
    "attempts whose code is in another language than stated, Python 2 included",
    "they fail only by their syntax, and teach the wrong language if a recorded judge passed them",
    modules=("tree_sitter", "tree_sitter_python"),
)
