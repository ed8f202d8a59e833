"""Groups of an archive as a data set of Ray Data, on a cluster of two raylets."""

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

from upsolve.archive.store import Archive
from upsolve.types import Attempt, Status, Task, Verdict

SCRIPT = """
import json, sys
import ray
from ray.cluster_utils import Cluster
from upsolve.exports.ray_data import ray_groups
from upsolve.archive.store import Archive

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
cluster.add_node(num_cpus=1)
ray.init(address=cluster.address, log_to_driver=False)
rows = ray_groups(Archive(sys.argv[1])).map(lambda row: {**row, "node": ray.get_runtime_context().get_node_id()}).take_all()
print(json.dumps({
    "nodes": len({row["node"] for row in rows}),
    "rows": sorted(
        [row["task_id"], [one["code"] for one in row["attempts"]], [one and one["status"] for one in row["verdicts"]]] for row in rows
    ),
}), flush=True)
ray.shutdown()
cluster.shutdown()
"""


@pytest.mark.skipif(find_spec("ray") is None, reason="no ray here")
@pytest.mark.slow
def test_two_raylets_read_the_groups_of_an_archive(tmp_path):
    archive = Archive.create(tmp_path / "archive")
    tasks = [Task(f"t{number:03d}", "do") for number in range(40)]
    attempts = [Attempt(task.task_id, f"print({n})") for task in tasks for n in range(3)]
    verdicts = [Verdict(one.attempt_id, Status.PASSED, judge="recorded:a") for one in attempts[::2]]
    archive.append(tasks=tasks, attempts=attempts, verdicts=verdicts)
    words = [sys.executable, "-c", SCRIPT, str(tmp_path / "archive")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    groups = archive.groups()
    assert said["nodes"] == 2 and said["rows"] == [
        [group.task.task_id, [one.code for one in group.attempts], [one and one.status.value for one in group.verdicts]]
        for group in groups
    ]
