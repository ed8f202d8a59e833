"""Enter the sandbox irrevocably, then exec the warm server inside it.

Standard library only; run as ``python -I -S -B``, once per server. Confinement that all attempts share is set up here, once;
every fork inherits it at no cost:

    new mount, ipc, net and pid namespaces (without root also a user namespace), a read-only file system that hides home and
    temporary folders and /proc, no capabilities (as root: ``SERVER_CAPABILITIES``), no_new_privs, Landlock, seccomp.

The launcher stays outside the pid namespace. Its child, pid 1 of the namespace, becomes the server; the launcher exits with it.

The seccomp filter refuses system calls that are not in ``TABLE``: with ENOSYS if they are newer than the table (programs then use the
older call), else with EPERM. Some calls are allowed only with certain arguments: see ``ARGUMENTS``. Left out on purpose: ptrace,
process_vm_*, pidfd_getfd, kcmp, perf_event_open, bpf, userfaultfd, io_uring_*, the keyctl, mount and splice families, chroot, setns,
unshare, System V and POSIX message queues and shared memory (they outlive a process), personality, and all administrative calls.
"""

from __future__ import annotations

import binascii
import ctypes
import json
import os
import signal
import struct
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["OWN", "PACKAGES", "READABLE", "main"]

OWN = ("/tmp", "/dev/shm")
"""Temporary folders, writable, emptied after each attempt."""
PACKAGES = "/mnt/packages"
"""Mount point of required packages or of prepared files of languages."""
READABLE = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix", "/var/lib/ghc")
"""System folders, mounted read-only; the last one has Debian's list of Haskell packages."""
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
    """Return the folders below ``foreign`` that attempts may read, by where they are mounted."""
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
    """Mount an empty tmpfs over a folder; ``room``: mount options for its size."""
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
    off = setup.get("off", ())
    uid = setup["uid"] if other_user and "own_uid" not in off else 0
    if not own_kernel and "mountns" in layers:
        layers += private_tree(setup)
    elif not own_kernel:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if os.getuid() == 0:
        os.setgroups([])
    capabilities, header = SERVER_CAPABILITIES if uid else 0, (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    check(libc.capset(header, (ctypes.c_uint32 * 6)(capabilities, capabilities, 0, 0, 0, 0)), "capset")
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    proc = ["/proc"] if setup["proc"] else []
    packages = PACKAGES if "mountns" in layers else setup.get("packages", PACKAGES)
    layers += landlock([*READABLE, python, packages, *proc], [*OWN]) if "landlock" not in off else []
    layers += seccomp() if "seccomp" not in off else []
    layers += ["no_new_privs", "rlimits", *(["own_uid"] if uid else [])]
    folders = {"own": OWN, "packages": packages, "modules": setup.get("modules", [])}
    setup_json = json.dumps({"layers": layers, "uid": uid, "proc": setup["proc"], "gvisor": own_kernel, **folders})
    server = os.memfd_create("server", 0)
    os.write(server, zlib.decompress(binascii.a2b_base64(setup["server"])))
    relay = f"import marshal, os; boot, parts = marshal.loads(os.pread({server}, 1 << 20, 0)); os.close({server}); exec(boot)"
    flags = ["-I", "-S", "-B", "-X", "utf8", "-c", relay, setup_json]
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


ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Machine: column of the table, AUDIT_ARCH."""
NEWEST = 456
"""Largest call number known when the table was written; from 424 on, numbers are the same on all machines."""
X32 = 0x40000000
EPERM, ENOSYS, EAFNOSUPPORT = 1, 38, 97
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
LOAD, EQUAL, GREATER, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x06
NUMBER, ARCH, FIRST, SECOND = 0, 4, 16, 24
"""Offsets in struct seccomp_data: the call, the machine, the low halves of the first two arguments."""

TABLE = """
read 0 63; write 1 64; open 2 -1; openat 257 56; openat2 437 437; close 3 57; close_range 436 436; stat 4 -1;
fstat 5 80; lstat 6 -1; newfstatat 262 79; statx 332 291; poll 7 -1; ppoll 271 73; lseek 8 62; mmap 9 222;
mprotect 10 226; munmap 11 215; brk 12 214; mremap 25 216; madvise 28 233; msync 26 227; mincore 27 232;
mlock 149 228; munlock 150 229; mlock2 325 284; mlockall 151 230; munlockall 152 231; rt_sigaction 13 134;
rt_sigprocmask 14 135; rt_sigreturn 15 139; rt_sigpending 127 136; rt_sigtimedwait 128 137; rt_sigqueueinfo 129 138;
rt_tgsigqueueinfo 297 240; rt_sigsuspend 130 133; sigaltstack 131 132; signalfd 282 -1; signalfd4 289 74;
ioctl 16 29; pread64 17 67; pwrite64 18 68; readv 19 65; writev 20 66; preadv 295 69; pwritev 296 70;
preadv2 327 286; pwritev2 328 287; access 21 -1; faccessat 269 48; faccessat2 439 439; pipe 22 -1; pipe2 293 59;
select 23 -1; pselect6 270 72; sched_yield 24 124; dup 32 23; dup2 33 -1; dup3 292 24; pause 34 -1; nanosleep 35 101;
clock_nanosleep 230 115; getitimer 36 102; setitimer 38 103; alarm 37 -1; getpid 39 172; gettid 186 178;
getppid 110 173; getuid 102 174; geteuid 107 175; getgid 104 176; getegid 108 177; getgroups 115 158;
getresuid 118 148; getresgid 120 150; getpgid 121 155; getpgrp 111 -1; getsid 124 156; setsid 112 157;
setpgid 109 154; setuid 105 146; setgid 106 144; setreuid 113 145; setregid 114 143; setresuid 117 147;
setresgid 119 149; setgroups 116 159; setfsuid 122 151; setfsgid 123 152; capget 125 90; capset 126 91;
sendfile 40 71; copy_file_range 326 285; socket 41 198; socketpair 53 199; connect 42 203; accept 43 202;
accept4 288 242; bind 49 200; listen 50 201; sendto 44 206; recvfrom 45 207; sendmsg 46 211; recvmsg 47 212;
sendmmsg 307 269; recvmmsg 299 243; shutdown 48 210; getsockname 51 204; getpeername 52 205; setsockopt 54 208;
getsockopt 55 209; clone 56 220; fork 57 -1; vfork 58 -1; execve 59 221; execveat 322 281; exit 60 93;
exit_group 231 94; wait4 61 260; waitid 247 95; kill 62 129; tkill 200 130; tgkill 234 131; pidfd_open 434 434;
pidfd_send_signal 424 424; uname 63 160; fcntl 72 25; flock 73 32; fsync 74 82; fdatasync 75 83;
sync_file_range 277 84; truncate 76 45; ftruncate 77 46; fallocate 285 47; fadvise64 221 223; readahead 187 213;
getdents 78 -1; getdents64 217 61; getcwd 79 17; chdir 80 49; fchdir 81 50; rename 82 -1; renameat 264 38;
renameat2 316 276; mkdir 83 -1; mkdirat 258 34; rmdir 84 -1; creat 85 -1; link 86 -1; linkat 265 37; unlink 87 -1;
unlinkat 263 35; symlink 88 -1; symlinkat 266 36; readlink 89 -1; readlinkat 267 78; chmod 90 -1; fchmod 91 52;
fchmodat 268 53; chown 92 -1; fchown 93 55; lchown 94 -1; fchownat 260 54; umask 95 166; utime 132 -1; utimes 235 -1;
futimesat 261 -1; utimensat 280 88; getxattr 191 8; lgetxattr 192 9; fgetxattr 193 10; listxattr 194 11;
llistxattr 195 12; flistxattr 196 13; statfs 137 43; fstatfs 138 44; gettimeofday 96 169; time 201 -1; times 100 153;
clock_gettime 228 113; clock_getres 229 114; getrlimit 97 163; setrlimit 160 164; prlimit64 302 261;
getrusage 98 165; sysinfo 99 179; getpriority 140 141; setpriority 141 140; getcpu 309 168;
sched_getaffinity 204 123; sched_setaffinity 203 122; sched_getparam 143 121; sched_getscheduler 145 120;
sched_get_priority_max 146 125; sched_get_priority_min 147 126; sched_rr_get_interval 148 127; prctl 157 167;
arch_prctl 158 -1; set_tid_address 218 96; set_robust_list 273 99; get_robust_list 274 100; futex 202 98;
futex_waitv 449 449; rseq 334 293; membarrier 324 283; restart_syscall 219 128; timer_create 222 107;
timer_settime 223 110; timer_gettime 224 108; timer_getoverrun 225 109; timer_delete 226 111; timerfd_create 283 85;
timerfd_settime 286 86; timerfd_gettime 287 87; eventfd 284 -1; eventfd2 290 19; epoll_create 213 -1;
epoll_create1 291 20; epoll_ctl 233 21; epoll_wait 232 -1; epoll_pwait 281 22; epoll_pwait2 441 441;
inotify_init 253 -1; inotify_init1 294 26; inotify_add_watch 254 27; inotify_rm_watch 255 28; getrandom 318 278;
memfd_create 319 279; pkey_alloc 330 289; pkey_free 331 290; pkey_mprotect 329 288; get_mempolicy 239 236; fchmodat2 452 452;
"""
"""Name, number on x86_64, number on aarch64; -1: does not exist."""

NEW_NAMESPACES = 0x7E020000
UNIX = 1
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
ARGUMENTS = {
    "clone": [(LOAD, FIRST), (ANY_BIT, NEW_NAMESPACES, EPERM)],
    "ioctl": [(LOAD, SECOND), (EQUAL, TIOCSTI, EPERM), (EQUAL, TIOCLINUX, EPERM)],
    "prlimit64": [(LOAD, FIRST), (GREATER, 0, EPERM)],
    "sched_setaffinity": [(LOAD, FIRST), (GREATER, 0, EPERM)],
    "setpriority": [(LOAD, FIRST), (GREATER, 0, EPERM), (LOAD, SECOND), (GREATER, 0, EPERM)],
    "socket": [(LOAD, FIRST), (GREATER, UNIX, EAFNOSUPPORT)],
}
"""Calls that are refused with these arguments: new namespaces; typing into a terminal; limits and priorities of other processes, groups or users (the
server may share them); sockets except local ones."""


def instruction(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    """Return one BPF instruction; a jump skips ``yes`` or ``no`` instructions."""
    return struct.pack("=HBBI", code, yes, no, value)


def by_arguments(number: int, rules: list[tuple[int, ...]]) -> bytes:
    """Return the instructions for a call whose permission depends on an argument; they always return."""
    body = b""
    for code, value, *refused in rules:
        body += instruction(code, value, 0, 1 if refused else 0)
        body += instruction(RETURN, ERRNO | refused[0]) if refused else b""
    body += instruction(RETURN, ALLOW)
    return instruction(EQUAL, number, 0, len(body) // 8) + body


def spans(numbers: set[int]) -> list[tuple[int, int]]:
    """Return the numbers as ranges, first and last inclusive."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


def seccomp_filter(machine: str) -> bytes:
    """Return the BPF program, 8 bytes per instruction; empty for an unknown architecture."""
    if machine not in ARCHITECTURES:
        return b""
    column, architecture = ARCHITECTURES[machine]
    rows = [row.split() for row in TABLE.replace("\n", " ").split(";") if row.strip()]
    table = {row[0]: int(row[1 + column]) for row in rows}
    program = instruction(LOAD, ARCH) + instruction(EQUAL, architecture, 1, 0) + instruction(RETURN, KILL)
    program += instruction(LOAD, NUMBER)
    program += instruction(AT_LEAST, X32, 0, 1) + instruction(RETURN, ERRNO | EPERM)
    program += instruction(GREATER, NEWEST, 0, 1) + instruction(RETURN, ERRNO | ENOSYS)
    program += instruction(EQUAL, 435, 0, 1) + instruction(RETURN, ERRNO | ENOSYS)  # clone3: a filter cannot read its flags
    for name, rules in ARGUMENTS.items():
        program += by_arguments(table[name], rules)
    for first, last in spans({number for name, number in table.items() if number >= 0 and name not in ARGUMENTS}):
        program += instruction(AT_LEAST, first, 0, 2) + instruction(GREATER, last, 1, 0) + instruction(RETURN, ALLOW)
    return program + instruction(RETURN, ERRNO | EPERM)
