"""What a training step costs, beside TRL, in one run: python benchmarks/train_step.py TRL_FOLDER [OUT.json] [--quick]

TRL_FOLDER holds TRL and what it needs beyond our own requirements (pip install --no-deps --target TRL_FOLDER trl datasets pandas
multiprocess dill xxhash). Every measurement is a process of its own: load the model, make the groups, one step to warm up, then steps
that are timed (loss and backward of whole groups, one group a pass, no optimiser); the median counts, and the highest memory above what
model and gradients take. The length of the gradient shows that all but SFT compute the same. Groups are random tokens of exact lengths, prompts P and attempts R, G attempts a group; ``archive`` takes
groups of the embedded archive as they are.

Ways:
    trl                  GRPOTrainer's own loss (and so its log-probabilities), gradient checkpointing off
    trl, checkpointing   the same as TRL has it by default
    trl sft              SFTTrainer's own loss on the same tokens: prompts and attempts, padded
    ours                 packed rows, prompts once, attention by blocks, scores without logits
    ours, all logits     the same, but the head's logits kept, as torch makes them
    ours, whole rows     the same, but attention over whole rows with a mask
    ours, sdpa           packed rows with PyTorch's fused attention and a mask
    ours, padded         every attempt with its own prompt, padded
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from machine import machine

from upsolve.config import ObjectiveConfig
from upsolve.policy.attention import keep_memory, use_tree_attention
from upsolve.policy.model import load_codec, load_model
from upsolve.train.encode import EncodedAttempt, EncodedGroup
from upsolve.train.logprobs import TokenScores, head_of, hidden_states, token_scores
from upsolve.train.pack import pack
from upsolve.train.padded import padded_scores
from upsolve.train.step import sum_gradients

WAYS = ("trl", "trl, checkpointing", "trl sft", "ours", "ours, all logits", "ours, whole rows", "ours, sdpa", "ours, padded")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def groups_of(job, codec):
    """Return the groups of a job."""
    random = np.random.default_rng(0)
    if job["shape"] == "archive":
        from upsolve.archive.store import open_archive

        picked = [g for g in open_archive("embedded").groups() if len(g.attempts) >= job["G"]][: job["groups"]]
        texts = [(codec.prompt(g.task).ids_P, tuple(codec.completion(a.code) for a in g.attempts[: job["G"]])) for g in picked]
    else:
        p, r = job["shape"]
        vocabulary = len(codec.tokenizer)
        ids = [
            [tuple(random.integers(vocabulary, size=n).tolist()) for n in (p, *[r] * job["G"])] for _ in range(job["groups"])
        ]
        texts = [(first, tuple(rest)) for first, *rest in ids]
    advantages = random.normal(size=job["G"])
    return [
        EncodedGroup(
            p, tuple(EncodedAttempt(ids, np.full(len(ids), x, dtype=np.float32)) for ids, x in zip(a, advantages, strict=True))
        )
        for p, a in texts
    ]


def random_qwen():
    """Return a Qwen2 of 0.5B parameters with random weights."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    shape = {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14}
    config = Qwen2Config(**shape, num_key_value_heads=2, vocab_size=151_936, tie_word_embeddings=True)
    return Qwen2ForCausalLM(config)


def model_of(job):
    """Return the model of a job: the built-in one, or its first layers, or a random Qwen2."""
    if job["model"] == "qwen2-0.5b-random":
        torch.manual_seed(0)
        return random_qwen().to(DEVICE, torch.bfloat16 if DEVICE == "cuda" else torch.float32)
    model = load_model("smollm2-135m", device=DEVICE)
    if job["layers"]:
        model.model.layers = model.model.layers[: job["layers"]]
        model.config.num_hidden_layers = job["layers"]
        model.config.layer_types = None
    return model


def all_logits(model, batch):
    """Score a packed batch with logits and log-softmax as torch makes and keeps them."""
    hidden = hidden_states(model, batch, blocks=True)
    picked = hidden.flatten(0, 1).index_select(0, torch.from_numpy(batch.source_T).to(hidden.device))
    scores = head_of(model).logits(picked).log_softmax(-1)
    logp = scores.gather(-1, torch.from_numpy(batch.target_T).to(hidden.device)[:, None])[:, 0]
    with torch.no_grad():
        entropy = -(scores.exp() * scores).sum(-1)
    return TokenScores(logp, entropy, torch.zeros_like(entropy))


