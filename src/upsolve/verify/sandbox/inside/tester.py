"""The trusted process of CODE tests and of simulations: runs the tests, or the worlds, and talks to the attempt through a pipe.

Standard library only. The attempt's process holds neither tests nor results. Its answers are data, decoded here to exact
builtin types, so that no method of the attempt runs in an assertion. In a simulation they are actions, and the attempt gets their answers alone.
"""

from __future__ import annotations

import _thread
import contextlib
import functools
import importlib
import json
import marshal
import os
import sys
import types
from _weakref import ref

import child
import decoys
import local
import messages
import operations
import proxies
import setups
import shared
import values
from interpreter import new_module
from observations import Observations

TYPE_CHECKING = False  # the module typing is not imported
if TYPE_CHECKING:
    from typing import Any, NoReturn

__all__ = ["SERVANT_GONE", "run"]

REPLIES, REQUESTS = 4, 5
REPLY_BYTES = 64 << 20
"""Maximum size of a message of the attempt, bytes; a longer one ends its run."""
MIRRORED = ("random.seed", "numpy.random.seed", "sys.setrecursionlimit", "sys.set_int_max_str_digits")
"""Functions with an effect on the whole process. If the tests call one, it is also called in the attempt's process."""
ISOLATED = "the attempt's own {} was compared or combined with a value of the tests, which the judge never shows to an attempt"
"""Message for a test that may have failed because an object is not plain data."""
SERVANT_GONE = 3
"""Exit code of a tester whose attempt has ended."""


def attempt_ended() -> NoReturn:
    """Exit, because the attempt's process has ended; an exception instead could be caught by a bare ``except:`` in a test."""
    os._exit(SERVANT_GONE)


def unsupported(name: str) -> NoReturn:
    """Exit because a test passes an argument that is not plain data: the task cannot be judged across processes."""
    messages.report_error(unsupported=name)
    os._exit(0)


def test_clock(index: list[int]) -> Any:
    """Return a function that sets the time limit of the current test, seconds (0: none); exceeding it ends this process."""
    import signal

    def ring(_number: int, _frame: Any) -> None:
        messages.report_error(test=index[0], timeout=True)  # the attempt is still in that call, and cannot answer another
        os._exit(0)

    signal.signal(signal.SIGALRM, ring)
    return lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)  # pyright: ignore[reportUnknownLambdaType]


