"""Run one job in a child process under limits, and kill all of it at the deadline."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from upsolve.errors import IsolationError, JudgeError
from upsolve.verify.limits import Limits

__all__ = ["Exit", "active_layers", "run_job"]

CHILD = str(Path(__file__).with_name("child.py"))
PYTHON = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
PREFIX = os.path.realpath(sys.base_prefix)
FIRST_UID = 61_000
REQUIRED = ("pidns", "netns", "mountns")
RESULTS_READ = 16 << 20


@dataclass(frozen=True, slots=True)
class Exit:
    """How a job ended; every figure comes from the kernel or from the launcher, none from the attempt."""

    returncode: int | None
    """Exit code of the attempt's process; None if a signal or the deadline ended it."""
    signal: int
    """Signal that ended it, 0 if none."""
    timed_out: bool
    """True when the wall-clock deadline ended it."""
    wall_seconds: float
    """Elapsed time, start of the interpreter included."""
    cpu_seconds: float | None
    """Processor time of the attempt, None when it had to be killed."""
    memory_bytes: int | None
    """Peak resident memory, None when it had to be killed."""
    records: tuple[Mapping[str, Any], ...]
    """Result lines written by the attempt's process: data, never trusted."""
    stdout: bytes
    """Standard output, cut at the limit."""
    stderr: bytes
    """Standard error, cut at the limit."""
    output_exceeded: bool
    """True when either stream went past the limit."""
    layers: tuple[str, ...]
    """Confinement that was active."""


SYSTEM = frozenset({"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "nix", "opt", "proc", "sbin", "sys", "usr", "var"})


@cache
def hidden() -> list[str]:
    """Return the top folders that hold the working folder and this program, where they are no part of the system."""
    tops = {path.resolve().parts[1] for path in (Path.cwd(), Path(__file__)) if len(path.resolve().parts) > 2}
    return [f"/{top}" for top in sorted(tops - SYSTEM)]


slots_free = threading.local()
slot_count = iter(range(1 << 30))


def slot() -> int:
    """Return a small number of this thread's own, for its user id."""
    if not hasattr(slots_free, "number"):
        slots_free.number = next(slot_count) % 4000
    number: int = slots_free.number
    return number


def memory_file(name: str, data: bytes = b"") -> int:
    """Return the descriptor of an anonymous file that holds the data, rewound."""
    handle = os.memfd_create(name)
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


def read_back(handle: int, limit: int) -> bytes:
    """Return up to ``limit`` bytes of an anonymous file from its start."""
    return os.pread(handle, limit, 0)


def run_job(job: Mapping[str, Any], limits: Limits, *, wall_seconds: float, isolation: str = "required") -> Exit:
    """Run a job of child.py (its docstring says what a job is).

    Raises:
        IsolationError: namespaces are required and not to be had here.
        JudgeError: the launcher broke; says how.
    """
    folder = tempfile.mkdtemp(prefix="upsolve-")
    Path(folder).chmod(0o777)  # the attempt runs as another user
    full = {
        **job,
        "limits": asdict(limits),
        "folder": folder,
        "python": PREFIX,
        "hide": hidden(),
        "uid": FIRST_UID + slot(),
        "required": isolation == "required",
    }
    text = json.dumps(full).encode()
    handles = [memory_file(name, text if name == "job" else b"") for name in ("job", "stdout", "stderr", "results", "status")]
    try:
        return run_child(handles, limits, wall_seconds)
    finally:
        for handle in handles:
            os.close(handle)
        shutil.rmtree(folder, ignore_errors=True)


def run_child(handles: list[int], limits: Limits, wall_seconds: float) -> Exit:
    """Start the launcher on five anonymous files, wait, kill, read."""
    started = time.monotonic()
    process = start(handles)
    timed_out = False
    try:
        process.wait(timeout=wall_seconds)
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return collect(handles, limits, timed_out, time.monotonic() - started)


def start(handles: list[int]) -> subprocess.Popen[bytes]:
    """Start the launcher with its results on descriptor 3 and its status on 4."""
    job, out, err, results, status = handles
    relay = f"import os;os.dup2({results},203);os.dup2({status},204);os.dup2(203,3);os.dup2(204,4);"
    relay += "[os.close(f) for f in map(int,os.listdir('/proc/self/fd')) if f>4 and os.path.exists(f'/proc/self/fd/{f}')];"
    code = f"{relay}import runpy;runpy.run_path({CHILD!r},run_name='__main__')"
    return subprocess.Popen(
        [PYTHON, "-I", "-S", "-B", "-X", "utf8", "-c", code],
        stdin=job,
        stdout=out,
        stderr=err,
        pass_fds=(results, status),
        start_new_session=True,
        env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"},
        cwd="/",
    )


def collect(handles: list[int], limits: Limits, timed_out: bool, wall_seconds: float) -> Exit:
    """Read what launcher and attempt left behind."""
    _, out, err, results, status = handles
    said: dict[str, Any] = {}
    for line in read_back(status, 1 << 16).splitlines():
        said |= json.loads(line)
    check_launcher(said, timed_out, read_back(err, 2000))
    code = said.get("exit")
    stdout, stderr = read_back(out, limits.output_bytes + 1), read_back(err, limits.output_bytes + 1)
    return Exit(
        returncode=None if code is None or os.WIFSIGNALED(code) else os.WEXITSTATUS(code),
        signal=os.WTERMSIG(code) if code is not None and os.WIFSIGNALED(code) else 0,
        timed_out=timed_out,
        wall_seconds=wall_seconds,
        cpu_seconds=said.get("cpu_seconds"),
        memory_bytes=said.get("memory_bytes"),
        records=tuple(parse_records(read_back(results, RESULTS_READ))),
        stdout=stdout[: limits.output_bytes],
        stderr=stderr[: limits.output_bytes],
        output_exceeded=max(len(stdout), len(stderr)) > limits.output_bytes,
        layers=tuple(said.get("layers", ())),
    )


def check_launcher(said: Mapping[str, Any], timed_out: bool, stderr: bytes) -> None:
    """Raise unless the launcher did its part."""
    if "layers" in said and "exit" not in said and not timed_out and "pidns" not in said["layers"]:
        raise IsolationError(
            "no namespaces here (pidns, netns, mountns): run as root, or allow unprivileged user namespaces "
            "(sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0), "
            "or accept less with isolation: best_effort"
        )
    if "broken" in said or ("exit" not in said and not timed_out):
        raise JudgeError(f"the launcher broke: {said.get('broken', '')} {stderr.decode(errors='replace')[-300:]}".strip())


def parse_records(data: bytes) -> list[Mapping[str, Any]]:
    """Return the result lines that are JSON objects; the attempt may have written anything there."""
    records: list[Mapping[str, Any]] = []
    for line in data.splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            records.append(record)
    return records


@cache
def active_layers() -> tuple[str, ...]:
    """Return the layers of confinement that work here, by running an empty attempt."""
    job = {"code": "", "setup": "", "tests": [], "nonce": ""}
    return run_job(job, Limits(), wall_seconds=10.0, isolation="best_effort").layers
