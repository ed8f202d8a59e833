"""Errors about an archive that lacks data for a recipe come before a model is loaded."""

import re
from collections import Counter
from dataclasses import replace

import pytest

from upsolve.cli.judging import show_outcomes
from upsolve.config import Recipe, load_recipe
from upsolve.config.keys import all_keys
from upsolve.errors import ConfigError, TrainingError
from upsolve.train import loop
from upsolve.train.check import RULES, WARNINGS, check_run, checked_rewarder
from upsolve.train.run.processes import Processes
from upsolve.types import Attempt, Group, Status, Task, TestCase, TestKind, Verdict


def group(statuses, author="ann", lines=None):
    task = Task("t", "say")
    attempts = tuple(Attempt("t", f"x = {i}", author=author) for i in range(len(statuses)))
    verdicts = tuple(Verdict(a.attempt_id, status, executed_lines=lines) for a, status in zip(attempts, statuses, strict=True))
    return Group(task, attempts, verdicts)


MIXED = [Status.PASSED, Status.FAILED, Status.FAILED, Status.TIMEOUT]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"data": {"group_size": 5}},
            "data.group_size: 5 attempts requested, but no task of embedded has more than 4; set data.group_size: 4",
        ),
        ({"data": {"authors": ["anne"]}}, "data.authors: no attempt of anne in embedded; did you mean ann?"),
        (
            {"reward": {"mask_unexecuted": True}},
            "no verdict of embedded has executed lines; record them by `upsolve verify --lines`",
        ),
        ({"reward": {"weights": {"lint": 1.0}}}, "no passed attempt of the archive has a reward.*lint"),
        ({"objective": {"correction": {"kind": "tis"}}}, "no attempt of embedded has the log-probabilities of its tokens"),
        ({"objective": {"kl": {"place": "reward"}}}, "objective.kl.place: reward needs"),
        (
            {"advantage": {"kind": "pkpo", "options": {"k": 3}, "options_end": {"k": 1}}},
            "options_end: the last round reaches these options, and this run has a single round; set optim.epochs: 2 or more",
        ),
    ],
)
def test_missing_parts_are_named(settings, message):
    with pytest.raises(ConfigError, match=message):
        check_run(Recipe.model_validate(settings), [group(MIXED)])


@pytest.mark.parametrize(
    ("groups", "kind", "message"),
    [
        ([], "leave_one_out", "no task of embedded in the training split .* has an attempt; sample some with `upsolve sample`"),
        (
            [[Status.PASSED] * 4],
            "leave_one_out",
            r"no training task of embedded has a passed and a failed attempt .all passed at 1",
        ),
        ([[Status.FAILED] * 4], "passed", r"has a passed attempt .all failed at 1"),
    ],
)
def test_groups_that_nothing_can_be_drawn_from_are_refused(groups, kind, message):
    with pytest.raises(TrainingError, match=message):
        check_run(Recipe.model_validate({"advantage": {"kind": kind}}), [*map(group, groups)])


def test_messages_of_rules_about_data_begin_with_keys_of_a_recipe():
    named = [re.match(r"[a-z_.]+", rule.message)[0] for rule in (*RULES, *WARNINGS) if isinstance(rule.message, str)]
    assert len(named) > 5 and not {*named} - {*all_keys(Recipe)}


def test_imitation_needs_a_passed_attempt_alone():
    check_run(Recipe.model_validate({"advantage": {"kind": "passed"}}), [group([Status.PASSED] * 4)])


