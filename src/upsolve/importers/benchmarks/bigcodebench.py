"""Importer for BigCodeBench (2406.15877): its files on the Hub (.parquet) or JSON lines."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.problems.problems import as_list, extra_of
from upsolve.importers.recogniser.code import sound_suite
from upsolve.importers.recogniser.found import About
from upsolve.importers.recogniser.suites import imports_of, packages_in, unittest_tests
from upsolve.importers.rows import Row, build_each, data_files, left_out, rows_of_file
from upsolve.importers.source import Option, Source
from upsolve.types import Task

__all__ = ["SOURCE", "read"]

VERSION = re.compile(r"v(\d+)\.(\d+)\.(\d+)")
TAKEN = ("task_id", "complete_prompt", "instruct_prompt", "canonical_solution", "code_prompt", "test", "entry_point", "libs")


def read(path: Path, *, variant: str = "instruct", version: str = "") -> Iterator[Row]:
    """Yield the tasks of a file, or of the files of one version in a folder.

    Args:
        path: a folder or file of rows.
        variant: ``instruct`` or ``complete``: which prompt is used.
        version: such as ``v0.1.4``; empty for the newest in the folder.

    Raises:
        SourceError: the variant is unknown, or there is no file of the version.
    """
    if variant not in ("instruct", "complete"):
        raise SourceError(f"variant must be instruct or complete, got {variant!r}")
    for file in of_version(data_files(path), version):
        yield from build_each(file, rows_of_file(file), partial(records_of, variant=variant))


def of_version(files: list[Path], version: str) -> list[Path]:
    """Return the files of a version, or of the newest one; those without a version in their name belong to all."""
    numbers = {file: tuple(map(int, match.groups())) for file in files if (match := VERSION.search(file.name))}
    newest = max(numbers.values(), default=())
    wanted = VERSION.search(version)
    chosen = tuple(map(int, wanted.groups())) if wanted else newest
    kept = [file for file in files if numbers.get(file, chosen) == chosen]
    if not kept or (version and not wanted):
        known = sorted({f"v{'.'.join(map(str, number))}" for number in numbers.values()})
        raise SourceError(f"no file of version {version!r}; there are {', '.join(known) or 'none'}")
    return kept


def records_of(row: Mapping[str, Any], *, variant: str) -> Iterator[Row]:
    """Yield the task of a row; every method of its TestCase is one test."""
    entry_point, source = str(row["entry_point"]), str(row["test"])
    found = sound_suite(source, unittest_tests(source), About(entry_point))
    reference = f"{row['complete_prompt']}{row['canonical_solution']}"
    libraries = [*map(str, as_list(row.get("libs"))), *imports_of([source, reference])]
    heading = "Complete this Python function and give all of it:\n\n" if variant == "complete" else ""
    yield from left_out(found.refused)
    yield Task(
        task_id=f"bigcodebench/{str(row['task_id']).rpartition('/')[2]}",
        prompt=f"{heading}{str(row[f'{variant}_prompt']).strip()}",
        tests=found.tests,
        entry_point=entry_point,
        source="bigcodebench",
        reference=reference,
        official=True,
        requires=packages_in(libraries),
        extra=extra_of({**{key: row[key] for key in row if key not in TAKEN}, "split": "test"}),
    )


SOURCE = Source(
    read,
    "a folder or file of BigCodeBench's rows (.parquet, .jsonl)",
    (
        Option("variant", str, "prompt: instruct or complete (default: instruct)"),
        Option("version", str, "version of the files, such as v0.1.4 (default: the newest)"),
    ),
)
