"""Base and trained model task by task, a group side by side, and the histogram of rewards, in a real Chromium."""

import re

import pytest
from archives import EVIL, eight_tasks, finished_run
from browser import Served, open_page

from upsolve.config import load_recipe
from upsolve.reward.formula import reward
from upsolve.train.data.drawn import DrawnGroups
from upsolve.train.data.groups import with_advantages
from upsolve.view.opening import open_path
from upsolve.view.static import write_page


@pytest.fixture(params=["served", pytest.param("static", marks=pytest.mark.slow)])
def shown(request, tmp_path, monkeypatch):
    """The address of the viewer on a run that recorded its groups, served or in one file; programs end with a script."""
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    archive = eight_tasks(tmp_path / "a")
    folder = finished_run(tmp_path / "rloo", archive, text=f"# {EVIL}\n")
    recipe = load_recipe(folder / "recipe.yaml")
    drawn = [with_advantages(reward(group, recipe.reward), recipe.advantage, seed=0) for group in archive.groups()]
    DrawnGroups(folder / "training" / "groups", by_token=False).record(0, drawn)
    if request.param == "static":
        write_page(open_path(str(folder)), tmp_path / "page.html")
        yield (tmp_path / "page.html").as_uri()
        return
    viewer = Served(folder)
    yield viewer.address
    viewer.stop()


def rows_of(page):
    return [row.inner_text().split("\t") for row in page.locator("main tbody tr").all()]


def test_tasks_are_compared_at_each_temperature_with_their_programs(chromium, shown):
    with open_page(chromium, viewport={"width": 1200, "height": 900}) as (page, faults):
        page.goto(f"{shown}#/changes")
        page.wait_for_selector("main tbody tr")
        rows = rows_of(page)
        assert rows[0] == ["d/0", "hard", "4 of 4", "1 of 4", "-75"] and rows[1][2:] == ["0 of 4", "4 of 4", "+100"]
        assert len(rows) == 8 and rows[-1][2:] == ["0 of 4", "0 of 4", "0"]
        page.get_by_role("button", name="Change, points").click()
        assert rows_of(page)[0][4] == "+100" and rows_of(page)[-1][4] == "-75"
        page.get_by_role("button", name="worse (1)").click()
        page.get_by_role("button", name="worse (1)", pressed=True).wait_for()
        page.get_by_label("Task set and temperature").select_option("a:test, greedy")
        page.get_by_text("a:test, greedy: samples that passed").wait_for()
        assert rows_of(page) == [["d/0", "hard", "1 of 1", "0 of 1", "-100"]]
        page.get_by_role("link", name="d/0").click()
        page.wait_for_selector(".pair pre")
        base, trained = page.locator(".pair").first.locator("> div").all()
        assert "base: passed (1 of 1 passed)" in base.inner_text() and EVIL in base.locator("pre").inner_text()
        assert "test 1\nf(2)\ngot\n5\nexpected\n4" in trained.inner_text()
        assert [one.locator(name).all_inner_texts() for one, name in ((base, "del"), (trained, "ins"))] == [
            ["2", "*"],
            ["3", "+"],
        ]
        page.locator(".pair a").nth(1).click()
        page.wait_for_selector(".code")
        page.goto(f"{shown}#/change/d%2F1?set=0&show=better")
        for key, name in (("ArrowRight", "d/2"), ("ArrowLeft", "d/1")):
            page.locator("#next").wait_for()
            page.keyboard.press(key)
            page.get_by_role("heading", name=f"{name} +100 points").wait_for()
        assert page.locator("#previous").count() == 0, "the first task that got better"
        assert page.evaluate("window.hacked === undefined && document.images.length === 0") and not faults, faults


def test_a_change_is_as_exact_as_in_the_report(chromium, tmp_path, monkeypatch):
    """4 of 8 and 1 of 8 samples are -37.5 points."""
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    folder = finished_run(tmp_path / "rloo", eight_tasks(tmp_path / "a"))
    for name in ("base", "trained"):
        file = folder / f"{name}.json"
        file.write_text(re.sub(r'"samples": 4\b', '"samples": 8', file.read_text()))
    write_page(open_path(str(folder)), tmp_path / "page.html")
    with open_page(chromium) as (page, faults):
        page.goto(f"{(tmp_path / 'page.html').as_uri()}#/changes")
        page.wait_for_selector("main tbody tr")
        assert rows_of(page)[0] == ["d/0", "hard", "4 of 8", "1 of 8", "-37.5"] and not faults, faults


@pytest.mark.slow
def test_bins_of_rewards_lead_to_groups_side_by_side(chromium, shown):
    with open_page(chromium, viewport={"width": 1200, "height": 900}) as (page, faults):
        page.goto(f"{shown}#/training")
        page.wait_for_selector("#rewards a")
        bins = [text.split("\t")[:2] for text in page.locator("#rewards tr").all_inner_texts()]
        assert bins == [["-0.1", "8 attempts"], ["1", "8 attempts"]]
        page.locator("#rewards a").nth(1).click()
        page.get_by_text("Attempts with a reward of 1").wait_for()
        assert len(rows_of(page)) == 8 and {row[3] for row in rows_of(page)} == {"1"}
        page.locator("main tbody a").first.click()
        page.wait_for_selector(".group .code")
        columns = page.locator(".group > div").all_inner_texts()
        assert len(columns) == 2 and "reward 1, advantage +1.1" in columns[0] and "reward -0.1, advantage -1.1" in columns[1]
        assert "return 2 * x" in columns[0] and not faults, faults


@pytest.mark.slow
def test_changed_words_of_two_attempts_are_marked(chromium, shown):
    with open_page(chromium, viewport={"width": 1200, "height": 900}) as (page, faults):
        page.goto(f"{shown}#/compare/0/1")
        page.wait_for_selector(".pair .row")
        assert page.locator(".pair del").all_inner_texts() == ["2", "*"] and page.locator(".pair ins").all_inner_texts() == [
            "3",
            "+",
        ]
        assert not faults, faults
