"""Records and the rows they are written as."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upsolve.records import from_row, to_row
from upsolve.types import Attempt, Finding, Status, Task, TestCase, TestKind, Verdict

texts = st.text(max_size=20)  # lone surrogates among them: an attempt may print them
counts = st.integers(0, 10**6)
seconds = st.none() | st.floats(0, 1e6)
tests = st.builds(TestCase, st.sampled_from(TestKind), texts, texts, st.booleans())
tasks = st.builds(Task, texts, texts, st.lists(tests, max_size=3).map(tuple), texts)
findings = st.builds(Finding, texts, texts, texts, st.integers(1, 99), value=st.none() | st.floats(allow_nan=False))
verdicts = st.builds(
    Verdict,
    texts,
    st.sampled_from(Status),
    counts,
    counts,
    st.lists(st.sampled_from(Status), max_size=3).map(tuple),
    stdout_head=texts,
    wall_seconds=seconds,
    findings=st.lists(findings, max_size=2).map(tuple),
    executed_lines=st.none() | st.lists(counts, max_size=3).map(tuple),
    analyses=st.lists(texts, max_size=2).map(tuple),
)
tokens = st.none() | st.lists(counts, max_size=3).map(tuple)
attempts = st.builds(Attempt, texts, texts, author=texts, behavior_logp=st.none() | st.floats(-1e6, 0), token_ids=tokens)


@given(tasks | attempts | verdicts)
def test_a_record_written_as_json_is_read_back_equal(record):
    again = from_row(type(record), json.loads(json.dumps(to_row(record))))
    assert again == record and hash(again) == hash(record)


def test_absent_and_null_fields_get_their_defaults_and_a_content_id_is_computed():
    row = {"task_id": "t", "code": "x", "author": None, "attempt_id": "whatever"}
    assert from_row(Attempt, row) == Attempt("t", "x")


@pytest.mark.parametrize(
    ("kind", "row", "reason"),
    [
        (Attempt, {"task_id": "t", "code": None}, "code is missing"),
        (Attempt, {"task_id": "t", "code": "x", "author": 17}, "author: Input should be a valid string, not '17'"),
        (Attempt, {"task_id": "t", "code": "x", "auther": "me"}, "unknown field auther, did you mean author?"),
        (Task, {"task_id": "t", "prompt": "p", "tests": [{"kind": "call", "input": "f()", "expected": 4}]}, "tests.0.expected"),
        (Task, {"task_id": "t", "prompt": "p", "tests": [{"kind": "song", "input": ""}]}, "tests.0.kind"),
        (Verdict, {"attempt_id": "a", "status": "great"}, "status"),
    ],
)
def test_a_wrong_row_is_a_clear_error(kind, row, reason):
    with pytest.raises(ValueError, match=reason.replace("?", r"\?")):
        from_row(kind, row)


def test_kinds_and_outcomes_by_name_and_tests_in_a_list_are_what_the_judge_reads():
    call = TestCase(TestKind.CALL, "f(1)", "2")
    assert TestCase("call", "f(1)", "2").kind is TestKind.CALL and Verdict("a", "passed").status is Status.PASSED
    assert Task("a", "p", [call]).tests == (call,)
    for make, words in (
        (lambda: TestCase("cal", "f(1)"), "cal"),
        (lambda: Verdict("a", "passd"), "passd"),
        (lambda: Task("a", "p", ["assert f(1) == 2"]), r"TestCase\('code', 'assert f\(1\) == 2'\)"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            make()


def test_the_judge_loads_neither_torch_nor_pyarrow():
    code = "import sys, upsolve.verify.pool.pool, upsolve.verify.service.client; print({'torch', 'pyarrow', 'duckdb'} & {*sys.modules})"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"
