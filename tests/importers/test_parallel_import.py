"""Imports by several processes: the same archive as by one."""

import csv
import random

import pytest
from imports import write_lines
from killing import import_words, kill_after_parts, stored

from upsolve.archive.schema import TABLES
from upsolve.archive.store import Archive
from upsolve.cli.main import warning_line
from upsolve.importers import shares
from upsolve.importers.ingest import ingest
from upsolve.importers.registry import SOURCES
from upsolve.importers.shares import shares_of
from upsolve.importers.source import Source, Unit
from upsolve.types import Task

COLUMNS = ["submission_id", "problem_id", "user_id", "date", "language", "original_language", "filename_ext", "status"]
COLUMNS += ["cpu_time", "memory", "code_size", "accuracy"]


def codenet(folder, problems=12, each=40):
    (folder / "metadata").mkdir(parents=True)
    names = [f"p{number:05d}" for number in range(problems)]
    with (folder / "metadata" / "problem_list.csv").open("w") as out:
        out.write("id,name,dataset,time_limit,memory_limit,rating,tags,complexity\n")
        out.writelines(f"{name},Problem {name},AIZU,1000,131072,,,\n" for name in names)
    for name in names:
        code = folder / "data" / name / "Python"
        code.mkdir(parents=True)
        with (folder / "metadata" / f"{name}.csv").open("w", newline="") as out:
            table = csv.writer(out)
            table.writerow(COLUMNS)
            for number in range(each):
                (code / f"s{number}.py").write_text(f"print({number})  # {name}\n")
                status = ("Accepted", "Wrong Answer", "Nonsense")[number % 3]
                table.writerow([f"s{number}", name, "u1", 1400000000, "Python", "Python3", "py", status, 10, 9000, 20, ""])
    return folder


@pytest.fixture
def small_shares(monkeypatch):
    monkeypatch.setattr(shares, "SHARE_BYTES", 1)


@pytest.mark.slow
@pytest.mark.usefixtures("small_shares")
def test_an_archive_is_the_same_whoever_imports(tmp_path):
    tree, told = codenet(tmp_path / "tree"), []
    one, two = (Archive.create(tmp_path / name) for name in ("one", "two"))
    first = ingest(one, "codenet", tree, max_rejected=1)
    second = ingest(two, "codenet", tree, workers=2, max_rejected=1, on_progress=lambda *words: told.append(words))
    assert first.read == 12 * (1 + 27 * 2 + 13) and first.bad == 12 * 13
    assert told[-1] == (f"rows: {first.read:,}", 12, 12) and len(told) == 12
    assert (second.added, second.read, second.bad, second.reasons) == (first.added, first.read, first.bad, first.reasons)
    assert first.rejected.read_bytes() == second.rejected.read_bytes()
    for name in TABLES:
        assert [part.name for part in one.parts(name)] == [part.name for part in two.parts(name)]
        assert [part.read_bytes() for part in one.parts(name)] == [part.read_bytes() for part in two.parts(name)]
    assert one.groups() == two.groups() and len(one.groups()) == 12


@pytest.mark.slow
def test_processes_that_are_killed_again_and_again_store_what_one_stores(tmp_path, monkeypatch):
    tree = codenet(tmp_path / "tree", problems=20)
    setup = "from upsolve.importers import shares\nshares.SHARE_BYTES = 1"
    words = import_words(tmp_path, "codenet", tree, tmp_path / "killed", workers=2, setup=setup)
    kills, parts, draw = 0, 0, random.Random(0)
    while kill_after_parts(words, tmp_path / "killed", parts := parts + draw.randrange(10, 30)):
        kills += 1
    assert kills >= 2
    monkeypatch.setattr("upsolve.importers.importing.BATCH", 40)
    monkeypatch.setattr(shares, "SHARE_BYTES", 1)
    whole, killed = Archive.create(tmp_path / "whole"), Archive(tmp_path / "killed")
    ingest(whole, "codenet", tree, max_rejected=1)
    assert stored(killed) == stored(whole) and killed.meta() == whole.meta()


