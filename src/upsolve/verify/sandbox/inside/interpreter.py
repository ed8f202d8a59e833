"""The runtime of a program, as in a newly started interpreter: main module, source lines, standard streams, shutdown.

Standard library only. Runs in the attempt's process, so no verdict is decided here.
"""

from __future__ import annotations

import atexit
import builtins
import gc
import os
import signal
import sys

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from typing import Any

__all__ = ["feed", "finish", "flush", "new_module", "open_stdin", "site_names", "stack_limits", "through_pipes"]

UNSEEN = ("__del__", "open", "io", "finalize")
"""Words of programs whose objects may have an effect when they are finalised; other programs skip that part of the shutdown."""
CLOSED = ("finally", "__exit__", "GeneratorExit")
"""Words of programs with ``yield`` whose generators may have an effect when they are closed."""

SOURCES = ("__file__", "argv[0]", "main.py", "inspect", "traceback", "linecache", "spawn", "forkserver")
"""Words of programs that may read their own source."""

DESCRIPTORS = ("/dev/fd", "/proc/self/fd")
"""Folders with links to the open file descriptors."""


def site_names() -> None:
    """Define the builtins of the module site, which is not loaded here."""
    import _sitebuiltins
    import builtins

    site: Any = _sitebuiltins
    builtins.exit, builtins.quit = (site.Quitter(name, "Ctrl-D (i.e. EOF)") for name in ("exit", "quit"))
    builtins.copyright, builtins.help = site._Printer("copyright", sys.copyright), site._Helper()
    builtins.credits = builtins.license = site._Printer("license", "See https://www.python.org/psf/license/")


