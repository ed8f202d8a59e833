"""What a program may do in a new interpreter, it may do in the judge."""

# pyright: basic
import pytest

from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.judge.plans import judge
from upsolve.verify.sandbox.runner import server

DEEP = "def f(n):\n    return n and 1 + f(n - 1)\n"


def run(code, test, language="python"):
    return judge(Task("t", "", (test,), "f"), Attempt("t", code, language))


@pytest.mark.parametrize(
    ("test", "more"),
    [
        (TestCase(TestKind.STDIO, "", "996"), "print(f(996))"),
        (TestCase(TestKind.CALL, "f(996)", "996"), ""),
        (TestCase(TestKind.CODE, "assert f(996) == 996"), ""),
    ],
)
def test_the_recursion_limit_does_not_count_frames_of_the_judge(test, more):
    verdict = run(DEEP + more, test)
    assert verdict.status is Status.PASSED, verdict
    assert run(DEEP + "f(1010)\n", test).error_type == "RecursionError"


@pytest.mark.parametrize("language", ["python", "bash"])
def test_a_long_standard_error_is_no_wrong_answer(language):
    test = TestCase(TestKind.STDIO, "", "3\n")
    write = "import sys\nfor _ in range({}): sys.stderr.write('x' * 2**20)\nprint(3)\n"
    shell = "head -c {}M /dev/zero >&2 || exit 1\necho 3\n"
    code = write if language == "python" else shell
    assert run(code.format(3), test, language).status is Status.PASSED
    assert run(code.format(20), test, language).status is Status.OUTPUT_LIMIT


@pytest.mark.skipif("cgroup" not in server().layers, reason="stacks of threads count as address space here")
def test_programs_may_have_sixty_four_threads():
    code = (
        "import threading\nbarrier = threading.Barrier(65)\nthreads = [threading.Thread(target=barrier.wait) for _ in range(64)]\n"
        "for thread in threads: thread.start()\nbarrier.wait()\nprint(len(threads))\n"
    )
    assert run(code, TestCase(TestKind.STDIO, "", "64\n")).status is Status.PASSED
