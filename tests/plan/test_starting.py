"""``upsolve init``: a first recipe that fits the archive, and that can be run as it is."""

import json
import re
import shlex

import pytest
import yaml
from documents import ROOT, blocks, commands

from upsolve.archive.store import Archive, open_archive
from upsolve.cli.main import main
from upsolve.config import load_recipe
from upsolve.plan.starting import look_at
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict


def archive_of(folder, *, author="student", tests=1, mixed=True, split=False):
    archive = Archive.create(folder)
    names = [f"t{n}" for n in range(6)]
    cases = (TestCase(TestKind.CALL, "f(2)", "4"),) * tests
    extra = [json.dumps({"split": "train" if n < 4 else "test"}) if split else "" for n in range(6)]
    tasks = [Task(name, f"Double x. {name}", cases, "f", extra=extra[n]) for n, name in enumerate(names)]
    attempts = [Attempt(name, f"def f(x):\n    return x * {k}\n", author=author) for name in names for k in (2, 3)]
    statuses = [Status.PASSED, Status.FAILED if mixed else Status.PASSED] * 6
    verdicts = [Verdict(a.attempt_id, s, judge="recorded:x") for a, s in zip(attempts, statuses, strict=True)]
    archive.append(tasks=tasks, attempts=attempts, verdicts=verdicts)
    return folder


def init(monkeypatch, *arguments):
    return command(monkeypatch, "init", *arguments)


