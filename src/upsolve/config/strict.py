"""Base classes of the stages of a recipe."""

import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, model_validator

from upsolve.plugins import find

__all__ = ["RecordConfig", "Strict", "check_options"]


class Strict(BaseModel):
    """Unknown keys and wrong types fail; NaN and infinity fail; instances are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RecordConfig(Strict):
    """A stage that names a record (``upsolve.plugins``) and sets its options; subclasses add the key of the name and ``options``."""

    NAMED_BY: ClassVar[tuple[str, str]]
    """Kind of the record, and the key that holds its name: ``("objective", "kind")``."""

    if TYPE_CHECKING:  # a field here would come before the key of the name wherever keys are listed
        options: dict[str, Any]

    @property
    def record(self) -> Any:
        """Return the record that the stage names, such as an ``Objective``."""
        kind, key = self.NAMED_BY
        return find(kind, getattr(self, key))

    @property
    def settings(self) -> Mapping[str, Any]:
        """Return the record's options: their defaults, overridden by ``options``."""
        return {**self.record.options, **self.options}

    @model_validator(mode="after")
    def options_are_known(self) -> Self:
        """Refuse options that the record does not have."""
        if self.options:
            kind, key = self.NAMED_BY
            check_options(f"{kind} {getattr(self, key)}", self.record.options, self.options)
        return self


def check_options(record: str, defaults: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Check the options that a recipe gives to a record.

    Args:
        record: name of the record, for the message.
        defaults: the record's options with their defaults; a value has the type of its default, an int may stand for a float.
        options: the options in the recipe.

    Raises:
        ValueError: an option that the record does not have, or a value of another type.
    """
    for name, value in options.items():
        if name not in defaults:
            close = get_close_matches(name, defaults, n=1) or sorted(defaults)
            raise ValueError(
                f"{record} has no option {name!r}" + (f"; did you mean {', '.join(close)}?" if close else "; it has none")
            )
        kind = type(defaults[name])
        fits = type(value) is kind or (kind is float and type(value) is int)
        if not fits or (isinstance(value, float) and not math.isfinite(value)):
            raise ValueError(f"{record}: option {name} is a {kind.__name__} such as {defaults[name]!r}, not {value!r}")
