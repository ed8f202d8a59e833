"""Tests in the schemas of published sets: each passes the right program and fails another, as the set's own grader does."""

import base64
import json
import pickle
import zlib

import pytest

from upsolve import verify_attempts
from upsolve.importers.recogniser.failing import About
from upsolve.importers.recogniser.values import recognise
from upsolve.types import Attempt, Status, Task, TestKind

ADD, METHOD = "def add(a, b):\n    return a + b\n", "class Solution:\n    def add(self, a, b):\n        return a + b\n"
DOUBLE = "print(int(input()) * 2)"
SORT = "def f(x):\n    return sorted(x)\n"
WRONG = {
    ADD: ADD.replace("+", "-"),
    METHOD: METHOD.replace("+", "-"),
    DOUBLE: "print(input())",
    SORT: "def f(x):\n    return x\n",
}
CHECK = "def check(candidate):\n    assert candidate(a = 1,b = 2) == 3\n    assert candidate(a = 5,b = 2) == 7\n"


def packed(cases, *, pickled=True):
    """Hidden tests as LiveCodeBench stores them: base64 of zlib of a pickle of JSON."""
    text = json.dumps(cases)
    return base64.b64encode(zlib.compress(pickle.dumps(text) if pickled else text.encode())).decode()


def stdin(value, **more):
    return {"input": f"{value}\n", "output": f"{2 * value}\n", **more}


def functional(a, b):
    return {"input": f"{a}\n{b}", "output": str(a + b), "testtype": "functional"}


