"""Tasks of other archives and of benchmarks by name, with their official splits, for ``evaluate.archives``."""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from upsolve.archive.places import SHIPPED
from upsolve.archive.split import find_leaks, recorded_name, tasks_of
from upsolve.archive.store import read_tasks
from upsolve.config import DataConfig, EvalConfig, load_recipe
from upsolve.errors import ConfigError, counted
from upsolve.languages.names import asking_for
from upsolve.train.data.drawn import FOLDER, recorded_keys
from upsolve.types import Task

__all__ = ["BENCHMARKS", "Benchmark", "TaskSet", "check_measurable", "report_trained", "task_sets", "tested"]

SPLITS = ("train", "dev", "test")
VARIABLE = "UPSOLVE_BENCHMARKS"
"""Environment variable that names a folder with the files of benchmarks, or archives of their names."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark that is published as a file."""

    source: str
    """Source that reads the file."""
    files: tuple[str, ...]
    """File names of the benchmark, as patterns; the first match is read."""


BENCHMARKS: Mapping[str, Benchmark] = {
    "humaneval": Benchmark("humaneval", ("HumanEval.jsonl.gz", "HumanEval.jsonl")),
    "humaneval+": Benchmark("evalplus", ("HumanEvalPlus.jsonl.gz", "HumanEvalPlus.jsonl", "HumanEvalPlus-v*.jsonl")),
    "mbpp": Benchmark("mbpp", ("mbpp.jsonl",)),
    "mbpp+": Benchmark("evalplus", ("MbppPlus.jsonl.gz", "MbppPlus.jsonl", "MbppPlus-v*.jsonl")),
    "mbpp-sanitized": Benchmark("mbpp", ("sanitized-mbpp.json",)),
}
"""Name in ``evaluate.archives`` -> benchmark."""


@dataclass(frozen=True, slots=True)
class TaskSet:
    """Tasks to measure on."""

    name: str
    """Name as in the recipe, such as ``mbpp:test``."""
    tasks: tuple[Task, ...]
    """The tasks."""
    leaked: tuple[str, ...] = ()
    """Ids of the tasks that are nearly equal to training or dev tasks."""


def task_sets(config: EvalConfig, data: DataConfig, training: Sequence[Task]) -> tuple[TaskSet, ...]:
    """Return the tasks of ``evaluate.archives``, compared with training and dev tasks; ConfigError for a set without any."""
    sets: list[TaskSet] = []
    for name in config.archives:
        base, colon, split = name.rpartition(":")
        base, split = (base, split) if colon and split in SPLITS else (name, "")
        tasks = tasks_in(read_tasks(place_of(base, config), f"evaluate.archives: {base}"), base, split=split, data=data)
        chosen = tested([asking_for(task, data.language) for task in tasks[: config.tasks or None]], name)
        if not chosen:
            raise ConfigError(
                f"evaluate.archives: {name}: none of its tasks has tests, so their samples have no outcome; choose another archive"
            )
        sets.append(TaskSet(name, chosen, check_leaks(training, chosen, name, refuse=config.leaks == "refuse")))
    return tuple(sets)


def place_of(name: str, config: EvalConfig) -> str:
    """Return the place of the tasks of a name, as an argument of ``read_tasks``: the first place that exists. ConfigError if none exists."""
    folder, benchmark = os.environ.get(VARIABLE, ""), BENCHMARKS.get(name)
    if given := config.benchmarks.get(name):
        return f"{benchmark.source}:{given}" if benchmark and Path(given).is_file() else given
    places = [name] if name in SHIPPED else []
    places += [
        str(path) for path in (Path(name), *([Path(folder) / name] if folder else [])) if (path / "archive.json").is_file()
    ]
    if folder and benchmark:
        files = [file for published in benchmark.files for file in sorted(Path(folder).rglob(published))]
        places += [f"{benchmark.source}:{file}" for file in files]
    if not places:
        raise ConfigError(f"evaluate.archives: {name}: {where_missing(name, folder)}")
    return places[0]


