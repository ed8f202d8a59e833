"""The judge as a service under load: python benchmarks/service.py [OUT.json]

One server and four concurrent clients with 2,500 attempts each, every tenth of which hangs until its time limit of 0.25 s; at the same
time, small programs run one after another through /run_code. Verdicts are counted as they arrive over HTTP: one that never arrives is
lost, one that arrives twice is a duplicate. The cache is off, so every attempt is judged.
"""

import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import quantiles

from machine import machine

from upsolve.types import Attempt, Task, TestCase, TestKind
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.service.client import Remote

CLIENTS, EACH = 4, 2500
LIMITS = Limits(wall_seconds=0.25, cpu_seconds=1)
TASK = Task("double", "", (TestCase(TestKind.CALL, "f(2)", "4"), TestCase(TestKind.CALL, "f(-3)", "-6")), "f")
LOOP = "def f(x):\n    while True:\n        pass\n"


class Counting(Remote):
    """A client that counts verdicts as they arrive, before duplicates are dropped."""

    def __init__(self, url):
        super().__init__(url, "", 300.0)
        self.seen = Counter()

    def ask(self, left, settings):
        for index, verdict in super().ask(left, settings):
            self.seen[index] += 1
            yield index, verdict


def pair(client, number):
    """Return a unique attempt that hangs, fails or passes, and its expected status."""
    mark = f"# {client} {number}\n"
    if number % 10 == 0:
        return (TASK, Attempt("double", LOOP + mark)), "timeout"
    right = number % 3 == 0
    return (TASK, Attempt("double", f"def f(x):\n    return x * {2 if right else 3}\n{mark}")), "passed" if right else "failed"


def load(url, client):
    """Judge one client's share; return its counts."""
    remote, counts = Counting(url), Counter()
    expected = [pair(client, number) for number in range(EACH)]
    for index, verdict in remote.judged((sent for sent, _ in expected), JudgeSettings(LIMITS)):
        want, got = expected[index][1], verdict.status.value
        counts["as expected" if got == want else f"{got}, not {want}"] += 1
    counts["lost"] = sum(remote.seen[index] == 0 for index in range(EACH))
    counts["doubled"] = sum(times - 1 for times in remote.seen.values())
    return counts


def small_requests(url, over, waits):
    """Run small programs one after the other until the load is over; record the seconds of each."""
    body = json.dumps({"code": "print(input())", "language": "python", "stdin": "1\n"}).encode()
    while not over.is_set():
        started = time.monotonic()
        request = urllib.request.Request(f"{url}/run_code", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert json.load(answer)["run_result"]["stdout"] == "1\n"
        waits.append(time.monotonic() - started)
        over.wait(0.2)


def measure(url):
    """Return the results of one load."""
    waits, over = [], threading.Event()
    with ThreadPoolExecutor(CLIENTS + 1) as threads:
        small = threads.submit(small_requests, url, over, waits)
        started = time.monotonic()
        counts = sum(threads.map(lambda client: load(url, client), range(CLIENTS)), Counter())
        seconds = time.monotonic() - started
        over.set()
        small.result()
    cuts = quantiles(waits, n=100)
    attempts = CLIENTS * EACH
    return {
        "attempts": attempts,
        "hanging": CLIENTS * -(-EACH // 10),
        "limit of an attempt, seconds": LIMITS.wall_seconds,
        "clients": CLIENTS,
        "lost": counts.pop("lost", 0),
        "doubled": counts.pop("doubled", 0),
        "verdicts": dict(counts),
        "seconds": round(seconds, 1),
        "attempts a second": round(attempts / seconds, 1),
        "small requests in between": {
            "number": len(waits),
            "p50, seconds": round(cuts[49], 3),
            "p99, seconds": round(cuts[98], 3),
        },
    }


def main(out):
    """Measure and write the results."""
    command = [sys.executable, "-m", "upsolve", "verify", "--serve", "--port", "0", "--no-cache"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = next(word for word in server.stdout.readline().split() if word.startswith("http"))
            with urllib.request.urlopen(f"{url}/health") as answer:
                workers = json.load(answer)["workers"]
            result = {"machine": machine(), "workers": workers, **measure(url)}
        finally:
            server.terminate()
    print(result)
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "results" / "service.json")
