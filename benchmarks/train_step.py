"""Time and memory of a training step, compared with TRL: python benchmarks/train_step.py TRL_FOLDER [OUT.json] [MODE] [--rounds N] [--work DIR]

TRL_FOLDER holds TRL and those of its requirements that upsolve does not have (pip install --no-deps --target TRL_FOLDER trl datasets pandas
multiprocess dill xxhash). step_ways.py describes the measurements. A round runs all jobs and ways, each in a separate process; rounds
follow one another, so that a machine that slows down affects all ways alike. Results are medians with minimum and maximum.

    (no option)  every size and way, one by one: two hours
    --quick      two sizes, three ways
    --whole      the whole model instead of its first layers, on a GPU a Qwen2 of 0.5B with random weights: one size, three ways
    --bars       the documented limits: speed and memory relative to TRL; about half an hour on two idle cores
    --linear     steps of 1 to 32 groups, AdamW included: time and memory against tokens; about a quarter of an hour
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from machine import machine
from step_ways import DEVICE, WAYS

from upsolve.files import write_text
from upsolve.types import content_id

RESULTS = Path(__file__).parent / "results"
CHECKPOINTING = "trl, checkpointing"
SIZES = (1, 2, 4, 8, 16, 32)
"""Groups per step."""
LONG, WORST, MEMORY = 2.0, 1.1, 0.5
"""Limits of ``--bars``, as multiples of TRL's: least groups per second at 700/200 with G = 8, and at any size; largest memory."""


def matmul_flops():
    """Return the floating-point operations per second of a large matrix product."""
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


def jobs_of(mode):
    """Return the jobs of a mode."""
    plain = {"model": "smollm2-135m", "layers": 0, "steps": 1, "groups": 1, "warm": 1, "optimiser": False, "ways": WAYS}
    if mode == "whole":
        model = "qwen2-0.5b-random" if DEVICE == "cuda" else plain["model"]
        return [{**plain, "model": model, "shape": (700, 200), "G": 8, "ways": ("trl", "ours", "ours, padded")}]
    short = {**plain, "layers": 6}
    real = {**short, "shape": "archive", "groups": 4, "warm": 4}
    if mode == "linear":
        return [{**short, "shape": (200, 200), "G": 8, "groups": n, "optimiser": True, "ways": ("ours",)} for n in SIZES]
    if mode == "bars":
        sizes = [((700, 200), 8), *(((200, 200), g) for g in (4, 8, 16)), ((1500, 150), 4)]
        jobs = [{**short, "shape": shape, "G": g} for shape, g in sizes]
        return [{**job, "ways": ("trl", "ours", CHECKPOINTING)} for job in (*jobs, *({**real, "G": g} for g in (4, 8)))]
    sizes = ({**short, "shape": shape} for shape in ((700, 200), (200, 200), (1500, 150)))
    grid = [{**job, "G": g} for job in (*sizes, real) for g in (4, 8, 16)]
    if mode == "quick":
        return [{**job, "ways": ("trl", "ours", "ours, padded")} for job in grid if job["G"] == 8][:2]
    return grid


def measured(job, turn, work):
    """Measure a job, or read the result that an earlier call left in a folder."""
    if work is None:
        return measure(job)
    file = work / f"{content_id(json.dumps([job, turn], sort_keys=True))}.json"
    if not file.exists():
        write_text(file, json.dumps(measure(job)))
    return json.loads(file.read_text(encoding="utf-8"))


