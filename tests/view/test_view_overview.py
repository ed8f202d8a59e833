"""The overview of a run, several runs together, and the changes from base to trained model task by task, in a real Chromium.

They share a file because each file of tests starts a browser.
"""

import json
import re
import shlex
import shutil

import pytest
from archives import EVIL, PASSES, eight_tasks, finished_run
from browser import Served, broken_rules, empty_headings, open_page
from test_view_server import Viewer

from upsolve.cli.comparing import report_content, write_content
from upsolve.config import load_recipe
from upsolve.report.run import gain_beyond, read_overview
from upsolve.report.several import gains, run_result
from upsolve.reward.formula import reward
from upsolve.train.data.drawn import DrawnGroups
from upsolve.train.data.groups import with_advantages
from upsolve.view.opening import open_path
from upsolve.view.static import write_page


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """A folder with a run and its control, which passes one task more than its base."""
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    archive = eight_tasks(tmp_path / "a")
    finished_run(tmp_path / "runs" / "rloo", archive)
    control = {"base": PASSES["base"], "trained": (4, 4, 0, 0, 0, 0, 0, 0)}
    finished_run(tmp_path / "runs" / "placebo", archive, verdicts="shuffled", passes=control)
    return tmp_path / "runs"


def seen(page):
    """The overview as its reader sees it: verdict, large numbers with their meaning, facts, tasks that changed."""
    page.wait_for_selector(".overview .bars")
    numbers = [line.inner_text().split(maxsplit=1) for line in page.locator(".gain").all()]
    facts = dict(
        zip(page.locator("dl.facts > dt").all_inner_texts(), page.locator("dl.facts > dd").all_inner_texts(), strict=True)
    )
    tasks = page.locator(".overview details > summary").all_inner_texts()
    return page.locator(".verdict").first.inner_text(), numbers, facts, tasks


