"""Gains of several runs over their base models, and how much of a gain is due to the verdicts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from upsolve.evaluate.intervals import Paired, paired_difference
from upsolve.evaluate.passk import task_pass_at_k
from upsolve.evaluate.sweep import Sweep

__all__ = ["RunResult", "Worth", "gains", "worth_of_verdicts"]


@dataclass(frozen=True, slots=True)
class RunResult:
    """The evaluations of a run's base model and trained model."""

    name: str
    """Label of the run."""
    verdicts: str
    """``reward.verdicts`` of the recipe: ``as_judged``, or the kind of control."""
    before: Sweep
    """The base model."""
    after: Sweep
    """The trained model."""
    imitates: bool = False
    """Whether it was trained on passed attempts alone: the control that tells what the failed attempts are worth."""


@dataclass(frozen=True, slots=True)
class Worth:
    """The gain of a run beyond that of a control run."""

    method: str
    """Name of the run that was trained on the judge's verdicts."""
    control: str
    """Name of the control run: of changed verdicts or, of a run that learns from failed attempts, of imitation."""
    paired: Paired
    """gain(method) - gain(control) in pass@1, paired by task."""


def gains(run: RunResult) -> Mapping[str, float]:
    """Return the change in pass@1 of each task, in [-1, 1], base and trained model each at its own best temperature."""
    before, after = task_pass_at_k(run.before.best.scores, 1), task_pass_at_k(run.after.best.scores, 1)
    return {name: after[name] - before[name] for name in before if name in after}


def check_shared(runs: Sequence[RunResult]) -> None:
    """Raise ValueError for a run that shares no task with the first one."""
    shared = gains(runs[0]).keys() if runs else ()
    for run in runs[1:]:
        if not gains(run).keys() & shared:
            raise ValueError(f"{runs[0].name} and {run.name} share no task; compare runs that were evaluated on the same tasks")


def worth_of_verdicts(runs: Sequence[RunResult]) -> tuple[Worth, ...]:
    """Compare the gain of every run with that of every control, over the tasks that have a gain in both.

    Controls are runs on other verdicts than the judge's and, of runs that do not imitate, runs that do.

    Raises:
        ValueError: two runs share no task.
    """
    check_shared(runs)
    judged = [run for run in runs if run.verdicts == "as_judged"]
    controls = [run for run in runs if run.verdicts != "as_judged"]
    imitated = [pair for pair in product(judged, judged) if pair[1].imitates and not pair[0].imitates]
    results: list[Worth] = []
    for method, control in (*product(judged, controls), *imitated):
        method_gains, control_gains = gains(method), gains(control)
        shared = [name for name in method_gains if name in control_gains]
        paired = paired_difference(
            {name: control_gains[name] for name in shared}, {name: method_gains[name] for name in shared}
        )
        results.append(Worth(method.name, control.name, paired))
    return tuple(results)
