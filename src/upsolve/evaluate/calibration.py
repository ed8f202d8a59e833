"""Scores of an archive against its verdicts: area under the ROC curve, reliability, Brier score.

Legend: N programs with a score and a scored verdict, T tasks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upsolve.archive.database import connect
from upsolve.archive.preference import OUTCOMES, register_scores
from upsolve.archive.schema import TABLES
from upsolve.archive.store import Archive

__all__ = ["Calibration", "Reliability", "auc", "calibrate", "calibrations"]

BINS = 10
ROUNDS = 200
"""Samples of the bootstrap."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Reliability:
    """Programs with scores in one bin."""

    low: float
    """Smallest score of the bin."""
    high: float
    """Largest score of the bin."""
    programs: int
    """Number of programs, >= 1."""
    mean_score: float
    """Mean score of the programs."""
    passed: float
    """Share of the programs that passed, [0, 1]."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A score against the verdicts on the same programs."""

    name: str
    """Name of the score."""
    language: str
    """Language of the programs; empty for all."""
    programs: int
    """N, programs with the score and a scored verdict."""
    tasks: int
    """T, their tasks."""
    passed: float
    """Share of the programs that passed, [0, 1]."""
    auc: float
    """P(score of a passed program > that of a failed one) + P(equal) / 2; nan without both."""
    auc_low: float
    """Lower end of the 95 % interval of the AUC, by a bootstrap over tasks; nan with one task."""
    auc_high: float
    """Upper end of the interval of the AUC."""
    brier: float | None
    """Mean of (score - passed)^2; None if a score is outside of [0, 1]."""
    bins: tuple[Reliability, ...]
    """Ten bins without empty ones: of equal width in [0, 1], else of equal numbers of programs; equal scores share a bin."""


def auc(scores_N: Floats, passed_N: Any, weights_N: Any = None) -> float:
    """Return P(s+ > s-) + P(s+ = s-) / 2 for s+ the score of a passed and s- of a failed program; nan without both.

    Args:
        scores_N: scores, finite.
        passed_N: bool [N], whether each program passed.
        weights_N: how often each program counts, >= 0; None: once.
    """
    values, place_N = np.unique(scores_N, return_inverse=True)
    return auc_of(
        place_N, len(values), np.asarray(passed_N, np.bool_), np.ones(len(scores_N)) if weights_N is None else weights_N
    )


def auc_of(place_N: Any, places: int, passed_N: Any, weights_N: Any) -> float:
    """Return ``auc`` for scores given as ranks in [0, ``places``); equal scores share a rank."""
    good = np.bincount(place_N, weights_N * passed_N, places)
    bad = np.bincount(place_N, weights_N * ~passed_N, places)
    pairs = float(good.sum() * bad.sum())
    return float(good @ (np.cumsum(bad) - bad / 2)) / pairs if pairs else math.nan


def calibrate(
    scores_N: Floats, passed_N: Any, tasks_N: Any, *, name: str = "", language: str = "", seed: int = 0
) -> Calibration:
    """Return how a score fits the verdicts.

    Args:
        scores_N: scores, finite; N >= 1.
        passed_N: bool [N], whether each program passed.
        tasks_N: task of each program: equal values are one task.
        name: name of the score.
        language: language of the programs.
        seed: seed of the bootstrap.
    """
    passed_N = np.asarray(passed_N, np.bool_)
    values, place_N = np.unique(scores_N, return_inverse=True)
    tasks, task_N = np.unique(tasks_N, return_inverse=True)
    rng, count = np.random.default_rng(seed), len(tasks)
    draws = (rng.multinomial(count, np.full(count, 1 / count))[task_N] for _ in range(ROUNDS if count > 1 else 0))
    known = [found for weights_N in draws if not math.isnan(found := auc_of(place_N, len(values), passed_N, weights_N))]
    low, high = np.quantile(known, (0.025, 0.975)).tolist() if known else (math.nan, math.nan)
    is_share = bool(values[0] >= 0 and values[-1] <= 1)
    brier = float(np.mean((scores_N - passed_N) ** 2)) if is_share else None
    whole, bins = auc_of(place_N, len(values), passed_N, np.ones(len(scores_N))), bins_of(scores_N, passed_N, is_share=is_share)
    return Calibration(name, language, len(scores_N), count, float(passed_N.mean()), whole, low, high, brier, bins)


def bins_of(scores_N: Floats, passed_N: Any, *, is_share: bool) -> tuple[Reliability, ...]:
    """Return the bins that ``Calibration.bins`` describes."""
    if is_share:
        bin_N = np.minimum((scores_N * BINS).astype(np.int64), BINS - 1)
    else:
        edges = np.quantile(scores_N, np.arange(1, BINS) / BINS, method="inverted_cdf")
        bin_N = np.searchsorted(edges, scores_N, side="left")
    rows: list[Reliability] = []
    for number in np.unique(bin_N):
        inside, good = scores_N[bin_N == number], passed_N[bin_N == number]
        rows.append(
            Reliability(float(inside.min()), float(inside.max()), len(inside), float(inside.mean()), float(good.mean()))
        )
    return tuple(rows)


ROWS = f"""
select name, language, task_id, value, status = 'passed' as passed from scores join ({OUTCOMES}) using (attempt_id)
    join (select distinct attempt_id, language from attempts) using (attempt_id) where status <> 'unscored' order by name, task_id, attempt_id
"""  # noqa: S608  names of ours


def calibrations(archive: Archive) -> list[Calibration]:
    """Return how each score of an archive fits its verdicts: over all programs, then by language if there are several."""
    parts = {name: archive.parts(name) for name in TABLES}
    with connect(parts, places=True) as connection:
        register_scores(connection, parts)
        if not connection.sql("select 1 from scores limit 1").fetchall():
            return []
        rows: dict[str, Any] = connection.sql(ROWS).fetchnumpy()
    found: list[Calibration] = []
    for name in dict.fromkeys(rows["name"].tolist()):
        languages: Sequence[str] = sorted({*rows["language"][rows["name"] == name].tolist()})
        for language in ("", *(languages if len(languages) > 1 else ())):
            chosen = (rows["name"] == name) & ((rows["language"] == language) | (not language))
            columns = (rows[column][chosen] for column in ("value", "passed", "task_id"))
            found.append(calibrate(*(np.asarray(column) for column in columns), name=name, language=language))
    return found