class Channel:
    """Remote calls to the attempt's process."""

    def __init__(self, space: dict[str, Any]) -> None:
        self.replies = open(REPLIES, "rb", closefd=False)
        self.local = local.LocalObjects(space)
        self.shared = shared.Shared(0, self.keep, self.held)
        self.stubs: dict[int, tuple[str, Any]] = {}
        self.lock = _thread.RLock()
        """Held during a call: threads of the tests take turns, and functions that are exposed may call the attempt."""
        self.isolated = ""
        """Type of an attempt's object that the current test compared or combined with a value of the tests; empty if none was."""
        self.decided, self.observed = False, Observations()
        """True if code of the attempt decided what data would decide in the current test; and the answers of its objects."""
        self.tells = self.withheld = False
        """Whether operators of the attempt get values of the tests, and whether one did not."""
        self.places, self.deciding, self.decoy = 0, list[int](), (-1, 0)
        """Operators that got a value of the current test; those whose answer may decide it; the one that gets a decoy instead, and which decoy."""
        self.busy, self.closing = 0, list[tuple[str, int]]()
        """Exchanges in progress, and operations that close generators of the attempt before the next one."""
        self.proxies: dict[int, Any] = {}
        self.errors: dict[int, BaseException] = {}
        self.error_numbers: dict[int, int] = {}
        """Exceptions that the attempt returned, by number, and their numbers by id."""
        self.hashes: dict[int, int] = {}
        """Hashes of the attempt's objects as they came, for the dicts and sets in which they come."""
        self.setup_methods: set[int] = set()
        """Numbers of methods of the attempt's objects that a class of the setup defines."""

    def reply(self, max_bytes: int = REPLY_BYTES) -> dict[str, Any]:
        """Return the next reply of the attempt's process, of bounded size; the tester exits if there is none."""
        line = self.replies.readline(max_bytes)
        try:
            record = shared.deeper(json.loads, line)
        except (ValueError, RecursionError):
            record = None
        return record if isinstance(record, dict) else attempt_ended()

    def function(self, name: str) -> Any:
        """Return a stub for a function of the attempt."""

        def stub(*args: Any, **named: Any) -> Any:
            return self.call(name, args, named)

        stub.__module__ = "tests"  # functions of the tests that call it can be exposed
        self.stubs[id(stub)] = name, stub  # with the stub, so that its id stays in use
        return stub

    def ask(self, request: bytes) -> None:
        """Send a request."""
        try:
            os.write(REQUESTS, len(request).to_bytes(8, "little"))
            while request:
                request = request[os.write(REQUESTS, request) :]
        except OSError:
            attempt_ended()

    def changed(self, variables: tuple[str, ...]) -> bool:
        """Return whether the attempt's process reports changed data in variables of the setup."""
        self.busy += 1
        self.ask(marshal.dumps((None, variables, {})))
        theirs = self.reply()
        self.busy -= 1
        return setups.variables(self.local.space, variables) != theirs

    def request(self, target: Any, args: tuple[Any, ...], named: dict[str, Any]) -> bytes:
        """Encode a request: as bytes if all arguments are numbers, text or the like and no container is shared, else as text."""
        if not self.shared.objects and all(type(given) in values.SCALARS for given in (*args, *named.values())):
            return marshal.dumps((target, args, named))
        try:
            return marshal.dumps((target, None, f"{{{self.shared.request(args, named)}}}"))
        except BaseException:
            self.shared.settle(())
            raise

    def keep(self, value: Any) -> str:
        """Encode a value that is not plain data: a value of the attempt, or an object exposed to it.

        Within a function of the tests that the attempt calls, any other value is an error of that call. Otherwise the attempt could choose that its
        tests run in its own process.
        """
        if isinstance(value, proxies.Proxy):
            return f'["kept",{proxies.number_of(value)}]'
        if isinstance(value, values.Opaque):
            raise TypeError("a function of the tests got a value of the attempt that is not plain data")
        if id(value) in self.error_numbers:
            return f'["kept",{self.error_numbers[id(value)]}]'
        if id(value) in self.stubs:
            return f'["own",{json.dumps(self.stubs[id(value)][0])}]'
        if encoded := self.local.encode(value):
            return encoded
        if self.local.depth:
            raise TypeError(f"a {type(value).__name__} cannot be passed to the attempt's process")
        return unsupported(type(value).__name__)

    def call(self, target: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call a function of the attempt, or operate on a value that it keeps, and apply its changes to the arguments.

        Until it answers, the attempt may request operations on objects of the tests.
        """
        if type(target) is str or target[0] in operations.CHANGING:
            self.observed.changed()
        with self.lock:
            while self.closing:
                with contextlib.suppress(Exception):  # Python ignores it too where no code waits for the generator
                    self.exchange(self.closing.pop(0), (), {})
            return self.exchange(target, args, named)

    def exchange(self, target: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Send a request, answer requests of the attempt, and return its result."""
        self.busy += 1
        try:
            self.ask(self.request(target, args, named))
            while "ask" in (reply := self.reply()):
                self.ask(marshal.dumps(self.local.answer(reply, self.shared)))
            try:
                return self.shared.result(reply)
            except BaseException as error:
                if (own := self.local.passed_on(error)) is error:
                    raise
                raise own from None
        finally:
            self.busy -= 1

    def close(self, number: int) -> None:
        """Close a generator of the attempt: now, or before the next exchange if Python has collected the tester's generator during one."""
        kept = self.proxies.get(number)
        target = "close" if type(kept) is ref and kept() else "drop", number  # Python clears references before it collects
        if self.busy:
            self.closing.append(target)
        else:
            self.call(target, (), {})

    def varied(self, value: Any) -> Any:
        """Return the value of the tests that an operator of the attempt gets next, or its decoy."""
        self.places += 1
        return (decoys.decoys(value) or [value])[self.decoy[1]] if self.places == self.decoy[0] else value

    def held(self, tag: str, number: Any, about: Any = None) -> Any:
        """Return an object of the tests, an object of the setup, an exception, or a proxy for a value of the attempt's process."""
        if tag == "raised":
            proxy = self.held(*about)
            key = proxies.number_of(proxy)
            if key not in self.errors:
                self.errors[key] = error = shared.exception_in({**number, "held": about}, self.shared.value, own=False)
                self.error_numbers[id(error)] = key
            return self.local.passed_on(self.errors[key])
        if tag == "exposed":
            return self.local.objects[int(number)][0]
        if tag == "setup":
            value = setups.objects[number]
            if self.local.depth and isinstance(value, type):
                raise TypeError("functions of the tests cannot take classes of the setup")
            return value
        self.hashes[number] = int(about[3])
        found = self.proxies.get(number)
        found = found() if type(found) is ref else found
        if found is None:
            methods = [str(method) for method in about[1]]
            found = proxies.proxy_of(self, int(number), [str(about[0]), methods, str(about[2])])
            self.proxies[number] = ref(found) if type(found) is types.GeneratorType else found
        return found


def mirror(channel: Channel, sources: list[str]) -> None:
    """Let the functions of MIRRORED that the tests mention also act on the attempt's process."""
    for path in MIRRORED:
        module, _, name = path.rpartition(".")
        if any(name in source for source in sources) and (module in sys.modules or module in sys.stdlib_module_names):
            top, _, rest = path.partition(".")
            owner = importlib.import_module(module)
            setattr(owner, name, mirrored(getattr(owner, name), channel, f"__import__({top!r}).{rest}"))


def mirrored(own: Any, channel: Channel, target: str) -> Any:
    """Return a function that calls a function here, then the same function in the attempt's process."""

    @functools.wraps(own)
    def both(*args: Any, **named: Any) -> Any:
        result = own(*args, **named)
        channel.call(target, args, named)
        return result

    return both


def run(job: dict[str, Any]) -> int:
    """Wait for the attempt to load, run the tests, and report; return the exit code."""
    space: dict[str, Any] = new_module("tests", "").__dict__
    channel = Channel(space)
    if "worlds" in job:
        play(job, channel)
        return 0
    current = [0]
    clock = test_clock(current) if job["test_seconds"] else lambda _seconds: None  # pyright: ignore[reportUnknownLambdaType]
    clock(job["test_seconds"] if job["test_cpu_seconds"] else 0)  # loading has the time of a test
    reply = channel.reply()
    if "ready" not in reply:
        messages.report_error(**{key: reply[key] for key in ("compile", "setup", "load") if key in reply})
        return 0
    try:
        exec(compile(job["setup"], "<setup>", "exec", dont_inherit=True), space)
    except BaseException as error:
        messages.report_error(setup=operations.describe(error))
        return 0
    setups.note(space, [*space])
    for name in job["names"]:
        space[name] = channel.function(name)
    channel.tells, channel.decoy = job["tells"], job["decoy"]
    mirror(channel, [source for _, source in job["tests"]])
    for index, (kind, source) in enumerate(job["tests"]):
        current[0] = index
        clock(job["test_seconds"])
        one_test(index, kind, source, channel, job["variables"])
    clock(0)
    channel.busy += 1  # generators that are left stay open
    if channel.withheld:
        messages.report_error(withheld=True)
    if job["lines"]:
        channel.ask(marshal.dumps(("", (), {})))
        messages.report_error(lines=channel.reply().get("lines"))
    return 0


def one_test(index: int, kind: str, source: str, channel: Channel, variables: tuple[str, ...]) -> None:
    """Run one test and report its result; for a failed test, also whether the attempt has other ``variables`` of the setup."""
    space, channel.isolated, channel.decided, channel.observed = channel.local.space, "", False, Observations()
    channel.places, channel.deciding = 0, []
    try:
        if kind == "call":
            value = eval(source, space)
            child.report_value(index, value)
        else:
            exec(compile(source, "<test>", "exec", dont_inherit=True), space)
            messages.report_error(test=index, ok=True)
        if channel.decided or not channel.observed.consistent:
            messages.report_error(decided=index)
        if channel.deciding:
            messages.report_error(deciding=[index, channel.deciding])
    except BaseException as error:
        name, message, _ = operations.describe(error)
        if channel.isolated and isinstance(error, AssertionError | TypeError):
            message = f"{message} ({ISOLATED.format(channel.isolated)})".lstrip()
        messages.report_error(test=index, error=[name, message, getattr(error, "attempt_line", None)])
        if variables and channel.changed(variables):
            messages.report_error(changed=index)


MOST_ACTIONS = 1000
"""Maximum number of actions in one world."""
MESSAGE_BYTES = 1 << 14
"""Maximum size of a message of the attempt, bytes; after a longer one its messages are ignored."""
STEPS_BYTES = 4 << 20
"""Maximum size of the recorded steps of all worlds, bytes; results may be twice as large."""
TYPES: dict[str, Any] = {"str": str, "int": int, "float": float, "bool": bool}


class BrokenWorldError(Exception):
    """An action raised an exception that the domain does not declare."""


class ActionLimitError(Exception):
    """The attempt exceeded the number of actions."""


def play(job: dict[str, Any], channel: Any) -> None:
    """Run the attempt in every world of a job; report the steps of each."""
    space: dict[str, Any] = new_module("world", "").__dict__
    clock = child.alarm_clock() if job["test_seconds"] else lambda _seconds: None  # pyright: ignore[reportUnknownLambdaType]
    try:
        exec(job["domain"], space)
        for index, initial in enumerate(job["worlds"]):
            world = Watched(space, initial, job["actions"], STEPS_BYTES // len(job["worlds"]))
            try:
                clock(job["test_seconds"])
                continues = one_world(index, world, channel)
                clock(0)
            except child.TestTimeout:  # the attempt's process is still busy and cannot answer
                messages.report_error(test=index, timeout="exceeded the time limit of a world")
                return
            except ActionLimitError:
                messages.report_error(test=index, timeout=f"more than {MOST_ACTIONS} actions, or too long ones, in one world")
                return
            if not continues:
                return
    except Exception as error:
        messages.report_error(world=operations.describe(error))
        return
    if job["lines"]:
        channel.ask(marshal.dumps("lines"))
        messages.report_error(lines=channel.reply(STEPS_BYTES).get("lines"))


def one_world(index: int, world: Watched, channel: Any) -> bool:
    """Run the attempt in one world and report its steps; return False if the attempt cannot be started."""
    channel.ask(marshal.dumps("world"))
    while "action" in (message := channel.reply(MESSAGE_BYTES)):
        channel.ask(marshal.dumps(world.act(message["action"], message.get("args"))))
    if early := {key: message[key] for key in ("compile", "broken") if key in message}:
        messages.report_error(**early)
        return False
    if "ended" in message:
        points = f',"points":{json.dumps(world.points())}' if world.points else ""
        messages.report(f'{{"test":{index},"steps":[{",".join(world.steps)}],"final":{json.dumps(world.state())}{points}}}')
    else:
        messages.report_error(test=index, error=message.get("error", message.get("load")))
    return True


class Watched:
    """A world and the steps taken in it."""

    def __init__(self, space: dict[str, Any], initial: Any, actions: dict[str, list[str]], room: int) -> None:
        self.world = space["World"](initial)
        self.state = self.world.state
        is_given = callable(getattr(space["World"], "points", None)) and "points" not in actions
        self.points = self.world.points if is_given else None
        self.failures, self.actions, self.room = space, actions, room
        self.steps: list[str] = []
        """One JSON object per step: action, arguments, answer, name of the failure, state afterwards."""

    def act(self, action: Any, args: Any) -> tuple[str, Any]:
        """Execute an action; return the name of its failure, empty if none, and its answer."""
        kinds = self.actions.get(action) if isinstance(action, str) else None
        if kinds is None or type(args) is not list:
            return "TypeError", "no such action"
        if len(args) != len(kinds) or not all(map(fits, args, kinds)):
            return "TypeError", f"{action} takes {', '.join(kinds) or 'nothing'}"
        failure, answer = "", None
        try:
            answer = getattr(self.world, action)(*args)
        except Exception as error:
            failure = type(error).__name__
            if self.failures.get(failure) is not type(error):
                raise BrokenWorldError(f"{action} raised {failure}: {error}, given {args}") from error
            answer = str(error)
        self.note([action, args, None if failure else answer, failure, self.state()])
        return failure, answer

    def note(self, step: list[Any]) -> None:
        """Record a step; ActionLimitError if there are too many."""
        self.steps.append(json.dumps(step))
        self.room -= len(self.steps[-1])
        if len(self.steps) > MOST_ACTIONS or self.room < 0:
            raise ActionLimitError


def fits(value: Any, kind: str) -> bool:
    """Return whether a value has the declared type of an argument: ``str``, ``int``, finite ``float``, ``bool``, a list of one of them."""
    if kind.startswith("list["):
        return type(value) is list and all(fits(item, kind[5:-1]) for item in value)
    return type(value) is TYPES[kind] and (kind != "float" or value - value == 0)
