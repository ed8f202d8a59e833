# pyright: basic
import ast
import subprocess
import time
from uuid import uuid4

import pytest

from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.judge.plans import judge
from upsolve.verify.judge.tested import is_direct_call
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.pool.pool import verify

FAST = JudgeSettings(Limits(wall_seconds=5, cpu_seconds=2))
SHORT = JudgeSettings(Limits(wall_seconds=5, cpu_seconds=0.4))


def calls(*pairs, setup=""):
    return Task("t", "", tuple(TestCase(TestKind.CALL, a, b) for a, b in pairs), "f", setup=setup)


DOUBLE = calls(("f(1)", "2"), ("f(2)", "4"), ("f('a')", "'aa'"))


def test_all_tests_pass():
    verdict = judge(DOUBLE, Attempt("t", "def f(x):\n    return x * 2\n"), FAST)
    assert (verdict.status, verdict.passed, verdict.total) == (Status.PASSED, 3, 3)
    assert verdict.outcomes == (Status.PASSED,) * 3
    assert (verdict.wall_seconds or 0) > 0 and (verdict.memory_bytes or 0) > 1_000_000 and "pidns" in verdict.isolation


def test_every_test_has_its_outcome_and_the_error_its_line():
    verdict = judge(DOUBLE, Attempt("t", "def f(x):\n    y = x + 1\n    return y * 2 - 2\n"), FAST)
    assert verdict.outcomes == (Status.PASSED, Status.PASSED, Status.RUNTIME_ERROR)
    assert (verdict.status, verdict.error_type, verdict.error_line) == (Status.RUNTIME_ERROR, "TypeError", 2)
    assert verdict.findings[0].kind == "traceback" and verdict.findings[0].line == 2


def test_results_before_a_timeout_count():
    verdict = judge(
        DOUBLE,
        Attempt("t", "def f(x):\n    while x == 2: pass\n    return x * 2\n"),
        SHORT,
    )
    assert verdict.outcomes == (Status.PASSED, Status.TIMEOUT, Status.UNSCORED)
    assert verdict.status is Status.TIMEOUT


@pytest.mark.parametrize(
    ("code", "line"),
    [("def f(x)\n    return x", 1), ("x = 1\n  y = 2", 2), ("def f(x):\n    return '\0'", None), ("\ud800", None)],
)
def test_what_does_not_compile(code, line):
    verdict = judge(DOUBLE, Attempt("t", code), FAST)
    assert verdict.status is Status.COMPILE_ERROR
    assert line is None or verdict.error_line == line


@pytest.mark.parametrize("kind", [TestKind.CALL, TestKind.CODE, TestKind.STDIO])
def test_a_byte_order_mark_and_a_question_for_the_judge(kind):
    """Python skips a byte order mark, and contests define ONLINE_JUDGE."""
    code = "\ufeffimport os, sys\nif 'ONLINE_JUDGE' not in os.environ: sys.stdin = open('input.txt')\ndef f(x): return x * 2\n"
    code += "print(f(int(input())))\n" if kind is TestKind.STDIO else ""
    given = {TestKind.CALL: "f(2)", TestKind.CODE: "assert f(2) == 4", TestKind.STDIO: "2\n"}[kind]
    verdict = judge(Task("t", "", (TestCase(kind, given, "4"),), "f"), Attempt("t", code), FAST)
    assert verdict.status is Status.PASSED, verdict
    broken = judge(Task("t", "", (TestCase(kind, given, "4"),), "f"), Attempt("t", "\ufeffx = = 1\n"), FAST)
    assert (broken.error_line, broken.findings[0].line) == (1, 1)


