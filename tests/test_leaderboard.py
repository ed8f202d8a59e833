"""Documents show the leaderboard's committed cells."""

import importlib
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from upsolve.evaluate.scores import Choices, Evaluation, TaskChoice, TaskScore
from upsolve.evaluate.sweep import Sweep

ROOT = Path(__file__).parents[1]


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    yield importlib.import_module("leaderboard_page")
    for name in ("leaderboard", "leaderboard_page", "machine", "rounding"):
        sys.modules.pop(name, None)


def test_the_readme_shows_the_committed_cells(page):
    assert (ROOT / "README.md").read_text(encoding="utf-8") == page.readme()


@pytest.mark.slow
def test_the_leaderboard_shows_the_committed_cells(page):
    tables = {domain: page.table(domain) for domain in page.DOMAINS if (page.CELLS / page.slug(domain)).is_dir()}
    pages = page.pages(tables)
    assert {domain for domains in page.PAGES.values() for domain in domains} == tables.keys()
    assert {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in pages} == pages


def test_pass_rates_after_choice_stand_beside_the_best_temperature(page, monkeypatch):
    def sweep(name, *outcomes):
        tasks = tuple(TaskChoice(f"t{i}", 9, 90, *map(bool, one), bool(one[0]), 3, 30) for i, one in enumerate(outcomes))
        scores = tuple(TaskScore(task.task_id, "", 1, int(bool(task.greedy)), {}) for task in tasks)
        greedy = Evaluation(name, "m", "x:test", 0.0, 1.0, 0, 100, scores)
        return Sweep(name, (), greedy, greedy, greedy, greedy, choices=Choices(("runs",), 0.8, tasks))

    base = sweep("base", *[(0, 0, 1)] * 10, *[(1, 1, 1)] * 10)
    cells = defaultdict(dict, base={0: base}, sft={0: sweep("sft", *[(0, 1, 1)] * 10, *[(1, 1, 1)] * 10)})
    rows = [{"method": name, **page.figures(name, cells)} for name in ("base", "sft")]
    assert [row["chosen"][0] for row in rows] == [50, 100] and [row["chosen - greedy"][0] for row in rows] == [0, 50]
    assert rows[1]["chosen - base"][0] == 50 and "chosen - base" not in rows[0] and rows[0]["any"][0] == 100
    monkeypatch.setattr(page, "sentences", lambda _domain: "")
    table = page.section("sql", rows).splitlines()
    assert table[3].startswith("|method|best temperature|chosen|chosen - greedy|chosen - base|best - base|")
    old = {name: {0: replace(runs[0], choices=None)} for name, runs in cells.items() if runs}
    assert "chosen" not in page.figures("sft", defaultdict(dict, old))
