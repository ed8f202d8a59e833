"""Importer for packages of Codeforces' Polygon: statement, tests, limits, checker, and the authors' solutions with their tags."""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element
from xml.parsers.expat import ExpatError

from upsolve.errors import SourceError
from upsolve.importers.logs.ci_reports import parse_xml
from upsolve.importers.outcome import WORDS
from upsolve.importers.problems import extra_of, judged, sections
from upsolve.importers.problems.problem_package import BUILT, MAX_MB, PACKAGE_OPTIONS, TESTLIB, built_checker
from upsolve.importers.rows import BadRow, Numbered, Row, build_each
from upsolve.importers.source import Source
from upsolve.languages.names import language_in, languages_in
from upsolve.types import Attempt, Status, Task, TestCase, TestKind

__all__ = ["SOURCE"]

JUDGE = "recorded:polygon"
STATEMENT = (
    *(("", "name"), ("", "legend"), ("Input", "input"), ("Output", "output")),
    *(("Interaction", "interaction"), ("Scoring", "scoring"), ("Note", "notes")),
)
"""Headings and fields of a statement."""
TAGS = {
    "main": Status.PASSED,
    "accepted": Status.PASSED,
    "time-limit-exceeded-or-memory-limit-exceeded": Status.FAILED,
}
"""Outcomes of tags that are not a judge's words."""


def read(path: Path, *, language: str = "", max_mb: int = MAX_MB) -> Iterator[Row]:
    """Yield a task for each package, and for each solution an attempt with the outcome that its tag states."""
    files, languages = sorted(path.rglob("problem.xml")), languages_in(language)
    if not files:
        raise SourceError(f"{path}: no problem.xml in it or below; unpack packages (.zip) first")
    for file in files:
        yield from build_each(file, rows_of(file), partial(records_of, file.parent, languages, max_mb << 20))


def records_of(folder: Path, languages: frozenset[str], most: int, row: Mapping[str, Any]) -> Iterable[Row]:
    """Return the records of a row of ``rows_of``."""
    return task_of(folder, row, most=most) if "task" in row else solution_of(folder, languages, row)


def rows_of(file: Path) -> Iterator[Numbered]:
    """Yield a row for the task of a package, and one for each of its solutions."""
    try:
        root = parse_xml(file)
        name = root.get("short-name")
        if not name or root.find("judging/testset") is None:
            raise ValueError("not a package of Polygon: problem.xml has no short-name, or no tests in <judging>")
    except (ExpatError, ValueError) as error:
        line, form = (error.lineno, "not XML: ") if isinstance(error, ExpatError) else (0, "")
        yield line, BadRow(str(file), line, f"{form}{error}", "")
        return
    task_id = f"polygon/{name}"
    yield 0, {"task": root, "task_id": task_id}
    for number, solution in enumerate(root.iterfind("assets/solutions/solution"), 1):
        source = solution.find("source")
        given = {} if source is None else source.attrib
        known = {"path": given.get("path", ""), "type": given.get("type", ""), "tag": solution.get("tag", "")}
        yield number, {**known, "task_id": task_id}


def task_of(folder: Path, row: Mapping[str, Any], *, most: int) -> list[Task]:
    """Return the task of a package. It has no tests, and the reason in ``extra``, if its solutions cannot be judged by them on this machine."""
    root: Element = row["task"]
    testset = next(one for name in ("[@name='tests']", "") if (one := root.find(f"judging/testset{name}")) is not None)
    unknown, compare, checker = checker_of(root, folder)
    tests, large, without, weights = tests_of(testset, folder, most)
    reason = not_judged(root) or unknown or without
    left = reason or (f"{large} larger than {most >> 20} MB" if large else "")
    known = {
        "url": root.get("url"),
        "revision": root.get("revision"),
        "tests_left_out": left,
        "test_weights": None if reason else weights,
    }
    return [
        Task(
            row["task_id"],
            statement_of(root, folder),
            () if reason else tests,
            language="",
            source="polygon",
            compare="lines" if reason else compare,
            checker="" if reason else checker,
            extra=extra_of(known | {"tags": [tag.get("value") for tag in root.iterfind("tags/tag")]}),
            limit_seconds=number(testset, "time-limit") / 1000 or None,
            limit_bytes=number(testset, "memory-limit") or None,
        )
    ]


def number(testset: Element, name: str) -> int:
    """Return the number in an element; 0 if it is missing."""
    return int((testset.findtext(name) or "").strip() or 0)


