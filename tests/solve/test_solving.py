"""From samples to answers: real sandbox, candidates in a fixed order."""

import io
import json
import sqlite3
import sys
from dataclasses import replace

import pytest

from upsolve.cli import training  # noqa: F401  adds the command
from upsolve.cli.app import app
from upsolve.config import SampleConfig
from upsolve.errors import ConfigError, SourceError
from upsolve.solve import outputs
from upsolve.solve.asked import (
    AnswerFile,
    answer_row,
    asked_task,
    database_input,
    database_inputs,
    read_tests,
    schema_of,
    tasks_at,
    without_inputs,
)
from upsolve.solve.choose import Candidates, agreement, choose
from upsolve.solve.outputs import Outputs, form_of, outputs_of, run_inputs
from upsolve.solve.solving import SolveSettings, inputs_of, solve, why_stop
from upsolve.types import Attempt, Task, TestCase, TestKind
from upsolve.verify.limits import JudgeSettings, Limits

FAST = JudgeSettings(Limits(wall_seconds=5, cpu_seconds=2), workers=1)
CALL, STDIO = TestKind.CALL, TestKind.STDIO
DOUBLE = Task("double", "Double x.", (TestCase(CALL, "f(2)", "4"), TestCase(CALL, "f(5)", "10", hidden=True)), "f")


class Fixed:
    """A sampler with fixed candidates: the next ones of a task at each call."""

    def __init__(self, **codes):
        self.codes, self.calls = codes, []

    def __call__(self, tasks, *, config):
        self.calls.append((config.temperature, config.samples, config.seed))
        for task in tasks:
            for _ in range(config.samples):
                code, logp = self.codes[task.task_id].pop(0)
                yield Attempt(task.task_id, code, task.language, behavior_logp=logp, tokens=10)


def answers(tasks, sampler, samples=8, **settings):
    found = solve(tasks, sampler, SampleConfig(samples=samples), how=SolveSettings(**settings), settings=FAST)
    return {answer.task.task_id: answer for answer in found}


def test_a_greedy_candidate_that_passes_the_visible_tests_is_the_answer():
    sampler = Fixed(double=[("def f(x): return 4", -9.0)])
    answer = answers([DOUBLE], sampler)["double"]
    assert (answer.attempt.code, answer.stopped, answer.tokens) == ("def f(x): return 4", "tests", 10), (
        "hidden tests are not read"
    )
    assert sampler.calls == [(0.0, 1, 0)]


def test_more_are_sampled_until_one_passes():
    wrong, right = "def f(x): return x", "def f(x): return 2 * x"
    sampler = Fixed(double=[(wrong, -1.0), (wrong, -1.0), (right, -5.0)])
    answer = answers([DOUBLE], sampler)["double"]
    assert (answer.attempt.code, answer.choice.decided_by, answer.stopped) == (right, "tests", "tests")
    assert [calls[:2] for calls in sampler.calls] == [(0.0, 1), (0.8, 2)] and len({seed for *_, seed in sampler.calls}) == 2


def test_a_scorer_decides_between_equal_candidates_without_hidden_tests():
    def size(pairs):
        assert not any(test.hidden for task, _ in pairs for test in task.tests)
        return [{"size": float(len(attempt.code))} for _, attempt in pairs]

    codes = ["def f(x): return x", "def f(x): return 0 * x", "def f(x): return x - 0"]
    answer = answers([DOUBLE], Fixed(double=[(code, -1.0) for code in codes]), 3, kinds=("tests", "score"), scorer=size)[
        "double"
    ]
    assert answer.choice.scores == {"tests": (0.0, 0.0, 0.0), "score": (18.0, 22.0, 22.0)}
    assert (answer.attempt.code, answer.choice.decided_by) == (codes[1], "score")


