"""The same verdicts over Ray: real raylets on this machine, one of them killed in the middle."""

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

SCRIPT = r"""
import json, sys, time
from ray.cluster_utils import Cluster
import ray
from upsolve.types import Attempt, Task, TestCase, TestKind
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.pool.pool import verify

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
second = cluster.add_node(num_cpus=1)
ray.init(address=cluster.address, log_to_driver=False)
task = Task("t", "", (TestCase(TestKind.CALL, "f(2)", "4"),), "f")
wait = "import time\ntime.sleep(0.05)\n"
pairs = [(task, Attempt("t", f"{wait}def f(x):\n    return x * 2 if {k} % 3 else 0\n")) for k in range(120)]
settings = JudgeSettings(Limits(wall_seconds=5, cpu_seconds=2), executor="ray")
times = []

def kill_one(index, verdict):
    times.append(index)
    if len(times) == 40:
        cluster.remove_node(second, allow_graceful=False)

verdicts = verify(pairs, settings, on_done=kill_one)
for _ in range(60):
    nodes = sum(node["Alive"] for node in ray.nodes())
    if nodes == 1:
        break
    time.sleep(1)
print(json.dumps({"statuses": [v.status for v in verdicts], "reported": len(times), "distinct": len(set(times)), "nodes": nodes}))
"""


@pytest.mark.skipif(find_spec("ray") is None, reason="no ray here")
@pytest.mark.slow
def test_a_killed_raylet_loses_and_doubles_nothing():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    assert said["statuses"] == ["failed" if k % 3 == 0 else "passed" for k in range(120)]
    assert (said["reported"], said["distinct"], said["nodes"]) == (120, 120, 1)
