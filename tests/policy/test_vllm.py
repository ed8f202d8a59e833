"""Engines that are installed beside the project (``make test-vllm``): vLLM as a server and in process, ``transformers serve``."""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import torch

from upsolve.archive.split import split_archive
from upsolve.archive.store import Archive, open_archive
from upsolve.config import ModelConfig, Recipe, SampleConfig, ServerConfig
from upsolve.errors import ModelError
from upsolve.policy.collect import sample_attempts
from upsolve.policy.engines import sampler
from upsolve.policy.model import load_codec, load_model, save_model
from upsolve.train.data.sources import round_tag
from upsolve.train.loop import train
from upsolve.train.run.monitor import read_steps
from upsolve.types import Attempt, Task

pytestmark = pytest.mark.vllm
ROOT = Path(__file__).parents[2]
BIN = Path(os.environ.get("VLLM_VENV", ROOT / ".venv-vllm")).absolute() / "bin"
QUIET = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT / "src")}
QUIET["VLLM_SERVER_DEV_MODE"] = "1"  # the calls that load weights
TASKS = [
    Task("add", "Write a function add(a, b) that returns the sum of two numbers."),
    Task("turn", "Write a function turn(text) that returns the text reversed."),
]
CONFIG = SampleConfig(samples=4, max_tokens=80, temperature=0.8, batch=4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """SmolLM2-135M as a folder that other programs read; ``transformers serve`` samples only where do_sample is true."""
    place = tmp_path_factory.mktemp("smollm2")
    model = load_model("smollm2-135m", dtype=torch.bfloat16)
    model.generation_config.do_sample = True
    save_model(model, load_codec("smollm2-135m"), place)
    return str(place)


class Running:
    """A server in a process group of its own."""

    def __init__(self, words, log):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.words, self.log, self.url = words, log, f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self):
        words = [*self.words, "--host", "127.0.0.1", "--port", str(self.port)]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(words, env={**os.environ, **QUIET}, stdout=log, stderr=log, start_new_session=True)
        for _ in range(600):
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            try:
                with urllib.request.urlopen(self.url.replace("/v1", "/health"), timeout=5):
                    return self
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
        raise TimeoutError(self.log.read_text()[-3000:])

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def vllm_server(folder, log):
    words = [BIN / "python", "-m", "vllm.entrypoints.openai.api_server", "--model", folder, "--served-model-name", "smollm2"]
    return Running(
        [*words, "--max-model-len", "1024", "--dtype", "bfloat16", "--enforce-eager", "--generation-config", "vllm"], log
    )


@torch.inference_mode()
def check(attempts, folder):
    """Each attempt ends at its fence, and its log-probability is what transformers says of the same tokens."""
    model, codec = load_model(folder), load_codec(folder)
    prompts = {task.task_id: codec.prompt(task).ids_P for task in TASKS}
    compared = 0
    for attempt in attempts:
        assert "```" not in attempt.code and 1 <= attempt.tokens <= 80 and attempt.truncated == (attempt.tokens == 80)
        ids = list(attempt.token_ids or codec.completion(attempt.code))
        if attempt.token_ids:
            assert codec.decode(ids) == attempt.code and len(ids) == attempt.tokens
        elif attempt.truncated or len(ids) != attempt.tokens or "\ufffd" in attempt.code:
            continue  # the sampled tokens cannot be told from the text
        prompt = prompts[attempt.task_id]
        logp_R = model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        logps = logp_R[range(len(ids)), ids]
        expected = float(logps.sum())
        if attempt.token_logps:
            assert float((torch.tensor(attempt.token_logps) - logps).abs().mean()) < 0.1
        # bfloat16 keeps 8 bits of a logit; at most 0.01 nats a token was seen
        assert attempt.behavior_logp == pytest.approx(expected, abs=0.1 + 0.01 * len(ids))
        compared += 1
    assert compared >= len(attempts) // 2


def asking(server, **changes):
    """A recipe that samples from a server, one request after the other."""
    server = server.model_copy(update=changes)
    return Recipe(sample=CONFIG.model_copy(update={"engine": "server", "batch": 1, "server": server}))


