"""The overview of a run: verdict, bars, settings, failures, changed tasks, curves. Reports and the viewer share it."""

import math
import re
from collections.abc import Mapping, Sequence

from upsolve.errors import counted
from upsolve.evaluate.capability import Capability
from upsolve.evaluate.comparison import DECIDABLE, interval_text
from upsolve.evaluate.intervals import Estimate, mean_interval
from upsolve.evaluate.scores import Sweep, TaskScore, error_mix, outcome_mix, task_pass_at_k
from upsolve.report.blocks import Node, Points, bars, curve, el, listing
from upsolve.report.content import Change, Example, Gain, ReportContent, changes_of
from upsolve.report.programs import MEANINGS, program_pair, reason_text
from upsolve.report.tables import Table, capability_table, failure_table, percent
from upsolve.types import Status

__all__ = [
    "CURVES",
    "curve_name",
    "curves_of",
    "example_block",
    "failures",
    "interval",
    "logged",
    "most_changed",
    "overview_block",
    "stopped_at",
    "table_block",
    "verdict_block",
]

MOST_CHANGED = 5
"""Number of tasks in the overview: those whose pass rate changed most."""
CURVES = {
    "loss": "loss",
    "heldout_passed_logp": "log-likelihood of held-out passed attempts, nats per token",
    "heldout_margin": "held-out passed minus failed, nats per token",
    "sampled_passed": "share of new samples that passed",
    "heldout_failed_logp": "log-likelihood of held-out failed attempts, nats per token",
    "entropy": "entropy, nats",
    "logp_up": "log-likelihood where the advantage is positive, nats per token",
    "logp_down": "log-likelihood of the other attempts, nats per token",
    "mass_up": "share of positive advantages",
    "clipped": "share of tokens clipped or masked",
    "grad_norm": "gradient norm before clipping",
    "lr": "learning rate",
    "ess": "effective sample size, share",
    "ratio_second_moment": "mean squared log-ratio to the start or author",
    "heldout_logit_variance": "variance of the logits, held-out attempts",
    "logit_variance": "variance of the logits",
    "malformed": "share of attempts that do not compile",
    "staleness": "rounds since the weights that sampled, mean",
    "staleness_max": "rounds since the weights that sampled, most",
    "drift": "trainer against sampler, mean |log-ratio|, nats",
    "drift_k3": "trainer against sampler, KL, nats per token",
    "drift_max": "trainer against sampler, largest |log-ratio|, nats",
    "sampler_known": "share of tokens whose sampler is known",
    "corrected": "share of tokens whose weight was corrected",
    "value_mean": "mean value",
    "return_mean": "mean return",
    "value_explained": "explained variance of the values",
    "skipped_steps": "steps without a finite gradient",
    "sampled": "new samples",
    "sampled_tokens": "tokens of the new samples",
    "attempt_tokens": "tokens trained on in a step",
    "tokens_per_second": "tokens per second",
    "seconds": "time of a step, s",
    "preparing_seconds": "time to sample, judge and pack, s",
}
"""Metric -> name of its curve in reports and the viewer, in their order; the overview has the first three that a run logs."""
NO_CONTROL = "No control run yet, so how much of the gain is due to the verdicts is unknown: the commands under What to do next start one."


def overview_block(content: ReportContent) -> Node:
    """Return the overview of a run, of evaluations, or of a run that is not finished."""
    changes = changes_of(content) if len(content.sweeps) > 1 else []
    most = most_changed(content.examples)
    curves = curves_of(content, [name for name in logged([content.start, *content.training]) if name in CURVES][:3])
    commands = {purpose: el("code", command) for purpose, command in content.next_steps.items()}
    facts = {name: el("code", text) if name == "command" else text for name, text in content.summary.items()}
    lacks_control = bool(changes) and not content.controls and bool(content.summary)
    parts = [
        *(verdict_block(change, () if change.label else content.controls) for change in changes),
        *([] if changes else [el("div", el("b", unfinished(content)), class_="verdict")]),
        *(
            [el("div", el("b", "Training was stopped: "), content.collapsed, class_="verdict worse")]
            if content.collapsed
            else []
        ),
        *([warnings_block(content.warnings)] if content.warnings else []),
        *bars_block(content),
        *([el("p", NO_CONTROL, class_="soft")] if lacks_control else []),
        *([el("h2", "A task before and after"), example_block(most[0])] if most else []),
        *([el("h2", "Data, recipe, cost"), listing(facts)] if facts else []),
        *(titled(failure_table([sweep.best for sweep in content.sweeps], content.messages)) if content.sweeps else ()),
        *([el("h2", "More tasks that changed"), *(example_block(one, is_open=False) for one in most[1:])] if most[1:] else []),
        *([el("h2", "Training"), el("div", *curves, class_="curves")] if curves else []),
        *(part for change in changes if not change.label for part in capability_block(change.capability)),
        *([el("h2", "What to do next"), listing(commands)] if commands else []),
    ]
    return el("div", *parts, class_="overview")


