"""Derived tasks, from small archives worked by hand; the sandbox is real."""

import json
import shlex
from collections import Counter
from dataclasses import replace
from itertools import chain
from pathlib import Path
from random import Random

import pytest

from upsolve.archive.split import origin_of, split_tasks
from upsolve.archive.store import Archive, open_archive
from upsolve.cli.main import app
from upsolve.derive.answers import CHECK_TEST, held_checker
from upsolve.derive.derivation import JUDGE, Derivation, Origin, judged_as
from upsolve.derive.deriving import DERIVATIONS, DeriveSettings, derive, derive_groups
from upsolve.derive.programs import line_of, visible_feedback
from upsolve.errors import ArchiveError, ConfigError
from upsolve.reward.code import token_distance
from upsolve.types import Attempt, Group, Status, Task, TestCase, TestKind, Verdict
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.pool.pool import verify

CALL, STDIO = TestKind.CALL, TestKind.STDIO
PASSED, FAILED, ERROR = Status.PASSED, Status.FAILED, Status.RUNTIME_ERROR
FAST = JudgeSettings(workers=1)
RIGHT = "def total(xs):\n    return sum(xs)"
OTHER = "def total(xs):\n    t = 0\n    for x in xs:\n        t += x\n    return t"
SET = "def total(xs):\n    return sum(set(xs))"
FIRST = "def total(xs):\n    return xs[0]"
TOTAL = Task(
    "total",
    "The sum of a list.",
    (
        TestCase(CALL, "total([1, 2])", "3"),
        TestCase(CALL, "total([4])", "4"),
        TestCase(CALL, "total([5, 5])", "10", True),
        TestCase(CALL, "total([])", "0", True),
    ),
    "total",
    extra='{"schema": "s"}',
)


def judged(task, *rows):
    """A group of programs, each with its outcomes; the first that is not passed decides."""
    attempts, verdicts = [], []
    for row in rows:
        attempt = row[0] if isinstance(row[0], Attempt) else Attempt(task.task_id, row[0], task.language)
        worst = next((one for one in row[1] if one is not PASSED), PASSED)
        attempts.append(attempt)
        message = "" if worst is PASSED else f"test: {attempt.code[-3:]}"
        count = row[1].count(PASSED)
        verdicts.append(
            Verdict(attempt.attempt_id, worst, count, len(row[1]), tuple(row[1]), "upsolve-2", error_message=message)
        )
    return Group(task, tuple(attempts), tuple(verdicts))


ALL = judged(
    TOTAL,
    (RIGHT, [PASSED] * 4),
    (OTHER, [PASSED] * 4),
    (SET, [PASSED, PASSED, FAILED, PASSED]),
    (FIRST, [FAILED, PASSED, FAILED, ERROR]),
)


def derived(kind, group=ALL, **options):
    """The derived groups with their judged answers, and the counts of what was left out."""
    portion = derive_groups([group], DeriveSettings(kind, options), FAST)
    known = {one.attempt_id: one for one in portion.verdicts}
    groups = [
        [(one.code, known[one.attempt_id].status) for one in portion.attempts if one.task_id == task.task_id]
        for task in portion.tasks
    ]
    return portion.tasks, groups, portion.rows[0]["left_out"]


def test_tokens_are_counted():
    assert token_distance("return a + b", "return a - b") == 1
    assert token_distance("def f(x):\n    return x", "def f(x):\n        return x") == 1, "an indentation"
    assert token_distance("", "a b") == 2 and token_distance("abc", "abd") == 1, "a name is one token"


def test_repair_asks_for_the_nearest_passed_program():
    tasks, groups, left_out = derived("repair")
    assert [task.task_id for task in tasks] == [
        f"total#repair-{Attempt('total', code).attempt_id[:8]}" for code in (SET, FIRST)
    ]
    assert groups == [[(RIGHT, PASSED), (SET, FAILED)], [(RIGHT, PASSED), (FIRST, FAILED)]] and not left_out
    assert all(task.tests == TOTAL.tests and task.reference == RIGHT for task in tasks)
    assert json.loads(tasks[0].extra) == {"schema": "s", "derived_from": "total", "derivation": "repair"}
    assert "passes 2 of 2 visible tests, and fails a hidden one" in tasks[0].prompt
    assert "1 of 2 tests pass. The first test that fails:\nassert total([1, 2]) == 3" in tasks[1].prompt
    assert not any(hidden in task.prompt for task in tasks for hidden in ("[5, 5]", "total([])", "upsolve"))


