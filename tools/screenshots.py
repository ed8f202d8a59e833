"""Pictures of README, report and viewer from stored results: python tools/screenshots.py [OUT]. Needs Playwright and Chromium (tests/view/browser.py).

Without OUT the pictures of the documents in docs/; with OUT those that docs/usability.md asks its questions about, at two widths, light and dark.
"""
# pyright: basic, reportMissingImports=false

import gzip
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import markdown
from playwright.sync_api import sync_playwright

from upsolve.archive.store import open_archive
from upsolve.cli.comparing import write_content
from upsolve.config import dump_recipe, load_recipe
from upsolve.report.run import read_overview
from upsolve.view.answers import Answers
from upsolve.view.opening import open_run
from upsolve.view.static import write_page

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "view")]
from archives import eight_tasks  # noqa: E402
from browser import open_page  # noqa: E402
from conftest import BROWSERS, QUIET  # noqa: E402

MOST_BYTES = 200_000
RESULTS = ROOT / "benchmarks" / "results" / "leaderboard" / "sql"
RUNS = {"sql": "sft", "sql-shuffled": "sft-verdicts-shuffled"}
"""Run -> its stored results, seed 0. The weights, programs and curves of these runs are not stored."""
WIDTHS = {"desktop": (1280, 800), "phone": (390, 844)}
STYLE = """body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; color-scheme: light dark }
table { border-collapse: collapse; display: block; overflow-x: auto } td, th { border: 1px solid #8886; padding: .3rem .7rem }
pre { background: #8882; padding: .8rem; overflow-x: auto } img { max-width: 100% }"""
"""README as GitHub shows it, roughly."""


def shoot(page, file):
    """Write a picture; it is an error if it is too large."""
    page.screenshot(path=file)
    assert file.stat().st_size < MOST_BYTES, f"{file}: {file.stat().st_size} bytes"
    print(file, file.stat().st_size)


def finished_runs(folder):
    """Write the folders of a run and of its control from stored results, and return that of the run."""
    for name, stored in RUNS.items():
        verdicts = "shuffled" if "shuffled" in name else "as_judged"
        recipe = load_recipe("sql_sft", [f"name={name}", "model.name=smollm2-135m", f"reward.verdicts={verdicts}"])
        dump_recipe(recipe, folder / name / "recipe.yaml")
        for what, file in (("base", "base-0"), ("trained", f"{stored}-0")):
            sweep = json.loads(gzip.decompress((RESULTS / f"{file}.json.gz").read_bytes())) | {"name": what}
            sweep["test"] = [one | {"name": what} for one in sweep["test"]]
            (folder / name / f"{what}.json").write_text(json.dumps(sweep))
        command = f"python benchmarks/leaderboard.py WORK --domain sql --methods '{stored.replace('-', ', ', 1).replace('-', ' ')}' --seeds 0"
        (folder / name / "facts.json").write_text(json.dumps({"command": command}))
        steps = json.loads((RESULTS / f"{stored}-0.cost.json").read_text())["steps"]
        done = {"steps": steps, "kept_step": steps, "collapsed": "", "groups": 0, "left_out": {}, "flagged": {}}
        no_model = recipe.model_copy(update={"model": recipe.model.at("none")})  # whose tokenizer the viewer would load
        dump_recipe(no_model, folder / name / "training" / "recipe.yaml")
        (folder / name / "training" / "summary.json").write_text(json.dumps(done))
        (folder / name / "training" / "metrics.jsonl").touch()
    return folder / "sql"


def pages(folder):
    """Write the first pages that a stranger sees, and return their files by name."""
    run = finished_runs(folder / "runs")
    files = {name: folder / f"{name}.html" for name in ("readme", "report", "viewer")}
    text = markdown.markdown((ROOT / "README.md").read_text(encoding="utf-8"), extensions=["tables", "fenced_code"])
    base = f"<html lang=en style='color-scheme: light dark'><base href='{ROOT.as_uri()}/'><meta name=viewport content='width=device-width'>"
    files["readme"].write_text(f"<!doctype html>{base}<style>{STYLE}</style>{text}", encoding="utf-8")
    content = read_overview(run, lambda _names: {})
    known = {name: text for name, text in content.summary.items() if name not in ("date", "duration")}  # not stored
    spent = json.loads((RESULTS / "sft-0.cost.json").read_text())
    known["cost"] = f"training {spent['steps']} steps, {spent['trained_tokens']:,} tokens trained; {known['cost']}"
    write_content(replace(content, summary=known), files["report"])
    write_page(open_run(run / "training", str(eight_tasks(folder / "archive").path), logps=False), files["viewer"])
    return files


def questioned(browser, out):
    """Take the pictures of the questions: README, report and viewer at every width, light and dark."""
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        files = pages(Path(folder))
        for width, (across, down) in WIDTHS.items():
            for scheme in ("light", "dark"):
                with open_page(browser, viewport={"width": across, "height": down}, color_scheme=scheme) as (page, faults):
                    for name, file in files.items():
                        page.goto(file.as_uri())
                        page.wait_for_timeout(700)
                        shoot(page, out / f"{name}-{width}-{scheme}.png")
                    assert not faults, faults


def documented(browser):
    """Take the pictures of README and docs/viewer.md."""
    with TemporaryDirectory() as folder, open_page(browser, viewport={"width": 1000, "height": 620}) as (page, faults):
        page.goto(pages(Path(folder))["report"].as_uri())
        page.wait_for_timeout(300)
        shoot(page, ROOT / "docs" / "report.png")
        file = Path(folder) / "embedded.html"
        print(write_page(Answers(open_archive("embedded"), title="archive embedded"), file))
        page.set_viewport_size({"width": 1280, "height": 640})
        page.goto(file.as_uri() + "#/attempts?status=runtime_error&author=")
        page.wait_for_selector("main tbody tr")
        page.wait_for_timeout(500)
        shoot(page, ROOT / "docs" / "viewer_attempts.png")
        page.keyboard.press("Enter")
        page.wait_for_selector(".code")
        page.wait_for_timeout(300)
        page.locator("#theme").click()
        page.locator("#theme").click()
        page.set_viewport_size({"width": 1000, "height": 600})
        shoot(page, ROOT / "docs" / "viewer_attempt.png")
        assert not faults, faults


def main():
    binary = next(found for name in BROWSERS if (found := shutil.which(name)))
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=binary, args=[*QUIET])
        questioned(browser, Path(sys.argv[1])) if len(sys.argv) > 1 else documented(browser)
        browser.close()


if __name__ == "__main__":
    main()
