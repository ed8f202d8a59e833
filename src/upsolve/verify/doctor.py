"""Does the sandbox hold here? Each layer, and live tries of what it is there to stop."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from upsolve.errors import JudgeError
from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.judge import judge
from upsolve.verify.limits import Judging, Limits
from upsolve.verify.sandbox import REQUIRED, active_layers

__all__ = ["Check", "checks"]


@dataclass(frozen=True, slots=True)
class Check:
    """One finding."""

    name: str
    """Layer or threat."""
    ok: bool
    """True when it holds."""
    required: bool
    """True when untrusted code may not be judged without it."""
    detail: str
    """What was seen."""


THREATS = {
    "network": "import socket\ndef f():\n    s = socket.socket()\n    s.settimeout(2)\n    return s.connect_ex(('127.0.0.1', 22)) == 0\n",
    "read home": f"import os\nhome = {str(Path.home())!r}\ndef f():\n    return any(os.path.isfile(os.path.join(home, n)) for n in os.listdir(home))\n",
    "write outside": "def f():\n    try:\n        open('/usr/upsolve-probe', 'w')\n    except OSError:\n        return False\n    return True\n",
    "see others": "import os\ndef f():\n    return len([n for n in os.listdir('/proc') if n.isdigit()]) > 2\n",
}
"""Code whose ``f`` returns True when the threat works."""

ENDS = {
    "endless loop": ("def f():\n    while True: pass\n", Status.TIMEOUT),
    "memory": ("def f():\n    return len(bytearray(1 << 34)) == 0\n", Status.MEMORY_LIMIT),
    "exit before tests": ("import os\ndef f():\n    os._exit(0)\n", Status.RUNTIME_ERROR),
}
"""Code, and the status it must end with."""


def task(expected: str) -> Task:
    """Return a task that calls f."""
    return Task("doctor", "", (TestCase(TestKind.CALL, "f()", expected),), "f")


def checks() -> Iterator[Check]:
    """Yield every check as it is made."""
    try:
        layers = active_layers()
    except JudgeError as error:
        yield Check("sandbox", ok=False, required=True, detail=str(error))
        return
    for name in (*REQUIRED, "read_only", "landlock", "own_uid", "cgroup"):
        on = name in layers
        yield Check(name, ok=on, required=name in REQUIRED, detail="active" if on else "not to be had here")
    how = Judging(Limits(wall_seconds=4, cpu_seconds=1), "best_effort")
    for name, code in THREATS.items():
        found = judge(task("False"), Attempt("doctor", code), how)
        held = found.status in (Status.PASSED, Status.RUNTIME_ERROR)
        yield Check(name, ok=held, required=True, detail="stopped" if held else f"it works ({found.status})")
    for name, (code, wanted) in ENDS.items():
        found = judge(task("False"), Attempt("doctor", code), how)
        yield Check(name, ok=found.status is wanted, required=True, detail=str(found.status))
