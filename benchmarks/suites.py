"""Tests grown and shrunk by stored attempts: python benchmarks/suites.py embedded|agreement|sql|shrink|shrink-sql|shrink-mbpp_plus WORK [DATA] [--seconds 110]

``embedded``: tests of the embedded archive grown from the visible tests and the reference; ``agreement``: the same tasks without references; ``sql``: tasks
of embedded-sql with a wrong query that passes all three databases; ``shrink``: time of judging with all tests and with the fewest. A call works for some
seconds and stores its rows in WORK; the next call goes on; the last one adds the result to results/suites.json. ``shrink-mbpp_plus`` judges programs of three
models (LDB) by the tests of MBPP+, 69 a task; DATA is a folder with evalplus/MbppPlus.jsonl and ldb/mbpp as published by their authors.
"""

import argparse
import json
import pickle
import random
import shutil
import time
from dataclasses import replace
from pathlib import Path

from choosing import cases_of_mbpp_plus
from machine import machine, publish

from upsolve.archive.store import Archive, open_archive
from upsolve.suites.grade import failed_tests
from upsolve.suites.grow import GrowSettings, grow_groups
from upsolve.suites.shrink import ENDED, shrink
from upsolve.types import Status
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.pool.pool import verify

RESULT = Path(__file__).parent / "results" / "suites.json"
SETTINGS = JudgeSettings(workers=2)
PORTIONS, JUDGED = {"embedded": 8, "agreement": 8, "sql": 4}, 40
"""Tasks that are grown, and attempts that are judged, at once."""
INPUTS = {"embedded": 100, "agreement": 100, "sql": 100}
ROUNDS = 3


def is_wrong(name, group, attempt, verdict):
    """Return whether an attempt that passes the present tests is wrong: by the hidden tests, or as a mutation of the right query."""
    return attempt.author.startswith("mutation") if name == "sql" else bool(failed_tests(group.task, verdict))


def groups_of(name):
    """Return the groups to grow tests for."""
    if name != "sql":
        groups = [*open_archive("embedded").groups()]
        return groups if name == "embedded" else [replace(one, task=replace(one.task, reference="")) for one in groups]
    return [
        group
        for group in open_archive("embedded-sql").groups()
        if any(
            attempt.author.startswith("mutation") and verdict.status is Status.PASSED
            for attempt, verdict in zip(group.attempts, group.verdicts, strict=True)
        )
    ]


def stored(file, make):
    """Return what a file of this benchmark holds; make and store it before."""
    if not file.exists():
        file.write_bytes(pickle.dumps(make()))
    return pickle.loads(file.read_bytes())


def grown_rows(name, groups):
    """Return a row for each task: its wrong and right attempts that pass the present tests, and those that a new test fails."""
    rows = []
    for growth in grow_groups(groups, GrowSettings(inputs=INPUTS[name], visible=name != "sql"), SETTINGS):
        verdicts = dict(zip((one.attempt_id for one in growth.group.attempts), growth.group.verdicts, strict=True))
        passed = {one.attempt_id: one for one in growth.passed}
        wrong = [one for one in passed if is_wrong(name, growth.group, passed[one], verdicts[one])]
        counts = dict.fromkeys(passed, 0)
        for attempt in growth.group.attempts:
            if attempt.attempt_id in counts:
                counts[attempt.attempt_id] += 1
        caught = growth.caught
        right_failed = [one for one in caught if one not in wrong]
        reasons = {one: next(new["input"] for new in growth.row()["new"] if one in new["fails"]) for one in right_failed}
        rows.append(
            {
                "task": growth.task.task_id,
                "programs": len(passed),
                "attempts": sum(counts.values()),
                "wrong": sum(counts[one] for one in wrong),
                "caught": sum(counts[one] for one in wrong if one in caught),
                "missed": [passed[one].code for one in wrong if one not in caught],
                "right_failed": [[passed[one].code, reasons[one]] for one in right_failed],
                "new": len(growth.kept),
                "skipped": growth.skipped,
            }
        )
    return rows


