"""Completion of right programs (StepCoder): beginnings by hand, and a beginning that gets shorter as its completions pass."""

from functools import partial

import pytest

from upsolve.archive.store import Archive
from upsolve.config import Recipe, SourceConfig, load_recipe
from upsolve.errors import ConfigError
from upsolve.policy.prompt import share_of, starting_points
from upsolve.reward.formula import reward
from upsolve.train.data import judging
from upsolve.train.data.judging import Rollouts
from upsolve.train.data.sources import OnlineSource
from upsolve.types import Attempt, Group, Status, Task, Verdict, no_progress
from upsolve.verify.limits import JudgeSettings

CODE = "def f(x):\n    y = 0\n    for a in x:\n        if a:\n            y += a\n    return y\n"
TO_FOR, TO_IF = "def f(x):\n    y = 0\n", "def f(x):\n    y = 0\n    for a in x:\n"
TASK = Task("t", "Sum.", entry_point="f", reference=CODE)


def test_beginnings_end_before_conditional_statements():
    assert starting_points(CODE) == [TO_FOR, TO_IF]
    assert starting_points(CODE, 0.4) == [TO_FOR], "two of six lines"
    assert starting_points("a = 1\nb = 2\nc = 3") == ["a = 1\n", "a = 1\nb = 2\n"], "no condition: every line"
    assert starting_points("SELECT a FROM b") == ["SELECT", "SELECT a", "SELECT a FROM"], "one line: every word"
    assert starting_points("int f() {\n  int y;\n  if (y) {\n  } else {\n  }\n}") == [
        "int f() {\n  int y;\n",
        "int f() {\n  int y;\n  if (y) {\n",
    ]
    assert starting_points("") == starting_points("pass") == []


def test_a_share_of_the_lines():
    assert share_of(CODE, 0.5) == TO_IF and share_of(CODE, 0.1) == "" == share_of("", 0.5)
    assert share_of("a\nb\n", 1.0) == "a\n" and share_of("SELECT a FROM b", 0.5) == "SELECT a"


class Alone:
    """The only process."""

    is_main, index, count, per_node, disks = True, 0, 1, 1, ()

    def gather(self, mine):
        return mine


class Writer:
    """A policy whose programs say how many of them are right: ``good`` of four."""

    def __init__(self):
        self.good, self.given = 0, []

    def __call__(self, tasks, *, config, author):
        for task in tasks:
            self.given.append("")
            yield from (
                Attempt(task.task_id, f"{number < self.good} {number}", author=author) for number in range(config.samples)
            )

    def sample_requests(self, asked, *, config, author):
        del config
        self.given.append(asked[0].prefix)
        for number, one in enumerate(asked):
            yield one.part, Attempt(code=f"{one.prefix}{number < self.good} {number}", author=author, **one.origin)


def source_of(folder, **settings):
    recipe = Recipe(source=SourceConfig(rounds=6, groups=1, **settings))
    archive = Archive.create(folder / "rollouts")
    config = recipe.source.rollout.model_copy(update={"samples": 4})
    rewarder = partial(reward, config=recipe.reward)
    rollouts = Rollouts(Alone(), archive, config, JudgeSettings(), rewarder, "policy", no_progress)
    return OnlineSource([Group(TASK, (), ())], archive, recipe.source, data=recipe.data), rollouts


def judged(pairs, _how):
    for index, (_, attempt) in enumerate(pairs):
        right = "True" in attempt.code
        yield index, Verdict(attempt.attempt_id, Status.PASSED if right else Status.FAILED)


def test_the_beginning_gets_shorter_as_more_than_the_share_passes(tmp_path, monkeypatch):
    """Passed of four by round: 3, 2, 4, 4, 4. Two are not more than one half: the third round begins where the second did."""
    monkeypatch.setattr(judging, "judged", judged)
    source, rollouts = source_of(tmp_path, hints=1.0, hints_passed=0.5)
    policy = Writer()
    for number, policy.good in enumerate((3, 2, 4, 4, 4)):
        groups = rollouts.judge(source.groups(number), lambda: policy)
        assert {attempt.task_id for group in groups.sampled for attempt in group.attempts} == {"t"}
    assert policy.given == [TO_IF, TO_FOR, TO_FOR, "", ""]
    kept = {attempt.prefix for attempt in rollouts.archive.attempts()}
    assert kept == {TO_IF, TO_FOR, ""}
    again, _ = source_of(tmp_path, hints=1.0, hints_passed=0.5)
    assert again.prefixes(1, [TASK]) == {"t": TO_FOR} and again.prefixes(5, [TASK]) == {"t": ""}, "as a resumed run reads it"


def test_the_beginning_gets_shorter_with_the_rounds(tmp_path):
    source, _ = source_of(tmp_path, hints=0.5)
    assert [source.prefixes(number, [TASK])["t"] for number in (0, 1, 2, 4, 5)] == [TO_IF, TO_FOR, "def f(x):\n", "", ""]
    assert source_of(tmp_path)[0].prefixes(0, [TASK]) == {}


def test_whole_answers_are_shown_the_lines(tmp_path):
    recipe = Recipe(source=SourceConfig(rounds=2, groups=1, hints=0.5))
    archive = Archive.create(tmp_path / "rollouts")
    source = OnlineSource([Group(TASK, (), ())], archive, recipe.source, data=recipe.data, answers=True)
    (task,) = source.candidates(0)
    assert task.task_id == "t#hint3" and source.prefixes(0, [task]) == {}


def test_what_cannot_continue_is_refused(tmp_path):
    _, rollouts = source_of(tmp_path)

    def plain(tasks, *, config, author):
        yield from Writer()(tasks, config=config, author=author)

    with pytest.raises(ConfigError, match=r"source\.hints: the engine samples tasks alone"):
        rollouts.sample(plain, [TASK], seed=0, prefixes={"t": TO_FOR})


@pytest.mark.parametrize("settings", [[], ["source.hints=0.5", "model.completion=answer"]])
def test_a_share_without_beginnings_is_refused(settings):
    with pytest.raises(ConfigError, match=r"source\.hints_passed has no effect without source\.hints above 0 and model"):
        load_recipe(None, ["source.rounds=2", "source.hints_passed=0.5", *settings])