def most_changed(examples: Sequence[Example]) -> list[Example]:
    """Return the examples of the overview, the largest change first."""
    return sorted(examples, key=lambda one: -abs(one.change))[:MOST_CHANGED]


def unfinished(content: ReportContent) -> str:
    """Return the progress of a run without a comparison of two models."""
    steps = int(max((row["step"] for row in content.training), default=0))
    if not content.training:
        return "Not trained yet." if len(content.sweeps) < 2 else ""
    return f"Not finished: {counted(steps, 'step')} of training so far, the trained model is not evaluated yet."


def verdict_block(change: Change, controls: Sequence[Gain] = ()) -> Node:
    """Return the conclusion about a model: as large numbers the gain, and the part of it beyond control runs; then evidence and limits."""
    about = change.capability
    title, _, numbers = about.sentence.partition(": ")
    difference = about.best.paired.difference if about.best.paired and not change.label else None
    gains = [large(difference, "change of pass@1, the share of test tasks that one sample solves")] if difference else []
    gains += [large(one.beyond, f"more than the same training with {one.name}") for one in controls]
    gains += [el("p", one.share) for one in controls]
    evidence = f" 95 % intervals over tasks; {about.best.evidence}" if about.best.evidence else ""
    numbers = numbers.replace(f", {interval_text(difference)} points", "") if difference else numbers  # the large number
    lines = [el("p", numbers + evidence, class_="soft" if gains else None)] if numbers + evidence else []
    lines += [el("p", line) for line in (*about.warnings, *change.drops)]
    return el("div", el("b", change.label + title), *gains, *lines, class_=f"verdict {about.conclusion.replace(' ', '-')}")


def large(difference: Estimate, meaning: str) -> Node:
    """Return a difference in points as a large number, pale if its interval contains 0, beside the interval and its meaning."""
    is_open = difference.tasks >= DECIDABLE and difference.low <= 0 <= difference.high
    number = el("b", f"{100 * difference.mean:+.1f}", class_="large soft" if is_open else "large")
    meaning += "; the interval contains 0" if is_open else ""
    return el(
        "div", number, el("p", f"points {interval(difference, sign='+')} ", el("span", meaning, class_="soft")), class_="gain"
    )


def capability_block(about: Capability) -> tuple[Node, ...]:
    """Return the comparison of two models by measure, and below it the effect of choosing among samples."""
    chosen = "One of several samples, chosen without hidden tests. "
    return (*titled(capability_table(about)), *(el("p", chosen + line, class_="soft") for line in about.choices))


def titled(table: Table) -> tuple[Node, ...]:
    """Return a table under its title; nothing of a table without rows."""
    return (el("h2", table.title), table_block(table)) if table.rows else ()


def table_block(table: Table) -> Node:
    """Return a table that scrolls if the page is too narrow for its columns; on a phone, each row is a list of named values."""
    kinds = ["number" if right else None for right in table.numeric]
    heads = [
        el("th", name, scope="col", class_=kind) if name else el("td") for name, kind in zip(table.header, kinds, strict=True)
    ]
    rows = [
        el(
            "tr",
            *(
                el("td", cell, class_=kind, data_label=name or None)
                for cell, kind, name in zip(row, kinds, table.header, strict=True)
            ),
        )
        for row in table.rows
    ]
    inside = el("table", el("thead", el("tr", *heads)), el("tbody", *rows))
    return el("div", inside, class_="wide listed", tabindex="0", role="region", aria_label=table.title)


def warnings_block(warnings: Sequence[str]) -> Node:
    """Return reasons to doubt the numbers of a run."""
    return el("div", *(el("p", el("b", "Warning: "), warning) for warning in warnings), class_="verdict warning")


def bars_block(content: ReportContent) -> list[Node]:
    """Return pass@1 of each model as bars with its most frequent failure, and of control runs, which train the first model with other verdicts."""
    known = [(sweep, one) for sweep in content.sweeps if (one := pass_at_1(sweep))]
    if not known:
        return []
    kinds = ["base"] + ["trained"] * (len(known) - 1)
    rows = [
        (kind, sweep.name, bounds(one), failures(sweep.best.scores)) for kind, (sweep, one) in zip(kinds, known, strict=True)
    ]
    start, tasks = known[0][1].mean, max(one.tasks for _, one in known)
    for control in content.controls:
        gain = control.gain
        levels = start + gain.mean, start + gain.low, start + gain.high
        rows.append(("control", f"control: {control.name}", levels, failures(control.scores)))
    name = f"pass@1 on {counted(tasks, 'test task')}: share solved with one sample, each model at its best temperature; line: 95 % interval"
    return [bars(name, rows)]


