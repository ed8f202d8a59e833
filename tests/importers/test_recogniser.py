"""Tests in the forms that people store: what becomes a test, what is refused, and that no honest program fails."""

import ast
import contextlib
import json
import math
import sys
import time
from decimal import Decimal
from itertools import product

import pytest

from upsolve import verify_attempts
from upsolve.archive.store import Archive
from upsolve.importers.ingest import ingest
from upsolve.importers.recogniser.code import NEAR
from upsolve.importers.recogniser.failing import About
from upsolve.importers.recogniser.suites import pytest_tests, read_tests
from upsolve.importers.recogniser.values import recognise
from upsolve.types import Attempt, Status, Task, TestKind
from upsolve.verify.limits import Imports, JudgeSettings

DOUBLE, SAME = "def f(x):\n    return 2 * x\n", "def f(x):\n    return x\n"
STACK = """
class Stack:
    def __init__(self):
        self.items = []
    def push(self, x):
        self.items.append(x)
    def pop(self):
        return self.items.pop()
    def size(self):
        return len(self.items)
"""
BROKEN_STACK = STACK.replace("return self.items.pop()", "return self.items[-1]")
METHOD = "class Solution:\n    def add(self, a, b):\n        return a + b\n"
PYTHON = {
    "asserts": ("assert f(1) == 2\nassert f(3) == 6", 2),
    "comments": ("# one\nassert f(1) == 2\n\n# two\nassert f(3) == 6  # six", 2),
    "several lines": ("assert f(\n    1\n) == (\n    2\n)", 1),
    "setup": ("import math\nx = 3\nassert f(x) == 6\nassert math.isclose(f(0.1), 0.2)", 2),
    "a state": ("data = [1]\ndata.append(f(2))\nassert data == [1, 4]\nassert f(3) == 6", 2),
    "windows": ("assert f(1) == 2\r\nassert f(3) == 6\r\n", 2),
    "semicolons": ("x = 3; assert f(x) == 6; assert f(4) == 8", 2),
    "comparisons": ("f(1) == 2\nf(3) == 6", 2),
    "conditions": ("not f(0)\nf(1) > 1 and f(1) < 3\nisinstance(f(1), int)\nf(1) in (2, 3)", 4),
    "arrows": ("f(1) -> 2\nf(3) -> 6", 2),
    "functions": ("def test_a():\n    assert f(1) == 2\n\ndef test_b():\n    assert f(3) == 6", 2),
    "import of the attempt": ("from solution import f\n\ndef test_a():\n    assert f(1) == 2", 1),
    "module of the attempt": ("import solution\n\nassert solution.f(1) == 2", 1),
    "other name": ("from solution import f as g\nassert g(1) == 2", 1),
    "unittest": (
        "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(f(1), 2)\n\nunittest.main()",
        1,
    ),
    "class": (
        "class TestF:\n    def test_a(self):\n        assert f(1) == 2\n    def test_b(self):\n        assert f(3) == 6",
        2,
    ),
    "without its class": ("self.assertEqual(f(1), 2)\nself.assertTrue(f(0) == 0)", 1),
    "doctest": (">>> f(1)\n2\n>>> f(3)\n6", 2),
    "printing doctest": (">>> x = f(2)\n>>> print(x)\n4\n>>> f('a')\n'aa'", 2),
    "main": ("if __name__ == '__main__':\n    assert f(1) == 2\n    print('ok')", 1),
    "helper": ("def same(x, y):\n    assert f(x) == y\n\nsame(1, 2)\nsame(3, 6)", 2),
    "parameter named as the attempt": ("def same(f, x, y):\n    assert f(x) == y\n\nsame(f, 1, 2)", 1),
    "loop": ("for x, y in [(1, 2), (3, 6)]:\n    assert f(x) == y", 1),
    "exception": ("try:\n    f(None)\n    assert False\nexcept TypeError:\n    pass", 1),
    "function that nobody calls": ("def run_tests():\n    assert f(1) == 2", 1),
    "check": ("def check(candidate):\n    assert candidate(1) == 2\n    assert candidate(3) == 6", 2),
    "check with a call": ("def check(candidate):\n    x = 1\n    assert candidate(x) == 2\ncheck(f)", 1),
    "list": (["assert f(1) == 2", "x = 3\nassert f(x) == 6"], 2),
    "list with a setup": (["x = 3", "assert f(x) == 6", "assert f(4) == 8"], 2),
    "list of comparisons": (["f(1) == 2"], 1),
    "JSON": (json.dumps(["assert f(1) == 2"]), 1),
    "literal": (str(["assert f(1) == 2", "assert f('a') == 'aa'"]), 2),
    "objects": ([{"input": "1", "output": "2"}, {"input": "3", "output": "6"}], 2),
    "arguments": ([{"args": [1], "expected": 2}], 1),
    "named arguments": ([{"input": "x = 1", "output": "2"}, {"input": "x = 3", "output": "6"}], 2),
    "keywords": ([{"kwargs": {"x": 1}, "expected": 2}], 1),
    "calls": ([{"input": "f(1)", "output": "2"}], 1),
    "pairs": ([["1", "2"], ["'a'", "'aa'"]], 2),
    "columns": ({"inputs": [[1], [3]], "outputs": [2, 6]}, 2),
    "texts": ([{"input": "ab", "output": "abab"}, {"input": "12", "output": "1212"}], 2),
    "public and private": ({"public": [{"input": "1", "output": "2"}], "private": [{"input": "3", "output": "6"}]}, 2),
    "labels": ("Input: 1\nOutput: 2\n\nInput: 3\nOutput: 6", 2),
    "in an object": ({"language": "python", "test_cases": [{"input": "1", "output": "2"}]}, 1),
    "our own": ([{"kind": "call", "input": "f(1)", "expected": "2"}], 1),
    "fence": ("```python\nassert f(1) == 2\nassert f(3) == 6\n```", 2),
    "byte order mark and spaces that are none": ("\ufeffassert f(1)\xa0== 2", 1),
    "newlines as two characters": ("assert f(1) == 2\\nassert f(3) == 6", 2),
    "list of lines": ("- f(1) == 2\n- f(3) == 6", 2),
    "numbered lines": ("1. f(1) == 2\n2. f(3) == 6", 2),
    "imported main": (
        "from unittest import TestCase, main\nclass T(TestCase):\n    def test(self):\n        self.assertEqual(f(1), 2)\nmain()",
        1,
    ),
    "doctest of a comparison": ("Examples:\n>>> f(2) == 4\nTrue\n>>> f(1) != 2\nFalse", 2),
    "reference in the tests": ("def f(x):\n    return 2 * x\n\nassert f(1) == 2", 1),
    "name from another module": ("from my_double import f\nassert f(1) == 2", 1),
    "one list": ([{"input": [3, 1], "output": [3, 1, 3, 1]}, {"input": [1], "output": [1, 1]}], 2),
    "by names": ({"test1": {"input": "1", "output": "2"}, "test2": {"input": "3", "output": "6"}}, 2),
    "calls by their name": ([{"call": "f(1)", "expected": "2"}], 1),
    "examples": ("Example 1:\nInput: x = 1\nOutput: 2\nExplanation: doubled\n\nExample 2:\nInput: x = 3\nOutput: 6", 2),
    "code in objects": ([{"test": "assert f(1) == 2"}], 1),
}


