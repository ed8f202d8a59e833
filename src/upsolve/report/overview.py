"""The overview of a run: verdict, large numbers, what was run, curves, the tasks that changed most. Reports and the viewer show the same."""

import re
from collections.abc import Mapping, Sequence

from upsolve.errors import counted
from upsolve.evaluate.capability import Capability
from upsolve.evaluate.comparison import DECIDABLE, interval_text
from upsolve.evaluate.intervals import Estimate, mean_interval
from upsolve.evaluate.scores import Sweep, TaskScore, error_mix, outcome_mix, task_pass_at_k, temperature_name
from upsolve.report.blocks import Node, Points, bars, curve, el, listing
from upsolve.report.content import Change, Example, Gain, ReportContent, changes_of
from upsolve.report.programs import program_pair, reason_text
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
"""Tasks of the overview: those whose pass rate changed most."""
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
"""Metric -> name of its curve in reports and the viewer, in their order; the overview has the first three."""


def overview_block(content: ReportContent) -> Node:
    """Return the overview of a run, of evaluations, or of a run that is not finished."""
    changes = changes_of(content) if len(content.sweeps) > 1 else []
    most = most_changed(content.examples)
    curves = curves_of(content, [*CURVES][:3])
    commands = {purpose: el("code", command) for purpose, command in content.next_steps.items()}
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
        numbers_block(content, changes[0] if changes else None),
        *([el("h2", "Data, recipe, cost"), listing(content.summary)] if content.summary else []),
        *(part for change in changes if not change.label for part in capability_block(change.capability)),
        *(titled(failure_table([sweep.best for sweep in content.sweeps], content.messages)) if content.sweeps else ()),
        *([el("h2", "Tasks that changed most"), *(example_block(one, is_open=one is most[0]) for one in most)] if most else []),
        *([el("div", *curves, class_="curves")] if curves else []),
        *([el("h2", "What to do next"), listing(commands)] if commands else []),
    ]
    return el("div", *parts, class_="overview")


def most_changed(examples: Sequence[Example]) -> list[Example]:
    """Return the examples of the overview, the largest change first."""
    return sorted(examples, key=lambda one: -abs(one.change))[:MOST_CHANGED]


def unfinished(content: ReportContent) -> str:
    """Return how far a run is that has no comparison of two models."""
    steps = int(max((row["step"] for row in content.training), default=0))
    if not content.training:
        return "Not trained yet." if len(content.sweeps) < 2 else ""
    return f"Not finished: {counted(steps, 'step')} of training so far, the trained model is not evaluated yet."


def verdict_block(change: Change, controls: Sequence[Gain] = ()) -> Node:
    """Return the conclusion about a model, and below it how much control runs leave of the gain, and what limits this conclusion."""
    about = change.capability
    evidence = f"95 % intervals over tasks; {about.best.evidence}" if about.best.evidence else ""
    beyond = [
        f"Of this, {interval_text(one.beyond)} points are beyond the same training with {one.name}, which gains {interval_text(one.gain)}."
        for one in controls
    ]
    lines = [el("p", line) for line in beyond] + ([el("p", evidence, class_="soft")] if evidence else [])
    lines += [el("p", line) for line in (*about.warnings, *change.drops)]
    title, _, numbers = about.sentence.partition(": ")
    head = (el("b", change.label + title), el("p", numbers or None))
    return el("div", *head, *lines, class_=f"verdict {about.conclusion.replace(' ', '-')}")


def capability_block(about: Capability) -> tuple[Node, ...]:
    """Return the comparison of two models by measure, and below it what choosing among samples gives."""
    return (*titled(capability_table(about)), *(el("p", line, class_="soft") for line in about.choices))


def titled(table: Table) -> tuple[Node, Node]:
    """Return a table under its title."""
    return el("h2", table.title), table_block(table)


def table_block(table: Table) -> Node:
    """Return a table, which scrolls where the page is too narrow for its columns."""
    kinds = ["number" if right else None for right in table.numeric]
    heads = [
        el("th", name, scope="col", class_=kind) if name else el("td") for name, kind in zip(table.header, kinds, strict=True)
    ]
    rows = [el("tr", *(el("td", cell, class_=kind) for cell, kind in zip(row, kinds, strict=True))) for row in table.rows]
    inside = el("table", el("thead", el("tr", *heads)), el("tbody", *rows))
    return el("div", inside, class_="wide", tabindex="0", role="region", aria_label=table.title)


