"""Groups of large archives are read from a sorted table in the cache folder and are equal to those of small ones."""

import random
import shutil
from collections import Counter
from dataclasses import replace
from heapq import nlargest

import duckdb
import pyarrow.parquet as pq
import pytest

from upsolve.archive import groups as module
from upsolve.archive.database import connect
from upsolve.archive.groups import Groups, Lazy, pick, task_ids
from upsolve.archive.info import agreements, archive_info
from upsolve.archive.outline import longest_attempts, longest_prompts
from upsolve.archive.places import SHIPPED
from upsolve.archive.preference import OUTCOMES, is_judge, preferred
from upsolve.archive.schema import TABLES
from upsolve.archive.split import split_archive
from upsolve.archive.store import Archive, open_archive
from upsolve.archive.unjudged import unjudged
from upsolve.config import DataConfig
from upsolve.errors import ArchiveError
from upsolve.records import are_plain
from upsolve.types import Attempt, Group, Status, Task, Verdict

JUDGE = "upsolve-1"


@pytest.fixture
def large(monkeypatch, tmp_path):
    """Treat every archive as a large one."""
    monkeypatch.setattr(module, "SMALL_BYTES", -1)
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def mixed_archive(path, *, tasks=7, attempts=90):
    """Return an archive whose attempts are spread over several parts, with repeated attempts and several judges."""
    archive = Archive.create(path)
    archive.append(tasks=[Task(f"t/{number}", f"Task {number}.", official=number % 2 == 0) for number in range(tasks)])
    for part in range(3):
        made = [
            Attempt(
                f"t/{n % tasks}", f"x = {n % 40}", author="ab"[n % 2], count=1 + n % 3, token_ids=(n % 5, 2) if n % 4 else None
            )
            for n in range(part * 20, part * 20 + attempts)
        ]
        archive.append(attempts=[*made, Attempt("unknown", "x")])
        statuses = [Status.PASSED, Status.FAILED, Status.UNSCORED]
        archive.append(
            verdicts=[
                Verdict(a.attempt_id, statuses[(i + part) % 3], total=part, judge=(JUDGE, "recorded:ci")[i % 2])
                for i, a in enumerate(made)
                if i % 5
            ]
        )
    return archive


def expected_groups(archive, judge=""):
    """Return the groups computed from the lists of records."""
    verdicts, attempts = {}, {}
    for verdict in archive.verdicts():
        if is_judge(verdict.judge, judge):
            verdicts.setdefault(verdict.attempt_id, []).append(verdict)
    for attempt in archive.attempts():
        attempts.setdefault(attempt.task_id, []).append(attempt)
    return [
        Group(task, tuple(found), tuple(preferred(verdicts.get(a.attempt_id, ()), task) for a in found))
        for task in archive.tasks()
        if (found := attempts.get(task.task_id))
    ]


@pytest.mark.parametrize("judge", ["", "upsolve", "recorded", "recorded:ci"])
def test_groups_are_those_of_the_records_in_memory_and_from_a_file(tmp_path, monkeypatch, judge):
    archive = mixed_archive(tmp_path / "archive")
    expected = expected_groups(archive, judge)
    assert archive.groups(judge=judge) == expected
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "SMALL_BYTES", -1)
    monkeypatch.setattr(module, "BLOCK_ROWS", 8)
    found = archive.groups(judge=judge)
    assert isinstance(found, Groups) and len(found) == len(expected) == 7
    assert [*found] == expected and found[-1] == expected[-1] and [*found[2:4]] == expected[2:4]
    assert [found[i] for i in (3, 0, 6, 3)] == [expected[i] for i in (3, 0, 6, 3)]
    with pytest.raises(IndexError):
        found[7]


