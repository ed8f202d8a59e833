"""`upsolve ingest table` reads user tables: any delimiter and encoding, nested JSON, arrays, databases."""

import csv
import gzip
import json
import math
import re
import shutil
import sqlite3
from functools import partial
from zipfile import ZipFile

import pyarrow as pa
import pytest
from imports import imported, imported_rows, write_lines

from upsolve.archive.store import Archive
from upsolve.errors import SourceError
from upsolve.importers.ingest import ingest
from upsolve.types import Status

ROWS = [
    {"Frage": "Café, add", "Lösung": "x = 1\ny = 2", "Urteil": "AC", "wer": "ann"},
    {"Frage": "Café, add", "Lösung": "x = 2", "Urteil": "WA", "wer": "bob"},
]
COLUMNS = {"prompt": "Frage", "code": "Lösung", "status": "Urteil", "author": "wer"}


def csv_of(delimiter):
    lines = [ROWS[0].keys(), *(row.values() for row in ROWS)]
    return "".join(delimiter.join(f'"{cell}"' for cell in line) + "\r\n" for line in lines)


def stored(tmp_path, file, **options):
    """Import a table; return author, code and outcome of its attempts."""
    archive, report = imported(tmp_path, "table", file, **options)
    (group,) = archive.groups()
    assert report.bad == 0 and group.task.prompt == "Café, add"
    return [(a.author, a.code, v.status) for a, v in zip(group.attempts, group.verdicts, strict=True)]


EXPECTED = [("ann", "x = 1\ny = 2", Status.PASSED), ("bob", "x = 2", Status.FAILED)]


@pytest.mark.parametrize(
    ("delimiter", "encoding", "given"),
    [(",", "utf-8", {}), (";", "utf-8-sig", {}), ("\t", "utf-16", {}), ("|", "latin-1", {"encoding": "latin-1"})],
)
def test_csv_in_any_dialect(tmp_path, delimiter, encoding, given):
    file = tmp_path / "log.csv"
    file.write_bytes(csv_of(delimiter).replace("\r\n", "\n").encode(encoding))
    assert stored(tmp_path, file, **COLUMNS, **given) == EXPECTED


@pytest.mark.parametrize("name", ["log.tsv.gz", "log.TSV.zst"])
def test_compressed_csv_and_tsv_whose_cells_hold_commas(tmp_path, name):
    file = tmp_path / name
    pack = gzip.compress if name.endswith(".gz") else partial(pa.compress, codec="zstd", asbytes=True)
    file.write_bytes(pack(csv_of("\t").replace('"', "").replace("x = 1\ny = 2", "x = 1").encode()))
    assert stored(tmp_path, file, **COLUMNS)[0] == ("ann", "x = 1", Status.PASSED)


def test_an_array_of_json(tmp_path):
    file = tmp_path / "log.json"
    file.write_text(json.dumps(ROWS, indent=1))
    assert stored(tmp_path, file, **COLUMNS) == EXPECTED


def test_values_in_objects_have_names_with_dots_and_the_rest_is_stored(tmp_path):
    file = tmp_path / "log.jsonl"
    rows = [
        {"task": {"text": r["Frage"], "kind": "sum"}, "out": {"src": r["Lösung"]}, "ok": r["Urteil"], "by": r["wer"]}
        for r in ROWS
    ]
    write_lines(file, rows)
    columns = {"prompt": "task.text", "code": "out.src", "status": "ok", "author": "by"}
    assert stored(tmp_path, file, **columns) == EXPECTED
    attempts = Archive(tmp_path / "archive").attempts()
    assert [json.loads(attempt.extra) for attempt in attempts] == 2 * [{"task": {"kind": "sum"}}]


def test_an_id_in_two_columns(tmp_path):
    rows = [
        {"problem": {"contest": contest, "index": "A"}, "prompt": f"add {contest}", "code": "x", "who": who}
        for contest, who in ((4.0, "ann"), (5, "bob"), (None, "eve"))
    ]
    file, archive = write_lines(tmp_path / "log.jsonl", rows), Archive.create(tmp_path / "a")
    assert ingest(archive, "table", file, task_id="problem.contest+problem.index", author="who").bad == 0
    named = [task.task_id for task in archive.tasks()]
    assert named[:2] == ["log/4-A", "log/5-A"] and len(named) == 3
    with pytest.raises(SourceError, match=r"no column for task_id=problem.contest\+problem.letter of the options"):
        ingest(Archive.create(tmp_path / "b"), "table", file, task_id="problem.contest+problem.letter")


def test_values_in_lists_are_named_with_their_places(tmp_path):
    rows = [
        {
            "chat": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": row["Frage"]}],
            "out": [{"content": f"```python\n{row['Lösung']}\n```"}],
            "ok": [row["Urteil"], row["wer"], 7],
        }
        for row in ROWS
    ]
    file = tmp_path / "log.jsonl"
    write_lines(file, rows)
    columns = {"prompt": "chat.1.content", "answer": "out.0.content", "status": "ok.0", "author": "ok.1"}
    assert stored(tmp_path, file, **columns) == EXPECTED
    extra = {"chat": [{"role": "system", "content": "Be brief."}, {"role": "user"}], "ok": [None, None, 7]}
    assert [json.loads(attempt.extra) for attempt in Archive(tmp_path / "archive").attempts()] == [extra] * 2
    with pytest.raises(SourceError, match=r"no column for prompt=chat.2.content of the options; its columns are chat, out, ok"):
        ingest(Archive.create(tmp_path / "a"), "table", file, **{**columns, "prompt": "chat.2.content"})


def test_an_empty_program_in_an_object_is_not_lost(tmp_path):
    file = tmp_path / "log.jsonl"
    rows = [{"q": "add", "out": {"src": code}, "ok": "AC"} for code in ("", "x = 1")]
    write_lines(file, rows)
    _, report = imported(tmp_path, "table", file, prompt="q", code="out.src", status="ok")
    assert report.bad == 1 and "out.src is empty, but the row has status" in report.text()


@pytest.fixture
def database(tmp_path):
    file = tmp_path / "judge.sqlite"
    with sqlite3.connect(file) as connection:
        connection.execute("create table submission (frage, code, urteil, wer)")
        connection.executemany("insert into submission values (?, ?, ?, ?)", [tuple(row.values()) for row in ROWS])
        connection.execute("create table problem as select 1 as id")
    connection.close()
    return file


def test_a_query_of_a_database(tmp_path, database):
    columns = {"prompt": "frage", "status": "urteil", "author": "wer"}
    assert stored(tmp_path, database, query="select * from submission", **columns) == EXPECTED


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, r"which table\? --query NAME; its tables are submission \(2 rows\), problem \(1 row\)"),
        ({"query": "select * from submissions"}, "no such table: submissions"),
        ({"query": "delete from submission"}, "readonly"),
        (
            {"query": "select * from submission a join submission b using (frage)"},
            "has two columns 'code': rename one",
        ),
        ({"query": "select * from submission", "encoding": "utf-8"}, "option encoding: only CSV"),
    ],
)
def test_mistakes_with_databases(tmp_path, database, options, said):
    with pytest.raises(SourceError, match=said):
        ingest(Archive.create(tmp_path / "a"), "table", database, prompt="frage", **options)


