"""One measurement of train_step.py, in a separate process: python benchmarks/step_ways.py JOB, a job as JSON; prints JSON.

Loads the model, makes the groups, warms up on some of them, and then times whole steps: loss and backward pass of all groups, one group per
pass or as many as the job says (``together``), and AdamW if the job asks for it. Peak memory is counted above that of model, gradients and AdamW. The gradient norm shows that all
ways except SFT compute the same. Groups are random tokens with G attempts each, prompts of P and attempts of R tokens; ``archive`` uses
groups of the embedded archive.

Ways:
    trl                  the loss of GRPOTrainer, with its log-probabilities, without gradient checkpointing
    trl, checkpointing   the same with gradient checkpointing, TRL's default
    trl sft              the loss of SFTTrainer on the same tokens: prompts and attempts, padded
    ours                 packed rows, prompts once, attention by blocks, scores without logits
    ours, checkpointing  the same, but layers recomputed in the backward pass
    ours, all logits     the same as ours, but with all logits of the head kept in memory
    ours, whole rows     the same, but attention over whole rows with a mask
    ours, sdpa           packed rows with PyTorch's fused attention and a mask
    ours, padded         every attempt with its own prompt, padded
    ours, float32 weights  the same as ours, under autocast, as a run with ``model.bf16``; on GPUs the other ways have weights in bfloat16
    ours, compiled       the same as ours, with layers compiled by torch.compile (``model.compile``)
    ours, flex           packed rows with FlexAttention, on GPUs, where ``ours`` is FlashAttention
"""

import ctypes
import json
import resource
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch

from upsolve.config import ObjectiveConfig
from upsolve.policy.attention.bundled import TREE
from upsolve.policy.attention.gpu import FLEX
from upsolve.policy.head import head_of
from upsolve.policy.machine import keep_memory
from upsolve.policy.model import checkpoint_layers, load_codec, load_model
from upsolve.train.data.encode import EncodedAttempt, EncodedGroup
from upsolve.train.data.pack import pack
from upsolve.train.update.compiled import CompiledScorer
from upsolve.train.update.logprobs import TokenScores, hidden_states, token_scores
from upsolve.train.update.reference_scorer import packed_scorers, padded_scores
from upsolve.train.update.step import sum_gradients

__all__ = ["DEVICE", "QWEN", "WAYS", "measured_job", "profiled", "qwen_config", "random_qwen"]

WAYS = ("trl", "trl, checkpointing", "trl sft", "ours", "ours, all logits", "ours, whole rows", "ours, sdpa", "ours, padded")
MASTERS, COMPILED = "ours, float32 weights", "ours, compiled"
DEVICE = "cpu"
if torch.cuda.is_available():
    DEVICE, WAYS = "cuda", (*WAYS, "ours, flex")


def groups_of(job, codec):
    """Return the token groups of a job."""
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


QWEN = {
    "qwen2-tiny-random": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4},
    "qwen2-0.5b-random": {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14},
    "qwen2-1.5b-random": {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12},
    "qwen2-3b-random": {"hidden_size": 2048, "intermediate_size": 11_008, "num_hidden_layers": 36, "num_attention_heads": 16},
    "qwen2-7b-random": {"hidden_size": 3584, "intermediate_size": 18_944, "num_hidden_layers": 28, "num_attention_heads": 28},
    "qwen2-14b-random": {"hidden_size": 5120, "intermediate_size": 13_824, "num_hidden_layers": 48, "num_attention_heads": 40},
    "qwen2-32b-random": {"hidden_size": 5120, "intermediate_size": 27_648, "num_hidden_layers": 64, "num_attention_heads": 40},
}
"""Shapes of the Qwen2.5 family; the weights are random."""


def qwen_config(name):
    """Return the configuration of a shape in ``QWEN``."""
    from transformers import Qwen2Config

    shape = QWEN[name]
    keys = 8 if shape["hidden_size"] == 5120 else 4 if shape["hidden_size"] == 3584 else 2
    words = 260 if name == "qwen2-tiny-random" else 151_936
    return Qwen2Config(**shape, num_key_value_heads=keys, vocab_size=words, tie_word_embeddings=shape["hidden_size"] <= 2048)


