"""Processor cores: how many this process may use, and whether other processes keep them from it."""

import math
import os
import time
from contextlib import suppress
from pathlib import Path

__all__ = ["CoreWatch", "usable_cores"]

GROUPS = Path("/sys/fs/cgroup")
IDLE_SHARE = 0.25
"""Below this share of idle time on its cores a process may have had to wait for them."""
REFRESH_SECONDS = 0.5
"""Reading /proc/stat takes 0.1 ms on a large machine: a figure this old will do to compare with."""


def own_group(controller: str) -> Path:
    """Return the folder of this process's control group: version 2, or version 1 of a controller."""
    with suppress(OSError):
        rows = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()]
        for _, names, path in rows:
            if controller in names.split(",") and (GROUPS / controller).is_dir():
                return GROUPS / controller / path.lstrip("/")
        for _, names, path in rows:
            if not names:
                return GROUPS / path.lstrip("/")
    return GROUPS


def quota(group: Path) -> float:
    """Return how many cores' time a control group may use, infinity where it is not limited."""
    with suppress(OSError, ValueError):
        limit, period = (group / "cpu.max").read_text(encoding="utf-8").split()
        return math.inf if limit == "max" else int(limit) / int(period)
    with suppress(OSError, ValueError):
        limit, period = ((group / f"cpu.cfs_{name}_us").read_text(encoding="utf-8") for name in ("quota", "period"))
        return int(limit) / int(period) if int(limit) > 0 else math.inf
    return math.inf


def usable_cores() -> int:
    """Return how many processes can run at once here, >= 1: the affinity mask, within the quota of the control group."""
    cores = len(os.sched_getaffinity(0))
    return max(1, min(cores, math.ceil(min(cores, quota(own_group("cpu"))))))


class CoreWatch:
    """Tells whether this process's cores were busy, from the kernel's figures."""

    def __init__(self) -> None:
        self.at, self.before = -math.inf, (0, 0, 0)

    def begin(self) -> None:
        """Note the figures, unless they were noted a moment ago."""
        if time.monotonic() - self.at > REFRESH_SECONDS:
            self.at, self.before = time.monotonic(), figures()

    def contended(self) -> bool:
        """Return whether the cores were hardly ever idle since ``begin``, or the group was throttled; True where nobody can tell."""
        before = self.before
        self.at, self.before = time.monotonic(), figures()
        idle, total, throttled = (after - earlier for after, earlier in zip(self.before, before, strict=True))
        return throttled > 0 or idle <= IDLE_SHARE * total


def figures() -> tuple[int, int, int]:
    """Return idle time and all time of this process's cores, in jiffies, and how often its control group was throttled."""
    idle = total = throttled = 0
    mine = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    with suppress(OSError, ValueError):
        for line in Path("/proc/stat").read_text(encoding="utf-8").splitlines():
            name, *spent = line.split()
            if name in mine:
                jiffies = [*map(int, spent[:8])]
                idle, total = idle + jiffies[3] + jiffies[4], total + sum(jiffies)
    with suppress(OSError, ValueError):
        rows = (line.split() for line in (own_group("cpu") / "cpu.stat").read_text(encoding="utf-8").splitlines())
        throttled = next((int(value) for name, value in rows if name == "nr_throttled"), 0)
    return idle, total, throttled