@pytest.mark.parametrize("how", ["served", pytest.param("static", marks=pytest.mark.slow), "report"])
def test_the_overview_explains_a_run(chromium, tmp_path, runs, how):
    """Base: 4 of 32 samples; trained: 21 of 32; the control gains 4 of 32."""
    file, viewer = tmp_path / "page.html", None
    if how == "served":
        viewer = Served(runs / "rloo")
    elif how == "static":
        write_page(open_path(str(runs / "rloo")), file)
    else:
        write_content(report_content([runs / "rloo"]), file)
    try:
        with open_page(chromium, viewport={"width": 1200, "height": 900}) as (page, faults):
            page.goto(viewer.address if viewer else file.as_uri())
            verdict, numbers, facts, tasks = seen(page)
            assert "pass@1 at each model's own best temperature goes from 12.5 % (T 0.5) to 65.6 % (T 0.5)" in verdict
            assert [number for number, _ in numbers] == ["+53.1", "+40.6"] and "share of test tasks" in numbers[0][1]
            more = r"points \[[-+].+\] more than the same training with shuffled verdicts \(placebo\)"
            share = r"Training with shuffled verdicts \(placebo\) reaches \+12\.5 \[\S+, \S+\] of the 53\.1 points; (.+)\."
            assert re.search(share, verdict)[1] == "no part is shown to need the true verdicts"
            assert re.match(r"points \[[-+]\d+\.\d, \+\d+\.\d\] change of pass@1", numbers[0][1]) and re.match(
                more, numbers[1][1]
            )
            shares = page.locator("figure.bars > div:has(svg)").all_inner_texts()
            assert [line.split()[0] for line in shares] == ["base", "trained", "control:"] and "(placebo)" in shares[2]
            assert "12.5 % [" in shares[0] and "65.6 % [" in shares[1] and "25.0 % [" in shares[2], "12.5 and a gain of 12.5"
            for line, share in zip(shares, ("87.5", "34.4", "75.0"), strict=True):
                assert line.endswith(f"most failures: failed, {share} % (ran, but a result is wrong)")
            across = [bar.bounding_box()["width"] for bar in page.locator(".bars svg rect").all()]
            assert across[1] / across[0] == pytest.approx(21 / 4, rel=0.02) and across[2] / across[0] == pytest.approx(
                2, rel=0.02
            )
            assert {"model", "data", "recipe", "date", "duration", "cost", "command"} <= {*facts}
            assert facts["cost"].startswith("training 3 steps, 0 tokens trained; evaluation of base 24 s, 80 samples, ")
            assert facts["duration"] == "evaluation 48 s", "training times are not in the log"
            reasons = page.locator(".overview table").first.locator("tr").all_inner_texts()
            example = "def f(x): return 3 + x → f(2) gave 5, expected 4"
            head = "\tbase, T 0.5\ttrained, T 0.5\tmeaning\tfor example"
            assert reasons == [head, f"failed\t87.5\t34.4\tran, but a result is wrong\t{example}"]
            assert facts["model"] == "none" and facts["command"].split("recipe.yaml")[0] == f"upsolve run {runs / 'rloo'}/"
            assert page.get_by_role("button", name="Copy", exact=True).count() == (how != "report") * len(
                page.locator(".overview > dl.facts code").all()
            )
            assert tasks == [f"d/{n} +100 points" for n in range(1, 6)]
            heads = page.locator(".overview h2").all_inner_texts()
            assert heads == [
                "A task before and after",
                "Data, recipe, cost",
                "Why answers fail, % of the samples",
                "More tasks that changed",
                "Training",
                "Capability and temperature, %",
                "What to do next",
            ]
            places = [
                page.locator(part).first.bounding_box()["y"]
                for part in (".verdict", ".bars", ".pair", ".facts", ".overview table")
            ]
            assert places == sorted(places)
            assert page.locator(".pair .syntax0").first.inner_text() == "def"
            first = page.locator(".overview details").first
            assert "test 1\nf(2)\ngot\n5\nexpected\n4" in first.inner_text() and first.locator("pre").count() == 2
            assert [first.locator(name).all_inner_texts() for name in ("del", "ins")] == [["3", "+"], ["2", "*"]]
            page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text }")
            for number, button in enumerate(first.get_by_role("button", name="Copy the code").all()):
                button.click()
                page.wait_for_function("(text) => window.copied === text", arg=first.locator("pre").nth(number).text_content())
            assert number == 1, "a button at each program"
            held_out = page.locator(".overview .curves figure").nth(1).inner_text()
            assert page.locator(".overview figure svg polyline").count() == 1 and "held-out passed attempts" in held_out
            assert held_out.endswith("-3 at step 0; limit -3.5"), "a value that was measured once has no curve"
            assert page.locator(".overview details[open]").count() == 1, "one task fills a screen"
            if how != "report":
                assert page.get_by_text("Look at each task before and after, what each model answered").count() == 1
                page.get_by_role("link", name="5 better").click()
                page.wait_for_function("location.hash === '#/changes?show=better'")
                page.wait_for_selector(".changes tbody tr")
                assert page.locator("main tbody tr").count() == 5
                page.go_back()
                page.get_by_role("link", name="all answers to this task").first.click()
                page.get_by_role("heading", name="d/1 +100 points").wait_for()
            assert not faults, faults
    finally:
        if viewer:
            viewer.stop()


@pytest.mark.slow
def test_texts_of_a_run_are_escaped_in_the_overview(chromium, tmp_path, monkeypatch):
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    folder = finished_run(tmp_path / "evil", eight_tasks(tmp_path / "b"), text=f"# {EVIL}")
    for number, write in enumerate(
        (lambda file: write_page(open_path(str(folder)), file), lambda file: write_content(report_content([folder]), file))
    ):
        write(tmp_path / f"{number}.html")
        with open_page(chromium) as (page, faults):
            page.goto((tmp_path / f"{number}.html").as_uri())
            page.wait_for_selector(".overview pre")
            assert EVIL in page.locator(".overview pre").first.inner_text()
            assert page.evaluate("window.hacked === undefined && document.images.length === 0") and not faults, faults


