"""Curves of training, with the limits of the monitors, the step at which a run was stopped, and the step whose weights were kept."""

import re
from collections.abc import Mapping, Sequence

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from upsolve.report.plots import INK, SERIES, THEME, simplify_axes, svg

__all__ = ["stopped_at", "training_curves"]

CURVES = {
    "loss": "loss",
    "entropy": "entropy, nats",
    "logp_up": "log-likelihood, A > 0, nats per token",
    "logp_down": "log-likelihood, A < 0, nats per token",
    "heldout_passed_logp": "held-out passed attempts, nats per token",
    "heldout_margin": "held-out passed minus failed, nats per token",
    "heldout_logit_variance": "held-out variance of logits",
    "grad_norm": "gradient norm",
    "ess": "effective sample size",
    "tokens_per_second": "tokens per second",
}
STOP, KEPT = "#d55e00", "#009e73"


def stopped_at(collapsed: str) -> int | None:
    """Return the step that the message of a collapse names; None if there is none."""
    named = re.search(r"\bstep (\d+)\b", collapsed)
    return int(named[1]) if named else None


@rc_context(THEME)
def training_curves(
    rows: Sequence[Mapping[str, float]],
    *,
    limits: Mapping[str, float] | None = None,
    stopped: int | None = None,
    kept: int | None = None,
) -> str:
    """Draw each metric over the optimizer steps; the number of its points is in its title.

    Args:
        rows: metrics, one row per step; a row of step 0 has the held-out metrics before the first step.
        limits: metric -> value beyond which a monitor stops the run, a dashed line.
        stopped: step at which a monitor stopped the run, a line across all curves.
        kept: step whose weights were kept, a line if it is not the last one.
    """
    names = [name for name in CURVES if any(name in row for row in rows)]
    lines = -(-len(names) // 2)
    figure = Figure(figsize=(7.2, 1.7 * max(1, lines)), layout="constrained")
    steps = [row["step"] for row in rows]
    first, last = min(steps, default=0), max(steps, default=0)
    margin = 0.03 * (last - first) or 0.5
    for position, name in enumerate(names):
        axes = figure.add_subplot(lines, 2, position + 1)
        points = [(row["step"], row[name]) for row in rows if name in row]
        axes.plot(
            *zip(*points, strict=True), color=SERIES[1], linewidth=1.4, marker="o" if len(points) < 12 else None, markersize=3
        )
        axes.set_title(f"{CURVES[name]} (n = {len(points)})", fontsize=8, loc="left")
        mark(axes, (limits or {}).get(name), stopped, kept if kept != last else None)
        axes.set_xlim(first - margin, last + margin)
        axes.tick_params(labelsize=7)
        axes.ticklabel_format(axis="y", useOffset=False)  # else labels are differences to a number above the axis
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        simplify_axes(axes)
    return svg(figure)


def mark(axes: Axes, limit: float | None, stopped: int | None, kept: int | None) -> None:
    """Draw the limit of a metric, and the steps at which the run was stopped and whose weights were kept."""
    if limit is not None:
        axes.axhline(limit, color=STOP, linewidth=1, linestyle="--")
    for step, colour, label in ((kept, KEPT, "kept"), (stopped, STOP, "stopped")):
        if step is not None:
            axes.axvline(step, color=colour, linewidth=1.2)
            where = axes.get_xaxis_transform()
            axes.text(step, 1.0, f"{label} {step}", transform=where, fontsize=7, ha="right", va="top", color=INK, rotation=90)
