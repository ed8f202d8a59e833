"""Print the tables of docs/results.md and docs/results-arms.md from the JSON files of results/: python benchmarks/tables.py"""

import json
from pathlib import Path

from formulas import formula_of, marked

RESULTS = Path(__file__).parent / "results"
SPEEDS = (("groups_per_second", ".3f"), ("tokens_per_second", ".0f"), ("utilisation", ".2f"))
ARMS = {"sources": "online", "rewards": "tests", "dense": "PPO, outcome", "robot": "PPO, outcome"}
"""Set of arms -> the arm that the others are compared with."""


def read(name):
    """Return the content of a result file."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def table(header, rows, *, second=""):
    """Return a Markdown table; ``second``: the column of the conclusion, which is moved to the second place."""
    lines = [header, ["---"] * len(header), *rows]
    if second:
        at = header.index(second)
        lines = [[line[0], line[at], *line[1:at], *line[at + 1 :]] for line in lines]
    return "\n".join("|" + "|".join(map(str, line)) + "|" for line in lines)


def cell(triple, sign=""):
    """Return a mean with its interval."""
    mean, low, high = (f"{value:{sign}.1f}" for value in triple)
    return f"{mean} [{low},{high}]"


def demo():
    """Return the tables of the demo: pass@1, and time and memory."""
    data = read("demo")
    named = [(f"seed {row['seed']}", row) for row in data["seeds"]] + [("all", data["pooled"])]
    parts = {"greedy": "greedy", "best": "best temperature", "hot": "temperature 1"}
    rows = [
        [name, shown, *(cell(row[part][what]) for what in ("base", "trained")), cell(row[part]["difference"], "+")]
        for name, row in named
        for part, shown in parts.items()
    ]
    extra = [[row[key] for key in ("seed", "steps", "training_seconds", "seconds", "memory_gb")] for row in data["seeds"]]
    costs = table(["seed", "steps", "training, s", "all, s", "peak memory, GB"], extra)
    return table(["seeds", "decoding", "base", "trained", "difference"], rows) + "\n\n" + costs


def demo_python_hot():
    """Return the tables of the Python demo at temperature 1, written by ``demo_seeds.py`` of version 0.1.0."""
    data = read("demo_python_hot")
    named = [(f"seed {row['seed']}", row) for row in data["seeds"]] + [("all three", data["pooled"])]
    rows = [
        [
            name,
            k[2:],
            *(cell(row[k][f"pass@{k[2:]} {what}"]) for what in ("base", "trained")),
            cell(row[k][f"pass@{k[2:]} difference"], "+"),
        ]
        for name, row in named
        for k in row
        if k.startswith("k=")
    ]
    extra = [
        [
            row["seed"],
            row["steps"],
            row["training_seconds"],
            *row["sampling_and_judging_seconds"],
            row["training_seconds"] + sum(row["sampling_and_judging_seconds"]),
        ]
        + [" → ".join(map(str, row[what])) for what in ("length, tokens", "entropy, nats")]
        for row in data["seeds"]
    ]
    header = [
        "seed",
        "steps",
        "training, s",
        "base measured, s",
        "trained measured, s",
        "all, s",
        "length, tokens",
        "entropy, nats",
    ]
    return table(["seeds, temperature 1", "k", "base", "trained", "difference"], rows) + "\n\n" + table(header, extra)


def agreement():
    """Return the table of agreement with recorded outcomes, and that of the disagreements."""
    sets = read("agreement")["sets"]
    rows = [
        [
            s["set"],
            s["added"]["tasks"],
            s["judged"],
            s["with_recorded_outcome"],
            s["agree"],
            f"{100 * s['agreement']:.1f} %" if s["agreement"] else "–",
            s["attempts_per_second"],
        ]
        for s in sets
    ]
    kinds = [[s["set"], kind, disagreement["count"]] for s in sets for kind, disagreement in s["disagreements"].items()]
    header = ["set", "tasks", "attempts judged", "with a recorded outcome", "agree", "agreement", "attempts/s"]
    return table(header, rows, second="agreement") + "\n\n" + table(["set", "disagreement", "attempts"], kinds)


def mbpp():
    """Return the table of the offline methods."""
    rows = [
        [
            marked(row["method"], row | {"formula today": formula_of(row["method"])} if "formulas" in row else row),
            row["seeds"],
            *(cell(row[f"pass@{k}"]) for k in (1, 8)),
            *("" if row["method"] == "base" else cell(row[f"pass@{k} - base"], "+") for k in (1, 8)),
            row["mean length, tokens"],
            row["mean entropy, nats"],
            row.get("tokens_per_second", ""),
            round(sum(row["train_seconds"]) / len(row["train_seconds"])) if row["method"] != "base" else "",
        ]
        for row in read("mbpp_offline")["methods"]
    ]
    header = [
        "method",
        "seeds",
        "pass@1",
        "pass@8",
        "pass@1 - base",
        "pass@8 - base",
        "length, tokens",
        "entropy, nats",
        "tokens/s",
        "training, s",
    ]
    return table(header, rows, second="pass@1 - base")


def throughput():
    """Return the tables of judging speed compared with peers, and of the cost of each layer."""
    data = read("verify_throughput")
    peers = list(data["sets"][0]["milliseconds_each"])
    rows = [
        [
            entry["set"],
            entry["workers"],
            *(
                f"{each[peer]:.2f} ({each[peer] / each['upsolve']:.1f}x)" if peer in each else ""
                for peer in peers
                if peer != "upsolve"
            ),
            f"{each['upsolve']:.2f}",
        ]
        for entry in data["sets"]
        for each in [entry["milliseconds_each"]]
    ]
    prices = data["milliseconds_each_with_one_layer_off"]
    return (
        table(["set", "workers", *(peer for peer in peers if peer != "upsolve"), "upsolve"], rows, second="upsolve")
        + "\n\n"
        + table(["all layers", *(f"without {name}" for name in prices if name != "all")], [list(prices.values())])
    )


def languages():
    """Return the table of reference programs in other languages."""
    header = ["file", "language", "references judged", "passed", "a second"]
    return table(
        header,
        [
            [row[k] for k in ("file", "language", "judged", "passed", "attempts_per_second")]
            for row in read("languages")["files"]
        ],
    )


def drift():
    """Return the tables of the drift between samplers and trainer, and of the online runs with and without a correction."""
    data = read("sampler_drift")
    rows = [
        [
            row["sampler"],
            row["trainer"],
            *(f"{row[name]:.2g}" for name in ("mean", "95 %", "99.9 %")),
            *(f"{row[name]:.1e}" for name in ("k1", "k3")),
            f"{row['effective sample size']:.3f}",
            *(f"{100 * row[name]:.3f}" for name in ("capped by TIS", "masked by IcePop")),
        ]
        for row in data["scores"]
    ]
    figures = ["mean", "95 %", "99.9 %", "k1", "k3", "effective sample size", "capped by TIS, %", "masked by IcePop, %"]
    runs = [
        [row["arm"], row["seed"], f"{row['mean reward of all rounds']:.3f}", *steps(row["steps"])] for row in data["online"]
    ]
    logged = ["passed, %", "drift", "drift_k3", "corrected, %", "gradient norm"]
    return (
        table(["sampler", "trainer", *figures], rows, second="effective sample size")
        + "\n\n"
        + table(["rollouts", "seed", "mean reward", *logged], runs)
    )


def steps(rows):
    """Return the metrics of each step, one after the other."""
    figures = (
        ("sampled_passed", 100, ".1f"),
        ("drift", 1, ".4f"),
        ("drift_k3", 1, ".1e"),
        ("corrected", 100, ".3f"),
        ("grad_norm", 1, ".2f"),
    )
    return [", ".join(f"{factor * row[name]:{form}}" for row in rows if name in row) for name, factor, form in figures]


def honest():
    """Return the table of honest programs and cheats: how many of those that a judge supports it fails or passes."""
    data = read("honest")

    def cells(kind, judge):
        counts = [data[kind][judge][form] for form in ("call", "code", "stdio")]
        return [f"{count['wrong']} of {count['given']}" if count["given"] else "" for count in counts]

    header = [f"{form}: {what}" for what in ("honest programs failed", "cheats passed") for form in ("calls", "code", "stdin")]
    return table(["judge", *header], [[judge, *cells("honest", judge), *cells("cheats", judge)] for judge in data["honest"]])


def training_step():
    """Return the tables of a training step: seconds and memory of every implementation, and the speed of TRL and upsolve."""
    jobs = read("train_step_cpu")["jobs"]
    ways = list(jobs[0]["rows"])
    sizes = [[job["shape"] if job["shape"] == "archive" else " / ".join(map(str, job["shape"])), job["G"]] for job in jobs]

    def cells(job, figure, form):
        return [form.format(row[figure]) if row and figure in row else "–" for row in job["rows"].values()]

    speeds = [
        [*size, *(f"{row[figure]:{form}}" for way in ("trl", "ours") for figure, form in SPEEDS if (row := job["rows"][way]))]
        for size, job in zip(sizes, jobs, strict=True)
    ]
    parts = [
        table(["tokens", "G", *ways], [size + cells(job, *figure) for size, job in zip(sizes, jobs, strict=True)])
        for figure in (("seconds", "{:.1f}"), ("peak_mib", "{:,.0f}"))
    ]
    names = [f"{way}: {name}" for way in ("TRL", "ours") for name in ("groups/s", "tokens/s", "utilisation")]
    return "\n\n".join([*parts, table(["tokens", "G", *names], speeds)])


def bars():
    """Return the table of the documented limits of a training step beside TRL's."""
    data, lines = read("train_step_bars_cpu"), []
    for job in data["jobs"]:
        rows = job["rows"]
        bar = next(bar for bar in data["bars"] if (bar["shape"], bar["G"]) == (job["shape"], job["G"]))
        shape = "real groups" if job["shape"] == "archive" else " / ".join(map(str, job["shape"]))
        times = [cell([rows[way][key] for key in ("seconds", "least_seconds", "most_seconds")]) for way in ("trl", "ours")]
        speed = cell([bar[key] for key in ("speed", "least_speed", "most_speed")])
        least = min(row["peak_mib"] for way, row in rows.items() if way != "ours")
        memory = [f"{least:,.0f}", f"{rows['ours']['peak_mib']:,.0f}", f"{bar['memory']:.2f}"]
        lines.append([shape, job["G"], job["groups"], *times, speed, *memory])
    header = [
        "prompt / attempt tokens",
        "G",
        "groups per step",
        "TRL, s",
        "ours, s",
        "TRL's time / ours",
        "TRL, MiB",
        "ours, MiB",
        "our memory / TRL's",
    ]
    return table(header, lines, second="TRL's time / ours")