def test_agreement_decides_without_tests_and_budgets_end_sampling():
    task = Task("area", "CREATE TABLE a (x INT)\nAll x.", language="sql")
    rows = [("select x + 1 from a", -1.0), ("select x from a", -1.5), ("select a.x from a", -1.5), *[("selec x", -0.1)] * 5]
    whole = answers([task], Fixed(area=[*rows]))["area"]
    assert (whole.attempt.code, whole.choice.decided_by, whole.stopped) == ("select x from a", "runs", "samples")
    assert whole.choice.scores["runs"] == (1, 1, 1, 0, 0, 0, 0, 0) and len({*whole.choice.scores["agreement"]}) == 3
    assert answers([task], Fixed(area=[*rows]), tokens=30)["area"].stopped == "tokens"
    assert answers([task], Fixed(area=[*rows]), seconds=1e-9)["area"].stopped == "seconds"
    same = answers([task], Fixed(area=[rows[1], rows[2], rows[1]]))["area"]
    assert (same.stopped, len(same.candidates.attempts)) == ("agreement", 3)
    assert len(answers([task], Fixed(area=[rows[1]] * 8), stop_early=False)["area"].candidates.attempts) == 8


def test_outputs_are_equal_texts_where_values_are_equal():
    sql = Task("q", "", setup="CREATE TABLE a (x INT, y REAL); INSERT INTO a VALUES (2, 0.5), (1, 3)", language="sql")
    inputs = (TestCase(STDIO, ""),)
    queries = ["select y, x from a", "select y * 1.0, x from a order by x", "select x from b"]
    found = outputs_of([sql] * 3, [Attempt("q", code, "sql") for code in queries], [inputs] * 3, FAST)
    assert found[0] == found[1] == Outputs(("[0.5, 2]\n[3, 1]",)) and found[2] == Outputs((None,))
    mixed = (TestCase(CALL, "f({1, 2})"), TestCase(CALL, "f(0)"), TestCase(STDIO, "7\n"))
    code = "def f(x): return {'b': 1 / len(x)}\nif __name__ == '__main__': print(input(), ' ')"
    (python,) = outputs_of([DOUBLE], [Attempt("double", code)], [mixed], FAST)
    assert python.texts == ("{'b': 0.5}", None, "7") and python.ran == 2
    (bash,) = outputs_of(
        [DOUBLE],
        [Attempt("double", "read x; echo $((x + 1)); exit $x", "bash")],
        [(TestCase(STDIO, "0\n"), TestCase(STDIO, "3\n"))],
        FAST,
    )
    assert bash.texts == ("1", None)


@pytest.mark.parametrize(
    ("compare", "bodies", "shares"),
    [
        ("lines", ["1", "1.0", "True", "2"], [3 / 4] * 3 + [1 / 4]),
        ("lines", ["{'a': {1, 2}, 'b': 0}", "{'b': 0, 'a': {2, 1}}"], [1.0, 1.0]),
        ("lines", ["{*'abcd'}", "{*'dcba'}", "[*'abcd']"], [2 / 3, 2 / 3, 1 / 3]),
        ("lines", ["0.3", "0.1 + 0.2"], [0.5, 0.5]),
        ("floats", ["[0.3, 1e-13]", "[0.1 + 0.2, 0]", "[0.31, 0]"], [2 / 3, 2 / 3, 1 / 3]),
        ("lines", ["object()", "iter([])", "1"], [0.0, 0.0, 1.0]),
    ],
)
def test_values_agree_where_the_judge_takes_them_for_equal(compare, bodies, shares):
    tests = (TestCase(TestKind.CALL, "f()", ""),)
    task, attempts = (
        Task("t", "", tests, "f", compare=compare),
        [Attempt("t", f"def f():\n    return {body}") for body in bodies],
    )
    found = outputs_of([task] * len(bodies), attempts, [tests] * len(bodies), FAST)
    candidates = Candidates(task, tuple(attempts), (None,) * len(bodies), tuple(found))
    assert agreement(candidates) == pytest.approx(shares)
    reason = why_stop(candidates, choose(candidates, ("agreement",)), SolveSettings(), seconds=0, is_last=False)
    assert reason == ("agreement" if len(bodies) > 2 and shares[-1] == 1 == shares[0] else "")


@pytest.mark.parametrize(
    ("text", "compare", "form"),
    [
        ("a  b\nc", "tokens", "a b c"),
        ("0.30000000000000004 x 007 2.0", "floats:1e-6", "0.3 x 007 2"),
        ("1.0  2", "lines", "1.0  2"),
    ],
)
def test_outputs_have_the_form_by_which_a_task_compares_them(text, compare, form):
    assert form_of(text, TestKind.STDIO, compare) == form


