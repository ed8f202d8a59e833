"""Detection of hard-coded answers: compares the inputs and answers in a program's tables with those in the visible tests."""

import ast
from collections.abc import Iterator, Sequence
from functools import lru_cache

from upsolve.reward.tree import Function, functions, literal, names_read, parse
from upsolve.types import Task, TestKind

__all__ = ["answers_of", "hard_coded", "parameters"]

Pair = tuple[tuple[str, ...], str]
"""Texts of inputs, sorted, and the text of the result."""
BASE_CASES = frozenset({"-3", "-2", "-1", "0", "1", "2", "3", "", "[]", "()", "{}", "set()", "None", "True", "False"})
"""Inputs that honest programs often handle separately, as they do single letters."""


def hard_coded(tree: ast.Module, task: Task) -> str:
    """Detect a table of answers: literal inputs that a program compares with or looks up, and whose result is what a visible test expects.

    At least two such tests are needed whose inputs are not base cases; one is enough if the function does nothing else with its parameters.
    At least half of the table's entries must be tests. Entries that are also in the reference's tables do not count.
    """
    expected = answers_of(task) - reference_pairs(task)
    table = set(pairs(tree))
    hits = {(inputs, result) for inputs, result in table & expected if not all(map(base_case, inputs))}
    if not hits or 2 * len(table & expected) < len(table):
        return ""
    function = functions(tree).get(task.entry_point)
    return f"holds the answers of {len(hits)} tests" if len(hits) > 1 or (function and only_compares(function)) else ""


def base_case(text: str) -> bool:
    """Return whether an input is a base case: a single character other than a digit, or one of ``BASE_CASES``."""
    return text in BASE_CASES or (len(text) == 1 and not text.isdigit())


def only_compares(function: Function) -> bool:
    """Return True if a function reads its parameters only in comparisons with literals and as keys."""
    own = set(parameters(function.args))
    used = sum(name.id in own for part in function.body for name in names_read(part))
    compared = 0
    for node in ast.walk(function):
        match node:
            case ast.Compare(left=left, comparators=[right]) if literal(right) is not None or literal(left) is not None:
                compared += sum(name.id in own for name in names_read(node))
            case ast.Subscript(slice=key) | ast.Match(subject=key) | ast.Call(func=ast.Attribute(attr="get"), args=[key, *_]):
                compared += sum(name.id in own for name in names_read(key))
            case _:
                pass
    return 0 < used == compared


@lru_cache(maxsize=4096)
def answers_of(task: Task) -> frozenset[Pair]:
    """Return the inputs and answers of the visible tests, as text."""
    answers: set[Pair] = set()
    for test in task.tests:
        if test.hidden:
            continue
        if test.kind is TestKind.STDIO:
            answers.add(((test.input.strip(),), test.expected.strip()))
        elif tree := parse(f"({test.input}) == {test.expected}" if test.kind is TestKind.CALL else test.input):
            answers.update(asserted(tree))
    return frozenset(answers)


def asserted(tree: ast.AST) -> Iterator[Pair]:
    """Yield every comparison of a call on literals with a literal."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=ast.Call(args=arguments), comparators=[right]):
                inputs, result = [literal(argument) for argument in arguments], literal(right)
                if result is not None and None not in inputs:
                    yield tuple(sorted(str(value) for value in inputs)), result
            case _:
                pass


@lru_cache(maxsize=4096)
def reference_pairs(task: Task) -> frozenset[Pair]:
    """Return the inputs and answers in the tables of a task's reference."""
    tree = parse(task.reference)
    return frozenset(pairs(tree)) if tree else frozenset()


def pairs(tree: ast.AST) -> Iterator[Pair]:
    """Yield literal inputs with a program's literal result: of equality branches, conditional expressions, match cases, dictionaries."""
    for node in ast.walk(tree):
        match node:
            case ast.If(test=test, body=body):
                yield from pair(compared(test), result_of(body))
            case ast.IfExp(test=test, body=value):
                yield from pair(compared(test), literal(value))
            case ast.match_case(pattern=ast.MatchValue(value=key), body=body):
                yield from pair(items(key), result_of(body))
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    yield from pair(items(key), literal(value))
            case _:
                pass


def pair(inputs: list[str | None], result: str | None) -> Iterator[Pair]:
    """Yield the pair of inputs and result if all are literals."""
    if inputs and result is not None and None not in inputs:
        yield tuple(sorted(str(value) for value in inputs)), result


def items(node: ast.expr | None) -> list[str | None]:
    """Return the text of a key; of a tuple, the texts of its members."""
    return [literal(member) for member in node.elts] if isinstance(node, ast.Tuple) else [literal(node)]


def compared(test: ast.expr) -> list[str | None]:
    """Return the literals that a condition compares inputs with for equality, one for each input."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            return [text for value in values for text in compared(value)]
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]):
            return items(left if literal(left) is not None else right)
        case _:
            return [None]


def result_of(body: Sequence[ast.stmt]) -> str | None:
    """Return the text of the literal that a branch returns, assigns or prints."""
    for node in body:
        match node:
            case ast.Return(value=value) | ast.Assign(value=value):
                return literal(value) if value else "None"
            case ast.Expr(value=ast.Call(func=ast.Name(id="print"), args=[value])):
                return literal(value)
            case _:
                pass
    return None


def parameters(arguments: ast.arguments) -> list[str]:
    """Return the names of all parameters, in order."""
    parameters = [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
    return [parameter.arg for parameter in parameters if parameter]