def test_what_is_there_is_enough():
    check_run(Recipe(), [group(MIXED)])
    check_run(Recipe.model_validate({"reward": {"mask_unexecuted": True}}), [group(MIXED, lines=(1,))])
    check_run(Recipe.model_validate({"objective": {"kind": "dpo"}, "data": {"group_size": 8}}), [group(MIXED)])
    annealed = {"advantage": {"kind": "pkpo", "options": {"k": 3}, "options_end": {"k": 1}}}
    check_run(Recipe.model_validate({**annealed, "optim": {"epochs": 2}}), [group(MIXED)])
    check_run(Recipe.model_validate({**annealed, "data": {"tasks_at_once": 1}}), [group(MIXED), group(MIXED)])
    sampled = group(MIXED)
    sampled = replace(sampled, attempts=tuple(replace(one, token_ids=(1,), token_logps=(-1.0,)) for one in sampled.attempts))
    check_run(Recipe.model_validate({"objective": {"correction": {"kind": "tis"}}}), [sampled])
    online = {"source": {"rounds": 2}, "data": {"group_size": 8}, "reward": {"mask_unexecuted": True}}
    online |= {"objective": {"correction": {"kind": "tis"}}}
    check_run(Recipe.model_validate(online), [group([])])


class LoadingError(Exception):
    """A model would have been loaded."""


@pytest.fixture
def no_model(monkeypatch):
    """Records the arguments with which `train` loads a model."""
    handed = []

    def load(*given, **named):
        handed.extend([*given, *named.values()])
        raise LoadingError

    monkeypatch.setattr(loop, "open_pipeline", load)
    return handed


def test_a_run_without_what_its_reward_reads_ends_before_the_model(no_model, tmp_path):
    recipe = load_recipe("rlvr_lint", ["source.rounds=0", "data.group_size=2", "advantage.kind=leave_one_out"])
    with pytest.raises(ConfigError, match=r"lint: no Python analysis \(upsolve verify --analysis lint\): 4 attempts"):
        loop.train(recipe, [group(MIXED)], [], tmp_path / "run")
    assert no_model == []


def test_references_are_run_before_the_model_is_loaded(no_model, tmp_path, monkeypatch):
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    tests = (TestCase(TestKind.CALL, "f(2)", "3"),)
    task = Task("t", "say", tests, "f", reference="def f(n):\n    return n + 1")
    attempts = tuple(Attempt("t", f"def f(n):\n    return {code}") for code in ("1 + n", "n - -1", "n"))
    statuses = (Status.PASSED, Status.PASSED, Status.FAILED)
    times = (1e-9, 1e9, 1.0)
    verdicts = tuple(
        Verdict(one.attempt_id, *rest, cpu_seconds=time)
        for one, rest, time in zip(attempts, [(s, 0, 1) for s in statuses], times, strict=True)
    )
    settings = {"weights": {"outcome": 0, "efficiency": 1}, "efficiency": "reference"}
    recipe = Recipe.model_validate({"reward": settings, "data": {"group_size": 2}})
    some = Group(task, attempts, verdicts)
    with pytest.raises(LoadingError):
        loop.train(recipe, [some], [], tmp_path / "run")
    rewarder = no_model[4]
    rewards_G = rewarder(some).rewards_G
    assert 0 <= rewards_G[0] <= 1 and rewards_G[1:].tolist() == [-1, -1]  # faster than the reference, slower, and failed
    with pytest.raises(ConfigError, match="efficiency: the attempt, or the reference .* has no processor time"):
        loop.train(recipe, [replace(some, task=replace(task, reference=""))], [], tmp_path / "other")


@pytest.mark.parametrize(("high", "warned"), [(0.28, True), (4e-4, False)])
def test_a_wide_clip_of_gspo_is_a_warning(high, warned, caplog):
    recipe = Recipe.model_validate({"objective": {"kind": "gspo", "clip": {"high": high}}})
    checked_rewarder(recipe, [group(MIXED)], Processes())
    assert ("objective.clip.high: 0.28: the ratios of gspo stay near 1" in caplog.text) is warned


@pytest.mark.parametrize(
    ("reasons", "doctor", "tests"),
    [
        ({"task t has no tests": 4}, False, True),
        ({"task t has no tests": 4, "no sandbox": 1}, True, True),
        ({"no sandbox": 1}, True, False),
    ],
)
def test_attempts_without_tests_are_not_sent_to_the_doctor(reasons, doctor, tests, capsys):
    show_outcomes(Counter({"unscored": sum(reasons.values())}), Counter(reasons))
    said = capsys.readouterr().out
    assert ("upsolve doctor" in said, "4 attempts are at tasks without tests" in said) == (doctor, tests)