def warnings_block(warnings: Sequence[str]) -> Node:
    """Return reasons to doubt the numbers of a run."""
    return el("div", *(el("p", el("b", "Warning: "), warning) for warning in warnings), class_="verdict warning")


def numbers_block(content: ReportContent, change: Change | None) -> Node:
    """Return pass@1 of each model, its change, and the gains of control runs, as large numbers."""
    cards = [model_card(sweep) for sweep in content.sweeps]
    if change and change.capability.best.paired:
        difference = change.capability.best.paired.difference
        cards.append(card("change, points", f"{100 * difference.mean:+.1f}", interval(difference, sign="+"), "paired by task"))
    for control in content.controls:
        gain = f"the same training with {control.name} gains {interval_text(control.gain)}"
        number, between = f"{100 * control.beyond.mean:+.1f}", interval(control.beyond, sign="+")
        cards.append(card("gain beyond the control", number, between, gain))
    if change and not content.controls and content.summary:
        cards.append(
            card("gain beyond the control", "–", "", "no control run yet: the commands under What to do next start one")
        )
    return el("div", *cards, class_="numbers")


def bars_block(content: ReportContent) -> list[Node]:
    """Return pass@1 of two models as bars, and of what the same training with other verdicts made of the first; [] of too few tasks."""
    known = {sweep.name: pass_at_1(sweep) for sweep in content.sweeps}
    if len(known) != 2 or any(one is None or one.tasks < DECIDABLE for one in known.values()):
        return []
    rows = {name: (one.mean, one.low, one.high) for name, one in known.items() if one}
    start = next(iter(rows.values()))[0]
    for control in content.controls:
        gain = control.gain
        rows[f"trained with {control.name}"] = (start + gain.mean, start + gain.low, start + gain.high)
    return [bars("Share of test tasks solved with one sample (pass@1), with 95 % interval", rows)]


def pass_at_1(sweep: Sweep) -> Estimate | None:
    """Return the pass@1 of a model at its best temperature, None without a scored task."""
    values = [*task_pass_at_k(sweep.best.scores, 1).values()]
    return mean_interval(values) if values else None


def model_card(sweep: Sweep) -> Node:
    """Return the pass@1 of a model at its best temperature."""
    known = pass_at_1(sweep)
    how = temperature_name(sweep.best.temperature).replace("T ", "temperature ").replace("greedy", "greedy decoding")
    notes = (f"pass@1, {how}, {counted(known.tasks if known else 0, 'task')}", *failures(sweep.best.scores))
    return card(sweep.name, f"{percent(known.mean if known else None)} %", interval(known) if known else "", *notes)


def failures(scores: Sequence[TaskScore]) -> list[str]:
    """Return the most frequent outcome of samples that did not pass, and their most frequent error, as a line; [] if all passed."""
    outcomes = ((name, share) for name, share in outcome_mix(scores).items() if name not in (Status.PASSED, Status.UNSCORED))
    first = [next(mix, None) for mix in (outcomes, iter(error_mix(scores).items()))]
    named = [f"{name.replace('_', ' ')}, {percent(share)} %" for name, share in filter(None, first)]
    return [f"most frequent failure: {' of all samples; most frequent error: '.join(named)}"] if named else []


def card(label: str, number: str, between: str, *notes: str) -> Node:
    """Return a large number with its interval."""
    lines = [el("span", between, class_="interval")] if between else []
    head = (el("span", label, class_="label"), el("span", number, class_="large"), *lines)
    return el("div", *head, *(el("span", note, class_="soft") for note in notes))


def interval(estimate: Estimate, *, sign: str = "") -> str:
    """Return an interval in percent or points; of too few tasks, that there is none."""
    if estimate.tasks < DECIDABLE:
        return "no interval"
    return f"[{100 * estimate.low:{sign}.1f}, {100 * estimate.high:{sign}.1f}]"


def logged(rows: Sequence[Mapping[str, float]]) -> list[str]:
    """Return the metrics of the log of a run that have a curve, those of a plug-in last."""
    names = {name for row in rows for name in row} - {"step", "round"}
    return [*(name for name in CURVES if name in names), *sorted(names - {*CURVES})]


def curve_name(metric: str) -> str:
    """Return the name of the curve of a metric."""
    return CURVES.get(metric, metric.replace("_", " "))


def curves_of(content: ReportContent, names: Sequence[str]) -> list[Node]:
    """Return the curves of these metrics of training, with the limits of the monitor, and where the run stopped or what it kept."""
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
    """Return a task with a program of each model, and why one of them failed."""
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
