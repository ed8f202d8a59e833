"""Evaluations, sweeps and stages of runs <-> JSON files, without torch.

Format version 2 is a sweep: each of its evaluations once, and indices that say which of them is ``best``, ``greedy``, ... Version 1 is one
evaluation, as ``save_evaluation`` and earlier versions of upsolve write it; it is read as a sweep with one temperature.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from upsolve.config import Recipe, load_recipe
from upsolve.errors import ArchiveError, ConfigError
from upsolve.evaluate.scores import Choices, Evaluation, Sweep, TaskChoice, TaskScore, single, task_pass_at_k
from upsolve.files import write_text
from upsolve.train.run.folder import Trained, load_trained

__all__ = [
    "CONTROL",
    "FAILURES_FIRST",
    "OWN_FOLDER",
    "REPEAT",
    "STAGES",
    "Stage",
    "load_evaluation",
    "load_run",
    "load_stages",
    "load_sweep",
    "place_of",
    "save_evaluation",
    "save_sweep",
]

VERSION, SWEEP_VERSION = 1, 2
NAME_ONE = "name a .json file that `upsolve eval` or `upsolve run` wrote"
PARTS = ("best", "many", "hot", "greedy")
"""Fields of a sweep that hold an evaluation of the test tasks; several fields may hold the same evaluation."""


def save_evaluation(evaluation: Evaluation, path: str | Path) -> None:
    """Write an evaluation, atomically."""
    write_text(Path(path), json.dumps({"version": VERSION, **asdict(evaluation)}, indent=1))


def load_evaluation(path: str | Path) -> Evaluation:
    """Read an evaluation at one temperature.

    Raises:
        ArchiveError: the file does not exist, is damaged, or has another version; the message names the file.
    """
    data = read_json(path)
    if (version := data.pop("version", None)) == SWEEP_VERSION:
        raise ArchiveError(f"{path}: the file holds evaluations at several temperatures; load it with load_sweep")
    if version != VERSION:
        raise ArchiveError(f"{path}: not an evaluation (version {version}, not {VERSION}); {NAME_ONE}")
    try:
        return evaluation_of(data)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArchiveError(f"{path}: not an evaluation: {error}") from error


def save_sweep(sweep: Sweep, path: str | Path) -> None:
    """Write a sweep, atomically."""
    write_text(Path(path), json.dumps({"version": SWEEP_VERSION, **sweep_data(sweep)}, indent=1))


def sweep_data(sweep: Sweep) -> dict[str, Any]:
    """Return the JSON object of a sweep. The dev evaluations of ``others`` equal those of the sweep itself, and are written once."""
    evaluations = {part: getattr(sweep, part) for part in PARTS}
    test = [*{id(evaluation): evaluation for evaluation in evaluations.values() if evaluation is not None}.values()]
    return {
        "name": sweep.name,
        "dev": [asdict(evaluation) for evaluation in sweep.dev],
        "test": [asdict(evaluation) for evaluation in test],
        **{
            part: None if chosen is None else next(i for i, e in enumerate(test) if e is chosen)
            for part, chosen in evaluations.items()
        },
        "heldout_logp": sweep.heldout_logp,
        "heldout_tasks": sweep.heldout_tasks,
        "choices": asdict(sweep.choices) if sweep.choices else None,
        "others": [sweep_data(replace(other, dev=())) for other in sweep.others],
    }


def load_sweep(path: str | Path) -> Sweep:
    """Read a sweep, or one evaluation as a sweep in which nothing was chosen; ArchiveError names a missing or damaged file."""
    data = read_json(path)
    if data.get("version") != SWEEP_VERSION:
        return single(load_evaluation(path))
    try:
        return sweep_of(data, tuple(evaluation_of(row) for row in data["dev"]))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise ArchiveError(f"{path}: not an evaluation: {error}") from error


def sweep_of(data: dict[str, Any], dev: tuple[Evaluation, ...]) -> Sweep:
    """Return the sweep that a JSON object describes; the dev evaluations, on which its temperatures were chosen, are given."""
    test = [evaluation_of(row) for row in data["test"]]
    evaluations: dict[str, Any] = {part: None if data[part] is None else test[data[part]] for part in PARTS}
    logp, tasks = data["heldout_logp"], data["heldout_tasks"]
    others = tuple(sweep_of(other, dev) for other in data.get("others", ()))
    choices = choices_of(data["choices"]) if data.get("choices") else None
    return Sweep(data["name"], dev, heldout_logp=logp, heldout_tasks=tasks, choices=choices, others=others, **evaluations)


def choices_of(data: dict[str, Any]) -> Choices:
    """Return the choices that a JSON object describes."""
    data["kinds"], data["tasks"] = tuple(data["kinds"]), tuple(TaskChoice(**task) for task in data["tasks"])
    return Choices(**data)


def evaluation_of(data: dict[str, Any]) -> Evaluation:
    """Return the evaluation that a JSON object describes."""
    data["scores"] = tuple(TaskScore(**score) for score in data["scores"])
    return Evaluation(**data)


def load_run(folder: Path) -> tuple[Recipe, Sweep, Sweep]:
    """Return recipe, and evaluations before and after training, of a finished run; ConfigError names a missing file."""
    files = (folder / "base.json", folder / "trained.json")
    if missing := [file.name for file in files if not file.is_file()]:
        curves = f"; `upsolve view {folder}` shows its training" if (folder / "training").is_dir() else ""
        remedy = "name the folder of a finished `upsolve run`, or (`upsolve report` alone) evaluations"
        raise ConfigError(f"{folder}: {missing[0]} is missing; {remedy}{curves}")
    own = next((file for file in (folder / "recipe.yaml", folder / "fold-0" / "recipe.yaml") if file.is_file()), None)
    return load_recipe(own), load_sweep(files[0]), load_sweep(files[1])


def read_json(path: str | Path) -> dict[str, Any]:
    """Return the JSON object in a file; ArchiveError names a file that is missing or damaged."""
    try:
        data: Any = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ArchiveError(f"{path}: no such evaluation; `upsolve eval` and `upsolve run` write them") from error
    except (OSError, ValueError) as error:
        raise ArchiveError(f"{path}: not an evaluation: {error}; {NAME_ONE}") from error
    if not isinstance(data, dict):
        raise ArchiveError(f"{path}: not an evaluation, but a {type(data).__name__}; {NAME_ONE}")
    return data


OWN_FOLDER = "own"
"""Folder of the stages, within that of the run."""
STAGES = "stages.json"
"""File with the list of the finished stages, in ``OWN_FOLDER``."""
CONTROL = "archive, as long"
"""Name of the control stage."""
REPEAT = "archive, repeat"
"""Name of the stages that repeat the training on the archive, before their number."""
FAILURES_FIRST = "failures, then archive"
"""Name of the stage that imitates failed attempts of tasks that nobody solved before it trains on the archive."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a run with rounds of own samples."""

    name: str
    """``archive``, ``FAILURES_FIRST``, ``REPEAT`` 1, ..., ``round 1``, ..., or the control (``CONTROL``)."""
    trained: Trained
    """Training run of the stage."""
    sweep: Sweep
    """Model of the stage at several temperatures."""
    kept: bool
    """Whether the stage's model was the best on dev tasks so far; False for the control."""
    samples: int = 0
    """Number of own samples that the stage drew."""
    passed: int = 0
    """Number of these samples that passed."""

    @property
    def dev_rates(self) -> tuple[float, ...]:
        """Mean pass@1 of dev tasks at each temperature; () without dev tasks."""
        rates = [[*task_pass_at_k(one.scores, 1).values()] for one in self.sweep.dev]
        return tuple(sum(rate) / len(rate) for rate in rates if rate)

    @property
    def dev(self) -> float:
        """Highest mean pass@1 of dev tasks over temperatures; nan without dev tasks."""
        return max(self.dev_rates, default=float("nan"))

    def gains_over(self, other: "Stage") -> bool:
        """Return whether dev tasks gain at the best temperature or, if that is equal, in the mean over temperatures."""
        own, others = self.dev_rates, other.dev_rates
        return (self.dev, sum(own) / len(own)) > (other.dev, sum(others) / len(others)) if own and others else False


def load_stages(folder: Path) -> tuple[Stage, ...]:
    """Return the finished stages of a run's folder; () for a run without rounds."""
    file = folder / OWN_FOLDER / STAGES
    rows: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
    places = [file.with_name(place_of(row["name"])) for row in rows]
    return tuple(
        Stage(trained=trained, sweep=load_sweep(place.with_name(f"{place.name}.json")), **row)
        for row, place in zip(rows, places, strict=True)
        if (trained := load_trained(place.with_name(f"{place.name}-training")))
    )


def place_of(name: str) -> str:
    """Return the name of a stage in its files: ``PLACE.json`` holds its sweep, the folder ``PLACE-training`` its training."""
    return name.replace(", ", "-").replace(" ", "-")
