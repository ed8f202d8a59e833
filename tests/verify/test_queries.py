"""Language sql: honest queries of all habits pass, wrong ones fail, and everything that is no read of the database is refused."""

import json
from dataclasses import replace

import pytest

from upsolve.types import Attempt, Finding, Status, Task, TestCase, TestKind, Verdict
from upsolve.verify.judge.plans import judge, judge_all
from upsolve.verify.judge.queries import expected_rows, query_outcomes, with_column
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.sandbox.runner import Exit

SCHEMA = """
CREATE TABLE authors (id INTEGER PRIMARY KEY, name TEXT NOT NULL, country TEXT, born TEXT);
CREATE TABLE books (
    id INTEGER PRIMARY KEY, title TEXT, author_id INTEGER REFERENCES authors(id), year INTEGER, price REAL, "page count" INTEGER);
CREATE TABLE sales (book_id INTEGER, day TEXT, copies INTEGER);
CREATE VIEW priced AS SELECT id, title, price FROM books WHERE price IS NOT NULL;
"""
ROWS = """
INSERT INTO authors VALUES (1, 'Ann Lee', 'UK', '1950-03-01'), (2, 'Bo Chen', 'CN', '1980-12-24'), (3, 'Cy Diaz', 'ES', NULL),
    (4, 'Di Evans', 'UK', '1975-07-07');
INSERT INTO books VALUES (1, 'Alpha', 1, 1999, 10.0, 100), (2, 'Beta', 1, 2005, 12.5, 200), (3, 'Gamma', 2, 2005, NULL, 300),
    (4, 'Delta', 3, 2010, 20.0, 150), (5, 'O''Hara; the end', 2, 2020, 7.25, NULL);
INSERT INTO sales VALUES (1, '2024-01-01', 3), (1, '2024-01-02', 4), (2, '2024-01-01', 1), (4, '2024-02-10', 10), (4, '2024-02-11', 0);
"""
HONEST = [
    ("SELECT title FROM books WHERE year = 2005", [["Beta"], ["Gamma"]]),
    ("select title from books where year=2005;", [["Gamma"], ["Beta"]]),
    ("  \n\tSELECT title\n  FROM books\n WHERE year = 2005 ;  \n", [["Beta"], ["Gamma"]]),
    ("-- the books\nSELECT title FROM books WHERE year = 2005 -- of 2005", [["Beta"], ["Gamma"]]),
    ("/* the; books */ SELECT title /* ; */ FROM books WHERE year = 2005; -- done;\n/* yes */", [["Beta"], ["Gamma"]]),
    ("SELECT * FROM authors WHERE id = 3", [[3, "Cy Diaz", "ES", None]]),
    ('SELECT "title" FROM "books" WHERE "page count" > 150', [["Beta"], ["Gamma"]]),
    ("SELECT `title` FROM `books` WHERE `page count` > 150", [["Beta"], ["Gamma"]]),
    ("SELECT [title] FROM [books] WHERE [page count] > 150", [["Beta"], ["Gamma"]]),
    ("SELECT title FROM books WHERE title LIKE 'o''hara%'", [["O'Hara; the end"]]),
    ("SELECT title FROM books WHERE title GLOB '*lpha'", [["Alpha"]]),
    ("SELECT title FROM books WHERE price BETWEEN 10 AND 12.5", [["Alpha"], ["Beta"]]),
    ("SELECT title FROM books WHERE year IN (1999, 2020)", [["Alpha"], ["O'Hara; the end"]]),
    ("SELECT title FROM books WHERE price IS NULL", [["Gamma"]]),
    ("SELECT DISTINCT year FROM books WHERE year < 2010", [[1999], [2005]]),
    ("SELECT count(*) FROM books", [[5]]),
    ("SELECT COUNT(price), SUM(price), AVG(price), MIN(price), MAX(price) FROM books", [[4, 49.75, 12.4375, 7.25, 20]]),
    ("SELECT total(copies) FROM sales", [[18]]),
    ("SELECT year, COUNT(*) AS n FROM books GROUP BY year HAVING n > 1", [[2005, 2]]),
    ("SELECT author_id, COUNT(*) FROM books GROUP BY 1 HAVING COUNT(*) >= 2", [[1, 2], [2, 2]]),
    (
        "SELECT a.name, b.title FROM authors a JOIN books b ON b.author_id = a.id WHERE a.country = 'UK'",
        [["Ann Lee", "Alpha"], ["Ann Lee", "Beta"]],
    ),
    (
        "SELECT name, title FROM authors, books WHERE authors.id = books.author_id AND year > 2005",
        [["Cy Diaz", "Delta"], ["Bo Chen", "O'Hara; the end"]],
    ),
    ("SELECT a.name FROM authors AS a LEFT JOIN books AS b ON b.author_id = a.id WHERE b.id IS NULL", [["Di Evans"]]),
    (
        "SELECT a.name, COUNT(b.id) FROM authors a LEFT OUTER JOIN books b ON a.id = b.author_id GROUP BY a.id",
        [["Ann Lee", 2], ["Bo Chen", 2], ["Cy Diaz", 1], ["Di Evans", 0]],
    ),
    (
        "SELECT b.title, sum(s.copies) FROM books b INNER JOIN sales s ON s.book_id = b.id GROUP BY b.id",
        [["Alpha", 7], ["Beta", 1], ["Delta", 10]],
    ),
    (
        "SELECT a.name, SUM(s.copies * b.price) FROM authors a JOIN books b ON b.author_id = a.id JOIN sales s ON s.book_id = b.id GROUP BY a.name",
        [["Ann Lee", 82.5], ["Cy Diaz", 200.0]],
    ),
    ("SELECT x.title, y.title FROM books x JOIN books y ON x.year = y.year AND x.id < y.id", [["Beta", "Gamma"]]),
    ("SELECT count(*) FROM authors CROSS JOIN books", [[20]]),
    ("SELECT id FROM books NATURAL JOIN (SELECT 4 AS id)", [[4]]),
    (
        "SELECT title FROM books JOIN (SELECT book_id AS id, day FROM sales) USING (id) WHERE day < '2024-01-02'",
        [["Alpha"], ["Beta"]],
    ),
    ("SELECT title FROM books WHERE price = (SELECT max(price) FROM books)", [["Delta"]]),
    (
        "SELECT title FROM books WHERE author_id IN (SELECT id FROM authors WHERE country = 'CN')",
        [["Gamma"], ["O'Hara; the end"]],
    ),
    (
        "SELECT name FROM authors a WHERE EXISTS (SELECT 1 FROM books b WHERE b.author_id = a.id AND b.year = 2005)",
        [["Ann Lee"], ["Bo Chen"]],
    ),
    ("SELECT name FROM authors a WHERE NOT EXISTS (SELECT * FROM books WHERE author_id = a.id)", [["Di Evans"]]),
    (
        "SELECT name, (SELECT COUNT(*) FROM books WHERE author_id = authors.id) FROM authors WHERE id < 3",
        [["Ann Lee", 2], ["Bo Chen", 2]],
    ),
    ("SELECT avg(n) FROM (SELECT count(*) AS n FROM books GROUP BY author_id)", [[5 / 3]]),
    ("SELECT year FROM books UNION SELECT 2005", [[1999], [2005], [2010], [2020]]),
    ("SELECT year FROM books WHERE id < 3 UNION ALL SELECT 2005", [[1999], [2005], [2005]]),
    ("SELECT id FROM authors EXCEPT SELECT author_id FROM books", [[4]]),
    ("SELECT id FROM authors INTERSECT SELECT book_id FROM sales", [[1], [2], [4]]),
    (
        "SELECT title, CASE WHEN price > 11 THEN 'dear' WHEN price IS NULL THEN 'unknown' ELSE 'cheap' END FROM books WHERE id < 4",
        [["Alpha", "cheap"], ["Beta", "dear"], ["Gamma", "unknown"]],
    ),
    ("SELECT CASE country WHEN 'UK' THEN 1 ELSE 0 END, name FROM authors WHERE id IN (1, 2)", [[1, "Ann Lee"], [0, "Bo Chen"]]),
    (
        "SELECT iif(price > 11, 'dear', 'other'), coalesce(price, 0), ifnull(price, -1), nullif(year, 2005) FROM books WHERE id = 3",
        [["other", 0, -1, None]],
    ),
    (
        "WITH old AS (SELECT * FROM books WHERE year < 2006) SELECT title FROM old WHERE price IS NOT NULL",
        [["Alpha"], ["Beta"]],
    ),
    ("with a as (select 1 as x), b(y) as (select x + 1 from a) select x, y from a, b", [[1, 2]]),
    ("WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 5) SELECT sum(x) FROM n", [[15]]),
    ("WITH RECURSIVE n(x) AS (VALUES (1) UNION SELECT x * 2 FROM n LIMIT 4) SELECT group_concat(x, '-') FROM n", [["1-2-4-8"]]),
    ("VALUES (1, 'a'), (2, 'b')", [[1, "a"], [2, "b"]]),
    (
        "SELECT title, rank() OVER (ORDER BY price DESC) FROM books WHERE price IS NOT NULL",
        [["Delta", 1], ["Beta", 2], ["Alpha", 3], ["O'Hara; the end", 4]],
    ),
    (
        "SELECT id, ROW_NUMBER() OVER (PARTITION BY author_id ORDER BY year) AS n FROM books",
        [[1, 1], [2, 2], [3, 1], [5, 2], [4, 1]],
    ),
    (
        "SELECT day, sum(copies) OVER (ORDER BY day ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM sales WHERE book_id = 4",
        [["2024-02-10", 10], ["2024-02-11", 10]],
    ),
    (
        "SELECT day, copies - lag(copies) OVER w FROM sales WHERE book_id = 1 WINDOW w AS (ORDER BY day)",
        [["2024-01-01", None], ["2024-01-02", 1]],
    ),
    (
        "SELECT title FROM (SELECT title, dense_rank() OVER (PARTITION BY author_id ORDER BY year DESC) AS r FROM books) WHERE r = 1",
        [["Beta"], ["O'Hara; the end"], ["Delta"]],
    ),
    ("SELECT count(*) FILTER (WHERE price > 11) FROM books", [[2]]),
    ("SELECT title FROM priced WHERE price > 11", [["Beta"], ["Delta"]]),
    ("SELECT strftime('%Y', born) FROM authors WHERE born IS NOT NULL", [["1950"], ["1980"], ["1975"]]),
    ("SELECT date(day, '+1 month', 'start of month') FROM sales WHERE copies = 10", [["2024-03-01"]]),
    ("SELECT julianday('2024-02-11') - julianday(min(day)) FROM sales", [[41]]),
    (
        "SELECT upper(name), lower(country), length(name), substr(name, 1, 2) FROM authors WHERE id = 1",
        [["ANN LEE", "uk", 7, "An"]],
    ),
    ("SELECT name || ' (' || country || ')' FROM authors WHERE id = 2", [["Bo Chen (CN)"]]),
    (
        "SELECT instr(name, ' '), replace(name, 'A', 'a'), trim('  x '), printf('%05.1f', 3.14159) FROM authors WHERE id = 1",
        [[4, "ann Lee", "x", "003.1"]],
    ),
    ("SELECT group_concat(title, ', ') FROM (SELECT title FROM books WHERE author_id = 1 ORDER BY title)", [["Alpha, Beta"]]),
    (
        "SELECT round(avg(price), 2), abs(-3), CAST('12abc' AS INTEGER), 7 / 2, 7 / 2.0, 7 % 3 FROM books",
        [[12.44, 3, 12, 3, 3.5, 1]],
    ),
    (
        "SELECT json_extract('{\"a\": [1, 2]}', '$.a[1]'), x'00ff', typeof(price) FROM books WHERE id = 1",
        [[2, {"blob": "00ff"}, "real"]],
    ),
    ("SELECT title FROM books WHERE title = 'alpha' COLLATE NOCASE", [["Alpha"]]),
    ("SELECT 'naïve 日本 😀' AS x", [["naïve 日本 😀"]]),
    ("SELECT b.* FROM (SELECT 1 AS one, NULL AS two) b", [[1, None]]),
    ("SELECT title FROM books WHERE (author_id, year) IN (VALUES (1, 1999), (2, 2020))", [["Alpha"], ["O'Hara; the end"]]),
    ("SELECT sqlite_version() <> ''", [[1]]),
    ("SELECT value FROM JSON_EACH('[1, 2]')", [[1], [2]]),
    ("SELECT e.key, t.fullkey FROM json_each('{\"a\": 1}') e, json_tree('[]') t", [["a", "$"]]),
    ("SELECT name, pk FROM pragma_table_info('books') LIMIT 2", [["id", 1], ["title", 0]]),
    ("SELECT p.name FROM sqlite_master m JOIN PRAGMA_table_info(m.name) p WHERE m.name = 'authors' AND p.pk", [["id"]]),
    ("SELECT value FROM json_each((SELECT 1 FROM pragma_table_info('books')))", [[1]]),
    ("SELECT 1;;", [[1]]),
    ("; /* a; */ SELECT ';' -- b; c\n; -- d; e\n ;; /* f", [[";"]]),
    ("\ufeffSELECT 1", [[1]]),
    ("SELECT title FROM books WHERE year > 3000", []),
    ("SELECT max(price) FROM books WHERE year > 3000", [[None]]),
]
IN_ORDER = [
    ("SELECT title FROM books ORDER BY year DESC, title ASC", [["O'Hara; the end"], ["Delta"], ["Beta"], ["Gamma"], ["Alpha"]]),
    ("SELECT title FROM books ORDER BY price IS NULL, price LIMIT 2", [["O'Hara; the end"], ["Alpha"]]),
    ("SELECT title FROM books ORDER BY id LIMIT 2 OFFSET 3", [["Delta"], ["O'Hara; the end"]]),
    ("SELECT title FROM books ORDER BY price NULLS LAST LIMIT 1", [["O'Hara; the end"]]),
]
WRONG = [
    ("SELECT title FROM books ORDER BY year", IN_ORDER[0][1], "rows_in_order"),
    ("SELECT DISTINCT author_id FROM books", [[1], [1], [2], [3], [2]], "rows"),
    ("SELECT title, year FROM books WHERE year = 2005", [["Beta"], ["Gamma"]], "rows"),
    ("SELECT title FROM books WHERE year = 2010", [["Beta"], ["Gamma"]], "rows"),
    ("SELECT COUNT(*) FROM books", [[5.5]], "rows"),
    ("SELECT '5'", [[5]], "rows"),
    ("SELECT NULL", [[0]], "rows"),
]


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def task(rows, compare="rows", **more):
    given = {"setup": SCHEMA, **more}
    return Task(
        "library", "", (TestCase(TestKind.STDIO, ROWS, lines(rows), hidden=True),), language="sql", compare=compare, **given
    )


