"""Command that answers tasks: sample, run, choose."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from upsolve.cli.app import AsJson, ModelName, Seed, Settings, app, bars, print_json, text_of
from upsolve.cli.recipes import load
from upsolve.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from upsolve.config import Recipe
    from upsolve.solve.solving import SolveSettings
    from upsolve.types import Task, TestCase

__all__ = ["solve"]

BUDGETS = ("tokens", "seconds")


def budget_of(text: str) -> dict[str, float]:
    """Return the limits of ``--budget tokens=N,seconds=N``; ConfigError if it is neither."""
    limits: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, _, number = part.partition("=")
        if name not in BUDGETS or not number.replace(".", "", 1).isdigit() or float(number) <= 0:
            raise ConfigError(f"--budget {part}: write tokens=N (of a task) or seconds=N (of the command), such as tokens=2000")
        limits[name] = float(number)
    return limits


@app.command()
def solve(
    tasks: Annotated[
        str, typer.Argument(help="Archive, JSONL file of tasks, source:path, or - for one prompt from standard input.")
    ],
    model: ModelName = "",
    samples: Annotated[int, typer.Option(min=1, help="Most candidates of a task in a round; the first one is greedy.")] = 8,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; later ones correct candidates of earlier ones.")] = 1,
    parents: Annotated[
        str,
        typer.Option(help="What later rounds correct: refine (the default), scatter, uct, none (new samples), or your own."),
    ] = "",
    choose: Annotated[
        str,
        typer.Option(help="Kinds of evidence, the strongest first: tests, runs, agreement, likelihood, score, or your own."),
    ] = "tests,runs,agreement,likelihood",
    score: Annotated[str, typer.Option(help="Evidence score: a command (docs/scores.md), or likelihood:MODEL.")] = "",
    budget: Annotated[str, typer.Option(help="Limits of sampling: tokens=N of a task, seconds=N of the command.")] = "",
    stop_early: Annotated[bool, typer.Option(help="Sample no more once visible tests pass or three candidates agree.")] = True,
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

    loaded = load(None, [f"sample.samples={samples}", *(settings or [])], model=model, seed=seed)
    limits = budget_of(budget)
    if parents and rounds == 1:
        raise ConfigError(f"--parents {parents} has no effect with one round: add --rounds 3")
    ways = known("parent", "--parents", parents or "refine")
    kinds, scorer = known("evidence", "--choose", choose), scorer_of(score) if score else None
    how = SolveSettings(kinds, int(limits.get("tokens", 0)) or None, limits.get("seconds"), stop_early, rounds, ways[0], scorer)
    wanted = tasks_of(tasks, language, schema, tests)[: limit or None]
    inputs = database_inputs(wanted, database) if database else None
    key = f"{tasks} {loaded.model.name} {loaded.sample.model_dump_json()} {how} {database}{score and f' {score}'}{changed(loaded)}"
    file = AnswerFile(out, key) if out else None
    rows: list[dict[str, Any]] = [*file.answered.values()] if file else []
    for row in answers(loaded, file.unanswered(wanted) if file else wanted, how, inputs):
        rows.append(row)
        if file:
            file.add(row)
    show(rows, tasks, out, as_json=as_json)


def changed(recipe: "Recipe") -> str:
    """Return the settings of model and judge that decide answers and are not the defaults, as text; "" without one."""
    from upsolve.verify.limits import OF_MACHINE

    found = recipe.model.model_dump(exclude={"name"}, exclude_defaults=True)
    found |= recipe.verify.model_dump(exclude={*OF_MACHINE}, exclude_defaults=True)
    return f" {found}" if found else ""


def tasks_of(place: str, language: str, schema: Path | None, tests: Path | None) -> "Sequence[Task]":
    """Return the tasks at a place, or that of the prompt on standard input; ConfigError for options of a prompt without one."""
    from upsolve.languages.names import is_query_language, language_in
    from upsolve.solve.asked import asked_task, read_tests, tasks_at

    given = {"--language": language, "--schema": schema, "--tests": tests}
    if place != "-":
        for option in (name for name, value in given.items() if value):
            raise ConfigError(
                f"{option} has no effect on {place}, whose tasks have their own; it belongs to a prompt: `solve -`"
            )
        return tasks_at(place)
    language = language or "python"
    text = text_of(schema, "--schema") if schema else ""
    queries = is_query_language(language)
    shown = read_tests(text_of(tests, "--tests"), f"--tests {tests}", queries=queries) if tests else ()
    return [asked_task(sys.stdin.read(), language=language_in(language), schema=text, tests=shown)]


def answers(
    recipe: "Recipe", tasks: "Sequence[Task]", how: "SolveSettings", inputs: "Mapping[str, Sequence[TestCase]] | None"
) -> Iterator[dict[str, Any]]:
    """Yield the answers to tasks as rows; the model is loaded if there is a task."""
    from upsolve.policy.engines import sampler
    from upsolve.solve.asked import answer_row
    from upsolve.solve.solving import solve as answers_to
    from upsolve.verify.limits import judge_settings

    if not tasks:
        return
    with bars() as progress:
        engine, judging = sampler(recipe.sample, recipe.model), judge_settings(recipe.verify)
        found = answers_to(tasks, engine, recipe.sample, how=how, settings=judging, inputs=inputs, progress=progress)
        yield from map(answer_row, found)


def known(kind: str, option: str, text: str) -> tuple[str, ...]:
    """Return the names of records in an option; ConfigError for an unknown name, before a model is loaded."""
    from upsolve.plugins import find

    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        try:
            find(kind, name)
        except ValueError as error:
            raise ConfigError(f"{option}: {error}") from error
    return names


def show(rows: list[dict[str, Any]], tasks: str, out: Path | None, *, as_json: bool) -> None:
    """Print one program with its evidence, or how many tasks were answered."""
    if as_json:
        print_json({"answers": rows})
        return
    if tasks == "-":
        for row in rows:
            typer.echo(row["code"])
            evidence = ", ".join(f"{kind} {score:.3g}" for kind, score in row["evidence"].items())
            typer.echo(f"{row['candidates']} candidates; {evidence}; decided by {row['decided_by'] or 'the order'}", err=True)
        return
    tokens = sum(row["tokens"] for row in rows)
    candidates = sum(row["candidates"] for row in rows)
    typer.echo(f"{len(rows)} tasks answered, {candidates} candidates, {tokens} tokens")
    typer.echo(f"answers: {out}" if out else "name a file with --out to keep the programs")
