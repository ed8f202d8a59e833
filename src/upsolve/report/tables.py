"""Evaluations, rewards and costs -> tables of text."""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from upsolve.errors import counted
from upsolve.evaluate.calibration import Calibration
from upsolve.evaluate.capability import Capability, capability
from upsolve.evaluate.comparison import DECIDABLE, Comparison, choice_gain, chosen_change, compare, interval_text, task_changes
from upsolve.evaluate.intervals import Estimate, mean_interval, tasks_needed
from upsolve.evaluate.runs import CONTROL, Stage
from upsolve.evaluate.scores import (
    Choices,
    Evaluation,
    Sweep,
    TaskScore,
    defined_ks,
    error_mix,
    lint_profile,
    outcome_mix,
    task_all_pass_at_k,
    task_pass_at_k,
    temperature_name,
    weighted_mean,
)
from upsolve.report.programs import MEANINGS, Sample, reason_of, shortened
from upsolve.reward.formula import Rewarded
from upsolve.types import Status

__all__ = [
    "Table",
    "calibration_tables",
    "capability_table",
    "cell",
    "cost_table",
    "difficulties",
    "failure_table",
    "is_timed",
    "percent",
    "result_tables",
    "reward_tables",
]

ERRORS = 8
"""Number of exceptions that a profile shows: the most frequent ones of each evaluation."""
MESSAGE = 120
"""Number of characters of the judge's message, and of the program, that a table shows."""
FINE = 0.05
"""Difference, as a share, for which a report states the number of tasks needed to detect it."""
TIMES = ("seconds", "preparing_seconds")
"""Metrics of a step: its own time, and the time of preparing its round (sampling, judging, scoring)."""
CHANGED = 20
"""Largest number of tasks that got worse, and of tasks that got better, in a table of changes."""


