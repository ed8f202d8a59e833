"""The page of the viewer in a real Chromium: keys, filters, themes, a phone, texts that try to run; served and as one file."""

import json
import re

import pytest
from archives import EVIL, TEST, evil_archive, plain_archive
from browser import Served, open_page
from test_view_runs import evaluated_run, one_task, write_run

from upsolve.archive.preference import score_verdicts
from upsolve.archive.store import Archive
from upsolve.config import load_recipe
from upsolve.reward.formula import reward
from upsolve.train.data.drawn import DrawnGroups
from upsolve.train.data.groups import with_advantages
from upsolve.types import Attempt, Status, Task, Verdict, with_points
from upsolve.view.answers import Answers
from upsolve.view.opening import open_path
from upsolve.view.static import write_page

WAYS = ["served", pytest.param("static", marks=pytest.mark.slow)]


def loaded(page, address):
    page.goto(f"{address}#/attempts")
    page.wait_for_selector("html[data-loaded]")
    page.wait_for_selector("main tbody tr")


@pytest.fixture
def served(tmp_path, monkeypatch):
    """The address of a viewer on an archive."""
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    running = []

    def start(path):
        running.append(Served(path))
        return running[-1].address

    yield start
    for viewer in running:
        viewer.stop()


def walk(page):
    """Open everything that an attempt and its task show, and return its text."""
    page.keyboard.press("Enter")
    page.wait_for_selector(".code")
    for summary in page.locator("details > summary").all():
        summary.click()
    said = page.locator("main").inner_text()
    page.locator("main h2 a").click()
    page.wait_for_selector("main table a")
    for summary in page.locator("details > summary").all():
        summary.click()
    return said + page.locator("main").inner_text()


@pytest.mark.parametrize("how", WAYS)
def test_scripts_in_texts_are_shown_and_never_run(chromium, tmp_path, monkeypatch, served, how):
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    archive = evil_archive(tmp_path / "evil")
    with open_page(chromium) as (page, faults):
        if how == "static":
            write_page(Answers(archive, title=EVIL, note=EVIL), tmp_path / "page.html")
            assert EVIL not in (tmp_path / "page.html").read_text()
        loaded(page, (tmp_path / "page.html").as_uri() if how == "static" else served(archive.path))
        assert EVIL in page.locator("tbody tr").first.inner_text()
        said = walk(page)
        assert said.count("</script><img src=x onerror=") >= 6
        assert page.evaluate("window.hacked === undefined && document.images.length === 0")
        assert not faults, faults


@pytest.mark.parametrize("how", WAYS)
def test_keys_filters_and_two_attempts_side_by_side(chromium, tmp_path, monkeypatch, served, how):
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    archive = plain_archive(tmp_path / "a")
    if how == "static":
        write_page(Answers(archive, title="plain"), tmp_path / "page.html")
    with open_page(chromium, viewport={"width": 1200, "height": 900}) as (page, faults):
        loaded(page, (tmp_path / "page.html").as_uri() if how == "static" else served(archive.path))
        page.get_by_text("250 attempts").wait_for()
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("k")
        page.keyboard.press("Enter")
        page.wait_for_selector(".code")
        assert "number 1\n" in page.locator(".code").inner_text()
        page.keyboard.press("c")
        page.keyboard.press("ArrowRight")
        page.get_by_text("# number 2", exact=True).wait_for()
        page.keyboard.press("c")
        page.wait_for_selector(".pair")
        assert page.locator(".row.removed").count() == page.locator(".row.added").count() == 2
        page.keyboard.press("a")
        page.get_by_label("Outcome").select_option("failed")
        page.get_by_text("84 attempts").wait_for()
        page.keyboard.press("/")
        page.keyboard.type("Number 24")
        page.keyboard.press("Enter")
        page.get_by_text("5 attempts", exact=True).wait_for()  # 24, 240, 243, 246, 249
        page.keyboard.press("t")
        page.get_by_text("2 tasks in all").wait_for()
        page.keyboard.press("Shift+?")
        assert page.locator("dialog").is_visible()
        assert not faults, faults


