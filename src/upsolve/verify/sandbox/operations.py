"""Operations on values that are not plain data and stay in the attempt's process, and answers to calls between the processes.

Standard library only. No verdict is decided here.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from typing import Any

    from upsolve.verify.sandbox.values import plain
else:
    from values import plain

__all__ = ["OPERATIONS", "SHOWN", "answer", "describe", "kind_of", "raised", "step"]

SCALARS = (int, str, float, bool, type(None), bytes, complex)
"""Immutable types of arguments."""
CHANGING = (list, dict, set, bytearray)
"""Types for which a test may check that a call returns the same object that it was given."""


class StopError(Exception):
    """An iterator is exhausted; ``value``: its return value."""

    def __init__(self, value: Any) -> None:
        self.value = value


def step(iterator: Any, *sent: Any) -> Any:
    """Return the next item of an iterator, or the next value of a generator after sending it a value."""
    try:
        return iterator.send(*sent) if sent else next(iterator)
    except StopIteration as end:
        raise StopError(end.value) from None


def wait_for(coroutine: Any) -> Any:
    """Run a coroutine to its end."""
    import asyncio

    return asyncio.run(coroutine)


def call(value: Any, *args: Any, **named: Any) -> Any:
    """Call a value."""
    return value(*args, **named)


def operation(name: str) -> Any:
    """Return a function that calls a special method on the type of its argument."""

    def done(value: Any, *args: Any) -> Any:
        return getattr(type(value), name)(value, *args)

    return done


SHOWN = (
    "__call__",
    "__iter__",
    "__next__",
    "__len__",
    "__getitem__",
    "__setitem__",
    "__delitem__",
    "__bool__",
    "__enter__",
    "__exit__",
)
"""Special methods that a stand-in has if its value has them."""
OPERATIONS: dict[str, Any] = {
    **{name: operation(name) for name in SHOWN},
    **{f"__{name}__": operation(f"__{name}__") for name in ("eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "hash")},
    "__call__": call,
    "__iter__": iter,
    "__next__": step,
    "getattr": getattr,
    "setattr": setattr,
    "str": str,
    "repr": repr,
    "await": wait_for,
}
"""Operations on a value kept here, by name."""
WRAPPED = ("generator", "coroutine", "map", "filter")
"""Types that the tester wraps in an object of the same type."""


def kind_of(value: Any) -> list[Any]:
    """Return the name of a value's type and the special methods that it has."""
    kind = type(value)
    return [kind.__name__, [] if kind.__name__ in WRAPPED else [name for name in SHOWN if hasattr(kind, name)]]


def describe(error: BaseException) -> list[Any]:
    """Return [type, message, innermost line of the attempt] of an exception."""
    if isinstance(error, MemoryError):  # its frames hold the data that filled the memory: free them, for the report
        error.__traceback__ = None
        return ["MemoryError", "", None]
    line, step = None, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == "<attempt>":
            line = step.tb_lineno
        step = step.tb_next
    try:
        message = str(error)[:500]
    except BaseException:
        message = ""
    return [type(error).__name__[:100], message, line]


def raised(error: BaseException, keep: Any) -> str:
    """Return an exception as fields of an answer: type, message and line; module and name of its classes; arguments; attributes."""
    fields = f'"error":{json.dumps(describe(error))}'
    try:
        classes = [[kind.__module__, kind.__qualname__] for kind in type(error).__mro__]
        return f'{fields},"classes":{json.dumps(classes)},"with":{plain([error.args, vars(error)], 0, keep)}'
    except BaseException:  # exceptions of an attempt can raise anything
        return fields


def answer(work: Any, args: Any, named: Any, *, keep: Any, number_of: Any = None) -> str:
    """Do what a request asks for; return the value or exception, and the arguments afterwards, which may have changed.

    ``number_of`` returns the number under which an exception is remembered, or None.
    """
    try:
        value = work()
        same = [index for index, given in (*enumerate(args), *named.items()) if given is value and type(value) in CHANGING]
        fields = f'"same":{json.dumps(same[0])}' if same else f'"value":{plain(value, 0, keep)}'
    except StopError as end:
        fields = f'"end":{plain(end.value, 0, keep)}'
    except BaseException as error:
        number = number_of(error) if number_of else None
        fields = raised(error, keep) + (f',"number":{number}' if number is not None else "")
    if all(type(given) in SCALARS for given in (*args, *named.values())):
        return f"{{{fields}}}"
    return f'{{{fields},"args":{plain(list(args), 0, keep)},"named":{plain(named, 0, keep)}}}'
