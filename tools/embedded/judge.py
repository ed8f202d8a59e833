"""Judge the sampled attempts and write the embedded archive: python tools/embedded/judge.py [IN.jsonl] [FOLDER]

Without a file, the attempts of the embedded archive itself are judged again, such as after a change of the judge.
"""

import json
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import build

from upsolve.archive.info import archive_info
from upsolve.archive.places import EMBEDDED
from upsolve.archive.split import find_leaks, split_tasks
from upsolve.archive.store import Archive, open_archive
from upsolve.config import DataConfig
from upsolve.types import Attempt
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.pool.pool import verify

ANALYSES = ("complexity", "dead", "lint", "security", "syntax")
"""All analyses except type checks, which find little in single functions."""


def attempts_of(source):
    """Return the attempts of a file, or those of the embedded archive as they were written."""
    if source:
        with open(source, encoding="utf-8") as lines:
            return [Attempt(**json.loads(line)) for line in lines]
    written = open_archive("embedded").attempts()
    return [replace(attempt, count=1) for attempt in written for _ in range(attempt.count) if attempt.author != "upsolve"]


def main(source, folder):
    """Add a reference attempt to every task, judge everything once, write tasks, attempts and verdicts."""
    tasks = {task.task_id: task for task in build.tasks()}
    attempts = [Attempt(task.task_id, task.reference, author="upsolve") for task in tasks.values()]
    attempts += [attempt for attempt in attempts_of(source) if attempt.task_id in tasks]
    verdicts = verify([(tasks[a.task_id], a) for a in attempts], JudgeSettings(lines=True, analyses=ANALYSES))
    slim = {v.attempt_id: replace(v, stdout_head="", stderr_head="") for v in verdicts}
    with tempfile.TemporaryDirectory() as made:
        archive = Archive.create(made)
        print(archive.append(tasks=tasks.values(), attempts=attempts, verdicts=slim.values()))
        (Path(made) / "lock").unlink()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(made, folder)
    archive = Archive(folder)
    print(archive_info(archive))
    few = [g.task.task_id for g in archive.groups() if len(g.attempts) < 8]
    print(len(few), "tasks with fewer than 8 distinct attempts", few)
    data = DataConfig()
    shares = {"train": data.train, "dev": data.dev, "test": 1 - data.train - data.dev}
    splits = split_tasks(list(tasks.values()), shares, seed=data.split_seed, ranked=True)
    print({name: len(split) for name, split in splits.items()}, find_leaks(splits["train"], splits["test"]))


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(
        next((a for a in arguments if a.endswith(".jsonl")), None),
        next((Path(a) for a in arguments if not a.endswith(".jsonl")), EMBEDDED),
    )
