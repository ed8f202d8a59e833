"""The source of Spider's and BIRD's layout, on folders made here."""

import json
import sqlite3

import pytest

from upsolve.archive.split import split_archive
from upsolve.archive.store import Archive
from upsolve.config import DataConfig
from upsolve.errors import SourceError
from upsolve.importers.benchmarks.spider import is_ordered
from upsolve.importers.ingest import ingest
from upsolve.types import Attempt, Status
from upsolve.verify.judge.plans import judge_all

SCHEMA = "CREATE TABLE singer (id INTEGER PRIMARY KEY, name TEXT, age INTEGER);\nCREATE VIEW young AS SELECT * FROM singer WHERE age < 30"


def database(file, rows, schema=SCHEMA):
    file.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(file)
    connection.executescript(schema)
    connection.executemany("INSERT INTO singer VALUES (?, ?, ?)", rows)
    connection.commit()
    connection.close()


@pytest.fixture
def spider(tmp_path):
    folder = tmp_path / "spider"
    database(folder / "database/concert/concert.sqlite", [(1, "Ann", 20), (2, "Bo'b", 40), (3, None, None)])
    database(folder / "database/concert/concert_v1.sqlite", [(1, "Cy", 25)])
    database(folder / "database/large/large.sqlite", [(n, "x" * 100, n) for n in range(2000)])
    (folder / "tables.json").write_text("[]")
    train = [
        {"db_id": "concert", "question": "How many singers are there?", "query": "SELECT count(*) FROM singer"},
        {"db_id": "large", "question": "How many?", "query": "SELECT count(*) FROM singer"},
        {"db_id": "nowhere", "question": "How many?", "query": "SELECT count(*) FROM singer"},
    ]
    dev = [
        {
            "db_id": "concert",
            "question": "Names, the youngest first?",
            "query": 'SELECT name FROM singer WHERE name != "" ORDER BY age',
        },
        {"db_id": "concert", "question": "Wrong?", "query": "SELECT weight FROM singer"},
        {"db_id": "concert", "question": "Any?", "query": "SELECT name FROM singer ORDER BY random()"},
        {"db_id": "concert", "question": "No query"},
    ]
    (folder / "train_spider.json").write_text(json.dumps(train))
    (folder / "train_others.json").write_text(json.dumps([{**train[0], "question": "Count the singers."}, 7]))
    (folder / "dev.json").write_text(json.dumps(dev))
    return folder


def test_questions_become_tasks_and_what_cannot_be_used_is_rejected(spider, tmp_path):
    archive = Archive.create(tmp_path / "archive")
    report = ingest(archive, "spider", spider, max_rejected=1)
    assert (report.added["tasks"], report.bad) == (3, 6)
    reasons = {
        (row["file"].rpartition("/")[2], row["line"]): row["reason"]
        for row in map(json.loads, report.rejected.read_text().splitlines())
    }
    assert reasons["train_spider.json", 2].endswith(
        "large.sqlite: the SQL script of its database is longer than 100 kB; raise --max-kb"
    )
    assert reasons["train_spider.json", 3] == "no database nowhere/*.sqlite here"
    assert (
        "no such column: weight" in reasons["dev.json", 2]
        and "calls random(): a right query may give other rows" in reasons["dev.json", 3]
    )
    assert reasons["dev.json", 4] == "no field 'query'" and "train_others.json" in {file for file, _ in reasons}
    tasks = {task.task_id: task for task in archive.tasks()}
    first, last = tasks["spider/train_spider/1"], tasks["spider/dev/1"]
    assert first.prompt == f"{SCHEMA};\n\nHow many singers are there?"
    assert [test.expected for test in first.tests] == ["[3]\n", "[1]\n"] and all(test.hidden for test in first.tests)
    assert (first.compare, first.language, json.loads(first.extra)) == ("rows", "sql", {"schema": "concert", "split": "train"})
    assert (last.compare, last.tests[0].expected) == ("rows_in_order", '["Ann"]\n["Bo\'b"]\n')


def test_the_tasks_are_judged_and_split_as_recorded(spider, tmp_path):
    archive = Archive.create(tmp_path / "archive")
    ingest(archive, "spider", spider, max_rejected=1)
    tasks = archive.tasks()
    right = judge_all([(task, Attempt(task.task_id, task.reference, "sql")) for task in tasks])
    wrong = judge_all([(task, Attempt(task.task_id, "SELECT count(*) FROM young", "sql")) for task in tasks])
    assert {verdict.status for verdict in right} == {Status.PASSED} and {verdict.status for verdict in wrong} == {Status.FAILED}
    split = split_archive(archive, DataConfig(split_by="split"))
    assert [task.task_id for task in split.tasks["test"]] == ["spider/dev/1"]


def test_option_max_kb_admits_a_larger_database(spider, tmp_path):
    archive = Archive.create(tmp_path / "archive")
    ingest(archive, "spider", spider, max_kb=1000, max_databases=1, max_rejected=1)
    tests = {task.task_id: task.tests for task in archive.tasks()}
    assert tests["spider/train_spider/2"][0].expected == "[2000]\n" and len(tests["spider/train_spider/1"]) == 1


def test_bird_in_folders_of_its_own(tmp_path):
    folder = tmp_path / "bird"
    database(folder / "dev/dev_databases/choir/choir.sqlite", [(1, "Ann", 20)])
    row = {
        "question_id": 17,
        "db_id": "choir",
        "question": "Who?",
        "evidence": "young: below 30",
        "SQL": "SELECT name FROM young",
    }
    (folder / "dev/dev.json").write_text(json.dumps([{**row, "difficulty": "simple"}]))
    (folder / "dev/test.json").write_text(json.dumps([row]))
    archive = Archive.create(tmp_path / "archive")
    ingest(archive, "spider", folder)
    dev, test = archive.tasks()
    assert (dev.task_id, dev.source, dev.difficulty) == ("bird/dev/17", "bird", "simple")
    assert dev.prompt.endswith("\n\nWho?\n\nHint: young: below 30")
    assert [json.loads(task.extra)["split"] for task in (dev, test)] == ["dev", "test"]


def test_a_folder_without_questions_is_refused(tmp_path):
    with pytest.raises(SourceError, match=r"contains no question file: train_spider.json"):
        ingest(Archive.create(tmp_path / "archive"), "spider", tmp_path)


@pytest.mark.parametrize(
    ("query", "ordered"),
    [
        ("SELECT a FROM b ORDER BY c LIMIT 1", True),
        ("select a from b order\nby (c + (d))", True),
        ("SELECT a FROM b WHERE c IN (SELECT c FROM d ORDER BY (e) LIMIT 3)", False),
        ("SELECT 'order by' FROM b", False),
        ("SELECT rank() OVER (ORDER BY a) FROM b", False),
    ],
)
def test_whether_a_query_orders_its_rows(query, ordered):
    assert is_ordered(query) is ordered
