"""Probability that a label of an archive is right, from the agreement of its judges, repeated verdicts and the strength of tests.

Legend: j judge, t task, i program; a program that is right at its task passes for an ideal judge.

A judge passes a right program with probability a_j and fails a wrong one with probability b_jt (Dawid and Skene 1979, Applied Statistics 28).
Given a program, judges err independently. The share pi_t of right programs at a task, and

    P(right | votes) = pi_t prod_j P(vote_j | right) / (pi_t prod_j P(vote_j | right) + (1 - pi_t) prod_j P(vote_j | wrong)),

are computed by expectation maximisation. With one judge this is pi_t = (p_t - 1 + b_jt) / (a_j + b_jt - 1), where p_t is the share that passed
(Rogan and Gladen 1978, American Journal of Epidemiology 107). a_j and b_jt cannot be learned from the votes of fewer than
three judges. They start at the values below, and only programs with three votes change them:

* Flips: two verdicts of one judge on one program differ with probability d = 2 e (1 - e), so e = (1 - sqrt(1 - 2 d)) / 2.
* Missed programs: if f1 wrong programs fail exactly one of m tests and f2 exactly two, the tests miss at least
  f0 = (m - 1) / m * f1 (f1 - 1) / (2 (f2 + 1)) on average, whatever the programs' chances of failing a test (Chao 1987, Biometrics 43, with the
  correction for bias), if the tests are as good as drawn at random. Tests that were written against the only wrong program of a task, such as those of
  a commit that fixes it, are not: tasks with fewer than ``SEVERAL`` wrong programs show nothing. With w wrong programs found, 1 - b = f0 / (f0 + w) without flips.

All shares are shrunk to those of the archive, and these to ``FLIPS`` and ``MISSED``, as if ``STRENGTH`` programs had shown them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upsolve.archive.database import connect
from upsolve.types import Status, Verdict

__all__ = ["Accuracies", "JudgeLabels", "Labels", "estimate", "label_rows", "labels_of", "read_labels", "register_labels"]

FLIPS, MISSED = 0.01, 0.05
"""Assumed probabilities that a verdict differs from the judge's usual one, and that a judge's tests pass a wrong program."""
STRENGTH, FEW = 10.0, 2.0
"""Weights of the assumptions about judges, and about the share of right programs at a task, in programs."""
LEARNING = 3
"""Number of votes on a program from which the accuracies of judges are learned."""
MOST_JUDGES = 62
"""Largest number of judges whose votes count, since a vote is a bit of an integer; judges with the most programs come first."""
SEVERAL = 3
"""Least number of wrong programs at a task from which the strength of its tests is estimated."""
ROUNDS, PRECISION = 300, 1e-6
"""Most rounds of expectation maximisation, and the change of all probabilities below which it ends."""

Floats = NDArray[np.float64]

JUDGES = """
create temp table judges as
select judge, (row_number() over (order by count(*) desc, judge) - 1)::int as number
from verdicts where status <> 'unscored' group by judge qualify number < {most}
"""
PROGRAMS = """
create temp table programs as
with some_tasks as (
    select task_id, (row_number() over (order by task_id) - 1)::int as task from (select distinct task_id from attempts)
), votes as (
    select attempt_id, number, count(*) as n, count_if(status = 'passed') as passes,
        bool_or(list_contains([finding.kind for finding in findings], 'flaky')) as flaky
    from verdicts join judges using (judge) where status <> 'unscored' group by attempt_id, number
)
select attempt_id, any_value(task) as task, bit_or(if(passes = n and not flaky, 1::bigint << number, 0)) as passes,
    bit_or(if(passes = 0 and not flaky, 1::bigint << number, 0)) as fails
from votes join (select distinct attempt_id, task_id from attempts) using (attempt_id) join some_tasks using (task_id)
group by attempt_id
"""
"""Query for the programs with votes. A judge has no vote on a program if it both passed and failed the program, or found it flaky."""
PATTERNS = "select task, passes, fails, count(*) as n from programs group by all order by all"
REPEATS = """
select number, sum(differ), count(*) from (
    select number, 2.0 * count_if(status = 'passed') * count_if(status <> 'passed') / (count(*) * (count(*) - 1)) as differ
    from verdicts join judges using (judge) where status <> 'unscored' group by attempt_id, number having count(*) > 1
) group by number
"""
"""Sum of the shares of pairs of verdicts that differ, and number of programs that a judge has judged repeatedly."""
CAUGHT = """
select number, task, max(tests) as tests, count_if(failed = 1) as once, count_if(failed = 2) as twice, count(*) as caught,
from (
    select attempt_id, number, max(len(outcomes)) as tests, min(len([o for o in outcomes if o <> 'passed'])) as failed
    from verdicts join judges using (judge)
    where len(outcomes) > 2 and not list_contains(outcomes, 'unscored') group by attempt_id, number
) join programs using (attempt_id) where failed > 0 group by number, task having count(*) >= {several} order by number, task
"""
"""Wrong programs by the number of tests that they fail, of judges that recorded the outcomes of at least three tests."""
RIGHT = "select attempt_id, passes, fails, p_right from programs join rights using (task, passes, fails)"


@dataclass(frozen=True, slots=True)
class Accuracies:
    """Estimated accuracy of each judge before the votes are compared: P(pass given right), P(fail given wrong). J judges, T tasks."""

    right_J: Floats
    """a_j, probability that a right program passes, (0, 1)."""
    wrong_J: Floats
    """b_j, probability that a wrong program fails, (0, 1)."""
    missed_JT: Floats
    """f0, estimated number of wrong programs that a judge's tests have passed, >= 0."""
    caught_JT: Floats
    """w, number of wrong programs that they have caught; 0 where their outcomes are not recorded."""


