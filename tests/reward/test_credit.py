"""Credit assignment on real tokens. A token is written as its text; ``texts`` returns the tokens chosen."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upsolve.config import RewardConfig
from upsolve.policy.model import load_codec
from upsolve.policy.prompt import completion_text
from upsolve.reward.code import TOKEN, characters, left_at, line_starts, tokens
from upsolve.reward.components import COMPONENTS
from upsolve.reward.credit import CREDITS, Credit, distribute, error_findings, executed, last, signed, token_rewards
from upsolve.reward.formula import reward
from upsolve.reward.judged import Judged, Part
from upsolve.types import Attempt, Finding, Group, Status, Task, TestCase, TestKind, Verdict
from upsolve.verify.analysis import Source
from upsolve.verify.analysis.syntax import syntax as find_syntax
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.pool.pool import verify

TASK = Task("t", "", (TestCase(TestKind.CALL, "f(1)", "2"), TestCase(TestKind.CALL, "g(f(2))", "3")), "f")
ALL = ("complexity: x", "lint: x", "security: x", "syntax: x", "types: x")


@pytest.fixture(scope="module")
def codec():
    return load_codec("smollm2-135m")


def texts(code, offsets, chosen):
    text = completion_text(code)
    return [text[a:b] for (a, b), yes in zip(offsets, chosen, strict=True) if yes]


def at(codec, code, *spans, whole_lines=False):
    """The tokens under findings given as (line, column, end_line, end_column)."""
    offsets = codec.offsets(code)
    marked = characters(code, [Finding("x", "", "", *span) for span in spans], whole_lines=whole_lines)
    return texts(code, offsets, tokens(code, marked, offsets))


def laid(code, part, *findings, status=Status.FAILED, offsets, analyses=ALL, config=None, **verdict):
    found = Verdict("a", status, findings=findings, analyses=analyses, **verdict)
    judged = Judged(TASK, Attempt("t", code), found)
    return token_rewards(judged, [Part(*part)], offsets, config or RewardConfig())


def test_a_line_holds_its_indentation_and_its_break(codec):
    code = "def f(x):\n    y = x\n\n    return y"
    # "\n   " is one token, and is the next line's; a break alone ends its own line
    assert at(codec, code, (2, 1), whole_lines=True) == ["\n   ", " y", " =", " x"]
    assert at(codec, code, (1, 1), whole_lines=True) == ["def", " f", "(", "x", "):"]
    assert at(codec, code, (4, 1), whole_lines=True) == ["\n\n   ", " return", " y"]
    assert at(codec, "a = 1\nb = 2", (1, 1), whole_lines=True) == ["a", " =", " ", "1", "\n"]


def test_columns_are_characters_not_bytes(codec):
    code = "s = 'é→🙂'; eval(s)"
    assert at(codec, code, (1, 12, 1, 16)) == [" eval"]
    assert "'" not in "".join(at(codec, code, (1, 6, 1, 7))) and "é" in "".join(at(codec, code, (1, 6, 1, 7)))
    rare = "x = '𒀀'\ny"  # a letter of several tokens: each has the span of the whole letter
    offsets = codec.offsets(rare)
    assert len({span for span in offsets if span == (5, 6)}) == 1 and offsets.count((5, 6)) > 1
    assert len(at(codec, rare, (1, 6, 1, 7))) == offsets.count((5, 6))


def test_carriage_returns_tabs_and_fences(codec):
    assert at(codec, "a = 1\r\nb = 2\r\nc", (2, 1), whole_lines=True) == ["b", " =", " ", "2", "\r", "\n"]
    assert at(codec, "if x:\n\ty = 10\n\tz", (2, 2, 2, 3)) == ["y"]
    fenced = "s = '''\n```\n'''\nt = 1"
    assert at(codec, fenced, (2, 1), whole_lines=True) == ["```", "\n"]
    assert at(codec, fenced, (4, 1), whole_lines=True) == ["t", " =", " ", "1"]  # and not the closing fence


def test_a_token_across_a_line_end_gets_credit_for_its_visible_characters():
    code = "ab\ncd\n  ef"
    odd = [(0, 1), (1, 4), (4, 6), (6, 8), (8, 10), (10, 14)]  # a, b\nc, d\n, blanks, ef, the fence
    assert line_starts(code) == [0, 3, 6, 10]
    first, second, third = (tokens(code, characters(code, [Finding("x", "", "", n)], whole_lines=True), odd) for n in (1, 2, 3))
    assert first.tolist() == [True, True, False, False, False, False]
    assert second.tolist() == [False, True, True, False, False, False]
    assert third.tolist() == [False, False, False, True, True, False]


def test_what_lies_behind_the_code_is_its_last_character():
    code = "ab\n\n"
    marked = characters(code, [Finding("x", "", "", 3, 1)], whole_lines=False)
    assert tokens(code, marked, [(0, 1), (1, 2), (2, 6)]).tolist() == [False, True, False]
    assert characters("", [Finding("x", "", "", 1)], whole_lines=True).tolist() == []


def test_components_use_credits_that_a_recipe_can_name():
    assert {component.credit for component in COMPONENTS.values()} <= {*CREDITS.values()}


HALF = Credit(lambda given: np.where(given.code_R, given.part.value / 2, 0.0), sums=False)
SHORT = Credit(lambda _given: np.zeros(1))


def test_a_credit_of_ones_own(codec):
    config = RewardConfig(credit={"outcome": HALF})
    assert config.credit == {"outcome": f"{__name__}:HALF"}  # by name, so that a run can be resumed
    assert RewardConfig.model_validate(config.model_dump(mode="json")) == config
    offsets = codec.offsets(CODE)
    got = laid(CODE, ("outcome", -0.6, 1.0), offsets=offsets, config=config).rewards_R
    assert np.unique(got).tolist() == [-0.3, 0] and got[-2:].tolist() == [0, 0]
    with pytest.raises(ValueError, match=r"credit of outcome: \(1,\) rewards for"):
        laid(CODE, ("outcome", -0.6, 1.0), offsets=offsets, config=RewardConfig(credit={"outcome": SHORT}))


def test_small_functions_by_hand():
    code, one = np.array([True, True, True, True, False]), np.array([False, True, True, False, False])
    nothing = np.zeros(5, dtype=bool)
    assert last(-0.6, 3).tolist() == [0, 0, -0.6]
    assert distribute(-1.0, one, code).tolist() == [0, -0.5, -0.5, 0, 0]
    assert distribute(-1.0, nothing, code).tolist() == [-0.25, -0.25, -0.25, -0.25, 0]
    assert distribute(-1.0, nothing, nothing).tolist() == [0, 0, 0, 0, -1]
    assert signed(one, code).tolist() == [1, -1, -1, 1, 0]


CODE = "import os\ndef f(x):\n    y = eval(x)\n    return 1"


def test_lint_is_shared_by_cost(codec):
    offsets = codec.offsets(CODE)
    error, style = Finding("lint", "F821", "", 4, 12, 4, 13), Finding("lint", "E501", "", 1, 8, 1, 10)  # 0.3 and 0.02
    got = laid(CODE, ("lint", -0.32, 0.5), error, style, offsets=offsets).rewards_R
    by_text = dict(zip(texts(CODE, offsets, got < 0), got[got < 0], strict=True))
    assert by_text == pytest.approx({" os": -0.01, "1": -0.15})  # 0.5 * 0.02 and 0.5 * 0.3
    broken = laid(CODE, ("lint", -1.0, 1.0), Finding("syntax", "x", "", 1, 8, 1, 10), offsets=offsets).rewards_R
    assert texts(CODE, offsets, broken < 0) == [" os"] and broken.sum() == -1
    hard = Finding("complexity", "cyclomatic", "", 2, end_line=4, value=12.0)
    got = laid(CODE, ("complexity", -0.2, 1.0), hard, offsets=offsets).rewards_R
    assert texts(CODE, offsets, got < 0)[:2] == ["def", " f"] and got.sum() == pytest.approx(-0.2)


def test_dense_rewards_are_those_of_the_paper(codec):
    pytest.importorskip("tree_sitter", reason="needs the extra analysis")
    offsets = codec.offsets(CODE)
    line = laid(CODE, ("clean_lines", 0.5, 0.1), Finding("security", "S307", "", 3, 9, 3, 16), offsets=offsets).rewards_R
    assert texts(CODE, offsets, line < 0) == ["\n   ", " y", " =", " eval", "(", "x", ")"]
    assert np.unique(line).tolist() == [-0.1, 0, 0.1] and line[-2:].tolist() == [0, 0]  # nothing on the fence
    each = laid(CODE, ("functional", -0.3, 0.7), offsets=offsets).rewards_R
    assert np.unique(each).tolist() == pytest.approx([-0.21, 0])
    broken = "def f(x):\n    y = (x\n    return y"
    (found,) = [one for one in find_syntax([Source(broken)])[0] if one.value is not None]  # the bracket was never closed
    offsets = codec.offsets(broken)
    got = laid(broken, ("syntax", 0.0, 0.1), found, offsets=offsets, status=Status.COMPILE_ERROR).rewards_R
    assert "".join(texts(broken, offsets, got > 0)) == "def f(x):\n    y =" and got[-2:].tolist() == [0, 0]
    assert "".join(texts(broken, offsets, got < 0)) == " (x\n    return y"
    accents = "s = 'é🙂é' + )"  # the place of an error counts characters, too
    found = find_syntax([Source(accents)])[0][0]
    got = laid(accents, ("syntax", 0.0, 1.0), found, offsets=codec.offsets(accents), status=Status.COMPILE_ERROR).rewards_R
    assert texts(accents, codec.offsets(accents), got < 0) == [" )"]


def test_tokens_to_blame_for_a_status(codec):
    code = "def g(x):\n    return x\n\ndef f(x):\n    return x / 0\n\nassert g(1) == 2\n"
    offsets = codec.offsets(code)

    def blamed(status, *findings, **verdict):
        config = RewardConfig(credit={"outcome": "blame"})
        got = laid(code, ("outcome", -0.6, 2.0), *findings, status=status, offsets=offsets, config=config, **verdict).rewards_R
        assert got.sum() == pytest.approx(-1.2)
        return "".join(texts(code, offsets, got != 0)).strip()

    whole = completion_text(code).removesuffix("\n```")
    assert blamed(Status.RUNTIME_ERROR, error_line=5) == "return x / 0"
    assert blamed(Status.COMPILE_ERROR, Finding("syntax", "x", "", 5, 12, 5, 13)) == "x"
    assert blamed(Status.RUNTIME_ERROR, error_line=7) == "def g(x):\n    return x"  # its own assert calls g
    first, second = (Status.FAILED, Status.FAILED), (Status.PASSED, Status.TIMEOUT)
    assert blamed(Status.FAILED, outcomes=first) == "def f(x):\n    return x / 0"  # f(1)
    assert (
        blamed(Status.TIMEOUT, outcomes=second) == "def g(x):\n    return x\ndef f(x):\n    return x / 0"
    )  # g(f(2)) calls both
    assert blamed(Status.TIMEOUT) == whole  # nothing is known: all of it
    passed = Judged(TASK, Attempt("t", code), Verdict("a", Status.PASSED, error_line=5))
    assert error_findings(passed) == []


def test_lines_that_never_ran_are_masked(codec):
    pytest.importorskip("tree_sitter", reason="needs the extra analysis")
    code = "def f(n):\n    if n > 5:\n        x = 3\n        return x\n\n    # why\n    return 2"
    judged = Judged(TASK, Attempt("t", code), Verdict("a", Status.PASSED, executed_lines=(1, 2, 7)))
    offsets = codec.offsets(code)
    assert "".join(texts(code, offsets, ~executed(judged, offsets))) == "\n        x = 3\n        return x"
    unknown = Judged(TASK, Attempt("t", code), Verdict("a", Status.PASSED))
    assert executed(unknown, offsets).all()
    masked = token_rewards(judged, [Part("outcome", 1.0, 1.0)], offsets, RewardConfig(mask_unexecuted=True))
    assert masked.mask_R.sum() == len(offsets) - 8 and masked.rewards_R[-1] == 1.0
    assert token_rewards(judged, [], offsets, RewardConfig()).mask_R.all()
    with pytest.raises(ValueError, match="no tokens"):
        token_rewards(judged, [], [], RewardConfig())


def test_outcome_and_dense_terms_add_up(codec):
    code = "def f(n):\n    y = 2\n    return n"
    offsets = codec.offsets(code)
    parts = [Part("outcome", -0.1, 1.0), Part("clean_lines", 1 / 3, 0.1), Part("hacked", -1.0, 1.0)]
    found = Verdict("a", Status.FAILED, findings=(Finding("lint", "F841", "", 2, 5, 2, 6),), analyses=ALL)
    got = token_rewards(Judged(TASK, Attempt("t", code), found), parts, offsets, RewardConfig()).rewards_R
    # 14 tokens of code share -1, five of them are on line 2; the fence has the outcome
    count = len(offsets) - 2
    assert got[0] == pytest.approx(0.1 - 1 / count) and got[-1] == pytest.approx(-0.1) and got[-2] == 0
    assert got.sum() == pytest.approx(-0.1 - 1 + 0.1 * (count - 2 * sum(got < -1 / count - 0.05)))


def test_the_judge_and_the_tokens_agree(codec):
    pytest.importorskip("ty", reason="needs the extra analysis")
    code = "def f(x):\n    s = 'é🙂'; y = nope\n    return s, y"
    attempt = Attempt("t", code)
    (verdict,) = verify([(TASK, attempt)], JudgeSettings(analyses=("lint", "syntax", "types"), lines=True))
    (types,) = [one for one in verdict.findings if one.kind == "types"]
    offsets = codec.offsets(code)
    got = laid(code, ("types", -0.1, 1.0), types, offsets=offsets).rewards_R
    assert "".join(texts(code, offsets, got < 0)).strip() == "nope"
    config = RewardConfig(preset="dense", weights={"dataflow": 0}, mask_unexecuted=True, credit={"functional": "blame"})
    done = reward(Group(TASK, (attempt,), (verdict,)), config)
    result = token_rewards(Judged(TASK, attempt, verdict), done.parts[0], offsets, config)
    assert "".join(texts(code, offsets, ~result.mask_R)).strip() == "return s, y"
    # syntax +0.1 everywhere; lint +-0.1; functional -0.3 * 0.7 on the line that raised, alone
    line_2 = tokens(code, characters(code, [Finding("x", "", "", 2)], whole_lines=True), offsets)
    assert result.rewards_R[line_2] == pytest.approx(0.1 - 0.1 - 0.21 / line_2.sum())
    assert result.rewards_R[~line_2][:-2] == pytest.approx(0.2) and result.rewards_R[-2:].tolist() == [0, 0]


def test_gated_terms_count_where_the_local_ones_are_not_negative(codec):
    code = "def f(x):\n    import os\n    return x"
    offsets, unused = codec.offsets(code), Finding("lint", "F401", "", 2, 12)
    found = Verdict("a", Status.PASSED, 2, 2, findings=(unused,), analyses=ALL)
    parts = [
        Part("clean_lines", 1 / 3, 0.1),
        Part("syntax", 1.0, 0.1),
        Part("functional", 1.0, 0.7),
        Part("dataflow", 0.5, 0.1),
    ]
    judged = Judged(TASK, Attempt("t", code), found)
    line_2 = tokens(code, characters(code, [unused], whole_lines=True), offsets)
    config = RewardConfig(preset="dense", gated=("functional", "dataflow"))
    plain, gated = (token_rewards(judged, parts, offsets, one).rewards_R for one in (RewardConfig(preset="dense"), config))
    # lint -0.1 and syntax +0.1 add up to 0 on line 2, and lint alone closes it
    assert plain[line_2] == pytest.approx(0.75) and gated[line_2] == pytest.approx(0.0)
    assert gated[~line_2].tolist() == plain[~line_2].tolist() and gated[0] == pytest.approx(0.95)


programs = st.lists(st.sampled_from(["x = 1", "  y", "é🙂", "\t", "", "'''", "```", "\r", "def f(a):"]), max_size=8).map(
    "\n".join
)
findings = st.builds(
    Finding,
    st.sampled_from(["lint", "security", "syntax", "types", "complexity", "traceback"]),
    st.sampled_from(["F821", "E501"]),
    st.just(""),
    st.integers(1, 9),
    st.integers(1, 12),
    st.one_of(st.none(), st.integers(1, 9)),
    st.one_of(st.none(), st.integers(1, 12)),
    st.one_of(st.none(), st.floats(0, 30)),
)


@given(code=programs, found=st.lists(findings, max_size=4), name=st.sampled_from(["lint", "types", "complexity", "outcome"]))
def test_shared_values_sum_to_the_value(codec, code, found, name):
    offsets = codec.offsets(code)
    for way in (way for way, credit in CREDITS.items() if credit.sums):
        config = RewardConfig(weights={name: 1}, credit={name: way})
        got = laid(code, (name, -0.7, 1.0), *found, offsets=offsets, config=config, error_line=1)
        assert got.rewards_R.sum() == pytest.approx(-0.7)
        fence_R = np.array([a >= len(code.rstrip()) for a, _ in offsets])
        assert way == "last" or fence_R.all() or not got.rewards_R[fence_R].any()


QUERY, NEAR, FAR = "SELECT a FROM t WHERE b > 5 LIMIT 1", "SELECT a FROM t WHERE b >= 5 LIMIT 1", "SELECT max(c) FROM u"


@pytest.mark.parametrize(
    ("code", "other", "window", "left"),
    [
        ("a < b + 1", "a > b + 1", 0, ["<"]),
        ("a < b + 1", "a > b + 1", 1, ["<", "b"]),
        ("a b d", "a b c d", 0, ["d"]),  # only the other has c: the token behind the gap
        ("a x b", "a b", 0, ["x"]),
        ("if x:\n  y\nz", "if x:\n  y\n  z", 0, ["\n"]),
        ("a b", "a b c", 0, []),  # left at its end
        ("a b", "a b", 2, []),
    ],
)
def test_where_a_program_leaves_another(code, other, window, left):
    marked = left_at(code, other, window)
    spans = [match for match in TOKEN.finditer(code) if marked[match.start()]]
    assert [match[0] for match in spans] == left
    assert marked[len(code)] == (code == "a b" and other == "a b c")


def test_divergence_is_credited_where_the_nearest_passed_program_is_left(codec):
    config = RewardConfig(credit={"outcome": "divergence"}, window=0)
    offsets = codec.offsets(QUERY)

    def credited(value, *passed):
        judged = Judged(TASK, Attempt("t", QUERY, "sql"), Verdict("a", Status.FAILED), passed=passed)
        rewards = token_rewards(judged, [Part("outcome", value, 1.0)], offsets, config).rewards_R
        return texts(QUERY, offsets, rewards != 0), rewards.sum()

    assert credited(-1.0, FAR, QUERY.replace("b >", "c <")) == ([" b", " >"], -1)
    assert credited(-1.0, QUERY.replace(" LIMIT 1", "")) == ([" LIMIT", " ", "1"], -1)
    assert credited(-1.0, NEAR) == (["5"], -1), "the token behind the missing ="
    assert credited(-1.0, QUERY + " OFFSET 2") == (["\n"], -1), "the fence that closes too early"
    everything = credited(-1.0)[0]
    assert "".join(everything) == QUERY and credited(0.5, NEAR)[0] == everything, "no passed program, or no negative value"