def test_inputs_are_those_of_visible_tests_or_of_the_schema():
    assert inputs_of(DOUBLE) == DOUBLE.tests[:1]
    assert len(inputs_of(Task("q", "CREATE TABLE a (x INT)", (TestCase(STDIO, "", "", hidden=True),), language="sql"))) == 3
    assert inputs_of(Task("p", "Write f.")) == ()


@pytest.mark.usefixtures("importers")
def test_tasks_and_questions(tmp_path):
    (tmp_path / "tasks.jsonl").write_text(json.dumps({"kind": "task", "task_id": "a", "prompt": "Add."}) + "\n")
    assert [task.task_id for task in tasks_at(str(tmp_path / "tasks.jsonl"))] == ["a"]
    with pytest.raises(SourceError, match="no such file"):
        tasks_at(str(tmp_path / "none.jsonl"))
    with pytest.raises(ConfigError, match="prompt is empty"):
        asked_task(" \n")
    text = '{"input": "f(1)", "expected": "2"}\n\n{"input": "1", "expected": "2"}\n'
    assert read_tests(text, "--tests") == [TestCase(CALL, "f(1)", "2"), TestCase(STDIO, "1", "2")]
    with pytest.raises(ConfigError, match="--tests, line 4"):
        read_tests(text + "[1]\n", "--tests")
    (tmp_path / "tests.jsonl").write_text(text)
    sqlite3.connect(tmp_path / "a.db").execute("create table a (x int)").connection.close()
    assert "CREATE TABLE a" in database_input(tmp_path / "a.db").input
    sqlite3.connect(tmp_path / "empty.db").close()
    (tmp_path / "empty.db").touch()
    files = {"tests.jsonl": "not a database", "none.db": "no such file", ".": "no such file", "empty.db": "no table"}
    for name, reason in files.items():
        with pytest.raises(ConfigError, match=f"--database .*: .*{reason}"):
            database_input(tmp_path / name)


def test_a_schema_is_read_from_the_database(tmp_path):
    """Also with a name that a URI would split, and without SQLite's own tables."""
    with sqlite3.connect(tmp_path / "a #1?.db") as connection:
        connection.executescript("create table a (x integer primary key autoincrement); create view b as select x from a")
        connection.execute("insert into a values (7)")
    place = tmp_path / "a #1?.db"
    assert schema_of(place) == "CREATE TABLE a (x integer primary key autoincrement);\nCREATE VIEW b as select x from a;"
    assert 'INSERT INTO "a" VALUES(7)' in database_input(place).input


def test_an_interrupted_command_resumes(tmp_path):
    place = tmp_path / "answers.jsonl"
    AnswerFile(place, "one").add({"task_id": "a", "code": "x"})
    with place.open("a") as file:
        file.write('{"task_id": "b", "co')
    again = AnswerFile(place, "one")
    assert again.answered == {"a": {"task_id": "a", "code": "x"}}
    again.add({"task_id": "b", "code": "y"})
    assert [*AnswerFile(place, "one").answered] == ["a", "b"]
    with pytest.raises(ConfigError, match="other tasks or settings"):
        AnswerFile(place, "two")


@pytest.mark.parametrize("text", ["# Notes\n", "[1]\n", '{"task_id": "a"}\n'])
def test_a_file_of_something_else_is_left_as_it_is(tmp_path, text):
    (tmp_path / "mine").write_text(text)
    with pytest.raises(ConfigError, match="name another file"):
        AnswerFile(tmp_path / "mine", "one")
    assert (tmp_path / "mine").read_text() == text


def test_all_settings_reach_the_workers():
    """A worker runs with the settings that were given, where the task states no limits."""
    seen = []
    settings = JudgeSettings(FAST.limits, workers=1, isolation="best_effort", task_limits=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outputs, "run_code", lambda _task, _attempt, tests, given, **_: seen.append(given) or [None] * len(tests))
        run_inputs(DOUBLE, Attempt("double", "x"), DOUBLE.tests, settings)
    assert seen == [settings]


