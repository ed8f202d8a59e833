"""A process that judges: chunks of pairs come in on its standard input, verdicts go out, both pickled. It ends with its parent."""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from upsolve.errors import UpsolveError
from upsolve.types import Attempt, Task, Verdict
from upsolve.verify.judge import judge_all
from upsolve.verify.limits import Judging

__all__ = ["Hand", "HandLostError", "LocalHand", "judge_chunk", "main"]

Chunk = Sequence[tuple[Task, Attempt]]


class HandLostError(Exception):
    """A process that judged has gone."""


class Hand(Protocol):
    """Something that judges one chunk at a time."""

    def judge(self, chunk: Chunk, how: Judging) -> list[Verdict]:
        """Return the verdicts, in order; raises HandLostError when what judged is gone."""
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

    def judge(self, chunk: Chunk, how: Judging) -> list[Verdict]:
        """Send a chunk and wait for its verdicts."""
        assert self.process.stdin and self.process.stdout
        try:
            pickle.dump((chunk, how), self.process.stdin)
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
    """Judge on one core until the standard input ends."""
    os.sched_setaffinity(0, {core})
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            chunk, how = pickle.load(sys.stdin.buffer)  # noqa: S301  written by our own parent
        except EOFError:
            return
        try:
            said = judge_chunk(chunk, how)
        except UpsolveError as error:
            said = error
        pickle.dump(said, out)
        out.flush()