def test_a_named_column_without_a_value_warns(tmp_path):
    file = tmp_path / "log.jsonl"
    file.write_text('{"q": "add", "a": "x = 1"}\n')
    with pytest.warns(UserWarning, match="log.jsonl: no row has a value for error=err"):
        ingest(Archive.create(tmp_path / "a"), "table", file, prompt="q", code="a", error="err")


@pytest.mark.parametrize(
    ("row", "options"),
    [
        ({"prompt": "add", "code": "x", "verdict": "AC", "user": "ann"}, "--author user --status verdict"),
        ({"prompt": "add", "code": "x", "verdict": "", "user": ""}, None),
        ({"prompt": "add", "code": "x", "verdict": "1"}, None),  # a number may be anything
        ({"prompt": "add", "code": "x", "grade": "WA"}, "--status grade"),
        ({"prompt": "add", "code": "x", "public": True}, None),
        ({"prompt": "add", "code": "x", "is_correct": True}, "--status is_correct"),
        ({"prompt": "add", "code": "x", "passed": 1, "result": "AC"}, None),  # the outcome is known
        ({"prompt": "add", "code": "x", "problem_id": 7}, None),  # ids are optional
        ({"prompt": "add", "response": "```python\nx\n```"}, "--answer response"),
        ({"prompt": "add", "response": "x"}, "--code response"),
        ({"task_id": 1, "Problem Statement": "Add two and two."}, "--prompt 'Problem Statement'"),
        ({"prompt": "add", "code": "x", "is_resolved": "no"}, "--status is_resolved"),
        ({"prompt": "add", "code": "x", "tests_passed": 1, "ran": 5}, None),  # of how many?
        ({"prompt": "add", "code": "x", "unit_test_file": "def test_x():\n    assert x"}, "--tests unit_test_file"),
        ({"prompt": "add", "code": "x", "test_output": ">>> x\nassert x == 1"}, None),
        ({"task_id": 1, "Statement": "Add two and two.", "Source Code": "x"}, "--prompt Statement --code 'Source Code'"),
        (
            {"prompt": "add", "code": "x", "meta": {"model_name": "m", "Language": "C++"}},
            "--language meta.Language --author meta.model_name",
        ),
        ({"prompt": "add", "response": "f(x)", "cause": {"code": "E4"}}, "--code response"),
        ({"prompt": "add", "code": "x", "correct": 1, "total": 3}, None),  # of three tests
        ({"prompt": "add", "code": "x", "correct": True, "total": 3}, "--status correct"),
        ({"prompt": "add", "code": "x", "lang": "C++", "time": "2026-01-01", "time_ms": 3}, "--language lang --created time"),
        ({"prompt": "add", "code": "x", "results": ["AC", "WA"]}, "--outcomes results"),
        ({"prompt": "add", "code": "x", "test_results": "1,0,1"}, "--outcomes test_results"),
        ({"prompt": "add", "code": "x", "results": "see, below"}, None),
        ({"prompt": "add", "code": "x", "correct": 0}, "--status correct"),
        ({"prompt": "add", "code": "x", "result": 0}, None),
        (
            {"prompt": "add", "code": "x", "returncode": 2},
            "--map FILE with `columns: {status: returncode}` and `statuses: {0: passed, 1: failed}`",
        ),
        ({"prompt": "add", "code": "x", "status": "AC", "exit_code": 0}, None),
        ({"prompt": "add", "Submission ID": "S-111"}, None),  # no program
        ({"prompt": "add", "source": 7}, None),
        ({"prompt": "add", "code": "x", "time": 12}, None),  # of a run
        ({"prompt": "add", "code": "x", "time": 12, "in_date": "2020-01-01"}, "--created in_date"),
        ({"prompt": "add", "code": "x", "epoch_second": 1560000000}, "--created epoch_second"),
    ],
)
def test_columns_that_look_like_fields_are_named_with_their_options(tmp_path, row, options, recwarn):
    file = write_lines(tmp_path / "log.jsonl", [row])
    ingest(Archive.create(tmp_path / "a"), "table", file, max_rejected=1)
    said = [str(warning.message) for warning in recwarn]
    begin = "log: columns that no field has are stored in extra, and some look like fields: to use them, import into a new archive with "
    unjudged = "; without --status, no attempt has an outcome" if options and "--status" in options else ""
    assert said == ([f"{begin}{options}{unjudged}"] if options else [])


def test_a_column_of_0_and_1_may_be_an_outcome(tmp_path, recwarn):
    rows = [
        {"prompt": "add", "code": f"x{n}", "result": result, "exit_code": 0} for n, result in enumerate(("1.0", 0, math.nan))
    ]
    imported_rows(tmp_path, rows)
    assert "--status result; without --status" in str(recwarn.pop().message)


def test_unknown_fields_of_json_lines_that_look_like_known_ones_are_named(tmp_path, recwarn):
    rows = [
        {"kind": "task", "task_id": "a", "prompt": "add", "test_cases": ["assert f(1) == 2"], "points": 3},
        {"kind": "attempt", "task_id": "a", "code": "x", "user": "ann", "verdict": "AC", "question": "Is it of any use?"},
        {"kind": "verdict", "attempt_id": "x", "status": "passed"},
    ]
    ingest(Archive.create(tmp_path / "a"), "jsonl", write_lines(tmp_path / "log.jsonl", rows))
    tasks, attempts = (str(warning.message) for warning in recwarn)
    assert "fields of tasks" in tasks and tasks.endswith("rename test_cases to tests, and import into a new archive")
    assert "fields of attempts" in attempts and "rename user to author, verdict to status, and" in attempts


def test_json_lines_without_a_kind_may_be_a_table(tmp_path):
    file = write_lines(tmp_path / "log.jsonl", [{"prompt": "add", "code": "x"}])
    report = ingest(Archive.create(tmp_path / "a"), "jsonl", file, max_rejected=1)
    assert "kind is missing, it must be one of" in report.reasons[0].reason
    assert report.reasons[0].reason.endswith("is a table: upsolve ingest table")


def test_a_named_column_in_a_list_has_its_field(tmp_path, recwarn):
    row = {"messages": [{"content": "Add two and two."}], "question": "Is it of any use to us?", "code": "x", "verdict": "AC"}
    named = {"prompt": "messages.0.content", "status": "verdict"}
    imported_rows(tmp_path, [row], **named)
    assert not recwarn


