"""Packages of Codeforces' Polygon: tests, limits and checker from problem.xml, solutions with the outcomes of their tags."""

import json

import pytest

from upsolve.archive.store import Archive
from upsolve.checkers import program_of
from upsolve.errors import SourceError
from upsolve.importers.ingest import ingest
from upsolve.importers.problems.polygon import read
from upsolve.importers.problems.problem_package import TESTLIB
from upsolve.importers.rows import BadRow
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict
from upsolve.verify.pool.pool import verify

SUM = "a, b = map(int, input().split())\nprint(a + b)\n"
SOLUTIONS = (
    ("main", "sum.py", "python.3"),
    ("accepted", "sum.cpp", "cpp.g++17"),
    ("wrong-answer", "less.py", "python.pypy3-64"),
    ("time-limit-exceeded", "slow.py", "python.pypy2"),
    ("time-limit-exceeded-or-accepted", "old.pas", "pas.fpc"),
    ("rejected", "no.java", "java11"),
    ("time-limit-exceeded-or-memory-limit-exceeded", "big.c", "c.gcc"),
)
XML = """<?xml version="1.0" encoding="utf-8" standalone="no"?>
<problem revision="3" short-name="a-plus-b" url="https://polygon.codeforces.com/p1/me/a-plus-b">
  <names><name language="russian" value="Сумма"/><name language="english" value="A+B"/></names>
  <judging cpu-name="i3" cpu-speed="3600" input-file="{reads}" output-file="" run-count="1">
    <testset name="pretests"><test-count>0</test-count></testset>
    <testset name="tests">
      <time-limit>1500</time-limit><memory-limit>268435456</memory-limit><test-count>3</test-count>
      <input-path-pattern>tests/%02d</input-path-pattern><answer-path-pattern>tests/%02d.a</answer-path-pattern>
      <tests><test method="manual" sample="true"/><test cmd="gen 1" method="generated"/><test cmd="gen 2" method="generated"/></tests>
    </testset>
  </judging>
  <assets>{checker}{more}<solutions>{solutions}</solutions></assets>
  <tags><tag value="math"/></tags>
</problem>
"""


OWN = '<checker type="testlib"><source path="files/check.cpp" type="cpp.g++17"/></checker>'


def package(folder, *, checker='<checker name="std::ncmp.cpp" type="testlib"/>', more="", reads="", files=None, without=()):
    """Write a package and return its folder."""
    one = '<solution tag="{}"><source path="solutions/{}" type="{}"/></solution>'
    solutions = "".join(one.format(*solution) for solution in SOLUTIONS)
    properties = {
        "name": "A+B",
        "legend": "Add.",
        "input": "Two numbers.",
        "output": "Their sum.",
        "notes": "",
        "scoring": None,
    }
    texts = {
        "problem.xml": XML.format(checker=checker, more=more, reads=reads, solutions=solutions),
        "statements/english/problem-properties.json": json.dumps(properties),
        "statements/russian/problem-properties.json": json.dumps({"name": "Сумма", "legend": "Сложите."}),
        **{f"tests/{number:02d}": f"{number} {number}\n" for number in (1, 2, 3)},
        **{f"tests/{number:02d}.a": f"{2 * number}\n" for number in (1, 2, 3)},
        **{f"solutions/{name}": f"{name}\n" for _, name, _ in SOLUTIONS},
        "solutions/sum.py": SUM,
        "solutions/less.py": SUM.replace("+", "-"),
    }
    for name, text in (texts | (files or {})).items():
        if name not in without:
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    return folder


def task_in(path, **options):
    (task,) = (row for row in read(path, **options) if isinstance(row, Task))
    return task, json.loads(task.extra)


def test_points_of_tests_are_their_weights(tmp_path):
    folder = package(tmp_path / "a")
    file = folder / "problem.xml"
    file.write_text(file.read_text().replace('<test cmd="gen 1"', '<test points="30.5" cmd="gen 1"'), encoding="utf-8")
    assert task_in(tmp_path)[0].weights == (0, 30.5, 0)


