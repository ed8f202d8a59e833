"""What the shell completes besides commands and options: recipes, their keys, and records by name. Imports are those of the key pressed."""

__all__ = ["exports", "keys", "recipes", "settings", "sources"]


def recipes(incomplete: str) -> list[str]:
    """Return the recipes of the package that begin so; none, and the shell completes files."""
    from upsolve.config.recipe import recipe_names

    return [name for name in recipe_names() if name.startswith(incomplete)]


def keys(incomplete: str) -> list[str]:
    """Return the keys and stages of a recipe that begin so."""
    from upsolve.config import Recipe
    from upsolve.config.keys import all_keys

    return [key for key in all_keys(Recipe) if key.startswith(incomplete)]


def settings(incomplete: str) -> list[str]:
    """Return the keys of a recipe that begin so, as ``--set`` takes them: ``optim.lr=``."""
    from upsolve.config import Recipe
    from upsolve.config.keys import all_keys, is_stage

    return [f"{key}=" for key in all_keys(Recipe) if key.startswith(incomplete) and not is_stage(Recipe, key)]


def sources(incomplete: str) -> list[str]:
    """Return the importers that begin so."""
    return records("source", incomplete)


def exports(incomplete: str) -> list[str]:
    """Return the formats of exports that begin so."""
    return records("export", incomplete)


def records(kind: str, incomplete: str) -> list[str]:
    """Return the names of the records of a kind that begin so."""
    from upsolve.plugins import names

    return [name for name in names(kind) if name.startswith(incomplete)]