def test_a_vllm_server_that_is_killed_and_started_again(folder, tmp_path):
    archive = Archive.create(tmp_path / "archive")
    archive.append(tasks=TASKS)
    server = vllm_server(folder, tmp_path / "log")
    there = ServerConfig(url=server.url, model="smollm2", retries=1, wait_seconds=0.1, extra={"return_token_ids": True})
    recipe = asking(there)
    with server:

        def kill_at_three(_what, done, _total):
            if done == 3:
                server.__exit__()

        with pytest.raises(ModelError, match="Start the server and run the same command again"):
            sample_attempts(archive, recipe.sample, model=ModelConfig(name=folder), progress=kill_at_three)
    assert sum(a.count for a in archive.attempts()) == 3
    with server:
        assert sample_attempts(archive, recipe.sample, model=ModelConfig(name=folder)) == 5
        attempts = archive.attempts()
        assert sum(a.count for a in attempts) == 8 and {a.author for a in attempts} == {folder}
        check(attempts, folder)
        drawn = list(sampler(recipe.sample, ModelConfig(name=folder))(TASKS, config=CONFIG))
        assert len({attempt.code for attempt in drawn}) > 2  # seeds of one task differ
        check(drawn, folder)
        assert all(attempt.token_ids for attempt in drawn)
        check(list(sampler(asking(there, prompt="text").sample, ModelConfig(name=folder))(TASKS, config=CONFIG)), folder)
        with pytest.raises(ModelError, match=r"404 Not Found.*no-such-model"):
            list(sampler(asking(there, model="no-such-model").sample, ModelConfig(name=folder))(TASKS, config=CONFIG))


IN_PROCESS = """
import json, sys
from dataclasses import asdict
from upsolve.config import ModelConfig, SampleConfig
from upsolve.policy.engines import sampler
from upsolve.types import Task

if __name__ == "__main__":
    folder, asked, out = sys.argv[1:]
    asked = json.load(open(asked))
    config = SampleConfig.model_validate(asked["sample"])
    draw = sampler(config, ModelConfig(name=folder))
    tasks = [Task(*task) for task in asked["tasks"]]
    counts = []
    attempts = [asdict(attempt) for attempt in draw(tasks, config=config, author="me", on_done=counts.append)]
    # more prompt tokens than vLLM takes at once (4,096)
    many = sum(1 for _ in draw(tasks, config=config.model_copy(update={"samples": 100, "max_tokens": 2})))
    json.dump([attempts, counts, many], open(out, "w"))
"""


