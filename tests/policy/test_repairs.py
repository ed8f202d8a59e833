"""Corrections of failed stored programs: one of each, stored with its parent."""

import json

import pytest

from upsolve.archive.store import Archive
from upsolve.cli import training  # noqa: F401  adds the command
from upsolve.cli.app import app
from upsolve.config import ModelConfig, SampleConfig
from upsolve.errors import ConfigError
from upsolve.policy import collect
from upsolve.policy.prompt import messages
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict

TASK = Task("t", "Double x.", (TestCase(TestKind.CALL, "f(2)", "4"), TestCase(TestKind.CALL, "f(77)", "154", hidden=True)), "f")
FAILED, LATE, PASSED = Attempt("t", "a", author="ann"), Attempt("t", "b", author="bob"), Attempt("t", "c", author="ann")
BROKEN, UNJUDGED = Attempt("t", "d", author="ann"), Attempt("t", "e", author="ann")


@pytest.fixture
def archive(tmp_path):
    """A wrong program of two people, one that took too long, one that passed, one that was not scored, one that was not judged."""
    made = Archive.create(tmp_path / "archive")
    same = Attempt("t", "a", author="bob")
    verdicts = [
        Verdict(
            FAILED.attempt_id, Status.FAILED, 1, 2, (Status.PASSED, Status.FAILED), error_message="hidden test 2: wrong value"
        ),
        Verdict(LATE.attempt_id, Status.TIMEOUT, 0, 2),
        Verdict(PASSED.attempt_id, Status.PASSED, 2, 2),
        Verdict(BROKEN.attempt_id, Status.UNSCORED),
    ]
    made.append(tasks=[TASK], attempts=[FAILED, same, LATE, PASSED, BROKEN, UNJUDGED], verdicts=verdicts)
    return made


class Repairs:
    """A sampler that numbers its corrections."""

    def __init__(self):
        self.asked = []

    def sample_requests(self, requests, *, config, author="", on_done=None):
        del config, on_done
        for one in requests:
            self.asked.append(one)
            yield one.part, Attempt(code=f"fixed {len(self.asked)}", author=author, behavior_logp=-1.0, **one.origin)


def test_every_distinct_failed_program_is_corrected_once(archive, monkeypatch):
    policy, config, model = Repairs(), SampleConfig(), ModelConfig(name="m")
    monkeypatch.setattr(collect, "sampler", lambda *_: policy)
    assert collect.sample_repairs(archive, config, model=model) == 2
    assert {one.turns[0].attempt.code for one in policy.asked} == {"a", "b"} and len({one.seed for one in policy.asked}) == 2
    said = next(messages(TASK, turns=one.turns)[2]["content"] for one in policy.asked if one.turns[0].attempt.code == "a")
    assert (
        said.startswith("The program gives a wrong answer: hidden test 2: wrong value\n1 of 2 tests pass.") and "77" not in said
    )
    made = {one.parent_id: one for one in archive.attempts() if one.author == "m, repair"}
    assert {*made} == {FAILED.attempt_id, LATE.attempt_id} and {one.behavior_logp for one in made.values()} == {-1.0}
    assert collect.sample_repairs(archive, config, model=model) == 0, "nothing is missing"
    again = made[LATE.attempt_id]
    archive.append(verdicts=[Verdict(again.attempt_id, Status.FAILED, 0, 2)])
    assert collect.sample_repairs(archive, config, model=model) == 1, "a correction that failed is corrected"
    assert policy.asked[-1].turns[0].attempt.attempt_id == again.attempt_id
    other = ModelConfig(name="n")
    assert collect.sample_repairs(archive, config, model=other, authors=["ann"]) == 1, "programs of one author"


def test_the_command(archive, tiny_model, capsys):
    words = [
        "sample",
        "--archive",
        str(archive.path),
        "--model",
        tiny_model,
        "--set",
        "sample.max_tokens=4",
        "--repair",
        "--json",
    ]
    app(words, standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["added"] == 2
    assert sum(one.author == f"{tiny_model}, repair" for one in archive.attempts()) == 2
    with pytest.raises(ConfigError, match="--hint excludes --repair"):
        app([*words, "--hint", "0.5"], standalone_mode=False)
