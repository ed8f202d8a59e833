"""Two hosts (network namespaces) as Slurm nodes run examples/nodes.sbatch: the job gets SIGTERM as before its time limit, and resumes."""

import shutil
import sys
import time

import pytest
from documents import ROOT
from test_nodes import SMALL, hosts, losses, network, text, until  # noqa: F401  fixtures

BATCH = (ROOT / "examples" / "nodes.sbatch").read_text()
CONFIGURATION = """
ClusterName=two
SlurmctldHost=node0(10.77.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={0}/state
SlurmdSpoolDir={0}/spool-%n
SlurmctldPidFile={0}/controller.pid
SlurmdPidFile={0}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/linear
ReturnToService=2
NodeName=node0 NodeAddr=10.77.0.1 CPUs=1
NodeName=node1 NodeAddr=10.77.0.2 CPUs=1
PartitionName=all Nodes=ALL Default=YES State=UP
"""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not all(map(shutil.which, ("slurmctld", "slurmd", "sbatch"))), reason="needs Slurm (slurmctld, slurmd)"),
]


@pytest.fixture
def slurm(hosts, tmp_path):  # noqa: F811
    """Run a command on the first node of a cluster of two; return what it said."""
    home = tmp_path / "slurm"
    for name in ("state", "spool-node0", "spool-node1"):
        (home / name).mkdir(parents=True)
    (home / "slurm.conf").write_text(CONFIGURATION.format(home))
    (home / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # not mounted in a network namespace, and not used
    known = {"SLURM_CONF": str(home / "slurm.conf")}

    def call(*words):
        done = hosts.enter(0, words, **known)
        assert done.wait(timeout=60) == 0, text(done)
        return done.said.read_text()

    daemons = [(0, ["slurmctld", "-D"]), (0, ["slurmd", "-D", "-N", "node0"]), (1, ["slurmd", "-D", "-N", "node1"])]
    running = [hosts.enter(number, words, **known) for number, words in daemons]
    until(lambda: call("sinfo", "-h", "-o", "%D %T").split() == ["2", "idle"], *running, seconds=60)
    return call


@pytest.fixture
def submit(slurm, tmp_path):
    """Submit the batch file; return the number of the job."""

    def submit():
        settings = [*SMALL, "optim.max_steps=60", "monitor.save_every=99"]
        given = "".join(f" --set {word}" for word in settings)
        batch = BATCH.replace("--gpus-per-node=8 ", "").replace("--nproc_per_node 8", "--nproc_per_node 1")
        batch = batch.replace("exec torchrun", f"exec {sys.executable} -m torch.distributed.run").replace(
            "/nodes'", f"/nodes{given}'"
        )
        (tmp_path / "disk0" / "nodes.sbatch").write_text(batch)
        return slurm("sbatch", "--parsable", "nodes.sbatch").strip()

    return submit


def test_a_job_that_nears_its_time_limit_writes_a_checkpoint_and_resumes(slurm, submit, tmp_path):
    run = tmp_path / "disk0" / "runs" / "nodes"

    def end(job, seconds=240):
        deadline = time.monotonic() + seconds
        while slurm("squeue", "-h", "-o", "%i").split():
            assert time.monotonic() < deadline, said(job)
            time.sleep(2)

    def said(job):
        return (tmp_path / "disk0" / f"slurm-{job}.out").read_text()[-6000:]

    job = submit()
    until(lambda: losses(run))
    slurm("scancel", "--signal=TERM", job)  # what --signal=TERM@120 does, 120 s before the limit
    end(job)
    done = len(losses(run))
    assert 0 < done < 60 and (run / "checkpoint.pt").exists(), said(job)
    assert f"stopped after step {done}" in said(job)
    job = submit()
    end(job)
    assert len(losses(run)) == 60 and (run / "model" / "model.safetensors").exists(), said(job)
    assert [*(tmp_path / "disk1" / "runs").rglob("*")] == []
