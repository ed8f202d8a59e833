"""One id for two statements: no attempt gets to the other one, whichever file, import or share it comes from."""

import json

import pytest
from imports import write_lines

from upsolve.archive.schema import TABLES
from upsolve.archive.store import Archive
from upsolve.importers import definitions, shares
from upsolve.importers.ingest import ingest

TASK = {"kind": "task", "task_id": "A", "prompt": "Print the sum."}
OTHER = {**TASK, "prompt": "Print the longest path."}


def attempt(code, **fields):
    return {"kind": "attempt", "task_id": "A", "code": code, "status": "AC", **fields}


def write(file, *rows):
    return write_lines(file, rows)


def imported(tmp_path, *imports, name="archive"):
    """Import paths one after the other; return the archive and the last report."""
    archive = Archive.create(tmp_path / name)
    for source, path, options in imports:
        report = ingest(archive, source, path, max_rejected=1, **options)
        lines = report.rejected.read_text().splitlines() if report.rejected else []
        assert len(lines) == report.bad == report.read - report.added.total()
    return archive, report


@pytest.fixture
def folder(tmp_path):
    """Two contests, of which only one has a verdict on ``print(3)``, and submissions without statements."""
    write(tmp_path / "in" / "1.jsonl", TASK, attempt("print(1)"), {**attempt("print(3)"), "status": None})
    write(tmp_path / "in" / "2.jsonl", OTHER, attempt("print(2)"), attempt("print(3)"))
    write(tmp_path / "in" / "3.jsonl", attempt("print(4)"), {**TASK, "task_id": "B"}, attempt("print(5)", task_id="B"))
    write(tmp_path / "in" / "4.jsonl", TASK, attempt("print(6)"))
    return tmp_path / "in"


def check_folder(archive, report):
    codes = {group.task.task_id: [attempt.code for attempt in group.attempts] for group in archive.groups()}
    assert codes == {"A": ["print(1)", "print(3)", "print(6)"], "B": ["print(5)"]}
    assert [verdict is not None for verdict in archive.groups()[0].verdicts] == [True, False, True]
    assert (report.bad, report.added["verdicts"], report.added["tasks"]) == (7, 3, 2)


@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_files_of_a_folder(tmp_path, folder, monkeypatch, size, workers):
    monkeypatch.setattr(shares, "SHARE_BYTES", size)
    archive, report = imported(tmp_path, ("jsonl", folder, {"workers": workers}))
    check_folder(archive, report)
    first, second = folder / "1.jsonl", folder / "2.jsonl"
    reasons = [json.loads(line)["reason"] for line in report.rejected.read_text().splitlines()]
    assert f"the task A, which is another in {first}, line 1 than in {second}, line 1: give one of the two" in reasons[1]


@pytest.mark.parametrize("stop", [pytest.param(n, marks=[] if n in (1, 7, 12) else pytest.mark.slow) for n in range(1, 15)])
def test_an_import_that_is_interrupted_while_it_settles(tmp_path, folder, monkeypatch, stop):
    monkeypatch.setattr(shares, "SHARE_BYTES", 1)
    whole, _ = imported(tmp_path, ("jsonl", folder, {}), name="whole")
    writes = []

    def stopping(write):
        def write_or_stop(*given):
            writes.append(given)
            if len(writes) == stop:
                raise KeyboardInterrupt
            write(*given)

        return write_or_stop

    with monkeypatch.context() as patched:
        for name in ("rewrite_part", "write_text"):
            patched.setattr(definitions, name, stopping(getattr(definitions, name)))
        try:
            imported(tmp_path, ("jsonl", folder, {}))
        except KeyboardInterrupt:
            assert len(writes) == stop
    archive, report = imported(tmp_path, ("jsonl", folder, {})) if len(writes) == stop else (whole, None)
    assert report is None or report.bad == 7
    for name in TABLES:
        assert archive.table(name).equals(whole.table(name))


def test_one_file_with_two_statements(tmp_path):
    file = write(tmp_path / "in.jsonl", TASK, attempt("print(1)"), OTHER, attempt("print(2)"), {**TASK, "task_id": "B"})
    archive, report = imported(tmp_path, ("jsonl", file, {}))
    assert [task.prompt for task in archive.tasks()] == ["Print the sum."] * 2 and not archive.attempts()
    assert not archive.column("verdicts", "attempt_id") and report.bad == 5


