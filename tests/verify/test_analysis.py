"""Static analyses: positions, kinds and severities of findings, and their robustness against hostile code."""

import subprocess
from collections import Counter

import pytest

from upsolve.errors import JudgeError
from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.analysis import SEVERITY, Source, severity, source_of
from upsolve.verify.analysis import analyst as analyst_module
from upsolve.verify.analysis import linters as lint_module
from upsolve.verify.analysis.analyst import ANALYSES, TOOLS, Analyst, analyse
from upsolve.verify.analysis.linters import complexity, lint, security, types
from upsolve.verify.analysis.syntax import dead, syntax
from upsolve.verify.judge.outcomes import unscored
from upsolve.verify.limits import ANALYSES as NAMES
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.pool.pool import verify

TASK = Task("t", "", (TestCase(TestKind.CALL, "f(1)", "1"),), "f")
UNUSED = "import os\n\n\ndef f(x):\n    return x\n"
EVIL = "def f(x):\n    return eval(x)\n"
BROKEN = "def f(x:\n    return x\n"
ACCENTS = "def f():\n    é, x = 1, eval('2')\n    return é + x\n"


def brief(findings):
    return [(f.kind, f.rule, f.line, f.column, f.end_line, f.end_column) for f in findings]


def places(findings):
    return [(f.kind, f.rule, f.line, f.end_line, f.value) for f in findings]


def source(code, language="python", **known):
    return Source(source_of(TASK, Attempt("t", code), unscored(TASK, Attempt("t", code), "")).code, language, **known)


def test_lint_has_kinds_and_spans():
    unused, evil, clean = lint([source(UNUSED), source(EVIL), source("def f(x):\n    return x\n")])
    assert brief(unused) == [("lint", "F401", 1, 8, 1, 10)]
    assert brief(evil) == [("security", "S307", 2, 12, 2, 19)]
    assert clean == ()


def test_lint_of_code_that_does_not_parse_has_the_place():
    kinds = {(f.kind, f.line) for f in lint([source(BROKEN)])[0]}
    assert ("syntax", 2) in kinds or ("syntax", 1) in kinds


@pytest.mark.parametrize(
    ("code", "analysis", "rule"),
    [
        (UNUSED.replace("import os", "import os  # noqa"), lint, "F401"),
        ("# ruff: noqa\n" + EVIL, lint, "S307"),
        (EVIL.replace("(x)\n", "(x)  # nosec\n", 2), security, "B307"),
        ("x: int = 'a'  # type: ignore\n", types, "invalid-assignment"),
        ("x: int = 'a'  # ty: ignore[invalid-assignment]\n", types, "invalid-assignment"),
        ("# type: ignore\nx: int = 'a'\n", types, "invalid-assignment"),
        ("import os  # noqa: V104\n", dead, "import"),
        ("def f(x):  # lizard forgives\n    return x\n", complexity, "cyclomatic"),
    ],
)
def test_suppressions_do_not_count(code, analysis, rule):
    assert rule in [f.rule for f in analysis([source(code)])[0]]


@pytest.mark.parametrize(("analysis", "rule"), [(lint, "S307"), (security, "B307")])
def test_columns_count_characters(analysis, rule):
    (found,) = (f for f in analysis([source(ACCENTS)])[0] if f.rule == rule)
    assert (found.line, found.column, found.end_line, found.end_column) == (2, 15, 2, 24)


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ("F821", "error"),
        ("F401", "warning"),
        ("E501", "convention"),
        ("E711", "warning"),
        ("S307", "security"),
        ("SIM102", "convention"),
        ("X1", "warning"),
    ],
)
def test_severity_is_that_of_the_longest_prefix(rule, wanted):
    assert severity(rule) == wanted


def test_every_rule_group_has_a_severity():
    assert set(lint_module.RULES) <= SEVERITY.keys()


