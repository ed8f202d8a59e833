"""Comparison of several runs: pass@1 of each, gains over seeds, and the part of a gain that is due to the verdicts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from upsolve.config.recipe import leaves
from upsolve.evaluate.capability import capability
from upsolve.evaluate.comparison import interval_text, outcome_of, points
from upsolve.evaluate.intervals import Paired, over_seeds, paired_difference
from upsolve.evaluate.runs import load_run
from upsolve.evaluate.scores import Sweep, task_pass_at_k, temperature_name
from upsolve.report.content import Change, ReportContent
from upsolve.report.tables import Table, percent
from upsolve.types import content_id

__all__ = [
    "Method",
    "RunResult",
    "gains",
    "methods_of",
    "parts_of_runs",
    "pictures_of_runs",
    "run_result",
    "seeds_of",
    "sentences_of_runs",
    "without_seeds",
    "worth_of_verdicts",
]


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
    """Whether the run was trained only on passed attempts: as a control, it shows what the failed attempts are worth."""
    settings: str = ""
    """Content id of the run's recipe without name and seeds; empty: unknown."""
    seeds: str = ""
    """The seeds of the run's recipe."""
    recipe: str = ""
    """Name of the run's recipe."""


@dataclass(frozen=True)
class Method:
    """Runs of one recipe that only differ in seeds."""

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
    """Name of the run (or of the runs with several seeds) that was trained on the judge's verdicts."""
    control: str
    """Name of the control run: with changed verdicts or, if the run learns from failed attempts, imitation."""
    paired: Paired
    """gain(method) - gain(control) in pass@1, paired by task."""
    imitates: bool = False
    """Whether the control is imitation. Then the difference is due to failed attempts, otherwise to the verdicts."""

    @property
    def sentence(self) -> str:
        """The conclusion from the difference, in one sentence with its interval."""
        cause = "the failed attempts" if self.imitates else "the verdicts"
        change = f"{interval_text(self.paired.difference)} points of pass@1"
        said = {
            "gain": f"gains {change} more than its control {self.control}: this part of its gain is due to {cause}.",
            "loss": f"gains less than its control {self.control} ({change}): {cause} did harm.",
        }
        alike = f"is not shown to differ from its control {self.control} ({change}): its gain may not be due to {cause}."
        return f"{self.method}: {said.get(outcome_of(self.paired), alike)}"


def run_result(folder: Path) -> RunResult:
    """Read the results of `upsolve run`, with or without `--folds`; ConfigError if the run is not finished."""
    recipe, before, after = load_run(folder)
    name = recipe.name if recipe.name == folder.name else f"{recipe.name} ({folder.name})"
    settings, imitates = recipe.model_dump(mode="json"), recipe.advantage.record.selects
    about = without_seeds(settings), seeds_of(settings)
    return RunResult(name, recipe.reward.verdicts, before, after, imitates, *about, recipe=recipe.name)


def gains(run: RunResult) -> Mapping[str, float]:
    """Return the change in pass@1 of each task, in [-1, 1], base and trained model each at its own best temperature."""
    before, after = task_pass_at_k(run.before.best.scores, 1), task_pass_at_k(run.after.best.scores, 1)
    return {name: after[name] - before[name] for name in before if name in after}


def methods_of(runs: Sequence[RunResult]) -> tuple[Method, ...]:
    """Return methods: runs of one recipe with different seeds are one method; runs with equal seeds are separate ones."""
    groups: list[list[RunResult]] = []
    for run in runs:
        for group in groups:
            if run.settings and run.settings == group[0].settings and run.seeds not in {other.seeds for other in group}:
                group.append(run)
                break
        else:
            groups.append([run])
    return tuple(Method(tuple(group)) for group in groups)


def worth_of_verdicts(runs: Sequence[RunResult]) -> tuple[Worth, ...]:
    """Compare the gain of every method with that of every control, over shared tasks; ValueError if no task is shared."""
    shared = gains(runs[0]).keys() if runs else ()
    for run in runs[1:]:
        if not gains(run).keys() & shared:
            raise ValueError(f"{runs[0].name} and {run.name} share no task; compare runs that were evaluated on the same tasks")
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
        results.append(Worth(method.name, control.name, paired, control.runs[0].verdicts == "as_judged"))
    return tuple(results)


def sentences_of_runs(runs: Sequence[RunResult]) -> list[str]:
    """Return a sentence for each gain beyond a control; without a control, the command that runs one."""
    found = [worth.sentence for worth in worth_of_verdicts(runs)]
    command = "upsolve run RECIPE --out RUN-control --set reward.verdicts=shuffled"
    return found or [f"No control among these runs, so whether a gain is due to the verdicts is unknown: {command}"]


def parts_of_runs(runs: Sequence[RunResult]) -> tuple[ReportContent, list[Change], list[Table]]:
    """Return title and facts, the comparisons of base and trained models (controls last), and the tables; ValueError without shared tasks."""
    facts = {run.name: f"verdicts {run.verdicts.replace('_', ' ')}; {run.seeds or 'seeds unknown'}" for run in runs}
    ordered = sorted(runs, key=lambda run: run.verdicts != "as_judged")
    changes = [Change(f"{run.name}: ", capability(run.before, run.after), ()) for run in ordered]
    tables = [table for table in (runs_table(runs), seeds_table(runs), worth_table(runs)) if table]
    return ReportContent(f"{len(runs)} runs compared", (), facts=facts), changes, tables


