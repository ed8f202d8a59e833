"""Pages of a real Chromium (the fixture ``chromium``) for tests of the viewer."""

from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

from upsolve.view.address import bind
from upsolve.view.opening import open_path
from upsolve.view.server import application


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


class Served:
    """The viewer, served by a thread of this process: saves the start of `upsolve view` (``Viewer`` of test_view_server.py)."""

    def __init__(self, path):
        import uvicorn

        self.answers, self.bound = open_path(str(path)), bind()
        app = application(self.answers, self.bound.token)
        self.server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
        self.thread = Thread(target=self.server.run, kwargs={"sockets": [self.bound.listener]})
        self.thread.start()
        self.address = self.bound.url

    def stop(self):
        self.server.should_exit = True
        self.thread.join()
        self.bound.listener.close()
        self.answers.close()


def broken_rules(page):
    """Return the rules of axe-core that a page breaks, each with an element; also if it scrolls sideways."""
    (folder,) = find_spec("axe_playwright_python").submodule_search_locations
    page.evaluate(Path(folder, "axe.min.js").read_text(encoding="utf-8"))
    broken = {rule["id"]: rule["nodes"][0]["html"][:200] for rule in page.evaluate("axe.run()")["violations"]}
    wide = page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    return (
        broken
        | ({"scrolls sideways": page.url} if wide else {})
        | dict.fromkeys(empty_headings(page), "a heading without content")
    )


EMPTY = """() => {
  const seen = [...document.querySelectorAll("h1, h2, h3")].filter((one) => one.checkVisibility() && !one.closest("dialog"));
  return seen.filter((one, index) => {
    const next = seen.slice(index + 1).find((other) => other.tagName <= one.tagName);
    const range = new Range();
    range.setStartAfter(one);
    if (next) range.setEndBefore(next); else range.setEndAfter(document.querySelector("main") ?? document.body);
    const part = range.cloneContents();
    part.querySelectorAll("thead, script, style").forEach((each) => each.remove());
    return !part.textContent.trim() && !part.querySelector("svg, img, input");
  }).map((one) => one.textContent);
}"""


def empty_headings(page):
    """Return the headings of a page without content up to the next heading of their rank; heads of a table are no content."""
    return page.evaluate(EMPTY)


def local(url):
    """Whether an address is this machine's own."""
    return url.startswith(("http://127.0.0.1", "file:", "data:", "blob:", "about:"))
