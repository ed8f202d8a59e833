"""Enter the sandbox irrevocably, then exec the warm server inside it.

Standard library only; run as ``python -I -S -B``, once per server. Confinement that all attempts share is set up here, once;
every fork inherits it at no cost:

    new mount, ipc, net and pid namespaces (without root also a user namespace), a read-only file system that hides home and
    temporary folders and /proc, no capabilities (as root: ``SERVER_CAPABILITIES``), no_new_privs, Landlock, seccomp.

The launcher stays outside the pid namespace. Its child, pid 1 of the namespace, becomes the server; the launcher exits with it.
"""

from __future__ import annotations

import binascii
import ctypes
import json
import os
import signal
import struct
import sys
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from upsolve.verify.sandbox.inside.folders import OWN, PACKAGES, READABLE
    from upsolve.verify.sandbox.inside.syscalls import seccomp_filter
else:
    from folders import OWN, PACKAGES, READABLE
    from syscalls import seccomp_filter

__all__ = ["main"]

CONTROL = 3
NEW = {"mountns": 0x00020000, "ipcns": 0x08000000, "netns": 0x40000000, "pidns": 0x20000000}
NEW_USER = 0x10000000
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 22, 36, 38
CAPABILITY_VERSION = 0x20080522
SERVER_CAPABILITIES = sum(1 << number for number in (1, 3, 5, 6, 7))
"""CAP_DAC_OVERRIDE and CAP_FOWNER (to empty temporary folders), CAP_KILL, CAP_SETGID, CAP_SETUID."""
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
MOUNT_SETATTR, AT_RECURSIVE = 442, 0x8000
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
EXECUTE, WRITE_FILE, READ_FILE, READ_FOLDER, TRUNCATE = 1, 2, 4, 8, 1 << 14
LANDLOCK_FILES = {1: 13, 2: 14, 3: 15, 4: 15}
"""Landlock ABI version -> number of file access rights; 16 from version 5 on."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, action: str) -> int:
    """Return the result of a libc call; raise OSError from errno if it is negative."""
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), action)
    return result


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Call mount(2); raise OSError that names the target."""
    check(libc.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode()), f"mount {target}")


def unshare_all(root: bool) -> list[str]:
    """Enter all new namespaces or none; return the names of the active layers."""
    uid, gid = os.getuid(), os.getgid()
    flags = sum(NEW.values()) | (0 if root else NEW_USER)
    if libc.unshare(flags) != 0:
        return []
    if not root:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    return [*NEW, *([] if root else ["userns"])]


def private_tree(setup: dict[str, Any]) -> list[str]:
    """Make the file system read-only, hide non-system folders, bind-mount the interpreter; return the active layers."""
    python = setup["python"]
    mount("", "/", "", MS_REC | MS_PRIVATE)
    handles = {target: os.open(source, os.O_PATH) for target, source in shown(setup).items()}
    attributes = struct.pack("QQQQ", MS_RDONLY, 0, 0, 0)
    read_only = libc.syscall(MOUNT_SETATTR, -100, b"/", AT_RECURSIVE, attributes, len(attributes)) == 0
    private_devices()
    for folder in (*OWN, *foreign(python)):
        empty(folder, setup["folder"])
        for target in handles:
            if target.startswith(folder + "/"):
                os.makedirs(target, mode=0o755)
                mount(f"/proc/self/fd/{handles[target]}", target, "", MS_BIND)
                no_writing(target)
        if folder not in OWN:
            no_writing(folder)
    for handle in handles.values():
        os.close(handle)
    if setup["proc"]:
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV, "hidepid=2")
    else:
        empty("/proc", setup["folder"])
    return ["read_only"] if read_only else []


def shown(setup: dict[str, Any]) -> dict[str, str]:
    """Return the folders that attempts may read below those of ``foreign``, by where they are mounted."""
    below = {path: path for path in READABLE if os.path.dirname(path) != "/" and os.path.isdir(path)}
    packages = {PACKAGES: setup["packages"]} if "packages" in setup else {}
    return {setup["python"]: setup["python"], **packages, **below}


def foreign(python: str) -> list[str]:
    """Return the top-level folders that attempts may not read: home folders, data, sockets of services."""
    system = (*READABLE, python, "/dev", "/proc", *OWN)
    tops = [entry.path for entry in os.scandir("/") if entry.is_dir(follow_symlinks=False)]
    return [path for path in sorted(tops) if path not in system]


def private_devices() -> None:
    """Mount a new /dev that holds only ``DEVICES`` and links to the standard streams."""
    handles = {path: os.open(path, os.O_PATH) for path in DEVICES if os.path.exists(path)}
    mount("none", "/dev", "tmpfs", MS_NOSUID, "size=64k,mode=755")
    for path, handle in handles.items():
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
        mount(f"/proc/self/fd/{handle}", path, "", MS_BIND)
        os.close(handle)
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"/dev/{name}")
    os.mkdir("/dev/shm")
    mount("", "/dev", "", MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID)


def empty(folder: str, room: str) -> None:
    """Mount an empty tmpfs over a folder; ``room``: its mount options for size."""
    mode = "1777" if folder in OWN else "755"
    mount("none", folder, "tmpfs", MS_NOSUID | MS_NODEV, f"{room},mode={mode}")


