"""Open an archive, the folder of a run, its evaluation samples, or a log that an importer can read."""

import atexit
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from upsolve.archive.places import SHIPPED, place_of
from upsolve.archive.store import Archive, open_archive, open_filled
from upsolve.config import ModelConfig, OptimConfig, SampleConfig, VerifyConfig, load_recipe
from upsolve.errors import ArchiveError, ConfigError, UpsolveError
from upsolve.extras import needs_extras
from upsolve.files import is_remote
from upsolve.importers.formats import Kind, kind_of_file
from upsolve.importers.ingest import ingest
from upsolve.plugins import names
from upsolve.records import from_row
from upsolve.train.data.drawn import FOLDER
from upsolve.types import Attempt, Status, Task, Turn, Verdict
from upsolve.view.answers import Answers
from upsolve.view.browse import find_tasks
from upsolve.view.index import index_folder
from upsolve.view.runs import Runs
from upsolve.view.scores import Measured, Recorded, RunScores

if TYPE_CHECKING:
    from upsolve.view.ask import Model

__all__ = ["ENDING", "LOGS", "fill_with_samples", "open_path"]

LOGS = ("verifiers", "trl", "verl", "openrlhf", "inspect", "atif", "samples", "jsonl", "table")
"""Sources that are tried on a log, in this order."""
WITH_COLUMNS = (Kind.CSV, Kind.EXCEL, Kind.SQLITE, Kind.DUCKDB)
"""Formats of files that only the source ``table`` reads."""
MOST_NAMED = 5
"""Largest number of archives of a folder that a message names."""


def open_path(
    path: str, *, archive: str = "", source: str = "", logps: bool = False, model: str | None = None
) -> Answers | Runs:
    """Open an archive, a run, a folder of runs, samples, or a log; ArchiveError for anything else, ConfigError for a wrong option.

    ``model``: the model that can be asked on the page; "": the model that the run trained; None: none.
    """
    asks = model is not None
    folder = SHIPPED.get(path) or place_of(path)
    if is_remote(folder) and not (folder / "archive.json").is_file():
        raise ArchiveError(f"{path}: not an archive (archive.json is missing); runs and logs are opened in local folders")
    if not folder.exists():
        raise ArchiveError(f"{path}: no such file or folder; name an archive, the folder of a run, or a log")
    if (folder / "archive.json").is_file():
        refuse_options("an archive", archive=archive, source=source, logps=logps)
        if model == "":
            raise ConfigError(f"--model: {path} is an archive, which has no model of its own; name one: --model PATH")
        recipe = load_recipe(None, [f"data.archive={path}"])
        answers = Answers(open_filled(path), title=f"archive {headline(path)}")
        if model:
            answers.model = askable(recipe.model.at(model), recipe.sample, recipe.verify)
        return answers
    if run := run_in(folder):
        refuse_options("a run", source=source)
        return open_run(run, archive, logps=logps, model=model)
    if folder.name.endswith(ENDING):
        refuse_options("samples of an evaluation", archive=archive, source=source, logps=logps, model=asks)
        return open_samples([folder])
    if runs := runs_in(folder):
        refuse_options("a folder of runs", source=source, model=asks)
        return Runs(f"runs in {headline(path)}", runs, lambda run: open_run(run_in(run) or run, archive, logps=logps))
    if not source and (inside := opened_inside(folder)):
        raise ArchiveError(
            f"{path}: neither an archive nor a run, but it holds archives; name one of them: {', '.join(inside)}"
        )
    refuse_options("a log", archive=archive, logps=logps, model=asks)
    name, imported = import_log(folder, source)
    return Answers(imported, title=f"{folder.resolve().name} ({name})")


def headline(path: str) -> str:
    """Return the name of a folder for a headline: the last part of an absolute path, a relative path unchanged."""
    return Path(path).name if Path(path).is_absolute() else path


def open_samples(files: Sequence[Path]) -> Answers:
    """Open the samples of a run's evaluations, in a temporary archive."""
    archive = temporary_archive()
    fill_with_samples(archive, files)
    names = ", ".join(file.name for file in files)
    return Answers(archive, title=f"{files[0].resolve().parent.name}: {names}", note=f"samples of evaluations: {names}")


