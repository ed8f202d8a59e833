"""The server in the sandbox: a warm interpreter that forks for every attempt.

Standard library only, and few modules: each page and mapping of this process makes every fork slower. Its descriptors:

    3  socket to the judge: a request for up to 8 attempts (limits and sizes, marshalled), a reply of five numbers per attempt;
       in between, for an attempt at its deadline, a question (slot, seconds) and an answer: by how many seconds the deadline moves
    4, 9, 14 ... five memory files (memfd) per attempt:
       standard output, standard error, results,
       job of the attempt's process: code and inputs, never an expected answer,
       job of the tester's process, if any: tests with their expected answers

The server reads no job, so an attempt inherits no memory with data of another attempt. When an attempt ends or exceeds its
deadline, the server kills every other process of the pid namespace; before the next attempt it empties the temporary folders.
"""

from __future__ import annotations

import _signal as signals  # pyright: ignore[reportMissingImports]  without signal's enums, which cost a fork 0.15 ms
import gc
import marshal
import os
import resource
import signal
import sys
import time

import child
import interpreter
import messages
import queries
import tester

TYPE_CHECKING = False  # the module typing is not imported
if TYPE_CHECKING:
    from typing import Any

__all__ = ["main"]

CONTROL, FIRST, FILES = 3, 4, 5
OUT, ERR, RESULTS, JOB, TESTER_JOB = range(FILES)
PR_SET_DUMPABLE = 4
CPU_CLOCK = 2
"""Number that, combined with ~pid << 3, is the id of the CPU-time clock of a process."""
STEP_SECONDS = 0.01
"""Minimum time between two readings of the CPU time of an attempt, seconds."""
FRAMES = 11
"""Maximum number of the judge's own frames below an attempt's frames; attempts can recurse as deep as in a new interpreter."""
ENDS = (signals.SIGCHLD,)
"""Signals that report the end of a process; blocked in the server, not in attempts."""
COMMON = "bisect collections copy functools heapq itertools json math operator re string typing warnings"
"""Modules that programs often import, and warnings, which ``os.execvpe`` imports: loaded once, inherited by all attempts.

Without random: it would be seeded again in every fork.
"""


class Limits:
    """Decoded limits of a request; cached, since most requests have the same limits."""

    def __init__(self, message: bytes) -> None:
        options = marshal.loads(message)
        self.cpu = interpreter.cpu_limits(options["cpu_seconds"])
        self.options, self.processes = options, options["processes"] + 1

    def inherit(self, uid: int) -> bool:
        """Set the rlimits that forks inherit; return False if a hard limit is already lower than requested."""
        options, memory = self.options, self.options["address_bytes"] or resource.RLIM_INFINITY
        address_limit = memory + options["stack_bytes"] if options["address_bytes"] else memory
        size = max(options["output_bytes"] + 1, options["file_bytes"])
        try:
            for kind, soft, hard in (
                (resource.RLIMIT_AS, memory, address_limit),
                (resource.RLIMIT_FSIZE, size, size),
                (resource.RLIMIT_CORE, 0, 0),
                (resource.RLIMIT_NOFILE, options["files"], options["files"]),
                (resource.RLIMIT_STACK, 8 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]),
            ):
                resource.setrlimit(kind, (soft, hard))
            if not uid:  # with a user id per attempt, fork_process sets it: the kernel counts processes per user
                resource.setrlimit(resource.RLIMIT_NPROC, (self.processes, self.processes))
            os.chdir(options["folder"])
            os.environ["HOME"] = options["folder"]
        except (OSError, ValueError):
            return False
        return True


