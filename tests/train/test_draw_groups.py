"""Groups that are sampled from stored attempts."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from upsolve.archive.groups import Lazy
from upsolve.archive.outline import Outline
from upsolve.config import AdvantageConfig, DataConfig, ObjectiveConfig, RewardConfig, SelectConfig
from upsolve.reward.formula import reward
from upsolve.reward.selection import choose
from upsolve.train.data.encode import draw_pairs
from upsolve.train.data.groups import CachedRewards, draw_groups, sample_mixed, sample_outline, with_advantages
from upsolve.train.data.sources import RoundGroups
from upsolve.train.loop import form_groups
from upsolve.types import Attempt, Finding, Group, Status, Task, TestCase, TestKind, Verdict

DATA = DataConfig(group_size=4, groups_per_task=2)


def drawn_from(*attempts, data=DATA):
    """Draw groups of a task from attempts, given as (passed, count)."""
    made = [Attempt("t", f"program {n}", count=count) for n, (_, count) in enumerate(attempts)]
    verdicts = [
        Verdict(a.attempt_id, Status.PASSED if good else Status.FAILED) for a, (good, _) in zip(made, attempts, strict=True)
    ]
    group = Group(Task("t", "prompt", ()), tuple(made), tuple(verdicts))
    return draw_groups([reward(group, RewardConfig())], data, needs="contrast", epoch=0)


def test_what_was_sampled_several_times_fills_a_group_as_often():
    """Three of four samples are the same program: r - mean of the others is 1 for the right one, -1/3 for each of the wrong ones."""
    (group,) = drawn_from((True, 1), (False, 3)).groups
    assert sorted(attempt.code for attempt in group.group.attempts) == ["program 0", *["program 1"] * 3]
    assert sorted(with_advantages(group, AdvantageConfig(), seed=0).advantages_G) == pytest.approx([-1.1 / 3] * 3 + [1.1])


def test_several_groups_take_each_occurrence_once():
    groups = drawn_from((True, 4), (False, 4)).groups
    taken = [attempt.code for group in groups for attempt in group.group.attempts]
    assert len(groups) == 2 and taken.count("program 0") == taken.count("program 1") == 4
    assert all(len({attempt.code for attempt in group.group.attempts}) == 2 for group in groups)


def test_distinct_attempts_are_not_repeated_where_they_fill_a_group():
    groups = drawn_from((True, 9), (True, 1), (False, 9), (False, 1)).groups
    assert [len({attempt.code for attempt in group.group.attempts}) for group in groups] == [4]


@pytest.mark.parametrize("failed", [0, 1, 5])
def test_groups_of_one_take_passed_attempts_however_many_failed(failed):
    data = DataConfig(group_size=1, groups_per_task=3)
    groups = drawn_from(*[(True, 1)] * 4, *[(False, 1)] * failed, data=data).groups
    assert [one.passed.tolist() for one in groups] == [[True]] * 3 and len({one.group.attempts for one in groups}) == 3


def test_a_task_with_too_few_occurrences_is_left_out_and_counted():
    found = drawn_from((True, 1), (False, 2))
    assert not found.groups and found.left_out == {"tasks: fewer than 4 attempts": 1}


def sampled(seed, *, groups_per_task=3, group_size=4):
    """Places drawn from a task of nine attempts, and from the outline of one of three hundred."""
    counts = (1, 5, 2, 1, 1, 3, 1, 1, 8)
    made = [Attempt("t", f"program {n}", count=count) for n, count in enumerate(counts)]
    verdicts = [Verdict(a.attempt_id, Status.PASSED if n % 3 == 0 else Status.FAILED) for n, a in enumerate(made)]
    few = reward(Group(Task("t", "prompt", ()), tuple(made), tuple(verdicts)), RewardConfig())
    place_N = np.arange(300)
    stored, blank = SimpleNamespace(tasks=[Task("t", "prompt")]), pa.array([""] * 300).dictionary_encode()
    outline = Outline(stored, 0, place_N % 7 == 0, place_N % 11 > 0, (1 + place_N % 5).astype(np.int32), blank, blank)
    data = DataConfig(group_size=group_size, groups_per_task=groups_per_task)
    random = np.random.default_rng(seed)
    return [*sample_mixed(few, group_size, groups_per_task, random), *sample_outline(outline, data, random)]


def test_the_groups_of_a_seed_stay_what_they_are():
    few, large = [[2, 0, 3, 1], [5, 7, 6, 8]], [[203, 118, 1, 258], [7, 27, 259, 54], [128, 122, 8, 140]]
    assert sampled(0) == [*few, *large]
    few = [[3, 1, 0, 8, 8, 4, 8, 2, 5, 5, 8, 6]]  # as often as each was sampled
    large = [[84, 225, 149, 146, 294, 18, 62, 151, 79, 35, 6, 273], [128, 138, 109, 133, 276, 232, 262, 159, 12, 217, 233, 184]]
    assert sampled(1, group_size=12, groups_per_task=2) == [*few, *large]


def test_imitation_with_findings_of_ruff():
    """A task whose only pass has a finding is imitated; one whose only pass is a hack is left out."""
    ran = {"analyses": ("lint: x",)}
    made = [Attempt("t", "def f(n):\n    l = n\n    return l"), Attempt("t", "def f(n):\n    return 5")]
    lint = (Finding("lint", "E741", "", 2),)
    verdicts = [
        Verdict(made[0].attempt_id, Status.PASSED, 2, 2, findings=lint, **ran),
        Verdict(made[1].attempt_id, Status.PASSED, 2, 2, **ran),
    ]
    tests = tuple(TestCase(TestKind.CALL, f"f({n})", f"{n + 1}") for n in (4, 5))
    config = RewardConfig(preset="tests+lint", hacked=-1)
    for at, imitated in enumerate(([[1.0]], [])):
        group = reward(Group(Task("t", "prompt", tests, "f"), (made[at],), (verdicts[at],)), config)
        assert group.rewards_G[0] < 1
        formed = draw_groups([group], DATA, needs="pass", epoch=0)
        trained = [with_advantages(one, AdvantageConfig(kind="passed"), seed=0).advantages_G.tolist() for one in formed.groups]
        assert trained == imitated


def test_attempts_with_a_reward_by_rule_have_not_passed():
    """Three programs leave before the tests: a group has the honest pass, a pair does not choose them, and they do not count as passes."""
    left = "import sys\ndef f(n):\n    sys.exit()  # {}"
    codes = ["def f(n):\n    return n", *map(left.format, range(3)), "f = 1", "f = 2", "f = 3"]
    made = tuple(Attempt("t", code) for code in codes)
    verdicts = tuple(Verdict(a.attempt_id, Status.PASSED if n < 4 else Status.FAILED, 2, 2) for n, a in enumerate(made))
    tests = (TestCase(TestKind.CALL, "f(4)", "4"),)
    group = reward(Group(Task("t", "prompt", tests, "f"), made, verdicts), RewardConfig(hacked=-1))
    for epoch in range(20):
        (drawn,) = draw_groups([group], DATA, needs="contrast", epoch=epoch).groups
        assert drawn.passed.sum() == 1
        (pair,) = draw_pairs([group], DATA, "outcome", epoch=epoch).groups
        assert pair.passed.tolist() == [True, False]
    (rft,) = choose([group], SelectConfig(attempts="passed", weight="1.0 / passes", groups="pass_rate < 0.2")).rewarded
    assert rft.weights_G.tolist() == [1.0]
    (honest,) = draw_groups([group.part([1, 2, 3, 4])], DATA, needs="contrast", epoch=0).left_out
    assert honest == "tasks: none passed"


def mixed(name):
    attempts = tuple(Attempt(name, f"program {n}") for n in range(8))
    verdicts = tuple(Verdict(a.attempt_id, Status.PASSED if n % 2 else Status.FAILED) for n, a in enumerate(attempts))
    return Group(Task(name, "prompt"), attempts, verdicts)


@pytest.mark.parametrize("pairs", [False, True])
def test_a_round_rewards_the_tasks_that_it_draws_from_and_no_others(pairs):
    """A hybrid round draws 3 of 41 groups: every task comes up in some round, as does every group of a task."""
    stored = [*map(mixed, map(str, range(20))), replace(mixed("20"), verdicts=(None,) * 8)]
    read, seen, left_out = [], Counter(), Counter()
    rewarded = Lazy(stored, lambda group: read.append(group.task.task_id) or reward(group, RewardConfig()))
    objective = ObjectiveConfig(kind="dpo" if pairs else "reinforce")
    stages = {"data": DATA, "advantage": AdvantageConfig(), "objective": objective, "select": SelectConfig()}
    for number in range(60):
        read.clear()
        formed = form_groups([], rewarded, RoundGroups(number, stored, most_stored=3), **stages)
        again = form_groups([], rewarded, RoundGroups(number, stored, most_stored=3), **stages)
        assert [one.group for one in formed.groups] == [one.group for one in again.groups] and len(formed.groups) == 3
        assert len(read) <= 2 * 5 and len(read) == 2 * len({*read})
        seen.update(one.group.task.task_id for one in formed.groups)
        left_out += formed.left_out
    assert {*seen} == {str(n) for n in range(20)} and max(seen.values()) < 25, "of 180, 9 each"
    assert left_out["attempts: not judged"] == 8 * sum(count for why, count in left_out.items() if why.startswith("tasks"))
    few = form_groups([], rewarded, RoundGroups(0, stored, most_stored=99), **stages)
    assert len(few.groups) == 40, "all that there are"


def test_with_select_each_stored_task_is_rewarded_once_in_a_run(monkeypatch):
    """An expression may compare all attempts, so all are read in the first round; what does not fit into memory is read in each."""
    stored, read = [*map(mixed, map(str, range(5)))], []
    stages = {"data": DATA, "advantage": AdvantageConfig(), "objective": ObjectiveConfig()}

    def rounds(config):
        read.clear()
        held = CachedRewards(stored, lambda group: read.append(group.task.task_id) or reward(group, RewardConfig()))
        found = [form_groups([], held, RoundGroups(n, stored, most_stored=2), **stages, select=config) for n in range(3)]
        assert [len(one.groups) for one in found] == [2, 2, 2]
        return sorted(read)

    assert rounds(SelectConfig(attempts="length > 2")) == list("01234")
    assert len(rounds(SelectConfig())) == len({*read}) <= 5
    monkeypatch.setattr("upsolve.train.data.groups.HELD", 3 * 8)
    assert Counter(rounds(SelectConfig(attempts="length > 2")))["0"] == 1 and Counter(read)["4"] == 3


@pytest.mark.parametrize(("needs", "sizes"), [("contrast", [2]), ("pass", [2, 2]), ("attempt", [2, 2, 2])])
def test_an_estimator_takes_groups_with_what_it_needs(needs, sizes):
    """A task with both outcomes, one that all passed, one that nobody passed."""
    outcomes = {"both": (True, False), "passed": (True, True), "failed": (False, False)}
    groups = []
    for name, passes in outcomes.items():
        attempts = tuple(Attempt(name, f"program {n}") for n in range(2))
        statuses = [Status.PASSED if passed else Status.FAILED for passed in passes]
        verdicts = tuple(Verdict(a.attempt_id, status) for a, status in zip(attempts, statuses, strict=True))
        groups.append(reward(Group(Task(name, "prompt"), attempts, verdicts), RewardConfig()))
    formed = draw_groups(groups, DataConfig(group_size=2), needs=needs, epoch=0, in_order=True)
    assert [len(one.rewards_G) for one in formed.groups] == sizes
    assert sum(formed.left_out.values()) == 3 - len(sizes)
