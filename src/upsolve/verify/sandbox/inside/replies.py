"""Answers to calls between the tester and the attempt, read on the side that asked: changes, value and exception.

Standard library only.
"""

from __future__ import annotations

import sys

import proxies
import setups
import values

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shared import Shared

__all__ = ["ERROR_NUMBER", "MALFORMED", "result_of"]

MALFORMED = (ValueError, TypeError, LookupError, RecursionError, ArithmeticError, AttributeError)
"""Exceptions of decoding an answer; the value is then opaque."""
ERROR_NUMBER = "_tests_error"
"""Attribute of an exception of the attempt that a function of the tests raised: its number in the tester."""


def result_of(reply: dict[str, Any], shared: Shared, *, own: bool = False) -> Any:
    """Apply the changes that an answer reports; return its value or raise its exception.

    Args:
        reply: the answer.
        shared: decodes values.
        own: whether the answer is of the trusted tester: a StopIteration stays one, and an exception keeps its number.
    """
    value, error = None, None
    try:
        shared.accept(reply)
        if "value" in reply:
            value = shared.value(reply["value"])
        else:
            error = proxies.EndedError(shared.value(reply["end"])) if "end" in reply else exception_in(reply, shared.value, own)
        shared.settle(reply.get("used", ()))
    except MALFORMED:
        shared.settle(())
        return values.Opaque()
    if error:
        raise error
    return value


def exception_in(reply: dict[str, Any], value: Callable[[Any], Any], own: bool) -> BaseException:
    """Return the exception that an answer describes."""
    name, message, line = str(reply["error"][0]), str(reply["error"][1]), reply["error"][2]
    args, attributes = value(reply.get("with", ["tuple", ["list", message], ["dict"]]))
    own_attributes = (
        {key: value for key, value in attributes.items() if isinstance(key, str)} if isinstance(attributes, dict) else {}
    )
    error = rebuilt(name, message, reply.get("classes", ()), args=tuple(args), attributes=own_attributes, stops=own)
    error.__dict__.update(own_attributes)
    if own and "number" in reply:
        setattr(error, ERROR_NUMBER, reply["number"])
    error.attempt_line = line  # type: ignore[attr-defined]
    return error


def rebuilt(
    name: str, message: str, classes: Any, *, args: tuple[Any, ...], attributes: dict[str, Any], stops: bool = False
) -> BaseException:
    """Return an exception of this name with the bases that are known here (``KNOWN``), by module and name in order of resolution.

    StopIteration becomes RuntimeError (PEP 479): raised through ``map``, ``zip``, ``filter`` or ``iter`` it would end a test early,
    without an error. With ``stops`` it stays one: that is for exceptions of the tests in the attempt's process.
    """
    known_classes = [kind for module, kind_name in classes if (kind := known(str(module), str(kind_name)))] or [Exception]
    if not stops and any(issubclass(kind, StopIteration | StopAsyncIteration) for kind in known_classes):
        return RuntimeError(f"the attempt raised {name}")
    if known_classes[0].__name__ == name:
        try:
            if str(error := known_classes[0](*args)) == message:
                return error
        except Exception:
            pass
        try:
            error = known_classes[0].__new__(known_classes[0], *args)
            error.args = args
            error.__dict__.update(attributes)
            if str(error) == message:
                return error
        except Exception:
            pass
    own = [kind for kind in known_classes if not any(other is not kind and issubclass(other, kind) for other in known_classes)]
    for bases in (tuple(own), (own[0],), (Exception,)):
        try:
            kind = type(name, bases, {"__str__": lambda _error: message})  # pyright: ignore[reportUnknownLambdaType]
            error = kind.__new__(kind, *args)
            error.args = args
            return error
        except Exception:  # bases of different layouts, arguments that they do not take
            continue
    return Exception(message)


def may_be_raised(kind: type) -> bool:
    """Return whether a class is of the setup or of modules whose exceptions may be raised."""
    return kind.__module__ in KNOWN or kind.__module__ in setups.MODULES


KNOWN = frozenset(
    "_csv _pickle binascii builtins configparser dataclasses decimal enum ipaddress json.decoder "  # noqa: SIM905
    "pickle re sqlite3 statistics struct zlib".split()
)
"""Modules whose exception classes are used if the tests imported them. Not all: raising some would skip a test."""


def known(module: str, name: str) -> Any:
    """Return an exception class of this name that may be raised here, or None."""
    if module in setups.MODULES:
        kind = setups.objects.get(name)
        return (
            kind
            if isinstance(kind, type) and issubclass(kind, Exception) and all(map(may_be_raised, kind.__mro__[:-1]))
            else None
        )
    kind = getattr(sys.modules.get(module), name, None) if module in KNOWN else None
    fits = isinstance(kind, type) and (issubclass(kind, Exception) or kind is SystemExit)
    return kind if fits else None