def checker_of(root: Element, folder: Path) -> tuple[str, str, str]:
    """Return why outputs cannot be checked ("" if they can), and ``Task.compare`` and ``Task.checker``: testlib's checker of that name, or the
    package's own."""
    checker, source = root.find("assets/checker"), root.find("assets/checker/source")
    name, path = ("" if one is None else one.get(key, "") for one, key in ((checker, "name"), (source, "path")))
    if known := TESTLIB.get(name.removeprefix("std::").removesuffix(".cpp")):
        return "", *known
    file = inside(folder, path)
    if not file.is_file() or file.suffix not in BUILT:
        return f"checker is neither one of testlib's nor a file in C++: {path or name or 'none'}", "", ""
    try:
        return "", "checker", built_checker(file, "testlib").text
    except ValueError as error:
        return str(error), "", ""


def not_judged(root: Element) -> str:
    """Return why solutions of a package cannot be judged on this machine, whatever its tests are; empty if they can."""
    judging = root.find("judging")
    assert judging is not None
    if root.find("assets/interactor") is not None:
        return "problem is interactive"
    if int(judging.get("run-count") or 1) > 1:
        return "solutions run several times on a test"
    given = (judging.get("input-file") or "", judging.get("output-file") or "")
    names = [name for name in given if name not in ("", "stdin", "stdout")]
    return f"solutions read or write files: {', '.join(names)}" if names else ""


def tests_of(testset: Element, folder: Path, most: int) -> tuple[tuple[TestCase, ...], int, str, list[float] | None]:
    """Return the tests of a package, the number of tests left out (larger than ``most`` bytes), why all are missing (or ""), and the points.

    The points are None if the package gives none.
    """
    patterns = [testset.findtext(f"{kind}-path-pattern") or "" for kind in ("input", "answer")]
    shown = [(test.get("sample") == "true", float(test.get("points") or 0)) for test in testset.iterfind("tests/test")]
    tests: list[TestCase] = []
    weights: list[float] = []
    large = missing = 0
    for index, (sample, points) in enumerate(shown, 1):
        files = [inside(folder, pattern % index) for pattern in patterns]
        if not all(file.is_file() for file in files):
            missing += 1
        elif max(file.stat().st_size for file in files) > most:
            large += 1
        else:
            texts = (file.read_text(encoding="utf-8") for file in files)
            tests.append(TestCase(TestKind.STDIO, *texts, hidden=not sample))
            weights.append(points)
    lost = f"{missing} of {len(shown)} have no file"
    return (
        tuple(tests),
        large,
        f"{lost}: doall.sh generates them, and the full package (linux or windows) has them" if missing else "",
        weights if any(weights) else None,
    )


def inside(folder: Path, name: str) -> Path:
    """Return a file of a package by its name in ``problem.xml``; ValueError if the path leaves the package."""
    file = (folder / name).resolve()
    if not file.is_relative_to(folder.resolve()):
        raise ValueError(f"{name}: the path leaves the folder of the package")
    return file


def statement_of(root: Element, folder: Path) -> str:
    """Return the name of a problem and its statement, in English or else in the first of its languages."""
    languages = [name.get("language", "") for name in root.iterfind("names/name")]
    for language in sorted(languages, key=lambda language: language != "english"):
        file = folder / "statements" / language / "problem-properties.json"
        if file.is_file():
            return sections(json.loads(file.read_text(encoding="utf-8")), STATEMENT)
    name = root.find("names/name")
    return "" if name is None else name.get("value", "")


def solution_of(folder: Path, languages: frozenset[str], row: Mapping[str, str]) -> Iterator[Row]:
    """Yield the attempt of a solution, and its verdict if its tag states one outcome; nothing for a language that is not wanted."""
    file, tag = inside(folder, row["path"]), row["tag"]
    first, _, rest = row["type"].partition(".")  # such as cpp.g++17, python.3 or python.pypy2
    language = language_in(rest if rest.startswith("pypy") else f"{first} {rest}" if first == "python" else first)
    if languages and language not in languages:
        return
    if not file.is_file():
        raise ValueError(f"{row['path'] or 'no path'}: no such file in the package")
    code, extra = file.read_text(encoding="utf-8"), extra_of({"file": file.name, "tag": tag})
    status = TAGS.get(tag) or WORDS.get(tag.replace("-", " "), Status.UNSCORED)
    yield from judged(Attempt(row["task_id"], code, language, "human", extra=extra), status, JUDGE)


SOURCE = Source(
    read,
    "a package of Polygon, or a folder with such",
    PACKAGE_OPTIONS,
    max_rejected=1.0,
    marks=("problem.xml", "*/problem.xml", "*/*/problem.xml"),
)