@pytest.mark.usefixtures("small_shares")
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_task_in_several_files_is_stored_once(tmp_path, workers):
    task = {"kind": "task", "task_id": "t", "prompt": "do"}
    attempts = [{"kind": "attempt", "task_id": "t", "code": f"print({number})"} for number in range(3)]
    for number, attempt in enumerate(attempts):
        write_lines(tmp_path / "in" / f"{number}.jsonl", [task, {**task, "task_id": f"t{number}"}, attempt])
    write_lines(tmp_path / "in" / "3.jsonl", [{**task, "prompt": "do something else"}])
    archive = Archive.create(tmp_path / "archive")
    archive.append(tasks=[Task("t2", "do")])
    report = ingest(archive, "jsonl", tmp_path / "in", workers=workers, max_rejected=1)
    assert report.added == {"tasks": 3, "attempts": 3, "verdicts": 0, "repeated": 3}
    assert (report.read, report.bad) == (10, 1) and "different content" in report.reasons[0].reason
    assert sorted(archive.column("tasks", "task_id")) == ["t", "t0", "t1", "t2"]
    assert {task.prompt for task in archive.tasks()} == {"do"}


@pytest.mark.usefixtures("small_shares")
@pytest.mark.slow
def test_processes_print_warnings_as_their_parent_does(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("warnings.formatwarning", warning_line)
    for number in range(2):
        write_lines(tmp_path / "puzzles" / f"{number}.jsonl", [{"prompt": "do", "code": f"print({number})", "verdict": "AC"}])
    ingest(Archive.create(tmp_path / "archive"), "table", tmp_path / "puzzles", workers=2)
    said = (
        "warning: puzzles: columns that no field has are stored in extra, and some look like fields: to use them, import into a new "
        "archive with --status verdict; without --status, no attempt has an outcome"
    )
    assert {*capfd.readouterr().err.splitlines()} == {said}


@pytest.mark.usefixtures("small_shares")
@pytest.mark.slow
def test_tables_of_a_folder_are_named_after_it(tmp_path):
    for number in range(2):
        write_lines(
            tmp_path / "puzzles" / f"part-{number}.jsonl", [{"task_id": "a", "prompt": "do", "code": f"print({number})"}]
        )
    one, two = (Archive.create(tmp_path / name) for name in ("one", "two"))
    ingest(one, "table", tmp_path / "puzzles", workers=2)
    two.write(*[[row for row in SOURCES["table"].read(tmp_path / "puzzles") if type(row).__name__ == kind] for kind in KINDS])
    assert [task.task_id for task in one.tasks()] == ["puzzles/a"] and one.attempts() == two.attempts()


KINDS = ("Task", "Attempt", "Verdict")


def test_units_are_shared_out_by_size(tmp_path):
    sizes = [700_000, 700_000, 3_000_000, 10, 10, 2_000_000]
    units = [Unit(tmp_path, {"number": number}, size) for number, size in enumerate(sizes)]
    source = Source(dict, "a path", split=lambda _: units)
    assert [[unit.options["number"] for unit in share] for share in shares_of(source, tmp_path, {})] == [[0, 1], [2], [3, 4, 5]]
    many = Source(dict, "a path", split=lambda path: [Unit(path, {}, 10_000_000)] * 1000)
    assert len(shares_of(many, tmp_path, {})) == 250


@pytest.mark.parametrize("name", ["apps", "code_contests", "codenet", "jsonl", "kodcode", "opencodeinstruct", "table"])
def test_the_units_of_a_source_are_all_of_it(tmp_path, name):
    rows = [{"id": number, "question_id": number, "prompt": f"do {number}", "code": "print(1)"} for number in range(3)]
    for number, row in enumerate(rows):
        write_lines(tmp_path / "folder" / f"{number}.jsonl", [row])
    path = codenet(tmp_path / "tree") if name == "codenet" else tmp_path / "folder"
    source = SOURCES[name]
    whole = [*source.read(path)]
    assert whole and whole == [row for unit in source.split(path) for row in source.read(unit.path, **unit.options)]