def test_types_have_rules_and_spans():
    wrong = "def f(x: int) -> str:\n    é = 'é'; return x\n"
    found, clean, broken = types([source(wrong), source("def f(x: int) -> int:\n    return x\n"), source(BROKEN)])
    assert brief(found) == [("types", "invalid-explicit-return", 2, 21, 2, 22)]
    assert clean == () and broken == ()


def test_a_program_cannot_import_its_neighbours():
    first, _ = types([source("import other\nfrom importlib import import_module\n"), source("x = 1\n")])
    assert [f.rule for f in first] == ["import-not-found"]


def test_syntax_says_how_far_python_is_valid():
    good = "def g(x):\n    return x\n"
    whole, half, old = syntax([source(good), source(good + "def f(x)\n    return x\n"), source("print 'a'\n")])
    assert whole == ()
    # the colon is missing after the 33rd of 46 characters: 24 of g, its two line ends counted, and "def f(x)"
    assert (half[0].rule, half[0].line, half[0].column, half[0].value) == (
        "SyntaxError",
        3,
        9,
        pytest.approx(32 / 45, abs=0.01),
    )
    assert [f.rule for f in old] == ["SyntaxError"] and old[0].value == 0.0


def test_syntax_of_other_languages():
    good, broken = syntax(
        [source("int main(){ return 0; }", "cpp"), source("int f(){ return 0; }\nint main(){ return 0 }\n", "cpp")]
    )
    assert good == ()
    assert [(f.rule, f.line) for f in broken] == [("missing", 2)] and broken[0].value == pytest.approx(41 / 43, abs=0.01)


def test_a_grammar_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tree_sitter_perl", None)
    with pytest.raises(JudgeError, match=r"tree_sitter_perl: pip install 'upsolve\[grammars\]'"):
        syntax([source("print 1;", "perl")])


def test_security_leaves_what_does_not_parse():
    assert security([source(BROKEN), source("assert True\n")]) == [(), ()]


def test_complexity_of_functions_and_of_the_code_outside():
    code = "def f(x):\n    if x and x > 1:\n        return 1\n    return 0\n\n\nfor i in range(3):\n    print(i)\n"
    # f: 1 + if + and; outside: 1 + for
    assert [(f.message.split(":")[0], f.line, f.end_line, f.value) for f in complexity([source(code)])[0]] == [
        ("f", 1, 4, 3),
        ("<module>", 1, 8, 2),
    ]
    (main,) = complexity([source("int main(){ for(;;) if (1) break; }", "cpp")])[0]
    assert main.value == 3
    assert complexity([source("print(1)\n"), source("cat(1)", "r")]) == [(), ()]


def test_dead_code_leaves_what_the_tests_use():
    code = "import os\ndef f(x):\n    return x\n    print(x)\ndef g():\n    pass\n"
    used = dead([source(code, names=frozenset({"f"}))])[0]
    assert places(used) == [
        ("dead", "import", 1, 1, 0.9),
        ("dead", "unreachable_code", 4, 4, 1.0),
        ("dead", "function", 5, 6, 0.6),
    ]
    assert ("dead", "function", 2, 4, 0.6) in places(dead([source(code)])[0])


def test_unexecuted_statements_are_those_that_no_test_ran():
    code = (
        "def f(x):\n    '''doc'''\n    global y\n    z: int\n    if x > 5:\n        y = 1\n        return y\n"
        "    elif x > 3:\n        return 4\n    while True:\n        return (\n            x\n        )\n"
    )
    (verdict,) = verify([(TASK, Attempt("t", code))], JudgeSettings(analyses=("dead",), lines=True))
    assert verdict.status is Status.PASSED
    assert [f for f in places(verdict.findings) if f[0] == "unexecuted"] == [("unexecuted", "statement", 6, 9, None)]


def test_without_executed_lines_nothing_is_called_unexecuted():
    assert dead([source("def f(x):\n    return x\n", names=frozenset("fx"))]) == [()]


def test_the_names_are_the_same_everywhere():
    assert set(ANALYSES) == NAMES == TOOLS.keys()


