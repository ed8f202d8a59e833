"""Sampling on a CPU beside peers, in one run: python benchmarks/sampling_peers.py VLLM_PYTHON LLAMA_SERVER [--rounds 3] [--tasks 64] [--samples 8] [--ways NAME ...]

VLLM_PYTHON is the interpreter of an environment with vLLM and upsolve[train] (`make test-vllm` makes .venv-vllm so). Every way samples the same
tasks of the embedded archive from SmolLM2-135M-Instruct, in bfloat16 or, where the processor does not multiply it, in float32, at temperature 1,
up to 96 tokens per attempt, after a first task that does not count. Ways:

    batched decoding       upsolve's, with 64, 128, 256 or 512 attempts at once
    generate               transformers' generate, the attempts at one task at a time
    continuous batching    transformers' generate_batch
    vllm, vllm compiled    vLLM in this process
    llama.cpp              its server, with 64 attempts at once; LLAMA_SERVER should be built for this processor
                           (cmake -B build -DGGML_NATIVE=ON && cmake --build build --target llama-server)

Rounds are interleaved; each way runs in a separate process. Writes results/sampling_peers.json, in float32
results/sampling_peers_float32.json.
"""

import argparse
import atexit
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import Request, urlopen

RESULTS = Path(__file__).parent / "results"
MODEL, MOST = "smollm2-135m", 96
WAYS = {
    "batched decoding, 64": ("batched", 64),
    "batched decoding, 128": ("batched", 128),
    "batched decoding, 256": ("batched", 256),
    "batched decoding, 512": ("batched", 512),
    "generate": ("generate", 0),
    "continuous batching": ("continuous", 0),
    "vllm": ("vllm", 0),
    "vllm, compiled": ("vllm", 1),
    "llama.cpp": ("llama", 64),
}
QUIET = {"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "WARNING", "HF_HUB_OFFLINE": "1"}


def precision():
    """Return the name of the precision in which models compute on this machine."""
    from performance import model_dtype

    return str(model_dtype()).removeprefix("torch.")


def tasks_of(count):
    """Return tasks of the embedded archive."""
    from upsolve.archive.store import open_archive

    return open_archive("embedded").tasks()[:count]


def by_engine(recipe):
    """Return a function that samples tasks by the engine of a recipe and returns the number of tokens."""
    from upsolve.policy.engines import sampler

    policy = sampler(recipe.sample, recipe.model)
    return lambda part: sum(attempt.tokens for attempt in policy(part, config=recipe.sample))


def by_transformers(recipe, continuous):
    """Return a function that samples tasks by transformers and returns the number of tokens."""
    import torch
    from performance import model_dtype
    from transformers import GenerationConfig

    from upsolve.policy.model import load_codec, load_model

    model, codec = load_model(MODEL, dtype=model_dtype()), load_codec(MODEL)
    settings = GenerationConfig(
        do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=MOST, eos_token_id=2, pad_token_id=0
    )

    def one_by_one(part):
        tokens = 0
        for task in part:
            ids = torch.tensor([codec.prompt(task).ids_P] * recipe.sample.samples)
            out = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings)[:, ids.shape[1] :]
            tokens += int((out != 0).sum())
        return tokens

    def batched(part):
        prompts = [list(codec.prompt(task).ids_P) for task in part for _ in range(recipe.sample.samples)]
        done = model.generate_batch(inputs=prompts, generation_config=settings)
        return sum(len(answer.generated_tokens) for answer in done.values())

    return batched if continuous else one_by_one


def await_server(url):
    """Wait until a server answers, for at most half a minute."""
    for _ in range(300):
        try:
            return urlopen(url).close()
        except OSError:  # not listening yet, or 503 while it loads the model
            time.sleep(0.1)
    raise SystemExit(f"{url} does not answer")


