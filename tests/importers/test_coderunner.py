"""Questions of CodeRunner: their reference passes their tests, and a program that prints something else fails."""

import pytest
from imports import imported, rejected_rows

from upsolve.errors import SourceError
from upsolve.importers.door import reading_of
from upsolve.types import Attempt, TestKind
from upsolve.verify.judge.plans import judge

CASE = """<testcase testtype="0" useasexample="{shown}" mark="1.0"><testcode><text>{code}</text></testcode><stdin><text>{stdin}</text></stdin>
<expected><text>{expected}</text></expected></testcase>"""
QUESTION = """<question type="coderunner"><name><text>{name}</text></name><questiontext format="html"><text><![CDATA[<p>Square &lt;n&gt;.</p><p>Fast.</p>]]></text>
</questiontext><coderunnertype>{kind}</coderunnertype><answer><![CDATA[{answer}]]></answer><testcases>{cases}</testcases></question>"""
SQUARE = CASE.format(shown=1, code="print(sqr(3))\nprint('a')", stdin="", expected="9  \na\n") + CASE.format(
    shown=0, code="print(sqr(-2))", stdin="", expected="4"
)
ECHO = CASE.format(shown=1, code="", stdin="2", expected="4")


def quiz(tmp_path, *questions):
    path = tmp_path / "quiz.xml"
    path.write_text(f'<?xml version="1.0"?><quiz><question type="category"/>{"".join(questions)}</quiz>')
    return path


def test_questions_are_tasks_with_tests_and_reference(tmp_path):
    program = "def sqr(n):\n    return n * n"
    questions = [
        QUESTION.format(name="a", kind="python3", answer=program, cases=SQUARE),
        QUESTION.format(name="b", kind="c_program", answer="int main() {}", cases=ECHO),
        QUESTION.format(name="c", kind="c_function", answer="int f() {}", cases=SQUARE),
    ]
    archive, report = imported(tmp_path, "coderunner", quiz(tmp_path, *questions))
    assert reading_of(tmp_path / "quiz.xml", {}).source == "coderunner"
    square, echo = archive.tasks()
    assert (square.language, square.reference, square.prompt) == ("python", program, "Square <n>.\nFast.")
    assert [test.hidden for test in square.tests] == [False, True]
    assert (echo.language, echo.tests[0].kind, echo.tests[0].input, echo.tests[0].expected) == ("c", TestKind.STDIO, "2", "4")
    assert "the question type c_function is code" in rejected_rows(report)[0]["reason"]
    outcomes = {
        code: judge(square, Attempt(square.task_id, code)).outcomes for code in (program, program.replace("n * n", "2 * n + 3"))
    }
    assert [*outcomes.values()] == [("passed", "passed"), ("passed", "failed")]


def test_a_quiz_without_programs_is_refused(tmp_path):
    with pytest.raises(SourceError, match="has no question of type coderunner"):
        imported(tmp_path, "coderunner", quiz(tmp_path))
