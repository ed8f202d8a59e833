"""Monitors of a run: the log, held-out metrics, warnings, and the checks for a collapse."""

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from upsolve.config import MonitorConfig, ObjectiveConfig
from upsolve.errors import CollapseError, ConfigError
from upsolve.extras import needs_extras
from upsolve.files import json_lines, read_rows, write_text
from upsolve.types import content_id

if TYPE_CHECKING:
    from upsolve.train.data.pack import PackedBatch
    from upsolve.train.update.logprobs import TokenScores

__all__ = ["Log", "advice_after", "check_health", "held_out", "limits_of", "read_steps", "warn_of"]

CLIPPED = 0.9
"""Share of clipped tokens above which a step is warned about."""


class Log:
    """The log of a run: one row per step, and one before the first, in metrics.jsonl, in TensorBoard and at the trackers of the recipe."""

    def __init__(
        self,
        folder: Path,
        config: MonitorConfig,
        start: Mapping[str, float],
        *,
        keep_steps: int,
        keep_rounds: int,
        writes: bool = True,
    ) -> None:
        """Open the log of a run that resumes after ``keep_steps`` steps and ``keep_rounds`` rounds; later rows are dropped. One
        process ``writes``."""
        self.file, self.board = folder / "metrics.jsonl", None
        rows = [row for row in read_steps(self.file) if row["step"] <= keep_steps]
        self.rows = [row for row in rows if "loss" in row or row["round"] < keep_rounds]
        first = [{"step": 0.0, **start}] if start else []
        self.trackers: list[Tracker] = []
        if not writes:
            return
        from torch.utils.tensorboard.writer import SummaryWriter

        write_text(self.file, json_lines((*first, *self.rows)))
        self.board = SummaryWriter(str(folder / "tensorboard"), purge_step=keep_steps + 1)
        self.trackers = open_trackers(config.trackers, config.project, folder)
        for row in () if self.rows else first:
            self.show(row)

    def write(self, row: Mapping[str, float]) -> None:
        """Append the row of one step."""
        self.rows.append(dict(row))
        if not self.board:
            return
        with self.file.open("a", encoding="utf-8") as out:
            out.write(json_lines([row]))
        self.show(row)

    def show(self, row: Mapping[str, float]) -> None:
        """Give a row to TensorBoard and the trackers."""
        assert self.board is not None, "the process that writes"
        for name, value in row.items():
            if name != "step":
                self.board.add_scalar(name, value, int(row["step"]))
        for tracker in self.trackers:
            tracker.write(row)

    def note(self, name: str, text: str) -> None:
        """Write a text to TensorBoard."""
        if self.board:
            self.board.add_text(name, text, 0)

    def close(self) -> None:
        """Flush and close TensorBoard's file and the trackers."""
        if self.board:
            self.board.close()
        for tracker in self.trackers:
            tracker.close()


def read_steps(file: Path) -> list[dict[str, float]]:
    """Return the rows of the steps of a log, and of rounds without one; not the row before the first step, which has no round."""
    return [row for row in read_rows(file) if "round" in row]


def held_out(score: "Callable[[PackedBatch], TokenScores]", batches: "Sequence[PackedBatch]") -> dict[str, float]:
    """Return mean log-probabilities per token of held-out attempts, nats: passed, failed, and the difference (``heldout_margin``); and the
    variance of the logits over the vocabulary, mean over their tokens.

    In the batches, passed attempts have advantage 1, failed ones -1.
    """
    import torch

    passed: list[float] = []
    failed: list[float] = []
    variance: list[float] = []
    for batch in batches:
        with torch.no_grad():  # not inference_mode: parameters that FSDP2 gathers in it cannot be trained
            scores = score(batch)
        logp = scores.logp_T.float().cpu().numpy()
        variance += scores.logit_variance_T.tolist()
        sizes = np.bincount(batch.attempt_T)
        means = np.bincount(batch.attempt_T, weights=logp) / sizes
        up = batch.advantages_T[np.cumsum(sizes) - 1] > 0
        passed += means[up].tolist()
        failed += means[~up].tolist()
    row = {"heldout_logit_variance": float(np.mean(variance))} if variance else dict[str, float]()
    if passed:
        row["heldout_passed_logp"] = float(np.mean(passed))
    if failed:
        row["heldout_failed_logp"] = float(np.mean(failed))
    if passed and failed:
        row["heldout_margin"] = row["heldout_passed_logp"] - row["heldout_failed_logp"]
    return row


def warn_of(row: Mapping[str, float], config: MonitorConfig, objective: ObjectiveConfig) -> None:
    """Warn of a step in which more than ``CLIPPED`` of the tokens have no gradient, or whose drift exceeds ``monitor.max_drift``.

    The advice names ``objective.correction`` only if it is not set and the objective supports it.
    """
    if row.get("clipped", 0.0) > CLIPPED:
        warnings.warn(
            f"step {row['step']:.0f}: {row['clipped']:.0%} of the tokens are clipped and have no gradient; use fewer passes "
            "(optim.epochs), a lower optim.lr, a wider objective.clip, or an objective without a ratio",
            stacklevel=2,
        )
    if row.get("drift", 0.0) > config.max_drift:
        advice = "sample at temperature 1 in the trainer's precision, or lower source.ahead or source.replay_rounds"
        if objective.correction.kind != "none":
            advice = f"objective.correction cut {row.get('corrected', 0.0):.0%} of the weights; {advice}"
        elif objective.record.advantages == "token" and objective.record.unit != "pair":
            advice = f"set objective.correction.kind (tis, icepop), {advice}"
        warnings.warn(
            f"step {row['step']:.0f}: sampler and trainer differ by {row['drift']:.3f} nats per token, more than monitor.max_drift "
            f"{config.max_drift}; {advice}",
            stacklevel=2,
        )


