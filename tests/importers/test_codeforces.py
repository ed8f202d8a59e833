"""open-r1's problems and submissions of Codeforces: tasks with generated tests and checkers, attempts with recorded outcomes."""

import json

import imports
import pytest
from imports import rejected_rows, write_parquet

from upsolve.checkers import checker_in
from upsolve.errors import SourceError
from upsolve.importers.registry import SOURCES
from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.pool.pool import verify

SUM = "a, b = map(int, input().split())\nprint(a + b)\n"
ANY_DIVISOR = """
import sys

def main():
    n = int(open(sys.argv[1]).read())
    answer = open(sys.argv[3]).read().split()
    if len(answer) != 1:
        print(0)
        return
    print(100 if 1 < int(answer[0]) <= n and n % int(answer[0]) == 0 else 0)

if __name__ == "__main__":
    main()
"""
"""Its score is 100 instead of 1, and it exits with 0 in either case."""


def problem(name="1/A", **fields):
    contest, index = name.split("/")
    return {
        "id": name,
        "aliases": None,
        "contest_id": contest,
        "index": index,
        "title": "Sum",
        "description": "Add two numbers.",
        "input_format": "Two integers.",
        "output_format": "Their sum.",
        "interaction_format": None,
        "note": None,
        "examples": [{"input": "1 2", "output": "3"}],
        "editorial": "Use +.",
        "rating": 800,
        "tags": ["math"],
        "time_limit": 1.0,
        "memory_limit": 256.0,
        "official_tests": [{"input": "1 2", "output": "3"}, {"input": "3\r\n4\r\n", "output": "7\r\n"}],
        "official_tests_complete": False,
        "input_mode": "stdio",
        "generated_checker": None,
        "executable": True,
        "generated_tests": 2,
        **fields,
    }


def sent(number, source, verdict, **fields):
    return {
        "submission_id": str(number),
        "source": source,
        "contestId": "1",
        "problem_index": "A",
        "programmingLanguage": "PyPy 3-64",
        "verdict": verdict,
        "testset": "TESTS",
        "passedTestCount": 3.0,
        "timeConsumedMillis": 46.0,
        "memoryConsumedBytes": 102400.0,
        "creationTimeSeconds": 1_600_000_000.0,
        "problem_id": "1/A",
        **fields,
    }


@pytest.fixture
def hub(tmp_path):
    """A folder with problems, generated tests and submissions, as downloaded from both data sets."""
    write_parquet(tmp_path / "hub" / "data" / "train-00000-of-00011.parquet", [problem(), problem("2/B", input_mode="file")])
    further = [{"problem_id": "1/A", "input": f"{n} 1\r\n", "output": f"{n + 1}\n", "test_i": n} for n in (12, 11)]
    other = [{"problem_id": "1/B", "input": "1", "output": "1", "test_i": 1}]
    write_parquet(tmp_path / "hub" / "generated_tests" / "test_cases_0001.parquet", [*other, *further])
    rows = [
        sent(1, SUM, "OK"),
        sent(2, SUM.replace("+", "-"), "WRONG_ANSWER"),
        sent(3, "int main(){}", "COMPILATION_ERROR", programmingLanguage="GNU C++17", problem_id=None),
        sent(4, "print(raw_input())", "SKIPPED", programmingLanguage="Python 2"),
        sent(5, SUM, "GREAT"),
        sent(6, "", "OK"),
    ]
    write_parquet(tmp_path / "hub" / "submissions" / "train-00000-of-00100.parquet", rows)
    return tmp_path / "hub"


def imported(tmp_path, path, **options):
    archive, report = imports.imported(tmp_path, "codeforces", path, **options)
    return archive, {task.task_id: task for task in archive.tasks()}, rejected_rows(report)


def statuses(task, *codes):
    return [
        verdict.status for verdict in verify([(task, Attempt(task.task_id, code)) for code in codes], JudgeSettings(workers=1))
    ]


