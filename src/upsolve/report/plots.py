"""Plots as SVG text, in the palette of Okabe and Ito, which colour-blind readers can distinguish.

Text, axes and error bars have the text colour of the page (``currentColor``), so that a plot is legible in light and dark mode.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from upsolve.errors import counted
from upsolve.evaluate.calibration import Calibration
from upsolve.evaluate.intervals import Estimate, mean_interval
from upsolve.evaluate.scores import Evaluation, Sweep, outcome_mix, task_pass_at_k
from upsolve.report.tables import difficulties

__all__ = [
    "change_by_task",
    "gains_of_methods",
    "outcomes",
    "pass_by_difficulty",
    "pass_by_temperature",
    "reliability",
    "svg",
]

SERIES = ("#7f8c8d", "#0072b2", "#009e73", "#d55e00", "#cc79a7")
"""Colours of models in their order: the base model is grey, the trained one blue, as in the bars of ``block.css``."""
CONTROL = "#b07d00"
"""Colour of controls, as there."""
STATUS = {
    "passed": "#009e73",
    "failed": "#e69f00",
    "runtime_error": "#d55e00",
    "compile_error": "#882255",
    "timeout": "#56b4e9",
    "memory_limit": "#0072b2",
    "output_limit": "#cc79a7",
    "unscored": "#bbbbbb",
}
DARK_LABEL = frozenset({"failed", "timeout", "output_limit", "unscored"})
"""Statuses drawn in a light colour, which need a dark label."""
ABOVE: Any = {"frameon": False, "loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 2, "fontsize": 8}
"""Position of a legend above the axes, where it covers nothing."""
LEAST = 5
"""Smallest height of an axis, points: if all values are equal, matplotlib would choose 0.05."""
WIDTH = 4.8
"""Width of a plot, inches: its labels are legible at the width of a phone, and two plots are side by side on a desktop."""
INK = "#010203"
"""Placeholder for the page's text colour while matplotlib draws."""
SCHEME = "<style>svg { color: #1d2329 } @media (prefers-color-scheme: dark) { svg { color: #e6e9ec } }</style>"
"""Text colours of the page, for a plot in a separate file."""
THEME: Any = {f"{name}color": INK for name in ("text.", "axes.edge", "axes.label", "axes.title", "xtick.", "ytick.")}


