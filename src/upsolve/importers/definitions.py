"""Tasks with several definitions: which definition is stored.

Within an import the first definition stays, as if the shares had been imported in turn. A task that occurs in several languages without another
difference becomes a task of any language. Attempts that may belong to another definition than the stored one are rejected; a file whose own
definition is the stored one keeps its attempts.

Imports that run at the same time give the archive that they would give in turn. An import reads the stored tasks when it begins, without those of
running imports, which may start over. After it has stored its records, it locks the archive and reads the tasks of other imports again; it starts
over if the tasks that it refers to have changed.
"""

import json
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from upsolve import __version__
from upsolve.archive.database import read_part, rewrite_part, rows_in
from upsolve.archive.places import fresh, locked, remove_folder
from upsolve.archive.schema import TABLES
from upsolve.archive.store import Archive
from upsolve.errors import ArchiveError
from upsolve.files import is_remote, write_text
from upsolve.importers.importing import REMEDY, Job, Place, all_places, content_in, other_content, places_of_part, repeats
from upsolve.importers.rows import NOWHERE, BadRow
from upsolve.importers.source import Source
from upsolve.plugins import find
from upsolve.records import from_row
from upsolve.types import Task, content_id

__all__ = ["PLAN", "Runs", "begin", "drop_rows", "is_current", "only_importer", "runs_of", "settle"]


