"""Tables of docs/failures.md from the stored cells of leaderboard.py and unsolved.py: python benchmarks/failures_page.py

Each attempt to learn from failures is paired with the method beside it that does not use them: the difference at the best temperature over the seeds that both have, with its 95 %
interval over tasks, and the smallest difference that as many tasks show with a power of 80 %. Writes results/failed_attempts.json and the tables behind the marks of the page.
"""

import json
import statistics
from pathlib import Path

import unsolved
from leaderboard import slug
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
    kinds, rows = unsolved.cells(unsolved.RESULTS), []
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


def shown(values):
    """Return a value with its interval."""
    return "{:.1f} [{:.1f}, {:.1f}]".format(*values)


def tables(rows, others):
    """Return the text of both tables by the name of its mark."""
    text = {
        "unsolved": "| arm | beside `solved` | beside `foreign first` | beside `own samples` | pass@1, % | failures of | seeds |\n|---|---|---|---|---|---|---|\n"
    }
    for row in others:
        cells = [shown(row[f"over {name}"]["difference"]) if f"over {name}" in row else "" for name in BESIDE[:3]]
        arm = next(arm for arm in unsolved.ARMS if slug(arm) == row["arm"])
        last = f"{shown(row['pass@1'])} | {row['author']} | {row['seeds']} |"
        text["unsolved"] += f"| {arm} | {' | '.join(cells)} | {last}\n"
    text["attempts"] = (
        "| uses failures | difference, points | does not | domain | shown with a power of 80 % | seeds, tasks |\n|---|---|---|---|---|---|\n"
    )
    for row in rows:
        cells = f"{row['domain']} | {row['detectable']:.1f} | {row['seeds']}, {row['tasks']} |"
        text["attempts"] += f"| `{row['method']}` | {shown(row['difference'])} | `{row['beside']}` | {cells}\n"
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
    rows, others = attempts(), unsolved_rows()
    RESULT.write_text(json.dumps({"attempts": rows, "unsolved": others}, indent=1) + "\n")
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), tables(rows, others)), encoding="utf-8")


if __name__ == "__main__":
    main()
