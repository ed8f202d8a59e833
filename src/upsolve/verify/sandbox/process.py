"""Client of a sandbox server: starts the process, sends requests and shares memory files with it. Also the jobs that build and run programs by the
commands of their language."""

import base64
import fcntl
import json
import marshal
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import weakref
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from upsolve.errors import JudgeError
from upsolve.languages import (
    MOST_STACK,
    SYSTEM_PATH,
    Language,
    packages_folder,
    prepared_folder,
    required_by,
    runs_programs,
    stack_bytes,
)
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.resources import CoreWaits
from upsolve.verify.sandbox.cgroup import ControlGroup
from upsolve.verify.sandbox.gvisor import find_runsc, start_in_gvisor
from upsolve.verify.sandbox.inside.launcher import PACKAGES

__all__ = [
    "COMPILE_MEMORY",
    "COMPILE_SECONDS",
    "SLOTS",
    "Job",
    "RenewError",
    "Server",
    "build_job",
    "command_job",
    "encode_text",
    "opens_output",
    "run_job",
]

FOLDER = Path(__file__).parent / "inside"
PYTHON = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
PREFIX = os.path.realpath(sys.base_prefix)
FIRST_UID, UIDS = 61_000, 4000
SLOTS = 8
"""Maximum number of jobs in one request: the process switches of a request cost a third of a small attempt's time."""
ROOM = {"python": "size=64m,nr_inodes=4096", "any": "size=1g,nr_inodes=65536"}
"""Profile -> mount options of a temporary folder."""
STARTING = 60.0
"""Time a server may take to start, or to answer after the deadlines of its jobs, seconds."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""One thread per library: a server that forks must not have threads, and an attempt has one core."""
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "MALLOC_ARENA_MAX": "1",
    "ONLINE_JUDGE": "1",
    **ONE_THREAD,
}
"""Environment of a server and of the attempts that it forks."""
MODULES = "messages values texts setups operations interpreter queries observations decoys proxies copies shared remote child local tester"
"""Modules of the server, in order of import: each after its dependencies."""
START = """
import sys
for name, code in parts:
    module = sys.modules[name] = type(sys)(name)
    exec(code, module.__dict__)
for name, _ in parts:
    del sys.modules[name]
args, sys.argv[:] = sys.argv[1:], [""]
del boot, parts, name, code, _
module.main(*args)
"""
"""First part of a bundle: executes the other parts as modules, then calls ``main`` of the last."""


@cache
def bundle(main: str, *modules: str) -> bytes:
    """Return a program that consists of these modules and calls ``main.main``. It is compiled here, since a compiler's memory would make every fork
    of the server slower."""
    sources = {name: (FOLDER / f"{name}.py").read_text(encoding="utf-8") for name in (*modules, main)}
    parts = [(name, compile(source, name, "exec", dont_inherit=True, optimize=2)) for name, source in sources.items()]
    return marshal.dumps((compile(START, "start", "exec", dont_inherit=True), parts))


def put(handle: int, data: bytes) -> None:
    """Replace the content of a memory file that no attempt can write."""
    os.ftruncate(handle, len(data))
    view, offset = memoryview(data), 0
    while offset < len(view):
        offset += os.pwrite(handle, view[offset:], offset)


@dataclass(frozen=True, slots=True)
class Job:
    """One run of an attempt: a job for its process and, optionally, for a tester's process."""

    attempt: dict[str, Any]
    """Job of the attempt's process: ``kind``, ``code``, ``setup``, and the fields of that kind; never an expected answer."""
    tester: dict[str, Any] | None = None
    """Job of the tester's process; None: the attempt's process writes the results."""
    wall_seconds: float = 10.0
    """Deadline, seconds of elapsed time."""
    waits: bool = True
    """True if the deadline moves by the time for which the run waits for a core (``resources.py``)."""
    continues: bool = False
    """True if the temporary files of the previous job are kept."""
    build: "Job | None" = None
    """Job that makes the files that this job needs: run before this job is repeated, since its first run may have changed them."""
    memory_bytes: int = 0
    """Memory limit of the control group, bytes; 0: ``Limits.memory_bytes``."""
    profile: str = "python"
    """``python``: forked from the warm interpreter; ``python:numpy``: with packages loaded; ``sql``: with SQLite loaded;
    ``any``: for other programs, with /proc and larger temporary folders; ``checker``: for programs that check outputs."""


