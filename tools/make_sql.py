"""Make the archive ``embedded-sql``: questions about generated databases, with judged queries: python tools/make_sql.py [FOLDER]

134 schemas (tools/sqlworld/*.txt) of everyday domains, three splits that share no table; 38 kinds of question in three difficulties. A task
has three hidden databases, chosen so that typical wrong queries have a different answer in at least one. The seed determines everything.
"""

import json
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from sqlworld.building import Made, build
from sqlworld.schema import SPLITS, read_schemas

from upsolve.archive.info import archive_info
from upsolve.archive.shipped import SHIPPED
from upsolve.archive.store import Archive
from upsolve.types import Task, content_id

__all__ = ["SEED", "make", "write"]

SEED = 0
TARGET = SHIPPED["embedded-sql"]


def make(seed: int = SEED, schemas: tuple[str, ...] = ()) -> Made:
    """Return tasks, attempts and verdicts of all schemas, or of some; those of a schema do not depend on the others."""
    every = Made()
    for name, schema in read_schemas().items():
        if not schemas or name in schemas:
            made = build(schema, seed)
            every.tasks += made.tasks
            every.attempts += made.attempts
            every.verdicts += made.verdicts
    return mixed(every)


def mixed(made: Made) -> Made:
    """Return the same with the tasks of each split in an order that mixes schemas and kinds, so that its first hundred stand for all."""

    def place(task: Task) -> tuple[int, str]:
        return SPLITS.index(json.loads(task.extra)["split"]), content_id(task.task_id)

    places = {task.task_id: place(task) for task in made.tasks}
    pairs = sorted(zip(made.attempts, made.verdicts, strict=True), key=lambda pair: places[pair[0].task_id])
    tasks = sorted(made.tasks, key=lambda task: places[task.task_id])
    return Made(tasks, [attempt for attempt, _ in pairs], [verdict for _, verdict in pairs])


def write(made: Made, folder: Path) -> Archive:
    """Write an archive in place of one that is there."""
    with tempfile.TemporaryDirectory() as place:
        archive = Archive.create(place)
        archive.write(made.tasks, made.attempts, made.verdicts)
        (Path(place) / "lock").unlink()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(place, folder)
    return Archive(folder)


def main() -> None:
    """Make the archive and print its counts."""
    made = make()
    print(archive_info(write(made, Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)))
    status = {verdict.attempt_id: verdict.status for verdict in made.verdicts}
    print(Counter((attempt.author.partition(":")[0], status[attempt.attempt_id].value) for attempt in made.attempts))


if __name__ == "__main__":
    main()
