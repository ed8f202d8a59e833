"""The public API: its names, that they are lazy, and that type checkers see the same."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import upsolve

ROOT = Path(__file__).parents[1]
NAMES = """
    Advantage Answer Archive Attempt Capability Check Comparison Component Credit Derivation Detector Engine Evaluation Evidence Export Finding Group
    HeldOut JudgeSettings Language Limits Objective Parents Recipe ReportContent Run SolveSettings Source Split Status Sweep Task TaskScore
    TestCase TestKind Trained UpsolveError Verdict
    __version__ capability compare create_archive evaluate_model export_archive held_out ingest load_evaluation load_recipe
    load_sweep open_archive open_run run_recipe sample_attempts save_evaluation save_sweep solve solve_tasks split_archive sweep_model
    train_policy verify_attempts write_report
"""


def test_the_list_is_pinned():
    """Removing or renaming a name breaks users: it wants a new minor version and a line in the changelog."""
    assert upsolve.__all__ == NAMES.split()


def test_every_name_is_there_and_is_no_package_of_ours():
    for name in upsolve.__all__:
        value = getattr(upsolve, name)
        assert name == "__version__" or callable(value), name
        is_package = (ROOT / "src/upsolve" / name).is_dir()
        assert not is_package or name == "solve", f"upsolve.{name} is a package: its import would replace the function"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        upsolve.nothing  # noqa: B018


@pytest.mark.parametrize(
    "first", ["", "import upsolve.solve.choose as c", "from upsolve import solve", "from upsolve.solve.solving import solve"]
)
def test_solve_is_a_function_whatever_was_imported_before(first):
    code = f"{first}\nimport inspect, upsolve\nprint([*upsolve.solve([], None)], *inspect.signature(upsolve.solve).parameters)"
    code += "\nimport upsolve.solve.choose as choose\nassert choose.choose and upsolve.solve.choose is choose"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[] tasks model config")


def test_type_checkers_see_what_is_imported():
    tree = ast.parse(Path(upsolve.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {(a.asname or a.name): (n.module, a.name) for n in block.body for a in n.names}
    table = {name: (module, upsolve.RENAMED.get(name, name)) for module, names in upsolve.SOURCES.items() for name in names}
    assert seen == table and {*table, "__version__"} == {*upsolve.__all__}


def test_importing_loads_nothing():
    code = "import sys; before = {*sys.modules}; import upsolve; print(*sorted({*sys.modules} - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in done.stdout.split() if name.startswith("upsolve")] == ["upsolve"]
    assert "pydantic" not in done.stdout and "numpy" not in done.stdout


def test_the_documentation_has_a_line_for_each():
    page = (ROOT / "docs/api.md").read_text()
    rows = [line.split("`")[1] for line in page.splitlines() if line.startswith("|`")]
    assert sorted(rows) == sorted(name for name in upsolve.__all__ if name != "__version__")
