"""A process that works for us: functions and arguments come in on its standard input, what they return goes out, all pickled.

It ends with its parent.
"""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from upsolve.errors import UpsolveError
from upsolve.types import Attempt, Task, Verdict
from upsolve.verify.judge import judge_all
from upsolve.verify.limits import Judging

__all__ = ["Hand", "HandLostError", "LocalHand", "judge_chunk", "main"]

Chunk = Sequence[tuple[Task, Attempt]]
T = TypeVar("T")


class HandLostError(Exception):
    """A process that judged has gone."""


class Hand(Protocol):
    """Something that does one piece of work at a time."""

    def call(self, work: Callable[..., T], *args: Any) -> T:
        """Return what a function of a module gives elsewhere; raises HandLostError when the process it ran in is gone."""
        ...

    def close(self) -> None:
        """End it, at once."""
        ...


def judge_chunk(chunk: Chunk, how: Judging) -> list[Verdict]:
    """Judge a few attempts, one after the other, and look at their code as asked."""
    verdicts = judge_all(chunk, how)
    if how.analyses:
        from upsolve.verify.analysis.analyst import analyse

        return analyse(chunk, verdicts, how.analyses)
    return verdicts


taken: Counter[int] = Counter()
"""Workers by the core they are bound to."""
guard = threading.Lock()


def take_core() -> int:
    """Return the core with the fewest workers.

    A worker, its sandbox and its attempts take turns, so on one core they lose nothing and wake each other ten times faster.
    """
    with guard:
        core = min(sorted(os.sched_getaffinity(0)), key=lambda number: taken[number])
        taken[core] += 1
    return core


class LocalHand:
    """A process on this machine, bound to one core."""

    def __init__(self) -> None:
        self.core = take_core()
        code = f"import sys; sys.path[:] = {sys.path!r}; from upsolve.verify.worker import main; main({self.core})"
        self.give_back = weakref.finalize(self, taken.subtract, [self.core])
        self.process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def call(self, work: Callable[..., T], *args: Any) -> T:
        """Send a function with its arguments and wait for what it returns."""
        assert self.process.stdin and self.process.stdout
        try:
            pickle.dump((work, args), self.process.stdin)
            self.process.stdin.flush()
            said = pickle.load(self.process.stdout)  # noqa: S301  written by our own process
        except (OSError, EOFError, ValueError, pickle.UnpicklingError) as error:
            self.close()
            raise HandLostError(f"a judging process ended: {error!r}") from error
        if isinstance(said, BaseException):
            raise said
        return said

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        self.give_back()
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):  # what was still to be sent cannot be
                if stream:
                    stream.close()


def main(core: int) -> None:
    """Work on one core until the standard input ends."""
    os.sched_setaffinity(0, {core})
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            work, args = pickle.load(sys.stdin.buffer)  # noqa: S301  written by our own parent
        except EOFError:
            return
        try:
            said = work(*args)
        except UpsolveError as error:
            said = error
        pickle.dump(said, out)
        out.flush()
