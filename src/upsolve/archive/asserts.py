"""Assert statements -> tests whose answers stay outside of the attempt's process."""

import ast

from upsolve.types import TestCase, TestKind

__all__ = ["parse_assert", "parse_asserts"]

PURE: dict[str, object] = {
    f.__name__: f for f in (set, frozenset, list, tuple, dict, sorted, range, float, int, str, len, sum, abs, max, min, round)
}
SIMPLE = (
    *(ast.Expression, ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.UnaryOp, ast.USub, ast.UAdd, ast.Load),
    *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Call, ast.Name),
)
LONGEST = 200


def constant(node: ast.expr) -> str | None:
    """Return the value of an expression of literals and pure builtins as a literal, or None where it is something else."""
    for part in ast.walk(node):
        if not isinstance(part, SIMPLE) or (isinstance(part, ast.Name) and part.id not in PURE):
            return None
        if isinstance(part, ast.BinOp) and len(ast.unparse(part)) > LONGEST:
            return None
    try:
        value = eval(compile(ast.Expression(node), "<expected>", "eval"), {"__builtins__": {}}, PURE)  # noqa: S307
        text = repr(value)
        ast.literal_eval(text)
    except Exception:
        return None
    return text


def parse_assert(source: str, *, hidden: bool = False) -> TestCase:
    """Return a CALL test for ``assert call == constant`` (either side), ``assert call`` and ``assert not call``, else CODE.

    A CODE test runs in the attempt's own process, so it is weaker: an attempt can see and fight it.
    """
    code = TestCase(TestKind.CODE, source.strip(), "", hidden)
    try:
        body = ast.parse(source.strip()).body
    except (SyntaxError, ValueError, RecursionError):
        return code
    if len(body) != 1 or not isinstance(body[0], ast.Assert):
        return code
    test = body[0].test
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq | ast.Is):
        for call, answer in ((test.left, test.comparators[0]), (test.comparators[0], test.left)):
            expected = constant(answer)
            if expected is not None and constant(call) is None:
                return TestCase(TestKind.CALL, ast.unparse(call), expected, hidden)
    wanted = not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not))
    inner = test if wanted else test.operand  # type: ignore[union-attr]
    if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name):
        return TestCase(TestKind.CALL, f"bool({ast.unparse(inner)})", repr(wanted), hidden)
    return code


def parse_asserts(sources: list[str], *, hidden: bool = False) -> tuple[TestCase, ...]:
    """Parse several statements."""
    return tuple(parse_assert(source, hidden=hidden) for source in sources)
