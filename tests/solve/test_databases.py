"""Databases made from a schema: SQLite builds them, and they have what the question asks about."""

import sqlite3
from contextlib import closing

import pytest

from upsolve.errors import ConfigError
from upsolve.solve.databases import ROWS, databases_of, schema_in
from upsolve.types import Task

SCHEMA = """CREATE TABLE volcanoes (volcano_id INT PRIMARY KEY, name TEXT, "height, m" REAL NOT NULL)
CREATE TABLE eruptions (eruption_id INT, volcano_id INT REFERENCES volcanoes, seen DATE)
"""
TASK = Task("t", f"{SCHEMA}Which volcanoes such as 'Hekla' are higher than 4811 m?", language="sql")


def rows(script, query):
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(script)
        return connection.execute(query).fetchall()


def test_statements_end_with_their_parenthesis():
    assert schema_in(
        "Tell me: create table a (x INT DEFAULT (1 + 2), y TEXT) CREATE TABLE b(z INT); and CREATE TABLE broken (x"
    ) == [
        "create table a (x INT DEFAULT (1 + 2), y TEXT)",
        "CREATE TABLE b(z INT)",
    ]


def test_rows_have_keys_types_and_literals_of_the_question():
    scripts = [test.input for test in databases_of(TASK)]
    assert len({*scripts}) == 3 and scripts == [test.input for test in databases_of(TASK)]
    for script in scripts:
        assert rows(script, "select count(*), count(distinct volcano_id) from volcanoes") == [(ROWS, ROWS)]
        assert rows(script, "select count(*) from eruptions join volcanoes using (volcano_id)") == [(ROWS,)]
        assert rows(script, 'select count("height, m") from volcanoes') == [(ROWS,)], "no NULL where the schema forbids it"
        assert rows(script, "select count(*) from eruptions where seen not like '20__-__-__'") == [(0,)]
    assert any(rows(script, "select 1 from volcanoes where name = 'Hekla'") for script in scripts)
    assert any(rows(script, 'select 1 from volcanoes where "height, m" between 4810 and 4812') for script in scripts)


def test_tables_of_the_setup_are_not_made_again():
    task = Task("t", "How many?", setup="CREATE TABLE a (x INT);", language="sql")
    (first, *_) = databases_of(task)
    assert "CREATE" not in first.input and len(rows(task.setup + first.input, "select * from a")) == ROWS


def test_without_a_schema_there_is_nothing_to_run_on():
    assert databases_of(Task("t", "Write a function.")) == ()
    with pytest.raises(ConfigError, match="t: SQLite cannot read the schema"):
        databases_of(Task("t", "CREATE TABLE a (x INT, x INT)"))
