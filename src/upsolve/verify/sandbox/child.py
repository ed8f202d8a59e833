"""Code of the attempt's process: load the program, run the tests or answer a tester, report results.

Standard library only. The attempt can read and change everything here, so no verdict is decided here.
"""

from __future__ import annotations

import json
import marshal
import os
import sys

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from typing import Any

    from upsolve.verify.sandbox.interpreter import feed, finish, new_module
    from upsolve.verify.sandbox.operations import CHANGING, OPERATIONS, SCALARS, StopError, describe, kind_of, raised
    from upsolve.verify.sandbox.queries import run as query
    from upsolve.verify.sandbox.values import plain, value_of
else:
    from interpreter import feed, finish, new_module
    from operations import CHANGING, OPERATIONS, SCALARS, StopError, describe, kind_of, raised
    from queries import run as query
    from values import plain, value_of

__all__ = ["TestTimeout", "alarm_clock", "report", "report_error", "report_value", "run"]

RESULTS = 3
"""Descriptor of the results: one JSON line per test."""
REQUESTS = 4
"""Descriptor of a tester's requests."""


def report(text: str) -> None:
    """Write one line to the results."""
    data = text.encode() + b"\n"
    while data:
        data = data[os.write(RESULTS, data) :]


def report_value(index: int, value: Any) -> None:
    """Write the value of a CALL test; a value that cannot be encoded becomes opaque."""
    try:
        text = plain(value)
    except (ValueError, RecursionError, MemoryError):
        text = '["opaque","unprintable"]'
    report(f'{{"test":{index},"value":{text}}}')


def report_error(**record: Any) -> None:
    """Write a record of JSON-serialisable fields."""
    report(json.dumps(record))


class TestTimeout(BaseException):
    """A test exceeded its time limit."""


def alarm_clock() -> Any:
    """Return a function that sets a timer, seconds (0: cancel it), after which TestTimeout is raised."""
    import signal

    def ring(_number: int, _frame: Any) -> None:
        raise TestTimeout

    signal.signal(signal.SIGALRM, ring)
    return lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)  # pyright: ignore[reportUnknownLambdaType]


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
        program = compile(job["code"], "<attempt>", "exec", dont_inherit=True)
    except BaseException as error:
        report_error(compile=[*describe(error)[:2], getattr(error, "lineno", None), getattr(error, "offset", None)])
        return None
    space = new_module(name, job["code"]).__dict__
    space.update(given)
    try:
        if job["setup"]:
            exec(compile(job["setup"], "<setup>", "exec", dont_inherit=True), space)
    except BaseException as error:
        report_error(setup=describe(error))
        return None
    if job["lines"]:
        sys.settrace(follow)
    try:
        exec(program, space)
    except BaseException as error:
        if name == "__main__" and isinstance(error, SystemExit) and error.code in (None, 0):
            return space
        report_error(load=describe(error))
        return None
    return space


def run(job: dict[str, Any]) -> int | None:
    """Run a job by its ``kind``; return the exit code (None: 0)."""
    return KINDS[job["kind"]](job)


def run_tests(job: dict[str, Any]) -> None:
    """Run the CALL and CODE tests of a job; report one result line per test."""
    space = load(job, "attempt")
    if space is None:
        return
    clock = alarm_clock() if job["test_seconds"] else None
    for index, (kind, source) in enumerate(job["tests"]):
        try:
            if clock:
                clock(job["test_seconds"])
            if kind == "apply":
                name, args = source
                report_value(index, space[name](*args) if name in space else eval(name, space))
            elif kind == "call":
                report_value(index, eval(source, space))
            else:
                exec(compile(source, "<test>", "exec", dont_inherit=True), space)
                report_error(test=index, ok=job["nonce"])
        except TestTimeout:
            report_error(test=index, timeout=True)
        except BaseException as error:
            report_error(test=index, error=describe(error))
    if clock:
        clock(0)
    if any(kind == "code" for kind, _ in job["tests"]):
        try:
            exec("assert False", space)
            report_error(canary="assert is disabled")
        except AssertionError:
            pass
    report_lines()
    report('{"done":true}')


def run_program(job: dict[str, Any]) -> None:
    """Run a program that reads standard input."""
    feed(job["stdin"])
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    if (space := load(job, "__main__")) is not None:
        report_lines()
        finish(space, job["code"])
        report('{"done":true}')


