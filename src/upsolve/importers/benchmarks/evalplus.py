"""Importer for HumanEval+ and MBPP+ of EvalPlus (2305.01210): its JSON lines, or the files of the Hub.

EvalPlus's files hold only inputs. The expected values come from its reference program, which runs in the sandbox.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from upsolve.importers.benchmarks.functions import INSTRUCTION
from upsolve.importers.formats import data_files, json_lines, rows_of_file
from upsolve.importers.problems import rest_of
from upsolve.importers.recogniser.calls import literal
from upsolve.importers.rows import BadRow, Numbered, Row, build_each, data_in
from upsolve.importers.source import Option, Source, Unit, row_units
from upsolve.types import Task, TestCase, TestKind
from upsolve.verify.judge.references import expected_values

__all__ = ["SOURCE"]

ORACLES: Mapping[str, str] = data_in("programs.yaml")["oracles"]
RTOL = "1e-7"
"""Relative tolerance of EvalPlus, in addition to the task's absolute one: 1e-07 in its evaluation."""
FOUND = "expected == (got if isinstance(got, bool) else got is not None)"
"""Comparison for references that return objects, such as regex matches: only whether a value is returned counts."""
Kinds = dict[tuple[int, int], set[type]]
"""Position of an argument and depth within it -> types found there."""
TAKEN = {"task_id", "prompt", "entry_point", "canonical_solution", "code", "base_input", "plus_input", "test"}


TASKS = 10
"""Number of tasks of a unit; after an interruption the references of a finished unit are not run again."""


def read(path: Path, *, prompts: str = "", only: range | None = None) -> Iterator[Row]:
    """Yield the tasks of a file, or of all files of a folder; a task whose reference fails is rejected."""
    known = [row for _, row in json_lines(Path(prompts)) if isinstance(row, dict)] if prompts else []
    for file in files_of(path):
        rows = completed(file, known)
        some = rows if only is None else islice(rows, only.start - 1, only.stop - 1)
        yield from build_each(file, some, lambda row: [task_of(row)])


def files_of(path: Path) -> list[Path]:
    """Return the files of tasks: the file itself, or all files of a folder."""
    return [file for file in data_files(path) if "Inputs" not in file.name]


def split(path: Path, **_options: Any) -> list[Unit]:
    """Return units of consecutive rows of a file."""
    return [unit for file in files_of(path) for unit in row_units(file, rows_of_file(file), TASKS)]


def completed(file: Path, prompts: Sequence[Mapping[str, Any]]) -> Iterator[Numbered]:
    """Yield the rows of a file; rows of an early HumanEval+ get prompt and inputs by their number."""
    beside = file.with_name(f"{file.name.partition('.')[0]}Inputs.jsonl")
    rows = json_lines(beside) if beside.is_file() else ()
    inputs = {str(row["task_id"]).strip("'"): row["inputs"] for _, row in rows if isinstance(row, dict)}
    for number, row in rows_of_file(file):
        if isinstance(row, BadRow) or "reference" not in row:
            yield number, row
        elif number > len(prompts):
            yield number, BadRow(str(file), number, "has no prompt; name HumanEval.jsonl with --prompts", str(row)[:500])
        else:
            about = {key: prompts[number - 1][key] for key in ("task_id", "prompt", "entry_point")}
            plus = inputs.get(f"HumanEval_{number - 1}", [])
            rest = {key: value for key, value in row.items() if key != "reference"}
            yield number, {**rest, **about, "canonical_solution": row["reference"], "plus_input": plus}


def task_of(row: Mapping[str, Any]) -> Task:
    """Return the task of a row."""
    name = str(row["task_id"]).lower()
    name = name if "/" in name else f"mbpp/{name}"
    called = re.search(r"\bassertion\((\w+)\(\*inp\)", str(row.get("test") or ""))  # the Hub's: assertion(f(*inp), exp, 0)
    prompt, entry_point = str(row.get("prompt") or ""), str(row.get("entry_point") or (called[1] if called else ""))
    human = name.startswith("humaneval")
    solution = str(row.get("canonical_solution") or row["code"])
    reference = f"{prompt}{solution}" if human else f"{solution.strip()}\n"
    calls, values, shown = cases_of(row, entry_point)
    values = expected_values(reference, calls) if values is None else values
    tests, setup = tests_of(entry_point, calls, values, 0 if human else shown)
    if setup:
        accepted = expected_values(f"{reference}\n{setup}", [test.input for test in tests])
        tests = tuple(test for test, value in zip(tests, accepted, strict=True) if value == "True")
    parts = (part for test in tests for part in ast.walk(ast.parse(test.expected, mode="eval")))
    has_float = any(isinstance(part, ast.Constant) and isinstance(part.value, float) for part in parts)
    atol = float(row.get("atol") or 0) or (1e-6 if has_float else 0)
    return Task(
        task_id=f"evalplus/{name}",
        prompt=f"{INSTRUCTION}{prompt.rstrip()}" if human else statement_of(prompt),
        tests=tests,
        entry_point=entry_point,
        source="evalplus",
        reference=reference,
        setup=setup,
        compare=f"floats:{atol:g}:{RTOL}" if atol else "lines",
        official=True,
        extra=rest_of(row, TAKEN, split="test", inputs_left_out=len(calls) - len(tests) or None),
    )


