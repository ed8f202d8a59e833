"""Shell completion of recipes, their keys, and records by name. Each function imports what it needs, so that completion is fast."""

__all__ = ["exports", "keys", "recipes", "settings", "sources"]


def recipes(incomplete: str) -> list[str]:
    """Return the recipes of the package with this prefix; without one, the shell completes files."""
    from upsolve.config.recipe import recipe_names

    return [name for name in recipe_names() if name.startswith(incomplete)]


def keys(incomplete: str) -> list[str]:
    """Return the keys and stages of a recipe with this prefix."""
    from upsolve.config import Recipe
    from upsolve.config.keys import all_keys

    return [key for key in all_keys(Recipe) if key.startswith(incomplete)]


def settings(incomplete: str) -> list[str]:
    """Return the keys of a recipe with this prefix, as ``--set`` takes them: ``optim.lr=``."""
    from upsolve.config import Recipe
    from upsolve.config.keys import all_keys, is_stage

    return [f"{key}=" for key in all_keys(Recipe) if key.startswith(incomplete) and not is_stage(Recipe, key)]


def sources(incomplete: str) -> list[str]:
    """Return the importers with this prefix."""
    return records("source", incomplete)


def exports(incomplete: str) -> list[str]:
    """Return the export formats with this prefix."""
    return records("export", incomplete)


def records(kind: str, incomplete: str) -> list[str]:
    """Return the names of the records of a kind with this prefix."""
    from upsolve.plugins import names

    return [name for name in names(kind) if name.startswith(incomplete)]
