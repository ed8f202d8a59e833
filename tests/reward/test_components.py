"""Values worked by hand, ranges as a law, and what has no value."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upsolve.config import RewardConfig
from upsolve.config.reward import PRESETS
from upsolve.reward.components import COMPONENTS, Component
from upsolve.reward.formula import analyses_needed, reward
from upsolve.reward.judged import Judged
from upsolve.types import Attempt, Finding, Group, Status, Task, TestCase, TestKind, Verdict, with_points

TASK = Task("t", "", (TestCase(TestKind.CALL, "f(1)", "2"),), "f", reference="def f(n):\n    m = n + 1\n    return m")
CODE = "def f(n):\n\n    x = 1\n    return n\n"
ALL = ("complexity: x 1", "lint: ruff 1", "security: x 1", "syntax: x 1", "types: x 1")
FAILED = Verdict("a", Status.FAILED, 1, 4, analyses=ALL)


def value(name, verdict=FAILED, code=CODE, *, usual=None, truncated=False, task=TASK, language="python", **config):
    attempt = Attempt("t", code, language, truncated=truncated)
    return COMPONENTS[name].value(Judged(task, attempt, verdict, usual), RewardConfig(**config))


def found(*findings, status=Status.FAILED, analyses=ALL):
    return Verdict("a", status, 0, 4, findings=findings, analyses=analyses)


def test_presets_are_made_of_components():
    assert {name for weights in PRESETS.values() for name in weights} <= set(COMPONENTS)


def test_tests_passed():
    none, untold = Verdict("a", Status.FAILED, 0, 4), Verdict("a", Status.FAILED)
    assert [value("fraction", v) for v in (FAILED, none, untold)] == [0.25, 0.0, None]
    assert [value("functional", v) for v in (FAILED, none, untold)] == [0.25, -0.3, None]
    assert [value("simulator", v) for v in (FAILED, none, untold)] == [0.25, -0.1, None]


def test_points_of_tests_and_of_all():
    outcomes = (Status.PASSED, Status.FAILED, Status.TIMEOUT, Status.UNSCORED)
    tests = TASK.tests * 4
    given = with_points(Verdict("a", Status.FAILED, 1, 4, outcomes), (None, 0.5, 0.1, None))
    assert value("points", given) == pytest.approx(0.4)  # (1 + 0.5 + 0.1 + 0) / 4
    weighted = replace(TASK, tests=tests, extra='{"test_weights": [10, 20, 30, 40]}')
    assert value("points", given, task=weighted) == pytest.approx(0.23)  # (10 + 10 + 3 + 0) / 100
    assert value("points", FAILED) == 0.25 and value("points", Verdict("a", Status.FAILED)) is None
    assert value("points", FAILED, task=weighted) is None  # which test passed is not known
    assert value("points", Verdict("a", Status.PASSED, 4, 4), task=weighted) == 1
    assert value("points", with_points(given, given.points, 0.7)) == 0.7
    assert value("points", replace(given, status=Status.UNSCORED)) is None
    others = replace(TASK, tests=tests, extra='{"test_weights": [1, 2]}')  # of other tests
    assert others.weights == () and value("points", given, task=others) == pytest.approx(0.4)


def test_lint_costs_by_severity():
    one = Finding("lint", "F821", "", 3)  # F: an error, 0.3
    two = Finding("lint", "F841", "", 3)  # a warning, 0.1
    three = Finding("lint", "E501", "", 3)  # a convention, 0.02
    assert value("lint", found()) == 0
    assert value("lint", found(one, two, three)) == pytest.approx(-0.42)
    assert value("lint", found(one, one, one, one)) == -1  # 1.2, cut
    assert value("lint", found(one, two), severity={"warning": 0.5, "error": 0}) == -0.5
    assert value("lint", found(one, two), severity={"warning": 0.5}) == -0.8  # an error keeps its default, 0.3
    assert value("lint", found(Finding("lint", "W292", "", 4))) == 0  # how a file ends is not the policy's doing
    assert value("lint", found(Finding("security", "S102", "", 3))) == 0 and value("security", found()) == 0
    assert value("security", found(Finding("security", "S102", "", 3))) == pytest.approx(-0.3)
    assert value("types", found(Finding("types", "invalid-assignment", "", 3))) == pytest.approx(-0.1)


@pytest.mark.parametrize("name", ["lint", "security", "types", "complexity"])
def test_what_cannot_be_looked_at_is_not_clean(name):
    assert value(name, found(Finding("syntax", "SyntaxError", "", 1))) == -1
    assert value(name, found(status=Status.COMPILE_ERROR)) == -1
    assert value(name, found(Finding("analysis", name, "crashed", 1))) == -1


@pytest.mark.parametrize("name", ["lint", "clean_lines", "security", "types", "complexity", "syntax"])
def test_an_analysis_that_was_not_done_is_no_zero(name):
    assert value(name, found(analyses=())) is None
    assert "upsolve verify --analysis" in COMPONENTS[name].why_missing(name, Status.FAILED)
    if name in ("lint", "clean_lines", "security", "types"):
        assert value(name, found(), language="c++") is None


def test_syntax_is_the_mean_over_characters():
    broken = Finding("syntax", "SyntaxError", "", 2, 3, value=0.6)
    assert value("syntax", found(broken), "ab = 1\nb (c") == pytest.approx(2 * 9 / 11 - 1)  # 7 + 2 of 11 characters
    behind = Finding("syntax", "SyntaxError", "", 2, 1, value=1.0)  # where the code ends: its last character is not valid, then
    assert value("syntax", found(behind), "a = (b +") == pytest.approx(2 * 7 / 8 - 1)
    assert value("syntax", found(), CODE) == 1 and value("syntax", found(), "") == 1
    assert value("syntax", found(status=Status.COMPILE_ERROR)) == -1


def test_clean_lines_are_the_mean_over_lines():
    # three lines have text; one of them has two findings: (1 - 1 + 1) / 3
    two = Finding("lint", "F841", "", 3, 5), Finding("security", "S102", "", 3)
    assert value("clean_lines", found(*two)) == pytest.approx(1 / 3)
    assert value("clean_lines", found(Finding("lint", "W293", "", 2))) == pytest.approx(0.5)  # the blank line counts then
    assert value("clean_lines", found(Finding("lint", "PLR0911", "", 1, end_line=4))) == -1
    assert value("clean_lines", found()) == 1 and value("clean_lines", found(), "\n") == -1


def test_complexity_is_free_up_to_a_limit():
    hard = Finding("complexity", "cyclomatic", "", 1, value=14)
    easy = Finding("complexity", "cyclomatic", "", 1, value=3)
    assert value("complexity", found(easy, hard)) == -0.4  # (14 - 10) / 10
    assert value("complexity", found(hard), complexity=4) == -1 and value("complexity", found()) == 0


def test_efficiency_is_in_powers_of_two():
    def took(seconds, status=Status.PASSED):
        return value("efficiency", Verdict("a", status, cpu_seconds=seconds), usual=0.4)

    assert [took(s) for s in (0.4, 0.2, 0.1, 0.8, 9.0)] == [0, 1, 1, -1, -1]
    assert took(0.4 / 2**0.5) == pytest.approx(0.5)
    assert took(0.001, Status.FAILED) == -1 and took(None) is None
    assert value("efficiency", Verdict("a", Status.PASSED, cpu_seconds=0.1)) is None


def test_length_and_form():
    assert [value("length", code="x" * n) for n in (2000, 3000, 4000, 9000)] == [0, -0.5, -1, -1]
    assert value("length", code="x" * 30, length=(10, 50)) == -0.5
    assert value("format", code=CODE) == 0 and value("format", code=CODE, truncated=True) == -1
    assert value("format", code="def g(n):\n    return n") == -1 and value("format", code=" \n") == -1
    assert value("format", code="Here it is:\n```python\ndef f(n): pass\n```") == -1
    assert value("format", code="def f(n):\n    '''\n```\nx\n```\n    '''") == 0  # the fence is in a string
    assert value("format", code="print(input())", task=Task("t", "")) == 0  # no function is asked for


def test_the_similarity_up_to_a_threshold_is_worth_nothing():
    half = "def f(q):\n    return 2"  # neither the assignment nor what it reads
    similarity = value("dataflow", code=half)
    assert 0 <= similarity < 0.5 and value("dataflow", code=half, dataflow_threshold=0.5, preset="dense") == 0
    whole = "def f(q):\n    z = q + 1\n    return z"
    assert value("dataflow", code=whole, dataflow_threshold=0.5, preset="dense") == 0.5


def test_a_program_is_paid_for_executing_in_each_world():
    def executing(*outcomes, status=Status.FAILED):
        return value("execution", Verdict("a", status, outcomes.count("passed"), len(outcomes), tuple(map(Status, outcomes))))

    assert executing("passed", "failed", "runtime_error", "timeout") == 0.5, "the goal does not matter"
    assert executing("runtime_error", "runtime_error") == -0.1
    assert executing("timeout", "unscored") == -0.1, "worlds after a timeout are not reached"
    assert [executing(status=status) for status in (Status.PASSED, Status.COMPILE_ERROR, Status.FAILED)] == [1, -0.1, None]


def test_dataflow_needs_a_reference():
    assert value("dataflow", code="def f(q):\n    z = q + 1\n    return z") == 1
    assert value("dataflow", code="def f(q:") == 0
    assert value("dataflow", task=Task("t", "")) is None and value("dataflow", language="c") is None


KINDS = ("syntax", "lint", "security", "types", "complexity", "analysis")
findings = st.builds(
    Finding,
    st.sampled_from(KINDS),
    st.sampled_from(["F821", "E501", "lint", "x"]),
    st.just(""),
    st.integers(1, 9),
    st.integers(1, 40),
    value=st.one_of(st.none(), st.floats(0, 60)),
)
verdicts = st.builds(
    Verdict,
    st.just("a"),
    st.sampled_from([s for s in Status if s is not Status.UNSCORED]),
    st.integers(0, 4),
    st.just(4),
    outcomes=st.lists(st.sampled_from(Status), min_size=4, max_size=4).map(tuple),
    cpu_seconds=st.floats(0, 20),
    findings=st.lists(findings, max_size=9).map(tuple),
    analyses=st.just(ALL),
)


BYTES = Component(lambda j, _: float(len(j.attempt.code)), 0, 40, analysis="lint")


def test_a_component_of_ones_own():
    config = RewardConfig(weights={BYTES: 0.5})
    name = f"{__name__}:BYTES"
    assert config.components == {"outcome": 1.0, name: 0.5} and analyses_needed(config) == ("lint",)
    attempts = Attempt("t", CODE), Attempt("t", CODE * 2)
    assert reward(Group(TASK, attempts[:1], (FAILED,)), config).rewards_G == pytest.approx(-0.1 + 0.5 * len(CODE))
    with pytest.raises(ValueError, match=f"{name}: value {2.0 * len(CODE)} is outside of its range"):
        reward(Group(TASK, attempts, (FAILED, FAILED)), config)
    assert BYTES.why_missing("bytes", Status.FAILED) == "bytes: not analysed (upsolve verify --analysis lint)"


@given(verdicts, st.text("a =\n()`é🙂\r", max_size=60), st.floats(1e-3, 10))
def test_values_stay_in_their_range(verdict, code, usual):
    for name, component in COMPONENTS.items():
        if component.group or name == "score":  # which is any number, or none
            continue
        got = value(name, verdict, code, usual=usual)
        assert got is not None and component.low <= got <= component.high, name


def group_of(*rows, task=TASK):
    """A group from (code, tests passed of 4, count); every attempt failed."""
    attempts = tuple(Attempt("t", code, count=count) for code, _, count in rows)
    verdicts = tuple(Verdict(a.attempt_id, Status.FAILED, passed, 4) for a, (_, passed, _) in zip(attempts, rows, strict=True))
    return Group(task, attempts, verdicts)


def rewards(group, **config):
    weights = {"outcome": 0, **dict.fromkeys(config.pop("weights"), 1.0)}
    return reward(group, RewardConfig(weights=weights, **config)).rewards_G.tolist()


SIX = group_of(("x = 1", 4, 2), ("x  =  1  # one", 1, 1), ("x = 2", 1, 2), ("x = 3", 0, 1))


def test_majority_is_the_share_of_samples_with_an_equal_program():
    # of 6 samples, 2 + 1 are x = 1, 2 are x = 2, and one is x = 3
    assert rewards(SIX, weights=["majority"]) == pytest.approx([1 / 2, 1 / 2, 1 / 3, 1 / 6])


def test_majority_compares_outputs_where_programs_print():
    codes, outputs = ("print(1)", "print(2 - 1)", "print(2)", "x", "y"), ("1\n", "1\n", "2\n", "", "2\n")
    statuses = (*(Status.FAILED,) * 4, Status.TIMEOUT)  # what a program prints before it is killed is no answer
    attempts = tuple(Attempt("t", code) for code in codes)
    rows = zip(attempts, statuses, outputs, strict=True)
    verdicts = tuple(Verdict(one.attempt_id, status, 0, 4, stdout_head=output) for one, status, output in rows)
    assert rewards(Group(TASK, attempts, verdicts), weights=["majority"]) == pytest.approx([0.4, 0.4, 0.2, 0.2, 0.2])


def test_distinct_is_one_over_the_number_of_equal_programs():
    assert rewards(SIX, weights=["distinct"]) == pytest.approx([1 / 3, 1 / 3, 1 / 2, 1])
    other = (Attempt("t", "int  x;", "c++"), Attempt("t", "int x;", "c++"), Attempt("t", "int y;", "c++"))
    verdicts = tuple(Verdict(one.attempt_id, Status.FAILED, 0, 4) for one in other)
    assert rewards(Group(TASK, other, verdicts), weights=["distinct"]) == [0.5, 0.5, 1]


def test_rank_is_the_share_of_others_below():
    # fractions 1, 1/4, 1/4, 0: two are equal, so each is below one and beside one of three others
    assert rewards(SIX, weights=["rank"]) == [1, 0.5, 0.5, 0]
    assert rewards(SIX, weights=["rank"], rank="length", length=(2, 12)) == pytest.approx([2 / 3, 0, 2 / 3, 2 / 3])
    assert rewards(group_of(("x", 4, 1)), weights=["rank"]) == [0.5]


def test_rank_needs_what_its_component_needs():
    config = RewardConfig(weights={"rank": 1}, rank="lint")
    assert analyses_needed(config) == ("lint",)
    assert reward(SIX, config).left_out == {"rank: the component in reward.rank has no value for the attempt": 4}
    seconds = [replace(FAILED, status=Status.PASSED, cpu_seconds=cpu) for cpu in (0.1, 0.2, 0.4)]
    timed = Group(TASK, tuple(Attempt("t", f"x = {n}") for n in range(3)), tuple(seconds))
    assert rewards(timed, weights=["rank"], rank="efficiency") == [1, 0.5, 0]  # log2 of 2, 1 and 1/2
    with pytest.raises(ValueError, match="majority is computed from the whole group already"):
        RewardConfig(weights={"rank": 1}, rank="majority")


LATE = Component(lambda members, _: [n / 10 for n in range(len(members))], 0, 1, group=True)
RAISES = Component(lambda *_: 1 / 0, 0, 1, group=True)
SHORT = Component(lambda *_: [0.5], 0, 1, group=True)
HOLED = Component(lambda members, _: [None, *[1.0] * (len(members) - 1)], 0, 1, "holed: the first", group=True)


def test_a_component_of_the_group_of_ones_own():
    assert rewards(SIX, weights=[LATE]) == [0, 0.1, 0.2, 0.3]
    assert reward(SIX, RewardConfig(weights={"outcome": 0, HOLED: 1})).left_out == {"holed: the first": 1}
    with pytest.raises(ValueError, match=rf"{__name__}:RAISES: ZeroDivisionError: .* \(test_components.py, line \d+\)"):
        rewards(SIX, weights=[RAISES])
    with pytest.raises(ValueError, match=f"{__name__}:SHORT: 1 values for the 4 attempts of a group"):
        rewards(SIX, weights=[SHORT])


def test_attempts_with_a_reward_of_their_own_are_not_in_the_group():
    attempts = (*SIX.attempts[:3], replace(SIX.attempts[3], truncated=True))
    cut = Group(TASK, attempts, SIX.verdicts)
    assert rewards(cut, weights=["majority"], truncated=-1.0) == pytest.approx([3 / 5, 3 / 5, 2 / 5, -1])
    assert rewards(cut, weights=[LATE], truncated="drop") == [0, 0.1, 0.2]
