"""Importers for APPS (2105.09938), its folders or its files on the Hub, for APPS+ (2402.01391), for TACO (2312.14852), and for the code generation
of LiveCodeBench (2403.07974)."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.formats import data_files, rows_of_file
from upsolve.importers.problems.problems import (
    COMPARE,
    as_list,
    build_alone,
    extra_of,
    prompt_of,
    recorded,
    rest_of,
    split_of,
    uses_numpy,
)
from upsolve.importers.recogniser.calls import by_numbers, callee_of, of_programs
from upsolve.importers.recogniser.failing import About, Compare, Found
from upsolve.importers.recogniser.values import recognise
from upsolve.importers.rows import BadRow, Row, build_each
from upsolve.importers.source import Option, Source, Unit
from upsolve.types import Status, Task
from upsolve.verify.contest import imports_without

__all__ = ["LIVECODEBENCH", "PLUS", "SOURCE", "TACO"]

FILES = ("input_output.json", "solutions.json", "metadata.json", "starter_code.py")
PROBLEM_BYTES = 1 << 16
"""Size of a problem's folder, about."""
TAKEN = {"id", "problem_id", "name", "question", "description", "solutions", "input_output", "starter_code", "difficulty"}
TAKEN_PLUS = TAKEN | {
    *("prompt", "canonical_solution", "solution", "inputs", "outputs"),
    *("fn_name", "function_name", "entry_point"),
}


def read(path: Path, *, compare: Compare = Compare.CONTEST) -> Iterator[Row]:
    """Yield tasks and the solutions of people, which are recorded as correct; ``compare``: how outputs are compared."""
    for part in pieces(path):
        if part.is_dir():
            yield from build_each(part, folder_rows(part), partial(records_of, split=split_of(part), compare=compare))
        else:
            yield from build_alone(part, partial(records_of, split=split_of(part), compare=compare))


def pieces(path: Path) -> list[Path]:
    """Return the folders of problems or, if there are none, the files of rows."""
    folders = sorted(question.parent for question in path.rglob("question.txt")) if path.is_dir() else []
    return folders or data_files(path)


def split(path: Path, **_options: Any) -> list[Unit]:
    """Return the problems or files as units."""
    return [Unit(part, bytes=PROBLEM_BYTES if part.is_dir() else 0) for part in pieces(path)]


def folder_rows(folder: Path) -> Iterator[tuple[int, dict[str, Any] | BadRow]]:
    """Yield the one problem of a folder such as ``train/0000``, as a row of the files on the Hub."""
    try:
        row: dict[str, Any] = {"id": folder.name, "question": (folder / "question.txt").read_text(encoding="utf-8")}
        texts = {name: (folder / name).read_text(encoding="utf-8") for name in FILES if (folder / name).is_file()}
        row |= json.loads(texts.pop("metadata.json", "{}"))
    except (OSError, ValueError, TypeError) as error:
        yield 1, BadRow(str(folder), 1, f"cannot be read: {error}", folder.name)
        return
    yield 1, {**row, **{name.partition(".")[0]: text for name, text in texts.items()}}


def records_of(row: Mapping[str, Any], *, split: str, compare: Compare) -> Iterator[Row]:
    """Yield the task of a row and its solutions."""
    if "test_list" in row:
        yield selected(row, split=split, compare=compare)
        return
    name = str(row.get("problem_id", row.get("id")))
    starter, solutions = str(row.get("starter_code") or ""), [str(code) for code in as_list(row.get("solutions"))]
    draft = Task(
        task_id=f"apps/{split or 'all'}/{int(name) if name.isdecimal() else name}",
        prompt=str(row["question"]),
        difficulty=str(row.get("difficulty") or ""),
        source="apps",
        extra=rest_of(row, TAKEN, split=split, starter_code=starter),
    )
    yield from solved(draft, row.get("input_output"), starter, solutions, compare=compare)