@pytest.mark.parametrize("decorator", ["", "@__import__('contextlib').contextmanager\n"])
@pytest.mark.parametrize(
    "body",
    ["try: yield 1\n    finally: print('bye')", "try: yield 1\n    except GeneratorExit: print('bye')", "with A(): yield 1"],
)
def test_generators_are_closed_at_exit(decorator, body):
    code = "class A:\n    def __enter__(self): pass\n    def __exit__(self, *error): print('bye')\n" if "A()" in body else ""
    step = "x.__enter__()" if decorator else "next(x)"
    code += f"{decorator}def g():\n    {body}\nx = g()\nprint({step})\n"
    task = Task("t", "", (TestCase(TestKind.STDIO, "", "1\nbye\n"),))
    assert judge(task, Attempt("t", code), FAST).status is Status.PASSED


MIXED = Task(
    "m",
    "",
    (
        TestCase(TestKind.CALL, "f(2)", "4"),
        TestCase(TestKind.STDIO, "3", "6\n"),
        TestCase(TestKind.CODE, "assert f(3) == 6"),
        TestCase(TestKind.STDIO, "4", "8\n", hidden=True),
    ),
    "f",
)


@pytest.mark.parametrize(
    ("printed", "outcomes", "message"),
    [("f(n)", "pppp", ""), ("f(n) - n // 4", "pppf", "hidden test 4: wrong output"), ("n", "pfpf", "test 2: line 1")],
)
def test_tests_of_several_kinds_are_each_judged_by_their_kind(printed, outcomes, message):
    code = f"def f(x):\n    return 2 * x\n\nif __name__ == '__main__':\n    n = int(input())\n    print({printed})\n"
    verdict = judge(MIXED, Attempt("m", code), FAST)
    assert "".join(one[0] for one in verdict.outcomes) == outcomes
    assert (verdict.passed, verdict.total) == (outcomes.count("p"), 4) and verdict.error_message.startswith(message)
    assert verdict.status is (Status.FAILED if "f" in outcomes else Status.PASSED)
    assert verdict.isolation.count("pidns") == 1 and verdict.isolation.endswith(",across")


def test_with_tests_of_several_kinds_the_first_that_does_not_pass_decides():
    mistaken = judge(MIXED, Attempt("m", "def f(x):\n    return 2 // (x - 3) + 6\nprint(f(2))\n"), FAST)
    assert mistaken.outcomes == (Status.PASSED, Status.FAILED, Status.RUNTIME_ERROR, Status.FAILED)
    assert (mistaken.status, mistaken.error_message[:7]) == (Status.FAILED, "test 2:")
    broken = judge(MIXED, Attempt("m", "def f(x)\n"), FAST)
    assert (broken.status, broken.outcomes, broken.error_line) == (Status.COMPILE_ERROR, (Status.COMPILE_ERROR,) * 4, 1)
    raising = judge(
        MIXED, Attempt("m", "def f(x):\n    return 2 * x if x < 3 else 1 / 0\nprint(6 + int(input()) % 3 * 2)\n"), FAST
    )
    assert raising.status is Status.RUNTIME_ERROR  # the call's process has no standard input


def test_programs_read_and_write():
    task = Task("p", "", (TestCase(TestKind.STDIO, "1 2\n", "3\n"), TestCase(TestKind.STDIO, "5 5\n", "10\n")))
    good = "if __name__ == '__main__':\n    print(sum(map(int, input().split())))\n"
    assert judge(task, Attempt("p", good), FAST).status is Status.PASSED
    half = judge(task, Attempt("p", "print(3)"), FAST)
    assert half.outcomes == (Status.PASSED, Status.FAILED)
    assert judge(task, Attempt("p", good + "raise SystemExit(0)"), FAST).status is Status.PASSED
    assert judge(task, Attempt("p", good + "raise SystemExit(1)"), FAST).status is Status.RUNTIME_ERROR


def code_task(*sources, **more):
    return Task("c", "", tuple(TestCase(TestKind.CODE, source) for source in sources), "f", **more)


def test_code_tests_run_in_another_process():
    task = code_task("assert abs(f(2) - 4.0) < 1e-9")
    verdict = judge(task, Attempt("c", "def f(x):\n    return x * 2\n"), FAST)
    assert verdict.status is Status.PASSED and verdict.isolation.endswith(",across")
    assert judge(task, Attempt("c", "def f(x):\n    return x\n"), FAST).status is Status.FAILED


