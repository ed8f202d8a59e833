"""Importer for the problems and submissions of Codeforces that open-r1 published: Parquet files of the Hub, or JSON lines of the same rows."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.formats import data_files, rows_of_file
from upsolve.importers.problems.problems import (
    rest_of,
    sections,
    split_of,
)
from upsolve.importers.recogniser.calls import by_numbers, stdio_tests
from upsolve.importers.rows import Row, build_each
from upsolve.importers.source import Option, Source, Unit
from upsolve.languages.names import language_in, languages_in
from upsolve.types import Attempt, Status, Task, TestCase, Verdict

__all__ = ["SOURCE"]

JUDGE = "recorded:codeforces"
STATUSES = {
    "OK": Status.PASSED,
    **dict.fromkeys(("WRONG_ANSWER", "PRESENTATION_ERROR", "PARTIAL", "CHALLENGED", "SECURITY_VIOLATED"), Status.FAILED),
    **dict.fromkeys(("TIME_LIMIT_EXCEEDED", "IDLENESS_LIMIT_EXCEEDED"), Status.TIMEOUT),
    "MEMORY_LIMIT_EXCEEDED": Status.MEMORY_LIMIT,
    "RUNTIME_ERROR": Status.RUNTIME_ERROR,
    "COMPILATION_ERROR": Status.COMPILE_ERROR,
    **dict.fromkeys(
        ("SKIPPED", "TESTING", "SUBMITTED", "REJECTED", "FAILED", "CRASHED", "INPUT_PREPARATION_CRASHED"), Status.UNSCORED
    ),
}
"""Codeforces' verdict -> status; submissions that the site did not judge to the end, or whose judging failed, are unscored."""
GENERATED = "generated_tests"
"""The folder of further tests, one file per contest."""
STATEMENT = (
    *(("", "title"), ("", "description"), ("Input", "input_format"), ("Output", "output_format")),
    *(("Interaction", "interaction_format"), ("Note", "note")),
)
"""Headings and fields of a statement, without the examples, which are the visible tests."""
TAKEN = {
    *("id", "description", "input_format", "output_format", "interaction_format", "note", "examples", "official_tests"),
    *("generated_checker", "language", "prompt"),
}
"""Fields of a problem that are not in ``extra`` of its task; the last two differ between rows of the same problem."""
SENT = {"source", "problem_id", "programmingLanguage", "verdict", "creationTimeSeconds", "memoryConsumedBytes"}
CHECKER = '''import contextlib
import io
import re
import sys
import tempfile
from pathlib import Path

SOURCE = {source!r}


def score(given, expected, output):
    """Return the last number that the checker prints about an output."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("input.txt", "correct_output.txt", "solution_output.txt")]
        for file, text in zip(files, (given, expected, output)):
            file.write_text(text, encoding="utf-8")
        said, sys.argv = io.StringIO(), ["checker.py", *map(str, files)]
        with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
            exec(compile(SOURCE, "checker.py", "exec"), {{"__name__": "__main__"}})
    return float(re.findall(r"-?\\d+(?:\\.\\d+)?", said.getvalue())[-1])


def check(input, expected, output):
    most = score(input, expected, expected)
    if most <= 0:
        raise ValueError("the checker refuses the expected output")
    return score(input, expected, output) >= most
'''
"""A published checker is a program: ``checker.py input.txt correct_output.txt solution_output.txt`` prints a score, which is 0 for a wrong output and
for a right one what it gives to the expected output (1 or 100). It always exits with 0."""


def read(path: Path, *, language: str = "", generated: int = 0) -> Iterator[Row]:
    """Yield tasks of the rows that are problems, and attempts with their recorded outcomes of those that are submissions."""
    languages, near = languages_in(language), (path,) if path.is_dir() else (path.parent, path.parent.parent)
    folder = next((one / GENERATED for one in near if (one / GENERATED).is_dir()), None)
    further = partial(generated_tests, folder, most=generated)
    for file in (unit.path for unit in split(path)):
        rows = rows_of_file(file)
        first = [*islice(rows, 1)]
        if first and isinstance(first[0][1], Mapping) and "verdict" in first[0][1]:
            yield from build_each(file, chain(first, rows), partial(submission, languages=languages))
        else:
            yield from build_each(file, chain(first, rows), lambda row, file=file: [task_of(row, split_of(file), further(row))])


