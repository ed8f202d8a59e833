"""The tutorials, typed from their own text: every command that can run here runs, in the order of the page, on a tiny model."""

import os
import re
import runpy
import shlex
import subprocess
import sys

import pytest
from documents import ROOT, TYPED, blocks, forget_modules, outputs, run_command, write_files

from upsolve.archive.store import open_archive

PAGES = ROOT / "docs" / "tutorials"
SHORT = (
    "evaluate.temperatures=[0]",
    "sample.max_tokens=8",
    "sample.samples=2",
    "evaluate.tasks=6",
    "evaluate.likelihood_tasks=4",
)
TRAINED = ("optim.max_steps=2", "monitor.heldout=2")
SMALL = {
    "train": TRAINED,
    "run": (*SHORT, *TRAINED, "data.train=0.5"),
    "plan": ("sample.max_tokens=8",),
    "sample": SHORT[1:3],
    "memory": (),
}
"""Settings with which a command takes seconds, by command."""


@pytest.fixture
def typed(tmp_path, monkeypatch, tiny_model):
    """Type the shell blocks of a page in an empty folder, where a small model stands for every other."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def type_page(name):
        write_files(PAGES / name, tmp_path)
        for block in blocks(PAGES / name):
            if block.kind == "shell" and not block.not_run:
                exec(block.setup, {"ROOT": ROOT})
                for line in re.sub(r"\\\n\s*", " ", block.text).splitlines():
                    type_line(shlex.split(line, comments=True))
            if block.kind == "json":
                (tmp_path / "awk.jsonl").write_text(block.text)

    def type_line(words):
        if words[0] == "upsolve":
            run_command(small(words))
        elif words[0] == "python":
            runpy.run_path(words[1], run_name="__main__")
        elif words[0] == "torchrun":
            launch("torch.distributed.run", small(words)[1:])
        else:
            variable, value = words[0].split("=", 1)
            launch("upsolve", words[2:], **{variable: value})

    def launch(module, words, **environment):
        everything = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", **environment}
        command = [sys.executable, "-m", module, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=everything)
        assert not done.returncode, done.stderr[-3000:]
        print(done.stdout)

    def small(words):
        command = words[words.index("upsolve") + 1]
        if command == "view":
            return [*words, "--static", "page.html"]
        if "--model" in words or command not in (*SMALL, "init"):
            return with_settings(words, command)
        return with_settings([*words, "--model", tiny_model], command)

    def with_settings(words, command):
        words = [tiny_model if word == "smollm2-135m" else word for word in words]
        return [*words, *(word for setting in SMALL.get(command, ()) for word in ("--set", setting))]

    yield type_page
    forget_modules(tmp_path)


def test_the_pages_are_those_that_are_typed_here():
    assert all((PAGES / name).is_file() for name in TYPED)


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.name)
def test_a_tutorial_begins_with_its_goal_its_time_and_its_needs(page):
    _, _, names, _, values, *_ = page.read_text().split("\n")
    assert names == "|goal|time|needs|" and re.search(r"\|\d+ minutes", values)
    assert outputs(page) or page.name == "nodes.md", "the output of its commands"


def shows_its_outputs(name, said, *, but=()):
    """Whether all outputs that a page shows were printed, but those of a larger model."""
    assert [line for line in outputs(PAGES / name) if line not in said and not line.startswith(but)] == []


@pytest.mark.slow
def test_the_sandbox_before_trl(capsys):
    run_command(["upsolve", "doctor", "--quick"])
    shows_its_outputs("trl.md", capsys.readouterr().out)


@pytest.mark.slow
def test_a_table_of_submissions(typed, tmp_path, capsys):
    typed("submissions.md")
    text, said = (PAGES / "submissions.md").read_text(), capsys.readouterr().out
    shows_its_outputs("submissions.md", said, but=("More capable: ",))
    archive = open_archive(tmp_path / "my-archive")
    judges = ("recorded", "upsolve")
    assert [{v.judge.startswith(name) for v in archive.verdicts()} for name in judges] == [{True, False}] * 2
    assert (tmp_path / "runs/mine/report.html").is_file() and (tmp_path / "runs/mine-2/report.html").is_file()
    assert "make_submissions" in text and (tmp_path / "page.html").is_file()


@pytest.mark.slow
def test_a_language_a_reward_an_objective_a_simulator(typed, tmp_path, capfd):
    typed("own.md")
    shows_its_outputs("own.md", capfd.readouterr().out)
    verdicts = open_archive(tmp_path / "awk-archive").verdicts()
    assert sorted(verdict.status for verdict in verdicts) == ["failed", "failed", "passed", "passed"]
    recipe = (tmp_path / "runs/own/recipe.yaml").read_text()
    assert "my_objective:CAREFUL" in recipe and "my_reward:BREVITY: 0.1" in recipe
    assert len(open_archive(tmp_path / "lift-archive").tasks()) == 2


@pytest.mark.slow
def test_one_process_and_two(typed, tmp_path, capfd):
    typed("gpus.md")
    shows_its_outputs("gpus.md", capfd.readouterr().out)
    assert all((tmp_path / f"runs/{name}/summary.json").is_file() for name in ("one", "two"))
