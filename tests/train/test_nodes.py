"""Two hosts without a common disk, as network and mount namespaces: the commands of docs/tutorials/nodes.md, killed, resumed, cut off."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest
import yaml
from documents import ROOT
from tiny import write_tiny_model

from upsolve.archive.store import copy_archive, open_archive
from upsolve.train.run.monitor import read_steps
from upsolve.train.run.nodes import LOST, digest_of

PAGE = (ROOT / "docs" / "tutorials" / "nodes.md").read_text()
TYPED = dict(re.findall(r"<!-- node: (\w+) -->\n```sh\n(.*?)```", PAGE, re.DOTALL))
SMALL = [
    "model.name=model",
    "model.bf16=false",
    "data.train=0.05",
    "data.dev=0.05",
    "monitor.heldout=0",
    "monitor.save_every=1",
]
SMALL += [
    "optim.epochs=30",
    "optim.tokens_per_step=3000",
    "optim.tokens_per_batch=1000",
    "optim.row_tokens=1000",
    "optim.schedule=constant",
]
NAMES = [f"upsolve{os.getpid()}n{number}" for number in range(2)]


def ip(*words):
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


def test_a_digest_is_of_names_and_content(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name / "in").mkdir(parents=True)
        (tmp_path / name / "in" / "file").write_bytes(b"0" * 100)
    assert digest_of(tmp_path / "a") == digest_of(tmp_path / "b")
    (tmp_path / "b" / "in" / "file").write_bytes(b"0" * 99 + b"1")
    assert digest_of(tmp_path / "a") != digest_of(tmp_path / "b")


@pytest.fixture(scope="module")
def network():
    """Two network namespaces, joined by a cable."""
    try:
        for number, name in enumerate(NAMES):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
            if number:
                ip("link", "add", "cable", "netns", NAMES[0], "type", "veth", "peer", "name", "cable", "netns", name)
        for number, name in enumerate(NAMES):
            ip("-n", name, "addr", "add", f"10.77.0.{number + 1}/24", "dev", "cable")
            ip("-n", name, "link", "set", "cable", "up")
    except (OSError, subprocess.CalledProcessError) as error:
        remove()
        pytest.skip(f"no network namespaces on this machine: {getattr(error, 'stderr', None) or error}")
    yield
    remove()


def remove():
    for name in NAMES:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@pytest.fixture
def hosts(network, tmp_path):  # noqa: ARG001  they need it
    """Start a command on a host whose folder is a disk of its own."""
    for number in range(2):
        write_tiny_model(tmp_path / f"disk{number}" / "model")
    (tmp_path / "work").mkdir()
    started = []

    def enter(number, words, **environment):
        (tmp_path / "hosts").write_text("127.0.0.1 localhost\n10.77.0.1 node0 nodes-0.nodes\n10.77.0.2 node1\n")
        (tmp_path / "resolver").write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")  # which refuses at once
        enter = f"hostname node{number}; mount --bind {tmp_path}/hosts /etc/hosts; mount --bind {tmp_path}/resolver /etc/resolv.conf; mount --bind {tmp_path}/disk{number} {tmp_path}/work; cd {tmp_path}/work; exec {shlex.join(words)}"
        given = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "cable", "UPSOLVE_CACHE": str(tmp_path / "work" / "cache")}
        given |= {"PYTHONPATH": str(ROOT / "src"), **environment}
        command = ["ip", "netns", "exec", NAMES[number], "unshare", "--mount", "--uts", "sh", "-c", enter]
        said = tmp_path / f"said{len(started)}"
        with said.open("w") as file:
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env={**os.environ, **given})
        process.said = said
        started.append(process)
        return process

    def start(number, typed, steps, out="nodes", settings=(), **environment):
        words = shlex.split(typed.replace("runs/nodes", f"runs/{out}"))
        assert words[0] == "torchrun"
        words = [sys.executable, "-m", "torch.distributed.run", *words[1:]]
        words += [word for setting in [*SMALL, f"optim.max_steps={steps}", *settings] for word in ("--set", setting)]
        return enter(number, words, **environment)

    start.enter = enter
    yield start
    kill(*started)


def kill(*processes, hosts=NAMES):
    """Kill all processes of both hosts, or of one."""
    for name in hosts:
        for pid in ip("netns", "pids", name).split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
    for process in processes:
        process.wait()


def text(*processes):
    return "\n".join(process.said.read_text()[-6000:] for process in processes)


def until(condition, *processes, seconds=240):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline and all(process.poll() is None for process in processes), text(*processes)
        time.sleep(0.05)


def losses(folder):
    return [row["loss"] for row in read_steps(folder / "metrics.jsonl")]


def end(*processes):
    assert [process.wait(timeout=300) for process in processes] == [0] * len(processes), text(*processes)


@pytest.mark.slow
def test_two_nodes_are_killed_and_one_resumes(hosts, tmp_path):
    run = tmp_path / "disk0" / "runs" / "nodes"
    both = [hosts(number, TYPED[str(number)], 4) for number in range(2)]
    until((run / "checkpoint").exists, *both)
    kill(*both)
    assert 0 < len(losses(run)) < 4
    assert not (tmp_path / "disk1" / "runs" / "nodes" / "metrics.jsonl").exists()
    end(hosts(0, TYPED["alone"], 4))
    end(hosts(0, TYPED["alone"], 4, out="alone"))
    assert losses(run) == pytest.approx(losses(tmp_path / "disk0" / "runs" / "alone"), rel=1e-4, abs=1e-6)
    assert (run / "model" / "model.safetensors").exists() and not (run / "checkpoint").exists()


@pytest.mark.slow
def test_two_nodes_resume_what_one_began_until_the_cable_is_cut(hosts, tmp_path):
    run = tmp_path / "disk0" / "runs" / "nodes"
    alone = hosts(0, TYPED["alone"], 999)
    until((run / "checkpoint.pt").exists, alone)
    kill(alone)
    before = len(losses(run))
    both = [hosts(number, TYPED[str(number)], 999) for number in range(2)]
    until(lambda: len(losses(run)) > before + 1, *both)
    assert not (run / "checkpoint.pt").exists(), "two ranks write a checkpoint in parts"
    cut = time.monotonic()
    ip("-n", NAMES[1], "link", "set", "cable", "down")
    try:
        assert all(process.wait(timeout=150) for process in both)
        assert all("has not answered for" in text(one) for one in both), text(*both)
        assert time.monotonic() - cut < LOST + 50  # torchrun itself needs some seconds
    finally:
        ip("-n", NAMES[1], "link", "set", "cable", "up")


@pytest.mark.slow
def test_another_copy_of_the_model_is_refused(hosts, tmp_path):
    config = tmp_path / "disk1" / "model" / "generation_config.json"
    config.write_text(config.read_text() + "\n")
    both = [hosts(number, TYPED[str(number)], 4) for number in range(2)]
    assert all(process.wait(timeout=240) for process in both)
    assert re.search(r"model model: node node1 has another copy \(\w+\) than node node0 of rank 0", text(both[0])), text(*both)


@pytest.mark.slow
@pytest.mark.parametrize("damaged", ["folder of rank 0", "archive of rank 1"])
def test_an_error_of_one_node_ends_both(hosts, tmp_path, damaged):
    """The folder of the run, which only rank 0 sees, or an archive, which is checked before torch is imported."""
    run, settings, said = tmp_path / "disk0" / "runs" / "nodes", ["data.archive=mine"], "mine: not an archive"
    if damaged == "folder of rank 0":
        run.mkdir(parents=True)
        (run / "summary.json").write_text("{}")
        settings, said = [], "summary.json: not the summary of a run"
    else:
        copy_archive(open_archive("embedded"), tmp_path / "disk0" / "mine")
    both = [hosts(number, TYPED[str(number)], 4, settings=settings) for number in range(2)]
    assert all(process.wait(timeout=150) for process in both)
    assert all(said in text(process) for process in both), text(*both)


@pytest.mark.slow
def test_two_pods_of_the_kubernetes_job_train(hosts, tmp_path):
    """The command and the variables of the job, with the rank that Kubernetes takes from the index of a pod."""
    service, job = yaml.safe_load_all((ROOT / "examples" / "nodes.yaml").read_text())
    (container,) = job["spec"]["template"]["spec"]["containers"]
    values = {each["name"]: each.get("value") for each in container["env"]}
    name = f"{job['metadata']['name']}-0.{job['spec']['template']['spec']['subdomain']}"
    assert values["PET_MASTER_ADDR"] == name and service["metadata"]["name"] == job["spec"]["template"]["spec"]["subdomain"]
    assert int(values["PET_NNODES"]) == job["spec"]["completions"] == job["spec"]["parallelism"]
    given = [{**values, "PET_NPROC_PER_NODE": "1", "PET_NODE_RANK": str(index)} for index in range(2)]
    end(*(hosts(index, shlex.join(container["command"]), 2, **given[index]) for index in range(2)))
    assert len(losses(tmp_path / "disk0" / "runs" / "nodes")) == 2 and [*(tmp_path / "disk1" / "runs").rglob("*")] == []


ONLINE = [
    "source.rounds=3",
    "source.groups=4",
    "source.mix={policy: 0.5, archive: 0.25, replay: 0.25}",
    "source.rollout.max_tokens=16",
    "reward.weights={length: 1.0}",
    "reward.length=[0, 40]",
    "data.group_size=4",
    "optim.epochs=1",
    "verify.workers=1",
]


@pytest.mark.slow
def test_two_nodes_sample_and_judge_their_shares_online(hosts, tmp_path):
    """A round of new samples, stored and replayed ones; both are killed, resume, and end as one node alone does."""
    run = tmp_path / "disk0" / "runs" / "nodes"
    both = [hosts(number, TYPED[str(number)], 9, settings=ONLINE) for number in range(2)]
    until((run / "checkpoint").exists, *both)
    kill(*both)
    before = len(losses(run))
    end(*(hosts(number, TYPED[str(number)], 9, settings=ONLINE) for number in range(2)))
    end(hosts(0, TYPED["alone"], 9, out="alone", settings=ONLINE))
    alone = read_steps(tmp_path / "disk0" / "runs" / "alone" / "metrics.jsonl")
    assert before < len(alone) and {row["round"] for row in alone} == {0.0, 1.0, 2.0}
    assert losses(run) == pytest.approx([row["loss"] for row in alone], rel=1e-3, abs=1e-5)
    assert [*(tmp_path / "disk1" / "runs").rglob("*")] == []


AHEAD = [
    *ONLINE,
    "source.ahead=1",
    "source.rollout.engine=server",
    "source.rollout.server.urls=[http://127.0.0.1:8001/v1, http://127.0.0.1:8002/v1]",
    "source.rollout.server.retries=20",
    "objective.correction.kind=tis",
    "monitor.max_drift=9",
]


@pytest.mark.slow
def test_servers_sample_ahead_of_two_nodes(hosts, tmp_path):
    """Rank 0 asks two servers on its host. The other host dies, which ends the run with a line; both resume, and end as one node alone does."""
    run, server = tmp_path / "disk0" / "runs" / "nodes", [sys.executable, str(ROOT / "tests" / "tiny_server.py"), "model"]
    places = [hosts.enter(0, [*server, port]) for port in ("8001", "8002")]
    both = [hosts(number, TYPED[str(number)], 9, settings=AHEAD) for number in range(2)]
    until(lambda: losses(run), *both, *places)
    killed = time.monotonic()
    kill(both[1], hosts=NAMES[1:])
    assert both[0].wait(timeout=150) and time.monotonic() - killed < LOST + 50
    assert len(re.findall(r"^upsolve: .*run the same command on all nodes", text(both[0]), re.MULTILINE)) == 1, text(both[0])
    before = len(losses(run))
    end(*(hosts(number, TYPED[str(number)], 9, settings=AHEAD) for number in range(2)))
    end(hosts(0, TYPED["alone"], 9, out="alone", settings=AHEAD))
    alone = read_steps(tmp_path / "disk0" / "runs" / "alone" / "metrics.jsonl")
    assert before < len(alone) and next(row["staleness"] for row in alone if "staleness" in row) == 0
    assert losses(run) == pytest.approx([row["loss"] for row in alone], rel=1e-3, abs=1e-5)
    assert [row["staleness"] for row in read_steps(run / "metrics.jsonl") if "staleness" in row] == [
        row["staleness"] for row in alone if "staleness" in row
    ]
    assert [*(tmp_path / "disk1" / "runs").rglob("*")] == []