def test_a_package_is_a_task_and_solutions_with_the_outcomes_of_their_tags(tmp_path):
    rows = [*read(package(tmp_path / "a"))]
    task, extra = task_in(tmp_path)
    assert (task.task_id, task.language, task.compare, task.limit_seconds, task.limit_bytes) == (
        "polygon/a-plus-b", "", "tokens", 1.5, 1 << 28,
    )  # fmt: skip
    assert task.prompt == "A+B\n\nAdd.\n\nInput\n\nTwo numbers.\n\nOutput\n\nTheir sum."
    assert [(test.input, test.expected, test.hidden) for test in task.tests] == [
        ("1 1\n", "2\n", False), ("2 2\n", "4\n", True), ("3 3\n", "6\n", True),
    ]  # fmt: skip
    assert extra == {"url": "https://polygon.codeforces.com/p1/me/a-plus-b", "revision": "3", "tags": ["math"]}
    attempts = [row for row in rows if isinstance(row, Attempt)]
    statuses = [row.status for row in rows if isinstance(row, Verdict)]
    assert [(json.loads(attempt.extra)["tag"], attempt.language) for attempt in attempts] == [
        ("main", "python"), ("accepted", "cpp"), ("wrong-answer", "python"), ("time-limit-exceeded", "python2"),
        ("time-limit-exceeded-or-accepted", "pascal"), ("rejected", "java"),
        ("time-limit-exceeded-or-memory-limit-exceeded", "c"),
    ]  # fmt: skip
    assert statuses == [
        Status.PASSED,
        Status.PASSED,
        Status.FAILED,
        Status.TIMEOUT,
        Status.UNSCORED,
        Status.FAILED,
        Status.FAILED,
    ]


def test_solutions_have_the_outcomes_of_their_tags_when_they_are_judged(tmp_path):
    folder = package(tmp_path / "a")
    archive = Archive.create(tmp_path / "archive")
    assert ingest(archive, "polygon", folder, language="python").bad == 0
    task, _ = task_in(folder)
    attempts = [row for row in read(folder, language="python") if isinstance(row, Attempt)]
    assert [verdict.status for verdict in verify([(task, attempt) for attempt in attempts])] == [Status.PASSED, Status.FAILED]


def test_a_checker_of_the_package_comes_with_the_headers_beside_it(tmp_path):
    files = {
        "files/check.cpp": '#include <cstdio>\n  # include "testlib.h" // the library\nint main() { return right(); }\n',
        "files/testlib.h": '#include "more.h"\n#include "/etc/passwd"\n#include "../problem.xml"\n',
        "files/more.h": '#include "testlib.h"\nint right() { return 1; }\n',
        "files/other.h": "",
    }
    task, _ = task_in(package(tmp_path, checker=OWN, files=files))
    program = program_of(task.checker)
    assert (task.compare, len(task.tests), program.language, program.call) == ("checker", 3, "cpp", "testlib")
    assert program.source == files["files/check.cpp"]
    assert program.files == {name: files[f"files/{name}"] for name in ("testlib.h", "more.h")}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"without": ("tests/02", "tests/03.a")}, "2 of 3 have no file: doall.sh generates them, and the full package (linux or windows) has them"),
        ({"checker": '<checker type="testlib"><source path="files/own.cpp"/></checker>'}, "checker is neither one of testlib's nor a file in C++: files/own.cpp"),
        ({"checker": '<checker><source path="check.dpr"/></checker>', "files": {"check.dpr": ""}}, "checker is neither one of testlib's nor a file in C++: check.dpr"),
        ({"checker": OWN, "files": {"files/check.cpp": '#include "testlib.h"\n'}}, "checker check.cpp includes testlib.h, which is not beside it"),
        ({"checker": '<checker name="std::pointscmp.cpp"/>'}, "checker is neither one of testlib's nor a file in C++: std::pointscmp.cpp"),
        ({"checker": ""}, "checker is neither one of testlib's nor a file in C++: none"),
        ({"more": "<interactor/>"}, "problem is interactive"),
        ({"reads": "input.txt"}, "solutions read or write files: input.txt"),
    ],
)  # fmt: skip
def test_what_cannot_be_judged_here_has_no_tests_and_says_why(options, reason, tmp_path):
    task, extra = task_in(package(tmp_path, **options))
    assert (task.tests, task.compare, task.checker, extra["tests_left_out"]) == ((), "lines", "", reason)
    assert sum(isinstance(row, Attempt) for row in read(tmp_path)) == len(SOLUTIONS)


