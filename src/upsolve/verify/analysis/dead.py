"""Dead code of Python programs: unreachable or unused code (Vulture) and, if executed lines are known, unexecuted code."""

import contextlib
import io
from collections.abc import Iterator, Sequence
from typing import Any

from upsolve.types import Finding
from upsolve.verify.analysis.source import Source
from upsolve.verify.analysis.syntax import parse

__all__ = ["dead", "unexecuted"]

NO_CODE = frozenset({"comment", "case_clause", "global_statement", "nonlocal_statement", "future_import_statement"})
CONSTANTS = frozenset({"string", "concatenated_string", "ellipsis", "integer", "float", "true", "false", "none"})


def dead(sources: Sequence[Source]) -> list[tuple[Finding, ...]]:
    """Return the findings of every program.

    Kinds: ``dead``, with Vulture's rule (``unreachable_code``, ``function``, ``import``, ...) and its confidence in [0.6, 1] as
    ``value``, except for names that the tests use; and ``unexecuted``, rule ``statement``, one per block of consecutive
    statements that no test executed.
    """
    return [(*unused(source), *unexecuted(source)) for source in sources]


def unused(source: Source) -> Iterator[Finding]:
    """Yield unused and unreachable code."""
    import vulture

    scanner: Any = vulture.Vulture()
    with contextlib.redirect_stderr(io.StringIO()):  # Vulture reports code that does not parse there
        scanner.scan(source.code)
    for item in scanner.get_unused_code():
        if item.name not in source.names or item.typ == "unreachable_code":
            share = item.confidence / 100
            yield Finding("dead", item.typ, item.message[:500], item.first_lineno, end_line=item.last_lineno, value=share)


def unexecuted(source: Source) -> Iterator[Finding]:
    """Yield blocks of consecutive statements that were not executed."""
    if source.executed is None:
        return
    ran, start, end = set(source.executed), 0, 0
    for first, last in statements(parse(source.code)):
        if not ran.isdisjoint(range(first, last + 1)):
            yield from idle(start, end)
            start = 0
        else:
            start, end = start or first, last
    yield from idle(start, end)


def idle(start: int, end: int) -> Iterator[Finding]:
    """Yield a finding for a block of unexecuted lines, unless it is empty."""
    if start:
        yield Finding("unexecuted", "statement", "no test runs this", start, end_line=end)


def statements(root: Any) -> Iterator[tuple[int, int]]:
    """Yield the first and the last line of every statement, in order; of a compound statement, those of its head."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.parent is not None and node.parent.type in ("module", "block") and has_code(node):
            first = node.start_point[0] + 1
            bodies = [
                child.start_point[0]
                for part in (node, *node.named_children)
                for child in part.named_children
                if child.type == "block"
            ]
            yield first, max(first, min(bodies, default=node.end_point[0] + 1))
        waiting += reversed(node.named_children)


def has_code(node: Any) -> bool:
    """Return whether a statement compiles to code; lone constants, declarations and annotations without a value do not."""
    if node.type != "expression_statement":
        return node.is_named and node.type not in NO_CODE
    inner = node.named_children[0] if node.named_child_count == 1 else None
    bare = inner is not None and inner.type == "assignment" and inner.child_by_field_name("right") is None
    return inner is None or not (bare or inner.type in CONSTANTS)
