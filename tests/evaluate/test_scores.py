import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upsolve.errors import ArchiveError
from upsolve.evaluate.intervals import mean_interval, over_seeds, paired_difference
from upsolve.evaluate.runs import load_evaluation, load_sweep, save_evaluation, save_sweep
from upsolve.evaluate.scores import (
    Evaluation,
    Sweep,
    TaskScore,
    all_pass_at_k,
    error_mix,
    lint_profile,
    outcome_mix,
    pass_at_k,
    score_tasks,
    task_pass_at_k,
    weighted_mean,
)
from upsolve.types import Attempt, Finding, Status, Task, Verdict


@pytest.mark.parametrize(
    ("n", "c", "k", "value"),
    [
        (4, 1, 2, 0.5),  # 3 of the 6 pairs hold the one that passed
        (5, 2, 3, 0.9),  # 1 of the 10 triples holds neither
        (8, 0, 8, 0.0),
        (8, 8, 1, 1.0),
        (8, 1, 8, 1.0),
        (1, 0, 2, None),  # undefined, and not 1.0
        (0, 0, 1, None),
    ],
)
def test_pass_at_k_by_hand(n, c, k, value):
    assert pass_at_k(n, c, k) == (value if value is None else pytest.approx(value))


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_share_of_subsets_with_a_pass(nck):
    n, c, k = nck
    draws = list(combinations(range(n), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(any(i < c for i in draw) for draw in draws) / len(draws))


@pytest.mark.parametrize(
    ("n", "c", "k", "value"),
    [(4, 2, 2, 1 / 6), (5, 4, 3, 0.4), (8, 8, 8, 1.0), (8, 7, 8, 0.0), (8, 3, 1, 3 / 8), (3, 3, 4, None), (0, 0, 1, None)],
)
def test_all_of_k_samples_pass_by_hand(n, c, k, value):
    assert all_pass_at_k(n, c, k) == (value if value is None else pytest.approx(value))


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_all_pass_is_the_share_of_subsets_without_a_failure(nck):
    n, c, k = nck
    draws = list(combinations(range(n), k))
    assert all_pass_at_k(n, c, k) == pytest.approx(sum(all(i < c for i in draw) for draw in draws) / len(draws))


@pytest.mark.parametrize("bad", [(3, 4, 1), (3, -1, 1), (3, 1, 0)])
def test_impossible_counts_are_refused(bad):
    with pytest.raises(ValueError, match="pass@k needs"):
        pass_at_k(*bad)
    with pytest.raises(ValueError, match="needs 0 <= c <= n"):
        all_pass_at_k(*bad)


def test_intervals_cover_the_mean():
    same = mean_interval([0.25] * 10)
    assert (same.mean, same.tasks) == (0.25, 10) and same.low < 0.25 < same.high
    wide = mean_interval([0.0, 1.0] * 50)
    # 51.5 of 103, S' = 103 / 4, t(102) = 1.98350: 0.5 - 1.98350 sqrt(0.25 / 102)
    assert wide.low == pytest.approx(0.401802, abs=1e-4) and wide.high == pytest.approx(1 - wide.low)
    assert math.isnan(mean_interval([0.5]).low)
    with pytest.raises(ValueError, match="at least one task"):
        mean_interval([])


def test_paired_comparison():
    before = {f"t{i}": 0.5 for i in range(40)}
    after = {name: 0.75 if i % 4 else 0.25 for i, name in enumerate(before)}
    paired = paired_difference(before, after)
    assert (paired.better, paired.worse) == (30, 10)
    assert paired.difference.mean == pytest.approx(0.125) and paired.difference.low > 0
    assert paired.p_value < 0.01
    none = paired_difference(before, before)
    assert none.p_value == 1.0 and none.difference.low < 0 < none.difference.high
    with pytest.raises(ValueError, match="different tasks"):
        paired_difference(before, {"x": 1.0})


def test_seeds_are_averaged_within_tasks():
    assert over_seeds([{"a": 0.0, "b": 1.0}, {"a": 1.0, "b": 1.0}]) == {"a": 0.5, "b": 1.0}
    with pytest.raises(ValueError, match="different"):
        over_seeds([{"a": 0.0}, {"b": 0.0}])


def judged(*statuses):
    attempts = [Attempt("t", f"x = {i}", tokens=10 * (i + 1), entropy=0.5, truncated=i == 0) for i in range(len(statuses))]
    verdicts = [
        Verdict(a.attempt_id, s, error_type="KeyError" if s is Status.RUNTIME_ERROR else "")
        for a, s in zip(attempts, statuses, strict=True)
    ]
    return attempts, verdicts


def test_unscored_is_not_zero():
    scores = score_tasks([Task("t", "")], *judged(Status.PASSED, Status.UNSCORED, Status.RUNTIME_ERROR))
    assert (scores[0].samples, scores[0].passed, scores[0].truncated) == (2, 1, 1)
    assert task_pass_at_k(scores, 1) == {"t": 0.5} and task_pass_at_k(scores, 3) == {}
    assert outcome_mix(scores) == {name: pytest.approx(1 / 3) for name in ("passed", "unscored", "runtime_error")}
    assert error_mix(scores) == {"KeyError": pytest.approx(1 / 3)}
    assert weighted_mean(scores, "mean_tokens") == 20


def test_lint_counts_only_programs_that_ruff_parses():
    found = (Finding("lint", "F401", "", 1), Finding("lint", "F821", "", 2), Finding("security", "B105", "", 2))
    attempts = [
        Attempt("t", "x = 1"),
        Attempt("t", "x = 2"),
        Attempt("t", "x ="),
        Attempt("t", "x", language="c"),
        Attempt("t", "y"),
    ]
    verdicts = [
        Verdict(attempts[0].attempt_id, Status.PASSED, findings=found, analyses=("lint:1",)),
        Verdict(attempts[1].attempt_id, Status.PASSED, analyses=("lint:1",)),
        Verdict(attempts[2].attempt_id, Status.COMPILE_ERROR, findings=found[:1], analyses=("lint:1",)),
        Verdict(attempts[3].attempt_id, Status.PASSED, analyses=("lint:1",)),
        Verdict(attempts[4].attempt_id, Status.PASSED, findings=found[:1]),
    ]
    (score,) = score_tasks([Task("t", "")], attempts, verdicts)
    assert (score.linted, score.findings) == (2, {"lint:F401": 1, "lint:F821": 1, "security:B105": 1})
    assert lint_profile([score]) == {"error": 0.5, "security": 0.5, "warning": 0.5, "convention": 0.0}
    assert lint_profile([]) == {}, "nothing was looked at: that is not clean"


def test_an_evaluation_is_read_as_written(tmp_path):
    score = TaskScore("t", "easy", 2, 1, {"passed": 1, "failed": 1}, 12.5, None, {"KeyError": 1}, 1, 2, {"lint:F401": 3})
    evaluation = Evaluation("base", "m", "x:test", 0.8, 0.95, 1, 100, (score,), 3.5)
    save_evaluation(evaluation, tmp_path / "e.json")
    assert load_evaluation(tmp_path / "e.json") == evaluation
    old = load_sweep(tmp_path / "e.json")
    assert (old.name, old.dev, old.best, old.greedy) == ("base", (), evaluation, None), "a file of an earlier version"
    greedy = Evaluation("base", "m", "x:test", 0.0, 0.95, 1, 100, (score,), 3.5)
    sweep = Sweep("base", (greedy, evaluation), greedy, evaluation, evaluation, greedy, -0.5, 7)
    save_sweep(sweep, tmp_path / "s.json")
    assert load_sweep(tmp_path / "s.json") == sweep and (tmp_path / "s.json").read_text().count('"task_id"') == 4
    with pytest.raises(ArchiveError, match="load_sweep"):
        load_evaluation(tmp_path / "s.json")
    (tmp_path / "s.json").write_text('{"version": 2, "test": []}')
    with pytest.raises(ArchiveError, match=r"s.json: not an evaluation: 'dev'"):
        load_sweep(tmp_path / "s.json")
    (tmp_path / "bad.json").write_text('{"version": 1}')
    with pytest.raises(ArchiveError, match="bad.json"):
        load_evaluation(tmp_path / "bad.json")
    with pytest.raises(ArchiveError, match="no such evaluation"):
        load_evaluation(tmp_path / "none.json")
