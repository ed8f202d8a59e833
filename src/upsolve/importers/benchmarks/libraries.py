"""Functions with suites of tests: BigCodeBench (2406.15877) and DS-1000 (2211.11501), which use libraries; the synthetic instructions of
OpenCodeInstruct (2504.04030) and KodCode (2503.02951), with recorded outcomes."""

import ast
import json
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.formats import data_files, rows_of_file
from upsolve.importers.outcome import recorded_verdict, without_left_out
from upsolve.importers.problems.problems import as_list, extra_of, rest_of, split_of, with_sound_tests
from upsolve.importers.recogniser.asserts import Names, called_first, imports_of, names_bound, packages_in, parse_asserts
from upsolve.importers.recogniser.code import sound_suite, sound_tests
from upsolve.importers.recogniser.failing import About
from upsolve.importers.recogniser.suites import pytest_tests, unittest_tests
from upsolve.importers.rows import Row, build_each, left_out
from upsolve.importers.source import Option, Source, Unit, split_files
from upsolve.policy.answers import free_names, is_only_code, names_of, program_in
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict

__all__ = ["BIGCODEBENCH", "DS1000", "KODCODE", "OPENCODEINSTRUCT"]

VERSION = re.compile(r"v(\d+)\.(\d+)\.(\d+)")
TAKEN = ("task_id", "complete_prompt", "instruct_prompt", "canonical_solution", "code_prompt", "test", "entry_point", "libs")


def read_bigcodebench(path: Path, *, variant: str = "instruct", version: str = "") -> Iterator[Row]:
    """Yield the tasks of a file, or of the files of one version in a folder."""
    if variant not in ("instruct", "complete"):
        raise SourceError(f"variant must be instruct or complete, got {variant!r}")
    for file in of_version(data_files(path), version):
        yield from build_each(file, rows_of_file(file), partial(bigcodebench_records, variant=variant))


def of_version(files: list[Path], version: str) -> list[Path]:
    """Return the files of a version (default: the newest); files without a version in their name belong to every version."""
    numbers = {file: tuple(map(int, match.groups())) for file in files if (match := VERSION.search(file.name))}
    newest = max(numbers.values(), default=())
    wanted = VERSION.search(version)
    chosen = tuple(map(int, wanted.groups())) if wanted else newest
    chosen_files = [file for file in files if numbers.get(file, chosen) == chosen]
    if not chosen_files or (version and not wanted):
        known = sorted({f"v{'.'.join(map(str, number))}" for number in numbers.values()})
        raise SourceError(f"no file of version {version!r}; there are {', '.join(known) or 'none'}")
    return chosen_files


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
    detect=("complete_prompt", "instruct_prompt", "canonical_solution", "test"),
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


DS1000 = Source(
    read_ds1000,
    "ds1000.jsonl.gz, or a folder or file of its rows (.jsonl, .parquet)",
    detect=("code_context", "reference_code"),
)


TAKEN_INSTRUCT = ("id", "input", "output", "unit_tests")
TAKEN_KODCODE = ("question_id", "conversation_id", "question", "solution", "test", "test_code", "r1_solution", "gpt_difficulty")
CERTAIN = ("true", "false", "1", "0", "correct", "incorrect", "passed", "failed")
"""Words of ``r1_correctness`` that are an outcome."""


def read_opencodeinstruct(path: Path, *, most: int = 0) -> Iterator[Row]:
    """Yield the tasks of OpenCodeInstruct, the answer to each and its outcome on every test.

    An answer that passed all tests is the reference of its task, too.
    """
    left = most or sys.maxsize
    for file in data_files(path):
        rows = [*islice(rows_of_file(file), left)] if most else rows_of_file(file)
        left -= len(rows) if isinstance(rows, list) else 0
        yield from build_each(file, rows, partial(instruct_records, split=split_of(file)))


def units(path: Path, *, most: int = 0) -> list[Unit]:
    """Return a unit for each file; a single unit if ``most`` limits the rows, which are counted over all files."""
    return [Unit(path)] if most else split_files(path)


def answer_of(task_id: str, answer: str, names: Sequence[str], author: str = "") -> Attempt:
    """Return the attempt of a model's answer: its code, and the answer if it has other text."""
    code = program_in(answer, names=names)
    return Attempt(task_id, code, author=author, answer="" if is_only_code(answer, code) else answer)