@pytest.mark.slow
def test_a_finding_stands_beside_its_lines(chromium, tmp_path, served):
    with open_page(chromium, viewport={"width": 1200, "height": 900}) as (page, _):
        loaded(page, served(plain_archive(tmp_path / "a").path))
        page.keyboard.press("Enter")
        page.wait_for_selector(".code")
        row = page.locator(".row").first
        assert "F401" in row.locator(".notes").inner_text() and row.locator(".under").inner_text() == "# number 0"
        code, note = (row.locator(part).bounding_box() for part in ("code", ".notes"))
        assert note["x"] >= code["x"] + code["width"] - 1


@pytest.mark.slow
def test_scores_and_points_stand_beside_the_outcome(chromium, tmp_path, served):
    task = Task("a/task", "double", (TEST, TEST), "f")
    attempt = Attempt("a/task", "def f(x):\n    return x\n")
    verdict = Verdict(attempt.attempt_id, Status.FAILED, 1, 2, (Status.FAILED, Status.PASSED), judge="upsolve-1")
    archive = Archive.create(tmp_path / "a")
    scores = score_verdicts(attempt.attempt_id, {"teacher": 7.5})
    archive.append(tasks=[task], attempts=[attempt], verdicts=[with_points(verdict, (0.25, 1.0), 0.6), *scores])
    with open_page(chromium) as (page, faults):
        loaded(page, served(archive.path))
        page.keyboard.press("Enter")
        page.wait_for_selector(".code")
        facts = page.locator("main").inner_text()
        assert "points 0.6 of 1; scores teacher 7.5" in facts
        titles = [one.get_attribute("title") for one in page.locator("ul.tests li").all()]
        assert titles == ["test 1: failed, 0.25 of its points", "test 2: passed"]
        assert not page.locator(".row .notes").first.inner_text() and not faults, faults


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_it_is_readable_on_a_phone_in_light_and_dark(chromium, tmp_path, served, theme):
    with open_page(chromium, viewport={"width": 375, "height": 700}, color_scheme=theme) as (page, faults):
        loaded(page, served(plain_archive(tmp_path / "a").path))
        for key, shown in (("", "250 attempts"), ("Enter", "# number 0"), ("t", "2 tasks in all")):
            if key:
                page.keyboard.press(key)
            page.get_by_text(shown, exact=True).wait_for()
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), key
        assert page.evaluate(CONTRAST) == []
        assert page.evaluate(NAMELESS) == []
        assert not faults, faults


@pytest.mark.slow
@pytest.mark.parametrize("how", WAYS)
def test_samples_of_evaluations_are_beside_the_attempts_of_a_run(chromium, tmp_path, monkeypatch, served, tiny_model, how):
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    folder = evaluated_run(tmp_path, tiny_model)
    if how == "static":
        write_page(open_path(str(folder)), tmp_path / "page.html")
    with open_page(chromium, viewport={"width": 1200, "height": 900}) as (page, faults):
        loaded(page, (tmp_path / "page.html").as_uri() if how == "static" else served(folder))
        page.get_by_text("4 attempts").wait_for()
        page.get_by_role("link", name="Model answers").click()
        page.get_by_text("8 attempts").wait_for()
        assert "samples of evaluations: base.samples.jsonl, trained.samples.jsonl" in page.locator("main").inner_text()
        page.get_by_label("Author").select_option("trained")
        page.get_by_text("4 attempts").wait_for()
        page.keyboard.press("Enter")
        page.wait_for_selector(".code")
        assert "# trained" in page.locator(".code").inner_text() and "recorded:trained" in page.locator("main").text_content()
        page.keyboard.press("t")
        for counted in (r"base 0/4 \(", r"trained 4/4 \("):
            page.get_by_text(re.compile(counted)).wait_for()
        page.keyboard.press("s")
        page.get_by_text("4 attempts").wait_for()
        page.keyboard.press("g")
        page.get_by_text("1 step;").wait_for()
        assert not faults, faults


CONTRAST = """() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!colour.endsWith(", 0)")) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const texts = [...document.querySelectorAll("body *")].filter((n) => [...n.childNodes].some((c) => c.nodeType === 3 && c.data.trim()) && n.checkVisibility());
  return texts.map((node) => {
    const [a, b] = [light(getComputedStyle(node).color), light(behind(node))];
    return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), node.textContent.slice(0, 40)];
  }).filter(([ratio]) => ratio < 4.5);
}"""
"""Texts whose contrast is below 4.5 to 1 (WCAG AA)."""
NAMELESS = """() => [...document.querySelectorAll("input, select, button, a")].filter((node) =>
  !node.textContent.trim() && !node.closest("label") && !node.getAttribute("aria-label")).map((node) => node.outerHTML)"""
