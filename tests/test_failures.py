"""The experiment on failed attempts: mutations by hand, and one cell of a tiny model that runs and resumes."""

import importlib
import json
import sys
from pathlib import Path

import pytest

from upsolve.archive.store import Archive, open_archive
from upsolve.types import Attempt, Group, Status, Task, Verdict

ROOT = Path(__file__).parents[1]


@pytest.fixture
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    before = {*sys.modules}
    yield importlib.import_module
    for name in {*sys.modules} - before:
        if "benchmarks" in str(getattr(sys.modules[name], "__file__", "")):
            sys.modules.pop(name)


SCHEMA = "CREATE TABLE t (a INT, b REAL)"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT a FROM t WHERE b > 5", {("wrong_column", "SELECT b FROM t WHERE b > 5"), ("wrong_column", "SELECT a FROM t WHERE a > 5")}),
        ("SELECT a FROM t WHERE b > 5", {("off_by_one", "SELECT a FROM t WHERE b >= 5"), ("comparison", "SELECT a FROM t WHERE b < 5")}),
        ("SELECT a FROM t WHERE b > 5", {("off_by_one", "SELECT a FROM t WHERE b > 4"), ("condition", "SELECT a FROM t")}),
        ("SELECT 1 WHERE x = 1 AND y = 2 LIMIT 3", {("condition", "SELECT 1 WHERE x = 1  LIMIT 3"), ("condition", "SELECT 1 WHERE x = 1 OR y = 2 LIMIT 3")}),
        ("SELECT MAX(a) FROM t", {("aggregate", "SELECT MIN(a) FROM t")}),
        ("SELECT a FROM t ORDER BY a DESC LIMIT 1", {("order", "SELECT a FROM t ORDER BY a  LIMIT 1"), ("limit", "SELECT a FROM t ORDER BY a DESC")}),
    ],
)  # fmt: skip
def test_mutations_of_queries(benchmarks, query, expected):
    assert expected <= {*benchmarks("near_misses").sql_mutants(query, SCHEMA)}


def test_a_range_and_a_string_are_no_place_for_mutations(benchmarks):
    found = {*benchmarks("near_misses").sql_mutants("SELECT 'a AND 5' FROM x WHERE y BETWEEN 2 AND 4")}
    assert all("'a AND 5'" in text and " OR " not in text for _, text in found) and len(found) == 5


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def f(n):\n    return n < 3", {"off_by_one": {"n <= 3", "n < 4", "n < 2"}, "comparison": {"n > 3"}}),
        ("def f(a, b):\n    return a and b", {"condition": {"a", "b", "a or b"}, "variable": {"b and b", "a and a"}}),
        ("def f(x):\n    return max(x) - 1", {"aggregate": {"min(x) - 1", "max(x) + 1"}}),
    ],
)
def test_mutations_of_programs(benchmarks, code, expected):
    found = {(kind, text.rpartition("return ")[2]) for kind, text in benchmarks("near_misses").python_mutants(code)}
    assert {(kind, text) for kind, texts in expected.items() for text in texts} <= found


def small(path, count):
    """Write an archive of the first training tasks of embedded-sql, and some of the other splits."""
    groups = {"train": [], "dev": [], "test": []}
    for group in open_archive("embedded-sql").groups():
        part = groups[group.task.extra.rpartition('"split": "')[2].rstrip('"}')]
        if len(part) < (count if part is groups["train"] else 3):
            part.append(group)
        if all(len(some) >= 3 for some in groups.values()) and len(groups["train"]) == count:
            break
    some = [group for part in groups.values() for group in part]
    attempts, verdicts = ([one for group in some for one in getattr(group, name) if one] for name in ("attempts", "verdicts"))
    Archive.create(path).append(tasks=[group.task for group in some], attempts=attempts, verdicts=verdicts)
    return path


@pytest.mark.slow
def test_near_misses_are_added_once_to_each_task(benchmarks, tmp_path):
    near_misses = benchmarks("near_misses")
    source = small(tmp_path / "source", 3)
    for _ in range(2):
        near_misses.main([str(source), str(tmp_path / "out"), "--each", "4"])
        for group in Archive(tmp_path / "out").groups():
            known = {one.attempt_id for one in next(g for g in Archive(source).groups() if g.task == group.task).attempts}
            new = [v for a, v in zip(group.attempts, group.verdicts, strict=True) if a.attempt_id not in known]
            assert len(new) == 4 and all(verdict and verdict.status is not Status.PASSED for verdict in new)


