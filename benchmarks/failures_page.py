"""Tables of docs/failures.md from the stored cells of leaderboard.py, failures.py and unsolved.py: python benchmarks/failures_page.py

Each attempt to learn from failures is paired with the method beside it that does not use them: the difference at the best temperature over the seeds that both have, with its 95 %
interval over tasks, and the smallest difference that as many tasks show with a power of 80 %. Writes results/failed_attempts.json, the tables behind the marks of the page, and
docs/failures.svg: pass@1 over the number of tasks with a passed attempt, with and without the failed attempts of all other tasks.
"""

import json
import statistics
from pathlib import Path

import failures
import matplotlib.pyplot as plt
import numpy as np
import unsolved
from leaderboard import cells_in, slug
from leaderboard_page import cells_of, scores
from rounding import percent

from upsolve.evaluate.intervals import detectable, mean_interval, paired_difference

ROOT = Path(__file__).parents[1]
PAGE, RESULT = ROOT / "docs" / "failures.md", ROOT / "benchmarks" / "results" / "failed_attempts.json"
PAIRS = {
    "sql": (
        *((name, "sft") for name in ("exp_advantage", "awr", "topr", "dpo", "kto", "rloo", "group_norm", "maxrl", "passk")),
        *((name, "own rft") for name in ("own topr", "grpo", "own rloo")),
    ),
    "robot": (*((name, "sft") for name in ("awr", "exp_advantage", "topr", "rloo")), ("own topr", "own rft")),
    "python": tuple((name, "sft") for name in ("awr", "exp_advantage", "topr", "rloo")),
    "mbpp": (("rloo, own samples", "rft, own samples"),),
}
"""Domain -> methods that use failed attempts, each with the one that does not."""
BESIDE = ("solved", "foreign-first", "own-samples", "own-samples-twice")
"""Arms of unsolved.py that others are compared with."""
TASKS, EACH, DRAWS = 1480, 2, 2000
"""Tasks of the archive of unsolved.py, failed attempts a task, and draws of tasks for an interval."""
MARK = "<!-- {}: python benchmarks/failures_page.py -->"


def beside(others, runs):
    """Return the paired difference of two methods over common seeds, and the detectable one; points."""
    common = sorted(others.keys() & runs.keys())
    before, after = (scores([of[seed] for seed in common], "best") for of in (others, runs))
    paired = paired_difference(before, after)
    deviation = statistics.stdev(after[task] - before[task] for task in before)
    return {
        "seeds": len(common),
        "tasks": len(before),
        "before": percent(mean_interval([*before.values()])),
        "after": percent(mean_interval([*after.values()])),
        "difference": percent(paired.difference),
        "detectable": round(100 * detectable(len(before), deviation), 1),
    }


def attempts():
    """Return a row for each pair of methods."""
    rows = []
    for domain, pairs in PAIRS.items():
        cells = cells_of(domain)
        for name, other in pairs:
            if cells.get(name) and cells.get(other):
                rows.append({"domain": domain, "method": name, "beside": other} | beside(cells[other], cells[name]))
    return rows


def unsolved_rows():
    """Return a row for each finished arm of unsolved.py, each beside `solved` of the same seeds."""
    kinds, rows = cells_in(unsolved.RESULTS), []
    for kind, runs in kinds.items():
        author, solved, arm = kind.split("-", 2)
        row = {"author": author, "solved": int(solved), "arm": arm, "seeds": len(runs)}
        row["pass@1"] = percent(mean_interval([*scores([*runs.values()], "best").values()]))
        for other in BESIDE:
            shared = "" if other == "foreign-first" else f"mutations-{solved}-{other}"  # the same whoever failed
            others = kinds.get(f"{author}-{solved}-{other}", kinds.get(shared, {}))
            if other != arm and others.keys() & runs.keys():
                row[f"over {other}"] = beside(others, runs)
        rows.append(row)
    order = [slug(arm) for arm in unsolved.ARMS]
    return sorted(rows, key=lambda row: (row["author"], row["solved"], order.index(row["arm"])))