def found_in(value, **about):
    return recognise(value, About(**{"entry_point": "f", **about}))


def statuses(found, *codes, **fields):
    return [verdict.status for verdict in verdicts_of(found, *codes, **fields)]


def verdicts_of(found, *codes, **fields):
    task = Task(
        "t", "p", found.tests, **{"entry_point": "f", "setup": found.setup, "compare": found.compare or "lines", **fields}
    )
    return verify_attempts([(task, Attempt("t", code)) for code in codes])


@pytest.mark.parametrize("name", PYTHON)
def test_forms_of_tests_of_a_function(name):
    value, count = PYTHON[name]
    found = found_in(value)
    assert (len(found.tests), found.refused) == (count, ())


def test_each_form_passes_the_right_program_and_fails_another():
    pairs = []
    for name, (value, _) in PYTHON.items():
        found = found_in(value)
        task = Task(name, "p", found.tests, entry_point="f", setup=found.setup, compare=found.compare or "lines")
        pairs += [(task, Attempt(name, code)) for code in (DOUBLE, SAME)]
    passed = [verdict.status is Status.PASSED for verdict in verify_attempts(pairs)]
    wrong = [task.task_id for (task, attempt), right in zip(pairs, passed, strict=True) if right != (attempt.code == DOUBLE)]
    assert not wrong