def test_a_table_without_prompts_says_which_columns_may_have_what(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text(
        "problem,user,lang,verdict,code,submitted,score\nsum,ann,Python 3,AC,x = 1,2024-05-01,100\nsum,bob,C,???,y,,0\n"
    )
    options = "--task_id problem --language lang --author user --created submitted --status verdict"
    with pytest.raises(SourceError, match=f"--prompt COLUMN.* code, submitted, score; perhaps {options}"):
        ingest(Archive.create(tmp_path / "a"), "table", file)


@pytest.mark.parametrize(("question", "advice"), [("Add two.", "--prompt question"), ("add-two", "--task_id question")])
def test_a_question_of_two_words_is_a_statement(tmp_path, question, advice):
    with pytest.raises(SourceError, match=f"--prompt COLUMN.*perhaps {advice}$"):
        imported_rows(tmp_path, [{"id": 1, "question": question, "code": "x"}])


@pytest.mark.parametrize("tests", ["12", "12.0", "True", "'all'", "small", '["assert True", "3"]'])
def test_what_is_no_test_is_not_taken_for_one(tmp_path, tests):
    file = write_lines(tmp_path / "log.jsonl", [{"prompt": "add", "code": "x", "tests": tests}])
    (row,) = ingest(Archive.create(tmp_path / "a"), "table", file, max_rejected=1).reasons
    assert re.match("tests: .* tests nothing: a test is an assert", row.reason)


def test_comments_between_asserts_are_preserved(tmp_path):
    file = write_lines(tmp_path / "log.jsonl", [{"prompt": "add", "code": "x", "tests": "# small\nassert f(1) == 2"}])
    assert not ingest(Archive.create(tmp_path / "a"), "table", file, max_rejected=1).reasons


def test_columns_without_a_name_are_numbered(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text("prompt,code,,\nadd,x = 1,first,second\n")
    archive = Archive.create(tmp_path / "b")
    ingest(archive, "table", file)
    assert archive.column("attempts", "extra") == ['{"column 3": "first", "column 4": "second"}']


def test_a_value_that_is_no_number_is_missing(tmp_path):
    file = tmp_path / "log.jsonl"
    file.write_text(
        '{"prompt": "add", "code": "x", "status": NaN, "author": NaN}\n{"prompt": "add", "code": "y", "status": 1.0}\n'
    )
    archive = Archive.create(tmp_path / "a")
    assert ingest(archive, "table", file).bad == 0
    assert [(attempt.code, attempt.author) for attempt in archive.attempts()] == [("x", ""), ("y", "")]
    assert [verdict.status for verdict in archive.verdicts()] == [Status.PASSED]


@pytest.fixture
def homework(tmp_path):
    """A table whose rows name files, beside them."""
    (tmp_path / "work" / "ann").mkdir(parents=True)
    (tmp_path / "work" / "add.md").write_text("Café, add", encoding="utf-8")
    (tmp_path / "work" / "ann" / "1.py").write_text("x = 1\ny = 2")
    (tmp_path / "secret.py").write_text("x = 3")

    def write_grades(*rows):
        file = tmp_path / "work" / "grades.csv"
        file.write_text("\n".join(["statement,file,result,who", *rows]) + "\n")
        return file

    return write_grades


FILES = {"prompt_file": "statement", "code_file": "file", "status": "result", "author": "who"}


def test_programs_and_statements_in_files_beside_the_table(tmp_path, homework):
    file = homework("add.md,ann/1.py,passed,ann")
    assert stored(tmp_path, file, **FILES) == EXPECTED[:1]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("add.md,bob/1.py,failed,bob", "file bob/1.py: no such file"),
        ("add.md,../secret.py,failed,bob", "file ../secret.py: the file is outside of"),
        ("add.md,,failed,bob", "file is empty, but the row has author, status"),
    ],
)
def test_files_that_cannot_be_read_set_one_row_aside(tmp_path, homework, row, said):
    report = ingest(
        Archive.create(tmp_path / "a"), "table", homework("add.md,ann/1.py,passed,ann", row), max_rejected=1, **FILES
    )
    assert report.bad == 1 and report.added["attempts"] == 1 and said in report.text()


def test_calls_with_their_arguments_and_pairs_of_input_and_output(tmp_path):
    file = tmp_path / "log.jsonl"
    calls = {"fn_name": "add", "inputs": [[1, 2]], "outputs": [3]}
    pairs = [{"input": "1 2", "output": "3"}]
    rows = [
        {"prompt": "call", "tests": calls, "code": "x"},
        {"prompt": "print", "tests": json.dumps(pairs), "code": "y"},
        {"prompt": "short", "tests": [["1 2", "3"], [[4, 5], 9]], "code": "z"},
        {"prompt": "odd", "tests": [5], "code": "z"},
    ]
    write_lines(file, rows)
    archive, report = imported(tmp_path, "table", file)
    assert "tests: 5: a test is an assert, a pair [input, output]" in report.text() and report.bad == 1
    first, second, third = archive.tasks()
    assert [(test.input, test.expected) for test in third.tests] == [("1 2", "3"), ("4\n5\n", "9\n")]
    assert (first.entry_point, first.tests[0].kind, first.tests[0].expected) == ("add", "call", "3")
    assert (second.tests[0].kind, second.tests[0].input, second.tests[0].expected) == ("stdio", "1 2", "3")


PROBLEMS = [
    {"id": "p1", "statement": "Add.", "tests": [{"input": "1 2", "output": "3"}], "author": "eve", "rating": 1200},
    {"id": "p2", "statement": "Multiply."},
]
SUBMISSIONS = [
    {"problem": "p1", "source": "x = 1", "verdict": "AC", "lang": "C++17", "tests": 9},
    {"problem": "p1", "source": "x = 2", "verdict": "WA", "lang": "Python 3"},
    {"problem": "p9", "source": "x = 3", "verdict": "WA", "lang": "Python 3"},
]
OF_PROBLEMS, OF_SUBMISSIONS = (
    {"task_id": "id", "prompt": "statement"},
    {"task_id": "problem", "code": "source", "status": "verdict", "language": "lang"},
)


@pytest.mark.parametrize("problems_first", [True, False])
def test_problems_and_submissions_in_two_tables(tmp_path, problems_first):
    archive = Archive.create(tmp_path / "archive")
    imports = [("problems.jsonl", PROBLEMS, OF_PROBLEMS), ("submissions.jsonl", SUBMISSIONS, OF_SUBMISSIONS)]
    for name, rows, columns in imports if problems_first else reversed(imports):
        report = ingest(archive, "table", write_lines(tmp_path / name, rows), name="contest", **columns)
        assert report.bad == 0
        if name == "submissions.jsonl":
            count = 1 if problems_first else 3
            assert report.orphans["attempts without a task"] == count and f"{count} attempts without a task" in report.text()
    first, second = archive.tasks()
    assert (first.language, json.loads(first.extra), second.extra) == ("", {"author": "eve", "rating": 1200}, "")
    (group,) = archive.groups()
    assert [(a.language, v.status) for a, v in zip(group.attempts, group.verdicts, strict=True)] == [
        ("cpp", Status.PASSED),
        ("python", Status.FAILED),
    ]
    assert json.loads(group.attempts[0].extra) == {"lang": "C++17", "tests": 9}


