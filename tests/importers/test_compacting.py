"""Compaction: fewer parts, the same rows; readers, imports and interruptions."""

import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest
from killing import stored

from upsolve.archive import compacting
from upsolve.archive.compacting import compact
from upsolve.archive.schema import TABLES
from upsolve.archive.store import Archive, copy_archive
from upsolve.errors import ArchiveError, SourceError
from upsolve.importers import importing
from upsolve.importers.ingest import ingest
from upsolve.importers.source import Source
from upsolve.types import Attempt, Status, Task, Verdict


def filled(folder, *, parts=6, tag=""):
    archive = Archive.create(folder)
    for number in range(parts):
        attempts = [Attempt(f"t{number % 3}", f"print({number}, {k})", created=str(number)) for k in range(3)]
        verdicts = [Verdict(one.attempt_id, Status.PASSED, judge="recorded:x") for one in attempts[:2]]
        archive.append(tasks=[Task(f"t{number}", "do")], attempts=attempts, verdicts=verdicts, tag=tag)
    return archive


def test_many_parts_become_one_with_the_same_rows_in_the_same_order(tmp_path):
    archive = filled(tmp_path / "a")
    before, groups = stored(archive), archive.groups()
    done = compact(archive)
    assert (done.before, done.after, done.removed, done.waiting) == (18, 3, 0, 18)
    assert stored(archive) == before and archive.groups() == groups and len(archive.parts("attempts")) == 1
    again = compact(archive, keep_hours=0)
    assert (again.before, again.after, again.removed, again.waiting) == (3, 3, 18, 0)
    assert stored(archive) == before and len([*archive.path.glob("*/*.parquet")]) == 3
    archive.append(attempts=[Attempt("t0", "new")])
    assert [row["code"] for row in archive.table("attempts").to_pylist()][-1] == "new"
    compact(archive, keep_hours=0)
    assert len([*archive.path.glob("*/*.parquet")]) == 3 and len(archive.table("attempts")) == 19
    assert stored(copy_archive(archive, tmp_path / "b")) == stored(archive)


def test_who_reads_the_old_parts_is_not_disturbed(tmp_path):
    archive = filled(tmp_path / "a")
    parts = archive.parts("attempts")
    compact(archive)
    assert sum(pq.read_metadata(part).num_rows for part in parts) == 18
    assert not {*archive.parts("attempts")} & {*parts}


def test_a_part_with_a_damaged_page_is_named_and_not_replaced(tmp_path):
    archive = filled(tmp_path / "a")
    before, part = stored(archive), archive.parts("attempts")[2]
    content = part.read_bytes()
    part.write_bytes(content[:60] + bytes([content[60] ^ 1]) + content[61:])
    with pytest.raises(ArchiveError, match=f"{part.name}: damaged .*; move it out"):
        compact(archive)
    part.write_bytes(content)
    compact(archive)
    assert stored(archive) == before


def test_parts_have_at_most_the_target_size_and_large_ones_stay(tmp_path):
    archive = filled(tmp_path / "a")
    assert compact(archive, target_bytes=100).after == 18
    other = filled(tmp_path / "b")
    sizes = [part.stat().st_size for part in other.parts("attempts")]
    compact(other, target_bytes=sum(sizes[:2]))
    assert len(other.parts("attempts")) == 3 and len(other.table("attempts")) == 18


@pytest.mark.parametrize("tagged", [False, True])
def test_a_row_that_is_appended_again_after_a_compaction_is_seen(tmp_path, tagged):
    """The name of its part must not be that of a replaced one, which is hidden."""
    archive = filled(tmp_path / "a", parts=1)
    archive.write([], [], [Verdict("x", Status.PASSED, judge="j")], tag="ab" * tagged)
    archive.write([], [], [Verdict("y", Status.PASSED, judge="j")], tag="ab" * tagged)
    compact(archive)
    for _ in range(3):
        archive.write([], [], [Verdict("x", Status.PASSED, judge="j")], tag="ab" * tagged)
    assert archive.column("verdicts", "attempt_id")[-5:] == ["x", "y", "x", "x", "x"]


