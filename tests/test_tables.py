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


def tables_in(text):
    """Yield the tables of a text as lists of plain lines, without the line below the head."""
    for block in text.split("\n\n"):
        if lines := [plain(line) for line in block.splitlines() if line.startswith("|") and "---" not in line]:
            yield lines


@pytest.mark.parametrize("part", ["demo", "agreement", "mbpp", "throughput", "honest", "bars", "drift"])
def test_tables_of_the_results_have_rows_of_the_result_files(tables, part):
    """A page may show some rows of a table; none may differ from the table of the result file."""
    printed = {lines[0]: {*lines} for lines in tables_in(getattr(tables, part)())}
    pages = [page.read_text("utf-8") for page in (ROOT / "docs").glob("results*.md")]
    shown = [lines for text in pages for lines in tables_in(text) if lines[0] in printed]
    assert shown and all({*lines} <= printed[lines[0]] for lines in shown)


@pytest.mark.parametrize("part", ["arms", "demo_python_hot", "training_step", "languages"])
def test_other_tables_are_printed(tables, part):
    assert getattr(tables, part)().count("\n|") > 5