def test_code_tests_that_need_the_attempts_objects_run_beside_it_and_say_so():
    task = code_task("assert Point(2).x == 2")
    verdict = judge(task, Attempt("c", "class Point:\n    def __init__(self, x):\n        self.x = x\n"), FAST)
    assert verdict.status is Status.PASSED and verdict.isolation.endswith(",in_process")


def test_a_reference_shows_that_values_do_not_cross():
    reference = "def f(n):\n    return lambda: n\n"
    task = code_task("import types\nassert isinstance(f(3), types.FunctionType)", reference=reference)
    verdict = judge(task, Attempt("c", reference + "# mine"), FAST)
    assert verdict.status is Status.PASSED and verdict.isolation.endswith(",in_process")


def test_tests_that_hand_over_what_cannot_cross_run_beside_the_attempt():
    code = "def f(p):\n    return p.x\n"
    verdict = judge(code_task("class P:\n    x = 2\nassert f(P()) == 2"), Attempt("c", code), FAST)
    assert verdict.status is Status.PASSED and verdict.isolation.endswith(",in_process")


@pytest.mark.parametrize(
    ("test", "code"),
    [
        ("x = [3, 1]\nf(x)\nassert x == [1, 3]", "def f(x):\n    x.sort()\n"),
        (
            "x = {'a': {1}}\nf(x)\nassert x == {'a': {1}, 'b': (2, 3.5, None, True)}",
            "def f(x):\n    x['b'] = (2, 3.5, None, True)\n",
        ),
        (
            "try:\n    f(1)\nexcept ValueError as e:\n    assert str(e) == 'no'\nelse:\n    assert False",
            "def f(x):\n    raise ValueError('no')\n",
        ),
        ("def check(g):\n    assert g(2, y=3) == 5\ncheck(f)", "def f(x, y):\n    return x + y\n"),
        ("import math\nassert list(map(f, [1, 2])) == [2, 3] and math.isclose(f(0.1), 1.1)", "def f(x):\n    return x + 1\n"),
        ("assert helper(f(1)) == 4", "def f(x):\n    return [x]\ndef helper(x):\n    return x[0] + 3\n"),
    ],
)
def test_what_crosses_between_tests_and_attempt(test, code):
    verdict = judge(code_task(test), Attempt("c", code), FAST)
    assert verdict.status is Status.PASSED and verdict.isolation.endswith(",across"), verdict


def test_an_error_of_the_attempt_has_its_line_across_processes():
    verdict = judge(code_task("assert f(1) == 1"), Attempt("c", "def f(x):\n    y = 0\n    return x / y\n"), FAST)
    assert (verdict.status, verdict.error_type, verdict.error_line) == (Status.RUNTIME_ERROR, "ZeroDivisionError", 3)


def test_how_an_attempt_ends_is_known_across_processes():
    task = code_task("assert f(1) == 1", "assert f(2) == 1")
    assert judge(task, Attempt("c", "def f(x):\n    while x > 1: pass\n    return 1"), SHORT).outcomes == (
        Status.PASSED,
        Status.TIMEOUT,
    )
    verdict = judge(task, Attempt("c", "import os\ndef f(x):\n    os._exit(0)"), FAST)
    assert (verdict.status, verdict.error_type) == (Status.RUNTIME_ERROR, "EarlyExit")
    assert judge(task, Attempt("c", "def f(x:\n"), FAST).status is Status.COMPILE_ERROR
    assert judge(task, Attempt("c", "1 / 0"), FAST).error_type == "ZeroDivisionError"


def test_our_own_faults_are_unscored():
    attempt = Attempt("t", "def f(x):\n    return x * 2\n")
    assert judge(Task("t", ""), attempt).status is Status.UNSCORED
    assert "cobol" in judge(DOUBLE, Attempt("t", "", language="cobol")).error_message
    assert "literal" in judge(calls(("f(1)", "nope(")), attempt).error_message
    assert "setup" in judge(calls(("f(1)", "2"), setup="1 / 0"), attempt).error_message