def ours(job, model, groups):
    """Return a function that does a step our way."""
    if job["way"] != "ours, sdpa" and job["way"] != "ours, padded":
        use_tree_attention(model)
    others = {
        "ours, all logits": all_logits,
        "ours, padded": padded_scores,
        "ours, whole rows": partial(token_scores, blocks=False),
    }
    score = others.get(job["way"], token_scores)
    config = ObjectiveConfig(kind="reinforce", reduce="token_mean")
    batches = [pack([[group]]) for group in groups]
    return lambda: sum_gradients(partial(score, model), batches, config, backward=lambda loss: loss.backward()).loss


def trl_trainer(job, model, codec, folder):
    """Return a trainer of TRL's."""
    import trl
    from datasets import Dataset

    plain = {"output_dir": folder, "report_to": [], "use_cpu": DEVICE == "cpu", "bf16": False, "fp16": False}
    plain |= {"per_device_train_batch_size": job["G"], "gradient_checkpointing": job["way"] == "trl, checkpointing"}
    if job["way"] == "trl sft":
        data = Dataset.from_dict({"text": ["x"] * job["G"]})
        return trl.SFTTrainer(model, args=trl.SFTConfig(**plain), train_dataset=data, processing_class=codec.tokenizer)
    data = Dataset.from_dict({"prompt": ["x"] * job["G"]})
    settings = trl.GRPOConfig(**plain, num_generations=job["G"], beta=0.0, loss_type="dapo")

    def no_reward(completions, **_):
        return [0.0] * len(completions)

    return trl.GRPOTrainer(model, no_reward, args=settings, train_dataset=data, processing_class=codec.tokenizer)


def padded_ids(rows, left):
    """Return ids and mask of token lists, padded on one side."""
    length = max(map(len, rows))
    ids, mask = (torch.zeros(len(rows), length, dtype=torch.long) for _ in range(2))
    for i, row in enumerate(rows):
        part = slice(length - len(row), length) if left else slice(0, len(row))
        ids[i, part], mask[i, part] = torch.tensor(row), 1
    return ids.to(DEVICE), mask.to(DEVICE)


def theirs(job, model, groups, codec):
    """Return a function that does a step TRL's way."""
    trainer = trl_trainer(job, model, codec, tempfile.mkdtemp())
    trainer.current_gradient_accumulation_steps = len(groups)
    model = trainer.model.train()
    batches = []
    for group in groups:
        prompts, prompt_mask = padded_ids([group.prompt_P] * len(group.attempts), left=True)
        attempts, attempt_mask = padded_ids([one.ids_R for one in group.attempts], left=False)
        inputs = {
            "prompt_ids": prompts,
            "prompt_mask": prompt_mask,
            "completion_ids": attempts,
            "completion_mask": attempt_mask,
        }
        inputs |= {"advantages": torch.tensor([one.advantages_R[0] for one in group.attempts], device=DEVICE)}
        inputs |= {"num_items_in_batch": torch.tensor(sum(len(one.ids_R) for g in groups for one in g.attempts), device=DEVICE)}
        if job["way"] == "trl sft":
            ids, mask = padded_ids([(*group.prompt_P, *one.ids_R) for one in group.attempts], left=False)
            inputs = {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}
        batches.append(inputs)

    def step():
        total = 0.0
        for inputs in batches:
            loss = trainer.compute_loss(model, inputs)
            loss.backward()
            total += float(loss.detach())
        return total

    return step


def peak_reset():
    """Forget the highest memory so far."""
    if DEVICE == "cuda":
        torch.cuda.reset_peak_memory_stats()
    else:
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def peak():
    """Return the highest memory since then, bytes."""
    if DEVICE == "cuda":
        return torch.cuda.max_memory_allocated()
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def held():
    """Return the memory held now, bytes."""
    if DEVICE == "cuda":
        return torch.cuda.memory_allocated()
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * resource.getpagesize()


