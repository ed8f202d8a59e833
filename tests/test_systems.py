"""The systems of docs/systems.md: every row is counted, and every command that a row names is run from the page's own text."""

import json
import re
import shlex
import shutil
import sys
from functools import cache
from itertools import islice, pairwise
from pathlib import Path

import pytest
from documents import ROOT, blocks, run_command

from upsolve.archive.store import Archive, open_archive
from upsolve.config import load_recipe
from upsolve.errors import ConfigError
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict

PAGE = ROOT / "docs" / "systems.md"
LINE = re.compile(r"^(?P<command>upsolve .*?) +# (?P<ids>[\w-]+(?:, [\w-]+)*)$")
SYSTEM = re.compile(r"\d{4}\.\d{5}$|\(2025, no paper\)$")
QUICK = {"both", "graded", "refine", "singles", "votes"}
"""One of each kind of command; the others are run by make test-all."""
SMALL = ["model.bf16=false", "data.train=0.8", "data.dev=0.1", "optim.max_steps=2", "monitor.heldout=2", "verify.workers=1"]
SAMPLED = ["source.groups=4", "monitor.stop_on_collapse=false", "reward.weights.length=1", "reward.length=[0, 400]"]
"""Of online runs. What the random model writes fails in one and the same way: let the shorter be the better."""
FEW = ["sample.samples=3", "sample.max_tokens=8", "evaluate.tasks=2", "evaluate.dev_tasks=2", "evaluate.dev_samples=2"]
TOOLS = {"history": "git", "translate-rl": "g++"}
SLOW = "def total(xs):\n    for _ in range(5 * 10**7):\n        pass\n    return sum(xs)"


def commands_of_page():
    """Return the commands by id: of a line with several ids, it is a step of each."""
    found = {}
    for block in blocks(PAGE):
        for line in block.text.splitlines():
            match = LINE.match(line)
            assert match, f"{block.place}: no id: {line}"
            for name in match["ids"].split(", "):
                found.setdefault(name, []).append(match["command"])
    return found


def rows():
    """Yield the heading above each row of the page, and the row's cells."""
    heading = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line[3:]
        cells = line.strip("|").split("|")
        if line.startswith("|") and cells[0] not in ("works", "system", "---"):
            yield heading, cells


COMMANDS = commands_of_page()


def test_each_of_119_systems_has_a_row():
    found = [*rows()]
    names = [cells[0] for _, cells in found]
    assert len({*names}) == len(names) == 119 and all(SYSTEM.search(name) for name in names)
    working = [cells for heading, cells in found if heading not in ("Partly", "No business here")]
    assert len(working) >= 60 and {cells[1].strip("`") for cells in working} == {*COMMANDS}
    assert max(len(" ".join(cells).split()) for _, cells in found) <= 20


@pytest.mark.parametrize("name", COMMANDS)
def test_every_setting_has_an_effect(name):
    for command in COMMANDS[name]:
        words = shlex.split(command)
        recipe = words[2] if words[1] == "train" else None
        settings = [word for before, word in pairwise(words) if before == "--set"]
        for setting in settings:
            assert resolved(recipe, settings) != resolved(recipe, [one for one in settings if one is not setting]), setting


def resolved(recipe, settings):
    """Return the recipe, or None if a setting has no effect without another."""
    try:
        return load_recipe(recipe, settings)
    except ConfigError:
        return None


@pytest.fixture(scope="module")
def archive_named(tmp_path_factory):
    """Return the folder of `my-archive`, of eight tasks and one with a slow program, or of `my-sql`, of eight queries."""

    @cache
    def made(name):
        archive = Archive.create(tmp_path_factory.mktemp("systems") / name)
        stored = open_archive({"my-archive": "embedded", "my-sql": "embedded-sql"}[name])
        for group in islice(stored.groups(), 8):
            verdicts = [verdict for verdict in group.verdicts if verdict]
            archive.append(tasks=[group.task], attempts=group.attempts, verdicts=verdicts)
        if name == "my-archive":
            add_slow_program(archive)
        return archive.path

    return made


def add_slow_program(archive):
    """Add two right programs to an archive, one of which takes a second."""
    task = Task("total", "The sum of a list.", (TestCase(TestKind.CALL, "total([1, 2])", "3"),), "total")
    pair = [Attempt("total", code) for code in ("def total(xs):\n    return sum(xs)", SLOW)]
    verdicts = [
        Verdict(one.attempt_id, Status.PASSED, 1, 1, (Status.PASSED,), "upsolve-2", cpu_seconds=seconds)
        for one, seconds in zip(pair, (0.1, 1.0), strict=True)
    ]
    archive.append(tasks=[task], attempts=pair, verdicts=verdicts)


def small(words, model):
    """Return a command of the page with what makes it small; its own settings stay."""
    verb, said = words[1], " ".join(words)
    if verb not in ("solve", "sample", "eval", "train"):
        return words
    words = words if "--model" in words else [*words, "--model", model]
    if verb == "solve":
        return [*words, "--limit", "2", "--samples", "3", "--out", "answers.jsonl", "--set", "sample.max_tokens=8"]
    words = words if "--archive" in words else [*words, "--archive", "my-archive"]
    few = {"sample": [SMALL[0], *FEW["--repair" in words : 2]], "eval": [*SMALL[:3], *FEW]}.get(verb) or [
        *SMALL,
        *(SAMPLED if load_recipe(words[2]).source.rounds else ["optim.epochs=2"]),
    ]
    return [*words, *(word for one in few if f"{one.partition('=')[0]}=" not in said for word in ("--set", one))]


@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in COMMANDS])
def test_commands_run(name, archive_named, tiny_model, tmp_path, monkeypatch):
    if name in TOOLS and not shutil.which(TOOLS[name]):
        pytest.skip(f"{TOOLS[name]} is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    for archive in ("my-archive", "my-sql"):
        if archive == "my-archive" or archive in " ".join(COMMANDS[name]):
            shutil.copytree(archive_named(archive), tmp_path / archive)
    Path("grade.py").write_text("import json, sys\nfor line in sys.stdin: print(len(json.loads(line)['code']))\n")
    for command in COMMANDS[name]:
        words = small(shlex.split(command.replace("python grade.py", f"{sys.executable} grade.py")), tiny_model)
        if words[1:3] == ["ingest", "git"]:
            write_history(tmp_path / "PATH", monkeypatch)
        run_command(words)
        if words[1] == "train":
            out = words[words.index("--out") + 1] if "--out" in words else "runs/train"
            steps = [json.loads(line) for line in Path(out, "metrics.jsonl").read_text().splitlines()]
            assert [one["grad_norm"] > 0 for one in steps if "grad_norm" in one] == [True, True]
        if words[1] == "solve":
            assert len(Path("answers.jsonl").read_text().splitlines()) == 3  # the settings, and an answer a task


def write_history(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from make_repository import make

    make(folder)