class RenewError(JudgeError):
    """The server cannot raise its rlimits to the job's limits; a new server can."""


class Server:
    """A sandboxed server process, its socket, memory files and control group."""

    def __init__(self, profile: str = "python", *, gvisor: bool = False) -> None:
        program = find_runsc() if gvisor else ""
        own_end, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.files = tuple(os.memfd_create(name) for _ in range(SLOTS) for name in ("out", "err", "results", "job", "tester"))
        setup = {**self.setup(profile), "gvisor": gvisor, "files": len(self.files)}
        self.group, self.folders = ControlGroup(enabled="cgroup" not in setup.get("off", ())), list[str]()
        with server_end:
            if gvisor:
                self.folders.append(tempfile.mkdtemp(prefix="upsolve-gvisor-"))
                groups = self.group.folders.values()
                process = start_in_gvisor(program, server_end, setup, bundle=Path(self.folders[0]), groups=groups)
                socket.send_fds(own_end, [b"files"], self.files)
            else:
                process = start((server_end.fileno(), *self.files))
        self.close = weakref.finalize(self, close, own_end, process, self.files, self.group, self.folders)
        if self.group.active and not gvisor:
            self.group.add(process.pid)
        self.socket, self.process, self.gvisor = own_end, process, gvisor
        own_end.settimeout(STARTING)
        for data in (bundle("launcher"), json.dumps(setup).encode()):
            own_end.send(data)
        self.layers = (*json.loads(self.answer()).get("layers", ()), *(["cgroup"] if self.group.active else []))
        self.private, self.fresh = "mountns" in self.layers, True
        self.core_waits = None if gvisor else CoreWaits(process.pid)

    @staticmethod
    def setup(profile: str = "python") -> dict[str, Any]:
        """Return the settings of the launcher; benchmarks add a key ``off`` with layers to leave out."""
        server = base64.b64encode(zlib.compress(bundle("server", *MODULES.split()), 9)).decode()
        programs = runs_programs(profile)
        own = {"uid": FIRST_UID, "uids": UIDS, "proc": programs, "folder": ROOM["any" if programs else "python"]}
        if modules := required_by(profile):
            own |= {"packages": str(packages_folder()), "modules": modules}
        if profile == "sql":
            own |= {"modules": ["sqlite3"]}
        if programs and prepared_folder().is_dir():
            own |= {"packages": str(prepared_folder())}
        return {"python": PREFIX, "executable": PYTHON, "environment": ENVIRONMENT, "server": server, **own}

    def answer(self) -> bytes:
        """Return the server's next message; raise JudgeError if it reports a failure or is gone."""
        try:
            message = self.socket.recv(1 << 16) or b'{"broken": "it ended"}'
        except OSError as error:
            raise JudgeError(f"the sandbox does not answer: {error}") from error
        if message.startswith(b'{"broken"'):
            raise JudgeError(f"the sandbox broke: {json.loads(message)['broken']}")
        return message

    def work_folder(self, continues: bool) -> str:
        """Return the working folder of the next job: the sandbox's /tmp; without a mount namespace, a new temporary folder."""
        if self.private:
            return "/tmp"  # noqa: S108
        if not (continues and self.folders):
            remove(self.folders)
            self.folders.append(tempfile.mkdtemp(prefix="upsolve-"))
            Path(self.folders[-1]).chmod(0o777)
        return self.folders[-1]

    def slot(self, number: int) -> tuple[int, ...]:
        """Return the descriptors of a slot: standard output, standard error, results, job, tester's job."""
        return self.files[5 * number : 5 * number + 5]

    def run(self, jobs: Sequence[Job], limits: bytes, cpu_seconds: float) -> tuple[list[list[float]], bool]:
        """Run up to SLOTS jobs, one after the other; the server enforces the deadlines.

        Args:
            jobs: the jobs.
            limits: limits of all jobs, marshalled.
            cpu_seconds: limit of CPU time of a job that names none.

        Returns:
            Per job that was run, the five numbers of ``server.run_one`` and the seconds for which it waited for a core (0 if it
            did not reach its deadline); and whether this server can be used again.
        """
        runs: list[tuple[tuple[float, float], int, int, bool]] = []
        for number, job in enumerate(jobs):
            # format 2 has no references: arguments that tests share here are separate objects in the sandbox
            work, test = marshal.dumps(self.limited(job.attempt), 2), marshal.dumps(job.tester, 2) if job.tester else b""
            *_, own, testers = self.slot(number)
            put(own, work)
            put(testers, test)
            runs.append(((job.wall_seconds, job.attempt.get("seconds", cpu_seconds)), len(work), len(test), job.continues))
        self.socket.settimeout(sum(job.wall_seconds for job in jobs) + STARTING)
        if self.core_waits:
            self.core_waits.begin()
        self.send(marshal.dumps((limits, runs)))
        waited = [0.0] * len(jobs)
        while (message := self.answer()).startswith(b"late"):
            slot, elapsed = message.split()[1:]
            waited[int(slot)], extension = self.measure(jobs[int(slot)], float(elapsed), cpu_seconds)
            self.send(b"%f" % extension)
        if message == b"renew":
            raise RenewError
        self.fresh = False
        rows = [[float(number) for number in row.split()] for row in message.removesuffix(b"spent").splitlines()]
        return [[*row, wait] for row, wait in zip(rows, waited, strict=False)], not message.endswith(b"spent")

    def empty_files(self, count: int) -> None:
        """Empty the memory files of the first slots after they were read; otherwise this memory counts against the next attempts."""
        for handle in (handle for number in range(count) for handle in self.slot(number)[:3]):
            fcntl.fcntl(handle, fcntl.F_SETFL, os.O_RDWR)  # an attempt may have set O_APPEND
            if os.fstat(handle).st_size:
                os.ftruncate(handle, 0)
            os.lseek(handle, 0, os.SEEK_SET)

    def limited(self, attempt: dict[str, Any]) -> dict[str, Any]:
        """Return a job without limit of address space if the control group limits the memory in use.

        A program whose large array or allocation exceeds the address space ends by a null pointer or does not start: a segmentation fault.
        """
        unlimited = self.group.active and not self.gvisor and "address_bytes" in attempt
        return {**attempt, "address_bytes": 0} if unlimited else attempt

    def send(self, message: bytes) -> None:
        """Send a message to the server; raise JudgeError if it is gone."""
        try:
            self.socket.send(message)
        except OSError as error:
            raise JudgeError(f"the sandbox process ended: {error}") from error

    def measure(self, job: Job, elapsed: float, cpu_seconds: float) -> tuple[float, float]:
        """Return for how many seconds a job waited for a core, and by how many its deadline moves; see ``CoreWaits.measure``."""
        if self.core_waits is None or not job.waits:
            return 0.0, 0.0
        return self.core_waits.measure(elapsed, job.wall_seconds, job.attempt.get("seconds", cpu_seconds))


