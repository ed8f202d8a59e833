"""Commands around a model: run, train, sample, eval, and solve, which answers tasks."""

import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from upsolve.cli.app import (
    ArchiveName,
    AsJson,
    Fresh,
    KeepCheckpoints,
    ModelName,
    Out,
    RecipeFile,
    Seed,
    Settings,
    answer,
    app,
    bars,
    next_step,
    print_json,
    show_results,
    text_of,
)
from upsolve.cli.recipes import ELSEWHERE, load, load_evaluated, open_trained_on
from upsolve.errors import ConfigError, counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from upsolve.archive.split import Split
    from upsolve.archive.store import Archive
    from upsolve.config import Recipe
    from upsolve.solve.solving import SolveSettings
    from upsolve.types import Task, TestCase

__all__ = ["demo", "evaluate", "run", "sample", "solve", "train"]

AnyRecipe = Annotated[
    str | None,
    typer.Argument(
        help="Recipe: a name that `upsolve recipes` lists, or a YAML file; without it, the default values.", metavar="RECIPE"
    ),
]


def checked_split(archive: "Archive", recipe: "Recipe") -> "Split":
    """Return the split of an archive for a recipe, after the checks of a recipe with its archive (``check_run``), without torch."""
    from upsolve.archive.split import split_archive
    from upsolve.train.check import check_run

    split = split_archive(archive, recipe.data, untried=recipe.source.rounds > 0, labels=recipe.select.reads_labels)
    check_run(recipe, split.groups["train"])
    return split


def check_model(recipe: "Recipe", out: Path | None = None) -> None:
    """Raise ModelError before torch is imported if the model of a recipe does not exist; a run in ``out`` that is resumed was checked at its start."""
    from upsolve.policy.locate import locate

    alone = os.environ.get("WORLD_SIZE", "1") == "1"  # several processes compare what they find (``watched``)
    if alone and recipe.sample.engine in ("transformers", "vllm") and not (out and out.exists()):
        locate(recipe.model.name, offline=recipe.model.offline)


def announce(recipe: "Recipe", tasks: str, samples: int) -> None:
    """Say on standard error which model is loaded and sampled on which tasks, since the first samples take minutes on slow machines."""
    typer.echo(f"{recipe.model.name}: {tasks}, {counted(samples, 'sample')} a task; loading the model", err=True)


def with_checkpoints(settings: list[str] | None, keep: bool) -> list[str]:
    """Return the settings, with ``monitor.keep_checkpoints`` if ``--keep-checkpoints`` is given."""
    return [*(settings or []), *(["monitor.keep_checkpoints=true"] if keep else [])]


