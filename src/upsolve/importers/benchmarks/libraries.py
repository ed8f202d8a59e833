"""Functions that use libraries: BigCodeBench (2406.15877) and DS-1000 (2211.11501)."""

import ast
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.problems.problems import as_list, extra_of, rest_of, with_sound_tests
from upsolve.importers.recogniser.code import sound_suite
from upsolve.importers.recogniser.failing import About
from upsolve.importers.recogniser.suites import imports_of, packages_in, unittest_tests
from upsolve.importers.rows import Row, build_each, data_files, left_out, rows_of_file
from upsolve.importers.source import Option, Source
from upsolve.types import Task, TestCase, TestKind

__all__ = ["BIGCODEBENCH", "DS1000", "read_bigcodebench"]

VERSION = re.compile(r"v(\d+)\.(\d+)\.(\d+)")
TAKEN = ("task_id", "complete_prompt", "instruct_prompt", "canonical_solution", "code_prompt", "test", "entry_point", "libs")


def read_bigcodebench(path: Path, *, variant: str = "instruct", version: str = "") -> Iterator[Row]:
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
        yield from build_each(file, rows_of_file(file), partial(bigcodebench_records, variant=variant))


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


def bigcodebench_records(row: Mapping[str, Any], *, variant: str) -> Iterator[Row]:
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
        extra=rest_of(row, TAKEN, split="test"),
    )


BIGCODEBENCH = Source(
    read_bigcodebench,
    "a folder or file of BigCodeBench's rows (.parquet, .jsonl)",
    (
        Option("variant", str, "prompt: instruct or complete (default: instruct)"),
        Option("version", str, "version of the files, such as v0.1.4 (default: the newest)"),
    ),
)


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


@dataclass(frozen=True, slots=True)
class Context:
    """The parts of a row's ``code_context``."""

    program: str
    """The program around a solution, ``exec_context``."""
    helpers: str
    """The other code: ``generate_test_case``, ``exec_test``."""
    cases: int
    """Number of test cases."""
    of_text: bool
    """True if there are also tests of the solution's text."""


def context_of(source: str) -> Context:
    """Return the parts of a context.

    Raises:
        ValueError: it has no ``exec_context`` with ``[insert]``, or a function of it is missing; says which.
    """
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
    return Context(program, helpers, int(cases[1]) if cases else 1, "test_string" in defined)


def ds1000_task(row: Mapping[str, Any]) -> Task:
    """Return the task of a row."""
    metadata = row.get("metadata") or {}
    metadata = json.loads(metadata) if isinstance(metadata, str) else metadata
    context = context_of(str(row["code_context"]))
    reference = function_of(context.program, str(row["reference_code"]))
    call = "test_input, expected_result = generate_test_case({})\nassert exec_test({}(test_input), expected_result)\n"
    tests = [f"{context.helpers}\n\n{call.format(number, ENTRY)}" for number in range(1, context.cases + 1)]
    statement = str(row["prompt"]).partition("\nA:\n")[0].removeprefix("Problem:").strip()
    skeleton = function_of(context.program, "# write this part")
    return Task(
        task_id=f"ds1000/{metadata['problem_id']}",
        prompt=f"{statement}\n\nComplete this function and give all of it, with the imports:\n\n{skeleton.strip()}",
        tests=tuple(TestCase(TestKind.CODE, test, "", True) for test in tests),
        entry_point=ENTRY,
        source="ds1000",
        reference=reference,
        official=not context.of_text,
        requires=packages_in(imports_of([context.helpers, reference])),
        extra=extra_of({**metadata, "split": "test", "tests_left_out": ["test_string"] if context.of_text else []}),
    )


def function_of(program: str, solution: str) -> str:
    """Return a program with a solution in it as a function; imports at the beginning of a line stand before it."""
    before, _, after = program.partition(HOLE)
    imports = [line for line in before.splitlines() if IMPORT.match(line)]
    rest = "\n".join(line for line in before.splitlines() if not IMPORT.match(line)).strip("\n")
    opens = rest.rstrip().endswith(":") and not solution.startswith((" ", "\t"))
    inside = textwrap.indent(solution, "    ") if opens else solution
    body = textwrap.indent(
        "\n".join(part for part in (rest, inside, after.strip("\n"), "return result") if part.strip()), "    "
    )
    return "\n".join([*imports, "", "", f"def {ENTRY}(test_input):", body]).lstrip("\n") + "\n"


DS1000 = Source(read_ds1000, "ds1000.jsonl.gz, or a folder or file of its rows (.jsonl, .parquet)")
