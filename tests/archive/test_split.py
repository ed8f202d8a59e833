import pytest

from upsolve.archive.split import find_leaks, split_archive, split_tasks
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
    with pytest.warns(UserWarning, match="pairs of a training and a test task are too alike"):
        split_archive(archive, DataConfig())


def test_the_verdicts_of_a_judge_can_be_asked_for(tmp_path):
    archive = Archive.create(tmp_path)
    attempt = Attempt("t/1", "x")
    archive.append(
        tasks=[Task("t/1", "p")], attempts=[attempt], verdicts=[Verdict(attempt.attempt_id, Status.PASSED, judge="upsolve-2")]
    )
    (group,) = [g for part in split_archive(archive, DataConfig(judge="upsolve")).groups.values() for g in part]
    assert group.verdicts[0].status is Status.PASSED
    with pytest.raises(ConfigError, match="no verdict by 'recorded'; its judges: upsolve-2"):
        split_archive(archive, DataConfig(judge="recorded"))