def run(query, rows=(), settings=None, **more):
    given = task(rows, **more)
    return judge(given, Attempt(given.task_id, query, "sql"), settings)


@pytest.fixture(scope="module")
def verdicts():
    """The verdicts of all honest and wrong queries, judged in one go."""
    cases = [*((q, rows, "rows") for q, rows in HONEST), *((q, rows, "rows_in_order") for q, rows in IN_ORDER), *WRONG]
    pairs = [(task(rows, compare), Attempt("library", query, "sql")) for query, rows, compare in cases]
    return {(query, compare): verdict for (query, _, compare), verdict in zip(cases, judge_all(pairs), strict=True)}


@pytest.mark.parametrize(
    ("query", "compare"),
    [(q, "rows") for q, _ in HONEST] + [(q, "rows_in_order") for q, _ in IN_ORDER],
)
def test_an_honest_query_passes(verdicts, query, compare):
    verdict = verdicts[query, compare]
    assert verdict.status is Status.PASSED, (verdict.error_type, verdict.error_message, verdict.stdout_head)


@pytest.mark.parametrize(("query", "compare"), [(q, compare) for q, _, compare in WRONG])
def test_a_wrong_query_fails(verdicts, query, compare):
    assert verdicts[query, compare].status is Status.FAILED
    assert verdicts[query, compare].error_message == "hidden test 1: wrong output"


