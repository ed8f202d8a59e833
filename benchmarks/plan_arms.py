"""The advice of `upsolve plan` beside what training did: python benchmarks/plan_arms.py WORK [--domain sql] [--seed 0] [--arms sft rloo]

WORK is the folder of leaderboard.py. For every arm whose cell is finished, `upsolve plan` is run with the recipe, archive and start model of
that cell of one seed, before its training as it were, and its advice is put beside the measured change of pass@1 at the best temperature over all
seeds, compared with the model that the arm starts from. Plans are kept in WORK. The last arm has wrong labels: the archive's own verdicts, shuffled within each task and
recorded under another judge's name. Advice to train holds if pass@1 rises (its interval is above zero); advice to be careful, if it does not;
advice to imitate first or to judge again, if the arm gains less than `sft`. Writes the domain's rows of results/plan_arms.json and the table of
docs/plan.md.
"""

import argparse
import json
import random
from dataclasses import replace
from pathlib import Path

from leaderboard import METHODS, ROOT, Work, settings_of
from leaderboard_page import cells_of, contrast
from machine import machine

from upsolve.archive.store import Archive, copy_archive, open_archive
from upsolve.plan.findings import RULES, worth_it
from upsolve.plan.planning import plan_archive

ARMS = ("sft", "rloo", "exp_advantage", "topr", "ssd", "own rft", "own rloo", "own topr", "sft, verdicts shuffled")
LESS_THAN_IMITATION = ("noisy", "unable", "strange")
"""Rules whose advice says that the arm gains less than `sft`."""
RESULTS = ROOT / "benchmarks" / "results" / "plan_arms.json"
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
    """Return an arm's advice and its measured change over all seeds; None if it has no cell."""
    start, cells = METHODS[name].start or "base", cells_of(work.domain)
    change = contrast(cells[start], cells[name])
    return {"arm": name, "from": start, **planned(work, name), "change": change} if change else None


def held(row, rows):
    """Return whether an arm's advice held; None if it is to imitate and there is no imitation to compare with."""
    change, low, _ = row["change"]
    if row["rule"] in LESS_THAN_IMITATION:
        imitation = [other["change"][0] for other in rows if other["arm"] == "sft" and other["from"] == row["from"]]
        return change < imitation[0] if imitation else None
    return low > 0 if row["rule"] == worth_it.__name__ else low <= 0


def page(text, domains):
    """Return docs/plan.md with the table of the arms."""
    before, _, rest = text.partition(MARK)
    table = "\n|domain|arm|starts from|advice|best - start|held|\n|---|---|---|---|---|---|\n"
    for domain, found in domains.items():
        for row in found["arms"]:
            low, high = row["change"][1:]
            table += f"|{domain}|{row['arm']}|{row['from']}|{row['advice']}|{row['change'][0]:+.1f} [{low:+.1f}, {high:+.1f}]|"
            table += {True: "yes", False: "no", None: ""}[held(row, found["arms"])] + "|\n"
    return before + MARK + "\n" + table + "\n" + MARK + rest.partition(MARK)[2]


def main():
    """Plan every arm with a finished cell, and write the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--domain", default="sql")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--arms", nargs="*", default=ARMS)
    options = parser.parse_args()
    work = Work(options.domain, options.seed, options.work.resolve())
    rows = [row for name in options.arms if (row := arm(work, name))]
    domains = json.loads(RESULTS.read_text()) | {work.domain: {"machine": machine(), "seed": work.seed, "arms": rows}}
    RESULTS.write_text(json.dumps(domains, indent=1) + "\n")
    file = ROOT / "docs" / "plan.md"
    file.write_text(page(file.read_text(encoding="utf-8"), domains), encoding="utf-8")


if __name__ == "__main__":
    main()