NUMBER = re.compile(r"[-+]?\d[\d.,]*(?:[ %;]|$)|undefined")
"""Regular expression for a cell that begins with a number, such as ``12.5 [3.0, 20.1]`` or ``3 of 8``."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text with a title."""

    title: str
    """Title of the table."""
    header: tuple[str, ...]
    """Column names."""
    rows: tuple[tuple[str, ...], ...]
    """Cells, row by row."""

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Whether each column holds numbers, which are right-aligned."""
        columns = [[row[at] for row in self.rows if row[at] not in ("", "–")] for at in range(len(self.header))]
        return tuple(bool(cells) and all(map(NUMBER.match, cells)) for cells in columns)


def result_tables(sweeps: Sequence[Sweep], ks: Sequence[int], *, further: bool = False) -> list[Table]:
    """Return the tables of results; ``further``: for a further task set, on which no temperatures are chosen."""
    ks = defined_ks(sweeps, ks)
    tables = [capability_table(capability(sweeps[0], other, max(ks))) for other in sweeps[1:]]
    if any(sweep.dev for sweep in sweeps) and not further:
        tables.append(temperature_table(sweeps))
    tables.append(pass_table([sweep.best for sweep in sweeps], [1], at="each at its best temperature for pass@1"))
    if any(sweep.choices for sweep in sweeps):
        tables.append(choice_table(sweeps))
    if many := [k for k in ks if k > 1]:
        tables.append(pass_table([sweep.many for sweep in sweeps], many, at="each at its best temperature for it"))
    tables += [table for other in sweeps[1:] if (table := change_table(sweeps[0].best, other.best)).rows]
    tables.append(profile_table([sweep.hot for sweep in sweeps]))
    return tables


def percent(value: float | None) -> str:
    """Return a share in percent; a dash for None."""
    return "–" if value is None or value != value else f"{100 * value:.1f}"


def cell(estimate: Estimate) -> str:
    """Return a mean with its interval, in percent; without the interval if there are too few tasks for one."""
    if estimate.tasks < DECIDABLE:
        return f"{percent(estimate.mean)} (no interval)"
    return f"{percent(estimate.mean)} [{percent(estimate.low)}, {percent(estimate.high)}]"


def difficulties(scores: Sequence[TaskScore]) -> list[str]:
    """Return the difficulty labels: known ones from easy to hard, then other labels in order of appearance."""
    order = ["easy", "medium", "hard", "introductory", "interview", "competition"]
    labels = dict.fromkeys(score.difficulty for score in scores)
    return sorted(labels, key=lambda name: order.index(name) if name in order else len(order))


def capability_table(change: Capability) -> Table:
    """Return the comparisons of two models that distinguish capability from sharpness, with their paired differences."""
    before, after = change.before, change.after
    rows = [comparison_row("pass@1, each at its own best temperature", change.best, own=True)]
    if change.greedy:
        rows.append(comparison_row("pass@1, greedy", change.greedy))
    if before.choices and after.choices:
        rows.append(choice_row(before.choices, after.choices))
    if not (change.greedy and change.hot.temperatures == change.greedy.temperatures):
        rows.append(comparison_row(f"pass@1, {temperature_name(change.hot.temperatures[1])}", change.hot))
    if change.many.k > 1:
        rows.append(comparison_row(f"pass@{change.many.k}, each at its own best temperature", change.many, own=True))
    both = change.solved
    chance = "< 0.001" if both.p_value < 0.001 else f"= {both.p_value:.3f}"
    changed = f"{both.gained} gained, {both.lost} lost; McNemar p {chance}"
    rows.append((f"tasks solved in {counted(both.samples, 'sample')}", str(both.before), str(both.after), changed))
    logps = (before.heldout_logp, after.heldout_logp)
    entropies = [weighted_mean(e.hot.scores, "mean_entropy") for e in (before, after)]
    if None not in logps:
        rows.append(number_row("log-probability of held-out passed programs, nats per token", *logps))
    rows.append(number_row(f"entropy of the samples, {temperature_name(after.hot.temperature)}, nats", *entropies))
    paired, smallest = change.best.paired, change.best.detectable
    if paired and smallest is not None:  # else no task differs
        label = f"smallest difference that {paired.difference.tasks} tasks show in 80 % of cases"
        needed = f"{100 * FINE:.0f} points need {tasks_needed(FINE, paired.deviation):,} tasks"
        rows.append((label, "", "", f"{100 * smallest:.1f}; {needed}"))
    header = ("measure", before.name, after.name, "difference, with 95 % interval over tasks")
    return Table("Capability and temperature, %", header, tuple(rows))


def comparison_row(label: str, comparison: Comparison, *, own: bool = False) -> tuple[str, ...]:
    """Return the row of a comparison; with ``own``, it names the temperature of each model."""
    names = [f" ({temperature_name(temperature)})" if own else "" for temperature in comparison.temperatures]
    cells = [f"{percent(mean)}{name}" for mean, name in zip(comparison.means, names, strict=True)]
    return (label, *cells, comparison.change)


def choice_row(before: Choices, after: Choices) -> tuple[str, ...]:
    """Return the table row of pass@1 of the chosen samples."""
    paired = chosen_change(before, after)
    means = [
        percent(sum(values) / len(values) if (values := one.passed("chosen").values()) else None) for one in (before, after)
    ]
    count = " and ".join(dict.fromkeys(str(one.samples) for one in (before, after)))
    return (f"pass@1, chosen of {count} samples", *means, interval_text(paired.difference) if paired else "–")


def number_row(label: str, before: float | None, after: float | None) -> tuple[str, ...]:
    """Return the row of two numbers and their difference."""
    change = "–" if before is None or after is None else f"{after - before:+.3f}"
    return (label, number(before, 3), number(after, 3), change)


def temperature_table(sweeps: Sequence[Sweep]) -> Table:
    """Return pass@1 in percent on the dev tasks of each sweep at each temperature, from which the best temperatures are chosen."""
    temperatures = sorted(
        {evaluation.temperature for sweep in sweeps for evaluation in sweep.dev if evaluation.temperature is not None}
    )
    rows: list[tuple[str, ...]] = []
    for temperature in temperatures:
        evaluations = [
            next((evaluation for evaluation in sweep.dev if evaluation.temperature == temperature), None) for sweep in sweeps
        ]
        values = [list(task_pass_at_k(evaluation.scores, 1).values()) if evaluation else [] for evaluation in evaluations]
        rows.append((temperature_name(temperature), *(cell(mean_interval(scores)) if scores else "–" for scores in values)))
    tasks = max((len(evaluation.scores) for sweep in sweeps for evaluation in sweep.dev), default=0)
    return Table(f"pass@1 on {tasks} dev tasks, %: where temperatures are chosen", ("", *(s.name for s in sweeps)), tuple(rows))


def pass_table(evaluations: Sequence[Evaluation], ks: Sequence[int], *, at: str = "") -> Table:
    """Return pass@k and, for k > 1, pass^k in percent, by difficulty, with 95 % intervals; ``at`` is added to the title."""
    rows: list[tuple[str, ...]] = []
    measures = [(f"pass@{k}", task_pass_at_k, k) for k in ks]
    measures += [(f"pass^{k}", task_all_pass_at_k, k) for k in ks if k > 1]
    for label in ["all", *[name for name in difficulties(evaluations[0].scores) if name]]:
        tasks = sum(label in ("all", s.difficulty) for s in evaluations[0].scores)
        for name, estimator, k in measures:
            cells: list[str] = []
            for evaluation in evaluations:
                values = list(estimator([s for s in evaluation.scores if label in ("all", s.difficulty)], k).values())
                cells.append(cell(mean_interval(values)) if values else "undefined (n < k)")
            rows.append((f"{label} ({tasks})", name, *cells))
    both = "pass@k and pass^k (all k samples pass)" if max(ks) > 1 else "pass@k"
    title = f"{both}, %, with 95 % intervals over tasks" + (f", {at}" if at else "")
    names = [f"{evaluation.name}, {temperature_name(evaluation.temperature)}" for evaluation in evaluations]
    return Table(title, ("tasks", "measure", *names), tuple(rows))


def choice_table(sweeps: Sequence[Sweep]) -> Table:
    """Return pass@1 of greedy decoding, of chosen samples and of any sample, with paired differences, and the cost of sampling and choosing."""
    first = sweeps[0]
    kinds = dict.fromkeys(", ".join(sweep.choices.kinds) for sweep in sweeps if sweep.choices)
    columns = [choice_cells(sweep.choices) for sweep in sweeps]
    labels = [*dict.fromkeys(label for column in columns for label in column)]
    rows = [(label, *(column.get(label, "–") for column in columns)) for label in labels]
    changes = [chosen_change(first.choices, sweep.choices) for sweep in sweeps[1:]]
    if any(changes):
        cells = [interval_text(change.difference) if change else "–" for change in changes]
        rows.insert(1 + labels.index(GAIN), (f"chosen - chosen of {first.name}, points", "", *cells))
    title = f"One sample a task, chosen by {' or '.join(kinds)}, without hidden tests: pass@1, %"
    names = [f"{s.name}, {temperature_name(s.choices.temperature)}" if s.choices else s.name for s in sweeps]
    return Table(title, ("", *names), tuple(rows))


GAIN = "chosen - greedy, points"


def choice_cells(choices: Choices | None) -> dict[str, str]:
    """Return the cells of a model in the table of choices, by row; {} without choices."""
    if choices is None:
        return {}
    parts = {part: [*choices.passed(part).values()] for part in ("greedy", "chosen", "any", "early")}
    cells = {part: cell(mean_interval(values)) if values else "–" for part, values in parts.items()}
    gain, tasks = choice_gain(choices), choices.tasks
    samples, early = (sum(counts) for counts in zip(*((task.samples, task.early_samples) for task in tasks), strict=True))
    tokens, early_tokens = sum(task.tokens for task in tasks), sum(task.early_tokens for task in tasks)
    return {
        "greedy": cells["greedy"],
        "chosen": cells["chosen"],
        "any": cells["any"],
        GAIN: interval_text(gain.difference) if gain else "–",
        "chosen, sampling stops early": cells["early"],
        "samples a task": number(samples / len(tasks)),
        "samples a task, sampling stops early": number(early / len(tasks)),
        "sampled tokens": f"{tokens:,}",
        "sampled tokens, sampling stops early": f"{early_tokens:,}",
        "time of sampling": minutes(choices.sample_seconds),
        "time of choosing": f"{number(choices.choose_seconds)} s",
    }


def change_table(before: Evaluation, after: Evaluation) -> Table:
    """Return the tasks whose pass rate changed most, falls before rises."""
    changed = [one for one in task_changes(before, after) if one.change]
    worse, better = ([one for one in changed if (one.change > 0) == rises] for rises in (False, True))
    rows = tuple(
        (
            one.task_id,
            one.difficulty or "–",
            *(f"{passed} of {samples}" for passed, samples in (one.before, one.after)),
            f"{100 * one.change:+.3g}",
        )
        for one in (*worse[:CHANGED], *better[:CHANGED])
    )
    title = f"Tasks that changed: {len(worse)} worse, {len(better)} better" + (
        f" (the {CHANGED} largest changes each)" if max(len(worse), len(better)) > CHANGED else ""
    )
    return Table(title, ("task", "difficulty", f"{before.name}, passed", f"{after.name}, passed", "points"), rows)


def mix_rows(evaluations: Sequence[Evaluation], mix_of: Callable[..., dict[str, float]]) -> list[tuple[str, ...]]:
    """Return a row in percent for each outcome, or for each of the most frequent errors of every evaluation."""
    mixes = [mix_of(evaluation.scores) for evaluation in evaluations]
    names = dict.fromkeys(name for mix in mixes for name in [*mix][:ERRORS])
    return [(name, *(percent(mix.get(name, 0.0)) for mix in mixes)) for name in names]


def failure_table(evaluations: Sequence[Evaluation], samples: Mapping[str, Sample]) -> Table:
    """Return the share of samples by outcome except passed, with their types of errors and an example, as far as ``samples`` (by both) record these."""
    errors = mix_rows(evaluations, error_mix)
    within = {row[0]: samples[row[0]].status for row in errors if row[0] in samples}
    rows: list[tuple[str, ...]] = []
    for outcome in [row for row in mix_rows(evaluations, outcome_mix) if row[0] != Status.PASSED]:
        rows += [outcome, *(row for row in errors if within.get(row[0]) == outcome[0])]
    rows += [row for row in errors if row not in rows]
    known = {name for name, *_ in errors}
    labels = [
        f"\u2003{row[0]}" if row[0] in within else f"error {row[0]}" if row[0] in known else row[0].replace("_", " ")
        for row in rows
    ]
    shown = [
        (label, *row[1:], MEANINGS.get(row[0], ""), sample_text(samples.get(row[0])))
        for label, row in zip(labels, rows, strict=True)
    ]
    names = [f"{evaluation.name}, {temperature_name(evaluation.temperature)}" for evaluation in evaluations]
    header = ("", *names, "meaning", "for example")[: len(names) + (3 if samples else 2)]
    return Table("Why answers fail, % of the samples", header, tuple(row[: len(header)] for row in shown))


def sample_text(sample: Sample | None) -> str:
    """Return the start of a program and the judge's message about it; "" for None."""
    if sample is None:
        return ""
    code, message = (" ".join(text.split()) for text in (sample.code, reason_of("", sample.error, None).message))
    return f"{shortened(code, MESSAGE // 2)} → {shortened(message, MESSAGE)}"


