"""Code of the attempt's process: load the program, run the tests or answer a tester, report results.

Standard library only. The attempt can read and change everything here, so no verdict is decided here.
"""

from __future__ import annotations

import json
import marshal
import os
import sys
from functools import partial
from time import process_time

import messages
import setups
from interpreter import cpu_limits, feed, finish, new_module, open_stdin, stack_limits, through_pipes
from messages import STEADY, next_request, report, report_error
from operations import OPERATIONS, answer, describe, failure, kind_of, outcome_of, raised
from queries import run as query
from remote import RemoteObjects
from shared import Shared, deeper
from values import plain

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from typing import Any

__all__ = ["TestTimeout", "alarm_clock", "report_value", "run"]


def report_value(index: int, value: Any) -> None:
    """Write the value of a CALL test; a value that cannot be encoded becomes opaque."""
    try:
        text = plain(value)
    except (ValueError, RecursionError, MemoryError):
        text = '["opaque","unprintable"]'
    report(f'{{"test":{index},"value":{text}}}')


class TestTimeout(BaseException):
    """A test exceeded its time limit. The argument is True if the limit of processor time was exceeded."""


def alarm_clock() -> Any:
    """Return ``clock(seconds, of_processor)``: sets timers of elapsed and processor time that raise TestTimeout; 0 cancels a timer."""
    import _signal as signal  # pyright: ignore[reportMissingImports]  without signal's enums, which cost a fork 0.15 ms

    given, begun = [0.0, 0.0], [0.0]
    start, real, processor = signal.setitimer, signal.ITIMER_REAL, signal.ITIMER_PROF

    def ring(number: int, _frame: Any) -> None:
        used = process_time() - begun[0]
        if number == signal.SIGPROF and used < given[1]:  # the timer counts ticks, on a busy machine too many
            start(processor, given[1] - used)
            return
        raise TestTimeout(used >= STEADY * min(limit for limit in given if limit))

    def clock(seconds: float = 0.0, of_processor: float = 0.0) -> None:
        given[:], begun[:] = (seconds, of_processor), (process_time(),)
        start(real, seconds)
        start(processor, of_processor)

    signal.signal(signal.SIGALRM, ring)
    signal.signal(signal.SIGPROF, ring)
    return clock


executed: set[int] = set()
"""Executed lines of the attempt, if the job asks for them."""


def follow(frame: Any, _event: str, _value: Any) -> Any:
    """Trace function that records executed lines of the attempt."""
    if frame.f_code.co_filename != "<attempt>":
        return None
    executed.add(frame.f_lineno)
    return follow


def report_lines() -> None:
    """Report the executed lines, if the job asks for them."""
    if sys.gettrace() is follow:
        report_error(lines=sorted(executed))


def load(job: dict[str, Any], name: str, given: Any = ()) -> dict[str, Any] | None:
    """Execute setup and attempt in a new namespace and return it; None after reporting an error."""
    sys.dont_write_bytecode = True
    try:
        program = compile(job["code"].removeprefix("\ufeff"), "<attempt>", "exec", dont_inherit=True)
    except BaseException as error:
        report_error(compile=[*describe(error)[:2], getattr(error, "lineno", None), getattr(error, "offset", None)])
        return None
    space = new_module(name, job["code"]).__dict__
    space.update(given)
    bound: list[str] = []
    try:
        if job["setup"]:
            before = {*space}
            exec(compile(job["setup"], "<setup>", "exec", dont_inherit=True), space)
            bound = [name for name in space if name not in before] if job["kind"] == "calls" else []
            setups.note(space, bound)
    except BaseException as error:
        report_error(setup=describe(error))
        return None
    if job["lines"]:
        sys.settrace(follow)
    try:
        exec(program, space)
    except TestTimeout as error:
        return report_error(test=0, timeout=True, busy=error.args[0])
    except BaseException as error:
        if name == "__main__" and isinstance(error, SystemExit) and error.code in (None, 0):
            return space
        report_error(load=describe(error))
        return None
    setups.note(space, bound)
    space.update((builtin, partial(undefined, builtin)) for builtin in job.get("required", ()) if builtin not in space)
    return space


def undefined(name: str, /, *_args: Any, **_named: Any) -> Any:
    """Raise NameError instead of using a builtin that the attempt must define."""
    raise NameError(f"name {name!r} is not defined", name=name)


def run(job: dict[str, Any]) -> int | None:
    """Run a job by its ``kind``; return the exit code (None: 0). Integers of any length can be converted, as on contest judges."""
    sys.set_int_max_str_digits(0)
    return KINDS[job["kind"]](job)