def test_a_passed_child_comes_before_the_nearest():
    wrong, parent = Attempt("total", SET), Attempt("total", SET).attempt_id
    child, bad = replace(Attempt("total", OTHER), parent_id=parent), replace(Attempt("total", FIRST), parent_id=parent)
    group = judged(
        TOTAL, (wrong, [PASSED, PASSED, FAILED, PASSED]), (bad, [FAILED] * 4), (child, [PASSED] * 4), (RIGHT, [PASSED] * 4)
    )
    _, groups, _ = derived("repair", group, most=1)
    assert groups == [[(OTHER, PASSED), (FIRST, FAILED), (SET, FAILED)]]


def test_feedback_says_nothing_of_hidden_tests():
    attempt = Attempt("total", SET)
    verdict = Verdict(
        attempt.attempt_id, ERROR, 1, 4, (PASSED, Status.UNSCORED, ERROR, PASSED), error_message="secret", error_line=2
    )
    assert visible_feedback(TOTAL, verdict).startswith("It passes 1 of 2 visible tests, and fails a hidden one.\n")
    seen = replace(verdict, outcomes=(PASSED, FAILED, ERROR, PASSED))
    assert visible_feedback(TOTAL, seen).startswith("The program gives a wrong answer in line 2: secret\n1 of 2 tests pass")
    assert visible_feedback(TOTAL, replace(verdict, outcomes=())).startswith("The program raises an error.\n")
    said = visible_feedback(TOTAL, replace(verdict, status=Status.COMPILE_ERROR, outcomes=()))
    assert said.startswith("The program does not compile in line 2: secret"), "no test was run"


def test_feedback_names_what_the_schema_lacks():
    task = Task("q", "CREATE TABLE t (a INT)\nHow many?", (TestCase(STDIO, "", "[1]", True),), language="sql")
    verdict = Verdict("x", ERROR, 0, 1, (ERROR,), error_type="NoSuchColumn", error_message="no such column: b")
    assert "NoSuchColumn: no such column: b.\n" in visible_feedback(task, verdict)
    assert "Misuse: misuse of" in visible_feedback(
        task, replace(verdict, error_type="Misuse", error_message="misuse of COUNT()")
    )
    for unknown in (
        visible_feedback(replace(task, prompt="How many?"), verdict),
        visible_feedback(task, replace(verdict, error_type="IntegerOverflow", error_message="b")),
    ):
        assert unknown.startswith("The program raises an error.\n"), "the schema is hidden, or rows decide"


def test_log_probabilities_of_another_prompt_are_dropped():
    attempt = Attempt(
        "a", "x", behavior_logp=-1.0, tokens=2, token_ids=(1, 2), token_logps=(-0.5, -0.5), author="m", answer="thought"
    )
    group = judged_as(TOTAL, [(attempt, PASSED), ("x", FAILED)])
    assert group.attempts == (Attempt("total", "x", author="m"),), "equal answers count once, by the first verdict"
    assert group.verdicts[0] == Verdict(group.attempts[0].attempt_id, PASSED, 1, 1, (PASSED,), JUDGE)


def test_derived_tasks_share_the_split_of_their_origin():
    tasks = [replace(TOTAL, task_id=f"t{number}", extra="") for number in range(60)]
    shares = {"train": 0.6, "dev": 0.1, "test": 0.3}
    of = {task.task_id: split for split, members in split_tasks(tasks, shares, seed=3).items() for task in members}
    children = [Origin(Group(task, (), ()), "x", Random(0), Counter()).derived(str(n), "p") for task in tasks for n in range(2)]
    again = Origin(Group(children[0], (), ()), "y", Random(0), Counter()).derived("1", "p")
    assert origin_of(again) == "t0" and again.task_id == "t0#x-0#y-1"
    for ranked in (False, True):
        parts = split_tasks([*tasks, *children, again], shares, seed=3, ranked=ranked)
        found = {task.task_id: split for split, members in parts.items() for task in members}
        assert all(found[task.task_id] == found[origin_of(task)] for task in [*children, again])
        assert ranked or {task_id: found[task_id] for task_id in of} == of
    dated = [
        replace(task, extra=json.dumps({**json.loads(task.extra or "{}"), "split": "train"})) for task in [*tasks, *children]
    ]
    dev = {task.task_id for task in split_tasks(dated, {"train": 0.5, "dev": 0.3, "test": 0.2}, seed=3, by="split")["dev"]}
    assert 0 < len(dev) < len(dated) and all((task.task_id in dev) == (origin_of(task) in dev) for task in dated)