def instruct_records(row: Mapping[str, Any], *, split: str) -> Iterator[Row]:
    """Yield the records of a row of OpenCodeInstruct."""
    sources = [str(test).strip() for test in as_list(row["unit_tests"])]
    attempt = answer_of(f"opencodeinstruct/{row['id']}", str(row["output"]), free_names(sources))
    entry_point = called_first(sources, names_bound(attempt.code))
    outcomes = [str(word) for word in as_list(row.get("tests_execution_status"))]
    score, rest = row.get("average_test_score"), {key: value for key, value in row.items() if key not in TAKEN_INSTRUCT}
    if rest.get("llm_judgement"):
        rest["llm_judgement"] = json.loads(str(rest["llm_judgement"]))
    tests = parse_asserts(sources, hidden=True, names=Names(frozenset({entry_point})))
    found = sound_tests(tests, About(entry_point))
    verdict = outcome_of(attempt, outcomes, score, found.kept)
    task = Task(
        task_id=attempt.task_id,
        prompt=str(row["input"]).strip(),
        tests=found.tests,
        entry_point=entry_point,
        source="opencodeinstruct",
        official=True,
        reference=attempt.code if verdict and verdict.status is Status.PASSED else "",
        extra=extra_of({**rest, "split": split}),
    )
    yield from left_out(found.refused)
    yield from filter(None, (task, attempt, verdict))


def outcome_of(attempt: Attempt, outcomes: Sequence[str], score: Any, kept: Sequence[bool]) -> Verdict | None:
    """Return the verdict of an answer: the outcome of every kept test or, without outcomes, the number of passed tests by their share."""
    share, total = float(score) if score not in (None, "") else None, len(kept)
    if kept and not any(kept):
        return None
    fields: dict[str, Any] = {}
    if outcomes:
        fields = {"outcomes": outcomes}
    elif share is not None:
        fields = {"status": "passed" if share == 1 else "failed", "passed": round(share * total), "total": total}
    verdict = recorded_verdict(attempt.attempt_id, fields, "recorded:opencodeinstruct")
    return verdict and without_left_out(verdict, kept)


def read_kodcode(path: Path) -> Iterator[Row]:
    """Yield the tasks of KodCode, GPT-4o's solution and, where there is one, R1's, each with its outcome."""
    for file in data_files(path):
        yield from build_each(file, rows_of_file(file), partial(kodcode_records, split=split_of(file)))


def kodcode_records(row: Mapping[str, Any], *, split: str) -> Iterator[Row]:
    """Yield the records of a row of KodCode; tests with fixtures are left out and named in ``extra``."""
    source, solution = str(row.get("test") or row["test_code"]), str(row["solution"])
    suite = pytest_tests(source)
    about = row.get("test_info")
    names = [str(item.get("function_name") or "") for item in about or ()] if isinstance(about, list | tuple) else []
    entry_point = next(iter(names), "") or str(row.get("test_entry_point") or "")
    found = sound_suite(source, suite, About(entry_point))
    task = Task(
        task_id=f"kodcode/{row.get('question_id') or row['conversation_id']}",
        prompt=str(row["question"]).strip(),
        tests=found.tests,
        entry_point=entry_point,
        difficulty=str(row.get("gpt_difficulty") or ""),
        source="kodcode",
        reference=solution,
        official=not suite.left_out,
        requires=packages_in(imports_of([*(test.input for test in found.tests), solution])),
        extra=rest_of(row, TAKEN_KODCODE, split=split, tests_left_out=[*suite.left_out]),
    )
    yield from left_out(found.refused)
    yield task
    trials = row.get("gpt_pass_trial_num")
    first = Attempt(task.task_id, solution, author="gpt-4o-0513")
    yield from with_verdict(first, "" if trials is None else str(trials > 0))
    if row.get("r1_solution"):
        second = answer_of(task.task_id, str(row["r1_solution"]), names_of(task), "deepseek-r1")
        yield from with_verdict(second, str(row.get("r1_correctness") or ""))


def with_verdict(attempt: Attempt, correct: str) -> Iterator[Row]:
    """Yield an attempt and, if its correctness is known, its verdict."""
    fields = {"status": correct} if correct.lower() in CERTAIN else {}
    yield from filter(None, (attempt, recorded_verdict(attempt.attempt_id, fields, "recorded:kodcode")))


OPENCODEINSTRUCT = Source(
    read_opencodeinstruct,
    "a folder or file of OpenCodeInstruct's rows (.parquet, .jsonl)",
    (Option("most", int, "rows that are read, the first ones (default: 0, all)"),),
    split=units,
    detect=("input", "output", "unit_tests", "tests_execution_status"),
)
KODCODE = Source(
    read_kodcode,
    "a folder or file of KodCode's rows (.parquet, .jsonl)",
    split=split_files,
    detect=("question_id", "question", "solution", "test", "gpt_pass_percentage"),
)
