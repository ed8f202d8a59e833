"""What all adapters share: rows to tasks, answers to programs, verdicts to rewards."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from upsolve.adapters.scoring import Scorer, scorer_from_environment, task_of, text_of_answer
from upsolve.archive.store import Archive
from upsolve.errors import ConfigError, JudgeError, SourceError
from upsolve.importers.tables.rollouts import known_tasks
from upsolve.records import to_row
from upsolve.types import Status, Task, TestCase, TestKind
from upsolve.verify.pool.pool import dismiss, idle

DOUBLE = Task("my/double", "Double x.", (TestCase(TestKind.CALL, "f(2)", "4"), TestCase(TestKind.CALL, "f(3)", "6")), "f")
BROKEN = Task("my/none", "No tests.")
RIGHT, HALF = "Here:\n```python\ndef f(x):\n    return 2 * x\n```", "def f(x):\n    return 4"


def test_answers_get_the_rewards_of_the_recipe_and_unscored_is_no_number():
    scored = Scorer(overrides=["reward.preset=tests"]).score(
        [(DOUBLE, RIGHT), (BROKEN, RIGHT), (DOUBLE, HALF), (DOUBLE, RIGHT)]
    )
    assert [one.reward for one in scored] == [1.0, None, 0.5, 1.0]
    assert [one.share for one in scored] == [1.0, 0.0, 0.5, 1.0]
    assert scored[0].attempt.answer == RIGHT and scored[2].attempt.answer == ""
    assert scored[1].verdict.status is Status.UNSCORED and "no tests" in scored[1].reason
    with pytest.raises(JudgeError, match=r"my/none: the attempt has no reward: .*no tests"):
        scored[1].number()


def test_a_rule_of_the_recipe_leaves_out_and_says_why():
    answers = [(DOUBLE, "def f(x):\n    return 1"), (DOUBLE, RIGHT)]
    scored = Scorer(overrides=["reward.outcomes={failed: null}"]).score(answers)
    assert [one.reward for one in scored] == [None, 1.0] and "failed" in scored[0].reason


def test_many_threads_share_the_workers():
    """OpenRLHF asks for one attempt in each of many threads; each call alone would start a worker."""
    dismiss()
    scorer = Scorer(overrides=["verify.workers=2", "verify.cache=false"])
    with ThreadPoolExecutor(12) as threads:
        done = [*threads.map(lambda n: scorer.score([(DOUBLE, f"f = lambda x: {n} * x")])[0].reward, range(12))]
    assert done == [1.0 if n == 2 else -0.1 for n in range(12)]
    assert len(idle["local"]) <= 2


ROWS = {
    "a record": ({"task": json.dumps(to_row(DOUBLE))}, "my/double"),
    "an id": ({"task_id": "my/double"}, "my/double"),
    "the end of an id, and a column task of another meaning": ({"task_id": "double", "task": "code"}, "my/double"),
    "asserts": ({"tests": ["assert f(2) == 4"], "entry_point": "f"}, "row/e3b0c44298fc"),
    "inputs and outputs as JSON": ({"tests": '{"inputs": ["2\\n"], "outputs": ["4\\n"]}', "task_id": 7}, "row/7"),
    "own tests of an id that is not known": ({"tests": ["assert f(2) == 4"], "task_id": "else"}, "row/else"),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_name_their_task(name):
    row, task_id = ROWS[name]
    task = task_of(row, known_tasks([DOUBLE]))
    assert task.tests and task.task_id[:4] == task_id[:4]
    assert task.task_id == task_id or name == "asserts"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"task_id": "triple"}, "no task 'triple' among the 1 given, such as 'my/double'"),
        ({"prompt": "x", "label": 3}, "its columns are label, prompt"),
        ({"task": "{}"}, "column task: .*task_id is missing"),
        ({"tests": 3}, "column tests: .*a test is an assert"),
    ],
)
def test_a_row_without_a_task_is_an_error_that_names_the_column(row, said):
    with pytest.raises(SourceError, match=said):
        task_of(row, known_tasks([DOUBLE]))


def test_the_last_message_of_the_assistant_is_the_answer():
    chat = [
        {"role": "assistant", "content": "no"},
        {"role": "tool", "content": "1"},
        {"role": "assistant", "content": [{"text": "yes"}]},
    ]
    assert text_of_answer(chat) == "yes"
    with pytest.raises(ValueError, match="assistant"):
        text_of_answer([{"role": "user", "content": "no"}])


def test_files_without_arguments_are_configured_by_the_environment(tmp_path, monkeypatch):
    Archive.create(tmp_path / "a").append(tasks=[DOUBLE])
    for name, value in (("TASKS", str(tmp_path / "a")), ("RECIPE", "rloo"), ("JUDGE", "http://judge:1"), ("TOKEN", "t")):
        monkeypatch.setenv(f"UPSOLVE_{name}", value)
    scorer = scorer_from_environment()
    assert scorer.known.tasks == (DOUBLE,) and scorer.remote.url == "http://judge:1"
    assert scorer.remote.headers["Authorization"] == "Bearer t"


def test_packages_of_a_remote_judge_need_not_be_here():
    overrides = ["verify.packages=[no_such_package]"]
    assert Scorer(overrides=overrides, url="http://judge:1").settings.packages == ("no_such_package",)
    with pytest.raises(ConfigError, match="no_such_package"):
        Scorer(overrides=overrides)
