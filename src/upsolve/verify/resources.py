"""Cores and memory that this process may use, and whether other processes keep its cores busy."""

import math
import os
import time
from contextlib import suppress
from pathlib import Path

__all__ = ["CoreWatch", "figure_in", "usable_cores", "usable_memory"]

GROUPS = Path("/sys/fs/cgroup")
IDLE_SHARE = 0.25
"""Cores that were idle for at most this fraction of the time count as contended."""
REFRESH_SECONDS = 0.5
"""Maximum age of the statistics that ``begin`` reuses, seconds: reading /proc/stat takes 0.1 ms on a large machine."""


def control_groups(controller: str) -> list[Path]:
    """Return the folders of this process's control group and its ancestors, whose limits also apply (version 2, or 1)."""
    root, own = GROUPS, ""
    with suppress(OSError):
        rows = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()]
        own = next((path for _, names, path in rows if not names), "")
        for _, names, path in rows:
            if controller in names.split(",") and (GROUPS / controller).is_dir():
                root, own = GROUPS / controller, path
    group = root / own.lstrip("/")
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
            self.at, self.before = time.monotonic(), figures()

    def contended(self) -> bool:
        """Return whether the cores were idle for at most IDLE_SHARE since ``begin``, or throttled; True if unknown."""
        before = self.before
        self.at, self.before = time.monotonic(), figures()
        idle, total, throttled = (after - earlier for after, earlier in zip(self.before, before, strict=True))
        return throttled > 0 or idle <= IDLE_SHARE * total


def figures() -> tuple[int, int, int]:
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
