"""Two imports into one archive that overlap in time leave what they leave one after the other."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from upsolve.archive.store import Archive
from upsolve.errors import ArchiveError
from upsolve.importers import ingest as ingest_module
from upsolve.importers.ingest import ingest
from upsolve.importers.rows import language_of_task
from upsolve.importers.source import Option, Source
from upsolve.types import Attempt, Status, Task, Verdict


@dataclass
class Rows:
    """A source of given rows that calls functions between them."""

    rows: list
    calls: dict[int, Callable[[], None]] = field(default_factory=dict)
    """Number of rows read before -> function that is called then, once."""

    def read(self, _path, **_name):
        for number, row in enumerate(self.rows):
            self.calls.pop(number, lambda: None)()
            yield row() if callable(row) else row
        self.calls.pop(len(self.rows), lambda: None)()


def run(archive, path, rows, name, **settings):
    source = Source(rows.read, "rows", (Option("name", str, "tells imports apart"),))
    return ingest(archive, source, path, max_rejected=1, name=name, **settings)


def judged(task_id, code, author, status):
    attempt = Attempt(task_id, code, author=author)
    return [attempt, Verdict(attempt.attempt_id, status, judge="recorded")]


ONE = [Task("t", "of one"), *judged("t", "a", "one", Status.PASSED), Task("only one", "p"), Task("both", "p", official=True)]
ONE += judged("both", "b", "one", Status.PASSED)
TWO = [Task("both", "p"), Task("t", "of two"), *judged("t", "a", "two", Status.FAILED), Task("only two", "p")]
TWO += judged("both", "b", "two", Status.FAILED)


def content(archive):
    """All rows of an archive; attempts and tasks once for each time that they are stored."""
    return {
        "tasks": sorted((row["task_id"], row["prompt"], row["official"]) for row in archive.table("tasks").to_pylist()),
        "attempts": sorted((a.task_id, a.code, a.author, a.count, a.language) for a in archive.attempts()),
        "verdicts": {v.attempt_id: v.status for v in archive.verdicts()},
    }


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A file to import; every row is a batch of its own."""
    monkeypatch.setattr("upsolve.importers.importing.BATCH", 1)
    file = tmp_path / "rows"
    file.write_text("")
    return file


@pytest.fixture
def in_turn(tmp_path, path):
    def contents(first, second):
        archive = Archive.create(tmp_path / "in turn")
        run(archive, path, Rows(first), "first")
        report = run(archive, path, Rows(second), "second")
        return content(archive), report

    return contents


@pytest.mark.parametrize("at", (pytest.param(0, marks=pytest.mark.slow), 4, pytest.param(len(ONE), marks=pytest.mark.slow)))
def test_an_import_during_another_one_comes_first(tmp_path, path, in_turn, at):
    archive = Archive.create(tmp_path / "a")
    inner = Rows(ONE, {at: lambda: run(archive, path, Rows(TWO), "inner")})
    report = run(archive, path, inner, "outer")
    expected, after = in_turn(TWO, ONE)
    assert content(archive) == expected
    assert (
        len(expected["tasks"]) == 4
        and ("t", "of two", False) in expected["tasks"]
        and ("both", "p", False) in expected["tasks"]
    )
    assert (report.added, report.read, report.bad) == (after.added, after.read, after.bad) and report.bad == 3
    assert len(report.rejected.read_text().splitlines()) == 3


@pytest.mark.parametrize("at", (pytest.param(0, marks=pytest.mark.slow), 1, pytest.param(6, marks=pytest.mark.slow)))
def test_the_import_that_finishes_first_comes_first(tmp_path, path, in_turn, at, monkeypatch):
    archive, done, waits = Archive.create(tmp_path / "a"), threading.Event(), threading.Event()
    whole = ingest_module.finish

    def finish(archive, job, *rest):  # the second import has stored all of its rows, and waits for the end of the first
        if threading.current_thread() is second and not done.is_set():
            waits.set()
            assert done.wait(300)
        return whole(archive, job, *rest)

    monkeypatch.setattr(ingest_module, "finish", finish)
    second = threading.Thread(target=lambda: run(archive, path, Rows(TWO), "second"))

    def start():
        second.start()
        assert waits.wait(300)

    run(archive, path, Rows(ONE, {at: start}), "first")
    done.set()
    second.join(300)
    assert content(archive) == in_turn(ONE, TWO)[0]


def test_attempts_without_a_language_have_that_of_a_task_that_came_meanwhile(tmp_path, path):
    archive = Archive.create(tmp_path / "a")
    tasks = Rows([Task("t", "p", language="cpp")])
    attempts = [lambda: Attempt("t", "x", language=language_of_task("t") or "python"), Attempt("u", "y")]
    run(archive, path, Rows(attempts, {1: lambda: run(archive, path, tasks, "tasks")}), "attempts")
    assert content(archive)["attempts"] == [("t", "x", "", 1, "cpp"), ("u", "y", "", 1, "python")]


def test_imports_of_other_tasks_are_read_once_and_stand_in_the_order_of_their_begin(tmp_path, path):
    archive, reads = Archive.create(tmp_path / "a"), []
    inner = Rows([Task("x", "p"), Task("y", "p")])
    outer = Rows([Task("t", "p"), lambda: reads.append(1) or Task("u", "p")], {0: lambda: run(archive, path, inner, "inner")})
    run(archive, path, outer, "outer")
    assert len(reads) == 1 and archive.column("tasks", "task_id") == ["t", "u", "x", "y"]


def test_an_import_that_was_stopped_starts_over_if_its_tasks_were_imported_meanwhile(tmp_path, path, in_turn):
    archive = Archive.create(tmp_path / "a")

    def stop():
        run(archive, path, Rows(TWO), "other")
        raise KeyboardInterrupt

    rows = Rows(ONE, {len(ONE): stop})
    with pytest.raises(KeyboardInterrupt):
        run(archive, path, rows, "stopped")
    run(archive, path, rows, "stopped")
    assert content(archive) == in_turn(TWO, ONE)[0]


def test_a_changed_path_is_not_imported_while_its_import_runs(tmp_path, path):
    archive = Archive.create(tmp_path / "a")

    def change():
        path.write_text("changed")
        with pytest.raises(ArchiveError, match="another process"):
            run(archive, path, Rows(TWO), "")

    run(archive, path, Rows(ONE, {1: change}), "")
    assert content(archive)["tasks"] == [("both", "p", True), ("only one", "p", False), ("t", "of one", False)]