def test_a_run_without_an_end_says_how_far_it_is(runs):
    (runs / "rloo" / "trained.json").unlink()
    shutil.rmtree(runs / "placebo")
    (runs / "rloo" / "training" / "summary.json").unlink()
    block = str(open_path(str(runs / "rloo")).measured.overview())
    assert "Not finished: 3 steps of training so far" in block and "12.5 %" in block and "polyline" in block


def test_a_run_without_a_control_has_the_commands_that_make_one(runs):
    """They name the run, its recipe and a folder beside it; the control that they make is found by the report."""
    run, control = runs / "rloo", runs / "rloo-control"
    assert [*read_overview(run, lambda _: {}).next_steps.values()] == [f"upsolve view {run}"]
    (runs / "placebo").rename(control)
    assert [*read_overview(control, lambda _: {}).next_steps.values()] == [f"upsolve view {control}"]
    shutil.move(control, runs.parent)
    view, train, compare = (shlex.split(line) for line in read_overview(run, lambda _: {}).next_steps.values())
    assert view == ["upsolve", "view", str(run)] and compare == ["upsolve", "compare", str(run), str(control)]
    assert train[:5] == ["upsolve", "run", str(run / "recipe.yaml"), "--out", str(control)] and train[5] == "--set"
    changed = load_recipe(train[2], train[6:]).model_copy(update={"name": "control"})
    assert changed.reward.verdicts == "shuffled"


def test_a_run_in_a_list_has_the_name_of_its_recipe(runs):
    (runs / "rloo").rename(runs / "second try")
    rows = {row["name"]: row["recipe"] for row in open_path(str(runs)).routes["runs"]({})["rows"] if "recipe" in row}
    assert rows == {"second try": "rloo", "placebo": "placebo"}
    shown = open_path(str(runs)), open_path(str(runs / "placebo")), open_path(str(runs.parent / "a"))
    assert [one.title for one in shown] == ["runs in runs", "run placebo", "archive a"], "headlines without a path"
    assert shown[1].note == "stored in a"


def test_steps_of_a_run_without_a_log_are_those_of_its_summary(runs):
    for folder, damage in ((runs / "rloo", ""), (runs / "placebo", "{")):
        (folder / "training" / "metrics.jsonl").write_text("")
        if damage:
            (folder / "training" / "summary.json").write_text(damage)
    rows = open_path(str(runs)).routes["runs"]({})["rows"]
    assert {row["name"]: row["steps"] for row in rows} == {"rloo": 3, "placebo": None}


def test_the_gain_beyond_a_control_reads_each_score_once(monkeypatch, runs):
    """Else a folder of runs with hundreds of tasks needs time in the square of their number."""
    read = []
    monkeypatch.setattr("upsolve.report.run.gains", lambda run: read.append(run.name) or gains(run))
    assert gain_beyond(run_result(runs / "rloo"), run_result(runs / "placebo")).gain.mean == 0.125
    assert len(read) <= 4


def test_the_overview_names_the_trained_model_with_its_size(runs):
    """6 million and 0.4 million numbers, by the head; of a damaged file the size alone."""
    tensors = {name: {"dtype": "F32", "shape": shape} for name, shape in (("a", [2_000_000, 3]), ("b", [400_000]))}
    head = json.dumps({"__metadata__": {"format": "pt"}, **tensors}).encode()
    model = runs / "rloo" / "training" / "model"
    model.mkdir()
    for body, shown in (
        (len(head).to_bytes(8, "little") + head + bytes(2_000_000), "6.4 million parameters, 2 MB"),
        (b"\xff" * 3_000_000, "0.0 million parameters, 3 MB"),
    ):
        (model / "model.safetensors").write_bytes(body)
        assert read_overview(runs / "rloo", lambda _: {}).summary["trained model"] == f"{model}: {shown}"