@pytest.mark.parametrize(
    ("query", "line", "column", "words"),
    [
        ("SELECT title\nFORM books", 2, 6, 'near "books": syntax error'),
        ("SELEC title FROM books", 1, 1, 'near "SELEC": syntax error'),
        ("SELECT title FROM books\nWHERE year = = 3", 2, 14, 'near "=": syntax error'),
        ("SELECT 'FROM', title FROM books\nWHERE FROM", 2, 7, 'near "FROM": syntax error'),
        ("SELECT title, FROM books", 1, 15, 'near "FROM": syntax error'),
        ("SELECT count(* FROM books", 1, 16, 'near "FROM": syntax error'),
        ("SELECT title FROM books WHERE\n", 1, 30, "the query ends too early"),
        ("SELECT 'open FROM books", 1, 8, "unrecognized token"),
        ("Here is the query: SELECT 1", 1, 1, 'near "Here": syntax error'),
    ],
)
def test_a_syntax_error_is_a_compile_error_with_its_place(query, line, column, words):
    verdict = run(query)
    assert (verdict.status, verdict.error_type, verdict.error_line) == (Status.COMPILE_ERROR, "SyntaxError", line)
    assert words in verdict.error_message
    (finding,) = verdict.findings
    assert (finding.kind, finding.line, finding.column) == ("syntax", line, column)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "not a query: it has no columns"),
        ("REINDEX", "not a query"),
        ("-- nothing", "not a query"),
        (";", "not a query"),
        ("SELECT 1; SELECT 2", "more than one statement"),
        ("SELECT 1;; SELECT 2", "more than one statement"),
        ("SELECT 1; -- a\nSELECT 2", "more than one statement"),
        (";; -- a", "not a query"),
        ("SELECT 1; DROP TABLE books", "more than one statement"),
        ("SELECT 1\x00", "null character"),
        ("SELECT '\ud800'", "surrogates not allowed"),
    ],
)
def test_an_attempt_is_one_statement(query, words):
    verdict = run(query, [[1]])
    assert verdict.status is Status.COMPILE_ERROR and words in verdict.error_message


