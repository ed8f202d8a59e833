"""Checkers that are programs: called as contests call them, built once, at fault rather than the attempt."""

from dataclasses import replace

import pytest

from upsolve.checkers import CheckerProgram, is_program, program_of
from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.judge import checking
from upsolve.verify.judge.plans import judge, judge_all
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.pool.cache import key_of

SETTINGS = JudgeSettings(Limits(wall_seconds=10, cpu_seconds=5))
SUM = """read n < "$1"; read a b < "$2"; read wanted < "$3"
[ "$wanted" = sum ] || exit 3
[ $((a + b)) = "$n" ] && exit 0
exit 1
"""
BY_NAME = """read n < "$1"; read wanted < "$2"; read a b
[ -d "$3" ] && [ "$4 $5" = "--sum yes" ] && [ "$wanted" = sum ] || exit 5
[ $((a + b)) = "$n" ] && exit 42
exit 43
"""
TESTLIB = CheckerProgram("bash", SUM)
ICPC = CheckerProgram("bash", BY_NAME, call="icpc", arguments=("--sum", "yes"))
RIGHT, WRONG = "n = int(input())\nprint(n - 1, 1)\n", "print(3, 4)\n"


def task_of(checker, *inputs, expected="sum\n"):
    tests = tuple(TestCase(TestKind.STDIO, f"{number}\n", expected) for number in inputs or (10, 20, 30))
    return Task("sum", "", tests, language="", compare="checker", checker=getattr(checker, "text", checker))


def run(task, code=RIGHT, language=""):
    return judge(task, Attempt("sum", code, language=language), SETTINGS)


@pytest.mark.parametrize("checker", [TESTLIB, ICPC], ids=["testlib", "icpc"])
def test_a_program_decides_as_contests_call_it(checker):
    assert program_of(checker.text) == checker and is_program(checker.text)
    assert run(task_of(checker)).status is Status.PASSED
    assert run(task_of(checker), "read n; echo $((n - 1)) 1", "bash").status is Status.PASSED
    wrong = run(task_of(checker, 7, 10), WRONG)
    assert (wrong.status, wrong.passed, wrong.error_message) == (Status.FAILED, 1, "test 2: the checker rejects the output")


def test_it_is_built_once_for_attempts_that_follow_one_another(monkeypatch):
    built = []
    build = checking.build_program
    monkeypatch.setattr(checking, "build_program", lambda *inputs: built.append(inputs) or build(*inputs))
    fresh = task_of(replace(TESTLIB, source=f"# built once\n{SUM}"))
    pairs = [
        (fresh, Attempt("sum", code, language=name)) for code, name in ((RIGHT, ""), ("echo 9 1", "bash"), ("echo 1 9", "bash"))
    ]
    assert [verdict.passed for verdict in judge_all(pairs, SETTINGS)] == [3, 1, 1]
    assert len(built) == 1


def test_checkers_of_tasks_that_are_judged_together_are_not_mixed_up():
    other = replace(TESTLIB, source=SUM.replace("a + b", "a + b + 1"))
    pairs = [(task_of(checker), Attempt("sum", f"{RIGHT}# {number}")) for number in range(3) for checker in (TESTLIB, other)]
    assert [verdict.passed for verdict in judge_all(pairs, SETTINGS)] == [3, 0] * 3


@pytest.mark.parametrize(
    ("checker", "says"),
    [
        (replace(TESTLIB, source="if then"), "cannot be built"),
        (
            replace(TESTLIB, source="echo the jury is wrong >&2; exit 3"),
            "must end with 0, 1, 2, 4, 8, 7; it ended with 3 (the jury is wrong) for test 1",
        ),
        (replace(TESTLIB, language="none"), "unknown language 'none'"),
        (replace(TESTLIB, language="sql"), "a checker cannot be in sql"),
        ('{"source": "exit 0"}', "must be an object with language and source"),
        ("{", "checker: not valid JSON"),
        ('{"language": "bash", "source": "", "call": "kattis"}', "the checker's call must be testlib or icpc, got 'kattis'"),
    ],
)
def test_a_program_at_fault_leaves_attempts_unscored(checker, says):
    verdict = run(task_of(checker))
    assert verdict.status is Status.UNSCORED and says in verdict.error_message, verdict
    assert key_of(task_of(checker), Attempt("sum", RIGHT), SETTINGS)


POINTS = replace(TESTLIB, source='read n < "$1"\nprintf "points $n.5 well" >&2\nexit 7\n')


def test_a_program_of_testlib_gives_points_of_the_weight_of_the_test():
    task = replace(task_of(POINTS, 0, 2, 5, 9), extra='{"test_weights": [1, 10, 5.5, 0]}')
    found = run(task)
    assert (found.status, found.passed, found.points) == (Status.FAILED, 2, (0.5, 0.25, 1.0, 1.0))
    broken = run(replace(task, extra=""))  # of 1 point without weights
    assert broken.status is Status.UNSCORED and "from 0 to 1 points; it gave 2.5 for test 2" in broken.error_message


def test_a_program_that_fails_on_one_output_alone_refuses_it():
    fragile = replace(TESTLIB, source='read a b < "$2"\n[ "$a" = 3 ] && kill -SEGV $$\nexit 0\n')
    verdict = run(task_of(fragile), WRONG)
    assert (verdict.status, verdict.passed) == (Status.FAILED, 0), verdict
    assert run(task_of(fragile)).status is Status.PASSED


@pytest.mark.languages
def test_a_program_in_cpp_with_a_header():
    source = """#include "reader.h"
int main(int, char **names) {
    long n, a, b;
    if (!(reader(names[1]) >> n) || !(reader(names[2]) >> a >> b)) return 2;
    return a + b != n;
}
"""
    header = "#include <fstream>\ntypedef std::ifstream reader;\n"
    task = task_of(CheckerProgram("cpp", source, files={"reader.h": header}))
    assert run(task).status is Status.PASSED
    assert run(task, "print('nothing')").status is Status.FAILED
    assert run(task, '#include <cstdio>\nint main() { int n; scanf("%d", &n); printf("%d 1", n - 1); }', "cpp").passed == 3
