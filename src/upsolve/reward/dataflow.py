"""Data-flow similarity of two Python programs (CodeBLEU, 2009.10297)."""

import ast
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from upsolve.reward.code import names_read, parse

__all__ = ["dataflow_similarity", "edges"]

Edge = tuple[int, str, tuple[int, ...]]
"""(variable, relation, variables in its value), each variable as its number in the order of first appearance."""
Bound = tuple[ast.AST, ast.AST]
"""Target of an assignment, and the expression that is assigned."""


def dataflow_similarity(code: str, reference: str) -> float | None:
    """Return |edges(code) & edges(reference)| / |edges(reference)| in [0, 1], as multisets.

    Code that does not parse gives 0; a reference without edges gives 1. None if the reference does not parse.
    CodeBLEU extracts edges with tree-sitter; here they are extracted from Python's ``ast``, by name and without control flow.
    """
    reference_edges = edges(reference)
    if reference_edges is None:
        return None
    code_edges = edges(code)
    if code_edges is None:
        return 0.0
    return (reference_edges & code_edges).total() / reference_edges.total() if reference_edges else 1.0


@lru_cache(maxsize=4096)
def edges(code: str) -> Counter[Edge] | None:
    """Return the data-flow edges with their counts, None if the program does not parse.

    Each assignment is an edge (variable, ``from``, variables in the value), each read an edge (variable, ``read``, ()). Variables are
    parameters and assigned names, numbered by order of first appearance.
    """
    tree = parse(code)
    if tree is None:
        return None
    number = {name: index for index, name in enumerate(variables(tree))}
    counts: Counter[Edge] = Counter((number[name.id], "read", ()) for name in names_read(tree) if name.id in number)
    for target, value in bound(tree):
        sources = tuple(sorted({number[name.id] for name in names_read(value) if name.id in number}))
        counts.update((number[name], "from", sources) for name in stored(target))
    return counts


def variables(tree: ast.Module) -> list[str]:
    """Return the names of all variables in the order of first appearance in the text."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.arg | ast.Name)]
    assigned = set(stored(tree))
    nodes.sort(key=lambda node: (node.lineno, node.col_offset))
    names = (node.arg if isinstance(node, ast.arg) else node.id for node in nodes)
    return [name for name in dict.fromkeys(names) if name in assigned]


def stored(target: ast.AST) -> Iterator[str]:
    """Yield the names that an assignment to this target sets; for ``a[i]`` and ``a.b``, ``a``."""
    for node in ast.walk(target):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield from (name.id for name in [root(node)] if isinstance(name, ast.Name))


def root(node: ast.AST) -> ast.AST:
    """Return the innermost expression: ``a`` of ``a[i].b``."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node


def bound(tree: ast.Module) -> Iterator[Bound]:
    """Yield every assignment: target and value."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                yield from ((target, value) for target in targets)
            case ast.AugAssign(target=target, value=value):
                both = ast.Tuple([ast.Name(name, ast.Load()) for name in stored(target)] + [value], ast.Load())
                yield target, both
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
                yield target, value
            case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
                yield target, value
            case ast.comprehension(target=target, iter=value):
                yield target, value
            case ast.withitem(optional_vars=ast.expr() as target, context_expr=value):
                yield target, value
            case _:
                pass
