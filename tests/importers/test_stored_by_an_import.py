"""What an import stores of tasks and attempts: limits, imports of contests, queries, and no record that is mistyped."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from upsolve.archive.store import Archive
from upsolve.cli.main import main
from upsolve.importers.ingest import ingest
from upsolve.importers.source import Source
from upsolve.types import Attempt, Status, Task
from upsolve.verify.judge.plans import judge

LEETCODE = "class Solution:\n    def total(self, numbers: List[int]) -> int:\n        return reduce(operator.add, numbers, 0)\n"


def test_codenet_and_tables_state_limits(tmp_path):
    (tmp_path / "t.csv").write_text("prompt,code,status,limit_seconds,limit_bytes\nAdd.,x,AC,1.5,67108864\n")
    archive = Archive.create(tmp_path / "archive")
    report = ingest(archive, "table", tmp_path / "t.csv")
    assert not report.bad, report.text()
    (task,) = archive.tasks()
    assert (task.limit_seconds, task.limit_bytes) == (1.5, 67108864)
    tree = tmp_path / "Project_CodeNet"
    (tree / "metadata").mkdir(parents=True)
    (tree / "data").mkdir()
    head = "id,name,dataset,time_limit,memory_limit,rating,tags,complexity\n"
    (tree / "metadata" / "problem_list.csv").write_text(f"{head}p1,One,AIZU,1000,131072,,,\np2,Two,AIZU,,x,,,\n")
    other = Archive.create(tmp_path / "other")
    ingest(other, "codenet", tree, max_rejected=1)
    assert [(t.limit_seconds, t.limit_bytes) for t in other.tasks()] == [(1.0, 131072 << 10), (None, None)]


def test_a_mistyped_field_is_found_among_many_rows(tmp_path):
    """Types are checked by chunk; a row with another type is rejected with its line."""
    rows = [{"kind": "task", "task_id": "a", "prompt": "p"}]
    rows += [{"kind": "attempt", "task_id": "a", "code": f"x = {n}", "tokens": 3, "token_ids": [1, 2, n]} for n in range(1200)]
    rows[700]["author"] = 17
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    archive = Archive.create(tmp_path / "archive")
    report = ingest(archive, "jsonl", path)
    assert (report.read, report.added["attempts"], report.bad) == (1201, 1199, 1)
    assert report.reasons[0].line == 701 and "author" in report.reasons[0].reason


def unchecked(path):
    """Yield records that no reader has checked."""
    assert path.exists()
    yield Task("a", "p")
    yield from (Attempt("a", f"x = {n}", author=17 if n == 5 else "me") for n in range(10))  # type: ignore[arg-type]


def test_records_of_a_reader_that_checks_nothing_are_checked(tmp_path):
    archive = Archive.create(tmp_path / "archive")
    (tmp_path / "in").write_text("")
    report = ingest(archive, Source(unchecked, "a file"), tmp_path / "in", max_rejected=1)
    assert (report.added["attempts"], report.bad) == (9, 1) and "author" in report.reasons[0].reason


def test_a_process_that_queried_an_archive_ends_quietly():
    """Annotations that hold DuckDB's classes made its bindings report leaks at exit."""
    code = "import upsolve.archive.unjudged, upsolve.importers.ingest, upsolve.clean.check\n"
    code += "from upsolve.archive.store import open_archive\nopen_archive('embedded').query('select 1')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_an_import_keeps_them_with_its_tasks_and_verify_adds_them(tmp_path, monkeypatch):
    row = {"prompt": "Add up.", "tests": ["assert Solution().total([1, 2]) == 3"], "code": LEETCODE, "entry_point": "Solution"}
    (tmp_path / "log.jsonl").write_text(json.dumps(row))
    for options, words, passed in (({"imports": "contest"}, [], 1), ({}, [], 0), ({}, ["--imports", "contest"], 1)):
        archive = Archive.create(tmp_path / f"{len([*tmp_path.iterdir()])}")
        assert not ingest(archive, "table", tmp_path / "log.jsonl", **options).bad
        monkeypatch.setattr(sys, "argv", ["upsolve", "verify", str(archive.path), "--workers", "1", *words])
        with pytest.raises(SystemExit):
            main()
        assert archive.query("select count(*) filter (status = 'passed') as n from verdicts").to_pylist() == [{"n": passed}]
    (task,) = archive.tasks()
    exported = {"kind": "task", "task_id": "x/1", "prompt": "", "tests": [vars_of(test) for test in task.tests]}
    (tmp_path / "in.jsonl").write_text(json.dumps(exported))
    other = Archive.create(tmp_path / "other")
    ingest(other, "jsonl", tmp_path / "in.jsonl", imports="contest")
    assert "from typing import" in other.tasks()[0].setup and "import" not in task.setup


def vars_of(test):
    return {"kind": test.kind, "input": test.input, "expected": test.expected}


def test_the_documented_task_is_judged(tmp_path):
    text = (Path(__file__).parents[2] / "docs/languages.md").read_text()
    file = tmp_path / "queries.jsonl"
    file.write_text(text.partition("```jsonl\n")[2].partition("```")[0])
    archive = Archive.create(tmp_path / "archive")
    ingest(archive, "jsonl", file)
    ((group,)) = archive.groups()
    assert judge(group.task, group.attempts[0]).status is Status.PASSED