def test_queries_choose_the_verdicts_that_groups_have(tmp_path):
    """On three hundred programs with up to five verdicts each, of four judges, with and without numbers of tests."""
    draw, archive = random.Random(0), Archive.create(tmp_path / "archive")
    attempts = [Attempt(f"t/{n % 4}", f"x = {n}", author="ab"[n % 2]) for n in range(300)]
    archive.append(tasks=[Task(f"t/{n}", "Do.", official=n == 0) for n in range(3)], attempts=attempts)
    judges = ("recorded:ci", "recorded:old", "upsolve-1", "upsolve-2")
    for _ in range(3):
        chosen = draw.choices(attempts, k=200)
        archive.append(
            verdicts=[
                Verdict(a.attempt_id, draw.choice([*Status]), total=draw.randrange(4), judge=draw.choice(judges))
                for a in chosen
            ]
        )
    groups = archive.groups()
    found = {v.attempt_id: v.status.value for group in groups for v in group.verdicts if v}
    with connect({name: archive.parts(name) for name in TABLES}, places=True) as connection:
        asked = {row[0]: row[2] for row in connection.sql(OUTCOMES).fetchall() if row[1] != "t/3"}  # a task without a row
    info = archive_info(archive)
    assert asked == found and len(found) > 150 and info.statuses == Counter(found.values())
    judged = {verdict.attempt_id for verdict in archive.verdicts()}  # also at the task without a row
    assert info.mixed_tasks == 3 and info.unjudged == 300 - len(judged)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("ask", [archive_info, agreements, Archive.groups, lambda archive: archive.query("select 1")])
def test_a_damaged_part_is_named(tmp_path, ask):
    archive = mixed_archive(tmp_path / "archive")
    part = archive.parts("verdicts")[1]
    part.write_bytes(part.read_bytes()[:-9])
    with pytest.raises(ArchiveError, match=f"{part.name}.*; move (it|a damaged part) out of the archive"):
        ask(archive)


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_a_part_with_a_damaged_page_is_named(tmp_path, seed):
    shutil.copytree(SHIPPED["embedded"], tmp_path / "archive")
    archive, draw = Archive(tmp_path / "archive"), random.Random(seed)
    part = archive.parts("attempts")[0]
    content = bytearray(part.read_bytes())
    start = draw.randrange(4, len(content) - 204)
    content[start : start + 200] = draw.randbytes(200)
    part.write_bytes(content)
    try:
        answer = archive.query("select count(*) as n, sum(len(code)), max(task_id), max(author) from attempts")
    except ArchiveError as error:
        assert part.name in str(error)
    else:
        assert answer["n"].to_pylist() == [open_archive("embedded").table("attempts", ["code"]).num_rows]


def pages_of(archive, name):
    """Return where the pages of the only part of a table begin and end."""
    meta = pq.read_metadata(archive.parts(name)[0])
    columns = [meta.row_group(0).column(number) for number in range(meta.num_columns)]
    starts = [column.dictionary_page_offset or column.data_page_offset for column in columns]
    return min(starts), max(start + column.total_compressed_size for start, column in zip(starts, columns, strict=True))


@pytest.mark.parametrize("name", ["attempts", pytest.param("verdicts", marks=pytest.mark.slow)])
def test_one_changed_bit_of_a_page_is_found(tmp_path, name):
    """DuckDB, which compares no checksums, reads other programs from most of these parts."""
    archive, draw = Archive.create(tmp_path / "archive"), random.Random(0)
    stored = open_archive("embedded")
    archive.append(tasks=stored.tasks(), attempts=stored.attempts(), verdicts=stored.verdicts())
    (part,), (start, stop) = archive.parts(name), pages_of(archive, name)
    content, before, found = part.read_bytes(), archive.groups(), 0
    for _ in range(6):
        changed = bytearray(content)
        changed[draw.randrange(start, stop)] ^= 1 << draw.randrange(8)
        part.write_bytes(changed)
        try:
            assert archive.groups() == before  # of some bits in headers of pages
        except ArchiveError as error:
            found += part.name in str(error)
    assert found > 4