def profile_table(evaluations: Sequence[Evaluation]) -> Table:
    """Return length, entropy, truncation, the mix of outcomes and errors, and Ruff's findings, of every evaluation."""
    rows = [
        ("samples", *(str(sum(sum(s.statuses.values()) for s in e.scores)) for e in evaluations)),
        ("mean length, tokens", *(number(weighted_mean(e.scores, "mean_tokens")) for e in evaluations)),
        ("mean entropy, nats", *(number(weighted_mean(e.scores, "mean_entropy"), 3) for e in evaluations)),
        ("truncated at the token limit", *(str(sum(s.truncated for s in e.scores)) for e in evaluations)),
    ]
    rows += [
        (f"{name.replace('_', ' ')}, %", *cells)
        for mix_of in (outcome_mix, error_mix)
        for name, *cells in mix_rows(evaluations, mix_of)
    ]
    linted = [lint_profile(e.scores) for e in evaluations]
    rows += [
        (f"lint: {name}, findings a sample that parses", *(number(mix.get(name), 2) for mix in linted))
        for name in dict.fromkeys(name for mix in linted for name in mix)
    ]
    rows.append(("wall time, s", *(number(e.wall_seconds, 0) for e in evaluations)))
    names = [f"{evaluation.name}, {temperature_name(evaluation.temperature)}" for evaluation in evaluations]
    return Table("Profile of the samples", ("", *names), tuple(rows))