def run_tests(job: dict[str, Any]) -> None:
    """Run the CALL and CODE tests of a job; report one result line per test."""
    clock, of_processor = alarm_clock() if job["test_seconds"] else None, job.get("test_cpu_seconds", 0)
    if clock and of_processor:
        clock(job["test_seconds"], of_processor)  # loading has the time of a test
    again = job.get("again", 0)
    saved = marshal.dumps(job["tests"]) if again else b""  # a run may change the arguments
    space = load(job, "attempt")
    if space is None:
        return
    for index, (kind, source) in enumerate(job["tests"]):
        try:
            if clock:
                clock(job["test_seconds"], of_processor)
            if kind == "apply":
                name, args = source
                report_value(index, space[name](*args) if name in space else eval(name, space))
            elif kind == "call":
                report_value(index, eval(source, space))
            else:
                exec(compile(source, "<test>", "exec", dont_inherit=True), space)
                report_error(test=index, ok=job["nonce"])
        except TestTimeout as error:
            report_error(test=index, timeout=True, busy=error.args[0])
            if of_processor:
                break
        except BaseException as error:
            report_error(test=index, error=describe(error))
    if not all(repeat(job, marshal.loads(saved), clock) for _ in range(again)):
        return
    if clock:
        clock()
    if any(kind == "code" for kind, _ in job["tests"]):
        try:
            exec("assert False", space)
            report_error(canary="assert is disabled")
        except AssertionError:
            pass
    report_lines()
    report('{"done":true}')


def repeat(job: dict[str, Any], tests: Any, clock: Any) -> bool:
    """Load the program and evaluate its tests once more, for their cost; return False if one raises."""
    if clock:
        clock(job["test_seconds"], job.get("test_cpu_seconds", 0))
    if (space := load(job, "attempt")) is None:
        return False
    try:
        for kind, source in tests:
            if kind == "apply":
                name, args = source
                space[name](*args) if name in space else eval(name, space)
            elif kind == "call":
                eval(source, space)
            else:
                exec(compile(source, "<test>", "exec", dont_inherit=True), space)
    except BaseException:
        return False
    return True


def run_program(job: dict[str, Any]) -> None:
    """Run a program that reads standard input."""
    open_stdin(job["stdin"])
    sys.argv[:] = ["main.py"]
    if (space := load(job, "__main__")) is not None:
        report_lines()
        finish(space, job["code"])
        report('{"done":true}')


def run_script(job: dict[str, Any]) -> int:
    """Run a program as ``python main.py`` does: traceback on standard error, exit code, threads and exit functions."""
    path, text = os.path.abspath("main.py"), job["code"].decode("utf-8", "surrogatepass")
    put({**job["files"], "main.py": job["code"]})
    open_stdin(job["stdin"])
    sys.argv[:], sys.dont_write_bytecode = [path], True
    sys.path.insert(0, os.path.dirname(path))
    main, code = new_module("__main__", text), 0
    try:
        exec(compile(job["code"], path, "exec", dont_inherit=True), main.__dict__)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if error.code is not None and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
    except BaseException as error:
        step, code = error.__traceback__, 1  # its first frame is this function
        sys.excepthook(type(error), error.with_traceback(step and step.tb_next), None)
    finish(main.__dict__, text)
    return code & 255


def put(files: dict[str, bytes]) -> None:
    """Write files into the working folder; create their parent folders."""
    for name, data in files.items():
        try:
            os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
            with open(name, "wb") as file:
                file.write(data)
        except (OSError, ValueError) as error:
            report_error(broken=f"{name} cannot be written: {error}")
            os._exit(70)


def fetch_files(job: dict[str, Any]) -> None:
    """Write files of the working folder to standard output: for each a JSON line (name, bytes; -1 if it was not read), then the contents.

    The job names the files; absent ones are left out. Without names, all files are written. ``room``: most bytes to write.
    """
    room, found, contents = job["room"] - 2, list[tuple[str, int]](), list[bytes]()
    for name in below(".") if job["names"] is None else job["names"]:
        data = content_of(name, room)
        room -= len(json.dumps([name, 0])) + 20 + len(data or b"")
        if room < 0:
            break
        if data is not None or os.path.lexists(name):
            found.append((name, -1 if data is None else len(data)))
            contents.append(data or b"")
    sys.stdout.buffer.write(b"".join([json.dumps(found).encode(), b"\n", *contents]))
    sys.stdout.flush()