def test_a_language_that_the_machine_lacks_is_no_evidence():
    task = Task("a", "", (TestCase(TestKind.STDIO, "1", "1"),), language="klingon")
    assert run_inputs(task, Attempt("a", "x", "klingon"), task.tests, FAST) == Outputs((None,))


@pytest.mark.usefixtures("importers")
def test_the_command_answers_with_a_real_model(tiny_model, tmp_path, capsys):
    (tmp_path / "tasks.jsonl").write_text(
        "".join(json.dumps({"kind": "task", "task_id": name, "prompt": "Add."}) + "\n" for name in "ab")
    )
    words = ["solve", str(tmp_path / "tasks.jsonl"), "--model", tiny_model, "--samples", "3", "--set", "sample.max_tokens=8"]
    words += ["--out", str(tmp_path / "answers.jsonl"), "--json"]
    printed = []
    for same in ([], ["--set", "verify.workers=1"]):
        app([*words, *same], standalone_mode=False)
        printed.append(json.loads(capsys.readouterr().out))
    assert printed[0] == printed[1] and [row["candidates"] for row in printed[0]["answers"]] == [3, 3]
    for other in ("model.prompt.system=Be brief.", "verify.wall_seconds=1"):
        with pytest.raises(ConfigError, match="other tasks or settings"):
            app([*words, "--set", other], standalone_mode=False)


@pytest.mark.usefixtures("importers")
def test_the_command_chooses_by_the_score_of_a_program(tmp_path, monkeypatch, capsys):
    """Of the two programs that pass the visible test, the longer one has the larger score; the longest of all fails."""
    short, long, wrong = "def f(x): return 2 * x", "def f(x): return x + x + 0", "def f(x): return 'a long and wrong answer'"
    monkeypatch.setattr(
        "upsolve.policy.engines.sampler", lambda *_: Fixed(double=[(code, -1.0) for code in (wrong, short, long)])
    )
    row = {"kind": "task", "task_id": "double", "prompt": "Double x.", "entry_point": "f"}
    row["tests"] = [
        {"kind": "call", "input": "f(2)", "expected": "4"},
        {"kind": "call", "input": "f(5)", "expected": "0", "hidden": True},
    ]
    (tmp_path / "tasks.jsonl").write_text(json.dumps(row) + "\n")
    program = tmp_path / "size.py"
    program.write_text("import json, sys\nfor line in sys.stdin: print(len(json.loads(line)['code']))\n")
    words = ["solve", str(tmp_path / "tasks.jsonl"), "--samples", "3", "--choose", "tests,score", "--no-stop-early", "--json"]
    app([*words, "--score", f"{sys.executable} {program}"], standalone_mode=False)
    (answer,) = json.loads(capsys.readouterr().out)["answers"]
    assert (answer["code"], answer["decided_by"], answer["candidates"]) == (long, "tests", 3)
    assert answer["evidence"] == {"tests": 1.0, "score": len(long)}
    for wrong_words in (words, [*words[:4], "--score", "cat"]):
        with pytest.raises(ConfigError, match="need each other"):
            app(wrong_words, standalone_mode=False)


@pytest.mark.usefixtures("importers")
def test_a_prompt_shows_the_tables_of_the_database(tmp_path, monkeypatch, capsys):
    """Without --schema; a kind of evidence about which nothing is known is null."""
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("create table hill (height int)")
    seen = []

    def draw(tasks, **_):
        seen.append(tasks[0].prompt)
        yield Attempt(tasks[0].task_id, "select count(*) from hill", "sql")

    monkeypatch.setattr("upsolve.policy.engines.sampler", lambda *_: draw)
    words = ["solve", "-", "--language", "sql", "--database", str(tmp_path / "a.db"), "--samples", "1"]
    monkeypatch.setattr("sys.stdin", io.StringIO("How many hills?"))
    app([*words, "--json"], standalone_mode=False)
    assert seen == ["CREATE TABLE hill (height int);\nHow many hills?"]
    (answer,) = json.loads(capsys.readouterr().out)["answers"]
    assert answer["evidence"] == {"tests": None, "runs": 1.0, "agreement": 1.0, "likelihood": None}
    monkeypatch.setattr("sys.stdin", io.StringIO("How many hills?"))
    app(words, standalone_mode=False)
    printed = capsys.readouterr()
    assert printed.out == "select count(*) from hill\n"
    assert printed.err.splitlines()[-1] == "1 candidate; tests unknown, runs 1, agreement 1, likelihood unknown"


