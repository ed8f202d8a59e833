"""Judge the sampled attempts and write the embedded archive: python tools/embedded/judge.py IN.jsonl [FOLDER]"""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import build

from upsolve.archive.info import archive_info
from upsolve.archive.split import find_leaks, split_tasks
from upsolve.archive.store import Archive
from upsolve.config import DataConfig
from upsolve.types import Attempt
from upsolve.verify.pool.pool import verify

EMBEDDED = Path(__file__).parents[2] / "src/upsolve/archive/embedded"


def main(source, folder):
    """Add a reference attempt to every task, judge everything once, write tasks, attempts and verdicts."""
    tasks = {task.task_id: task for task in build.tasks()}
    attempts = [Attempt(task.task_id, task.reference, author="upsolve") for task in tasks.values()]
    with open(source, encoding="utf-8") as lines:
        attempts += [Attempt(**json.loads(line)) for line in lines]
    attempts = [attempt for attempt in attempts if attempt.task_id in tasks]
    verdicts = verify([(tasks[a.task_id], a) for a in attempts])
    slim = {v.attempt_id: replace(v, stdout_head="", stderr_head="", wall_seconds=None, cpu_seconds=None) for v in verdicts}
    for name in ("tasks", "attempts", "verdicts", "archive.json", "lock"):
        target = folder / name
        shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
    archive = Archive.create(folder)
    print(archive.append(tasks=tasks.values(), attempts=attempts, verdicts=slim.values()))
    (folder / "lock").unlink()
    print(archive_info(archive))
    few = [g.task.task_id for g in archive.groups() if len(g.attempts) < 8]
    print(len(few), "tasks with fewer than 8 distinct attempts", few)
    data = DataConfig()
    shares = {"train": data.train, "dev": data.dev, "test": 1 - data.train - data.dev}
    splits = split_tasks(list(tasks.values()), shares, seed=data.split_seed)
    print({name: len(split) for name, split in splits.items()}, find_leaks(splits["train"], splits["test"]))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else EMBEDDED)
