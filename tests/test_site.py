"""The documentation as a site: it builds without warnings, has all pages, and loads nothing from the network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "view"))
from browser import open_page

pytest.importorskip("mkdocs", reason="needs the extra docs")
pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
LOADED = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=["']?(https?:)?//""")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def test_every_document_is_a_page(site):
    sources = [path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")]
    assert len(sources) > 20
    for page in (*sources, "index.html", "contributing.html", "changelog.html"):
        assert (site / page).is_file(), page


def test_the_reference_has_equations_of_the_docstrings(site):
    text = (site / "reference" / "objective.html").read_text(encoding="utf-8")
    assert "upsolve.objective.clipped" in text and "ppo_clip" in text and "2507.18071" in text


ASKED = {
    "submissions": "tutorials/submissions.html",
    "intervals": "evaluation.html",
    "threat model": "threat-model.html",
}
"""What is typed into the search -> the page that must come first."""


def test_the_search_of_a_folder_finds_guides_first(site, chromium):
    found = {}
    with open_page(chromium, viewport={"width": 1300, "height": 800}) as (page, faults):
        for words in ASKED:
            page.goto((site / "index.html").as_uri())
            page.locator(".md-search__input").first.press_sequentially(words)  # the search listens to keys
            page.wait_for_selector(".md-search-result__item a")
            page.wait_for_timeout(300)
            links = page.locator(".md-search-result__item > a").evaluate_all("all => all.map(one => one.href)")
            found[words] = [link.partition("#")[0].partition("?")[0].removeprefix(f"{site.as_uri()}/") for link in links]
        assert not faults, faults
    assert {words: pages[0] for words, pages in found.items()} == ASKED
    everything = {page for pages in found.values() for page in pages}
    assert not everything & {"log.html", "changelog.html", "agents.html"}


def test_pages_load_nothing_from_the_network(site):
    pages = [*site.rglob("*.html")]
    assert len(pages) > 30
    for page in pages:
        assert not LOADED.search(page.read_text(encoding="utf-8")), page
