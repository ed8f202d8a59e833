"""One sample chosen of those of an evaluation: scripted attempts in the real sandbox, worked by hand."""

import json
import math
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from upsolve.cli import comparing  # noqa: F401  adds the command
from upsolve.cli.app import app
from upsolve.config import EvalConfig, load_recipe
from upsolve.config.running import KINDS
from upsolve.errors import ConfigError
from upsolve.evaluate.capability import capability
from upsolve.evaluate.choice import Drawn, choices_from
from upsolve.evaluate.comparison import choice_gain, choice_line
from upsolve.evaluate.runs import load_sweep, save_sweep
from upsolve.evaluate.scores import Choices, Evaluation, Sweep, TaskChoice, TaskScore, pooled
from upsolve.report.tables import capability_table, choice_table
from upsolve.solve.solving import verdict_on_shown
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.pool.pool import verify

FAST = JudgeSettings(Limits(wall_seconds=5, cpu_seconds=2), workers=1)
DOUBLE = Task(
    "double", "Double x.", (TestCase(TestKind.CALL, "f(2)", "4"), TestCase(TestKind.CALL, "f(5)", "10", hidden=True)), "f"
)
LAST = Task(
    "last",
    "The last item.",
    (TestCase(TestKind.CALL, "f([1, 2])", "2"), TestCase(TestKind.CALL, "f([3])", "3", hidden=True)),
    "f",
)
ADD, SQUARE, TWICE, WRONG = (f"def f(x): return {body}" for body in ("x + 2", "x ** 2", "2 * x", "7"))
END, FIRST, FAILS = "def f(x): return x[-1]", "def f(x): return x[0]", "def f(x): return x[9]"


def drawn(task, temperature, *codes):
    """Samples of ten tokens with their verdicts on all tests; a code is followed by its log-probability."""
    attempts = [Attempt(task.task_id, code, behavior_logp=logp, tokens=10) for code, logp in codes]
    return Drawn(temperature, attempts, verify([(task, attempt) for attempt in attempts], FAST), 2.0)


def choices(tasks, *parts, kinds=KINDS):
    return choices_from(tasks, parts, kinds, settings=FAST)


def together(*parts):
    """The samples of several tasks at one temperature."""
    attempts, verdicts = ([one for part in parts for one in getattr(part, name)] for name in ("attempts", "verdicts"))
    return Drawn(parts[0].temperature, attempts, verdicts, 2.0)


def test_a_choice_by_hand():
    """Hidden tests and their inputs are no evidence: of three programs that pass f(2) == 4, the likeliest is chosen."""
    told = []
    greedy = together(drawn(DOUBLE, 0.0, (WRONG, -1.0)), drawn(LAST, 0.0, (END, -2.0)))
    warm = together(
        drawn(DOUBLE, 0.8, (ADD, -3.0), (WRONG, -1.0), (TWICE, -2.0), (SQUARE, -9.0)),
        drawn(LAST, 0.8, (FIRST, -1.0), (END, -2.0), (FAILS, -1.0), (END, -2.0)),
    )
    found = choices_from([DOUBLE, LAST], [greedy, warm], KINDS, settings=FAST, progress=lambda *what: told.append(what))
    assert (found.kinds, found.temperature, found.samples, found.sample_seconds) == (KINDS, 0.8, 5, 4.0)
    # the greedy sample of `double` fails f(2); of two more, x + 2 passes it, sampling stops, and f(5) == 10 fails
    double = TaskChoice("double", 5, 50, False, True, True, False, 3, 30, decided_by="tests", inputs=1)
    last = TaskChoice("last", 5, 50, True, True, True, True, 1, 10, decided_by="tests", inputs=1)
    assert found.tasks == (double, last)
    assert told == [("choose", 2, 2)] and found.choose_seconds > 0


def test_stored_outcomes_of_visible_tests_are_not_judged_again(monkeypatch):
    asked = []
    monkeypatch.setattr("upsolve.solve.solving.verify", lambda pairs, how: asked.extend(pairs) or verify(pairs, how))
    greedy, warm = drawn(DOUBLE, 0.0, (WRONG, -1.0)), drawn(DOUBLE, 0.8, (ADD, -3.0), (TWICE, -2.0))
    (found,) = choices([DOUBLE], greedy, warm).tasks
    assert (found.chosen, found.decided_by, asked) == (True, "tests", [])
    untold = replace(warm, verdicts=[replace(one, outcomes=()) for one in warm.verdicts])
    assert choices([DOUBLE], greedy, untold).tasks == (found,) and [one.code for _, one in asked] == [ADD, TWICE]


