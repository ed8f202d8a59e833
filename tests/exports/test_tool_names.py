"""Exports by the names of tools: each has the columns that its tool reads, and our adapters and importers read it back."""

import json

import pytest

from upsolve.adapters.scoring import task_of, task_of_truth
from upsolve.archive.store import Archive
from upsolve.exports.exporting import export_archive
from upsolve.exports.formats import EXPORTS, FORMS
from upsolve.importers.formats import rows_of_file
from upsolve.importers.ingest import ingest
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict

RIGHT, WRONG = "def f(x):\n    return x + 1\n", "def f(x):\n    return x\n"
USER = [{"role": "user", "content": "Add one.\n\nExamples:\nassert f(1) == 2"}]
ANSWER = [{"role": "assistant", "content": f"```python\n{RIGHT}```"}]
WRONG_ANSWER = [{"role": "assistant", "content": f"```python\n{WRONG}```"}]
TASK = Task(
    "mine/1",
    "Add one.",
    (TestCase(TestKind.CALL, "f(1)", "2"), TestCase(TestKind.CALL, "f(2)", "3", hidden=True)),
    "f",
    source="mine",
    reference=RIGHT,
    extra='{"license": "MIT"}',
)
TRUTH = {"assert_case": ["assert f(1) == 2", "assert f(2) == 3"]}
ROWS = {
    "axolotl": {"messages": USER + ANSWER},
    "verl-sft": {"messages": USER + ANSWER},
    "trl-sft": {"prompt": USER, "completion": ANSWER},
    "trl-dpo": {"prompt": USER, "chosen": ANSWER, "rejected": WRONG_ANSWER},
    "openrlhf-dpo": {"prompt": USER, "chosen": ANSWER, "rejected": WRONG_ANSWER},
    "trl-kto": {"prompt": USER, "completion": ANSWER, "label": True},
    "trl": {"prompt": USER},
    "verl": {"data_source": "mine", "prompt": USER, "ability": "code"},
    "skyrl": {"data_source": "mine", "prompt": USER, "env_class": "upsolve"},
    "openrlhf": {"input": USER, "output": ANSWER, "datasource": "mine"},
    "verifiers": {"prompt": USER, "answer": RIGHT},
    "inspect": {"id": "mine/1", "input": USER, "target": RIGHT},
}
"""What a tool reads of the first row, but for the task."""
TASKS = {
    "trl": task_of,
    "verl": lambda row: task_of_truth(row["reward_model"]["ground_truth"], row["extra_info"]),
    "skyrl": lambda row: task_of_truth(row["reward_spec"]["ground_truth"], row["extra_info"]),
    "openrlhf": lambda row: task_of({"task": row["label"]}),
    "verifiers": lambda row: task_of(json.loads(row["info"])),
    "inspect": lambda row: task_of(row["metadata"]),
}
"""The task of a row as the tool's adapter finds it."""


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """A task with an attempt that passed and one that failed."""
    archive = Archive.create(tmp_path_factory.mktemp("tools") / "archive")
    attempts = [Attempt(TASK.task_id, code, author="ann") for code in (RIGHT, WRONG)]
    verdicts = [
        Verdict(one.attempt_id, status, judge="upsolve-1", total=2)
        for one, status in zip(attempts, (Status.PASSED, Status.FAILED), strict=True)
    ]
    archive.append(tasks=[TASK], attempts=attempts, verdicts=verdicts)
    return archive


def exported(archive, name, folder):
    """The first row of an export."""
    out = folder / (f"{name}.jsonl" if EXPORTS[name].output == "file" else name)
    export_archive(archive, out, name)
    (file,) = [out] if out.is_file() else out.glob("train.*")
    return next(row for _, row in rows_of_file(file))


@pytest.mark.parametrize("name", ROWS)
def test_a_tool_finds_its_columns_and_we_find_the_task(name, archive, tmp_path):
    row = exported(archive, name, tmp_path)
    assert {key: row[key] for key in ROWS[name]} == ROWS[name]
    if name in TASKS:
        assert TASKS[name](row) == TASK
    if truth := row.get("reward_model") or row.get("reward_spec"):
        assert json.loads(truth["ground_truth"]) == TRUTH
        assert truth.get("style") == "rule" or truth.get("method") == "rule"


def test_every_name_of_a_tool_is_tried():
    assert EXPORTS.keys() - FORMS.keys() <= ROWS.keys()
    assert all(record.help for record in EXPORTS.values())


def test_pairs_for_openrlhf_come_back_as_attempts(archive, tmp_path):
    export_archive(archive, tmp_path / "pairs", "openrlhf-dpo")
    back = Archive.create(tmp_path / "back")
    ingest(back, "openrlhf", tmp_path / "pairs", tasks=str(archive.path))
    (group,) = back.groups()
    assert group.task == TASK
    assert {(one.code + "\n", verdict.status) for one, verdict in zip(group.attempts, group.verdicts, strict=True)} == {
        (RIGHT, Status.PASSED),
        (WRONG, Status.FAILED),
    }