"""Controls without a name."""


@pytest.mark.slow
def test_curves_of_a_run_are_drawn_and_grow(chromium, tmp_path, served):
    run = tmp_path / "run"
    plain_archive(tmp_path / "a")
    run.mkdir()
    (run / "recipe.yaml").write_text(f"data: {{archive: '{tmp_path / 'a'}'}}\n")
    row = {"step": 1, "loss": 2.0, "entropy": 1.0}
    (run / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    with open_page(chromium) as (page, faults):
        loaded(page, served(run))
        page.keyboard.press("g")
        page.get_by_text("1 step;").wait_for()
        with (run / "metrics.jsonl").open("a") as log:
            log.write(json.dumps({**row, "step": 2, "loss": 1.0}) + '\n{"step": 3')
        page.get_by_text("2 steps;").wait_for()
        assert page.locator("figure").count() == 2
        assert page.locator("figure svg").first.get_attribute("aria-label") == "loss: 2 to 1, steps 1 to 2"
        assert page.locator("figcaption b").all_inner_texts() == ["loss", "entropy, nats"], "named as in the report"
        ends = page.locator("figure").first.locator(".values span, .steps span").all_inner_texts()
        assert ends == ["2", "1", "step 1", "2"], "the ends of both axes"
        assert not faults, faults
    write_page(open_path(str(run)), tmp_path / "page.html")
    with open_page(chromium) as (page, faults):
        loaded(page, (tmp_path / "page.html").as_uri())
        page.keyboard.press("g")
        page.get_by_text("2 steps; the run was not finished when this page was written").wait_for()
        page.evaluate("location.hash = '#/samples/attempts'")
        page.get_by_text("This page has no samples of evaluations.").wait_for()
        assert not faults, faults


@pytest.mark.parametrize("how", [pytest.param("served", marks=pytest.mark.slow), "static"])
def test_groups_and_heat_maps_of_a_run_are_shown(chromium, tmp_path, monkeypatch, served, tiny_model, how):
    """The group is the one that was trained on; each token has the colour of its advantage, served and in one file."""
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    archive = one_task(tmp_path / "a")
    run = write_run(tmp_path / "run", tiny_model, archive.path)
    recipe, (group,) = load_recipe(run / "recipe.yaml"), archive.groups()
    drawn = [with_advantages(reward(group, recipe.reward), recipe.advantage, seed=0)]
    DrawnGroups(run / "groups", by_token=False).record(3, drawn)
    answers = open_path(str(run))
    if how == "static":
        write_page(answers, tmp_path / "page.html")
    with open_page(chromium, viewport={"width": 1200, "height": 900}) as (page, faults):
        loaded(page, (tmp_path / "page.html").as_uri() if how == "static" else served(run))
        page.locator("tbody tr").nth(2).locator("a").first.click()
        page.wait_for_selector(".heat")
        page.keyboard.press("h")
        page.keyboard.press("h")
        page.get_by_text("as trained on in round 3").wait_for()
        titles = page.locator(".code .token").evaluate_all("(all) => all.map((each) => [each.textContent, each.title])")
        tokens = answers.tokens({"place": "2"})
        code = group.attempts[2].code
        shown = [(text, float(title.split()[1])) for text, title in titles]
        expected = [
            (code[start:end], float(f"{value:.3g}"))
            for (start, end), value in zip(tokens["spans"], tokens["advantages"], strict=True)
            if code[start:end].strip("\n")
        ]
        assert shown == expected and len({value for _, value in shown}) > 1
        page.locator("main h2 a").click()
        page.wait_for_selector("#drawn tbody tr")
        assert page.locator("#drawn tbody tr").inner_text().split("\t")[:2] == ["3", "0"]
        assert "1 (+1) 0 (-0.333) 0 (-0.333) 0 (-0.333)" in page.locator("#drawn").inner_text()
        assert "round 3: -0.333" in page.locator("main table").first.inner_text()
        assert not faults, faults
