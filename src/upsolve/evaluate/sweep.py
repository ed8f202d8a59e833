"""Evaluations of one model at several temperatures: which one is best, folds pooled, a single one as a sweep."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from upsolve.evaluate.passk import task_pass_at_k
from upsolve.types import Evaluation

__all__ = ["Sweep", "best_temperature", "defined_ks", "pooled", "single", "temperature_name"]


@dataclass(frozen=True, slots=True)
class Sweep:
    """A model at several temperatures: the best ones are chosen on dev tasks and measured on test tasks."""

    name: str
    """Label in tables and pictures, such as ``base``."""
    dev: tuple[Evaluation, ...]
    """Dev tasks at every temperature, lowest first; () where there was a single temperature, so nothing was chosen."""
    best: Evaluation
    """Test tasks at the temperature with the highest pass@1 on dev tasks."""
    many: Evaluation
    """Test tasks at the temperature above 0 with the highest pass@k on dev tasks, k = ``evaluate.dev_samples``."""
    hot: Evaluation
    """Test tasks at the highest temperature."""
    greedy: Evaluation | None = None
    """Test tasks at temperature 0; None if it is not among the temperatures."""
    heldout_logp: float | None = None
    """Mean log-probability of stored attempts at test tasks that passed, nats a token, <= 0, at temperature 1; None if not measured."""
    heldout_tasks: int = 0
    """Tasks that ``heldout_logp`` is the mean over."""


def best_temperature(evaluations: Sequence[Evaluation], k: int = 1) -> float:
    """Return the temperature with the highest mean pass@k over tasks, the lowest one of equals.

    Greedy decoding has one sample a task, so it is a candidate for k = 1 alone. Where pass@k is undefined everywhere, the lowest
    temperature is returned.
    """
    means: dict[float, float] = {}
    for one in sorted(evaluations, key=lambda one: one.temperature or 0.0):
        if values := task_pass_at_k(one.scores, k):
            means[one.temperature or 0.0] = sum(values.values()) / len(values)
    return max(means, key=lambda temperature: means[temperature]) if means else min(e.temperature or 0.0 for e in evaluations)


def single(evaluation: Evaluation) -> Sweep:
    """Return an evaluation at one temperature as a sweep in which nothing was chosen."""
    greedy = evaluation if evaluation.temperature == 0 else None
    return Sweep(evaluation.name, (), evaluation, evaluation, evaluation, greedy)


def pooled(sweeps: Sequence[Sweep]) -> Sweep:
    """Pool the folds of a cross-fitting: every test task once, measured by the model of its fold at that model's own temperatures.

    ``heldout_logp`` is the mean over all tasks of all folds.

    Raises:
        ValueError: no sweeps, some with other temperatures than the first, or a test task in two of them.
    """
    first = sweeps[0] if sweeps else None
    if first is None or any([e.temperature for e in one.dev] != [e.temperature for e in first.dev] for one in sweeps):
        raise ValueError("folds must have been measured at the same temperatures" if sweeps else "no folds to pool")
    logps = [(one.heldout_logp, one.heldout_tasks) for one in sweeps if one.heldout_logp is not None]
    tasks = sum(count for _, count in logps)
    greedy = [one.greedy for one in sweeps if one.greedy is not None]
    return Sweep(
        name=first.name,
        dev=tuple(joined([one.dev[place] for one in sweeps], distinct=False) for place in range(len(first.dev))),
        best=joined([one.best for one in sweeps]),
        many=joined([one.many for one in sweeps]),
        hot=joined([one.hot for one in sweeps]),
        greedy=joined(greedy) if len(greedy) == len(sweeps) else None,
        heldout_logp=sum(logp * count for logp, count in logps) / tasks if tasks else None,
        heldout_tasks=tasks,
    )


def joined(evaluations: Sequence[Evaluation], *, distinct: bool = True) -> Evaluation:
    """Return the scores of several evaluations as one; ``distinct``: no task may be in two of them."""
    scores = tuple(score for one in evaluations for score in one.scores)
    names = [score.task_id for score in scores]
    if distinct and len(names) != len(set(names)):
        raise ValueError("a test task is in two folds: were they split with the same data.split_seed?")
    temperatures = {one.temperature for one in evaluations}
    return replace(
        evaluations[0],
        scores=scores,
        temperature=temperatures.pop() if len(temperatures) == 1 else None,
        wall_seconds=sum(one.wall_seconds for one in evaluations),
    )


def defined_ks(sweeps: Sequence[Sweep], ks: Sequence[int]) -> tuple[int, ...]:
    """Return the k for which every sweep has samples enough at its best temperature for pass@k; (1,) if there is none."""
    most = min((max((score.samples for score in one.many.scores), default=1) for one in sweeps), default=1)
    return tuple(k for k in ks if k <= most) or (1,)


def temperature_name(temperature: float | None) -> str:
    """Return how a temperature is named in tables and sentences."""
    if temperature is None:
        return "each fold's own T"
    return f"T {temperature:g}" if temperature else "greedy"
