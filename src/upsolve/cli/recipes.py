"""Commands about recipes: init, recipes, explain; loading a recipe with the options that commands share."""

import re
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated

import typer

from upsolve.cli.app import ArchivePath, AsJson, answer, app, completed, keys, next_step, recipe_names
from upsolve.errors import ConfigError

if TYPE_CHECKING:
    from upsolve.archive.store import Archive
    from upsolve.config import Recipe

__all__ = ["explain", "init", "load", "load_evaluated", "open_trained_on", "recipes"]


GROUPS: dict[str, tuple[str, ...]] = {
    "Start here": ("demo", "auto", "sft", "rloo"),
    "Imitation": ("rft", "dft", "strangers", "conditioned", "unsolved"),
    "Stored groups": (
        *("group_norm", "exp_advantage", "topr", "asymre", "oapl", "awr", "maxrl", "unlikelihood", "divergence"),
        *("pkpo", "passk", "rspo"),
    ),
    "Preferences": ("dpo", "dpo_focal", "kto", "rank"),
    "Online": (
        *("grpo", "dr_grpo", "gspo", "cispo", "rloo_online", "nft", "unlikeliness", "gfpo", "ppo", "ppo_dense"),
        *("rlvr_tests", "rlvr_lint", "rlvr_both", "hybrid", "replay"),
    ),
    "Controls": ("ssd", "placebo", "inverted", "format_only"),
    "Archives of the package": ("demo_python", "sql_sft", "sql_rloo", "robot", "robot_sft"),
    "Published experiments (docs/papers.md)": (),
}
"""Heading -> recipes, as they are listed; the last heading has all others, those in folders."""
CITATION = re.compile(r" \([^()]*\d{4}\.\d{5}[^()]*\)")
LISTED = 120
"""Width of the list of recipes, characters."""


@app.command()
def recipes(
    name: Annotated[
        str,
        typer.Argument(help="Recipe to print, with its comments and what it inherits.", autocompletion=completed(recipe_names)),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List the recipes that come with upsolve, or print one."""
    from upsolve.config.recipe import recipe_text

    if name:
        text = recipe_text(name)
        answer({"name": name, "text": text}, text, as_json=as_json)
        return
    found, lines = grouped(), list[str]()
    for heading, comments in found.items():
        width = max(map(len, comments))
        lines += ["", heading]
        lines += [f"  {recipe:<{width}}  {in_short(text, LISTED - width - 4)}" for recipe, text in comments.items()]
    lines += ["", "`upsolve recipes NAME` prints one, `upsolve init ARCHIVE` writes one for your archive."]
    answer(found, "\n".join(lines[1:]), as_json=as_json)


def grouped() -> dict[str, dict[str, str]]:
    """Return the recipes and their comments, by heading."""
    left = dict(recipe_names())
    found = {heading: {name: left.pop(name) for name in names} for heading, names in GROUPS.items() if names}
    return found | {[*GROUPS][-1]: left}


def in_short(comment: str, width: int) -> str:
    """Return the first sentence of a recipe's comment without citations, cut to a width at a word."""
    first = re.split(r"(?<!\bDr)\. (?=[A-Z])", CITATION.sub("", comment.removeprefix("Start here: ")))[0].rstrip(".")
    return shorten(first[:1].upper() + first[1:], width, placeholder=" ...")


@app.command()
def explain(
    key: Annotated[
        str,
        typer.Argument(help="Key of a recipe, such as optim.lr, or a stage, such as optim.", autocompletion=completed(keys)),
    ],
) -> None:
    """Explain a key of a recipe: type, range, default, documentation."""
    from upsolve.config.recipe import explain as explained

    typer.echo(explained(key).replace("``", "`"))


def load(
    recipe: str | None, settings: Sequence[str] | None, *, model: str = "", archive: str = "", seed: int | None = None
) -> "Recipe":
    """Read a recipe and apply the options that all commands with a model have; ConfigError for a wrong name, key or value."""
    from upsolve.config import load_recipe

    if recipe and Path(recipe).is_dir():
        raise ConfigError(f"{recipe} is a folder, not a recipe; to name an archive, use --archive {recipe}")
    overrides = [f"{key}={value}" for key, value in (("model.name", model), ("data.archive", archive)) if value]
    loaded = load_recipe(recipe, [*(settings or []), *overrides])
    return loaded if seed is None else seeded(loaded, seed)


def open_trained_on(recipe: "Recipe") -> "Archive":
    """Open the archive of a recipe, before torch is imported, which takes seconds; ArchiveError if it has no tasks."""
    from upsolve.archive.store import open_filled

    return open_filled(recipe.data.archive)


def load_evaluated(
    recipe: str | None, settings: Sequence[str] | None, *, model: str = "", archive: str = "", seed: int | None = None
) -> "Recipe":
    """Read a recipe for a command that evaluates; ConfigError also if a setting that evaluations do not read is overridden."""
    for setting in settings or ():
        key, _, value = setting.partition("=")
        if key.strip() == "sample.temperature":
            raise ConfigError(f"evaluations ignore sample.temperature: set evaluate.temperatures=[{value.strip()}]")
    loaded = load(recipe, settings, model=model, archive=archive, seed=seed)
    if loaded.sample.temperature != type(loaded.sample)().temperature:
        temperatures = ", ".join(f"{temperature:g}" for temperature in loaded.evaluate.temperatures)
        typer.echo(f"{recipe}: evaluations ignore sample.temperature and use evaluate.temperatures: {temperatures}", err=True)
    return loaded


def seeded(recipe: "Recipe", seed: int) -> "Recipe":
    """Return a recipe with the same seed for training, grouping, evaluation and rollouts."""
    new = {"seed": seed}
    rollout = recipe.source.rollout.model_copy(update=new)
    stages = {
        "data": recipe.data.model_copy(update=new),
        "sample": recipe.sample.model_copy(update=new),
        "source": recipe.source.model_copy(update={"rollout": rollout}),
    }
    return recipe.model_copy(update={**new, **stages})


@app.command()
def init(
    archive: ArchivePath,
    model: Annotated[str, typer.Option("--model", "-m", help="Folder, .gguf file or Hub name (model.name).")] = "smollm2-135m",
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.")] = Path("recipe.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a commented recipe for an archive and a model, and print the commands that come next."""
    if out.exists() and not force:
        raise ConfigError(f"{out}: exists; choose another file with --out, or replace it with --force")
    from upsolve.archive.places import SHIPPED
    from upsolve.archive.store import open_filled
    from upsolve.config import load_recipe
    from upsolve.plan.starting import counts, first_recipe, look_at, warnings

    found = look_at(open_filled(archive))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(first_recipe(out.stem, archive, model, found), encoding="utf-8")
    load_recipe(str(out))
    judge = ("verdicts first", "verify", archive) if found.info.unjudged and archive not in SHIPPED else ()
    plan = ("will it help, and what will it cost?", "plan", archive, "--recipe", str(out))
    run = ("measure, train, measure again, report", "run", str(out), "--out", f"runs/{out.stem}")
    steps = [next_step(*words) for words in (judge, plan, run) if words]
    commands = [line.removeprefix("next: ").partition("    # ")[0] for line in steps]
    data = {"recipe": str(out), "tasks": found.info.tasks, "attempts": found.info.attempts, "next": commands}
    then = [line.replace("next", "then", 1) for line in steps[1:]]
    lines = [f"{out}: {counts(found)}", *warnings(found), steps[0], *then]
    answer(data, "\n".join(lines), as_json=as_json)