def test_tags_that_queries_use_stay(tmp_path):
    archive = filled(tmp_path / "a", tag="0001")
    filled(tmp_path / "a", parts=2, tag="0002")
    compact(archive, keep_hours=0)
    assert len(archive.parts("attempts")) == 2
    assert (len(archive.tagged("attempts", "0001")), len(archive.tagged("attempts", "0002"))) == (18, 6)
    archive.drop("0002")
    assert len(archive.table("attempts")) == 18


def test_an_import_that_was_stopped_goes_on_after_a_compaction(tmp_path, monkeypatch):
    monkeypatch.setattr(importing, "BATCH", 10)
    stop = [True]

    def read(path):
        yield Task("t", "do")
        for number in range(100):
            if stop and number == 60:
                raise SourceError(f"{path}: stopped")
            yield Attempt("t", f"print({number})")

    (tmp_path / "in").write_text("x")
    archive = filled(tmp_path / "a", parts=2)
    with pytest.raises(SourceError):
        ingest(archive, Source(read, "a file"), tmp_path / "in")
    compact(archive, keep_hours=0)
    assert len(archive.parts("attempts")) == 1 + 6
    stop.clear()
    assert ingest(archive, Source(read, "a file"), tmp_path / "in").added["attempts"] == 100
    compact(archive, keep_hours=0)
    assert len(archive.parts("attempts")) == 1 and len(archive.table("attempts")) == 106
    assert ingest(archive, Source(read, "a file"), tmp_path / "in").known


@pytest.mark.parametrize("where", ["stream", "replace_parts", "remove_replaced"])
def test_a_compaction_that_was_stopped_loses_nothing_and_goes_on(tmp_path, monkeypatch, where):
    archive = filled(tmp_path / "a")
    before, real, calls = stored(archive), getattr(compacting, where), []

    def stop(*words):
        calls.append(words)
        if len(calls) == 2 or where == "remove_replaced":
            raise KeyboardInterrupt
        return real(*words)

    with monkeypatch.context() as patch:
        patch.setattr(compacting, where, stop)
        with pytest.raises(KeyboardInterrupt):
            compact(archive, keep_hours=0)
    assert stored(archive) == before
    archive.append(attempts=[Attempt("t1", "between")])
    compact(archive, keep_hours=0)
    assert stored(archive) == {**before, "attempts": stored(archive)["attempts"]} and len(archive.table("attempts")) == 19
    assert len([*archive.path.glob("*/*.parquet")]) == 3 and not [*archive.path.glob("*/*.tmp")]


@pytest.mark.slow
def test_a_compaction_that_is_killed_loses_nothing(tmp_path):
    archive = filled(tmp_path / "a", parts=30)
    before = stored(archive)
    script = "import sys\nfrom upsolve.archive import compacting\nfrom upsolve.archive.store import Archive\n"
    script += "compacting.ROWS = 1\ncompacting.compact(Archive(sys.argv[1]), target_bytes=int(sys.argv[2]), keep_hours=0)\n"
    target = 3 * archive.parts("attempts")[0].stat().st_size
    for merged in (2, 7, 12):
        with subprocess.Popen([sys.executable, "-c", script, str(archive.path), str(target)]) as process:
            while process.poll() is None and len(archive.meta().get("merged", {})) < merged:
                time.sleep(0.001)
            process.kill()
        assert stored(archive) == before
    compact(archive, keep_hours=0)
    assert stored(archive) == before and len([*archive.path.glob("*/*.parquet")]) == 3


def test_rows_that_are_lost_are_noticed(tmp_path, monkeypatch):
    archive = filled(tmp_path / "a")
    before, real = stored(archive), compacting.batches_of
    monkeypatch.setattr(compacting, "batches_of", lambda part, rows: list(real(part, rows))[:-1])
    with pytest.raises(ArchiveError, match="nothing was replaced"):
        compact(archive)
    assert stored(archive) == before and "merged" not in archive.meta()


def test_parts_of_earlier_schemas_get_their_columns(tmp_path):
    archive = filled(tmp_path / "a", parts=2)
    for part in archive.parts("verdicts")[:1]:
        pq.write_table(pq.read_table(part).drop_columns(["analyses", "executed_lines"]), part)
    before = stored(archive)
    compact(archive, keep_hours=0)
    assert stored(archive) == before
    assert all(pq.read_schema(part).names == TABLES["verdicts"].names for part in archive.parts("verdicts"))
