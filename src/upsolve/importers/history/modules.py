"""The modules of a repository that a file needs, and the setup of a task that makes them importable."""

import ast
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from upsolve.importers.recogniser.asserts import parsed

__all__ = ["absolute", "closure", "module_name", "outside", "package_of", "setup_of"]

ROOTS = ("src", "lib")
"""Folders, at the top of a repository, that are no packages themselves but hold them."""
Modules = Mapping[str, str]
"""Name of a module -> its path in the repository."""
FINDER = Path(__file__).with_name("finder.py")


def module_name(path: str) -> str:
    """Return the name under which a file is imported: ``pkg.text`` for ``src/pkg/text.py``."""
    parts = path.removesuffix(".py").split("/")
    parts = parts[1:] if parts[0] in ROOTS and len(parts) > 1 else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def imports_of(tree: ast.AST, package: str) -> Iterator[str]:
    """Yield the names that the imports in a syntax tree may refer to: modules, and names in them, as ``pkg.text.slug``.

    Args:
        tree: the syntax tree.
        package: package of the file, to which relative imports refer.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node, package)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def absolute(node: ast.ImportFrom, package: str) -> str:
    """Return the name of the module from which an import takes names, without leading dots."""
    if not node.level:
        return node.module or ""
    parts = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*parts, *([node.module] if node.module else [])])


def package_of(path: str) -> str:
    """Return the package of a file: itself for an ``__init__.py``."""
    name = module_name(path)
    return name if path.endswith("__init__.py") else name.rpartition(".")[0]


def closure(
    sources: Iterable[tuple[str, str]], modules: Modules, attempted: str, read: Callable[[str], str | None]
) -> dict[str, tuple[str, str]]:
    """Return the modules that some files import, directly or not, and the packages that contain the attempt: name -> (path, text).

    Args:
        sources: (path, text) of the files.
        modules: all modules of the repository.
        attempted: module that is left out.
        read: returns the text of a path.
    """
    found: dict[str, tuple[str, str]] = {}
    waiting, names = [*sources], [attempted]
    while waiting or names:
        for part in (part for name in names for part in prefixes(name)):
            if part in modules and part not in found and part != attempted and (text := read(modules[part])) is not None:
                found[part] = modules[part], text
                waiting.append(found[part])
        path, source = waiting.pop() if waiting else ("", "")
        tree = parsed(source)
        names = [*imports_of(tree, package_of(path))] if tree else []
    return dict(sorted(found.items()))


def prefixes(name: str) -> Iterator[str]:
    """Yield ``a``, ``a.b``, ``a.b.c`` for ``a.b.c``."""
    parts = name.split(".")
    yield from (".".join(parts[: count + 1]) for count in range(len(parts)))


def outside(sources: Iterable[str], modules: Modules) -> list[str]:
    """Return the packages, neither of the standard library nor of the repository, that files import when they are loaded."""
    own = {name.partition(".")[0] for name in modules} | sys.stdlib_module_names
    found: set[str] = set()
    for source in sources:
        tree = parsed(source)
        body = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)] if tree else []
        for node in body:
            names = (
                [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""] * (not node.level)
            )
            found |= {name.partition(".")[0] for name in names}
    return sorted(found - own - {""})


def setup_of(attempted: str, path: str, needed: Mapping[str, tuple[str, str]]) -> str:
    """Return code that makes modules importable, with the attempt in place of one; it binds no name.

    Args:
        attempted: name of the module that the attempt replaces.
        path: its path.
        needed: name -> (path, text) of the other modules.
    """
    finder = FINDER.read_text(encoding="utf-8")
    return (
        f'exec({finder!r} + "\\ninstall(space, attempted, path, modules)", '
        f'{{"__name__": "finder", "space": globals(), "attempted": {attempted!r}, "path": {path!r}, "modules": {dict(needed)!r}}})'
    )
