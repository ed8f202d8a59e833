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

from sqlworld.building import SchemaTasks, build
from sqlworld.schema import SPLITS, read_schemas

from upsolve.archive.info import archive_info
from upsolve.archive.places import SHIPPED
from upsolve.archive.store import Archive
from upsolve.types import Task, content_id

__all__ = ["SEED", "make", "write"]

SEED = 0
TARGET = SHIPPED["embedded-sql"]


def make(seed: int = SEED, schemas: tuple[str, ...] = ()) -> SchemaTasks:
    """Return tasks, attempts and verdicts of all schemas, or of some; those of a schema do not depend on the others."""
    records = SchemaTasks()
    for name, schema in read_schemas().items():
        if not schemas or name in schemas:
            part = build(schema, seed)
            records.tasks += part.tasks
            records.attempts += part.attempts
            records.verdicts += part.verdicts
    return mixed(records)


def mixed(records: SchemaTasks) -> SchemaTasks:
    """Return the records with the tasks of each split in an order that mixes schemas and kinds, so that the first hundred are representative."""

    def place(task: Task) -> tuple[int, str]:
        return SPLITS.index(json.loads(task.extra)["split"]), content_id(task.task_id)

    positions = {task.task_id: place(task) for task in records.tasks}
    pairs = sorted(zip(records.attempts, records.verdicts, strict=True), key=lambda pair: positions[pair[0].task_id])
    tasks = sorted(records.tasks, key=lambda task: positions[task.task_id])
    return SchemaTasks(tasks, [attempt for attempt, _ in pairs], [verdict for _, verdict in pairs])


def write(records: SchemaTasks, folder: Path) -> Archive:
    """Write an archive, replacing an existing one."""
    with tempfile.TemporaryDirectory() as folder_written:
        archive = Archive.create(folder_written)
        archive.write(records.tasks, records.attempts, records.verdicts)
        (Path(folder_written) / "lock").unlink()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(folder_written, folder)
    return Archive(folder)


def main() -> None:
    """Create the archive and print its counts."""
    records = make()
    print(archive_info(write(records, Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)))
    status = {verdict.attempt_id: verdict.status for verdict in records.verdicts}
    print(Counter((attempt.author.partition(":")[0], status[attempt.attempt_id].value) for attempt in records.attempts))


if __name__ == "__main__":
    main()
