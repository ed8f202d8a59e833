"""The outcome of a row, however it is recorded."""

import pytest

from upsolve.archive.outcome import recorded_verdict
from upsolve.types import Status

P, F, U = Status.PASSED, Status.FAILED, Status.UNSCORED


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"status": "AC", "passed": 3, "total": 3}, (P, 3, 3)),
        ({"status": "WA", "passed": "2", "total": "3"}, (F, 2, 3)),
        ({"status": "accepted", "passed": True}, (P, 0, 0)),
        ({"status": "TLE", "passed": "no"}, (Status.TIMEOUT, 0, 0)),
        ({"passed": True}, (P, 0, 0)),
        ({"passed": "False"}, (F, 0, 0)),
        ({"passed": 1}, (P, 0, 0)),
        ({"passed": "0"}, (F, 0, 0)),
        ({"passed": 1.0}, (P, 0, 0)),
        ({"passed": 3, "total": 3}, (P, 3, 3)),
        ({"passed": "0", "total": "1"}, (F, 0, 1)),
        ({"passed": 0, "total": 0}, (U, 0, 0)),
        ({"outcomes": ["AC", "WA"]}, (F, 1, 2)),
        ({"outcomes": '["AC", "AC"]'}, (P, 2, 2)),
        ({"outcomes": "AC, time limit exceeded,AC"}, (Status.TIMEOUT, 2, 3)),
        ({"outcomes": "ok ok"}, (P, 2, 2)),
        ({"error": "disk full", "wall_seconds": 1.5}, (U, 0, 0)),
    ],
)
def test_an_outcome_is_never_lost(row, expected):
    verdict = recorded_verdict("a", row, "recorded:x")
    assert verdict and (verdict.status, verdict.passed, verdict.total) == expected
    assert verdict.error_message == row.get("error", "") and verdict.wall_seconds == row.get("wall_seconds")


@pytest.mark.parametrize("row", [{}, {"status": "", "error": None}, {"judge": "ci"}])
def test_a_row_that_records_nothing(row):
    assert recorded_verdict("a", row, "recorded:x") is None


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"passed": 7}, "passed is 7: a number of tests needs their total"),
        ({"passed": "0.5"}, "passed is 0.5"),
        ({"passed": "perhaps"}, "unknown status 'perhaps'"),
        ({"status": "AC", "passed": False}, "status says passed, passed says failed"),
        ({"passed": 1, "total": "many"}, "many"),
    ],
)
def test_what_cannot_be_an_outcome(row, said):
    with pytest.raises(ValueError, match=said):
        recorded_verdict("a", row, "recorded:x")
