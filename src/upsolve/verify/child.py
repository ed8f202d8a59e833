"""The sandboxed side: a trusted launcher that confines itself, forks, and lets its grandchild run the attempt.

Standard library only; started as ``python -I -S -B child.py``. File descriptors:

    0  job, JSON: what to run and the limits (never an expected answer)
    1, 2  output of the attempt      3  results: one JSON line a test, written by the attempt's process
    4  status: written by the launcher alone; the attempt never holds it

    launcher --fork--> keeper (first process of its own pid namespace) --fork--> attempt
When the keeper ends, the kernel kills whatever the attempt has started, however well it hid.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys

TYPE_CHECKING = False  # typing itself is not imported: every attempt would wait for it
if TYPE_CHECKING:
    from typing import Any

__all__: list[str] = []

RESULTS, STATUS = 3, 4
NEW = {"mountns": 0x00020000, "ipcns": 0x08000000, "netns": 0x40000000, "pidns": 0x20000000}
NEW_USER = 0x10000000
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
CAPABILITY_VERSION = 0x20080522
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
HIDDEN = ("/tmp", "/root", "/home", "/var/tmp", "/dev/shm", "/run", "/mnt", "/media", "/srv")
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
        own = folder in ("/tmp", "/dev/shm")
        mount("none", folder, "tmpfs", MS_NOSUID | MS_NODEV, f"size=64m,nr_inodes=4096,mode={'1777' if own else '755'}")
        if python.startswith(folder + "/"):
            os.makedirs(python, mode=0o755)
            mount(f"/proc/self/fd/{handle}", python, "", MS_BIND)
            mount("", python, "", MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)
    os.close(handle)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV)


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
    os.chdir("/tmp" if job["private"] else job["folder"])
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


NUMBERS: tuple[tuple[type, str, Any], ...] = (
    (int, "int", hex),
    (float, "float", float.__repr__),
    (complex, "complex", complex.__repr__),
    (bytes, "bytes", bytes.hex),
    (bytearray, "bytes", bytearray.hex),
)
"""Type, tag, and how a value is written: by the type's own method, never by one of a subclass."""
SEQUENCES: tuple[Any, ...] = (list, tuple, set, frozenset)


def plain(value: Any, depth: int = 0) -> Any:
    """Encode a value as tagged plain data of exact builtin types; anything else becomes opaque, equal to nothing."""
    kind = type(value)
    if depth > 100:
        return ["opaque", "too deep"]
    if value is None or kind is bool:
        return value
    if kind is str:
        return ["str", value]
    for base, tag, write in NUMBERS:
        if isinstance(value, base):
            return [tag, write(value)]
    if isinstance(value, str):
        return ["str", str.__str__(value)]
    for base in SEQUENCES:
        if isinstance(value, base):
            tag = "set" if base is frozenset else base.__name__
            return [tag, *[plain(item, depth + 1) for item in base.__iter__(value)]]
    if isinstance(value, dict):
        return ["dict", *[[plain(k, depth + 1), plain(v, depth + 1)] for k, v in dict.items(value)]]
    return ["opaque", kind.__name__]


def report(**record: Any) -> None:
    """Write one line to the results; a value that cannot be written becomes opaque."""
    try:
        line = json.dumps(record)
    except (ValueError, RecursionError, MemoryError):
        line = json.dumps({**record, "value": ["opaque", "unprintable"]})
    os.write(RESULTS, line.encode() + b"\n")


def describe(error: BaseException) -> list[Any]:
    """Return [type, message, innermost line of the attempt] of an exception."""
    line, step = None, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == "<attempt>":
            line = step.tb_lineno
        step = step.tb_next
    try:
        message = str(error)[:500]
    except BaseException:
        message = ""
    return [type(error).__name__[:100], message, line]


def load(job: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Compile and run setup and attempt; return the namespace, or None after reporting why not."""
    sys.dont_write_bytecode = True
    try:
        program = compile(job["code"], "<attempt>", "exec", dont_inherit=True)
    except BaseException as error:
        report(compile=[*describe(error)[:2], getattr(error, "lineno", None), getattr(error, "offset", None)])
        return None
    space: dict[str, Any] = {"__name__": name, "__builtins__": __builtins__}
    try:
        exec(compile(job["setup"], "<setup>", "exec", dont_inherit=True), space)
    except BaseException as error:
        report(setup=describe(error))
        return None
    try:
        exec(program, space)
    except BaseException as error:
        if name == "__main__" and isinstance(error, SystemExit) and error.code in (None, 0):
            return space
        report(load=describe(error))
        return None
    return space


def run_tests(job: dict[str, Any]) -> None:
    """Evaluate the expressions and run the statements of a job, one result line each."""
    space = load(job, "attempt")
    if space is None:
        return
    for index, (kind, source) in enumerate(job["tests"]):
        try:
            if kind == "call":
                report(test=index, value=plain(eval(source, space)))
            else:
                exec(compile(source, "<test>", "exec", dont_inherit=True), space)
                report(test=index, ok=job["nonce"])
        except BaseException as error:
            report(test=index, error=describe(error))
    if any(kind == "code" for kind, _ in job["tests"]):
        try:
            exec("assert False", space)
            report(canary="assert is disabled")
        except AssertionError:
            pass
    report(done=True)


def run_program(job: dict[str, Any]) -> None:
    """Run a program that reads standard input."""
    job_input = os.memfd_create("stdin")
    os.write(job_input, job["stdin"].encode("utf-8", "surrogatepass"))
    os.lseek(job_input, 0, os.SEEK_SET)
    os.dup2(job_input, 0)
    os.close(job_input)
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    if load(job, "__main__") is not None:
        report(done=True)


def attempt(job: dict[str, Any], root: bool) -> None:
    """The third process: confine, run, leave."""
    try:
        confine(job, root)
    except OSError as error:
        report(broken=f"cannot confine: {error}")
        os._exit(70)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        (run_program if "stdin" in job else run_tests)(job)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)


def keeper(job: dict[str, Any], root: bool, layers: list[str]) -> None:
    """The second process: own the pid namespace, start the attempt, wait for it, report how it ended."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if "mountns" in layers:
        private_tree(job["python"], job["hide"])
    child = os.fork()
    if child == 0:
        os.close(STATUS)
        attempt(job, root)
    _, status, usage = os.wait4(child, 0)
    cpu = usage.ru_utime + usage.ru_stime
    ended = {"exit": status, "cpu_seconds": cpu, "memory_bytes": usage.ru_maxrss * 1024}
    os.write(STATUS, json.dumps(ended).encode() + b"\n")
    os._exit(0)


def main() -> None:
    """The first process: namespaces, then wait for the keeper."""
    with open(0, "rb", closefd=False) as file:
        job = json.loads(file.read())
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    root = os.getuid() == 0
    layers = unshare_all(root)
    job["private"] = "mountns" in layers
    names = [*layers, "rlimits", "no_new_privs", *(["own_uid"] if root else [])]
    os.write(STATUS, json.dumps({"layers": names}).encode() + b"\n")
    if job["required"] and not layers:
        os._exit(71)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    child = os.fork()
    if child == 0:
        try:
            keeper(job, root, layers)
        except BaseException as error:
            os.write(STATUS, json.dumps({"broken": repr(error)}).encode() + b"\n")
        finally:
            os._exit(72)
    os.waitpid(child, 0)


if __name__ == "__main__":
    main()