def temporary_archive() -> Archive:
    """Create an archive in a temporary folder; it and its index are removed when the process ends."""
    archive = Archive.create(Path(mkdtemp(prefix="upsolve-view-")))
    atexit.register(remove, archive)
    return archive


def remove(archive: Archive) -> None:
    """Remove a temporary archive and its index."""
    for folder in (archive.path, index_folder(archive)):
        shutil.rmtree(folder, ignore_errors=True)


def refuse_options(what: str, **options: Any) -> None:
    """Raise ConfigError if an option is given that does not apply to this kind of path."""
    if given := [f"--{name}" for name, value in options.items() if value]:
        raise ConfigError(f"{', '.join(given)}: has no effect on {what}; leave it out")


def run_in(folder: Path) -> Path | None:
    """Return the folder of training of a run: the folder itself or its ``training``; None if the folder is not a run."""
    return next((each for each in (folder / "training", folder) if (each / "recipe.yaml").is_file()), None)


def runs_in(folder: Path) -> dict[str, Path]:
    """Return the runs in a folder by name: those that have begun to train, or to be measured."""
    folders = [each for each in sorted(folder.iterdir()) if each.is_dir() and run_in(each)] if folder.is_dir() else []
    return {each.name: each for each in folders}


def opened_inside(folder: Path) -> list[str]:
    """Return the first archives in a folder."""
    if not folder.is_dir():
        return []
    found = (each for each in sorted(folder.iterdir()) if (each / "archive.json").is_file())
    return [str(each) for each in islice(found, MOST_NAMED)]


def askable(model: ModelConfig, sample: SampleConfig, verify: VerifyConfig) -> "Model":
    """Start loading a model that can be asked on the page."""
    from upsolve.view.ask import Model

    return Model(model, sample, verify)


def open_run(run: Path, archive: str, *, logps: bool, model: str | None = None) -> Answers:
    """Open a run: its rollouts if it samples, else its training archive. ``model``: see ``open_path``."""
    recipe = load_recipe(run / "recipe.yaml")
    online = (run / "rollouts" / "archive.json").is_file()
    name = archive or (str(run / "rollouts") if online else recipe.data.archive)
    try:
        store = open_archive(name)
    except ArchiveError as error:
        raise ArchiveError(f"{run}: the run's archive cannot be opened: {error}; say where it is with --archive") from error
    trained = recipe.model.at(str(run / "model")) if (run / "model").is_dir() else recipe.model
    if model == "" and trained is recipe.model:
        raise ConfigError(f"--model: {run} has no trained model yet; name another one: --model PATH")
    load_codec = partial(load_tokenizer, trained)
    score = log_prober(trained, recipe.optim, load_codec) if logps else None
    stages, seed, turns = (recipe.reward, recipe.advantage, recipe.objective), recipe.data.seed, recipe.data.turns
    scores = RunScores(*stages, seed=seed, recorded=Recorded(run / FOLDER), load_codec=load_codec, score=score, turns=turns)
    home = run.parent if run.name == "training" else run
    folder, files = home.resolve().name, sorted(home.glob(f"*{ENDING}"))
    judge, find = "" if online else recipe.data.judge, partial(find_in, recipe.data.archive if online else name)
    answers = Answers(
        store,
        judge=judge,
        title=f"run {folder}" + (f": {recipe.name}" if recipe.name != folder else ""),
        run=run,
        scores=scores,
        note=f"stored in {headline(name)}{f', judged by {judge}' if judge else ''}",
        open_samples=partial(open_samples, files) if files else None,
        measured=Measured(home, find),
    )
    if model is not None:
        answers.model = askable(recipe.model.at(model) if model else trained, recipe.sample, recipe.verify)
    return answers


def find_in(archive: str, names: Sequence[str]) -> Mapping[str, Task]:
    """Return tasks of an archive by id; {} if it cannot be read."""
    try:
        return find_tasks(open_archive(archive).parts("tasks"), names)
    except ArchiveError:
        return {}


def load_tokenizer(model: ModelConfig) -> Any:
    """Load the tokenizer of a model, with its form of prompts and completions."""
    with needs_extras():
        from upsolve.policy.model import codec_of
    return codec_of(model)