def random_qwen(name, dtype):
    """Return a Qwen2 with random weights, made on the device."""
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    with torch.device(DEVICE):
        return AutoModelForCausalLM.from_config(qwen_config(name), dtype=dtype)


def model_of(job):
    """Return the model of a job: the built-in one, or its first layers, or a random Qwen2."""
    if job["model"] in QWEN:
        half = DEVICE == "cuda" and job["way"] != MASTERS
        return random_qwen(job["model"], torch.bfloat16 if half else torch.float32)
    model = load_model("smollm2-135m", device=DEVICE)
    if job["layers"]:
        model.model.layers = model.model.layers[: job["layers"]]
        model.config.num_hidden_layers = job["layers"]
        model.config.layer_types = None
    return model


def all_logits(model, batch):
    """Score a packed batch by torch's log-softmax over all logits, which are kept in memory."""
    hidden = hidden_states(model, batch, blocks=True)
    picked = hidden.flatten(0, 1).index_select(0, torch.from_numpy(batch.source_T).to(hidden.device))
    scores = head_of(model).logits(picked).log_softmax(-1)
    logp = scores.gather(-1, torch.from_numpy(batch.target_T).to(hidden.device)[:, None])[:, 0]
    with torch.no_grad():
        entropy = -(scores.exp() * scores).sum(-1)
    return TokenScores(logp, entropy, torch.zeros_like(entropy))


def ours(job, model, groups):
    """Return a function that runs the forward and backward passes of a step in upsolve, and returns the loss."""
    if job["way"] != "ours, sdpa" and job["way"] != "ours, padded":
        model.set_attn_implementation(
            {"ours, whole rows": TREE, "ours, flex": FLEX}.get(job["way"], packed_scorers(model)[0][0])
        )
    if job["way"] == "ours, checkpointing":
        checkpoint_layers(model, job["model"])
    others = {
        "ours, all logits": all_logits,
        "ours, padded": padded_scores,
        "ours, whole rows": partial(token_scores, blocks=False),
    }
    if job["way"] == COMPILED:
        others[COMPILED] = CompiledScorer(model, token_scores)
    score = others.get(job["way"], token_scores)
    config, together = ObjectiveConfig(kind="reinforce", reduce="token_mean"), job.get("together", 1)
    batches = [pack([groups[start : start + together]]) for start in range(0, len(groups), together)]

    def step(count):
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=job["way"] == MASTERS):
            return sum_gradients(partial(score, model), batches[:count], config, backward=lambda loss: loss.backward()).loss

    return step


def trl_trainer(job, model, codec, folder):
    """Return a TRL trainer."""
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
    """Return a function that runs the forward and backward passes of a step in TRL, and returns the loss."""
    trainer = trl_trainer(job, model, codec, tempfile.mkdtemp())
    trainer.current_gradient_accumulation_steps = 1  # num_items_in_batch already counts the whole step
    model = trainer.model.train()
    if trainer.args.gradient_checkpointing:  # the trainer does so when its loop begins
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=trainer.args.gradient_checkpointing_kwargs)
    batches = []
    together = job.get("together", 1)
    for start in range(0, len(groups), together):
        texts = [(group.prompt_P, attempt) for group in groups[start : start + together] for attempt in group.attempts]
        prompts, prompt_mask = padded_ids([prompt for prompt, _ in texts], left=True)
        attempts, attempt_mask = padded_ids([attempt.ids_R for _, attempt in texts], left=False)
        inputs = {
            "prompt_ids": prompts,
            "prompt_mask": prompt_mask,
            "completion_ids": attempts,
            "completion_mask": attempt_mask,
        }
        inputs |= {"advantages": torch.tensor([attempt.advantages_R[0] for _, attempt in texts], device=DEVICE)}
        inputs |= {
            "num_items_in_batch": torch.tensor(sum(len(attempt.ids_R) for g in groups for attempt in g.attempts), device=DEVICE)
        }
        if job["way"] == "trl sft":
            ids, mask = padded_ids([(*prompt, *attempt.ids_R) for prompt, attempt in texts], left=False)
            inputs = {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}
        batches.append(inputs)

    def step(count):
        total = 0.0
        for inputs in batches[:count]:
            loss = trainer.compute_loss(model, inputs)
            loss.backward()
            total += float(loss.detach())
        return total

    return step