def solved(draft: Task, tests: Any, starter: str, solutions: Sequence[str], *, compare: Compare) -> Iterator[Row]:
    """Yield a task with its tests, which may be none, and its solutions by people, which are recorded as correct."""
    reference = next(iter(solutions), "")
    about = About(codes=(reference, starter), compare=compare)
    task = replace(
        draft,
        prompt=prompt_of(draft.prompt, starter),
        reference=reference,
        requires=uses_numpy(solutions),
        **fields_of(tests, about, grader="apps", setup=imports_without()),
    )
    yield task
    yield from recorded(task, solutions, Status.PASSED, author="human")


def fields_of(tests: Any, about: About, *, grader: str, setup: str = "", tolerance: str = "1e-6") -> dict[str, Any]:
    """Return the fields of a task with tests: calls as the recogniser finds them, programs with ``setup`` and compared as ``about`` says."""
    found = recognise(tests, about) if tests else Found(())
    if not found.compare:
        return {"tests": found.tests, "compare": of_programs(found.tests, about.compare, grader, tolerance), "setup": setup}
    return {"tests": found.tests, "entry_point": found.entry_point, "setup": found.setup, "compare": found.compare}


def selected(row: Mapping[str, Any], *, split: str, compare: Compare) -> Task:
    """Return the task of a row with ``sample_io`` and ``test_list``, in which the arguments of a call are the lines of its input."""
    starter = str(row.get("starter_code") or "")
    tests = {name: row[name] for name in ("sample_io", "test_list")}
    tests |= {"fn_name": callee_of("", starter).name} if starter.strip() else {}
    return Task(
        task_id=f"apps/{split or 'all'}/{row['id']}",
        prompt=prompt_of(str(row["description"]), starter),
        difficulty=str(row.get("difficulty") or ""),
        source="apps",
        extra=extra_of({"name": row.get("name"), "split": split, "starter_code": starter}),
        **fields_of(tests, About(codes=("", starter), compare=compare), grader="apps"),
    )


def read_plus(path: Path, *, compare: Compare = Compare.CONTEST) -> Iterator[Row]:
    """Yield the tasks of APPS+ and their canonical solutions; ``compare``: how outputs are compared."""
    for file in data_files(path, suffixes=(".json", ".jsonl", ".parquet")):
        rows = rows_of_file(file)  # their number is the id where they have none
        numbered = ((number, row if isinstance(row, BadRow) else {"id": number, **row}) for number, row in rows)
        yield from build_each(file, numbered, partial(plus_of, split=split_of(file), compare=compare))


def plus_of(row: Mapping[str, Any], *, split: str, compare: Compare) -> Iterator[Row]:
    """Yield the task of a row and its canonical solution."""

    def first(*names: str) -> Any:
        return next((row[name] for name in names if row.get(name)), "")

    starter, solutions = str(row.get("starter_code") or ""), first("canonical_solution", "solution", "solutions")
    codes = [solutions] if isinstance(solutions, str) and not solutions.startswith("[") else as_list(solutions)
    name = str(first("fn_name", "function_name", "entry_point"))
    values = first("input_output") or {name: one for name in ("inputs", "outputs") if (one := first(name))}
    tests = {"input_output": values, "fn_name": name} if name and values else values
    draft = Task(
        task_id=f"apps_plus/{first('id', 'problem_id')}",
        prompt=str(first("question", "description", "prompt")),
        difficulty=str(row.get("difficulty") or ""),
        source="apps_plus",
        extra=rest_of(row, TAKEN_PLUS, split=split, starter_code=starter),
    )
    yield from solved(draft, tests, starter, [*map(str, codes)], compare=compare)


LISTS = ("raw_tags", "tags", "skill_types")
TAKEN_TACO = ("number", "question", "solutions", "starter_code", "input_output", "difficulty")


def read_taco(path: Path, *, compare: Compare = Compare.CONTEST) -> Iterator[Row]:
    """Yield the tasks of TACO and the solutions of people, which are recorded as correct."""
    numbers: dict[str, int] = {}
    for file in data_files(path):
        split = split_of(file)
        for number, row in rows_of_file(file):
            numbers[split] = numbers.get(split, -1) + 1
            placed = row if isinstance(row, BadRow) else {**row, "number": numbers[split]}
            yield from build_each(file, [(number, placed)], partial(taco_of, split=split, compare=compare))


