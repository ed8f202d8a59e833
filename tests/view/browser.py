"""A real Chromium for tests of the viewer, through Playwright and the system's browser; tests skip where either is missing."""

import shutil
from contextlib import contextmanager

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Names of the system's browser."""


@contextmanager
def open_page(**options):
    """Yield a page of a fresh browser, and the list of what went wrong on it: errors of scripts, refused loads, dialogs, requests to elsewhere."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    binary = next((found for name in NAMES if (found := shutil.which(name))), None)
    if binary is None:
        pytest.skip("no Chromium on this machine")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=binary, args=["--no-sandbox", "--disable-gpu"])
        page, faults = browser.new_page(**options), []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
        page.on("dialog", lambda dialog: (faults.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda asked: None if local(asked.url) else faults.append(f"asked {asked.url}"))
        page.set_default_timeout(30_000)
        try:
            yield page, faults
        finally:
            browser.close()


def local(url):
    """Whether an address is this machine's own."""
    return url.startswith(("http://127.0.0.1", "file:", "data:", "blob:", "about:"))
