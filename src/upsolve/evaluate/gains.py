"""Gains of several runs over their base models, and how much of a gain is due to the verdicts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from upsolve.evaluate.intervals import Paired, over_seeds, paired_difference
from upsolve.evaluate.scores import task_pass_at_k
from upsolve.evaluate.sweep import Sweep

__all__ = ["Method", "RunResult", "Worth", "gains", "methods_of", "worth_of_verdicts"]


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
    settings: str = ""
    """Content id of its recipe without name and seeds; empty: unknown."""
    seeds: str = ""
    """The seeds of its recipe."""


@dataclass(frozen=True)
class Method:
    """Runs of one recipe that differ in seeds alone."""

    runs: tuple[RunResult, ...]
    """One run for each set of seeds, at least one."""

    @property
    def name(self) -> str:
        """Name of the first run, with the number of seeds if there are several."""
        first, count = self.runs[0].name, len(self.runs)
        return first if count == 1 else f"{first}, {count} seeds"

    @cached_property
    def gains(self) -> Mapping[str, float]:
        """Gain of each task, its mean over seeds. ValueError: the runs are over different tasks."""
        return over_seeds([gains(run) for run in self.runs])

    @cached_property
    def paired(self) -> Paired:
        """The mean gain, with its interval over tasks."""
        return paired_difference(dict.fromkeys(self.gains, 0.0), self.gains)


@dataclass(frozen=True, slots=True)
class Worth:
    """The gain of a run beyond that of a control run."""

    method: str
    """Name of the run, or of the runs of several seeds, that was trained on the judge's verdicts."""
    control: str
    """Name of the control run: of changed verdicts or, of a run that learns from failed attempts, of imitation."""
    paired: Paired
    """gain(method) - gain(control) in pass@1, paired by task."""


def gains(run: RunResult) -> Mapping[str, float]:
    """Return the change in pass@1 of each task, in [-1, 1], base and trained model each at its own best temperature."""
    before, after = task_pass_at_k(run.before.best.scores, 1), task_pass_at_k(run.after.best.scores, 1)
    return {name: after[name] - before[name] for name in before if name in after}


def methods_of(runs: Sequence[RunResult]) -> tuple[Method, ...]:
    """Return methods: runs of one recipe with different seeds together, and runs with equal seeds separately."""
    groups: list[list[RunResult]] = []
    for run in runs:
        for group in groups:
            if run.settings and run.settings == group[0].settings and run.seeds not in {other.seeds for other in group}:
                group.append(run)
                break
        else:
            groups.append([run])
    return tuple(Method(tuple(group)) for group in groups)


def check_shared(runs: Sequence[RunResult]) -> None:
    """Raise ValueError for a run that shares no task with the first one."""
    shared = gains(runs[0]).keys() if runs else ()
    for run in runs[1:]:
        if not gains(run).keys() & shared:
            raise ValueError(f"{runs[0].name} and {run.name} share no task; compare runs that were evaluated on the same tasks")


def worth_of_verdicts(runs: Sequence[RunResult]) -> tuple[Worth, ...]:
    """Compare the gain of every run with that of every control, over the tasks that have a gain in both.
    Runs that differ in seeds alone count as one, with the mean over seeds of each task's gain.

    Controls are runs on other verdicts than the judge's and, of runs that do not imitate, runs that do.

    Raises:
        ValueError: two runs share no task.
    """
    check_shared(runs)
    methods = methods_of(runs)
    judged = [method for method in methods if method.runs[0].verdicts == "as_judged"]
    controls = [method for method in methods if method.runs[0].verdicts != "as_judged"]
    imitated = [pair for pair in product(judged, judged) if pair[1].runs[0].imitates and not pair[0].runs[0].imitates]
    results: list[Worth] = []
    for method, control in (*product(judged, controls), *imitated):
        shared = [name for name in method.gains if name in control.gains]
        paired = paired_difference(
            {name: control.gains[name] for name in shared}, {name: method.gains[name] for name in shared}
        )
        results.append(Worth(method.name, control.name, paired))
    return tuple(results)
