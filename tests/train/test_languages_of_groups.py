"""Groups of archives in several languages: a group's attempts are in the language that its prompt asks for."""

import warnings

import pytest

from upsolve.archive import groups as module
from upsolve.archive import outline
from upsolve.archive.outline import outline_of
from upsolve.archive.split import split_archive
from upsolve.archive.store import Archive
from upsolve.config import DataConfig
from upsolve.config.recipe import load_recipe
from upsolve.errors import ConfigError
from upsolve.policy.prompt import opening
from upsolve.train.check import check_run
from upsolve.train.data.groups import drawn_first, select
from upsolve.train.data.sources import OnlineSource
from upsolve.types import Attempt, Status, Task, Verdict

DATA = DataConfig(train=0.98, dev=0.01)


@pytest.fixture
def archive(tmp_path):
    """Thirty tasks of any language with attempts in three, ten in C++, and ten in Java."""
    archive = Archive.create(tmp_path / "archive")
    asked = {"any": "", "c": "cpp", "j": "java"}
    tasks = [
        Task(f"{kind}{n}", f"prompt {kind} {n}", language=asked[kind])
        for kind in asked
        for n in range(10 + 20 * (kind == "any"))
    ]
    made = [
        Attempt(task.task_id, f"{language} {n}", language=language)
        for task in tasks
        for language in (("python", "c++", "python2") if not task.language else (task.language,))
        for n in range(4)
    ]
    verdicts = [Verdict(a.attempt_id, (Status.PASSED, Status.FAILED)[n % 2], judge="recorded:x") for n, a in enumerate(made)]
    archive.append(tasks=tasks, attempts=made, verdicts=verdicts)
    return archive


def languages(split, data):
    """Return how prompts open, with the languages of the attempts."""
    chosen = [select(group, data) for groups in split.groups.values() for group in groups]
    return {(opening(group.task), attempt.language) for group in chosen for attempt in group.attempts}


def test_without_a_language_tasks_of_any_ask_for_python(archive):
    with pytest.warns(
        UserWarning, match=r"240 attempts are in another language .*: 120 in cpp, 120 in python2; set data.language"
    ):
        split = split_archive(archive, DATA)
    assert languages(split, DATA) == {("```python\n", "python"), ("```cpp\n", "cpp"), ("```java\n", "java")}
    assert sum(map(len, split.tasks.values())) == 50


def test_the_recipe_selects_a_language_and_skips_tasks_in_others(archive):
    data = DATA.model_copy(update={"language": "C++"})
    with pytest.warns(UserWarning, match=r"240 attempts"):
        split = split_archive(archive, data)
    assert languages(split, data) == {("```cpp\n", "c++"), ("```cpp\n", "cpp")}
    assert {task.language for tasks in split.tasks.values() for task in tasks} == {"cpp"}
    assert sum(map(len, split.tasks.values())) == 40


def test_a_language_that_no_task_accepts(tmp_path):
    archive = Archive.create(tmp_path / "a")
    archive.append(tasks=[Task("a", "p", language="java"), Task("b", "p", language="cpp")])
    with pytest.raises(
        ConfigError, match=r"data.language: no task of .* is in go, or accepts any language; they are in cpp, java"
    ):
        split_archive(archive, DATA.model_copy(update={"language": "go"}))


def test_attempts_that_are_all_in_another_language(archive):
    recipe = load_recipe("rloo", ["data.language=rust", f"data.archive={archive.path}"])
    with warnings.catch_warnings(action="ignore"):
        groups = split_archive(archive, recipe.data).groups["train"]
    with pytest.raises(ConfigError, match=r"data.language: no attempt .* \(rust\); there are \d+ in python, \d+ in cpp"):
        check_run(recipe, groups)


def test_groups_drawn_from_an_outline_are_in_one_language(archive, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "SMALL_BYTES", -1)
    monkeypatch.setattr(outline, "LARGE", 10)
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    data = DATA.model_copy(update={"language": "cpp", "group_size": 2})
    with warnings.catch_warnings(action="ignore"):
        groups = split_archive(archive, data).groups["train"]
    assert any(outline_of(groups, index) for index in range(len(groups)))
    drawn = [*drawn_first(groups, data, epoch=0)]
    assert {(group.task.language, attempt.language) for group in drawn for attempt in group.attempts} == {
        ("cpp", "c++"),
        ("cpp", "cpp"),
    }


def test_new_samples_are_in_the_selected_language(archive, tmp_path):
    recipe = load_recipe("grpo", ["data.language=cpp", "data.train=0.98", "data.dev=0.01"])
    with warnings.catch_warnings(action="ignore"):
        groups = split_archive(archive, recipe.data).groups["train"]
    online = OnlineSource(groups, Archive.create(tmp_path / "rollouts"), recipe.source, data=recipe.data)
    assert len(online.tasks) > 20 and {task.language for task in online.tasks} == {"cpp"}