def test_settings_in_python_are_checked_before_sampling():
    for wrong, message in (
        ({"kinds": ("test",)}, "kinds: .*did you mean tests"),
        ({"parents": "utc"}, "parents: no parent 'utc'"),
    ):
        with pytest.raises(ConfigError, match=message):
            SolveSettings(**wrong)
    with pytest.raises(ConfigError, match=r"open_archive\('embedded'\).tasks"):
        next(solve("embedded", Fixed()))


def test_tasks_without_an_input_are_counted():
    """A hidden test is no input; a schema in the prompt or in the setup is one."""
    hidden = replace(DOUBLE, tests=DOUBLE.tests[1:])
    query, made = Task("q", "Count.", language="sql"), Task("m", "Count.", setup="create table a (x int);", language="sql")
    assert without_inputs([DOUBLE, made], {}) == "" == without_inputs([query], {"q": [TestCase(STDIO, "", "")]})
    assert without_inputs([DOUBLE, hidden, query, made], {}).startswith("2 of 4 tasks")
    assert without_inputs([hidden], {}).endswith("add --tests")
    assert without_inputs([query], {}).endswith("add --schema, --database or --tests")


def test_progress_counts_candidates_while_they_are_sampled():
    seen = []
    sampler = Fixed(double=[("def f(x): return x", -1.0), ("def f(x): return 4", -1.0), ("", -1.0)])
    [*solve([DOUBLE], sampler, SampleConfig(samples=8), settings=FAST, progress=lambda *at: seen.append(at))]
    assert seen == [("candidates", 1, 8), ("candidates", 2, 8), ("candidates", 3, 8), ("solve", 1, 1)]


def test_a_prompt_for_a_query_is_compared_by_rows():
    """The tests of a query are databases and rows, however the script of the database ends."""
    tests = read_tests('{"input": "insert into t values (1)", "expected": "[1]"}\n', "--tests", queries=True)
    task = asked_task("How many rows?", language="sql", schema="create table t (a int);", tests=tests)
    assert (task.compare, [test.kind for test in task.tests]) == ("rows", [STDIO])
    assert asked_task("Add.").compare == "lines"


@pytest.mark.usefixtures("importers")
def test_options_without_effect_are_refused(tmp_path):
    """Options of a prompt have no effect on tasks of a file, and a database has none on tasks that ask for programs."""
    (tmp_path / "tasks.jsonl").write_text(json.dumps({"kind": "task", "task_id": "a", "prompt": "Add."}) + "\n")
    (tmp_path / "tests.jsonl").write_text('{"input": "f(1)", "expected": "2"}\n')
    sqlite3.connect(tmp_path / "a.db").execute("create table a (x int)").connection.close()
    given = {"--tests": tmp_path / "tests.jsonl", "--schema": tmp_path / "tests.jsonl", "--language": "sql"}
    for option, value in [*given.items(), ("--database", tmp_path / "a.db")]:
        with pytest.raises(ConfigError, match=f"{option} .*has no effect"):
            app(["solve", str(tmp_path / "tasks.jsonl"), option, str(value)], standalone_mode=False)
    query = Task("q", "Count.", language="sql")
    assert [*database_inputs([DOUBLE, query], tmp_path / "a.db")] == ["q"]


def test_answers_to_another_version_of_a_task_are_not_resumed(tmp_path):
    """A visible test that has changed since decides another answer."""
    place = tmp_path / "answers.jsonl"
    sampler = Fixed(double=[("def f(x): return 2 * x", -1.0)])
    (answer,) = solve([DOUBLE], sampler, SampleConfig(samples=1), settings=FAST)
    AnswerFile(place, "one").add(answer_row(answer))
    assert AnswerFile(place, "one").unanswered([DOUBLE, replace(DOUBLE, task_id="other")]) == [replace(DOUBLE, task_id="other")]
    with pytest.raises(ConfigError, match="another version of the task double"):
        AnswerFile(place, "one").unanswered([replace(DOUBLE, tests=(TestCase(CALL, "f(2)", "5"),))])
