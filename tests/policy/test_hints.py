"""Hints: programs of others in the prompt, attempts stored without them."""

import pytest

from upsolve.archive.store import Archive
from upsolve.config import ModelConfig, SampleConfig
from upsolve.policy import collect
from upsolve.policy.prompt import with_hint
from upsolve.types import Attempt, Status, Task, Verdict

TASK = Task("t", "Add.", reference="def f(a, b):\n    c = a + b\n    return c\n")


def test_a_query_of_one_line_shows_words():
    task = Task("q", "Names?", language="sql", reference="SELECT name FROM author WHERE born > 1900")
    assert (
        with_hint(task, 0.5).prompt == "Names?\n\nThe solution begins with these words:\n```sql\nSELECT name FROM author\n```"
    )
    assert with_hint(task, 0.5).task_id == "q#hint4"
    assert with_hint(task, 0.1) == task and with_hint(Task("q", "Names?"), 0.5) == Task("q", "Names?")


def test_the_program_may_be_somebodys():
    other = with_hint(TASK, 0.5, "def f(x, y):\n    return x + y\n")
    assert other.prompt.endswith("these lines:\n```python\ndef f(x, y):\n```") and other.task_id == "t#hint1"


@pytest.fixture
def archive(tmp_path):
    """Tasks: one the model passed, one only others passed, one nobody passed, one that the model has not tried."""
    made = Archive.create(tmp_path / "archive")
    tasks = [Task(name, "Say.") for name in ("mine", "theirs", "nobodys", "new")]
    attempts = [
        Attempt("mine", "a", author="model"),
        Attempt("theirs", "b", author="model"),
        Attempt("theirs", "long = 1\nlonger = 2\nlongest = 3", author="ann"),
        Attempt("theirs", "x = 1\ny = 2", author="bob"),
        Attempt("nobodys", "c", author="model"),
        Attempt("new", "d", author="ann"),
    ]
    statuses = [Status.PASSED, Status.FAILED, Status.PASSED, Status.PASSED, Status.FAILED, Status.PASSED]
    verdicts = [
        Verdict(one.attempt_id, status, 1, 1, judge="upsolve-1") for one, status in zip(attempts, statuses, strict=True)
    ]
    made.append(tasks=tasks, attempts=attempts, verdicts=verdicts)
    return made


def test_only_what_others_passed_is_sampled_and_stored_without_the_hint(archive, monkeypatch):
    asked = []

    def policy(tasks, *, config, author):
        for task in tasks:
            asked.append((task.task_id, task.prompt, config.samples))
            for number in range(config.samples):
                yield Attempt(
                    task.task_id,
                    f"x = {number}",
                    author=author,
                    behavior_logp=-1.0,
                    tokens=1,
                    token_ids=(3,),
                    token_logps=(-1.0,),
                )

    monkeypatch.setattr(collect, "sampler", lambda *_: policy)
    config, model = SampleConfig(samples=3), ModelConfig(name="model")
    assert collect.sample_hinted(archive, config, model=model, hint=0.5) == 3
    assert [(name, samples) for name, _, samples in asked] == [("theirs#hint1", 3)]
    assert asked[0][1].endswith("x = 1\n```")  # the shortest of the passed programs
    made = [one for one in archive.attempts() if one.author == "model, hint 0.5"]
    assert {one.task_id for one in made} == {"theirs"} and {one.token_ids for one in made} == {(3,)}
    assert {one.behavior_logp for one in made} == {None} and {one.token_logps for one in made} == {None}
    assert collect.sample_hinted(archive, config, model=model, hint=0.5) == 0  # nothing is missing
    moved = ModelConfig(name="moved")
    assert collect.sample_hinted(archive, config, model=moved, hint=0.5) == 0  # no attempt has this author
    assert collect.sample_hinted(archive, config, model=moved, hint=0.5, author="model") == 0  # the author's are there
