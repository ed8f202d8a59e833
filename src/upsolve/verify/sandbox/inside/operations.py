"""Operations on values that are not plain data and stay in the attempt's process, and answers to calls between the processes.

Standard library only. No verdict is decided here.
"""

from __future__ import annotations

import functools
import json
import operator
import sys

import setups
from values import ABSTRACT, as_builtin, plain_base

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from typing import Any

    from shared import Shared

__all__ = [
    "ANSWERING",
    "CHANGING",
    "COMBINING",
    "COMPARING",
    "CONVERSIONS",
    "DIFFERENCES",
    "IN_PLACE",
    "OPERATIONS",
    "PAIRWISE",
    "SHOWN",
    "WITHHELD",
    "answer",
    "describe",
    "failure",
    "kind_of",
    "operator_of",
    "outcome_of",
    "raised",
    "step",
]

spare = [bytes(2 << 20) for _ in range(8)]
"""Blocks of memory that ``make_room`` frees; only address space, since they are never written."""

loops: list[Any] = []
"""The event loop of asynchronous special methods, once one exists."""


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


def awaited(name: str) -> Any:
    """Return a function that awaits an asynchronous special method. All share one loop, because closing a loop closes asynchronous generators."""

    def done(value: Any, *args: Any) -> Any:
        import asyncio

        if not loops:
            loops.append(asyncio.new_event_loop())

        async def work() -> Any:
            try:
                return await getattr(type(value), name)(value, *args)
            except StopAsyncIteration:
                raise StopError(None) from None

        return loops[0].run_until_complete(work())

    return done


def call(value: Any, /, *args: Any, **named: Any) -> Any:
    """Call a callable value."""
    return value(*args, **named)


def operation(name: str) -> Any:
    """Return a function that calls a special method on the type of its argument."""
    return lambda value, *args: getattr(type(value), name)(value, *args)  # pyright: ignore[reportUnknownLambdaType]


def reflected(name: str) -> Any:
    """Return a function that applies an operator to its arguments in reverse order."""
    return lambda value, other: operator_of(f"__{name}__")(other, value)  # pyright: ignore[reportUnknownLambdaType]


def operator_of(name: str) -> Any:
    """Return the function of an operator by the name of its special method."""
    return getattr(operator, name, divmod)


def drop(iterator: Any) -> None:
    """Close a generator that the tests no longer use, unless code of the attempt refers to it."""
    if hasattr(iterator, "close") and sys.getrefcount(iterator) <= UNUSED:
        iterator.close()


EXAMPLE = [object()]
UNUSED = functools.partial(lambda value: sys.getrefcount(value), *EXAMPLE)()  # pyright: ignore[reportUnknownLambdaType]
"""Result of ``sys.getrefcount`` in ``drop`` for an object that only the table of values refers to."""


def copied(name: str) -> Any:
    """Return a function of module ``copy``."""

    def done(value: Any) -> Any:
        import copy

        return getattr(copy, name)(value)

    return done


SHOWN = tuple(
    f"__{name}__"
    for name in "call iter next len getitem setitem delitem bool enter exit reversed aiter anext aenter aexit neg pos abs invert "  # noqa: SIM905
    "format int float complex index round trunc floor ceil bytes fspath contains".split()
)
"""Special methods that a proxy has if its value has them."""
PAIRWISE = "eq ne lt le gt ge add sub mul matmul truediv floordiv mod divmod pow and or xor lshift rshift".split()  # noqa: SIM905
"""Special methods for two values of the attempt; the first six compare."""
COMPARING = tuple(f"__{name}__" for name in PAIRWISE[:6])
CONVERSIONS = [f"__{name}__" for name in "int float complex index round trunc floor ceil bytes bool".split()]  # noqa: SIM905
ANSWERING = (
    "__len__",
    "__getitem__",
    "__contains__",
    *CONVERSIONS,
    "__neg__",
    "__pos__",
    "__abs__",
    "__invert__",
    "__format__",
)
"""Special methods that a subclass of a builtin type may override and that answer with data."""
COMBINING = [f"__{way}{name}__" for way in ("", "r", "i") for name in PAIRWISE[6:]]
IN_PLACE = COMBINING[-len(PAIRWISE[6:]) :]
DIFFERENCES = [f"__{way}{name}__" for way in ("", "r", "i") for name in "sub truediv floordiv mod divmod xor".split()]  # noqa: SIM905
"""Operators by which tests compare a result with the expected value, such as ``abs(f(2) - 4) < 1e-9``."""
WITHHELD = [f"__{way}{name}__" for way in ("", "r", "i") for name in ("and", "or")]
"""Operators that never get a value of the tests: an object could return that value, as ``f(2) & {4} == {4}`` expects."""
CHANGING = (
    "__call__",
    "__setitem__",
    "__delitem__",
    "__enter__",
    "__exit__",
    "setattr",
    "delattr",
    "await",
    "close",
    "drop",
    *IN_PLACE,
)
"""Operations after which an object may answer differently."""
OPERATIONS: dict[str, Any] = {
    **{name: operation(name) for name in SHOWN},
    **{f"__{name}__": operator_of(f"__{name}__") for name in PAIRWISE},
    **{name: operator_of(name) for name in IN_PLACE},
    **{f"__r{name}__": reflected(name) for name in PAIRWISE[6:]},
    "__bool__": bool,
    "__hash__": hash,
    "__call__": call,
    "__iter__": iter,
    "__next__": step,
    "close": lambda generator: generator.close(),  # pyright: ignore[reportUnknownLambdaType]
    "drop": drop,
    "getattr": getattr,
    "setattr": setattr,
    "delattr": delattr,
    "dir": dir,
    "fields": lambda value: {**vars(value), **({"args": value.args} if isinstance(value, BaseException) else {})},  # pyright: ignore[reportUnknownLambdaType]
    "copy": copied("copy"),
    "deepcopy": copied("deepcopy"),
    "equal": as_builtin,
    "str": str,
    "repr": repr,
    "await": wait_for,
    **{name: awaited(name) for name in ("__anext__", "__aenter__", "__aexit__")},
}
"""Operations on a value of this process, by name."""
WRAPPED = ("generator", "coroutine", "map", "filter")
"""Types that the tester wraps in an object of the same type."""