def peak_reset():
    """Reset the peak memory."""
    if DEVICE == "cuda":
        torch.cuda.reset_peak_memory_stats()
    else:
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def peak():
    """Return the peak memory since the last reset, bytes."""
    if DEVICE == "cuda":
        return torch.cuda.max_memory_allocated()
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def held():
    """Return the memory in use, bytes, without freed memory."""
    if DEVICE == "cuda":
        return torch.cuda.memory_allocated()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * resource.getpagesize()


def adam(model):
    """Return a function that does an AdamW step; the optimizer state is allocated already."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.0)
    optimizer.step()  # without gradients, so no weight changes
    return optimizer.step


def timed(step, update, model, groups):
    """Reset the gradients and do a step; return its seconds and its loss."""
    model.zero_grad(set_to_none=False)
    started = time.monotonic()
    loss = step(groups)
    update()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return time.monotonic() - started, loss


def profiled(step, groups, rows=20):
    """Return the operations of one step that take the longest on the device and on the CPU: name, calls and milliseconds of each."""
    from torch.profiler import ProfilerActivity, profile

    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if DEVICE == "cuda" else [])]
    with profile(activities=kinds) as record:
        step(groups)
    found = record.key_averages()
    result = {"operations": sum(row.count for row in found if row.self_cpu_time_total)}
    result |= {"device_ms": sum(row.self_device_time_total for row in found) / 1000}
    for place, name in (("device", "self_device_time_total"), ("cpu", "self_cpu_time_total")):
        longest = sorted(found, key=lambda row: -getattr(row, name))[:rows]
        result[place] = [
            (row.key[:80], row.count, round(getattr(row, name) / 1000, 3)) for row in longest if getattr(row, name)
        ]
    return result


def measured_job(job):
    """Return the measurement of one job."""
    theirs_too = job["way"].startswith("trl")
    if theirs_too:
        sys.path.append(job["trl"])
    codec, model = load_codec(job.get("tokenizer", "smollm2-135m")), model_of(job)
    groups = groups_of(job, codec)
    model.train()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    update = adam(model) if job["optimiser"] else lambda: None
    before = held()
    if not theirs_too:
        keep_memory()  # not before: what loading has freed would be kept, and what the step takes of it not be seen
    step = theirs(job, model, groups, codec) if theirs_too else ours(job, model, groups)
    peak_reset()
    first = timed(step, update, model, job["warm"])[0] if job["warm"] else 0.0
    times, losses = zip(*[timed(step, update, model, len(groups)) for _ in range(job["steps"])], strict=True)
    highest = peak() - before
    result = {
        "seconds": times,
        "first_seconds": first,
        "peak_mib": highest / 2**20,
        "loss": losses[-1],
        "gradient": sum(float(p.grad.double().square().sum()) for p in model.parameters()) ** 0.5,
        "text_tokens": sum(len(g.prompt_P) * (len(g.attempts) - 1) + g.tokens for g in groups),
        "packed_tokens": sum(g.tokens for g in groups),
        "body_weights": sum(
            p.numel() for name, p in model.named_parameters() if "embed_tokens" not in name and "lm_head" not in name
        ),
        "head_weights": model.get_output_embeddings().weight.numel(),
    }
    if job.get("profile"):
        result["profile"] = profiled(step, len(groups))
    return result


if __name__ == "__main__":
    print(json.dumps(measured_job(json.loads(sys.argv[1]))))
