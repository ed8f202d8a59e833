"""The program in a model's answer, one rule for sampling, importers, exports and adapters."""

import pytest
from answers_table import TABLE, fenced
from hypothesis import given, settings
from hypothesis import strategies as st

from upsolve.policy.answers import code_spans, is_only_code, names_of, program_in
from upsolve.types import Task, TestCase, TestKind


@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
def test_the_program_of_an_answer(row):
    _, settings_, answer, program = row
    assert program_in(answer, **settings_) == program


def test_a_language_of_the_user_has_its_aliases(tmp_path, monkeypatch):
    from upsolve import languages
    from upsolve.languages import names as language_names

    (tmp_path / "basic.yaml").write_text("name: basic\naliases: [qbasic]\nfile: main.bas\nrun: [bas, main.bas]\n")
    monkeypatch.setenv("UPSOLVE_LANGUAGES", str(tmp_path))
    caches = (languages.languages, language_names.language_in)
    for cached in caches:
        cached.cache_clear()
    try:
        answer = f"{fenced('PRINT 2', 'qbasic')}\n{fenced('a longer text' * 9, 'x')}"
        assert program_in(answer, "basic") == "PRINT 2"
    finally:
        monkeypatch.undo()
        for cached in caches:
            cached.cache_clear()


@pytest.mark.parametrize(
    ("task", "names"),
    [
        (Task("t", "", entry_point="f"), ("f",)),
        (Task("t", "", entry_point="Solution().f"), ("Solution", "f")),
        (Task("t", "", (TestCase(TestKind.CODE, "for i in range(3):\n    assert f(i) == 2 * i"),)), ("f",)),
        (Task("t", "", (TestCase(TestKind.CALL, "f(helper(2))", "4"),), setup="def helper(x): return x"), ("f",)),
        (Task("t", "", (TestCase(TestKind.STDIO, "2\n", "4\n"),)), ()),
        (Task("t", "", (TestCase(TestKind.CODE, "assert f(2) === 4"),), language="javascript"), ()),
    ],
)
def test_names_that_a_task_asks_for(task, names):
    assert names_of(task) == names


def test_what_is_only_code():
    assert is_only_code("x = 1\n", "x = 1") and is_only_code("x = 1\n```", "x = 1") and is_only_code("x = 1<|im_end|>", "x = 1")
    assert not is_only_code("```python\nx = 1\n```", "x = 1") and not is_only_code("x = 1\n```\nDone.", "x = 1")


LINES = ["def f(x):", "    return 2 * x", "", "# f", "y = f(1)"]
PLACES = {
    "plain": ("```python\n", "\n", "\n```"),
    "Windows": ("```python\r\n", "\r\n", "\r\n```"),
    "in a list": ("1. a\n   ```python\n   ", "\n   ", "\n   ```"),
    "twice": (f"{fenced(chr(10).join(LINES))}\nagain\n```python\n", "\n", "\n```"),
    "repeated in prose": ("```python\n", "\n", "\n```\nIn it y = f(1)."),
    "alone": ("", "\n", "\n"),
}


@pytest.mark.parametrize("name", PLACES)
def test_characters_of_an_answer_are_those_of_its_program(name):
    """Each character of the program has its place in the answer, in the last block that holds it."""
    head, joint, tail = PLACES[name]
    code, answer = "\n".join(LINES), head + joint.join(LINES) + tail
    assert program_in(answer, names=("f",)) == code
    spans = code_spans(answer, code, [(place, place + 1) for place in range(len(answer))], "python")
    assert [start for start, _ in spans] == sorted(start for start, _ in spans)
    inside = {start: answer[place] for place, (start, end) in enumerate(spans) if 0 <= start < end <= len(code)}
    assert {place: letter for place, letter in inside.items() if letter not in "\r\n"} == {
        place: letter for place, letter in enumerate(code) if letter != "\n"
    }


def test_a_program_that_is_not_in_the_answer_has_no_place():
    assert all(end <= 0 for _, end in code_spans("abc", "x = 1", [(0, 2), (2, 3)]))


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from(["x = 1", "def f(x):", "    return x", "", "    '''", "  # ```", "s = '```'", "'''", "\t```"])),
    st.sampled_from(["", "\n", "\nDone.", "<|im_end|>"]),
)
def test_a_program_in_one_block_comes_back(lines, end):
    code = "\n".join(["def f(x):", *lines, "    return x", "y = 2"])
    marks = "````"
    assert program_in(f"Here:\n{marks}python\n{code}\n{marks}{end}", names=("f",)) == code
