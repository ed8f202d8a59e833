"""The paired difference of two evaluations over the same tasks: a gain, a loss, or neither; two models task by task."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from upsolve.config.rules import FEW_TASKS
from upsolve.errors import counted
from upsolve.evaluate.intervals import Estimate, Paired, detectable, paired_difference
from upsolve.evaluate.scores import Choices, Evaluation, Sweep, TaskScore, by_task_set, task_pass_at_k, temperature_name
from upsolve.types import html_facts

__all__ = [
    "DECIDABLE",
    "Comparison",
    "Pairing",
    "TaskChange",
    "choice_gain",
    "choice_line",
    "chosen_change",
    "compare",
    "drops",
    "interval_text",
    "outcome_of",
    "pairings_of",
    "points",
    "task_changes",
]

Outcome = Literal["gain", "loss", "undecided", "too few tasks"]
DECIDABLE = 6
"""Smallest number of tasks for a gain or loss: with n tasks the smallest p-value of the sign-flip test is 2 / 2^n, below 0.05 for n >= 6."""
DROP = 0.03
"""Smallest fall of pass@k within a difficulty that is reported, as a share."""
WARM = 0.5
"""At this temperature and above, a gain may come from a sharper distribution alone, and the comparison warns."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The paired difference in pass@k of two evaluations."""

    before: str
    """Name of the baseline."""
    after: str
    """Name of the other evaluation."""
    k: int
    """The k of pass@k."""
    means: tuple[float, float]
    """Mean pass@k of the baseline and of the other evaluation over the shared tasks, each in [0, 1]; nan without shared tasks."""
    paired: Paired | None
    """Mean difference in pass@k over tasks, with its 95 % interval and its p-value; None without shared tasks."""
    left_out: tuple[str, ...]
    """Ids of the tasks for which pass@k is undefined in one of the evaluations (fewer than k scored samples), sorted."""
    temperatures: tuple[float | None, float | None]
    """Sampling temperatures of the two evaluations, >= 0; None for pooled folds with different temperatures."""
    unlike: tuple[str, ...] = ()
    """A sentence that names other differing settings of sampling; () if none differs."""

    def __repr__(self) -> str:
        return f"Comparison({self.headline!r})"

    def _repr_html_(self) -> str:
        """Return headline, details and warnings, for a notebook."""
        return html_facts(self.headline, {"details": self.details, "warnings": "\n".join(self.warnings)})

    @property
    def outcome(self) -> Outcome:
        """``gain`` or ``loss`` if the 95 % interval excludes zero and the permutation test gives p < 0.05, else ``undecided``."""
        return outcome_of(self.paired)

    @property
    def headline(self) -> str:
        """One short sentence that begins with the outcome."""
        titles = {"gain": "Gain", "loss": "Loss", "undecided": "No difference shown", "too few tasks": "Too few tasks to tell"}
        if self.paired is None:
            return f"{titles[self.outcome]}: pass@{self.k} is undefined for every task in one of the two"
        before, after = (f"{100 * mean:.1f} %" for mean in self.means)
        return f"{titles[self.outcome]}: {self.after} {after}, {self.before} {before} ({points(self.paired.difference.mean)} points pass@{self.k})"

    @property
    def details(self) -> str:
        """Interval, tasks and p-value; empty without shared tasks."""
        if self.paired is None or (change := self.paired.difference).tasks < DECIDABLE:
            return self.evidence
        return f"95 % interval over tasks [{points(change.low)}, {points(change.high)}]; {self.evidence}; {self.where}"

    @property
    def evidence(self) -> str:
        """Number of tasks that changed and, if there are enough tasks, the p-value; empty without shared tasks."""
        if self.paired is None:
            return ""
        tasks = self.paired.difference.tasks
        counts = f"{counted(tasks, 'task')}: {self.paired.better} better, {self.paired.worse} worse"
        return f"{counts}; permutation p = {self.paired.p_value:.4f}" if tasks >= DECIDABLE else counts

    @property
    def where(self) -> str:
        """The temperature, or both temperatures if they differ."""
        before, after = (temperature_name(temperature) for temperature in self.temperatures)
        return before if before == after else f"{before} and {after}"

    @property
    def detectable(self) -> float | None:
        """Smallest difference that these tasks detect with power 80 %, as a share; None if no task differs."""
        if self.paired is None or not self.paired.deviation > 1e-9:
            return None
        return detectable(self.paired.difference.tasks, self.paired.deviation)

    @property
    def change(self) -> str:
        """The difference with its interval, in points: ``+14.0 [+9.6, +18.9]``; a dash without shared tasks."""
        return interval_text(self.paired.difference) if self.paired else "–"

    @property
    def doubts(self) -> tuple[str, ...]:
        """Reasons why the numbers are unreliable: few tasks, other settings of sampling, tasks left out."""
        sentences: list[str] = []
        tasks = self.paired.difference.tasks if self.paired else 0
        if tasks < FEW_TASKS:
            sentences.append(
                f"Only {counted(tasks, 'task')}: fewer than {FEW_TASKS} show only large differences; evaluate more tasks."
            )
        sentences += self.unlike
        if self.left_out:
            names = ", ".join(self.left_out[:5]) + (", ..." if len(self.left_out) > 5 else "")
            sentences.append(
                f"{counted(len(self.left_out), 'task')} left out, unscored or with fewer than {self.k} samples in one run: {names}"
            )
        return tuple(sentences)

    @property
    def warnings(self) -> tuple[str, ...]:
        """``doubts`` and, for a gain at the same high temperature, a warning that it may come from a sharper distribution."""
        before, after = self.temperatures
        if self.outcome != "gain" or before != after or after is None or after < WARM:
            return self.doubts
        return (
            *self.doubts,
            f"Measured at temperature {after:g} only. A sharper distribution over what the model could already do gains here, too: "
            "compare at more evaluate.temperatures before calling this a better model.",
        )

    def text(self) -> str:
        """Return headline, details and warnings, one line each."""
        return "\n".join(line for line in (self.headline, self.details, *self.warnings) if line)