def command(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["upsolve", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    return stop.value.code


def test_a_recipe_is_written_once_and_loads(tmp_path, monkeypatch, capsys):
    folder, file = archive_of(tmp_path / "Übung 1", split=True), tmp_path / "mine.yaml"
    assert init(monkeypatch, folder, "--model", "some/model", "--out", file) == 0
    recipe = load_recipe(str(file))
    assert (recipe.name, recipe.model.name, recipe.data.archive) == ("mine", "some/model", str(folder))
    assert f"archive: {folder}\n" in file.read_text(encoding="utf-8")
    assert recipe.data.split_by == "split" and recipe.advantage.kind == "passed"
    shown = capsys.readouterr().out
    assert "12 attempts (python) at 6 tasks" in shown and f"upsolve run {file}" in shown
    assert init(monkeypatch, folder, "--out", file) == 2
    assert "--force" in capsys.readouterr().err
    assert init(monkeypatch, folder, "--out", file, "--force") == 0
    assert "on the Hub" not in shown + capsys.readouterr().out
    assert init(monkeypatch, folder, "--out", file, "--force", "--model", "runs/mine/training/modle") == 0
    assert "--model runs/mine/training/modle: no such file or folder" in capsys.readouterr().out


def test_init_names_the_share_that_decides_the_recipe_and_the_verdicts_that_come_first(tmp_path, monkeypatch, capsys):
    folder, file = archive_of(tmp_path / "archive"), tmp_path / "mine.yaml"
    init(monkeypatch, folder, "--out", file)
    assert "0% of the attempts are the model's own, and comparing them needs 50%" in file.read_text()
    assert [line.partition(" ")[0] for line in capsys.readouterr().out.splitlines()[1:]] == ["next:", "then:"]
    init(monkeypatch, folder, "--out", file, "--force", "--model", "student")
    assert "100% of the attempts are the model's own (50% or more)" in file.read_text()
    open_archive(folder).append(attempts=[Attempt("t0", "new")])
    capsys.readouterr()
    init(monkeypatch, folder, "--out", file, "--force")
    assert (
        f"1 attempts have no verdict yet: run `upsolve verify` first.\nnext: upsolve verify {folder}" in capsys.readouterr().out
    )


@pytest.mark.slow
def test_each_command_prints_the_next_one_of_the_path_in_the_readme(tmp_path, tiny_model, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = [chr(97 + n // 26) + chr(97 + n % 26) for n in range(60)]
    tests = [{"kind": "call", "input": "f(2)", "expected": "4"}]
    tasks = [{"kind": "task", "task_id": w, "prompt": f"Double {w * 30}.", "entry_point": "f", "tests": tests} for w in words]
    attempts = [{"kind": "attempt", "task_id": w, "code": f"def f({w}_):\n    return 2 * {w}_", "author": "me"} for w in words]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, [*tasks, *attempts])))
    more = {
        "init": ["--model", tiny_model, "--out", "mine.yaml"],
        "plan": ["--tasks", 2, "--judged", 4],
        "run": [
            *("--set", "evaluate.temperatures=[0]", "--set", "evaluate.tasks=2", "--set", "sample.max_tokens=8"),
            *("--set", "optim.max_steps=1", "--set", "evaluate.ks=[1]", "--set", "sample.samples=1"),
        ],
    }
    line, walked = "upsolve ingest data.jsonl my-archive", []
    while "upsolve view" not in line:
        walked.append(line)
        _, *arguments = shlex.split(line)
        assert command(monkeypatch, *arguments, *more.get(arguments[0], ())) == 0
        (line,) = re.findall(r"^next: (.*?)    #", capsys.readouterr().out, re.MULTILINE)
    assert line == "upsolve view runs/mine"
    given = " --model Qwen/Qwen2.5-Coder-0.5B --out mine.yaml"
    (block,) = [one for one in blocks(ROOT / "README.md") if "upsolve init" in one.text]
    assert [*map(shlex.join, commands(block.text))] == [one + given * one.startswith("upsolve init") for one in walked]


def test_a_recipe_offers_the_new_verdicts_where_there_are_recorded_ones(tmp_path, monkeypatch):
    folder, file = archive_of(tmp_path / "archive"), tmp_path / "r.yaml"
    init(monkeypatch, folder, "--out", file)
    assert "judge" not in file.read_text()
    archive = open_archive(folder)
    archive.append(verdicts=[Verdict(one.attempt_id, Status.PASSED, judge="upsolve-2") for one in archive.attempts()])
    init(monkeypatch, folder, "--out", file, "--force")
    assert load_recipe(str(file)).data.judge == "" and "  # judge: upsolve  #" in file.read_text()


def test_own_attempts_are_compared_and_not_imitated(tmp_path, monkeypatch):
    folder, file = archive_of(tmp_path / "archive", author="me"), tmp_path / "r.yaml"
    init(monkeypatch, folder, "--model", "me", "--out", file)
    recipe = load_recipe(str(file))
    assert recipe.advantage.kind == "leave_one_out" and recipe.data.split_by == ""


def test_a_recipe_trains_as_it_is_where_tasks_have_few_attempts(tmp_path, tiny_model, monkeypatch):
    folder, file = archive_of(tmp_path / "archive"), tmp_path / "r.yaml"
    assert init(monkeypatch, folder, "--model", tiny_model, "--out", file) == 0
    assert load_recipe(str(file)).data.group_size == 2
    assert command(monkeypatch, "train", file, "--out", tmp_path / "run") == 0


@pytest.mark.parametrize(("counts", "size"), [([1, 1, 1], 1), ([9, 1, 1], 4), ([2, 3, 3, 3, 3], 2), ([2, 3, 3, 3, 3, 3], 3)])
def test_groups_are_as_large_as_most_tasks_with_several_attempts_allow(tmp_path, counts, size):
    archive = Archive.create(tmp_path / "archive")
    tasks = [Task(f"t{n}", "") for n in range(len(counts))]
    archive.append(
        tasks=tasks, attempts=[Attempt(task.task_id, "", "", count=count) for task, count in zip(tasks, counts, strict=True)]
    )
    assert look_at(archive).group == size


def test_init_states_what_an_archive_lacks(tmp_path, monkeypatch):
    folder, file = archive_of(tmp_path / "archive", tests=0, mixed=False), tmp_path / "r.yaml"
    init(monkeypatch, folder, "--out", file)
    text = file.read_text()
    assert "6 tasks have no tests" in text and "No task has both a passed and a failed attempt" in text
    assert yaml.safe_load(text)["evaluate"]["temperatures"] == [0, 0.2, 0.6, 1.0]


@pytest.mark.parametrize("folds", [(), ("--folds", 2)])
def test_an_archive_without_tests_is_trained_on_and_measured_elsewhere(tmp_path, monkeypatch, capsys, folds):
    folder, file = archive_of(tmp_path / "archive", tests=0, split=not folds), tmp_path / "r.yaml"
    init(monkeypatch, folder, "--out", file)
    *_, train, measure = capsys.readouterr().out.splitlines()
    assert train.startswith(f"then: upsolve train {file} --out runs/r ")
    assert "upsolve eval runs/r/recipe.yaml --model runs/r/model --set 'evaluate.archives=[NAME]' --out runs/r " in measure
    assert command(monkeypatch, "run", file, "--out", tmp_path / "run", *folds) == 2
    assert re.search("evaluate.split: test: none of .* has tests.*evaluate.archives.*upsolve train", capsys.readouterr().err)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("archive", ["embedded", "embedded-sql"])
def test_the_archives_of_the_package_get_a_recipe(tmp_path, monkeypatch, archive):
    file = tmp_path / "first.yaml"
    assert init(monkeypatch, archive, "--out", file) == 0
    recipe = load_recipe(str(file))
    assert recipe.data.split_by == ("split" if archive == "embedded-sql" else "") and recipe.data.group_size == 4
    assert 64 <= recipe.sample.max_tokens <= 512 and recipe.data.max_tokens <= recipe.optim.tokens_per_batch
