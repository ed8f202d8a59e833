"""The pictures of docs/viewer.md: python tools/screenshots.py. Needs Playwright and the system's Chromium (tests/view/browser.py)."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from upsolve.view.opening import open_path
from upsolve.view.static import write_page

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "view"))
from browser import open_page  # noqa: E402

MOST_BYTES = 150_000


def shoot(page, name):
    """Write a picture; it is an error if it is too large."""
    file = ROOT / "docs" / name
    page.screenshot(path=file)
    assert file.stat().st_size < MOST_BYTES, f"{file}: {file.stat().st_size} bytes"
    print(file, file.stat().st_size)


def main():
    with TemporaryDirectory() as folder, open_page(viewport={"width": 1000, "height": 560}) as (page, faults):
        file = Path(folder) / "embedded.html"
        print(write_page(open_path("embedded"), file))
        page.goto(file.as_uri() + "#/attempts?status=runtime_error&author=")
        page.wait_for_selector("main tbody tr")
        page.wait_for_timeout(500)
        shoot(page, "viewer_attempts.png")
        page.keyboard.press("Enter")
        page.wait_for_selector(".code")
        page.wait_for_timeout(300)
        page.locator("#theme").click()
        page.locator("#theme").click()
        page.set_viewport_size({"width": 1000, "height": 760})
        shoot(page, "viewer_attempt.png")
        assert not faults, faults


if __name__ == "__main__":
    main()
