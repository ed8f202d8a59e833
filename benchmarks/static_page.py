"""The page of `upsolve view --static` at its largest: python benchmarks/static_page.py WORK [--attempts 10000] [--out FILE.json]

Creates the folder of an online run in WORK: attempts of 12 to 30 lines of Python's own library, with tokens of SmolLM2 and random
log-probabilities, in recorded groups of ten. Reported: size of the page, seconds to write it, and, in Chromium (Playwright, the system's
browser), seconds from the request to the first list of attempts, to an attempt, and to its first heat map.
"""

import argparse
import json
import random
import shutil
import sysconfig
import time
from pathlib import Path

from machine import machine, publish

LINES, GROUP = (12, 30), 10
NAMES = ("chromium", "chromium-browser", "google-chrome")


def make_run(folder, count):
    """Write the folder of a run with this many attempts."""
    from upsolve.archive.store import Archive
    from upsolve.config import load_recipe
    from upsolve.policy.model import codec_of
    from upsolve.reward.formula import reward
    from upsolve.train.data.drawn import FOLDER, DrawnGroups
    from upsolve.train.data.groups import with_advantages
    from upsolve.types import Attempt, Finding, Status, Task, TestCase, TestKind, Verdict

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").write_text("model: {name: smollm2-135m}\nadvantage: {kind: leave_one_out, blame: 0.5}\n")
    (folder / "metrics.jsonl").write_text("".join(json.dumps({"step": n, "loss": 1 / n}) + "\n" for n in range(1, 201)))
    recipe, rng = load_recipe(folder / "recipe.yaml"), random.Random(0)
    codec, archive = codec_of(recipe.model), Archive.create(folder / "rollouts")
    library = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    lines = [line for file in library for line in file.read_text(encoding="utf-8").splitlines()]
    test = TestCase(TestKind.CALL, "f(2)", "4")
    tasks = [Task(f"synthetic/{number:06d}", f"Task {number}", (test,), "f") for number in range(count // GROUP)]
    attempts, verdicts = [], []
    for number in range(count):
        size, start = rng.randint(*LINES), rng.randrange(len(lines) - LINES[1])
        plain = Attempt(tasks[number // GROUP].task_id, "\n".join(lines[start : start + size]), author="policy in training")
        ids = codec.ids_of(plain)
        logps = tuple(-rng.expovariate(3) for _ in ids)
        attempts.append(
            Attempt(
                plain.task_id,
                plain.code,
                author=plain.author,
                token_ids=ids,
                token_logps=logps,
                behavior_logp=sum(logps),
                tokens=len(ids),
            )
        )
        status = rng.choice((Status.PASSED, Status.FAILED, Status.RUNTIME_ERROR))
        traceback = Finding("traceback", "ValueError", "a message", min(3, size))
        found = (traceback,) if status is Status.RUNTIME_ERROR else ()
        verdicts.append(
            Verdict(attempts[-1].attempt_id, status, int(not found), 1, (status,), judge="upsolve-1", findings=found)
        )
    archive.append(tasks=tasks, attempts=attempts, verdicts=verdicts, tag="00000000")
    groups = [with_advantages(reward(group, recipe.reward), recipe.advantage, seed=0) for group in archive.groups()]
    DrawnGroups(folder / FOLDER, by_token=False).record(0, groups)
    return sum(attempt.tokens for attempt in attempts)


def opened(page_file):
    """Return the seconds that a new Chromium needs for the page, an attempt, and a heat map."""
    from playwright.sync_api import sync_playwright

    binary = next(found for name in NAMES if (found := shutil.which(name)))
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=binary, args=["--no-sandbox", "--disable-gpu"])
        page, seconds = browser.new_page(), {}
        page.goto("about:blank")

        def timed(name, act, wait_for):
            start = time.perf_counter()
            act()
            page.wait_for_selector(wait_for)
            seconds[name] = round(time.perf_counter() - start, 3)

        timed("list of attempts", lambda: page.goto(page_file.resolve().as_uri()), "main tbody tr")
        timed("an attempt", lambda: page.locator("tbody tr a").nth(3).click(), ".heat")
        timed("heat map", lambda: page.keyboard.press("h"), ".code .token")
        browser.close()
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--attempts", type=int, default=10_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    from upsolve.view.opening import open_path
    from upsolve.view.static import write_page

    tokens = make_run(options.work / "run", options.attempts)
    start, file = time.perf_counter(), options.work / "page.html"
    said = write_page(open_path(str(options.work / "run")), file)
    written = round(time.perf_counter() - start, 1)
    report = {
        "machine": machine(),
        "attempts": options.attempts,
        "tokens": tokens,
        "said": said.partition(": ")[2],
        "bytes": file.stat().st_size,
        "seconds to write": written,
        "seconds to open, of three": [opened(file) for _ in range(3)],
    }
    publish(report, options.out)


if __name__ == "__main__":
    main()