def test_problems_and_submissions_in_a_folder(tmp_path):
    (tmp_path / "contest").mkdir()
    write_lines(tmp_path / "contest" / "1.jsonl", [{"task_id": "p1", "code": "x = 1", "passed": True}])
    write_lines(tmp_path / "contest" / "2.jsonl", [{"task_id": "p1", "prompt": "Add."}])
    archive = Archive.create(tmp_path / "archive")
    report = ingest(archive, "table", tmp_path / "contest")
    assert report.bad == 0 and not any(report.orphans.values()) and len(archive.groups()) == 1


def test_fields_of_a_row_without_a_program_are_stored_with_its_task_or_rejected(tmp_path):
    rows = [
        {"task_id": "a", "prompt": "Add.", "code": "x = 1"},
        {"task_id": "b", "prompt": "Multiply.", "rating": 5},
        {"task_id": "b", "prompt": "Multiply.", "rating": 5},
        {"task_id": "b", "prompt": "Multiply.", "rating": 6},
        {"task_id": "a", "prompt": "Add.", "rating": 7},
        {"task_id": "b", "prompt": "Multiply.", "code": "x = 2", "rating": 8},
        {"task_id": "c", "rating": 9},
    ]
    archive, report = imported_rows(tmp_path, rows)
    assert [(row.line, row.reason) for row in report.reasons] == [
        (4, "the row has no program, and an earlier row has the task log/b: rating would be lost"),
        (5, "the row has no program, and an earlier row has the task log/a: rating would be lost"),
        (7, "neither a program nor a prompt"),
    ]
    assert [task.extra for task in archive.tasks()] == ["", '{"rating": 5}']
    assert [attempt.extra for attempt in archive.attempts()] == ["", '{"rating": 8}']


def test_a_task_may_be_described_in_its_first_row_alone(tmp_path):
    tests = ["assert f(1) == 2", "assert f(2) == 3"]
    rows = [
        {"prompt": "Add one.", "code": "x = 1", "tests": tests, "difficulty": "easy"},
        {"prompt": "Add two.", "code": "x = 1"},
        {"prompt": "Add one.", "code": "x = 2"},
        {"prompt": "Add one.", "code": "x = 3", "tests": tests},
        {"prompt": "Add one.", "code": "x = 4", "tests": tests[:1], "difficulty": "hard"},
        {"prompt": "Add two.", "code": "x = 5", "reference": "x = 5"},
    ]
    archive, report = imported_rows(tmp_path, rows)
    said = [row.reason.partition("has different content in an earlier row: ")[2] for row in report.reasons]
    assert said == ["tests, difficulty"] and [row.line for row in report.reasons] == [5]
    assert [[attempt.code for attempt in group.attempts] for group in archive.groups()] == [
        ["x = 1", "x = 2", "x = 3"],
        ["x = 1", "x = 5"],
    ]
    assert [len(task.tests) for task in archive.tasks()] == [2, 0]


def test_numbers_are_text_where_fields_are(tmp_path):
    row = {
        "prompt": "Add.",
        "code": "x",
        "status": 0,
        "difficulty": 1200,
        "author": 7,
        "error_type": 139,
        "id": 5,
        "created": 2024,
    }
    archive, report = imported_rows(tmp_path, [row, {**row, "code": "y", "parent": 5}])
    assert report.bad == 0
    (group,) = archive.groups()
    assert (group.task.difficulty, group.attempts[1].author, group.attempts[1].created) == ("1200", "7", "2024")
    assert [verdict.error_type for verdict in group.verdicts] == ["139"] * 2


def test_a_table_of_outcomes_without_programs_is_named(tmp_path):
    rows = [{"prompt": f"Add {number}.", "solution": "x", "status": "AC"} for number in range(2)]
    archive = Archive.create(tmp_path / "archive")
    with pytest.warns(
        UserWarning,
        match="log: rows have status and no program, so only tasks are read; if a column holds the programs: --code COLUMN",
    ):
        ingest(archive, "table", write_lines(tmp_path / "log.jsonl", rows))
    assert [json.loads(task.extra) for task in archive.tasks()] == [{"solution": "x", "status": "AC"}] * 2


def test_a_file_without_quoting_is_read_as_it_stands(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "log.tsv").write_text('prompt\tcode\n"Hello" must be printed\t"".join(["Hel","lo"])\n')
    for number, path in enumerate((tmp_path / "in" / "log.tsv", tmp_path / "in")):
        archive = Archive.create(tmp_path / str(number))
        assert ingest(archive, "table", path, quotes="none").bad == 0
        assert archive.tasks()[0].prompt == '"Hello" must be printed'
        assert archive.attempts()[0].code == '"".join(["Hel","lo"])'
    with pytest.raises(SourceError, match="option quotes: only CSV"):
        ingest(archive, "table", write_lines(tmp_path / "log.jsonl", [{"prompt": "add"}]), quotes="none")


def test_empty_rows_are_left_out_and_counted(tmp_path):
    (tmp_path / "log.csv").write_text("prompt;code\nadd;x\n;\n\n;;;\nadd;y\n")
    with pytest.warns(UserWarning, match="log.csv: 2 empty rows are left out"):
        report = ingest(Archive.create(tmp_path / "a"), "table", tmp_path / "log.csv")
    assert (report.bad, report.added["attempts"]) == (0, 2)


@pytest.mark.parametrize(
    ("header", "options"),
    [("task_id,prompt,Code,Status", "--code Code --status Status"), ("Task ID,prompt,code,Author", "--author Author")],
)
def test_fields_in_capitals_are_named_with_their_options(tmp_path, header, options):
    (tmp_path / "log.csv").write_text(f"{header}\nA,Add two numbers.,x,AC\n")
    with pytest.warns(UserWarning, match=f"some look like fields: .* {options}"):
        ingest(Archive.create(tmp_path / "a"), "table", tmp_path / "log.csv")
    (tmp_path / "log.csv").write_text("Prompt,Code\nadd,x\n")
    with pytest.raises(SourceError, match="perhaps --prompt Prompt --code Code"):
        ingest(Archive.create(tmp_path / "a"), "table", tmp_path / "log.csv")


