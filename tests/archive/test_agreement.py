"""Agreement of several judges on the same programs."""

import pytest

from upsolve.archive.info import Agreement, agreements
from upsolve.archive.store import Archive
from upsolve.types import Attempt, Status, Task, Verdict

P, F, U = Status.PASSED, Status.FAILED, Status.UNSCORED


def test_judges_are_compared_on_the_programs_that_both_have_scored(tmp_path):
    archive = Archive.create(tmp_path)
    labels = {"ours": [P, P, F, F, F, U, P], "recorded:a": [P, F, P, F, F, P, U], "recorded:b": [U, U, U, U, U, P, U]}
    attempts = [Attempt("t", f"x = {n}") for n in range(7)]
    archive.append(tasks=[Task("t", "")], attempts=[*attempts, attempts[0]])
    archive.append(verdicts=[Verdict(attempts[1].attempt_id, F, judge="ours")])  # a later verdict replaces it
    for judge, statuses in labels.items():
        archive.append(verdicts=[Verdict(a.attempt_id, s, judge=judge) for a, s in zip(attempts, statuses, strict=True)])
    first, second = agreements(archive)
    assert first == Agreement("ours", "recorded:a", 1, 1, 1, 2)
    assert second == Agreement("recorded:a", "recorded:b", 1, 0, 0, 0) and second.kappa is None
    """3 of 5 agree; both pass 2 of 5, so chance is 0.4 * 0.4 + 0.6 * 0.6 = 0.52: kappa = (0.6 - 0.52) / 0.48."""
    assert (first.programs, first.share) == (5, 0.6) and first.kappa == pytest.approx(0.08 / 0.48)
    assert agreements(Archive.create(tmp_path / "empty")) == []
