"""Importer for the student programs on five exercises published with Refactory (ASE 2019)."""

import zipfile
from collections.abc import Iterator
from pathlib import Path

from upsolve.errors import SourceError
from upsolve.importers.benchmarks.asserts import Names, names_bound, parse_asserts
from upsolve.importers.problems.problems import with_sound_tests
from upsolve.importers.rows import BadRow, Row
from upsolve.importers.source import Source
from upsolve.types import Attempt, Status, Task, TestKind, Verdict

__all__ = ["SOURCE", "read"]

JUDGE = "recorded:refactory"
LABELS = {"correct": Status.PASSED, "wrong": Status.FAILED}


def read(path: Path) -> Iterator[Row]:
    """Yield tasks, attempts and recorded verdicts; programs under ``fail`` have no label and stay unjudged."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = sorted(archive.namelist())
            for question in sorted({name.split("/")[1] for name in names if name.startswith("data/question_")}):
                task = task_of(archive, names, question)
                yield from with_sound_tests(task)
                yield from programs(archive, names, task)
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise SourceError(f"{path}: cannot be read: {error}") from error


def text_of(archive: zipfile.ZipFile, name: str) -> str:
    """Return the text of a file, with \\n as line end."""
    return archive.read(name).decode("utf-8", "replace").replace("\r\n", "\n")


def task_of(archive: zipfile.ZipFile, names: list[str], question: str) -> Task:
    """Build an exercise; its inputs are calls and its outputs literals."""
    folder = f"data/{question}"
    pairs = [(n, n.replace("input_", "output_")) for n in names if n.startswith(f"{folder}/ans/input_")]
    sources = [f"assert ({text_of(archive, a).strip()}) == ({text_of(archive, b).strip()})" for a, b in pairs]
    shared = f"{folder}/code/global.py"
    setup = text_of(archive, shared) if shared in names else ""
    tests = parse_asserts(sources, hidden=True, names=Names(setup=names_bound(setup)))
    reference = next((n for n in names if n.startswith(f"{folder}/code/reference/") and n.endswith(".py")), "")
    return Task(
        task_id=f"refactory/{question}",
        prompt=text_of(archive, f"{folder}/description.txt").strip(),
        tests=tests,
        entry_point=next((test.input.partition("(")[0] for test in tests if test.kind is TestKind.CALL), ""),
        source="refactory",
        official=True,
        reference=text_of(archive, reference) if reference else "",
        setup=setup,
    )


def programs(archive: zipfile.ZipFile, names: list[str], task: Task) -> Iterator[Row]:
    """Yield the programs of an exercise."""
    folder = f"data/{task.task_id.partition('/')[2]}/code"
    for label in ("correct", "wrong", "fail"):
        for name in (n for n in names if n.startswith(f"{folder}/{label}/") and n.endswith(".py")):
            code = text_of(archive, name)
            if not code.strip():
                yield BadRow(f"{archive.filename}/{name}", 1, "empty program", "")
                continue
            attempt = Attempt(task.task_id, code, author=f"student:{Path(name).stem}")
            yield attempt
            if label in LABELS:
                yield Verdict(attempt.attempt_id, LABELS[label], judge=JUDGE)


SOURCE = Source(read, "data.zip")