@pytest.mark.parametrize("name", [name for name, (value, _) in PYTHON.items() if isinstance(value, str)])
def test_the_same_forms_without_the_name_of_the_function(name):
    value, count = PYTHON[name]
    if name not in ("labels", "check", "examples", "reference in the tests", "name from another module"):
        assert len(found_in(value, entry_point="").tests) == count
    assert found_in(PYTHON["check"][0], entry_point="", codes=("", "", DOUBLE)).entry_point == "f"


@pytest.mark.parametrize(
    "value",
    [
        [{"type": "stdin_stdout", "input": "2\n", "output": "4\n", "fn_name": None}],
        [{"input": "2\n", "output": "4\n", "testtype": "stdin", "metadata": {"func_name": None}}],
        {"inputs": ["2\n"], "outputs": ["4\n"]},
        {"stdin": "2\n", "stdout": "4\n"},
        [["2\n", "4\n"]],
        json.dumps(json.dumps([{"input": "2\n", "output": "4\n"}])),
        "Input:\n2\nOutput:\n4",
        str([{"input": "2", "output": "4", "x": None}]),
    ],
)
def test_forms_of_tests_of_a_program(value):
    found = found_in(value, entry_point="")
    assert [test.kind for test in found.tests] == [TestKind.STDIO]
    assert statuses(found, "print(int(input()) * 2)", "print(1)", entry_point="") == [Status.PASSED, Status.FAILED]


@pytest.mark.parametrize(
    ("value", "entry"),
    [
        ([{"type": "function_call", "fn_name": "add", "input": [1, 2], "output": 3}], ""),
        ([{"input": "1\n2", "output": "3", "testtype": "functional", "metadata": {"func_name": "add"}}], ""),
        ([{"input": "1\n2", "output": "3", "testtype": "functional", "metadata": '{"func_name": "add"}'}], ""),
        ({"fn_name": "add", "inputs": [[1, 2]], "outputs": [3]}, ""),
        ("def check(candidate):\n    assert candidate(a=1, b=2) == 3", "Solution().add"),
        ("def check(candidate):\n    assert candidate(1, 2) == 3\ncheck(Solution().add)", ""),
        ("s = Solution()\nassert s.add(1, 2) == 3\nassert s.add(2, 2) == 4", ""),
        ([{"input": "a = 1, b = 2", "output": "3"}], "Solution().add"),
    ],
)
def test_forms_of_tests_of_a_method(value, entry):
    found = recognise(value, About(entry, codes=("", "", METHOD)))
    wrong = METHOD.replace("+", "-")
    assert statuses(found, METHOD, wrong, entry_point="Solution") == [Status.PASSED, Status.FAILED]


FUNCTION = "def add(a, b):\n    return a + b\n"
PLAIN, OF_CLASS = (
    "assert add(1, 2) == 3\nassert add(2, 2) == 4",
    "assert Solution().add(1, 2) == 3\nassert 4 == Solution().add(2, 2)",
)


@pytest.mark.parametrize(("text", "entry"), [(PLAIN, ""), (PLAIN, "add"), (OF_CLASS, ""), (OF_CLASS, "Solution().add")])
def test_programs_of_both_forms_pass_tests_by_text(text, entry):
    found = recognise(text, About(entry))
    codes = [FUNCTION, METHOD, *(code.replace("+", "-") for code in (FUNCTION, METHOD)), "x = 1"]
    verdicts = verdicts_of(found, *codes, entry_point=found.entry_point)
    assert [one.status for one in verdicts[:4]] == [Status.PASSED] * 2 + [Status.FAILED] * 2
    assert (verdicts[4].error_type, verdicts[4].error_message) == ("NameError", "test 1: name 'add' is not defined")
    assert all("in_process" not in one.isolation for one in verdicts)


