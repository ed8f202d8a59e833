"""Rounds: parents by values worked by hand, and a scripted sampler that corrects its programs."""

import json
import math

import pytest

from upsolve.cli import training  # noqa: F401  adds the command
from upsolve.cli.app import app
from upsolve.config import SampleConfig
from upsolve.errors import ConfigError
from upsolve.plugins import RecordError
from upsolve.policy.prompt import feedback, messages
from upsolve.policy.request import requests
from upsolve.solve.choose import Candidates
from upsolve.solve.outputs import Outputs
from upsolve.solve.search import PARENTS, Parents, Tree, corrections, uct_value
from upsolve.solve.solving import SolveSettings, solve
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict
from upsolve.verify.limits import JudgeSettings, Limits

FAST = JudgeSettings(Limits(wall_seconds=5, cpu_seconds=2), workers=1)
TESTS = (TestCase(TestKind.CALL, "f(2)", "4"), TestCase(TestKind.CALL, "f(3)", "6"))
DOUBLE = Task("double", "Double x.", (*TESTS, TestCase(TestKind.CALL, "f(77)", "154", hidden=True)), "f")
CONSTANT, PART, RIGHT = "def f(x): return 1", "def f(x): return 4", "def f(x): return 2 * x"


def tree(*rows, best=0):
    """A tree of (parent, visible tests passed of 2 or None, program)."""
    attempts = tuple(Attempt("t", row[2] if len(row) > 2 else str(number)) for number, row in enumerate(rows))
    verdicts = tuple(
        None if row[1] is None else Verdict(one.attempt_id, Status.PASSED if row[1] == 2 else Status.FAILED, row[1], 2)
        for one, row in zip(attempts, rows, strict=True)
    )
    parents = tuple(row[0] for row in rows)
    return Tree(Candidates(Task("t", ""), attempts, verdicts, (Outputs(),) * len(rows), parents), best)


def parents(way, given, count):
    return PARENTS[way].choose(given, count)


def test_none_and_refine():
    given = tree((None, 0), (None, 1), best=1)
    assert parents("none", given, 2) == [None, None] and parents("refine", given, 2) == [1, 1]
    assert parents("refine", tree((None, None)), 2) == [None, None], "nothing is known of it"


def test_scatter_takes_distinct_failed_programs_in_turn():
    """Programs a, a, b, c, d: a occurs twice, b passes, c has one correction, d."""
    given = tree((None, 0, "a"), (None, 0, "a"), (None, 2, "b"), (None, 1, "c"), (3, 0, "d"))
    assert given.failed == [0, 3, 4]
    assert parents("scatter", given, 4) == [0, 4, 3, 0], "the corrected one comes last"
    assert parents("scatter", tree((None, 2)), 2) == [None, None]


def test_uct_by_hand():
    """Two leaves, scores 0.5 and 0, N = 2: 0.5 + sqrt(ln 2) = 1.333 > 0.833.

    Each choice is a visit: N = 3, n = 2: 0.5 + sqrt(ln 3 / 2) = 1.241 > 1.048; N = 4, n = 3: 1.1798 > 1.1774; N = 5, n = 4: 1.134 < 1.269.
    """
    assert uct_value(0.5, 1, 2) == pytest.approx(0.5 + math.sqrt(math.log(2)))
    assert uct_value(0.5, 3, 4) == pytest.approx(1.1798, abs=1e-4) and uct_value(0, 1, 4, 2.0) == pytest.approx(
        2.3548, abs=1e-4
    )
    assert parents("uct", tree((None, 1), (None, 0)), 4) == [0, 0, 0, 1]


def test_uct_goes_down_to_a_leaf_by_the_mean_of_what_is_below():
    """0 (score 0.5) has the children 2 (1) and 3 (0): mean 0.5, n = 3; 1 has score 0.5, n = 1. N = 4.

    Root: 0.5 + sqrt(ln 4 / 3) = 1.180 < 0.5 + sqrt(ln 4) = 1.677: 1. Then N = 5, n = 2: 1 has 1.397, 0 has 1.232: 1. Then N = 6, n = 3:
    1 has 1.273, as 0 has, which is first; below 0: N = 3, child 2 has 1 + sqrt(ln 3) > sqrt(ln 3): 2.
    """
    given = tree((None, 1), (None, 1), (0, 2), (0, 0))
    assert parents("uct", given, 3) == [1, 1, 2]
    assert parents("uct", tree((None, None)), 2) == [None, None]


def test_requests_show_the_parent_and_its_verdict():
    given = tree((None, 0), (None, 1), best=1)
    asked = [*requests([Task("t", "Double x.")], SampleConfig(samples=2))]
    found = corrections(given, "refine", asked)
    assert [parent for _, parent in found] == [1, 1] and [one.seed for one, _ in found] == [one.seed for one in asked]
    assert found[0][0].turns[0].attempt.code == "1" and found[0][0].turns[0].verdict.passed == 1
    assert [one.turns for one, _ in corrections(given, "none", asked)] == [(), ()]


@pytest.mark.parametrize("chosen", [[0], [0, 7], [0, -1]])
def test_parents_of_ones_own_are_checked(chosen):
    own = Parents(lambda _tree, _count: chosen, "mine")
    with pytest.raises(RecordError, match="expected 2 indices of candidates or None"):
        corrections(tree((None, 0), (None, 1)), own, [*requests([Task("t", "")], SampleConfig(samples=2))])


