"""axe-core on the viewer, the report and the documentation, in a real Chromium: light and dark, on a desktop and on a phone."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from browser import empty_headings, open_page

from upsolve.cli.comparing import write_runs
from upsolve.evaluate.scores import Evaluation, TaskScore, single
from upsolve.report.content import Example, ReportContent
from upsolve.report.html import write_report
from upsolve.report.several import RunResult
from upsolve.view.opening import open_path
from upsolve.view.static import write_page

ROOT = Path(__file__).parents[2]
SCREENS = [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)]
"""Colour schemes, and widths of the window in pixels."""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def axe():
    """The text of axe-core."""
    (folder,) = find_spec("axe_playwright_python").submodule_search_locations
    return Path(folder, "axe.min.js").read_text(encoding="utf-8")


def checked(file, browser, axe, *, scheme, width, headings=True):
    """Return the share of axe's rules that a page obeys, of those that apply, and the rules that it breaks; nothing scrolls sideways.

    ``headings``: each heading has content; pages made from docstrings also list names without any.
    """
    with open_page(browser, color_scheme=scheme, viewport={"width": width, "height": 800}) as (page, faults):
        page.goto(file.resolve().as_uri())
        page.wait_for_load_state()
        assert not faults, faults
        page.evaluate(axe)
        found = page.evaluate("axe.run()")
        assert not headings or empty_headings(page) == [], file
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), (scheme, width)
    broken = {rule["id"]: rule["nodes"][0]["html"][:200] for rule in found["violations"]}
    return len(found["passes"]) / (len(found["passes"]) + len(broken)), broken


@pytest.mark.parametrize(("scheme", "width"), SCREENS)
def test_a_report(chromium, axe, tmp_path, scheme, width):
    runs = []
    for name, passed in (("base", 2), ("trained", 6)):
        scores = tuple(TaskScore(f"t{i}", "easy", 8, passed, {"passed": passed, "failed": 8 - passed}) for i in range(20))
        runs.append(single(Evaluation(name, "m", "x:test", 1.0, 1.0, 0, 8, scores)))
    rows = tuple({"step": float(n), "loss": 1 / n, "entropy": 0.1} for n in range(1, 9))
    programs = "def f(x):  # twice\n    return abs(x) + '1'", "def f(x):\n    return 2 * x if x else print('0')"
    example = Example("t0", "Double x.", programs[0], "failed", programs[1], "passed", language="python")
    content = ReportContent(
        "Before and after",
        tuple(runs),
        (1, 8),
        training=rows,
        collapsed="step 8: entropy is low",
        recipe_yaml="name: x\n" * 50,
        facts={"model": "a" * 200},
        examples=(example,),
        next_steps={"how much of the gain is due to the verdicts": f"upsolve run {'a' * 200}"},
    )
    write_report(tmp_path / "report.html", content)
    assert checked(tmp_path / "report.html", chromium, axe, scheme=scheme, width=width) == (1, {})


def result(name, verdicts, counts, seed):
    """Return a run after which a task passes as often as ``counts`` says, and before which it passed twice of eight times."""
    before, after = (
        single(
            Evaluation(
                label,
                "m",
                "x:test",
                1.0,
                1.0,
                0,
                8,
                tuple(TaskScore(f"t{i}", "", 8, n, {"passed": n}) for i, n in enumerate(some)),
            )
        )
        for label, some in (("base", [2] * len(counts)), ("trained", counts))
    )
    return RunResult(name, verdicts, before, after, settings=name.partition("-")[0], seeds=f"seed {seed}")


@pytest.mark.parametrize(("scheme", "width"), SCREENS)
def test_a_comparison_of_runs(chromium, axe, tmp_path, scheme, width):
    runs = [result(f"rloo-{seed}", "as_judged", [4 + (n + seed) % 4 for n in range(40)], seed) for seed in range(2)]
    file = tmp_path / "compare.html"
    write_runs([*runs, result("placebo-0", "shuffled", [2 + n % 3 for n in range(40)], 0)], file)
    assert checked(file, chromium, axe, scheme=scheme, width=width) == (1, {})
    text = file.read_text(encoding="utf-8")
    assert (
        "rloo-0, 2 seeds" in text and "placebo-0 (control)" in text and text.index("<b>rloo-1: ") < text.index("<b>placebo-0: ")
    )


@pytest.mark.parametrize(("scheme", "width"), SCREENS)
def test_the_viewer(chromium, axe, tmp_path, scheme, width):
    write_page(open_path("embedded"), tmp_path / "view.html")
    assert checked(tmp_path / "view.html", chromium, axe, scheme=scheme, width=width) == (1, {})


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="needs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    return folder


def test_no_page_of_the_documentation_loads_from_elsewhere(site):
    """Scripts, styles, pictures and frames; links that a reader may click are no requests."""
    other = r"""="?(?:https?:)?//"""
    loads = re.compile(rf"<(?:script|img|iframe|source|video)\b[^>]*\bsrc{other}|<link\b(?=[^>]*stylesheet)[^>]*\bhref{other}")
    pages = [*site.rglob("*.html")]
    assert len(pages) > 50 and not [page.name for page in pages if loads.search(page.read_text(encoding="utf-8"))]
    styles = [
        file
        for file in site.rglob("*.css")
        if re.search(r"@import|url\([\"']?(?:https?:)?//", file.read_text(encoding="utf-8"))
    ]
    assert not styles


@pytest.mark.parametrize(("scheme", "width"), SCREENS)
@pytest.mark.parametrize("page", ["index", "evaluation", "tutorials/submissions"])
def test_the_documentation(chromium, axe, site, page, scheme, width):
    assert checked(site / f"{page}.html", chromium, axe, scheme=scheme, width=width) == (1, {})


def test_every_page_of_the_documentation(chromium, axe, site):
    """Each on one of the screens, in turns; the page of a wrong address has its style only on a server."""
    pages = sorted(page for page in site.rglob("*.html") if page.name != "404.html")
    screens = [dict(zip(("scheme", "width"), SCREENS[number % len(SCREENS)], strict=True)) for number in range(len(pages))]
    found = {
        page.name: checked(page, chromium, axe, headings=False, **screen)[1]
        for page, screen in zip(pages, screens, strict=True)
    }
    assert not {name: broken for name, broken in found.items() if broken}
