import math

import pytest

from upsolve.evaluate.comparison import compare
from upsolve.evaluate.scores import Evaluation, TaskScore


def evaluation(name, passed, samples=8, temperature=0.2):
    scores = tuple(TaskScore(f"t{i}", "easy", samples, c, {"passed": c, "failed": samples - c}) for i, c in enumerate(passed))
    return Evaluation(name, "model", "x:test", temperature, 1.0, 0, 100, scores)


BASE, BETTER = evaluation("base", [2] * 20 + [0] * 20), evaluation("trained", [6] * 20 + [0] * 19 + [8])


def test_the_verdict_stands_first():
    # (20 * 4 / 8 + 1) / 40 = 27.5 points
    assert compare(BASE, BETTER).outcome == "gain" and compare(BETTER, BASE).outcome == "loss"
    assert compare(BASE, BETTER).headline == "Gain: trained 40.0 %, base 12.5 % (+27.5 points pass@1)"
    assert compare(BETTER, BASE).text().startswith("Loss: base 12.5 %, trained 40.0 % (-27.5 points pass@1)")
    assert "40 tasks: 21 better, 0 worse; permutation p = 0.0001; T 0.2" in compare(BASE, BETTER).details
    assert compare(BASE, BETTER).warnings == ()
    same = compare(BASE, BASE)
    assert same.outcome == "undecided" and same.headline.startswith("No difference shown")


def test_five_tasks_give_a_warning_and_no_interval():
    few = compare(evaluation("a", [0] * 5), evaluation("b", [0] * 5))
    assert few.outcome == "too few tasks" and "[" not in few.text() and "Only 5 tasks" in few.text()
    all_better = compare(evaluation("a", [0] * 5), evaluation("b", [8] * 5))
    assert all_better.outcome == "too few tasks", "the smallest p-value of five tasks is 2 / 2**5 = 0.0625"
    assert "Only 6 tasks" in compare(evaluation("a", [0] * 6), evaluation("b", [8] * 6)).text()


def test_a_gain_at_a_high_temperature_alone_is_called_what_it_may_be():
    hot = compare(evaluation("base", [2] * 40, temperature=1.0), evaluation("trained", [6] * 40, temperature=1.0))
    assert hot.outcome == "gain" and "could already do" in hot.warnings[0]
    assert not compare(evaluation("a", [6] * 40, temperature=1.0), evaluation("b", [2] * 40, temperature=1.0)).warnings


@pytest.mark.parametrize(("before", "after", "warnings"), [(0.5, 0.5, 1), (0.4, 0.4, 0), (0.5, 1.0, 0)])
def test_equal_temperatures_from_a_half_on_are_high(before, after, warnings):
    gain = compare(evaluation("a", [2] * 40, temperature=before), evaluation("b", [6] * 40, temperature=after))
    assert gain.outcome == "gain" and len(gain.warnings) == warnings


def test_a_task_unscored_in_one_run_only_is_left_out_and_named():
    one = evaluation("one", [2] * 40)
    gone = TaskScore("t3", "easy", 0, 0, {"unscored": 8})
    other = Evaluation("other", "m", "x:test", 0.2, 1.0, 0, 100, (*one.scores[:3], gone, *one.scores[4:]))
    for pair in ((one, other), (other, one)):
        found = compare(*pair)
        assert found.left_out == ("t3",) and found.paired.difference.tasks == 39
        assert "1 task left out" in found.text() and "t3" in found.text()


def test_k_above_all_samples_is_undefined_and_no_error():
    found = compare(BASE, BETTER, 16)
    assert found.outcome == "too few tasks" and found.paired is None and math.isnan(found.means[0])
    assert "undefined" in found.text()


def test_runs_over_different_tasks_are_refused():
    with pytest.raises(ValueError, match="different tasks, such as t40; evaluate both"):
        compare(BASE, evaluation("longer", [1] * 41))
