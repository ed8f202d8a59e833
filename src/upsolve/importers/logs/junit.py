"""Importer for JUnit XML, as pytest, Maven, Gradle and most other tools write it, on the tests of a repository."""

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers.expat import ParserCreate

from upsolve.importers.history.ci import ci_source
from upsolve.importers.history.reports import Collected, Report, name_of
from upsolve.types import Status

__all__ = ["SOURCE", "parse", "parse_xml"]

FAILED = {"failure": Status.FAILED, "error": Status.RUNTIME_ERROR}
AGAIN = ("flakyFailure", "flakyError", "rerunFailure", "rerunError")
"""Elements of Maven about a run of a test before its last one."""
COMMIT = re.compile(r"(?:^|[._ -])(?:commit|sha|revision)(?:[._ -]?(?:id|sha|hash))?$", re.IGNORECASE)
"""Names of properties that hold a commit: ``git.commit``, ``GIT_COMMIT``, ``sha``."""


def parse_xml(file: Path) -> Element:
    """Return the root of an XML file.

    A document type is refused: entities can be declared nowhere else, and neither expanded (billion laughs) nor fetched.

    Raises:
        ValueError: it has a document type.
        ExpatError: it is not well formed.
    """
    builder, parser = TreeBuilder(), ParserCreate()

    def refuse(*_declared: object) -> None:
        raise ValueError("a document type (<!DOCTYPE>) is refused: it can declare entities")

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    with file.open("rb") as data:
        parser.ParseFile(data)
    return builder.close()


def parse(file: Path) -> Report:
    """Return the report of a file. Skipped tests have no outcome; errors of the network or the machine are none, either."""
    root, found = parse_xml(file), Collected()
    if root.tag not in ("testsuites", "testsuite"):
        raise ValueError(f"the root element is <{root.tag}>, not <testsuites> or <testsuite>")
    for case in root.iter("testcase"):
        message, text = message_of(case)
        if "collection failure" in message:
            found.broken = found.broken or f"{case.get('name', '')} could not be collected"
        else:
            found.add(name_of(f"{case.get('classname', '')}::{case.get('name', '')}"), statuses_of(case), message, text)
    return found.report(file, commits_of(root))


def message_of(case: Element) -> tuple[str, str]:
    """Return the message and the text of a failed test; empty if it did not fail."""
    failed = [one for one in case if one.tag in (*FAILED, *AGAIN)]
    return (failed[0].get("message") or "", failed[0].text or "") if failed else ("", "")


def statuses_of(case: Element) -> set[Status]:
    """Return what a test gave in all of its runs; empty if it was skipped."""
    if case.find("skipped") is not None:
        return set()
    last = {FAILED[one.tag] for one in case if one.tag in FAILED} or {Status.PASSED}
    return last | {Status.FAILED for one in case if one.tag in AGAIN}


def commits_of(root: Element) -> Iterator[str]:
    """Yield the values of properties that hold a commit."""
    for one in root.iter("property"):
        if COMMIT.search(one.get("name", "")):
            yield (one.get("value") or one.text or "").strip()


SOURCE = ci_source("junit", "a JUnit XML file, or a folder with such", ("*.xml",), parse)
