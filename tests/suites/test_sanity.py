"""Sanity of tests: hand-made tasks whose tests an empty or a constant program passes, or their own reference fails, and right ones."""

import json

import pytest

from upsolve.archive.store import Archive
from upsolve.clean.doctor import examine
from upsolve.cli.main import app
from upsolve.errors import IsolationError
from upsolve.suites import sanity
from upsolve.suites.sanity import check_sanity
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict

ADD, SAME = "def f(x):\n    return x + 1\n", "def f(x):\n    return x\n"
BASH_SUM = "read a b; echo $((a + b))\n"


def task(name, *tests, kind=TestKind.STDIO, **fields):
    return Task(name, "", tuple(TestCase(kind, *one) for one in tests), **fields)


def calls(name, *tests, **fields):
    return task(name, *tests, kind=TestKind.CALL, entry_point="f", **fields)


def code(name, *tests, **fields):
    return task(name, *((one,) for one in tests), kind=TestKind.CODE, **fields)


def rows_of(*values):
    return f"create table t (x integer); insert into t values {', '.join(f'({one})' for one in values)};"


TASKS = (
    calls("call/right", ("f(1)", "2"), ("f(2)", "3"), reference=ADD),
    calls("call/none", ("f(1)", "None"), ("f(2)", "None")),
    calls("call/wrong", ("f(1)", "2"), ("f(2)", "4"), reference=ADD),
    calls("call/no_reference", ("f(1)", "2")),
    calls("call/untrue_label", ("f(1)", "2")),
    code("code/right", "assert f(1) == 2", reference=ADD),
    code("code/loose", "assert f(1), 2", "assert f(2), 3", reference=ADD),
    code("code/caught", "try:\n    assert f(1) == 2\nexcept AssertionError:\n    pass", reference=SAME),
    code("code/class", "assert Solution().f(1) == 2", reference="class Solution:\n    def f(self, x):\n        return x + 1\n"),
    code("code/loose_class", "assert Solution().f(1)"),
    task("program/right", ("1 2\n", "3\n"), reference="print(sum(map(int, input().split())))\n"),
    task("program/agrees", ("1\n", "2\n"), compare="checker", checker="def check(input, expected, output):\n    return True\n"),
    task("bash/right", ("1 2", "3"), ("0 1", "1"), language="bash", reference=BASH_SUM),
    task("bash/silent", ("1 2", ""), language="bash"),
    task("bash/one", ("0 1", "1"), language="bash", reference=BASH_SUM),
    task("bash/wrong", ("1 2", "4"), language="bash", reference=BASH_SUM),
    task("sql/right", (rows_of(1, 2), "[2]"), language="sql", compare="rows", reference="select count(*) from t"),
    task("sql/one", (rows_of(7), "[1]"), language="sql", compare="rows", reference="select count(*) from t"),
    task("sql/wrong", (rows_of(7), "[8]"), language="sql", compare="rows", reference="select x from t"),
    task("cobol/unknown", ("1", "1"), language="cobol"),
    Task("untested", "Say something."),
)
FOUND = {
    "empty": ["bash/silent", "call/none", "code/caught", "program/agrees"],
    "constant": ["bash/one", "code/caught", "code/loose", "code/loose_class", "program/agrees", "sql/one"],
    "reference": ["bash/wrong", "call/wrong", "sql/wrong"],
    "recorded": ["call/untrue_label"],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An archive of ``TASKS`` and the result of its first check."""
    archive = Archive.create(tmp_path_factory.mktemp("sanity") / "archive")
    attempts = [Attempt("call/no_reference", ADD), Attempt("call/untrue_label", SAME), Attempt("call/right", SAME)]
    passed = [Verdict(one.attempt_id, Status.PASSED, judge="recorded:me") for one in attempts]
    archive.append(tasks=TASKS, attempts=attempts, verdicts=passed)
    return archive, check_sanity(archive)


@pytest.fixture
def counted(monkeypatch):
    """Programs that are judged."""
    programs = []

    def judged(pairs, _settings):
        for number, (one, attempt) in enumerate(pairs):
            programs.append((one.task_id, attempt.code))
            yield number, Verdict(attempt.attempt_id, Status.FAILED)

    monkeypatch.setattr(sanity, "judged", judged)
    return programs


def simple(tmp_path, count=5):
    archive = Archive.create(tmp_path / "archive")
    archive.append(tasks=[calls(f"t{number}", ("f(1)", "2")) for number in range(count)])
    return archive


def test_tests_that_pass_or_fail_the_wrong_programs_are_found(made):
    _, checked = made
    assert {program: checked.found(program) for program in FOUND} == FOUND
    assert (checked.tasks, len(checked.rows)) == (20, 19), "one is in an unknown language, and one has no tests"
    assert checked.reasons == {"cobol/unknown": "unknown language 'cobol'"}
    assert checked.lines("A") == [
        "4 tasks are passed by an empty program: bash/silent, call/none, code/caught",
        "6 tasks are passed by a constant program: bash/one, code/caught, code/loose",
        "3 tasks are failed by their own reference: bash/wrong, call/wrong, sql/wrong",
        "1 tasks are failed by an attempt that is recorded as passed: call/untrue_label",
        "1 tasks could not be checked: unknown language 'cobol'",
    ]


def test_the_doctor_reports_them_and_would_remove_tasks_that_pass_everything(made, counted):
    archive, _ = made
    found = {row.kind: (row.found, row.actions) for row in examine(archive, ["sanity"]).found}
    assert found["passed by an empty program"] == (4, {"remove": 4})
    assert found["failed by their own reference"] == (3, {"report": 3})
    assert counted == [("cobol/unknown", "")], "what has a result is not judged again"


def test_a_bounded_check_goes_on_where_the_last_one_ended(tmp_path, counted):
    archive = simple(tmp_path)
    first = check_sanity(archive, most=2)
    assert first.lines("A") == ["checked 2 of 5 tasks; `upsolve archive doctor A` checks the rest"]
    assert len(counted) == 4, "an empty and a constant program at two tasks"
    assert check_sanity(archive, most=2).left == 1
    assert check_sanity(archive, most=2).lines("A") == []
    assert sorted(name for name, _ in counted) == sorted([f"t{number}" for number in range(5)] * 2)
    check_sanity(archive)
    assert len(counted) == 10
    assert check_sanity(simple(tmp_path / "late"), seconds=-1).left == 5


def test_an_interrupted_check_loses_no_result(tmp_path, counted, monkeypatch):
    archive, judged = simple(tmp_path), sanity.judged

    def stopped(pairs, settings):
        for number, verdict in judged(pairs, settings):
            if number == 5:
                raise KeyboardInterrupt
            yield number, verdict

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(sanity, "judged", stopped)
        check_sanity(archive)
    done = {json.loads(line)["task_id"] for line in (archive.path / "sanity.jsonl").read_text().splitlines()}
    assert len(done) == 2
    counted.clear()
    assert len(check_sanity(archive).rows) == 5
    assert not done & {name for name, _ in counted}


def test_a_changed_judge_checks_again_and_a_damaged_line_is_skipped(tmp_path, counted, monkeypatch):
    archive = simple(tmp_path)
    check_sanity(archive)
    file = archive.path / "sanity.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:4]) + '{"task_id": "t')
    counted.clear()
    assert len(check_sanity(archive).rows) == 5 and len(counted) == 2
    monkeypatch.setattr(sanity, "JUDGE_VERSION", -1)
    counted.clear()
    assert check_sanity(archive, most=5).left == 0 and not counted, "a bounded check looks at new tasks alone"
    check_sanity(archive)
    assert len(counted) == 10


ROWS = [
    {"prompt": "Add one.", "code": ADD, "status": "passed", "tests": "assert f(1) == 2\nassert f(2) == 3", "entry_point": "f"},
    {"prompt": "Nothing.", "code": ADD, "status": "passed", "tests": "assert f(1) is None", "entry_point": "f"},
]


def test_ingest_verify_and_doctor_say_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    archive = str(tmp_path / "archive")

    def said(*words):
        app([*words], standalone_mode=False)
        return capsys.readouterr().out

    import_it = ("ingest", "table", str(tmp_path / "in.jsonl"), archive)
    assert "tasks are" not in said(*import_it, "--no-check")
    assert not (tmp_path / "archive" / "sanity.jsonl").exists()
    text = said(*import_it)
    assert "1 tasks are passed by an empty program: in/" in text
    assert "1 tasks are failed by an attempt that is recorded as passed: in/" in text
    assert json.loads(said("verify", archive, "--json"))["sanity"]["checked"] == 2
    assert "1 tasks are passed by an empty program: in/" in said("verify", archive)
    assert "1 tasks are passed by an empty program: in/" in said("archive", "doctor", archive, "--check", "sanity")
    assert "sanity" not in json.loads(said("verify", archive, "--json", "--no-check"))


def test_an_import_without_a_sandbox_says_once_that_tests_were_not_checked(tmp_path, monkeypatch, capsys):
    def missing(pairs, _settings):
        next(iter(pairs))
        raise IsolationError("no user namespaces here")

    monkeypatch.setattr(sanity, "judged", missing)
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    app(["ingest", "table", str(tmp_path / "in.jsonl"), str(tmp_path / "archive")], standalone_mode=False)
    assert capsys.readouterr().out.count("the tests were not checked: no user namespaces here\n") == 1
    (row,) = examine(Archive(tmp_path / "archive"), ["sanity"]).found
    assert (row.kind, row.found) == ("not run: no user namespaces here", 0)
