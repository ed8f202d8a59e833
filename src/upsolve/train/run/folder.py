"""The folder of a run: its files, the check that it belongs to the recipe, and the clean-up after the run.

recipe.yaml      the resolved recipe                      checkpoint.pt   or checkpoint/: to resume from; removed at the end
metrics.jsonl    one row per step, and one before         best/           weights of the best step; removed at the end
summary.json     written last: the run is finished        model/          final weights and tokenizer
groups/          the groups of every round
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from upsolve.config import ModelConfig, Recipe, dump_recipe, load_recipe
from upsolve.config.recipe import leaves
from upsolve.errors import ConfigError, TrainingError, counted, one_line
from upsolve.files import commit_folder
from upsolve.train.run.monitor import read_steps
from upsolve.types import html_facts

__all__ = [
    "BEST",
    "CHECKPOINT",
    "MEASURED",
    "MODEL",
    "PARTS",
    "SUMMARY",
    "UNMEASURED",
    "WEIGHTS",
    "Trained",
    "check_out",
    "claim",
    "claim_run",
    "is_unmeasured",
    "link_or_copy",
    "listed",
    "load_trained",
    "remove_leftovers",
    "replace_folder",
]

SUMMARY = "summary.json"
CHECKPOINT = "checkpoint.pt"
PARTS = "checkpoint"
"""Folder of a checkpoint of which each rank has written its part."""
MODEL = "model"
BEST = "best"
WEIGHTS = "policy"
"""Folder of the weights that engines sample. Nodes with disks of their own have only its ``rounds.json`` (``source.ahead``)."""
FREE = (
    *("name", "sample", "evaluate", "model.shard", "model.deepspeed"),
    *("model.gradient_checkpointing", "optim.deterministic", "optim.tokens_per_batch"),
    *("verify.cache", "verify.executor", "verify.workers"),
    *("monitor.keep_checkpoints", "monitor.save_every", "monitor.snapshot_every", "monitor.stop_on_collapse"),
    *("monitor.project", "monitor.trackers"),
    *(f"source.rollout.server.{key}" for key in ("url", "urls", "key_variable", "timeout_seconds", "retries", "wait_seconds")),
)
"""Keys that a started run may change: they affect training only by the rounding of sums."""
LIMITS = ("monitor.max_likelihood_drop", "monitor.min_entropy", "monitor.max_logit_variance", "monitor.max_negative_gap")
"""Keys that may change until the run is finished, because they only stop it."""
LENGTHS = ("optim.epochs", "optim.max_steps", "source.rounds")
"""Keys that a started run may raise to become longer; ``optim.max_steps`` 0 means no limit."""
UNMEASURED = (
    *("name", "source", "reward", "select", "advantage", "objective", "optim", "monitor", "seed"),
    *("model.lora_rank", "model.lora_alpha", "model.lora_dropout", "model.lora_targets"),
    *("model.gradient_checkpointing", "model.compile", "model.offline", "model.shard", "model.deepspeed"),
    *("data.group_size", "data.groups_per_task", "data.tasks_at_once"),
    *("data.authors", "data.turns", "data.max_tokens", "data.seed"),
    *("verify.workers", "verify.executor", "verify.cache", "evaluate.ks", "evaluate.leaks"),
)
"""Keys that no number in ``base.json`` depends on: only these keys may change once the file exists."""
MEASURED = ("base.json",)
"""Files of ``upsolve run`` with results of the base model."""
STARTED = (CHECKPOINT, PARTS, SUMMARY, "rollouts/attempts/*", "rounds/*")
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
        done = f"{counted(self.steps, 'step')} on {counted(self.groups, 'group')}, weights of step {self.kept_step}"
        return f"{done}{stopped}; left out: {left_out}" + (f"; flagged: {flagged}" if flagged else "")


def listed(counts: Mapping[str, int]) -> str:
    """Return counts by reason as text, such as ``3 tasks: none passed``; empty if there are none."""
    return ", ".join(f"{count} {reason}" for reason, count in counts.items())


def changed_keys(old: Recipe, new: Recipe) -> dict[str, tuple[Any, Any]]:
    """Return the keys (``optim.lr``) whose values differ between two recipes, with both values."""
    before, after = leaves(old.model_dump(mode="json")), leaves(new.model_dump(mode="json"))
    keys = sorted({*before, *after})
    return {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}


def within(key: str, keys: Sequence[str]) -> bool:
    """Return whether a key is one of the given keys, or lies below one of them."""
    return any(key == each or key.startswith(f"{each}.") for each in keys)


def makes_longer(key: str, old: Any, new: Any) -> bool:
    """Return whether a change of this key makes a run longer."""
    zero_is_all = key == "optim.max_steps"
    return key in LENGTHS and bool(old) and (new > old or (zero_is_all and new == 0))


def may_change(key: str, old: Any, new: Any) -> bool:
    """Return whether a run may continue, or stay finished, with another value of this key."""
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
    before = recipe_of_results(folder, started)
    recipe = recipe.model_copy(update={"model": settled(recipe.model, before.model if before else None)})
    refuse_other(folder, changed_keys(before, recipe) if before else {}, allowed)
    dump_recipe(recipe, file)
    return recipe


def recipe_of_results(folder: Path, started: Sequence[str]) -> Recipe | None:
    """Return the recipe of a folder with files that match ``started``; None without results. TrainingError if it cannot be read."""
    file = folder / "recipe.yaml"
    if not (file.exists() and any(any(folder.glob(pattern)) for pattern in started)):
        return None
    try:
        return load_recipe(file)
    except ConfigError as error:
        raise TrainingError(
            f"{file}: cannot be read ({error}); choose another folder, or start fresh (--fresh removes this run)"
        ) from error


def refuse_other(folder: Path, changed: Mapping[str, tuple[Any, Any]], allowed: Callable[[str, Any, Any], bool]) -> None:
    """Raise TrainingError, naming all keys, if a ``changed`` key (``changed_keys``) is not ``allowed`` to change after results exist."""
    if refused := {key: values for key, values in changed.items() if not allowed(key, *values)}:
        differences = "; ".join(f"{key} was {old!r} and is now {new!r}" for key, (old, new) in refused.items())
        raise TrainingError(
            f"{folder}: holds results of another recipe ({differences}); restore these keys, choose another folder, or start fresh (--fresh removes the results)"
        )


def check_out(folder: Path, recipe: Recipe, *, evaluates: bool = False, fresh: bool) -> None:
    """Check the folder of a run as ``claim`` does, without torch, and write nothing; ``model.bf16`` is compared by ``claim`` only.

    Args:
        folder: of ``upsolve train``, or of ``upsolve run``, which ``evaluates`` and trains in ``training/``.
        recipe: all settings.
        fresh: an earlier run will be removed.

    Raises:
        OSError: the folder cannot be made or written.
        TrainingError: the folder holds results of another recipe.
    """
    place = next(part for part in (folder, *folder.absolute().parents) if part.exists())
    try:
        Path(tempfile.mkdtemp(dir=place)).rmdir()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from error
    if fresh:
        return
    checked = ((folder, MEASURED, is_unmeasured), (folder / "training", STARTED, may_change))
    for path, started, allowed in checked if evaluates else ((folder, STARTED, may_change),):
        if before := recipe_of_results(path, started):
            is_unfinished = allowed is may_change and not (path / SUMMARY).exists()
            same = recipe.model_copy(update={"model": recipe.model.model_copy(update={"bf16": before.model.bf16})})
            refuse_other(path, changed_keys(before, same), may_change_early if is_unfinished else allowed)


def is_unmeasured(key: str, _old: Any, _new: Any) -> bool:
    """Return whether a key may change once the base is measured."""
    return within(key, UNMEASURED)


def may_change_early(key: str, old: Any, new: Any) -> bool:
    """Return whether a started run that is not finished may continue with another value of this key."""
    return key in LIMITS or may_change(key, old, new)


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
        allowed=may_change if before else may_change_early,
        fresh=fresh,
    )
    done = load_trained(folder)
    if done is None or before is None or done.collapsed:
        return recipe, done
    grown = [key for key, values in changed_keys(before, recipe).items() if makes_longer(key, *values)]
    if not grown:
        return recipe, done
    if not any((folder / name).exists() for name in (CHECKPOINT, PARTS)):
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
    for name in (PARTS, BEST, WEIGHTS, "rounds"):
        shutil.rmtree(folder / name, ignore_errors=True)


def link_or_copy(source: str, target: str) -> None:
    """Make ``target`` the same file as ``source``, or a copy if the file system has no hard links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def replace_folder(folder: Path, write: Callable[[Path], object]) -> None:
    """Write a folder under a temporary name, then replace the old folder with it."""
    temporary = folder.with_name(folder.name + ".tmp")
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(temporary, ignore_errors=True)
    write(temporary)
    commit_folder(temporary, folder)