def test_a_damaged_page_is_named_where_duckdb_names_no_file(tmp_path):
    archive, error = mixed_archive(tmp_path / "archive"), duckdb.IOException("IO Error: the width exceeds the maximum")
    part = archive.parts("verdicts")[1]
    content = part.read_bytes()
    part.write_bytes(content[:60] + bytes([content[60] ^ 1]) + content[61:])
    with pytest.raises(ArchiveError, match=part.name), connect({name: archive.parts(name) for name in TABLES}):
        raise error


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("turns", [0, 1])
def test_the_longest_texts_are_found_without_reading_all_groups(tmp_path, monkeypatch, turns):
    archive, draw = Archive.create(tmp_path / "archive"), random.Random(0)
    tasks = [Task(f"t/{number}", "x" * (7 * number % 40)) for number in range(40)]
    codes = ["eé"[number % 2] * number for number in draw.sample(range(1, 2001), 2000)]
    archive.append(tasks=tasks, attempts=[Attempt(f"t/{draw.randrange(40)}", code) for code in codes])
    groups = archive.groups(turns=turns)
    some = pick(groups, [*range(0, 40, 3), Group(Task("new", "y" * 41), (Attempt("new", "z" * 1980),), (None,))])
    attempts = nlargest(5, (a for group in some for a in group.attempts), key=lambda a: len(a.code))
    prompts = nlargest(5, (group.task for group in some), key=lambda task: len(task.prompt))
    if not turns:
        monkeypatch.setattr(Groups, "group", None)
    assert longest_attempts(some, 5) == attempts
    assert [task for task, _ in longest_prompts(some, 5)] == prompts


@pytest.mark.usefixtures("large")
def test_an_empty_archive_has_no_groups(tmp_path):
    archive = Archive.create(tmp_path / "archive")
    assert [*archive.groups()] == []
    archive.append(tasks=[Task("a", "")])
    assert len(archive.groups()) == 0


def test_a_table_is_built_once_and_replaced_when_the_archive_changes(tmp_path, large):
    archive = mixed_archive(tmp_path / "archive")
    before = archive.groups()
    (folder,) = (large / "groups").iterdir()
    files = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert len(files) == 2
    assert [*archive.groups()] == [*before]
    assert {file.name: file.stat().st_mtime_ns for file in folder.iterdir()} == files
    archive.append(attempts=[Attempt("t/1", "new")])
    assert len(archive.groups()[1].attempts) == len(before[1].attempts) + 1
    assert len([*folder.iterdir()]) == 2 and not files.keys() & {file.name for file in folder.iterdir()}


def test_a_build_that_was_stopped_is_repeated(tmp_path, large):
    archive = mixed_archive(tmp_path / "archive")
    expected = [*archive.groups()]
    (folder,) = (large / "groups").iterdir()
    (table,) = folder.glob("*.arrow")
    (counts,) = folder.glob("*.json")
    counts.unlink()
    table.write_bytes(table.read_bytes()[:100])
    assert [*archive.groups()] == expected


@pytest.mark.usefixtures("large")
def test_a_split_of_a_large_archive_reads_groups_when_accessed(tmp_path):
    archive = mixed_archive(tmp_path / "archive", tasks=30, attempts=200)
    data = DataConfig(archive=str(tmp_path / "archive"), train=0.5, dev=0.2)
    split = split_archive(archive, data)
    assert all(isinstance(groups, Lazy) for groups in split.groups.values())
    for name, groups in split.groups.items():
        assert [group.task for group in groups] == split.tasks[name]
    assert sum(map(len, split.groups.values())) == 30
    again = split_archive(archive, data, untried=True)
    assert [*again.groups["train"]] == [*split.groups["train"]]


def test_pick_keeps_lists_and_adds_groups():
    groups = [Group(Task(name, ""), (), ()) for name in "abc"]
    other = Group(Task("d", ""), (), ())
    assert pick(groups, [2, 0, other]) == [groups[2], groups[0], other]
    assert task_ids(groups) == ["a", "b", "c"]


@pytest.mark.usefixtures("large")
def test_old_parts_without_newer_columns_are_read(tmp_path):
    archive = mixed_archive(tmp_path / "archive")
    expected = [*archive.groups()]
    for part in archive.parts("attempts")[:1]:
        pq.write_table(pq.read_table(part).drop_columns(["token_logps", "extra"]), part)
    assert [*archive.groups()] == expected


