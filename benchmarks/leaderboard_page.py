"""The tables of the leaderboard from all finished cells (leaderboard.py): python benchmarks/leaderboard_page.py

Writes results/leaderboard.json, the tables of docs/leaderboard-*.md, the plot of docs/leaderboard.md, and the bars of README.md with their sentence. Takes half a minute.
"""

import json
import statistics
from functools import cache
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from formulas import formula_of, marked
from jinja2 import Template
from leaderboard import CELLS, DOMAINS, METHODS, ROOT, cells_in, slug
from rounding import percent

from upsolve.evaluate.capability import capability
from upsolve.evaluate.intervals import detectable, mean_interval, over_seeds, paired_difference
from upsolve.evaluate.scores import task_pass_at_k

PLACEBO = {
    "imitate": "sft, verdicts shuffled",
    "push": "rloo, verdicts shuffled",
    "continue": "own rft, shuffled",
    "refine": "own rloo, shuffled",
}
"""The control that a method is compared with, by its learning rate: the same attempts in the same steps, not always the same objective."""
STAGED = {
    "sft half": "sft half, shuffled",
    "own rft twice": "own rft twice, all shuffled",
    "rft, own samples": "rft, own samples, shuffled",
    "rft, own samples twice": "rft, own samples twice, all shuffled",
    "rloo, own samples": "rloo, own samples, shuffled",
    "own rft, anew": "own rft, anew, shuffled",
    **{name: f"{name}, shuffled" for name in ("grpo", "sft more", "sft more, a tenth", "own rft, hard", "own rft, hinted")},
}
"""The control of methods whose tasks or stages are others."""
COLOURS = {"from the base model": "C0", "second stage": "C2", "online": "C1", "control": "0.55"}
"""The kinds of rows."""
SHOWN = ("sql", "sft", "base")
"""Domain and method of README.md, and the method before it."""
BARS = Path(__file__).with_name("gain.svg.j2")
"""Template of the bars of README.md; sums of numbers are places in the picture."""
BANDS = {"hard": 1 / 3, "middle": 2 / 3, "easy": 1.0}
"""Largest pass rate of the start in each band of tasks."""
BESIDE = {
    "Gain from failed attempts beyond imitation of passed ones": (("own topr", "own rft"), ("topr", "sft")),
    "Second stages compared with imitation of all passed samples": [
        (name, "own rft") for name in ("own rft, hard", "own rft, hinted", "own maxrl", "own rloo", "own rft, anew")
    ],
    "Stored attempts compared with online training of about equal time": [("sft more", "grpo")],
}
"""Pairs of methods whose difference a sentence shows."""
OTHER_PROMPTS = {"robot documented": "robot"}
"""Domains that have the tasks of another one, with other prompts."""
PAGES = {
    "leaderboard-sql.md": ("sql",),
    "leaderboard-robot.md": ("robot", "robot documented"),
    "leaderboard-python.md": ("python", "mbpp"),
}
"""Page of docs/ -> the domains whose tables it shows."""
MARKS = ("<!-- gains -->", "<!-- end of gains -->")


def scores(sweeps, part):
    """Return pass@1 of every task, averaged over runs; ``part`` is ``best``, ``greedy``, ``hot``, or ``chosen`` of several samples."""
    if part == "chosen":
        return over_seeds([run.choices.passed("chosen") for run in sweeps])
    return over_seeds([task_pass_at_k(getattr(run, part).scores, 1) for run in sweeps])


def contrast(others, runs, part="best"):
    """Return the paired difference of two methods over the seeds that both have; None without such a seed."""
    common = runs.keys() & others.keys()
    if not common:
        return None
    before, after = ([cells[seed] for seed in sorted(common)] for cells in (others, runs))
    return percent(paired_difference(scores(before, part), scores(after, part)).difference)


def bands(cells):
    """Return the model that bands are of, and seed -> task -> band by its pass rate in the other seeds, so that no run is compared with itself."""
    of = "sft half" if len(cells["sft half"]) > 1 else "base"
    found = {}
    for seed in cells[of]:
        rates = scores([run for other, run in cells[of].items() if other != seed or len(cells[of]) == 1], "best")
        found[seed] = {task: next(band for band, most in BANDS.items() if rate <= most) for task, rate in rates.items()}
    return of, found


