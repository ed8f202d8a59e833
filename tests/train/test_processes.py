"""Several processes give the results of one."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import torch
import yaml

from upsolve.config import Recipe
from upsolve.errors import TrainingError
from upsolve.train.run import processes
from upsolve.train.run.monitor import read_steps

SETTINGS = {
    "data": {"train": 0.05, "dev": 0.05},
    "optim": {
        "tokens_per_step": 3000,
        "tokens_per_batch": 1000,
        "row_tokens": 1000,
        "lr": 1e-3,
        "epochs": 4,
        "max_steps": 4,
        "schedule": "constant",
    },
    "monitor": {"save_every": 1, "eval_every": 2, "heldout": 4},
}
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


STEPS = 4


def command(recipe, folder, processes):
    """Return how to train in some processes that talk by gloo."""
    file = folder.with_suffix(".yaml")
    file.write_text(yaml.safe_dump(recipe.model_dump(mode="json")))
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    return [*launch, "-m", "upsolve", "train", str(file), "--out", str(folder)]


def rows(folder):
    """Return the rows of the log of a run."""
    file = folder / "metrics.jsonl"
    return read_steps(file)


def train(recipe, folder, processes):
    """Train to the end; return the rows of the log."""
    done = subprocess.run(command(recipe, folder, processes), capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return rows(folder)


@pytest.fixture
def recipe(tiny_model):
    return Recipe.model_validate({**SETTINGS, "model": {"name": tiny_model, "bf16": False}})


def assert_same(some, others):
    """Two runs tell of the same losses, gradients and held-out figures, but for the order of sums."""
    names = ("loss", "grad_norm", "entropy", "attempt_tokens", "heldout_margin")
    assert len(some) == len(others) == STEPS
    for a, b in zip(some, others, strict=True):
        assert {n: a[n] for n in names if n in a} == pytest.approx({n: b[n] for n in names if n in b}, rel=1e-4, abs=1e-6)


@pytest.mark.slow
def test_two_processes_go_on_where_one_was_stopped_with_the_curve_of_one(recipe, tmp_path):
    alone = train(recipe, tmp_path / "alone", 1)
    assert alone[0]["loss"] != alone[-1]["loss"]
    folder = tmp_path / "killed"
    with subprocess.Popen(command(recipe, folder, 1), env=ENVIRONMENT, start_new_session=True, **QUIET) as process:
        deadline = time.monotonic() + 120
        while not rows(folder) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGKILL)
    assert len(rows(folder)) < STEPS
    assert_same(alone, train(recipe, folder, 2))
    assert (folder / "model" / "model.safetensors").exists()


@pytest.fixture
def nodes():
    """Variables that torchrun sets on two nodes of one process each, with its store in this process."""
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    shared = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    return [{**shared, "RANK": str(rank), "TORCHELASTIC_USE_AGENT_STORE": "True", "store": store} for rank in range(2)]


def test_two_nodes_wait_for_each_other(nodes):
    with ThreadPoolExecutor(2) as threads:
        assert [*threads.map(processes.join, nodes)] == [None, None]


def test_a_node_that_stops_before_it_joins_ends_the_others(nodes):
    """At an archive that this node lacks, before torch was imported."""
    processes.tell_failure("mine: not an archive", nodes[1])
    with pytest.raises(TrainingError, match="rank 1: mine: not an archive"):
        processes.join(nodes[0])


def test_a_node_that_never_starts_and_a_node_0_that_has_ended_are_named(nodes, monkeypatch):
    monkeypatch.setattr(processes, "JOIN", timedelta(seconds=0.2))
    with pytest.raises(TrainingError, match="rank 0 has not started within 0 s"):
        processes.join(nodes[1])
    monkeypatch.setattr(processes, "CONNECT", timedelta(seconds=1))
    with pytest.raises(TrainingError, match="node 0 has ended, or cannot be reached"):
        processes.join({**nodes[1], "MASTER_PORT": "1"})
