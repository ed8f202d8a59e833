"""Language duckdb: queries for DuckDB, where its package is installed."""

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from upsolve.languages import packages_folder
from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.judge.plans import judge, judge_all
from upsolve.verify.judge.queries import expected_rows
from upsolve.verify.sandbox.runner import forget_server

SETUP = "CREATE TABLE t (id INTEGER, name VARCHAR, price DECIMAL(9, 2), day DATE);"
ROWS = "INSERT INTO t VALUES (1, 'Ann', 2.50, '2024-01-31'), (2, 'Bo', NULL, '2024-02-01'), (3, 'Cy', 4.00, NULL);"
HONEST = [
    ("SELECT name FROM t WHERE price > 3", '["Cy"]\n'),
    ("from t select id order by id desc;", "[1]\n[2]\n[3]\n"),
    ("SELECT 1;; -- a\n;", "[1]\n"),
    ("SELECT sum(price), avg(price), count(*) FROM t", "[6.5, 3.25, 3]\n"),
    ("SELECT day + INTERVAL 1 DAY, month(day) FROM t WHERE id = 1", '["2024-02-01 00:00:00", 1]\n'),
    ("SELECT name, rank() OVER (ORDER BY price NULLS LAST) FROM t QUALIFY rank() OVER (ORDER BY id) = 1", '["Ann", 1]\n'),
    (
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 5) SELECT list(x), sum(x) FROM n",
        "[[1, 2, 3, 4, 5], 15]\n",
    ),
]
BAD = [
    ("SELECT name\nFORM t", Status.COMPILE_ERROR, "SyntaxError", 2),
    ("SELECT 1; SELECT 2", Status.COMPILE_ERROR, "SyntaxError", None),
    ("", Status.COMPILE_ERROR, "SyntaxError", None),
    ("SELECT id,\n  nme FROM t", Status.RUNTIME_ERROR, "NoSuchColumn", 2),
    ("SELECT 1 FROM u", Status.RUNTIME_ERROR, "NoSuchTable", 1),
    ("SELECT nothing_like_it(1)", Status.RUNTIME_ERROR, "NoSuchFunction", 1),
    ("DELETE FROM t", Status.RUNTIME_ERROR, "Refused", None),
    ("WITH x AS (INSERT INTO t (id) VALUES (9) RETURNING id) SELECT * FROM x", Status.RUNTIME_ERROR, "Refused", None),
    ("SELECT * FROM read_csv('/etc/passwd')", Status.RUNTIME_ERROR, "Refused", None),
    ("COPY t TO '/tmp/t.csv'", Status.RUNTIME_ERROR, "Refused", None),
    ("ATTACH '/tmp/t.db'", Status.RUNTIME_ERROR, "Refused", None),
    ("SET enable_external_access = true", Status.RUNTIME_ERROR, "Refused", None),
    ("INSTALL httpfs", Status.RUNTIME_ERROR, "Refused", None),
    ("SELECT random()", Status.FAILED, "", None),
]


def task(expected):
    return Task("t", "", (TestCase(TestKind.STDIO, ROWS, expected),), language="duckdb", compare="rows", setup=SETUP)


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """Verdicts by query, with this environment's DuckDB where ``upsolve packages duckdb`` would put it."""
    patch = pytest.MonkeyPatch()
    patch.setenv("UPSOLVE_PACKAGES", str(tmp_path_factory.mktemp("packages")))
    source = Path(find_spec("duckdb").origin).parents[1]
    for path in (*source.glob("duckdb*"), *source.glob("_duckdb*.so")):
        target = packages_folder() / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if path.is_dir() else shutil.copy)(path, target)
    pairs = [(task(rows), Attempt("t", query, "duckdb")) for query, rows in HONEST]
    pairs += [(task("[1]\n"), Attempt("t", query, "duckdb")) for query, *_ in BAD]
    yield {attempt.code: verdict for (_, attempt), verdict in zip(pairs, judge_all(pairs), strict=True)}
    forget_server("python:duckdb")
    patch.undo()


@pytest.mark.parametrize("query", [query for query, _ in HONEST])
def test_an_honest_query_passes(verdicts, query):
    assert verdicts[query].status is Status.PASSED, (verdicts[query].error_message, verdicts[query].stdout_head)


@pytest.mark.parametrize(("query", "status", "kind", "line"), BAD)
def test_what_is_no_right_query(verdicts, query, status, kind, line):
    found = verdicts[query]
    assert (found.status, found.error_type, found.error_line) == (status, kind, line), found.error_message


@pytest.mark.usefixtures("verdicts")
def test_expected_rows_come_from_the_same_engine():
    assert expected_rows("SELECT max(price) FROM t", [SETUP + ROWS, SETUP], name="duckdb") == ["[4]\n", "[null]\n"]
    with pytest.raises(ValueError, match="the reference query fails: Refused"):
        expected_rows("DROP TABLE t", [SETUP], name="duckdb")


def test_without_the_package_nobody_is_judged(tmp_path, monkeypatch):
    monkeypatch.setenv("UPSOLVE_PACKAGES", str(tmp_path))
    verdict = judge(task("[1]\n"), Attempt("t", "SELECT 1", "duckdb"))
    assert verdict.status is Status.UNSCORED and "no package duckdb: run `upsolve packages duckdb`" in verdict.error_message
