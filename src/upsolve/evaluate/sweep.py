"""Evaluations of one model at several temperatures, the choice of the best temperature, and the pooling of folds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from upsolve.evaluate.scores import Choices, Evaluation, task_pass_at_k

__all__ = ["Sweep", "best_temperature", "by_task_set", "defined_ks", "pooled", "single", "temperature_name"]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Evaluations of a model at several temperatures: the best temperatures are chosen on dev tasks and measured on test tasks."""

    name: str
    """Label in tables and pictures, such as ``base``."""
    dev: tuple[Evaluation, ...]
    """Dev tasks at every temperature, lowest first; () if there was only one temperature, so none had to be chosen."""
    best: Evaluation
    """Test tasks at the temperature with the highest pass@1 on dev tasks."""
    many: Evaluation
    """Test tasks at the temperature above 0 with the highest pass@k on dev tasks, k = ``evaluate.dev_samples``."""
    hot: Evaluation
    """Test tasks at the highest temperature."""
    greedy: Evaluation | None = None
    """Test tasks at temperature 0; None if 0 is not among the temperatures."""
    heldout_logp: float | None = None
    """Mean log-probability per token of stored passed attempts at test tasks, nats, <= 0, at temperature 1; None if not measured."""
    heldout_tasks: int = 0
    """Number of tasks that ``heldout_logp`` is the mean over."""
    choices: Choices | None = None
    """Test tasks: one sample chosen of the greedy one and those of ``many`` (of ``hot``, if ``many`` is greedy); None if not measured."""
    others: "tuple[Sweep, ...]" = ()
    """The model on the task sets of ``evaluate.archives``, at the same temperatures; each is named by ``best.tasks``."""

    def __repr__(self) -> str:
        return f"Sweep({self.name!r}, model={self.best.model!r}, tasks={self.best.tasks!r}, best at {temperature_name(self.best.temperature)})"

    def _repr_html_(self) -> str:
        """Return the evaluation at the best temperature, for a notebook."""
        return getattr(self.best, "_repr_html_")()  # noqa: B009


def best_temperature(evaluations: Sequence[Evaluation], k: int = 1) -> float:
    """Return the lowest temperature with the highest mean pass@k over tasks; at 0 there is one sample, so k = 1 only."""
    means: dict[float, float] = {}
    for evaluation in sorted(evaluations, key=lambda evaluation: evaluation.temperature or 0.0):
        if values := task_pass_at_k(evaluation.scores, k):
            means[evaluation.temperature or 0.0] = sum(values.values()) / len(values)
    return max(means, key=lambda temperature: means[temperature]) if means else min(e.temperature or 0.0 for e in evaluations)


def single(evaluation: Evaluation) -> Sweep:
    """Return an evaluation at one temperature as a sweep with that temperature only."""
    greedy = evaluation if evaluation.temperature == 0 else None
    return Sweep(evaluation.name, (), evaluation, evaluation, evaluation, greedy)


def pooled(sweeps: Sequence[Sweep]) -> Sweep:
    """Pool the folds of a cross-fitting: each test task appears once. ValueError if temperatures differ or tasks repeat."""
    first = sweeps[0] if sweeps else None
    if first is None or any([e.temperature for e in sweep.dev] != [e.temperature for e in first.dev] for sweep in sweeps):
        raise ValueError("folds must have been measured at the same temperatures" if sweeps else "no folds to pool")
    logps = [(sweep.heldout_logp, sweep.heldout_tasks) for sweep in sweeps if sweep.heldout_logp is not None]
    tasks = sum(count for _, count in logps)
    greedy = [sweep.greedy for sweep in sweeps if sweep.greedy is not None]
    return Sweep(
        name=first.name,
        dev=tuple(joined([sweep.dev[index] for sweep in sweeps], distinct=False) for index in range(len(first.dev))),
        best=joined([sweep.best for sweep in sweeps]),
        many=joined([sweep.many for sweep in sweeps]),
        hot=joined([sweep.hot for sweep in sweeps]),
        greedy=joined(greedy) if len(greedy) == len(sweeps) else None,
        heldout_logp=sum(logp * count for logp, count in logps) / tasks if tasks else None,
        heldout_tasks=tasks,
        choices=joined_choices([sweep.choices for sweep in sweeps]),
    )


def joined(evaluations: Sequence[Evaluation], *, distinct: bool = True) -> Evaluation:
    """Return one evaluation with the scores of several; with ``distinct``, a task in two of them is an error (ValueError)."""
    scores = tuple(score for evaluation in evaluations for score in evaluation.scores)
    names = [score.task_id for score in scores]
    if distinct and len(names) != len(set(names)):
        raise ValueError("a test task is in two folds: were they split with the same data.split_seed?")
    temperatures = {evaluation.temperature for evaluation in evaluations}
    return replace(
        evaluations[0],
        scores=scores,
        temperature=temperatures.pop() if len(temperatures) == 1 else None,
        wall_seconds=sum(evaluation.wall_seconds for evaluation in evaluations),
    )


def joined_choices(folds: Sequence[Choices | None]) -> Choices | None:
    """Return the choices of several folds together; None if a fold has none, or chose by other evidence."""
    known = [choices for choices in folds if choices is not None]
    if len(known) < len(folds) or len({choices.kinds for choices in known}) != 1:
        return None
    temperatures = {choices.temperature for choices in known}
    return Choices(
        known[0].kinds,
        temperatures.pop() if len(temperatures) == 1 else None,
        tuple(task for choices in known for task in choices.tasks),
        sum(choices.sample_seconds for choices in known),
        sum(choices.choose_seconds for choices in known),
    )


def by_task_set(sweeps: Sequence[Sweep]) -> dict[str, tuple[Sweep, ...]]:
    """Return the sweeps of each task set of ``Sweep.others`` that all models were measured on, by its name."""
    sets = [{other.best.tasks: other for other in sweep.others} for sweep in sweeps]
    return {
        name: tuple(found[name] for found in sets) for name in (sets[0] if sets else ()) if all(name in one for one in sets)
    }


def defined_ks(sweeps: Sequence[Sweep], ks: Sequence[int]) -> tuple[int, ...]:
    """Return the k for which every sweep has enough samples for pass@k at its best temperature; (1,) if there are none."""
    max_k = min((max((score.samples for score in sweep.many.scores), default=1) for sweep in sweeps), default=1)
    return tuple(k for k in ks if k <= max_k) or (1,)


def temperature_name(temperature: float | None) -> str:
    """Return the name of a temperature in tables and sentences."""
    if temperature is None:
        return "each fold's own T"
    return f"T {temperature:g}" if temperature else "greedy"
