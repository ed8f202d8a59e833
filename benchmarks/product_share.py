"""What part of a step of training is its matrix products at the machine's rate: python benchmarks/product_share.py [--rounds 3]

Trains the recipe `demo` for some steps, and after each times a product of two 4,096 x 4,096 matrices in the precision of the model on the same threads: the rate of
a shared machine changes within minutes, so that a product that is timed before or after the whole run says little of it. A share is the operations
of the step's products, divided by its seconds and the rate of the products beside it. Products of a model's own matrices are slower than that of two
large ones: those of a step, with nothing else, are timed as well, after the steps. Writes results/product_share.json.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from machine import machine, publish
from performance import MODEL, model_dtype, steps_of_demo, weights

ROOT = Path(__file__).parents[1]
SIZE, REPEATS = 4096, 3
"""Rows and columns of the matrices; products after each step, of which the last counts."""


class Products:
    """In the place of a tracker, which is called after each step: times products."""

    def __init__(self):
        import torch

        self.a, self.b, self.out = (torch.randn(SIZE, SIZE).to(model_dtype()) for _ in range(3))
        self.rates = []

    def write(self, row):
        """Time products after a step."""
        import torch

        for _ in range(REPEATS):
            started = time.monotonic()
            torch.mm(self.a, self.b, out=self.out)
            seconds = time.monotonic() - started
        self.rates.append((row["step"], 2 * SIZE**3 / seconds))

    def close(self):
        """Nothing is left open."""


def measure(steps, warm, settings):
    """Train, and return the rows of the steps after the first ``warm`` ones, which compile, and the rate of products after each."""
    from upsolve.cli.main import configure_libraries

    configure_libraries()  # before PyTorch is imported, as the command line does
    from upsolve.train.run import monitor

    products = Products()
    monitor.open_trackers = lambda *_: [products]
    rows = steps_of_demo(steps, *settings)[warm:]
    rates = dict(products.rates)
    return [{**row, "product": rates[row["step"]]} for row in rows]


def products_alone(tokens, scored):
    """Return the seconds of all products of a step with nothing else: of each layer forward, for its inputs and for its weights; the head for scored tokens."""
    import torch

    from upsolve.policy.model import load_model

    model = load_model(MODEL, dtype=model_dtype())
    head = model.get_output_embeddings()
    layers = [
        (module.weight.detach(), scored if module is head else tokens)
        for module in model.modules()
        if isinstance(module, torch.nn.Linear)
    ]
    rows = [
        (weight, torch.randn(count, weight.shape[1]).to(weight), torch.randn(count, weight.shape[0]).to(weight))
        for weight, count in layers
    ]
    seconds = []
    for _ in range(REPEATS):
        started = time.monotonic()
        for weight, inputs, gradient in rows:
            torch.mm(inputs, weight.t())
            torch.mm(gradient, weight)
            torch.mm(gradient.t(), inputs)
        seconds.append(time.monotonic() - started)
    return min(seconds)


def one_round(steps, warm, settings):
    """Return the figures of one run."""
    rows = measure(steps, warm, settings)
    layers, head = weights()
    seconds = sum(row["seconds"] for row in rows)
    tokens = sum(row["tokens_per_second"] * row["seconds"] for row in rows)
    scored = sum(row["attempt_tokens"] for row in rows)
    rate = statistics.median(row["product"] for row in rows)
    alone = products_alone(round(tokens / len(rows)), round(scored / len(rows)))
    return {
        "steps": len(rows),
        "tokens_per_step": round(tokens / len(rows)),
        "scored_tokens_per_step": round(scored / len(rows)),
        "seconds_per_step": round(seconds / len(rows), 3),
        "tokens_per_second": round(tokens / seconds),
        "product_gflops": round(rate / 1e9),
        "products_alone_seconds": round(alone, 3),
        "products_alone_gflops": round(6 * (layers * tokens + head * scored) / len(rows) / alone / 1e9),
        "share": round(6 * (layers * tokens + head * scored) / seconds / rate, 3),
        "share_with_the_head_for_all_tokens": round(6 * (layers + head) * tokens / seconds / rate, 3),
    }


def main():
    """Measure some rounds, each in a separate process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warm", type=int, default=6, help="steps that do not count")
    parser.add_argument("--set", action="append", default=[], help="another setting of the recipe")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "product_share.json")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one_round(given.steps, given.warm, given.set)))
        return
    command = [sys.executable, "-W", "ignore", __file__, *sys.argv[1:], "--one"]
    rounds = [
        json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
        for _ in range(given.rounds)
    ]
    publish({"machine": machine(), "settings": given.set, "rounds": rounds}, given.out)


if __name__ == "__main__":
    main()
