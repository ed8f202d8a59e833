"""Derived tasks, from small archives worked by hand; the sandbox is real."""

import json
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from upsolve.archive.split import origin_of, split_tasks
from upsolve.archive.store import Archive, open_archive
from upsolve.cli.main import app
from upsolve.derive.derivation import JUDGE, Derivation, Origin, judged_as
from upsolve.derive.deriving import DeriveSettings, derive, derive_groups
from upsolve.derive.programs import token_distance, visible_feedback
from upsolve.errors import ArchiveError, ConfigError
from upsolve.types import Attempt, Group, Status, Task, TestCase, TestKind, Verdict
from upsolve.verify.limits import JudgeSettings

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
    assert len(derive(archive, tmp_path / "all", replace(how, limit=0), settings=FAST)) == 5


def test_mistakes_are_named():
    for kind, options, message in (
        ("repiar", {}, "did you mean repair"),
        ("repair", {"mots": 1}, "did you mean most"),
        ("repair", {"most": 0}, "at least 1"),
    ):
        with pytest.raises(ConfigError, match=message):
            derive(open_archive("embedded"), "never", DeriveSettings(kind, options), settings=FAST)


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