def arms():
    """Return the tables of the compared training setups."""
    sets = [(name, read(f"arms_{name}"), other) for name, other in ARMS.items() if (RESULTS / f"arms_{name}.json").exists()]
    keys = ("arms", "arms, on the tasks trained on")
    return "\n\n".join(
        f"{name}, {key}:\n\n{arms_table(data[key], other)}" for name, data, other in sets for key in keys if key in data
    )


def arms_table(rows, other):
    """Return the table of a set of arms: shares of samples with intervals, properties of the samples, costs."""
    shares = [what for what in ("pass@1", "executes") if what in rows[0]]
    lines = []
    for row in rows:
        line = [row["arm"]]
        for what in shares:
            differences = {
                name: cell(value, "+") for name, value in row[f"{what}, difference to"].items() if name != row["arm"]
            }
            line += [cell(row[what]), differences.get("start", ""), differences.get(other, "")]
        line += [f"{row['mean_tokens']:.0f}", f"{row['mean_entropy']:.2f}"]
        line += [row["statuses, %"].get(name, 0.0) for name in ("compile_error", "runtime_error")]
        line += [row["errors, %"].get(name, "") for name in ("NameError", "TypeError")]
        line += [f"{row['lint, findings a sample that parses'][name]:.2f}" for name in ("error", "warning", "convention")]
        line += [", ".join(f"{value:,}" for value in row[name]) for name in ("seconds", "tokens sampled")]
        lines.append(line)
    header = [column for what in shares for column in (what, "arm - start", f"arm - {other}")]
    header += ["length", "entropy", "compile errors", "runtime errors", "NameError", "TypeError"]
    return table(["arm", *header, "lint errors", "warnings", "conventions", "seconds", "sampled tokens"], lines)


if __name__ == "__main__":
    for part in (demo, demo_python_hot, arms, agreement, mbpp, throughput, honest, languages, training_step, bars, drift):
        print(f"## {part.__name__}\n\n{part()}\n")