def no_writing(folder: str) -> None:
    """Make a mounted folder read-only."""
    mount("", folder, "", MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)


def landlock(readable: list[str], writable: list[str]) -> list[str]:
    """Restrict file access to these folders, forbid TCP and signals to outside; return ``["landlock"]`` if supported."""
    version = libc.syscall(LANDLOCK_CREATE, None, 0, 1)
    if version < 1:
        return []
    files = (1 << LANDLOCK_FILES.get(version, 16)) - 1
    rules = struct.pack("QQQ", files, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = check(libc.syscall(LANDLOCK_CREATE, rules, size, 0), "landlock")
    device = files & (READ_FILE | WRITE_FILE | TRUNCATE)
    paths = [
        *((path, EXECUTE | READ_FILE | READ_FOLDER) for path in readable),
        *((path, files) for path in writable),
        *((path, device) for path in DEVICES),
    ]
    for path, access in paths:
        if os.path.exists(path):
            handle = os.open(path, os.O_PATH)
            rule = struct.pack("=Qi", access, handle)
            check(libc.syscall(LANDLOCK_ADD, ruleset, 1, rule, 0), f"landlock {path}")
            os.close(handle)
    check(libc.syscall(LANDLOCK_RESTRICT, ruleset, 0), "landlock")
    os.close(ruleset)
    return ["landlock"]


def seccomp() -> list[str]:
    """Install the system call filter; return ``["seccomp"]`` if the kernel accepted it."""
    program = seccomp_filter(os.uname().machine)
    text = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("HP", len(program) // 8, ctypes.addressof(text)))
    return ["seccomp"] if program and libc.prctl(PR_SET_SECCOMP, 2, header, 0, 0) == 0 else []


def keep_capabilities(mask: int) -> None:
    """Drop every capability that is not in the mask."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    check(libc.capset(header, (ctypes.c_uint32 * 6)(mask, mask, 0, 0, 0, 0)), "capset")


def own_uid(uid: int) -> bool:
    """Return whether this process may switch an attempt to this user id: it is root and the id is mapped."""
    with open("/proc/self/uid_map") as file:
        return os.getuid() == 0 and any(int(first) <= uid < int(first) + int(n) for first, _, n in map(str.split, file))


def open_to_all(folder: str) -> bool:
    """Return whether every user can read a folder; an interpreter in root's home is readable only after a bind mount."""
    while folder != "/" and os.stat(folder).st_mode & 5 == 5:
        folder = os.path.dirname(folder)
    return folder == "/"


def become_server(setup: dict[str, Any], layers: list[str]) -> None:
    """Apply the remaining layers and exec the server; never returns."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    python = setup["python"]
    own_kernel = "gvisor" in layers  # maps all user ids, and its file system is already confined
    other_user = own_kernel or (own_uid(setup["uid"]) and ("mountns" in layers or open_to_all(python)))
    uid = setup["uid"] if other_user and "own_uid" not in setup.get("off", ()) else 0
    if own_kernel:
        pass
    elif "mountns" in layers:
        layers += private_tree(setup)
    else:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if os.getuid() == 0:
        os.setgroups([])
    keep_capabilities(SERVER_CAPABILITIES if uid else 0)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    proc = ["/proc"] if setup["proc"] else []
    off = setup.get("off", ())
    packages = PACKAGES if "mountns" in layers else setup.get("packages", PACKAGES)
    layers += landlock([*READABLE, python, packages, *proc], [*OWN]) if "landlock" not in off else []
    layers += seccomp() if "seccomp" not in off else []
    layers += ["no_new_privs", "rlimits", *(["own_uid"] if uid else [])]
    modules = {"packages": packages, "modules": setup.get("modules", [])}
    said = json.dumps({"layers": layers, "uid": uid, "proc": setup["proc"], "gvisor": own_kernel, **modules})
    server = os.memfd_create("server", 0)
    os.write(server, zlib.decompress(binascii.a2b_base64(setup["server"])))
    relay = f"import marshal, os; boot, parts = marshal.loads(os.pread({server}, 1 << 20, 0)); os.close({server}); exec(boot)"
    flags = ["-I", "-S", "-B", "-X", "utf8", "-c", relay, said]
    os.execve(setup["executable"], [setup["executable"], *flags], {**os.environ, "LD_BIND_NOW": "1"})


def main() -> None:
    """Enter the namespaces, start the server and exit with it; inside a gVisor container, become the server."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    try:
        setup = json.loads(os.read(CONTROL, 1 << 20))
        setup["uid"] += os.getpid() % setup["uids"]
        if setup["gvisor"]:
            become_server(setup, [*NEW, "gvisor"])
        layers = unshare_all(os.getuid() == 0) if "namespaces" not in setup.get("off", ()) else []
        pid = os.fork()
        if pid == 0:
            become_server(setup, layers)
        os.close(CONTROL)
        os.waitpid(pid, 0)
    except BaseException as error:
        os.write(CONTROL, json.dumps({"broken": repr(error)}).encode())
    finally:
        os._exit(72)


if __name__ == "__main__":
    sys.exit(main())
