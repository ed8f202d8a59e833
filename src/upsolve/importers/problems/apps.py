"""Importers for APPS (2105.09938), its folders or its files on the Hub, for APPS+ (2402.01391), and for TACO (2312.14852)."""

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from upsolve.importers.problems.problems import (
    COMPARE,
    Compare,
    as_list,
    build_alone,
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
from upsolve.importers.rows import BadRow, Row, build_each, data_files, rows_of_file
from upsolve.importers.source import Source, Unit
from upsolve.types import Status, Task

__all__ = ["PLUS", "SOURCE", "TACO", "read"]

FILES = ("input_output.json", "solutions.json", "metadata.json", "starter_code.py")
PROBLEM_BYTES = 1 << 16
"""Size of a problem's folder, about."""
TAKEN = {"id", "problem_id", "name", "question", "description", "solutions", "input_output", "starter_code", "difficulty"}
TAKEN_PLUS = TAKEN | {
    *("prompt", "canonical_solution", "solution", "inputs", "outputs"),
    *("fn_name", "function_name", "entry_point"),
}


def read(path: Path, *, compare: Compare = Compare.CONTEST) -> Iterator[Row]:
    """Yield tasks and the solutions of people, which are recorded as correct; ``compare``: how outputs are compared.

    Raises:
        SourceError: the path holds neither folders with question.txt nor files of rows.
    """
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
    """Yield a task with the tests of ``of_outputs``, and its solutions by people, which are recorded as correct.

    Args:
        draft: the task without tests; its prompt is the statement.
        values: inputs, outputs, and ``fn_name``.
        starter: code to start from.
        solutions: correct programs; the first one is the reference.
        name: name of the function; empty to use ``fn_name``.
        compare: how outputs are compared.
    """
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

    Raises:
        ValueError: the number of lines does not match the parameters; names both.
    """
    (function,) = (node for node in ast.walk(ast.parse(starter.strip() + " pass")) if isinstance(node, ast.FunctionDef))
    most = len([parameter for parameter in function.args.args if parameter.arg != "self"])
    least = most - len(function.args.defaults)
    rows = [[text] if most == 1 else text.split("\n") for text in inputs]
    if wrong := next((row for row in rows if not least <= len(row) <= most), None):
        raise ValueError(f"an input has {len(wrong)} lines, the function takes {least} to {most} arguments")
    columns = [[row[index] for row in rows if index < len(row)] for index in range(most)]
    readers = [ast.literal_eval if all(map(is_literal, column)) else str for column in columns]
    return [[reader(line) for reader, line in zip(readers, row, strict=False)] for row in rows]


def is_literal(text: str) -> bool:
    """Return whether a line is a Python literal."""
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return False
    return True


def read_plus(path: Path, *, compare: Compare = Compare.CONTEST) -> Iterator[Row]:
    """Yield the tasks of APPS+ and their canonical solutions; ``compare``: how outputs are compared."""
    for file in data_files(path, suffixes=(".json", ".jsonl", ".parquet")):
        yield from build_each(file, numbered(file), partial(plus_of, split=split_of(file), compare=compare))


def numbered(file: Path) -> Iterator[tuple[int, dict[str, Any] | BadRow]]:
    """Yield the rows of a file, with their number as ``id`` where they have none."""
    for number, row in rows_of_file(file):
        yield number, row if isinstance(row, BadRow) else {"id": number, **row}


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
