"""Importer for CodeRunner: questions of a quiz that Moodle exports as XML, with their tests and reference."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element
from xml.parsers.expat import ExpatError

from upsolve.errors import SourceError
from upsolve.importers.logs.ci_reports import parse_xml
from upsolve.importers.problems import prompt_of, with_sound_tests
from upsolve.importers.rows import Row, build_each
from upsolve.importers.source import Source
from upsolve.languages.names import language_in
from upsolve.types import Task, TestCase, TestKind, content_id

__all__ = ["SOURCE"]

TAG = re.compile(r"<(br|/p|/div|/li|/pre|/tr)\b[^<>]*+>|<[^<>]*+>", re.IGNORECASE)
PRINTED = """import io, sys
sys.stdin, sys.stdout = io.StringIO({stdin!r}), io.StringIO()
{code}
printed, sys.stdout = sys.stdout.getvalue(), sys.__stdout__
assert [line.rstrip() for line in printed.rstrip().splitlines()] == {lines!r}"""
"""Test in Python of what the code of a test prints."""


def read(path: Path) -> Iterator[Row]:
    """Yield a task for each question of type ``coderunner`` in a file, or in the .xml files of a folder."""
    files, count = sorted(path.rglob("*.xml")) if path.is_dir() else [path], 0
    for file in files:
        try:
            questions = [one for one in parse_xml(file).iter("question") if one.get("type") == "coderunner"]
        except (ExpatError, ValueError) as error:
            raise SourceError(f"{file}: is not XML: {error}") from error
        count += len(questions)
        rows: list[tuple[int, dict[str, Any]]] = [(at, {"question": one}) for at, one in enumerate(questions, start=1)]
        yield from build_each(file, rows, records)
    if not count:
        raise SourceError(f"{path}: has no question of type coderunner")


def records(row: dict[str, Any]) -> Iterator[Row]:
    """Yield the task of a question; ValueError if a test needs a template, which only Python has here."""
    question = row["question"]
    kind, name = text_in(question, "coderunnertype"), text_in(question, "name/text").strip()
    word = (
        text_in(question, "acelang") or text_in(question, "language") or re.sub(r"_(program|function|method|class)$", "", kind)
    )
    language = language_in(word) or language_in(re.sub(r"\W|\d", "", word))
    tests = [test_of(one, kind, python=language == "python") for one in question.iterfind("testcases/testcase")]
    if not language or not tests:
        raise ValueError(
            f"{name}: {'the question has no tests' if language else f'the language of the question type {kind} is not known'}"
        )
    statement = plain(text_in(question, "questiontext/text"))
    yield from with_sound_tests(
        Task(
            f"coderunner/{content_id(name, statement)[:12]}",
            prompt_of(statement, text_in(question, "answerpreload")),
            tuple(tests),
            language=language,
            reference=text_in(question, "answer").replace("\r\n", "\n"),
            source="coderunner",
        )
    )


def test_of(case: Element, kind: str, *, python: bool) -> TestCase:
    """Return a test: of standard input, or of what its code prints."""
    code, stdin, expected = (text_in(case, f"{name}/text").replace("\r\n", "\n") for name in ("testcode", "stdin", "expected"))
    hidden = case.get("useasexample") != "1"
    if not code.strip():
        return TestCase(TestKind.STDIO, stdin, expected, hidden=hidden)
    if not python:
        raise ValueError(f"a test of the question type {kind} is code, which can be read in Python only")
    lines = [line.rstrip() for line in expected.rstrip().splitlines()]
    return TestCase(TestKind.CODE, PRINTED.format(stdin=stdin, code=code.strip("\n"), lines=lines), hidden=hidden)


def text_in(element: Element, name: str) -> str:
    """Return the text of an element below another one; empty without one."""
    return element.findtext(name) or ""


def plain(html: str) -> str:
    """Return the text of HTML: tags that end a line or paragraph become line ends."""
    text = unescape(TAG.sub(lambda tag: "\n" if tag[1] else "", html))
    return re.sub(r"\n\s*\n\s*", "\n\n", text).strip()


SOURCE = Source(read, "the XML of a quiz that Moodle exports, or a folder of such files", max_rejected=1.0)