@pytest.mark.parametrize(
    ("query", "kind", "words", "line"),
    [
        ("SELECT title,\n  prize FROM books", "NoSuchColumn", "no such column: prize", 2),
        ("SELECT b.prize FROM books b", "NoSuchColumn", "no such column: b.prize", 1),
        ("SELECT title FROM book", "NoSuchTable", "no such table: book", 1),
        ("SELECT id FROM books, authors", "AmbiguousColumn", "ambiguous column name: id", 1),
        ("SELECT median(price) FROM books", "NoSuchFunction", "no such function: median", 1),
        ("SELECT title FROM books WHERE sum(price) > 3", "Misuse", "misuse of aggregate", None),
        ("SELECT abs(-9223372036854775808)", "OperationalError", "integer overflow", None),
        ("SELECT substr()", "WrongArguments", "wrong number of arguments", None),
    ],
)
def test_a_wrong_name_is_a_runtime_error_that_names_it(query, kind, words, line):
    verdict = run(query)
    assert (verdict.status, verdict.error_type, verdict.error_line) == (Status.RUNTIME_ERROR, kind, line)
    assert words in verdict.error_message


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM books",
        "INSERT INTO books(id) VALUES (9)",
        "INSERT INTO books(id) VALUES (9) RETURNING id",
        "UPDATE books SET price = 1",
        "REPLACE INTO books(id) VALUES (1)",
        "CREATE TABLE x (a)",
        "CREATE TEMP TABLE x AS SELECT 1",
        "CREATE VIEW x AS SELECT 1",
        "CREATE TEMP VIEW x AS SELECT 1",
        "CREATE TRIGGER x AFTER INSERT ON books BEGIN SELECT 1; END",
        "CREATE VIRTUAL TABLE x USING fts5(a)",
        "CREATE INDEX x ON books(year)",
        "DROP TABLE books",
        "ALTER TABLE books ADD COLUMN x",
        "PRAGMA writable_schema = ON",
        "PRAGMA user_version = 2",
        "SELECT * FROM pragma_table_info('books'), pragma_database_list",
        "SELECT * FROM pragma_module_list",
        "SELECT * FROM dbstat",
        "SELECT value FROM json_each((SELECT 1 FROM pragma_module_list))",
        "ATTACH 'other.db' AS other",
        "DETACH main",
        "VACUUM",
        "VACUUM INTO '/tmp/copy.db'",
        "ANALYZE",
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT x",
        "WITH x AS (SELECT 1) DELETE FROM books",
        "SELECT load_extension('libc.so.6')",
        "SELECT randomblob(1000000000)",
    ],
)
def test_what_is_no_reading_is_refused(query):
    verdict = run(query, [])
    assert verdict.status is Status.RUNTIME_ERROR, verdict
    assert verdict.error_type == "Refused" and "is refused: a query m" in verdict.error_message


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT body FROM notes WHERE notes MATCH 'quick OR lazy' ORDER BY rank", [["a lazy dog"], ["a quick fox"]]),
        ("SELECT id FROM authors ORDER BY random()", [[1], [2], [3], [4]]),
        ("SELECT abs(RANDOM() % 10) BETWEEN 0 AND 9 FROM authors WHERE id = 1", [[1]]),
    ],
)
def test_queries_that_use_full_text_or_chance(query, rows):
    notes = f"{SCHEMA}CREATE VIRTUAL TABLE notes USING fts5(body); INSERT INTO notes VALUES ('a quick fox'), ('a lazy dog');"
    first, again = (judge(task(rows, setup=notes), Attempt("library", query, "sql")) for _ in range(2))
    assert first.status is Status.PASSED and first.stdout_head == again.stdout_head, first


