"""An import by the nodes of a Ray cluster, one of which is lost: real raylets on this machine."""

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest
from killing import stored

from upsolve.archive.store import Archive
from upsolve.importers import shares
from upsolve.importers.ingest import ingest

SCRIPT = """
import json, sys, time
import ray
from ray.cluster_utils import Cluster
from upsolve.importers import shares
from upsolve.importers.ingest import ingest
from upsolve.archive.store import Archive

shares.SHARE_BYTES = 1
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
second = cluster.add_node(num_cpus=1)
ray.init(address=cluster.address, log_to_driver=False)
told = []

def lose_a_node(stage, done, total):
    told.append((stage, done, total))
    if len(told) == 3:
        cluster.remove_node(second, allow_graceful=False)

report = ingest(Archive.create(sys.argv[2]), "jsonl", sys.argv[1], executor="ray", on_progress=lose_a_node)
for _ in range(60):  # the head notices the loss after some seconds
    nodes = sum(node["Alive"] for node in ray.nodes())
    if nodes == 1:
        break
    time.sleep(1)
print(json.dumps({"last": told[-1], "added": report.added, "nodes": nodes}))
"""


@pytest.mark.skipif(find_spec("ray") is None, reason="no ray here")
@pytest.mark.slow
def test_a_cluster_that_loses_a_node_imports_what_one_process_imports(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    for number in range(12):
        rows = [{"kind": "task", "task_id": f"t{number}", "prompt": "do"}]
        rows += [{"kind": "attempt", "task_id": f"t{number}", "code": f"print({k})", "status": "passed"} for k in range(300)]
        (tmp_path / "in" / f"{number:02d}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = [sys.executable, "-c", SCRIPT, str(tmp_path / "in"), str(tmp_path / "ray")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    monkeypatch.setattr(shares, "SHARE_BYTES", 1)
    whole = Archive.create(tmp_path / "whole")
    report = ingest(whole, "jsonl", tmp_path / "in")
    assert said["last"] == ["rows: 7,212", 12, 12] and said["added"] == report.added and said["nodes"] == 1
    assert stored(Archive(tmp_path / "ray")) == stored(whole) and Archive(tmp_path / "ray").meta() == whole.meta()
