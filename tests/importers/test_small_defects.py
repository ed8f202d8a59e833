"""A small defect of a row costs its field, and not the row; counts are of rows."""

import json

import pytest
from imports import imported, imported_rows

from upsolve.archive.store import Archive
from upsolve.importers.ingest import ingest
from upsolve.types import Status

ROW = {
    "prompt": "p",
    "code": "def f(x):\n    return 2 * x\n",
    "status": "passed",
    "tests": "assert f(1) == 2",
    "entry_point": "f",
}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("memory_bytes", value) for value in ("abc", -5, 1e30, 1.5, [1], True)),
        *(("wall_seconds", value) for value in ("fast", -1, "inf")),
        *(("cpu_seconds", "nan"), ("limit_seconds", "slow"), ("limit_bytes", "much"), ("total", "many"), ("passed", -1)),
    ],
)
def test_an_odd_optional_field_is_stored_in_extra_and_counted(tmp_path, field, value):
    archive, report = imported_rows(tmp_path, [{**ROW, "prompt": "q", field: value}])
    (attempt,), (verdict,), (task,) = archive.attempts(), archive.verdicts(), archive.tasks()
    assert (attempt.code, verdict.status, len(task.tests), report.bad) == (ROW["code"], Status.PASSED, 1, 0)
    assert json.loads(attempt.extra) == {field: value} and (report.odd, report.left_out) == (1, 0)
    assert (verdict.memory_bytes, verdict.wall_seconds, verdict.cpu_seconds, verdict.total) == (None, None, None, 0)
    assert "1 invalid optional values are stored in extra" in report.text() and f"({field})" in report.text()


def test_records_of_our_own_keep_an_attempt_with_odd_numbers(tmp_path, lines):
    rows = [{"kind": "attempt", "task_id": "t", "code": "x = 1", "status": "WA", "memory_bytes": "12 MB", "wall_seconds": 0.5}]
    archive, report = imported(tmp_path, "jsonl", lines(tmp_path / "in.jsonl", rows))
    (attempt,), (verdict,) = archive.attempts(), archive.verdicts()
    assert (verdict.status, verdict.wall_seconds, verdict.memory_bytes) == (Status.FAILED, 0.5, None)
    assert json.loads(attempt.extra) == {"recorded_memory_bytes": "12 MB"} and report.odd == 1


def test_an_outcome_that_cannot_be_read_is_still_no_small_defect(tmp_path):
    rows = [{**ROW, "status": "bogus"}, {**ROW, "status": None, "passed": -1, "total": 2}, {**ROW, "outcomes": "bogus"}]
    rows = [{**row, "prompt": str(number)} for number, row in enumerate(rows)]
    archive, report = imported_rows(tmp_path, rows)
    assert (report.bad, archive.attempts()) == (3, [])


def test_counts_are_of_rows(tmp_path):
    """Nine rows of three records each and a bad one: a tenth of the rows is rejected, whatever the number of records."""
    rows = [{**ROW, "prompt": str(number), "code": f"{ROW['code']}#{number}"} for number in range(9)] + [
        {**ROW, "status": "bogus"}
    ]
    _, report = imported_rows(tmp_path, rows)
    assert report.text().startswith("10 rows, 1 rejected: 29 records read = 28 stored")
    for allowed, too_many in ((0.09, True), (0.1, False)):
        archive = Archive.create(tmp_path / f"of{allowed}")
        assert ingest(archive, "table", tmp_path / "log.jsonl", max_rejected=allowed).too_many is too_many


def test_humaneval_keeps_the_helpers_of_a_prompt(tmp_path, lines):
    prompt = 'import math\n\n\ndef half(x):\n    return math.floor(x / 2)\n\n\ndef quarter(x):\n    """Half of half."""\n'
    row = {
        "task_id": "HumanEval/1",
        "prompt": prompt,
        "canonical_solution": "    return half(half(x))\n",
        "entry_point": "quarter",
    }
    row["test"] = "def check(candidate):\n    assert candidate(9) == 2\n"
    archive, _ = imported(tmp_path, "humaneval", lines(tmp_path / "in.jsonl", [row]))
    (task,) = archive.tasks()
    assert task.setup.strip() == prompt.partition("def quarter")[0].strip() and task.reference.startswith("import math")


def test_a_rejected_row_counts_once_however_many_records_it_has(tmp_path):
    first = [{"task_id": "a", "prompt": "Add one.", "code": "x = 1", "status": "passed"}]
    later = [{"task_id": "a", "prompt": "Add two.", "code": "x = 2", "status": "failed"}]
    later += [{"task_id": f"t{k}", "prompt": f"Add {k}.", "code": f"x = {k}", "status": "passed"} for k in range(99)]
    archive = Archive.create(tmp_path / "archive")
    for name, rows in (("one", first), ("two", later)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        report = ingest(archive, "table", tmp_path / name / "log.jsonl")
    assert (report.rows, report.bad_rows, report.bad, report.too_many) == (100, 1, 3, False)
    assert report.text().startswith("100 rows, 1 rejected: 300 records read")
