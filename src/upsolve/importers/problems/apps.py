"""Importers for APPS (2105.09938), its folders or its files on the Hub, for APPS+ (2402.01391), for TACO (2312.14852), and for the code generation
of LiveCodeBench (2403.07974)."""

import ast
import base64
import io
import json
import pickle
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.formats import data_files, rows_of_file
from upsolve.importers.problems.problems import (
    COMPARE,
    Compare,
    as_list,
    build_alone,
    by_numbers,
    call_tests,
    callee_of,
    extra_of,
    json_value,
    of_outputs,
    of_programs,
    of_values,
    prompt_of,
    recorded,
    rest_of,
    setup_of,
    split_of,
    stdio_tests,
    uses_numpy,
)
from upsolve.importers.rows import BadRow, Row, build_each
from upsolve.importers.source import Option, Source, Unit
from upsolve.types import Status, Task

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
    yield from solved(draft, json_value(row.get("input_output") or "{}"), starter, solutions, compare=compare)


def solved(
    draft: Task, values: Mapping[str, Any], starter: str, solutions: Sequence[str], *, name: str = "", compare: Compare
) -> Iterator[Row]:
    """Yield a task with the tests of ``of_outputs``, and its solutions by people, which are recorded as correct."""
    fields = of_outputs(name, values, starter, *solutions[:1], compare=compare)
    reference, prompt = next(iter(solutions), ""), prompt_of(draft.prompt, starter)
    task = replace(draft, prompt=prompt, reference=reference, requires=uses_numpy(solutions), **fields)
    yield task
    yield from recorded(task, solutions, Status.PASSED, author="human")


def selected(row: Mapping[str, Any], *, split: str, compare: Compare) -> Task:
    """Return the task of a row with ``sample_io`` and ``test_list``, in which the arguments of a call are the lines of its input."""
    starter, shown = str(row.get("starter_code") or ""), list(row["sample_io"])
    hidden = [test for test in row["test_list"] if test not in shown]
    pairs = [*shown, *hidden]
    inputs, outputs = [str(test["input"]) for test in pairs], [test["output"] for test in pairs]
    if starter.strip():
        callee = callee_of("", starter)
        secret = [False] * len(shown) + [True] * len(hidden)
        values = [value[0] if isinstance(value, list) and len(value) == 1 else value for value in outputs]
        tests = call_tests(callee, arguments_of(inputs, starter), values, hidden=secret)
        entry_point, setup, way = callee.entry_point, setup_of(tests, callee), of_values(tests, compare, "item")
    else:
        count, entry_point, setup = len(shown), "", ""
        tests = stdio_tests(inputs[:count], outputs[:count], hidden=False) + stdio_tests(inputs[count:], outputs[count:])
        way = of_programs(tests, compare, "apps")
    return Task(
        task_id=f"apps/{split or 'all'}/{row['id']}",
        prompt=prompt_of(str(row["description"]), starter),
        tests=tests,
        entry_point=entry_point,
        difficulty=str(row.get("difficulty") or ""),
        source="apps",
        setup=setup,
        compare=way,
        extra=extra_of({"name": row.get("name"), "split": split, "starter_code": starter}),
    )


def arguments_of(inputs: list[str], starter: str) -> list[list[Any]]:
    """Return the arguments of calls, one per line; a function of one parameter takes all lines.

    Lines do not say whether ``13`` is a number or text. The lines of one parameter are taken as Python literals if all of them are, over
    all tests, else as text.
    """
    (function,) = (node for node in ast.walk(ast.parse(starter.strip() + " pass")) if isinstance(node, ast.FunctionDef))
    most = len([parameter for parameter in function.args.args if parameter.arg != "self"])
    least = most - len(function.args.defaults)
    rows = [[text] if most == 1 else text.split("\n") for text in inputs]
    if wrong := next((row for row in rows if not least <= len(row) <= most), None):
        raise ValueError(f"an input has {len(wrong)} lines, the function takes {least} to {most} arguments")
    columns = [[row[index] for row in rows if index < len(row)] for index in range(most)]
    readers: list[Callable[[str], Any]] = []
    for column in columns:
        reader: Callable[[str], Any] = ast.literal_eval
        try:
            for line in column:
                reader(line)
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            reader = str
        readers.append(reader)
    return [[reader(line) for reader, line in zip(readers, row, strict=False)] for row in rows]


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
    values = first("input_output") or {"inputs": first("inputs"), "outputs": first("outputs")}
    values = json_value(values) if isinstance(values, str) else values
    draft = Task(
        task_id=f"apps_plus/{first('id', 'problem_id')}",
        prompt=str(first("question", "description", "prompt")),
        difficulty=str(row.get("difficulty") or ""),
        source="apps_plus",
        extra=rest_of(row, TAKEN_PLUS, split=split, starter_code=starter),
    )
    name = str(first("fn_name", "function_name", "entry_point"))
    yield from solved(draft, values, starter, [*map(str, codes)], name=name, compare=compare)


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
    yield from solved(draft, json_value(row.get("input_output") or "{}"), starter, solutions, compare=compare)


SOURCE = Source(
    read,
    "the folder APPS, a folder or file of its rows (.jsonl, .parquet), or a .jsonl with sample_io and test_list",
    (COMPARE,),
    split=split,
)
PLUS = Source(read_plus, "data.json of APPS+, or a .jsonl of its rows", (COMPARE,))
TACO = Source(read_taco, "a folder or file of TACO's rows (.arrow, .parquet, .jsonl)", (COMPARE,))


MOST_BYTES = 1 << 30
"""Most bytes of the hidden tests of a problem, decompressed."""
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
    public, private = cases_of(str(row["public_test_cases"])), cases_of(str(row["private_test_cases"]))
    metadata = row.get("metadata") or {}
    metadata = json.loads(metadata) if isinstance(metadata, str) else metadata
    return Task(
        task_id=f"livecodebench/{row['question_id']}",
        prompt=prompt_of(str(row["question_content"]), starter),
        difficulty=str(row.get("difficulty") or ""),
        source="livecodebench",
        official=True,
        extra=rest_of(row, TAKEN_LIVECODEBENCH, metadata=metadata, split="test"),
        **livecodebench_tests(public, private, str(metadata.get("func_name") or ""), starter, compare=compare),
    )


def livecodebench_tests(public: list[Any], private: list[Any], name: str, starter: str, *, compare: Compare) -> dict[str, Any]:
    """Return tests, comparison and, for functions, entry point and setup of a task with public and private cases."""
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
    """Return test cases written as JSON or, to hide them from crawlers, as base64 of zlib of a pickle of JSON text."""
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
    """Return the text in a pickle without executing the pickle; ValueError for any other content."""
    try:
        value = TextOnly(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError, MemoryError, OverflowError) as error:
        raise ValueError(f"private_test_cases: {error}") from error
    if not isinstance(value, str):
        raise ValueError(f"private_test_cases: the pickle holds {type(value).__name__}, not text")
    return value


LIVECODEBENCH = Source(
    read_livecodebench,
    "the folder with test.jsonl, test2.jsonl, ..., or one such file",
    (
        Option("release", str, "release_v3: up to the third file; v3: the third file; v2_v3: both (default: all files)"),
        Option("start", str, "first date of a contest, YYYY-MM-DD"),
        Option("end", str, "last date of a contest, YYYY-MM-DD"),
        COMPARE,
    ),
)
