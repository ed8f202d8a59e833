"""Importer for CodeContests (2203.07814) as published on the Hub: Parquet files, or JSON lines of the same rows."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from upsolve.importers.problems.problems import build_alone, extra_of, recorded, split_of, stdio_tests, uses_numpy
from upsolve.importers.rows import Row, data_files
from upsolve.importers.source import Option, Source, split_files
from upsolve.languages.names import languages_in
from upsolve.types import Status, Task

__all__ = ["LANGUAGES", "SOURCE", "read"]

LANGUAGES = ("unknown", "python2", "cpp", "python", "java")
"""Number of a language on the Hub -> name; Python 2 is not judged as Python."""
SITES = ("unknown", "codechef", "codeforces", "hackerearth", "codejam", "atcoder", "aizu")
"""Number of a site on the Hub -> name; the protocol buffers number the last two 6 and 7."""
DIFFICULTIES = ("", "easy", "medium", "hard", "harder", "hardest", "external", *"ABCDEFGHIJKLMNOPQRSTUV")
"""Number of a difficulty on the Hub -> label."""
TESTS = ("public_tests", "private_tests", "generated_tests")
TOLERANCE = "1e-5"
"""Tolerance of the publisher's own comparison of numbers, which are compared word by word."""
TAKEN = {"name", "description", "source", "difficulty", "solutions", "incorrect_solutions", *TESTS}


def read(path: Path, *, language: str = "", most: int = 0) -> Iterator[Row]:
    """Yield tasks, and the correct and the incorrect solutions of people with their recorded outcome.

    Args:
        path: a folder or file of rows.
        language: languages of the solutions to keep, such as ``python,cpp``; empty for all.
        most: solutions kept per problem, outcome and language; 0 for all.
    """
    languages = languages_in(language)
    for file in data_files(path):
        yield from build_alone(file, partial(records_of, split=split_of(file), languages=languages, most=most))


def records_of(row: Mapping[str, Any], *, split: str, languages: frozenset[str], most: int) -> Iterator[Row]:
    """Yield the task of a row and its solutions."""
    task = task_of(row, split)
    yield task
    for key, status in (("solutions", Status.PASSED), ("incorrect_solutions", Status.FAILED)):
        kept: dict[str, list[str]] = {}
        for solution in pairs_of(row.get(key), "language", "solution"):
            name = LANGUAGES[int(solution[0])]
            codes = kept.setdefault(name, [])
            if (not languages or name in languages) and (not most or len(codes) < most):
                codes.append(str(solution[1]))
        for name, codes in kept.items():
            yield from recorded(task, codes, status, author="human", language=name)


def task_of(row: Mapping[str, Any], split: str) -> Task:
    """Return the task of a row; without tests if its programs must read or write a file with a name."""
    public, *others = (pairs_of(row.get(name), "input", "output") for name in TESTS)
    hidden = [test for tests in others for test in tests]
    tests = stdio_tests(*columns(public), hidden=False) + stdio_tests(*columns(hidden))
    site = SITES[int(row.get("source") or 0)]
    python = [str(code) for number, code in pairs_of(row.get("solutions"), "language", "solution") if int(number) == 3]
    limit = row.get("time_limit")
    seconds = limit["seconds"] + limit["nanos"] / 1e9 if isinstance(limit, dict) else limit
    rest = {name: value for name, value in row.items() if name not in TAKEN and value not in (0, 0.0, False)}
    return Task(
        task_id=f"code_contests/{site}/{row['name']}",
        prompt=str(row["description"]).strip(),
        tests=() if row.get("input_file") or row.get("output_file") else tests,
        language="",
        difficulty=DIFFICULTIES[int(row.get("difficulty") or 0)],
        source="code_contests",
        reference=python[0] if python else "",
        requires=uses_numpy(python),
        compare=f"floats:{TOLERANCE}",
        extra=extra_of({**rest, "time_limit": seconds, "site": site, "split": split}),
        limit_seconds=seconds or None,
        limit_bytes=row.get("memory_limit_bytes") or None,
    )


def pairs_of(value: Any, first: str, second: str) -> list[tuple[Any, Any]]:
    """Return pairs of two fields from a dict of two lists, as Parquet holds them, or from a list of dicts."""
    if isinstance(value, dict):
        return list(zip(value.get(first) or (), value.get(second) or (), strict=True))
    return [(item[first], item[second]) for item in value or ()]


def columns(pairs: list[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    """Return the first and the second members of pairs."""
    return [first for first, _ in pairs], [second for _, second in pairs]


SOURCE = Source(
    read,
    "a folder or file of CodeContests' rows (.parquet, .jsonl)",
    (
        Option(
            "language", str, "languages of solutions to keep: python, python2, cpp, java, separated by commas (default: all)"
        ),
        Option("most", int, "solutions kept per problem, outcome and language (default: 0, all)"),
    ),
    split=split_files,
)
