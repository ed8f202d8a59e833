"""Problem packages of Kattis, DOMjudge and ICPC contests: tasks with the validator's comparison, submissions with the outcomes of their folders."""

import json

import pytest

from upsolve.archive.store import Archive
from upsolve.checkers import program_of
from upsolve.errors import SourceError
from upsolve.importers.ingest import ingest
from upsolve.importers.problems.problem_package import default_validator, python_validator, read
from upsolve.importers.rows import BadRow
from upsolve.types import Attempt, Status, Task, Verdict
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.pool.pool import verify

SUM = "a, b = map(int, input().split())\nprint('Sum', a + b)\n"
ANY_SUM = """
import sys

total = int(open(sys.argv[1]).read())
words = sys.stdin.read().split()
open(sys.argv[3] + "judgemessage.txt", "w").write("seen")
assert sys.argv[4:] == ["most", "9"]
if len(words) == 2 and sum(map(int, words)) == total:
    sys.exit(42)
sys.exit(43)
"""
"""A validator for any two numbers with a sum."""


def package(folder, files=None, **settings):
    """Write a package and return its folder."""
    texts = {
        "problem.yaml": json.dumps({"name": "Sum", **settings}),
        "problem_statement/problem.en.tex": "Add.",
        "data/sample/1.in": "1 2\n",
        "data/sample/1.ans": "sum 3\n",
        "data/secret/a/2.in": "2 2\n",
        "data/secret/a/2.ans": "sum 4\n",
        "submissions/accepted/sum.py": SUM,
        "submissions/wrong_answer/less.py": SUM.replace("+", "-"),
    }
    for name, text in (texts | (files or {})).items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def parts(path, **options):
    """Return the task, attempts by file, and their verdicts."""
    rows = [*read(path, **options)]
    assert not [row for row in rows if isinstance(row, BadRow)]
    (task,) = (row for row in rows if isinstance(row, Task))
    attempts = {json.loads(row.extra)["file"]: row for row in rows if isinstance(row, Attempt)}
    verdicts = {row.attempt_id: row.status for row in rows if isinstance(row, Verdict)}
    return task, {name: (attempt.language, verdicts[attempt.attempt_id]) for name, attempt in attempts.items()}


def test_a_package_becomes_a_task_and_its_submissions_attempts(tmp_path):
    folder = package(
        tmp_path / "sum",
        {
            "submissions/time_limit_exceeded/slow.cc": "int main() { for (;;); }",
            "submissions/run_time_error/old.py": "#!/usr/bin/env python2\nprint 1 / 0\n",
            "submissions/slow_accepted/late.py": SUM + "# late\n",
            "submissions/mixed/one.py": "# @EXPECTED_RESULTS@: WRONG-ANSWER\n" + SUM,
            "submissions/mixed/two.py": "# @EXPECTED_RESULTS@: CORRECT, TIMELIMIT\n" + SUM,
            "submissions/partially_accepted/part/part.py": "print('sum 3')\n",
        },
        limits={"memory": 64},
        license="cc by",
    )
    task, attempts = parts(folder)
    assert (task.task_id, task.prompt, task.language) == ("problem_package/sum", "Sum\n\nAdd.", "")
    assert [(test.input, test.expected, test.hidden) for test in task.tests] == [
        ("1 2\n", "sum 3\n", False),
        ("2 2\n", "sum 4\n", True),
    ]
    assert (task.limit_bytes, task.limit_seconds, json.loads(task.extra)) == (64 << 20, None, {"license": "cc by"})
    assert attempts == {
        "sum.py": ("python", Status.PASSED),
        "less.py": ("python", Status.FAILED),
        "slow.cc": ("cpp", Status.TIMEOUT),
        "old.py": ("python2", Status.RUNTIME_ERROR),
        "late.py": ("python", Status.UNSCORED),
        "one.py": ("python", Status.FAILED),
        "two.py": ("python", Status.UNSCORED),
        "part": ("python", Status.FAILED),
    }
    assert [*parts(folder, language="c++")[1]] == ["slow.cc"]


