"""Objectives that a recipe can name (``objective.kind``). Imports no torch: a record's functions are imported when first called.

A new objective is one file with one record; ``objective.kind: my_file:MINE`` names it (``docs/objectives.md``).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from upsolve.plugins import only

__all__ = ["OBJECTIVES", "Objective"]


@dataclass(frozen=True, slots=True)
class Objective:
    """A loss function, and the inputs that training must compute for it.

    Legend: T tokens of all attempts of a batch, one after the other; S attempts. ``config`` is the ``ObjectiveConfig``.
    """

    loss: Callable[..., Any]
    """``loss(logp_T, inputs, config) -> [T]``: the policy's log-probabilities with gradient, ``LossInputs``; one loss per
    token, not summed. A loss of a whole attempt is divided evenly among its tokens (``LossInputs.per_token``)."""
    reads: tuple[Literal["reference", "old"], ...] = ()
    """Log-probabilities that the loss needs besides the policy's: under the reference (frozen start), or under pi_old."""
    step_statistic: Callable[..., Any] | None = None
    """``step_statistic(parts, config) -> number``: a number computed over all attempts of an optimiser step; ``parts`` are the
    (log-probabilities, inputs) of each micro-batch. A step of several micro-batches then costs one more forward pass."""
    touched: Callable[..., Any] | None = None
    """``touched(logp_T, inputs, config) -> bool [T]``: tokens that the loss's clip or mask changes, for the metric ``clipped``."""
    keeps_zero: bool = False
    """True if an attempt with advantage 0 has a gradient; otherwise such attempts need no forward pass."""
    unit: Literal["attempt", "pair", "group"] = "attempt"
    """Unit of one loss: an attempt; a pair of a chosen and a rejected attempt (advantages 1 and -1); a whole group."""
    advantages: Literal["token", "attempt", "sign", "unread"] = "token"
    """How the loss uses advantages: ``token``, one per token; ``attempt``, one per attempt; ``sign``, positive means passed, else failed;
    ``unread``, not at all (it reads rewards). With ``sign`` the estimator's ``Advantage.failed`` must be ``zero`` if ``keeps_zero``,
    else ``negative``. ``advantage.kind: gae``, ``advantage.blame`` and ``reward.mask_unexecuted`` have an effect only with ``token``."""
    options: Mapping[str, float | int | bool | str] = field(default_factory=dict[str, float | int | bool | str])
    """Options of the loss with their defaults; a recipe sets them under ``objective.options``, the loss reads ``config.settings``."""

    def __post_init__(self) -> None:
        """Raise ValueError if a field has an unknown value."""
        only("reads", self.reads, ("reference", "old"))
        only("unit", (self.unit,), ("attempt", "pair", "group"))
        only("advantages", (self.advantages,), ("token", "attempt", "sign", "unread"))


def lazy(table: str, name: str) -> Callable[..., Any]:
    """Return a function of a table in ``upsolve.objective.losses``; the module is imported at the first call."""

    def call(*arguments: Any) -> Any:
        return getattr(import_module("upsolve.objective.losses"), table)[name](*arguments)

    return call


def built_in(name: str, *, touched: bool = False, statistic: bool = False, **settings: Any) -> Objective:
    """Return the record of a built-in objective; ``touched``, ``statistic``: whether the module defines these functions."""
    return Objective(
        lazy("LOSSES", name),
        touched=lazy("TOUCHED", name) if touched else None,
        step_statistic=lazy("STATISTICS", name) if statistic else None,
        **settings,
    )


OBJECTIVES: Mapping[str, Objective] = {
    "cispo": built_in("cispo", reads=("old",), touched=True),
    "dft": built_in("dft"),
    "dpo": built_in("dpo", reads=("reference",), unit="pair"),
    "dro": built_in("dro", reads=("reference",), keeps_zero=True, advantages="attempt"),
    "gspo": built_in("gspo", reads=("old",), touched=True),
    "kto": built_in("kto", reads=("reference",), statistic=True, keeps_zero=True, advantages="sign"),
    "m2po": built_in("m2po", reads=("old",), statistic=True, touched=True),
    "nft": built_in("nft", reads=("old",), unit="group", advantages="sign", options={"floor": 1.0}),
    "oapl": built_in("oapl", reads=("reference",), keeps_zero=True, advantages="unread"),
    "ppo_clip": built_in("ppo_clip", reads=("old",), touched=True),
    "rank": built_in("rank", reads=("reference",), keeps_zero=True, unit="group", advantages="unread"),
    "reinforce": built_in("reinforce"),
    "topr": built_in("topr", reads=("reference",)),
    "unlikelihood": built_in("unlikelihood", touched=True, options={"floor": 0.05}),
}
"""Built-in name -> objective."""
