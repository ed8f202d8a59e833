"""Settings of the judge in a request (``limits.DECISIVE``), checked against what the server allows and has."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from difflib import get_close_matches
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from upsolve import __version__
from upsolve.errors import UpsolveError
from upsolve.verify.analysis.analyst import tools
from upsolve.verify.limits import DECISIVE, JudgeSettings, Limits, refuse_impossible
from upsolve.verify.pool.pool import refuse_unknown

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["settings_of"]

UNLIMITED = frozenset(field.name for field in fields(Limits) if field.default == math.inf)
"""Limits for which null means that there is none."""
MOST_REPEATS, MOST_NAMES = 10, 100


@cache
def adapter() -> "TypeAdapter[JudgeSettings]":
    """Return the pydantic adapter of the settings."""
    from pydantic import TypeAdapter

    return TypeAdapter(JudgeSettings)


def settings_of(given: Mapping[str, Any], settings: JudgeSettings, caps: Limits) -> JudgeSettings:
    """Return the server's settings, replaced by those of a request where it holds any (null: the server's).

    Args:
        given: settings by name.
        settings: of the server.
        caps: largest limits of a request.

    Raises:
        ValueError: a setting is unknown, invalid, above its cap, or needs what this machine lacks; names the setting.
    """
    refuse_names(given, DECISIVE, "")
    changes = {name: value for name, value in given.items() if value is not None}
    if long := next(
        (name for name, value in changes.items() if isinstance(value, list) and len(cast("list[Any]", value)) > MOST_NAMES), ""
    ):
        raise ValueError(f"{long}: more than {MOST_NAMES} names")
    asked = limits_of(changes.pop("limits", {}))
    plain = {field.name: getattr(settings, field.name) for field in fields(JudgeSettings)}
    wanted = validated({**plain, **changes, "limits": {**asdict(settings.limits), **asked}})
    most = {"repeats": MOST_REPEATS, **{f"limits.{name}": getattr(caps, name) for name in asked}}
    for name, cap in most.items():
        if not (value := attrgetter(name)(wanted)) <= cap:
            raise ValueError(f"{name}: {value} is more than this server allows: {cap}")
    try:
        refuse_impossible(wanted)
        refuse_unknown(wanted)
        tools(wanted.analyses)
    except UpsolveError as error:
        raise ValueError(f"on the server: {error}") from error
    return wanted


def limits_of(given: Any) -> dict[str, Any]:
    """Return the limits that a request holds; null stands for no limit, or for the server's where a limit is needed."""
    if not isinstance(given, Mapping):
        raise ValueError("limits: is not an object")
    limits = cast("Mapping[str, Any]", given)
    refuse_names(limits, [field.name for field in fields(Limits)], "limits.")
    wanted = {name: math.inf if value is None and name in UNLIMITED else value for name, value in limits.items()}
    return {name: value for name, value in wanted.items() if value is not None}


def refuse_names(given: Iterable[str], known: Iterable[str], where: str) -> None:
    """Raise ValueError for the first name that is not known: of a newer client, or misspelled."""
    names = [*known]
    if unknown := next((name for name in given if name not in names), ""):
        close = get_close_matches(unknown[:100], names, n=1)
        remedy = f"did you mean {where}{close[0]}?" if close else "upgrade the server if a newer client has it"
        raise ValueError(f"unknown field {where}{unknown[:100]!r} for this server (upsolve {__version__}); {remedy}")


def validated(row: dict[str, Any]) -> JudgeSettings:
    """Return the settings of a row; ValueError names each that is invalid."""
    try:
        return adapter().validate_python(row)
    except ValueError as error:  # pydantic's ValidationError
        found: list[Any] = cast("Any", error).errors(include_url=False)[:3]
        raise ValueError("; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg'][:500]}" for one in found)) from None