def number(value: float | None, digits: int = 1) -> str:
    """Return a number as text; a dash for None and nan."""
    return "–" if value is None or value != value else f"{value:.{digits}f}"


def reward_tables(rewarded: Sequence[Rewarded]) -> list[Table]:
    """Return a table by status of the mean reward and each part's mean unweighted value; and a table of attempts left out or flagged."""
    rewards: dict[Status, list[float]] = {}
    parts: dict[tuple[Status, str], list[float]] = {}
    left_out, flagged = Counter[str](), Counter[str]()
    for item in rewarded:
        left_out.update(item.left_out)
        flagged.update(item.flagged)
        for verdict, value, components in zip(item.group.verdicts, item.rewards_G.tolist(), item.parts, strict=True):
            status = verdict.status if verdict else Status.UNSCORED
            rewards.setdefault(status, []).append(value)
            for part in components:
                parts.setdefault((status, part.name), []).append(part.value)
    names = tuple(dict.fromkeys(name for _, name in parts))
    rows = tuple(
        (status, str(len(rewards[status])), mean(rewards[status]), *(mean(parts.get((status, name), [])) for name in names))
        for status in Status
        if status in rewards
    )
    counts = [(f"left out: {reason}", str(count)) for reason, count in left_out.most_common()]
    counts += [(f"flagged: {reason}", str(count)) for reason, count in flagged.most_common()]
    tables = [Table("Rewards of the attempts trained on, means", ("status", "attempts", "reward", *names), rows)]
    return tables + (
        [Table("Attempts without a reward of their own, or flagged", ("", "attempts"), tuple(counts))] if counts else []
    )


