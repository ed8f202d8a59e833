"""Findings of Ruff: where, what kind, how severe."""

import pytest

from upsolve.errors import JudgeError
from upsolve.types import Attempt, Task, TestCase, TestKind
from upsolve.verify.analysis import lint as lint_module
from upsolve.verify.analysis.lint import SEVERITY, lint, severity
from upsolve.verify.limits import Judging
from upsolve.verify.pool import verify

UNUSED = "import os\n\n\ndef f(x):\n    return x\n"
EVIL = "def f(x):\n    return eval(x)\n"
BROKEN = "def f(x:\n    return x\n"


def brief(findings):
    return [(f.kind, f.rule, f.line, f.column, f.end_line, f.end_column) for f in findings]


def test_findings_have_kinds_and_spans():
    unused, evil, clean = lint([UNUSED, EVIL, "def f(x):\n    return x\n"])
    assert brief(unused) == [("lint", "F401", 1, 8, 1, 10)]
    assert brief(evil) == [("security", "S307", 2, 12, 2, 19)]
    assert clean == ()


def test_code_that_does_not_parse_has_the_place():
    kinds = {(f.kind, f.line) for f in lint([BROKEN])[0]}
    assert ("syntax", 2) in kinds or ("syntax", 1) in kinds


def test_suppressions_do_not_count():
    assert brief(lint([UNUSED.replace("import os", "import os  # noqa")])[0])[0][:3] == ("lint", "F401", 1)
    assert [f.rule for f in lint(["# ruff: noqa\n" + EVIL])[0]] == ["S307"]


def test_columns_count_characters():
    (found,) = (f for f in lint(["def f():\n    é, x = 1, eval('2')\n    return é + x\n"])[0] if f.rule == "S307")
    assert (found.line, found.column, found.end_column) == (2, 15, 24)


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


def test_the_pool_adds_them_to_verdicts():
    task = Task("t", "", (TestCase(TestKind.CALL, "f(1)", "1"),), "f")
    pairs = [(task, Attempt("t", UNUSED)), (task, Attempt("t", "def f(x):\n    return 1 / 0\n"))]
    first, second = verify(pairs, Judging(analyses=("lint",)))
    assert [f.rule for f in first.findings] == ["F401"]
    assert [f.kind for f in second.findings] == ["traceback"]
    with pytest.raises(ValueError, match="analyses are lint"):
        Judging(analyses=("style",))


def test_a_ruff_that_breaks_is_our_fault(monkeypatch):
    monkeypatch.setattr(lint_module, "RULES", ("NOSUCHRULE",))
    with pytest.raises(JudgeError, match="ruff"):
        lint([UNUSED])
