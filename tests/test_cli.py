"""The command line, as a person types it."""

import json
import subprocess
import sys

import pytest

from upsolve.cli.main import main

TASK = {
    "kind": "task",
    "task_id": "a",
    "prompt": "double",
    "entry_point": "f",
    "tests": [{"kind": "call", "input": "f(2)", "expected": "4"}],
}
RIGHT = {"kind": "attempt", "task_id": "a", "code": "def f(x):\n    return 2 * x"}
WRONG = {"kind": "attempt", "task_id": "a", "code": "def f(x):\n    return x"}


def upsolve(*words, code=0):
    done = subprocess.run([sys.executable, "-m", "upsolve", *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def here(monkeypatch, capfd):
    """The same in this process, which has imported what models need already."""

    def run(*words, code=0):
        monkeypatch.setattr(sys, "argv", ["upsolve", *map(str, words)])
        with pytest.raises(SystemExit) as done:
            main()
        said = "".join(capfd.readouterr())
        assert (done.value.code or 0) == code, said
        return said

    return run


@pytest.fixture
def archive(tmp_path):
    file = tmp_path / "in.jsonl"
    file.write_text("\n".join(map(json.dumps, (TASK, RIGHT, WRONG))))
    said = upsolve("ingest", "jsonl", file, tmp_path / "archive")
    assert "1 tasks, 2 attempts" in said
    return tmp_path / "archive"


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
def test_memory_is_a_table_and_says_what_does_not_fit(here, tiny_model, monkeypatch):
    said = here("memory", "demo", "--model", tiny_model)
    assert all(word in said for word in ("weights", "optimiser", "gradients", "activations", "peak"))
    monkeypatch.setattr("upsolve.train.memory.available_bytes", lambda: 1000)
    assert "does not fit: lower optim.tokens_per_batch" in here("memory", "demo", "--model", tiny_model, code=1)


def test_ingest_verify_look_and_export(archive, tmp_path):
    assert "judged 2, 0 were judged before, 0 have no task here" in upsolve("verify", archive)
    assert "judged 0, 2 were judged before" in upsolve("verify", archive)
    assert "judged 2, 0 were judged before" in upsolve("verify", archive, "--analysis", "syntax")
    assert "judged 0, 2 were judged before" in upsolve("verify", archive, "--analysis", "syntax")
    assert "analyses are complexity, dead" in upsolve("verify", archive, "--analysis", "style", code=2)
    assert "mixed_tasks  1" in upsolve("archive", "info", archive)
    said = upsolve("archive", "query", archive, "select status, passed from verdicts order by status")
    assert "failed" in said and "passed" in said
    assert "5 records" in upsolve("archive", "export", archive, tmp_path / "out.jsonl")
    assert "already" in upsolve("ingest", "jsonl", tmp_path / "in.jsonl", archive)


def test_sampling_measuring_and_reporting(tiny_model, archive, tmp_path, here):
    settings = ["--set", "sample.samples=2", "--set", "sample.max_tokens=8"]
    upsolve("sample", archive, "--model", tiny_model, *settings)
    assert "attempts     4" in here("archive", "info", archive)
    assert "0 attempts added" in here("sample", archive, "--model", tiny_model, *settings)
    assert "1 attempts added" in here("sample", archive, "--model", tiny_model, *settings, "--set", "sample.samples=3")
    recipe = tmp_path / "r.yaml"
    recipe.write_text("evaluate: {tasks: 2, ks: [1, 2]}\n")
    for name in ("one", "two"):
        said = here("eval", recipe, "--model", tiny_model, "--name", name, "--out", tmp_path, *settings)
        assert "pass@2" in said
    said = here("report", tmp_path / "one.json", tmp_path / "two.json", "--out", tmp_path / "r.html")
    assert "told from chance" in said and "<svg" in (tmp_path / "r.html").read_text()


def test_errors_are_one_message_and_no_traceback(tmp_path):
    for words in (
        ["archive", "info", tmp_path / "none"],
        ["train", tmp_path / "none.yaml"],
        ["ingest", "mbpp", tmp_path / "none.jsonl", tmp_path / "archive"],
        ["report", tmp_path / "none.json"],
    ):
        said = upsolve(*words, code=2)
        assert said.strip().startswith("upsolve: ") and "Traceback" not in said and "none" in said


def test_verify_wants_an_archive_or_serve():
    assert "an archive to judge, or --serve" in upsolve("verify", code=2)


def test_help_names_the_commands():
    said = upsolve("--help")
    assert all(name in said for name in ("ingest", "verify", "train", "sample", "eval", "report", "run", "doctor"))


def test_the_doctor_tries_an_attack_of_each_group():
    said = upsolve("doctor", "--quick")
    assert [line for line in said.splitlines() if line in ("layers", "fake pass", "escape", "exhaust", "interfere")] == [
        "layers",
        "fake pass",
        "escape",
        "exhaust",
        "interfere",
    ]
    assert "ok  pidns" in said and "answers_in_advance/call" in said and said.rstrip().endswith("19 checks, 0 failed")