def test_a_table_may_have_the_name_of_a_function():
    given = task([[7]], setup=f"{SCHEMA}CREATE TABLE json_each (x); INSERT INTO json_each VALUES (7);")
    assert judge(given, Attempt("library", "SELECT x FROM json_each", "sql")).status is Status.PASSED


def test_every_test_has_a_database_of_its_own():
    tests = tuple(
        TestCase(TestKind.STDIO, f"INSERT INTO sales VALUES (1, 'd', {n});", f"[{n if n < 3 else 0}]\n", hidden=True)
        for n in (1, 2, 3)
    )
    given = Task("counts", "", tests, language="sql", compare="rows", setup=SCHEMA)
    verdict = judge(given, Attempt("counts", "SELECT sum(copies) FROM sales", "sql"))
    assert verdict.outcomes == (Status.PASSED, Status.PASSED, Status.FAILED)
    assert (verdict.passed, verdict.total, verdict.status) == (2, 3, Status.FAILED)
    assert verdict.stdout_head == "[1]\n[2]\n[3]\n"


def test_a_query_that_fails_on_one_database_is_still_run_on_the_next():
    tests = tuple(
        TestCase(TestKind.STDIO, f"INSERT INTO t VALUES ({value});", "[7]\n") for value in ("-9223372036854775808", "-7", "7")
    )
    given = Task("t", "", tests, language="sql", compare="rows", setup="CREATE TABLE t(x INTEGER);")
    verdict = judge(given, Attempt("t", "SELECT abs(x) FROM t", "sql"))
    assert verdict.outcomes == (Status.RUNTIME_ERROR, Status.PASSED, Status.PASSED)
    assert verdict.error_message == "test 1: integer overflow"


