"""The formulas that made published rows: python benchmarks/formulas.py prints the rows of results/ that an earlier formula made."""

import json
from functools import cache
from pathlib import Path

from upsolve.config import load_recipe
from upsolve.objective.losses import formula_id

__all__ = ["earlier", "formula_of", "marked"]

RESULTS = Path(__file__).parent / "results"


@cache
def formula_of(recipe, settings=()):
    """Return today's id of the formulas of a recipe (``upsolve.objective.losses.formula_id``)."""
    loaded = load_recipe(recipe, [one for one in settings if one.startswith(("advantage.", "objective."))])
    return formula_id(loaded.advantage, loaded.objective)


def marked(name, row):
    """Return the name of a row in a table, with a mark if an earlier formula made one of its runs."""
    return f"{name} (earlier formula)" if {*row.get("formulas", ())} - {row.get("formula today")} else name


def earlier():
    """Return the rows with the results of an earlier formula, as file and method."""
    from leaderboard import METHODS

    found = []
    for file in sorted(RESULTS.glob("leaderboard/*/*.cost.json")):
        row = json.loads(file.read_text(encoding="utf-8"))
        method = METHODS[row["method"]]
        if row["formula"] != formula_of(method.recipe, method.settings):
            found.append((file.parent.name, row["method"]))
    rows = json.loads((RESULTS / "mbpp_offline.json").read_text(encoding="utf-8"))["methods"]
    rows = [row for row in rows if "formulas" in row]
    found += [("mbpp_offline", row["method"]) for row in rows if {*row["formulas"]} - {formula_of(row["method"])}]
    return [*dict.fromkeys(found)]


if __name__ == "__main__":
    for place, method in earlier():
        print(f"{place}: {method}")
