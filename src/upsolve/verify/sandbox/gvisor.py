"""The sandbox under gVisor: its user-space kernel (``runsc``) handles the system calls of server and attempts.

The server is the first process of a container instead of a process in namespaces of the host's kernel. Its control socket is
the container's standard input, over which the descriptors of the memory files are sent. A container is an OCI bundle: a folder
with ``config.json``, mount points under ``root``, and runsc's ``state``.
"""

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from upsolve.errors import IsolationError
from upsolve.verify.sandbox.inside.launcher import OWN, PACKAGES, READABLE

__all__ = ["KERNEL_BYTES", "KERNEL_PROCESSES", "command", "configuration", "find_runsc", "start_in_gvisor"]

KERNEL_BYTES = 512 << 20
"""Memory that gVisor's kernel and file server (gofer) use in the control group, bytes."""
KERNEL_PROCESSES = 512
"""Host threads of gVisor's kernel and file server, with one per thread of an attempt."""
CAPABILITIES = ("CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETGID", "CAP_SETUID")
"""Capabilities that the server needs to manage processes and files of attempts."""
RELAY = """
import os, socket
control = socket.socket(fileno=0)
_, files, _, _ = socket.recv_fds(control, 16, {count})
above = max(files) + {count} + 4
for place, handle in enumerate([control.detach(), *files]): os.dup2(handle, above + place)
for place in range({count} + 1): os.dup2(above + place, 3 + place)
null = os.open("/dev/null", os.O_RDWR)
for place in range(3): os.dup2(null, place)
os.closerange({count} + 4, 1024)
import marshal
boot, parts = marshal.loads(os.read(3, 1 << 20))
del socket, control, files
exec(boot)
"""
"""First program of a container: receives descriptors (socket as 3, files as 4 and up), then runs the bundle sent on 3."""


def find_runsc() -> str:
    """Return the path of runsc.

    Raises:
        IsolationError: runsc is not installed; says how to install it.
    """
    program = shutil.which("runsc")
    if program is None:
        raise IsolationError(
            "isolation: gvisor needs the program runsc, which is not in $PATH: `apt install runsc`, or "
            "https://gvisor.dev/docs/user_guide/install; or judge with isolation: required"
        )
    return program


def start_in_gvisor(
    program: str, control: socket.socket, setup: Mapping[str, Any], *, bundle: Path, groups: Iterable[Path]
) -> subprocess.Popen[bytes]:
    """Start a container whose first process receives memory files as descriptors 4 and up, then runs a bundle.

    Args:
        program: path of runsc.
        control: the container's end of the socket.
        setup: settings of the launcher (``Server.setup``), with the number of ``files``.
        bundle: an empty folder for the container's configuration and state.
        groups: folders of the control groups of the container.
    """
    (bundle / "config.json").write_text(json.dumps(configuration(bundle / "root", setup)), encoding="utf-8")
    enter = 'while [ "$1" != -- ]; do echo $$ > "$1/cgroup.procs"; shift; done; shift; exec "$@"'
    words = ["sh", "-c", enter, "sh", *map(str, {*groups}), "--", *command(program, bundle)]
    null = subprocess.DEVNULL
    return subprocess.Popen(words, stdin=control.fileno(), stdout=null, stderr=null, start_new_session=True, cwd="/")


def command(program: str, bundle: Path) -> list[str]:
    """Return the command that runs a container; rootless unless this process is root."""
    rootless = [] if os.geteuid() == 0 else ["--rootless"]
    options = ["--root", str(bundle / "state"), "--network=none", "--ignore-cgroups", *rootless]
    return [program, *options, "run", "--bundle", str(bundle), bundle.name]


def configuration(root: Path, setup: Mapping[str, Any]) -> dict[str, Any]:
    """Create a container's mount points; return its OCI configuration: system folders read-only, temporary ones as tmpfs."""
    shown = [path for path in (*READABLE, setup["python"]) if os.path.isdir(path) and not os.path.islink(path)]
    mounts = [bound(path, path) for path in shown] + ([bound(setup["packages"], PACKAGES)] if "packages" in setup else [])
    mounts += [in_memory(path, f"{setup['folder']},mode=1777") for path in OWN]
    proc = {"destination": "/proc", "type": "proc", "source": "proc"}
    mounts += [proc if setup["proc"] else in_memory("/proc", "size=4k,mode=755"), in_memory("/sys", "size=4k,mode=755")]
    for mount in mounts:
        (root / mount["destination"].lstrip("/")).mkdir(parents=True, exist_ok=True)
    for path in filter(os.path.islink, READABLE):
        (root / path.lstrip("/")).symlink_to(os.readlink(path))
    process = {
        "terminal": False,
        "user": {"uid": 0, "gid": 0},
        "args": [setup["executable"], "-I", "-S", "-B", "-X", "utf8", "-c", RELAY.format(count=setup["files"])],
        "env": [f"{name}={value}" for name, value in setup["environment"].items()],
        "cwd": "/",
        "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), CAPABILITIES),
        "noNewPrivileges": True,
    }
    namespaces = {"namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")]}
    container = {"root": {"path": "root", "readonly": True}, "hostname": "sandbox", "mounts": mounts, "linux": namespaces}
    return {"ociVersion": "1.0.2", "process": process, **container}


def bound(source: str, target: str) -> dict[str, Any]:
    """Return a read-only bind mount."""
    return {"destination": target, "type": "bind", "source": source, "options": ["ro", "rbind", "nosuid", "nodev"]}


def in_memory(target: str, options: str) -> dict[str, Any]:
    """Return a tmpfs mount."""
    return {"destination": target, "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", *options.split(",")]}
