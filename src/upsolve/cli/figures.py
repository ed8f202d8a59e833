"""Results of evaluations as plain data, for ``--json``."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from upsolve.errors import ConfigError
from upsolve.evaluate.capability import Capability, capability
from upsolve.evaluate.intervals import mean_interval
from upsolve.evaluate.passk import task_pass_at_k
from upsolve.evaluate.records import Evaluation
from upsolve.evaluate.sweep import Sweep, defined_ks

__all__ = ["change_figures", "results_figures"]


def results_figures(sweeps: Sequence[Sweep], ks: Sequence[int]) -> dict[str, Any]:
    """Return what ``show_results`` prints: the figures of every model, and its comparison with the first one.

    Raises:
        ConfigError: the models were measured on different tasks.
    """
    try:
        changes = [(sweep.name, capability(sweeps[0], sweep)) for sweep in sweeps[1:]]
    except ValueError as error:
        raise ConfigError(f"cannot be compared: {error}") from error
    comparisons = [
        {"model": name, "base": sweeps[0].name, **change_figures(change), "warnings": list(change.warnings)}
        for name, change in changes
    ]
    return {"models": [sweep_figures(sweep, defined_ks(sweeps, ks)) for sweep in sweeps], "comparisons": comparisons}


def change_figures(change: Capability) -> dict[str, Any]:
    """Return the conclusion of a comparison, as a word and a sentence, and the gain in pass@1 at the best temperatures."""
    gain = asdict(change.best.paired.difference) if change.best.paired else None
    return {"conclusion": change.conclusion, "sentence": change.sentence, "gain": gain}


def sweep_figures(sweep: Sweep, ks: Sequence[int]) -> dict[str, Any]:
    """Return the figures of a model on its test tasks, and on those of further task sets."""
    parts = {"best": sweep.best, "greedy": sweep.greedy, "hot": sweep.hot, "many": sweep.many}
    measured = {name: evaluation_figures(part, ks) for name, part in parts.items() if part is not None}
    others = {other.best.tasks: sweep_figures(other, ks) for other in sweep.others}
    return {"model": sweep.name, **measured, "heldout_logp": sweep.heldout_logp, "task_sets": others}


def evaluation_figures(evaluation: Evaluation, ks: Sequence[int]) -> dict[str, Any]:
    """Return temperature and pass@k of an evaluation, with 95 % intervals over tasks."""
    defined = {k: values for k in ks if (values := task_pass_at_k(evaluation.scores, k))}
    passes = {f"pass@{k}": asdict(mean_interval([*values.values()])) for k, values in defined.items()}
    return {"temperature": evaluation.temperature, **passes}
