"""Python of checkers that read literals, or run stored programs on an answer; they run in the sandbox, as checkers do."""

from collections.abc import Mapping
from typing import Any

__all__ = ["CHECK_INPUT", "CHECK_TEST", "EQUAL", "held_checker"]

EQUAL = """
import ast

def check(input, expected, output):
    try:
        got = ast.literal_eval(output.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return False
    want = ast.literal_eval(expected)
    return type(got) is type(want) and got == want
"""
"""Checker of literals."""
HELD = '''
import ast, io, os, signal, sys

SECONDS = 1.0

class Late(BaseException):
    pass

def late(*_):
    raise Late

def literal(text):
    return ast.literal_eval(text.strip())

def call_in(text):
    """Return the arguments of a call of NAME, and the value that it is compared with, if any; None for another text."""
    try:
        body = ast.parse(text.strip()).body if len(text) < 20000 else []
        node = body[0] if len(body) == 1 else None
        node = node.test if isinstance(node, ast.Assert) else node.value if isinstance(node, ast.Expr) else None
        value = None
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            value, node = [ast.literal_eval(node.comparators[0])], node.left
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == NAME and not node.keywords:
            return [repr(ast.literal_eval(part)) for part in node.args], value
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        pass
    return None

def streams_in(text):
    """Return the input and the output of a test in the form of examples; None for another text."""
    if not text.startswith("Input:\\n") or "\\nOutput:\\n" not in text:
        return None
    given, _, output = text[len("Input:\\n"):].rpartition("\\nOutput:\\n")
    return given + "\\n", output

def run(code, given):
    """Return the value of a call in a list, or the output of a program; None if it raises or takes longer than SECONDS."""
    kept = sys.stdin, sys.stdout
    text = given if NAME == "" else ""
    sys.stdin, sys.stdout = (io.TextIOWrapper(io.BytesIO(part.encode())) for part in (text, ""))
    scope, out = {"__name__": "__main__"}, sys.stdout
    signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS, 0.1)
    try:
        exec(SETUP, scope)
        try:
            exec(compile(code, "program", "exec"), scope)
        except SystemExit:
            if NAME:
                return None
        if NAME:
            return [scope[NAME](*map(literal, given))]
        out.flush()
        return out.buffer.getvalue().decode()
    except BaseException:
        return None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        sys.stdin, sys.stdout = kept

def same(got, want):
    if got is None:
        return False
    if NAME == "":
        rows = [[line.split() if WORDS else line.rstrip() for line in text.rstrip().split("\\n")] for text in (got, want)]
        return rows[0] == rows[1] if not WORDS else sum(rows[0], []) == sum(rows[1], [])
    a, b = got[0], want[0]
    if type(a) is float and type(b) in (int, float):
        return abs(a - b) <= 1e-6 * max(1.0, abs(b))
    return type(a) is type(b) and a == b
'''
"""Python by which checkers run stored programs on an answer; it reads NAME (of the function; empty: programs), SETUP and WORDS."""
CHECK_INPUT = """
def check(input, expected, output):
    if NAME == "":
        return same(run(PROGRAM, output), VALUE)
    found = call_in(output)
    return found is not None and found[1] is None and same(run(PROGRAM, found[0]), VALUE)
"""
CHECK_TEST = """
def check(input, expected, output):
    found = call_in(output) if NAME else streams_in(output)
    if found is None or found[1] is None or found[0] in SHOWN:
        return False
    if not all(same(run(code, found[0]), found[1]) for code in RIGHT):
        return False
    return sum(not same(run(code, found[0]), found[1]) for code in WRONG) >= FAILS
"""


def held_checker(check: str, values: Mapping[str, Any]) -> str:
    """Return the text of a checker: its constants, the functions that run programs, and ``check``."""
    return "".join([*(f"{name} = {value!r}\n" for name, value in values.items()), HELD, check])
