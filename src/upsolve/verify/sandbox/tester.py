"""The trusted process of CODE tests: runs the tests and calls functions of the attempt through a pipe.

Standard library only. The attempt's process holds neither tests nor results. Its answers are data, decoded here to exact
builtin types, so that no method of the attempt runs in an assertion.
"""

from __future__ import annotations

import json
import marshal
import os

TYPE_CHECKING = False  # the module typing is not imported
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from upsolve.verify.sandbox import child, exceptions, operations, stand_ins, values, world_host
else:
    import child
    import exceptions
    import operations
    import stand_ins
    import values
    import world_host

__all__ = ["SERVANT_GONE", "run"]

REPLIES, REQUESTS = 4, 5
SERVANT_GONE = 3
"""Exit code of a tester whose attempt has ended."""


def attempt_ended() -> NoReturn:
    """Exit because the attempt's process has ended; a test could catch an exception by a bare ``except:``."""
    os._exit(SERVANT_GONE)


def unsupported(name: str) -> NoReturn:
    """Exit because a test passes an argument that is not plain data: the task cannot be judged across processes."""
    child.report_error(unsupported=name)
    os._exit(0)


def test_clock(index: list[int]) -> Any:
    """Return a function that sets the time limit of the current test, seconds (0: none); exceeding it ends this process."""
    import signal

    def ring(_number: int, _frame: Any) -> None:
        child.report_error(test=index[0], timeout=True)  # the attempt is still in that call, and cannot answer another
        os._exit(0)

    signal.signal(signal.SIGALRM, ring)
    return lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)  # pyright: ignore[reportUnknownLambdaType]


class Channel:
    """Remote calls to the attempt's process."""

    def __init__(self) -> None:
        self.replies = open(REPLIES, "rb", closefd=False)

    def reply(self, most: int = -1) -> dict[str, Any]:
        """Return the next reply of the attempt's process, of bounded size; the tester exits if there is none."""
        line = self.replies.readline(most)
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            said = None
        return said if isinstance(said, dict) else attempt_ended()

    def function(self, name: str) -> Any:
        """Return a stub for a function of the attempt."""
        return lambda *args, **named: self.call(name, args, named)  # pyright: ignore[reportUnknownLambdaType]

    def ask(self, request: bytes) -> None:
        """Send a request."""
        try:
            os.write(REQUESTS, len(request).to_bytes(8, "little"))
            while request:
                request = request[os.write(REQUESTS, request) :]
        except OSError:
            attempt_ended()

    def lines_executed(self) -> Any:
        """Return the executed lines that the attempt's process reports."""
        self.ask(marshal.dumps(("", (), {})))
        return self.reply().get("lines")

    def request(self, target: Any, args: tuple[Any, ...], named: dict[str, Any]) -> bytes:
        """Encode a request: as bytes, or as text if an argument is not plain data; values kept by the attempt are sent as numbers."""

        def keep(value: Any) -> str:
            if isinstance(value, stand_ins.Remote):
                return f'["kept",{stand_ins.number_of(value)}]'
            if isinstance(value, values.Opaque):
                raise TypeError("a function was given a value of the attempt's own that is not plain data")
            return unsupported(type(value).__name__)

        try:
            if all(type(given) in MARSHALLED for given in (*args, *named.values())):
                return marshal.dumps((target, args, named))
        except ValueError:
            pass
        return marshal.dumps((target, None, f'["tuple",{values.plain(list(args), 0, keep)},{values.plain(named, 0, keep)}]'))

    def call(self, target: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call a function of the attempt, or operate on a value that it keeps, and apply its changes to the arguments."""
        self.ask(self.request(target, args, named))
        said = self.reply()
        try:
            if "args" in said:
                merge(args, tuple(self.value(said["args"])))
                merge(named, self.value(said["named"]))
            if "same" in said:
                return named[said["same"]] if isinstance(said["same"], str) else args[said["same"]]
            if "value" in said:
                return self.value(said["value"])
            error: BaseException = stand_ins.EndedError(self.value(said["end"])) if "end" in said else self.exception(said)
        except MALFORMED:
            return values.Opaque()
        raise error

    def value(self, data: Any) -> Any:
        """Decode a value sent by the attempt's process."""
        return values.value_of(data, held=self.stand_in)

    def stand_in(self, _tag: str, number: Any, about: Any) -> Any:
        """Return a stand-in for a value that the attempt's process keeps."""
        name, methods = str(about[0]), [str(method) for method in about[1]]
        return stand_ins.stand_in(self, int(number), name, methods)

    def exception(self, said: dict[str, Any]) -> BaseException:
        """Return the exception that an answer describes."""
        name, message, line = str(said["error"][0]), str(said["error"][1]), said["error"][2]
        args, attributes = self.value(said.get("with", ["tuple", ["list", message], ["dict"]]))
        error = exceptions.exception(name, message, said.get("classes", ()), tuple(args))
        if isinstance(attributes, dict):
            error.__dict__.update({key: value for key, value in attributes.items() if isinstance(key, str)})
        error.attempt_line = line  # type: ignore[attr-defined]
        return error


MARSHALLED = (str, int, float, list, tuple, dict, bool, type(None), set, frozenset, bytes, complex)
"""Types that ``marshal`` preserves; it turns a bytearray into bytes."""
MALFORMED = (ValueError, TypeError, LookupError, RecursionError, ArithmeticError, AttributeError)
"""Exceptions of decoding an answer of the attempt's process; the value is then opaque."""


def merge(mine: Any, theirs: Any) -> Any:
    """Copy the attempt's changes to its copy of a value into our own lists, dicts and sets, as far as they match."""
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


def run(job: dict[str, Any]) -> int:
    """Wait for the attempt to load, run the tests, and report; return the exit code."""
    channel = Channel()
    if "worlds" in job:
        world_host.play(job, channel)
        return 0
    said = channel.reply()
    if "ready" not in said:
        child.report_error(**{key: said[key] for key in ("compile", "setup", "load") if key in said})
        return 0
    space: dict[str, Any] = {"__name__": "tests", "__builtins__": __builtins__}
    for name in job["names"]:
        space[name] = channel.function(name)
    try:
        exec(compile(job["setup"], "<setup>", "exec", dont_inherit=True), space)
    except BaseException as error:
        child.report_error(setup=operations.describe(error))
        return 0
    current = [0]
    clock = test_clock(current) if job["test_seconds"] else lambda _seconds: None  # pyright: ignore[reportUnknownLambdaType]
    for index, (kind, source) in enumerate(job["tests"]):
        current[0] = index
        clock(job["test_seconds"])
        one_test(index, kind, source, space)
    clock(0)
    if job["lines"]:
        child.report_error(lines=channel.lines_executed())
    return 0


def one_test(index: int, kind: str, source: str, space: dict[str, Any]) -> None:
    """Run one test and report its result."""
    try:
        if kind == "call":
            child.report_value(index, eval(source, space))
        else:
            exec(compile(source, "<test>", "exec", dont_inherit=True), space)
            child.report_error(test=index, ok=True)
    except BaseException as error:
        child.report_error(test=index, error=[*operations.describe(error)[:2], getattr(error, "attempt_line", None)])
