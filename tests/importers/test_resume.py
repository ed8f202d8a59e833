"""Imports that were stopped: they go on, and store nothing twice."""

import json
import random

import pytest
from killing import import_words, kill_after_parts, stored

from upsolve.archive.store import Archive
from upsolve.errors import ArchiveError, SourceError
from upsolve.importers import importing
from upsolve.importers.ingest import ingest
from upsolve.importers.source import Source
from upsolve.plugins import find
from upsolve.types import Attempt, Status, Task, Verdict


def write_rows(file, tasks, attempts):
    rows = []
    for task in range(tasks):
        rows.append({"kind": "task", "task_id": f"t{task}", "prompt": f"do {task}"})
        attempt = {"kind": "attempt", "task_id": f"t{task}", "status": "passed"}
        rows += [{**attempt, "code": f"print({task}, {number})"} for number in range(attempts)]
        rows.append({"kind": "song", "task_id": f"t{task}"})
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return len(rows)


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(importing, "BATCH", 40)


def stopping(stop_at, words="print"):
    """A source of two hundred attempts that stops at one of them."""

    def read(path):
        yield Task("t", "do")
        for number in range(200):
            if number == stop_at:
                raise SourceError(f"{path}: stopped")
            attempt = Attempt("t", f"{words}({number})")
            yield attempt
            yield Verdict(attempt.attempt_id, Status.PASSED, judge="recorded:test")

    return Source(read, "a path")


def stop(archive, path, *given):
    with pytest.raises(SourceError, match="stopped"):
        ingest(archive, stopping(*given), path)


@pytest.fixture
def file(tmp_path):
    (tmp_path / "in").write_text("one")
    return tmp_path / "in"


@pytest.mark.usefixtures("small_batches")
@pytest.mark.slow
def test_an_import_that_is_killed_again_and_again_stores_what_one_without_interruption_stores(tmp_path):
    count = write_rows(tmp_path / "in.jsonl", 10, 60)
    whole = Archive.create(tmp_path / "whole")
    report = ingest(whole, "jsonl", tmp_path / "in.jsonl", max_rejected=1)
    assert report.read == count + 10 * 60 and report.bad == 10
    words = import_words(tmp_path, "jsonl", tmp_path / "in.jsonl", tmp_path / "killed")
    kills, parts, draw = 0, 0, random.Random(0)
    while kill_after_parts(words, tmp_path / "killed", parts := parts + draw.randrange(10, 30)):
        kills += 1
    assert kills >= 3
    killed = Archive(tmp_path / "killed")
    assert stored(killed) == stored(whole)
    assert [part.name for part in killed.parts("attempts")] == [part.name for part in whole.parts("attempts")]
    assert killed.meta() == whole.meta() and not [*killed.path.glob("imports/*")]
    assert [file.read_bytes() for file in killed.path.glob("rejected/*")] == [
        file.read_bytes().replace(b"whole", b"killed") for file in whole.path.glob("rejected/*")
    ]
    assert ingest(killed, "jsonl", tmp_path / "in.jsonl").known and not [*killed.path.glob("imports/*")]


@pytest.mark.usefixtures("small_batches")
def test_what_was_stored_is_not_stored_again_and_the_report_counts_all_of_it(tmp_path, file):
    archive = Archive.create(tmp_path / "archive")
    stop(archive, file, 100)
    before = {part: part.stat().st_mtime_ns for part in archive.parts("attempts")}
    assert len(before) == 5
    (archive.path / "attempts" / next(iter(before)).name).with_suffix(".1.tmp").touch()  # of a process that was killed
    report = ingest(archive, stopping(200), file)
    assert report.added == {"tasks": 1, "attempts": 200, "verdicts": 200, "repeated": 0} and report.read == 401
    assert before.items() <= {part: part.stat().st_mtime_ns for part in archive.parts("attempts")}.items()
    assert len(archive.table("attempts")) == 200 and not [*archive.path.glob("*/*.tmp")]


def content(archive):
    """Files of an archive with their bytes, without locks."""
    files = [file for file in archive.path.rglob("*") if file.is_file() and file.suffix != ".lock"]
    return {str(file.relative_to(archive.path)): file.read_bytes() for file in files}


