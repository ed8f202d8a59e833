"""A row that cannot be used costs itself, never its task or its neighbours."""

import json
import os

import pytest
from typer.testing import CliRunner

from upsolve.cli.main import app
from upsolve.importers.formats.texts import objects_in
from upsolve.importers.ingest import ingest
from upsolve.importers.rows import BadRow, build_each, first_rows
from upsolve.types import Attempt, Task

BAD = {"prompt": "p", "code": "x = '\ud83d'", "status": "passed"}
GOOD = [{"prompt": "p", "code": f"print({number})", "status": "passed"} for number in range(3)]


@pytest.mark.parametrize("at", [0, 1, 3])
def test_a_bad_row_leaves_its_task_and_the_other_attempts(archive, tmp_path, at, lines):
    report = ingest(archive, "table", lines(tmp_path / "in.jsonl", [*GOOD[:at], BAD, *GOOD[at:]]), max_rejected=1)
    assert (report.added["tasks"], report.added["attempts"], report.bad, report.read) == (1, 3, 1, 8)
    assert not any(report.orphans.values()) and not report.orphaned and len(archive.groups()) == 1


@pytest.mark.parametrize("source", ["verl", "openrlhf"])
def test_a_bad_rollout_leaves_its_task(archive, tmp_path, source, lines):
    names = {"verl": ("input", "output", "score"), "openrlhf": ("input", "output", "reward")}[source]
    rows = [dict(zip(names, ("p", code, 1.0), strict=True)) for code in ("x = '\ud83d'", "x = 1", "x = 2")]
    report = ingest(archive, source, lines(tmp_path / "in.jsonl", rows), max_rejected=1)
    assert (report.added["tasks"], report.added["attempts"], report.bad) == (1, 2, 1)
    assert not any(report.orphans.values())


def test_the_task_of_a_bad_row_comes_before_the_next_attempt_or_at_the_end(tmp_path):
    def build(row):
        yield Task(row["task"], "p")
        if row["code"] is None:
            raise ValueError("no program")
        yield Attempt(row["task"], row["code"])

    def alone(row):
        yield from build(row) if row["code"] is None else [Attempt(row["task"], row["code"])]

    rows = [(n, {"task": task, "code": code}) for n, (task, code) in enumerate([("a", None), ("b", None), ("a", "x")], 1)]
    found = [*build_each(tmp_path, rows, alone)]
    assert [row.task_id if isinstance(row, Task) else type(row).__name__ for row in found] == [
        "BadRow",
        "BadRow",
        "a",
        "Attempt",
        "b",
    ]
    again = [row.task_id for row in build_each(tmp_path, rows, build) if isinstance(row, Task)]
    assert again == ["a", "b"]  # the good row's own task replaces the held one


def test_a_task_with_a_field_of_another_type_is_not_held(tmp_path):
    def build(_row):
        yield Task(5, "p")  # type: ignore[arg-type]
        raise ValueError("no program")

    assert [type(row) for row in build_each(tmp_path, [(1, {})], build)] == [BadRow]


def test_attempts_whose_task_was_rejected_make_the_exit_code_1(tmp_path, lines):
    task = {"kind": "task", "task_id": "t", "prompt": 5}
    rows = [task, *({"kind": "attempt", "task_id": "t", "code": f"x = {n}"} for n in range(200))]
    file = lines(tmp_path / "in.jsonl", rows)
    run = CliRunner().invoke(app, ["ingest", "jsonl", str(file), str(tmp_path / "one")])
    assert run.exit_code == 1 and "200 attempts without a task" in run.output
    allowed = ["ingest", "jsonl", str(file), str(tmp_path / "two"), "--max-rejected", "1"]
    assert CliRunner().invoke(app, allowed).exit_code == 0


def test_attempts_alone_may_come_before_their_tasks(archive, tmp_path, lines):
    rows = [{"task_id": "t", "code": f"x = {n}", "status": "AC"} for n in range(3)]
    report = ingest(archive, "table", lines(tmp_path / "in.jsonl", rows))
    assert report.orphans["attempts without a task"] == 3 and not report.orphaned
    more = [{"task_id": "u", "prompt": "p", "code": "x"}, {"task_id": "v", "code": "x"}]
    assert ingest(archive, "table", lines(tmp_path / "more.jsonl", more)).orphaned


@pytest.mark.filterwarnings("ignore:.* look like tests")
@pytest.mark.parametrize("depth", [100, 980, 100_000])
@pytest.mark.parametrize("source", ["table", "jsonl", "verl"])
def test_nested_values_of_any_depth_are_read_or_rejected(archive, tmp_path, source, depth):
    nested = "[" * depth + "]" * depth
    good = {"kind": "task", "task_id": "t", "prompt": "p", "code": "x", "input": "p", "output": "x = 1", "score": 1}
    rows = [json.dumps(good)[:-1] + f', "more": {nested}}}', f'{{"kind": {nested}}}', json.dumps(good)]
    (tmp_path / "in.jsonl").write_text("\n".join(rows))
    report = ingest(archive, source, tmp_path / "in.jsonl", max_rejected=1)
    assert report.added["tasks"] == 1 and report.bad >= 1


def test_a_value_that_cannot_be_printed_is_rejected(tmp_path):
    nested = []
    for _ in range(5000):
        nested = [nested]

    def build(_row):
        raise ValueError("no")

    (row,) = build_each(tmp_path, [(1, {"a": nested})], build)
    assert isinstance(row, BadRow) and [*first_rows(iter([(1, {"a": nested})]))] == [(1, {"a": nested})]
    (item,) = objects_in(tmp_path, [nested])
    assert isinstance(item[1], BadRow)


def test_a_pipe_as_the_file_of_a_program_is_rejected_at_once(archive, tmp_path, lines):
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "a.py").write_text("x = 1")
    rows = [{"prompt": "p", "file": name} for name in ("pipe.py", "a.py", ".")]
    report = ingest(archive, "table", lines(tmp_path / "in.jsonl", rows), code_file="file", max_rejected=1)
    assert (report.bad, report.added["attempts"]) == (2, 1)
    assert "pipe.py" in report.reasons[0].reason
