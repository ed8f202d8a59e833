"""All that only a GPU can show, in at most eight minutes: python benchmarks/gpu.py [--small] [--out FOLDER] [--trl FOLDER] [PART ...]

Each part runs in a separate process with a time limit and writes gpu_PART.json. A part that cannot run here says why, and the others
go on. ``--small`` runs the same code with tiny models, on a CPU as well; its figures mean nothing.

    kinds      attention of packed rows against padded texts, forward and backward, in bfloat16, model by model
    curve      golden loss curves of tests/train/test_curves.py, in float32 on this device
    resume     a run that is stopped and resumed against one that is not: the largest difference of a weight
    step       a training step beside TRL, and the share of the device's arithmetic that it uses
    largest    the largest model that trains, all weights and LoRA, and the computed memory against the measured
    sampling   tokens a second of batched decoding
    vllm       vLLM with sleep mode beside a trainer's memory
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import torch
from machine import machine
from step_ways import DEVICE, QWEN, qwen_config, random_qwen

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
SECONDS = {"kinds": 120, "curve": 60, "resume": 60, "step": 240, "largest": 150, "sampling": 90, "vllm": 120}
"""Parts, and their time limits."""
TINY = "qwen2-tiny-random"


def autocast():
    """Return the context in which a run in bfloat16 computes."""
    return torch.autocast(DEVICE, dtype=torch.bfloat16)


def kinds(small, _trl):
    """Return, by kind of model, the attention that was chosen and its difference from padded texts."""
    from tests.train.test_kinds import KINDS, batch_of, model_of
    from upsolve.train import reference_scorer as scorers

    found, size = {}, {} if DEVICE == "cpu" else {"head_dim": 16}
    for kind in [*KINDS][: 2 if small else None]:
        model, batch = model_of(kind, **({} if kind == "GPT2" else size)).to(DEVICE), batch_of()
        chosen = scorers.choose_scorer(model, batch, autocast)
        found[kind] = {"attention": model.config._attn_implementation, "packed": chosen is not scorers.padded_scores}
    return found


def curve(_small, _trl):
    """Return the largest difference of a loss from the golden curves."""
    from tests.conftest import write_tiny_model
    from tests.train.test_curves import GOLDEN, GROUPS, OPTIM
    from upsolve.config import Recipe
    from upsolve.train.loop import train

    apart = {}
    with tempfile.TemporaryDirectory() as place:
        tiny = write_tiny_model(Path(place) / "tiny")
        for kind, losses in GOLDEN.items():
            stages = {"model": {"name": tiny, "bf16": False}, "data": {"group_size": 6}, "monitor": {"heldout": 0}}
            stages |= {"objective": {"kind": kind, "reduce": "token_mean"}, "optim": OPTIM}
            rows = train(Recipe.model_validate(stages), GROUPS, [], Path(place) / kind).metrics
            apart[kind] = max(abs(row["loss"] - loss) for row, loss in zip(rows, losses, strict=True))
    return apart


class StopError(Exception):
    """Ends a run after some steps."""


def resume(_small, _trl):
    """Return the largest difference of a weight between a run that was stopped after six steps and one that was not."""
    from tests.conftest import write_tiny_model
    from tests.train.test_curves import GROUPS, OPTIM
    from upsolve.config import Recipe
    from upsolve.policy.model import load_model
    from upsolve.train.loop import train

    def stop(done, _all, _row):
        if done == 6:
            raise StopError

    with tempfile.TemporaryDirectory() as place:
        stages = {"model": {"name": write_tiny_model(Path(place) / "tiny")}, "data": {"group_size": 6}, "optim": OPTIM}
        recipe = Recipe.model_validate({**stages, "monitor": {"heldout": 0, "save_every": 1}})
        whole = load_model(str(train(recipe, GROUPS, [], Path(place) / "whole").folder))
        with contextlib.suppress(StopError):
            train(recipe, GROUPS, [], Path(place) / "stopped", on_step=stop)
        again = load_model(str(train(recipe, GROUPS, [], Path(place) / "stopped").folder))
    pairs = zip(whole.parameters(), again.parameters(), strict=True)
    return {"largest_difference": max(float((a - b).abs().max()) for a, b in pairs)}


def step(small, trl):
    """Return seconds, memory and utilisation of a step of ours and of TRL's, by model."""
    from train_step import matmul_flops, measure, row_of

    from tests.conftest import write_tiny_model

    flops, rows = matmul_flops(), {}
    tokenizer = write_tiny_model(Path(tempfile.mkdtemp()) / "tiny")
    for model in [TINY] if small else ["qwen2-0.5b-random", "qwen2-1.5b-random"]:
        job = {
            "model": model,
            "layers": 0,
            "steps": 3,
            "groups": 1,
            "warm": 1,
            "optimiser": False,
            "G": 8,
            "tokenizer": tokenizer,
        }
        job |= {"shape": (24, 8) if small else (700, 200), "trl": trl}
        for way in ["ours", *(["trl", "trl, checkpointing"] if trl else [])]:
            said = measure({**job, "way": way}, limit=60)
            row = row_of([said] if said else [], job, way, flops)
            rows[f"{model}: {way}"] = row and {name: row[name] for name in ("seconds", "peak_mib", "utilisation", "gradient")}
    return {"matrix product, TFLOP/s": flops / 1e12, "trl": bool(trl), "rows": rows}