def start(handles: tuple[int, ...]) -> subprocess.Popen[bytes]:
    """Start an interpreter that runs the bundle sent on descriptor 3; ``handles`` become 3 and up, others are closed."""
    above = max(*handles, 2 + len(handles)) + 1
    moves = [(handle, above + index) for index, handle in enumerate(handles)]
    moves += [(above + index, 3 + index) for index in range(len(handles))]
    placed = f"import marshal, os\nfor pair in {moves}: os.dup2(*pair)\nos.closerange({3 + len(handles)}, 65536)\n"
    relay = placed + "boot, parts = marshal.loads(os.read(3, 1 << 20))\nexec(boot)"
    command = [PYTHON, "-I", "-S", "-B", "-X", "utf8", "-c", relay]
    null = subprocess.DEVNULL
    return subprocess.Popen(
        command, stdin=null, stdout=null, stderr=null, pass_fds=handles, start_new_session=True, env=ENVIRONMENT, cwd="/"
    )


def close(
    control: socket.socket, process: subprocess.Popen[bytes], files: tuple[int, ...], group: ControlGroup, folders: list[str]
) -> None:
    """Kill a server and release its resources; the kernel kills the remaining processes of its namespace."""
    control.close()
    process.kill()
    process.wait()
    for handle in files:
        os.close(handle)
    group.close()
    remove(folders)


