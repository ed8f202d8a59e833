"""Exceptions of the other process, rebuilt: name, message, arguments and every base class that is safe to raise.

Standard library only.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from typing import Any

    from upsolve.verify.sandbox import setups
else:
    import setups

__all__ = ["exception"]


def exception(
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
