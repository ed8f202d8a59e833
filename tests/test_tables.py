"""The tables of the results are those of the result files, line by line."""

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def tables():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield importlib.import_module("tables")
    sys.path.remove(str(ROOT / "benchmarks"))


def plain(line):
    """Return a line of a table without spaces and emphasis."""
    return "".join(line.replace("*", "").replace("`", "").split())


@pytest.mark.parametrize(
    "part", ["demo", "demo_python_hot", "agreement", "mbpp", "throughput", "honest", "languages", "bars", "drift"]
)
def test_tables_are_in_the_results(tables, part):
    shown = {
        plain(line) for name in ("results", "languages") for line in (ROOT / f"docs/{name}.md").read_text("utf-8").splitlines()
    }
    lines = [line for line in getattr(tables, part)().splitlines() if line.startswith("|") and "---" not in line]
    assert len(lines) > 2
    assert [line for line in lines if plain(line) not in shown] == []


@pytest.mark.parametrize("part", ["arms", "training_step"])
def test_other_tables_are_printed(tables, part):
    assert getattr(tables, part)().count("\n|") > 10
