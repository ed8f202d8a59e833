"""Sampling with proposed tokens (``sample.lookup``): python benchmarks/lookup.py [--tasks 32] [--rounds 2]

SmolLM2-135M-Instruct in bfloat16 corrects failed programs of the embedded archive, greedily, up to 128 tokens. The prompt has the program, so that the
answer repeats much of it. Each number of attempts at once is measured without proposals and with at most 4 and 8, in turn, in processor time, which
other processes on the machine disturb less than wall time. Writes results/lookup.json.
"""

import argparse
import statistics
import time
from dataclasses import replace
from pathlib import Path

from machine import machine, publish

from upsolve.archive.store import open_archive
from upsolve.config import ModelConfig, SampleConfig
from upsolve.policy.engines import sampler

RESULT = Path(__file__).parent / "results" / "lookup.json"
BATCHES, LOOKUPS = (8, 32, 128), (0, 4, 8)


def repairs(count):
    """Return tasks to correct a failed program, one of each of the first tasks that have one."""
    tasks = []
    for group in open_archive("embedded").groups():
        wrong = [a.code for a, verdict in zip(group.attempts, group.verdicts, strict=True) if verdict and not verdict.passed]
        if wrong and len(tasks) < count:
            prompt = f"{group.task.prompt}\n\nThis program is wrong:\n\n{wrong[0]}\n\nCorrect it."
            tasks.append(replace(group.task, prompt=prompt))
    return tasks


def measured(policy, tasks, config):
    """Return tokens, seconds of processor time and wall time of sampling all tasks."""
    wall, processor = time.monotonic(), time.process_time()
    tokens = sum(attempt.tokens for attempt in policy(tasks, config=config))
    return tokens, time.process_time() - processor, time.monotonic() - wall


def main():
    """Measure all settings in turn and write the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    tasks, plain = repairs(options.tasks), SampleConfig(samples=4, temperature=0, max_tokens=128)
    policy = sampler(plain, ModelConfig())
    list(policy(tasks[:2], config=plain))
    rates = {(batch, lookup): [] for batch in BATCHES for lookup in LOOKUPS}
    for _ in range(options.rounds):
        for batch, lookup in rates:
            config = plain.model_copy(update={"batch": batch, "lookup": lookup})
            rates[batch, lookup].append(measured(policy, tasks[: max(4, batch // 4)], config))
            print(batch, lookup, rates[batch, lookup][-1], flush=True)
    rows = [
        {
            "batch": batch,
            "lookup": lookup,
            "tokens_per_processor_second": round(statistics.median(tokens / seconds for tokens, seconds, _ in runs), 1),
            "tokens_per_second": round(statistics.median(tokens / wall for tokens, _, wall in runs), 1),
        }
        for (batch, lookup), runs in rates.items()
    ]
    publish({"machine": machine(), "tasks": len(tasks), "rows": rows}, RESULT)


if __name__ == "__main__":
    main()