def outcome_of(paired: Paired | None) -> Outcome:
    """Return the outcome of a paired difference (``Comparison.outcome``)."""
    if paired is None or paired.difference.tasks < DECIDABLE:
        return "too few tasks"
    change = paired.difference
    if paired.p_value >= 0.05 or change.low <= 0 <= change.high:
        return "undecided"
    return "gain" if change.mean > 0 else "loss"


def interval_text(change: Estimate) -> str:
    """Return a difference of shares in percentage points, with its interval unless there are too few tasks."""
    interval = f"[{points(change.low)}, {points(change.high)}]" if change.tasks >= DECIDABLE else "(no interval)"
    return f"{points(change.mean)} {interval}"


def points(value: float) -> str:
    """Return a difference of shares in percentage points, signed."""
    return f"{100 * value:+.1f}"


def compare(before: Evaluation, after: Evaluation, k: int = 1) -> Comparison:
    """Compare two evaluations task by task, over the tasks where pass@k is defined in both.

    Raises:
        ValueError: the evaluations are over different tasks (the message names some), or had different prompts.
    """
    if odd := {score.task_id for score in before.scores} ^ {score.task_id for score in after.scores}:
        raise ValueError(
            f"{before.name} and {after.name} were measured on different tasks, such as {', '.join(sorted(odd)[:5])}; evaluate both on the same tasks"
        )
    if before.prompts and after.prompts and before.prompts != after.prompts:
        raise ValueError(
            f"{before.name} and {after.name} had different prompts ({before.prompts}, {after.prompts}); evaluate both with the same model.prompt"
        )
    first, second = task_pass_at_k(before.scores, k), task_pass_at_k(after.scores, k)
    shared = [score.task_id for score in before.scores if score.task_id in first and score.task_id in second]
    left_out = tuple(sorted({score.task_id for score in before.scores} - {*shared}))
    temperatures, unlike = (before.temperature, after.temperature), unlike_settings(before, after)
    if not shared:
        return Comparison(before.name, after.name, k, (float("nan"), float("nan")), None, left_out, temperatures, unlike)
    paired = paired_difference({name: first[name] for name in shared}, {name: second[name] for name in shared})
    means = (sum(first[name] for name in shared) / len(shared), sum(second[name] for name in shared) / len(shared))
    return Comparison(before.name, after.name, k, means, paired, left_out, temperatures, unlike)


def unlike_settings(before: Evaluation, after: Evaluation) -> tuple[str, ...]:
    """Return a sentence that names the settings of sampling, besides the temperature, in which two evaluations differ; () if none differs."""
    greedy = before.temperature == after.temperature == 0
    pairs = {name: (getattr(before, name), getattr(after, name)) for name in ("max_tokens", *(() if greedy else ("top_p",)))}
    differ = [f"{name} ({one:g} and {other:g})" for name, (one, other) in pairs.items() if one != other]
    if not differ:
        return ()
    return (f"Sampled with different {' and '.join(differ)}, which may make the difference: measure one of them again.",)


def drops(before: Evaluation, after: Evaluation, ks: Sequence[int]) -> tuple[str, ...]:
    """Return a sentence for each difficulty in which pass@k falls by ``DROP`` or more for some k; it names the largest such k."""
    sentences: list[str] = []
    for label in dict.fromkeys(score.difficulty for score in before.scores):
        first_run, second_run = (
            replace(run, scores=tuple(s for s in run.scores if s.difficulty == label)) for run in (before, after)
        )
        for k in sorted(ks, reverse=True):
            change = compare(first_run, second_run, k)
            if change.paired and change.paired.difference.mean <= -DROP:
                first, second = (100 * mean for mean in change.means)
                where = f"on {label} tasks" if label else "on tasks without a difficulty"
                sentences.append(
                    f"pass@{k} {where} falls from {first:.1f} to {second:.1f} % ({counted(change.paired.difference.tasks, 'task')})"
                )
                break
    return tuple(sentences)


