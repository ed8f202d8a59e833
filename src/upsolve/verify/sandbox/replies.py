"""Answers to calls between the tester and the attempt, read on the side that asked: changes, value and exception.

Standard library only.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from upsolve.verify.sandbox import exceptions, stand_ins, values
    from upsolve.verify.sandbox.shared import Shared
else:
    import exceptions
    import stand_ins
    import values

__all__ = ["ERROR_NUMBER", "MALFORMED", "result_of"]

MALFORMED = (ValueError, TypeError, LookupError, RecursionError, ArithmeticError, AttributeError)
"""Exceptions of decoding an answer; the value is then opaque."""
ERROR_NUMBER = "_lent_error"
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
            error = stand_ins.EndedError(shared.value(reply["end"])) if "end" in reply else exception(reply, shared.value, own)
        shared.settle(reply.get("used", ()))
    except MALFORMED:
        shared.settle(())
        return values.Opaque()
    if error:
        raise error
    return value


def exception(reply: dict[str, Any], value: Callable[[Any], Any], own: bool) -> BaseException:
    """Return the exception that an answer describes."""
    name, message, line = str(reply["error"][0]), str(reply["error"][1]), reply["error"][2]
    args, attributes = value(reply.get("with", ["tuple", ["list", message], ["dict"]]))
    own_attributes = (
        {key: value for key, value in attributes.items() if isinstance(key, str)} if isinstance(attributes, dict) else {}
    )
    error = exceptions.exception(
        name, message, reply.get("classes", ()), args=tuple(args), attributes=own_attributes, stops=own
    )
    error.__dict__.update(own_attributes)
    if own and "number" in reply:
        setattr(error, ERROR_NUMBER, reply["number"])
    error.attempt_line = line  # type: ignore[attr-defined]
    return error
