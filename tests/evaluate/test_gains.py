"""Gains over the base and beyond controls, by hand."""

import pytest

from upsolve.evaluate.gains import RunResult, gains, worth_of_verdicts
from upsolve.evaluate.records import Evaluation, TaskScore
from upsolve.evaluate.sweep import single
from upsolve.report.tables import runs_table, worth_table


def sweep(passed, first=0, temperature=1.0):
    scores = tuple(TaskScore(f"t{first + i}", "", 8, c, {"passed": c, "failed": 8 - c}) for i, c in enumerate(passed))
    return single(Evaluation("m", "m", "x:test", temperature, 1.0, 0, 100, scores))


BASE = sweep([2] * 40)
METHOD = RunResult("rloo", "as_judged", BASE, sweep([6] * 40))
PLACEBO = RunResult("placebo", "shuffled", BASE, sweep([4] * 40))


def test_the_gain_beyond_a_control():
    assert list(gains(METHOD).values()) == pytest.approx([0.5] * 40)
    (worth,) = worth_of_verdicts([METHOD, PLACEBO])
    assert (worth.method, worth.control) == ("rloo", "placebo") and worth.paired.difference.mean == pytest.approx(0.25)
    assert worth_of_verdicts([METHOD]) == worth_of_verdicts([PLACEBO]) == ()
    other = RunResult("inverted", "inverted", sweep([0], 90), sweep([0], 90))
    with pytest.raises(ValueError, match="rloo and inverted share no task"):
        worth_of_verdicts([METHOD, other])


def test_imitation_is_the_control_of_a_run_that_learns_from_failed_attempts():
    imitation = RunResult("sft", "as_judged", BASE, sweep([3] * 40), imitates=True)
    found = {(one.method, one.control): one.paired.difference.mean for one in worth_of_verdicts([METHOD, imitation, PLACEBO])}
    assert found == pytest.approx({("rloo", "placebo"): 0.25, ("sft", "placebo"): -0.125, ("rloo", "sft"): 0.375})


def test_tables_of_runs():
    table = runs_table([METHOD, PLACEBO])
    assert table.title == "pass@1 on 40 tasks, %"
    assert table.rows == (
        ("base", "25.0 (T 1)", "–", "25.0", "", ""),
        ("rloo", "75.0 (T 1)", "–", "75.0", "+50.0 [+50.0, +50.0]", "one temperature"),
        ("placebo", "50.0 (T 1)", "–", "50.0", "+25.0 [+25.0, +25.0]", "one temperature"),
    )
    assert worth_table([METHOD]).rows == (("–", "none among these runs: set reward.verdicts=shuffled", "", ""),)
    assert worth_table([METHOD, PLACEBO]).rows == (("rloo", "placebo", "+25.0 [+25.0, +25.0]", "0.0001"),)