def test_a_batch_keeps_its_order_and_judges_equal_attempts_once():
    attempts = [Attempt("t", f"def f(x):\n    return x * {k}\n") for k in (2, 3, 2, 2)]
    seen = []
    verdicts = verify([(DOUBLE, a) for a in attempts], FAST, on_done=lambda i, _: seen.append(i))
    assert [v.status.value for v in verdicts] == ["passed", "failed", "passed", "passed"]
    assert sorted(seen) == [0, 1, 2, 3] and verdicts[0] is verdicts[2]
    assert [v.status for v in verify([(DOUBLE, a) for a in attempts], JudgeSettings(FAST.limits, workers=1))] == [
        v.status for v in verdicts
    ]


def test_a_daemon_does_not_outlive_its_attempt():
    name = f"upsolve-daemon-{uuid4()}"
    code = (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        os.execv('/bin/sleep', ['NAME', '300'])\n    os._exit(0)\ndef f(x):\n    return x * 2\n"
    )
    started = time.monotonic()
    assert judge(DOUBLE, Attempt("t", code.replace("NAME", name)), FAST).status is Status.PASSED
    assert time.monotonic() - started < 60
    assert subprocess.run(["pgrep", "-f", name], capture_output=True, check=False).stdout == b""


def test_limits_must_be_positive():
    with pytest.raises(ValueError, match="cpu_seconds"):
        Limits(cpu_seconds=0)


def test_a_call_that_holds_its_answer_is_judged_outside_of_the_attempt():
    task = calls(("bool(isclose(f(2), 4.0))", "True"), ("f(set([1]))", "[1, 1]"), setup="from math import isclose")
    honest = judge(task, Attempt("t", "def f(x):\n    return x * 2 if x == 2 else [*x] * 2\n"), FAST)
    assert honest.status is Status.PASSED and honest.isolation.endswith(",across")
    forged = Attempt("t", "isclose = bool = lambda *_: True\ndef f(x):\n    return [1, 1]\n")
    assert judge(task, forged, FAST).outcomes == (Status.RUNTIME_ERROR, Status.PASSED)


@pytest.mark.parametrize(
    ("source", "direct"),
    [
        ("f(2)", True),
        ("f([x for x in range(3)], key=lambda y: -y)", True),
        ("Solution().f(2)", True),
        ("f(Node(1))", True),
        ("bool(f(2))", False),
        ("same(f(2), 4)", False),
        ("f(2)[0]", False),
        ("f(g(2))", False),
        ("f(2) == 4", False),
        ("Node(1)", False),
        ("f(", False),
    ],
)
def test_a_direct_call_holds_no_answer(source, direct):
    assert is_direct_call(source, "class Node: pass\ndef same(a, b): return a == b\n") is direct


def test_lines_of_programs_with_line_ends_of_an_old_mac():
    verdict = judge(DOUBLE, Attempt("t", "def f(x):\r    y = 1\r    return x / 0\r"), FAST)
    assert (verdict.error_type, verdict.error_line) == ("ZeroDivisionError", 3)


def test_a_long_test_is_parsed_once(monkeypatch):
    """A parse of 400 KB takes half a second, a run of the attempt a few milliseconds."""
    parsed, parse = [], ast.parse
    monkeypatch.setattr(
        ast, "parse", lambda source, *args, **named: parsed.append(len(source)) or parse(source, *args, **named)
    )
    numbers = ["12345678"] * 40_000
    task = Task("long", "", (TestCase(TestKind.CALL, f"f([{', '.join(numbers)}])", f"[{', '.join(numbers)}]"),), "f")
    for number in range(3):
        assert judge(task, Attempt("long", f"def f(x): return x  # {number}"), FAST).status is Status.PASSED
    assert sorted(size for size in parsed if size > 100_000) == [400_000, 400_003]