@pytest.mark.parametrize(
    ("tests", "given"),
    [
        ([{"type": "function_call", "fn_name": "gcd", "input": [4, 6], "output": 2}], ""),
        ("assert Solution().gcd(4, 6) == 2", ""),
        ("assert Solution().greatest(4, 6) == 2", "from math import gcd as greatest"),
        ("assert Solution().max(4, 2) == 4", ""),
    ],
)
def test_no_import_or_builtin_answers_for_a_method(tests, given):
    """Contests import ``gcd``: a class of the setup that calls it would pass for an attempt that defines nothing."""
    found = recognise(tests, About("", given, codes=(METHOD,)))
    task = Task("t", "p", found.tests, "Solution", setup=f"{found.setup}\n{given}")
    verdicts = verify_attempts([(task, Attempt("t", "x = 1"))], JudgeSettings(imports=Imports.CONTEST))
    assert [one.status for one in verdicts] == [Status.RUNTIME_ERROR]


@pytest.mark.parametrize(
    "text",
    [
        "assert f(1) == 2\nassert g(1) == 2",
        "assert f(1) == 2\nassert f(1)",
        "assert Solution(3).f(1) == 2",
        "assert Stack().size() == 0",
        "assert sum([1, 2]) == 3",
    ],
)
def test_other_tests_by_text_get_no_other_form(text):
    """Several functions, tests that are no direct calls, other classes, and a builtin, which a method of that name may call."""
    assert recognise(text, About("sum" if "sum" in text else "")).setup == ""


EMPTY = [
    "assert True",
    "assert (f(1) == 3, 'two')",
    "assert f(1) == 3 or True",
    "assert 1 + 1 == 2",
    "x = 3\nassert x == 3",
    "import math\nassert math.isclose(1, 1)",
    "12",
    "print(f(1))",
    "f",
    "'f(1) == 2'\n1",
    "def test_a():\n    f(1)",
    "def test_a():\n    assert True",
    "def test_a():\n    x = 1\n    assert x == 1",
    "try:\n    assert f(1) == 3\nexcept Exception:\n    pass",
    "try:\n    f(None)\n    assert False\nexcept:\n    assert True",
    "class TestF:\n    def test_a(self):\n        f(1)",
    "for x in []:\n    assert f(x) == 3",
    "if False:\n    assert f(1) == 3",
    "def test_a():\n    return\n    assert f(1) == 3",
    "def test_a():\n    def inner():\n        assert f(1) == 3",
    "def test_a():\n    f(1)\n    assert 1 == 1",
    "x = f(1)\nassert x == x",
    "assert len(f('a')) >= 0",
    "assert isinstance(f(1), object)",
    "from contextlib import suppress\nwith suppress(Exception):\n    assert f(1) == 3",
    "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        f(1)\n        self.assertTrue(1 == 1)",
    "import unittest\nclass T(unittest.TestCase):\n    @unittest.skip('x')\n    def test_a(self):\n        self.assertEqual(f(1), 3)",
    "import pytest\n@pytest.mark.xfail\ndef test_a():\n    assert f(1) == 3",
    "def check(candidate):\n    assert True\n    for i in range(3):\n        candidate(i)",
]


@pytest.mark.parametrize("value", EMPTY)
def test_what_cannot_fail_is_refused_and_named(value):
    with pytest.raises(ValueError, match="tests nothing|takes a function"):
        found_in(value)
    found = found_in(["assert f(1) == 2", value])
    assert [(test.input, test.expected) for test in found.tests] == [("f(1)", "2")] and len(found.refused) >= 1


@pytest.mark.parametrize(
    "value", ["def f(:", "assert f(1) = 2", 5, [5], {"a": 1}, [{"input": 1}], "1\n2", "# later", [[1, 2, 3]]]
)
def test_what_is_no_test_is_an_error(value):
    with pytest.raises(ValueError, match="tests"):
        found_in(value)


def test_names_of_inputs_and_of_lists_of_tests_are_whole_words():
    pair = {"expression": "f(2)", "output": 4}
    assert [(test.input, test.expected) for test in found_in([pair]).tests] == [("f(2)", "4")]
    assert found_in({"input_output": [pair]}).tests == found_in([pair]).tests
    with pytest.raises(ValueError, match="has no input"):
        found_in([{"x": 2, "output": 4}])


def test_an_object_with_a_state_is_one_test_in_its_order():
    found = found_in("s = Stack()\ns.push(1)\nassert s.pop() == 1\ns.push(2)\nassert s.size() == 1", entry_point="Stack")
    assert len(found.tests) == 1
    assert statuses(found, STACK, BROKEN_STACK, entry_point="Stack")[0] is Status.PASSED
    assert statuses(found, BROKEN_STACK, entry_point="Stack")[0] is not Status.PASSED