def test_the_time_of_one_test_can_be_limited():
    tests = tuple(TestCase(TestKind.STDIO, f"INSERT INTO t VALUES ({value});", "[5]\n") for value in (1, 5))
    given = Task("t", "", tests, language="sql", compare="rows", setup="CREATE TABLE t(x INTEGER);")
    query = "SELECT CASE WHEN x = 5 THEN 5 ELSE (WITH RECURSIVE n(y) AS (SELECT 1 UNION ALL SELECT y + 1 FROM n) SELECT max(y) FROM n) END FROM t"
    settings = JudgeSettings(Limits(wall_seconds=8, cpu_seconds=4, test_seconds=0.3))
    assert judge(given, Attempt("t", query, "sql"), settings).outcomes == (Status.TIMEOUT, Status.PASSED)


def test_visible_tests_say_what_differs():
    given = task([["Beta"]])
    shown = replace(given, tests=(replace(given.tests[0], hidden=False),))
    verdict = judge(shown, Attempt("library", "SELECT title FROM books WHERE year = 2005", "sql"))
    assert verdict.error_message == "test 1: 2 rows, expected 1"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"compare": "lines"}, "compare must be rows or rows_in_order for a query, got lines"),
        ({"compare": "rows:0"}, "compare must be"),
        ({"tests": (TestCase(TestKind.CODE, "x"),)}, "a test of a query is STDIO"),
        (
            {"setup": "CREATE TABL x"},
            "the task's own setup fails: ['OperationalError', 'database 1: near \"TABL\": syntax error",
        ),
        ({"tests": (TestCase(TestKind.STDIO, ROWS, "title\n"),)}, "test 1: expected rows are one JSON array a line"),
    ],
)
def test_a_task_that_is_none_leaves_the_attempt_unscored(change, words):
    verdict = judge(replace(task([]), **change), Attempt("library", "SELECT 1", "sql"))
    assert verdict.status is Status.UNSCORED and words in verdict.error_message