def test_one_table_with_two_statements(tmp_path):
    rows = [{**attempt("print(1)"), "prompt": "sum"}, {**attempt("print(2)"), "prompt": "path"}, attempt("print(3)")]
    archive, report = imported(tmp_path, ("table", write(tmp_path / "in.jsonl", *rows), {}))
    assert archive.column("attempts", "code") == ["print(1)"]
    assert [row.reason.partition(" of the task ")[0] for row in report.reasons] == [
        "task in/A has different content in an earlier row: prompt",
        "the row has no prompt, and earlier rows have different prompts",
    ]


def test_an_earlier_import(tmp_path):
    rows = [{**attempt(f"print({n})"), "prompt": prompt} for n, prompt in enumerate(("sum", "path", "sum"))]
    files = [write(tmp_path / f"c{n}" / "submissions.jsonl", row) for n, row in enumerate(rows)]
    archive, report = imported(tmp_path, *(("table", file, {}) for file in files[:2]))
    assert archive.column("attempts", "code") == ["print(0)"] and report.too_many is False and report.bad == 3
    assert "which is another in an earlier import than in" in report.reasons[1].reason and "--name" in report.reasons[1].reason
    archive, report = imported(tmp_path, ("table", files[1], {"name": "c1"}), ("table", files[2], {}))
    assert [(one.task_id, one.code) for one in archive.attempts()] == [
        ("submissions/A", "print(0)"),
        ("c1/A", "print(1)"),
        ("submissions/A", "print(2)"),
    ]


def test_the_name_of_a_source_makes_no_other_statement(tmp_path):
    rows = [{**attempt(f"print({n})", task_id="HumanEval/0"), "prompt": "sum"} for n in range(2)]
    archive, report = imported(
        tmp_path, *(("table", write(tmp_path / f"model{n}.jsonl", row), {}) for n, row in enumerate(rows))
    )
    assert report.bad == 0 and len(archive.groups()[0].attempts) == 2


CPP = {**TASK, "language": "C++"}
PROGRAM = {"kind": "attempt", "task_id": "A", "code": "int main(){}"}


@pytest.mark.parametrize("source", ["jsonl", "table"])
def test_an_attempt_without_a_language_has_that_of_its_task(tmp_path, source):
    """In another import, in an earlier file, in an earlier row; a row of a table may repeat the prompt."""
    task, rows = CPP, [PROGRAM, {**PROGRAM, "code": "int x;", "language": "", "prompt": TASK["prompt"]}]
    if source == "jsonl":
        rows[1].pop("prompt")
    name = {"name": "c"} if source == "table" else {}
    one, two = write(tmp_path / "in" / "1.jsonl", task), write(tmp_path / "in" / "2.jsonl", *rows)
    whole = write(tmp_path / "all.jsonl", task, *rows)
    for number, paths in enumerate(([one, two], [tmp_path / "in"], [whole])):
        archive, report = imported(tmp_path, *((source, path, name) for path in paths), name=str(number))
        assert report.bad == 0 and [attempt.language for attempt in archive.attempts()] == ["cpp", "cpp"]
        assert [group.task.language for group in archive.groups()] == ["cpp"]


@pytest.mark.parametrize("order", [(CPP, PROGRAM), (PROGRAM, CPP)])
def test_a_language_that_is_not_known_in_time_sets_the_attempt_aside(tmp_path, order, monkeypatch):
    monkeypatch.setattr(shares, "SHARE_BYTES", 1)
    for number, row in enumerate(order):
        write(tmp_path / "in" / f"{number}.jsonl", row, {**TASK, "task_id": "B"}, {**PROGRAM, "task_id": "B"})
    archive, report = imported(tmp_path, ("jsonl", tmp_path / "in", {}))
    assert {attempt.task_id for attempt in archive.attempts()} == {"B"} and report.bad == 1
    assert "its task A, of another file, is in cpp: import the tasks first" in report.reasons[0].reason


@pytest.mark.parametrize(("language", "stored"), [("C++", "python, not cpp"), ("", ""), ("Python 3", "cpp, not python")])
def test_a_task_that_comes_after_its_attempts_in_another_language_says_so(tmp_path, language, stored):
    attempts = write(tmp_path / "1.jsonl", PROGRAM, {**PROGRAM, "code": "x", "language": "cpp"})
    tasks = write(tmp_path / "2.jsonl", {**TASK, "language": language})
    _, report = imported(tmp_path, ("jsonl", attempts, {}), ("jsonl", tasks, {}))
    said = f"1 attempts of earlier imports are in another language than their tasks of this one (A: {stored}): if they"
    assert report.mistaken.startswith(said) == bool(stored) == (bool(report.mistaken) and report.mistaken in report.text())