def by_difficulty(name, cells):
    """Return the paired difference of a method to the model that it starts from in each band; None in a band without tasks."""
    return in_bands(cells[METHODS[name].start or "base"], cells[name], bands(cells)[1])


def in_bands(before, after, band_of):
    """Return the paired difference of runs by seed in each band; None in a band without tasks."""
    row = {}
    for band in BANDS:
        pairs = {}
        for seed in sorted(after.keys() & before.keys() & band_of.keys()):
            old, new = (scores([of[seed]], "best") for of in (before, after))
            for task in old.keys() & new.keys():
                if band_of[seed][task] == band:
                    pairs.setdefault(task, []).append((old[task], new[task]))
        means = [{task: float(np.mean([pair[i] for pair in of])) for task, of in sorted(pairs.items())} for i in (0, 1)]
        row[band] = percent(paired_difference(*means).difference) if len(pairs) > 1 else None
    return row


def figures(name, cells):
    """Return the results of a method over its seeds, and its differences to the base model, to the model it starts from, and to controls."""
    runs, sweeps = cells[name], [*cells[name].values()]
    row = {"seeds": len(sweeps)}
    row |= {part: percent(mean_interval([*scores(sweeps, part).values()])) for part in ("best", "greedy", "hot")}
    row["temperatures"] = [run.best.temperature for run in sweeps]
    if chosen := {seed: run for seed, run in runs.items() if run.choices}:
        row["choice"] = choice_figures(chosen)
    if name == "base":
        return row
    others = {"base": "base", "start": METHODS[name].start, "shuffled": placebo_of(name), "ssd": "ssd"}
    for label, other in others.items():
        if other and other != name and (difference := contrast(cells[other], runs)):
            row[f"best - {label}"] = difference
            row |= {"control": other} if label == "shuffled" else {}
    row["greedy - base"] = contrast(cells["base"], runs, "greedy")
    row["by difficulty"] = by_difficulty(name, cells)
    row["conclusions"] = [capability(cells["base"][seed], run).conclusion for seed, run in runs.items()]
    return row


def choice_figures(runs):
    """Return pass@1 of greedy decoding, after choice, and of any sample, with the numbers of seeds and samples, and tokens and seconds a task."""
    found = [run.choices for run in runs.values()]
    parts = {part: over_seeds([choices.passed(part) for choices in found]) for part in ("greedy", "chosen", "any")}
    row = {part: percent(mean_interval([*of.values()])) for part, of in parts.items()}
    row["chosen - greedy"] = percent(paired_difference(parts["greedy"], parts["chosen"]).difference)
    row |= {"seeds": len(found), "samples": max(choices.samples for choices in found)}
    tasks = [task for choices in found for task in choices.tasks]
    row["tokens"] = round(sum(task.tokens for task in tasks) / len(tasks))
    row["seconds"] = round(sum(choices.sample_seconds + choices.choose_seconds for choices in found) / len(tasks), 2)
    return row


def placebo_of(name):
    """Return the name of the control with a method's tasks and stages; '' for a control."""
    return "" if "shuffled" in name else STAGED.get(name, PLACEBO[METHODS[name].rate])


@cache
def cells_of(domain):
    """Return the sweeps of the base and of every method, by method and seed."""
    found = cells_in(CELLS / slug(domain))
    return {name: found.get(slug(name), {}) for name in ("base", *METHODS)}


def table(domain):
    """Return a row for the base and for every method with cells."""
    path = CELLS / slug(domain)
    cells = cells_of(domain)
    rows = []
    for name, runs in cells.items():
        files = [path / f"{slug(name)}-{seed}.cost.json" for seed in runs if name != "base"]
        if runs:
            spent = [json.loads(f.read_text()) for f in files]
            rows.append({"method": name, **figures(name, cells), **costs(domain, spent), **versions(name, spent)})
    return rows


