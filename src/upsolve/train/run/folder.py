"""The folder of a run: its files, the check that it belongs to the recipe, and the clean-up after the run.

recipe.yaml      the resolved recipe                      checkpoint.pt   to resume from; removed at the end
metrics.jsonl    one row per step, and one before         best/           weights of the best step; removed at the end
summary.json     written last: the run is finished        model/          final weights and tokenizer
groups/          the groups of every round
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from upsolve.config import ModelConfig, Recipe, dump_recipe, load_recipe
from upsolve.errors import ConfigError, TrainingError, one_line
from upsolve.files import commit_folder
from upsolve.train.run.monitor import read_steps
from upsolve.types import html_facts

__all__ = [
    "BEST",
    "CHECKPOINT",
    "MODEL",
    "SUMMARY",
    "Trained",
    "claim",
    "claim_run",
    "flat",
    "link_or_copy",
    "listed",
    "load_trained",
    "remove_leftovers",
    "replace_folder",
]

SUMMARY = "summary.json"
CHECKPOINT = "checkpoint.pt"
MODEL = "model"
BEST = "best"
FREE = (
    *("name", "sample", "evaluate", "model.shard", "model.deepspeed"),
    *("model.gradient_checkpointing", "optim.deterministic", "optim.tokens_per_batch"),
    *("verify.cache", "verify.executor", "verify.workers"),
    *("monitor.keep_checkpoints", "monitor.save_every", "monitor.snapshot_every", "monitor.stop_on_collapse"),
    *("monitor.project", "monitor.trackers"),
)
"""Keys that a started run may change: they do not affect training, up to the rounding of sums."""
LIMITS = ("monitor.max_likelihood_drop", "monitor.min_entropy", "monitor.max_logit_variance", "monitor.max_negative_gap")
"""Keys that a run may change until it is finished: they stop it."""
LENGTHS = ("optim.epochs", "optim.max_steps", "source.rounds")
"""Keys that a started run may raise, to become longer; ``optim.max_steps`` 0 means no limit."""
STARTED = (CHECKPOINT, SUMMARY, "rollouts/attempts/*", "rounds/*")
"""Files with results of a run; a folder without them may be used by another recipe."""


@dataclass(frozen=True, slots=True)
class Trained:
    """A finished run."""

    folder: Path
    """Folder of the final model."""
    steps: int
    """Optimizer steps done."""
    kept_step: int
    """Step whose weights are in ``folder``."""
    collapsed: str
    """Why the run was stopped early; empty if it was not stopped."""
    groups: int
    """Groups trained on, over all epochs."""
    left_out: dict[str, int]
    """Attempts and tasks that were not trained on, by reason, over all epochs."""
    flagged: dict[str, int]
    """Scored attempts that were truncated or that a detector of hacks flagged, by its name, over all epochs."""
    metrics: list[dict[str, float]]
    """One row per step."""
    scoring: str = ""
    """How attempts were scored, such as ``packed rows in bfloat16, attention upsolve_tree``; ``padded texts`` are the slow fallback."""
    start: dict[str, float] = field(default_factory=dict[str, float])
    """Held-out metrics before the first step; empty without held-out attempts."""
    formula: str = ""
    """Content id of the estimator's and the objective's formulas (``objective.losses.formula_id``); empty if unknown."""

    def __repr__(self) -> str:
        return f"Trained({str(self.folder)!r}, {self.text()!r})"

    def _repr_html_(self) -> str:
        """Return the summary, for a notebook."""
        return html_facts("Trained", {name: value for name, value in self.facts().items() if value})

    def facts(self) -> dict[str, Any]:
        """Return the summary as plain data: every field except the metrics of steps."""
        known = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "metrics"}
        return {**known, "folder": str(self.folder)}

    def text(self) -> str:
        """Return a summary in one line."""
        left_out, flagged = listed(self.left_out) or "nothing", listed(self.flagged)
        stopped = f"; stopped: {self.collapsed}" if self.collapsed else ""
        done = f"{self.steps} steps on {self.groups} groups, weights of step {self.kept_step}"
        return f"{done}{stopped}; left out: {left_out}" + (f"; flagged: {flagged}" if flagged else "")


def listed(counts: Mapping[str, int]) -> str:
    """Return counts by reason as text, such as ``3 tasks: none passed``; empty if there are none."""
    return ", ".join(f"{count} {reason}" for reason, count in counts.items())


def changed_keys(old: Recipe, new: Recipe) -> dict[str, tuple[Any, Any]]:
    """Return the keys (``optim.lr``) whose values differ between two recipes, with both values."""
    before, after = flat(old.model_dump(mode="json")), flat(new.model_dump(mode="json"))
    keys = sorted({*before, *after})
    return {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}


def flat(data: Any, prefix: str = "") -> dict[str, Any]:
    """Return the leaves of nested mappings by their dotted key."""
    if not isinstance(data, dict) or not data:
        return {prefix: data}
    return {
        key: leaf for name, each in data.items() for key, leaf in flat(each, f"{prefix}.{name}" if prefix else name).items()
    }


def within(key: str, keys: Sequence[str]) -> bool:
    """Return whether a key is one of the given keys or below one."""
    return any(key == each or key.startswith(f"{each}.") for each in keys)


def makes_longer(key: str, old: Any, new: Any) -> bool:
    """Return whether a change of this key makes a run longer."""
    zero_is_all = key == "optim.max_steps"
    return key in LENGTHS and bool(old) and (new > old or (zero_is_all and new == 0))


def may_change(key: str, old: Any, new: Any) -> bool:
    """Return whether a finished run may have another value of this key, or continue with it."""
    return within(key, FREE) or makes_longer(key, old, new)


def claim(
    folder: Path, recipe: Recipe, *, started: Sequence[str], allowed: Callable[[str, Any, Any], bool], fresh: bool
) -> Recipe:
    """Write the resolved recipe into a folder, unless the folder has results of another recipe, and return it as written.

    A folder without files that match ``started`` is free. ``allowed`` says whether a key may change despite results; a
    TrainingError names keys that may not. ``fresh``: remove an earlier run, with its whole folder, first.
    """
    file = folder / "recipe.yaml"
    if fresh and file.exists():
        shutil.rmtree(folder)
    before: Recipe | None = None
    if file.exists() and any(any(folder.glob(pattern)) for pattern in started):
        try:
            before = load_recipe(file)
        except ConfigError as error:
            raise TrainingError(
                f"{file}: cannot be read ({error}); choose another folder, or start fresh (--fresh removes this run)"
            ) from error
    recipe = recipe.model_copy(update={"model": settled(recipe.model, before.model if before else None)})
    if before:
        refused = {key: values for key, values in changed_keys(before, recipe).items() if not allowed(key, *values)}
        if refused:
            differences = "; ".join(f"{key} was {old!r} and is now {new!r}" for key, (old, new) in refused.items())
            raise TrainingError(
                f"{folder}: holds results of another recipe ({differences}); restore these keys, choose another folder, or start fresh (--fresh removes the results)"
            )
    dump_recipe(recipe, file)
    return recipe


def settled(model: ModelConfig, before: ModelConfig | None) -> ModelConfig:
    """Return the settings with ``bf16: auto`` decided: as in the run ``before`` in the folder, or by the processor."""
    from upsolve.policy.machine import in_bfloat16

    decides = before if before and model.bf16 == "auto" else model
    return model.model_copy(update={"bf16": in_bfloat16(decides)})


def claim_run(folder: Path, recipe: Recipe, *, fresh: bool = False) -> tuple[Recipe, Trained | None]:
    """Claim the folder of a training run; return the recipe as ``claim`` does, and the run if it is finished.

    A run may become longer (``optim.max_steps``, ``optim.epochs``, ``source.rounds``); a finished one needs its checkpoint for
    that (``monitor.keep_checkpoints``). TrainingError: the folder holds another run, or a finished one that cannot continue.
    """
    file = folder / "recipe.yaml"
    before = load_recipe(file) if file.exists() and (folder / SUMMARY).exists() and not fresh else None
    recipe = claim(
        folder,
        recipe,
        started=STARTED,
        allowed=may_change if before else lambda key, old, new: key in LIMITS or may_change(key, old, new),
        fresh=fresh,
    )
    done = load_trained(folder)
    if done is None or before is None or done.collapsed:
        return recipe, done
    grown = [key for key, values in changed_keys(before, recipe).items() if makes_longer(key, *values)]
    if not grown:
        return recipe, done
    if not (folder / CHECKPOINT).exists():
        dump_recipe(before, file)
        raise TrainingError(
            f"{folder}: the run is finished and its checkpoint was removed, so a larger {grown[0]} cannot continue it; start a new run "
            f"from {folder / MODEL} (model.name), or start fresh with monitor.keep_checkpoints: true (--fresh --keep-checkpoints)"
        )
    (folder / SUMMARY).unlink()
    return recipe, None


def load_trained(folder: Path) -> Trained | None:
    """Return the finished run in a folder, None if it is not finished; TrainingError if its summary is damaged, or of another
    version."""
    file = folder / SUMMARY
    if not file.exists():
        return None
    try:
        summary: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return Trained(folder=folder / MODEL, metrics=read_steps(folder / "metrics.jsonl"), **summary)
    except (OSError, TypeError, ValueError) as error:
        raise TrainingError(
            f"{file}: not the summary of a run ({one_line(error)}); restore it from a copy, or start fresh (--fresh removes this run)"
        ) from error


def remove_leftovers(folder: Path) -> None:
    """Remove files that only an unfinished run needs: checkpoint, best weights, scores of rounds, weights for a sampler."""
    (folder / CHECKPOINT).unlink(missing_ok=True)
    for name in (BEST, "policy", "rounds"):
        shutil.rmtree(folder / name, ignore_errors=True)


def link_or_copy(source: str, target: str) -> None:
    """Make ``target`` the same file as ``source``, or a copy if the file system has no hard links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def replace_folder(folder: Path, write: Callable[[Path], object]) -> None:
    """Write a folder under a temporary name, then replace the old one by it."""
    temporary = folder.with_name(folder.name + ".tmp")
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(temporary, ignore_errors=True)
    write(temporary)
    commit_folder(temporary, folder)