def new_module(name: str, code: str) -> Any:
    """Return an empty module for the program, registered in ``sys.modules`` under its name and as ``__main__``."""
    module: Any = type(sys)(name)
    module.__builtins__, module.__file__ = builtins, os.path.abspath("main.py")
    sys.modules[name] = sys.modules["__main__"] = module
    if "open" in code or "write" in code:  # modules that the program writes are found beside it
        sys.path.insert(0, os.getcwd())
    if any(word in code for word in SOURCES):
        show_source(code)
    if "/dev/" in code or "/self/fd" in code:
        open_devices()
    if sys.version_info >= (3, 14) and ("multiprocessing" in code or "concurrent" in code):
        start_by_fork()
    if "getrecursionlimit" in code:
        hide_frames()
    if "hread" in code:  # the stack of each thread counts as address space
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    if "setrecursionlimit" in code:  # calls that pass through C (a cache, a key, __call__) take much of the stack
        import resource

        memory = resource.getrlimit(resource.RLIMIT_AS)[0]
        resource.setrlimit(resource.RLIMIT_STACK, stack_limits(memory // 4 * 3 if memory > 0 else 64 << 20, -1))
    return module


def hide_frames() -> None:
    """Hide the judge's frames from the program when it reads or sets the recursion limit."""
    added, read, write = sys.getrecursionlimit() - 1000, sys.getrecursionlimit, sys.setrecursionlimit
    sys.getrecursionlimit, sys.setrecursionlimit = lambda: read() - added, lambda limit, /: write(min(limit + added, 2**31 - 1))


def show_source(code: str) -> None:
    """Write the program's source to main.py for its child processes, and make it available to ``inspect`` and ``traceback``."""
    import linecache

    with open("main.py", "wb") as file:
        file.write(code.encode("utf-8", "surrogatepass"))
    linecache.cache["<attempt>"] = (len(code), None, code.splitlines(keepends=True), "<attempt>")


def start_by_fork() -> None:
    """Make fork the default start method of ``multiprocessing``, as before Python 3.14.

    A fork server would be a new interpreter, without the program and its standard streams.
    """
    import multiprocessing

    contexts: Any = getattr(multiprocessing, "context")  # noqa: B009  typed as private
    contexts._default_context._default_context = contexts._concrete_contexts["fork"]


def open_devices() -> None:
    """Make ``open("/dev/stdin")`` and similar paths work without /proc, to which these links point."""
    import io

    names = (("/dev/stdin", "/dev/stdout", "/dev/stderr"), *([f"{place}/{n}" for n in range(3)] for place in DESCRIPTORS))
    devices = {name: number for group in names for number, name in enumerate(group)}
    opened, opened_low = io.open, os.open

    def open_(file: Any, *args: Any, **named: Any) -> Any:
        number = devices.get(str(file))
        return opened(file if number is None else os.dup(number), *args, **named)

    def open_low(path: Any, *args: Any, **named: Any) -> int:
        number = devices.get(str(path))
        return opened_low(path, *args, **named) if number is None else os.dup(number)

    builtins.open = io.open = open_
    os.open = open_low


def flush() -> None:
    """Flush the standard streams, and the objects with which a program has replaced them."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()  # type: ignore[union-attr]
        except BaseException:
            pass


def cpu_limits(seconds: float) -> tuple[int, int]:
    """Return soft and hard RLIMIT_CPU, whole seconds: a quarter more than the limit that the server enforces (``server.cpu_left``)."""
    soft = max(1, -int(-1.25 * seconds // 1))
    return soft, soft + 1


def stack_limits(soft: int, hard: int) -> tuple[int, int]:
    """Return soft and hard limit of the main thread's stack, bytes, -1: unlimited; at most the present hard limit."""
    import resource

    present = resource.getrlimit(resource.RLIMIT_STACK)[1]
    smaller, hard = (min(size, present, key=lambda size: size % 2**64) for size in (soft, hard))
    return smaller, hard


def finish(space: dict[str, Any], code: str) -> None:
    """Shut down as the interpreter does: wait for threads, call exit functions, release the program's objects."""
    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    if not any(word in code for word in (*UNSEEN, *(CLOSED if "yield" in code else ()))):
        return
    flush()
    for name in sorted(space, key=lambda name: not name.startswith("_")):
        if name != "__builtins__":
            space[name] = None
    gc.collect()


def feed(data: bytes) -> None:
    """Set this data as the standard input."""
    handle = os.memfd_create("stdin")
    with open(handle, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(handle, 0, os.SEEK_SET)
    os.dup2(handle, 0)
    os.close(handle)


def open_stdin(data: bytes) -> None:
    """Set this data as the standard input and open it as ``sys.stdin``.

    ``sys.__stdin__`` is the same object, as in a new interpreter: otherwise the buffer is closed when a program replaces ``sys.stdin``.
    """
    feed(data)
    stream: Any = open(0, encoding="utf-8", closefd=False)
    stream.buffer.raw.name, stream.mode = "<stdin>", "r"
    sys.stdin = sys.__stdin__ = stream  # type: ignore[misc]


CAPACITY = 1 << 20
"""Largest size of a pipe, bytes: a single read after the program's end returns all remaining data."""
POLL_MS = 20
"""Interval, milliseconds, for checking whether the program has ended while a child process still holds its pipes."""


def through_pipes() -> None:
    """Fork. The child returns, with pipes as standard output and standard error; the parent copies the pipes and ends as the child does."""
    pipes = {1: os.pipe(), 2: os.pipe()}
    if not (pid := os.fork()):
        for target, (_, end) in pipes.items():
            os.dup2(end, target)
        return
    for source, end in pipes.values():
        os.close(end)
        os.set_blocking(source, False)
    end_as(copy_pipes({source: target for target, (source, _) in pipes.items()}, pid))


def copy_pipes(targets: dict[int, int], pid: int) -> int:
    """Copy pipes to files until all writers have closed them, or a child process has ended; return its wait status."""
    import select

    poll = select.poll()
    for source in targets:
        poll.register(source, select.POLLIN)
    left = set(targets)
    while left:
        ready = poll.poll(POLL_MS)
        ended = not ready and os.waitpid(pid, os.WNOHANG)
        if ended and ended[0]:
            for source in left:
                move_data(source, targets[source])
            return ended[1]
        for source, _ in ready:
            if not move_data(source, targets[source]):
                poll.unregister(source)
                left.remove(source)
    return os.waitpid(pid, 0)[1]


def move_data(source: int, target: int) -> bool:
    """Copy a pipe's content to a file, up to the file's limit; return False if all writers have closed the pipe."""
    try:
        data = os.read(source, CAPACITY)
    except BlockingIOError:
        return True
    rest = data
    try:
        while rest:
            rest = rest[os.write(target, rest) :]
    except OSError:  # beyond the limit of files
        pass
    return bool(data)


def end_as(status: int) -> None:
    """End this process with the exit code or signal of a wait status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))