def started_rows(domain="sql", start="sft half"):
    """Return a row for each finished arm of failures.py, beside imitation of the same groups and the model that both start from."""
    cells, starts = failures.cells_and_starts(failures.RESULTS / slug(domain) / slug(start))
    rows = [row | {"arm": "start"} for row in failures.rows_of({"start-g0": starts}, {})]
    for row in failures.rows_of(cells, starts):
        runs, name = cells[row["cell"]], row["cell"].removesuffix("-g4")
        row["arm"] = next(arm for arm in failures.ARMS if slug(arm) == name)
        rows.append(row | {"beside": beside(cells["imitation-g4"], runs)} if name != "imitation" else row)
    order = ["start", *failures.ARMS]
    return sorted(rows, key=lambda row: order.index(row["arm"]))


def by_size(author="mutations"):
    """Return a row for each number of solved tasks: pass@1 without and with the failed attempts of all others, and how many passed attempts one of these is worth.

    The worth is (n' - n) / failed attempts, where the curve without failures, drawn straight over log n, reaches at n' what is reached with failures at n.
    """
    kinds = cells_in(unsolved.RESULTS)
    curves = {}
    for kind, runs in kinds.items():
        of, solved, arm = kind.split("-", 2)
        if of == author and arm in ("solved", "all-solved", "failures-first"):
            size = TASKS if arm == "all-solved" else int(solved)
            curves.setdefault("with" if arm == "failures-first" else "without", {})[size] = scores([*runs.values()], "best")
    sizes = sorted(curves["without"])
    tasks = sorted(curves["without"][sizes[0]])
    without = np.array([[curves["without"][size][task] for task in tasks] for size in sizes])
    drawn = np.random.default_rng(0).integers(len(tasks), size=(DRAWS, len(tasks)))
    levels = without[:, drawn].mean(axis=2)  # [sizes, draws]
    rows = []
    for index, size in enumerate(sizes):
        row = {"solved": size, "without": percent(mean_interval([*without[index]]))}
        if size in curves["with"]:
            gained = np.array([curves["with"][size][task] for task in tasks])
            reached = [
                worth(size, value, sizes, level)
                for value, level in [
                    (gained.mean(), without.mean(axis=1)),
                    *zip(gained[drawn].mean(axis=1), levels.T, strict=True),
                ]
            ]
            row |= {"with": percent(mean_interval([*gained])), "failed": EACH * (TASKS - size)}
            row |= beside(kinds[f"{author}-{size}-solved"], kinds[f"{author}-{size}-failures-first"])
            row["worth"] = [round(float(one), 3) for one in (reached[0], *np.quantile(reached[1:], (0.025, 0.975)))]
        rows.append(row)
    return rows


def worth(size, value, sizes, levels):
    """Return how many passed attempts a failed one is worth, if the failures raise a share from that of ``size`` to ``value``; ``levels`` of ``sizes`` are without failures."""
    rising = np.maximum.accumulate(levels)
    return (float(np.exp(np.interp(value, rising, np.log(sizes)))) - size) / (EACH * (TASKS - size))


def draw(rows, file):
    """Draw pass@1 over the number of solved tasks, with and without failures."""
    plt.rcParams["svg.hashsalt"] = "upsolve"
    figure, axis = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for key, label in (("without", "their passed queries alone"), ("with", "near misses at the other tasks first")):
        sizes, (means, lows, highs) = (
            [row["solved"] for row in rows if key in row],
            np.array([row[key] for row in rows if key in row]).T,
        )
        axis.errorbar(sizes, means, [means - lows, highs - means], fmt="o-", ms=4, capsize=3, label=label)
    axis.set(
        xscale="log", xlabel="tasks with a passed query, of 1,480", ylabel="pass@1 at the best temperature, %", ylim=(0, None)
    )
    axis.set_xticks([row["solved"] for row in rows], [f"{row['solved']:,}" for row in rows], minor=False)
    axis.minorticks_off()
    axis.legend(frameon=False)
    figure.savefig(file, metadata={"Date": None})