def test_calls_that_change_the_attempts_own_state_stay_before_what_they_change():
    code = "total = []\ndef add(x):\n    total.append(x)\ndef size():\n    return len(total)\n"
    found = found_in("add(1)\nadd(2)\nassert size() == 2\nadd(3)\nassert size() == 3", entry_point="")
    assert statuses(found, code, code.replace("len(total)", "2"), entry_point="") == [Status.PASSED, Status.FAILED]


def test_a_seed_reaches_the_tests_after_it():
    found = found_in("import random\nrandom.seed(3)\nx = random.random()\nassert f(x) == 2 * x\nassert f(1) == 2")
    assert len(found.tests) == 2 and statuses(found, DOUBLE) == [Status.PASSED]


def test_doctests_with_exceptions():
    found = found_in(">>> f(None)\nTraceback (most recent call last):\n    ...\nValueError: no\n")
    raises = "def f(x):\n    raise ValueError('no')\n"
    assert statuses(found, raises, DOUBLE, raises.replace("'no'", "'yes'"))[0] is Status.PASSED
    assert Status.PASSED not in statuses(found, DOUBLE, raises.replace("'no'", "'yes'"))


def test_tests_in_another_language_are_one_piece():
    text = "console.assert(f(1) === 2);\nif (f(2) !== 4) { process.exit(1); }"
    assert [test.input for test in found_in(text, language="javascript").tests] == [text]


def test_a_thousand_asserts_are_a_thousand_tests():
    lines = [f"assert f({n}) == {2 * n}" for n in range(1000)]
    assert len(found_in("import math\nx = 3\n" + "\n".join(lines)).tests) == 1000


