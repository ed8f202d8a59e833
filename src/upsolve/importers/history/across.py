"""Tests of a repository in the two forms in which the judge can run them.

Across processes: imports of the attempt's functions are removed, and the judge sends each call to the attempt's process. Inside: the
statements run, with their imports, in the attempt's process, which could decide their outcome (label ``in_process``).
"""

import ast
from collections.abc import Sequence

from upsolve.importers.history.modules import parse
from upsolve.importers.history.statements import Test

__all__ = ["across", "functions_of", "inside"]


def functions_of(tree: ast.Module | None) -> frozenset[str]:
    """Return the functions that a module defines at its top level."""
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef)) if tree else frozenset()


def inside(test: Test) -> str:
    """Return a statement that executes a test in a new module, registered in ``sys.modules`` under the name of the test's file."""
    path = test.name.partition("::")[0]
    name = path.rpartition("/")[2].removesuffix(".py")  # as pytest names it where its folder is no package
    made = f"__import__('types').ModuleType({name!r})"
    space = (
        f"(lambda names, module: names.update({{{name!r}: module}}) or vars(module).update(__file__={path!r}) or vars(module))"
    )
    return f"exec(compile({test.code!r}, '<test>', 'exec'), {space}(__import__('sys').modules, {made}))"


def across(test: Test, attempted: str, functions: frozenset[str]) -> str:
    """Return a test that uses functions of the attempt without importing them; empty if it uses anything else of the attempt.

    Args:
        test: the test.
        attempted: module that the attempt replaces; packages that contain it may offer its functions, too.
        functions: its functions.
    """
    rewriter = Rewriter(attempted, functions)
    tree = ast.parse(test.code)
    for node in ast.walk(tree):
        rewriter.note(node)
    text = ast.unparse(ast.fix_missing_locations(rewriter.visit(tree)))
    rewritten = parse(text)
    return "" if rewriter.blocked or rewritten is None or uses(rewritten, attempted) else text


def uses(tree: ast.AST, attempted: str) -> bool:
    """Return whether a module, or a package that contains it, is imported."""
    homes = {attempted, *homes_of(attempted)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in homes:
            return True
        if isinstance(node, ast.Import) and any(alias.name in homes for alias in node.names):
            return True
    return False


def homes_of(attempted: str) -> Sequence[str]:
    """Return the packages that contain a module."""
    parts = attempted.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


class Rewriter(ast.NodeTransformer):
    """Replaces what imports of the attempt bind by the names of its functions."""

    def __init__(self, attempted: str, functions: frozenset[str]) -> None:
        """Set the module and its functions."""
        self.attempted, self.functions = attempted, functions
        self.homes = {attempted, *homes_of(attempted)}
        self.names: dict[str, str] = {}
        self.modules: set[str] = set()
        self.blocked = False

    def note(self, node: ast.AST) -> None:
        """Note what an import binds: functions by their names here, and the modules that offer them."""
        if isinstance(node, ast.ImportFrom) and node.module in self.homes:
            for alias in node.names:
                if alias.name in self.functions:
                    self.names[alias.asname or alias.name] = alias.name
                elif f"{node.module}.{alias.name}" in self.homes:
                    self.modules.add(alias.asname or alias.name)
                else:
                    self.blocked |= node.module == self.attempted
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in self.homes:
                    self.modules |= {alias.asname} if alias.asname else {alias.name, *homes_of(alias.name)}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        """Remove the attempt's functions and modules from an import."""
        if node.module in self.homes:
            node.names = [
                one for one in node.names if one.name not in self.functions and f"{node.module}.{one.name}" not in self.homes
            ]
        return node if node.names else None

    def visit_Import(self, node: ast.Import) -> ast.AST | None:
        """Remove the attempt's module, and packages that contain it, from an import."""
        node.names = [one for one in node.names if one.name not in self.homes]
        return node if node.names else None

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Replace another name of a function by its own."""
        return ast.Name(self.names[node.id], node.ctx) if node.id in self.names else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Replace ``module.function`` by ``function``."""
        if node.attr in self.functions and ast.unparse(node.value) in self.modules:
            return ast.Name(node.attr, node.ctx)
        return self.generic_visit(node)