def test_vllm_in_process(folder, tmp_path):
    script, asked, out = tmp_path / "script.py", tmp_path / "asked.json", tmp_path / "out.json"
    script.write_text(IN_PROCESS)
    sample = {**CONFIG.model_dump(), "engine": "vllm", "vllm": {"context_tokens": 1024, "compile": False}}
    asked.write_text(json.dumps({"sample": sample, "tasks": [[task.task_id, task.prompt] for task in TASKS]}))
    words = [BIN / "python", script, folder, asked, out]
    done = subprocess.run(words, env={**os.environ, **QUIET}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    rows, counts, many = json.loads(out.read_text())
    attempts = [Attempt(**row) for row in rows]
    assert [a.task_id for a in attempts] == ["add"] * 4 + ["turn"] * 4 and counts == [8] and many == 200
    assert {a.author for a in attempts} == {"me"} and len({a.code for a in attempts}) > 2
    assert all(attempt.token_ids for attempt in attempts)
    check(attempts, folder)


FOLLOWED = """
import json, sys
from dataclasses import asdict
from pathlib import Path
import torch
from upsolve.config import ModelConfig, SampleConfig
from upsolve.policy.model import load_codec, load_model
from upsolve.policy.vllm import VllmFollower
from upsolve.types import Task

if __name__ == "__main__":
    start, asked, out = sys.argv[1:]
    asked, out = json.load(open(asked)), Path(out)
    config = SampleConfig.model_validate(asked["sample"])
    tasks = [Task(*task) for task in asked["tasks"]]
    model, codec, sample = load_model(start, dtype=torch.bfloat16), load_codec(start), VllmFollower(ModelConfig(), out / "policy")
    drawn = []
    for _ in range(2):
        drawn.append([asdict(attempt) for attempt in sample(model, codec, tasks, config=config, author="me")])
        torch.nn.init.zeros_(model.model.layers[15].mlp.down_proj.weight)  # it still speaks, but otherwise
    (out / "attempts.json").write_text(json.dumps(drawn))
"""


def test_vllm_samples_the_weights_of_now(folder, tmp_path):
    """The second call gives what the changed model says, not what the first one left in memory: log-probabilities tell."""
    (tmp_path / "script.py").write_text(FOLLOWED)
    sample = {**CONFIG.model_dump(), "engine": "vllm", "vllm": {"context_tokens": 1024, "compile": False}}
    (tmp_path / "asked.json").write_text(
        json.dumps({"sample": sample, "tasks": [[task.task_id, task.prompt] for task in TASKS]})
    )
    words = [BIN / "python", tmp_path / "script.py", folder, tmp_path / "asked.json", tmp_path]
    done = subprocess.run(words, env={**os.environ, **QUIET}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    first, second = ([Attempt(**row) for row in rows] for rows in json.loads((tmp_path / "attempts.json").read_text()))
    check(first, folder)
    check(second, str(tmp_path / "policy"))
    with pytest.raises(AssertionError):
        check(second, folder)


def test_two_vllm_servers_sample_ahead_with_the_weights_that_they_are_given(folder, tmp_path):
    """One of them is killed while the last round is sampled; log-probabilities tell whose weights sampled a round."""
    with vllm_server(folder, tmp_path / "log0") as one, vllm_server(folder, tmp_path / "log1") as other:
        there = {"urls": [one.url, other.url], "model": "smollm2", "retries": 2, "wait_seconds": 0.5}
        rollout = {"engine": "server", "server": there, "max_tokens": 24, "batch": 8}
        recipe = Recipe.model_validate(
            {
                "model": {"name": folder, "bf16": False},
                "data": {"train": 0.1, "dev": 0.05, "group_size": 8},
                "source": {"rounds": 3, "groups": 2, "ahead": 1, "rollout": rollout},
                "reward": {"weights": {"length": 1.0}, "length": [0, 80]},
                "advantage": {"kind": "standardised"},
                "objective": {"kind": "ppo_clip", "correction": {"kind": "tis"}},
                "optim": {"tokens_per_step": 9999, "tokens_per_batch": 1000, "lr": 3e-4, "schedule": "constant", "warmup": 0},
                "verify": {"cache": False, "workers": 1},
                "monitor": {"heldout": 0, "snapshot_every": 1, "stop_on_collapse": False, "max_drift": 99},
            }
        )
        split = split_archive(open_archive("embedded"), recipe.data, untried=True)

        def kill(done, _total, _row):
            if done == 1:  # round 2 is not begun before round 1 is there
                other.__exit__()

        train(recipe, split.groups["train"], [], tmp_path / "run", on_step=kill)
    rows, archive, codec = (
        read_steps(tmp_path / "run" / "metrics.jsonl"),
        Archive(tmp_path / "run" / "rollouts"),
        load_codec(folder),
    )
    assert [row["staleness"] for row in rows] == [0, 1, 1] and all(row["sampler_known"] == 1 for row in rows)
    assert rows[0]["drift"] < 0.05 < min(row["drift"] for row in rows[1:])
    tasks = {task.task_id: task for task in archive.tasks()}
    weights = [folder, str(tmp_path / "run" / "snapshots" / "000001"), str(tmp_path / "run" / "snapshots" / "000002")]
    for number, now in enumerate((0, 0, 1)):
        attempts = archive.tagged("attempts", round_tag(number))
        assert sum(attempt.count for attempt in attempts) == 16
        distance = {place: distance_to(place, codec, attempts, tasks) for place in weights}
        assert min(distance, key=distance.get) == weights[now] and (now or distance[folder] < 0.05), (
            distance
        )  # 0.25 was seen after a step
    assert read_steps(tmp_path / "run" / "metrics.jsonl")[2]["sampled"] == 16, "by the server that is left"


@torch.inference_mode()
def distance_to(place, codec, attempts, tasks):
    """Return how far log-probabilities of attempts are from those of a model, nats a token."""
    model, apart = load_model(place), []
    for attempt in attempts:
        prompt, ids = codec.prompt(tasks[attempt.task_id]).ids_P, list(attempt.token_ids)
        logp = model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)[range(len(ids)), ids]
        apart.append((torch.tensor(attempt.token_logps) - logp).abs())
    return float(torch.cat(apart).mean())


@pytest.mark.parametrize("prompt", ["chat", "text"])
def test_transformers_serve(folder, tmp_path, prompt):
    with Running([BIN / "transformers", "serve", folder], tmp_path / "log") as server:
        there = ServerConfig(url=server.url, prompt=prompt, retries=0)
        config = SampleConfig(engine="server", samples=2, max_tokens=40, batch=1, server=there)
        attempts = list(sampler(config, ModelConfig(name=folder))(TASKS[:1], config=config))
    assert [a.task_id for a in attempts] == ["add", "add"]
    for attempt in attempts:
        assert "def add" in attempt.code and "```" not in attempt.code and 1 <= attempt.tokens <= 40
        assert attempt.behavior_logp is None  # this server gives none
