"""Importer for DS-1000 (2211.11501): programs around a solution -> functions with a test per test case."""

import ast
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from upsolve.importers.formats import data_files, rows_of_file
from upsolve.importers.problems.problems import extra_of, with_sound_tests
from upsolve.importers.recogniser.asserts import imports_of, packages_in
from upsolve.importers.rows import Row, build_each
from upsolve.importers.source import Source
from upsolve.types import Task, TestCase, TestKind

__all__ = ["SOURCE"]

ENTRY = "solve"
HOLE = "[insert]"
RUNNERS = ("test_execution", "test_string")
"""Functions of ``code_context`` that take the text of a solution; the tests call the task's function instead."""
CASES = re.compile(r"\brange\((\d+)\)")
IMPORT = re.compile(r"(?:import|from)\s", re.ASCII)


def read_ds1000(path: Path) -> Iterator[Row]:
    """Yield the tasks of a folder or file; a test per test case, without the tests of a solution's text."""
    for file in data_files(path):
        yield from build_each(file, rows_of_file(file), lambda row: with_sound_tests(ds1000_task(row)))


def context_of(source: str) -> tuple[str, str, int, bool]:
    """Return the program around a solution, the other code, the number of test cases, and whether others test a solution's text."""
    nodes = ast.parse(source).body
    defined = {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}
    if missing := [name for name in ("generate_test_case", "exec_test", "test_execution") if name not in defined]:
        raise ValueError(f"code_context has no {', '.join(missing)}")
    programs = [node for node in nodes if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "exec_context"]
    program = ast.literal_eval(programs[0].value) if programs else ""
    if HOLE not in program:
        raise ValueError(f"code_context has no exec_context with {HOLE}")
    left_out = [*programs, *(defined[name] for name in RUNNERS if name in defined)]
    cases = CASES.search(ast.unparse(defined["test_execution"]))
    helpers = ast.unparse(ast.Module([node for node in nodes if node not in left_out], []))
    return program, helpers, int(cases[1]) if cases else 1, "test_string" in defined


def ds1000_task(row: Mapping[str, Any]) -> Task:
    """Return the task of a row."""
    metadata = row.get("metadata") or {}
    metadata = json.loads(metadata) if isinstance(metadata, str) else metadata
    program, helpers, cases, of_text = context_of(str(row["code_context"]))
    reference = function_of(program, str(row["reference_code"]))
    call = "test_input, expected_result = generate_test_case({})\nassert exec_test({}(test_input), expected_result)\n"
    tests = [f"{helpers}\n\n{call.format(number, ENTRY)}" for number in range(1, cases + 1)]
    statement = str(row["prompt"]).partition("\nA:\n")[0].removeprefix("Problem:").strip()
    skeleton = function_of(program, "# write this part")
    return Task(
        task_id=f"ds1000/{metadata['problem_id']}",
        prompt=f"{statement}\n\nComplete this function and give all of it, with the imports:\n\n{skeleton.strip()}",
        tests=tuple(TestCase(TestKind.CODE, test, "", True) for test in tests),
        entry_point=ENTRY,
        source="ds1000",
        reference=reference,
        official=not of_text,
        requires=packages_in(imports_of([helpers, reference])),
        extra=extra_of({**metadata, "split": "test", "tests_left_out": ["test_string"] if of_text else []}),
    )


def function_of(program: str, solution: str) -> str:
    """Return a program with a solution in it as a function; imports at the beginning of a line stand before it."""
    before, _, after = program.partition(HOLE)
    imports = [line for line in before.splitlines() if IMPORT.match(line)]
    rest = "\n".join(line for line in before.splitlines() if not IMPORT.match(line)).strip("\n")
    opens = rest.rstrip().endswith(":") and not solution.startswith((" ", "\t"))
    inside = textwrap.indent(solution, "    ") if opens else solution
    parts = (part for part in (rest, inside, after.strip("\n"), "return result") if part.strip())
    body = textwrap.indent("\n".join(parts), "    ")
    return "\n".join([*imports, "", "", f"def {ENTRY}(test_input):", body]).lstrip("\n") + "\n"


SOURCE = Source(
    read_ds1000,
    "ds1000.jsonl.gz, or a folder or file of its rows (.jsonl, .parquet)",
    detect=("code_context", "reference_code"),
)