def test_nothing_outside_of_a_package_is_read(tmp_path):
    (tmp_path / "secret").write_text("secret")
    folder = package(tmp_path / "a")
    xml = (folder / "problem.xml").read_text()
    (folder / "problem.xml").write_text(xml.replace("tests/%02d.a", "../secret%.0s").replace("solutions/no.java", "../secret"))
    reasons = [row.reason for row in read(folder) if isinstance(row, BadRow)]
    assert reasons == ["../secret: the path leaves the folder of the package"] * 2


def test_large_tests_are_left_out_and_counted(tmp_path):
    task, extra = task_in(package(tmp_path, files={"tests/02": "1 1" + " " * (1 << 20)}), max_mb=1)
    assert len(task.tests) == 2 and extra["tests_left_out"] == "1 larger than 1 MB"


def test_the_first_language_where_english_is_missing(tmp_path):
    assert (
        task_in(package(tmp_path / "a", without=("statements/english/problem-properties.json",)))[0].prompt
        == "Сумма\n\nСложите."
    )
    bare = package(tmp_path / "b", without=[f"statements/{name}/problem-properties.json" for name in ("english", "russian")])
    assert task_in(bare)[0].prompt == "Сумма"


def test_a_path_that_is_no_package_raises(tmp_path):
    with pytest.raises(SourceError, match=r"no problem\.xml in it or below; unpack packages"):
        [*read(tmp_path)]
    (tmp_path / "problem.xml").write_text("<problem><name>x</name></problem>")
    (row,) = read(tmp_path)
    assert isinstance(row, BadRow) and "not a package of Polygon" in row.reason
    package(tmp_path, without=("solutions/less.py",))
    (row,) = (row for row in read(tmp_path) if isinstance(row, BadRow))
    assert row.reason == "solutions/less.py: no such file in the package" and row.line == 3
    (tmp_path / "problem.xml").write_text("<problem>\n<judging></problem>")
    (row,) = read(tmp_path)
    assert isinstance(row, BadRow) and row.line == 2 and row.reason.startswith("not XML")


@pytest.mark.parametrize(
    ("name", "expected", "right", "wrong"),
    [
        ("wcmp", "a b\nc\n", "a b c", "a b C"),
        ("ncmp", "1 2\n", "1\n2", "1 2 3"),
        ("lcmp", "a  b\nc\n", " a b\nc\n\n", "a b c"),
        ("fcmp", "a b\nc\n", "a b\nc", "a  b\nc"),
        ("yesno", "YES\n", "yes", "no"),
        ("rcmp6", "2000000\n", "2000001.9", "2000002.1"),
        ("rcmp4", "0.5\n", "0.50009", "0.50011"),
        ("acmp", "2000000\n", "2000000.000001", "2000000.1"),
        ("uncmp", "1 2 3\n", "3 1 2", "3 1 1"),
    ],
)
def test_outputs_are_compared_as_the_checkers_of_testlib_do(name, expected, right, wrong):
    compare, checker = TESTLIB[name]
    task = Task("t", "", (TestCase(TestKind.STDIO, "", expected),), compare=compare, checker=checker)
    attempts = [Attempt("t", f"print({output!r})") for output in (right, wrong)]
    assert [verdict.status for verdict in verify([(task, attempt) for attempt in attempts])] == [Status.PASSED, Status.FAILED]
