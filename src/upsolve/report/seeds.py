"""The seeds of a recipe, and what is the same in runs that differ in seeds alone."""

import json
from collections.abc import Mapping
from typing import Any

from upsolve.train.run.folder import flat
from upsolve.types import content_id

__all__ = ["seeds_of", "without_seeds"]


def without_seeds(settings: Mapping[str, Any]) -> str:
    """Return a content id of a recipe without its name and its seeds, except that of the split: equal in runs of one method with other seeds."""
    kept = {
        key: value for key, value in flat(settings).items() if key == "data.split_seed" or not (key == "name" or is_seed(key))
    }
    return content_id(json.dumps(kept, sort_keys=True))


def seeds_of(settings: Mapping[str, Any]) -> str:
    """Return the seeds of a recipe, by key."""
    return ", ".join(f"{key} {value}" for key, value in flat(settings).items() if is_seed(key))


def is_seed(key: str) -> bool:
    """Return whether a key of a recipe is a seed, such as ``source.rollout.seed``."""
    last = key.rpartition(".")[2]
    return last == "seed" or last.endswith("_seed")