def test_feedback_names_the_first_visible_test_that_fails():
    program = Task(
        "sum", "Sum.", (TestCase(TestKind.STDIO, "1 2\n", "3\n"), TestCase(TestKind.STDIO, "5 5\n", "10\n", hidden=True))
    )
    wrong = Verdict("", Status.FAILED, 0, 1, (Status.FAILED,), error_message="test 1: line 1: '1', expected '3'")
    assert feedback(wrong, program) == (
        "The program gives a wrong answer: test 1: line 1: '1', expected '3'\n0 of 1 tests pass. The first test that fails:\n"
        "Input:\n1 2\nOutput:\n3\n\nWrite the whole program again, corrected."
    )
    hidden = Verdict("", Status.FAILED, 1, 2, (Status.PASSED, Status.FAILED), error_message="hidden test 2: wrong output")
    assert feedback(hidden, program) == feedback(hidden) and "5 5" not in feedback(hidden, program)
    named = Verdict("", Status.FAILED, 0, 2, (Status.FAILED, Status.UNSCORED), error_message="test 1: f(2) gave 1, expected 4")
    assert feedback(named, DOUBLE) == feedback(named)


class Script:
    """A sampler with fixed candidates for samples and for corrections; it keeps the prompts of the latter."""

    def __init__(self, samples, corrections):
        self.samples, self.corrections, self.chats = samples, corrections, []

    def __call__(self, tasks, *, config):
        for task in tasks:
            for _ in range(config.samples):
                yield Attempt(task.task_id, self.samples.pop(0), tokens=10)

    def sample_requests(self, asked, *, config, author="", on_done=None):
        del config, author, on_done
        for one in reversed(asked):
            self.chats.append(messages(one.task, turns=one.turns))
            yield one.part, Attempt(code=self.corrections[one.part], tokens=10, **one.origin)


def answer(script, samples=3, **settings):
    (found,) = solve([DOUBLE], script, SampleConfig(samples=samples), how=SolveSettings(**settings), settings=FAST)
    return found


def test_a_round_corrects_the_best_candidate_by_visible_tests_alone():
    script = Script([CONSTANT, PART, CONSTANT], [CONSTANT, RIGHT, CONSTANT])
    found = answer(script, rounds=2)
    assert (found.attempt.code, found.stopped, found.tokens) == (RIGHT, "tests", 60)
    assert found.candidates.parents == (None, None, None, 1, 1, 1), "PART passes f(2)"
    assert found.attempt.parent_id == Attempt("double", PART).attempt_id
    said = script.chats[0]
    assert said[1] == {"role": "assistant", "content": f"```python\n{PART}\n```"}
    assert said[2]["content"].startswith("The program gives a wrong answer: test 2: f(3) gave 4, expected 6\n1 of 2 tests pass")
    assert not any("77" in message["content"] for chat in script.chats for message in chat)


def test_rounds_end_by_budgets_and_by_number():
    assert answer(Script([CONSTANT] * 3, []), rounds=2, tokens=30).stopped == "tokens"
    scattered = answer(Script([CONSTANT, PART, CONSTANT], [CONSTANT] * 3), rounds=2, parents="scatter")
    assert (scattered.stopped, scattered.candidates.parents[3:]) == ("samples", (0, 1, 0))
    plain = answer(Script([CONSTANT] * 6, []), rounds=2, parents="none")
    assert plain.candidates.parents == (None,) * 6 and plain.attempt.parent_id == ""


def test_a_sampler_of_tasks_alone_has_rounds_without_parents():
    script = Script([CONSTANT] * 6, [])

    def plain(tasks, *, config):
        return script(tasks, config=config)

    with pytest.raises(ConfigError, match="parents refine: the engine samples tasks alone"):
        answer(plain, rounds=2)
    assert len(script.samples) == 6 and answer(plain, rounds=2, parents="none").candidates.parents == (None,) * 6


@pytest.mark.usefixtures("importers")
def test_the_command_searches_with_a_real_model_and_resumes(tiny_model, tmp_path, capsys):
    task = {"kind": "task", "task_id": "a", "prompt": "Add.", "tests": [{"kind": "call", "input": "f(1)", "expected": "2"}]}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(task) + "\n")
    words = ["solve", str(tmp_path / "tasks.jsonl"), "--model", tiny_model, "--samples", "2", "--set", "sample.max_tokens=8"]
    words += ["--rounds", "3", "--parents", "uct", "--out", str(tmp_path / "answers.jsonl"), "--json"]
    printed = []
    for _ in range(2):
        app(words, standalone_mode=False)
        printed.append(json.loads(capsys.readouterr().out))
    assert printed[0] == printed[1] and printed[0]["answers"][0]["candidates"] == 6
    with pytest.raises(ConfigError, match="--parents uct has no effect with one round"):
        app([*words[:8], "--parents", "uct"], standalone_mode=False)
    with pytest.raises(ConfigError, match="--parents: no parent 'utc'; did you mean uct"):
        app([*words[:8], "--rounds", "2", "--parents", "utc"], standalone_mode=False)
