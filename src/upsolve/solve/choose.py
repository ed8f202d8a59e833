"""The choice among candidates: kinds of evidence, compared in the order in which a user names them.

Papers: CodeT (2207.10397) scores sets of programs with equal outputs; MBR-exec (2204.11454) takes the output with the largest expected agreement.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from upsolve.plugins import find, reraise
from upsolve.solve.outputs import Outputs
from upsolve.types import Attempt, Status, Task, Verdict

__all__ = ["EVIDENCE", "Candidates", "Choice", "Evidence", "choose", "vote_weights"]


@dataclass(frozen=True, slots=True)
class Candidates:
    """The N candidates for the answer to one task, with what is known about each; hidden tests contribute nothing."""

    task: Task
    """The task."""
    attempts: tuple[Attempt, ...]
    """The candidates, in the order of sampling; equal programs may occur several times."""
    verdicts: tuple[Verdict | None, ...]
    """Verdict of each candidate on the visible tests; None without visible tests."""
    outputs: tuple[Outputs, ...]
    """Outputs of each candidate on the same inputs."""
    parents: tuple[int | None, ...] = ()
    """Index of the candidate that each one corrects, smaller than its own; None for a sample of the task. () if no candidate corrects another."""
    scores: tuple[float | None, ...] = ()
    """Score of each candidate by the user's command or model; None: no score. () without a scorer."""

    @property
    def unknown(self) -> set[str]:
        """The built-in kinds of evidence about which nothing is known: no visible test, no input, no likelihood, no score."""
        has_inputs = any(one.texts for one in self.outputs)
        known = {
            "tests": any(self.verdicts),
            "runs": has_inputs,
            "agreement": has_inputs,
            "likelihood": None not in [attempt.behavior_logp for attempt in self.attempts],
            "score": {*self.scores} - {None},
        }
        return {kind for kind, is_known in known.items() if not is_known}


@dataclass(frozen=True, slots=True)
class Evidence:
    """A kind of evidence for a candidate."""

    score: Callable[[Candidates], Sequence[float]]
    """``score(candidates) -> scores_N``: larger is better, 0 if nothing is known; must not read hidden tests."""
    help: str
    """Description in one line."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen candidate and the evidence for it."""

    index: int
    """Index of the chosen candidate, in [0, N)."""
    scores: Mapping[str, tuple[float, ...]]
    """Kind of evidence -> score of each candidate [N]."""
    decided_by: str
    """First kind by which the chosen candidate is better than another; empty if all are equal."""


def tests(candidates: Candidates) -> list[float]:
    """Return the share of visible tests that each candidate passes, in [0, 1]; 0 without visible tests or for an unscored candidate."""
    return [
        verdict.passed / verdict.total if verdict and verdict.status is not Status.UNSCORED and verdict.total else 0.0
        for verdict in candidates.verdicts
    ]


def runs(candidates: Candidates) -> list[float]:
    """Return the share of inputs on which each candidate runs to its end, in [0, 1]."""
    return [one.ran / len(one.texts) if one.texts else 0.0 for one in candidates.outputs]


def vote_weights(attempts: Sequence[Attempt]) -> list[float]:
    """Return the weight of each candidate's vote [N], the largest 1: pi / max pi, with 1 for all if a likelihood is unknown.

    log pi = sum_t log pi(token_t), nats, at temperature 1 without a nucleus (``Attempt.behavior_logp``), whatever temperature was sampled at.
    """
    logps = [attempt.behavior_logp for attempt in attempts]
    known = [logp for logp in logps if logp is not None]
    if len(known) < len(logps) or not known:
        return [1.0] * len(logps)
    largest = max(known)
    return [math.exp(logp - largest) for logp in known]


def agreement(candidates: Candidates) -> list[float]:
    """Return for each candidate the weighted share of votes for its outputs: sum_j w_j [o_j = o_i] / sum_j w_j, in [0, 1].

    w is ``vote_weights``; o are the outputs on all inputs, equal as the task compares them (``Outputs.votes``). A candidate that fails on every input has no vote and scores 0.
    """
    weights = vote_weights(candidates.attempts)
    votes: dict[tuple[str | None, ...], float] = {}
    for weight, outputs in zip(weights, candidates.outputs, strict=True):
        if outputs.ran:
            votes[outputs.votes] = votes.get(outputs.votes, 0.0) + weight
    total = math.fsum(votes.values())
    return [votes[one.votes] / total if one.ran else 0.0 for one in candidates.outputs]


def likelihood(candidates: Candidates) -> list[float]:
    """Return the log-probability of each candidate, nats: sum_t log pi(token_t); 0 for all if one is unknown.

    pi is the author's distribution at temperature 1 without a nucleus (``Attempt.behavior_logp``), whatever temperature was sampled at.
    """
    logps = [attempt.behavior_logp for attempt in candidates.attempts]
    return [0.0] * len(logps) if None in logps else [float(logp or 0.0) for logp in logps]


def score(candidates: Candidates) -> list[float]:
    """Return the score of each candidate. A candidate without a score gets the smallest one; without any scores, all get 0."""
    given = candidates.scores or (None,) * len(candidates.attempts)
    least = min((one for one in given if one is not None), default=0.0)
    return [least if one is None else one for one in given]


EVIDENCE: Mapping[str, Evidence] = {
    "tests": Evidence(tests, "share of visible tests passed"),
    "runs": Evidence(runs, "share of inputs on which the program runs to its end"),
    "agreement": Evidence(agreement, "share of the votes, weighted by likelihood, for the same outputs"),
    "likelihood": Evidence(likelihood, "log-probability under the model"),
    "score": Evidence(score, "number by a command, or log-probability under another model (--score)"),
}
"""Built-in kinds of evidence by name."""
CLOSE = 1e-9
"""Scores closer than this are equal: sums of the same weights in another order differ by rounding."""


def choose(candidates: Candidates, kinds: Sequence[str | Evidence]) -> Choice:
    """Return the best candidate by the first kind of evidence; among equals by the second, and so on; finally the first sampled one.

    Args:
        candidates: at least one candidate.
        kinds: kinds of evidence, the strongest first: names, or records, whose ``help`` is then their name in the choice.

    Raises:
        RecordError: a plug-in raises an exception, or does not give a finite score for each candidate.
        ValueError: there is no candidate, or a kind is unknown.
    """
    if not candidates.attempts:
        raise ValueError(f"{candidates.task.task_id}: no candidates to choose from")
    scores: dict[str, tuple[float, ...]] = {}
    left, decided_by = [*range(len(candidates.attempts))], ""
    for kind in kinds:
        name = kind if isinstance(kind, str) else kind.help
        found = scores[name] = scores_of(find("evidence", kind), name, candidates)
        best = max(found[index] for index in left)
        equal = [index for index in left if found[index] >= best - CLOSE]
        decided_by = decided_by or (name if len(equal) < len(left) else "")
        left = equal
    return Choice(left[0], scores, decided_by)


def scores_of(evidence: Evidence, name: str, candidates: Candidates) -> tuple[float, ...]:
    """Return the finite scores of the candidates [N]; RecordError as ``choose``."""
    try:
        scores = tuple(map(float, evidence.score(candidates)))
        if len(scores) != len(candidates.attempts) or not all(map(math.isfinite, scores)):
            raise ValueError(f"expected {len(candidates.attempts)} finite scores, got {[*scores]}")
    except Exception as error:
        reraise("evidence", name, error)
    return scores