def pictures_of_runs(runs: Sequence[RunResult]) -> dict[str, str]:
    """Return the plots of several runs as SVG text, by title."""
    from upsolve.report.plots import gains_of_methods  # needs the extra `report`, which tables do not

    gains = {method.name: (method.paired.difference, method.runs[0].verdicts != "as_judged") for method in methods_of(runs)}
    return {"Gain over the base model, each model at its own best temperature": gains_of_methods(gains)}


def runs_table(runs: Sequence[RunResult]) -> Table:
    """Return pass@1, %, of each different base model and of each run's trained model, with the conclusion about each run."""
    changes = [capability(run.before, run.after) for run in runs]
    tasks = [{score.task_id for score in run.after.best.scores} for run in runs]
    hottest = {sweep.hot.temperature for run in runs for sweep in (run.before, run.after)}
    alike = all(names == tasks[0] for names in tasks)
    labels = [run.name if alike else f"{run.name}, {len(names)} tasks" for run, names in zip(runs, tasks, strict=True)]
    bases: dict[tuple[str, ...], str] = {}
    for run, label in zip(runs, labels, strict=True):
        bases.setdefault(pass_cells(run.before, name_hot=len(hottest) > 1), label)
    rows = [("base" if len(bases) == 1 else f"base of {label}", *cells, "", "") for cells, label in bases.items()]
    rows += [
        (label, *pass_cells(run.after, name_hot=len(hottest) > 1), change.best.change, change.conclusion)
        for run, label, change in zip(runs, labels, changes, strict=True)
    ]
    hot = temperature_name(runs[0].before.hot.temperature) if len(hottest) == 1 else "highest temperature"
    header = ("run", "best temperature", "greedy", hot, "change to its base, points", "conclusion")
    if hottest == {0.0}:  # greedy decoding again
        header, rows = (*header[:3], *header[4:]), [(*row[:3], *row[4:]) for row in rows]
    shared = len(set.intersection(*tasks))
    title = (
        f"pass@1 on {shared} tasks, %, with 95 % intervals over tasks"
        if alike
        else f"pass@1, %, on different tasks, of which all runs share {shared}"
    )
    return Table(title, header, tuple(rows))


def pass_cells(sweep: Sweep, *, name_hot: bool = False) -> tuple[str, str, str]:
    """Return as text pass@1 at the best temperature, of greedy decoding, and at the highest temperature, which ``name_hot`` names."""
    best, greedy, hot = (
        list(task_pass_at_k(evaluation.scores, 1).values()) if evaluation else []
        for evaluation in (sweep.best, sweep.greedy, sweep.hot)
    )
    cells = [percent(sum(values) / len(values)) if values else "–" for values in (best, greedy, hot)]
    hottest = f"{cells[2]} ({temperature_name(sweep.hot.temperature)})" if name_hot else cells[2]
    return f"{cells[0]} ({temperature_name(sweep.best.temperature)})", cells[1], hottest


def seeds_table(runs: Sequence[RunResult]) -> Table | None:
    """Return the gain of every recipe with several seeds: its mean with interval, smallest and largest; None without any."""
    several = [method for method in methods_of(runs) if len(method.runs) > 1]
    if not several:
        return None
    rows: list[tuple[str, ...]] = []
    for method in several:
        by_seed = [Method((run,)).paired.difference.mean for run in method.runs]
        ends = points(min(by_seed)), points(max(by_seed))
        rows.append((method.name, interval_text(method.paired.difference), *ends, f"{method.paired.p_value:.4f}"))
    title = "Gain over the base, mean over seeds: pass@1, each model at its best temperature"
    return Table(title, ("runs", "gain, points", "smallest", "largest", "p"), tuple(rows))


def worth_table(runs: Sequence[RunResult]) -> Table | None:
    """Return gain(method) - gain(control) in percentage points for every run and every control; None without a control."""
    rows = [
        (worth.method, worth.control, interval_text(worth.paired.difference), f"{worth.paired.p_value:.4f}")
        for worth in worth_of_verdicts(runs)
    ]
    header = ("run", "control", "gain beyond the control, points", "p")
    title = "Gain beyond controls: pass@1, each model at its best temperature"
    return Table(title, header, tuple(rows)) if rows else None


def without_seeds(settings: Mapping[str, Any]) -> str:
    """Return a content id of a recipe without its name and seeds, except the seed of the split: equal for runs that only differ in seeds."""
    rest = {
        key: value for key, value in leaves(settings).items() if key == "data.split_seed" or not (key == "name" or is_seed(key))
    }
    return content_id(json.dumps(rest, sort_keys=True))


def seeds_of(settings: Mapping[str, Any]) -> str:
    """Return the seeds of a recipe, by key."""
    return ", ".join(f"{key} {value}" for key, value in leaves(settings).items() if is_seed(key))


def is_seed(key: str) -> bool:
    """Return whether a key of a recipe is a seed, such as ``source.rollout.seed``."""
    last = key.rpartition(".")[2]
    return last == "seed" or last.endswith("_seed")
