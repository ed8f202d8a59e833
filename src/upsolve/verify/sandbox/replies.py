"""Answers to calls between the tester and the attempt, read on the side that asked: value, exception, and changes in place.

Standard library only.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from upsolve.verify.sandbox import exceptions, stand_ins, values
else:
    import exceptions
    import stand_ins
    import values

__all__ = ["ERROR_NUMBER", "MALFORMED", "result_of"]

MALFORMED = (ValueError, TypeError, LookupError, RecursionError, ArithmeticError, AttributeError)
"""Exceptions of decoding an answer; the value is then opaque."""
ERROR_NUMBER = "_lent_error"
"""Attribute of an exception of the attempt that a function of the tests raised: its number in the tester."""


def result_of(
    reply: dict[str, Any], args: tuple[Any, ...], named: dict[str, Any], *, held: Callable[..., Any], own: bool = False
) -> Any:
    """Apply the changes to the arguments that an answer reports; return its value or raise its exception.

    Args:
        reply: the answer.
        args: positional arguments of the call, as this side holds them.
        named: keyword arguments of the call, as this side holds them.
        held: returns values that are not plain data.
        own: whether the answer is of the trusted tester: a StopIteration stays one, and an exception keeps its number.
    """

    def value(data: Any) -> Any:
        return values.value_of(data, held=held)

    try:
        if "args" in reply:
            merge(args, tuple(value(reply["args"])))
            merge(named, value(reply["named"]))
        if "same" in reply:
            return named[reply["same"]] if isinstance(reply["same"], str) else args[reply["same"]]
        if "value" in reply:
            return value(reply["value"])
        error: BaseException = stand_ins.EndedError(value(reply["end"])) if "end" in reply else exception(reply, value, own)
    except MALFORMED:
        return values.Opaque()
    raise error


def exception(reply: dict[str, Any], value: Callable[[Any], Any], own: bool) -> BaseException:
    """Return the exception that an answer describes."""
    name, message, line = str(reply["error"][0]), str(reply["error"][1]), reply["error"][2]
    args, attributes = value(reply.get("with", ["tuple", ["list", message], ["dict"]]))
    error = exceptions.exception(name, message, reply.get("classes", ()), args=tuple(args), stops=own)
    if isinstance(attributes, dict):
        error.__dict__.update({key: value for key, value in attributes.items() if isinstance(key, str)})
    if own and "number" in reply:
        setattr(error, ERROR_NUMBER, reply["number"])
    error.attempt_line = line  # type: ignore[attr-defined]
    return error


def merge(own: Any, changed: Any) -> Any:
    """Copy the other side's changes to its copy of a value into our own lists, dicts and sets, as far as they match."""
    if type(own) is not type(changed):
        return changed
    if isinstance(own, list):
        own[:] = [*map(merge, own, changed), *changed[len(own) :]]
    elif isinstance(own, dict):
        merged = {key: merge(own[key], value) if key in own else value for key, value in changed.items()}
        own.clear()
        own.update(merged)
    elif isinstance(own, set):
        own.clear()
        own.update(changed)
    elif isinstance(own, bytearray):
        own[:] = changed
    elif type(own).__name__ == "ndarray" and own.shape == changed.shape:
        own[...] = changed
    elif type(own).__name__ == "deque":
        own.clear()
        own.extend(changed)
    elif isinstance(own, tuple) and len(own) == len(changed):
        for pair in zip(own, changed, strict=True):
            merge(*pair)
    else:
        return changed
    return own
