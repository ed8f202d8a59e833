"""The seeds of a recipe, and what is the same in runs that differ in seeds alone."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from upsolve.types import content_id

__all__ = ["seeds_of", "without_seeds"]


def without_seeds(settings: Mapping[str, Any]) -> str:
    """Return a content id of a recipe without its name and its seeds, except that of the split: equal in runs of one method with other seeds."""
    kept = {
        key: value for key, value in keys_of(settings) if key not in ("name", *seed_keys(settings)) or key == "data.split_seed"
    }
    return content_id(json.dumps(kept, sort_keys=True))


def seeds_of(settings: Mapping[str, Any]) -> str:
    """Return the seeds of a recipe, by key."""
    values = dict(keys_of(settings))
    return ", ".join(f"{key} {values[key]}" for key in seed_keys(settings))


def seed_keys(settings: Mapping[str, Any]) -> list[str]:
    """Return the keys of a recipe that are seeds, such as ``source.rollout.seed``."""
    return [key for key, _ in keys_of(settings) if (last := key.rpartition(".")[2]) == "seed" or last.endswith("_seed")]


def keys_of(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the keys of a recipe with those of the stages above them, and their values."""
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from keys_of(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value
