"""Importer for the problems of LiveCodeBench (2403.07974), scenario code generation: test.jsonl, test2.jsonl, ..."""

import base64
import io
import json
import pickle
import re
import zlib
from collections.abc import Iterator, Mapping
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.problems.problems import (
    COMPARE,
    Compare,
    build_alone,
    by_numbers,
    call_tests,
    callee_of,
    json_value,
    of_programs,
    prompt_of,
    rest_of,
    setup_of,
    stdio_tests,
)
from upsolve.importers.rows import Row, data_files
from upsolve.importers.source import Option, Source
from upsolve.types import Task

__all__ = ["SOURCE", "read", "text_of_pickle"]

MOST_BYTES = 1 << 30
"""Most bytes of the hidden tests of a problem, decompressed."""
TAKEN = ("question_content", "question_id", "difficulty", "public_test_cases", "private_test_cases")
TOLERANCE = "1e-9"
"""Tolerance of ``contest``; the publisher compares numbers of outputs as decimals, so that 1.50 equals 1.5."""


def read(
    path: Path, *, release: str = "", start: str = "", end: str = "", compare: Compare = Compare.PUBLISHER
) -> Iterator[Row]:
    """Yield the tasks of a folder or file.

    Args:
        path: the folder with test.jsonl, test2.jsonl, ..., or one such file.
        release: ``release_v3`` for all problems up to the third file, ``v3`` for those of the third, ``v2_v3`` for both; empty for all.
        start: first date of a contest, ``2024-08-01``; empty for all.
        end: last date of a contest.
        compare: how outputs are compared.

    Raises:
        SourceError: an unknown release, a file of it is missing, or a date is not in the form YYYY-MM-DD.
    """
    first, last = day(start, "start") or date.min, day(end, "end") or date.max
    for file in release_files(path, release):
        yield from build_alone(file, partial(records_of, first=first, last=last, compare=compare))


def release_files(path: Path, release: str) -> list[Path]:
    """Return the files of a release.

    Raises:
        SourceError: the release is unknown, or one of its files is missing.
    """
    if not release:
        return data_files(path)
    match = re.fullmatch(r"release_v(\d+)|v(\d+)(?:_v(\d+))?", release)
    if match is None or not path.is_dir():
        raise SourceError(
            f"{path}: release {release!r} must be release_v3, v3 or v2_v3, of a folder with test.jsonl, test2.jsonl"
        )
    numbers = range(1, int(match[1]) + 1) if match[1] else range(int(match[2]), int(match[3] or match[2]) + 1)
    files = [path / ("test.jsonl" if number == 1 else f"test{number}.jsonl") for number in numbers]
    if missing := [file.name for file in files if not file.is_file()]:
        raise SourceError(f"{path}: release {release} needs {', '.join(missing)}")
    return files


def day(text: str, name: str) -> date | None:
    """Return a date; None for empty text."""
    try:
        return date.fromisoformat(text) if text else None
    except ValueError as error:
        raise SourceError(f"{name}: {text!r} is not a date such as 2024-08-01") from error


def records_of(row: Mapping[str, Any], *, first: date, last: date, compare: Compare) -> Iterator[Row]:
    """Yield the task of a row if its contest was within the dates."""
    if first <= date.fromisoformat(str(row["contest_date"])[:10]) <= last:
        yield task_of(row, compare)


def task_of(row: Mapping[str, Any], compare: Compare) -> Task:
    """Return the task of a row; public tests are visible, private ones hidden."""
    starter = str(row.get("starter_code") or "")
    public, private = cases_of(str(row["public_test_cases"])), cases_of(str(row["private_test_cases"]))
    metadata = row.get("metadata") or {}
    metadata = json.loads(metadata) if isinstance(metadata, str) else metadata
    return Task(
        task_id=f"livecodebench/{row['question_id']}",
        prompt=prompt_of(str(row["question_content"]), starter),
        difficulty=str(row.get("difficulty") or ""),
        source="livecodebench",
        official=True,
        extra=rest_of(row, TAKEN, metadata=metadata, split="test"),
        **tests_of((public, private), str(metadata.get("func_name") or ""), starter, compare=compare),
    )


def tests_of(cases_of_kinds: tuple[list[Any], list[Any]], name: str, starter: str, *, compare: Compare) -> dict[str, Any]:
    """Return tests, comparison and, for functions, entry point and setup of a task with public and private cases."""
    public, private = cases_of_kinds
    cases = [*public, *private]
    if not name:
        shown, hidden = ([[case[key] for case in part] for key in ("input", "output")] for part in (public, private))
        tests = stdio_tests(*shown, hidden=False) + stdio_tests(*hidden)
        return {"tests": tests, "compare": of_programs(tests, compare, "livecodebench", TOLERANCE)}
    callee = callee_of(name, starter)
    inputs = [[json_value(line) for line in case["input"].split("\n")] for case in cases]
    outputs = [json_value(case["output"]) for case in cases]
    tests = call_tests(callee, inputs, outputs, hidden=[number >= len(public) for number in range(len(cases))])
    way = by_numbers(tests, TOLERANCE) if compare is Compare.CONTEST else "livecodebench"
    return {"tests": tests, "compare": way, "entry_point": callee.entry_point, "setup": setup_of(tests, callee)}


def cases_of(text: str) -> list[Any]:
    """Return test cases written as JSON or, to hide them from crawlers, as base64 of zlib of a pickle of JSON text.

    Raises:
        ValueError: it is neither, is too large, or the pickle holds more than text.
    """
    if not text.lstrip().startswith("["):
        unpacker = zlib.decompressobj()
        try:
            data = unpacker.decompress(base64.b64decode(text, validate=True), MOST_BYTES)
        except zlib.error as error:
            raise ValueError(f"private_test_cases: {error}") from error
        if unpacker.unconsumed_tail:
            raise ValueError(f"private_test_cases: more than {MOST_BYTES} bytes")
        text = text_of_pickle(data)
    cases: list[Any] = json.loads(text)
    return cases


class TextOnly(pickle.Unpickler):
    """An unpickler that imports nothing: a pickle that names a class or function is refused, and no code of it runs."""

    def find_class(self, module: str, name: str, /) -> Any:
        """Refuse a name."""
        raise pickle.UnpicklingError(f"the pickle names {module}.{name}; only text is allowed")


def text_of_pickle(data: bytes) -> str:
    """Return the text that a pickle holds.

    Raises:
        ValueError: it holds anything else, or is broken; nothing of it is executed.
    """
    try:
        value = TextOnly(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError, MemoryError, OverflowError) as error:
        raise ValueError(f"private_test_cases: {error}") from error
    if not isinstance(value, str):
        raise ValueError(f"private_test_cases: the pickle holds {type(value).__name__}, not text")
    return value


SOURCE = Source(
    read,
    "the folder with test.jsonl, test2.jsonl, ..., or one such file",
    (
        Option("release", str, "release_v3: up to the third file; v3: the third file; v2_v3: both (default: all files)"),
        Option("start", str, "first date of a contest, YYYY-MM-DD"),
        Option("end", str, "last date of a contest, YYYY-MM-DD"),
        COMPARE,
    ),
)
