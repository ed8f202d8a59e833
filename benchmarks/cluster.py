"""Judging over Ray: python benchmarks/cluster.py [OUT.json] [ATTEMPTS]

Starts raylets with one core each on this machine. First, the same work on one and on two raylets: attempts that need 20 ms of processor
time, so that the cores are the bottleneck. Then 100,000 small attempts on two raylets; the memory of this process and of the cluster's
processes is recorded ten times. Attempts are generated on demand, and verdicts are counted and dropped.
"""

import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
from machine import machine

from upsolve.types import Attempt, Task, TestCase, TestKind
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.pool.pool import judged

TASK = Task("t", "", (TestCase(TestKind.CALL, "f(2)", "4"),), "f")
WORK = "import time\nend = time.process_time() + 0.02\nwhile time.process_time() < end:\n    pass\n"
SETTINGS = JudgeSettings(Limits(wall_seconds=5, cpu_seconds=2), executor="ray")


def attempts(number, before=""):
    """Yield distinct attempts, every third of which is wrong."""
    for k in range(number):
        yield TASK, Attempt("t", f"{before}def f(x):\n    return x * 2 if {k} % 3 else 0\n")


def memory():
    """Return the resident memory of this process, and the unshared memory of its descendants, MiB."""
    own = psutil.Process()
    below = 0
    for child in own.children(recursive=True):
        try:
            below += child.memory_full_info().uss
        except psutil.Error:
            continue
    return round(own.memory_info().rss / 2**20), round(below / 2**20)


def run(raylets, number, before, answer):
    """Judge on a new cluster; send the seconds, the counts of statuses, and the memory at each tenth of the attempts."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    for _ in range(raylets - 1):
        cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    warm = Counter(v.status.value for _, v in judged(attempts(64), SETTINGS))
    assert warm["passed"] == 42, warm
    statuses, along = Counter(), []
    started = time.monotonic()
    for done, (_, verdict) in enumerate(judged(attempts(number, before), SETTINGS), 1):
        statuses[verdict.status.value] += 1
        if done % max(1, number // 10) == 0:
            along.append((done, *memory()))
    answer.put({"seconds": round(time.monotonic() - started, 2), "statuses": dict(statuses), "memory": along})
    ray.shutdown()
    cluster.shutdown()


def measured(raylets, number, before=""):
    """Run in a separate process, so that no state of an earlier cluster remains."""
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=run, args=(raylets, number, before, answer))
    process.start()
    result = answer.get()
    process.join()
    wrong = len(range(0, number, 3))
    assert result["statuses"] == {"failed": wrong, "passed": number - wrong}, result["statuses"]
    return result


def main(out, number):
    """Measure and write the results."""
    times = {raylets: measured(raylets, 1500, WORK)["seconds"] for raylets in (1, 2)}
    result = {"machine": machine(), "cores": os.cpu_count()}
    result["20 ms each, 1,500 attempts, seconds by raylets"] = times
    result["ratio of two to one"] = round(times[1] / times[2], 2)
    many = measured(2, number)
    result["many"] = {"attempts": number, "seconds": many["seconds"], "attempts a second": round(number / many["seconds"])}
    result["many"]["memory, MiB: attempts, this process, all others"] = many["memory"]
    print(json.dumps(result, indent=1))
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "results" / "cluster.json"
    main(place, int(sys.argv[2]) if len(sys.argv) > 2 else 100_000)
