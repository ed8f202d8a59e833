"""A run in a folder: the content of its report, and the run itself for Python and notebooks."""

import json
import math
import os
import platform
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from upsolve import __version__
from upsolve.archive.groups import Lazy
from upsolve.archive.split import Split, split_archive
from upsolve.archive.store import Archive, open_filled
from upsolve.config import (
    AdvantageConfig,
    DataConfig,
    EvalConfig,
    ModelConfig,
    ObjectiveConfig,
    OptimConfig,
    Recipe,
    SampleConfig,
    VerifyConfig,
    load_recipe,
    recipe_yaml,
)
from upsolve.config.rules import FEW_DEV_TASKS, few_dev_tasks, few_steps
from upsolve.errors import ArchiveError, UpsolveError, counted
from upsolve.evaluate.calibration import Calibration, calibrations
from upsolve.evaluate.capability import Capability, capability
from upsolve.evaluate.comparison import pairings_of, task_changes
from upsolve.evaluate.intervals import paired_difference
from upsolve.evaluate.runs import load_run, load_stages, load_sweep
from upsolve.evaluate.scores import Sweep
from upsolve.extras import needs_extras
from upsolve.files import read_rows, write_text
from upsolve.report.blocks import html_of
from upsolve.report.content import Example, Gain, ReportContent, markdown_of, messages_of, pick_examples, with_outputs
from upsolve.report.overview import overview_block
from upsolve.report.several import RunResult, gains, run_result, seeds_of, without_seeds
from upsolve.report.tables import cost_table, is_timed
from upsolve.reward.formula import Rewarded
from upsolve.train.data.drawn import FOLDER, attempt_key, recorded_groups, recorded_keys, recorded_rows
from upsolve.train.data.groups import keeps_zero, rewards_of, select
from upsolve.train.run.folder import MODEL, Trained, load_trained
from upsolve.train.run.monitor import limits_of
from upsolve.types import Group, Task

if TYPE_CHECKING:
    from pandas import DataFrame

    from upsolve.evaluate.benchmarks import HeldOut

__all__ = ["Run", "facts_of", "open_run", "read_overview", "read_run", "rewarded_of", "run_content", "write_run_report"]

FACTS = "facts.json"
"""File in a run's folder with model, machine, versions and other facts."""
MEASURED = ("base.json", "trained.json")
"""Files in a run's folder with its evaluations."""
AS_JUDGED = "verdicts: as_judged"
"""Line in the recipe of a run that is not a control."""
Find = Callable[[Sequence[str]], Mapping[str, Task]]
"""Returns tasks by id."""


def write_run_report(folder: Path, content: ReportContent) -> None:
    """Write ``report.html``, ``report.md`` and the facts of a run into its folder."""
    from upsolve.report.html import write_report  # needs the extra `report`, which reading a run does not

    write_text(folder / FACTS, json.dumps(dict(content.facts), indent=1, ensure_ascii=False))
    write_report(folder / "report.html", content)
    write_text(folder / "report.md", markdown_of(content))


def read_run(folder: Path) -> ReportContent:
    """Return the content of a report on a finished run; ConfigError names a missing file."""
    recipe, before, after = load_run(folder)
    sweeps, facts = (before, after), read_facts(folder)
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


def read_facts(folder: Path) -> dict[str, str]:
    """Return the recorded facts of a run: machine, versions, command; {} for a run that is not finished."""
    file = folder / FACTS
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def read_overview(folder: Path, find: Find) -> ReportContent:
    """Return the content of the overview of a run, finished or not; ``find`` returns its tasks by id."""
    home = folder.parent if folder.name == "training" else folder
    training = home / "training" if (home / "training").is_dir() else home
    file = next(each / "recipe.yaml" for each in (home, training) if (each / "recipe.yaml").is_file())
    sweeps = tuple(load_sweep(home / name) for name in MEASURED if (home / name).is_file())
    trained = load_trained(training)
    content = run_content(
        load_recipe(file), home, sweeps=sweeps, trained=trained, split=None, facts=read_facts(home), find=find
    )
    if trained is not None:
        return content
    rows = read_rows(training / "metrics.jsonl")
    return replace(content, training=tuple(row for row in rows if row.get("step") is not None))


