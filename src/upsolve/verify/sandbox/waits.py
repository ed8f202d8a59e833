"""How long the processes of an attempt waited for a core, from the kernel's scheduler statistics.

``/proc/PID/task/TID/schedstat`` has three numbers for each thread: nanoseconds on a core, nanoseconds during which the thread was runnable
but waited for a core, and the number of its time slices. The kernel adds a wait when it ends. A thread that is runnable and whose numbers do
not change is therefore waiting now. Numbers of threads that have ended are lost, so a sum may be too small.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LONGEST", "CoreWaits", "figures", "threads_of"]

LONGEST = 10.0
"""Maximum elapsed time of a run, as a multiple of its limit, however long it waits for a core."""
PAUSE_SECONDS = 0.02
"""Time between two looks at the same threads, seconds: longer than a tick, at which the kernel updates the numbers of a running thread."""
STEP_SECONDS = 0.05
"""Minimum extension, seconds."""
PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Thread:
    """Figures of a thread."""

    ran: int
    """Time on a core, nanoseconds."""
    waited: int
    """Time of the waits for a core that have ended, nanoseconds."""
    slices: int
    """Number of time slices."""
    runnable: bool
    """True if it is on a core or waits for one."""


class CoreWaits:
    """The waits of a server and of the processes that it forks; ``known`` is False where the kernel does not tell."""

    def __init__(self, launcher: int) -> None:
        children = next(iter(children_of(PROC / f"{launcher}/task/{launcher}")), 0)
        self.folder = PROC / f"{children}/task/{children}"
        self.known = children > 0 and self.of_server() is not None
        self.before = 0

    def of_server(self) -> int | None:
        """Return the time for which the server has waited since it started, nanoseconds; None if unknown."""
        with suppress(OSError, ValueError):
            _, waited, slices = map(int, (self.folder / "schedstat").read_text().split())
            return waited if slices else None
        return None

    def begin(self) -> None:
        """Note that a request begins: later waits of the server count as waits of its attempts."""
        self.before = (self.of_server() or 0) if self.known else 0

    def look(self) -> dict[str, Thread]:
        """Return the figures of all threads below the server, by thread id."""
        threads: dict[str, Thread] = {}
        waiting = [*children_of(self.folder)]
        while waiting:
            for folder in threads_of(waiting.pop()):
                if thread := figures(folder):
                    threads[folder.name] = thread
                    waiting += children_of(folder)
        return threads

    def measure(self, elapsed: float, limit: float, cpu_seconds: float) -> tuple[float, float]:
        """Measure the waits of a run that has reached its deadline, and decide how much longer it may run.

        A run may use ``limit`` seconds beside its waits, and LONGEST * ``limit`` with them. A run that has used up its CPU time gets no
        extension, so its own threads cannot prolong it by keeping each other from a core.

        Args:
            elapsed: time since the run began, seconds.
            limit: limit of elapsed time, seconds.
            cpu_seconds: limit of CPU time, seconds, of all threads together.

        Returns:
            Seconds that the run has waited, and seconds by which its deadline moves (0: it has timed out).
        """
        if not self.known:
            return 0.0, 0.0
        threads = self.look()
        waited = min(elapsed, self.seconds_waited(threads))
        if sum(thread.ran for thread in threads.values()) / 1e9 > cpu_seconds or elapsed >= LONGEST * limit:
            return waited, 0.0
        extension = limit - (elapsed - waited)
        if extension <= 0 and not self.still_waiting(threads):
            return waited, 0.0
        return waited, min(max(extension, STEP_SECONDS), LONGEST * limit - elapsed)

    def seconds_waited(self, threads: dict[str, Thread]) -> float:
        """Return the waits of the threads, and of the server in this request, seconds."""
        server = (self.of_server() or self.before) - self.before
        return (server + sum(thread.waited for thread in threads.values())) / 1e9

    def still_waiting(self, threads: dict[str, Thread]) -> bool:
        """Return whether one of these threads is runnable, but has not run since they were looked at or within a pause."""
        if not any(thread.runnable for thread in threads.values()):
            return False
        time.sleep(PAUSE_SECONDS)
        later = self.look()
        return any(thread.runnable and later.get(name) == thread for name, thread in threads.items())


def threads_of(pid: int) -> list[Path]:
    """Return the folders of the threads of a process; none if it has ended."""
    with suppress(OSError):
        return [*(PROC / f"{pid}/task").iterdir()]
    return []


def children_of(thread: Path) -> Iterator[int]:
    """Yield the processes that a thread has started."""
    with suppress(OSError):
        yield from map(int, (thread / "children").read_text().split())


def figures(thread: Path) -> Thread | None:
    """Return the figures of a thread; None if it has ended or the kernel does not tell."""
    with suppress(OSError, ValueError):
        ran, waited, slices = map(int, (thread / "schedstat").read_text().split())
        state = (thread / "stat").read_text().rpartition(")")[2].split()[0]
        return Thread(ran, waited, slices, state == "R")
    return None