def taco_of(row: Mapping[str, Any], *, split: str, compare: Compare) -> Iterator[Row]:
    """Yield the task of a row and its solutions; ``number`` is its index in the split."""
    starter, solutions = str(row.get("starter_code") or ""), [str(code) for code in as_list(row.get("solutions"))]
    lists = {name: as_list(row.get(name)) for name in LISTS}
    difficulty = str(row.get("difficulty") or "")
    draft = Task(
        task_id=f"taco/{split or 'all'}/{row['number']}",
        prompt=str(row["question"]),
        difficulty="" if difficulty == "UNKNOWN_DIFFICULTY" else difficulty.lower(),
        source="taco",
        extra=rest_of(row, TAKEN_TACO, **lists, split=split, starter_code=starter),
    )
    yield from solved(draft, row.get("input_output"), starter, solutions, compare=compare)


SOURCE = Source(
    read,
    "the folder APPS, a folder or file of its rows (.jsonl, .parquet), or a .jsonl with sample_io and test_list",
    (COMPARE,),
    split=split,
    detect=("question", "solutions", "input_output", "problem_id"),
    marks=("**/question.txt",),
)
PLUS = Source(read_plus, "data.json of APPS+, or a .jsonl of its rows", (COMPARE,))
TACO = Source(
    read_taco,
    "a folder or file of TACO's rows (.arrow, .parquet, .jsonl)",
    (COMPARE,),
    detect=("question", "solutions", "input_output", "raw_tags"),
)


TAKEN_LIVECODEBENCH = ("question_content", "question_id", "difficulty", "public_test_cases", "private_test_cases")
TOLERANCE = "1e-9"
"""Tolerance of ``contest``; the publisher compares numbers of outputs as decimals, so that 1.50 equals 1.5."""


def read_livecodebench(
    path: Path, *, release: str = "", start: str = "", end: str = "", compare: Compare = Compare.PUBLISHER
) -> Iterator[Row]:
    """Yield the tasks of a folder or file."""
    first, last = day(start, "start") or date.min, day(end, "end") or date.max

    def records(row: Mapping[str, Any]) -> Iterator[Row]:
        if first <= date.fromisoformat(str(row["contest_date"])[:10]) <= last:
            yield livecodebench_task(row, compare)

    for file in release_files(path, release):
        yield from build_alone(file, records)


def release_files(path: Path, release: str) -> list[Path]:
    """Return the files of a release."""
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


def livecodebench_task(row: Mapping[str, Any], compare: Compare) -> Task:
    """Return the task of a row; public tests are visible, private ones hidden."""
    starter = str(row.get("starter_code") or "")
    metadata = row.get("metadata") or {}
    metadata = json.loads(metadata) if isinstance(metadata, str) else metadata
    tests = {name: row[name] for name in ("public_test_cases", "private_test_cases")}
    about = About(codes=("", starter), compare=compare)
    fields = fields_of({**tests, "metadata": metadata}, about, grader="livecodebench", tolerance=TOLERANCE)
    if "entry_point" in fields:
        publisher = compare is Compare.PUBLISHER
        fields["compare"] = "livecodebench" if publisher else by_numbers(fields["tests"], TOLERANCE)
    return Task(
        task_id=f"livecodebench/{row['question_id']}",
        prompt=prompt_of(str(row["question_content"]), starter),
        difficulty=str(row.get("difficulty") or ""),
        source="livecodebench",
        official=True,
        extra=rest_of(row, TAKEN_LIVECODEBENCH, metadata=metadata, split="test"),
        **fields,
    )


LIVECODEBENCH = Source(
    read_livecodebench,
    "the folder with test.jsonl, test2.jsonl, ..., or one such file",
    (
        Option("release", str, "release_v3: up to the third file; v3: the third file; v2_v3: both (default: all files)"),
        Option("start", str, "first date of a contest, YYYY-MM-DD"),
        Option("end", str, "last date of a contest, YYYY-MM-DD"),
        COMPARE,
    ),
    detect=("question_content", "public_test_cases", "private_test_cases"),
)
