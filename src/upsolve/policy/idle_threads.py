"""How long the idle threads of PyTorch's OpenMP (libgomp) spin before they sleep: long, unless threads of this process wait for a core.

Waking a sleeping thread takes up to a third of a training step on a virtual machine. But beside another process, threads that spin take
the cores from those that they wait for: two processes of two threads on two cores took 25 times as long (benchmarks/LOG.md). libgomp spins
``GOMP_SPINCOUNT`` times; at most 100 times while the process has more OpenMP threads than cores. So as long as threads of this process
wait for cores, helper threads keep further teams of OpenMP threads, which do nothing.
"""

import math
import os
import threading
import time

import torch

from upsolve.verify.resources import usable_cores
from upsolve.verify.sandbox.waits import figures, threads_of

__all__ = ["SpinWatch", "use_allowed_cores", "waits", "watch_spinning"]

INTERVAL = 0.25
"""Seconds between two readings."""
CONTENDED_SHARE = 0.12
"""Threads that wait for a core for more than this fraction of the time, per OpenMP thread, count as contended: 0.25 beside a second run, 0.02 alone."""
CONTENDED_SECONDS = 0.4
"""Seconds of contention after which threads spin shortly."""
CALM_SECONDS = 2
"""Seconds without contention after which threads spin for long again."""
GRAIN = 2**15
"""Elements of a tensor for which PyTorch uses one more thread."""


def waits() -> dict[str, int]:
    """Return for each thread of this process how long it was ready to run but had no core, ns; empty where the kernel does not say."""
    read = ((thread.name, figures(thread)) for thread in threads_of(os.getpid()))
    return {name: thread.waited for name, thread in read if thread is not None}


def use_allowed_cores() -> None:
    """Limit PyTorch's threads to the CPU quota of the control group, unless ``OMP_NUM_THREADS`` is set: PyTorch itself reads the affinity mask only.

    With more threads than the quota allows, all of them are stopped for the rest of a period (0.1 s) as soon as it is used up.
    """
    if "OMP_NUM_THREADS" not in os.environ and (cores := usable_cores()) < torch.get_num_threads():
        torch.set_num_threads(cores)


class SpinWatch:
    """Shortens the spinning of this process's OpenMP threads while they are contended."""

    def __init__(self) -> None:
        """Take the first reading."""
        self.threads, self.calm, self.busy = torch.get_num_threads(), 0.0, 0.0
        self.before = waits()
        self.release: threading.Event | None = None

    @property
    def short(self) -> bool:
        """Whether idle threads spin only shortly now."""
        return self.release is not None

    def look(self, seconds: float) -> None:
        """Read how long threads waited within the last ``seconds``, and let idle threads spin for a shorter or longer time."""
        after = waits()
        waited = sum(max(0, total - self.before.get(thread, 0)) for thread, total in after.items())
        self.before = after
        self.decide(contended=waited > CONTENDED_SHARE * self.threads * seconds * 1e9, seconds=seconds)

    def decide(self, *, contended: bool, seconds: float) -> None:
        """Shorten the spinning after ``CONTENDED_SECONDS``, and lengthen it after ``CALM_SECONDS`` without contention."""
        self.busy, self.calm = (self.busy + seconds, 0.0) if contended else (0.0, self.calm + seconds)
        if self.busy >= CONTENDED_SECONDS and self.release is None:
            self.crowd()
        elif self.release is not None and self.calm >= CALM_SECONDS:
            self.release.set()
            self.release = None

    def crowd(self) -> None:
        """Start helper threads whose teams make the OpenMP threads of this process more than its cores."""
        release = self.release = threading.Event()
        missing = len(os.sched_getaffinity(0)) - self.threads + 1
        for _ in range(math.ceil(missing / (self.threads - 1))):
            threading.Thread(target=self.keep_team, args=(release,), daemon=True).start()

    def keep_team(self, release: threading.Event) -> None:
        """Start a team of OpenMP threads, which belongs to this thread and ends with it."""
        torch.zeros(GRAIN * self.threads).add_(1)
        release.wait()

    def run(self) -> None:
        """Look again and again."""
        looked = time.monotonic()
        while True:
            time.sleep(INTERVAL)
            now = time.monotonic()
            self.look(now - looked)
            looked = now


STARTED = threading.Event()


def watch_spinning() -> None:
    """Adapt spinning in a background thread from now on; does nothing where there is one OpenMP thread, or no statistics of the kernel."""
    if not STARTED.is_set() and torch.get_num_threads() > 1 and waits():
        STARTED.set()
        threading.Thread(target=SpinWatch().run, daemon=True, name="spin-watch").start()
