"""Sample the model's attempts for the embedded archive: python tools/embedded/sample.py OUT.jsonl [SAMPLES]

Uses two threads, seed 0, temperature 0.8, at most 160 tokens an attempt.
"""

import dataclasses
import json
import sys
import time

import build
import torch

from upsolve.config import SampleConfig
from upsolve.policy.model import BUILTIN, load_codec, load_model
from upsolve.policy.sample import sample

if __name__ == "__main__":
    torch.set_num_threads(2)
    config = SampleConfig(samples=int(sys.argv[2]) if len(sys.argv) > 2 else 24, max_tokens=160, seed=0)
    tasks = build.tasks()
    model, codec = load_model(BUILTIN, dtype=torch.bfloat16), load_codec(BUILTIN)
    started, done = time.time(), 0
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        for attempt in sample(model, codec, tasks, config=config, author=BUILTIN):
            out.write(json.dumps(dataclasses.asdict(attempt)) + "\n")
            done += 1
            if done % 200 == 0:
                print(done, f"{time.time() - started:.0f} s", flush=True)
