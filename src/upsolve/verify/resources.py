"""Cores and memory that this process may use, and how long processes waited for a core, from the kernel's statistics.

``/proc/PID/task/TID/schedstat`` has three numbers for each thread: nanoseconds on a core, nanoseconds during which the thread was runnable
but waited for a core, and the number of its time slices. The kernel adds a wait when it ends. A thread that is runnable and whose numbers do
not change is therefore waiting now. Numbers of threads that have ended are lost, so a sum may be too small.
"""

import math
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "GROUPS",
    "LONGEST_RUN",
    "CoreWaits",
    "CoreWatch",
    "figure_in",
    "own_groups",
    "thread_figures",
    "threads_of",
    "usable_cores",
    "usable_memory",
]

GROUPS = Path("/sys/fs/cgroup")
IDLE_SHARE = 0.25
"""Cores that were idle for at most this fraction of the time count as contended."""
REFRESH_SECONDS = 0.5
"""Maximum age of the statistics that ``begin`` reuses, seconds: reading /proc/stat takes 0.1 ms on a large machine."""


def own_groups() -> dict[str, str]:
    """Return the path of this process's control group by controller; version 2 has the empty name as its controller."""
    with suppress(OSError):
        rows = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()]
        return {name: path for _, names, path in rows for name in names.split(",")}
    return {}


def control_groups(controller: str) -> list[Path]:
    """Return the folders of this process's control group and its ancestors, whose limits also apply (version 2, or 1)."""
    own = own_groups()
    first = controller in own and (GROUPS / controller).is_dir()
    root, path = (GROUPS / controller, own[controller]) if first else (GROUPS, own.get("", ""))
    group = root / path.lstrip("/")
    return [group, *(above for above in group.parents if above.is_relative_to(root))]


def number_in(file: Path) -> float:
    """Return the number in a kernel file; infinity if it is ``max`` or the file does not exist."""
    with suppress(OSError, ValueError):
        return float(file.read_text(encoding="utf-8").replace("max", "inf"))
    return math.inf


def quota(group: Path) -> float:
    """Return the CPU quota of a control group, in cores; infinity if unlimited."""
    with suppress(OSError, ValueError):
        limit, period = (group / "cpu.max").read_text(encoding="utf-8").split()
        return math.inf if limit == "max" else int(limit) / int(period)
    limit, period = number_in(group / "cpu.cfs_quota_us"), number_in(group / "cpu.cfs_period_us")
    return limit / period if 0 < limit < math.inf else math.inf


def usable_cores() -> int:
    """Return the number of usable cores, >= 1: the minimum of the affinity mask and the quotas of the control groups."""
    cores = len(os.sched_getaffinity(0))
    return max(1, math.ceil(min(cores, *map(quota, control_groups("cpu")))))


def free_memory(group: Path) -> float:
    """Return the bytes that a control group may still allocate, with page cache counted as free; infinity if unlimited."""
    if (group / "memory.max").is_file():
        limit, used, cached = group / "memory.max", group / "memory.current", "inactive_file"
    else:
        limit, used, cached = group / "memory.limit_in_bytes", group / "memory.usage_in_bytes", "total_inactive_file"
    if (most := number_in(limit)) == math.inf:
        return math.inf
    return most - number_in(used) + figure_in(group / "memory.stat", cached)


def usable_memory() -> int:
    """Return the bytes that this process may still allocate: available memory, within the limits of its control groups."""
    free = figure_in(Path("/proc/meminfo"), "MemAvailable:") * 1024
    return int(max(0, min(free, *map(free_memory, control_groups("memory")))))


def figure_in(file: Path, name: str) -> int:
    """Return the number after a name in a kernel file; 0 if missing."""
    with suppress(OSError, ValueError):
        rows = (line.split() for line in file.read_text(encoding="utf-8").splitlines())
        return next((int(row[1]) for row in rows if row[:1] == [name]), 0)
    return 0