def test_the_jurys_programs_are_judged_as_their_folders_say(tmp_path):
    """The default validator ignores case, so that ``Sum 3`` is right where the answer is ``sum 3``."""
    folder = package(tmp_path / "sum", {".timelimit": "2\n"})
    archive = Archive.create(tmp_path / "archive")
    assert ingest(archive, "problem_package", folder).bad == 0
    (group,) = archive.groups()
    assert group.task.compare == "checker" and group.task.limit_seconds == 2
    judged = [
        verdict.status for verdict in verify([(group.task, attempt) for attempt in group.attempts], JudgeSettings(workers=1))
    ]
    assert judged == [verdict.status for verdict in group.verdicts]


def test_a_validator_in_python_decides(tmp_path):
    files = {
        "output_validators/validate.py": ANY_SUM,
        "data/secret/a/2.in": "7\n",
        "data/sample/1.in": "5\n",
        "data/sample/1.ans": "2 3\n",
        "data/secret/a/2.ans": "3 4\n",
        "submissions/accepted/sum.py": "print(1, int(input()) - 1)\n",
        "submissions/wrong_answer/less.py": "print(1, 1)\n",
    }
    task, _ = parts(package(tmp_path / "sum", files, validation="custom", validator_flags="most 9"))
    attempts = [row for row in read(tmp_path / "sum") if isinstance(row, Attempt)]
    judged = [verdict.status for verdict in verify([(task, attempt) for attempt in attempts], JudgeSettings(workers=1))]
    assert judged == [Status.PASSED, Status.FAILED]
    with pytest.raises(ValueError, match="not 42 or 43"):
        namespace = {}
        exec(python_validator("import sys; sys.exit(1)", []), namespace)
        namespace["check"]("1", "1", "1")


@pytest.mark.parametrize(
    ("flags", "expected", "output", "accepted"),
    [
        ("", "Yes 3", "  yES\n\n3 \n", True),
        ("", "Yes 3", "yes 3 3", False),
        ("", "0.5", "0.50", False),
        ("case_sensitive", "Yes", "yes", False),
        ("space_change_sensitive", "a b\n", "A b\n", True),
        ("space_change_sensitive", "a b\n", "a  b\n", False),
        ("space_change_sensitive", "a b\n", "a b", False),
        ("float_tolerance 1e-3", "x 0.5", "X 5.004e-1", True),
        ("float_tolerance 1e-3", "0.5", "0.502", False),
        ("float_tolerance 1e-3", "1000", "1000.9", True),
        ("float_tolerance 1e-3", "1000", "a", False),
        ("float_tolerance 1e-3", "nan", "NaN", True),
        ("float_absolute_tolerance 1e-3", "1000", "1000.9", False),
        ("float_relative_tolerance 1e-3", "0.0", "1e-9", False),
    ],
)
def test_the_default_validator_compares_like_that_of_kattis(flags, expected, output, accepted):
    namespace = {}
    exec(default_validator(flags.split()), namespace)
    assert namespace["check"]("", expected, output) is accepted


def test_answers_without_letters_are_compared_as_tokens(tmp_path):
    numbers = {"data/sample/1.ans": "3\n", "data/secret/a/2.ans": "4\n"}
    assert parts(package(tmp_path / "a", numbers))[0].compare == "tokens"
    assert parts(package(tmp_path / "b", numbers, validator_flags="float_tolerance 1e-6"))[0].compare == "checker"


def test_a_validator_in_cpp_comes_with_its_headers_and_flags(tmp_path):
    files = {"output_validators/v/validate.cc": '#include "validate.h"\n', "output_validators/v/validate.h": "int x;\n"}
    task, _ = parts(package(tmp_path / "sum", files, validation="custom", validator_flags="most 9"))
    program = program_of(task.checker)
    assert (task.compare, program.language, program.call, program.arguments) == ("checker", "cpp", "icpc", ("most", "9"))
    assert (program.source, program.files) == ('#include "validate.h"\n', {"validate.h": "int x;\n"})


@pytest.mark.parametrize(
    ("files", "settings", "reason"),
    [
        ({}, {"validation": "custom interactive"}, "interactive"),
        ({}, {"type": ["interactive", "multi-pass"], "problem_format_version": "2023-07"}, "interactive"),
        ({"include/cpp/grader.cpp": "int main() {}"}, {}, "include/"),
        ({"output_validators/v/Validate.java": ""}, {"validation": "custom"}, "Validate.java"),
        ({"output_validator/a.cc": "", "output_validator/b.cc": ""}, {"problem_format_version": "2023-07"}, "a.cc, b.cc"),
        (
            {"data/secret/a/testdata.yaml": "output_validator_flags: case_sensitive"},
            {"validator_flags": "float_tolerance 1"},
            "differ",
        ),
    ],
)
def test_tests_that_cannot_be_judged_here_are_left_out_with_the_reason(tmp_path, files, settings, reason):
    task, attempts = parts(package(tmp_path / "sum", files, **settings))
    assert task.tests == () and reason in json.loads(task.extra)["tests_left_out"]
    assert attempts["sum.py"][1] is Status.PASSED