def test_the_pool_adds_them_to_verdicts():
    pairs = [(TASK, Attempt("t", UNUSED)), (TASK, Attempt("t", "def f(x):\n    return 1 / 0\n"))]
    first, second = verify(pairs, JudgeSettings(analyses=("lint",)))
    assert [f.rule for f in first.findings] == ["F401"]
    assert [f.kind for f in second.findings] == ["traceback"]
    assert first.analyses == second.analyses and first.analyses[0].startswith("lint: ruff ")
    with pytest.raises(ValueError, match="analyses must be of complexity, dead, lint"):
        JudgeSettings(analyses=("style",))


def test_what_two_analyses_find_is_there_once():
    (verdict,) = verify([(TASK, Attempt("t", EVIL))], JudgeSettings(analyses=("lint", "security")))
    assert [f.rule for f in verdict.findings if f.kind == "security"] == ["B307"]
    (verdict,) = verify([(TASK, Attempt("t", BROKEN))], JudgeSettings(analyses=("lint", "syntax")))
    assert [(f.rule, f.value) for f in verdict.findings if f.rule != "error"] == [
        ("SyntaxError", pytest.approx(5 / 21, abs=1e-6))
    ]


HOSTILE = {
    "deep": "def f(x):\n return " + "-" * 20000 + "x",
    "parentheses": "def f(x):\n    return " + "(" * 3000 + "x" + ")" * 3000,
    "surrogate": "x = '\ud800'\n",
    "null": "\x00",
    "empty": "",
    "long": "x = [" + "1," * 30_000 + "]\n",
    "lines": "x = 1\n" * 3000,
    "ends": "x = 1\r\ny = 2\r\x0cz = (\n",
    "bidi": "# \u202e\nx = 1\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_code_that_breaks_an_analysis_breaks_nothing_else(name):
    pairs = [(TASK, Attempt("t", HOSTILE[name])), (TASK, Attempt("t", UNUSED))]
    verdicts = [unscored(task, attempt, "") for task, attempt in pairs]
    hostile, honest = analyse(pairs, verdicts, sorted(NAMES))
    assert hostile.analyses == honest.analyses and len(hostile.analyses) == 6
    assert {f.rule for f in honest.findings} == {"F401", "import", "cyclomatic"}
    assert all(f.line >= 1 and f.column >= 1 for f in hostile.findings)
    assert max(Counter(f.kind for f in hostile.findings).values(), default=0) <= 201
    if name == "lines":
        assert "the first 200 of 3000 findings are kept" in [f.message for f in hostile.findings]
    if name == "deep":
        assert {f.rule for f in hostile.findings if f.kind == "analysis"} >= {"lint", "types"}


def test_an_analysis_that_hangs_or_dies_is_left_out_for_that_attempt(monkeypatch):
    one = Analyst()
    assert one.findings("lint", [source("x = 1\n")]) == [()]
    first = one.process
    subprocess.run(["kill", "-STOP", str(first.pid)], check=True)
    with monkeypatch.context() as patch:
        patch.setattr(analyst_module, "SECONDS", 0.5)
        assert one.ask("lint", [source("x = 1\n")]) == "no answer within 0.5 s"
    assert first.poll() is not None
    assert one.findings("lint", [source(UNUSED)])[0][0].rule == "F401"
    one.process.kill()
    assert one.findings("lint", [source(UNUSED)])[0][0].rule == "F401"
    one.close()


def test_an_analysis_that_does_not_work_at_all_is_our_fault(monkeypatch):
    monkeypatch.setattr(lint_module, "RULES", ("NOSUCHRULE",))
    with pytest.raises(JudgeError, match="ruff"):
        lint([source(UNUSED)])
    one = Analyst()
    monkeypatch.setattr(one, "ask", lambda *_: "FileNotFoundError: ruff")
    with pytest.raises(JudgeError, match="analysis lint: FileNotFoundError: ruff"):
        one.findings("lint", [source(UNUSED)])
