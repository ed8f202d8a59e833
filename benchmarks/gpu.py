"""Measurements that need a GPU, in at most eight minutes: python benchmarks/gpu.py [--small] [--out FOLDER] [--trl FOLDER] [PART ...]

Each part, and each measurement of a training step, runs in a forked process with a time limit, after one import of torch, transformers and TRL.
A part writes gpu_PART.json. If it cannot run here, the reason is printed and the other parts run; the last lines list the missing results.
``--small`` runs the same code with tiny models, also on a CPU; its measurements are meaningless.

    kinds      attention of packed rows against padded texts, forward and backward, in bfloat16, model by model
    curve      golden loss curves of tests/train/test_curves.py, in float32 on this device
    resume     a run that is stopped and resumed, and one that is repeated, against one that is not: the largest difference of a weight, with
               and without deterministic kernels, and what these cost
    step       a training step beside TRL: speed, memory, and the share of the device's arithmetic that it uses; one group of eight attempts in
               a forward pass, and four
    profile    the operations of that step, ours and TRL's, and of decoding, that take the longest on the device and on the CPU
    sampling   tokens a second of batched decoding, with and without CUDA graphs
    vllm       vLLM with sleep mode beside a trainer: share of memory, what sleep gives back, tokens a second
    largest    the largest model that trains, all weights and LoRA, and the computed memory against the measured
    moments    a step of AdamW with moments in float32, in bfloat16 and in 8 bits: seconds, and bytes of state per weight
"""

import argparse
import contextlib
import ctypes
import json
import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import time
import traceback
from functools import partial
from pathlib import Path

# Asking for a GPU otherwise starts the driver, which no forked process can use.
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
# So does torchao when it is imported, which transformers does where it is installed.
sys.modules["torchao"] = None

import torch  # noqa: E402
from machine import machine  # noqa: E402
from step_ways import COMPILED, DEVICE, QWEN, measured_job, qwen_config, random_qwen  # noqa: E402

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
SECONDS = {
    "kinds": 75,
    "curve": 40,
    "resume": 60,
    "step": 220,
    "profile": 100,
    "sampling": 80,
    "vllm": 110,
    "largest": 90,
    "moments": 60,
}
"""Parts in their order, and their time limits."""
PR_SET_PDEATHSIG = 1
FORKS = multiprocessing.get_context("fork")
ALL_SECONDS = 475
"""Time limit of all parts together, seconds; it also bounds the limits of the last parts."""
LEAST_SECONDS, SLOW = 5, 3
"""Shortest time in which a part is started, seconds; factor of all limits with ``--small``, which may run on a slow CPU."""
TINY = "qwen2-tiny-random"


def autocast():
    """Return the context in which a run in bfloat16 computes."""
    return torch.autocast(DEVICE, dtype=torch.bfloat16)


def kinds(options):
    """Return, by kind of model, the attention that was chosen and its difference from padded texts."""
    from tests.train.test_kinds import KINDS, batch_of, model_of
    from upsolve.train.update import reference_scorer as scorers

    results, size = {}, {} if DEVICE == "cpu" else {"head_dim": 16}
    for kind in [*KINDS][: 2 if options.small else None]:
        model, batch = model_of(kind, **({} if kind == "GPT2" else size)).to(DEVICE), batch_of()
        chosen = scorers.choose_scorer(model, batch, autocast)
        results[kind] = {"attention": model.config._attn_implementation, "packed": chosen is not scorers.padded_scores}
    return results


def curve(_options):
    """Return the largest difference of a loss from the golden curves."""
    from tests.tiny import write_tiny_model
    from tests.train.test_curves import GOLDEN, GROUPS, stages_of
    from upsolve.config import Recipe
    from upsolve.train.loop import train

    differences = {}
    with tempfile.TemporaryDirectory() as folder:
        tiny = write_tiny_model(Path(folder) / "tiny")
        for kind, losses in GOLDEN.items():
            rows = train(Recipe.model_validate(stages_of(kind, tiny)), GROUPS, [], Path(folder) / kind).metrics
            differences[kind] = max(abs(row["loss"] - loss) for row, loss in zip(rows, losses, strict=True))
    return differences