def log_prober(
    model: ModelConfig, optim: OptimConfig, load_codec: Callable[[], Any]
) -> Callable[[Task, Attempt, Sequence[Turn]], Sequence[float]]:
    """Load a model, and return a function that gives the log-probability of each token of an attempt, nats."""
    import numpy as np
    import torch

    from upsolve.policy.model import load_model
    from upsolve.train.data.encode import EncodedAttempt, EncodedGroup
    from upsolve.train.data.pack import plan_steps
    from upsolve.train.update.reference_scorer import padded_scores

    policy, codec = load_model(model.name).eval(), load_codec()

    def score(task: Task, attempt: Attempt, turns: Sequence[Turn]) -> list[float]:
        ids = codec.ids_of(attempt)
        prompt = codec.prompt(task, turns, codec.prefix_of(attempt)).ids_P
        group = EncodedGroup(prompt, (EncodedAttempt(ids, np.zeros(len(ids), np.float32)),))
        with torch.inference_mode():
            return padded_scores(policy, plan_steps([group], optim)[0][0]).logp_T.tolist()

    return score


def import_log(path: Path, source: str) -> tuple[str, Archive]:
    """Import a log into a temporary archive; also return the importer's name. ArchiveError if no importer can read the log."""
    if source and source not in names("source") and ":" not in source and not source.endswith((".yaml", ".yml")):
        raise ConfigError(f"--source {source}: no such importer; `upsolve ingest --sources` lists them")
    refused: list[str] = []
    known = source or ("table" if path.is_file() and kind_of_file(path) in WITH_COLUMNS else "")
    for name in (known,) if known else LOGS:
        archive = temporary_archive()
        try:
            report = ingest(archive, name, path, max_rejected=1.0 if source else None)
            if report.added["attempts"] and not report.too_many:
                return name, archive
            problem = report.reasons[0].reason if report.reasons else "it holds no attempts"
        except (UpsolveError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            problem = str(error)
        remove(archive)
        if known:
            where = "" if path.name in problem else f"{path}: "
            raise ArchiveError(f"{where}{problem}; `upsolve ingest {known}` has options: import it so, and view the archive")
        refused.append(f"{name}: {problem.splitlines()[0][:120] if problem else 'cannot be read'}")
    raise ArchiveError(
        f"{path}: neither an archive nor a run, nor a log that an importer can read ({'; '.join(refused[:3])}); "
        "name its importer with --source (`upsolve ingest --sources` lists them)"
    )


ENDING = ".samples.jsonl"
"""Ending of the names of files with samples."""
JUDGE = "recorded:"
"""Prefix of the judge of the verdicts, before the evaluation's name (``recorded:base``); a file keeps status and error of each sample."""


def fill_with_samples(archive: Archive, files: Sequence[Path]) -> None:
    """Append the samples of a run's evaluations, and their tasks if the run's archive is there; ArchiveError for a bad line."""
    pairs = [
        pair_of(file, number, line)
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
    ]
    names = {attempt.task_id for attempt, _ in pairs}
    tasks = [task for task in tasks_beside(files[0]) if task.task_id in names]
    archive.append(tasks=tasks, attempts=[attempt for attempt, _ in pairs], verdicts=[verdict for _, verdict in pairs])


def pair_of(file: Path, number: int, line: str) -> tuple[Attempt, Verdict]:
    """Return the attempt and the verdict of a line."""
    try:
        row: dict[str, Any] = json.loads(line)
        status, kind, error = Status(row.pop("status")), str(row.pop("error_type", "")), str(row.pop("error", ""))
        name, author = file.name.removesuffix(ENDING), row.get("author") or ""
        where = {field: row.pop(field) for field in ("task_set", "temperature") if field in row}
        extra = {**json.loads(row.get("extra") or "{}"), **where, **({"model": author} if author not in ("", name) else {})}
        attempt = from_row(Attempt, {**row, "author": name, "extra": json.dumps(extra)})
    except (ValueError, KeyError, TypeError, AttributeError) as wrong:
        raise ArchiveError(f"{file}: line {number} is not a sample of an evaluation: {wrong!r}") from wrong
    return attempt, Verdict(attempt.attempt_id, status, judge=JUDGE + name, error_type=kind, error_message=error)


def tasks_beside(file: Path) -> Iterator[Task]:
    """Yield the tasks of the archive that the run in the file's folder names; none if there is no recipe, or no archive."""
    try:
        yield from open_archive(load_recipe(file.parent / "recipe.yaml").data.archive).tasks()
    except (UpsolveError, OSError):
        return