@pytest.mark.slow
def test_a_cell_runs_and_is_not_repeated(benchmarks, tmp_path, tiny_model, capsys):
    failures = benchmarks("failures")
    tiny = [
        "optim.max_steps=2",
        "monitor.heldout=0",
        "monitor.max_negative_gap=null",
        "model.bf16=false",
        "sample.max_tokens=4",
    ]
    tiny += ["evaluate.tasks=3", "evaluate.dev_tasks=3", "evaluate.many_samples=2", "evaluate.temperatures=[0, 1]"]
    source = small(tmp_path / "source", 4)
    common = [str(tmp_path / "work"), "--archive", str(source), "--results", str(tmp_path / "results"), "--start", "tiny"]
    common += ["--model", tiny_model, "--arms", "unlikelihood", "--seeds", "0", "--rates", "1e-3", "2e-3", "--set", *tiny]
    failures.main(common)
    (file,) = (tmp_path / "results").rglob("*.json.gz")
    assert file.name == "unlikelihood-g4-0.json.gz" and len([*(tmp_path / "work").rglob("summary.json")]) == 2, "two rates"
    written = file.stat().st_mtime_ns
    failures.main(common)
    assert file.stat().st_mtime_ns == written
    capsys.readouterr()
    failures.main(["--dry", *common])
    assert capsys.readouterr().out == "", "nothing is missing"
    failures.main([str(tmp_path), "--table", "--results", str(tmp_path / "results"), "--out", str(tmp_path / "failures.json")])
    (row,) = json.loads((tmp_path / "failures.json").read_text())["sql, from tiny"]
    assert row["cell"] == "unlikelihood-g4" and row["pass@1"][0] == 0 and "|unlikelihood-g4|1|0.0 " in capsys.readouterr().out
    assert (tmp_path / "failures_sql-from-tiny.svg").exists()


def test_examples_are_solved_training_tasks(benchmarks):
    def group(name, *rows):
        attempts = tuple(Attempt(name, code, author=author) for code, author, _ in rows)
        verdicts = tuple(Verdict(one.attempt_id, status) for one, (_, _, status) in zip(attempts, rows, strict=True))
        return Group(Task(name, f"say {name}", language="sql"), attempts, verdicts)

    passed, failed = Status.PASSED, Status.FAILED
    groups = [group("a", ("long one", "x", passed), ("short", "y", passed)), group("b", ("no", "x", failed))]
    groups.append(group("c", ("s", "x", passed), ("plain", "right:plain", passed)))
    found = {one["code"]: one["prompt"] for one in benchmarks("few_shot").shots(groups, 4, 0)}
    assert found == {
        name: f"say {task}\n\nAnswer with one query for SQLite." for name, task in (("short", "a"), ("plain", "c"))
    }


@pytest.mark.slow
@pytest.mark.parametrize("failures", ["mutations", "model"])
def test_unsolved_tasks_have_failed_attempts_alone(benchmarks, tmp_path, tiny_model, failures):
    unsolved = benchmarks("unsolved")
    given = [f"model.name={tiny_model}", "model.bf16=false", "optim.tokens_per_step=600", "sample.max_tokens=4"]
    given += ["optim.tokens_per_batch=600", "evaluate.tasks=3", "evaluate.dev_tasks=2"]
    command = [str(tmp_path), "--results", str(tmp_path / "cells"), "--tasks", "60", "--solved", "5", "--steps", "2", "1"]
    command += ["--each", "1", "--sampled", "6", "--seeds", "0", "--failures", failures, "--set", *given]
    unsolved.main([*command, "--arms", *unsolved.ARMS])
    found = benchmarks("leaderboard").cells_in(tmp_path / "cells")
    assert {kind.split("-", 2)[2] for kind in found} == {unsolved.slug(arm) for arm in unsolved.ARMS}
    folder = tmp_path / "unsolved" / "sql" / failures / "5" / "0"
    solved, failed, foreign = (
        {g.task.task_id: {a.code for a in g.attempts} for g in open_archive(folder / f"archive-{kind}").groups()}
        for kind in ("solved", "unsolved", "foreign")
    )
    assert len(solved) == 5 and not solved.keys() & failed.keys() and failed.keys() == foreign.keys()
    assert all(failed[task] != foreign[task] for task in failed), "each stands behind the prompt of another task"
    statuses = [v.status for g in open_archive(folder / "archive-unsolved").groups() for v in g.verdicts]
    assert Status.PASSED not in statuses and len(statuses) == len(failed)
