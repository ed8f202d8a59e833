"""Documents show the leaderboard's committed cells."""

import importlib
import sys
from pathlib import Path

import pytest

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
