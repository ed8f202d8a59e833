"""Control groups: limits on memory and processes of an attempt with all its child processes.

Version 2 if a group with the memory and pids controllers is delegated to this user; version 1 if its folders are writable (root);
otherwise none, and only the limits per process apply.
"""

import contextlib
import itertools
import os
import time
import weakref
from functools import cache
from pathlib import Path

from upsolve.verify.resources import GROUPS, own_groups

__all__ = ["ControlGroup", "find_parents", "remove_abandoned"]


NEEDED = ("memory", "pids")
FILES = {1: ("memory.limit_in_bytes", "pids.max"), 2: ("memory.max", "pids.max")}
PREFIX = "upsolve-"
LEAVE_SECONDS = 2.0
number = itertools.count()


@cache
def find_parents() -> tuple[int, dict[str, Path]]:
    """Return the version (0: none) and, by controller, the folder in which groups can be created."""
    own = own_groups()
    unified = GROUPS / own.get("", "/").lstrip("/")
    with contextlib.suppress(OSError):
        if {*NEEDED} <= {*(unified / "cgroup.subtree_control").read_text().split()} and os.access(unified, os.W_OK):
            return 2, dict.fromkeys(NEEDED, unified)
    first = {name: GROUPS / name / own[name].lstrip("/") for name in NEEDED if name in own}
    if len(first) == len(NEEDED) and all(os.access(path, os.W_OK) for path in first.values()):
        return 1, first
    return 0, {}


def remove(folders: list[Path], seconds: float = LEAVE_SECONDS) -> None:
    """Remove groups whose processes were killed; the kernel refuses until the last one has exited, so retry for a while."""
    until = time.monotonic() + seconds
    for folder in folders:
        while folder.exists():
            with contextlib.suppress(OSError):
                folder.rmdir()
                break
            if time.monotonic() > until:
                break
            time.sleep(0.005)


@cache
def remove_abandoned(parents: tuple[Path, ...]) -> None:
    """Remove the empty groups of judges that were killed: once a process, and only groups that are a minute old."""
    for folder in (folder for parent in parents for folder in parent.glob(f"{PREFIX}*-*")):
        owner = folder.name.removeprefix(PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            if not Path(f"/proc/{owner}").exists() and time.time() - folder.stat().st_mtime > 60:
                folder.rmdir()  # refused where a process is in it


class ControlGroup:
    """A control group; ``active`` is False if none can be created."""

    def __init__(self, *, enabled: bool = True) -> None:
        version, parents = find_parents() if enabled else (0, {})
        remove_abandoned(tuple({*parents.values()}))
        name = f"{PREFIX}{os.getpid()}-{next(number)}"
        self.folders = {controller: parent / name for controller, parent in parents.items()}
        self.version, self.limits, self.kills_seen = version, (0, 0), 0
        try:
            for folder in self.folders.values():
                folder.mkdir(exist_ok=True)
        except OSError:
            remove([*self.folders.values()])
            self.version, self.folders = 0, {}
        self.close = weakref.finalize(self, remove, [*self.folders.values()])

    @property
    def active(self) -> bool:
        """True if the group exists."""
        return self.version > 0

    def add(self, pid: int) -> None:
        """Add a process, and thereby its future children."""
        for folder in {*self.folders.values()}:
            (folder / "cgroup.procs").write_text(str(pid))

    def limit(self, memory_bytes: int, processes: int) -> None:
        """Set the limits, if they differ from the current ones."""
        if not self.active or self.limits == (memory_bytes, processes):
            return
        for controller, file, value in zip(NEEDED, FILES[self.version], (memory_bytes, processes), strict=True):
            (self.folders[controller] / file).write_text(str(value))
        self.limits = (memory_bytes, processes)

    def out_of_memory(self) -> bool:
        """Return whether the kernel has killed a process of the group for lack of memory since the last call."""
        kills = self.events("memory", "memory.events" if self.version == 2 else "memory.oom_control", "oom_kill")
        self.kills_seen, new = kills, kills > self.kills_seen
        return new

    def out_of_processes(self) -> bool:
        """Return whether the kernel has ever refused to start a process of the group because of its limit."""
        return self.events("pids", "pids.events", "max") > 0

    def events(self, controller: str, file: str, event: str) -> int:
        """Return the count of an event of a controller."""
        if not self.active:
            return 0
        lines = (self.folders[controller] / file).read_text().splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith(f"{event} ")), 0)
