"""Leaks of memory, processes or verdicts over a long run: python benchmarks/soak.py [--attempts 300000] [--out FILE.json]

Attempts of which a tenth hangs, floods its output or its results, or fills its memory are judged in equal parts; after each part the
memory of this process and its workers is noted. At the end no process, file, mount or control group may be left.
"""

import argparse
import time
from collections import Counter
from pathlib import Path

from machine import machine, publish

from upsolve.types import Attempt, Task, TestCase, TestKind
from upsolve.verify.attacks import traces
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.pool import pool
from upsolve.verify.sandbox.cgroup import find_parents

TASK = Task("soak", "", (TestCase(TestKind.CALL, "f(2)", "4"),), "f")
LIMITS = Limits(wall_seconds=0.3, cpu_seconds=1.0, memory_bytes=128 << 20)
PARTS = 6
ODD = {
    "hangs": ("import time\ndef f(x):\n    time.sleep(60)\n", "timeout"),
    "output": ("def f(x):\n    print('x' * (3 << 20))\n    return 0\n", "failed"),
    "results": ("def f(x):\n    return ['x' * 1000] * 2000\n", "failed"),
    "memory": ("def f(x):\n    return len(bytearray(1 << 30))\n", "memory_limit"),
    "orphan": (
        "import os, time\ndef f(x):\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(60)\n    return 4\n",
        "passed",
    ),
}
"""Program, and the status it must get."""


def attempt(number):
    """Return an attempt and its expected status; every tenth attempt exhausts a limit."""
    code, expected = ("def f(x):\n    return 2 * x\n", "passed")
    if number % 10 == 0:
        code, expected = [*ODD.values()][number // 10 % len(ODD)]
    return Attempt("soak", f"{code}# {number}\n"), expected


def resident_mib(workers):
    """Return the resident memory of processes, MiB."""
    rows = (Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split() for pid in workers)
    return round(sum(int(row[1]) for row in rows) * 4096 / 2**20, 1)


def groups(workers):
    """Return the control groups of the workers."""
    return [folder for parent in find_parents()[1].values() for pid in workers for folder in parent.glob(f"upsolve-{pid}-*")]


def soak(count):
    """Return the results."""
    before, wrong, memory, workers = traces(), Counter(), [], set()
    statuses, started, each = Counter(), time.monotonic(), count // PARTS
    for part in range(PARTS):
        attempts = [attempt(number) for number in range(part * each, (part + 1) * each)]
        verdicts = dict(pool.judged([(TASK, pair) for pair, _ in attempts], JudgeSettings(LIMITS)))
        for index, (_, expected) in enumerate(attempts):
            status = verdicts[index].status.value if index in verdicts else "lost"
            statuses[status] += 1
            wrong.update([f"{status}, not {expected}"] if status != expected else [])
        now = {worker.process.pid for worker in pool.idle["local"]}
        workers |= now
        memory.append(resident_mib(now))
    pool.dismiss()
    return {
        "attempts": each * PARTS,
        "seconds": round(time.monotonic() - started, 1),
        "statuses": statuses,
        "wrong": wrong,
        "workers_started": len(workers),
        "resident_mib_of_workers_after_each_part": memory,
        "left_behind": sorted(traces() - before),
        "control_groups_left": len(groups(workers)),
    }


def main():
    """Measure and write the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--attempts", type=int, default=300_000)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "soak.json")
    options = parser.parse_args()
    results = {"machine": machine(), **soak(options.attempts)}
    publish(results, options.out)


if __name__ == "__main__":
    main()
