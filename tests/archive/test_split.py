import json
from random import Random

import pytest

from upsolve.archive.split import find_leaks, shingles, split_archive, split_tasks
from upsolve.archive.store import Archive, open_archive
from upsolve.config import DataConfig
from upsolve.errors import ConfigError
from upsolve.types import Attempt, Status, Task, Verdict

SHARES = {"train": 0.65, "dev": 0.1, "test": 0.25}


def tasks(count=200):
    return [Task(f"t/{i}", f"words of task number {i}", difficulty="easy" if i % 2 else "hard") for i in range(count)]


def test_every_task_is_in_one_split_and_difficulties_keep_their_shares():
    parts = split_tasks(tasks(), SHARES, seed=0, ranked=True)
    assert sorted(t.task_id for part in parts.values() for t in part) == sorted(t.task_id for t in tasks())
    assert {name: len(part) for name, part in parts.items()} == {"train": 130, "dev": 20, "test": 50}
    assert sum(t.difficulty == "easy" for t in parts["test"]) == 25


def test_the_order_of_the_tasks_does_not_matter_but_the_seed_does():
    there, back = split_tasks(tasks(), SHARES, seed=0), split_tasks(tasks()[::-1], SHARES, seed=0)
    assert {t.task_id for t in there["test"]} == {t.task_id for t in back["test"]}
    assert {t.task_id for t in there["test"]} != {t.task_id for t in split_tasks(tasks(), SHARES, seed=1)["test"]}


def test_shares_must_sum_to_one():
    with pytest.raises(ValueError, match="sum to one"):
        split_tasks(tasks(), {"train": 0.5}, seed=0)


def test_the_leaks_are_those_of_all_pairs():
    random = Random(0)
    left, right = (
        [Task(f"{name}{i}", " ".join(random.choices("abc", k=random.randint(2, 9)))) for i in range(60)] for name in "lr"
    )
    found = {(leak.left, leak.right) for leak in find_leaks(left, right, threshold=0.6)}
    runs = {task.task_id: shingles(task.prompt) for task in left + right}
    pairs = [(a.task_id, b.task_id) for a in left for b in right]
    wanted = {(a, b) for a, b in pairs if len(runs[a] & runs[b]) >= 0.6 * len(runs[a] | runs[b])}
    assert found == wanted and 20 < len(wanted) < len(pairs) / 2


def test_leaks_are_found():
    left = [
        Task("a", "return the sum of the list of whole numbers", reference="r1"),
        Task("b", "something else entirely", reference="r2"),
    ]
    right = [Task("c", "Return the sum of the list of whole numbers"), Task("d", "nothing like it at all", reference="r2")]
    assert [(leak.left, leak.right, leak.reason) for leak in find_leaks(left, right)] == [
        ("a", "c", "nearly the same prompt"),
        ("b", "d", "same reference"),
    ]


@pytest.mark.parametrize(("train", "seed"), [(0.65, 0), (0.5, 1)])
def test_the_embedded_archive_has_no_leaks(train, seed):
    parts = split_tasks(
        open_archive("embedded").tasks(), {"train": train, "dev": 0.1, "test": 0.9 - train}, seed=seed, ranked=True
    )
    assert find_leaks(parts["train"] + parts["dev"], parts["test"]) == []


def test_a_task_keeps_its_split_when_the_archive_grows():
    before, after = split_tasks(tasks(200), SHARES, seed=0), split_tasks(tasks(2000), SHARES, seed=0)
    for name in SHARES:
        assert {t.task_id for t in before[name]} <= {t.task_id for t in after[name]}
        assert abs(len(after[name]) / 2000 - SHARES[name]) < 0.03


def test_leaks_of_a_split_are_reported(tmp_path):
    archive = Archive.create(tmp_path)
    archive.append(tasks=[Task(f"t/{i}", "the very same words for every task") for i in range(20)])
    with pytest.warns(UserWarning, match="pairs of a training and a test task are nearly equal"):
        split_archive(archive, DataConfig())


def test_a_recipe_selects_the_verdicts_of_a_judge(tmp_path):
    archive = Archive.create(tmp_path)
    attempt = Attempt("t/1", "x")
    archive.append(
        tasks=[Task("t/1", "p")], attempts=[attempt], verdicts=[Verdict(attempt.attempt_id, Status.PASSED, judge="upsolve-2")]
    )
    (group,) = [g for part in split_archive(archive, DataConfig(judge="upsolve")).groups.values() for g in part]
    assert group.verdicts[0].status is Status.PASSED
    with pytest.raises(ConfigError, match="no verdict by 'recorded'; its judges: upsolve-2"):
        split_archive(archive, DataConfig(judge="recorded"))


def composed(values, field="schema"):
    return [Task(f"t/{i}", f"words of task number {i}", extra=json.dumps({field: value})) for i, value in enumerate(values)]


def places(parts):
    return {task.task_id: name for name, part in parts.items() for task in part}