def fork_process(files: int, job: tuple[int, int], run: Any, limits: Limits, uid: int, pipes: tuple[int, ...] = ()) -> int:
    """Fork a process that reads its job (offset of the file, bytes), confines itself and runs the job; return its pid.

    Its descriptors: 0 empty input, 1 standard output, 2 standard error, and from 3 on the pipes or, without pipes, the results.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        content = marshal.loads(os.pread(files + job[0], job[1], 0))
        os.dup2(files + OUT, 1)
        os.dup2(files + ERR, 2)
        for target, source in enumerate(pipes or (files + RESULTS,), start=3):
            os.dup2(source, target)
        os.closerange(3 + (len(pipes) or 1), 128)
        resource.setrlimit(resource.RLIMIT_CPU, limits.cpu)
        if uid:
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            resource.setrlimit(resource.RLIMIT_NPROC, (limits.processes, limits.processes))
        signals.pthread_sigmask(signals.SIG_UNBLOCK, ENDS)
        gc.enable()
    except BaseException as error:
        messages.report_error(broken=f"cannot confine: {error!r}")
        os._exit(70)
    code = 1  # if an exception leaves the judge's own code
    try:
        code = run(content) or 0
        interpreter.flush()
    finally:
        os._exit(code)


def fork_pair(files: int, sizes: tuple[int, int], limits: Limits, uid: int) -> tuple[int, int]:
    """Fork an attempt that answers a tester, and the tester, which alone can write results; return their pids."""
    requests, to_attempt = os.pipe()
    replies, to_tester = os.pipe()
    attempt = fork_process(files, (JOB, sizes[0]), child.run, limits, uid, (to_tester, requests))
    os.close(requests)
    os.close(to_tester)
    results = os.dup(files + RESULTS)
    pipes = (results, replies, to_attempt)
    test = fork_process(files, (TESTER_JOB, sizes[1]), tester.run, limits, uid + 1 if uid else 0, pipes)
    for handle in pipes:
        os.close(handle)
    return attempt, test


def wait_until(pid: int, deadline: float) -> Any:
    """Wait for a process, by receiving the blocked SIGCHLD; return the result of ``os.wait4``, or None if the deadline passes first."""
    while True:
        if (ended := os.wait4(pid, os.WNOHANG))[0]:
            return ended
        if (left := deadline - time.monotonic()) <= 0:
            return None
        signals.sigtimedwait(ENDS, left)


def cpu_left(pids: tuple[int, ...], seconds: float) -> float:
    """Return the CPU time, seconds, that a limit leaves to the process that has used most.

    RLIMIT_CPU counts ticks: on a busy machine it ended processes that had used four fifths of their time.
    """
    used = 0.0
    for pid in pids:
        try:
            used = max(used, time.clock_gettime(~pid << 3 | CPU_CLOCK))
        except OSError:  # the process has ended, or the kernel is gVisor's
            pass
    return seconds - used


def wait_for(pids: tuple[int, ...], slot: int, limits: tuple[float, float], started: float) -> tuple[bool, Any]:
    """Wait for an attempt until its end or its limits; return whether it timed out, and the result of ``os.wait4`` if the attempt has ended.

    ``pids``: the attempt and, if there is one, the tester: then wait for the tester, and for the attempt if the tester exited because of it.
    A tester that used up its CPU time, in functions that the attempt called, counts as timed out.
    ``limits``: seconds of elapsed time, and of CPU time of each process.
    """
    pid, deadline, left = pids[-1], started + limits[0], limits[1]
    while True:
        ended = wait_until(pid, min(deadline, time.monotonic() + max(left, STEP_SECONDS)))
        if ended is None:
            if (left := cpu_left(pids, limits[1])) <= 0:
                return True, None
            if time.monotonic() < deadline:
                continue
            os.write(CONTROL, b"late %d %f" % (slot, time.monotonic() - started))
            if (extension := float(os.read(CONTROL, 64) or 0)) <= 0:  # seconds: the attempt waited for a core
                return True, None
            deadline = time.monotonic() + extension
        elif pid == pids[0]:
            return False, ended
        elif ended[1] != tester.SERVANT_GONE << 8:
            return ended[1] & 127 == signals.SIGXCPU, None
        else:
            pid, left = pids[0], cpu_left(pids, limits[1])


def run_one(slot: int, limits: Limits, uid: int, seconds: tuple[float, float], sizes: tuple[int, int]) -> tuple[float, ...]:
    """Run one attempt (``sizes``: bytes of its job and of the tester's); return wait status, timed out, CPU seconds, peak memory, wall seconds."""
    started, files = time.monotonic(), FIRST + FILES * slot
    alone = () if sizes[1] else (fork_process(files, (JOB, sizes[0]), child.run, limits, uid),)
    pids = alone or fork_pair(files, sizes, limits, uid)
    timed_out, ended = wait_for(pids, slot, seconds, started)
    if ended is None:
        sweep(pids)
        _, status, usage = os.wait4(pids[0], 0)
        status = status if timed_out else 0
    else:
        _, status, usage = ended
    orphans = reap(pids)
    return status, timed_out, usage[0] + usage[1] + orphans, usage[2] * 1024, time.monotonic() - started


def sweep(pids: tuple[int, ...]) -> None:
    """Kill the remaining processes of an attempt: as pid 1 every other process of the namespace, else the process groups."""
    for pid in (-1,) if os.getpid() == 1 else [-pid for pid in pids]:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


def reap(pids: tuple[int, ...]) -> float:
    """Kill and wait for processes that the attempt started and did not wait for; return their CPU time, seconds, without the tester's."""
    alone, seconds = os.getpid() == 1, 0.0
    if not alone:
        sweep(pids)
    try:
        while True:
            pid, _, usage = os.wait4(-1, os.WNOHANG)
            if not pid:
                sweep(pids)
                if not alone:
                    return seconds
                pid, _, usage = os.wait4(-1, 0)
            if pid not in pids[1:]:
                seconds += usage[0] + usage[1]
    except ChildProcessError:
        return seconds


def warm_up() -> None:
    """Import common modules and run sample jobs, so that forks inherit filled caches."""
    sys.setrecursionlimit(sys.getrecursionlimit() + FRAMES)
    interpreter.site_names()
    for name in COMMON.split():
        __import__(name)
    messages.RESULTS = os.open("/dev/null", os.O_WRONLY)
    job = {"kind": "tests", "setup": "", "code": "def f(x):\n    return [x]\n", "tests": [("call", "f('a')")] * 3}
    job |= {"nonce": "", "lines": False, "test_seconds": 0}
    for sample_job in [job] * 20 + [queries.EXAMPLE] * (5 if "sqlite3" in sys.modules else 0):
        child.run(marshal.loads(marshal.dumps(sample_job)))
    del sys.modules["attempt"]
    os.close(messages.RESULTS)
    messages.RESULTS = 3
    gc.collect()
    gc.disable()
    gc.freeze()


def load_packages(folder: str, names: list[str]) -> None:
    """Import packages for all attempts; report to the judge and exit if an import fails."""
    sys.path.append(folder)
    for name in names:
        try:
            __import__(name)
        except BaseException as error:
            os.write(CONTROL, child.json.dumps({"broken": f"cannot import {name}: {error!r}"[:2000]}).encode())
            os._exit(72)


def rewind(files: int) -> None:
    """Reset offset and flags of the output files: under gVisor the container and the judge do not share these."""
    import fcntl

    for handle in (files + OUT, files + ERR, files + RESULTS):
        fcntl.fcntl(handle, fcntl.F_SETFL, os.O_RDWR)
        os.lseek(handle, 0, os.SEEK_SET)


def keep_from_proc() -> None:
    """Make this process non-dumpable: root then owns its files in /proc, and attempts with its user id cannot read them."""
    import ctypes

    if ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError("prctl")


def clear(folder: str) -> None:
    """Remove all entries of a folder, but not the folder."""
    for entry in list(os.scandir(folder)):
        if entry.is_dir(follow_symlinks=False):
            os.chmod(entry.path, 0o700)
            clear(entry.path)
            os.rmdir(entry.path)
        else:
            os.unlink(entry.path)


def tidy(folders: list[str], own: bool) -> bool:
    """Empty the temporary folders; return False on failure: the server must then be replaced."""
    try:
        for folder in folders:
            if own:  # attempts run with the server's user id and can change its mode
                os.chmod(folder, 0o1777)
            if os.listdir(folder):
                clear(folder)
    except (OSError, RecursionError):
        return False
    return True


def main(setup_json: str) -> None:
    """Serve requests until the judge closes the socket."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signals.pthread_sigmask(signals.SIG_BLOCK, ENDS)
    setup = child.json.loads(setup_json)
    if setup["modules"]:
        load_packages(setup["packages"], setup["modules"])
    warm_up()
    uid, private = setup["uid"], "mountns" in setup["layers"]
    if setup["proc"] and not uid:
        keep_from_proc()
    os.write(CONTROL, setup_json.encode())
    last, limits = b"", None
    while message := os.read(CONTROL, 1 << 16):
        same, runs = marshal.loads(message)
        if limits is None or same != last:
            last, limits = same, Limits(same)
            if not limits.inherit(uid):
                os.write(CONTROL, b"renew")
                continue
        answer, clean = b"", True
        for slot, (seconds, size, tester_size, continues) in enumerate(runs):
            clean = not private or continues or tidy(setup["own"], not uid)
            if not clean:
                break
            if setup["gvisor"]:
                rewind(FIRST + FILES * slot)
            answer += b"%d %d %f %d %f\n" % run_one(slot, limits, uid, seconds, (size, tester_size))
        os.write(CONTROL, answer if clean else answer + b"spent")
    os._exit(0)