def test_a_verdict_on_the_visible_tests_of_that_on_all():
    shown, hidden = DOUBLE.tests
    task = replace(DOUBLE, tests=(shown, hidden, shown, shown))
    passed, failed, late, unscored = Status.PASSED, Status.FAILED, Status.TIMEOUT, Status.UNSCORED
    for outcomes, status, count in (
        ((passed, failed, passed, passed), passed, 3),
        ((passed, failed, late, failed), late, 1),
        ((late, unscored, unscored, unscored), None, 0),  # visible tests were not reached
    ):
        found = verdict_on_shown(task, Verdict("a", Status.FAILED, outcomes.count(passed), 4, outcomes))
        assert (found and (found.status, found.passed, found.total)) == (status and (status, count, 3))
    assert verdict_on_shown(replace(task, tests=(hidden,)), Verdict("a", passed, 1, 1, (passed,))) is None


def test_tests_that_all_measure_are_no_evidence():
    """Without hidden tests nothing can be run, and the likeliest sample is chosen, although another one passes."""
    task = replace(LAST, task_id="open", tests=(TestCase(TestKind.CALL, "f([1, 3])", "3"),))
    parts = drawn(task, 0.0, (END, -2.0)), drawn(task, 1.0, (END, -2.0), (FIRST, -1.0), (END, -2.0))
    found = choices([task], *parts)
    assert found.tasks == (TaskChoice("open", 4, 40, True, False, True, False, 4, 40, decided_by="likelihood", inputs=0),)


def test_queries_agree_on_databases_made_from_the_schema():
    """Three equal outputs end sampling; the likeliest query stands alone on its outputs."""
    rows = "CREATE TABLE a (x INT); INSERT INTO a VALUES (1);"
    task = Task(
        "all",
        "CREATE TABLE a (x INT)\nAll x.",
        (TestCase(TestKind.STDIO, rows, "[1]", hidden=True),),
        language="sql",
        compare="rows",
    )
    plain, same, more = "select x from a", "select a.x from a", "select x + 1 from a"
    warm = [(same, -1.5), (plain, -1.0), (more, -0.9), ("selec", -0.1)]
    parts = [
        Drawn(at, some, verify([(task, one) for one in some], FAST))
        for at, codes in ((0.0, [(plain, -1.0)]), (0.8, warm))
        for some in [[Attempt("all", code, "sql", behavior_logp=logp, tokens=10) for code, logp in codes]]
    ]
    assert choices([task], *parts).tasks == (
        TaskChoice("all", 5, 50, True, True, True, True, 3, 30, decided_by="runs", inputs=3),
    )
    alone = choices([task], parts[1], kinds=("likelihood",)).tasks[0]
    assert (alone.samples, alone.greedy, alone.chosen, alone.any) == (4, None, False, True), "without a greedy sample"


def test_a_task_whose_database_is_broken_ends_no_evaluation(caplog):
    tests = (TestCase(TestKind.STDIO, "CREATE TABEL", "[1]"), TestCase(TestKind.STDIO, "", "[1]", hidden=True))
    broken = Task("broken", "One.", tests, language="sql")
    unscored = Drawn(0.8, [Attempt("broken", "select 1", "sql")], [Verdict("", Status.UNSCORED)])
    found = choices([broken, LAST], together(unscored, drawn(LAST, 0.8, (FIRST, -1.0), (END, -2.0))))
    assert "broken: the database cannot be built" in caplog.text
    assert [(task.chosen, task.inputs) for task in found.tasks] == [(None, 0), (True, 1)]
    assert found.passed("chosen") == {"last": 1.0} and found.passed("greedy") == {}


def made(name, greedy, chosen, solved, **times):
    """Choices among nine samples of ten tokens; sampling stops early after three, with the greedy sample's outcome."""
    tasks = tuple(
        TaskChoice(f"t{i}", 9, 90, bool(g), bool(c), bool(a), bool(g), 3, 30)
        for i, (g, c, a) in enumerate(zip(greedy, chosen, solved, strict=True))
    )
    scores = tuple(TaskScore(task.task_id, "", 1, int(bool(task.greedy)), {}) for task in tasks)
    measured = Evaluation(name, "m", "x:test", 0.0, 1.0, 0, 100, scores)
    hot = replace(measured, temperature=1.0)
    return Sweep(name, (), measured, hot, hot, measured, choices=Choices(KINDS, 0.8, tasks, **times))


BASE = made("base", [1] * 4 + [0] * 16, [1] * 8 + [0] * 12, [1] * 16 + [0] * 4, sample_seconds=60.0, choose_seconds=1.0)
TRAINED = made("trained", [1] * 10 + [0] * 10, [1] * 18 + [0] * 2, [1] * 20, sample_seconds=200.0, choose_seconds=2.0)


