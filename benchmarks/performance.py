"""Cost against work, with the limit of the machine in every picture: python benchmarks/performance.py [--parts step sample] [--rounds 1]

Parts, each measurement in a separate process:
    step      seconds of an optimizer step (SmolLM2-135M, compiled layers) against its tokens
    sample    sampled tokens per second against attempts decoded at once
    judge     seconds of judging small programs against their number
    import    seconds of importing a JSONL file against its rows
    memory    peak resident memory of training against parameters (the first layers of SmolLM2-135M)
    share     seconds of an optimizer step against the number of runs at once on the machine

The limits are measured in the same call: matrix products in the precision of the model, the bandwidth of the memory, starting and ending a process, and parsing
JSON. A limit is what the work takes at these rates if nothing else took time. Measurements of earlier calls are kept, those of the parts named
are made again (none: `--parts` alone writes the page anew); results/performance.json, docs/performance.svg and the tables of docs/performance.md are written after each.
On a processor that does not multiply bfloat16, where models compute in float32, the results are in results/performance_float32.json, and have tables of their own.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

from machine import machine

ROOT = Path(__file__).parents[1]
RESULTS = {
    precision: ROOT / "benchmarks" / "results" / f"performance{end}.json"
    for precision, end in {"bfloat16": "", "float32": "_float32"}.items()
}
"""Results by the precision in which models compute on the machine."""
WEIGHT_BYTES = {"bfloat16": 18, "float32": 16}
"""Bytes per parameter that training holds: weights, gradients and two moments in float32, and rounded weights."""
PAGE = ROOT / "docs" / "performance.md"
SIZES = {
    "step": (512, 1024, 2048, 4096),
    "sample": (8, 32, 64, 128, 256),
    "judge": (100, 300, 1000, 3000),
    "import": (3_000, 10_000, 30_000, 100_000),
    "memory": (4, 8, 16, 30),
    "share": (1, 2),
}
STEPS, WARM = 6, 3
"""Optimizer steps of a measurement, and how many of them come before those that count."""
MODEL = "smollm2-135m"


def steps_of_demo(count, *settings):
    """Train the recipe `demo` for some steps, with compiled layers; return their metrics."""
    from upsolve.archive.split import split_archive
    from upsolve.archive.store import open_archive
    from upsolve.config import load_recipe
    from upsolve.train.loop import train

    recipe = load_recipe("demo", [f"optim.max_steps={count}", "model.compile=always", *settings])
    split = split_archive(open_archive(recipe.data.archive), recipe.data)
    with tempfile.TemporaryDirectory() as folder:
        run = train(recipe, split.groups["train"][:400], split.groups["dev"][:8], Path(folder))
    return [row for row in run.metrics if "loss" in row]


def trained(*settings):
    """Return the metrics of the steps that count, and the peak of resident memory, bytes."""
    import psutil

    process, highest = psutil.Process(), [0]

    def watch():
        while True:
            highest[0] = max(highest[0], process.memory_info().rss)
            time.sleep(0.05)

    threading.Thread(target=watch, daemon=True).start()
    return steps_of_demo(STEPS, *settings)[WARM:], highest[0]


def weights():
    """Return the numbers of weights of the layers and of the head."""
    from upsolve.policy.model import load_model

    model = load_model(MODEL)
    head = model.get_output_embeddings().weight.numel()
    return sum(parameter.numel() for parameter in model.parameters()) - head, head


def step(size):
    """Seconds of a step of this many tokens."""
    rows, _ = trained(f"optim.tokens_per_step={size}", f"optim.tokens_per_batch={max(size, 64)}")
    layers, head = weights()
    tokens = [row["tokens_per_second"] * row["seconds"] for row in rows]
    work = [6 * (layers * count + head * row["attempt_tokens"]) for count, row in zip(tokens, rows, strict=True)]
    seconds = sum(row["seconds"] for row in rows)
    return {"work": sum(tokens) / len(rows), "cost": seconds / len(rows), "operations": sum(work) / len(rows)}


def sample(size):
    """Tokens per second with this many attempts at once, eight at each task, of at most 64 tokens."""
    import torch

    from upsolve.archive.store import open_archive
    from upsolve.config import load_recipe
    from upsolve.policy.engines import sampler

    recipe = load_recipe("demo", [f"sample.batch={size}", "sample.samples=8", "sample.temperature=1", "sample.max_tokens=64"])
    tasks = open_archive("embedded-sql").tasks()[: max(2, size // 4)]
    policy = sampler(recipe.sample, recipe.model)
    list(policy(tasks[:1], config=recipe.sample))
    started = time.monotonic()
    tokens = sum(attempt.tokens for attempt in policy(tasks, config=recipe.sample))
    seconds = time.monotonic() - started
    layers, head = weights()
    each = {
        "operations": 2 * (layers + head),
        "bytes": model_dtype().itemsize * (layers + head) / size,
    }  # of a token: the weights are read once a step
    return {"work": size, "cost": tokens / seconds, "threads": torch.get_num_threads(), **each}


def judge(size):
    """Seconds of judging this many small programs, no two of them equal, after a first one."""
    from upsolve.types import Attempt, Task, TestCase, TestKind
    from upsolve.verify.pool.pool import verify

    task = Task("double", "Double x.", (TestCase(TestKind.CALL, "f(2)", "4"), TestCase(TestKind.CALL, "f(-1)", "-2")), "f")
    pairs = [(task, Attempt("double", f"def f(x):\n    return 2 * x  # {number}\n")) for number in range(size)]
    verify([(task, replace(pairs[0][1], code="def f(x):\n    return x + x\n"))])
    started = time.monotonic()
    verdicts = verify(pairs)
    assert all(verdict.status.value == "passed" for verdict in verdicts)
    return {"work": size, "cost": time.monotonic() - started}


def imported(size):
    """Seconds of importing this many rows of a JSONL file: a question, a program of 400 characters and a status each."""
    from upsolve.archive.store import Archive
    from upsolve.importers.ingest import ingest

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.jsonl"
        with file.open("w", encoding="utf-8") as lines:
            for number in range(size):
                code = f"def f(x):\n    return x + {number}\n" + "# padding\n" * 37
                row = {
                    "task": f"{number // 20}",
                    "question": f"Add {number // 20}.",
                    "code": code,
                    "verdict": "AC" if number % 2 else "WA",
                }
                lines.write(json.dumps(row) + "\n")
        archive = Archive.create(Path(folder) / "archive")
        started = time.monotonic()
        report = ingest(archive, "table", file, prompt="question", code="code", status="verdict")
        seconds = time.monotonic() - started
        assert not report.rejected
    return {"work": size, "cost": seconds}


def memory(size):
    """Peak of resident memory of training the first layers of the model, GiB."""
    from upsolve.policy.model import load_codec, load_model, save_model

    with tempfile.TemporaryDirectory() as folder:
        model = load_model(MODEL)
        model.model.layers = model.model.layers[:size]
        model.config.num_hidden_layers, model.config.layer_types = size, None
        save_model(model, load_codec(MODEL), folder)
        count = sum(parameter.numel() for parameter in model.parameters())
        del model
        sizes = ("optim.tokens_per_step=1024", "optim.tokens_per_batch=1024", "optim.moments=float32")
        _, highest = trained(f"model.name={folder}", *sizes)
    return {"work": count / 1e6, "cost": highest / 2**30}


def share(size):
    """Seconds of a step while this many runs train at once, each with as many threads as there are cores."""
    with tempfile.TemporaryDirectory() as folder:
        sets = (f"optim.max_steps={3 * STEPS}", "model.compile=never", "monitor.heldout=0")
        words = [
            sys.executable,
            "-m",
            "upsolve",
            "train",
            "demo",
            *(word for value in sets for word in ("--set", value)),
            "--out",
        ]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        runs = [subprocess.Popen([*words, f"{folder}/{number}"], **quiet) for number in range(size)]
        assert not any(run.wait() for run in runs)
        files = [Path(folder, str(number), "metrics.jsonl").read_text(encoding="utf-8") for number in range(size)]
    rows = [row for file in files for row in map(json.loads, file.splitlines()) if WARM < row["step"] <= 2 * STEPS]
    return {"work": size, "cost": statistics.median(row["seconds"] for row in rows)}


def model_dtype():
    """Return the dtype in which models compute on this machine."""
    from upsolve.config import ModelConfig
    from upsolve.policy.machine import precision_of

    return precision_of(ModelConfig())


def rates():
    """Return what the machine can do: products, bytes and processes per second on all cores, and bytes of JSON parsed per second on one."""
    import torch

    from upsolve.verify.resources import usable_cores

    def fastest(action, count):
        times = []
        for _ in range(5):
            started = time.monotonic()
            for _ in range(count):
                action()
            times.append((time.monotonic() - started) / count)
        return min(times)

    a, b = (torch.randn(2048, 2048).to(model_dtype()) for _ in range(2))
    large = torch.zeros(1 << 28)
    row = json.dumps(
        {"task": "1", "question": "Add 1.", "code": "def f(x):\n    return x + 1\n" + "# padding\n" * 37, "verdict": "AC"}
    )
    start = fastest(lambda: os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0), 200)
    return {
        "operations": 2 * 2048**3 / fastest(lambda: a @ b, 10),
        "bytes": large.numel() * 4 / fastest(large.sum, 1),
        "processes": usable_cores() / start,
        "rows": 1 / fastest(lambda: json.loads(row), 2000),
    }


PARTS = {"step": step, "sample": sample, "judge": judge, "import": imported, "memory": memory, "share": share}
ABOUT = {
    "step": ("Training step", "tokens of the step", "seconds", "all matrix products at the rate of a large one"),
    "sample": (
        "Sampling",
        "attempts at once",
        "tokens per second",
        "products at the rate of a large one, or the weights read once a step",
    ),
    "judge": ("Judge", "attempts", "seconds", "starting and ending a process for each"),
    "import": ("Import", "rows", "seconds", "parsing the rows as JSON"),
    "memory": (
        "Memory of training",
        "million parameters",
        "GiB",
        "weights, gradients and AdamW's moments in float32, and weights in bfloat16 where the model computes in it",
    ),
    "share": ("Runs at once", "runs", "seconds of a step of each", "the machine divided among the runs"),
}


def limit(part, row, result):
    """Return the cost of a measurement at the machine's limit."""
    known = result["rates"][part]
    if part == "step":
        return row["operations"] / known["operations"]
    if part == "sample":
        return 1 / max(row["operations"] / known["operations"], row["bytes"] / known["bytes"])
    if part == "judge":
        return row["work"] / known["processes"]
    if part == "import":
        return row["work"] / known["rows"]
    if part == "share":
        return row["work"] * result["parts"]["share"][0]["cost"]
    return row["work"] * 1e6 * WEIGHT_BYTES[result["precision"]] / 2**30