def test_programs_to_judge_are_read_once_each(tmp_path):
    archive = mixed_archive(tmp_path / "archive")
    scored = {v.attempt_id for v in archive.verdicts() if v.judge == JUDGE and v.status is not Status.UNSCORED}
    known = {a.attempt_id for a in archive.attempts() if a.task_id != "unknown"}
    with unjudged(archive, JUDGE) as programs:
        todo = [*programs]
        assert len(programs) == len(todo) == len(known - scored) and programs.done == len(scored)
        assert {attempt.attempt_id for _, attempt in todo} == known - scored and programs.orphans == 1
        assert all(task.task_id == attempt.task_id for task, attempt in todo)
    with unjudged(archive, JUDGE, everything=True) as programs:
        assert len(programs) == len(known) and programs.done == 0
    with unjudged(archive, JUDGE, ["lint: ruff 1"]) as programs:
        assert len(programs) == len(known)


SEQUENCES = {
    Task("a", "b"): "requires",
    Attempt("a", "b", behavior_logp=-1): "token_ids",
    Verdict("a", Status.PASSED): "findings",
}


@pytest.mark.parametrize("record", SEQUENCES)
def test_plain_records_are_recognised_by_the_classes_of_their_values(record):
    assert are_plain([record, record])
    for name in {"language", "error_message", "passed", "truncated", "official"} & {*record.__slots__}:
        assert not are_plain([record, replace(record, **{name: 1.5})])
    assert not are_plain([replace(record, **{SEQUENCES[record]: (1,)})])


@pytest.mark.slow
@pytest.mark.usefixtures("large")
def test_an_archive_larger_than_the_memory_of_queries_is_sorted(tmp_path, monkeypatch):
    """Lists and structs that DuckDB aggregates stay in memory: a million attempts with a verdict each did not fit into 800 MB."""
    archive, rows = Archive.create(tmp_path / "a"), 30_000
    attempts = [Attempt(f"t{number * 6 // rows}", f"x = {number}" + " " * 200) for number in range(rows)]
    archive.write([Task(f"t{number}", "do") for number in range(6)], attempts, [])
    for judge in ("recorded:a", "recorded:b"):
        archive.write([], [], [Verdict(a.attempt_id, Status.PASSED, judge=judge, stdout_head=a.code * 20) for a in attempts])
    monkeypatch.setattr("upsolve.archive.database.MEMORY_LIMIT", "200MB")
    monkeypatch.setattr(module, "SOME_ROWS", rows // 3)
    groups = archive.groups()
    assert [len(group.attempts) for group in groups] == [rows // 6] * 6
    assert groups[3].attempts[7] == attempts[rows // 2 + 7] and groups[3].verdicts[7].judge == "recorded:b"


@pytest.mark.parametrize("judge", ["ci", "", "recorded:ci"])
def test_a_verdict_of_another_judge_is_recorded_whatever_its_name(judge):
    task, attempt = Task("t", "do"), Attempt("t", "x")
    own = Verdict(attempt.attempt_id, Status.PASSED, passed=1, total=1, judge="upsolve-2")
    other = Verdict(attempt.attempt_id, Status.FAILED, judge=judge)
    assert preferred([other, own], task) is other and preferred([other, own], replace(task, official=True)) is own


def test_connections_of_one_process_share_a_database_and_see_nothing_of_each_other():
    with connect({}, shared=True) as one, connect({}, shared=True) as two:
        one.execute("create table labels as select 1 as n")
        two.execute("create table labels as select 2 as n")
        assert one.sql("from labels").fetchall() == [(1,)] and two.sql("from labels").fetchall() == [(2,)]
        with pytest.raises(ArchiveError, match="nowhere"), connect({}, shared=True) as three:
            three.sql("from nowhere")
        assert one.sql("from labels").fetchall() == [(1,)]
    with connect({}, shared=True) as later:
        assert later.sql("select 3").fetchall() == [(3,)]
        with pytest.raises(duckdb.Error):
            later.sql("from labels")