def svg(figure: Figure) -> str:
    """Return a figure as SVG text to embed in an HTML page."""
    out = io.StringIO()
    figure.savefig(out, format="svg", bbox_inches="tight", transparent=True, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    start = text.index("<svg")
    head = text.index(">", start) + 1
    return f"{text[start:head]}{SCHEME}{text[head:]}".replace(INK, "currentColor")


def plot(height: float) -> tuple[Figure, Axes]:
    """Return a figure of this height, inches, with its only axes."""
    figure = Figure(figsize=(WIDTH, height))
    return figure, figure.add_subplot()


def percentages(axes: Axes, label: str) -> None:
    """Label the vertical axis in percent; put a legend above the plot if it has several entries."""
    axes.set_ylabel(label)
    axes.set_ylim(0, max(LEAST, axes.get_ylim()[1]))
    if axes.containers or axes.lines:
        axes.legend(**ABOVE)
    simplify_axes(axes)


def samples_text(evaluation: Evaluation) -> str:
    """Return the number of scored samples per task of an evaluation, a range if it differs."""
    counts = [score.samples for score in evaluation.scores if score.samples]
    least, most = min(counts, default=0), max(counts, default=0)
    if least == most:
        return f"{counted(most, 'sample')} a task" if most else "no sample"
    return f"{least}–{most} samples a task"


def simplify_axes(axes: Axes) -> None:
    """Remove the frame on two sides and draw a faint horizontal grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis="y", color="#888888", alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)


@rc_context(THEME)
def pass_by_difficulty(evaluations: Sequence[Evaluation], k: int = 1) -> str:
    """Draw pass@k by difficulty with 95 % intervals, one bar per evaluation."""
    labels = ["all", *[name for name in difficulties(evaluations[0].scores) if name]]
    figure, axes = plot(3.4)
    width = 0.8 / len(evaluations)
    for index, evaluation in enumerate(evaluations):
        for position, label in enumerate(labels):
            values = list(task_pass_at_k([s for s in evaluation.scores if label in ("all", s.difficulty)], k).values())
            if not values:
                continue
            estimate = mean_interval(values)
            at = position + (index - (len(evaluations) - 1) / 2) * width
            name = f"{evaluation.name} ({samples_text(evaluation)})" if position == 0 else None
            axes.bar(at, 100 * estimate.mean, width * 0.92, color=SERIES[index % len(SERIES)], label=name)
            if estimate.low == estimate.low:
                axes.vlines(at, 100 * estimate.low, 100 * estimate.high, color=INK, linewidth=1.2)
            top = estimate.high if estimate.high == estimate.high else estimate.mean
            axes.text(at, 100 * top + 1, f"{100 * estimate.mean:.1f}", ha="center", fontsize=8)
    scores = evaluations[0].scores
    sizes = [sum(label in ("all", score.difficulty) for score in scores) for label in labels]
    axes.set_xticks(
        range(len(labels)), [f"{label}\n{counted(size, 'task')}" for label, size in zip(labels, sizes, strict=True)]
    )
    percentages(axes, f"pass@{k}, %")
    return svg(figure)


@rc_context(THEME)
def pass_by_temperature(sweeps: Sequence[Sweep]) -> str:
    """Draw pass@1 on dev tasks against the temperature with 95 % intervals, one line per model. A sharper model has a flatter line, a more capable
    one a higher line."""
    figure, axes = plot(2.8)
    for index, sweep in enumerate(sweeps):
        values = {evaluation.temperature: list(task_pass_at_k(evaluation.scores, 1).values()) for evaluation in sweep.dev}
        points = [(at, mean_interval(task_values)) for at, task_values in values.items() if task_values and at is not None]
        if not points:
            continue
        colour, shift = SERIES[index % len(SERIES)], 0.012 * index  # shifted, so that equal points do not overlap
        name = f"{sweep.name} ({counted(len(sweep.dev[0].scores), 'dev task')})"
        means = [100 * estimate.mean for _, estimate in points]
        axes.plot([at + shift for at, _ in points], means, color=colour, marker="o", markersize=4, label=name)
        for at, estimate in points:
            if estimate.low == estimate.low:
                axes.vlines(at + shift, 100 * estimate.low, 100 * estimate.high, color=colour, lw=1)
    axes.set_xlabel("temperature (0: greedy)")
    percentages(axes, "pass@1 on dev tasks, %")
    return svg(figure)


@rc_context(THEME)
def outcomes(evaluations: Sequence[Evaluation]) -> str:
    """Draw the share of samples by status, one bar per evaluation."""
    figure, axes = plot(0.8 + 0.55 * len(evaluations))
    mixes = [outcome_mix(evaluation.scores) for evaluation in evaluations]
    left = np.zeros(len(evaluations))
    for status, colour in STATUS.items():
        shares = np.array([100 * mix.get(status, 0.0) for mix in mixes])
        if shares.any():
            axes.barh(range(len(mixes)), shares, left=left, color=colour, label=status.replace("_", " "))
            for row, share in enumerate(shares):
                if share >= 4:
                    ink = "#1d2329" if status in DARK_LABEL else "white"
                    axes.text(left[row] + share / 2, row, f"{share:.0f}", ha="center", va="center", fontsize=8, color=ink)
            left += shares
    counts = [sum(sum(score.statuses.values()) for score in evaluation.scores) for evaluation in evaluations]
    names = [f"{evaluation.name}\n{counted(count, 'sample')}" for evaluation, count in zip(evaluations, counts, strict=True)]
    axes.set_yticks(range(len(mixes)), names)
    axes.invert_yaxis()
    axes.set_xlabel("share of samples, %")
    axes.spines[["top", "right", "left"]].set_visible(False)
    if axes.containers:
        axes.legend(frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.35 / len(mixes) - 0.2), fontsize=8)
    return svg(figure)


@rc_context(THEME)
def change_by_task(before: Evaluation, after: Evaluation, k: int = 1) -> str:
    """Draw the change in pass@k of each task for which it is defined in both evaluations, sorted."""
    first, second = task_pass_at_k(before.scores, k), task_pass_at_k(after.scores, k)
    change = sorted((100 * (second[name] - first[name]) for name in first if name in second), reverse=True)
    figure, axes = plot(2.2)
    axes.bar(range(len(change)), change, color=[SERIES[2] if value > 0 else SERIES[3] for value in change], width=0.85)
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_ylabel(f"change in pass@{k}, points")
    low, high = axes.get_ylim()
    axes.set_ylim(min(-LEAST, low), max(LEAST, high))
    up, down = sum(value > 0 for value in change), sum(value < 0 for value in change)
    axes.set_xlabel(f"{counted(len(change), 'task')}, sorted: {up} better, {down} worse, {len(change) - up - down} as before")
    axes.set_xticks([])
    simplify_axes(axes)
    return svg(figure)


@rc_context(THEME)
def reliability(calibrations: Sequence[Calibration]) -> str:
    """Draw the share of programs that passed by the mean score of each bin, one panel per score. On the diagonal, a score is a probability."""
    lines = -(-len(calibrations) // 2)
    figure = Figure(figsize=(WIDTH, 2.4 * lines), layout="constrained")
    for position, one in enumerate(calibrations):
        axes = figure.add_subplot(lines, 2, position + 1)
        axes.plot([row.mean_score for row in one.bins], [100 * row.passed for row in one.bins], color=SERIES[1], marker="o")
        if one.brier is not None:
            axes.plot((0, 1), (0, 100), color=SERIES[0], linestyle="--", linewidth=1)
        axes.set_title(f"{one.name} (n = {one.programs:,}, AUC {one.auc:.3f})", fontsize=8, loc="left")
        axes.set_ylim(0, 105)
        axes.set_ylabel("passed, %", fontsize=8)
        axes.set_xlabel("score", fontsize=8)
        simplify_axes(axes)
    return svg(figure)


@rc_context(THEME)
def gains_of_methods(gains: Mapping[str, tuple[Estimate, bool]]) -> str:
    """Draw gains in pass@1 with 95 % intervals, one line per method; ``gains``: name -> gain, and whether the method is a control."""
    figure, axes = plot(0.7 + 0.38 * len(gains))
    for place, (gain, control) in enumerate(gains.values()):
        colour = CONTROL if control else SERIES[1]
        axes.hlines(place, 100 * gain.low, 100 * gain.high, color=colour, linewidth=2)
        axes.plot(100 * gain.mean, place, "o", color=colour)
        label, point = f"{100 * gain.mean:+.1f}", (100 * gain.mean, place)
        axes.annotate(label, point, xytext=(0, 5), textcoords="offset points", ha="center", fontsize=8)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(range(len(gains)), [f"{name}{' (control)' if control else ''}" for name, (_, control) in gains.items()])
    axes.set_ylim(len(gains) - 0.5, -0.7)
    axes.set_xlabel("gain in pass@1 over the base model, points")
    simplify_axes(axes)
    axes.grid(visible=True, axis="x", color="#888888", alpha=0.25, linewidth=0.6)
    return svg(figure)