@pytest.mark.parametrize("stop_at", [2, 5, 8])
def test_an_import_that_left_tests_out_is_the_same_to_the_byte_after_it_resumes(tmp_path, monkeypatch, stop_at):
    """In batches of two records, a row is divided between two of them, or waits for its batch."""
    monkeypatch.setattr(importing, "BATCH", 2)
    sound, idle = [f"assert f({number}) == {number}" for number in range(2)], ["assert True", "assert 1 == 1"]
    tests = [sound, [*idle, sound[0]], [sound[0], idle[0], sound[1]], [sound[1]], [idle[1], *sound], [idle[0], sound[0]]]
    rows = [{"task_id": 11 + n, "text": f"do {n}", "code": "def f(x): ...", "test_list": one} for n, one in enumerate(tests)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    most = [stop_at]

    def read(path):
        for number, row in enumerate(find("source", "mbpp").read(path)):
            if number == most[0]:
                raise SourceError(f"{path}: stopped")
            yield row

    source, archives = Source(read, "a path"), [Archive.create(tmp_path / name / "archive") for name in ("stopped", "whole")]
    with pytest.raises(SourceError, match="stopped"):
        ingest(archives[0], source, tmp_path / "in.jsonl")
    before = {part: part.stat().st_mtime_ns for part in archives[0].parts("tasks")}
    assert 1 <= len(before) < 5
    most[0] = 99
    stopped, whole = (ingest(archive, source, tmp_path / "in.jsonl") for archive in archives)
    assert before.items() <= {part: part.stat().st_mtime_ns for part in archives[0].parts("tasks")}.items()
    assert content(archives[0]) == content(archives[1])
    assert (
        (stopped.left_out, stopped.examples, stopped.read)
        == (whole.left_out, whole.examples, whole.read)
        == (5, whole.examples, 6)
    )
    assert [len(task.tests) for task in archives[0].tasks()] == [2, 1, 2, 1, 2, 1]


@pytest.mark.usefixtures("small_batches")
def test_a_part_without_an_entry_in_the_journal_is_written_again(tmp_path, file, monkeypatch):
    """Killed after the parts of a batch were written, and before its entry."""
    archive, entries = Archive.create(tmp_path / "archive"), []
    write = importing.write_text

    def write_twice(file, text):
        is_entry = not file.name.endswith("places.json")
        entries.extend([file] * is_entry)
        if is_entry and len(entries) == 3:
            raise KeyboardInterrupt
        write(file, text)

    monkeypatch.setattr(importing, "write_text", write_twice)
    with pytest.raises(KeyboardInterrupt):
        ingest(archive, stopping(200), file)
    assert len(archive.parts("attempts")) == 3
    ingest(archive, stopping(200), file)
    assert [row["code"] for row in archive.table("attempts").to_pylist()] == [f"print({number})" for number in range(200)]


@pytest.mark.usefixtures("small_batches")
def test_a_source_that_yields_other_rows_starts_over(tmp_path, file):
    archive = Archive.create(tmp_path / "archive")
    stop(archive, file, 100)
    ingest(archive, stopping(200, "say"), file)
    assert {attempt.code for attempt in archive.attempts()} == {f"say({number})" for number in range(200)}


@pytest.mark.usefixtures("small_batches")
def test_other_code_of_the_reader_starts_over(tmp_path, file, monkeypatch):
    archive = Archive.create(tmp_path / "archive")
    stop(archive, file, 100)
    monkeypatch.setattr("upsolve.importers.definitions.__version__", "9.9")
    stop(archive, file, 50)
    assert len(archive.table("attempts")) < 50
    ingest(archive, stopping(200), file)
    assert len(archive.table("attempts")) == 200


@pytest.mark.usefixtures("small_batches")
def test_a_file_that_is_mended_after_an_interruption_takes_its_place(tmp_path, file):
    archive = Archive.create(tmp_path / "archive")
    stop(archive, file, 100)
    file.write_text("two")
    stop(archive, file, 50)
    file.write_text("three")
    ingest(archive, stopping(200), file)
    assert len(archive.table("attempts")) == 200 and len(archive.table("tasks")) == 1
    assert "incomplete" not in archive.meta() and not [*archive.path.glob("imports/*")]


def test_two_processes_do_not_do_the_same_import(tmp_path, file):
    archive = Archive.create(tmp_path / "archive")

    def read(path):
        with pytest.raises(ArchiveError, match="another process"):
            ingest(archive, source, path)
        yield Task("t", "do")

    source = Source(read, "a path")
    assert ingest(archive, source, file).added["tasks"] == 1