def remove(folders: list[str]) -> None:
    """Remove folders and clear the list."""
    while folders:
        shutil.rmtree(folders.pop(), ignore_errors=True)


COMPILE_SECONDS = 60.0
COMPILE_MEMORY = 4 << 30
COMPILE_STACK = 64 << 20
OUTPUTS = re.compile(rb"/dev/(?!(?:null|zero|u?random|shm|stdin)\b|fd/0)|/fd\b(?!/0)")
"""Beginnings of names by which a program may open its standard output or standard error."""


def encode_text(text: str) -> bytes:
    """Encode a text for a program's standard input."""
    return text.encode("utf-8", "surrogatepass")


def build_job(tools: Language, files: Mapping[str, bytes], *, seconds: float = COMPILE_SECONDS) -> Job:
    """Return the job that compiles a program or checks its syntax; ``seconds``: deadline, elapsed time."""
    job = {**command_job(tools, tools.compile, COMPILE_MEMORY), "files": dict(files), "stdin": b""}
    job |= {"seconds": COMPILE_SECONDS, "address_bytes": 0}
    return Job(job, wall_seconds=seconds, memory_bytes=COMPILE_MEMORY, profile="any")


def opens_output(files: Mapping[str, bytes]) -> bool:
    """Return whether a program's files name devices such as ``/dev/stdout``, which is then a pipe: opening a file again would empty it."""
    return any(OUTPUTS.search(data) for data in files.values())


def run_job(tools: Language, files: Mapping[str, bytes], stdin: bytes, *, settings: JudgeSettings, build: Job | None) -> Job:
    """Return the job that runs a program, which is written from its files or, with ``build``, has been built from them by this job before."""
    memory = settings.limits.memory_bytes
    job = {**command_job(tools, tools.run, memory), "files": {} if build else dict(files), "stdin": stdin}
    job |= {"seconds": settings.limits.cpu_seconds, "address_bytes": memory if tools.memory == "address" else 0}
    job |= {"stack": (stack_bytes(memory), MOST_STACK), "piped": opens_output(files)}
    common: dict[str, Any] = {"wall_seconds": settings.limits.wall_seconds, "memory_bytes": memory, "profile": "any"}
    return Job(job, **common, continues=build is not None, build=build)


def command_job(tools: Language, words: tuple[str, ...], memory_bytes: int) -> dict[str, Any]:
    """Return the fields common to build and run jobs of a language."""
    prepared = f"{PACKAGES}/{tools.prepared_name}" if tools.prepare else ""
    environment = {name: text.replace("{prepared}", prepared) for name, text in tools.environment.items()}
    job = {"kind": "command", "environment": {"PATH": SYSTEM_PATH, **environment}, "prepared": prepared}
    job |= {"stack": (COMPILE_STACK, COMPILE_STACK)}
    return {**job, "argv": tools.command(words, memory_bytes, prepared)}