def mean(values: Sequence[float]) -> str:
    """Return a mean as text; a dash for no values."""
    return number(sum(values) / len(values), 3) if values else "–"


def stage_table(base: Sweep, stages: Sequence[Stage]) -> Table:
    """Return the gain of each stage of a run with rounds of own samples over the stage that it started from, and the control."""
    rows: list[tuple[str, ...]] = []
    before, start = base, base
    for stage in stages:
        gain = compare((start if stage.name == CONTROL else before).best, stage.sweep.best)
        drawn = f"{stage.passed:,} of {stage.samples:,} passed" if stage.samples else "–"
        name = stage.name if stage.kept or stage.name == CONTROL else f"{stage.name}, not kept"
        rates = (percent(stage.dev), cell(mean_interval([*task_pass_at_k(stage.sweep.best.scores, 1).values()])))
        chosen = choice_cells(stage.sweep.choices).get("chosen", "–")
        rows.append((name, *rates, gain.change, chosen, drawn, f"{stage.trained.steps:,}"))
        before = stage.sweep if stage.kept else before
        start = start if stage.samples else before  # a round draws samples
    header = ("stage", "dev tasks", "pass@1", "to the stage before", "chosen", "own samples", "steps")
    return Table("Stages, each at its best temperature, %", header, tuple(rows))


def cost_table(sweeps: Sequence[Sweep], training: Sequence[Mapping[str, float]]) -> Table:
    """Return steps or samples, tokens and minutes of training and of every evaluation, and the sum of the times."""
    rows: list[tuple[str, str, str, float]] = []
    if training:
        trained = sum(row.get("attempt_tokens", 0.0) for row in training)
        steps = sum("loss" in row for row in training)
        seconds = sum(row.get(part, 0.0) for row in training for part in TIMES) if is_timed(training) else math.nan
        rows.append(("training", counted(steps, "step"), f"{trained:,.0f} tokens trained", seconds))
    for sweep in sweeps:
        parts = {id(one): one for each in (sweep, *sweep.others) for one in each.evaluations}.values()  # each once
        counts = [(score.mean_tokens, sum(score.statuses.values())) for one in parts for score in one.scores]
        known = [mean * count for mean, count in counts if mean is not None]
        tokens = f"{sum(known):,.0f} tokens sampled" if known else "–"
        samples, seconds = sum(count for _, count in counts), sum(part.wall_seconds for part in parts)
        rows.append((f"evaluation of {sweep.name}", counted(samples, "sample"), tokens, seconds))
    shown = [(what, how_many, tokens, minutes(seconds)) for what, how_many, tokens, seconds in rows]
    known = [row[3] for row in rows if not math.isnan(row[3])]
    total = ("sum" if len(known) == len(rows) else "sum without training", "", "", minutes(sum(known)) if known else "–")
    return Table("Cost", ("", "", "tokens of attempts", "time"), (*shown, total))


def is_timed(training: Sequence[Mapping[str, float]]) -> bool:
    """Return whether the log of a training contains times."""
    return any(part in row for row in training for part in TIMES)


def minutes(seconds: float) -> str:
    """Return a time as text: seconds below two minutes, else minutes or hours; a dash for nan."""
    if math.isnan(seconds):
        return "–"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def calibration_tables(calibrations: Sequence[Calibration]) -> list[Table]:
    """Return how scores fit the verdicts: a table over names and languages, and the reliability of each score over all programs."""
    if not calibrations:
        return []
    header = ("score", "language", "programs", "tasks", "passed", "AUC", "95 % interval", "Brier")
    rows = tuple(
        (
            one.name,
            one.language or "all",
            f"{one.programs:,}",
            f"{one.tasks:,}",
            f"{one.passed:.1%}",
            number(one.auc, 3),
            f"{number(one.auc_low, 3)} to {number(one.auc_high, 3)}",
            number(one.brier, 3),
        )
        for one in calibrations
    )
    tables = [Table("scores against verdicts (AUC: a passed program has the larger score; interval over tasks)", header, rows)]
    for one in calibrations:
        bins = tuple(
            (f"{row.low:.3g} to {row.high:.3g}", f"{row.programs:,}", f"{row.mean_score:.3g}", f"{row.passed:.1%}")
            for row in one.bins
        )
        if not one.language:
            tables.append(Table(f"reliability of the score {one.name}", ("score", "programs", "mean", "passed"), bins))
    return tables