class StopError(Exception):
    """Ends a run after some steps."""


def weights_of(folder, recipe, stop=0):
    """Return the weights of a run in a folder, stopped and resumed after a number of steps, and the seconds of its steps."""
    from tests.train.test_curves import GROUPS
    from upsolve.policy.model import load_model
    from upsolve.train.loop import train

    def stopped(done, _all, _row):
        if done == stop:
            raise StopError

    if stop:
        with contextlib.suppress(StopError):
            train(recipe, GROUPS, [], folder, on_step=stopped)
    done = train(recipe, GROUPS, [], folder)
    seconds = sorted(row["seconds"] for row in done.metrics)[len(done.metrics) // 2]
    return torch.cat([parameter.flatten() for parameter in load_model(str(done.folder)).parameters()]).detach(), seconds


def resume(_options):
    """Return the largest differences of a weight between runs that should be equal, with and without deterministic kernels."""
    from tests.tiny import write_tiny_model
    from tests.train.test_curves import OPTIM
    from upsolve.config import Recipe

    results = {}
    with tempfile.TemporaryDirectory() as folder:
        tiny = write_tiny_model(Path(folder) / "tiny")
        for mode in ("default", "deterministic"):
            stages = {"model": {"name": tiny}, "data": {"group_size": 6}, "monitor": {"heldout": 0, "save_every": 1}}
            recipe = Recipe.model_validate({**stages, "optim": {**OPTIM, "deterministic": mode == "deterministic"}})
            uninterrupted, seconds = weights_of(Path(folder) / mode / "whole", recipe)
            others = {
                name: weights_of(Path(folder) / mode / name, recipe, stop)[0]
                for name, stop in (("repeated", 0), ("resumed", 6))
            }
            results[mode] = {name: float((uninterrupted - other).abs().max()) for name, other in others.items()} | {
                "seconds": seconds
            }
    return results


def step_job(options, tokenizer):
    """Return what the measurements of a training step (step_ways.py) have in common."""
    job = {"layers": 0, "groups": 1, "warm": 1, "optimiser": False, "G": 8, "trl": options.trl, "tokenizer": tokenizer}
    return {**job, "shape": (24, 8) if options.small else (700, 200)}


def step(options):
    """Return seconds, memory and utilisation of a training step of upsolve and of TRL by model and groups in a forward pass, and their ratios.

    Measurements end 10 s before the time limit of the part.
    """
    from train_step import CHECKPOINTING, bar_of, matmul_flops, row_of

    from tests.tiny import write_tiny_model

    flops, results = forked(matmul_flops, 30 * SLOW)[1], {}
    tokenizer = write_tiny_model(Path(tempfile.mkdtemp()) / "tiny")
    for model in [TINY] if options.small else ["qwen2-0.5b-random", "qwen2-1.5b-random"]:
        compiled = [] if model == "qwen2-1.5b-random" else [COMPILED]  # compiling takes a while
        ways = ["ours", "trl", "ours, checkpointing", CHECKPOINTING, *compiled]
        for together in (1, 4):
            shape = {"groups": together, "together": together, "model": model, "steps": 12, "rows": {}}
            job = {**step_job(options, tokenizer), **shape}
            for way in ways:
                if options.trl or not way.startswith("trl"):
                    sample = step_sample({**job, "way": way}, options.ends - time.monotonic() - 10)
                    job["rows"][way] = row_of([sample] if sample else [], job, way, flops)
            names = ("seconds", "first_seconds", "peak_mib", "utilisation", "gradient")
            rows = {way: {name: row[name] for name in names} if row else "not done" for way, row in job["rows"].items()}
            beside = bar_of(job) or "not done: TRL is not installed, or failed"
            results[f"{model}, {together} in a pass"] = {**rows, "beside TRL": beside}
    return {"matrix product, TFLOP/s": flops / 1e12, "rows": results}


def step_sample(job, left):
    """Return a measurement of a training step in a forked process; None if it fails, or takes longer than is left, seconds."""
    done, result = forked(partial(measured_job, job), min(50 * SLOW, left))
    if not done:
        print(f"{job['way']}, {job['model']}: {result[-800:]}", file=sys.stderr)
    return result if done else None


def profile(options):
    """Return the operations that take the longest in a step of the smallest model, of upsolve and of TRL, and in decoding."""
    from tests.tiny import write_tiny_model

    tokenizer = write_tiny_model(Path(tempfile.mkdtemp()) / "tiny")
    job = {**step_job(options, tokenizer), "model": TINY if options.small else "qwen2-0.5b-random", "steps": 5, "profile": True}
    results = {}
    for way in ["ours", "ours, float32 weights", *(["trl"] if options.trl else [])]:
        sample = step_sample({**job, "way": way}, options.ends - time.monotonic() - LEAST_SECONDS)
        results[way] = {name: sample[name] for name in ("seconds", "profile")} if sample else "not done"
    for batch in (4,) if options.small else (64, 256):
        done, decoding = forked(partial(decoding_profile, options, batch), options.ends - time.monotonic())
        results[f"decoding {batch}"] = decoding if done else f"not done: {decoding[-300:]}"
    return results


def decoding_profile(options, batch):
    """Return the operations that take the longest in decoding 256 attempts, 4 tokens each, in a number of slots."""
    from step_ways import profiled

    run = sampler(options, batch=batch, max_tokens=4)
    run()
    return profiled(lambda _groups: run(), 1)


def random_policy(name, config):
    """Return a policy with random weights, created on the device in the dtypes of ``load_policy``, without a copy in float32."""
    from transformers import AutoModelForCausalLM

    from upsolve.policy.model import checkpoint_layers, rounded, with_adapters, with_weights

    with torch.device("meta"):
        blank = AutoModelForCausalLM.from_config(qwen_config(name))
        blank.tie_weights()
        blank = rounded(with_adapters(blank, config, seed=0), config)
    weights = (
        torch.empty(parameter.shape, dtype=parameter.dtype, device=DEVICE).normal_(std=0.02) for parameter in blank.parameters()
    )
    model = with_weights(blank, weights)
    decoder = model.get_decoder()
    with torch.device(DEVICE):
        decoder.rotary_emb = type(decoder.rotary_emb)(config=decoder.config)  # buffers are not weights
    if config.gradient_checkpointing:
        checkpoint_layers(model, name)
    return model.train()


def one_step(name, config, prompt, attempt):
    """Do two training steps of a model; return the computed and the measured memory, GiB."""
    from upsolve.config import OptimConfig
    from upsolve.policy.model import trainable
    from upsolve.train.data.encode import EncodedAttempt, EncodedGroup
    from upsolve.train.data.pack import pack
    from upsolve.train.run.memory import GroupShape, plan_memory, sizes_of
    from upsolve.train.update.logprobs import token_scores
    from upsolve.train.update.reference_scorer import packed_scorers

    group = GroupShape(prompt, 4, attempt)
    shape = sizes_of(qwen_config(name), config)
    plan = plan_memory(shape, model=config, optim=OptimConfig(tokens_per_batch=max(64, group.tokens)), group=group)
    free = torch.cuda.mem_get_info()[0] if DEVICE == "cuda" else plan.peak_bytes
    if plan.peak_bytes > 1.05 * free:
        return {"planned_gib": plan.peak_bytes / 2**30, "fits": False}
    model = random_policy(name, config)
    model.set_attn_implementation(packed_scorers(model)[0][0])
    optimizer = torch.optim.AdamW(trainable(model), lr=1e-5, fused=True)  # as the trainer
    encoded = EncodedAttempt(tuple(range(3, 3 + attempt)), torch.zeros(attempt).numpy())
    batch = pack([[EncodedGroup(tuple(range(3, 3 + prompt)), (encoded,) * 4)]])
    for _ in range(2):
        with torch.autocast(DEVICE, dtype=torch.bfloat16, cache_enabled=not config.gradient_checkpointing):
            loss = token_scores(model, batch).logp_T.mean()
        loss.backward()
        optimizer.step()
    measured = torch.cuda.max_memory_allocated() if DEVICE == "cuda" else 0
    return {"planned_gib": plan.peak_bytes / 2**30, "measured_gib": measured / 2**30, "fits": True}


def largest(options):
    """Return the largest model that trains, for all weights and for LoRA, with and without checkpointing, and those that did not fit."""
    from upsolve.config import ModelConfig

    results, sizes = {}, (8, 8) if options.small else (700, 200)
    for rank, checkpointing in ((0, False), (0, True), (16, False), (16, True)):
        config = ModelConfig(lora_rank=rank, gradient_checkpointing=checkpointing)
        method = f"{'LoRA' if rank else 'all weights'}{', checkpointing' if checkpointing else ''}"
        for name in [TINY] if options.small else [name for name in reversed(QWEN) if name != TINY]:
            try:
                results[f"{method}: {name}"] = one_step(name, config, *sizes)
            except torch.OutOfMemoryError as error:
                results[f"{method}: {name}"] = {"fits": False, "why": str(error)[:200]}
            if DEVICE == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            if results[f"{method}: {name}"]["fits"]:
                break
    return results


def sampler(options, *, batch, max_tokens):
    """Return a function that samples 256 attempts (16 with ``--small``) in a number of slots and returns their tokens and log-probabilities."""
    from tests.tiny import write_tiny_model
    from upsolve.config import SampleConfig
    from upsolve.policy.decoding.sample import sample
    from upsolve.policy.model import load_codec
    from upsolve.types import Task

    codec = load_codec(write_tiny_model(Path(tempfile.mkdtemp()) / "tiny"))
    model = random_qwen(TINY if options.small else "qwen2-0.5b-random", torch.float32 if DEVICE == "cpu" else torch.bfloat16)
    model.name_or_path = "random"
    statements = [f"Return the sum of {number} numbers. " * 10 for number in range(4 if options.small else 64)]
    tasks = [Task(f"t{number}", statement) for number, statement in enumerate(statements)]
    config = SampleConfig(samples=4, batch=batch, max_tokens=max_tokens, temperature=1.0, top_p=1.0)

    def run():
        attempts = list(sample(model, codec, tasks, config=config))
        return [(a.token_ids, a.token_logps) for a in sorted(attempts, key=lambda a: (a.task_id, a.token_ids))]

    return run


def sampling(options):
    """Return tokens per second by the number of sequences decoded at once, with and without CUDA graphs, and whether both give the same."""
    from upsolve.policy.decoding import sample as module
    from upsolve.policy.decoding.batched_decode import decode_step

    rates, usual = {}, module.decoder_of
    for batch in (4,) if options.small else (64, 256):
        run, made = sampler(options, batch=batch, max_tokens=8 if options.small else 128), []
        run()
        for way in ("", ", without graphs"):
            module.decoder_of = usual if not way else lambda model, cache: partial(decode_step, model, cache)
            started = time.monotonic()
            made.append(run())
            tokens = sum(len(ids) for ids, _ in made[-1])
            rates[f"{batch} sequences{way}"] = tokens / (time.monotonic() - started)
        module.decoder_of = usual
        rates[f"{batch} sequences, equal attempts"] = sum(a == b for a, b in zip(*made, strict=True)) / len(made[0])
        first = (sum(logps) for _, logps in (pair[0] for pair in made))
        rates[f"{batch} sequences, log-probabilities of the first attempt"] = [*first]
    return {"tokens_per_second": rates}


def vllm(options):
    """Return vLLM's memory beside a trainer, the memory that its sleep mode frees, its speed, and the time to wake up."""
    try:
        import vllm as engine
    except ImportError as error:
        return {"not done": f"vLLM cannot be imported: {error}"}
    if DEVICE == "cpu" or options.small:
        return {"not done": "sleep mode needs a GPU, and a model that vLLM's kernels support"}
    from tests.tiny import write_tiny_model
    from upsolve.config import ModelConfig, OptimConfig, SampleConfig
    from upsolve.policy.model import frozen_copy, load_codec
    from upsolve.policy.vllm import VllmFollower
    from upsolve.train.run.memory import GroupShape, beside_trainer, plan_memory, sizes_of
    from upsolve.types import Task

    name, config = "qwen2-1.5b-random", ModelConfig()
    plan = plan_memory(sizes_of(qwen_config(name), config), model=config, optim=OptimConfig(), group=GroupShape(200, 4, 128))
    given = SampleConfig(engine="vllm", samples=4, max_tokens=128, temperature=1.0, top_p=1.0, vllm={"compile": False})
    rollout, rounds = beside_trainer(given, plan), []
    model = random_policy(name, config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    with tempfile.TemporaryDirectory() as folder:
        codec = load_codec(write_tiny_model(Path(folder) / "tiny"))
        follow = VllmFollower(config, Path(folder) / "policy")
        tasks = [Task(f"t{number}", "Return the sum of two numbers. " * 10) for number in range(64)]
        for _ in range(2):
            started = time.monotonic()
            attempts = follow(frozen_copy(model, torch.bfloat16), codec, tasks, config=rollout)
            first = next(attempts)
            awake, ready = torch.cuda.mem_get_info()[0], time.monotonic()
            tokens = first.tokens + sum(attempt.tokens for attempt in attempts)
            asleep, ended = torch.cuda.mem_get_info()[0], time.monotonic()
            for parameter in model.parameters():
                parameter.grad = torch.zeros_like(parameter)
            optimizer.step()  # the trainer allocates gradients and moments while vLLM sleeps
            optimizer.zero_grad()
            rounds.append({"seconds_to_first_chunk": ready - started, "given_back_gib": (asleep - awake) / 2**30})
            rounds[-1]["tokens_per_second"] = tokens / (ended - started)
    return {"vllm": engine.__version__, "share": rollout.vllm.memory, "rounds": rounds}


def moments(options):
    """Return, by the type of AdamW's moments, the median seconds of a step over a model's weights, and bytes of moments per weight."""
    from upsolve.config import ModelConfig, OptimConfig
    from upsolve.train.update.optimizer import adamw

    sys.modules.pop("torchao")
    results = {}
    policy = random_policy(TINY if options.small else "qwen2-1.5b-random", ModelConfig())
    weights = [parameter for parameter in policy.parameters() if parameter.requires_grad]
    for weight in weights:
        weight.grad = torch.randn_like(weight)
    count = sum(weight.numel() for weight in weights)
    for kind in ("float32", "bfloat16", "int8"):
        try:
            optimizer = adamw({"policy": weights}, OptimConfig(lr=1e-5, moments=kind), value_lr=1e-5, fused=True)
            seconds = [timed(optimizer.step) for _ in range(10)]
        except ImportError as error:
            results[kind] = f"not done: {error}"
            continue
        stored = sum(bytes_of(held) for state in optimizer.state.values() for held in state.values())
        results[kind] = {
            "seconds": statistics.median(seconds[3:]),
            "first_seconds": seconds[0],
            "bytes_per_weight": stored / count,
        }
    return {"weights": count, "moments": results}


def timed(function):
    """Return the seconds that a call takes, until the device has finished."""
    started = time.monotonic()
    function()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return time.monotonic() - started


def bytes_of(held):
    """Return the bytes of an entry of an optimizer's state, which can be a tensor of several parts."""
    if not isinstance(held, torch.Tensor):
        return 0
    parts = [getattr(held, name) for name in ("codes", "scale", "qmap") if hasattr(held, name)] or [held]
    return sum(part.numel() * part.element_size() for part in parts)


PARTS = {
    "kinds": kinds,
    "curve": curve,
    "resume": resume,
    "step": step,
    "profile": profile,
    "sampling": sampling,
    "vllm": vllm,
    "largest": largest,
    "moments": moments,
}


def answer(function, sender):
    """Send (True, what a function returns) or (False, why it failed). A process that is killed takes those that it forked along."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        sender.send((True, function()))
    except BaseException:
        sender.send((False, traceback.format_exc()[-1500:]))


def forked(function, limit):
    """Run a function in a forked process; return (True, its result), or (False, why it has none) after at most ``limit`` seconds."""
    if limit < LEAST_SECONDS:
        return False, "not done: no time is left"
    receiver, sender = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=answer, args=(function, sender))
    process.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(limit) else (False, f"not done within {limit:.0f} s")
    except EOFError:
        process.join()
        return False, f"the process ended with {process.exitcode}"
    finally:
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
        process.join()


def preload(options):
    """Import what the parts need, without starting the driver of the GPU."""
    import transformers.models.qwen2.modeling_qwen2  # noqa: F401

    import upsolve.policy.decoding.sample
    import upsolve.train.loop  # noqa: F401

    if options.trl:
        sys.path.append(options.trl)
        from trl import GRPOConfig, GRPOTrainer  # noqa: F401


def run_part(name, options, limit):
    """Run a part in a forked process; return its result, or the reason why it has none."""
    started = time.monotonic()
    options.ends = started + limit
    done, result = forked(partial(PARTS[name], options), limit)
    if not done:
        result = {"not done" if "not done" in result else "failed": f"{result}; run it alone: gpu.py {name}"}
    return {"part": name, "machine": forked(machine, 60)[1], "seconds": time.monotonic() - started, "result": result}


def not_done(name, result):
    """Yield the missing results of a part, with reasons."""
    for key in ("failed", "not done"):
        if key in result:
            yield f"{name}: {key}: {str(result[key])[-300:]}"
    if name == "moments":
        yield from (f"moments, {kind}: {found}" for kind, found in result.get("moments", {}).items() if isinstance(found, str))
    if name == "profile":
        yield from (f"profile, {way}: {found}" for way, found in result.items() if isinstance(found, str))
    if name == "step":
        for model, rows in result.get("rows", {}).items():
            yield from (f"step, {model}, {way}: {problem}" for way, problem in rows.items() if isinstance(problem, str))
    if name == "kinds":
        yield from (
            f"kinds, {kind}: padded texts" for kind, entry in result.items() if isinstance(entry, dict) and not entry["packed"]
        )


def main(options):
    """Run the parts and write their results; exit with 1 if one failed."""
    failed, missing, started = False, [], time.monotonic()
    for name in options.parts or PARTS:
        left = ALL_SECONDS - (time.monotonic() - started)
        limit = SLOW * SECONDS[name] if options.small else min(options.limit or SECONDS[name], left)
        result = run_part(name, options, limit)
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / f"gpu_{name}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        failed |= "failed" in result["result"]
        missing += not_done(name, result["result"])
        print(f"{name:<10} {result['seconds']:6.1f} s  {json.dumps(result['result'])[:2000]}", flush=True)
    print("not done:" if missing else "all results are complete", *missing, sep="\n  ", flush=True)
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parser.add_argument("--small", action="store_true", help="tiny models")
    parser.add_argument("--cold", action="store_true", help="import torch's companions in each process, not once before them")
    parser.add_argument("--limit", type=float, default=0, help="time limit of each part, seconds (0: its own)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--trl", default="", help="folder with TRL, or . if it is installed")
    options = parser.parse_args()
    if DEVICE == "cpu" and not options.small:
        sys.exit("gpu.py: no GPU here; --small runs the same code with tiny models on the CPU")
    if not options.cold:
        preload(options)
    if not (started := forked(lambda: torch.ones(1, device=DEVICE).item(), 60))[0]:
        sys.exit(f"gpu.py: a forked process cannot use the GPU; try --cold: {started[1]}")
    sys.exit(main(options))