def one(job):
    """Measure one job; print a line of JSON."""
    if job["way"].startswith("trl"):
        sys.path.append(job["trl"])
    else:
        keep_memory()
    codec, model = load_codec("smollm2-135m"), model_of(job)
    groups = groups_of(job, codec)
    model.train()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    before = held()
    step = theirs(job, model, groups, codec) if job["way"].startswith("trl") else ours(job, model, groups)
    peak_reset()
    times = []
    for _ in range(job["steps"] + 1):
        started = time.monotonic()
        loss = step()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        times.append(time.monotonic() - started)
    read = sum(len(g.prompt_P) * (len(g.attempts) - 1) + g.tokens for g in groups)
    weights = sum(p.numel() for p in model.parameters())
    highest = peak() - before
    norm = sum(float(p.grad.double().square().sum()) for p in model.parameters()) ** 0.5 / len(times)
    said = {"seconds": statistics.median(times[1:]), "peak_mib": highest / 2**20, "loss": loss, "gradient": norm}
    print(json.dumps(said | {"text_tokens": read, "packed_tokens": sum(g.tokens for g in groups), "weights": weights}))


def measure(job, limit=1500):
    """Measure a job in a process of its own; None when it does not get through (memory, time)."""
    command = [sys.executable, "-W", "ignore", __file__, job["trl"], "--one", json.dumps(job)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=limit, env={**os.environ, "TQDM_DISABLE": "1"}
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        print(done.stderr[-1500:], file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def matmul_flops():
    """Return floating-point operations a second of a large matrix product."""
    kind = torch.bfloat16 if DEVICE == "cuda" else torch.float32
    size = 8192 if DEVICE == "cuda" else 2048
    a, b = (torch.randn(size, size, dtype=kind, device=DEVICE) for _ in range(2))
    times = []
    for _ in range(6):
        started = time.monotonic()
        a @ b
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        times.append(time.monotonic() - started)
    return 2 * size**3 / min(times)


def jobs_of(quick):
    """Return what is measured."""
    plain = {"model": "smollm2-135m", "layers": 0, "steps": 1, "groups": 1}
    bars = [{**plain, "shape": shape, "G": 8} for shape in ((700, 200), (200, 200))]
    short = {**plain, "layers": 6, "steps": 2, "groups": 1}
    grid = [{**short, "shape": shape, "G": g} for shape in ((700, 200), (200, 200), (1500, 150), "archive") for g in (4, 8, 16)]
    linear = [{**short, "shape": (200, 100), "G": 4, "groups": n, "ways": ("ours",)} for n in (1, 2, 4, 8, 16, 32)]
    few = [{**job, "steps": 1, "ways": ("trl", "ours", "ours, padded")} for job in grid if job["G"] == 8][:2]
    return few if quick else [*bars, *grid, *linear]


def main(trl, out, quick):
    """Measure everything and write it down."""
    flops = matmul_flops()
    result = {"machine": machine(), "matrix product, GFLOP/s": round(flops / 1e9), "jobs": []}
    for job in jobs_of(quick):
        rows = {}
        for way in job.get("ways", WAYS):
            said = measure({**job, "way": way, "trl": trl})
            if said:
                tokens = said["text_tokens"]
                said |= {"groups_per_second": job["groups"] / said["seconds"], "tokens_per_second": tokens / said["seconds"]}
                done = said["packed_tokens"] if way.startswith("ours") and way != "ours, padded" else tokens
                said["utilisation"] = 6 * said["weights"] * done / said["seconds"] / flops
            rows[way] = said
            figures = said and {name: round(said[name], 3) for name in ("seconds", "peak_mib", "utilisation", "gradient")}
            print(job["model"], job["layers"], job["shape"], job["G"], job["groups"], way, figures, flush=True)
        result["jobs"].append({**job, "rows": rows})
        out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("trl")
    parser.add_argument("out", nargs="?", type=Path, default=Path(__file__).parent / "results" / f"train_step_{DEVICE}.json")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--one")
    given = parser.parse_args()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    one(json.loads(given.one)) if given.one else main(given.trl, given.out, given.quick)