def judged_rows(attempts, tasks, fewer, verdicts):
    """Return a row for some attempts: seconds of judging with all tests and with the fewest, and verdicts that differ (``changed``: with the fewest); ``limited``: of those that a limit ends."""
    row = {"changed": 0, "all_changed": 0}
    ended = [one for one in attempts if not {*verdicts[one.attempt_id].outcomes}.isdisjoint(ENDED)]
    for kind, some in (("", [one for one in attempts if one not in ended]), ("limited_", ended)):
        row[f"{kind}attempts"] = len(some)
        for name, chosen in (("all", tasks), ("fewest", fewer)):
            times = []
            for _ in range(ROUNDS):
                started = time.monotonic()
                found = verify([(chosen[one.task_id], one) for one in some], SETTINGS)
                times.append(time.monotonic() - started)
            row[kind + name] = min(times)
            row["changed" if name == "fewest" else "all_changed"] += sum(
                (one.status is Status.PASSED) != (verdicts[one.attempt_id].status is Status.PASSED) for one in found
            )
    return [row]


def judged_archive(name, work, data):
    """Return the archive whose tests are shrunk; that of MBPP+ is made and judged once."""
    if name != "shrink-mbpp_plus":
        return open_archive("embedded-sql" if name.endswith("sql") else "embedded")
    path = work / "mbpp_plus"
    if not (path / "whole").exists():
        cases = cases_of_mbpp_plus(data)
        tasks = {hidden.task_id: hidden for _, hidden, _ in cases}
        attempts = [replace(one, task_id=hidden.task_id) for _, hidden, programs in cases for one in programs]
        shutil.rmtree(path, ignore_errors=True)
        verdicts = verify([(tasks[one.task_id], one) for one in attempts], SETTINGS)
        Archive.create(path).append(tasks=[*tasks.values()], attempts=attempts, verdicts=verdicts)
        (path / "whole").touch()
    return Archive(path)


def portions(name, work, data):
    """Yield functions that return the rows of one portion each."""
    if not name.startswith("shrink"):
        groups = stored(work / f"{name}.pickle", lambda: groups_of(name))
        for start in range(0, len(groups), PORTIONS[name]):
            yield lambda chosen=groups[start : start + PORTIONS[name]]: grown_rows(name, chosen)
        return
    archive = judged_archive(name, work, data)
    shrink(archive, work / f"{name}-archive")
    tasks, fewer = ({one.task_id: one for one in store.tasks()} for store in (archive, Archive(work / f"{name}-archive")))
    verdicts = {one.attempt_id: one for one in archive.verdicts()}
    attempts = [*{one.attempt_id: one for one in archive.attempts()}.values()]
    random.Random(0).shuffle(attempts)
    for start in range(0, 10 * JUDGED, JUDGED):
        yield lambda chosen=attempts[start : start + JUDGED]: judged_rows(chosen, tasks, fewer, verdicts)


def summary(rows):
    """Return the sums of the rows."""
    sums = {key: sum(row[key] for row in rows) for key, value in rows[0].items() if isinstance(value, int | float)}
    lists = {
        key: [[row["task"], one] for row in rows for one in row[key]]
        for key, value in rows[0].items()
        if isinstance(value, list)
    }
    return {"rows": len(rows), **{key: round(value, 2) for key, value in sums.items()}, **lists}


def main():
    """Work for some seconds, and publish the result once all portions are done."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=[*INPUTS, "shrink", "shrink-sql", "shrink-mbpp_plus"])
    parser.add_argument("work", type=Path)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--seconds", type=float, default=110)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    file, started = options.work / f"{options.name}.json", time.monotonic()
    done = json.loads(file.read_text()) if file.exists() else []
    for number, portion in enumerate(portions(options.name, options.work, options.data)):
        if number < len(done):
            continue
        if time.monotonic() - started > options.seconds:
            print(f"{len(done)} portions done: run the command again")
            return
        done.append(portion())
        file.write_text(json.dumps(done))
    report = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    report |= {"machine": machine(), options.name: summary([row for rows in done for row in rows])}
    publish(report, RESULT)


if __name__ == "__main__":
    main()