def versions(name, cells):
    """Return the ids of the formulas that made the cells of a method, and today's id."""
    today = {} if name == "base" else {"formula today": formula_of(METHODS[name].recipe, METHODS[name].settings)}
    return {"formulas": sorted({cell["formula"] for cell in cells}), **today} if today else {}


def costs(domain, cells):
    """Return the mean cost of cells: thousand tokens trained on and sampled, and minutes at the rates of an idle machine, where known."""
    if not cells:
        return {}
    mean = {kind: float(np.mean([cell[f"{kind}_tokens"] for cell in cells])) for kind in ("trained", "sampled")}
    row = {f"{kind}_k": round(tokens / 1000) for kind, tokens in mean.items()} | {"steps": [cell["steps"] for cell in cells]}
    file = CELLS / "rates.json"
    rates = json.loads(file.read_text()).get(domain) if file.exists() else None
    minutes = sum(tokens / rates[kind] for kind, tokens in mean.items()) / 60 if rates else None
    return row | ({"minutes": round(minutes, 1)} if rates else {})


def shown(values):
    """Return an estimate as text."""
    return f"{values[0]:.1f} [{values[1]:.1f}, {values[2]:.1f}]"


def compact(values):
    """Return an estimate as text for a wide table."""
    return "{:.1f} [{:.1f},{:.1f}]".format(*(value + 0.0 for value in values))


def pages(tables):
    """Return the text of every page of docs/ with tables, by its name."""
    found = {}
    for name, domains in PAGES.items():
        head = (ROOT / "docs" / name).read_text(encoding="utf-8").partition("<!-- tables -->")[0]
        found[name] = (
            head + "<!-- tables -->\n" + "".join(section(domain, tables[domain]) for domain in domains if domain in tables)
        )
    return found


def section(domain, rows):
    """Return the sentences and the table of a domain."""
    header = ("method", "conclusion", "best temperature", "best - base", "best - start", "best - shuffled")
    text = f"\n## {domain}\n\n{sentences(domain)}|{'|'.join(header)}|\n"
    text += "|" + "---|" * len(header) + "\n"
    for row in rows:
        columns = ("best", "" if "best - start" in row else "best - base", "best - start", "best - shuffled")
        cells = [compact(value) if isinstance(value := row.get(key, ""), list) else value for key in columns]
        name = row["method"] if row["seeds"] == 3 else f"{row['method']} ({row['seeds']})"
        end = ", ".join(sorted(set(row.get("conclusions", []))))
        text += f"|{marked(name, row)}|{end}|{'|'.join(cells)}|\n"
    return text + choices([*rows, *chosen_elsewhere(domain)]) + difficulties(domain, rows)


def chosen_elsewhere(domain):
    """Return a row for each model with cells of ``--choices``, for each finished arm of failures.py, and for the model (``start``) that its arms
    continue."""
    names = {slug(name): name for name in ("base", *METHODS)}
    found = {names[kind]: runs for kind, runs in cells_in(CELLS / slug(domain) / "choices").items()}
    for folder in sorted((CELLS.parent / "failures" / slug(domain)).glob("*")):
        start = names[folder.name]
        for kind, runs in cells_in(folder).items():
            found[start if kind == "start" else f"{start}, then {kind.removesuffix('-g4')}"] = runs
    places = [*names.values()]
    order = sorted(found, key=lambda name: (", then " in name, places.index(name) if name in places else 0, name))
    return [{"method": name, "choice": choice_figures(found[name])} for name in order]


def choices(rows):
    """Return the table of pass@1 after choice among samples; '' if no method has one."""
    header = ("greedy", "chosen", "any passes", "chosen - greedy", "samples", "tokens", "seconds")
    text = (
        f"\nOne sample that evidence chooses, per task:\n\n|method|{'|'.join(header)}|\n"
        + "|"
        + "---|" * (len(header) + 1)
        + "\n"
    )
    for row in (chosen := [row for row in rows if "choice" in row]):
        found = row["choice"]
        cells = [compact(found[part]) for part in ("greedy", "chosen", "any", "chosen - greedy")]
        cells += [str(found[part]) for part in ("samples", "tokens", "seconds")]
        name = row["method"] if found["seeds"] == 3 else f"{row['method']} ({found['seeds']})"
        text += f"|{marked(name, row)}|{'|'.join(cells)}|\n"
    return text if chosen else ""