def test_runs_of_a_folder_are_listed_opened_and_compared(chromium, tmp_path, runs):
    viewer = Viewer(tmp_path, runs)
    try:
        with open_page(chromium, viewport={"width": 1200, "height": 900}) as (page, faults):
            page.goto(viewer.address)
            page.wait_for_selector("main tbody tr")
            rows = [row.inner_text().split("\t") for row in page.locator("main tbody tr").all()]
            assert [row[1] for row in rows] == ["placebo", "rloo"] and rows[1][5:9] == ["12.5", "65.6", "3", "as judged"]
            assert rows[1][4].startswith("+40.6 [") and not rows[0][4], "the gain of the run beyond that of its control"
            page.get_by_role("button", name="Compare the marked runs").click()
            page.get_by_text("0 marked: mark two to four runs.").wait_for()
            page.get_by_label("compare placebo").check()
            page.get_by_label("compare rloo").check()
            page.get_by_role("button", name="Compare the marked runs").click()
            page.get_by_role("heading", name="placebo, rloo").wait_for()
            assert page.locator("figure").first.locator("polyline").count() == 2
            gained, tasks = (table.locator("tbody tr").all_inner_texts() for table in page.locator("main table").all())
            assert [row.split("\t")[0] for row in gained] == ["placebo", "rloo"]
            assert tasks[0].split("\t") == ["d/2", "0 of 4 (0)", "4 of 4 (+100)"]
            assert page.locator("main h2").all_inner_texts()[1] == "Training"
            for name in ("rloo", "placebo"):
                (runs / name / "training" / "metrics.jsonl").write_text("")
            page.reload()
            page.get_by_role("heading", name="placebo, rloo").wait_for()
            assert page.locator("main h2").count() == 2 and empty_headings(page) == [], (
                "runs without curves have no such heading"
            )
            page.evaluate("document.querySelector('main').append(document.createElement('h2'))")
            assert empty_headings(page) == [""], "the check finds an empty heading"
            page.go_back()
            page.get_by_role("link", name="rloo").click()
            page.wait_for_selector(".overview .bars")
            page.get_by_role("link", name="All runs").click()
            page.get_by_text("2 runs; mark two to four").wait_for()
            assert not faults, faults
        assert viewer.ask("/run/none/api/info")[0] == 404 and viewer.ask("/api/compare", names="rloo")[0] == 400
    finally:
        viewer.stop()


@pytest.fixture(params=["served", pytest.param("static", marks=pytest.mark.slow)])
def changes(request, tmp_path, monkeypatch):
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
    """The first line of each cell, row by row."""
    return [
        [cell.strip().split("\n")[0] for cell in row.inner_text().split("\t")] for row in page.locator("main tbody tr").all()
    ]


def test_tasks_are_compared_at_each_temperature_with_their_programs(chromium, changes):
    with open_page(chromium, viewport={"width": 1200, "height": 900}) as (page, faults):
        page.goto(f"{changes}#/changes")
        page.wait_for_selector("main tbody tr")
        rows = rows_of(page)
        assert rows[0] == ["d/0", "hard", "4 of 4", "1 of 4", "-75"] and rows[1][2:] == ["0 of 4", "4 of 4", "+100"]
        assert len(rows) == 8 and rows[-1][2:] == ["0 of 4", "0 of 4", "0"]
        cells = [cell.strip() for cell in page.locator("main tbody tr").first.inner_text().split("\t")]
        ending = f" ⏎ # {EVIL}"
        assert cells[0].split("\n") == ["d/0", "Double, 0."], "the question"
        assert cells[2].split("\n") == ["4 of 4", f"def f(x): ⏎ return 2 * x{ending}", "✓ passed"]
        assert cells[3].split("\n")[1:] == [
            f"def f(x): ⏎ return 3 + x{ending}",
            "failed: f(2) gave 5, expected 4",
        ], "the program and the reason of the side that fell"
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
        page.goto(f"{changes}#/change/d%2F1?set=0&show=better")
        for key, name in (("ArrowRight", "d/2"), ("ArrowLeft", "d/1")):
            page.locator("#next").wait_for()
            page.keyboard.press(key)
            page.get_by_role("heading", name=f"{name} +100 points").wait_for()
        assert page.locator("#previous").count() == 0, "the first task that got better"
        assert page.evaluate("window.hacked === undefined && document.images.length === 0") and not faults, faults