def by_llama_cpp(recipe, lanes, binary):
    """Return a function that samples tasks by llama.cpp's server and returns the number of tokens; without log-probabilities, which slow it."""
    from upsolve.exports.model import export_model
    from upsolve.policy.model import load_codec

    folder, codec = tempfile.mkdtemp(), load_codec(MODEL)
    atexit.register(shutil.rmtree, folder)
    file = export_model(MODEL, Path(folder) / "model.gguf", kind={"bfloat16": "bf16"}.get(precision(), "f32"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ("-m", file, "--port", port, "-np", lanes, "-c", 640 * lanes, "-t", os.cpu_count())
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    atexit.register(subprocess.Popen([binary, *map(str, words)], **quiet).kill)
    settings = {"n_predict": MOST, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "stop": codec.stops}

    url = f"http://127.0.0.1:{port}"
    await_server(f"{url}/health")

    def post(body):
        data, kind = json.dumps({**settings, **body}).encode(), {"content-type": "application/json"}
        with urlopen(Request(f"{url}/completion", data, kind)) as answer:
            return json.load(answer)["tokens_predicted"]

    def batched(part):
        prompts = [list(codec.prompt(task).ids_P) for task in part for _ in range(recipe.sample.samples)]
        with ThreadPoolExecutor(lanes) as pool:
            return sum(pool.map(post, ({"prompt": prompt, "seed": seed} for seed, prompt in enumerate(prompts))))

    return batched


def measure_here(name, count, samples, llama_server):
    """Sample in this process; return tokens and seconds."""
    from upsolve.cli.main import configure_libraries
    from upsolve.config import load_recipe

    configure_libraries()  # as the command line does, before torch is imported
    kind, number = WAYS[name]
    settings = [f"sample.samples={samples}", f"sample.max_tokens={MOST}", "sample.temperature=1", "sample.top_p=1"]
    if kind == "vllm":
        settings += ["sample.engine=vllm", "sample.vllm.context_tokens=1024", f"sample.vllm.compile={bool(number)}"]
    recipe = load_recipe("demo_python", [*settings, f"sample.batch={number if kind == 'batched' else 64}"])
    tasks = tasks_of(count + 1)
    if kind == "llama":
        run = by_llama_cpp(recipe, number, llama_server)
    else:
        run = by_engine(recipe) if kind in ("batched", "vllm") else by_transformers(recipe, kind == "continuous")
    run(tasks[:1])
    started = time.monotonic()
    tokens = run(tasks[1:])
    return {"tokens": tokens, "seconds": time.monotonic() - started}


def measure(name, given):
    """Sample in a separate process; if it fails, print the reason and return None."""
    python = given.vllm_python if WAYS[name][0] == "vllm" else sys.executable
    command = [python, "-W", "ignore", __file__, given.vllm_python, given.llama_server, "--one", name]
    done = subprocess.run(
        [*command, "--tasks", str(given.tasks), "--samples", str(given.samples)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **QUIET},
    )
    if done.returncode:
        print(name, "failed:", done.stderr[-1500:], file=sys.stderr)
        return None
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))  # vLLM logs to stdout, too


def main(given):
    """Measure all ways, and write the results after every measurement."""
    from machine import machine

    measured = {name: [] for name in given.ways}
    file = RESULTS / f"sampling_peers{'' if precision() == 'bfloat16' else '_float32'}.json"
    load = round(os.getloadavg()[0], 1)
    for _ in range(given.rounds):
        for name in given.ways:
            if (sample := measure(name, given)) is None:
                continue
            measured[name].append(sample)
            rates = [row["tokens"] / row["seconds"] for row in measured[name]]
            print(f"{name}: {rates[-1]:.0f} tokens/s", flush=True)
            rows = {
                way: {
                    "tokens_per_second": round(statistics.median(row["tokens"] / row["seconds"] for row in rounds)),
                    "rounds": [round(row["tokens"] / row["seconds"]) for row in rounds],
                    "tokens": rounds[0]["tokens"],
                }
                for way, rounds in measured.items()
                if rounds
            }
            about = {"tasks": given.tasks, "samples": given.samples, "most_tokens": MOST, "load_before": load}
            file.write_text(json.dumps({"machine": machine(), **about, "ways": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("vllm_python")
    parser.add_argument("llama_server")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=64)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--ways", choices=[*WAYS], nargs="+", default=[*WAYS])
    parser.add_argument("--one", choices=[*WAYS], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure_here(arguments.one, arguments.tasks, arguments.samples, arguments.llama_server)))
    else:
        main(arguments)
