"""Expected answers filled in from references."""

import ast

import pytest

from upsolve.archive.store import Archive
from upsolve.clean.fixing import fill_expected
from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.judge.plans import judge
from upsolve.verify.judge.references import expected_answers

CALLS = ("f(2)", "f('a')", "f([1.5, (2, None)])", "f({3: {4}})")
DOUBLE = "def f(x):\n    return (x, x)\n"
ECHO = "print(2 * int(input()))\nprint('ü')\n"


def call_task(reference, *calls, **fields):
    """Return a task with CALL tests, without expected values."""
    return Task("t/call", "", tuple(TestCase(TestKind.CALL, call) for call in calls), "f", reference=reference, **fields)


def test_values_of_the_reference_are_literals_that_it_passes():
    task = call_task(DOUBLE, *CALLS)
    answers = expected_answers(task)
    assert answers[:2] == ["(2, 2)", "('a', 'a')"] and all(map(ast.literal_eval, answers))
    tests = tuple(TestCase(TestKind.CALL, call, answer) for call, answer in zip(CALLS, answers, strict=True))
    full = Task("t/call", "", tests, "f", reference=DOUBLE)
    assert judge(full, Attempt("t/call", DOUBLE)).status is Status.PASSED
    assert judge(full, Attempt("t/call", "def f(x):\n    return x\n")).status is Status.FAILED


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (call_task("", "f(1)"), "no Python reference"),
        (call_task(DOUBLE, "f(1)", language="cpp"), "no Python reference"),
        (call_task(DOUBLE), "tests must be all CALL"),
        (call_task("def f(x)", "f(1)"), "the reference fails: SyntaxError"),
        (call_task("def f(x):\n    return 1 / x\n", "f(1)", "f(0)"), "the reference fails test 2: ZeroDivisionError"),
        (call_task("def f(x):\n    return object()\n", "f(1)"), "test 1"),
        (call_task("def f(x):\n    return float('nan')\n", "f(1)"), "no literal equals the value of test 1"),
        (Task("t", "", (TestCase(TestKind.STDIO, ""),), reference="raise ValueError(3)"), "the reference fails"),
    ],
)
def test_a_reference_that_gives_no_answer_says_why(task, reason):
    with pytest.raises(ValueError, match=reason):
        expected_answers(task)


def test_an_archive_is_copied_with_the_answers_filled_in(tmp_path):
    archive = Archive.create(tmp_path / "archive")
    known = TestCase(TestKind.STDIO, "3\n", "known\n")
    stdio = Task("t/stdio", "", (TestCase(TestKind.STDIO, "2\n", hidden=True), known), reference=ECHO)
    code = Task("t/code", "", (TestCase(TestKind.CODE, "assert True"),), reference="x = 1")
    lost = call_task("def f(x):\n    return 1 / 0\n", "f(1)")
    archive.append(tasks=[stdio, code, lost], attempts=[Attempt("t/stdio", ECHO)])
    seen = []
    filled = fill_expected(archive, tmp_path / "new", on_done=lambda *counts: seen.append(counts))
    new = Archive(tmp_path / "new")
    by_id = {task.task_id: task for task in new.tasks()}
    assert [test.expected for test in by_id["t/stdio"].tests] == ["4\nü\n", "known\n"] and by_id["t/stdio"].tests[0].hidden
    assert (by_id["t/code"], by_id["t/call"], new.attempts()) == (code, lost, archive.attempts())
    assert (filled.tests, filled.tasks, filled.left) == (1, 1, {"the reference fails test 1": 1}) and seen[-1] == (3, 3)
    again = fill_expected(archive, tmp_path / "all", overwrite=True)
    assert again.tests == 2 and Archive(tmp_path / "all").tasks()[0].tests[1].expected == "6\nü\n"
    assert archive.tasks()[0] == stdio


def test_answers_are_filled_in_where_the_reference_gives_them(tmp_path):
    """The second call fails, and the code test is of another kind: the other tests of both tasks get their answers."""
    archive = Archive.create(tmp_path / "archive")
    divide = call_task("def f(x):\n    return 6 // x\n", "f(2)", "f(0)", "f(3)")
    mixed = Task(
        "t/mixed", "", (TestCase(TestKind.CODE, "assert f(1)"), TestCase(TestKind.CALL, "f(1)")), "f", reference=DOUBLE
    )
    archive.append(tasks=[divide, mixed])
    filled = fill_expected(archive, tmp_path / "new")
    by_id = {task.task_id: [test.expected for test in task.tests] for task in Archive(tmp_path / "new").tasks()}
    assert by_id == {"t/call": ["3", "", "2"], "t/mixed": ["", "(1, 1)"]} and (filled.tests, filled.tasks) == (3, 2)
    assert filled.left == {"the reference fails test 2": 1, "tests must be all CALL or all STDIO, not call, code": 1}