def below(folder: str) -> Any:
    """Yield the paths of all files below a folder, relative to it; a folder that cannot be read yields none."""
    folders = [folder]
    while folders:
        parent = folders.pop()
        try:
            entries = sorted(os.scandir(parent), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            path = entry.path.removeprefix("./")
            if entry.is_dir(follow_symlinks=False):
                folders.append(path)
            else:
                yield path


def content_of(name: str, room: int) -> bytes | None:
    """Return the content of a regular file; None if it does not exist, cannot be read, or exceeds the room."""
    try:
        if not os.path.isfile(name) or os.path.getsize(name) > room:
            return None
        with open(name, "rb") as file:
            return file.read()
    except (OSError, ValueError):
        return None


class LocalValues:
    """Values that are not plain data and stay in this process; the tester gets their numbers."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.numbers: dict[int, int] = {}
        self.writing: set[int] = set()
        """Ids of exceptions that are being encoded, which may contain themselves."""

    def encode_error(self, value: Any, shared: Shared) -> str:
        """Encode an exception with its number; return an empty string for any other value, and while encoding the exception itself."""
        if not issubclass(type(value), BaseException) or id(value) in self.writing:
            return ""
        self.writing.add(id(value))
        try:
            return f'["raised",{{{raised(value, shared)}}},{self.encode(value)}]'
        finally:
            self.writing.discard(id(value))

    def encode_raised(self, error: BaseException) -> str:
        """Encode a raised exception by its number, and free the objects that the frames of its traceback hold."""
        error.__traceback__ = None
        return self.encode(error)

    def encode(self, value: Any) -> str:
        """Encode a value that stays here, by its number and its description."""
        number = self.numbers.setdefault(id(value), len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return f'["remote",{number},{json.dumps(kind_of(value))}]'


def serve_calls(job: dict[str, Any]) -> None:
    """Load the program, then call its functions on requests of the tester, until it closes the pipe.

    A request is (target, args, kwargs): the target is a function's name, or an operation on a value of this process. Arguments other than numbers and
    text are sent as (target, None, JSON text). The answer has the value or the exception, and the containers that the call has changed. Values that
    are not plain data stay here; the tester gets their number.
    """
    space = load(job, "attempt")
    if space is None:
        return
    local = LocalValues()

    def keep(value: Any) -> str:
        return remote.encode(value) or local.encode_error(value, shared) or local.encode(value)

    def held(tag: str, name: Any, about: Any = None) -> Any:
        if tag == "setup":
            return setups.objects[name]
        return local.values[name] if tag == "kept" else eval(name, space) if tag == "own" else remote.object(name, about)

    def serve(request: tuple[Any, Any, Any]) -> None:
        target, args, named = request
        if not target:
            report_lines() if target == "" else report(json.dumps(setups.variables(space, args)))
            return
        scope = ()
        if args is not None:
            shared.settle(())
        else:
            try:
                args, named, scope = shared.arguments(deeper(json.loads, named))
            except NameError as error:  # the tests pass a function that the program does not define
                report(failure(error, shared))
                return
        remote.serving += 1
        kind, outcome = outcome_of(lambda: function_of(target)(*args, **named))
        with remote.lock:  # another thread may be in an exchange with the tester
            remote.serving -= 1
            report(answer(kind, outcome, shared, args, named, scope=scope, limited=not remote.serving))

    def function_of(target: Any) -> Any:
        return eval(target, space) if type(target) is str else partial(OPERATIONS[target[0]], local.values[target[1]])

    shared = Shared(1, keep, held)
    shared.keep_error = local.encode_raised
    remote = RemoteObjects(serve, shared)
    report('{"ready":true}')
    while (request := next_request()) is not None:
        serve(request)


def act(action: str, *args: Any) -> Any:
    """Execute an action in the tester's world; return the name of its failure (empty: none) and its answer."""
    report(json.dumps({"action": action, "args": args}))
    return next_request()


def serve_worlds(job: dict[str, Any]) -> None:
    """Run the program once per world of the tester, each time in a new namespace."""
    while (request := next_request()) is not None:
        if request == "lines":
            report_lines()
        elif (space := load(job, "attempt", {"_act": act})) is not None:
            try:
                eval(job["call"], space)
                report('{"ended":true}')
            except BaseException as error:
                report_error(error=describe(error))


def run_command(job: dict[str, Any]) -> int:
    """Write files and exec another program; return 127, as a shell does, if the program does not exist."""
    import resource

    put(job["files"])
    feed(job["stdin"])
    if job.get("piped"):
        through_pipes()
    resource.setrlimit(resource.RLIMIT_CPU, cpu_limits(job["seconds"]))
    if job["address_bytes"]:
        resource.setrlimit(resource.RLIMIT_AS, (job["address_bytes"], job["address_bytes"]))
    resource.setrlimit(resource.RLIMIT_STACK, stack_limits(*job["stack"]))
    os.set_inheritable(messages.RESULTS, False)
    folder = job["prepared"]  # if it does not exist, arguments and variables that name it are left out
    absent = folder and not os.path.isdir(folder)
    words = [word for word in job["argv"] if not (absent and folder in word)]
    own = {name: text for name, text in job["environment"].items() if not (absent and folder in text)}
    try:
        os.execvpe(
            words[0], words, {"PATH": os.environ["PATH"], "HOME": os.getcwd(), "LANG": "C.UTF-8", "ONLINE_JUDGE": "1", **own}
        )
    except Exception as error:
        message = f"{words[0]} cannot be run: {error!r}"
        report_error(unrunnable=message)
        os.write(2, message.encode(errors="replace") + b"\n")
    return 127


KINDS: Any = {
    "tests": run_tests,
    "program": run_program,
    "queries": lambda job: query(job, report_error),  # pyright: ignore[reportUnknownLambdaType]
    "script": run_script,
    "fetch": fetch_files,
    "calls": serve_calls,
    "worlds": serve_worlds,
    "command": run_command,
}
