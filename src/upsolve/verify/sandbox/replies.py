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
    said: dict[str, Any], args: tuple[Any, ...], named: dict[str, Any], *, held: Callable[..., Any], own: bool = False
) -> Any:
    """Apply the changes to the arguments that an answer reports; return its value or raise its exception.

    Args:
        said: the answer.
        args: positional arguments of the call, as this side holds them.
        named: keyword arguments of the call, as this side holds them.
        held: returns values that are not plain data.
        own: whether the answer is of the trusted tester: a StopIteration stays one, and an exception keeps its number.
    """

    def value(data: Any) -> Any:
        return values.value_of(data, held=held)

    try:
        if "args" in said:
            merge(args, tuple(value(said["args"])))
            merge(named, value(said["named"]))
        if "same" in said:
            return named[said["same"]] if isinstance(said["same"], str) else args[said["same"]]
        if "value" in said:
            return value(said["value"])
        error: BaseException = stand_ins.EndedError(value(said["end"])) if "end" in said else exception(said, value, own)
    except MALFORMED:
        return values.Opaque()
    raise error


def exception(said: dict[str, Any], value: Callable[[Any], Any], own: bool) -> BaseException:
    """Return the exception that an answer describes."""
    name, message, line = str(said["error"][0]), str(said["error"][1]), said["error"][2]
    args, attributes = value(said.get("with", ["tuple", ["list", message], ["dict"]]))
    error = exceptions.exception(name, message, said.get("classes", ()), args=tuple(args), stops=own)
    if isinstance(attributes, dict):
        error.__dict__.update({key: value for key, value in attributes.items() if isinstance(key, str)})
    if own and "number" in said:
        setattr(error, ERROR_NUMBER, said["number"])
    error.attempt_line = line  # type: ignore[attr-defined]
    return error


def merge(mine: Any, theirs: Any) -> Any:
    """Copy the other side's changes to its copy of a value into our own lists, dicts and sets, as far as they match."""
    if type(mine) is not type(theirs):
        return theirs
    if isinstance(mine, list):
        mine[:] = [*map(merge, mine, theirs), *theirs[len(mine) :]]
    elif isinstance(mine, dict):
        merged = {key: merge(mine[key], value) if key in mine else value for key, value in theirs.items()}
        mine.clear()
        mine.update(merged)
    elif isinstance(mine, set):
        mine.clear()
        mine.update(theirs)
    elif isinstance(mine, bytearray):
        mine[:] = theirs
    elif type(mine).__name__ == "ndarray" and mine.shape == theirs.shape:
        mine[...] = theirs
    elif type(mine).__name__ == "deque":
        mine.clear()
        mine.extend(theirs)
    elif isinstance(mine, tuple) and len(mine) == len(theirs):
        for pair in zip(mine, theirs, strict=True):
            merge(*pair)
    else:
        return theirs
    return mine