def check_health(row: Mapping[str, float], start: Mapping[str, float], config: MonitorConfig) -> None:
    """Check the row of a step for a collapse, or for one of the two signs that precede it (2609.11956), by ``limits_of``.

    CollapseError, with step and numbers: the loss or the gradient is not finite, the entropy is below ``min_entropy``, or the log-probability of
    held-out passed attempts fell by more than ``max_likelihood_drop``. With ``ahead``: the held-out logit variance is more than
    ``max_logit_variance`` times that of the start, or the margin between passed and failed held-out attempts grew by more than
    ``max_negative_gap`` because the failed ones fell.
    """
    step, limits = int(row["step"]), limits_of(start, config)
    if not np.isfinite(row["loss"]) or not np.isfinite(row["grad_norm"]):
        raise CollapseError(f"step {step}: the loss or the gradient is not finite")
    for name, (is_upper, message) in LIMITS.items():
        limit, value = limits.get(name), row.get(name)
        if limit is None or value is None or not (value > limit if is_upper else value < limit):
            continue
        before, fell = start.get(name, np.nan), start.get("heldout_failed_logp", 0.0) - row.get("heldout_failed_logp", np.inf)
        if name != "heldout_margin" or fell > 0:
            told = message.format(now=value, before=before, grown=value - before, fell=fell, config=config)
            raise CollapseError(f"step {step}: {told}", ahead=is_upper)


LIMITS: Mapping[str, tuple[bool, str]] = {
    "entropy": (False, "entropy {now:.4f} nats is below monitor.min_entropy {config.min_entropy}"),
    "heldout_passed_logp": (
        False,
        "held-out passed attempts fell from {before:.3f} to {now:.3f} nats per token, by more than monitor.max_likelihood_drop "
        "{config.max_likelihood_drop}",
    ),
    "heldout_logit_variance": (
        True,
        "held-out logit variance grew from {before:.2f} to {now:.2f}, more than monitor.max_logit_variance "
        "{config.max_logit_variance} times",
    ),
    "heldout_margin": (
        True,
        "held-out failed attempts fell by {fell:.3f} nats per token and the gap to passed ones grew by {grown:.3f}, more than "
        "monitor.max_negative_gap {config.max_negative_gap}",
    ),
}
"""Metric -> whether its limit is an upper one, which says that a collapse is ahead, and the message."""


def advice_after(collapsed: str, keep: str) -> str:
    """Return advice for a run that collapsed before any weights were saved, by collapse and ``monitor.keep``."""
    again = "set monitor.keep: best" if keep == "last" else "lower optim.lr, or monitor.eval_every to measure earlier"
    limited = "monitor." in collapsed
    return f"{again} (--fresh){'; with another limit the same command resumes from the last checkpoint' if limited else ''}"


def limits_of(start: Mapping[str, float], config: MonitorConfig) -> dict[str, float]:
    """Return the value of each metric beyond which ``check_health`` stops a run: a lower limit of ``entropy`` and ``heldout_passed_logp``, an upper
    one of ``heldout_logit_variance`` and ``heldout_margin``; limits that are not set, or whose metric is not in ``start``, are left out."""
    limits = {
        "entropy": config.min_entropy,
        "heldout_passed_logp": start.get("heldout_passed_logp", np.nan) - config.max_likelihood_drop,
        "heldout_logit_variance": (start.get("heldout_logit_variance") or np.nan) * (config.max_logit_variance or np.nan),
        "heldout_margin": start.get("heldout_margin", np.nan) + (config.max_negative_gap or np.nan),
    }
    return {name: limit for name, limit in limits.items() if np.isfinite(limit)}


class Tracker:
    """A run as recorded by an experiment tracker."""

    def __init__(self, name: str, project: str, folder: Path) -> None:
        """Open the run, or continue it if it is there; it is named after the run's folder, and has the recipe as its
        configuration."""
        with needs_extras(), silent():
            self.module: Any = import_module(name)
        run = folder.parent.name if folder.name == "training" else folder.name
        recipe = folder / "recipe.yaml"
        config = yaml.safe_load(recipe.read_text(encoding="utf-8")) if recipe.is_file() else {}
        own: dict[str, Any] = {}
        if name == "wandb":
            own = {"id": content_id(str(folder.resolve())), "dir": str(folder), "settings": self.module.Settings(silent=True)}
        try:
            with silent():
                self.run: Any = self.module.init(project=project, name=run, config=config, resume="allow", **own)
        except Exception as error:  # the trackers have no common exception
            hint = "; WANDB_MODE=offline needs no account" if name == "wandb" else ""
            raise ConfigError(
                f"monitor.trackers: the tracker {name} does not start ({type(error).__name__}: {error}){hint}"
            ) from error

    def write(self, row: Mapping[str, float]) -> None:
        """Log the row of a step."""
        with silent():
            self.run.log({name: value for name, value in row.items() if name != "step"}, step=int(row["step"]))

    def close(self) -> None:
        """Finish the run. trackio would finish it again at the end of the process, unless its own function does so."""
        with silent():
            self.module.finish()


def silent() -> redirect_stdout[io.StringIO]:
    """Return a context that keeps messages of trackio out of standard output, which holds the JSON of ``--json``."""
    return redirect_stdout(io.StringIO())


def open_trackers(names: Sequence[str], project: str, folder: Path) -> list[Tracker]:
    """Return the trackers of a run; raises as ``Tracker``."""
    return [Tracker(name, project, folder) for name in names]