def test_choices_stand_between_greedy_and_any():
    """4 of 20 tasks change by 1: m' = 4 / 23, S' = 3.2 + 20 (0.2 - m')^2 + 3 / 2 ((1 - m')^2 + (1 + m')^2) = 6.304."""
    low, high = (4 / 23 + sign * 2.0739 * math.sqrt(6.3043 / 23 / 22) for sign in (-1, 1))
    gain = choice_gain(BASE.choices).difference
    assert (gain.mean, gain.low, gain.high) == pytest.approx((0.2, low, high), abs=1e-3)
    line = "base: greedy 20.0 %, chosen of 9 40.0 % (+20.0 [-5.8, +40.5] points), any of 9 80.0 %"
    assert choice_line("base", BASE.choices) == line
    change = capability(BASE, TRAINED)
    assert change.choices[0] == line and "; compared with the chosen samples of base +50.0 [" in change.choices[1]
    rows = [row for row in capability_table(change).rows if row[0] == "pass@1, greedy" or "chosen" in row[0]]
    assert [row[:3] for row in rows] == [("pass@1, greedy", "20.0", "50.0"), ("pass@1, chosen of 9 samples", "40.0", "90.0")]
    table = choice_table([BASE, TRAINED])
    cells = {row[0]: row[1:] for row in table.rows}
    assert [*cells][:5] == ["greedy", "chosen", "any", "chosen - greedy, points", "chosen - chosen of base, points"]
    assert cells["chosen - chosen of base, points"][0] == "" and cells["samples a task, sampling stops early"] == ("3.0", "3.0")
    assert cells["sampled tokens"] == ("1,800", "1,800") and cells["sampled tokens, sampling stops early"] == ("600", "600")
    assert cells["time of sampling"] == ("60 s", "3 min") and cells["time of choosing"] == ("1.0 s", "2.0 s")
    assert "tests, runs, agreement, likelihood" in table.title and table.header == ("", "base, T 0.8", "trained, T 0.8")
    bare = choice_table([replace(BASE, choices=None), TRAINED])
    assert ("chosen", "–") in [row[:2] for row in bare.rows] and not any("chosen of" in row[0] for row in bare.rows)


def test_choices_are_stored_and_pooled(tmp_path):
    save_sweep(BASE, tmp_path / "base.json")
    assert load_sweep(tmp_path / "base.json").choices == BASE.choices
    save_sweep(replace(BASE, choices=None), tmp_path / "old.json")
    assert load_sweep(tmp_path / "old.json").choices is None
    other = made("base", [1], [1], [1], sample_seconds=5.0, choose_seconds=0.5)
    tasks = tuple(replace(task, task_id="else") for task in other.choices.tasks)
    scores = tuple(replace(score, task_id="else") for score in other.best.scores)
    one = replace(other.best, scores=scores)
    other = Sweep("base", (), one, one, one, one, choices=replace(other.choices, tasks=tasks, temperature=0.2))
    both = pooled([BASE, other]).choices
    assert (len(both.tasks), both.temperature, both.sample_seconds, both.choose_seconds) == (21, None, 65.0, 1.5)
    assert pooled([BASE, replace(other, choices=None)]).choices is None


def test_report_prints_one_line_a_model(tmp_path):
    def here(*words):
        found = CliRunner().invoke(app, [*map(str, words)])
        assert found.exit_code == 0, found.output
        return found.stdout

    for sweep in (BASE, TRAINED):
        save_sweep(sweep, tmp_path / f"{sweep.name}.json")
    files = [tmp_path / f"{name}.json" for name in ("base", "trained")]
    said = here("report", *files, "--out", tmp_path / "r.html")
    assert said.splitlines()[-3].startswith("base: greedy 20.0 %, chosen of 9 40.0 % (+20.0 [")
    assert "any of 9 100.0 %; compared with the chosen samples of base +50.0 [" in said.splitlines()[-2]
    assert "chosen of 9 40.0 %" in (tmp_path / "r.html").read_text() and "chosen of 9 40.0 %" in here(
        "report", *files, "--markdown"
    )
    found = json.loads(here("report", *files, "--json"))
    assert found["models"][0]["choices"]["early_samples"] == 60 and found["models"][0]["choices"]["chosen"]["mean"] == 0.4
    assert found["comparisons"][0]["chosen"]["difference"]["mean"] == 0.5


def test_kinds_of_evidence_are_checked():
    assert EvalConfig().choose == KINDS and EvalConfig(choose=()).choose == ()
    with pytest.raises(ConfigError, match=r"evaluate.choose: no evidence 'likelyhood'; did you mean likelihood"):
        load_recipe(None, ["evaluate.choose=[likelyhood]"])
    with pytest.raises(ConfigError, match=r"evaluate.choose: tests is named twice"):
        load_recipe(None, ["evaluate.choose=[tests, tests]"])
    with pytest.raises(ConfigError, match=r"evaluate.choose has no effect without a temperature above 0"):
        load_recipe(None, ["evaluate.choose=[runs]", "evaluate.temperatures=[0]"])