@pytest.mark.parametrize("given", [{}, {"encoding": "latin-1"}])
def test_a_program_in_a_file_of_another_encoding(tmp_path, homework, given):
    (tmp_path / "work" / "ann" / "1.py").write_bytes("x = 'é'\r\n".encode("latin-1"))
    archive, report = imported(tmp_path, "table", homework("add.md,ann/1.py,passed,ann"), **FILES, **given)
    assert archive.column("attempts", "code") == (["x = 'é'\n"] if given else [])
    said = "file ann/1.py: 'utf-8' codec can't decode"
    assert given or (said in report.text() and "--encoding latin-1" in report.text())


def test_pairs_of_answers_have_a_source_of_their_own(tmp_path):
    with pytest.warns(UserWarning, match="chosen and rejected are not read .* upsolve ingest openrlhf"):
        rows = [{"prompt": "add", "chosen": "x", "rejected": "y"}]
        imported_rows(tmp_path, rows)


def test_an_id_stays_with_its_attempt(tmp_path, database):
    rows = [{"prompt": "add", "code": f"x = {n}", "id": f"HumanEval/{n}"} for n in range(2)]
    archive, _ = imported_rows(tmp_path, rows)
    assert [json.loads(attempt.extra) for attempt in archive.attempts()] == [{"id": "HumanEval/0"}, {"id": "HumanEval/1"}]
    archive = Archive.create(tmp_path / "other")
    query = "select s.*, rowid as number from submission s"
    ingest(
        archive,
        "table",
        database,
        query=query,
        id="number",
        **{**COLUMNS, "prompt": "frage", "code": "code", "status": "urteil"},
    )
    assert [json.loads(attempt.extra)["number"] for attempt in archive.attempts()] == [1, 2]


def test_a_parent_that_two_different_attempts_may_be_is_refused(tmp_path):
    rows = [
        {"task_id": "a", "prompt": "add", "code": "x", "id": 1},
        {"task_id": "a", "prompt": "add", "code": "x", "id": 1, "author": "ann"},
        {"task_id": "a", "code": "y", "parent": 1},
        {"task_id": "b", "prompt": "sub", "code": "z", "id": 1},
        {"task_id": "a", "code": "w", "parent": 1},
    ]
    archive, report = imported_rows(tmp_path, rows)
    assert [(row.line, row.reason.partition(" in this file")[0]) for row in report.reasons] == [
        (5, "several different attempts")
    ]
    parents = {attempt.code: attempt.parent_id for attempt in archive.attempts()}
    assert parents == {"x": "", "z": "", "y": archive.attempts()[0].attempt_id}


def test_numbers_as_pandas_writes_columns_with_gaps(tmp_path):
    rows = [
        {"task_id": 1.0, "prompt": "add", "code": "x", "id": 1, "parent": float("nan"), "author": 7.0, "points": float("nan")},
        {"task_id": 1.0, "prompt": "add", "code": "y", "id": 2.0, "parent": 1.0, "author": 7.0, "points": 0.5},
        {"task_id": float("nan"), "prompt": "sub", "code": "z", "id": 3, "parent": "2.0", "language": float("nan")},
    ]
    archive, report = imported_rows(tmp_path, rows)
    assert report.bad == 0
    first, second, third = archive.attempts()
    assert (first.task_id, first.author, first.extra) == ("log/1", "7", '{"id": 1}')
    assert (second.parent_id, second.extra) == (first.attempt_id, '{"points": 0.5, "id": 2}')
    assert third.parent_id == second.attempt_id


def test_a_language_that_is_missing_is_none_of_several(tmp_path):
    rows = [
        {"prompt": "add", "code": f"x = {n}", "language": word} for n, word in enumerate(["python", float("nan"), "", None])
    ]
    archive, _ = imported_rows(tmp_path, rows)
    assert archive.tasks()[0].language == "python"


def test_an_exit_code_needs_a_map(tmp_path):
    file = write_lines(tmp_path / "log.jsonl", [{"prompt": "add", "code": f"x{code}", "exit_code": code} for code in (0, 1)])
    with pytest.raises(
        SourceError, match="--map FILE with `columns: {status: exit_code}` and `statuses: {0: passed, 1: failed}`"
    ):
        ingest(Archive.create(tmp_path / "a"), "table", file, status="exit_code")
    (tmp_path / "map.yaml").write_text("columns: {status: exit_code}\nstatuses: {0: passed, 1: failed}\n")
    archive = Archive.create(tmp_path / "b")
    ingest(archive, "table", file, map=str(tmp_path / "map.yaml"))
    assert [verdict.status for verdict in archive.verdicts()] == [Status.PASSED, Status.FAILED]