ONE = {"type": "function_call", "fn_name": "add", "input": [1, 2], "output": 3}
FORMS = {
    "DeepCoder, TACO": (json.dumps({"fn_name": "add", "inputs": [[1, 2]], "outputs": [3]}), ADD, 1),
    "DeepCoder, LiveCodeBench": (json.dumps([{**functional(1, 2), "metadata": {"func_name": "add"}}]), METHOD, 1),
    "DeepCoder, values in lists": (json.dumps([{**ONE, "output": [3]}, {**ONE, "input": [4, 2], "output": [6]}]), ADD, 2),
    "SYNTHETIC-1": (json.dumps({"language": "python", "test_cases": [stdin(2, type="stdin_stdout")]}), DOUBLE, 1),
    "SYNTHETIC-1 as a literal": (str({"language": "python", "test_cases": [{**ONE, "x": None}]}), ADD, 1),
    "SYNTHETIC-1 with texts": ({"test_cases": [{**ONE, "input": "1\n2", "output": "3"}]}, ADD, 1),
    "open-r1": ({"language": "python", "test_cases": [stdin(2, type="stdin_stdout", fn_name=None)]}, DOUBLE, 1),
    "in verification_info": (json.dumps({"verification_info": {"test_cases": [stdin(2)]}}), DOUBLE, 1),
    "in an answer": ({"answer": {"test_cases": [stdin(2)]}, "type": "code_verifiable"}, DOUBLE, 1),
    "verl": ({"style": "rule", "ground_truth": json.dumps({"inputs": ["2\n"], "outputs": ["4\n"]})}, DOUBLE, 1),
    "LiveCodeBench": ({"public_test_cases": json.dumps([stdin(1)]), "private_test_cases": packed([stdin(2)])}, DOUBLE, 2),
    "LiveCodeBench, methods": (
        {"public_test_cases": [functional(1, 2)], "private_test_cases": packed([functional(3, 4)]), "metadata": '{"func_name": "add"}'},
        METHOD,
        2,
    ),
    "packed without a pickle": (packed([stdin(2)], pickled=False), DOUBLE, 1),
    "in base64 alone": (base64.b64encode(json.dumps([stdin(2), stdin(30)]).encode()).decode(), DOUBLE, 2),
    "Skywork": (json.dumps({"entry_point": "Solution().add", "test_code": CHECK, "import_prefix": "from typing import *\n"}), METHOD, 2),
    "a function in an object": (json.dumps({"functional": f"{CHECK}\ncheck(Solution().add)"}), METHOD, 2),
    "MBPP": ({"test_imports": ["import math"], "test_list": ["assert math.isclose(add(1, 2), 3)"], "challenge_test_list": []}, ADD, 1),
    "MBPP with a value": ({"test_setup_code": "x = 1", "test_list": ["assert add(x, 2) == 3"]}, ADD, 1),
    "Codeforces": ({"examples": [stdin(1)], "official_tests": [stdin(2), stdin(3)]}, DOUBLE, 3),
    "CodeContests": ({"public_tests": {"input": ["2\n"], "output": ["4\n"]}, "private_tests": {"input": [], "output": []}}, DOUBLE, 1),
    "APPS": (json.dumps({"fn_name": "f", "inputs": [[[3, 1]]], "outputs": [[1, 3]]}), SORT, 1),
    "APPS, values in lists": (json.dumps({"fn_name": "f", "inputs": [[[3, 1]]], "outputs": [[[1, 3]]]}), SORT, 1),
    "expected outputs": ({"inputs": ["2\n"], "expected_outputs": ["4\n"]}, DOUBLE, 1),
    "test inputs": ({"test_inputs": json.dumps(["2\n"]), "test_outputs": json.dumps(["4\n"])}, DOUBLE, 1),
    "asserts with input as a variable": ("input = 1\noutput = add(input, 2)\nassert output == 3", ADD, 1),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:outputs such as")
@pytest.mark.parametrize("known", ["reference", "attempt"])
def test_each_schema_passes_the_right_program_and_fails_another(known):
    pairs = []
    for name, (value, code, count) in FORMS.items():
        found = recognise(value, About(codes=(code, "", "") if known == "reference" else ("", "", code)))
        assert (name, len(found.tests), found.refused) == (name, count, ())
        fields = {"entry_point": found.entry_point, "setup": found.setup, "compare": found.compare or "lines"}
        pairs += [(Task(name, "p", found.tests, **fields), Attempt(name, program)) for program in (code, WRONG[code])]
    passed = [verdict.status is Status.PASSED for verdict in verify_attempts(pairs)]
    wrong = [task.task_id for (task, attempt), right in zip(pairs, passed, strict=True) if right != (attempt.code in WRONG)]
    assert not wrong


def one_call(outputs, *codes, inputs=((1,), (2,))):
    found = recognise({"fn_name": "f", "inputs": [[*one] for one in inputs], "outputs": outputs}, About(codes=codes))
    return [test.expected for test in found.tests], found.compare


@pytest.mark.parametrize(
    ("outputs", "code", "expected"),
    [
        ([[1], [2]], "def f(x):\n    return x\n", ["1", "2"]),
        ([[1], [2]], "def f(x):\n    return [x]\n", ["[1]", "[2]"]),
        ([[1], [2]], "def f(x):\n    return (x,)\n", ["[1]", "[2]"]),
        ([[[1, 1]], [[2, 2]]], "def f(x):\n    return [x, x]\n", ["[1, 1]", "[2, 2]"]),
        ([[[1, 1]], [[2, 2]]], "def f(x):\n    return [[x, x]]\n", ["[[1, 1]]", "[[2, 2]]"]),
        ([[1.0], [2.0]], "def f(x):\n    return x + 1e-9\n", ["1.0", "2.0"]),
        ([[2], [3]], "import math\ndef f(x):\n    return gcd(0, x) + 1\n", ["2", "3"]),
        (["1", "2"], "def f(x):\n    return str(x)\n", ["'1'", "'2'"]),
        (["1", "2"], "def f(x):\n    return x\n", ["1", "2"]),
    ],
)
def test_a_reference_decides_what_an_output_means(outputs, code, expected):
    found, compare = one_call(outputs, code)
    assert found == expected and not compare.startswith("item")


@pytest.mark.parametrize(
    ("definition", "expected"),
    [("def f(x) -> int:", ["1", "2"]), ("def f(x: int) -> List[int]:", ["[1]", "[2]"]), ("def f(x) -> list:", ["[1]", "[2]"])],
)
def test_types_decide_without_a_reference(definition, expected):
    assert one_call([[1], [2]], "", f"Write this:\n{definition}\n    ...") == (expected, "lines")


@pytest.mark.parametrize(
    "codes",
    [(), ("def f(x):\n    raise ValueError\n",), ("def f(x):\n    return 7\n",), ("", "", "def f(x):\n    return [x]\n")],
)
def test_undecided_outputs_accept_both_and_say_so(codes):
    """An attempt may be wrong: only a reference decides."""
    with pytest.warns(UserWarning, match="nothing shows which"):
        assert one_call([[1], [2]], *codes) == (["1", "2"], "item")


def test_a_reference_decides_whether_a_list_is_one_argument():
    reference = "def f(x, y=1):\n    return sum(x) if isinstance(x, list) else x\n"
    value = [{"fn_name": "f", "input": [3, 4], "output": 7}, {"fn_name": "f", "input": [1, 5], "output": 6}]
    assert [test.input for test in recognise(value, About(codes=(reference,))).tests] == ["f([3, 4])", "f([1, 5])"]


def test_arguments_that_no_call_takes_are_refused():
    with pytest.raises(ValueError, match="an input has 3 arguments, the function takes 2 arguments"):
        recognise([{"fn_name": "add", "input": [1, 2, 3], "output": 6}], About(codes=(ADD,)))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (base64.b64encode(zlib.compress(b"x" * 99)[:-5]).decode(), "cut off"),
        (base64.b64encode(b"x\x9c" + bytes(20)).decode(), "packed in base64 and zlib"),
        (base64.b64encode(zlib.compress(pickle.dumps(print))).decode(), "names builtins.print"),
        ({"public_test_cases": [stdin(1)], "private_test_cases": "eNpb"}, "neither tests nor packed"),
        (
            {"public_test_cases": [stdin(1)], "private_test_cases": [{"input": {"a": 1}, "output": "2"}]},
            "neither text nor lines",
        ),
        ({"answer": "42"}, "is no test"),
        ({"reward_model": {"ground_truth": 42}}, "a test is an assert"),
    ],
)
def test_damaged_and_other_values_are_refused_with_a_reason(value, reason):
    with pytest.raises(ValueError, match=reason):
        recognise(value, About())


def test_shown_tests_are_not_hidden_and_counted_once():
    found = recognise({"sample_io": [stdin(1)], "test_list": [stdin(1), stdin(2)]}, About())
    assert [(test.kind, test.input, test.hidden) for test in found.tests] == [
        (TestKind.STDIO, "1\n", False),
        (TestKind.STDIO, "2\n", True),
    ]
