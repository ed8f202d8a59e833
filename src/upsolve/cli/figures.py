"""Results of evaluations as plain data, for ``--json``."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from upsolve.errors import ConfigError
from upsolve.evaluate.capability import Capability, capability
from upsolve.evaluate.comparison import Comparison, choice_gain, chosen_change
from upsolve.evaluate.intervals import Paired, mean_interval
from upsolve.evaluate.scores import Choices, Evaluation, Sweep, defined_ks, task_all_pass_at_k, task_pass_at_k, weighted_mean

__all__ = ["change_figures", "results_figures"]


SPENT = ("samples", "tokens", "early_samples", "early_tokens")
"""Fields of a choice that are summed over tasks."""


def results_figures(sweeps: Sequence[Sweep], ks: Sequence[int]) -> dict[str, Any]:
    """Return the data that ``show_results`` prints, as plain data; ConfigError if the models were measured on different tasks."""
    try:
        k = max(defined_ks(sweeps, ks))
        changes = [(sweep.name, capability(sweeps[0], sweep, k)) for sweep in sweeps[1:]]
    except ValueError as error:
        raise ConfigError(f"cannot be compared: {error}") from error
    comparisons = [
        {"model": name, "base": sweeps[0].name, **change_figures(change), "warnings": list(change.warnings)}
        for name, change in changes
    ]
    return {"models": [sweep_figures(sweep, defined_ks(sweeps, ks)) for sweep in sweeps], "comparisons": comparisons}


def change_figures(change: Capability) -> dict[str, Any]:
    """Return the conclusion, the comparisons and the tasks solved by one model alone of a report's first table."""
    parts = {name: getattr(change, name) for name in ("best", "strongest", "greedy", "hot", "many")}
    compared = {name: comparison_figures(part) for name, part in parts.items() if part is not None}
    return {
        "conclusion": change.conclusion,
        "sentence": change.sentence,
        "gain": compared["best"]["difference"],
        **compared,
        "solved": {**asdict(change.solved), "p_value": change.solved.p_value},
        "chosen": paired_figures(chosen_change(change.before.choices, change.after.choices)),
        "detectable": change.best.detectable,
    }


def paired_figures(paired: Paired | None) -> dict[str, Any] | None:
    """Return a paired difference with its p-value; None if no task is shared."""
    return {"difference": asdict(paired.difference), "p_value": paired.p_value} if paired else None


def choice_figures(choices: Choices | None) -> dict[str, Any] | None:
    """Return pass@1 of greedy, chosen and any samples, and the cost of the choice; None if nothing was chosen."""
    if choices is None:
        return None
    parts = {part: [*choices.passed(part).values()] for part in ("greedy", "chosen", "any", "early")}
    return {
        "kinds": list(choices.kinds),
        "temperature": choices.temperature,
        **{part: asdict(mean_interval(values)) if values else None for part, values in parts.items()},
        "chosen - greedy": paired_figures(choice_gain(choices)),
        **{name: sum(getattr(task, name) for task in choices.tasks) for name in SPENT},
        "sample_seconds": choices.sample_seconds,
        "choose_seconds": choices.choose_seconds,
    }


def comparison_figures(comparison: Comparison) -> dict[str, Any]:
    """Return the k and the temperatures of a comparison, and the paired difference in pass@k; None if no task is shared."""
    change = paired_figures(comparison.paired) or {"difference": None, "p_value": None}
    return {"k": comparison.k, "temperatures": list(comparison.temperatures), **change}


def sweep_figures(sweep: Sweep, ks: Sequence[int]) -> dict[str, Any]:
    """Return the figures of a model on its test tasks and on further task sets."""
    parts = {name: getattr(sweep, name) for name in ("best", "greedy", "hot", "many")}
    measured = {name: evaluation_figures(part, ks) for name, part in parts.items() if part is not None}
    others = {other.best.tasks: sweep_figures(other, ks) for other in sweep.others}
    return {
        "model": sweep.name,
        **measured,
        "dev": [evaluation_figures(part, (1,)) for part in sweep.dev],
        "choices": choice_figures(sweep.choices),
        "heldout_logp": sweep.heldout_logp,
        "heldout_tasks": sweep.heldout_tasks,
        "entropy": weighted_mean(sweep.hot.scores, "mean_entropy"),
        "task_sets": others,
    }


def evaluation_figures(evaluation: Evaluation, ks: Sequence[int]) -> dict[str, Any]:
    """Return temperature, pass@k and, for k > 1, pass^k (all k samples pass) of an evaluation, with 95 % intervals over tasks."""
    measures = [(f"pass@{k}", task_pass_at_k(evaluation.scores, k)) for k in ks]
    measures += [(f"pass^{k}", task_all_pass_at_k(evaluation.scores, k)) for k in ks if k > 1]
    passes = {name: asdict(mean_interval([*values.values()])) for name, values in measures if values}
    return {"temperature": evaluation.temperature, **passes}