def measure(job, limit=1500):
    """Measure a job in a separate process; None if it exceeds memory or time."""
    command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("step_ways.py")), json.dumps(job)]
    quiet = {**os.environ, "TQDM_DISABLE": "1", "TOKENIZERS_PARALLELISM": "false"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit, env=quiet)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        print(done.stderr[-1500:], file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def row_of(samples, job, way, flops):
    """Return the results of one implementation over all rounds: median, minimum and maximum of the seconds, and the largest memory."""
    if not samples:
        return None
    times = [seconds for sample in samples for seconds in sample["seconds"]]
    sample, median = samples[0], statistics.median(times)
    tokens, packed = sample["text_tokens"], sample["packed_tokens"]
    read = packed if way.startswith("ours") and way != "ours, padded" else tokens
    attempts = packed - (tokens - packed) // (job["G"] - 1)  # a text is a prompt and an attempt; only attempts reach the head
    return {
        **sample,
        "seconds": median,
        "least_seconds": min(times),
        "most_seconds": max(times),
        "steps": len(times),
        "peak_mib": max(sample["peak_mib"] for sample in samples),
        "groups_per_second": job["groups"] / median,
        "tokens_per_second": tokens / median,
        "utilisation": 6 * (sample["body_weights"] * read + sample["head_weights"] * attempts) / median / flops,
    }


def bar_of(job):
    """Return groups per second and memory of a job as multiples of TRL's; None unless both were measured.

    TRL is faster without checkpointing and may need less memory with it: each figure is compared with the better of the two.
    """
    ours, trl = job["rows"].get("ours"), job["rows"].get("trl")
    if not ours or not trl:
        return None
    peaks = [row["peak_mib"] for row in (trl, job["rows"].get(CHECKPOINTING)) if row]
    bars = LONG if job["shape"] == (700, 200) and job["G"] == 8 else WORST
    bar = {
        "shape": job["shape"],
        "G": job["G"],
        "speed": trl["seconds"] / ours["seconds"],
        "least_speed": trl["least_seconds"] / ours["most_seconds"],
        "most_speed": trl["most_seconds"] / ours["least_seconds"],
        "speed_wanted": bars,
        "memory": ours["peak_mib"] / min(peaks),
        "memory_wanted": MEMORY,
    }
    return bar | {"met": bar["speed"] >= bars and bar["memory"] <= MEMORY}


def line_of(jobs, figure):
    """Fit a figure by a line over the tokens of a step, a + b tokens, by least squares of relative residuals."""
    rows = [job["rows"]["ours"] for job in jobs if job["rows"]["ours"]]
    tokens, values = (np.array([row[name] for row in rows], dtype=float) for name in ("packed_tokens", figure))
    slope, start = np.polyfit(tokens, values, 1, w=1 / values)
    residual = np.abs((start + slope * tokens) / values - 1).max()
    line = {"start": start, "per_1000_tokens": 1000 * slope, "largest_relative_residual": residual}
    return {"figure": figure, **{name: float(value) for name, value in line.items()}}


def summary_of(mode, jobs):
    """Return the summary of a mode, computed from its jobs."""
    if mode == "bars":
        return {"bars": [bar for job in jobs if (bar := bar_of(job))]}
    if mode == "linear":
        return {"lines": [line_of(jobs, figure) for figure in ("seconds", "peak_mib")]}
    return {}


def rounded(figures):
    """Return figures rounded for output."""
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in figures.items()}


def main(mode, trl, out, rounds, work):
    """Measure everything, and write the results after every measurement."""
    flops = 0.0
    jobs = [{**job, "rows": {}} for job in jobs_of(mode)]
    samples = {}
    for turn in range(rounds):
        flops = max(flops, matmul_flops())
        for number, job in enumerate(jobs):
            for way in job["ways"]:
                only_memory = mode == "bars" and way == CHECKPOINTING  # so a first step will do
                if only_memory and turn:
                    continue
                settings = {name: value for name, value in job.items() if name != "rows"}
                sample = measured({**settings, "way": way, "trl": trl, "warm": 0 if only_memory else job["warm"]}, turn, work)
                samples.setdefault((number, way), []).extend([sample] if sample else [])
                job["rows"][way] = row_of(samples[number, way], job, way, flops)
                shown = sample and {name: sample[name] for name in ("seconds", "peak_mib", "gradient")}
                print(turn + 1, job["shape"], job["G"], job["groups"], way, shown and rounded(shown), flush=True)
                result = {"machine": machine(), "matrix product, GFLOP/s": round(flops / 1e9), "rounds": rounds, "jobs": jobs}
                out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    summary = summary_of(mode, jobs)
    out.write_text(json.dumps(result | summary, indent=1) + "\n", encoding="utf-8")
    for figures in (figures for part in summary.values() for figures in part):
        print(rounded(figures))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("trl")
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, help="3 with --bars and --linear, else 1")
    parser.add_argument("--work", type=Path, help="folder for finished measurements, from which a call resumes")
    modes = parser.add_mutually_exclusive_group()
    for name in ("quick", "whole", "bars", "linear"):
        modes.add_argument(f"--{name}", action="store_const", const=name, dest="mode", default="all")
    given = parser.parse_args()
    chosen = "" if given.mode == "all" else f"{given.mode}_"
    place = given.out or RESULTS / f"train_step_{chosen}{DEVICE}.json"
    main(given.mode, given.trl, place, given.rounds or (3 if given.mode in ("bars", "linear") else 1), given.work)
