"""Groups to rewards: the default to the digit, presets by hand, what is left out and why."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from upsolve.archive.store import open_archive
from upsolve.config import RewardConfig
from upsolve.config.reward import PRESETS
from upsolve.errors import ConfigError
from upsolve.plugins import RecordError
from upsolve.reward.components import Component
from upsolve.reward.credit import Credit, token_rewards
from upsolve.reward.formula import analyses_needed, baseline_seconds, check_rewards, reference_seconds, reward
from upsolve.reward.hacks import Detector
from upsolve.reward.judged import Judged, Part
from upsolve.types import Attempt, Finding, Group, Status, Task, TestCase, TestKind, Verdict

TASK = Task(
    "t", "", tuple(TestCase(TestKind.CALL, f"f({n})", f"{n + 1}") for n in (4, 5)), "f", reference="def f(n):\n    return n + 1"
)
GOOD, STUB = "def f(n):\n    return n + 1", "def f(n):\n    return 5"


def group(*pairs, task=TASK):
    return Group(task, tuple(a for a, _ in pairs), tuple(v for _, v in pairs))


def judged(code=GOOD, status=Status.PASSED, *, passed=2, truncated=False, **more):
    attempt = Attempt("t", code, truncated=truncated)
    return attempt, Verdict(attempt.attempt_id, status, passed, 2, **more)


FAULTY = {
    "inf": (Component(lambda *_: math.inf), "component .*: value inf is outside of its range"),
    "text": (Component(lambda *_: "high"), "component .*: TypeError"),
    "raises": (Component(lambda *_: 1 / 0), r"component .*: ZeroDivisionError: .* \(test_formula.py, line \d+\)$"),
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_faulty_component_is_named_in_one_line(name):
    component, message = FAULTY[name]
    group = Group(Task("t", ""), (Attempt("t", "x = 1"),), (Verdict("a", Status.FAILED),))
    with pytest.raises(RecordError, match=message):
        reward(group, RewardConfig(weights={"outcome": 0, component: 1}))


def test_a_faulty_detector_and_a_faulty_credit_are_named_in_one_line():
    task, attempt, verdict = Task("t", ""), Attempt("t", "x = 1"), Verdict("a", Status.FAILED)
    with pytest.raises(RecordError, match="detector .*: AttributeError"):
        reward(Group(task, (attempt,), (verdict,)), RewardConfig(detectors=(Detector(lambda *given: given.nothing),)))
    for assign, message in (
        (lambda given: given.nothing, "credit .*: AttributeError"),
        (lambda _: [math.nan], "credit of outcome: .* finite .*.nan"),
    ):
        config = RewardConfig(credit={"outcome": Credit(assign)})
        with pytest.raises(RecordError, match=message):
            token_rewards(Judged(task, attempt, verdict), (Part("outcome", 1.0, 1.0),), [(0, 5)], config)


def test_the_default_gives_the_published_table():
    # by hand, from the counts: 967 - 0.1 * 2269 - 0.6 * 1820 - 566 - 0.5 * 16 - 0.5 * 4 = -927.9
    total = Counter()
    for one in open_archive("embedded").groups():
        done = reward(one, RewardConfig())
        assert done.rewards_G.tolist() == [RewardConfig().outcomes[v.status] for v in one.verdicts]
        assert done.group == one and not done.left_out
        total.update({"reward": math.fsum(done.rewards_G), "truncated": done.flagged["truncated"]})
    assert total["reward"] == pytest.approx(-927.9) and total["truncated"] == 275


def test_presets_by_hand():
    lint = Finding("lint", "F841", "", 2)  # a warning: 0.1
    half = judged("def f(n):\n    return n", Status.FAILED, passed=1, findings=(lint,), analyses=("lint: x", "syntax: x"))
    full = judged(analyses=("lint: x", "syntax: x"))
    none = judged(STUB, Status.FAILED, passed=0, analyses=("lint: x", "syntax: x"))

    def rewards(preset):
        return reward(group(half, full, none), RewardConfig(preset=preset)).rewards_G.tolist()

    assert rewards("outcome") == [-0.1, 1.0, -0.1]
    assert rewards("tests") == [0.5, 1.0, 0.0]
    assert rewards("tests+lint") == pytest.approx([0.5 - 0.2 * 0.1, 1.0, 0.0])
    # the reference has one edge, n is read, and one parameter; the stub reads nothing. Half: one line of two has a finding.
    assert rewards("dense") == pytest.approx([0.1 + 0.0 + 0.7 * 0.5 + 0.1, 1.0, 0.1 + 0.1 - 0.7 * 0.3 + 0.0])
    assert sum(PRESETS["dense"].values()) == pytest.approx(1)


def test_weights_go_over_the_preset():
    config = RewardConfig(preset="tests", weights={"length": 2.0, "fraction": 0.5}, length=(10, 30))
    done = reward(group(judged("def f(n): return n+1", passed=1)), config)  # 20 characters: half way
    assert done.parts == ((Part("fraction", 0.5, 0.5), Part("length", -0.5, 2.0)),)
    assert done.rewards_G.tolist() == [0.25 - 1.0]
    assert analyses_needed(RewardConfig(preset="dense", weights={"types": 1})) == ("lint", "syntax", "types")


def test_a_table_of_a_recipe_goes_over_the_defaults():
    table = RewardConfig(outcomes={"passed": 2, "timeout": None}).outcomes
    assert table == {**RewardConfig().outcomes, Status.PASSED: 2.0, Status.TIMEOUT: None}
    assert RewardConfig(severity={"error": 1}).severity == {**RewardConfig().severity, "error": 1.0}
    assert (
        RewardConfig.model_validate(RewardConfig(outcomes={"timeout": None}).model_dump(mode="json")).outcomes["timeout"]
        is None
    )


def test_what_has_no_reward_is_left_out_with_the_reason():
    attempt = Attempt("t", GOOD)
    unscored = Verdict("a", Status.UNSCORED)
    done = reward(
        group((attempt, None), (attempt, unscored), judged(status=Status.TIMEOUT)), RewardConfig(outcomes={"timeout": None})
    )
    assert done.left_out == {"not judged": 1, "no reward for unscored": 1, "no reward for timeout": 1}
    assert done.group.attempts == () and done.rewards_G.tolist() == []
    done = reward(group(judged(), judged(analyses=("lint: ruff 1",))), RewardConfig(preset="tests+lint"))
    assert done.left_out == {"lint: no Python analysis (upsolve verify --analysis lint)": 1}
    assert done.rewards_G.tolist() == [1.0]


def test_rules_for_cut_attempts_and_hacks():
    every = group(judged(), judged(truncated=True), judged(STUB), judged(STUB, truncated=True))

    def done(**rules):
        got = reward(every, RewardConfig(**rules))
        assert got.flagged == {"truncated": 2, "stub": 2}
        return got.rewards_G.tolist(), dict(got.left_out)

    assert done() == ([1, 1, 1, 1], {})
    assert done(truncated="drop") == ([1, 1], {"truncated": 2})
    assert done(hacked="drop") == ([1, 1], {"hacked: stub": 2})
    assert done(hacked=-2.0, truncated=-0.5) == ([1, -0.5, -2, -0.5], {})
    assert reward(every, RewardConfig(hacked=-2.0)).parts[2] == (Part("hacked", -2.0, 1.0),)
    assert reward(every, RewardConfig(hacked=-2.0, detectors=())).rewards_G.tolist() == [1, 1, 1, 1]


def test_time_is_compared_with_the_median_of_what_passed():
    times = [judged(f"{GOOD}  # {n}", cpu_seconds=n / 10) for n in (1, 2, 8)]
    slow = judged("def f(n): ...", Status.FAILED, cpu_seconds=0.01)
    assert baseline_seconds(group(*times, slow), "group", {}) == 0.2
    assert baseline_seconds(group(slow), "group", {}) is None
    done = reward(group(*times, slow), RewardConfig(weights={"outcome": 0, "efficiency": 1}))
    assert done.rewards_G.tolist() == [1, 0, -1, -1]


def test_time_is_compared_with_that_of_the_reference():
    config = RewardConfig(weights={"outcome": 0, "efficiency": 1}, efficiency="reference")
    asked = []

    def judge(pairs):
        asked.extend(pairs)
        return [Verdict(attempt.attempt_id, Status.PASSED, 2, 2, cpu_seconds=0.4) for _, attempt in pairs]

    some = group(*(judged(f"{GOOD}  # {n}", cpu_seconds=n / 10) for n in (2, 4, 16)))
    baselines = reference_seconds([some, some], config, judge)  # the reference is in no group: it is run, once
    assert asked == [(TASK, Attempt("t", GOOD, author="reference"))] and baselines == {GOOD: 0.4}
    assert reward(some, config, baselines).rewards_G.tolist() == [1, 0, -1]
    assert reward(some, config).left_out.total() == 3  # without it nothing is compared
    stored = group(judged(f"{GOOD}\n", cpu_seconds=0.1), judged(GOOD, cpu_seconds=0.3), judged(GOOD))
    assert reference_seconds([stored], config, judge) == {GOOD: pytest.approx(0.2)} and len(asked) == 1
    assert reference_seconds([some], RewardConfig(efficiency="reference"), judge) == {}  # no component reads it
    assert reference_seconds([group(task=Task("t", ""))], config, judge) == {} and len(asked) == 1


def test_a_reference_that_does_not_pass_is_no_baseline():
    config = RewardConfig(weights={"efficiency": 1}, efficiency="reference")
    assert reference_seconds([group(judged())], config, lambda _: [Verdict("", Status.FAILED, cpu_seconds=1.0)]) == {}


def test_an_archive_without_what_the_reward_reads_is_refused_with_what_to_run():
    lint = RewardConfig(preset="tests+lint")
    failed = judged(STUB, Status.FAILED, analyses=("lint: ruff 1",))
    with pytest.raises(ConfigError, match=r"lint: no Python analysis \(upsolve verify --analysis lint\): 2 attempts"):
        check_rewards([group(judged(), failed), group(judged())], lint)
    check_rewards([group(failed), group(judged(analyses=("lint: ruff 1",)))], lint)
    check_rewards([group(failed)], lint)  # nothing passed, and nothing is missing


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"weights": {"beauty": 1}}, "no component 'beauty'"),
        ({"weights": {"lnit": 1}}, "did you mean lint"),
        ({"weights": {"lint": float("inf")}}, "weights"),
        ({"preset": "tests", "weights": {"fraction": 0}}, "every weight is 0"),
        ({"outcomes": {"passed": float("nan")}}, "outcomes"),
        ({"credit": {"lint": "last"}}, "lint has no weight"),
        ({"hacked": "forgive"}, "hacked"),
        ({"truncated": float("nan")}, "truncated"),
        ({"length": (5, 5)}, "length"),
        ({"severity": {"error": -1}}, "severity"),
        ({"credit": {"lint": "everywhere"}}, "credit"),
        ({"detectors": ["guess"]}, "detectors"),
    ],
)
def test_a_wrong_recipe_is_refused(wrong, key):
    with pytest.raises(ValidationError, match=key):
        RewardConfig.model_validate(wrong)


statuses = st.sampled_from([s for s in Status if s is not Status.UNSCORED])
attempts = st.builds(
    lambda number, status, passed: judged(f"def f(n):\n    return n + {number}", status, passed=passed),
    st.integers(0, 99),
    statuses,
    st.integers(0, 2),
)


@given(st.lists(attempts, max_size=6), st.dictionaries(st.sampled_from(["fraction", "length", "dataflow"]), st.floats(-3, 3)))
def test_a_reward_is_the_sum_of_its_parts_and_its_own(some, weights):
    config = RewardConfig(weights={"outcome": 1.0, **weights})
    done = reward(group(*some), config)
    sums = [math.fsum(part.weight * part.value for part in parts) for parts in done.parts]
    assert done.rewards_G.tolist() == sums
    alone = [reward(group(one), config).rewards_G[0] for one in some]  # without efficiency, a group changes nothing
    assert done.rewards_G.tolist() == alone


def test_what_the_attempt_could_have_decided_is_left_out_unless_it_is_trusted():
    both = group(judged(isolation="pidns,in_process"), judged(isolation="pidns,across"))
    done = reward(both, RewardConfig())
    assert done.rewards_G.tolist() == [1] and done.left_out == {"tests ran in the attempt's own process": 1}
    assert reward(both, RewardConfig(in_process="keep")).rewards_G.tolist() == [1, 1]


def test_verdicts_and_rules_say_what_passed():
    """A finding of Ruff makes no failure of a pass; a rule for hacked or truncated attempts does."""
    ran = {"analyses": ("lint: x",)}
    linted = judged(findings=(Finding("lint", "E741", "", 1),), **ran)
    cut, wrong = judged(GOOD + "  # cut", truncated=True, **ran), judged("f = 1", Status.FAILED, passed=0, **ran)
    rows = group(linted, judged(STUB, **ran), cut, wrong)
    config = {"preset": "tests+lint", "detectors": ["hard_coded", "stub"]}
    found = reward(rows, RewardConfig(**config))
    assert found.rewards_G[0] < 1 and found.passed.tolist() == [True, True, True, False]
    assert reward(rows, RewardConfig(**config, hacked=-1)).passed.tolist() == [True, False, True, False]
    ruled = reward(rows, RewardConfig(**config, hacked=-1, truncated=1.0))
    assert ruled.passed.tolist() == [True, False, False, False] and ruled.part([1, 0]).passed.tolist() == [False, True]