def bounds(known: Estimate) -> tuple[float, float, float]:
    """Return a mean and the bounds of its interval; nan for the bounds of too few tasks."""
    return (known.mean, *((known.low, known.high) if known.tasks >= DECIDABLE else (math.nan, math.nan)))


def pass_at_1(sweep: Sweep) -> Estimate | None:
    """Return the pass@1 of a model at its best temperature, None without a scored task."""
    values = [*task_pass_at_k(sweep.best.scores, 1).values()]
    return mean_interval(values) if values else None


def failures(scores: Sequence[TaskScore]) -> str:
    """Return the most frequent outcome of failed samples, and their most frequent error with its meaning; "" if all passed."""
    outcomes = ((name, share) for name, share in outcome_mix(scores).items() if name not in (Status.PASSED, Status.UNSCORED))
    first = [*filter(None, (next(mix, None) for mix in (outcomes, iter(error_mix(scores).items()))))]
    named = "; error: ".join(f"{name.replace('_', ' ')}, {percent(share)} %" for name, share in first)
    means = f" ({MEANINGS[first[-1][0]]})" if first and first[-1][0] in MEANINGS else ""
    return f"most failures: {named}{means}" if named else ""


def interval(estimate: Estimate, *, sign: str = "") -> str:
    """Return an interval in percent or points; if there are too few tasks, a note that there is none."""
    if estimate.tasks < DECIDABLE:
        return "no interval"
    return f"[{100 * estimate.low:{sign}.1f}, {100 * estimate.high:{sign}.1f}]"


def logged(rows: Sequence[Mapping[str, float]]) -> list[str]:
    """Return the logged metrics of a run that have a curve; those of plug-ins come last."""
    names = {name for row in rows for name in row} - {"step", "round"}
    return [*(name for name in CURVES if name in names), *sorted(names - {*CURVES})]


def curve_name(metric: str) -> str:
    """Return the name of the curve of a metric."""
    return CURVES.get(metric, metric.replace("_", " "))


def curves_of(content: ReportContent, names: Sequence[str]) -> list[Node]:
    """Return the curves of these metrics of training, with the monitor's limits, and the step at which the run stopped or whose weights it kept."""
    if not content.training:
        return []
    rows: list[Mapping[str, float]] = [{"step": 0.0, **content.start}] if content.start else []
    rows += content.training
    last = max(row["step"] for row in rows)
    stopped = stopped_at(content.collapsed)
    steps = {} if content.kept_step in (None, last) else {"kept": content.kept_step or 0}
    steps |= {} if stopped is None else {"stopped": stopped}
    lines: dict[str, Points] = {name: [(row["step"], row[name]) for row in rows if name in row] for name in names}
    return [
        curve(curve_name(name), {"": points}, limit=content.limits.get(name), steps=steps)
        for name, points in lines.items()
        if points
    ]


def stopped_at(collapsed: str) -> int | None:
    """Return the step that the message of a collapse names, or None."""
    named = re.search(r"\bstep (\d+)\b", collapsed)
    return int(named[1]) if named else None


def example_block(example: Example, *, is_open: bool = True) -> Node:
    """Return a task with a program of each model, and why one of the programs failed."""
    programs = program_pair(example.before, example.after, example.language)
    sides = zip(
        ("base", "trained"),
        programs,
        (example.before_status, example.after_status),
        example.counts,
        example.reasons,
        strict=True,
    )
    columns = [
        el(
            "div",
            el("p", el("b", f"{name}: "), status_text(status), f" ({count} passed)" if count else ""),
            program,
            reason_text(reason),
        )
        for name, program, status, count, reason in sides
    ]
    moved = f" {100 * example.change:+.3g} points" if example.change else ""
    head = el("summary", el("b", example.task_id), el("span", moved, class_="passed" if example.change > 0 else "failed"))
    return el(
        "details",
        head,
        el("p", example.prompt, class_="prompt"),
        el("div", *columns, class_="pair"),
        open="" if is_open else None,
    )


def status_text(status: str) -> Node:
    """Return an outcome in its colour."""
    return el("span", status.replace("_", " "), class_="passed" if status == "passed" else "failed")