def run_content(
    recipe: Recipe,
    folder: Path,
    *,
    sweeps: tuple[Sweep, ...],
    trained: Trained | None,
    split: Split | None,
    facts: Mapping[str, str],
    find: Find | None = None,
) -> ReportContent:
    """Return the content of a report on a run. Without the archive (``split``), rewards are left out; without ``find`` (tasks by id; by default those
    of the split), examples are left out."""
    rewarded, known = tuple[Rewarded, ...](), tuple[Calibration, ...]()
    drawn, zero = folder / "training" / FOLDER, keeps_zero(recipe.advantage, recipe.objective)
    if split is not None:
        known = calibrations(open_filled(recipe.data.archive))
        groups = trained_groups(folder, split, recipe.data, online=recipe.source.rounds > 0)
        rewards = rewards_of(groups, recipe.reward, recipe.verify)
        rewarded = rewarded_of(rewards, recorded_keys(drawn, zero=zero))
        find = find or finder(split.tasks[recipe.evaluate.split])
    metrics, start = (trained.metrics, trained.start) if trained else ([], {})
    seeds = seeds_of(recipe.model_dump(mode="json"))
    controls = controls_of(folder) if len(sweeps) > 1 else ()
    return ReportContent(
        title=f"{recipe.name}: before and after training on judged attempts",
        sweeps=sweeps,
        ks=recipe.evaluate.ks,
        training=tuple(metrics),
        start=start,
        limits=limits_of(start, recipe.monitor),
        collapsed=trained.collapsed if trained else "",
        kept_step=trained.kept_step if trained else None,
        rewarded=rewarded,
        calibrations=known,
        stages=load_stages(folder),
        recipe_yaml=recipe_yaml(recipe),
        facts={**facts, **chosen_attempts(recipe.select.attempts, recipe.advantage), "seeds": seeds},
        summary={
            "model": recipe.model.name,
            "data": f"{recipe.data.archive}: {trained_on(drawn, trained, zero=zero)}measured on {measured_on(sweeps)}",
            "recipe": recipe_text(recipe.name, recipe.advantage, recipe.objective, lr=recipe.optim.lr),
            **cost_and_date(folder, sweeps, metrics, machine=facts.get("machine", "")),
            "command": facts.get("command") or f"upsolve run {folder / 'recipe.yaml'}",
        },
        next_steps=next_steps(folder, recipe.reward.verdicts, controls) if len(sweeps) > 1 else {},
        controls=controls,
        warnings=warnings_of(sweeps, trained, recipe.data, evaluate=recipe.evaluate, optim=recipe.optim),
        messages=messages_of(folder, sweeps),
        examples=run_examples(folder, sweeps, find, recipe.verify if split is not None else None) if find else (),
    )


def run_examples(folder: Path, sweeps: Sequence[Sweep], find: Find, verify: VerifyConfig | None) -> tuple[Example, ...]:
    """Return examples of a run with two models; with settings of the judge, what failed programs gave at hidden tests, too."""
    if len(sweeps) < 2:
        return ()
    examples = pick_examples(folder, (sweeps[0], sweeps[1]), find)
    return with_outputs(examples, find, verify) if verify else examples


def next_steps(folder: Path, verdicts: str, controls: Sequence[Gain]) -> dict[str, str]:
    """Return the commands to run after a finished run: view its attempts; run a control, unless the run is a control or has one."""
    view = {"why an attempt failed": shlex.join(["upsolve", "view", str(folder)])}
    if controls or verdicts != "as_judged":
        return view
    control = str(folder.parent / f"{folder.resolve().name}-control")
    run = ["upsolve", "run", str(folder / "recipe.yaml"), "--out", control, "--set", "reward.verdicts=shuffled"]
    return {
        **view,
        "how much of the gain is due to the verdicts": shlex.join(run),
        "then": shlex.join(["upsolve", "compare", str(folder), control]),
    }


def without_verdicts(folder: Path) -> str:
    """Return a content id of the recipe of a run, without its name, seeds and verdicts."""
    settings = load_recipe(folder / "recipe.yaml").model_dump(mode="json")
    return without_seeds({**settings, "reward": {**settings["reward"], "verdicts": ""}})


def trained_groups(folder: Path, split: Split, data: DataConfig, *, online: bool) -> Sequence[Group]:
    """Return the groups that a run was trained on: of its rollouts, of a round of own samples, or of the split ``train``."""
    groups = Archive(folder / "training" / "rollouts").groups() if online else split.groups["train"]
    if (own := load_recipe(folder / "training" / "recipe.yaml").data.archive) != data.archive:
        groups = open_filled(own).groups()  # a round of own samples
    chosen = data.model_copy(update={"authors": ()}) if online else data
    return Lazy(groups, lambda group: select(group, chosen))


