"""Scores against verdicts, with values worked by hand."""

import math

import numpy as np
import pytest
from typer.testing import CliRunner

from upsolve.archive.preference import score_verdicts
from upsolve.archive.store import Archive
from upsolve.cli.main import app
from upsolve.config import EvalConfig
from upsolve.evaluate.calibration import auc, calibrate, calibrations
from upsolve.report.tables import calibration_tables
from upsolve.types import Attempt, Status, Task, Verdict

SCORES, PASSED = np.array([0.1, 0.4, 0.4, 0.8]), [False, True, False, True]


def test_equal_scores_count_half():
    # pairs (passed, failed): 0.4 > 0.1, 0.4 = 0.4, 0.8 > 0.1, 0.8 > 0.4
    assert auc(SCORES, PASSED) == 3.5 / 4
    assert auc(np.zeros(5), [True, False, True, False, False]) == 0.5
    assert auc(-SCORES, PASSED) == 0.5 / 4
    assert math.isnan(auc(SCORES, [True] * 4))
    assert auc(SCORES, PASSED, np.array([0, 1, 1, 1])) == 1.5 / 2  # without 0.1


def test_brier_and_bins_of_shares():
    found = calibrate(SCORES, PASSED, ["a", "a", "b", "b"])
    assert found.brier == pytest.approx((0.01 + 0.36 + 0.16 + 0.04) / 4)
    assert [(one.low, one.high, one.programs, one.passed) for one in found.bins] == [
        (0.1, 0.1, 1, 0),
        (0.4, 0.4, 2, 0.5),
        (0.8, 0.8, 1, 1),
    ]
    assert [one.programs for one in calibrate(np.array([0.0, 1.0, 0.95]), [0, 1, 1], [1, 2, 3]).bins] == [1, 2], (
        "1 is in the last bin"
    )


@pytest.mark.parametrize(("scores", "are_shares"), [([0.0, 1.0], True), ([-0.01, 1.0], False), ([0.0, 1.01], False)])
def test_scores_between_0_and_1_are_shares(scores, are_shares):
    assert (calibrate(np.array(scores), [False, True], ["a", "b"]).brier is not None) is are_shares


def test_bins_of_other_numbers_hold_equal_numbers_of_programs():
    found = calibrate(np.arange(20.0) - 5, np.arange(20) >= 10, np.arange(20))
    assert found.brier is None and [one.programs for one in found.bins] == [2] * 10
    assert (found.bins[0].low, found.bins[0].high, found.bins[0].mean_score) == (-5, -4, -4.5)
    assert [one.passed for one in found.bins] == [0] * 5 + [1] * 5


def test_the_interval_is_over_tasks():
    # every draw of tasks has either two tasks, with AUC 1/2, or one: then AUC 1 (task a) or 0 (task b)
    found = calibrate(np.array([1.0, 0.0, 0.0, 1.0]), [True, False, True, False], ["a", "a", "b", "b"])
    assert (found.auc, found.auc_low, found.auc_high) == (0.5, 0.0, 1.0)
    assert math.isnan(calibrate(SCORES, PASSED, ["a"] * 4).auc_low)


def test_scores_of_an_archive_by_language(tmp_path):
    archive = Archive.create(tmp_path)
    attempts = [Attempt("t", f"{number}", "python" if number < 2 else "c") for number in range(5)]
    statuses = [Status.PASSED, Status.FAILED, Status.PASSED, Status.FAILED, Status.UNSCORED]
    verdicts = [Verdict(a.attempt_id, s, judge="upsolve-1") for a, s in zip(attempts, statuses, strict=True)]
    values = [0.9, 0.1, 0.2, 0.8, 0.5]
    scores = [one for a, value in zip(attempts, values, strict=True) for one in score_verdicts(a.attempt_id, {"s": value})]
    archive.append(tasks=[Task("t", "p")], attempts=attempts, verdicts=verdicts)
    assert calibrations(archive) == []
    archive.append(verdicts=scores)
    found = {one.language: (one.name, one.programs, one.auc) for one in calibrations(archive)}
    assert found == {"": ("s", 4, 0.75), "c": ("s", 2, 0.0), "python": ("s", 2, 1.0)}
    printed = CliRunner().invoke(app, ["archive", "info", str(tmp_path)]).output
    assert "reliability of the score s" in printed and "0.750" in printed


def test_a_report_has_tables_and_a_plot_of_scores():
    found = calibrate(SCORES, PASSED, ["a"] * 4, name="grade")
    first, second = calibration_tables([found])
    assert first.rows == (("grade", "all", "4", "1", "50.0%", "0.875", "– to –", "0.143"),)
    assert second.rows == (
        ("0.1 to 0.1", "1", "0.1", "0.0%"),
        ("0.4 to 0.4", "2", "0.4", "50.0%"),
        ("0.8 to 0.8", "1", "0.8", "100.0%"),
    )
    from upsolve.report.plots import reliability  # imports matplotlib, which collecting the tests need not take

    assert "<svg" in reliability([found])


def test_an_evaluation_has_no_scorer():
    with pytest.raises(ValueError, match="score needs a scorer"):
        EvalConfig(choose=("tests", "score"))
