"""The documentation as a site: it builds without warnings, has all pages, and loads nothing from the network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_pages_load_nothing_from_the_network(site):
    pages = [*site.rglob("*.html")]
    assert len(pages) > 30
    for page in pages:
        assert not LOADED.search(page.read_text(encoding="utf-8")), page