def shown(values):
    """Return a value with its interval."""
    return "{:.1f} [{:.1f},{:.1f}]".format(*values)


def tables(rows, others, sizes, started):
    """Return the text of the tables by the names of their marks."""
    text = {
        "start": "|arm|arm - start, points|arm - `imitation`|the same at hard tasks|pass@1, %|pass@8, %|chosen, %|seeds|\n|---|---|---|---|---|---|---|---|\n",
        "unsolved": "|arm|arm - `solved`, points|arm - `foreign first`|arm - `own samples`|pass@1, %|failures of|seeds|\n|---|---|---|---|---|---|---|\n",
    }
    for row in started:
        over = row.get("over imitation, by difficulty", {}).get("hard")
        cells = [row.get("over start"), *((row["beside"]["difference"], over) if "beside" in row else ("", ""))]
        cells = [shown(one) if one else "" for one in (*cells, *(row.get(key) for key in ("pass@1", "pass@8", "chosen")))]
        text["start"] += f"|{row['arm']}|{'|'.join(cells)}|{len(row['seeds'])}|\n"
    for row in (row for row in others if row["solved"] == 50):
        cells = [shown(row[f"over {name}"]["difference"]) if f"over {name}" in row else "" for name in BESIDE[:3]]
        arm = next(arm for arm in unsolved.ARMS if slug(arm) == row["arm"])
        last = f"{shown(row['pass@1'])}|{row['author']}|{row['seeds']}|"
        text["unsolved"] += f"|{arm}|{'|'.join(cells)}|{last}\n"
    text["sizes"] = (
        "|tasks with a passed query|`solved`: pass@1, %|`failures first`: pass@1, %|difference, points|worth of a near miss, in passed queries|seeds|\n|---|---|---|---|---|---|\n"
    )
    for row in sizes:
        last = "|".join(shown(row[key]) for key in ("with", "difference")) if "with" in row else "|"
        worth_of = "{:.3f} [{:.3f},{:.3f}]".format(*row["worth"]) if "worth" in row else ""
        text["sizes"] += f"|{row['solved']:,}|{shown(row['without'])}|{last}|{worth_of}|{row.get('seeds', '')}|\n"
    text["attempts"] = (
        "|method with failures|difference, points|method without|domain|detectable with a power of 80 %, points|seeds, tasks|\n|---|---|---|---|---|---|\n"
    )
    for row in rows:
        cells = f"{row['domain']}|{row['detectable']:.1f}|{row['seeds']}, {row['tasks']}|"
        text["attempts"] += f"|`{row['method']}`|{shown(row['difference'])}|`{row['beside']}`|{cells}\n"
    return text


def written(page, texts):
    """Return a page with the tables behind its marks; a table ends at the next empty line."""
    for name, text in texts.items():
        before, mark, rest = page.partition(MARK.format(name))
        if not mark:
            raise SystemExit(f"{PAGE}: has no mark {MARK.format(name)}")
        after = rest.lstrip("\n").partition("\n\n")[2] if rest.lstrip("\n").startswith("|") else rest.lstrip("\n")
        page = f"{before}{mark}\n\n{text}\n{after}"
    return page


def main():
    """Write the results and the page."""
    rows, others, sizes, started = attempts(), unsolved_rows(), by_size(), started_rows()
    found = {"attempts": rows, "unsolved": others, "by size": sizes, "from a start": started}
    RESULT.write_text(json.dumps(found, indent=1) + "\n")
    draw(sizes, ROOT / "docs" / "failures.svg")
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), tables(rows, others, sizes, started)), encoding="utf-8")


if __name__ == "__main__":
    main()
