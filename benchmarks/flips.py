"""Dependence of verdicts on the machine's load: python benchmarks/flips.py [--attempts 10000] [--busy 4] [--out FILE.json]

The same attempts are judged twice: on the machine as it is, and beside ``busy`` times as many busy processes as there are cores. A flip
is an attempt whose status or outcomes differ. Programs of several kinds: quick and right, wrong, raising, busy for a quarter of the time
limit, sleeping, in an endless loop.
"""

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

from machine import machine, publish

from upsolve.types import Attempt, Task, TestCase, TestKind
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.pool.pool import verify
from upsolve.verify.resources import usable_cores

LIMITS = Limits(wall_seconds=1.0, cpu_seconds=1.0)
HABITS = {
    "right": ("def f(x):\n    return 2 * x\n", 40),
    "wrong": ("def f(x):\n    return 3 * x\n", 40),
    "raises": ("def f(x):\n    return x / 0\n", 14),
    "busy": ("import time\ndef f(x):\n    while time.process_time() < 0.25: pass\n    return 2 * x\n", 4),
    "sleeps": ("import time\ndef f(x):\n    time.sleep(60)\n", 1),
    "loops": ("def f(x):\n    while True: pass\n", 1),
}
"""Program and share of the attempts, in percent."""
TESTS = {
    "call": (TestCase(TestKind.CALL, "f(2)", "4"), TestCase(TestKind.CALL, "f(-3)", "-6")),
    "code": (TestCase(TestKind.CODE, "assert f(2) == 4"),),
    "stdio": (TestCase(TestKind.STDIO, "2\n", "4\n"),),
}


def pairs(count):
    """Return distinct attempts of all kinds of behaviour, with all kinds of tests."""
    habits = [name for name, (_, share) in HABITS.items() for _ in range(share)]
    result = []
    for number in range(count):
        kind = [*TESTS][number // len(habits) % len(TESTS)]
        code = HABITS[habits[number % len(habits)]][0] + ("print(f(int(input())))\n" if kind == "stdio" else "")
        result.append((Task(kind, "", TESTS[kind], "f"), Attempt(kind, f"{code}# {number}\n")))
    return result


@contextmanager
def busy_processes(count):
    """Keep this number of processes busy within the context."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def flips(count, busy):
    """Return the results with and without the additional load."""
    todo, settings, load = pairs(count), JudgeSettings(LIMITS), os.getloadavg()[0]
    started = time.monotonic()
    idle = verify(todo, settings)
    middle = time.monotonic()
    with busy_processes(busy * usable_cores()):
        loaded = verify(todo, settings)
    seconds = {"as_it_is": round(middle - started, 1), "loaded": round(time.monotonic() - middle, 1)}
    differ = [
        [before.attempt_id, before.status, after.status]
        for before, after in zip(idle, loaded, strict=True)
        if (before.status, before.outcomes) != (after.status, after.outcomes)
    ]
    return {
        "attempts": count,
        "busy_processes": busy * usable_cores(),
        "load_average_before": round(load, 1),
        "statuses": Counter(verdict.status.value for verdict in idle),
        "seconds": seconds,
        "flips": len(differ),
        "differ": differ[:20],
    }


def main():
    """Measure and write the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--attempts", type=int, default=10_000)
    parser.add_argument("--busy", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "flips.json")
    options = parser.parse_args()
    results = {"machine": machine(), **flips(options.attempts, options.busy)}
    publish(results, options.out)


if __name__ == "__main__":
    main()
