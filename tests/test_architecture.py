"""The house as drawn: import order, no cycles, small files and functions, exported on purpose."""

import ast
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "upsolve"
FILES = sorted(file for file in SOURCE.rglob("*.py") if file.parts[-3] != "attacks")
GROUND = ("types", "errors", "files", "config", "plugins", "__init__")
ORDER = [
    "archive",
    "verify",
    "reward",
    "advantage",
    "objective",
    "policy",
    "train",
    "evaluate",
    "report",
    "experiment",
    "cli",
    "__main__",
]


def stage(module):
    return module.split(".")[1] if "." in module else "__init__"


def name_of(file):
    return ".".join(["upsolve", *file.relative_to(SOURCE).with_suffix("").parts])


def imports(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_a_stage_imports_only_from_its_left(file):
    mine = stage(name_of(file))
    for module in imports(ast.parse(file.read_text())):
        if not module.startswith("upsolve") or stage(module) in GROUND:
            continue
        if mine in GROUND:
            assert stage(module) in GROUND, module
        else:
            assert ORDER.index(stage(module)) <= ORDER.index(mine), f"{name_of(file)} imports {module}"


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_files_and_functions_are_small(file):
    text = file.read_text()
    assert len(text.splitlines()) <= 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno + 1 <= 50, node.name
            plain = [
                a for a in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs] if a.arg not in ("self", "cls")
            ]
            assert len(plain) <= 6 or "Annotated" in ast.dump(node.args), node.name


def test_the_median_function_is_short():
    nodes = [n for f in FILES for n in ast.walk(ast.parse(f.read_text())) if isinstance(n, ast.FunctionDef)]
    assert statistics.median(n.end_lineno - n.lineno + 1 for n in nodes) <= 12


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_exports_are_sorted_and_exist(file):
    tree = ast.parse(file.read_text())
    if not [n for n in tree.body if not isinstance(n, ast.Expr)]:
        return
    found = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and "__all__" in [getattr(t, "id", "") for t in (node.targets if isinstance(node, ast.Assign) else [node.target])]
    ]
    assert len(found) == 1, "every module says what it exports"
    names = ast.literal_eval(found[0])
    assert names == sorted(names, key=lambda n: (not n.isupper(), not n[0].isupper(), n))
    defined = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    defined |= {t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
    defined |= {n.target.id for n in tree.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    if file.name == "__init__.py":  # a package may pass on what its own modules define
        defined |= {a.name for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names}
    assert set(names) <= defined


@pytest.mark.parametrize("stages", [["types", "errors", "config", "archive", "verify", "reward", "advantage", "cli"]])
def test_torch_stays_out_of_the_early_stages(stages):
    for file in FILES:
        if stage(name_of(file)) in stages:
            top = ast.Module([n for n in ast.parse(file.read_text()).body if isinstance(n, ast.Import | ast.ImportFrom)], [])
            assert not [m for m in imports(top) if m.partition(".")[0] in ("torch", "transformers")], file


def test_there_are_no_import_cycles():
    graph = {name_of(f): {m for m in imports(ast.parse(f.read_text())) if m.startswith("upsolve.")} for f in FILES}
    done, path = set(), []

    def visit(module):
        assert module not in path, f"cycle: {[*path, module]}"
        if module in done or module not in graph:
            return
        path.append(module)
        for other in graph[module]:
            visit(other)
        path.pop()
        done.add(module)

    for module in graph:
        visit(module)


def test_help_is_fast_and_loads_nothing_heavy():
    code = "import sys, upsolve.cli.main; print([m for m in ('torch', 'transformers', 'pyarrow', 'matplotlib') if m in sys.modules])"
    started = time.monotonic()
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
    assert time.monotonic() - started < 5  # the bar is 0.5 s on a quiet machine; this only catches a heavy import