def one_step(name, rank, prompt, attempt):
    """Do a training step of a model; return what was computed and what was measured, bytes."""
    from upsolve.config import ModelConfig, OptimConfig
    from upsolve.policy.model import trainable, with_adapters
    from upsolve.train.encode import EncodedAttempt, EncodedGroup
    from upsolve.train.logprobs import token_scores
    from upsolve.train.memory import plan_memory
    from upsolve.train.pack import pack
    from upsolve.train.reference_scorer import packed_scorers
    from upsolve.train.shapes import GroupShape, sizes_of

    config = ModelConfig(lora_rank=rank)
    group = GroupShape(prompt, 4, attempt)
    shape = sizes_of(qwen_config(name), config)
    plan = plan_memory(shape, model=config, optim=OptimConfig(tokens_per_batch=max(64, group.tokens)), group=group)
    free = torch.cuda.mem_get_info()[0] if DEVICE == "cuda" else plan.peak_bytes
    if plan.peak_bytes > 1.1 * free:
        return {"planned_gib": plan.peak_bytes / 2**30, "fits": False}
    model = with_adapters(random_qwen(name, torch.float32), config, seed=0)
    model.set_attn_implementation(packed_scorers(model)[0][0])
    optimizer = torch.optim.AdamW(trainable(model), lr=1e-5)
    ids = tuple(range(3, 3 + attempt))
    one = EncodedAttempt(ids, torch.zeros(attempt).numpy())
    batch = pack([[EncodedGroup(tuple(range(3, 3 + prompt)), (one,) * 4)]])
    for _ in range(2):
        with autocast():
            loss = token_scores(model, batch).logp_T.mean()
        loss.backward()
        optimizer.step()
    measured = torch.cuda.max_memory_allocated() if DEVICE == "cuda" else 0
    return {"planned_gib": plan.peak_bytes / 2**30, "measured_gib": measured / 2**30, "fits": True}


def largest(small, _trl):
    """Return, for all weights and for LoRA, which models do a training step, up to the first that does not."""
    found = {}
    for way, rank in (("all weights", 0), ("LoRA", 16)):
        for name in [TINY] if small else [name for name in QWEN if name != TINY]:
            sizes = (8, 8) if small else (700, 200)
            try:
                found[f"{way}: {name}"] = one_step(name, rank, *sizes)
            except torch.OutOfMemoryError as error:
                found[f"{way}: {name}"] = {"fits": False, "why": str(error)[:200]}
            if DEVICE == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            if not found[f"{way}: {name}"]["fits"]:
                break
    return found


def sampling(small, _trl):
    """Return tokens a second by the number of sequences decoded at once."""
    from tests.conftest import write_tiny_model
    from upsolve.config import SampleConfig
    from upsolve.policy.model import load_codec
    from upsolve.policy.sample import sample
    from upsolve.types import Task

    codec = load_codec(write_tiny_model(Path(tempfile.mkdtemp()) / "tiny"))
    model = random_qwen(TINY if small else "qwen2-0.5b-random", torch.float32 if DEVICE == "cpu" else torch.bfloat16)
    model.name_or_path, rates = "random", {}
    tasks = [Task(f"t{number}", "Return the sum of two numbers. " * 10) for number in range(4 if small else 64)]
    for batch in (4,) if small else (64, 256):
        config = SampleConfig(samples=4, batch=batch, max_tokens=8 if small else 128, temperature=1.0, top_p=1.0)
        run = partial(sample, model, codec, tasks, config=config)
        sum(1 for _ in run())
        started = time.monotonic()
        tokens = sum(attempt.tokens for attempt in run())
        rates[f"{batch} sequences"] = tokens / (time.monotonic() - started)
    return {"tokens_per_second": rates}


def vllm(small, _trl):
    """Return the memory that vLLM gives back when it sleeps, and how long it takes to wake up."""
    try:
        import vllm as engine
    except ImportError as error:
        return {"not done": f"vLLM cannot be imported: {error}"}
    from tests.conftest import write_tiny_model

    if DEVICE == "cpu" or small:
        return {"not done": "sleep mode needs a GPU"}
    with tempfile.TemporaryDirectory() as place:
        folder = write_tiny_model(Path(place) / "tiny")
        llm = engine.LLM(model=folder, enable_sleep_mode=True, gpu_memory_utilization=0.3, enforce_eager=True)
        before = torch.cuda.mem_get_info()[0]
        llm.sleep(level=1)
        asleep, started = torch.cuda.mem_get_info()[0], time.monotonic()
        llm.wake_up()
    return {"given_back_gib": (asleep - before) / 2**30, "seconds_to_wake": time.monotonic() - started}


PARTS = {"kinds": kinds, "curve": curve, "resume": resume, "step": step, "largest": largest, "sampling": sampling, "vllm": vllm}


def run_part(name, given):
    """Run a part in a separate process; return its result, or why there is none."""
    command = [sys.executable, "-W", "ignore", __file__, "--here", *(["--small"] if given.small else [])]
    command += [*(["--trl", given.trl] if given.trl else []), name]
    started = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS[name])
        result = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"failed": done.stderr[-1500:]}
    except subprocess.TimeoutExpired:
        result = {"not done": f"longer than {SECONDS[name]} s"}
    return {"part": name, "machine": machine(), "seconds": time.monotonic() - started, "result": result}


def main(given):
    """Run the parts and write them down; exit 1 where one failed."""
    failed = False
    for name in given.parts or PARTS:
        said = run_part(name, given)
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / f"gpu_{name}.json").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
        failed |= "failed" in said["result"]
        print(f"{name:<10} {said['seconds']:6.1f} s  {json.dumps(said['result'])[:2000]}", flush=True)
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parser.add_argument("--small", action="store_true", help="tiny models")
    parser.add_argument("--here", action="store_true", help="run one part in this process and print its result")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--trl", default="", help="folder with TRL, or . where it is installed")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(PARTS[options.parts[0]](options.small, options.trl)))
        sys.exit()
    if DEVICE == "cpu" and not options.small:
        sys.exit("gpu.py: no GPU here; --small runs the same code with tiny models on the CPU")
    sys.exit(main(options))