def test_a_first_line_of_excel_names_the_delimiter(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text("sep=;\r\nprompt,of;code;status\r\nadd;x = 1;AC\r\nadd;x = 2;odd\r\nadd;x = 3\r\n", newline="")
    _, report = imported(tmp_path, "table", file, prompt="prompt,of")
    assert (report.added["verdicts"], [row.line for row in report.reasons]) == (1, [4, 5])
    file.write_text('"sep=^"\nprompt^code\nadd^"x = 1\n')
    with pytest.raises(SourceError, match="the row that begins in line 3 cannot be read"):
        ingest(Archive.create(tmp_path / "b"), "table", file)


@pytest.mark.parametrize("named", [{"id": "submission"}, {}])
def test_rows_with_different_outcomes_of_a_program_are_named(tmp_path, recwarn, named):
    rows = [{"prompt": "add", "code": "x", "submission": 7, "run": run, "status": word} for run, word in enumerate(WORDS)]
    _, report = imported_rows(tmp_path, rows, **named)
    assert "1 programs of the first rows have rows with different outcomes, and the last row counts" in str(recwarn[0].message)
    reasons = ["the attempt 7 is passed here, and failed in an earlier row: a row is one attempt"] if named else []
    assert [row.reason.partition(";")[0] for row in report.reasons] == reasons


def test_outcomes_by_several_judges_are_no_contradiction(tmp_path):
    rows = [{"prompt": "add", "code": "x", "id": 7, "judge": judge, "status": judge} for judge in ("pass", "fail")]
    assert imported_rows(tmp_path, rows)[1].added["verdicts"] == 2


WORDS = ("pending", "WA", "AC")


def test_files_of_a_folder_that_are_not_read_are_counted(tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    write_lines(folder / "a.jsonl", [{"prompt": "add", "code": "x"}])
    for name, content in (("d.json", "[]"), ("e.py", ""), ("README", "hello")):
        (folder / name).write_text(content)
    with ZipFile(folder / "c.zip", "w") as archive:
        archive.writestr("a.py", "x")
        archive.writestr("b.csv", "prompt,code\nsub,y\n")
    report = ingest(Archive.create(tmp_path / "a"), "table", folder)
    assert report.added["attempts"] == 2
    assert report.unread == f"{folder}: 4 files are not read: 2 `*.py`, README, d.json" == report.facts()["unread"]
    assert report.unread in report.text()


@pytest.mark.filterwarnings("ignore:.*no row has a value")
def test_tables_in_an_archive_are_read_as_those_of_a_folder(tmp_path):
    folder = tmp_path / "logs"
    (folder / "week" / "programs").mkdir(parents=True)
    (folder / "week" / "programs" / "a.cpp").write_text("int main() {}")
    (folder / "week" / "a.csv").write_text("task_id,prompt,code_file,verdict\n1,add,programs/a.cpp,\n1,add,none.cpp,AC\n")
    (folder / "week" / "b.tsv").write_text("task_id\tcode_file\tprompt\tcode\tverdict\n2\t\tsub\tx\tAC\n2\t\tsub\ty\tno\ta\n")
    write_lines(folder / "c.jsonl", [{"task_id": 3, "prompt": "mul", "code": "z", "code_file": None, "verdict": True}])
    (folder / "notes.md").write_text("hello")
    options = {"code_file": "code_file", "status": "verdict"}
    found = []
    for name, form in (
        ("logs", ""),
        ("logs.zip", "zip"),
        ("logs.tar", "tar"),
        ("logs.tar.gz", "gztar"),
        ("deep/logs.zip", "zip"),
    ):
        path = tmp_path / name
        if form:
            shutil.make_archive(str(path).partition(".")[0], form, folder)
        archive = Archive.create(tmp_path / f"{name.replace('/', '.')}.archive")
        report = ingest(archive, "table", path.parent if "/" in name else path, name="logs", max_rejected=1, **options)
        reasons = [row.file.removeprefix(f"{path}/") + f":{row.line} {row.reason.partition(':')[0]}" for row in report.reasons]
        assert report.unread.endswith(
            "2 files are not read: "
            + ("logs.zip/" if "/" in name else "")
            + "notes.md, "
            + ("logs.zip/" if "/" in name else "")
            + "week/programs/a.cpp"
        )
        found.append(([*archive.tasks()], {one.code for one in archive.attempts()}, reasons))
    assert all(one == found[0] for one in found) and len(found[0][0]) == 3 and found[0][1] == {"int main() {}", "x", "z"}
    assert found[0][2] == [
        "week/a.csv:3 file none.cpp",
        "week/b.tsv:3 6 cells, and the header has 5; is a quote missing, or a tab not in quotes?",
    ]


@pytest.mark.parametrize(
    ("row", "options"),
    [
        ({"tests_passed": 2, "tests_total": 3}, "--passed tests_passed --total tests_total"),
        ({"tests_passed": 2}, ""),
        ({"tests_passed": 2, "tests_total": 3, "verdict": "WA"}, "--status verdict"),
    ],
)
def test_numbers_of_tests_are_named_if_both_are_there(tmp_path, recwarn, row, options):
    imported_rows(tmp_path, [{"prompt": "add", "code": "x", **row}])
    said = [str(warning.message).partition(" with ")[2].partition("; without")[0] for warning in recwarn]
    assert said == [options] * bool(options)


SUBMISSIONS_OF_A_SITE = [{"prompt": "add", "code": f"x{number}", "status": word} for number, word in enumerate(("AC", "WA"))]


def test_a_list_of_rows_in_an_object_is_named(tmp_path):
    file = tmp_path / "answer.json"
    file.write_text(json.dumps({"meta": {"pages": [{"n": 1}]}, "data": {"results": SUBMISSIONS_OF_A_SITE, "none": []}}))
    with pytest.raises(SourceError, match=r"lists of objects: data.results \(2\), meta.pages \(1\): --rows data.results"):
        ingest(Archive.create(tmp_path / "a"), "table", file)
    with pytest.raises(SourceError, match=r"data is not a list of rows; it has lists of objects: data.results"):
        ingest(Archive.create(tmp_path / "b"), "table", file, rows="data")
    archive = Archive.create(tmp_path / "c")
    assert ingest(archive, "table", file, rows="data.results").bad == 0
    assert [verdict.status for verdict in archive.verdicts()] == [Status.PASSED, Status.FAILED]
    with pytest.raises(SourceError, match="option rows: only JSON"):
        imported_rows(tmp_path, SUBMISSIONS_OF_A_SITE, rows="data")


def test_pages_of_a_web_interface_are_a_folder_of_objects(tmp_path):
    folder = tmp_path / "pages"
    folder.mkdir()
    for number, row in enumerate(SUBMISSIONS_OF_A_SITE):
        (folder / f"{number}.json").write_text(json.dumps({"result": [row]}))
    archive = Archive.create(tmp_path / "a")
    assert ingest(archive, "table", folder, rows="result").bad == 0
    assert {attempt.code for attempt in archive.attempts()} == {"x0", "x1"} and len(archive.tasks()) == 1


def numbered(name, *values):
    return [{"prompt": "add", "code": f"x{number}", name: value} for number, value in enumerate(values)]


def test_numbers_in_a_map_are_those_of_a_table_in_any_form(tmp_path):
    (tmp_path / "map.yaml").write_text("languages: {1: cpp, 6: python}\nstatuses: {4: passed, 6: failed}\n")
    rows = [{**row, "status": 4} for row in numbered("language", 1.0, "6")]
    archive, report = imported_rows(tmp_path, rows, map=str(tmp_path / "map.yaml"))
    assert report.bad == 0
    assert [attempt.language for attempt in archive.attempts()] == ["cpp", "python"]


def extras(archive):
    return [json.loads(attempt.extra or "{}") for attempt in archive.attempts()]


def test_scores_at_or_above_the_threshold_pass_and_are_stored(tmp_path):
    archive = Archive.create(tmp_path / "a")
    file = write_lines(tmp_path / "log.jsonl", numbered("status", 1, "0.74", 1e-7, "skipped", math.nan))
    assert ingest(archive, "table", file, passed_at="0.75").bad == 0
    assert [verdict.status.value for verdict in archive.verdicts()] == ["passed", "failed", "failed", "unscored"]
    assert extras(archive) == [{"status": 1}, {"status": "0.74"}, {"status": 1e-7}, {}, {}]


def test_points_with_fractions_are_stored_and_are_no_numbers_of_tests(tmp_path):
    rows = [{**row, "max": "10.0"} for row in numbered("points", "7.5", "10.0", "", 9.5)]
    archive, report = imported_rows(tmp_path, rows, passed="points", total="max")
    assert report.bad == 0
    outcomes = [(verdict.status.value, verdict.passed, verdict.total) for verdict in archive.verdicts()]
    assert outcomes == [("failed", 0, 0), ("passed", 10, 10), ("unscored", 0, 10), ("failed", 0, 0)]
    assert extras(archive) == [{"points": "7.5", "max": "10.0"}, {}, {}, {"points": 9.5, "max": "10.0"}]


def test_a_column_status_that_is_no_outcome_leaves_it_to_the_one_that_is_named(tmp_path):
    rows = [{"prompt": "add", "code": "x", "status": "Graded", "ok": False}]
    archive, file = Archive.create(tmp_path / "a"), write_lines(tmp_path / "log.jsonl", rows)
    with pytest.warns(UserWarning, match=r"status holds no outcome \('Graded'\) and is stored in extra"):
        assert ingest(archive, "table", file, passed="ok").bad == 0
    assert archive.verdicts()[0].status is Status.FAILED and extras(archive) == [{"status": "Graded"}]
    rows[0]["status"] = "WA"
    archive, _ = imported_rows(tmp_path, rows, passed="ok")
    assert archive.verdicts()[0].status is Status.FAILED and extras(archive) == [{}]


@pytest.mark.parametrize(
    ("time", "stored"),
    [
        (1600000000, "2020-09-13T12:26:40+00:00"),
        ("1600000000.5", "2020-09-13T12:26:40.500000+00:00"),
        (1600000000123, "2020-09-13T12:26:40.123000+00:00"),
        ("20240101", "20240101"),
        ("202401011200", "202401011200"),
        ("20240101120000", "20240101120000"),
        (2024, "2024"),
        ("2024-01-01", "2024-01-01"),
        ("2024-01-01 10:00", "2024-01-01 10:00"),
        ("03/04/2024", ""),  # in extra: no time that can be compared
        ("2024/04/03", ""),
        ("yesterday", ""),
    ],
)
def test_seconds_since_1970_become_a_time(tmp_path, time, stored):
    archive, _ = imported_rows(tmp_path, numbered("created", time))
    assert archive.column("attempts", "created") == [stored]


def test_json_in_a_cell_of_csv_has_names_with_dots(tmp_path):
    file = tmp_path / "log.csv"
    with file.open("w", newline="") as out:
        table = csv.writer(out)
        table.writerows([("inputs", "outputs"), ('{"question": "add"}', '{"output": ["x = 1"]}'), ('{"question": "sub"}', "{")])
    archive, report = imported(tmp_path, "table", file, prompt="inputs.question", code="outputs.output.0")
    assert report.bad == 0 and [task.prompt for task in archive.tasks()] == ["add", "sub"]
    assert [attempt.code for attempt in archive.attempts()] == ["x = 1"]


def test_json_lines_in_another_encoding_say_how_to_convert_them(tmp_path):
    (tmp_path / "log.jsonl").write_bytes('{"prompt": "größer"}\n'.encode("latin-1"))
    (row,) = ingest(Archive.create(tmp_path / "a"), "table", tmp_path / "log.jsonl").reasons
    assert row.line == 1 and row.reason.startswith("not UTF-8; convert the file, such as with iconv")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", b'{"prompt": "add"}\n{"prompt": "sub"}\n'),
        ("a.json", b'{\n"prompt": "add"\n}\n{\n"prompt": "sub"\n}\n'),
        ("a.csv", b'[{"prompt": "add"},\n{"prompt": "sub"}]'),
        ("a.jsonl", '{"prompt": "add"}\n{"prompt": "sub"}'.encode("utf-16")),
        ("a.jsonl", gzip.compress(mtime=0, data=b'{"prompt": "add"}\n{"prompt": "sub"}')),
        ("data.txt", b'{"prompt": "add"}\n{"prompt": "sub"}'),
        ("a.json", b"prompt;code\nadd;x\nsub;y\n"),
    ],
)
def test_the_content_says_the_format(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    archive, report = imported(tmp_path, "table", tmp_path / name)
    assert [task.prompt for task in archive.tasks()] == ["add", "sub"] and not report.bad


GOOD = "\n".join(f"{n},Print {n}.,AC,print({n})" for n in range(20))
NESTED = '{"q": {"text": "add"}, "a": "x = 1", "meta": 1}\n'
MISTAKES = [
    (
        "a.jsonl",
        NESTED,
        {"prompt": "question"},
        "no column for prompt=question of the options; its columns are q, q.text, a, meta",
    ),
    ("a.jsonl", NESTED, {"prompt": "q.text", "code": "b"}, "no column for code=b"),
    ("a.jsonl", NESTED, {"code": "a"}, "--prompt COLUMN"),
    ("a.xlsx", "", {}, "a.xlsx: is empty, and no JSON, CSV"),
    ("a.zip", "no zip", {}, "a.zip: is text, and no JSON, CSV, .*: convert it"),
    ("a.csv", "prompt,code\na,b\n", {"encoding": "latin-one"}, "a.csv: cannot be read: unknown encoding: latin-one"),
    ("a.csv", "prompt,code,code\nadd,x = 1,x = 2\n", {}, "a.csv: has two columns 'code': rename one of them"),
    ("a.json", '{"prompt": {"0": "add"}}', {}, r"to_json\(orient='records'\)"),
    (
        "a.csv",
        f'task_id,prompt,status,code\nA,Print a.,AC,"print(1)\n{GOOD}\n',
        {},
        "row that begins in line 2 .*--quotes none",
    ),
    (
        "a.csv",
        f'task_id,prompt,status,code\n{GOOD}\nA,Print a.,AC,"print(1)\nB,b.,AC,"print(2)"\n',
        {},
        "begins in line 22 .*--quotes none",
    ),
    ("a.tsv", 'prompt\tcode\nadd\tx\n"Hello" must be printed\t"".join(["Hel","lo"])\n', {}, "begins in line 3 .*--quotes none"),
]
"""Name and content of a file, options, and the error."""


@pytest.mark.parametrize(("name", "content", "options", "said"), MISTAKES)
def test_a_file_or_option_that_cannot_be_used_is_an_error_with_a_remedy(tmp_path, name, content, options, said):
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(SourceError, match=said):
        imported(tmp_path, "table", tmp_path / name, **options)


@pytest.mark.parametrize(
    ("name", "values", "options", "said"),
    [
        (
            "status",
            (0, 4, "6"),
            {},
            r"status has numbers, 0, 4, 6, .* --map FILE .*`columns: \{status: status\}`.* --passed-at",
        ),
        ("status", (1.0, "0.5"), {}, "status has numbers, 0.5, 1,"),
        ("language", (1, "6.0"), {}, r"language has numbers, 1, 6, .* --map FILE with `languages: \{1: cpp"),
        ("score", (0.5,), {"passed_at": 1}, "no column is the outcome; score has numbers: --status score --passed-at 1"),
        ("status", ("AC",), {"passed_at": 0.5}, "status has no scores; --status COLUMN --passed-at 0.5"),
    ],
)
def test_numbers_that_need_a_map_or_a_column_are_refused(tmp_path, name, values, options, said):
    with pytest.raises(SourceError, match=said):
        imported_rows(tmp_path, numbered(name, *values), **options)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [{"prompt": "add", "code": f"x = {n}", "has_bug": "yes" if n else "no", "id": n} for n in range(2)],
            "no attempt has an outcome; has_bug may have one",
        ),
        (
            [{"prompt": "add", "code": "x", "error": None}, {"prompt": "add", "code": "y", "error": "NameError"}],
            "error is no outcome, and attempts with one are unscored: if they failed and the others passed, --map FILE with "
            "`constants: {status: passed}` and `cases: [{only: {error: {given: true}}, constants: {status: failed}}]`",
        ),
        (
            [{"prompt": f"add {n}", "tests": "assert f() == 1", "tries": ["def f():\n    return 1", "def f():\n    return 2"], "ok": [1, 0]} for n in range(2)],
            "tries has lists of programs, and a row is one attempt: --map FILE with `explode: [tries, ok]` and `columns: {code: tries, ...}`; status: ok",
        ),
        (
            [{"prompt": "add", "submissions": [{"code": "x", "verdict": "AC", "user": "ann"}]}],
            "submissions has lists of programs, and a row is one attempt: --map FILE with `explode: [submissions]` and `columns: "
            "{code: code, author: user, status: verdict, ...}`",
        ),
        (
            [{"prompt": "add", "body": {"choices": [{"message": {"content": "```python\nx\n```"}}]}}],
            "with `explode: [body.choices]` and `columns: {answer: message.content, ...}`",
        ),
        (
            [{"prompt": "add", "talk": [{"from": "human", "value": "Add."}, {"from": "gpt", "value": "Here."}]}],
            "talk has messages: --prompt talk --answer talk",
        ),
    ],
)  # fmt: skip
def test_what_no_field_holds_is_said(tmp_path, rows, said):
    with pytest.warns(UserWarning, match=re.escape(said)):
        imported_rows(tmp_path, rows)


