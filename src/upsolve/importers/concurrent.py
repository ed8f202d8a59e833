"""Imports that run at the same time into one archive: the archive is as if each had begun after the last one had finished.

An import reads the stored tasks when it begins. It leaves out those of imports that are running, which may start over. When it has stored its
records, it locks the archive and reads the tasks of other imports again. If those that it refers to have changed, it starts over.
"""

import json
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from upsolve import __version__
from upsolve.archive.parts import read_part
from upsolve.archive.places import fresh, locked, remove_folder
from upsolve.archive.schema import TABLES
from upsolve.archive.store import Archive
from upsolve.errors import ArchiveError
from upsolve.files import is_remote, write_text
from upsolve.importers.importing import Job
from upsolve.importers.source import Source
from upsolve.importers.statements import all_places, content_in
from upsolve.plugins import find
from upsolve.records import from_row
from upsolve.types import Task, content_id

__all__ = ["begin", "is_current", "only_importer", "start_over"]

PLAN = "plan.json"
"""File in the folder of an import: the code that reads its source, and its number."""


@contextmanager
def only_importer(archive: Archive, job: Job) -> Generator[None]:
    """Keep other processes from the same import; for a remote archive, none is kept.

    Raises:
        ArchiveError: another process runs this import.
    """
    with ExitStack() as stack:
        try:
            with archive.lock():  # ``is_running`` takes the lock of the import for a moment
                if not is_remote(job.folder):
                    job.folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(job.folder / "lock", wait=False))
        except BlockingIOError as error:
            raise ArchiveError(f"{job.archive}: another process does the same import; wait for it") from error
        yield


def begin(archive: Archive, job: Job, where: str) -> Job:
    """Return a job with its number and the stored tasks; it starts over unless the same code began it before.

    An import of the same source and path with another content, or that set too many rows aside, is removed.

    Raises:
        ArchiveError: another process imports the same path with another content.
    """
    plan, reader, old = job.folder / PLAN, reader_of(find("source", job.source)), archive.incomplete(where)
    if old not in ("", job.tag):
        with only_importer(archive, replace(job, tag=old)):
            archive.drop(old)
            remove_folder(job.folder.parent / old)
    begun = json.loads(plan.read_text(encoding="utf-8")) if plan.exists() else {}
    with archive.lock():
        parts = parts_of_others(archive, job.tag)
    stored = stored_in(parts)
    if begun.get("reader") != reader or old != job.tag or not stored.keys().isdisjoint(own_tasks(archive, job.tag)):
        archive.drop(job.tag)
        for file in fresh(job.folder).glob("*.json*"):
            file.unlink()
        with archive.lock():
            archive.begin_locked(where, job.tag)
            begun = {"reader": reader, "number": new_number(archive)}
            write_text(plan, json.dumps(begun))
    return replace(job, number=begun["number"], stored=stored, seen=[part.name for part in parts])


def start_over(job: Job) -> None:
    """Let the next ``begin`` of an import remove what it has stored."""
    (job.folder / PLAN).unlink()


def is_current(archive: Archive, job: Job) -> bool:
    """Return whether the tasks of other imports that an import refers to are as they were when it began; the archive is locked."""
    parts = parts_of_others(archive, job.tag)
    if [part.name for part in parts] == job.seen:
        return True
    now = stored_in(parts)
    return all(
        now.get(task_id) == job.stored.get(task_id)
        for _, places in all_places(job.folder)
        for task_id in (*places.tasks, *places.others, *places.assumed)
    )


def new_number(archive: Archive) -> int:
    """Return a number above those of all parts and of all imports that have begun; the archive is locked."""
    return max(archive.next_number(*TABLES), 1 + max(numbers_begun(archive), default=0))


def numbers_begun(archive: Archive) -> Iterator[int]:
    """Yield the numbers of imports that have begun and are not finished."""
    for plan in fresh(archive.path).glob(f"imports/*/{PLAN}"):
        with suppress(FileNotFoundError):  # removed meanwhile
            yield int(json.loads(plan.read_text(encoding="utf-8"))["number"])


def parts_of_others(archive: Archive, tag: str) -> list[Path]:
    """Return the parts of tasks but for those of the import with this tag and of other imports that are running; the archive is locked."""
    begun = {*archive.meta().get("incomplete", {}).values()} - {tag}
    left_out = {tag, *(other for other in begun if is_running(archive, other))}
    return [part for part in archive.parts("tasks") if part.stem.rpartition("-")[2] not in left_out]


def is_running(archive: Archive, tag: str) -> bool:
    """Return whether a process runs the import with a tag; the archive is locked. Of a remote archive, this is not known: False."""
    try:
        with locked(archive.path / "imports" / tag / "lock", wait=False):
            return False
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False


def own_tasks(archive: Archive, tag: str) -> list[str]:
    """Return the ids of the tasks that an import has stored."""
    parts = [part for part in archive.parts("tasks") if part.stem.endswith(f"-{tag}")]
    return [task_id for part in parts for task_id in read_part(part, ["task_id"]).column(0).to_pylist()]


def stored_in(parts: Sequence[Path]) -> dict[str, tuple[str, str]]:
    """Return the content (``content_in``) of the tasks in parts, by ``task_id``."""
    tasks = (from_row(Task, row) for part in parts for row in read_part(part).to_pylist())
    return {task.task_id: content_in(task) for task in tasks}


def reader_of(source: Source) -> str:
    """Return an id of the code that reads a source: of upsolve's version and of the module of ``read``."""
    file = getattr(sys.modules.get(source.read.__module__), "__file__", None)
    return content_id(__version__, sha256(Path(file).read_bytes()).hexdigest() if file else "")
