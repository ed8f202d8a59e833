"""Every importer leaves out tests that cannot fail, counts and names them, and keeps recorded outcomes at the places of the other tests."""

import json
import zipfile

import pytest

from upsolve.importers.ingest import ingest

F = {"prompt": "def f(x):", "entry_point": "f", "canonical_solution": "\n    return x"}
CHECK = "def check(candidate):\n    assert candidate(1) == 1\n    assert [1] == [1]\n"
KEPT = [("f(1)", "1")]
NOTHING, NO_USE = "asserts nothing", "uses nothing of the attempt"
NO_TEST = "is no test"
CASES = """import unittest

class TestF(unittest.TestCase):
    def test_one(self):
        self.assertEqual(f(1), 1)

    def test_idle(self):
        f(1)

    def test_other(self):
        self.assertEqual(len([1]), 1)
"""
CONTEXT = """def generate_test_case(number):
    return number, number

def exec_test(result, expected):
    {}

exec_context = "result = test_input\\n[insert]"

def test_execution(solution):
    pass
"""


def context(check):
    return {"prompt": "p", "reference_code": "", "code_context": CONTEXT.format(check)}


def cell(text, name="", *, solution=False):
    known = {"grade_id": name, "solution": solution, "grade": not solution}
    return {"cell_type": "code", "source": [text], "metadata": {"nbgrader": known}, "outputs": [], "execution_count": 1}


NOTEBOOK = {
    "cells": [cell("f = abs", "f", solution=True), cell("assert True", "a"), cell("assert f(1) == 1", "b")],
    "metadata": {},
}
EXERCISE = {
    "data/question_1/description.txt": "p",
    "data/question_1/ans/input_001.txt": "1",
    "data/question_1/ans/output_001.txt": "1",
    "data/question_1/ans/input_002.txt": "f(1)",
    "data/question_1/ans/output_002.txt": "1",
    "data/question_1/code/fail/a.py": "def f(x): return x",
}
INSTRUCT = {
    "id": "1",
    "input": "p",
    "output": "def f(x):\n    return x",
    "unit_tests": ["assert True", "assert f(1) == 1", "f(2)"],
}
LDB = {**F, "task_id": "HumanEval/0", "test": CHECK + "check(f)\n", "solution": "def f(x):\n    return x", "is_solved": True}
MULTIPLE = {**F, "name": "f", "language": "py", "tests": f"{CHECK}\ncheck(f)\n"}
IMPORTED = [
    ("mbpp", "in.jsonl", [{"task_id": 11, "text": "p", "code": "def f(x): pass", "test_list": ["assert True", "assert f(1) == 1"]}], KEPT, [NO_TEST], []),
    ("humaneval", "in.jsonl", [{**F, "task_id": "HumanEval/0", "test": CHECK + "    assert True\n"}], KEPT, [NOTHING] * 2, []),
    ("codet", "HumanEval_for_code_generation.jsonl", [{**F, "task_id": "HumanEval/0", "test": CHECK}], KEPT, [NOTHING], []),
    ("ldb", "seed_one.jsonl", [LDB, LDB], KEPT, [NOTHING], [()]),
    ("mxeval", "in.jsonl", [{**F, "task_id": "F/0", "language": "python", "test": CHECK}], KEPT, [NOTHING], []),
    ("multipl_e", "in.jsonl", [MULTIPLE], KEPT, [NOTHING], []),
    ("opencodeinstruct", "in.jsonl", [{**INSTRUCT, "tests_execution_status": ["pass", "fail", "pass"]}], KEPT, [NO_TEST, NOTHING], [("failed",)]),
    ("kodcode", "in.jsonl", [{"question_id": "1", "question": "p", "solution": "def f(x): pass", "test": CASES, "test_entry_point": "f"}], ["TestF('test_one')"], [NOTHING, NO_USE], []),
    ("bigcodebench", "in.jsonl", [{**F, "task_id": "BigCodeBench/0", "complete_prompt": "p", "instruct_prompt": "p", "test": CASES}], ["TestF('test_one')"], [NOTHING, NO_USE], []),
    ("ds1000", "in.jsonl", [{**context("assert result == expected\n    return 1"), "metadata": {"problem_id": 0}}, {**context("return 1"), "metadata": {"problem_id": 1}}], ["exec_test(solve(test_input), expected_result)"], [NOTHING], []),
    ("refactory", "data.zip", EXERCISE, KEPT, [NO_TEST], []),
    ("nbgrader", "autograded/ann/ps1/one.ipynb", NOTEBOOK, [("assert f(1) == 1", "")], [NOTHING], [("passed",)]),
]  # fmt: skip
"""Source, its file with a sound test and others, the sound test (or a part of it), why the others cannot fail, and recorded outcomes."""


def written(folder, name, content):
    """Write a file and return what its importer reads."""
    file = folder / name
    file.parent.mkdir(parents=True)
    if name.endswith(".zip"):
        with zipfile.ZipFile(file, "w") as packed:
            for path, text in content.items():
                packed.writestr(path, text)
    else:
        file.write_text("".join(json.dumps(row) + "\n" for row in (content if isinstance(content, list) else [content])))
    if name.startswith("HumanEval_"):
        (folder / "one_code_solution.jsonl").write_text("")
    return file if name in ("in.jsonl", "data.zip") else folder


