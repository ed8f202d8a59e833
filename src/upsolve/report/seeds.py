"""The seeds of a recipe, and what is the same in runs that differ in seeds alone."""

import json
from collections.abc import Mapping
from typing import Any

from upsolve.types import content_id

__all__ = ["seeds_of", "without_seeds"]


def without_seeds(settings: Mapping[str, Any]) -> str:
    """Return a content id of a recipe without its name and its seeds, except that of the split: equal in runs of one method with other seeds."""
    stages = {name: stage if isinstance(stage, dict) else {"": stage} for name, stage in settings.items() if name != "name"}
    kept = {
        f"{name}.{key}": value
        for name, stage in stages.items()
        for key, value in stage.items()
        if key == "split_seed" or not (is_seed(name) or is_seed(key))
    }
    return content_id(json.dumps(kept, sort_keys=True))


def is_seed(key: str) -> bool:
    """Return whether a key of a recipe is a seed."""
    return key == "seed" or key.endswith("_seed")


def seeds_of(settings: Mapping[str, Any]) -> str:
    """Return the seeds of a recipe, by key."""
    stages = {f"{name}.": stage for name, stage in settings.items() if isinstance(stage, dict)}
    found = {
        prefix + key: value
        for prefix, stage in {"": settings, **stages}.items()
        for key, value in stage.items()
        if is_seed(key)
    }
    return ", ".join(f"{key} {value}" for key, value in found.items())