def test_the_same_query_under_another_name_of_the_language():
    given = task([[5]])
    assert judge(given, Attempt("library", "SELECT count(*) FROM books", "sqlite")).status is Status.PASSED


def test_the_rows_of_a_reference_are_those_that_tests_expect():
    scripts = [SCHEMA + ROWS, SCHEMA]
    query = "SELECT title, price, x'01', NULL FROM books WHERE year < 2006"
    rows = '["Alpha",10.0,{"blob":"01"},null]\n["Beta",12.5,{"blob":"01"},null]\n["Gamma",null,{"blob":"01"},null]\n'
    assert expected_rows(query, scripts) == [rows, ""]


@pytest.mark.parametrize(
    ("query", "script", "words"),
    [
        ("SELECT prize FROM books", SCHEMA, "the reference query fails: NoSuchColumn: test 1: no such column: prize"),
        ("SELECT", SCHEMA, "the reference query fails: SyntaxError"),
        ("DELETE FROM books", SCHEMA, "is refused"),
        ("WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT x FROM n", "", "OutputLimit"),
        (
            "SELECT abs(x) FROM t",
            "CREATE TABLE t (x); INSERT INTO t VALUES (-9223372036854775808)",
            "OperationalError: test 2: integer",
        ),
        ("SELECT 1", "CREATE TABL x", 'database 1: near "TABL": syntax error'),
    ],
)
def test_a_reference_that_cannot_be_used_is_refused(query, script, words):
    with pytest.raises(ValueError, match=words):
        expected_rows(query, ["CREATE TABLE t (x); INSERT INTO t VALUES (1)", script] if "(x)" in script else [script])


@pytest.mark.parametrize(
    "line",
    [
        '{"test": 0, "start": "a", "end": []}',
        '{"test": 0, "end": 99999999}',
        '{"test": "0", "rows": 1}',
        '{"test": 0, "error": 7}',
        '{"compile": 3}',
        '{"compile": ["a", "b", 1, "c"]}',
        '{"test": 0, "timeout": []}',
        "[]",
    ],
)
def test_records_of_any_form_are_data(line):
    end = replace(FINISHED, results=f"{line}\n".encode(), stdout=b"[2]\n")
    outcomes, _ = query_outcomes(task([[1]]), end)
    assert outcomes[0] in (Status.FAILED, Status.RUNTIME_ERROR, Status.TIMEOUT, Status.COMPILE_ERROR)
    verdict = Verdict("", Status.COMPILE_ERROR, findings=(Finding("syntax", "", "", 1),))
    assert with_column(verdict, end).findings[0].column == 1


FINISHED = Exit(
    returncode=0,
    signal=0,
    timed_out=False,
    out_of_memory=False,
    wall_seconds=0.1,
    cpu_seconds=0.1,
    memory_bytes=1,
    results=b"",
    stdout=b"",
    stderr=b"",
    output_exceeded=False,
    layers=(),
)
"""How a run ends that has nothing to say."""