def test_problems_have_their_examples_official_and_generated_tests(tmp_path, hub):
    _, tasks, _ = imported(tmp_path, hub)
    task = tasks["codeforces/1/A"]
    assert [(test.input, test.expected, test.hidden) for test in task.tests] == [
        ("1 2", "3", False),
        ("3\n4\n", "7\n", True),
        ("11 1\n", "12\n", True),
        ("12 1\n", "13\n", True),
    ]
    assert task.prompt == "Sum\n\nAdd two numbers.\n\nInput\n\nTwo integers.\n\nOutput\n\nTheir sum."
    assert (task.language, task.difficulty, task.compare, task.limit_seconds) == ("", "800", "tokens", 1.0)
    assert (task.limit_bytes, task.official) == (256 * 2**20, False)
    extra = json.loads(task.extra)
    assert extra["editorial"] == "Use +." and extra["split"] == "train" and "official_tests" not in extra
    right = "import sys\nprint(sum(map(int, sys.stdin.read().split())))"
    assert statuses(task, right, right.replace("sum(", "max(")) == [Status.PASSED, Status.FAILED]
    assert tasks["codeforces/2/B"].tests == ()


def test_submissions_keep_their_outcomes(tmp_path, hub):
    archive, _, rejected = imported(tmp_path, hub)
    rows = archive.query(
        "select task_id, language, status, passed, total, memory_bytes, judge, created from attempts join verdicts using (attempt_id)"
    ).to_pylist()
    assert {(row["language"], row["status"], row["passed"], row["total"]) for row in rows} == {
        ("python", "passed", 3, 3),
        ("python", "failed", 0, 0),
        ("cpp", "compile_error", 0, 0),
        ("python2", "unscored", 0, 0),
    }
    assert {(row["task_id"], row["judge"], row["memory_bytes"]) for row in rows} == {
        ("codeforces/1/A", "recorded:codeforces", 102400)
    }
    assert {row["created"] for row in rows} == {"2020-09-13T12:26:40+00:00"}
    assert json.loads(next(iter(archive.attempts())).extra) == {
        "contestId": "1",
        "problem_index": "A",
        "passedTestCount": 3.0,
        "submission_id": "1",
        "testset": "TESTS",
        "timeConsumedMillis": 46.0,
        "written_in": "PyPy 3-64",
    }
    assert sorted(row["reason"].partition(";")[0] for row in rejected) == [
        "neither a program nor a prompt",
        "unknown status 'GREAT': add it to `statuses` in the map",
    ]


def test_some_languages_and_some_generated_tests(tmp_path, hub):
    archive, tasks, _ = imported(tmp_path, hub, language="C++", generated=1)
    assert [attempt.language for attempt in archive.attempts()] == ["cpp"]
    assert [test.input for test in tasks["codeforces/1/A"].tests[2:]] == ["11 1\n"]


def test_generated_tests_are_found_from_a_single_file(tmp_path, hub):
    _, tasks, _ = imported(tmp_path, next((hub / "data").iterdir()))
    assert len(tasks["codeforces/1/A"].tests) == 4


def test_generated_tests_alone_are_no_source(hub):
    with pytest.raises(SourceError, match="is one of several related tables; name the folder above it"):
        [*SOURCES["codeforces"].read(hub / "generated_tests")]


def test_units_are_all_of_it(hub):
    source = SOURCES["codeforces"]
    assert [*source.read(hub)] == [row for unit in source.split(hub) for row in source.read(unit.path, **unit.options)]


def test_a_published_checker_decides(tmp_path):
    made = problem(
        "4/C",
        examples=[{"input": "12\n", "output": "2\n"}],
        official_tests=[{"input": "9\n", "output": "3\n"}],
        official_tests_complete=True,
        generated_checker=ANY_DIVISOR,
    )
    write_parquet(tmp_path / "test.parquet", [made])
    _, tasks, _ = imported(tmp_path, tmp_path / "test.parquet")
    task = tasks["codeforces/4/C"]
    assert (task.compare, task.official) == ("checker", False)
    codes = ("n = int(input())\nprint(n)", "print(int(input()) - 1)", "print('x')", "print(1, 1)")
    assert statuses(task, *codes) == [Status.PASSED, Status.FAILED, Status.FAILED, Status.FAILED]


@pytest.mark.parametrize("source", ["print(0)", "1 / 0", "pass"])
def test_a_checker_that_refuses_the_expected_output_is_at_fault(source):
    """Nothing is known of the attempt then."""
    tests = (TestCase(TestKind.STDIO, "1\n", "1\n"),)
    task = Task("codeforces/5/D", "p", tests, compare="checker", checker=checker_in(f"import sys\nsys.argv\n{source}"))
    assert statuses(task, "print(1)") == [Status.UNSCORED]