def test_the_tasks_keep_their_order_and_filter(chromium, changes):
    """Through a page of a task and back, by keys and by its link; the neighbours of a task are those of the list."""
    with open_page(chromium, viewport={"width": 1200, "height": 900}) as (page, faults):
        page.goto(f"{changes}#/changes")
        page.get_by_role("button", name="Task", exact=True).click()
        page.get_by_role("button", name="Task", exact=True).click()
        page.get_by_role("button", name="better (5)").click()
        page.get_by_role("button", name="better (5)", pressed=True).wait_for()
        order = [row[0] for row in rows_of(page)]
        assert order == sorted(order, reverse=True) and len(order) == 5
        for back in (lambda: page.keyboard.press("u"), lambda: page.get_by_role("link", name="all tasks").click()):
            page.get_by_role("link", name=order[1]).click()
            page.get_by_role("heading", name=order[1]).wait_for()
            page.locator("#next").click()
            page.get_by_role("heading", name=order[2]).wait_for()
            back()
            page.wait_for_selector('th[aria-sort="descending"]')
            assert [row[0] for row in rows_of(page)] == order and page.get_by_role(
                "button", pressed=True
            ).inner_text() == "better (5)"
        assert not faults, faults


TOOLS = ("form.filters > *", "form.filters > div > button", ".head .tools > *", ".heat:not(.head) > button")


def test_tools_stand_in_two_columns_on_a_phone(chromium, changes):
    """Filters, choices of tasks, tools of an attempt and heat maps; nothing scrolls sideways, axe finds nothing."""
    with open_page(chromium, viewport={"width": 390, "height": 844}) as (page, faults):
        seen = set()
        for path, ready in (("changes", ".changes tbody tr"), ("attempts", "form.filters"), ("attempt/0", ".code")):
            page.goto(f"{changes}#/{path}")
            page.locator(f"main {ready}").first.wait_for()
            for tool in TOOLS:
                boxes = [one.bounding_box() for one in page.locator(f"main {tool}").all()]
                seen |= {tool} if boxes else set()
                edges = {(round(box["x"]), round(box["x"] + box["width"])) for box in boxes}
                assert edges <= {(13, 191), (199, 377), (13, 377)}, (path, tool)
            assert broken_rules(page) == {}, path
        assert seen == {*TOOLS} and not faults, faults


def test_tables_of_a_report_need_no_scrolling_on_a_phone(chromium, tmp_path, runs):
    """Each row is a list: the measure, then each model's value and the difference, under their names."""
    write_content(report_content([runs / "rloo"]), tmp_path / "page.html")
    with open_page(chromium, viewport={"width": 390, "height": 844}) as (page, faults):
        page.goto((tmp_path / "page.html").as_uri())
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
        tables = page.locator(".wide").all()
        assert len(tables) > 5 and all(one.evaluate("all => all.scrollWidth <= all.clientWidth") for one in tables)
        shown = tables[1].locator("tbody tr").first.locator("td").all()
        named = [cell.evaluate("cell => getComputedStyle(cell, '::before').content.slice(1, -1)") for cell in shown[1:]]
        assert (
            named[:2] == ["base", "trained"] and named[2].startswith("difference") and shown[1].inner_text() == "12.5 (T 0.5)"
        )
        assert broken_rules(page) == {} and not faults, faults


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
def test_bins_of_rewards_lead_to_groups_side_by_side(chromium, changes):
    with open_page(chromium, viewport={"width": 1200, "height": 900}) as (page, faults):
        page.goto(f"{changes}#/training")
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
def test_changed_words_of_two_attempts_are_marked(chromium, changes):
    with open_page(chromium, viewport={"width": 1200, "height": 900}) as (page, faults):
        page.goto(f"{changes}#/compare/0/1")
        page.wait_for_selector(".pair .row")
        assert page.locator(".pair del").all_inner_texts() == ["2", "*"] and page.locator(".pair ins").all_inner_texts() == [
            "3",
            "+",
        ]
        assert not faults, faults
