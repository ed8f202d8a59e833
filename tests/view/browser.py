"""Pages of a real Chromium (the fixture ``chromium``) for tests of the viewer."""

from contextlib import contextmanager


@contextmanager
def open_page(chromium, **options):
    """Yield a page without cookies and storage of earlier ones, and the list of what went wrong on it: errors of scripts, refused loads,
    dialogs, requests to elsewhere."""
    context = chromium.new_context(**options)
    page, faults = context.new_page(), []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    page.on("dialog", lambda dialog: (faults.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda asked: None if local(asked.url) else faults.append(f"asked {asked.url}"))
    page.set_default_timeout(120_000)
    try:
        yield page, faults
    finally:
        context.close()


def local(url):
    """Whether an address is this machine's own."""
    return url.startswith(("http://127.0.0.1", "file:", "data:", "blob:", "about:"))