@pytest.mark.parametrize(
    ("source", "name", "content", "kept", "reasons", "outcomes"), IMPORTED, ids=[row[0] for row in IMPORTED]
)
def test_tests_that_cannot_fail_are_left_out(archive, tmp_path, source, name, content, kept, reasons, outcomes):
    report = ingest(archive, source, written(tmp_path / "in", name, content))
    tests = [(test.input, test.expected) for task in archive.tasks() for test in task.tests]
    assert tests == kept or (len(tests) == 1 and kept[0] in tests[0][0])
    assert (report.left_out, report.bad) == (len(reasons), 0)
    assert [next(why for why in (NOTHING, NO_USE, NO_TEST) if one.endswith(why)) for one in report.examples] == reasons
    found = archive.table("verdicts").to_pylist()
    assert [tuple(verdict["outcomes"]) for verdict in found[:1]] == outcomes


def test_a_share_of_passed_tests_says_only_the_status_if_tests_were_left_out(archive, tmp_path):
    rows = [
        {**INSTRUCT, "id": share, "output": f"def f(x):\n    return {share}", "average_test_score": share} for share in (1, 0.5)
    ]
    ingest(archive, "opencodeinstruct", written(tmp_path / "in", "in.jsonl", rows))
    found = sorted((row["status"], row["passed"], row["total"]) for row in archive.table("verdicts").to_pylist())
    assert found == [("failed", 0, 0), ("passed", 1, 1)]


OWN = ["assert True", "assert f(1) == 1", "assert f(2) == 2"]
OTHER = ["assert f(1) == 1", "f(2)", "assert f(2) == 2"]
"""The first of three tests cannot fail; the second one."""
P, X, R = "passed", "failed", "runtime_error"
RECORDED = [
    (OWN, {"outcomes": [P, X, P]}, (X, 1, 2, [X, P])),
    (OWN, {"outcomes": [P, P, P]}, (P, 2, 2, [P, P])),
    (OTHER, {"outcomes": [P, P, X]}, (X, 1, 2, [P, X])),
    ("\n".join([*OWN, "assert 1 == 1"]), {"outcomes": [P, X, P, P]}, (X, 1, 2, [X, P])),  # a text
    ("def check(candidate):\n    assert candidate(1) == 1\n    assert [1] == [1]", {"outcomes": [P, P]}, (P, 1, 1, [P])),
    # the only failure is that of the test that is left out
    (OTHER, {"outcomes": [P, R, P]}, (P, 2, 2, [P, P])),
    (OTHER, {"outcomes": [P, R, X]}, (X, 1, 2, [P, X])),
    # the judge stopped at the second of three tests
    (OWN, {"outcomes": [P, X], "total": 3}, (X, 0, 2, [X])),
    # numbers without outcomes: all of them, none of them, or which is not known
    (OWN, {"passed": 3, "total": 3}, (P, 2, 2, [])),
    (OWN, {"passed": 0, "total": 3}, (X, 0, 2, [])),
    (OWN, {"passed": 1, "total": 3}, (X, 0, 0, [])),
    (OWN, {"passed": 4, "total": 5}, (X, 4, 5, [])),  # of other tests
    (OWN, {"status": X}, (X, 0, 0, [])),
    # two outcomes for two kept tests; four for them are rejected
    (OWN, {"outcomes": [X, P]}, (X, 1, 2, [X, P])),
    (OWN, {"outcomes": [P, X, P, P]}, None),
    (OWN[1:], {"outcomes": [P, X, P]}, None),
    (["assert True", "assert f(1) == 1"] * 2, {"outcomes": [P, P, P, X]}, (X, 1, 2, [P, X])),
    (OWN[1:], {"outcomes": [X], "total": 2}, (X, 0, 2, [X])),
]  # fmt: skip
"""Tests, recorded outcome of an attempt, and status, passed, total and outcomes that are stored; None: the verdict is rejected."""


@pytest.mark.parametrize(
    ("source", "tests", "outcome", "stored"),
    [
        pytest.param(name, *row, marks=[pytest.mark.slow] if name != "table" and number % 4 else [])
        for name in ("table", "jsonl", "verdicts")
        for number, row in enumerate(RECORDED)
        if name == "table" or isinstance(row[0], list)
    ],
)
def test_outcomes_of_left_out_tests_go_with_them(archive, tmp_path, source, tests, outcome, stored):
    task = {"task_id": "t/1", "prompt": "p", "entry_point": "f", "tests": tests}
    program = {"code": "def f(x): return x", **({} if source == "verdicts" else outcome)}
    rows = [{**task, **program}]
    if source != "table":
        # a call that must not raise is a test in upsolve's own files
        task["tests"] = [{"kind": "code", "input": "f" if text == "f(2)" else text} for text in tests]
        rows = [{"kind": "task", **task}, {"kind": "attempt", "task_id": "t/1", "id": "a", **program}]
    if source == "verdicts":
        found = outcome.get("outcomes", [])
        numbers = {"passed": found.count(P), "total": len(found), **outcome} if found else outcome
        failed = next((one for one in found if one != P), P)
        status = failed if found else P if outcome.get("passed") == 3 else X
        rows.append({"kind": "verdict", "attempt_id": "a", "status": status, **numbers})
    report = ingest(archive, source.replace("verdicts", "jsonl"), written(tmp_path / "in", "in.jsonl", rows))
    verdicts = [(one["status"], one["passed"], one["total"], one["outcomes"]) for one in archive.table("verdicts").to_pylist()]
    assert (verdicts, report.bad, len(archive.attempts())) == ([stored] if stored else [], 0 if stored else 1, 1)
    assert stored or (report.reasons[0].line == len(rows) and "outcomes of" in report.reasons[0].reason)
