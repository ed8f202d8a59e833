"""New archives: one without the faults that checks found, which are written to files with their reasons; and one with expected answers."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from upsolve.archive.database import FORMAT, batches_of, read_part
from upsolve.archive.places import local_place, refuse_shipped
from upsolve.archive.schema import SCHEMA, TABLES
from upsolve.archive.store import META, Archive, copy_archive
from upsolve.clean.check import Action, Fault, mask
from upsolve.clean.doctor import Examination
from upsolve.errors import ArchiveError
from upsolve.files import write_text
from upsolve.types import Task, TestCase, TestKind, content_id
from upsolve.verify.judge.references import expected_answers

__all__ = ["Cleaned", "Filled", "fill_expected", "new_folder", "write_cleaned"]

SAMPLED = ("behavior_logp", "entropy", "token_ids", "token_logps")
"""Fields of an attempt about its sampled tokens; they no longer describe redacted code."""
KINDS = {"tasks": "task", "attempts": "attempt", "verdicts": "verdict"}
KEYS = {"tasks": ("task_id",), "attempts": ("attempt_id", "task_id", "parent_id"), "verdicts": ("attempt_id",)}
"""Columns that decide whether a row is changed."""
TEXTS = {"tasks": ("prompt", "reference"), "attempts": ("code", "answer")}
"""Columns that are redacted, including ``extra``, which is JSON."""
ROWS = 20_000
"""Number of rows that are read and written together."""
LOW = (1 << 32) - 1
"""Number of low bits of a place, which number the rows of a part; the higher bits number the parts."""
Faults = list[tuple[str, Fault]]
"""Names of checks, each with its fault in one record."""


@dataclass(slots=True)
class Cleaned:
    """Rows of a cleaned archive: read = kept + removed; redacted rows count as kept."""

    kept: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TABLES, 0))
    """Rows written, by table."""
    removed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TABLES, 0))
    """Rows removed, by table."""
    redacted: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TABLES, 0))
    """Rows changed, by table."""

    def text(self) -> str:
        """Return the counts as text, one line for each table."""
        lines = [
            f"{name}: {self.kept[name] + self.removed[name]:,} read = {self.kept[name]:,} kept ({self.redacted[name]:,} of them redacted) "
            f"+ {self.removed[name]:,} removed"
            for name in TABLES
        ]
        return "\n".join(lines)


def write_cleaned(archive: Archive, examination: Examination, folder: str | Path) -> Cleaned:
    """Write an archive without the faulty records of an examination; these go to ``removed/TABLE.jsonl``, secrets as placeholders."""
    out = new_folder(folder)
    fix = Fix(archive, out, examination)
    try:
        for name in (*TABLES, "removed"):
            (out / name).mkdir(parents=True)
        for name in TABLES:
            with (out / "removed" / f"{name}.jsonl").open("w", encoding="utf-8") as log:
                for number, part in enumerate(archive.parts(name)):
                    fix.write_part(name, number, part, log)
        write_text(out / META, json.dumps({**archive.meta(), "schema": SCHEMA}))  # last: what an interrupt leaves is no archive
    except OSError as error:
        raise ArchiveError(f"{out}: cannot be written: {error}") from error
    return fix.done


def new_folder(folder: str | Path) -> Path:
    """Create the folder for a cleaned archive; ArchiveError if it is a file, a URL, not empty, or an archive of the package."""
    out = local_place(folder)
    refuse_shipped(folder)
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise ArchiveError(f"{out}: the folder is not empty; name a new one")
    except OSError as error:
        raise ArchiveError(f"{out}: cannot be written: {error}") from error
    return out


class Fix:
    """An archive being cleaned."""

    def __init__(self, archive: Archive, out: Path, examination: Examination) -> None:
        self.out, self.done, self.changes = out, Cleaned(), examination.changes
        tasks, attempts = (self.changes[name].values() for name in ("tasks", "attempts"))
        self.lost_tasks = {faults[0][1].record: reasons_of(faults) for faults in tasks if is_removed(faults)}
        self.lost = {faults[0][1].record for faults in attempts if is_removed(faults)}
        """Ids of removed attempts, without attempts of which another row stays."""
        self.masks: dict[str, dict[str, str]] = {}
        """Attempt id -> secrets with their placeholders."""
        for faults in attempts:
            if found := placeholders_of(faults):
                self.masks.setdefault(faults[0][1].record, {}).update(found)
        self.rejudged = {fault.record for faults in attempts for _, fault in faults if fault.rejudge}
        self.renamed = dict(self.rename(archive))
        """Attempt id -> id of its redacted code."""

    def rename(self, archive: Archive) -> Iterator[tuple[str, str]]:
        """Yield the old and the new id of each redacted attempt."""
        chosen = [place for place, faults in self.changes["attempts"].items() if not is_removed(faults)]
        for number, part in enumerate(archive.parts("attempts")):
            if places := [place for place in chosen if place >> 32 == number]:
                table = read_part(part, ["attempt_id", "task_id", "language", "code"])
                for row in table.take([place & LOW for place in places]).to_pylist():
                    code = mask(row["code"], self.masks[row["attempt_id"]])
                    yield row["attempt_id"], content_id(row["task_id"], row["language"], code)

    def write_part(self, name: str, number: int, part: Path, log: TextIO) -> None:
        """Write the kept rows of a part, in their order; removed and changed rows go to the log."""
        with ExitStack() as stack:
            first, out = number << 32, None
            for batch in batches_of(part, ROWS):
                if cleaned := self.kept_rows(name, first, pa.Table.from_batches([batch]), log):
                    out = out or stack.enter_context(pq.ParquetWriter(self.out / name / part.name, TABLES[name], **FORMAT))
                    out.write_table(cleaned)
                first += batch.num_rows

    def kept_rows(self, name: str, first: int, table: Any, log: TextIO) -> Any:
        """Return the kept rows of a table; ``first`` is the place of its first row. Writes to the log as ``write_part`` does."""
        order, changed = list[int](), list[dict[str, Any]]()
        keys = zip(*(table.column(column).to_pylist() for column in KEYS[name]), strict=True)
        for index, key in enumerate(keys):
            place, target = first + index, index
            if self.is_touched(name, place, key):
                new = self.rewrite(name, place, table.slice(index, 1).to_pylist()[0], log)
                target = table.num_rows + len(changed) if new else -1
                changed += [new] if new else []
            if target >= 0:
                order.append(target)
                self.lost.discard(key[0] if name == "attempts" else "")
        self.done.kept[name] += len(order)
        self.done.removed[name] += table.num_rows - len(order)
        return pa.concat_tables([table, pa.Table.from_pylist(changed, schema=TABLES[name])]).take(order) if order else None

    def is_touched(self, name: str, place: int, key: Sequence[str]) -> bool:
        """Return whether a row may be removed or changed; ``key`` has the values of ``KEYS``."""
        if name == "tasks":
            return place in self.changes["tasks"] or key[0] in self.lost_tasks
        if name == "attempts":
            return place in self.changes["attempts"] or key[1] in self.lost_tasks or key[2] in self.renamed
        return key[0] in self.lost or key[0] in self.renamed

    def rewrite(self, name: str, place: int, row: dict[str, Any], log: TextIO) -> dict[str, Any] | None:
        """Return the new row, or None if it is removed; write the change to the log."""
        if name == "verdicts":
            new, reasons = self.rewrite_verdict(row)
        else:
            faults = self.changes[name].get(place, [])
            task_reasons = [f"its task was removed: {reason}" for reason in self.lost_tasks.get(row["task_id"], ())]
            reasons = [*(task_reasons if name == "attempts" else ()), *reasons_of(faults)]
            removed = row["task_id"] in self.lost_tasks or is_removed(faults)
            new = None if removed else self.redact(name, row, faults)
        if name == "attempts" and row["task_id"] in self.lost_tasks:
            self.lost.add(row["attempt_id"])
        tasks = self.changes["tasks"].get(place, [])
        masked = mask(row, placeholders_of(tasks) if name == "tasks" else self.masks.get(row["attempt_id"], {}))
        action = "redacted" if new else "removed"
        if reasons:
            self.done.redacted[name] += new is not None
            log.write(json.dumps({"kind": KINDS[name], "action": action, "reasons": reasons, **masked}) + "\n")
        return new

    def rewrite_verdict(self, row: dict[str, Any]) -> tuple[dict[str, Any] | None, list[str]]:
        """Return the new row of a verdict on an attempt that is removed or redacted, and the reasons."""
        name = row["attempt_id"]
        if name not in self.renamed:
            return None, ["its attempt was removed"]
        if name in self.rejudged:
            return None, ["its attempt was redacted in a text that the program may use; judge it again"]
        return {**mask(row, self.masks[name]), "attempt_id": self.renamed[name]}, [f"its attempt {name} was redacted"]

    def redact(self, name: str, row: dict[str, Any], faults: Faults) -> dict[str, Any]:
        """Return the row of a task or attempt with placeholders for secrets."""
        masks = placeholders_of(faults)
        new = {**row, **{column: mask(row[column], masks) for column in TEXTS[name]}}
        new["extra"] = mask(row["extra"], {json.dumps(text)[1:-1]: placeholder for text, placeholder in masks.items()})
        if name == "attempts":
            new["attempt_id"] = self.renamed.get(row["attempt_id"], row["attempt_id"])
            new["parent_id"] = self.renamed.get(row["parent_id"], row["parent_id"])
            if faults:
                new |= dict.fromkeys(SAMPLED)
        return new


def is_removed(faults: Faults) -> bool:
    """Return whether a record with these faults is removed."""
    return any(fault.action is Action.REMOVE for _, fault in faults)


def reasons_of(faults: Faults) -> list[str]:
    """Return the reasons of faults, each after the name of its check."""
    return list(dict.fromkeys(f"{name}: {fault.reason}" for name, fault in faults))


def placeholders_of(faults: Faults) -> dict[str, str]:
    """Return the secrets that faults name, with their placeholders."""
    return {text: placeholder for _, fault in faults for text, placeholder in fault.placeholders.items()}


BATCH = 1000
"""Tasks that are written together."""


@dataclass
class Filled:
    """Result of filling in expected answers."""

    tests: int = 0
    """Number of tests that got an expected answer."""
    tasks: int = 0
    """Number of tasks with such tests."""
    left: Counter[str] = field(default_factory=Counter[str])
    """Reason -> number of tasks that keep tests without an expected answer."""
    examples: dict[str, str] = field(default_factory=dict[str, str])
    """Reason -> an example task."""


def fill_expected(
    archive: Archive, out: str | Path, *, overwrite: bool = False, on_done: Callable[[int, int], None] | None = None
) -> Filled:
    """Copy an archive, and fill in the expected answers that CALL and STDIO tests lack, by running the tasks' references."""
    filled, tasks = Filled(), archive.tasks()
    new = copy_archive(archive, out)
    old_parts = new.parts("tasks")
    for start in range(0, len(tasks), BATCH):
        batch: list[Task] = []
        for task in tasks[start : start + BATCH]:
            batch.append(with_expected(task, filled, overwrite=overwrite))
            if on_done:
                on_done(start + len(batch), len(tasks))
        new.write(batch, (), ())
    for part in old_parts:
        part.unlink()
    return filled


