"""What every stage of a recipe is built on."""

import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ConfigDict

__all__ = ["Strict", "check_options"]


class Strict(BaseModel):
    """Unknown keys and wrong types fail; NaN and infinity fail; instances are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def check_options(what: str, defaults: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Check the settings that a recipe gives to a record.

    Args:
        what: the record, for the message.
        defaults: its settings with their defaults; a value has the type of its default, or is an int where that is a float.
        given: those of the recipe.

    Raises:
        ValueError: a setting that the record does not have, or a value of another type.
    """
    for name, value in given.items():
        if name not in defaults:
            close = get_close_matches(name, defaults, n=1) or sorted(defaults)
            raise ValueError(
                f"{what} has no option {name!r}" + (f"; did you mean {', '.join(close)}?" if close else "; it has none")
            )
        wanted = type(defaults[name])
        fits = type(value) is wanted or (wanted is float and type(value) is int)
        if not fits or (isinstance(value, float) and not math.isfinite(value)):
            raise ValueError(f"{what}: option {name} is a {wanted.__name__} such as {defaults[name]!r}, not {value!r}")