def split(path: Path, **_options: Any) -> list[Unit]:
    """Return a unit for each file of problems or submissions; SourceError if there are none."""
    found = [Unit(file) for file in data_files(path) if file == path or file.parent.name != GENERATED]
    if not found:
        raise SourceError(f"{path}: holds generated tests alone; name the folder above, with the problems in data/")
    return found


def generated_tests(folder: Path | None, row: Mapping[str, Any], *, most: int) -> tuple[TestCase, ...]:
    """Return the generated tests of a problem in their order; none if its contest has no file of them."""
    name = f"test_cases_{int(row['contest_id']):04d}" if str(row.get("contest_id")).isdigit() else ""
    file = next((file for file in (folder.glob(f"{name}.*") if folder and name else ())), None)
    if file is None:
        return ()
    tests = [test for _, test in rows_of_file(file) if isinstance(test, Mapping) and test["problem_id"] == row["id"]]
    tests = sorted(tests, key=lambda test: int(test.get("test_i", test.get("test_case_i")) or 0))[: most or None]
    return tests_of(tests)


def task_of(row: Mapping[str, Any], part: str, further: Sequence[TestCase]) -> Task:
    """Return the task of a problem; without tests if it is interactive, or its programs read or write files."""
    examples, official = tests_of(row.get("examples"), hidden=False), tests_of(row.get("official_tests"))
    shown = {test.input for test in examples}
    tests = (*examples, *(test for test in official if test.input not in shown), *further)
    checker, plain = row.get("generated_checker") or "", row.get("input_mode") in (None, "", "stdio")
    numbers = by_numbers(tests)
    return Task(
        task_id=f"codeforces/{row['id']}",
        prompt=sections(row, STATEMENT),
        tests=tests if plain and not row.get("interaction_format") else (),
        language="",
        difficulty=str(row.get("rating") or ""),
        source="codeforces",
        compare="checker" if checker else "tokens" if numbers == "lines" else numbers,
        checker=checker_of(checker) if checker else "",
        official=bool(row.get("official_tests_complete")) and not checker,
        extra=rest_of(row, TAKEN, split=part),
        limit_seconds=row.get("time_limit") or None,
        limit_bytes=int(row["memory_limit"] * 2**20) if row.get("memory_limit") else None,
    )


def tests_of(pairs: Any, *, hidden: bool = True) -> tuple[TestCase, ...]:
    """Return tests of a list of inputs and outputs, with the line ends of Unix."""
    texts = [[str(pair[key]).replace("\r\n", "\n") for pair in pairs or ()] for key in ("input", "output")]
    return stdio_tests(*texts, hidden=hidden)


def checker_of(source: str) -> str:
    """Return the checker of a task that runs a published checker, a program (``CHECKER``)."""
    return CHECKER.format(source=source)


def submission(row: Mapping[str, Any], *, languages: frozenset[str]) -> Iterator[Row]:
    """Yield the attempt and the verdict of a submission, unless its language is not wanted."""
    language = language_in(str(row["programmingLanguage"]))
    if languages and language not in languages:
        return
    word = row["verdict"]
    if (status := STATUSES.get(str(word))) is None:
        raise ValueError(f"unknown verdict {word!r}; known: {', '.join(STATUSES)}")
    if not str(row["source"] or "").strip():
        raise ValueError("source is empty: the submission has no program")
    seconds, passed = row.get("creationTimeSeconds"), int(row.get("passedTestCount") or 0)
    problem = row.get("problem_id") or f"{row['contestId']}/{row['problem_index']}"
    attempt = Attempt(
        f"codeforces/{problem}",
        str(row["source"]).replace("\r\n", "\n"),
        language,
        "human",
        created=datetime.fromtimestamp(seconds, UTC).isoformat() if seconds else "",
        extra=rest_of(row, SENT, written_in=row["programmingLanguage"]),
    )
    yield attempt
    counted = passed if status == Status.PASSED else 0  # of others the number of all tests is unknown
    memory = int(row.get("memoryConsumedBytes") or 0) or None
    yield Verdict(attempt.attempt_id, status, passed=counted, total=counted, judge=JUDGE, memory_bytes=memory)


SOURCE = Source(
    read,
    "a folder or file of open-r1/codeforces or open-r1/codeforces-submissions (.parquet, .jsonl)",
    (
        Option("language", str, "languages of submissions to keep: python, cpp, java, ..., separated by commas (default: all)"),
        Option("generated", int, "generated tests read per problem (default: 0, all)"),
    ),
    split=split,
    detect=("contest_id", "official_tests"),
)
