"""Evidence by values worked by hand, and the choice among candidates."""

import math

import pytest

from upsolve.plugins import RecordError
from upsolve.solve.choose import EVIDENCE, Candidates, Evidence, choose, vote_weights
from upsolve.solve.outputs import Outputs
from upsolve.types import Attempt, Status, Task, Verdict

TASK = Task("t", "")


def candidates(*rows):
    """Candidates of (log-probability, visible tests passed of 2 or None, outputs)."""
    attempts = tuple(Attempt("t", f"print({number})", behavior_logp=row[0]) for number, row in enumerate(rows))
    verdicts = tuple(
        None if passed is None else Verdict(attempt.attempt_id, Status.PASSED if passed == 2 else Status.FAILED, passed, 2)
        for attempt, (_, passed, _) in zip(attempts, rows, strict=True)
    )
    return Candidates(TASK, attempts, verdicts, tuple(Outputs(tuple(row[2])) for row in rows))


FOUR = candidates(
    (math.log(0.4), None, ["1"]), (math.log(0.3), None, ["2"]), (math.log(0.2), None, ["2"]), (math.log(0.8), None, [None])
)


def test_votes_are_weighted_by_likelihood():
    """Weights 0.5, 0.375, 0.25 and 1; the last has no vote: 0.5 / 1.125 = 4/9 for "1", 0.625 / 1.125 = 5/9 for "2"."""
    assert vote_weights(FOUR.attempts) == pytest.approx([0.5, 0.375, 0.25, 1])
    assert EVIDENCE["agreement"].score(FOUR) == pytest.approx([4 / 9, 5 / 9, 5 / 9, 0])


def test_an_unknown_likelihood_makes_all_votes_equal():
    mixed = candidates((None, None, ["1"]), (-9.0, None, ["2"]), (-5.0, None, ["2"]))
    assert vote_weights(mixed.attempts) == [1, 1, 1]
    assert EVIDENCE["agreement"].score(mixed) == pytest.approx([1 / 3, 2 / 3, 2 / 3])
    assert EVIDENCE["likelihood"].score(mixed) == [0, 0, 0]


@pytest.mark.parametrize(
    ("rows", "kinds", "index", "decided_by"),
    [
        ([(-1, 1, ["a"]), (-2, 2, ["a"])], ["tests", "likelihood"], 1, "tests"),
        ([(-1, 1, ["a"]), (-2, 2, ["a"])], ["likelihood", "tests"], 0, "likelihood"),
        ([(-1, None, ["a", None]), (-2, None, ["b", "b"])], ["tests", "runs", "likelihood"], 1, "runs"),
        (
            [(-3, None, ["a"]), (-2, None, ["b"]), (-2.5, None, ["b"])],
            ["tests", "runs", "agreement", "likelihood"],
            1,
            "agreement",
        ),
        ([(-1, None, [None]), (-0.5, None, [None])], ["runs", "agreement", "likelihood"], 1, "likelihood"),
        ([(-1, 2, ["a"]), (-1, 2, ["a"])], ["tests", "agreement", "likelihood"], 0, ""),
        ([(-1, None, [])], [], 0, ""),
    ],
)
def test_kinds_of_evidence_are_compared_in_order(rows, kinds, index, decided_by):
    choice = choose(candidates(*rows), kinds)
    assert (choice.index, choice.decided_by, [*choice.scores]) == (index, decided_by, kinds)


def test_an_unscored_verdict_is_no_evidence():
    attempt = Attempt("t", "x")
    unscored = Candidates(TASK, (attempt,), (Verdict(attempt.attempt_id, Status.UNSCORED, 0, 2),), (Outputs(),))
    assert EVIDENCE["tests"].score(unscored) == [0]


def test_the_order_of_equal_weights_decides_nothing():
    """Both outputs have votes of 0.1 + 0.2 + 0.3, summed in another order: likelihood decides."""
    rows = [(math.log(w), None, [text]) for w, text in [(0.1, "a"), (0.2, "a"), (0.3, "a"), (0.3, "b"), (0.2, "b"), (0.1, "b")]]
    assert choose(candidates(*rows), ["agreement", "likelihood"]).index == 2


def test_a_record_is_a_kind_of_evidence():
    found = choose(candidates((-1, None, []), (-2, None, [])), ["tests", Evidence(lambda _: [1, 2], "mine")])
    assert (found.index, found.decided_by, found.scores["mine"]) == (1, "mine", (1.0, 2.0))


def test_unknown_evidence():
    assert candidates((-1, 2, ["1"])).unknown == {"score"}
    assert candidates((-1, None, []), (None, None, [])).unknown == {"tests", "runs", "agreement", "likelihood", "score"}


def test_wrong_evidence_is_named():
    for broken in (lambda _: [1.0], lambda _: [math.nan] * 2, lambda _: [1 / 0]):
        with pytest.raises(RecordError, match=r"evidence mine: .* \(test_choose.py, line|evidence mine: .*expected 2 finite"):
            choose(candidates((-1, None, []), (-2, None, [])), [Evidence(broken, "mine")])
    with pytest.raises(ValueError, match="nothing"):
        choose(candidates((-1, None, [])), ["nothing"])
    with pytest.raises(ValueError, match="t: no candidates"):
        choose(candidates(), ["tests"])
