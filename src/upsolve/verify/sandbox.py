"""Run jobs in a warm sandboxed process under limits; one such server a thread, started again when it breaks."""

import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from upsolve.errors import IsolationError, JudgeError
from upsolve.verify.limits import Limits

__all__ = ["Exit", "active_layers", "run_job"]

FOLDER = str(Path(__file__).parent)
PYTHON = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
PREFIX = os.path.realpath(sys.base_prefix)
FIRST_UID = 61_000
REQUIRED = ("pidns", "netns", "mountns")
RESULTS_READ = 16 << 20
STARTING = 20.0
"""Seconds a server may take to start, or to answer after a deadline."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a job ended; every figure comes from the kernel or from the server, none from the attempt."""

    returncode: int | None
    """Exit code of the attempt's process; None if a signal or the deadline ended it."""
    signal: int
    """Signal that ended it, 0 if none."""
    timed_out: bool
    """True when the wall-clock deadline ended it."""
    wall_seconds: float
    """Elapsed time from the fork to the end."""
    cpu_seconds: float
    """Processor time of the attempt's process and of the children it waited for."""
    memory_bytes: int
    """Peak resident memory of the attempt's process."""
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


server_count = itertools.count()


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


class Server:
    """A warm sandboxed process, and the socket to it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = start(theirs.fileno())
        self.close = weakref.finalize(self, close, ours, process)
        self.socket = ours
        self.uid = FIRST_UID + next(server_count) % 4000
        ours.settimeout(STARTING)
        ours.send(json.dumps({"python": PREFIX, "hide": hidden()}).encode())
        self.layers = tuple(self.answer().get("layers", ()))

    def answer(self) -> Mapping[str, Any]:
        """Return what the server says; raises JudgeError when it broke."""
        try:
            said = json.loads(self.socket.recv(1 << 16) or b'{"broken": "it ended"}')
        except (OSError, ValueError) as error:
            raise JudgeError(f"the sandbox does not answer: {error}") from error
        if "broken" in said:
            raise JudgeError(f"the sandbox broke: {said['broken']}")
        return said

    def run(self, handles: list[int], wall_seconds: float) -> None:
        """Run one job; the server itself keeps the deadline."""
        self.socket.settimeout(wall_seconds + STARTING)
        try:
            socket.send_fds(self.socket, [str(wall_seconds).encode()], handles)
        except OSError as error:
            raise JudgeError(f"the sandbox is gone: {error}") from error
        self.answer()


def start(control: int) -> subprocess.Popen[bytes]:
    """Start the interpreter with its end of the socket on descriptor 3 and nothing else open."""
    relay = f"import os;os.dup2({control},3);os.closerange(4,4096)"
    code = f"{relay};import sys;sys.path.insert(0,{FOLDER!r});import server;del sys.path[0];server.main()"
    return subprocess.Popen(
        [PYTHON, "-I", "-S", "-B", "-X", "utf8", "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(control,),
        start_new_session=True,
        env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"},
        cwd="/",
    )


def close(control: socket.socket, process: subprocess.Popen[bytes]) -> None:
    """End a server: without its socket it leaves, and the kernel takes what is left of its namespace."""
    control.close()
    process.kill()
    process.wait()


own = threading.local()


def server() -> Server:
    """Return this thread's server, started when there is none."""
    if getattr(own, "server", None) is None:
        own.server = Server()
    running: Server = own.server
    return running


def forget_server() -> None:
    """End this thread's server; the next job starts another."""
    if getattr(own, "server", None) is not None:
        own.server.close()
        own.server = None


def run_job(job: Mapping[str, Any], limits: Limits, *, wall_seconds: float, isolation: str = "required") -> Exit:
    """Run a job: ``code`` and ``setup``, and either ``tests`` with a ``nonce`` or ``stdin``.

    Raises:
        IsolationError: namespaces are required and not to be had here.
        JudgeError: the sandbox broke; says how.
    """
    running = server()
    layers = running.layers
    if isolation == "required" and "pidns" not in layers:
        raise IsolationError(
            "no namespaces here (pidns, netns, mountns): run as root, or allow unprivileged user namespaces "
            "(sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0), "
            "or accept less with isolation: best_effort"
        )
    folder = "/tmp" if "mountns" in layers else tempfile.mkdtemp(prefix="upsolve-")  # noqa: S108  the sandbox has its own
    text = json.dumps({**job, "limits": asdict(limits), "folder": folder, "uid": running.uid}).encode()
    handles = [memory_file(name, text if name == "job" else b"") for name in ("job", "stdout", "stderr", "results", "status")]
    try:
        running.run(handles, wall_seconds)
        return collect(handles, limits, layers)
    except JudgeError:
        forget_server()
        raise
    finally:
        for handle in handles:
            os.close(handle)
        if "mountns" not in layers:
            shutil.rmtree(folder, ignore_errors=True)


def collect(handles: list[int], limits: Limits, layers: tuple[str, ...]) -> Exit:
    """Read what server and attempt left behind."""
    _, out, err, results, status = handles
    said: dict[str, Any] = json.loads(read_back(status, 1 << 16))
    code = said["exit"]
    killed = os.WIFSIGNALED(code)
    stdout, stderr = read_back(out, limits.output_bytes + 1), read_back(err, limits.output_bytes + 1)
    return Exit(
        returncode=None if killed else os.WEXITSTATUS(code),
        signal=os.WTERMSIG(code) if killed else 0,
        timed_out=said["timed_out"],
        wall_seconds=said["wall_seconds"],
        cpu_seconds=said["cpu_seconds"],
        memory_bytes=said["memory_bytes"],
        records=tuple(parse_records(read_back(results, RESULTS_READ))),
        stdout=stdout[: limits.output_bytes],
        stderr=stderr[: limits.output_bytes],
        output_exceeded=max(len(stdout), len(stderr)) > limits.output_bytes,
        layers=layers,
    )


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


def active_layers() -> tuple[str, ...]:
    """Return the layers of confinement that work here."""
    return server().layers