def choice_gain(choices: Choices | None) -> Paired | None:
    """Return pass@1 of the chosen samples minus pass@1 of the greedy samples, paired by task; None without greedy samples."""
    greedy = choices.passed("greedy") if choices else {}
    return paired_difference(greedy, choices.passed("chosen")) if choices and greedy else None


def chosen_change(before: Choices | None, after: Choices | None) -> Paired | None:
    """Return pass@1 of the second model's chosen samples minus that of the first model's, paired by task; None without shared tasks."""
    first, second = (choices.passed("chosen") if choices else {} for choices in (before, after))
    shared = [name for name in first if name in second]
    if not shared:
        return None
    return paired_difference({name: first[name] for name in shared}, {name: second[name] for name in shared})


def choice_line(name: str, choices: Choices | None) -> str:
    """Return pass@1 of greedy decoding and after choice, and the share of tasks that any sample solves, in one line; empty without choices."""
    passed = {part: [*choices.passed(part).values()] for part in ("greedy", "chosen", "any")} if choices else {}
    if not choices or not passed["chosen"]:
        return ""
    shares = {part: f"{100 * sum(values) / len(values):.1f} %" for part, values in passed.items() if values}
    gain = choice_gain(choices)
    greedy = f"greedy {shares['greedy']}, " if gain else ""
    change = f" ({interval_text(gain.difference)} points)" if gain else ""
    return f"{name}: {greedy}chosen of {choices.samples} {shares['chosen']}{change}, any of {choices.samples} {shares['any']}"


@dataclass(frozen=True, slots=True)
class TaskChange:
    """A task in two evaluations."""

    task_id: str
    """The task."""
    difficulty: str
    """Difficulty of the task, a label."""
    before: tuple[int, int]
    """Passed and scored samples of the first model."""
    after: tuple[int, int]
    """Passed and scored samples of the second model."""
    change: float
    """Share of the second model's scored samples that passed, minus that of the first model's, [-1, 1]."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """Two evaluations over the same tasks."""

    label: str
    """Task set and temperature."""
    before: Evaluation
    """Evaluation of the first model."""
    after: Evaluation
    """Evaluation of the second model."""


def task_changes(before: Evaluation, after: Evaluation) -> list[TaskChange]:
    """Return the tasks that both models have scored samples at: falls first, then rises, each from the largest on, then unchanged tasks."""
    first, second = ({score.task_id: score for score in run.scores if score.samples} for run in (before, after))
    found = [
        TaskChange(
            name, first[name].difficulty, counts(first[name]), counts(second[name]), rate(second[name]) - rate(first[name])
        )
        for name in first
        if name in second
    ]
    return sorted(found, key=lambda one: (one.change == 0, one.change > 0, -abs(one.change), one.task_id))


def counts(score: TaskScore) -> tuple[int, int]:
    """Return passed and scored samples."""
    return score.passed, score.samples


def rate(score: TaskScore) -> float:
    """Return the share of scored samples that passed."""
    return score.passed / score.samples


def pairings_of(before: Sweep, after: Sweep) -> list[Pairing]:
    """Return pairs of evaluations of two models: each at its best temperature, then every task set at every temperature that both have."""
    best = Pairing(f"{before.best.tasks}, each at its best temperature", before.best, after.best)
    found = [best] if before.best.temperature != after.best.temperature else []
    for first, second in ((before, after), *by_task_set([before, after]).values()):
        both = evaluations(first), evaluations(second)
        for temperature in sorted(both[0].keys() & both[1].keys(), key=lambda one: (one is None, one or 0.0)):
            one, other = both[0][temperature], both[1][temperature]
            found.append(Pairing(f"{one.tasks}, {temperature_name(temperature)}", one, other))
    chosen = (before.best.tasks, before.best.temperature)
    return sorted(found, key=lambda one: one is not best and (one.before.tasks, one.before.temperature) != chosen)


def evaluations(sweep: Sweep) -> dict[float | None, Evaluation]:
    """Return the evaluations of the test tasks by temperature; of several at one temperature, the one with most samples."""
    known: Sequence[Evaluation] = [one for one in (sweep.greedy, sweep.hot, sweep.many, sweep.best) if one]
    by_temperature: dict[float | None, Evaluation] = {}
    for one in known:
        other = by_temperature.get(one.temperature)
        if other is None or sum(score.samples for score in one.scores) > sum(score.samples for score in other.scores):
            by_temperature[one.temperature] = one
    return by_temperature