def measure(part, size):
    """Measure in a separate process."""
    command = [sys.executable, "-W", "ignore", __file__, "--one", part, str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def tables(result, level):
    """Return the tables of the results of a machine, with headings of a level."""
    facts = result["machine"]
    names = {"avx512_bf16": "AVX-512-BF16", "amx_bf16": "AMX"}
    able = " and ".join(names[name] for name in facts["instructions"] if name in names)
    text = f"Machine: {facts['processor']} {f'with {able}' if able else 'without instructions for bfloat16'}, {facts['cores']} cores, PyTorch {facts['torch']}, "
    text += f"{result['precision']}; load before: {result['load_before']}.\n"
    for part, rows in result["parts"].items():
        title, work, cost, bound = ABOUT[part]
        text += f"\n{level} {title}\n\nLimit: {bound}.\n\n|{work}|{cost}|limit|share of the limit|\n|---|---|---|---|\n"
        for row in rows:
            best = limit(part, row, result)
            share = row["cost"] / best if part == "sample" else best / row["cost"]
            text += f"|{row['work']:,.0f}|{short(row['cost'])}|{short(best)}|{share:.0%}|\n"
    return text


def page():
    """Return docs/performance.md with the tables of all results."""
    text = PAGE.read_text(encoding="utf-8").partition("<!-- tables -->")[0] + "<!-- tables -->\n\n"
    return text + tables(json.loads(RESULTS["bfloat16"].read_text(encoding="utf-8")), "##")


def short(number):
    """Return a number with three digits."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def draw(result, file):
    """Draw every part with its limit."""
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "upsolve"
    parts = result["parts"]
    figure, axes = plt.subplots(1, len(parts), figsize=(3.1 * len(parts), 3), squeeze=False, layout="constrained")
    for axis, (part, rows) in zip(axes[0], parts.items(), strict=True):
        title, work, cost, _ = ABOUT[part]
        x = [row["work"] for row in rows]
        axis.plot(x, [row["cost"] for row in rows], "o-", label="measured")
        axis.plot(x, [limit(part, row, result) for row in rows], "k--", lw=1, label="limit")
        axis.set(title=title, xlabel=work, ylabel=cost, xscale="log", yscale="log")
        axis.legend(fontsize=7)
    figure.savefig(file, metadata={"Date": None})


def main(parts, rounds):
    """Measure parts, and write the results after each of them."""
    precision = str(model_dtype()).removeprefix("torch.")
    file = RESULTS[precision]
    result = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"parts": {}}
    result |= {"machine": machine(), "precision": precision, "load_before": round(os.getloadavg()[0], 1)}
    now = rates()
    for part in parts:
        best = max if part == "sample" else min
        rows = [best((measure(part, size) for _ in range(rounds)), key=lambda row: row["cost"]) for size in SIZES[part]]
        known = {**result["parts"], part: rows}
        result["parts"] = {name: known[name] for name in PARTS if name in known}
        result["rates"] = {**result.get("rates", {}), part: now}  # other parts keep those of their own measurement
        print(part, json.dumps(rows), flush=True)
        file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        write_page()


def write_page():
    """Write the page, and the picture of the results in bfloat16."""
    PAGE.write_text(page(), encoding="utf-8")
    draw(json.loads(RESULTS["bfloat16"].read_text(encoding="utf-8")), PAGE.with_suffix(".svg"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--parts", nargs="*", choices=[*PARTS], default=[*PARTS])
    parser.add_argument("--rounds", type=int, default=1, help="measurements of each size, of which the best counts")
    parser.add_argument("--one", nargs=2, metavar=("PART", "SIZE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(PARTS[given.one[0]](int(given.one[1]))))
    elif given.parts:
        main(given.parts, given.rounds)
    else:
        write_page()