class CoreWatch:
    """Measures from kernel statistics whether the cores of this process are contended."""

    def __init__(self) -> None:
        self.at, self.before = -math.inf, (0, 0, 0)

    def begin(self) -> None:
        """Read the statistics, unless they were read within the last ``REFRESH_SECONDS``."""
        if time.monotonic() - self.at > REFRESH_SECONDS:
            self.at, self.before = time.monotonic(), core_figures()

    def contended(self) -> bool:
        """Return whether the cores were idle for at most IDLE_SHARE since ``begin``, or throttled; True if unknown."""
        before = self.before
        self.at, self.before = time.monotonic(), core_figures()
        idle, total, throttled = (after - earlier for after, earlier in zip(self.before, before, strict=True))
        return throttled > 0 or idle <= IDLE_SHARE * total


def core_figures() -> tuple[int, int, int]:
    """Return idle and total time of this process's cores, in jiffies, and the number of throttled periods of its group."""
    idle = total = 0
    mine = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    with suppress(OSError, ValueError):
        for line in Path("/proc/stat").read_text(encoding="utf-8").splitlines():
            name, *spent = line.split()
            if name in mine:
                jiffies = [*map(int, spent[:8])]
                idle, total = idle + jiffies[3] + jiffies[4], total + sum(jiffies)
    throttled = figure_in(control_groups("cpu")[0] / "cpu.stat", "nr_throttled")
    return idle, total, throttled


LONGEST_RUN = 10.0
"""Maximum elapsed time of a run, as a multiple of its limit, however long it waits for a core."""
PAUSE_SECONDS = 0.02
"""Time between two readings of the same threads, seconds; longer than a tick, at which the kernel updates a running thread."""
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
    """True if the thread is on a core or waits for one."""


class CoreWaits:
    """The waits for cores of a server and of the processes that it forks; ``known`` is False if the kernel does not report them."""

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
        """Record the start of a request: later waits of the server count as waits of its attempts."""
        self.before = (self.of_server() or 0) if self.known else 0

    def look(self) -> dict[str, Thread]:
        """Return the figures of all threads of the server and its descendants, by thread id."""
        threads: dict[str, Thread] = {}
        waiting = [*children_of(self.folder)]
        while waiting:
            for folder in threads_of(waiting.pop()):
                if thread := thread_figures(folder):
                    threads[folder.name] = thread
                    waiting += children_of(folder)
        return threads

    def measure(self, elapsed: float, limit: float, cpu_seconds: float) -> tuple[float, float]:
        """Measure the waits of a run that has reached its deadline, and decide how much longer it may run.

        A run may use ``limit`` seconds without its waits, and LONGEST_RUN * ``limit`` with them. A run that has used up its CPU time gets no
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
        threads, end = self.look(), LONGEST_RUN * limit
        waited = min(elapsed, self.seconds_waited(threads))
        if sum(thread.ran for thread in threads.values()) / 1e9 > cpu_seconds or elapsed >= end:
            return waited, 0.0
        extension = limit - (elapsed - waited)
        if extension <= 0 and any(thread.runnable for thread in threads.values()):
            time.sleep(PAUSE_SECONDS)
            elapsed, later = elapsed + PAUSE_SECONDS, self.look()
            waited = min(elapsed, self.seconds_waited(later))  # a wait may have ended in the pause
            waiting = any(thread.runnable and later.get(name) == thread for name, thread in threads.items())
            extension = STEP_SECONDS if waiting else limit - (elapsed - waited)
        return waited, min(max(extension, STEP_SECONDS), end - elapsed) if extension > 0 else 0.0

    def seconds_waited(self, threads: dict[str, Thread]) -> float:
        """Return the waits of the threads, and of the server in this request, seconds."""
        server = (self.of_server() or self.before) - self.before
        return (server + sum(thread.waited for thread in threads.values())) / 1e9


def threads_of(pid: int) -> list[Path]:
    """Return the folders of the threads of a process; none if it has ended."""
    with suppress(OSError):
        return [*(PROC / f"{pid}/task").iterdir()]
    return []


def children_of(thread: Path) -> Iterator[int]:
    """Yield the processes that a thread has started."""
    with suppress(OSError):
        yield from map(int, (thread / "children").read_text().split())


def thread_figures(thread: Path) -> Thread | None:
    """Return the figures of a thread; None if the thread has ended or the kernel does not report them."""
    with suppress(OSError, ValueError):
        ran, waited, slices = map(int, (thread / "schedstat").read_text().split())
        state = (thread / "stat").read_text().rpartition(")")[2].split()[0]
        return Thread(ran, waited, slices, state == "R")
    return None
