"""Another import of a path that has grown or changed stores what is new alone."""

import json
import random
from collections import Counter

import pytest
from imports import write_lines

from upsolve.archive.compacting import compact
from upsolve.archive.store import Archive
from upsolve.importers import ingest as ingest_module
from upsolve.importers.ingest import ingest


def row(number, **more):
    return {"prompt": f"do {number % 3}", "code": f"print({number})", "status": "passed", "author": "ann", **more}


def content(archive):
    """Attempts with their counts, and the number of rows of verdicts."""
    counts = {(attempt.code, attempt.author): attempt.count for attempt in archive.attempts()}
    return counts, archive.query("select count(*) as n from verdicts").to_pylist()[0]["n"]


def test_a_file_that_has_grown_adds_its_new_rows(tmp_path):
    archive, file = Archive.create(tmp_path / "a"), tmp_path / "log.jsonl"
    rows = [row(0), row(1), row(0), row(2, author="bob")]
    ingest(archive, "table", write_lines(file, rows))
    rows += [row(3), row(0)]  # print(0) for the third time
    report = ingest(archive, "table", write_lines(file, rows))
    assert (report.added["attempts"], report.added["verdicts"], report.bad) == (1, 2, 0)
    assert report.read == report.added.total() + report.bad
    assert content(archive) == (
        {("print(0)", "ann"): 3, ("print(1)", "ann"): 1, ("print(2)", "bob"): 1, ("print(3)", "ann"): 1},
        6,
    )
    again = ingest(archive, "table", write_lines(file, [*rows, row(4)]))  # beside two earlier imports
    assert (again.added["attempts"], again.added["verdicts"]) == (1, 1)
    assert content(archive)[0][("print(0)", "ann")] == 3
    assert ingest(archive, "table", file).known


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*rows with different outcomes")
def test_random_changes_of_a_folder_leave_each_row_as_often_as_it_was_at_most(tmp_path):
    rng, folder, archive = random.Random(0), tmp_path / "logs", Archive.create(tmp_path / "a")
    folder.mkdir()
    expected = Counter()
    for turn in range(8):
        rows = [row(rng.randrange(12), status=rng.choice(["passed", "failed"])) for _ in range(30)]
        write_lines(folder / f"{rng.randrange(3)}.jsonl", rows)
        ingest(archive, "table", folder, workers=1 + turn % 2)
        now = Counter(json.loads(line)["code"] for file in folder.iterdir() for line in file.read_text().splitlines())
        expected |= now  # the larger of both counts
        stored = {attempt.code: attempt.count for attempt in archive.attempts()}
        assert stored == dict(expected), turn
        if turn == 4:
            compact(archive, keep_hours=0)


def test_a_changed_row_stands_beside_its_earlier_form(tmp_path):
    archive, file = Archive.create(tmp_path / "a"), tmp_path / "log.jsonl"
    ingest(archive, "table", write_lines(file, [row(0, status="failed"), row(1)]))
    report = ingest(archive, "table", write_lines(file, [row(0), row(1)]))
    assert (report.added["attempts"], report.added["verdicts"], report.added["repeated"]) == (0, 1, 5)
    assert content(archive) == ({("print(0)", "ann"): 1, ("print(1)", "ann"): 1}, 3)
    assert {verdict.status.value for verdict in archive.verdicts()} == {"passed"}


def test_a_file_of_another_folder_is_another_import(tmp_path):
    archive = Archive.create(tmp_path / "a")
    for name, rows in (("one", [row(0)]), ("two", [row(0), row(1)])):
        (tmp_path / name).mkdir()
        ingest(archive, "table", write_lines(tmp_path / name / "log.jsonl", rows))
    assert content(archive)[0] == {("print(0)", "ann"): 2, ("print(1)", "ann"): 1}


def test_an_interruption_while_rows_are_removed_removes_none_twice(tmp_path, monkeypatch):
    archive, file = Archive.create(tmp_path / "a"), tmp_path / "log.jsonl"
    rows = [row(0), row(0), row(1)]
    ingest(archive, "table", write_lines(file, rows))
    write_lines(file, [*rows, row(0), row(0), row(0)])
    drop, calls = ingest_module.drop_rows, []

    def stopped(*given):
        if calls:
            raise KeyboardInterrupt
        calls.append(given)
        drop(*given)

    monkeypatch.setattr(ingest_module, "drop_rows", stopped)
    with pytest.raises(KeyboardInterrupt):
        ingest(archive, "table", file)
    monkeypatch.undo()
    report = ingest(archive, "table", file)
    assert report.read == report.added.total()
    assert content(archive) == ({("print(0)", "ann"): 5, ("print(1)", "ann"): 1}, 6)
