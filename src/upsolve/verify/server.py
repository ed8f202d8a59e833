"""The sandboxed side: a warm interpreter in namespaces of its own that forks for every attempt.

Standard library only; started once a worker as ``python -I -S -B``. Descriptor 3 is its socket to the judge.

    launcher (enters the namespaces) --fork--> server (first process of the pid namespace) --fork--> attempt

Each message on the socket is the wall-clock limit of one attempt and five descriptors: the job (JSON: what to run and the limits,
never an expected answer), standard output, standard error, the results (one JSON line a test, written by the attempt's process)
and the status (written by the server alone). When an attempt is over, or its time is, the server kills every other process of the
namespace, however well it hid, puts empty temporary folders in place of the used ones, and answers.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import time

TYPE_CHECKING = False  # typing itself is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from typing import Any

    from upsolve.verify import child
else:
    import child

__all__ = ["main"]

CONTROL = 3
NEW = {"mountns": 0x00020000, "ipcns": 0x08000000, "netns": 0x40000000, "pidns": 0x20000000}
NEW_USER = 0x10000000
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
CAPABILITY_VERSION = 0x20080522
MNT_DETACH = 2
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
OWN = ("/tmp", "/dev/shm")
HIDDEN = (*OWN, "/root", "/home", "/var/tmp", "/run", "/mnt", "/media", "/srv")
libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Call mount(2); OSError names the target."""
    if libc.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode()) != 0:
        raise OSError(ctypes.get_errno(), "mount", target)


def unshare_all(root: bool) -> list[str]:
    """Enter new namespaces, all or none; return the layers gained."""
    uid, gid = os.getuid(), os.getgid()
    wanted = sum(NEW.values()) | (0 if root else NEW_USER)
    if libc.unshare(wanted) != 0:
        return []
    if not root:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    return [*NEW, *([] if root else ["userns"])]


def private_tree(python: str, hide: list[str]) -> None:
    """Hide homes and temporary folders behind empty ones, show the interpreter through, read-only; mount our own /proc."""
    mount("", "/", "", MS_REC | MS_PRIVATE)
    handle = os.open(python, os.O_PATH)
    for folder in (*HIDDEN, *hide):
        if not os.path.isdir(folder):
            continue
        empty(folder)
        if python.startswith(folder + "/"):
            os.makedirs(python, mode=0o755)
            mount(f"/proc/self/fd/{handle}", python, "", MS_BIND)
            mount("", python, "", MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)
    os.close(handle)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV)


def fresh_folders() -> None:
    """Put empty temporary folders in place of those that the last attempt could write to."""
    for folder in OWN:
        libc.umount2(folder.encode(), MNT_DETACH)
        empty(folder)


def empty(folder: str) -> None:
    """Mount an empty folder in memory over another."""
    mode = "1777" if folder in OWN else "755"
    mount("none", folder, "tmpfs", MS_NOSUID | MS_NODEV, f"size=64m,nr_inodes=4096,mode={mode}")


def confine(job: dict[str, Any], root: bool) -> None:
    """Set limits, identity and folder of the process that will run the attempt."""
    limits = job["limits"]
    cpu = max(1, -int(-limits["cpu_seconds"] // 1))
    size = max(limits["output_bytes"] + 1, 8 << 20)
    memory = limits["memory_bytes"]
    for kind, soft, hard in (
        (resource.RLIMIT_CPU, cpu, cpu + 1),
        (resource.RLIMIT_AS, memory, memory),
        (resource.RLIMIT_FSIZE, size, size),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_NOFILE, 64, 64),
        (resource.RLIMIT_STACK, 8 << 20, 64 << 20),
    ):
        resource.setrlimit(kind, (soft, hard))
    os.chdir(job["folder"])
    if root:
        os.setgroups([])
        os.setresgid(job["uid"], job["uid"], job["uid"])
        os.setresuid(job["uid"], job["uid"], job["uid"])
    resource.setrlimit(resource.RLIMIT_NPROC, (limits["processes"], limits["processes"]))
    drop_capabilities()
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def drop_capabilities() -> None:
    """Give up what a new user namespace has granted: with it an attempt could take the empty mounts away."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    if libc.capset(header, (ctypes.c_uint32 * 6)()) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def attempt(handles: list[int], root: bool, private: bool) -> None:
    """The process of one attempt: take its descriptors, confine, run, leave."""
    try:
        job_handle, *streams = handles[:4]
        with open(job_handle, "rb") as file:
            job = json.loads(file.read())
        for target, source in enumerate(streams, start=1):
            os.dup2(source, target)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.closerange(4, 256)
        os.setsid()
        if private:
            libc.unshare(NEW["ipcns"])
        confine(job, root)
    except BaseException as error:
        child.report(broken=f"cannot confine: {error!r}")
        os._exit(70)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        (child.run_program if "stdin" in job else child.run_tests)(job)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)


def sweep(pid: int, alone: bool) -> None:
    """Kill whatever an attempt has left running and reap it; ``alone``: everything here but this process is the attempt's."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(-1, signal.SIGKILL) if alone else os.killpg(pid, signal.SIGKILL)


def reap() -> None:
    """Wait for orphans that have ended up here."""
    try:
        while os.waitpid(-1, 0 if os.getpid() == 1 else os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def run_one(wall_seconds: float, handles: list[int], root: bool, private: bool) -> None:
    """Run one attempt to its end or its deadline, and write how it ended."""
    started = time.monotonic()
    pid = os.fork()
    if pid == 0:
        attempt(handles, root, private)
    watch = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(watch, select.POLLIN)
    timed_out = not poll.poll(wall_seconds * 1000)
    sweep(pid, os.getpid() == 1)
    _, status, usage = os.wait4(pid, 0)
    reap()
    os.close(watch)
    cpu = usage.ru_utime + usage.ru_stime
    ended = {"exit": status, "timed_out": timed_out, "cpu_seconds": cpu, "memory_bytes": usage.ru_maxrss * 1024}
    os.write(handles[4], json.dumps({**ended, "wall_seconds": time.monotonic() - started}).encode())


def serve(control: socket.socket, setup: dict[str, Any], root: bool, layers: list[str]) -> None:
    """The second process: run attempts one after the other, until the judge closes the socket."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    private = "mountns" in layers
    if private:
        private_tree(setup["python"], setup["hide"])
    names = [*layers, "rlimits", "no_new_privs", *(["own_uid"] if root else [])]
    control.send(json.dumps({"layers": names}).encode())
    gc.collect()
    gc.freeze()
    while True:
        text, handles, _, _ = socket.recv_fds(control, 64, 5)
        if not text:
            os._exit(0)
        if private:
            fresh_folders()
        run_one(float(text), handles, root, private)
        for handle in handles:
            os.close(handle)
        control.send(b"{}")


def main() -> None:
    """The first process: enter the namespaces, start the server, end with it."""
    control = socket.socket(fileno=CONTROL)
    setup = json.loads(control.recv(1 << 16))
    root = os.getuid() == 0
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    try:
        layers = unshare_all(root)
        pid = os.fork()
        if pid == 0:
            serve(control, setup, root, layers)
        control.close()
        os.waitpid(pid, 0)
    except BaseException as error:
        control.send(json.dumps({"broken": repr(error)}).encode())
    finally:
        os._exit(72)