def difficulties(domain, rows):
    """Return the table of all methods by difficulty; '' if all tasks are equally difficult."""
    of, band_of = bands(cells_of(domain))
    counts = {band: sum(found == band for tasks in band_of.values() for found in tasks.values()) for band in BANDS}
    if max(counts.values()) == sum(counts.values()):
        return ""
    shares = [f"{band}, {100 * count / sum(counts.values()):.0f} % of the tasks" for band, count in counts.items()]
    text = f"\nChange of pass@1 over the start model in points, ± half of the interval, by difficulty (pass rate of `{of}` in other seeds):\n\n"
    text += f"|method|{'|'.join(shares)}|\n" + "|" + "---|" * (len(BANDS) + 1) + "\n"
    for row in rows:
        if any((found := row.get("by difficulty", {})).values()):
            cells = [
                f"{found[band][0] + 0.0:.1f}±{(found[band][2] - found[band][1]) / 2:.1f}" if found[band] else ""
                for band in BANDS
            ]
            text += f"|{row['method']}|{'|'.join(cells)}|\n"
    return text


def sentences(domain):
    """Return the sentences above the table of a domain: power, and differences of pairs of methods."""
    return "".join(f"{text}\n\n" for text in (power(domain), pairs(domain), prompts(domain), devices(domain)) if text)


def pairs(domain):
    """Return the sentences on the differences of pairs of methods."""
    cells, found = cells_of(domain), []
    for what, beside in BESIDE.items():
        known = [(pair, contrast(cells[pair[1]], cells[pair[0]])) for pair in beside]
        parts = [
            f"`{one}` - `{other}` {shown(values)}{few(cells[one], cells[other])}" for (one, other), values in known if values
        ]
        found += [f"{what} (points at the best temperature): {', '.join(parts)}."] if parts else []
    return "\n\n".join(found)


def few(runs, others):
    """Return the number of seeds that two methods share as text, where there are fewer than three; else ''."""
    shared = len(runs.keys() & others.keys())
    return "" if shared > 2 else f" ({shared} seed{'s' * (shared > 1)})"


def power(domain):
    """Return a sentence on the smallest difference between a domain's first method and the base model that the tasks and seeds of both show."""
    cells = cells_of(domain)
    name = next((name for name, runs in cells.items() if runs and name != "base"), None)
    if name is None:
        return ""
    common = sorted(cells[name].keys() & cells["base"].keys())
    before, after = (scores([cells[of][seed] for seed in common], "best") for of in ("base", name))
    least = 100 * detectable(len(before), statistics.stdev(after[task] - before[task] for task in before))
    return f"The tasks show a difference of {least:.1f} points between `{name}` and the base model with a power of 80 %."


def prompts(domain):
    """Return a sentence on the methods that were also trained on the same tasks with other prompts."""
    if (other := OTHER_PROMPTS.get(domain)) is None:
        return ""
    here, there = cells_of(domain), cells_of(other)
    beside = {name: contrast(there[name], runs) for name, runs in here.items() if name != "base"}
    differences = ", ".join(f"`{name}` {shown(values)}" for name, values in beside.items() if values)
    return f"Difference to the same method with the prompts of `{other}` (points at the best temperature): {differences}."


def devices(domain):
    """Return a sentence on the cells that were run on a GPU."""
    found = {}
    for name, runs in cells_of(domain).items():
        for seed in runs if name != "base" else ():
            cost = json.loads((CELLS / slug(domain) / f"{slug(name)}-{seed}.cost.json").read_text())
            if gpu := cost["machine"]["gpu"]:
                found.setdefault(gpu, {}).setdefault(name, []).append(str(seed))
    shown_cells = {
        gpu: ", ".join(f"`{name}` ({' '.join(seeds)})" for name, seeds in cells.items()) for gpu, cells in found.items()
    }
    return "\n\n".join(f"Trained on one {gpu} instead of a CPU (seeds): {cells}." for gpu, cells in shown_cells.items())


