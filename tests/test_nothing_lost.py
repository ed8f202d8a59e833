"""What a user could name at commit 988c2b7 can still be named: commands and options, recipes and their keys, records of plug-ins, public names."""

import json
from pathlib import Path

import typer.main

import upsolve
from upsolve.cli.main import app
from upsolve.config import Recipe
from upsolve.config.keys import all_keys
from upsolve.config.recipe import RECIPES
from upsolve.plugins import KINDS, names

BEFORE = Path(__file__).with_name("nothing_lost.json")
"""``names_now()`` at that commit. A name that is removed on purpose is removed here, in the same commit, with the reason."""


def options(command, path="upsolve"):
    """Return the options of each command, with all their names."""
    if hasattr(command, "commands"):
        return {key: words for name, one in command.commands.items() for key, words in options(one, f"{path} {name}").items()}
    found = [one for one in command.params if one.param_type_name == "option"]
    return {path: [word for one in found for word in (*one.opts, *one.secondary_opts)]}


def names_now():
    """Return all names by the place where a user writes them."""
    return {
        **options(typer.main.get_command(app)),
        "recipes": sorted(str(file.relative_to(RECIPES)) for file in RECIPES.rglob("*.yaml")),
        "keys": [*all_keys(Recipe)],
        **{kind.group: [*names(name)] for name, kind in KINDS.items()},
        "upsolve.__all__": [*upsolve.__all__],
    }


def test_every_earlier_name_exists():
    before, now = json.loads(BEFORE.read_text()), names_now()
    lost = {place: sorted({*words} - {*now.get(place, ())}) for place, words in before.items()}
    assert {place: words for place, words in lost.items() if words or place not in now} == {}
