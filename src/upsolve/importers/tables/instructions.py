"""Importers for synthetic instructions with tests and recorded outcomes: OpenCodeInstruct (2504.04030) and KodCode (2503.02951)."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from upsolve.importers.outcome import recorded_verdict, without_left_out
from upsolve.importers.problems.problems import as_list, extra_of, rest_of, split_of
from upsolve.importers.recogniser.asserts import Names, called_first, names_bound, parse_asserts
from upsolve.importers.recogniser.code import sound_suite, sound_tests
from upsolve.importers.recogniser.failing import About
from upsolve.importers.recogniser.suites import imports_of, packages_in, pytest_tests
from upsolve.importers.rows import Row, build_each, data_files, left_out, rows_of_file
from upsolve.importers.source import Option, Source, Unit, split_files
from upsolve.policy.answers import free_names, is_only_code, names_of, program_in
from upsolve.types import Attempt, Status, Task, Verdict

__all__ = ["KODCODE", "SOURCE", "read"]

TAKEN = ("id", "input", "output", "unit_tests")
TAKEN_KODCODE = ("question_id", "conversation_id", "question", "solution", "test", "test_code", "r1_solution", "gpt_difficulty")
CERTAIN = ("true", "false", "1", "0", "correct", "incorrect", "passed", "failed")
"""Words of ``r1_correctness`` that are an outcome."""


def read(path: Path, *, most: int = 0) -> Iterator[Row]:
    """Yield the tasks of OpenCodeInstruct, the answer to each and its outcome on every test.

    An answer that passed all tests is the reference of its task, too.

    Args:
        path: a folder or file.
        most: rows that are read, the first ones; 0: all.
    """
    left = most or sys.maxsize
    for file in data_files(path):
        rows = [*islice(rows_of_file(file), left)] if most else rows_of_file(file)
        left -= len(rows) if isinstance(rows, list) else 0
        yield from build_each(file, rows, partial(instruct_records, split=split_of(file)))


def units(path: Path, *, most: int = 0) -> list[Unit]:
    """Return a unit for each file; for the first ``most`` rows, which are counted over all files, a single one."""
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
    score, rest = row.get("average_test_score"), {key: value for key, value in row.items() if key not in TAKEN}
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
    yield task
    yield attempt
    if verdict:
        yield verdict


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
        yield from with_verdict(
            answer_of(task.task_id, str(row["r1_solution"]), names_of(task), "deepseek-r1"),
            str(row.get("r1_correctness") or ""),
        )


def with_verdict(attempt: Attempt, correct: str) -> Iterator[Row]:
    """Yield an attempt and, if its correctness is known, its verdict."""
    yield attempt
    if correct.lower() in CERTAIN and (
        verdict := recorded_verdict(attempt.attempt_id, {"status": correct}, "recorded:kodcode")
    ):
        yield verdict


SOURCE = Source(
    read,
    "a folder or file of OpenCodeInstruct's rows (.parquet, .jsonl)",
    (Option("most", int, "rows that are read, the first ones (default: 0, all)"),),
    split=units,
)
KODCODE = Source(read_kodcode, "a folder or file of KodCode's rows (.parquet, .jsonl)", split=split_files)