@dataclass(frozen=True, slots=True)
class JudgeLabels:
    """The labels of a judge."""

    judge: str
    """Name of the judge."""
    passed: int
    """Programs that passed."""
    passed_right: float
    """Expected share of right programs among the passed ones, [0, 1]; nan if none passed."""
    failed: int
    """Programs that failed."""
    failed_wrong: float
    """Expected share of wrong programs among the failed ones, [0, 1]; nan if none failed."""
    caught: int
    """Failed programs with a recorded outcome of each test, at tasks with ``SEVERAL`` of them; the strength of the tests is estimated from these. 0: ``MISSED`` is assumed."""


class Labels:
    """Probabilities that programs are right, by ``attempt_id``: 12 bytes a program."""

    def __init__(self, ids: Any, p_right: Any) -> None:
        """Sort the probabilities by the first 64 bits of the ids."""
        keys = np.fromiter((int(name[:16], 16) for name in ids), np.uint64, len(ids))
        order = np.argsort(keys)
        self.keys, self.rights = keys[order], np.asarray(p_right, np.float32)[order]

    def label_right(self, verdict: Verdict | None) -> float | None:
        """Return the probability that a label is right, [0, 1]; None if the label is unscored or the archive has no vote on the program."""
        if verdict is None or verdict.status is Status.UNSCORED:
            return None
        key = np.uint64(int(verdict.attempt_id[:16], 16))
        place = int(np.searchsorted(self.keys, key))
        if place == len(self.keys) or self.keys[place] != key:
            return None
        right = float(self.rights[place])
        return right if verdict.status is Status.PASSED else 1.0 - right


def estimate(votes_RJ: Floats, counts_R: Floats, tasks_R: NDArray[np.int64], accuracies: Accuracies) -> Floats:
    """Return P(right | votes) of each row, float64 [R], (0, 1); see the module.

    Args:
        votes_RJ: 1 passed, 0 failed, nan no vote; R rows of programs with the same task and votes.
        counts_R: number of programs of a row, > 0.
        tasks_R: number of the task, 0..T-1.
        accuracies: estimates for each judge by itself.
    """
    passed, failed = votes_RJ == 1, votes_RJ == 0
    learns = ((passed | failed).sum(axis=1) >= LEARNING) * counts_R
    right_J, wrong_J = accuracies.right_J, accuracies.wrong_J
    size_T = np.bincount(tasks_R, counts_R)
    share, rights_R = 0.5, np.full(len(counts_R), 0.5)
    share_T = np.full(len(size_T), share)
    for _ in range(ROUNDS):
        passes_wrong = (accuracies.missed_JT + STRENGTH * (1 - wrong_J)[:, None]) / (
            accuracies.missed_JT + accuracies.caught_JT + STRENGTH
        )
        passes_wrong_RJ = passes_wrong.T[tasks_R]
        odds_R = np.log(share_T / (1 - share_T))[tasks_R]
        odds_R = odds_R + np.where(passed, np.log(right_J / passes_wrong_RJ), 0).sum(axis=1)
        odds_R = odds_R + np.where(failed, np.log((1 - right_J) / (1 - passes_wrong_RJ)), 0).sum(axis=1)
        before, rights_R = rights_R, 1 / (1 + np.exp(-odds_R))
        share = float(np.average(rights_R, weights=counts_R))
        share_T = (np.bincount(tasks_R, counts_R * rights_R) + FEW * share) / (size_T + FEW)
        right_J = learned(learns * rights_R, passed, failed, accuracies.right_J)
        wrong_J = learned(learns * (1 - rights_R), failed, passed, accuracies.wrong_J)
        if np.abs(rights_R - before).max() < PRECISION:
            break
    return rights_R


def learned(weights_R: Floats, hits: NDArray[np.bool_], misses: NDArray[np.bool_], assumed_J: Floats) -> Floats:
    """Return the weighted accuracy of each judge, shrunk to the prior with the weight of ``STRENGTH`` further programs."""
    # ``@`` would start threads for these sums
    hits_J, votes_J = (np.einsum("r,rj->j", weights_R, one) for one in (hits, hits | misses))
    return (hits_J + STRENGTH * assumed_J) / (votes_J + STRENGTH)


def missed_by(tests: Any, once: Any, twice: Any) -> Any:
    """Return f0 = (m - 1) / m * f1 (f1 - 1) / (2 (f2 + 1)), elementwise."""
    return (tests - 1) / tests * once * (once - 1.0) / (2 * (twice + 1))


