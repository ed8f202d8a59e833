"""What a program finds around it, as if it had an interpreter to itself: its module, its source, standard input, and its end.

Standard library only. It runs in the attempt's process, so nothing here decides anything.
"""

from __future__ import annotations

import atexit
import builtins
import gc
import os
import sys

TYPE_CHECKING = False  # typing itself is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from typing import Any

__all__ = ["feed", "finish", "flush", "new_module", "site_names"]

UNSEEN = ("__del__", "open", "io", "finalize")
"""A program without these words does nothing that shows when its objects go."""


def site_names() -> None:
    """Define the builtins that the module site defines, which is not loaded here."""
    import _sitebuiltins
    import builtins

    site: Any = _sitebuiltins
    builtins.exit, builtins.quit = (site.Quitter(name, "Ctrl-D (i.e. EOF)") for name in ("exit", "quit"))
    builtins.copyright, builtins.help = site._Printer("copyright", sys.copyright), site._Helper()
    builtins.credits = builtins.license = site._Printer("license", "See https://www.python.org/psf/license/")


def new_module(name: str, code: str) -> Any:
    """Return an empty module that stands for the program wherever Python looks for it: ``sys.modules``, ``__main__``, ``__file__``."""
    module: Any = type(sys)(name)
    module.__builtins__, module.__file__ = builtins, os.path.abspath("main.py")
    sys.modules[name] = sys.modules["__main__"] = module
    if "__file__" in code or "inspect" in code:
        show_source(code)
    if "/dev/" in code:
        open_devices()
    if sys.version_info >= (3, 14) and ("multiprocessing" in code or "concurrent" in code):
        start_by_fork()
    if "stack_size" in code:
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    return module


def show_source(code: str) -> None:
    """Give the program a file, and its lines to ``inspect`` and ``traceback``."""
    import linecache

    with open("main.py", "wb") as file:
        file.write(code.encode("utf-8", "surrogatepass"))
    linecache.cache["<attempt>"] = (len(code), None, code.splitlines(keepends=True), "<attempt>")


def start_by_fork() -> None:
    """Make fork the start method of ``multiprocessing`` unless the program chooses another, as it was before Python 3.14.

    A fork server would be a new interpreter, which finds neither the program nor its standard streams here.
    """
    import multiprocessing

    contexts: Any = getattr(multiprocessing, "context")  # noqa: B009  typed as private
    contexts._default_context._default_context = contexts._concrete_contexts["fork"]


def open_devices() -> None:
    """Make ``open("/dev/stdin")`` and its kin work without /proc, which such names lead to."""
    import io

    opened, devices = (
        io.open,
        {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2, "/dev/fd/0": 0, "/dev/fd/1": 1, "/dev/fd/2": 2},
    )

    def open_(file: Any, *args: Any, **named: Any) -> Any:
        number = devices.get(str(file))
        return opened(file if number is None else os.dup(number), *args, **named)

    builtins.open = io.open = open_


def flush() -> None:
    """Flush the standard streams, and what a program has put in their place."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()  # type: ignore[union-attr]
        except BaseException:
            pass


def finish(space: dict[str, Any], code: str) -> None:
    """End a program as the interpreter does: wait for its threads, call its exit functions, let go of its objects."""
    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    if not any(word in code for word in UNSEEN):
        return
    flush()
    for name in sorted(space, key=lambda name: not name.startswith("_")):
        if name != "__builtins__":
            space[name] = None
    gc.collect()


def feed(data: bytes) -> None:
    """Put data on standard input."""
    handle = os.memfd_create("stdin")
    with open(handle, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(handle, 0, os.SEEK_SET)
    os.dup2(handle, 0)
    os.close(handle)