@app.command()
def run(
    recipe: RecipeFile,
    out: Out = Path("runs/run"),
    archive: ArchiveName = "",
    model: ModelName = "",
    seed: Seed = None,
    fresh: Fresh = False,
    keep_checkpoints: KeepCheckpoints = False,
    folds: Annotated[
        int,
        typer.Option(
            help="Number of cross-fitting folds, for small archives: each fold has other test tasks, and the results are pooled."
        ),
    ] = 0,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate a model, train it on an archive, evaluate it again, write a report. Rerun the same command to resume."""
    loaded = load_evaluated(recipe, with_checkpoints(settings, keep_checkpoints), model=model, archive=archive, seed=seed)
    stored = open_trained_on(loaded)
    from upsolve.evaluate.tasksets import check_measurable
    from upsolve.train.run.folder import check_out

    check_out(out, loaded, evaluates=True, fresh=fresh or folds > 0)
    split = None if folds else checked_split(stored, loaded)
    measured = split.tasks[loaded.evaluate.split] if split else stored.tasks()
    check_measurable(measured, loaded.data.archive, loaded.evaluate)
    check_model(loaded, None if fresh else out)
    from upsolve.cli.figures import results_figures
    from upsolve.experiment import run_folds, run_recipe  # torch is imported after the checks: it takes seconds

    with bars() as progress:
        if folds:
            before, after = run_folds(loaded, out, folds, progress=progress, fresh=fresh)
            facts, text, models = {}, "", f"models: {out / 'fold-*/training/model'}"
        else:
            before, after, trained = run_recipe(loaded, out, progress=progress, fresh=fresh, split=split)
            facts, text, models = {"training": trained.facts()}, f"training: {trained.text()}\n", f"model: {trained.folder}"
    if as_json:
        print_json(results_figures((before, after), loaded.evaluate.ks) | facts | {"report": str(out / "report.html")})
    else:
        show_results((before, after), loaded.evaluate.ks)
        typer.echo(f"{text}report: {out / 'report.html'}    {models}")
        typer.echo(next_step("what did it learn from, and what does it answer?", "view", str(out)))


@app.command()
def demo(
    out: Out = Path("runs/demo"),
    model: ModelName = "",
    seed: Seed = None,
    fresh: Fresh = False,
    keep_checkpoints: KeepCheckpoints = False,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Teach a small model SQL by one reference query per task: about ten minutes on two cores. The same as `upsolve run demo`; rerun to resume."""
    settings = with_checkpoints(settings, keep_checkpoints)
    run("demo", out, model=model, seed=seed, fresh=fresh, settings=settings, as_json=as_json)


@app.command()
def train(
    recipe: RecipeFile,
    out: Out = Path("runs/train"),
    archive: ArchiveName = "",
    model: ModelName = "",
    seed: Seed = None,
    fresh: Fresh = False,
    keep_checkpoints: KeepCheckpoints = False,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Train a policy on an archive. Rerun the same command to resume."""
    loaded = load(recipe, with_checkpoints(settings, keep_checkpoints), model=model, archive=archive, seed=seed)
    stored = open_trained_on(loaded)
    from upsolve.train.run.folder import check_out

    check_out(out, loaded, fresh=fresh)
    split = checked_split(stored, loaded)
    check_model(loaded, None if fresh else out)
    from upsolve.evaluate.benchmarks import step_reports
    from upsolve.report.card import write_card
    from upsolve.train.loop import train as train_policy  # torch is imported after the checks: it takes seconds
    from upsolve.train.run.processes import Processes

    with bars() as progress:
        trained = train_policy(
            loaded,
            split.groups["train"],
            split.groups["dev"],
            out,
            on_step=step_reports(progress),
            show=progress,
            fresh=fresh,
        )
    if Processes().is_main:  # another node may not see the folder
        write_card(trained.folder, loaded.name)
    own = str(out / "recipe.yaml")  # the run's split and prompts
    is_tested = loaded.evaluate.archives or any(task.tests for task in split.tasks[loaded.evaluate.split])
    elsewhere = () if is_tested else ELSEWHERE
    measure = ("eval", own, "--model", str(trained.folder), *elsewhere, "--out", str(out))
    text = f"{trained.text()}\nmodel: {trained.folder}\n{next_step('measure the model', *measure)}"
    answer(trained.facts(), text, as_json=as_json)
    if trained.collapsed:
        raise typer.Exit(code=3)


@app.command()
def sample(
    recipe: AnyRecipe = None,
    archive: ArchiveName = "",
    model: ModelName = "",
    seed: Seed = None,
    settings: Settings = None,
    hint: Annotated[
        float,
        typer.Option(
            min=0,
            max=0.99,
            help="Sample only tasks that the model never passed, with this share of a passed program in the prompt.",
        ),
    ] = 0.0,
    repair: Annotated[
        bool, typer.Option("--repair", help="Sample one correction of every failed program, by the feedback of its verdict.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Sample a model on the tasks of an archive, until each has `sample.samples` of its attempts; judge them with `verify`, rerun to resume."""
    if hint and repair:
        raise ConfigError("--hint excludes --repair: sample with one of them")
    if repair and any(setting.partition("=")[0].strip() == "sample.samples" for setting in settings or ()):
        raise ConfigError(
            "sample.samples has no effect with --repair, which samples one correction of each program; leave it out"
        )
    reads = ("model", "sample", "data.archive", *(("data.authors",) if repair else ()))
    loaded = load(recipe, settings, model=model, archive=archive, seed=seed, reads=reads)
    stored = open_trained_on(loaded)
    from upsolve.archive.places import SHIPPED

    name = loaded.data.archive
    if name in SHIPPED:
        raise ConfigError(f"sample adds attempts to an archive, and `{name}` is read-only: name another with --archive FOLDER")
    check_model(loaded)
    if not repair:
        announce(loaded, f"{counted(len({*stored.column('tasks', 'task_id')}), 'task')} of {name}", loaded.sample.samples)
    from upsolve.policy.collect import sample_attempts, sample_hinted, sample_repairs

    with bars() as progress:
        sample_some = partial(sample_hinted, hint=hint) if hint else sample_attempts
        sample_some = partial(sample_repairs, authors=loaded.data.authors) if repair else sample_some
        added = sample_some(stored, loaded.sample, model=loaded.model, progress=progress)
    text = f"{added} attempts added; judge them with: upsolve verify {name}"
    answer({"archive": name, "added": added}, text, as_json=as_json)


@app.command("eval")
def evaluate(
    recipe: AnyRecipe = None,
    out: Out = Path("runs/eval"),
    archive: ArchiveName = "",
    model: ModelName = "",
    name: Annotated[str, typer.Option(help="Label in tables, and name of the files in --out.")] = "model",
    seed: Seed = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate a model at several temperatures on the held-out tasks of an archive. Rerun the same command to resume."""
    reads = ("data", "evaluate", "model", "sample", "verify")
    loaded = load_evaluated(recipe, settings, model=model, archive=archive, seed=seed, reads=reads)
    stored = open_trained_on(loaded)
    from upsolve.archive.split import split_archive
    from upsolve.evaluate.tasksets import check_measurable

    if not name or Path(name).name != name:
        raise ConfigError(f"--name {name!r}: must be a file name without a slash, such as trained: it names the files in --out")
    split, part = split_archive(stored, loaded.data), loaded.evaluate.split
    measured = split.tasks[part][: loaded.evaluate.tasks or None]
    check_measurable(measured, loaded.data.archive, loaded.evaluate)
    check_model(loaded)
    sets = ", ".join((f"{counted(len(measured), 'task')} of {loaded.data.archive}:{part}", *loaded.evaluate.archives))
    announce(loaded, sets, loaded.sample.samples)
    from upsolve.cli.figures import results_figures
    from upsolve.evaluate.benchmarks import held_out, sweep_model
    from upsolve.evaluate.runs import save_sweep

    out.mkdir(parents=True, exist_ok=True)
    with bars() as progress:
        sweep = sweep_model(
            held_out(split, loaded.data.archive, loaded.evaluate, loaded.data),
            model=loaded.model,
            sample=loaded.sample,
            verify=loaded.verify,
            evaluate=loaded.evaluate,
            name=name,
            keep=out / f"{name}.samples.jsonl",
            progress=progress,
        )
    save_sweep(sweep, out / f"{name}.json")
    if as_json:
        print_json({**results_figures((sweep,), loaded.evaluate.ks), "evaluation": str(out / f"{name}.json")})
    else:
        show_results((sweep,), loaded.evaluate.ks)
        typer.echo(f"evaluation: {out / f'{name}.json'}")


BUDGETS = ("tokens", "seconds")
SOLVING = ("model", "sample", "verify")
"""Stages of a recipe that ``solve`` reads."""


def budget_of(text: str) -> dict[str, float]:
    """Return the limits of ``--budget tokens=N,seconds=N``; ConfigError for any other text."""
    limits: dict[str, float] = {}
    for part in text.split(",") if text else ():
        name, _, number = part.partition("=")
        digits = number if name == "tokens" else number.replace(".", "", 1)
        if name not in BUDGETS or name in limits or not (digits.isascii() and digits.isdigit() and float(number)):
            raise ConfigError(
                f"--budget {part or text}: write tokens=N (of a task) or seconds=N (of the command), such as tokens=2000"
            )
        limits[name] = float(number)
    return limits


@app.command()
def solve(
    tasks: Annotated[
        str, typer.Argument(help="Archive, JSONL file of tasks, source:path, or - for one prompt from standard input.")
    ],
    model: ModelName = "",
    samples: Annotated[int, typer.Option(min=1, help="Most candidates of a task in a round; the first one is greedy.")] = 8,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; later rounds correct candidates of earlier rounds.")] = 1,
    parents: Annotated[
        str,
        typer.Option(help="Candidates to correct later: refine (the default), scatter, uct, none (new samples), or your own."),
    ] = "",
    choose: Annotated[
        str,
        typer.Option(help="Kinds of evidence, the strongest first: tests, runs, agreement, likelihood, score, or your own."),
    ] = "tests,runs,agreement,likelihood",
    score: Annotated[str, typer.Option(help="Evidence score: a command (docs/scores.md), or likelihood:MODEL.")] = "",
    budget: Annotated[str, typer.Option(help="Limits of sampling: tokens=N of a task, seconds=N of the command.")] = "",
    stop_early: Annotated[bool, typer.Option(help="Stop once a candidate passes the visible tests or three agree.")] = True,
    limit: Annotated[int, typer.Option(min=0, help="Solve the first N tasks; 0: all.")] = 0,
    language: Annotated[str, typer.Option(help="Language of the answer to a prompt; default: python.")] = "",
    schema: Annotated[Path | None, typer.Option(help="File of CREATE TABLE statements for a prompt.")] = None,
    database: Annotated[Path | None, typer.Option(help="SQLite database on which queries are run.")] = None,
    tests: Annotated[Path | None, typer.Option(help="JSON lines of visible tests for a prompt: input, expected.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File of answers; the same command resumes it.")] = None,
    seed: Seed = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Answer tasks: sample candidates, run them, and choose one by visible tests, outputs and likelihood."""
    from upsolve.solve.asked import AnswerFile, database_inputs
    from upsolve.solve.scoring import scorer_of
    from upsolve.solve.solving import SolveSettings

    loaded = load(None, [f"sample.samples={samples}", *(settings or [])], model=model, seed=seed, reads=SOLVING)
    limits = budget_of(budget)
    if parents and rounds == 1:
        raise ConfigError(f"--parents {parents} has no effect with one round: add --rounds 3")
    ways = known("parent", "--parents", parents or "refine")
    kinds, scorer = known("evidence", "--choose", choose), scorer_of(score) if score else None
    how = SolveSettings(kinds, int(limits.get("tokens", 0)) or None, limits.get("seconds"), stop_early, rounds, ways[0], scorer)
    wanted = tasks_of(tasks, language, schema, database, tests)[: limit or None]
    inputs = database_inputs(wanted, database) if database else None
    key = f"{tasks} {loaded.model.name} {loaded.sample.model_dump_json()} {how} {database}{score and f' {score}'}{changed(loaded)}"
    file = AnswerFile(out, key) if out else None
    rows: list[dict[str, Any]] = [*file.answered.values()] if file else []
    for row in answers(loaded, file.unanswered(wanted) if file else wanted, how, inputs):
        rows.append(row)
        if file:
            file.add(row)
    show_answers(rows, tasks, out, as_json=as_json)


def changed(recipe: "Recipe") -> str:
    """Return the settings of model and judge that influence answers and differ from the defaults, as text; "" if all are defaults."""
    from upsolve.verify.limits import OF_MACHINE

    found = recipe.model.model_dump(exclude={"name"}, exclude_defaults=True)
    found |= recipe.verify.model_dump(exclude={*OF_MACHINE}, exclude_defaults=True)
    return f" {found}" if found else ""


def tasks_of(place: str, language: str, schema: Path | None, database: Path | None, tests: Path | None) -> "Sequence[Task]":
    """Return the tasks at a place, or the task of the prompt on standard input; ConfigError for options of a prompt if none is given."""
    from upsolve.languages import PYTHON
    from upsolve.languages import language as tools_of
    from upsolve.languages.names import language_in
    from upsolve.solve.asked import asked_task, read_tests, schema_of, tasks_at
    from upsolve.solve.databases import schema_in

    given = {"--language": language, "--schema": schema, "--tests": tests}
    if place != "-":
        for option in (name for name, value in given.items() if value):
            raise ConfigError(
                f"{option} has no effect on {place}: its tasks define their own; use it with a prompt (`solve -`)"
            )
        return tasks_at(place)
    language = language_in(language or "python")
    try:
        queries = language not in PYTHON and bool(tools_of(language).engine)
    except ValueError as error:
        raise ConfigError(f"--language: {error}") from error
    text = text_of(schema, "--schema") if schema else ""
    if schema and queries and not schema_in(text):
        raise ConfigError(f"--schema {schema}: holds no CREATE TABLE statement")
    if database and queries and not schema:
        text = schema_of(database)
    shown = read_tests(text_of(tests, "--tests"), f"--tests {tests}", queries=queries) if tests else ()
    return [asked_task(sys.stdin.read(), language=language, schema=text, tests=shown)]


def answers(
    recipe: "Recipe", tasks: "Sequence[Task]", how: "SolveSettings", inputs: "Mapping[str, Sequence[TestCase]] | None"
) -> Iterator[dict[str, Any]]:
    """Yield the answers to tasks as rows; loads the model only if there is a task."""
    from upsolve.policy.engines import sampler
    from upsolve.solve.asked import answer_row, without_inputs
    from upsolve.solve.solving import solve as answers_to
    from upsolve.verify.limits import judge_settings

    if not tasks:
        return
    if missing := without_inputs(tasks, inputs or {}):
        typer.echo(missing, err=True)
    with bars() as progress:
        engine, judging = sampler(recipe.sample, recipe.model), judge_settings(recipe.verify)
        found = answers_to(tasks, engine, recipe.sample, how=how, settings=judging, inputs=inputs, progress=progress)
        yield from map(answer_row, found)


def known(kind: str, option: str, text: str) -> tuple[str, ...]:
    """Return the names of records in an option; ConfigError for an unknown name, before a model is loaded."""
    from upsolve.plugins import find

    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ConfigError(f"{option}: the list is empty; give at least one name, or leave the option out")
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise ConfigError(f"{option}: {twice} is named twice; name it once")
    for name in names:
        try:
            find(kind, name)
        except ValueError as error:
            raise ConfigError(f"{option}: {error}") from error
    return names


def show_answers(rows: list[dict[str, Any]], tasks: str, out: Path | None, *, as_json: bool) -> None:
    """Print one program with its evidence, or how many tasks were answered."""
    if as_json:
        print_json({"answers": rows})
        return
    if tasks == "-":
        for row in rows:
            typer.echo(row["code"])
            scores = row["evidence"].items()
            evidence = ", ".join(f"{kind} {'unknown' if score is None else f'{score:.3g}'}" for kind, score in scores)
            counted = f"{row['candidates']} candidates" if row["candidates"] > 1 else "1 candidate"
            decided = f"; decided by {row['decided_by'] or 'the order'}" if row["candidates"] > 1 else ""
            typer.echo(f"{counted}; {evidence}{decided}", err=True)
        return
    tokens = sum(row["tokens"] for row in rows)
    candidates = sum(row["candidates"] for row in rows)
    typer.echo(f"{len(rows)} tasks answered, {candidates} candidates, {tokens} tokens")
    typer.echo(f"answers: {out}" if out else "name a file with --out to keep the programs")