@pytest.mark.parametrize("ranked", [False, True])
def test_tasks_that_share_a_field_share_their_split(ranked):
    given = composed([f"schema {i % 40}" for i in range(400)])
    parts = split_tasks(given, SHARES, seed=0, ranked=ranked, by="schema")
    values = {name: {json.loads(task.extra)["schema"] for task in part} for name, part in parts.items()}
    assert sum(map(len, values.values())) == 40 == len(set.union(*values.values()))
    if ranked:  # exact shares of the values
        assert {name: len(some) for name, some in values.items()} == {"train": 26, "dev": 4, "test": 10}
    else:  # nothing moves when values are added
        more = places(split_tasks(composed([f"schema {i % 90}" for i in range(900)]), SHARES, seed=0, by="schema"))
        assert all(more[task_id] == name for task_id, name in places(parts).items() if int(task_id[2:]) < 40)


def test_values_that_are_no_text_are_compared_as_json():
    given = composed([["go", "turn"] if i % 2 else i % 60 for i in range(120)])
    parts = places(split_tasks(given, SHARES, seed=0, by="schema"))
    assert len({parts[f"t/{i}"] for i in range(1, 120, 2)}) == 1


def test_a_recorded_split_is_taken_as_it_is():
    names = ["train", "test", "dev", "validation", "train", "test"]
    parts = split_tasks(composed(names, "split"), SHARES, seed=0, by="split")
    assert {name: [task.task_id for task in part] for name, part in parts.items()} == {
        "train": ["t/0", "t/4"],
        "dev": ["t/2", "t/3"],
        "test": ["t/1", "t/5"],
    }


def test_without_a_recorded_dev_it_is_a_part_of_the_training_tasks():
    given = composed(["train"] * 3000 + ["test"] * 50, "split")
    parts = split_tasks(given, {"train": 0.6, "dev": 0.2, "test": 0.2}, seed=0, by="split")
    assert {task.task_id for task in parts["test"]} == {f"t/{i}" for i in range(3000, 3050)}
    assert abs(len(parts["dev"]) / 3000 - 0.25) < 0.03  # 0.2 / (0.6 + 0.2)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (composed(["a", "b"]) + tasks(3), r"3 of 5 tasks have no 'schema' in extra, such as t/0 \(fields: none\)"),
        (composed(["a"], "db"), r"1 of 1 tasks have no 'schema' in extra, such as t/0 \(fields: db\)"),
        (
            composed(["train", "trian"]),
            "'schema' of 1 tasks is not one of train, dev, validation, test, such as 'trian' of t/1",
        ),
        (composed(["a", "b"]), "2 values of 'schema' leave the .* split empty; set data.split: ranked"),
    ],
)
def test_a_field_that_does_not_fit_is_named(given, words):
    with pytest.raises(ConfigError, match=words):
        split_tasks(given, SHARES, seed=0, by="schema")


def test_the_recipe_names_the_field(tmp_path):
    archive = Archive.create(tmp_path)
    archive.append(tasks=composed(["test", "train"], "split"))
    tasks = split_archive(archive, DataConfig(split_by="split")).tasks
    assert [task.task_id for task in tasks["test"]] == ["t/0"]


@pytest.mark.parametrize("split", ["hash", "ranked"])
def test_every_task_is_tested_in_one_fold_and_trained_on_in_others(tmp_path, split):
    tasks = [Task(f"t{i}", f"prompt {i} {'ab'[i % 2]}", difficulty="ab"[i % 2]) for i in range(43)]
    archive = Archive.create(tmp_path / "archive")
    archive.append(tasks=tasks)
    folds = [split_archive(archive, DataConfig(folds=5, fold=n, dev=0.2, split=split)).tasks for n in range(5)]
    names = [{part: {task.task_id for task in members} for part, members in fold.items()} for fold in folds]
    assert sorted(name for fold in names for name in fold["test"]) == sorted(task.task_id for task in tasks)
    for fold in names:
        assert sum(len(part) for part in fold.values()) == 43 and len(set.union(*fold.values())) == 43
        assert {*fold} == {"train", "dev", "test"} and fold["dev"]
        if split == "ranked":  # a fifth of 22 and 21; of the rest, 17 or 18 a difficulty, a quarter
            assert len(fold["test"]) in (8, 9) and 8 <= len(fold["dev"]) <= 10


def test_folds_of_tasks_that_record_their_split_are_refused(tmp_path):
    archive = Archive.create(tmp_path / "archive")
    archive.append(tasks=[Task(f"t{i}", f"p{i}", extra='{"part": "train"}') for i in range(4)])
    with pytest.raises(ConfigError, match="tasks record their split in 'part'"):
        split_archive(archive, DataConfig(folds=2, split_by="part"))


def test_all_pairs_of_tasks_that_are_too_alike_are_found():
    left, right = (
        Task("a", "add two numbers", reference="x = 1"),
        [Task("b", "p", reference="x  = 1"), Task("c", "q", reference="x = 1")],
    )
    more = Task("d", "add two numbers")
    found = {(leak.left, leak.right, leak.reason) for leak in find_leaks([left], [*right, more])}
    assert found == {("a", "b", "same reference"), ("a", "c", "same reference"), ("a", "d", "nearly the same prompt")}