def kind_of(name):
    """Return the kind of a row, which has a colour in the picture."""
    if name == "base" or name == "ssd" or "verdicts" in name or "shuffled" in name or "format only" in name:
        return "control"
    return "online" if METHODS[name].recipe == "grpo" else "second stage" if METHODS[name].start else "from the base model"


def draw(tables, file):
    """Draw capability against cost: pass@1 at each model's best temperature over the minutes that its model cost, where rates are measured."""
    plt.rcParams["svg.hashsalt"] = "upsolve"
    priced = {domain: rows for domain, rows in tables.items() if any("minutes" in row for row in rows)}
    figure, axes = plt.subplots(len(priced), 1, figsize=(9, 4.8 * len(priced)), squeeze=False, layout="constrained")
    for axis, (domain, rows) in zip(axes[:, 0], priced.items(), strict=True):
        for number, row in enumerate(sorted(rows, key=lambda row: -row["best"][0]), start=1):
            (mean, low, high), cost, colour = row["best"], row.get("minutes", 0), COLOURS[kind_of(row["method"])]
            label = f"{number:2}  {row['method']} ({row['seeds']})"
            axis.errorbar(cost, mean, [[mean - low], [high - mean]], fmt="o", ms=4, lw=1, color=colour, label=label)
            left = number % 2  # neighbours have nearly the same height
            axis.annotate(
                number,
                (cost, mean),
                xytext=(-5 if left else 5, 1),
                textcoords="offset points",
                ha="right" if left else "left",
                fontsize=8,
            )
        axis.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8, frameon=False, title="method (seeds)")
        axis.set(
            title=f"{domain} (blue: from the base model, green: second stage, orange: online, grey: control)",
            xlabel="sampling and training, minutes of an idle machine",
            ylabel="pass@1 at the best temperature, %",
        )
    figure.savefig(file, metadata={"Date": None})


def gains():
    """Return pass@1 by model, before and after training and for the control, and the gains of all and beyond the control: percent and points."""
    domain, name, start = SHOWN
    cells = cells_of(domain)
    runs, before, control = cells[name], cells[start], cells[placebo_of(name)]
    common = sorted(runs.keys() & before.keys() & control.keys())
    models = {"before": before, "after": runs, "control": control}
    levels = {
        kind: percent(mean_interval([*scores([of[seed] for seed in common], "best").values()])) for kind, of in models.items()
    }
    return levels, contrast(before, runs), contrast(control, runs), len(common)


def readme():
    """Return README.md with its sentence of gains."""
    levels, gain, beyond, seeds = gains()
    bars = ", ".join(f"{kind} {of[0]:.1f} %" for kind, of in levels.items())
    control = "the control, the same training on verdicts shuffled within each task, reaches the rest"
    text = f"Gain: {shown(gain)} points ({seeds} seeds). Of these, {shown(beyond)} points need the true verdicts; {control}.\n"
    before, _, rest = (ROOT / "README.md").read_text(encoding="utf-8").partition(MARKS[0])
    return f"{before}{MARKS[0]}\n\n![pass@1: {bars}](docs/gain.svg)\n\n{text}\n{MARKS[1]}{rest.partition(MARKS[1])[2]}"


def picture():
    """Return the bars of README.md, with intervals, for a light and a dark page."""
    return Template(BARS.read_text(encoding="utf-8"), trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True).render(
        levels=gains()[0]
    )


def main():
    """Write the tables of all finished cells."""
    tables = {domain: table(domain) for domain in DOMAINS if (CELLS / slug(domain)).is_dir()}
    (CELLS.parent / "leaderboard.json").write_text(json.dumps(tables, indent=1) + "\n")
    for name, text in pages(tables).items():
        (ROOT / "docs" / name).write_text(text, encoding="utf-8")
    (ROOT / "README.md").write_text(readme(), encoding="utf-8")
    (ROOT / "docs" / "gain.svg").write_text(picture(), encoding="utf-8")
    draw(tables, ROOT / "docs" / "leaderboard.svg")


if __name__ == "__main__":
    main()