def finder(tasks: Sequence[Task]) -> Find:
    """Return a function that finds some of these tasks by their ids."""
    return lambda names: {task.task_id: task for task in tasks if task.task_id in {*names}}


def recipe_text(name: str, advantage: AdvantageConfig, objective: ObjectiveConfig, *, lr: float) -> str:
    """Return a recipe in one line: its method, the keys that define the method, and the learning rate."""
    unit = {"pair": "preference pairs", "group": "whole groups"}.get(objective.record.unit, "policy gradient")
    way = "imitation of attempts that passed" if advantage.record.selects else unit
    keys = f"advantage.kind {advantage.kind}, objective.kind {objective.kind}"
    return f"{name}: {way} ({keys}), learning rate {lr:g}"


def warnings_of(
    sweeps: Sequence[Sweep], trained: Trained | None, data: DataConfig, *, evaluate: EvalConfig, optim: OptimConfig
) -> tuple[str, ...]:
    """Return warnings about few dev tasks, and about a run of few steps."""
    dev = len(sweeps[0].dev[0].scores) if sweeps and sweeps[0].dev else FEW_DEV_TASKS
    steps = trained.steps if trained else 0
    alone = "1 optimizer step in all, so the model hardly changes: raise optim.max_steps" if steps == 1 else ""
    return tuple(filter(None, (few_dev_tasks(dev, evaluate, data), few_steps(steps, optim) or alone)))


def trained_on(folder: Path, trained: Trained | None, *, zero: bool) -> str:
    """Return the numbers of attempts and tasks that a run was trained on, as a clause; "" if unknown. If a run stopped within an epoch, or recorded
    no groups, only its number of groups is known."""
    rows, drawn = recorded_rows(folder, zero=zero), recorded_groups(folder)
    if not rows:
        return f"trained on {counted(trained.groups, 'group')}, " if trained and trained.groups else ""
    attempts = {key for _, key in rows}
    what = f"{counted(len(attempts), 'attempt')} at {counted(len({task for task, _ in rows}), 'task')}"
    if trained and trained.groups < drawn:
        return f"trained on {trained.groups:,} of {counted(drawn, 'group')} ({what} in all), "
    repeats = f" ({len(rows):,} with repeats)" if len(rows) > len(attempts) else ""
    return f"{'trained' if trained else 'training'} on {what}{repeats}, "


def measured_on(sweeps: Sequence[Sweep]) -> str:
    """Return the numbers of test and dev tasks."""
    if not sweeps:
        return "no tasks yet"
    dev = len(sweeps[0].dev[0].scores) if sweeps[0].dev else 0
    return f"{len(sweeps[0].best.scores):,} tasks of {sweeps[0].best.tasks}" + (
        f", temperatures chosen on {dev:,} dev tasks" if dev else ""
    )


def cost_and_date(
    folder: Path, sweeps: Sequence[Sweep], metrics: Sequence[Mapping[str, float]], *, machine: str
) -> dict[str, str]:
    """Return cost, time and date of a run's finished parts, training first, and the location of its model."""
    file = folder / MEASURED[1]
    date = datetime.fromtimestamp(file.stat().st_mtime).astimezone() if file.is_file() else None
    *rows, total = cost_table(sweeps, metrics).rows
    cost = "; ".join(
        f"{what} {', '.join(part for part in (time, count, tokens) if part != '–')}" for what, count, tokens, time in rows
    )
    where = f" on {machine}" if machine else ""
    what = "" if is_timed(metrics) else "evaluation "
    known = {
        "cost": cost,
        "duration": f"{what}{total[3]}{where}" if rows and total[3] != "–" else "",
        "date": f"{date:%Y-%m-%d %H:%M %Z}" if date else "",
    }
    return {name: text for name, text in known.items() if text} | trained_model(folder / "training" / MODEL)


def trained_model(folder: Path) -> dict[str, str]:
    """Return folder and size of the trained weights (with LoRA of the adapters), from the files' headers; {} without weights."""
    parameters = size = 0
    for file in folder.glob("*.safetensors"):
        with file.open("rb") as weights:
            length = int.from_bytes(weights.read(8), "little")
            head = json.loads(weights.read(length)) if 8 + length <= file.stat().st_size else {}  # of a damaged file
        parameters += sum(math.prod(one["shape"]) for name, one in head.items() if name != "__metadata__")
        size += file.stat().st_size
    return {"trained model": f"{folder}: {parameters / 1e6:,.1f} million parameters, {size / 1e6:,.0f} MB"} if size else {}