def with_expected(task: Task, filled: Filled, *, overwrite: bool) -> Task:
    """Return a task with its expected answers filled in. ``filled`` counts these tests, and the reasons for tests without an answer."""
    lacking = [test.kind in (TestKind.CALL, TestKind.STDIO) and (overwrite or not test.expected) for test in task.tests]
    if not any(lacking):
        return task
    try:
        answers: list[str | None] = [*expected_answers(task)]
    except ValueError as error:
        reason = str(error).partition(":")[0]
        filled.left[reason] += 1
        filled.examples.setdefault(reason, f"{task.task_id}: {error}")
        pairs = zip(task.tests, lacking, strict=True)
        answers = [answer_alone(task, test) if lacks else None for test, lacks in pairs]
    got = [lacks and answer is not None for lacks, answer in zip(lacking, answers, strict=True)]
    filled.tests += sum(got)
    filled.tasks += any(got)
    triples = zip(task.tests, answers, got, strict=True)
    return replace(task, tests=tuple(replace(test, expected=answer) if new else test for test, answer, new in triples))


def answer_alone(task: Task, test: TestCase) -> str | None:
    """Return the answer of a task's reference to a single test; None if the reference gives none."""
    try:
        return expected_answers(replace(task, tests=(test,)))[0]
    except ValueError:
        return None
