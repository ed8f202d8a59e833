"""``upsolve init``: a first recipe that fits the archive, and that can be run as it is."""

import json

import pytest
import yaml

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
    folder, file = archive_of(tmp_path / "archive", split=True), tmp_path / "mine.yaml"
    assert init(monkeypatch, folder, "--model", "some/model", "--out", file) == 0
    recipe = load_recipe(str(file))
    assert (recipe.name, recipe.model.name, recipe.data.archive) == ("mine", "some/model", str(folder))
    assert recipe.data.split_by == "split" and recipe.advantage.kind == "passed"
    shown = capsys.readouterr().out
    assert "12 attempts (python) at 6 tasks" in shown and f"upsolve run {file}" in shown
    assert init(monkeypatch, folder, "--out", file) == 2
    assert "--force" in capsys.readouterr().err
    assert init(monkeypatch, folder, "--out", file, "--force") == 0


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


@pytest.mark.parametrize("archive", ["embedded", "embedded-sql"])
def test_the_archives_of_the_package_get_a_recipe(tmp_path, monkeypatch, archive):
    file = tmp_path / "first.yaml"
    assert init(monkeypatch, archive, "--out", file) == 0
    recipe = load_recipe(str(file))
    assert recipe.data.split_by == ("split" if archive == "embedded-sql" else "") and recipe.data.group_size == 4
    assert 64 <= recipe.sample.max_tokens <= 512 and recipe.data.max_tokens <= recipe.optim.tokens_per_batch