def accuracies_of(connection: Any, judges: int, passes_JT: Floats) -> Accuracies:
    """Return the accuracies of each judge alone, from flips and missed programs; at most ``passes_JT`` programs count as missed."""
    flips_J = np.full(judges, FLIPS)
    for number, differ, programs in connection.sql(REPEATS).fetchall():
        share = (differ + STRENGTH * 2 * FLIPS * (1 - FLIPS)) / (programs + STRENGTH)
        flips_J[number] = (1 - np.sqrt(max(0.0, 1 - 2 * share))) / 2
    missed_JT, caught_JT = np.zeros_like(passes_JT), np.zeros_like(passes_JT)
    number, task, tests, once, twice, caught = connection.sql(CAUGHT.format(several=SEVERAL)).fetchnumpy().values()
    missed_JT[number, task] = np.minimum(missed_by(tests, once, twice), passes_JT[number, task])
    caught_JT[number, task] = caught
    found_J = caught_JT.sum(axis=1)
    tests_J, once_J, twice_J = (np.bincount(number, part, judges) for part in (tests * caught, once, twice))
    all_missed_J = missed_by(np.maximum(tests_J / np.maximum(found_J, 1), 1), once_J, twice_J)
    missed_J = (all_missed_J + STRENGTH * MISSED) / (all_missed_J + found_J + STRENGTH)
    passes_wrong_J = missed_J + flips_J - 2 * missed_J * flips_J
    return Accuracies(1 - flips_J, 1 - passes_wrong_J, missed_JT, caught_JT)


def fit(connection: Any) -> tuple[list[str], dict[str, Any], Floats]:
    """Return the judges, the distinct votes at each task with their counts, and P(right) of each; leaves the tables of ``RIGHT``."""
    connection.execute(JUDGES.format(most=MOST_JUDGES))
    connection.execute(PROGRAMS)
    judges = [name for (name,) in connection.sql("select judge from judges order by number").fetchall()]
    patterns: dict[str, Any] = connection.sql(PATTERNS).fetchnumpy()
    task, bits = patterns["task"].astype(np.int64), np.int64(1) << np.arange(len(judges), dtype=np.int64)
    passed, failed = ((patterns[name][:, None] & bits) > 0 for name in ("passes", "fails"))
    votes_RJ = np.where(passed, 1.0, np.where(failed, 0.0, np.nan))
    passes_JT = np.zeros((len(judges), int(task.max(initial=-1)) + 1))
    for number in range(len(judges)):
        np.add.at(passes_JT[number], task, patterns["n"] * passed[:, number])
    counts_R = patterns["n"].astype(np.float64)
    accuracies = accuracies_of(connection, len(judges), passes_JT)
    rights_R = estimate(votes_RJ, counts_R, task, accuracies) if len(task) else counts_R
    connection.register("rights", {name: patterns[name] for name in ("task", "passes", "fails")} | {"p_right": rights_R})
    return judges, {"passed": passed, "failed": failed, "n": counts_R, "caught_J": accuracies.caught_JT.sum(axis=1)}, rights_R


def register_labels(connection: Any) -> None:
    """Add a view ``labels`` to a connection with the views of an archive: P(right) of each program, and the votes on it."""
    fit(connection)
    votes = "bit_count(passes) as passes, bit_count(fails) as fails"
    connection.execute(f"create view labels as select attempt_id, p_right, {votes} from ({RIGHT})")  # noqa: S608  names of ours


def read_labels(parts: Mapping[str, Iterable[Path]], *, small: bool = False) -> Labels:
    """Return the probabilities that the programs of an archive are right, from its files by table; ``small``: as for ``sorted_blocks``."""
    with connect({name: parts[name] for name in ("attempts", "verdicts")}, shared=small) as connection:
        fit(connection)
        found = connection.sql(f"select attempt_id, p_right from ({RIGHT})").fetchnumpy()  # noqa: S608  names of ours
        return Labels(found["attempt_id"], found["p_right"])


def label_rows(parts: Mapping[str, Iterable[Path]]) -> list[JudgeLabels]:
    """Return the labels of each judge of an archive, and how many are expected to be right, from its files by table."""
    with connect({name: parts[name] for name in ("attempts", "verdicts")}) as connection:
        return labels_of(connection)


def labels_of(connection: Any) -> list[JudgeLabels]:
    """Return the labels of each judge over a connection with the views of an archive (``label_rows``)."""
    judges, votes, rights_R = fit(connection)
    rows: list[JudgeLabels] = []
    for number, judge in enumerate(judges):
        passed, failed = (votes["n"] * votes[name][:, number] for name in ("passed", "failed"))
        right, wrong = mean(rights_R, passed), mean(1 - rights_R, failed)
        rows.append(JudgeLabels(judge, int(passed.sum()), right, int(failed.sum()), wrong, int(votes["caught_J"][number])))
    return rows


def mean(values: Floats, weights: Floats) -> float:
    """Return a weighted mean; nan if all weights are 0."""
    return float(np.average(values, weights=weights)) if weights.any() else float("nan")