def statement_of(prompt: str) -> str:
    """Return the statement of MBPP+, which is written as a docstring."""
    try:
        return str(ast.literal_eval(prompt.strip())).strip()
    except (ValueError, SyntaxError):
        return prompt.strip()


def cases_of(row: Mapping[str, Any], entry_point: str) -> tuple[list[str], list[str | None] | None, int]:
    """Return the calls, their values if the row has values, and the number of calls from the original set."""
    if "base_input" in row:
        base = list(row["base_input"])
        inputs = restore_types([*base, *(row.get("plus_input") or ())], str(row.get("assertion") or ""), entry_point)
        values: list[str | None] | None = None
    else:
        parts = assigned(str(row["test"]))
        base, inputs = list(row.get("test_list") or ()), parts["inputs"]
        values = [literal(value) for value in parts["results"]] if "results" in parts else None
    calls = [call_of(entry_point, arguments) for arguments in inputs]
    return calls, values, len(base)


def call_of(name: str, arguments: Sequence[Any]) -> str:
    """Return a call as Python source; a call without arguments, which fails, if an argument has no literal (inf, nan)."""
    try:
        return f"{name}({', '.join(map(literal, arguments))})"
    except (ValueError, SyntaxError):
        return "None()"


def assigned(source: str) -> dict[str, Any]:
    """Return the names to which a program assigns literals, at any depth, with their values."""
    found: dict[str, Any] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except (ValueError, TypeError):
                continue
    return found


def tests_of(name: str, calls: Sequence[str], values: Sequence[str | None], shown: int) -> tuple[tuple[TestCase, ...], str]:
    """Return tests and setup. Inputs on which the reference fails are left out; the first ``shown`` tests are visible."""
    known = {value for value in values if value is not None}
    opaque = "..." in known and known <= {"...", "None", "True", "False"}
    condition = FOUND if opaque else ORACLES.get(name, "")
    tests: list[TestCase] = []
    for index, (call, value) in enumerate(zip(calls, values, strict=True)):
        if value is None or (value == "..." and not opaque):
            continue
        if not condition:
            tests.append(TestCase(TestKind.CALL, call, value, index >= shown))
            continue
        expected = repr(value != "None") if opaque and value not in ("True", "False") else value
        arguments = call[len(name) + 1 : -1]
        tests.append(TestCase(TestKind.CALL, f"accepts({call}, {expected}, {arguments})", "True", index >= shown))
    if not tests:
        raise ValueError("the reference returns a value for none of the inputs")
    return tuple(tests), f"def accepts(got, expected, *inputs):\n    return {condition}\n" if condition else ""


def restore_types(inputs: Sequence[Any], assertion: str, name: str) -> list[list[Any]]:
    """Return inputs with the tuples, sets and complex numbers that JSON has lost.

    MBPP's asserts show these types. If all containers at some depth of an argument are tuples there, the lists of JSON at this depth, and at depths
    below the asserts, become tuples. If an argument is a number there, text becomes a number.
    """
    kinds: Kinds = {}
    try:
        for node in ast.walk(ast.parse(assertion)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                for position, argument in enumerate(node.args):
                    note_kinds(ast.literal_eval(argument), position, 0, kinds)
    except (ValueError, SyntaxError):
        kinds = {}
    return [[restore(value, (position, 0), kinds) for position, value in enumerate(arguments)] for arguments in inputs]


def number(text: str) -> complex | str:
    """Return the number that a text spells; if it spells none, the text."""
    for kind in (float, complex):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def note_kinds(value: Any, position: int, depth: int, kinds: Kinds) -> None:
    """Add the types of a value and of its members to ``kinds``, by argument and depth."""
    kinds.setdefault((position, depth), set()).add(type(value))
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple | set) else ():
        note_kinds(item, position, depth + 1, kinds)


def restore(value: Any, place: tuple[int, int], kinds: Kinds, above: type = list) -> Any:
    """Return a JSON value with the types that the asserts have at its position; ``above``: kind of the containers around it."""
    known, inside = kinds.get(place, set[type]()), (place[0], place[1] + 1)
    if isinstance(value, str) and place[1] == 0 and known and known <= {int, float, complex}:
        return number(value)
    if isinstance(value, dict):
        return {key: restore(item, inside, kinds, above) for key, item in value.items()}
    if isinstance(value, list):
        containers = known & {list, tuple, set}
        kind = containers.pop() if len(containers) == 1 else list if containers else above
        return kind(restore(item, inside, kinds, kind) for item in value)
    return value


SOURCE = Source(
    read,
    "HumanEvalPlus*.jsonl, MbppPlus*.jsonl, or the Hub's files (.parquet)",
    (Option("prompts", str, "HumanEval.jsonl or .jsonl.gz, for early files of HumanEval+ without prompts"),),
    split=split,
    detect=("base_input", "plus_input", "entry_point"),
)