def controls_of(folder: Path) -> tuple[Gain, ...]:
    """Return the gains of the finished runs beside a run whose recipes differ from its own only in verdicts, name and seeds."""
    found: list[Gain] = []
    run: RunResult | None = None
    for other in sorted(folder.resolve().parent.iterdir()):
        files = [other / name for name in ("recipe.yaml", *MEASURED)]
        if (
            other == folder.resolve()
            or not all(file.is_file() for file in files)
            or AS_JUDGED in files[0].read_text(encoding="utf-8")
        ):
            continue
        try:
            if without_verdicts(other) != without_verdicts(folder):
                continue
            run = run or run_result(folder)
            found += filter(None, [gain_beyond(run, run_result(other))])
        except UpsolveError:  # a damaged run beside this one is no reason to fail
            continue
    return tuple(found)


def gain_beyond(run: RunResult, control: RunResult) -> Gain | None:
    """Return the gain of a control run, and the gain of a run beyond it, over the shared test tasks; None without such tasks, or if the run is itself
    a control."""
    shared = gains(run).keys() & gains(control).keys()
    if run.verdicts != "as_judged" or not shared:
        return None
    mine, theirs = ({name: known[name] for name in sorted(shared)} for known in (gains(run), gains(control)))
    zero = dict.fromkeys(theirs, 0.0)
    label = f"{control.verdicts.replace('_', ' ')} verdicts ({control.name})"
    gain, beyond = paired_difference(zero, theirs).difference, paired_difference(theirs, mine).difference
    return Gain(label, gain, beyond, control.after.best.scores)


def chosen_attempts(condition: str, advantage: AdvantageConfig) -> dict[str, str]:
    """Return the condition (``select.attempts``) on the stored attempts of a run as a fact of its report; none without a condition."""
    return (
        {"attempts": f"imitated where {condition}" if advantage.record.selects else f"where {condition}"} if condition else {}
    )


def rewarded_of(rewarded: Sequence[Rewarded], keys: Mapping[str, set[str]]) -> Sequence[Rewarded]:
    """Return the attempts of recorded groups with their rewards; left-out reasons are counted over all attempts. ``keys``: recorded attempts by task;
    {}: all."""

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
        "command": command_line(),
        "versions": f"upsolve {__version__}, torch {version('torch')}, transformers {version('transformers')}",
    }


def command_line() -> str:
    """Return the command of this process; modules of the interpreter have their command-line names."""
    program, *words = sys.argv
    name = Path(program).name
    return shlex.join(["upsolve" if name in ("upsolve", "__main__.py") else name, *words])


STYLE = Path(__file__).with_name("block.css")
"""The style of the overview."""
COLOURS = ":root { --card: #8881; --soft: #777; --line: #8885; --good: #00795a; --bad: #b34700; --plus: 0, 122, 90; --minus: 196, 72, 0; --s0: #0072b2; --s1: #b34700; --s2: #00795a; --s3: #8a4a9c }"


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run."""

    folder: Path
    """Folder of the run."""
    recipe: Recipe
    """All settings."""
    before: Sweep
    """The base model at several temperatures."""
    after: Sweep
    """The trained model at the same temperatures."""
    trained: Trained | None
    """Steps, metrics and the folder of the weights; None for folds, which have one training each."""

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, {self.capability.sentence!r})"

    def _repr_html_(self) -> str:
        """Return the overview of the run, as its report begins, for a notebook."""
        content = read_overview(self.folder, lambda _names: {})
        return f"<style>{COLOURS}\n{STYLE.read_text(encoding='utf-8')}</style>{html_of(overview_block(content))}"

    @property
    def capability(self) -> Capability:
        """The comparison of both models."""
        return capability(self.before, self.after)

    def to_pandas(self) -> "DataFrame":
        """Return a data frame with a row for each task and each temperature: passed and scored samples of both models, and the change.

        Needs pandas (the extra ``hub``).
        """
        with needs_extras():
            from pandas import DataFrame

        return DataFrame(
            [
                {
                    "evaluation": pairing.label,
                    "task_id": row.task_id,
                    "difficulty": row.difficulty,
                    "passed_before": row.before[0],
                    "samples_before": row.before[1],
                    "passed_after": row.after[0],
                    "samples_after": row.after[1],
                    "change": row.change,
                }
                for pairing in pairings_of(self.before, self.after)
                for row in task_changes(pairing.before, pairing.after)
            ]
        )


def open_run(folder: str | Path) -> Run:
    """Open the folder of a finished `upsolve run`; ConfigError names a missing file."""
    path = Path(folder)
    return Run(path, *load_run(path), load_trained(path / "training"))