def test_paths_of_windows_name_files_beside_the_table(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.py").write_text("x = 1")
    (tmp_path / "log.csv").write_text("prompt,file\nadd,work\\a.py\nsub,..\\..\\etc\\passwd\n")
    archive, report = imported(tmp_path, "table", tmp_path / "log.csv", code_file="file")
    assert [one.code for one in archive.attempts()] == ["x = 1"] and "outside of" in report.reasons[0].reason


@pytest.mark.filterwarnings("ignore:log")
def test_times_and_memory_in_the_units_of_their_columns(tmp_path):
    rows = [{"prompt": "add", "code": "x", "ok": "AC", "timeMs": 1500, "用时(ms)": "250", "memory_kb": 9000, "limit (MB)": 256}]
    columns = {
        "status": "ok",
        "wall_seconds": "timeMs",
        "cpu_seconds": "用时(ms)",
        "memory_bytes": "memory_kb",
        "limit_bytes": "limit (MB)",
    }
    archive, _ = imported_rows(tmp_path, rows, **columns)
    ((verdict,), (task,)) = archive.verdicts(), archive.tasks()
    assert (verdict.wall_seconds, verdict.cpu_seconds, verdict.memory_bytes) == (1.5, 0.25, 9000 * 1024)
    assert task.limit_bytes == 256 * 2**20
    plain = [{"prompt": "add", "code": "x", "ok": "AC", "items": 2, "programs": 3}]  # end in ms by chance
    archive, _ = imported_rows(tmp_path, plain, status="ok", wall_seconds="items", cpu_seconds="programs")
    assert [(one.wall_seconds, one.cpu_seconds) for one in archive.verdicts()] == [(2, 3)]


def test_a_unit_in_the_name_of_a_column_is_said(tmp_path):
    rows = [{"prompt": "add", "code": "x", "ok": "AC", "time_ms": 12}]
    with pytest.warns(UserWarning, match="log: time_ms is read in milliseconds, by its name"):
        imported_rows(tmp_path, rows, status="ok", cpu_seconds="time_ms")


@pytest.mark.parametrize(
    ("source", "row"),
    [
        ("jsonl", {"kind": "task", "task_id": "q", "prompt": "Count."}),
        ("table", {"task_id": "q", "prompt": "Count.", "code": "select 1"}),
    ],
)
def test_tasks_of_queries_compare_rows(tmp_path, source, row):
    """A task in SQL that does not say how outputs are compared can be judged; a comparison that is named stays."""
    for language, compare, expected in [
        ("sql", None, "rows"),
        ("SQLite", None, "rows"),
        ("python", None, "lines"),
        ("sql", "rows_in_order", "rows_in_order"),
    ]:
        archive = Archive.create(tmp_path / f"{language}-{compare}")
        path = tmp_path / "in.jsonl"
        path.write_text(json.dumps(row | {"language": language} | ({"compare": compare} if compare else {})) + "\n")
        ingest(archive, source, path)
        assert [task.compare for task in archive.tasks()] == [expected]


def test_scores_in_percent_are_shares(tmp_path):
    """67 % is 0.67: without a limit, and with one above 1, which would fail every attempt, the import is refused."""
    path = tmp_path / "in.csv"
    path.write_text('task_id,code,score\na,1,67%\na,2,"49,5 %"\na,3,100%\n')
    for given in ({}, {"passed_at": 50}):
        with pytest.raises(SourceError, match="--passed-at X"):
            ingest(Archive.create(tmp_path / f"refused{len(given)}"), "table", path, status="score", **given)
    archive = Archive.create(tmp_path / "a")
    ingest(archive, "table", path, status="score", passed_at=0.5)
    found = archive.query("select code, status from verdicts join attempts using (attempt_id) order by code").to_pylist()
    assert [row["status"] for row in found] == ["passed", "failed", "passed"]
    path.write_text("task_id,code,score\na,1,67%\na,2,100%\n")
    (tmp_path / "map.yaml").write_text(
        "columns: {task_id: task_id, code: code, status: score}\nstatuses: {67%: failed, 100%: passed}\n"
    )
    assert ingest(Archive.create(tmp_path / "b"), "table", path, map=str(tmp_path / "map.yaml")).added["verdicts"] == 2


def test_a_number_of_passed_tests_beside_one_of_failed_tests_is_no_word(tmp_path):
    rows = [{"prompt": "add", "code": f"x = {n}", "passed": 1, "failed": n} for n in (0, 1)]
    with pytest.raises(SourceError, match="passed and failed are numbers of tests: --map FILE"):
        imported_rows(tmp_path, rows)
    (tmp_path / "my.yaml").write_text("columns: {passed: null}\nstatus: {column: failed, negate: true}\n")
    archive, _ = imported_rows(tmp_path, rows, map=str(tmp_path / "my.yaml"))
    assert [verdict.status for verdict in archive.verdicts()] == [Status.PASSED, Status.FAILED]


@pytest.mark.parametrize("name", ["case", "input"])
def test_rows_of_single_tests_are_refused(tmp_path, name):
    rows = [
        {"prompt": "Add", "code": code, name: case, "result": "WA" if case == code else "AC"} for code in "ab" for case in "abc"
    ]
    with pytest.raises(SourceError, match="rows are outcomes of single tests, which " + name):
        imported_rows(tmp_path, rows, status="result")
