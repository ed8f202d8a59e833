"""Sample the model's attempts for the embedded archive: python tools/embedded/sample.py OUT.jsonl [SAMPLES]

A round at temperature 0.8, then rounds at 1.2 and 1.5 for the tasks that still have few distinct attempts. Two threads, seed 0,
at most 160 tokens an attempt. Tasks that are in OUT.jsonl already are not sampled again in the first round.
"""

import dataclasses
import json
import sys
import time
from pathlib import Path

import build
import torch

from upsolve.config import SampleConfig
from upsolve.policy.decoding.sample import sample
from upsolve.policy.locate import BUILTIN
from upsolve.policy.model import load_codec, load_model

ENOUGH = 9
"""Distinct attempts per task; the reference may be one of them."""


def distinct(file):
    """Return the distinct programs of every task in a file."""
    programs = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        row = json.loads(line)
        programs.setdefault(row["task_id"], set()).add(row["code"])
    return programs


def main(file, samples):
    """Sample all rounds."""
    torch.set_num_threads(2)
    model, codec = load_model(BUILTIN, dtype=torch.bfloat16), load_codec(BUILTIN)
    for temperature in (0.8, 1.2, 1.5):
        programs = distinct(file)
        enough = 1 if temperature == 0.8 else ENOUGH
        tasks = [task for task in build.tasks() if len(programs.get(task.task_id, ())) < enough]
        print(f"temperature {temperature}: {len(tasks)} tasks", flush=True)
        config = SampleConfig(samples=samples, max_tokens=160, seed=0, temperature=temperature)
        started = time.time()
        with file.open("a", encoding="utf-8") as out:
            for done, attempt in enumerate(
                sample(model, codec, tasks, config=config, author=BUILTIN) if tasks else (), start=1
            ):
                out.write(json.dumps(dataclasses.asdict(attempt)) + "\n")
                if done % 200 == 0:
                    print(done, f"{time.time() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 24)
