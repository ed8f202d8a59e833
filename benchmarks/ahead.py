"""Sampling beside the trainer: OMP_NUM_THREADS=1 python benchmarks/ahead.py WORK [--seeds 3] [--rounds 16] [--out FILE]

Trains a random model of two layers online, by two servers in processes of their own, in turn and one round ahead (``source.ahead``). A server
answers a request DELAY seconds after it came, without using a processor meanwhile: it stands for an accelerator on another machine. The
delay is chosen so that a round in turn spends half of its time on sampling. Reward: shorter attempts. The curve is the mean length of the
attempts of a round, tokens; the servers of both arms sample by the same seeds.
"""

import argparse
import json
import multiprocessing
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import mean, stdev

from machine import machine, publish

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

GROUPS, GROUP, TOKENS, EPOCHS = 4, 4, 24, 12


class Handler(BaseHTTPRequestHandler):
    """vLLM's calls, as far as the run needs them."""

    def log_message(self, *_):
        """Stay silent."""

    def do_POST(self):
        """Load weights, set the delay, or sample."""
        from upsolve.policy.model import load_model

        came, home = time.monotonic(), self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"null")
        answer = {}
        if self.path == "/collective_rpc":
            with home.lock:
                home.model = load_model(body["kwargs"]["weights_path"]).eval()
        elif self.path == "/delay":
            home.delay = body
        elif self.path.endswith("/completions"):
            with home.lock:
                answer = home.draw(body)
            time.sleep(max(0.0, came + home.delay - time.monotonic()))
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Sampler(ThreadingHTTPServer):
    """A server around the tiny model, with a key-value cache."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, model):
        from upsolve.policy.model import load_codec, load_model

        super().__init__(("127.0.0.1", 0), Handler)
        self.model, self.codec, self.lock, self.delay = load_model(model).eval(), load_codec(model), threading.Lock(), 0.0

    def draw(self, body):
        """Return a completion at temperature 1."""
        import torch

        noise, ids, logps, stopped = torch.Generator().manual_seed(body["seed"]), [], [], False
        given, cache = torch.tensor([body["prompt"]]), None
        with torch.inference_mode():
            while len(ids) < body["max_tokens"] and not stopped:
                out = self.model(given, past_key_values=cache, use_cache=True)
                logp, cache = out.logits[0, -1].log_softmax(-1), out.past_key_values
                token = int(torch.multinomial(logp.exp(), 1, generator=noise))
                ids.append(token)
                logps.append(float(logp[token]))
                stopped = token == 0 or "```" in self.codec.tokenizer.decode([token])
                given = torch.tensor([[token]])
        text = self.codec.tokenizer.decode(ids, skip_special_tokens=True).partition("```")[0]
        choice = {"text": text, "finish_reason": "stop" if stopped else "length", "token_ids": ids}
        return {"choices": [{**choice, "logprobs": {"token_logprobs": logps}}], "usage": {"completion_tokens": len(ids)}}


def serve(model, said):
    """Serve in this process; send the port."""
    import torch

    torch.set_num_threads(1)
    server = Sampler(model)
    said.put(server.server_address[1])
    server.serve_forever()


def run(model, ports, folder, *, ahead, seed, rounds):
    """Train; return seconds a round after the first, seconds of it outside of sampling, lengths by round, and the largest staleness."""
    from upsolve.archive.split import split_archive
    from upsolve.archive.store import open_archive
    from upsolve.config import Recipe
    from upsolve.train.loop import train

    there = {"urls": [f"http://127.0.0.1:{port}/v1" for port in ports]}
    rollout = {"engine": "server", "server": there, "max_tokens": TOKENS, "batch": GROUPS * GROUP, "seed": seed}
    recipe = Recipe.model_validate(
        {
            "seed": seed,
            "model": {"name": model, "bf16": False},
            "data": {"group_size": GROUP, "seed": seed},
            "source": {"rounds": rounds, "groups": GROUPS, "ahead": ahead, "rollout": rollout},
            "reward": {"weights": {"length": 1.0, "outcome": 0.0}, "length": [0, TOKENS]},
            "advantage": {"kind": "standardised"},
            "objective": {"kind": "ppo_clip", "correction": {"kind": "tis"}},
            "optim": {"tokens_per_step": 4000, "tokens_per_batch": 1000, "lr": 1e-3, "schedule": "constant", "epochs": EPOCHS},
            "verify": {"cache": False, "workers": 1},
            "monitor": {"heldout": 0, "stop_on_collapse": False, "max_drift": 99},
        }
    )
    split = split_archive(open_archive("embedded"), recipe.data, untried=True)
    ends, begun = list[float](), time.monotonic()
    done = train(recipe, split.groups["train"], [], folder, on_step=lambda *_: ends.append(time.monotonic()), fresh=True)
    firsts = [row for row in done.metrics if "sampled" in row]
    last = [max(t for t, row in zip(ends, done.metrics, strict=True) if row["round"] == n) for n in range(rounds)]
    lengths = [row["sampled_tokens"] / row["sampled"] for row in firsts]
    return {
        "seconds": (last[-1] - last[0]) / (rounds - 1),
        "whole": last[-1] - begun,
        "preparing": mean(row["preparing_seconds"] for row in firsts[1:]),
        "lengths": lengths,
        "staleness": max(row["staleness_max"] for row in firsts),
    }


def main():
    """Measure and publish."""
    from tiny import write_tiny_model

    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("work", type=Path)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--rounds", type=int, default=16)
    options.add_argument("--out", type=Path)
    asked = options.parse_args()
    asked.work.mkdir(parents=True, exist_ok=True)
    model, context = write_tiny_model(asked.work / "tiny"), multiprocessing.get_context("spawn")
    said = context.Queue()
    servers = [context.Process(target=serve, args=(model, said), daemon=True) for _ in range(2)]
    for server in servers:
        server.start()
    ports = [said.get() for _ in servers]

    def set_delay(seconds):
        for port in ports:
            urllib.request.urlopen(
                urllib.request.Request(f"http://127.0.0.1:{port}/delay", json.dumps(seconds).encode())
            ).close()

    without = run(model, ports, asked.work / "without", ahead=0, seed=0, rounds=4)
    training = without["seconds"] - without["preparing"]
    delay = round(max(0.0, training - without["preparing"]), 2)
    set_delay(delay)
    once = run(model, ports, asked.work / "without", ahead=0, seed=0, rounds=4)  # part of the delay overlaps with work
    set_delay(delay := round(max(0.0, delay + once["seconds"] - 2 * once["preparing"]), 2))
    arms = {"in turn": 0, "one round ahead": 1}
    rows = {name: [] for name in arms}
    for seed in range(asked.seeds):
        for name, ahead in arms.items():
            rows[name].append(run(model, ports, asked.work / "run", ahead=ahead, seed=seed, rounds=asked.rounds))
            print(seed, name, json.dumps({k: v for k, v in rows[name][-1].items() if k != "lengths"}), file=sys.stderr)
    for server in servers:
        server.terminate()
    late = {name: [mean(one["lengths"][-4:]) for one in found] for name, found in rows.items()}
    apart = [ahead - turn for turn, ahead in zip(late["in turn"], late["one round ahead"], strict=True)]
    hours = {name: [round(3600 / one["seconds"]) for one in found] for name, found in rows.items()}
    ratios = [turn["seconds"] / ahead["seconds"] for turn, ahead in zip(rows["in turn"], rows["one round ahead"], strict=True)]
    report = {
        "machine": machine(),
        "settings": {"rounds": asked.rounds, "seeds": asked.seeds, "attempts a round": GROUPS * GROUP, "epochs": EPOCHS},
        "delay of an answer, seconds": delay,
        "a round without the delay, seconds: steps, all else": [round(training, 2), round(without["preparing"], 2)],
        "share of sampling, judging and scoring in turn": round(
            mean(one["preparing"] / one["seconds"] for one in rows["in turn"]), 2
        ),
        "rounds per hour, by seed": hours,
        "times as many rounds per hour, by seed": [round(ratio, 2) for ratio in ratios],
        "largest staleness, rounds": {name: max(one["staleness"] for one in found) for name, found in rows.items()},
        "tokens an attempt by round, mean of seeds": {
            name: [round(mean(one["lengths"][n] for one in found), 2) for n in range(asked.rounds)]
            for name, found in rows.items()
        },
        "tokens an attempt, last 4 rounds, by seed": {name: [round(x, 2) for x in found] for name, found in late.items()},
        "ahead minus in turn, last 4 rounds": {
            "mean": round(mean(apart), 2),
            "standard error over seeds": round(stdev(apart) / len(apart) ** 0.5, 2) if len(apart) > 1 else None,
        },
    }
    publish(report, asked.out)


if __name__ == "__main__":
    main()
