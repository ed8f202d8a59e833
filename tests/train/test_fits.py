"""Models larger than the memory of one rank: peaks of resident memory while they are trained, killed and resumed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from upsolve.config import Recipe
from upsolve.policy.model import load_model
from upsolve.train.loop import train
from upsolve.train.run.memory import memory_of
from upsolve.train.run.monitor import read_steps
from upsolve.train.update.learner import Learner
from upsolve.types import Attempt, Group, Status, Task, Verdict

pytestmark = pytest.mark.slow
MIB = 2**20
SIZES = {
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 16,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "head_dim": 64,
}
OPTIM = {"tokens_per_step": 64, "tokens_per_batch": 64, "lr": 1e-3, "schedule": "constant", "epochs": 9, "max_steps": 3}
SETTINGS = {"data": {"group_size": 2}, "optim": OPTIM, "monitor": {"heldout": 0, "save_every": 1, "trackers": []}}
ADAPTERS = {"lora_rank": 2, "lora_targets": ["q_proj"], "bf16": True}
MODELS = {"full": {"bf16": False}, "lora": ADAPTERS}
SMALL = {"stage3_max_live_parameters": 0, "stage3_max_reuse_distance": 0, "stage3_prefetch_bucket_size": 0}
SMALL |= {"stage3_param_persistence_threshold": 0, "reduce_bucket_size": 2**20}
DEEPSPEEDS = {"shard": "deepspeed", "deepspeed": {"zero_optimization": {"stage": 3, **SMALL}}}


def groups():
    """Groups of two short attempts, the first of which passed."""
    found = []
    for number in range(4):
        task = Task(f"t{number}", f"{number}?")
        attempts = tuple(Attempt(task.task_id, code) for code in (f"p({number})", f"q({number})"))
        verdicts = tuple(Verdict(a.attempt_id, s) for a, s in zip(attempts, (Status.PASSED, Status.FAILED), strict=True))
        found.append(Group(task, attempts, verdicts))
    return found


def figure(name):
    """Return a figure of this process, bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
STEPS = 3
DEEPSPEED = pytest.mark.skipif(
    not (find_spec("deepspeed") and shutil.which("c++")), reason="needs DeepSpeed and a C++ compiler"
)


def recipe(model, kind, shard="none"):
    sharded = DEEPSPEEDS if shard == "deepspeed" else {"shard": shard}
    settings = {"name": str(model), **MODELS[kind], "gradient_checkpointing": True, **sharded, "compile": "never"}
    return Recipe.model_validate({**SETTINGS, "model": settings})


def work(place, kind, folder, shard):
    """Train, and write down the peak of this process after each checkpoint. A tiny model goes first, for what libraries take."""
    file, save = place / folder / f"peak-{os.environ['WORLD_SIZE']}-{os.environ['RANK']}", Learner.save_checkpoint
    file.parent.mkdir(exist_ok=True)
    train(recipe(place / "tiny", kind, shard), groups(), [], place / f"warm-{folder}-{os.environ['WORLD_SIZE']}")
    before = figure("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew

    def save_and_tell(*arguments):
        file.write_text(str(figure("VmHWM") - before))
        save(*arguments)

    load = Learner.load

    def load_and_tell(learner):
        loaded = load(learner)
        file.with_name(file.name.replace("peak", "loaded")).write_text(str(figure("VmHWM") - before))
        return loaded

    with patch.object(Learner, "save_checkpoint", save_and_tell), patch.object(Learner, "load", load_and_tell):
        train(recipe(place / "large", kind, shard), groups(), [], place / folder)
    file.write_text(str(figure("VmHWM") - before))


def command(place, kind, folder, processes, shard="fsdp2"):
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    return [*launch, __file__, str(place), kind, folder, shard]


def run(*arguments):
    done = subprocess.run(command(*arguments), capture_output=True, text=True, env=ENVIRONMENT, check=False, timeout=900)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]


def run_and_kill(place, kind, folder, processes):
    """Kill a run as soon as it has a checkpoint."""
    with subprocess.Popen(command(place, kind, folder, processes), env=ENVIRONMENT, start_new_session=True, **QUIET) as process:
        deadline = time.monotonic() + 600
        while not (place / folder / "checkpoint").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
    assert len(losses(place / folder)) < STEPS


def losses(folder):
    return [row["loss"] for row in read_steps(folder / "metrics.jsonl")]


def peaks(folder, processes, kind="peak"):
    return [int((folder / f"{kind}-{processes}-{rank}").read_text()) for rank in range(processes)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a tiny model, and a large one in many files."""
    from tiny import write_tiny_model

    place = tmp_path_factory.mktemp("fits")
    for name in ("tiny", "large"):
        write_tiny_model(place / name)
    (place / "large" / "model.safetensors").unlink()
    LlamaForCausalLM(LlamaConfig.from_pretrained(place / "tiny", **SIZES)).save_pretrained(
        place / "large", max_shard_size="8MB"
    )
    return place


def test_weights_of_twice_a_ranks_memory_are_trained_killed_and_resumed(place):
    """Two ranks, then four; each never holds half of the weights, and the losses are those of one process that holds all."""
    weights = sum(file.stat().st_size for file in (place / "large").glob("*.safetensors"))
    train(recipe(place / "large", "lora"), groups(), [], place / "alone")
    run_and_kill(place, "lora", "spread", 2)
    run(place, "lora", "spread", 4)
    assert losses(place / "spread") == pytest.approx(losses(place / "alone"), abs=2e-3)  # bfloat16 rounds each
    assert len(losses(place / "alone")) == STEPS
    assert weights > 160 * MIB
    assert max(*peaks(place / "spread", 2), *peaks(place / "spread", 4)) < weights / 2
    plan = memory_of(recipe(place / "large", "lora", "fsdp2"), groups(), processes=2).peak_bytes
    assert max(peaks(place / "spread", 2)) == pytest.approx(plan, rel=0.2)


@pytest.mark.parametrize("shard", ["fsdp2", pytest.param("deepspeed", marks=DEEPSPEED)])
def test_the_plan_is_what_a_rank_takes(place, shard):
    """Full fine-tuning: weights, moments, gradients, and the layers that are gathered; the final model is in several files."""
    folder = place / shard
    run(place, "full", shard, 2, shard)
    plan = memory_of(recipe(place / "large", "full", shard), groups(), processes=2)
    (weights,) = (row.bytes for row in plan.rows if row.name == "weights")
    assert max(peaks(folder, 2, "loaded")) == pytest.approx(weights, rel=0.15), "half of the model, also while it is loaded"
    assert max(peaks(folder, 2)) == pytest.approx(plan.peak_bytes, rel=0.15)
    assert len([*(folder / "model").glob("model-*.safetensors")]) > 1
    saved, start = load_model(str(folder / "model")), load_model(str(place / "large"))
    assert saved.generation_config.eos_token_id in (0, [0])
    moved = [(a - b).abs().max() for a, b in zip(saved.parameters(), start.parameters(), strict=True)]
    assert min(moved) > 0 and max(moved) < 5 * STEPS * OPTIM["lr"]


if __name__ == "__main__":
    work(Path(sys.argv[1]), *sys.argv[2:])