def kind_of(value: Any) -> list[Any]:
    """Return the name of a value's type, its special methods and abstract bases, the class of the setup that it is or extends, and its hash.

    ``equal`` among the methods: the value is equal to plain data (``as_builtin``).
    """
    kind = type(value)
    if kind.__name__ in WRAPPED:
        return [kind.__name__, [], "", 0]
    compared = ["__eq__"] if kind.__eq__ is not object.__eq__ or kind.__ne__ is not object.__ne__ else []
    abstract = [base.__name__ for base in kind.__mro__ if base.__module__ == "collections.abc" and base.__name__ in ABSTRACT]
    shown = [name for name in (*SHOWN, *IN_PLACE) if hasattr(kind, name)]
    try:
        number = hash(value)
    except Exception:
        number = 0
    same = ["equal"] if plain_base(kind) else []
    return [kind.__name__, [*shown, *compared, *abstract, *same], setups.class_name(kind), number]


def make_room(error: MemoryError) -> None:
    """Free the objects that the error's frames hold, and a block of memory: in a full heap an except clause of CPython 3.11 can loop for ever."""
    if spare:
        spare.pop()
    error.__traceback__ = None


def describe(error: BaseException) -> list[Any]:
    """Return [type, message, innermost line of the attempt] of an exception."""
    if isinstance(error, MemoryError):
        make_room(error)
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


SLOTS = ("name", "path", "filename", "filename2")
"""Attributes of Python's own exceptions that are neither in their arguments nor in their ``__dict__``."""


def raised(error: BaseException, shared: Shared) -> str:
    """Return an exception as fields of an answer: type, message and line; module and name of its classes; arguments; attributes; ``repr`` of its own."""
    fields = f'"error":{json.dumps(describe(error))}'
    try:
        kind: Any = type(error)
        classes = [[base.__module__, base.__qualname__] for base in kind.__mro__]
        slots = {name: getattr(error, name) for name in SLOTS if "descriptor" in type(getattr(kind, name, None)).__name__}
        plain = {name: value for name, value in slots.items() if type(value) in (int, str)}
        text = repr(error)[:500] if kind.__repr__ is not BaseException.__repr__ else None
        fields = f'{fields},"slots":{json.dumps([plain, text])}'
        return f'{fields},"classes":{json.dumps(classes)},"with":{shared.text((error.args, {**vars(error)}))}'
    except BaseException:  # exceptions of an attempt can raise anything
        return fields


def has_members(error: BaseException) -> bool:
    """Return whether classes of the attempt give an exception methods, other attributes, or an ``__eq__``."""
    own = (kind for kind in type(error).__mro__ if kind.__module__ in setups.MODULES)
    return any(name == "__eq__" or not name.startswith("__") for kind in own for name in vars(kind))


def outcome_of(work: Any) -> tuple[str, list[Any]]:
    """Execute a request; return ``value``, ``end`` (of an iterator) or ``error``, and a list that holds the result."""
    try:
        return "value", [work()]
    except StopError as end:
        return "end", [end.value]
    except BaseException as error:
        if isinstance(error, MemoryError):
            make_room(error)
        return "error", [error]


def answer(kind: str, outcome: list[Any], shared: Shared, *arguments: Any, **options: Any) -> str:
    """Return the answer to a request: the changes that it made, and its value or exception.

    Args:
        kind: content of ``outcome``: ``value``, ``end`` or ``error``.
        outcome: a list of one item.
        shared: encodes values.
        arguments: positional and keyword arguments of the request, in containers.
        options: ``scope``: containers in the arguments; ``limited``: see ``Shared.in_use``; ``number_of``: returns the number under which an
            exception is remembered, or None.
    """
    try:
        changed = shared.changes(options["scope"])
        if kind == "error":
            number = options["number_of"](outcome[0]) if "number_of" in options else None
            fields = raised(outcome[0], shared) + (f',"number":{number}' if number is not None else "")
            fields += f',"held":{shared.keep_error(outcome[0])}' if shared.keep_error and has_members(outcome[0]) else ""
        else:
            fields = f'"{kind}":{shared.text(outcome[0])}'
        if not shared.objects:
            return f"{{{fields}}}"
        used = shared.in_use(*arguments, outcome, limited=options.get("limited", False))
    except BaseException as error:  # values of an attempt can raise anything when they are read
        return failure(error, shared)
    shared.settle(used)
    return f'{{"changed":{changed},{fields},"used":{json.dumps(used)}}}'


def failure(error: BaseException, shared: Shared) -> str:
    """Return an answer with an exception after which both sides forget all shared containers."""
    text = f"{{{raised(error, shared)}}}"
    shared.settle(())
    return text
