"""The advice of `upsolve plan` beside what training did: python benchmarks/plan_arms.py WORK [--domain sql] [--seed 0]

WORK is the folder of leaderboard.py. For every arm whose cell is finished, `upsolve plan` is run with the recipe, archive and start model of
that cell, before its training as it were, and its advice is put beside the measured change of pass@1 at the best temperature, compared with the
model that the arm starts from. Plans are kept in WORK. The last arm has wrong labels: the archive's own verdicts, shuffled within each task and
recorded under another judge's name. Writes results/plan_arms.json and the table of docs/plan.md.
"""

import argparse
import json
import random
from dataclasses import replace
from pathlib import Path

from leaderboard import CELLS, METHODS, ROOT, Work, load_cell, settings_of, slug
from leaderboard_page import contrast
from machine import machine

from upsolve.archive.copying import copy_archive
from upsolve.archive.store import Archive, open_archive
from upsolve.plan.advice import RULES, worth_it
from upsolve.plan.planning import plan_archive

ARMS = ("sft", "rloo", "exp_advantage", "topr", "ssd", "own rft", "own rloo", "own ssd", "sft, verdicts shuffled")
MARK = "<!-- arms -->"


def shuffled_archive(work):
    """Return a copy of the domain's archive whose recorded verdicts are shuffled within each task; created once."""
    path = work.at("shuffled") / "archive"
    if not (path / "shuffled").exists():
        copy = path if path.exists() else copy_archive(open_archive(work.recipe("sft").data.archive), path).path
        wrong, chance = [], random.Random(work.seed)
        for group in Archive(copy).groups():
            scored = [(a.attempt_id, verdict) for a, verdict in zip(group.attempts, group.verdicts, strict=True) if verdict]
            others = chance.sample(scored, len(scored))
            wrong += [
                replace(verdict, attempt_id=own, judge="recorded:shuffled")
                for (own, _), (_, verdict) in zip(scored, others, strict=True)
            ]
        Archive(copy).append(verdicts=wrong)
        (path / "shuffled").touch()
    return path


def planned(work, name):
    """Return the advice of a plan for an arm and the name of its rule, computed once."""
    file = work.at(name) / "plan.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        method = METHODS[name]
        settings = [s for s in settings_of(work, name) if not s.startswith("reward.verdicts")]
        if "verdicts shuffled" in name:
            settings += [f"data.archive={shuffled_archive(work)}", "data.judge=recorded:shuffled"]
        plan = plan_archive(work.recipe(method.recipe, *settings))
        rule = next((rule.__name__ for rule in RULES if rule(plan)), worth_it.__name__)
        file.write_text(json.dumps({"rule": rule, "advice": plan.advice}))
    return json.loads(file.read_text().replace(str(work.folder), "WORK"))


def arm(work, name):
    """Return an arm's advice and its measured change; None if its cell is not finished."""
    path, start = CELLS / slug(work.domain), METHODS[name].start or "base"
    files = {cell: path / f"{slug(cell)}-{work.seed}.json.gz" for cell in (name, start)}
    if not all(file.exists() for file in files.values()):
        return None
    before, after = ({work.seed: load_cell(files[cell])} for cell in (start, name))
    return {"arm": name, "from": start, **planned(work, name), "change": contrast(before, after)}


def page(text, rows):
    """Return docs/plan.md with the table of the arms."""
    before, _, rest = text.partition(MARK)
    table = "\n| arm | starts from | advice | best - start |\n|---|---|---|---|\n"
    for row in rows:
        low, high = row["change"][1:]
        table += f"| {row['arm']} | {row['from']} | {row['advice']} | {row['change'][0]:+.1f} [{low:+.1f}, {high:+.1f}] |\n"
    return before + MARK + "\n" + table + "\n" + MARK + rest.partition(MARK)[2]


def main():
    """Plan every arm with a finished cell, and write the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--domain", default="sql")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    work = Work(options.domain, options.seed, options.work.resolve())
    rows = [row for name in ARMS if (row := arm(work, name))]
    result = {"machine": machine(), "domain": work.domain, "seed": work.seed, "arms": rows}
    (ROOT / "benchmarks" / "results" / "plan_arms.json").write_text(json.dumps(result, indent=1) + "\n")
    file = ROOT / "docs" / "plan.md"
    file.write_text(page(file.read_text(encoding="utf-8"), rows), encoding="utf-8")


if __name__ == "__main__":
    main()
