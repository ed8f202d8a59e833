"""Pipes for the standard output and standard error of a program that opens them by name: opening a file again would empty it.

Standard library only. Runs in the attempt's process, so no verdict is decided here.
"""

from __future__ import annotations

import os
import signal

__all__ = ["through_pipes"]

CAPACITY = 1 << 20
"""Largest size of a pipe, bytes: one read after the program's end returns the rest."""
POLL_MS = 20
"""Time after which to look whether the program has ended while a process that it left behind holds its pipes, milliseconds."""


def through_pipes() -> None:
    """Fork; return in the child, with pipes as standard output and standard error, which the parent copies until it ends as the child."""
    pipes = {1: os.pipe(), 2: os.pipe()}
    if not (pid := os.fork()):
        for target, (_, end) in pipes.items():
            os.dup2(end, target)
        return
    for source, end in pipes.values():
        os.close(end)
        os.set_blocking(source, False)
    end_as(copy({source: target for target, (source, _) in pipes.items()}, pid))


def copy(targets: dict[int, int], pid: int) -> int:
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
                move(source, targets[source])
            return ended[1]
        for source, _ in ready:
            if not move(source, targets[source]):
                poll.unregister(source)
                left.remove(source)
    return os.waitpid(pid, 0)[1]


def move(source: int, target: int) -> bool:
    """Write what a pipe holds to a file; return False if all writers have closed the pipe. What the file has no room for is lost."""
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
    """End this process by the exit code or signal of a wait status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))
