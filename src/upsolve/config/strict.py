"""Base classes of the stages of a recipe."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidatorFunctionWrapHandler, field_validator, model_validator

from upsolve.errors import ConfigError, UpsolveError
from upsolve.plugins import find

__all__ = ["RecordConfig", "Rule", "Strict", "broken", "check_options"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule across several keys; its message names the keys."""

    holds: Callable[[Any], object]
    """Takes the recipe or stage; returns True if the rule holds."""
    message: str | Callable[[Any], str]
    """The problem and its remedy: a sentence in which ``{0.key}`` is a value of the recipe or stage, or a function of it."""
    error: type[UpsolveError] = ConfigError
    """Raised with the message."""

    def sentence(self, subject: Any) -> str:
        """Return the message for a recipe or stage that breaks the rule."""
        return self.message.format(subject) if isinstance(self.message, str) else self.message(subject)


def broken(rules: Iterable[Rule], subject: Any) -> Iterator[str]:
    """Yield the messages of the rules that do not hold."""
    return (rule.sentence(subject) for rule in rules if not rule.holds(subject))


class Strict(BaseModel):
    """Base class of stages. Unknown keys, wrong types, NaN, infinity, and booleans in the place of numbers are errors. Instances are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    RULES: ClassVar[tuple[Rule, ...]] = ()
    """Rules across the keys of this stage; ``config.rules`` has the rules across stages."""

    @model_validator(mode="after")
    def rules_hold(self) -> Self:
        """Refuse keys that contradict each other or have no effect."""
        for message in broken(self.RULES, self):
            raise ValueError(message)
        return self

    @field_validator("*", mode="wrap")
    @classmethod
    def booleans_stay(cls, value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        """Refuse true and false where pydantic would convert them to 1 and 0."""
        result = handler(value)
        if booleans(value) > booleans(result):
            raise ValueError("true and false are not numbers")
        return result


class RecordConfig(Strict):
    """A stage that names a record (``upsolve.plugins``) and sets its options. Subclasses add ``options`` and the key with the name."""

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


def booleans(value: Any) -> int:
    """Return the number of booleans in a value, in its members, and in the keys that a stage sets."""
    if isinstance(value, BaseModel):
        value = [getattr(value, name) for name in value.model_fields_set]
    if isinstance(value, Mapping):
        value = [*value.values()]
    return sum(map(booleans, value)) if isinstance(value, list | tuple) else isinstance(value, bool)


def check_options(record: str, defaults: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Check the options that a recipe gives to a record against its options with their defaults; ``record`` names it in
    messages.

    A value must have the type of its default; an int may stand for a float. ValueError for another type, or for an option that the record does not
    have.
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