def files(folder):
    return {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file() and file.name != "lock"}


def test_an_interrupted_derivation_continues(tmp_path, monkeypatch):
    monkeypatch.setattr("upsolve.derive.deriving.PORTION", 2)
    archive = Archive.create(tmp_path / "in")
    for number in range(5):
        name = f"t{number}"
        group = judged(replace(TOTAL, task_id=name), (RIGHT, [PASSED] * 4), (SET, [PASSED, PASSED, FAILED, PASSED]))
        archive.append(tasks=[group.task], attempts=group.attempts, verdicts=group.verdicts)
    how = DeriveSettings("repair", {}, limit=3, seed=1)
    rows = derive(archive, tmp_path / "whole", how, settings=FAST)
    assert sum(row["derived"] for row in rows) == 3 == len(Archive(tmp_path / "whole").groups())

    def stop(_stage, done, _total):
        raise KeyboardInterrupt(done)

    with pytest.raises(KeyboardInterrupt):
        derive(archive, tmp_path / "parts", how, settings=FAST, progress=stop)
    assert derive(archive, tmp_path / "parts", how, settings=FAST) == rows
    assert files(tmp_path / "parts") == files(tmp_path / "whole")
    with pytest.raises(ArchiveError, match="other settings"):
        derive(archive, tmp_path / "parts", replace(how, seed=2), settings=FAST)


def test_mistakes_are_named():
    for kind, options, message in (
        ("repiar", {}, "did you mean repair"),
        ("repair", {"mots": 1}, "did you mean most"),
        ("repair", {"most": 0}, "at least 1"),
    ):
        with pytest.raises(ConfigError, match=message):
            derive(open_archive("embedded"), "never", DeriveSettings(kind, options), settings=FAST)