@dataclass(slots=True)
class Contested:
    """A task with several definitions, whose attempts are rejected."""

    reason: str
    """Why the attempts are rejected."""
    kept: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Shares and files whose attempts are kept; the share distinguishes files without a name."""
    language: str = ""
    """Language of the attempts that are rejected; empty for any."""


def contested_tasks(job: Job, lost: Mapping[str, set[str]], languages: Mapping[str, str]) -> dict[str, Contested]:
    """Return by id the tasks with different statements, and the tasks whose language was unknown to attempts without a language."""
    others, same = dict[str, list[tuple[str, Place]]](), dict[str, list[tuple[str, Place]]]()
    assumed = set[str]()
    for share, places in all_places(job.folder):
        assumed |= languages.keys() & {*places.assumed}
        for task_id, found in places.others.items():
            others.setdefault(task_id, []).extend((share, (file, line)) for file, line in found)
    wanted = others.keys() | lost.keys()
    for share, places in all_places(job.folder) if wanted else ():
        for task_id in wanted & places.tasks.keys():
            target = others if share in lost.get(task_id, ()) else same
            target.setdefault(task_id, []).extend((share, (file, line)) for file, line in places.tasks[task_id])
    contested: dict[str, Contested] = {}
    for task_id in assumed - wanted:
        reason = (
            f"an attempt without a language, and its task {task_id}, of another file, is in {languages[task_id]}: import the "
            "tasks first, or give attempts their language; begin with a new archive"
        )
        contested[task_id] = Contested(reason, language="python")
    for task_id in sorted(wanted):
        stored, other = same.get(task_id, []), others[task_id]
        kept = {(share, file) for share, (file, _) in stored} - {(share, file) for share, (file, _) in other}
        first = where(stored[0][1]) if stored else "an earlier import"
        reason = f"an attempt at the task {task_id}, which is another in {first} than in {where(other[0][1])}: {REMEDY}"
        contested[task_id] = Contested(reason, kept)
    return contested


def where(place: Place) -> str:
    """Return file and line as text."""
    file, line = place
    return f"{file}, line {line}" if line else file or "another part of the source"


Runs = list[tuple[int, int]]
"""First row, and the row after the last, of consecutive rows."""


@dataclass(slots=True)
class Settled:
    """Changes of an import's parts that are due to tasks with several definitions."""

    drops: dict[str, tuple[int, Runs]] = field(default_factory=dict[str, tuple[int, Runs]])
    """Part, such as ``tasks/NAME`` -> its number of rows, and the runs of rows that are removed."""
    opened: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Name of a part -> ids of its tasks that also occur in other languages, in this or later parts; these become tasks of any language."""
    repeated: int = 0
    """Tasks with the same content as an earlier one; the language may differ."""
    bad: int = 0
    """Tasks with different content."""
    attempts: int = 0
    """Attempts that are rejected."""
    verdicts: int = 0
    """Verdicts of the rejected attempts, which are rejected, too."""


def settle(job: Job, path: Path) -> Settled:
    """Keep the first record of each task; reject later records with different content, named by ``path`` if the reader names no file.

    The changes are recorded before they are made, so that an interrupted import can make them again.
    """
    record = job.folder / "settled.json"
    if record.exists():
        settled = Settled(**json.loads(record.read_text(encoding="utf-8")))
    else:
        settled, lost, languages = find_repeated(job, path)
        reject_attempts(job, path, settled, contested_tasks(job, lost, languages))
        write_text(record, json.dumps(asdict(settled)))
    for name, task_ids in settled.opened.items():
        open_tasks(job.archive / "tasks" / name, {*task_ids})
    for name, (rows, runs) in settled.drops.items():
        drop_rows(job.archive / name, rows, runs)
    return settled


def find_repeated(job: Job, path: Path) -> tuple[Settled, dict[str, set[str]], dict[str, str]]:
    """Return three mappings: the changes of tasks; task id -> the shares with rejected tasks; task id -> languages other than Python and any.

    Writes the rejected tasks to a file of rejected rows.
    """
    ids, seen, repeated, languages = dict[Path, list[str]](), set[str](), set[str](), dict[str, str]()
    for part in parts_of(job, "tasks"):
        table = read_part(part, ["task_id", "language"])
        ids[part] = table["task_id"].to_pylist()
        for task_id, language in zip(ids[part], table["language"].to_pylist(), strict=True):
            (repeated if task_id in seen else seen).add(task_id)
            if language not in ("", "python"):
                languages.setdefault(task_id, language)
    settled, bad, lost = Settled(), list[BadRow](), dict[str, set[str]]()
    first: dict[str, tuple[str, tuple[str, str]]] = {}
    for part in (part for part, of_part in ids.items() if not repeated.isdisjoint(of_part)):
        table, places, drops = read_part(part), places_of_part(job.folder, part).tasks, list[int]()
        among = [index for index, task_id in enumerate(ids[part]) if task_id in repeated]
        for index, row in zip(among, table.take(among).to_pylist(), strict=True):
            task = from_row(Task, row)
            content = content_in(task)
            if task.task_id not in first:
                first[task.task_id] = part.name, content
                continue
            drops.append(index)
            home, stored = first[task.task_id]
            if content[0] != stored[0]:
                (file, line), *_ = places.get(task.task_id, [NOWHERE])
                bad.append(other_content(file or str(path), line, task, stored))
                lost.setdefault(task.task_id, set()).add(share_of(part))
                continue
            settled.repeated += 1
            if not repeats(content, stored):
                settled.opened.setdefault(home, []).append(task.task_id)
                first[task.task_id] = home, (content[0], "")
                languages.pop(task.task_id, None)
        if drops:
            settled.drops[f"tasks/{part.name}"] = table.num_rows, runs_of(drops)
    settled.bad = len(bad)
    write_rejected(job, "0", bad)
    return settled, lost, languages


def reject_attempts(job: Job, path: Path, settled: Settled, contested: Mapping[str, Contested]) -> None:
    """Add the attempts at contested tasks, and their verdicts, to the changes, and write them to files of rejected rows."""
    wanted = contested
    for name, key in (("attempts", "task_id"), ("verdicts", "attempt_id")) if contested else ():
        bad, of_attempt = list[BadRow](), dict[str, Contested]()
        for part in parts_of(job, name):
            if not (lost := lost_rows(job, part, key, wanted)):
                continue
            table = read_part(part)
            settled.drops[f"{name}/{part.name}"] = table.num_rows, runs_of([*lost])
            for row, file in zip(table.take([*lost]).to_pylist(), lost.values(), strict=True):
                of_attempt[row["attempt_id"]] = wanted[row[key]]
                bad.append(BadRow(file or str(path), 0, wanted[row[key]].reason, str(row)[:500]))
        write_rejected(job, name, bad)
        setattr(settled, name, len(bad))
        wanted = of_attempt


def lost_rows(job: Job, part: Path, key: str, contested: Mapping[str, Contested]) -> dict[int, str]:
    """Return the rows of a part that belong to contested tasks, which ``key`` names: index of a row -> its file."""
    places = getattr(places_of_part(job.folder, part), part.parent.name)
    files = (file for file, count in places for _ in range(count))
    table = read_part(part, [key, "language"] if key == "task_id" else [key])
    lost: dict[int, str] = {}
    for index, (row, file) in enumerate(zip(table.to_pylist(), files, strict=True)):
        task = contested.get(row[key])
        if task and task.language in ("", row.get("language", task.language)) and (share_of(part), file) not in task.kept:
            lost[index] = file
    return lost


def parts_of(job: Job, name: str) -> list[Path]:
    """Return the parts of a table that an import has stored, in their order."""
    return sorted((fresh(job.archive) / name).glob(f"*-{job.tag}.parquet"))


def share_of(part: Path) -> str:
    """Return the number of the share that stored a part, as file names have it."""
    return part.stem.split("-")[1].partition(".")[0]


def write_rejected(job: Job, name: str, bad: Sequence[BadRow]) -> None:
    """Write rejected rows to a file of an import."""
    if bad:
        write_text(job.folder / f"settled.{name}.jsonl", "".join(json.dumps(asdict(row)) + "\n" for row in bad))


def runs_of(rows: npt.ArrayLike) -> Runs:
    """Return increasing row numbers (at least one) as runs of consecutive rows."""
    found = np.asarray(rows, dtype=np.int64)
    runs = np.split(found, np.flatnonzero(np.diff(found) != 1) + 1)
    return [(int(run[0]), int(run[-1]) + 1) for run in runs]


def drop_rows(part: Path, rows: int, runs: Runs) -> None:
    """Remove runs of rows from a part, and the part if it becomes empty; a part with another number of rows was rewritten before, and is skipped."""
    if not part.exists() or rows_in(part) != rows:
        return
    keep = np.ones(rows, dtype=np.bool_)
    for start, stop in runs:
        keep[start:stop] = False
    rewrite_part(part, read_part(part).filter(pa.array(keep)))


def open_tasks(part: Path, task_ids: set[str]) -> None:
    """Turn these tasks of a part into tasks in any language."""
    if part.exists():
        table = read_part(part)
        rows = zip(table["task_id"].to_pylist(), table["language"].to_pylist(), strict=True)
        languages = ["" if task_id in task_ids else language for task_id, language in rows]
        column = table.schema.get_field_index("language")
        about = table.schema.field(column)
        rewrite_part(part, table.set_column(column, about, pa.array(languages, about.type)))


PLAN = "plan.json"
"""File in the folder of an import with the import's number and the id of the code that reads its source; without the file, ``begin`` starts over."""


