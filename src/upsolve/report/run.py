"""The content of a report on the folder of a run."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upsolve import __version__
from upsolve.archive.groups import Lazy
from upsolve.archive.split import Split, split_archive
from upsolve.archive.store import Archive, open_filled
from upsolve.config import AdvantageConfig, ModelConfig, Recipe, SampleConfig, load_recipe, recipe_yaml
from upsolve.errors import ArchiveError
from upsolve.evaluate.calibration import Calibration, calibrations
from upsolve.evaluate.own import load_stages
from upsolve.evaluate.runs import load_run
from upsolve.evaluate.sweep import Sweep
from upsolve.files import write_text
from upsolve.report.content import ReportContent, pick_examples
from upsolve.report.markdown import markdown_of
from upsolve.report.several import seeds_of
from upsolve.reward.formula import Rewarded
from upsolve.train.data.drawn import FOLDER, attempt_key, recorded_keys
from upsolve.train.data.groups import rewards_of, select
from upsolve.train.run.folder import Trained, load_trained
from upsolve.train.run.monitor import limits_of

if TYPE_CHECKING:
    from upsolve.evaluate.benchmarks import HeldOut

__all__ = ["facts_of", "read_run", "rewarded_of", "run_content", "write_run_report"]

FACTS = "facts.json"
"""Model, machine, versions, ... of the run, in its folder."""


def write_run_report(folder: Path, content: ReportContent) -> None:
    """Write ``report.html``, ``report.md`` and the facts of a run into its folder."""
    from upsolve.report.html import write_report  # needs the extra `report`, which reading a run does not

    write_text(folder / FACTS, json.dumps(dict(content.facts), indent=1, ensure_ascii=False))
    write_report(folder / "report.html", content)
    write_text(folder / "report.md", markdown_of(content))


def read_run(folder: Path) -> ReportContent:
    """Return the content of a report on a finished run; ConfigError names a missing file."""
    recipe, before, after = load_run(folder)
    sweeps = (before, after)
    facts: Mapping[str, str] = json.loads((folder / FACTS).read_text(encoding="utf-8")) if (folder / FACTS).is_file() else {}
    trained = load_trained(folder / "training")
    if trained is None:  # folds, whose trainings are in folders of their own
        title = f"{recipe.name}: before and after training"
        return ReportContent(title, sweeps, recipe.evaluate.ks, recipe_yaml=recipe_yaml(recipe), facts=facts)
    split = None
    try:
        split = split_archive(open_filled(recipe.data.archive), recipe.data, untried=recipe.source.rounds > 0)
    except ArchiveError as error:
        facts = {**facts, "left out": f"rewards and examples, since the archive cannot be read ({error})"}
    return run_content(recipe, folder, sweeps=sweeps, trained=trained, split=split, facts=facts)


def run_content(
    recipe: Recipe,
    folder: Path,
    *,
    sweeps: tuple[Sweep, Sweep],
    trained: Trained,
    split: Split | None,
    facts: Mapping[str, str],
) -> ReportContent:
    """Return the content of a report on a run; without the archive (``split``), rewards and examples are left out."""
    rewarded: Any = ()
    known: Sequence[Calibration] = ()
    if split is not None:
        known = calibrations(open_filled(recipe.data.archive))
        online = recipe.source.rounds > 0
        groups = Archive(folder / "training" / "rollouts").groups() if online else split.groups["train"]
        if (own := load_recipe(folder / "training" / "recipe.yaml").data.archive) != recipe.data.archive:
            groups = open_filled(own).groups()  # a round of own samples
        data = recipe.data.model_copy(update={"authors": ()}) if online else recipe.data
        rewards = rewards_of(Lazy(groups, lambda group: select(group, data)), recipe.reward, recipe.verify)
        rewarded = rewarded_of(rewards, recorded_keys(folder / "training" / FOLDER))
    return ReportContent(
        title=f"{recipe.name}: before and after training on judged attempts",
        sweeps=sweeps,
        ks=recipe.evaluate.ks,
        training=tuple(trained.metrics),
        start=trained.start,
        limits=limits_of(trained.start, recipe.monitor),
        collapsed=trained.collapsed,
        kept_step=trained.kept_step,
        rewarded=rewarded,
        calibrations=known,
        stages=load_stages(folder),
        recipe_yaml=recipe_yaml(recipe),
        facts={
            **facts,
            **chosen_attempts(recipe.select.attempts, recipe.advantage),
            "seeds": seeds_of(recipe.model_dump(mode="json")),
        },
        examples=pick_examples(folder, sweeps, split.tasks[recipe.evaluate.split]) if split else (),
    )


def chosen_attempts(condition: str, advantage: AdvantageConfig) -> dict[str, str]:
    """Return the condition (``select.attempts``) on the stored attempts of a run as a fact of its report; none without a condition."""
    return (
        {"attempts": f"imitated where {condition}" if advantage.record.selects else f"where {condition}"} if condition else {}
    )


def rewarded_of(rewarded: Sequence[Rewarded], keys: Mapping[str, set[str]]) -> Sequence[Rewarded]:
    """Return the attempts of recorded groups (``keys`` by task; {}: all) with their rewards; reasons count for all attempts."""

    def trained(item: Rewarded) -> Rewarded:
        wanted = keys.get(item.group.task.task_id, ())
        places = [index for index, attempt in enumerate(item.group.attempts) if attempt_key(attempt) in wanted]
        return replace(item.part(places), left_out=item.left_out, flagged=item.flagged)

    return Lazy(rewarded, trained) if keys else rewarded


def facts_of(model: ModelConfig, sample: SampleConfig, *, tasks: "HeldOut", trained: Trained) -> dict[str, str]:
    """Return the facts about a run that a report shows, by label."""
    import torch

    return {
        "model": model.name,
        "training": trained.text(),
        "tasks": f"{len(tasks.test)} of the split {tasks.split}; temperatures chosen on {len(tasks.dev)} of the split dev",
        **{
            f"tasks of {one.name}": f"{len(one.tasks)}; {len(one.leaked)} of them nearly equal to training or dev tasks"
            for one in tasks.others
        },
        "sampling": f"{sample.samples} samples per task, one if greedy; top-p {sample.top_p}, seed {sample.seed}",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, "
        + (torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no GPU"),
        "versions": f"upsolve {__version__}, torch {version('torch')}, transformers {version('transformers')}",
    }
