"""The records of an archive one after the other: the same as all at once, in memory that does not grow."""

import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upsolve.archive.database import stored_records
from upsolve.archive.schema import TABLES
from upsolve.archive.store import Archive, open_archive
from upsolve.errors import ArchiveError
from upsolve.records import from_row
from upsolve.types import Attempt, Finding, Status, Task, TestCase, TestKind, Verdict


def streamed(archive):
    return [*stored_records({name: archive.parts(name) for name in TABLES})]


def whole(archive):
    verdicts = archive.table("verdicts").to_pylist()  # every one: of several by a judge, ``Archive.verdicts`` has the last one
    return [*archive.tasks(), *archive.attempts(), *(from_row(Verdict, row) for row in verdicts)]


TASKS = [
    Task("b", "", (TestCase(TestKind.CALL, "f(1)", "2", hidden=True),), requires=("numpy",), extra='{"a": 1}'),
    Task("a", "é", limit_seconds=1.5, official=True),
]
attempts = st.builds(
    Attempt,
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["x", "y = 'ü'"]),
    author=st.sampled_from(["", "u"]),
    tokens=st.sampled_from([None, 3]),
    count=st.integers(1, 3),
    extra=st.sampled_from(["", '{"b": 2}']),
)
statuses = st.sampled_from([Status.PASSED, Status.FAILED, Status.UNSCORED])
finding = Finding("lint", "F401", "m", 1, value=0.5)
verdicts = st.builds(
    Verdict,
    st.sampled_from([Attempt("a", "x").attempt_id, "none"]),
    statuses,
    judge=st.sampled_from(["one", "two"]),
    wall_seconds=st.sampled_from([None, 0.5]),
    findings=st.sampled_from([(), (finding,)]),
    outcomes=st.sampled_from([(), (Status.PASSED, Status.UNSCORED)]),
)


@pytest.mark.slow
@settings(max_examples=10)
@given(parts=st.lists(st.tuples(st.lists(attempts, max_size=6), st.lists(verdicts, max_size=6)), max_size=3))
def test_records_are_those_of_the_archive(parts, tmp_path_factory):
    archive = Archive.create(tmp_path_factory.mktemp("archive"))
    for number, (some, judged) in enumerate(parts):
        archive.write(TASKS[number : number + 1], some, judged)
    assert streamed(archive) == whole(archive)


def test_a_task_that_was_written_twice_has_its_first_place_and_its_last_content(tmp_path):
    archive = Archive.create(tmp_path)
    archive.write(TASKS, (), ())
    archive.write([replace(TASKS[0], extra='{"a": 2}')], (), ())
    assert streamed(archive) == whole(archive) and [task.task_id for task in streamed(archive)] == ["b", "a"]


def test_the_archive_of_the_package():
    assert streamed(open_archive("embedded")) == whole(open_archive("embedded"))


def test_an_export_holds_some_rows_at_a_time(tmp_path):
    """12 MB of programs; all of them as records took more than that."""
    export_archive = pytest.importorskip("upsolve.exports.exporting").export_archive
    archive = Archive.create(tmp_path / "archive")
    for part in range(4):
        codes = [f"x = {part * 1500 + number}\n" + f"y = {number}\n" * 250 for number in range(1500)]
        archive.write((), [Attempt("t", code) for code in codes], ())
    tracemalloc.start()
    try:
        done = export_archive(archive, tmp_path / "out.jsonl")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert done.rows == {"": 6000} and peak < 8e6 < (tmp_path / "out.jsonl").stat().st_size


def test_a_damaged_part_is_an_error_of_the_archive(tmp_path):
    export_archive = pytest.importorskip("upsolve.exports.exporting").export_archive
    archive = Archive.create(tmp_path / "archive")
    archive.write(TASKS, (), ())
    archive.parts("tasks")[0].write_bytes(b"PAR1 nothing")
    with pytest.raises(ArchiveError, match="move a damaged part out of the archive"):
        export_archive(archive, tmp_path / "out.jsonl")
    assert not [*tmp_path.glob("out*")]
