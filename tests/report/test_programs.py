"""Programs side by side, and why a program failed: words that differ, colours, test, what it gave, what was expected."""

import re
from dataclasses import replace

from upsolve.config import VerifyConfig
from upsolve.report.blocks import html_of
from upsolve.report.content import Example, with_outputs
from upsolve.report.programs import (
    Reason,
    diff_lines,
    program_line,
    program_pair,
    question_line,
    reason_of,
    reason_text,
)
from upsolve.report.run import finder
from upsolve.types import Task, TestCase, TestKind


def test_the_diff_of_two_programs_by_hand():
    assert diff_lines("a\nb\nc", "a\nB\nc\nd") == [(" ", "a"), ("-", "b"), ("+", "B"), (" ", "c"), ("+", "d")]
    assert diff_lines("same", "same") == [(" ", "same")] and diff_lines("", "x") == [("+", "x")]


def test_the_words_that_differ_are_marked():
    before, after = program_pair("def f(x):\n    return x + 1\n", "def f(x):\n    return x - 1\n\n# end")
    old, new = html_of(before), html_of(after)
    assert "<span>def f(x):\n</span>" in old and '<span class="removed">    return x <del>+</del> 1\n</span>' in old
    assert (
        '<span class="added">    return x <ins>-</ins> 1\n</span>' in new
        and '<span class="added"><ins># end</ins>\n</span>' in new
    )
    assert re.sub("<[^>]*>", "", new) == "def f(x):\n    return x - 1\n\n# end\n"
    assert "empty" in html_of(program_pair("", "x")[0])
    other = "".join(map(html_of, program_pair("CREATE TABLE a (b INT)", "SELECT b FROM c WHERE d < 1")))
    assert "<del>" not in other and "<ins>" not in other and "removed" not in other, "few words in common: no marks"


def test_programs_have_the_colours_of_their_language():
    """Keywords are kind 0, strings kind 1; a token that is partly new is coloured and marked; no letter is lost."""
    texts = ("def f():\r\n    return 'ab cd'\n\n", "def f():\n    return 'ab ef'\n")
    old, new = map(html_of, program_pair(*texts, "python"))
    assert '<span><span class="syntax0">def</span> <span class="syntax4">f</span>():\n</span>' in old
    string = '<span class="syntax1">&#x27;ab </span><{0}><span class="syntax1">{1}</span></{0}>'
    assert string.format("del", "cd") in old and string.format("ins", "ef") in new
    assert re.sub("<[^>]*>", "", old) == "def f():\n    return &#x27;ab cd&#x27;\n\n"
    assert "syntax" not in html_of(program_pair(*texts, "no such language")[0])


def test_the_reason_of_a_failure_is_test_got_and_expected():
    hidden = Task("t", "", (TestCase(TestKind.CALL, "f(1)", "2"), TestCase(TestKind.CALL, "f(2)", "4", hidden=True)))
    said = "test 1: f(1) gave 3, expected 2"
    assert reason_of("", said, hidden) == Reason(said, 1, "f(1)", "3", "2")
    assert reason_of("", said, None) == Reason(said, 1, "f(1)", "3", "2")
    assert reason_of("", "hidden test 2: wrong value", hidden) == Reason("hidden test 2: wrong value", 2, "f(2)", "", "4")
    assert reason_of("SyntaxError", "bad", None) == Reason("SyntaxError: bad", kind="SyntaxError")
    refused = reason_of("Refused", "test 1: insert is refused", hidden)
    assert (refused.text, refused.message, refused.kind) == (
        "Refused: test 1: insert is refused",
        "Refused: insert is refused",
        "Refused",
    )
    assert '<div class="soft">Refused: not a read-only query' in html_of(reason_text(refused))
    lines = [reason_of(kind, said, hidden).line for kind, said in (("", "hidden test 2: wrong value"), ("E", "test 1: a\n b"))]
    assert lines == ["wrong value at a hidden test, expected 4", "E: a b"], "an error needs no expected value"
    shown = html_of(reason_text(reason_of("", "hidden test 2: wrong value", hidden)))
    assert "wrong value" not in shown and "do not record" in shown and "<dd><code>4</code></dd>" in shown, (
        "no result is invented"
    )
    said = "test 1: line 2: 'a, expected', expected 'b'"
    assert reason_of("", said, None) == Reason(said, 1, "", "line 2: 'a, expected'", "'b'")


SCRIPT = "CREATE TABLE t (a INT);\nINSERT INTO t VALUES (1);\nINSERT INTO t VALUES (2);"


def test_the_script_of_a_database_is_folded_and_the_rows_that_differ_are_marked():
    shown = html_of(reason_text(Reason("wrong output", 1, SCRIPT, "[1]\n[3]\n[4]", "[1]\n[3]\n[2]")))
    assert f"<details><summary>database script, 3 lines</summary><code>{SCRIPT}</code></details>" in shown
    assert "<code>[1]\n[3]\n[<del>4</del>]</code>" in shown and "<code>[1]\n[3]\n[<ins>2</ins>]</code>" in shown
    short = html_of(reason_text(Reason("wrong output", 1, "f(1)", "5", "4")))
    assert "<dd><code>f(1)</code></dd>" in short and "<del>" not in short and "details" not in short


def test_what_failed_at_a_hidden_test_gave_is_found_again():
    """A query and a function; a test of a task that is unknown, and one whose message shows the value, stay as they are."""
    said = "hidden test 1: wrong output"
    query = Task("q", "", (TestCase(TestKind.STDIO, SCRIPT, "[2]\n", hidden=True),), language="sql", compare="rows")
    function = Task("f", "", (TestCase(TestKind.CALL, "f(1)", "2", hidden=True),), "f")
    examples = [
        Example(task.task_id, "", bad, "failed", good, "passed", reasons=(reason_of("", said, task), Reason("")))
        for task, bad, good in ((query, "SELECT a FROM t", "SELECT count(a) FROM t"), (function, "def f(x):\n    return 3", ""))
    ]
    unknown = replace(examples[1], task_id="?")
    found = with_outputs([*examples, unknown], finder([query, function]), VerifyConfig())
    assert [(one.reasons[0].got, one.reasons[0].expected) for one in found[:2]] == [("[1]\n[2]", "[2]\n"), ("3", "2")]
    assert found[2] is unknown and found[0].reasons[1] == Reason("") and with_outputs((), finder([]), VerifyConfig()) == ()


def test_the_question_of_a_prompt_is_one_line():
    assert question_line("\nDouble x.\nMore.") == "Double x." and question_line("") == ""
    assert question_line("CREATE TABLE a (b INT)\nCREATE TABLE c (d INT)\n\nHow many b?\n") == "How many b?"
    assert program_line("a\n\n  b\n") == "a ⏎ b" and len(program_line("x" * 500)) == 120
