"""Documents show the leaderboard's committed cells."""

import gzip
import importlib
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from upsolve.evaluate.runs import save_sweep
from upsolve.evaluate.scores import Choices, Evaluation, Sweep, TaskChoice, TaskScore

ROOT = Path(__file__).parents[1]


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    yield importlib.import_module("leaderboard_page")
    for name in ("formulas", "leaderboard", "leaderboard_page", "machine", "rounding", "tables"):
        sys.modules.pop(name, None)


def test_the_readme_shows_the_committed_cells(page):
    assert (ROOT / "README.md").read_text(encoding="utf-8") == page.readme()
    assert (ROOT / "docs" / "gain.svg").read_text(encoding="utf-8") == page.picture()


@pytest.mark.slow
def test_the_leaderboard_shows_the_committed_cells(page):
    tables = {domain: page.table(domain) for domain in page.DOMAINS if (page.CELLS / page.slug(domain)).is_dir()}
    pages = page.pages(tables)
    assert {domain for domains in page.PAGES.values() for domain in domains} == tables.keys()
    assert {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in pages} == pages


def test_pass_rates_after_choice_stand_between_greedy_decoding_and_any_sample(page, monkeypatch, tmp_path):
    def sweep(name, *outcomes):
        tasks = tuple(TaskChoice(f"t{i}", 9, 90, *map(bool, one), bool(one[0]), 3, 30) for i, one in enumerate(outcomes))
        scores = tuple(TaskScore(task.task_id, "", 1, int(bool(task.greedy)), {}) for task in tasks)
        greedy = Evaluation(name, "m", "x:test", 0.0, 1.0, 0, 100, scores)
        return Sweep(name, (), greedy, greedy, greedy, greedy, choices=Choices(("runs",), 0.8, tasks))

    base = sweep("base", *[(0, 0, 1)] * 10, *[(1, 1, 1)] * 10)
    cells = defaultdict(dict, base={0: base}, sft={0: sweep("sft", *[(0, 1, 1)] * 10, *[(1, 1, 1)] * 10)})
    rows = [{"method": name, **page.figures(name, cells)} for name in ("base", "sft")]
    assert [row["choice"]["chosen"][0] for row in rows] == [50, 100] and [row["choice"]["any"][0] for row in rows] == [100, 100]
    assert [row["choice"]["chosen - greedy"][0] for row in rows] == [0, 50]
    monkeypatch.setattr(page, "sentences", lambda _domain: "")
    monkeypatch.setattr(page, "chosen_elsewhere", lambda _domain: [])
    table = page.section("sql", rows)
    assert "|sft (1)|50.0 [" in table and "|9|90|0.0|" in table
    old = {name: {0: replace(runs[0], choices=None)} for name, runs in cells.items() if runs}
    rows = [{"method": name, **page.figures(name, defaultdict(dict, old))} for name in ("base", "sft")]
    assert "choice" not in rows[1] and "any passes" not in page.section("sql", rows)
    monkeypatch.undo()
    monkeypatch.setattr(page, "CELLS", tmp_path / "leaderboard")
    for kind, folder in (
        ("sft", "leaderboard/sql/choices"),
        ("start", "failures/sql/sft-half"),
        ("topr-g4", "failures/sql/sft-half"),
    ):
        file = tmp_path / folder / f"{kind}-0.json.gz"
        file.parent.mkdir(parents=True, exist_ok=True)
        save_sweep(cells["sft"][0], tmp_path / "sweep.json")
        file.write_bytes(gzip.compress((tmp_path / "sweep.json").read_bytes()))
    assert [row["method"] for row in page.chosen_elsewhere("sql")] == ["sft", "sft half", "sft half, then topr"]


def test_rows_of_an_earlier_formula_say_so(page):
    """Fails where an objective or estimator has changed and no page was written since: python benchmarks/leaderboard_page.py writes them."""
    formulas, tables = importlib.import_module("formulas"), importlib.import_module("tables")
    shown = {
        page.slug(domain): (ROOT / "docs" / name).read_text("utf-8") for name, some in page.PAGES.items() for domain in some
    }
    shown["mbpp_offline"] = tables.mbpp()
    unmarked = [(place, name) for place, name in formulas.earlier() if f"{name} (earlier formula)" not in shown[place]]
    assert unmarked == []
    assert ("mbpp_offline", "exp_advantage") in formulas.earlier()


def test_a_changed_formula_is_noticed(page, monkeypatch):
    formulas = importlib.import_module("formulas")
    monkeypatch.setattr("upsolve.advantage.group.leave_one_out", lambda rewards_G: rewards_G - rewards_G.mean())
    changed = formulas.earlier()
    assert ("sql", "rloo") in changed and ("mbpp_offline", "topr") in changed and ("sql", "sft") not in changed
    formulas.formula_of.cache_clear()
    assert page.marked("rloo", {"formulas": ["0"], "formula today": "1"}) == "rloo (earlier formula)"


def test_difficulty_is_that_of_the_other_seeds(page):
    """Tasks a, b, c and d; the start passes a in both seeds, b and c in one each, d in none: by the other seed b is easy where it is hard."""

    def sweep(*passed):
        scores = tuple(TaskScore(name, "", 1, int(name in passed), {}) for name in "abcd")
        one = Evaluation("m", "m", "x:test", 0.0, 1.0, 0, 100, scores)
        return Sweep("m", (), one, one, one, one)

    cells = defaultdict(dict, base={0: sweep(), 1: sweep()})
    cells["sft half"] = {0: sweep("a", "b"), 1: sweep("a", "c")}
    cells["own rft"] = {0: sweep("a", "b", "c"), 1: sweep("a", "b", "c")}
    of, band_of = page.bands(cells)
    assert of == "sft half"
    assert band_of[0] == {"a": "easy", "b": "hard", "c": "easy", "d": "hard"}
    assert band_of[1] == {"a": "easy", "b": "easy", "c": "hard", "d": "hard"}
    row = page.by_difficulty("own rft", cells)
    # hard: b in seed 0 (1 to 1), c in seed 1 (1 to 1), d in both; easy: a in both, c in seed 0 and b in seed 1 (0 to 1 each)
    assert row["hard"][0] == 0 and row["middle"] is None and row["easy"][0] == 66.7
