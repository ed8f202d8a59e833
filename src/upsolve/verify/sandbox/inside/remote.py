"""Functions, iterators and files of the tests, in the attempt's process; the tester executes each operation on them.

Standard library only. Runs in the attempt's process, so no verdict is decided here.
"""

from __future__ import annotations

import _thread
import json
import os
import sys

import proxies
from messages import next_request, report
from shared import deeper

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shared import Shared

__all__ = ["RemoteObjects"]

ROOM = 100
"""Frames added to the recursion limit during an exchange with the tester, which must not stop halfway."""
MISSING: Any = type("default", (), {"__repr__": lambda _self: "..."})()  # pyright: ignore[reportUnknownLambdaType]
"""Default of an optional parameter; the tester fills in the actual default."""


class RemoteObjects:
    """Objects of the tests, and the exchange with the tester about them.

    Only one thread at a time exchanges messages, and only while a request of the tester is being served.
    """

    def __init__(self, serve: Callable[[Any], None], shared: Shared) -> None:
        self.serve, self.shared = serve, shared
        self.lock, self.process, self.serving = _thread.RLock(), os.getpid(), 0
        self.objects: dict[int, Any] = {}
        self.numbers: dict[int, int] = {}

    def encode(self, value: Any) -> str:
        """Encode an object of the tests by its number; return an empty string for any other object."""
        return f'["exposed",{self.numbers[id(value)]}]' if id(value) in self.numbers else ""

    def object(self, number: int, about: list[Any]) -> Any:
        """Return the proxy for an object of the tests, or the named object of the standard library."""
        if number not in self.objects:
            proxy = MAKERS[about[0]](self, number, *about[1:])
            self.objects[number], self.numbers[id(proxy)] = proxy, number
        return self.objects[number]

    def ask(self, number: int, operation: str, /, *args: Any, **named: Any) -> Any:
        """Have the tester execute an operation, serve its requests meanwhile, and return the result."""
        with self.lock:
            if not self.serving or os.getpid() != self.process:
                raise RuntimeError("a function of the tests was called outside of a call by the tests, or by another process")
            limit = sys.getrecursionlimit()
            sys.setrecursionlimit(limit + ROOM)
            try:
                report(f'{{"ask":{number},"do":"{operation}",{self.shared.request(args, named)}}}')
                while type(request := next_request()) is tuple:
                    self.serve(request)
                if request is None:  # the tester has exited
                    os._exit(0)
                answer = deeper(json.loads, request)
            finally:
                sys.setrecursionlimit(limit)
            return self.shared.result(answer, own=True)


def named_object(_remote: RemoteObjects, _number: int, module: str, name: str) -> Any:
    """Return an object of the standard library."""
    value = __import__(module, fromlist=["_"])
    for part in name.split("."):
        value = getattr(value, part)
    return value


def function(remote: RemoteObjects, number: int, name: str, text: str | None, parameters: Any) -> Any:
    """Return a function with the name, documentation and parameters of a function of the tests."""

    def call(*args: Any, **named: Any) -> Any:
        return remote.ask(number, "call", *args, **named)

    result = same_parameters(call, *parameters) if parameters else call
    result.__name__ = result.__qualname__ = name
    result.__doc__, result.__module__ = text, "tests"
    return result


def same_parameters(call: Any, names: list[str], positional_only: int, positional: int, keyword: int, *more: Any) -> Any:
    """Return a function with these parameters that passes its arguments to another function."""
    has_args, has_named, optional, optional_names = more
    first, only = names[:positional], names[positional : positional + keyword]
    rest = names[positional + keyword :]
    shown = [f"{name}=_missing" if index >= positional - optional else name for index, name in enumerate(first)]
    if positional_only:
        shown.insert(positional_only, "/")
    shown += [f"*{rest[0]}"] if has_args else ["*"] if only else []
    shown += [f"{name}=_missing" if name in optional_names else name for name in only]
    shown += [f"**{rest[-1]}"] if has_named else []
    args = f"[{', '.join(first)}], {rest[0] if has_args else '()'}"
    named = ", ".join([*(f"{name!r}: {name}" for name in only), *([f"**{rest[-1]}"] if has_named else [])])

    def forward(given: list[Any], others: tuple[Any, ...], named: dict[str, Any]) -> Any:
        filled = next((index for index, value in enumerate(given) if value is MISSING), len(given))
        by_name = {**dict(zip(first[filled:], given[filled:], strict=True)), **named}
        return call(*given[:filled], *others, **{name: value for name, value in by_name.items() if value is not MISSING})

    return eval(f"lambda {', '.join(shown)}: _forward({args}, {{{named}}})", {"_forward": forward, "_missing": MISSING})


def iterator(remote: RemoteObjects, number: int, kind: str) -> Any:
    """Return a generator or iterator that requests each item from the tester."""

    def generator() -> Any:
        try:
            while True:
                yield remote.ask(number, "next")
        except proxies.EndedError as end:
            return end.value

    def following(_self: Any) -> Any:
        try:
            return remote.ask(number, "next")
        except proxies.EndedError:
            raise StopIteration from None

    return generator() if kind == "generator" else type(kind, (), {"__iter__": itself, "__next__": following})()


def itself(value: Any) -> Any:
    """Return the argument: ``__iter__`` and ``__enter__`` of iterators and files."""
    return value


def line_of(file: Any) -> Any:
    """Return the next line of a file; raise StopIteration at its end."""
    if line := file.readline():
        return line
    raise StopIteration


def file(remote: RemoteObjects, number: int, kind: str, methods: list[str]) -> Any:
    """Return a file whose methods the tester executes."""

    def method(name: str) -> Any:
        return lambda _self, *args: remote.ask(number, name, *args)  # pyright: ignore[reportUnknownLambdaType]

    special = {"__iter__": itself, "__enter__": itself, "__next__": line_of, "__exit__": lambda self, *_: self.close()}  # pyright: ignore[reportUnknownLambdaType]
    return type(kind, (), {**special, **{name: method(name) for name in methods}})()


def getter(_remote: RemoteObjects, _number: int, name: str, args: list[Any]) -> Any:
    """Return an ``itemgetter``, ``attrgetter`` or ``methodcaller``."""
    import operator

    return getattr(operator, name)(*args)


MAKERS: dict[str, Any] = {"name": named_object, "getter": getter, "function": function, "iterator": iterator, "file": file}