def run_script(job: dict[str, Any]) -> int:
    """Run a program as ``python main.py`` does: traceback on standard error, exit code, threads and exit functions."""
    path, text = os.path.abspath("main.py"), job["code"].decode("utf-8", "surrogatepass")
    put({**job["files"], "main.py": job["code"]})
    feed(job["stdin"])
    sys.stdin, sys.argv[:], sys.dont_write_bytecode = open(0, encoding="utf-8", closefd=False), [path], True
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
    """Write files into the working folder, and create their parent folders."""
    for name, data in files.items():
        try:
            os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
            with open(name, "wb") as file:
                file.write(data)
        except (OSError, ValueError) as error:
            report_error(broken=f"{name} cannot be written: {error}")
            os._exit(70)


def next_request() -> Any:
    """Return the next request of the tester; None if it has exited."""
    header, data = os.read(REQUESTS, 8), b""
    if len(header) < 8:
        return None
    size = int.from_bytes(header, "little")
    while len(data) < size:
        data += os.read(REQUESTS, size - len(data))
    return marshal.loads(data)


def serve_calls(job: dict[str, Any]) -> None:
    """Load the program, then call its functions on requests of the tester, until it closes the pipe.

    A request is (target, args, kwargs): the target is a function's name, or an operation on a value kept here. Arguments that
    ``marshal`` cannot encode are sent as (target, None, JSON text). The answer holds the value or the error, and the arguments
    after the call, which may have changed them. Values that are not plain data are kept here; the tester gets their number.
    """
    space = load(job, "attempt")
    if space is None:
        return
    kept: list[Any] = []

    def keep(value: Any) -> str:
        kept.append(value)
        return f'["remote",{len(kept) - 1},{json.dumps(kind_of(value))}]'

    report('{"ready":true}')
    while (request := next_request()) is not None:
        target, args, named = request
        if not target:
            report_lines()
            continue
        if args is None:
            args, named = value_of(json.loads(named), held=lambda _tag, number: kept[number])  # pyright: ignore[reportUnknownLambdaType]
        try:
            if type(target) is str:
                value = eval(target, space)(*args, **named)
            else:
                value = OPERATIONS[target[0]](kept[target[1]], *args, **named)
            same = [place for place, given in (*enumerate(args), *named.items()) if given is value and type(value) in CHANGING]
            said = f'"same":{json.dumps(same[0])}' if same else f'"value":{plain(value, 0, keep)}'
        except StopError as end:
            said = f'"end":{plain(end.value, 0, keep)}'
        except BaseException as error:
            said = raised(error, keep)
        if all(type(given) in SCALARS for given in (*args, *named.values())):
            report(f"{{{said}}}")
        else:
            report(f'{{{said},"args":{plain(list(args), 0, keep)},"named":{plain(named, 0, keep)}}}')


def act(action: str, *args: Any) -> Any:
    """Execute an action in the tester's world; return the name of its failure (empty: none) and its answer."""
    report(json.dumps({"action": action, "args": args}))
    return next_request()


def serve_worlds(job: dict[str, Any]) -> None:
    """Run the program once per world of the tester, each time in a new namespace."""
    while (wanted := next_request()) is not None:
        if wanted == "lines":
            report_lines()
        elif (space := load(job, "attempt", {"_act": act})) is not None:
            try:
                eval(job["call"], space)
                report('{"ended":true}')
            except BaseException as error:
                report_error(error=describe(error))


def run_command(job: dict[str, Any]) -> None:
    """Write files and exec another program."""
    import resource

    put(job["files"])
    feed(job["stdin"])
    seconds = max(1, -int(-job["seconds"] // 1))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    if job["address_bytes"]:
        resource.setrlimit(resource.RLIMIT_AS, (job["address_bytes"], job["address_bytes"]))
    resource.setrlimit(resource.RLIMIT_STACK, (64 << 20, 64 << 20))
    os.set_inheritable(RESULTS, False)
    folder = job["prepared"]  # if it does not exist, arguments and variables that name it are left out
    absent = folder and not os.path.isdir(folder)
    words = [word for word in job["argv"] if not (absent and folder in word)]
    own = {name: text for name, text in job["environment"].items() if not (absent and folder in text)}
    try:
        os.execvpe(words[0], words, {"PATH": os.environ["PATH"], "HOME": os.getcwd(), "LANG": "C.UTF-8", **own})
    except Exception as error:
        report_error(broken=f"{words[0]} cannot be run: {error!r}")


KINDS: Any = {
    "tests": run_tests,
    "program": run_program,
    "queries": lambda job: query(job, report_error),  # pyright: ignore[reportUnknownLambdaType]
    "script": run_script,
    "calls": serve_calls,
    "worlds": serve_worlds,
    "command": run_command,
}