def test_a_mistake_leaves_no_folder(tmp_path, monkeypatch):
    """The corrected command writes into the same folder."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="klingon"):
        derive(open_archive("embedded"), "out", DeriveSettings("translate", {"to": "klingon"}), settings=FAST)
    with pytest.raises(ArchiveError, match="read-only"):
        derive(open_archive("embedded"), "embedded", DeriveSettings("repair"), settings=FAST)
    assert not [*tmp_path.iterdir()]


def outcomes(task, *answers):
    """Statuses of answers to a derived task."""
    return [one.status for one in verify([(task, Attempt(task.task_id, text, "text")) for text in answers], FAST)]


def test_verdict_asks_whether_a_program_passes():
    tasks, groups, _ = derived("verdict")
    assert [task.prompt.count(RIGHT) + task.prompt.count(OTHER) for task in tasks] == [1, 1, 0, 0], (
        "two that pass, two that fail"
    )
    right, wrong = [("pass", PASSED), ("fail", FAILED)], [("fail", PASSED), ("pass", FAILED)]
    assert groups == [right, right, wrong, wrong] and not any("[5, 5]" in task.prompt for task in tasks)
    assert outcomes(tasks[0], "pass\n", "fail", "pass fail", "") == [PASSED, FAILED, FAILED, FAILED]
    assert derived("verdict", Group(TOTAL, (), ()))[2] == {"no attempt is judged": 1}


def test_verdict_does_not_ask_for_a_query():
    task = Task("q", "How many?", (TestCase(STDIO, "", "[1]", True),), language="sql", compare="rows")
    (asked,), _, _ = derived("verdict", judged(task, (Attempt("q", "SELECT 1", "sql"), [PASSED])))
    assert asked.prompt.startswith("How many?\n\nDoes this program pass")


def test_output_asks_for_the_value_of_a_visible_call():
    tasks, groups, _ = derived("output", most=1)
    value, other = ("3", "4") if "total([1, 2])" in tasks[0].prompt else ("4", "3")
    assert groups == [[(value, PASSED), (other, FAILED)]] and "total([5, 5])" not in tasks[0].prompt
    assert outcomes(tasks[0], f" {value}", f"{value}.0", f"sum([{value}])", "(" * 100_000) == [PASSED, FAILED, FAILED, FAILED]


def test_input_accepts_every_call_with_the_value():
    tasks, groups, _ = derived("input", most=1)
    value = 3 if "returns `3`" in tasks[0].prompt else 4
    assert [status for _, status in groups[0]] == [PASSED, FAILED]
    good = f"total([{value}, 0])"
    assert (
        outcomes(tasks[0], good, f"total([{value}, 1])", "total(3)", f"print({good})", f"{good} == {value}")
        == [PASSED] + [FAILED] * 4
    )


def test_a_test_accepts_right_programs_and_fails_a_wrong_one():
    tasks, groups, _ = derived("test", shown=9)
    task = tasks[0]
    assert groups == [[("assert total([5, 5]) == 10", PASSED), ("assert total([5, 5]) == 3", FAILED)]]
    assert "assert total([1, 2]) == 3" in task.prompt and "[5, 5]" not in task.prompt
    assert (SET in task.prompt) is not (FIRST in task.prompt), "one wrong program is shown, the other decides"
    assert (repr(SET) in task.checker) is (FIRST in task.prompt)
    good, weak = ("assert total([2, 2, 7]) == 11", "assert total([7]) == 7")
    same = (
        "assert total([1, +2]) == 3",
        "assert total([2, 2, 7]) == 12",
        "total([2, 2, 7])",
        f"{good}\n{good}",
        "import os",
        "",
    )
    assert outcomes(task, good, weak, *same) == [PASSED] + [FAILED] * 7
    assert derived("test", fails=3)[2] == {"too few attempts give wrong answers": 1}


def test_all_stored_tests_that_fail_wrong_programs_are_answers():
    _, groups, _ = derived("test", judged(TOTAL, (RIGHT, [PASSED] * 4), (FIRST, [FAILED, PASSED, FAILED, ERROR])))
    assert groups == [
        [("assert total([5, 5]) == 10", PASSED), ("assert total([]) == 0", PASSED), ("assert total([5, 5]) == 3", FAILED)]
    ]


ECHO = Task(
    "sum",
    "Add two numbers.",
    (TestCase(STDIO, "1 2\n", "3\n"), TestCase(STDIO, "2 2\n", "4\n"), TestCase(STDIO, "0 9\n", "9\n", True)),
)
ADD, FIVE = (
    "a, b = map(int, input().split())\nprint(a + b)",
    "import sys\nprint(max(3, sum(map(int, sys.stdin.read().split()))))",
)
TIMES, ENDLESS = "a, b = map(int, input().split())\nprint(a * b)", "while 1:\n    pass"
PROGRAMS = judged(
    ECHO, (ADD, [PASSED] * 3), (FIVE, [PASSED] * 3), (TIMES, [FAILED, PASSED, FAILED]), (ENDLESS, [Status.TIMEOUT] * 3)
)


def test_recorded_verdicts_hide_no_outcome_of_a_test(tmp_path):
    """An archive from a table of outcomes, judged again: the recorded outcomes are preferred, and say nothing of the tests."""
    archive = Archive.create(tmp_path / "archive")
    recorded = [Verdict(one.attempt_id, one.status, judge="recorded:table") for one in ALL.verdicts]
    contradicted = replace(recorded[2], status=PASSED)
    verdicts = [*recorded[:2], contradicted, recorded[3], *ALL.verdicts]
    archive.append(tasks=[TOTAL], attempts=ALL.attempts, verdicts=verdicts)
    assert derive(archive, tmp_path / "tests", DeriveSettings("test"), settings=FAST)[0]["derived"] == 1
    (task,) = open_archive(tmp_path / "tests").tasks()
    assert "WRONG = [" + repr(FIRST) + "]" in task.checker  # SET passed by the record, which is preferred


def test_programs_are_run_on_standard_input():
    (task,), groups, _ = derived("test", PROGRAMS, held=1, fails=1)
    assert groups[0][0] == ("Input:\n0 9\nOutput:\n9", PASSED)
    assert (
        outcomes(task, "Input:\n5 6\nOutput:\n11", "Input:\n5 6\nOutput:\n30", "5 6", "Input:\n1 2\nOutput:\n3")
        == [PASSED] + [FAILED] * 3
    )
    task = derived("input", PROGRAMS, most=1)[0][0]
    value = 3 if "write\n3" in task.prompt else 4
    assert outcomes(task, f"{value} 0", f"0 {value}\n", f"{value} 1", "x") == [PASSED, PASSED, FAILED, FAILED]
    task = derived("output", PROGRAMS, most=1)[0][0]
    assert [*map(Counter(outcomes(task, "3", "4")).get, (PASSED, FAILED))] == [1, 1]


def test_a_program_that_does_not_end_fails_the_test():
    checker = {}
    exec(
        held_checker(
            CHECK_TEST,
            {"NAME": "f", "SETUP": "", "WORDS": False, "SHOWN": [], "FAILS": 2, "RIGHT": ["def f(x): return x"], "WRONG": []},
        ),
        checker,
    )
    checker["SECONDS"] = 0.1
    checker["WRONG"] = ["def f(x):\n    while x: pass", "def f(x): raise SystemExit"]
    assert checker["check"]("", "", "assert f(1) == 1") is True and checker["check"]("", "", "assert f(1) == 2") is False
    checker["RIGHT"].append("print('loud')\ndef f(x): return float(x)")
    assert checker["check"]("", "", "assert f(1) == 1") is True, "a float near the value"


def test_what_cannot_be_derived_is_counted():
    query = replace(TOTAL, language="sql", tests=(TestCase(STDIO, "", "[1]", True),), entry_point="")
    group = judged(query, ("select 1", [PASSED]))
    assert derived("test", group)[2] == {"programs are not Python of the standard library alone": 1}
    code = replace(TOTAL, tests=(TestCase(TestKind.CODE, "assert total([])"),))
    assert derived("output", judged(code, (RIGHT, [PASSED])))[2] == {
        "tests are neither literal calls of the function nor lines of standard input": 1
    }
    hidden = replace(TOTAL, tests=TOTAL.tests[2:])
    assert derived("input", judged(hidden, (RIGHT, [PASSED] * 2)))[2] == {"all tests are hidden": 1}


def test_complete_gives_the_beginning_of_a_right_program():
    near = OTHER.replace("+=", "-=")
    group = judged(TOTAL, (OTHER, [PASSED] * 4), (FIRST, [FAILED] * 4), (near, [FAILED] * 4))
    (task,), groups, _ = derived("complete", group)
    assert "begins with these lines:\n```python\ndef total(xs):\n    t = 0\n```" in task.prompt, "up to the loop"
    assert groups == [[(OTHER, PASSED), (near, FAILED)]] and task.reference == OTHER and task.tests == TOTAL.tests


def test_faster_has_a_limit_between_slow_and_fast():
    slow = "def total(xs):\n    for _ in range(10**7): pass\n    return sum(xs)"
    group = judged(TOTAL, (RIGHT, [PASSED] * 4), (slow, [PASSED] * 4), (OTHER, [PASSED] * 4))
    times = (0.01, 1.0, 0.02)
    timed = replace(group, verdicts=tuple(replace(v, cpu_seconds=t) for v, t in zip(group.verdicts, times, strict=True)))
    (task,), groups, _ = derived("faster", timed)
    assert task.limit_seconds == 0.0125, "sqrt(1.0 * 0.01) for four tests, half of what the judge allows"
    assert "at most 10% of its time" in task.prompt
    assert groups[0][0] == (RIGHT, PASSED) and groups[0][1][0] == slow and groups[0][1][1] is not PASSED
    assert derived("faster", timed, ratio=101.0)[2] == {
        "no passed program takes 0.05 s, and 101 times as long as the fastest": 1
    }
    assert derived("faster", group)[2] == {"no processor times are stored": 1}
    right, other = (replace(timed.verdicts[place], isolation="cost") for place in (0, 2))
    costs = replace(timed, verdicts=(right, timed.verdicts[1], other))  # the slow one has the start of its process
    assert derived("faster", costs)[2] == {"no passed program takes 0.05 s, and 3 times as long as the fastest": 1}


def test_translate_turns_calls_into_lines():
    (task,), groups, _ = derived("translate", to="sh")
    assert groups == [[]] and (task.language, task.compare, task.entry_point) == ("bash", "tokens", "")
    assert [(test.input, test.expected) for test in task.tests] == [
        ("1 2\n", "3\n"),
        ("4\n", "4\n"),
        ("5 5\n", "10\n"),
        ("\n", "0\n"),
    ]
    right, wrong = (
        Attempt(task.task_id, f"t=0; for x in $(cat); do t=$((t {sign} x)); done; echo $t", "bash") for sign in "+-"
    )
    assert [one.status for one in verify([(task, right), (task, wrong)], FAST)] == [PASSED, FAILED]
    lines = {1.5: "1.5", "a b": "a b", True: None, None: None}
    assert [line_of(value) for value in lines] == [*lines.values()] and line_of(["a b"]) is line_of([[1]]) is line_of(
        "a\n"
    ) is None
    with pytest.raises(ConfigError, match="no language has this name"):
        derived("translate", to="klingon")


def test_a_judge_that_accepts_every_answer_is_left_out():
    assert derived(f"{__name__}:SAME")[2] == {"the judge accepts the wrong answer": 1}


SAME = Derivation(
    lambda origin: [judged_as(origin.derived("0", "Again."), [(RIGHT, None), (OTHER, None)])], "two right answers"
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(DERIVATIONS))
def test_reference_answers_of_the_embedded_archive_pass_and_wrong_ones_fail(kind, tmp_path):
    if kind in ("faster", "translate"):
        pytest.skip("the archive has no slow programs, and none in two languages")
    derive(open_archive("embedded"), tmp_path / "out", DeriveSettings(kind, limit=4), settings=FAST)
    groups = Archive(tmp_path / "out").groups()
    known = [[one.status is PASSED for one in group.verdicts] for group in groups]
    assert len(groups) == 4 and all(each[0] for each in known)
    fresh = iter(verify([(group.task, one) for group in groups for one in group.attempts], FAST))
    assert [[next(fresh).status is PASSED for _ in each] for each in known] == known
    tasks = {task.task_id: task for task in open_archive("embedded").tasks()}
    for group in groups:
        assert not any(test.hidden and test.input in group.task.prompt for test in tasks[origin_of(group.task)].tests)


def same_again(origin):
    yield judged_as(origin.derived("0", "Again."), [(RIGHT, None), (SET, None)])
    yield judged_as(origin.derived("1", "Wrong."), [(SET, None)])
    origin.leave("one more")


AGAIN = Derivation(same_again, "the task again")


def test_your_own_derivation_is_judged():
    tasks, groups, left_out = derived(f"{__name__}:AGAIN")
    assert groups == [[(RIGHT, PASSED), (SET, FAILED)]] and tasks[0].prompt == "Again."
    assert left_out == {"one more": 1, "the judge rejects the reference answer": 1}


def test_the_command(tmp_path, capsys):
    out = tmp_path / "out"
    app(["derive", "repair", "embedded", str(out), "--limit", "3", "--most=1", "--json"], standalone_mode=False)
    data = json.loads(capsys.readouterr().out)
    assert data["derived"] == 3 == len(Archive(out).groups()) and sum(row["derived"] for row in data["tasks"]) == 3


@pytest.mark.slow
def test_a_round_of_co_training_as_the_page_says(tmp_path, monkeypatch):
    """The commands of docs/deriving.md with a random model and twelve tasks; the added options make them small."""
    from safetensors.torch import load_file
    from tiny import write_tiny_model

    monkeypatch.chdir(tmp_path)
    model = write_tiny_model(tmp_path / "tiny", positions=8192)
    groups = [
        group
        for group in open_archive("embedded").groups()
        if {one.status is PASSED for one in group.verdicts if one} == {True, False}
    ]
    archive = Archive.create(tmp_path / "my-archive")
    for group in groups[:12]:
        archive.append(tasks=[group.task], attempts=group.attempts, verdicts=[one for one in group.verdicts if one])
    page = (Path(__file__).parents[2] / "docs" / "deriving.md").read_text(encoding="utf-8").partition("## Co-train")[2]
    commands = [shlex.split(line, comments=True)[1:] for line in page.partition("```sh\n")[2].partition("```")[0].splitlines()]
    small = {
        "sample": ["sample.samples=1", "sample.max_tokens=8"],
        "train": ["optim.max_steps=1"],
    }
    for words in commands:
        named = [model if word == "smollm2-135m" else word for word in words]
        named += ["--set", f"model.name={model}"] if words[0] == "train" and "model.name" not in " ".join(words) else []
        app([*named, *chain.from_iterable(("--set", value) for value in small.get(words[0], ()))], standalone_mode=False)
    assert [words[0] for words in commands] == ["sample", "verify", "derive", "train", "train"]
    drawn = [one for one in Archive(tmp_path / "my-archive").attempts() if one.author == model]
    assert drawn and [*Archive(tmp_path / "tests-1").tasks()]
    places = (tmp_path / "runs" / name / "model" / "model.safetensors" for name in ("coder-1", "both-1"))
    coder, both = map(load_file, places)
    assert any((coder[name] != both[name]).any() for name in coder)
