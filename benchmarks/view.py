"""The viewer at the size of a large archive: python benchmarks/view.py WORK [--attempts 1000000] [--out FILE.json]

Creates an archive of synthetic attempts in WORK (once), and starts `upsolve view` on it twice: without an index in the cache, and with one.
Reported: seconds from the first request to the first page of attempts, seconds until the index is built, milliseconds of the requests that a
reader makes afterwards (the median of five): pages, filters, a search in the code, counts, an attempt, a task.
"""

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

from machine import machine, publish

EACH = 250
"""Attempts at a task."""
PART = 20_000
"""Attempts of a part."""


def make_archive(folder, count):
    """Write an archive of this many attempts; a finished one is used again."""
    from upsolve.archive.store import Archive
    from upsolve.types import Attempt, Finding, Status, Task, TestCase, TestKind, Verdict

    if (folder / "done").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    archive, rng = Archive.create(folder), random.Random(0)
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    statuses = (Status.PASSED, Status.FAILED, Status.TIMEOUT, Status.RUNTIME_ERROR, Status.UNSCORED)
    test = TestCase(TestKind.CALL, "f(2)", "4")
    names = [f"synthetic/{number:06d}" for number in range(max(1, count // EACH))]
    levels = ("easy", "medium", "hard")
    archive.write([Task(name, f"Task {name}", (test,), "f", difficulty=rng.choice(levels)) for name in names], (), ())
    for first in range(0, count, PART):
        attempts, verdicts = [], []
        for number in range(first, min(count, first + PART)):
            start = rng.randrange(len(lines) - 12)
            code = "\n".join([f"# attempt {number}", *lines[start : start + 12]])
            attempts.append(Attempt(rng.choice(names), code, author=f"author-{number % 97}", tokens=len(code) // 4))
            findings = (Finding("lint", rng.choice(("F401", "E501", "B006")), "a finding", 3),) if number % 3 == 0 else ()
            status = statuses[min(number % 7, 4)]
            passed = int(status is Status.PASSED)
            verdict = Verdict(attempts[-1].attempt_id, status, passed, 1, (status,), judge="upsolve-1", findings=findings)
            verdicts.append(verdict)
        archive.write((), attempts, verdicts)
    (folder / "done").write_text("")


class Viewer:
    """A running `upsolve view`."""

    def __init__(self, archive, cache):
        words = [sys.executable, "-m", "upsolve", "view", str(archive), "--port", "0", "--no-browser"]
        environment = {**__import__("os").environ, "UPSOLVE_CACHE": str(cache)}
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
        address = next(word for line in self.process.stdout for word in line.split() if word.startswith("http://"))
        self.base = address.partition("/?")[0]
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        self.opener.open(address).read()

    def ask(self, path, **query):
        """Return the answer to a request, and its seconds."""
        start = time.perf_counter()
        with self.opener.open(f"{self.base}/api/{path}?{urllib.parse.urlencode(query)}") as answer:
            data = json.loads(answer.read())
        return data, time.perf_counter() - start

    def wait(self):
        """Return the seconds until the index is built."""
        start = time.perf_counter()
        while not self.ask("info")[0]["ready"]:
            time.sleep(0.1)
        return time.perf_counter() - start

    def stop(self):
        """Stop the server."""
        self.process.terminate()
        self.process.wait()


def requests_of(viewer):
    """Yield a name and a request for everything that a reader does."""
    rows, _ = viewer.ask("attempts")
    place, task = rows["rows"][7]["place"], rows["rows"][7]["task_id"]
    middle = 25 << 32
    yield "first page", ("attempts", {})
    yield "page in the middle", ("attempts", {"after": middle})
    yield "outcome", ("attempts", {"status": "timeout"})
    yield "outcome, author, finding", ("attempts", {"status": "failed", "author": "author-3", "finding": "lint:E501"})
    yield "text in the code, frequent", ("attempts", {"text": "random.Random"})
    yield "text in the code, in the last part", ("attempts", {"text": "attempt 999999"})
    yield "count of an outcome", ("count", {"status": "timeout"})
    yield "tasks", ("tasks", {})
    yield "an attempt", ("attempt", {"place": place})
    yield "a task", ("task", {"id": task})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--attempts", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    archive, cache = options.work / f"archive-{options.attempts}", options.work / "cache"
    make_archive(archive, options.attempts)
    shutil.rmtree(cache, ignore_errors=True)
    report = {"machine": machine(), "attempts": options.attempts, "seconds": {}}
    for label in ("without index", "with index"):
        viewer = Viewer(archive, cache)
        try:
            (rows, first), index = viewer.ask("attempts"), viewer.wait()
            assert len(rows["rows"]) == 100
            report["seconds"][label] = {"first page": round(first, 3), "index": round(index, 3)}
            if label == "with index":
                timed = {name: [viewer.ask(path, **query)[1] for _ in range(5)] for name, (path, query) in requests_of(viewer)}
                report["milliseconds"] = {name: round(statistics.median(each) * 1000, 1) for name, each in timed.items()}
        finally:
            viewer.stop()
    publish(report, options.out)


if __name__ == "__main__":
    main()