@contextmanager
def only_importer(archive: Archive, job: Job) -> Generator[None]:
    """Lock the import against other processes (local archives only). ArchiveError if another process runs it."""
    with ExitStack() as stack:
        try:
            with archive.lock():  # ``is_running`` takes the lock of the import for a moment
                if not is_remote(job.folder):
                    job.folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(job.folder / "lock", wait=False))
        except BlockingIOError as error:
            raise ArchiveError(f"{job.archive}: another process runs the same import; wait until it ends") from error
        yield


def begin(archive: Archive, job: Job, where: str, path_id: str) -> Job:
    """Return a job with its number and the stored tasks. The import starts over unless the same code began it before.

    An earlier import is removed if it read other content at the same ``where``, or if it rejected too many rows of the same path, by any source and
    options; ArchiveError if it is running.
    """
    plan, reader, begun_before = job.folder / PLAN, reader_of(find("source", job.source)), archive.incomplete(where)
    for old in {begun_before, archive.incomplete(path_id)} - {"", job.tag}:
        with only_importer(archive, replace(job, tag=old)):
            archive.drop(old)
            remove_folder(job.folder.parent / old)
    begun = json.loads(plan.read_text(encoding="utf-8")) if plan.exists() else {}
    with archive.lock():
        parts = parts_of_others(archive, job.tag)
    stored = stored_in(parts)
    own_ids = (task_id for part in parts_of(job, "tasks") for task_id in read_part(part, ["task_id"]).column(0).to_pylist())
    if begun.get("reader") != reader or begun_before != job.tag or not stored.keys().isdisjoint(own_ids):
        archive.drop(job.tag)
        for file in fresh(job.folder).glob("*.json*"):
            file.unlink()
        with archive.lock():
            archive.begin_locked(where, job.tag, path_id)
            number = max(archive.next_number(*TABLES), 1 + max(numbers_begun(archive), default=0))
            begun = {"reader": reader, "number": number}
            write_text(plan, json.dumps(begun))
    return replace(job, number=begun["number"], stored=stored, seen=[part.name for part in parts])


def is_current(archive: Archive, job: Job) -> bool:
    """Return whether the tasks of other imports that an import refers to are unchanged since it began; the archive is locked."""
    parts = parts_of_others(archive, job.tag)
    if [part.name for part in parts] == job.seen:
        return True
    now = stored_in(parts)
    for _, places in all_places(job.folder):
        if any(now.get(name) != job.stored.get(name) for name in (*places.tasks, *places.others, *places.assumed)):
            return False
    return True


def numbers_begun(archive: Archive) -> Iterator[int]:
    """Yield the numbers of imports that have begun and are not finished."""
    for plan in fresh(archive.path).glob(f"imports/*/{PLAN}"):
        with suppress(FileNotFoundError):  # removed meanwhile
            yield int(json.loads(plan.read_text(encoding="utf-8"))["number"])


def parts_of_others(archive: Archive, tag: str) -> list[Path]:
    """Return the parts of tasks, except parts of the import with this tag and of other running imports; the archive is locked."""
    begun = {*archive.meta().get("incomplete", {}).values()} - {tag}
    left_out = {tag, *(other for other in begun if is_running(archive, other))}
    return [part for part in archive.parts("tasks") if part.stem.rpartition("-")[2] not in left_out]


def is_running(archive: Archive, tag: str) -> bool:
    """Return whether a process runs the import with a tag; the archive is locked. For a remote archive this is unknown: False."""
    try:
        with locked(archive.path / "imports" / tag / "lock", wait=False):
            return False
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False


def stored_in(parts: Sequence[Path]) -> dict[str, tuple[str, str]]:
    """Return the content (``content_in``) of the tasks in parts, by ``task_id``."""
    tasks = (from_row(Task, row) for part in parts for row in read_part(part).to_pylist())
    return {task.task_id: content_in(task) for task in tasks}


def reader_of(source: Source) -> str:
    """Return an id of the code that reads a source: upsolve's version and the module of ``read``."""
    file = getattr(sys.modules.get(source.read.__module__), "__file__", None)
    return content_id(__version__, sha256(Path(file).read_bytes()).hexdigest() if file else "", *filter(None, [source.version]))