@pytest.mark.parametrize("piece", ["[", "(", "#", ">>> ", "input:\n", "->", "x -> ", "'", "\\", "\u00e9", " ", "f(1) or "])
def test_a_megabyte_of_anything_is_read_or_refused_in_time(piece):
    size = 100_000 if piece == "f(1) or " else 1_000_000  # a tree of that many calls takes Python itself seconds
    started = time.process_time()
    with contextlib.suppress(ValueError):
        found_in(piece * (size // len(piece)))
    assert time.process_time() - started < 30, "quadratic work takes minutes"


def test_tests_that_call_their_own_definition_are_refused():
    with pytest.raises(ValueError, match="uses nothing of the attempt"):
        found_in("f = lambda x: 3\nassert f(1) == 3")


def test_a_function_and_a_method_are_judged_by_what_the_attempt_defines():
    data = [{"fn_name": "add", "input": [1, 2], "output": 3}]
    function = "def add(a, b):\n    return a + b\n"
    right, wrong = (function, METHOD), (function.replace("+", "-"), METHOD.replace("+", "-"), "x = 1\n")
    for first in (METHOD, function):
        found = recognise(data, About("", codes=("", "", first)))
        assert statuses(found, *right, entry_point=found.entry_point) == [Status.PASSED] * 2
        assert Status.PASSED not in statuses(found, *wrong, entry_point=found.entry_point)


@pytest.mark.parametrize(
    ("value", "reference"),
    [
        ([{"input": [1, 2], "output": 3}], ""),
        ([{"input": "[1, 2]", "output": "3"}], "def add(a, b): ..."),
        ([{"input": '{"a": 1, "b": 2}', "output": "3"}], "def add(a: int, b: int) -> int: ..."),
    ],
)
def test_parameters_say_whether_a_list_or_object_is_one_argument(value, reference):
    found = recognise(value, About("add", codes=(reference, "", "def add(a, b):\n    return a + b\n")))
    expected = "add(1, 2)" if isinstance(value[0]["input"], list) or "[" in value[0]["input"] else "add(a=1, b=2)"
    assert [test.input for test in found.tests] == [expected]


def test_tests_left_out_are_counted_and_named_by_the_import(tmp_path):
    rows = [
        {"prompt": "p", "tests": "assert True\nassert f(1) == 2", "code": DOUBLE, "entry_point": "f"},
        {"prompt": "p", "code": SAME},
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    archive = Archive.create(tmp_path / "archive")
    report = ingest(archive, "table", tmp_path / "in.jsonl")
    assert (report.left_out, report.read, report.bad) == (1, 3, 0) and "line 1: 'assert True'" in report.examples[0]
    assert "1 tests that cannot fail are left out" in report.text() and report.facts()["tests_left_out"] == 1
    assert [len(task.tests) for task in archive.tasks()] == [1]


def test_files_of_our_own_records_lose_tests_that_cannot_fail(tmp_path):
    inputs = ["assert True", "f(1)", "assert f(1) == 2", "x = 1", "import math"]
    tests = [{"kind": "code", "input": text} for text in inputs]
    (tmp_path / "in.jsonl").write_text(json.dumps({"kind": "task", "task_id": "t", "prompt": "p", "tests": tests}))
    archive = Archive.create(tmp_path / "archive")
    assert ingest(archive, "jsonl", tmp_path / "in.jsonl").left_out == 3
    assert [test.input for task in archive.tasks() for test in task.tests] == ["f(1)", "assert f(1) == 2"]


def test_programs_of_other_forms_do_not_change_the_tests_of_their_task(tmp_path):
    tests = [{"type": "function_call", "fn_name": "add", "input": [1, 2], "output": 3}]
    codes = [METHOD, "def add(a, b):\n    return a + b\n", METHOD + "x = 1\n"]
    rows = [{"task_id": name, "prompt": name, "tests": tests, "code": code} for code in codes for name in ("t", "u")]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = ingest(Archive.create(tmp_path / "archive"), "table", tmp_path / "in.jsonl")
    assert (report.bad, report.added["tasks"], report.added["attempts"]) == (0, 2, 6)


@pytest.mark.parametrize("shape", ["{}", "def check(candidate):\n    {}\n"])
def test_a_text_is_parsed_as_often_with_many_asserts_as_with_few(monkeypatch, shape):
    parsed, parse = [], ast.parse
    monkeypatch.setattr(ast, "parse", lambda *given, **named: parsed.append(given) or parse(*given, **named))
    for count in (2, 50):
        tests = "\n    ".join(f"assert f({number}) == [{number}, 'a', 1.5, None]" for number in range(count))
        found = recognise(shape.format(tests if "def" in shape else tests.replace("    ", "")), About("f"))
        assert [test.kind for test in found.tests] == [TestKind.CALL] * count
        parsed.append(None)
    few = parsed.index(None)
    assert len(parsed) <= 2 * few + 2  # what is known of the task is cached


@pytest.mark.parametrize(
    ("head", "test"),
    [
        ("", "def test_{n}():\n    assert f({n}) == {n}\n"),
        ("", "def g{n}(x): return x\nassert g{n}(f({n})) == {n}\n"),
        ("", "x{n} = {n}\nassert f(x{n}) == x{n}\n"),
        ("class TestF:\n", "    def test_{n}(self):\n        assert f({n}) == {n}\n"),
    ],
)
def test_eight_times_as_many_tests_cost_eight_times_as_many_steps(head, test):
    def steps(count):
        """Return the number of lines, calls and returns that the recogniser executes: a count, for seconds depend on the machine."""
        source, counts = head + "".join(test.format(n=number) for number in range(count)), [0]

        def count_step(*_):
            counts[0] += 1
            return count_step

        before = sys.gettrace()
        sys.settrace(count_step)
        try:
            found = found_in(source)
        finally:
            sys.settrace(before)
        assert len(found.tests) == count
        return counts[0]

    assert steps(800) < 8.5 * steps(100)  # 9.7 to 25 times if a test looks at all others


def test_a_test_of_a_class_stands_without_the_others():
    source = "class TestF:\n    def test_a(self):\n        assert f(1) == 2\n    def test_b(self):\n        assert f(3) == 6\n    def test_c(self):\n        assert 1 == 1"
    found = recognise(source, About("f"))
    assert ["test_a" in test.input for test in found.tests] == [True, False] and "test_b" not in found.tests[0].input
    assert found.refused == (("asserts nothing", "TestF.test_c"),)


CALLING = """
def test_small():
    assert add(1, 2) == 3

def test_large():
    test_small()
    assert add(100, 2) == 102

class TestAdd:
    def test_zero(self):
        assert add(0, 0) == 0

    def test_one(self):
        self.test_zero()
        assert add(1, 0) == 1

    def test_two(self):
        assert add(2, 0) == 2
"""


def test_a_test_that_calls_other_tests_brings_them():
    suite = pytest_tests(CALLING)
    assert suite.names == ("test_small", "test_large", "TestAdd.test_zero", "TestAdd.test_one", "TestAdd.test_two")
    for test in suite.tests:
        exec(test.input, {"add": int.__add__})
    assert [test.input.count("def test_") for test in suite.tests] == [1, 2, 1, 2, 1]
    assert [test.code.count("def test_") for test in read_tests("tests/test_add.py", CALLING)] == [1, 2, 1, 2, 1]


@pytest.mark.parametrize(
    "tests",
    [
        "from stack import Stack\n\ndef test_pop():\n    s = Stack()\n    s.push(1)\n    assert s.pop() == 1\n",
        "import stack\n\ndef test_pop():\n    s = stack.Stack()\n    s.push(1)\n    assert s.pop() == 1\n",
        "from course.week3 import Stack as S\n\ns = S()\ns.push(1)\nassert s.pop() == 1\n",
    ],
)
def test_imports_of_what_a_program_defines_are_the_attempts(tests):
    program = "class Stack(list):\n    push = list.append\n"
    (test,) = recognise(tests, About(codes=("", "", program))).tests
    assert "import" not in test.input
    exec(program + test.input, {})


def test_imports_of_standard_modules_stay_whatever_a_program_defines():
    tests = "from math import gcd\nassert lcm(4, 6) == 4 * 6 // gcd(4, 6)\n"
    (test,) = recognise(tests, About(codes=("", "", "def gcd(a, b):\n    return 1\n\ndef lcm(a, b):\n    return 12\n"))).tests
    assert "from math import gcd" in test.input


WITH_PYTEST = """
from pytest import raises, fixture, mark
import pytest

@fixture
def pair():
    return [1, 2]

@pytest.fixture(scope="module")
def s(pair):
    s = Stack()
    for x in pair:
        s.push(x)
    return s

def test_order(s):
    assert s.pop() == 2

class TestAll:
    def test_both(self, s, pair):
        assert [s.pop(), s.pop()] == pair[::-1]

@mark.parametrize("n", [3, 4])
def test_more(s, n):
    s.push(n)
    assert s.pop() == n

def test_raises():
    with raises(IndexError, match="empty"):
        Stack().pop()

def test_value():
    with pytest.raises(IndexError) as info:
        Stack().pop()
    assert str(info.value) == "empty stack"

def test_call(s):
    pytest.raises(TypeError, s.push)
"""
LAST_OUT = STACK.replace(
    "return self.items.pop()",
    "if not self.items:\n            raise IndexError('empty stack')\n        return self.items.pop()",
)


def test_tests_that_need_little_of_pytest_run_without_it():
    """Each fails for a wrong program: the other end of the stack, another message, one that takes nothing."""
    found = recognise(WITH_PYTEST, About())
    assert len(found.tests) == 6 and not found.refused and not any("pytest" in test.input for test in found.tests)
    wrong = [
        LAST_OUT.replace("self.items.pop()", "self.items.pop(0)"),
        LAST_OUT.replace("empty", "bare"),
        LAST_OUT.replace(", x)", ", x=0)"),
    ]
    for program, fails in zip([LAST_OUT, *wrong], ("000000", "111000", "000110", "000001"), strict=True):
        assert "".join(str(int(is_refused(program + test.input))) for test in found.tests) == fails


def is_refused(code):
    try:
        exec(code, {})
    except Exception:
        return True
    return False


@pytest.mark.parametrize(
    "fixture",
    ["@pytest.fixture(autouse=True)\ndef one():\n    return 1", "@pytest.fixture\ndef one():\n    yield 1",
     "@pytest.fixture\ndef one(tmp_path):\n    return 1", "@pytest.fixture(params=[1, 2])\ndef one(request):\n    return 1"],
)  # fmt: skip
def test_tests_with_other_fixtures_are_left_out(fixture):
    found = recognise(
        f"import pytest\n\n{fixture}\n\ndef test_one(one):\n    assert f(one) == 2\n\ndef test_two():\n    assert f(2) == 3\n",
        About(),
    )
    assert len(found.tests) == 1 and found.left_out == ("test_one",)


@pytest.mark.parametrize(
    ("near", "right", "wrong"),
    [
        ("pytest.approx(0.3)", ("0.1 + 0.2", "0.3 + 2e-7"), ("0.3 + 4e-7", "0.31", "float('nan')")),
        ("pytest.approx(100, abs=0.5)", ("100.4", "99.6"), ("100.6",)),
        ("pytest.approx(-100, rel=0.1)", ("-91.0",), ("-89.0", "100")),
        ("pytest.approx(math.pi / 2, 0.001, 1)", ("2.5",), ("3",)),
        ("pytest.approx(0)", ("1e-13",), ("1e-11",)),
        ("pytest.approx([0.1, 0.2])", ("[0.1, 0.2000000001]", "(0.1, 0.2)"), ("[0.1]", "[0.1, 0.3]", "0.1")),
        ("pytest.approx({'a': 1}, rel=0.1)", ("{'a': 1.05}",), ("{'b': 1.05}", "[1.05]")),
    ],
)
def test_what_is_nearly_equal_needs_no_pytest(near, right, wrong):
    text = f"import math\nimport pytest\n\ndef test_one():\n    assert f() == {near}\n\ndef test_two():\n    assert {near} == f()\n"
    tests = recognise(text, About()).tests
    assert len(tests) == 2 and not any("pytest" in test.input for test in tests)
    for values, fails in ((right, False), (wrong, True)):
        for value in values:
            assert [is_refused(f"def f():\n    return {value}\n" + test.input) for test in tests] == [fails, fails], value


def test_only_comparisons_with_approx_need_no_pytest():
    text = "import pytest\n\ndef test_one():\n    assert f() == [1, pytest.approx(0.1)]\n"
    (test,) = recognise(text, About()).tests
    assert "import pytest" in test.input and "pytest.approx(0.1)" in test.input


@pytest.mark.filterwarnings("ignore")
def test_comparisons_with_approx_are_those_of_pytest():
    space: dict = {}
    exec(NEAR, space)
    values = [
        0,
        1,
        -1.0,
        1.0000005,
        1.00001,
        0.1 + 0.2,
        math.nan,
        math.inf,
        None,
        "1",
        1j,
        [1, 2],
        [1.0, 2.0000001],
        (1, 2),
        [],
        {},
    ]
    values += [
        {"a": 1},
        {"a": 1.0000001},
        {"b": 1},
        [None, 1],
        1e-13,
        100.4,
        "ab",
        ["a"],
        Decimal("1.0000001"),
        range(2),
        [0, 1],
    ]
    for got, expected, given in product(
        values, values, ({}, {"abs": 0.5}, {"rel": 0.1}, {"rel": 1e-3, "abs": 1}, {"nan_ok": True})
    ):
        with contextlib.suppress(TypeError):
            right = bool(got == pytest.approx(expected, **given))
            assert bool(space["is_near"](got, expected, **given)) == right, (got, expected, given)


def test_modules_that_a_program_imports_too_are_no_attempt():
    text = "from numpy import array\n\ndef test_one():\n    assert f(array([1])) == 1\n"
    for program in ("def f(x):\n    return 1\n", "from numpy import array\ndef f(x):\n    return 1\n"):
        (test,) = recognise(text, About(codes=("", "", program))).tests
        assert test.input.startswith("from numpy import array")


@pytest.mark.parametrize(
    ("tests", "asked"),
    [
        ("import math\nassert f(1) == math.pi", False),
        ("from solution import f\nimport unittest\nassert f(1) == 2", False),
        ("from arithmetic import f\nassert f(1) == 2", True),
        ([{"input": [1], "output": 2, "fn_name": "f"}], True),
        ([{"input": "1", "output": "2"}], False),
        ("def check(candidate):\n    assert candidate(1) == 2", True),
        ("def check(candidate):\n    assert candidate(1) == 2\ncheck(f)", False),
    ],
)
def test_whether_a_program_was_asked_what_tests_call(tests, asked):
    about = About(codes=("", "", "def f(x):\n    return x + 1\n"))
    recognise(tests, about)
    assert bool(about.asked) is asked


def test_what_reads_more_of_an_exception_than_its_value_keeps_pytest():
    inside = "def test_one():\n    with pytest.raises(ValueError) as info:\n        f()\n    assert info.type is ValueError\n"
    loose = "with pytest.raises(ValueError) as info:\n    f()\nassert str(info.value) == 'x'\n"
    for text in (inside, loose):
        assert all("pytest.raises" in test.input for test in recognise(f"import pytest\n\n{text}", About()).tests)
