"""The pictures of docs/viewer.md: python tools/screenshots.py. Needs Playwright and the system's Chromium (tests/view/browser.py)."""
# pyright: basic, reportMissingImports=false

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

from upsolve.view.opening import open_path
from upsolve.view.static import write_page

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "view")]
from browser import open_page  # noqa: E402
from conftest import BROWSERS, QUIET  # noqa: E402

MOST_BYTES = 150_000


def shoot(page, name):
    """Write a picture; it is an error if it is too large."""
    file = ROOT / "docs" / name
    page.screenshot(path=file)
    assert file.stat().st_size < MOST_BYTES, f"{file}: {file.stat().st_size} bytes"
    print(file, file.stat().st_size)


def main():
    binary = next(found for name in BROWSERS if (found := shutil.which(name)))
    with TemporaryDirectory() as folder, sync_playwright() as running:
        browser = running.chromium.launch(executable_path=binary, args=[*QUIET])
        take(browser, folder)
        browser.close()


def take(browser, folder):
    with open_page(browser, viewport={"width": 1000, "height": 560}) as (page, faults):
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