def where_missing(name: str, folder: str) -> str:
    """Return why the tasks of a name were not found, and the fix."""
    looked = f"the folder {folder}" if folder else "any folder, because $UPSOLVE_BENCHMARKS is not set"
    if name in BENCHMARKS:
        files = " or ".join(BENCHMARKS[name].files)
        return f"{files} is not in {looked}; name the file: evaluate.benchmarks={{{name}: PATH}}"
    close = get_close_matches(name, [*BENCHMARKS, *SHIPPED], n=1)
    hint = f"did you mean {close[0]}?" if close else f"benchmarks with known files: {', '.join(BENCHMARKS)}"
    return f"no archive of this name here or in {looked}; {hint}"


def tasks_in(tasks: Sequence[Task], name: str, *, split: str, data: DataConfig) -> list[Task]:
    """Return the tasks of a split: the recorded split, else by the shares of ``data``. Benchmarks without a recorded split are all test."""
    recorded = all(map(recorded_name, tasks))
    if not split or (name in BENCHMARKS and not recorded and split == "test"):
        return list(tasks)
    if name in BENCHMARKS and not recorded:
        raise ConfigError(f"evaluate.archives: {name}:{split}: {name} has test tasks only; name it {name} or {name}:test")
    settings = data.model_copy(update={"split_by": "split" if recorded else "", "folds": 0})
    chosen = tasks_of(tasks, settings, ranked=data.split == "ranked" or name == "embedded")[split]
    if not chosen:
        raise ConfigError(
            f"evaluate.archives: {name}:{split}: none of the {len(tasks)} tasks is in this split; name another split"
        )
    return chosen


def tested(tasks: Sequence[Task], name: str) -> tuple[Task, ...]:
    """Return the tasks that have tests, and warn of the others, since samples at these cannot be judged."""
    testable = tuple(task for task in tasks if task.tests)
    if len(testable) < len(tasks):
        warnings.warn(
            f"{len(tasks) - len(testable)} of {len(tasks)} tasks of {name} have no tests and are left out, because samples at them have no "
            "outcome; measure on others (evaluate.archives)",
            stacklevel=3,
        )
    return testable


def check_measurable(tasks: Sequence[Task], archive: str, config: EvalConfig) -> None:
    """Raise ConfigError if there are tasks to measure on, but none has tests, and ``evaluate.archives`` is empty."""
    if tasks and not config.archives and not any(task.tests for task in tasks):
        raise ConfigError(
            f"evaluate.split: {config.split}: none of its {counted(len(tasks), 'task')} in {archive} has tests, so no sample can be judged; "
            "measure on others (evaluate.archives=[NAME]), or train alone (`upsolve train`)"
        )


def check_leaks(training: Sequence[Task], measured: Sequence[Task], name: str, *, refuse: bool) -> tuple[str, ...]:
    """Warn of measured tasks that nearly equal training tasks, and return their ids; with ``refuse``, raise ConfigError."""
    leaks = find_leaks(training, measured)
    if leaks:
        shown = ", ".join(f"{leak.right} and {leak.left} ({leak.reason})" for leak in leaks[:3])
        count = len({leak.right for leak in leaks})
        message = f"evaluate.archives: {count} of {len(measured)} tasks of {name} are nearly equal to training tasks: {shown}"
        if refuse:
            raise ConfigError(f"{message}; leave them out of training, or set evaluate.leaks: report")
        warnings.warn(message, stacklevel=3)
    return tuple(dict.fromkeys(leak.right for leak in leaks))


def report_trained(tasks: Sequence[Task], archive: str, model: str) -> None:
    """Warn of measured tasks that a model, or its base model, was trained on, as its run records; the warning names the fix."""
    names, folders = {task.task_id for task in tasks}, [Path(model).absolute()]
    while folders[-1] not in folders[:-1]:
        run = next(
            (folder for folder in folders[-1].parents[:2] if (folder / FOLDER).is_dir()), folders[-1]
        )  # also of a snapshot
        try:
            recipe = load_recipe(run / "recipe.yaml")
        except ConfigError:  # no folder of a run
            return
        trained = names & recorded_keys(run / FOLDER).keys()
        if trained and Path(recipe.data.archive).absolute() == Path(archive).absolute():
            warnings.warn(
                f"{model} was trained on {len(trained)} of the {len(names)} tasks that it is measured on; the split of its run leaves them "
                f"out: upsolve eval {os.path.relpath(run / 'recipe.yaml')} --model {model}",
                stacklevel=3,
            )
            return
        folders.append(Path(recipe.model.name).absolute())