def test_a_validator_that_a_legacy_package_does_not_use_is_ignored(tmp_path):
    assert len(parts(package(tmp_path / "sum", {"output_validators/validate.cc": ""}))[0].tests) == 2


def test_flags_of_the_test_data_and_limits_of_the_newer_format_count(tmp_path):
    files = {
        "data/test_group.yaml": "output_validator_args: [float_tolerance, 1.0e-3]",
        "statement/problem.md": "In plain text.",
    }
    task, _ = parts(
        package(tmp_path / "sum", files, problem_format_version="2023-07", limits={"time_limit": 1.5}, name={"sv": "Summa"})
    )
    assert "1e-3" in task.checker or "0.001" in task.checker
    assert (task.limit_seconds, task.prompt) == (1.5, "Summa\n\nIn plain text.")
    ini = package(tmp_path / "ini", {"domjudge-problem.ini": "timelimit='3'\n"})
    assert parts(ini)[0].limit_seconds == 3


def test_large_tests_are_left_out_and_counted(tmp_path):
    task, _ = parts(package(tmp_path / "sum", {"data/secret/a/2.in": "1 " * 600_000}), max_mb=1)
    assert len(task.tests) == 1 and json.loads(task.extra)["tests_left_out"] == "1 larger than 1 MB"


def test_faults_are_rejected_with_their_file(tmp_path):
    folder = tmp_path / "contest"
    package(folder / "a" / "sum", {"submissions/accepted/many/a.py": "a", "submissions/accepted/many/b.py": "b"})
    package(folder / "b" / "sum", {"problem.yaml": "name: [1"})
    package(folder / "c" / "sum", {"data/secret/3.in": "1"})
    package(folder / "d" / "sum", {"data/testdata.yaml": "output_validator_flags: no_such_flag"})
    rows = [*read(folder)]
    bad = {row.file.removeprefix(f"{folder}/"): row.reason for row in rows if isinstance(row, BadRow)}
    assert "2 files" in bad.pop("a/sum/submissions/accepted/many")
    assert "problem.yaml" in bad.pop("b/sum/problem.yaml") and "3.ans" in bad.pop("c/sum/problem.yaml")
    assert "no_such_flag" in bad.pop("d/sum/problem.yaml") and not bad
    assert [row.task_id for row in rows if isinstance(row, Task)] == ["problem_package/a/sum"]


def test_a_folder_without_packages_is_refused(tmp_path):
    with pytest.raises(SourceError, match=r"no problem\.yaml"):
        [*read(tmp_path)]


def test_accepted_submissions_of_scoring_problems_may_be_partial(tmp_path):
    _, attempts = parts(package(tmp_path / "sum", type="scoring"))
    assert [attempts[name][1] for name in ("sum.py", "less.py")] == [Status.UNSCORED, Status.FAILED]


def test_languages_by_ending_and_python_2(tmp_path):
    codes = {
        "a.pl": "",
        "b.adb": "",
        "c.f95": "",
        "old.py": "print 'Sum', 3\n",
        "new.py": "print ('Sum', 3)\n",
        "bad.py": "x = (\n",
        "reads.py": "print(int(raw_input()))\n",
        "loops.py": "for i in xrange(3):\n    print(i)\n",
        "both.py": "try:\n    read = raw_input\nexcept NameError:\n    read = input\nprint(read())\n",
        "own.py": "def xrange(n):\n    return range(n)\nprint(sum(xrange(3)))\n",
        "six.py": "from six.moves import xrange\nprint(sum(xrange(3)))\n",
        "said.py": "print('raw_input()')\n",
    }
    folder = package(tmp_path / "sum", {f"submissions/accepted/{name}": code for name, code in codes.items()})
    languages = {name: language for name, (language, _) in parts(folder)[1].items()}
    wanted = ["perl", "ada", "fortran", "python2", "python", "python", *["python2"] * 2, *["python"] * 4]
    assert [languages[name] for name in codes] == wanted
