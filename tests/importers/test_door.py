"""Files and folders without a named source: what they are read as, and what is not decided for the user."""

import json
import re
import shutil
import sqlite3
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest

from upsolve.archive.info import archive_info
from upsolve.archive.store import Archive, open_archive
from upsolve.cli.main import main
from upsolve.errors import SourceError
from upsolve.importers.door import map_file, preview, reading_of
from upsolve.importers.ingest import ingest
from upsolve.plugins import find, names

ADD, WRONG = "def f(x):\n    return x + 1\n", "def f(x):\n    return x\n"
STATEMENT = "Write a function that adds one."
ROWS = [
    {"question": STATEMENT, "submission": ADD, "verdict": "Accepted", "user": "ann"},
    {"question": STATEMENT, "submission": WRONG, "verdict": "Wrong answer", "user": "bob"},
]


def lines_of(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def database(file, rows):
    with sqlite3.connect(file) as connection:
        connection.execute(f"create table log ({', '.join(rows[0])})")
        connection.executemany(f"insert into log values ({', '.join('?' * len(rows[0]))})", [[*row.values()] for row in rows])
    connection.close()


def csv(file, rows):
    cells = [[*rows[0]], *([*row.values()] for row in rows)]
    file.write_text("\n".join(",".join(f'"{cell}"' for cell in row) for row in cells) + "\n")


FILES = {
    "log.csv": csv,
    "log.json": lambda file, rows: file.write_text(json.dumps(rows)),
    "page.json": lambda file, rows: file.write_text(json.dumps({"page": 1, "data": {"items": rows}})),
    "log.jsonl": lambda file, rows: file.write_text(lines_of(rows)),
    "log.db": database,
    "log.txt": lambda file, rows: file.write_text(lines_of(rows)),
}


def stored(archive):
    statuses = {verdict.attempt_id: verdict.status for verdict in archive.verdicts()}
    return [(one.author, one.code.strip(), statuses.get(one.attempt_id)) for one in archive.attempts()]


@pytest.fixture
def run(monkeypatch):
    def command(*words):
        monkeypatch.setattr("sys.argv", ["upsolve", "ingest", *map(str, words)])
        with suppress(SystemExit):
            main()

    return command


@pytest.mark.parametrize("name", FILES)
def test_a_table_of_a_stranger_comes_in_by_one_command(tmp_path, name):
    FILES[name](tmp_path / name, ROWS)
    reading = reading_of(tmp_path / name, {})
    assert reading.source == "table"
    archive = Archive.create(tmp_path / "archive")
    ingest(archive, reading.source, tmp_path / name, **reading.options)
    assert stored(archive) == [("ann", ADD.strip(), "passed"), ("bob", WRONG.strip(), "failed")]
    assert [task.prompt for task in archive.tasks()] == [STATEMENT]


def test_the_command_shows_what_it_reads_and_then_stores_it(tmp_path, capsys, run):
    csv(tmp_path / "log.csv", ROWS)
    run(tmp_path / "log.csv", "--dry-run")
    shown = capsys.readouterr().out
    assert "prompt = question" in shown
    assert STATEMENT in shown
    assert "recorded as passed" in shown
    assert "1 tasks, 2 attempts, 2 outcomes, 0 rejected" in shown
    assert not (tmp_path / "out").exists()
    run(tmp_path / "log.csv", tmp_path / "out", "--no-check")
    assert len(open_archive(tmp_path / "out").attempts()) == 2


HEADINGS = {
    "in capitals": ("Prompt", "Code", "Status", "Author"),
    "with more words": ("problem_statement", "student_code", "is_correct", "Student Name"),
    "of several words": ("Question Text", "Submitted Code", "Final Verdict", "user id"),
    "in German": ("Aufgabenstellung", "Quelltext", "Ergebnis", "Matrikelnummer"),
    "in Chinese": ("题目描述", "代码", "评测结果", "用户"),
    "in objects": ("meta.task_description", "answer_code", "resolved", "by.$oid"),
}


@pytest.mark.parametrize("case", HEADINGS)
def test_headings_of_other_spellings_are_read(tmp_path, case):
    names, right = HEADINGS[case], {"is_correct": (1, 0), "resolved": ("yes", "no")}
    rows = [
        dict(zip(names, (STATEMENT, code, right.get(names[2], ("OK", "WA"))[at], user), strict=True))
        for at, (code, user) in enumerate(((ADD, "ann"), (WRONG, "bob")))
    ]
    rows = [{name: value for name, value in row.items() if "." not in name} | objects_of(row) for row in rows]
    (tmp_path / "log.jsonl").write_text(lines_of([{**row, "test_file": "def test_f():\n    assert f(1) == 2"} for row in rows]))
    reading = reading_of(tmp_path / "log.jsonl", {})
    archive = Archive.create(tmp_path / "archive")
    ingest(archive, reading.source, tmp_path / "log.jsonl", **reading.options)
    authors = ("ann", "bob") if reading.options.get("author") else ("", "")
    assert stored(archive) == [(authors[0], ADD.strip(), "passed"), (authors[1], WRONG.strip(), "failed")]
    assert authors[0] or case == "in objects"
    assert [(task.prompt, len(task.tests)) for task in archive.tasks()] == [(STATEMENT, 1)]


def objects_of(row):
    return {name.split(".")[0]: {name.split(".")[1]: value} for name, value in row.items() if "." in name}


def test_objects_by_name_are_rows(tmp_path):
    (tmp_path / "log.json").write_text(json.dumps({f"id{at}": row for at, row in enumerate(ROWS)}))
    assert reading_of(tmp_path / "log.json", {}).options["rows"] == "*"
    (tmp_path / "log.json").write_text(json.dumps({"about": {"url": "x"}, "data": {"items": ROWS}}))
    assert reading_of(tmp_path / "log.json", {}).options["rows"] == "data.items"
    (tmp_path / "log.json").write_text(json.dumps({at: {"name": at, "runs": ROWS} for at in "ab"}))
    with pytest.raises(SourceError, match=r"--rows '\*' \(2 rows\) or --rows a.runs \(2 rows\)"):
        reading_of(tmp_path / "log.json", {})


def test_a_written_map_reads_the_same(tmp_path, run):
    csv(tmp_path / "log.csv", ROWS)
    run(tmp_path / "log.csv", tmp_path / "one", "--write-map", tmp_path / "my.yaml", "--no-check")
    run(tmp_path / "log.csv", tmp_path / "two", "--map", tmp_path / "my.yaml", "--no-check")
    assert stored(open_archive(tmp_path / "one")) == stored(open_archive(tmp_path / "two")) != []


def test_a_map_replaces_no_other_file(tmp_path, run, capsys):
    log, edited = tmp_path / "log.csv", tmp_path / "my.yaml"
    csv(log, ROWS)
    run(log, "--write-map", edited)
    run(log, "--write-map", edited)  # the same map
    edited.write_text(edited.read_text() + "# my own line\n")
    for file in (log, edited):
        before = file.read_bytes()
        run(log, "--write-map", file)
        assert f"--write-map {file}: exists" in capsys.readouterr().err
        assert file.read_bytes() == before


def test_a_source_without_an_archive_is_no_missing_file(tmp_path, run, capsys):
    csv(tmp_path / "log.csv", ROWS)
    run("table", tmp_path / "log.csv")
    assert f"upsolve ingest table {tmp_path / 'log.csv'} ARCHIVE" in capsys.readouterr().err.replace("\n", " ")


def test_options_replace_what_is_inferred(tmp_path):
    rows = [{**row, "other": row["user"].upper()} for row in ROWS]
    (tmp_path / "log.jsonl").write_text(lines_of(rows))
    assert reading_of(tmp_path / "log.jsonl", {"author": "other"}).options["author"] == "other"


def test_upsolves_own_records_are_recognised(tmp_path):
    rows = [{"kind": "task", "task_id": "a", "prompt": "p"}, {"kind": "attempt", "task_id": "a", "code": ADD}]
    (tmp_path / "log.jsonl").write_text(lines_of(rows))
    assert reading_of(tmp_path / "log.jsonl", {}).source == "jsonl"


def test_every_source_with_columns_is_recognised_by_them_alone(tmp_path):
    sources = {name: find("source", name).detect for name in names("source")}
    wrong = {}
    for name, detect in sources.items():
        columns = [one.partition("=") for one in detect if not one.startswith("!")]
        rows = [{column: words.partition("|")[0] or "x" for column, _, words in columns}]
        for part in reversed(find("source", name).rows.split(".") if find("source", name).rows else ()):
            rows = {part: rows}
        (tmp_path / "rows.json").write_text(json.dumps(rows))
        if columns and (found := reading_of(tmp_path / "rows.json", {}).source) != name:
            wrong[name] = found
    assert wrong == {}
    assert len([name for name, detect in sources.items() if detect]) >= 15


@pytest.mark.parametrize(
    ("made", "source"),
    [
        ("problem.xml", "polygon"),
        ("a/problem.yaml", "problem_package"),
        ("metadata/problem_list.csv", "codenet"),
        ("database/school/school.sqlite", "spider"),
        ("submitted/ann/ps1/one.ipynb", "nbgrader"),
        (".git/HEAD", "git"),
    ],
)
def test_folders_are_recognised_by_their_files(tmp_path, made, source):
    (tmp_path / made).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / made).write_text("x")
    assert reading_of(tmp_path, {}).source == source


def test_a_cloned_dataset_is_read_as_data_unless_it_has_tests(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "log.jsonl").write_text(lines_of(ROWS))
    (tmp_path / "load.py").write_text(ADD)
    assert reading_of(tmp_path, {}).source == "table"
    (tmp_path / "test_load.py").write_text("from load import add")
    with pytest.raises(SourceError, match=r"2 ways[^!]*upsolve ingest git PATH"):
        reading_of(tmp_path, {})


UNDECIDED = {
    "a solution may be an attempt or the reference": (
        [{"question": STATEMENT, "solution": ADD}],
        ("code: solution", "reference: solution"),
    ),
    "two outcomes that contradict each other": (
        [{"question": STATEMENT, "submission": ADD, "verdict": "Accepted", "result": "Wrong answer"}],
        ("status: verdict", "status: result"),
    ),
    "a set with outcomes of answers": (
        [
            {
                "task_id": 11,
                "text": STATEMENT,
                "code": ADD,
                "test_list": ["assert f(1) == 2"],
                "response": f"```\n{WRONG}```",
                "passed": False,
            }
        ],
        ("ingest mbpp", "answer: response\n      reference: code"),
    ),
    "two programs": (
        [{"question": STATEMENT, "submission": ADD, "patched": WRONG, "verdict": "Accepted"}],
        ("code: submission", "code: patched"),
    ),
}


@pytest.mark.parametrize("case", UNDECIDED)
def test_of_two_readings_none_is_taken_and_the_maps_of_both_are_shown(tmp_path, case):
    rows, maps = UNDECIDED[case]
    (tmp_path / "log.jsonl").write_text(lines_of(rows))
    with pytest.raises(SourceError) as error:
        reading_of(tmp_path / "log.jsonl", {})
    assert all(text in str(error.value) for text in maps)


@pytest.mark.parametrize(
    ("columns", "read"),
    [
        ({"status": (200, 200), "is_correct": (True, False)}, {"status": "is_correct"}),
        ({"status": ("success", "success"), "passed": (True, False)}, {"status": "passed"}),
        ({"status": ("completed", "completed"), "result": ("pass", "fail")}, {"status": "result"}),
        ({"compile_result": ("OK", "OK"), "run_result": ("OK", "FAIL")}, {"status": "run_result"}),
        ({"plagiarism_check": ("passed", "passed"), "rank": (3, 1)}, {}),
        ({"lint": ("pass", "fail")}, {}),
        ({"reason": (None, "wrong answer")}, {}),
        ({"ok": (True, False), "reason": (None, "wrong answer")}, {"status": "ok"}),
        ({"problem": ("Add one", "Add one"), "problem_text": (f"{STATEMENT} All of x are integers.",) * 2}, {"prompt": "problem_text"}),
        ({"source": ("a site", "a site"), "src": (ADD, WRONG)}, {"code": "src"}),
        ({"title": ("Add one",) * 2, "body": (f"{STATEMENT} All of x are integers.",) * 2}, {"task_id": "title", "prompt": "body"}),
    ],
)  # fmt: skip
def test_of_several_columns_the_one_is_read_that_says_it(tmp_path, columns, read):
    rows = [{name: values[at] for name, values in columns.items()} for at in range(2)]
    rows = [{"submission": code, **row} if "src" not in row else row for code, row in zip((ADD, WRONG), rows, strict=True)]
    rows = [{"question": STATEMENT, **row} if not {"problem", "title"} & {*row} else row for row in rows]
    (tmp_path / "log.jsonl").write_text(lines_of(rows))
    options = reading_of(tmp_path / "log.jsonl", {}).options
    assert {
        name: options[name] for name in ("status", "task_id", *read) if name in options and name in (*read, "status")
    } == read


@pytest.mark.parametrize(
    ("names", "values", "tasks"),
    [
        ("ab", "23", {"a": 2, "b": 3}),  # a name for each test of one statement
        ("aa", "23", None),  # of one task, whose rows contradict each other
        ("ab", "22", None),  # rows of one task
    ],
)
def test_tasks_with_the_same_statement_have_the_names_that_tell_them_apart(tmp_path, names, values, tasks):
    rows = [
        {
            "prompt": STATEMENT,
            "problem_id": name,
            "tests": [f"assert f(1) == {value}"],
            "code": row["submission"],
            "status": row["verdict"],
        }
        for name, value in zip(names, values, strict=True)
        for row in ROWS
    ]
    (tmp_path / "log.jsonl").write_text(lines_of(rows))
    options = reading_of(tmp_path / "log.jsonl", {}).options
    assert options.get("task_id") == ("problem_id" if tasks else None)
    if tasks:
        ingest(Archive.create(tmp_path / "archive"), "table", tmp_path / "log.jsonl", **options)
        found = {task.task_id.rpartition("/")[2]: int(task.tests[0].expected) for task in Archive(tmp_path / "archive").tasks()}
        assert found == tasks


LISTS = {
    "objects": {"attempts": [{"code": ADD, "passed": True, "user": "ann"}, {"code": WRONG, "passed": False, "user": "bob"}]},
    "parallel lists": {"completions": [ADD, WRONG], "passed": [True, False], "seconds": [0.5, 2]},
    "answers": {"responses": [f"Here:\n```\n{ADD}```", f"```\n{WRONG}```"], "results": ["AC", "WA"]},
    "lists of outcomes": {"generations": [ADD, WRONG], "results": [["AC", "AC"], ["AC", "WA"]]},
}


@pytest.mark.parametrize("case", LISTS)
def test_attempts_in_lists_of_a_task_are_read(tmp_path, case, run):
    rows = [{"task_id": "q", "question": STATEMENT, "test_list": ["assert f(1) == 2", "assert f(2) == 3"], **LISTS[case]}]
    (tmp_path / "log.jsonl").write_text(lines_of(rows))
    run(tmp_path / "log.jsonl", tmp_path / "archive", "--no-check")
    archive = Archive(tmp_path / "archive")
    assert [one[1:] for one in stored(archive)] == [(ADD.strip(), "passed"), (WRONG.strip(), "failed")]
    assert [(task.prompt, len(task.tests)) for task in archive.tasks()] == [(STATEMENT, 2)]


def test_lists_of_attempts_that_are_not_clear_are_named_with_a_map(tmp_path):
    row = {
        "id": "q",
        "question": STATEMENT,
        "solutions": [ADD, ADD + "\n"],
        "incorrect_solutions": [WRONG, WRONG + "\n", WRONG + "#"],
    }
    (tmp_path / "log.jsonl").write_text(lines_of([row]))
    with pytest.raises(SourceError) as error:
        reading_of(tmp_path / "log.jsonl", {})
    attempts = re.search(r"`(attempts: .*?)`", str(error.value))[1]
    (tmp_path / "my.yaml").write_text(f"columns: {{task_id: id, prompt: question}}\n{attempts}\n")
    ingest(Archive.create(tmp_path / "a"), "table", tmp_path / "log.jsonl", map=str(tmp_path / "my.yaml"))
    assert [status for _, _, status in stored(Archive(tmp_path / "a"))] == ["passed", "passed", "failed", "failed", "failed"]
    (tmp_path / "log.jsonl").write_text(lines_of([{"question": STATEMENT, "tries": [ADD, WRONG], "scores": [0.5, 3]}]))
    with pytest.raises(SourceError, match="tries has lists of programs"):
        reading_of(tmp_path / "log.jsonl", {})


def test_tables_of_tasks_and_of_attempts_in_a_folder_are_read_together(tmp_path, run):
    folder = tmp_path / "contest"
    folder.mkdir()
    tasks = [
        {"id": name, "statement": f"{STATEMENT} {name}", "test_cases": [{"input": "1\n", "output": "2\n"}]} for name in "ab"
    ]
    attempts = [
        {"id": at, "problem_id": "ab"[at], "code": code, "verdict": word}
        for at, (code, word) in enumerate([(ADD, "AC"), (WRONG, "WA")])
    ]
    (folder / "problems.jsonl").write_text(lines_of(tasks))
    (folder / "attempts.jsonl").write_text(lines_of(attempts))
    run(folder, tmp_path / "a", "--no-check")
    assert {(task.task_id, task.prompt[-1], len(task.tests)) for task in Archive(tmp_path / "a").tasks()} == {
        ("contest/a", "a", 1),
        ("contest/b", "b", 1),
    }
    assert {(one.task_id, one.code.strip()) for one in Archive(tmp_path / "a").attempts()} == {
        ("contest/a", ADD.strip()),
        ("contest/b", WRONG.strip()),
    }
    assert sorted(verdict.status for verdict in Archive(tmp_path / "a").verdicts()) == ["failed", "passed"]


PROBLEM, CASE, SUBMISSION = (
    "id, title, statement, setter",
    "id, problem_id, input, output, is_sample",
    "id, problem_id, user_id, lang, source, verdict",
)
DATABASE = {
    "users": ("id, name", [(1, "ann"), (2, "bob")]),
    "problems": (PROBLEM, [(at, f"no. {at}", f"{STATEMENT} {at}", "eve") for at in (7, 8, 9)]),
    "test_cases": (CASE, [(1, 7, "1\n", "2\n", 1), (2, 8, "3\n", "4\n", 0), (3, 7, "5\n", "6\n", 0)]),
    "submissions": (SUBMISSION, [(1, 7, 2, "py", ADD, "AC"), (2, 7, 1, "py", WRONG, "WA"), (3, 8, 1, "py", ADD, "AC")]),
}
"""Tables of a judge, whose ids are easily taken for each other."""


def tables_at(folder, form, tables):
    """Write tables as a database or as files, and return the path."""
    path = folder / {"sqlite": "judge.db", "duckdb": "judge.duckdb"}.get(form, "judge")
    connect = {"sqlite": sqlite3.connect, "duckdb": duckdb.connect}.get(form)
    if connect is None:
        path.mkdir()
        for name, (columns, rows) in tables.items():
            csv(path / f"{name}.csv", [dict(zip(columns.split(", "), row, strict=True)) for row in rows])
        return path
    connection = connect(str(path))
    for name, (columns, rows) in tables.items():
        typed = [
            f"{one} {'integer' if isinstance(cell, int) else 'text'}"
            for one, cell in zip(columns.split(", "), rows[0], strict=True)
        ]
        connection.execute(f"create table {name} ({', '.join(typed)})")
        connection.executemany(f"insert into {name} values ({', '.join('?' * len(typed))})", rows)
    connection.commit()
    connection.close()
    return path


@pytest.mark.parametrize("form", ["sqlite", "duckdb", "csv"])
def test_tables_of_a_judge_are_read_together(tmp_path, run, form):
    path = tables_at(tmp_path, form, DATABASE)
    assert "(not read: users" in reading_of(path, {}).why
    run(path, tmp_path / "a", "--no-check")
    archive = Archive(tmp_path / "a")
    tests = {task.task_id: [(one.input, one.expected, one.hidden) for one in task.tests] for task in archive.tasks()}
    assert tests == {
        "judge/7": [("1\n", "2\n", False), ("5\n", "6\n", True)],
        "judge/8": [("3\n", "4\n", True)],
        "judge/9": [],
    }
    assert {task.prompt for task in archive.tasks()} == {f"{STATEMENT} {at}" for at in (7, 8, 9)}
    assert sorted((one.task_id, one.author, one.code.strip()) for one in archive.attempts()) == sorted(
        [("judge/7", "2", ADD.strip()), ("judge/7", "1", WRONG.strip()), ("judge/8", "1", ADD.strip())]
    )
    assert sorted(verdict.status for verdict in archive.verdicts()) == ["failed", "passed", "passed"]


BARE = (SUBMISSION.replace(", verdict", ""), [row[:-1] for row in DATABASE["submissions"][1]])
VERDICTS = ("id, submission_id, verdict, time_ms", [(1, 1, "AC", 12), (2, 2, "WA", 9), (3, 3, "AC", 11)])
BY_TEST = "id, submission_id, test_case_id, passed, status"
RESULTS = (BY_TEST, [(1, 2, 3, 0, "done"), (2, 1, 3, 1, "done"), (3, 1, 1, 1, "done"), (4, 3, 2, 1, "done")])
"""Outcomes beside the submissions: of the whole, and of single tests in another order than the tests, the first of which submission 2 lacks."""


@pytest.mark.parametrize("form", ["sqlite", "duckdb", "csv", "zip"])
def test_outcomes_in_tables_of_their_own_are_joined(tmp_path, run, form):
    path = tables_at(tmp_path, form, DATABASE | {"submissions": BARE, "results": RESULTS, "verdicts": VERDICTS})
    if form == "zip":
        path = Path(shutil.make_archive(str(path), "zip", path))
    run(path, tmp_path / "a", "--no-check")
    archive = Archive(tmp_path / "a")
    assert sorted(len(task.tests) for task in archive.tasks()) == [0, 1, 2]
    found = {one.attempt_id: (one.status, one.outcomes) for one in archive.verdicts()}
    assert {(one.task_id, one.code.strip()): found[one.attempt_id] for one in archive.attempts()} == {
        ("judge/7", ADD.strip()): ("passed", ("passed", "passed")),
        ("judge/7", WRONG.strip()): ("failed", ("unscored", "failed")),
        ("judge/8", ADD.strip()): ("passed", ("passed",)),
    }


def test_a_damaged_table_of_outcomes_rejects_the_attempts(tmp_path):
    path = tables_at(tmp_path, "csv", DATABASE | {"submissions": BARE, "verdicts": VERDICTS})
    file = path / "verdicts.csv"
    file.write_bytes(file.read_bytes().replace(b"WA", b"W\xe4"))
    seen = preview(find("source", "table"), path, {"map": str(map_file(reading_of(path, {})))})
    assert (seen.counts["tasks"], seen.counts["attempts"], seen.counts["rejected"]) == (3, 0, 3)
    assert "verdicts.csv, line 3: not UTF-8" in seen.rejected[0].reason


def test_responses_of_moodle_are_attempts_at_each_question(tmp_path, run):
    rows = [
        {"Last name": "A", "ID number": f"1{at}", "Status": "Finished", "Grade/10.00": 9 - at, "Question 1": STATEMENT, "Response 1": code,
         "Question 2": "Subtract one.", "Response 2": "-"} for at, code in enumerate((ADD, WRONG))
    ]  # fmt: skip
    csv(tmp_path / "quiz.csv", rows)
    run(tmp_path / "quiz.csv", tmp_path / "a", "--no-check")
    assert {(one.author, one.code.strip()) for one in Archive(tmp_path / "a").attempts()} == {
        ("10", ADD.strip()),
        ("11", WRONG.strip()),
    }
    assert {task.prompt for task in Archive(tmp_path / "a").tasks()} == {STATEMENT}
    assert not Archive(tmp_path / "a").verdicts()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"verdicts": (VERDICTS[0], [*VERDICTS[1], (4, 2, "AC", 1)])}, "verdicts has several outcomes for one submission_id"),
        (
            {"verdicts": ("verdict", [("AC",), ("WA",)])},
            "verdicts has outcomes, but no column that refers to rows of submissions",
        ),
        ({"verdicts": VERDICTS, "judgements": VERDICTS}, "verdicts and judgements both have outcomes of the same attempts"),
        ({"verdicts": VERDICTS, "submissions": (SUBMISSION, [(*row, "AC") for row in BARE[1]])}, "contradict each other"),
        (
            {"verdicts": (VERDICTS[0], [(1, 1, 4, 0), (2, 2, 6, 0)])},
            "verdicts.0.verdict has numbers, 4, 6, either codes or scores",
        ),
        ({"verdicts": ("submission_id, failed", [(1, 0), (2, 1)])}, "verdicts.0.failed has 1 where an attempt failed"),
        (
            {"results": (BY_TEST.replace("passed, status", "failed"), [row[:-1] for row in RESULTS[1]])},
            "results.failed has 1 where",
        ),
        ({"results": (BY_TEST, [*RESULTS[1], RESULTS[1][0]])}, "results has several outcomes for one submission_id"),
    ],
)
def test_outcomes_whose_meaning_is_not_sure_are_refused(tmp_path, change, reason):
    path = tables_at(tmp_path, "sqlite", DATABASE | {"submissions": BARE} | change)
    with pytest.raises(SourceError, match=reason):
        preview(find("source", "table"), path, {"map": str(map_file(reading_of(path, {})))})


@pytest.mark.parametrize(
    "change",
    [
        {"problems": (PROBLEM, [(at, "x", f"{STATEMENT} {at}", "eve") for at in (17, 18, 19)])},
        {"submissions": (SUBMISSION.replace("problem_id", "p"), DATABASE["submissions"][1])},
        {"test_cases": (CASE.replace("problem_id", "p"), DATABASE["test_cases"][1])},
        {"test_cases": (CASE, [(1, 70, "1\n", "2\n", 1), (2, 80, "3\n", "4\n", 0)])},
    ],
    ids=["ids of other tasks", "attempts without a task", "tests without a task", "tests of other tasks"],
)
def test_tables_that_may_belong_together_otherwise_need_a_query(tmp_path, change):
    with pytest.raises(SourceError, match=r"which table\? --query NAME; its tables are users"):
        reading_of(tables_at(tmp_path, "sqlite", DATABASE | change), {})


CELLS = [[*row.values()] for row in ROWS]
TABLES = {
    "of pandas, split": {"columns": [*ROWS[0]], "index": [0, 1], "data": CELLS},
    "of pandas, by column": {name: {str(at): row[name] for at, row in enumerate(ROWS)} for name in ROWS[0]},
    "of lists": {name: [row[name] for row in ROWS] for name in ROWS[0]},
}


@pytest.mark.parametrize("case", [*TABLES, "a file a row"])
def test_tables_in_objects_are_read(tmp_path, case):
    folder = tmp_path / "log"
    folder.mkdir()
    for at, row in enumerate([TABLES[case]] if case in TABLES else ROWS):
        (folder / f"{at}.json").write_text(json.dumps(row, indent=1))
    path = folder / "0.json" if case in TABLES else folder
    reading = reading_of(path, {})
    ingest(Archive.create(tmp_path / "a"), reading.source, path, **reading.options)
    assert stored(Archive(tmp_path / "a")) == [("ann", ADD.strip(), "passed"), ("bob", WRONG.strip(), "failed")]


def test_programs_that_continue_their_prompts_are_refused(tmp_path):
    rows = [{"prompt": "def f(x):\n", "completion": f"    return x + {n}\n", "passed": n == 1} for n in (1, 2)]
    (tmp_path / "log.jsonl").write_text(lines_of(rows))
    with pytest.raises(SourceError, match=r"only what follows their prompts: --code '\{prompt\}\{completion\}'"):
        ingest(Archive.create(tmp_path / "a"), "table", tmp_path / "log.jsonl", code="completion")
    ingest(Archive.create(tmp_path / "b"), "table", tmp_path / "log.jsonl", code="{prompt}{completion}")
    assert stored(Archive(tmp_path / "b"))[0] == ("", ADD.strip(), "passed")


def test_two_outcomes_that_agree_are_no_question(tmp_path):
    rows = [{**row, "result": row["verdict"]} for row in ROWS]
    (tmp_path / "log.jsonl").write_text(lines_of(rows))
    assert reading_of(tmp_path / "log.jsonl", {}).options["status"] == "verdict"


def test_several_lists_of_rows_are_named(tmp_path):
    (tmp_path / "log.json").write_text(json.dumps({"tasks": ROWS, "log": ROWS}))
    with pytest.raises(SourceError, match=r"--rows tasks \(2 rows\) or --rows log"):
        reading_of(tmp_path / "log.json", {})
    assert reading_of(tmp_path / "log.json", {"rows": "log"}).options["rows"] == "log"


@pytest.mark.parametrize(
    ("row", "says"),
    [({"a": 1, "b": 2}, "--prompt COLUMN"), ({"question": STATEMENT}, "--code COLUMN")],
)
def test_a_table_without_statements_or_programs_says_what_to_name(tmp_path, row, says):
    (tmp_path / "log.jsonl").write_text(lines_of([row]))
    with pytest.raises(SourceError, match=says):
        reading_of(tmp_path / "log.jsonl", {})


@pytest.mark.parametrize(("column", "values"), [("is_buggy", (False, True)), ("points", (3, 1)), ("result_code", (4, 6))])
def test_columns_that_say_the_opposite_and_codes_need_a_map(tmp_path, column, values):
    rows = [
        {"question": STATEMENT, "submission": code, column: value} for code, value in zip((ADD, WRONG), values, strict=True)
    ]
    (tmp_path / "log.jsonl").write_text(lines_of(rows))
    if column != "result_code":
        with pytest.raises(SourceError, match=rf"no column is known to be the outcome, and {column} may be: --.*status"):
            reading_of(tmp_path / "log.jsonl", {})
    reading = reading_of(tmp_path / "log.jsonl", {"status": ""} if column != "result_code" else {})
    assert not reading.options.get("status")
    with pytest.raises(SourceError):
        preview(find("source", "table"), tmp_path / "log.jsonl", {**reading.options, "status": column})


STATED = {
    "points with their maximum": ({"Grade/10.00": ("10.00", "7.50")}, [("passed", [1.0], ()), ("failed", [0.75], ())]),
    "of German": ({"Bewertung/10,00": ("7,50", "10,00")}, [("failed", [0.75], ()), ("passed", [1.0], ())]),
    "not graded": ({"Score (out of 20)": ("20", "-")}, [("passed", [1.0], ())]),
    "failures": ({"failed": ("false", "true")}, [("passed", [], ()), ("failed", [], ())]),
    "numbers of failed tests": ({"failures": (0, 3)}, [("passed", [], ()), ("failed", [], ())]),
    "tests": (
        {"test1": ("pass", "fail"), "test2": ("pass", "pass")},
        [("passed", [], ("passed",) * 2), ("failed", [], ("failed", "passed"))],
    ),
    "bits": ({"t2_ok": (1, 1), "t1_ok": (1, 0)}, [("passed", [], ("passed",) * 2), ("failed", [], ("failed", "passed"))]),
    "a verdict beside tests": ({"test1": (1, 0), "test2": (1, 1), "verdict": ("AC", "TLE")}, [("passed", [], ()), ("timeout", [], ())]),
}  # fmt: skip
"""Case -> columns of two rows, and status, points and outcomes of each test of their verdicts."""


@pytest.mark.parametrize("case", STATED)
def test_names_of_columns_state_the_outcome(tmp_path, run, case):
    columns, expected = STATED[case]
    rows = [{"question": STATEMENT, "submission": code, **{name: values[at] for name, values in columns.items()}}
            for at, code in enumerate((ADD, WRONG))]  # fmt: skip
    csv(tmp_path / "log.csv", rows)
    run(tmp_path / "log.csv", tmp_path / "a", "--no-check")
    archive = Archive(tmp_path / "a")
    found = {
        one.attempt_id: (one.status, [at.value for at in one.findings if at.kind == "points"], one.outcomes)
        for one in archive.verdicts()
    }
    assert [found[one.attempt_id] for one in archive.attempts() if one.attempt_id in found] == expected


def test_two_columns_with_a_maximum_state_no_outcome(tmp_path):
    csv(tmp_path / "log.csv", [{"question": STATEMENT, "submission": ADD, "Style/5": 1, "Grade/10": 9}])
    with pytest.raises(SourceError, match="no column is known to be the outcome, and Grade/10 may be"):
        reading_of(tmp_path / "log.csv", {})
    csv(tmp_path / "log.csv", [{"question": STATEMENT, "submission": ADD, "grade": "A"}])
    with pytest.raises(SourceError, match="grade may be: --map FILE with `columns: {status: grade}` and `statuses: {A: passed"):
        reading_of(tmp_path / "log.csv", {})
    csv(tmp_path / "log.csv", [{"question": STATEMENT, "submission": ADD, "public_passed": 2, "hidden_passed": 1}])
    with pytest.raises(SourceError, match="public_passed, hidden_passed may be"):
        reading_of(tmp_path / "log.csv", {})
    csv(tmp_path / "log.csv", [{"question": STATEMENT, "submission": ADD, "Test 1/2": 1}])
    assert "points" not in reading_of(tmp_path / "log.csv", {}).options  # the first of two tests


@pytest.mark.parametrize("column", ["prog", "src", "body", "text", "content", "snippet", "solution_code"])
@pytest.mark.parametrize(
    "code",
    ["print(sum(map(int, input().split())))", "x = 1; y = 2; z = 3; print(x)", "int main() { return 0; } #include <cstdio>"],
)
def test_programs_of_one_line_are_programs(tmp_path, column, code):
    csv(
        tmp_path / "log.csv",
        [{"task": "sum", column: code, "verdict": "AC"}, {"task": "sum", column: "print(0)", "verdict": "WA"}],
    )
    assert reading_of(tmp_path / "log.csv", {}).options["code"] == column


@pytest.mark.parametrize(("names", "tasks"), [(("a", "b", "a"), 2), (("HumanEval/0", "HumanEval/1", "HumanEval/0"), 0)])
def test_tables_without_statements_store_tasks_without_them(tmp_path, run, names, tasks):
    """Unless ids are of a set of problems, which another import may have."""
    csv(tmp_path / "log.csv", [{"task_id": name, "code": f"x = {at}", "passed": at % 2} for at, name in enumerate(names)])
    run(tmp_path / "log.csv", tmp_path / "a", "--no-check")
    archive = Archive(tmp_path / "a")
    assert (len(archive.tasks()), len(archive.attempts())) == (tasks, 3) and {task.prompt for task in archive.tasks()} <= {""}


def test_a_path_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SourceError, match="no such file or folder"):
        reading_of(tmp_path / "nothing", {})


def put(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


TREES = {
    "tasks with authors, statements and tests": (
        {
            "problem1/ann/main.py": "print(2)\n",
            "problem1/bob/main.py": "print(3)\n",
            "problem2/ann/main.py": "print(4)\n",
            "problem1/statement.md": "Add one.",
            "problem2/statement.md": "Add two.",
            **{f"problem{k}/tests/1.{end}": text for k in (1, 2) for end, text in (("in", "1\n"), ("out", "2\n"))},
        },
        {"problem1": ("Add one.", 1), "problem2": ("Add two.", 1)},
        [("problem1", "ann", None), ("problem1", "bob", None), ("problem2", "ann", None)],
    ),
    "a folder a student": (
        {"student1/add.py": ADD, "student1/sub.py": WRONG, "student2/add.py": WRONG},
        {"add": ("", 0), "sub": ("", 0)},
        [("add", "student1", None), ("add", "student2", None), ("sub", "student1", None)],
    ),
    "outcomes in names of folders": (
        {"add/accepted/a.py": ADD, "add/wrong_answer/a.py": WRONG, "sub/accepted/a.py": ADD},
        {"add": ("", 0), "sub": ("", 0)},
        [("add", "", "failed"), ("add", "", "passed"), ("sub", "", "passed")],
    ),
}


@pytest.mark.parametrize("case", TREES)
def test_a_tree_of_programs_comes_in_by_one_command(tmp_path, case, run):
    files, tasks, attempts = TREES[case]
    put(tmp_path / "tree", files)
    run(tmp_path / "tree", tmp_path / "out", "--no-check")
    archive = open_archive(tmp_path / "out")
    statuses = {verdict.attempt_id: verdict.status for verdict in archive.verdicts()}
    last = {task.task_id: task.task_id.rpartition("/")[2] for task in archive.tasks()}
    assert {last[task.task_id]: (task.prompt, len(task.tests)) for task in archive.tasks()} == tasks
    found = [(last[one.task_id], one.author, statuses.get(one.attempt_id)) for one in archive.attempts()]
    assert sorted(found, key=str) == sorted(attempts, key=str)


def test_of_a_tree_without_names_that_say_it_both_maps_are_shown(tmp_path):
    put(tmp_path, {"x/k/main.py": ADD, "x/l/main.py": ADD, "y/k/main.py": ADD})
    with pytest.raises(SourceError) as error:
        reading_of(tmp_path, {})
    assert "files: '{task}/{author}/main.py'" in str(error.value)
    assert "files: '{author}/{task}/main.py'" in str(error.value)


def test_of_a_deep_tree_a_map_is_asked_for(tmp_path):
    put(tmp_path, {f"{a}/{b}/{c}/main.c": "int main(void) {}" for a in "xy" for b in "kl" for c in "mn"})
    with pytest.raises(SourceError, match=r"files: .*\{task\}/\{author\}/\*/\*\.c"):
        reading_of(tmp_path, {})


RECORDED = [
    {"problem_id": 1, "username": "a", "result": 1, "code": ADD, "create_time": "2024-01-01"},
    {"problem_id": 1, "username": "b", "result": 0, "code": WRONG, "create_time": "2024-01-01"},
]


@pytest.mark.parametrize("name", [*FILES])
def test_columns_of_a_judge_in_another_table_are_not_read_with_its_codes(tmp_path, name):
    FILES[name](tmp_path / name, RECORDED)  # 0 is passed at QDUOJ, whose rows are in `data.results`
    reading = reading_of(tmp_path / name, {})
    assert reading.source == "table"
    ingest(Archive.create(tmp_path / "a"), "table", tmp_path / name, **reading.options)
    assert [(author, status) for author, _, status in stored(Archive(tmp_path / "a"))] == [("a", "passed"), ("b", "failed")]


def test_named_columns_of_an_outcome_are_no_known_table(tmp_path):
    rows = [{"problem_id": 1, "user_id": 2, "source": ADD, "result": 4, "in_date": "2024-01-01", "good": "yes"}]
    (tmp_path / "log.jsonl").write_text(lines_of(rows))
    assert reading_of(tmp_path / "log.jsonl", {}).source == "hustoj"
    assert reading_of(tmp_path / "log.jsonl", {"status": "good"}).source == "table"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"test": "checks"}, "source table has no option test; did you mean tests?"),
        ({"code": "submision"}, "--code: no column 'submision'; did you mean submission?"),
        ({"status": "zzz"}, "--status: no column 'zzz'; its columns are question, submission, verdict, user"),
    ],
)
def test_a_misspelled_option_or_column_is_named(tmp_path, options, says):
    (tmp_path / "log.jsonl").write_text(lines_of(ROWS))
    with pytest.raises(SourceError, match=re.escape(says)):
        reading_of(tmp_path / "log.jsonl", options)


def test_a_table_without_a_sound_row_says_why(tmp_path):
    (tmp_path / "log.csv").write_text("question,code,status\nq,x,AC,more\n")
    with pytest.raises(SourceError, match="has no rows that can be read; line 2: 4 cells, and the header has 3"):
        reading_of(tmp_path / "log.csv", {})
    (tmp_path / "log.csv").write_bytes("question;code\nfür alle;x\n".encode("cp1252"))
    with pytest.raises(SourceError, match="line 2: not UTF-8; name its encoding"):
        reading_of(tmp_path / "log.csv", {})


def test_lists_of_one_object_are_read_together(tmp_path):
    (tmp_path / "log.json").write_text(json.dumps({"results": {str(n): [{**ROWS[0], "n": n}] * 2 for n in range(3)}}))
    with pytest.raises(SourceError, match=re.escape("--rows 'results.*.*' (6 rows)")):
        reading_of(tmp_path / "log.json", {})
    reading = reading_of(tmp_path / "log.json", {"rows": "results.*.*"})
    assert preview(find("source", reading.source), tmp_path / "log.json", reading.options).counts["attempts"] == 6


def test_the_map_for_a_deep_tree_reads_it(tmp_path):
    for name in ("ann/hw1/a.py", "ann/hw2/b.py", "bob/hw1/c.py", "bob/hw1/d.py"):
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(ADD)
    with pytest.raises(SourceError) as refused:
        reading_of(tmp_path / "tree", {})
    (tmp_path / "my.yaml").write_text(str(refused.value).partition("my.yaml\n")[2])
    seen = preview(find("source", str(tmp_path / "my.yaml")), tmp_path / "tree", {})
    assert (seen.counts["tasks"], seen.counts["attempts"], seen.counts["rejected"]) == (2, 4, 0)


def test_a_source_and_a_path_alone_are_a_dry_run(tmp_path, monkeypatch, capsys):
    (tmp_path / "rows.jsonl").write_text(lines_of([{"prompt": STATEMENT, "code": ADD}]))
    monkeypatch.setattr("sys.argv", ["upsolve", "ingest", "table", str(tmp_path / "rows.jsonl"), "--dry-run"])
    with suppress(SystemExit):
        main()
    assert "all rows: 1 tasks, 1 attempts" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("column", "cell", "tests"),
    [
        ("test", "assert f(1) == 2\nassert f(2) == 3", 2),
        ("unit_test", "def check(candidate):\n    assert candidate(1) == 2\n\ncheck(f)", 1),
        ("testcase", '[{"input": "1", "output": "2"}]', 1),
        ("test", "test_add_zero", 0),
        ("test_cases", 7, 0),
    ],
)
def test_columns_of_tests_are_told_from_names_and_numbers_of_tests(tmp_path, column, cell, tests):
    (tmp_path / "log.jsonl").write_text(lines_of([{**row, column: cell} for row in ROWS]))
    archive = Archive.create(tmp_path / "archive")
    reading = reading_of(tmp_path / "log.jsonl", {})
    ingest(archive, reading.source, tmp_path / "log.jsonl", **reading.options)
    assert [len(task.tests) for task in archive.tasks()] == [tests] and len([*archive.attempts()]) == 2


def test_a_solution_with_an_outcome_is_an_attempt_even_if_it_defines_nothing_that_its_tests_import(tmp_path):
    tests = "from stack import add\n\ndef test_add():\n    assert add(1, 2) == 3\n"
    rows = [
        {"problem": STATEMENT, "unit_test": tests, "solution": code, "is_correct": code == "def add(a, b):\n    return a + b"}
        for code in ("def add(a, b):\n    return a + b", "def add(a, b):\n    return a - b", "def plus(a, b) return a")
    ]
    (tmp_path / "log.jsonl").write_text(lines_of(rows))
    reading, archive = reading_of(tmp_path / "log.jsonl", {}), Archive.create(tmp_path / "archive")
    ingest(archive, reading.source, tmp_path / "log.jsonl", **reading.options)
    (task,) = archive.tasks()
    assert "import" not in task.tests[0].input and len([*archive.attempts()]) == 3


@pytest.mark.parametrize(
    ("cells", "tests"),
    [
        ({"inputs": ["1", "2"], "outputs": ["2", "3"]}, 2),
        ({"stdin": "1", "expected_output": "2"}, 1),
        ({"Sample Input": "1", "Sample Output": "2"}, 1),
        ({"public_tests": {"input": ["1"], "output": ["2"]}, "private_tests": {"input": ["2"], "output": ["3"]}}, 2),
    ],
)
def test_tests_in_two_columns_are_named_with_the_map_that_reads_them(tmp_path, cells, tests):
    log = tmp_path / "log.jsonl"
    log.write_text(lines_of([{**row, **cells} for row in ROWS]))
    archive = Archive.create(tmp_path / "archive")
    with pytest.warns(UserWarning, match="look like tests") as said:
        ingest(Archive.create(tmp_path / "without"), "table", log, **reading_of(log, {}).options)
    line = re.search(r"`(tests: {.*})`", str(said[0].message))[1]
    (tmp_path / "map.yaml").write_text(
        f"columns: {{prompt: question, code: submission, status: verdict, author: user}}\n{line}\n"
    )
    ingest(archive, "table", log, map=str(tmp_path / "map.yaml"))
    assert [len(task.tests) for task in archive.tasks()] == [tests]


def test_a_whole_preview_says_whether_the_import_would_fail(tmp_path):
    """One of four rows is rejected, twice the share that is allowed, or just as many."""
    path = tmp_path / "in.csv"
    path.write_text("task_id,code,status\na,1,passed\na,2,failed\na,3,passed\na,4,frob\n")
    for allowed, fails in [(None, True), (0.2, True), (0.25, False)]:
        seen = preview(find("source", "table"), path, {}, whole=True, max_rejected=allowed)
        archive = Archive.create(tmp_path / f"archive-{allowed}")
        assert seen.too_many is fails is ingest(archive, "table", path, max_rejected=allowed).too_many
        assert ("1 of 4 rows" in seen.text()) is fails


def test_an_import_and_the_archive_count_the_same_verdicts(tmp_path):
    """Equal programs are one attempt, and each of their outcomes is stored."""
    path = tmp_path / "in.csv"
    path.write_text("task_id,code,status\na,1,passed\na,1,passed\na,2,failed\n")
    archive = Archive.create(tmp_path / "archive")
    added, found = ingest(archive, "table", path).added, archive_info(archive)
    assert (added["attempts"], added["verdicts"]) == (found.attempts, found.verdicts) == (2, 3)


def test_language_and_author_in_an_object(tmp_path):
    rows = [{"statement": "Add 1 to x.", "run": {"language": "cpp", "source": f"int f(int x) {{\n  return x + {at};\n}}", "author": "ann"}, "verdict": word}
            for at, word in enumerate(["WA", "AC"])]  # fmt: skip
    (tmp_path / "log.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    reading = reading_of(tmp_path / "log.jsonl", {})
    found = preview(find("source", reading.source), tmp_path / "log.jsonl", reading.options)
    assert (found.attempt.language, found.attempt.author, found.task.language) == ("cpp", "ann", "cpp")


def test_a_column_of_inputs_and_outputs_has_tests(tmp_path):
    row = {"question": STATEMENT, "code": "print(1)", "verdict": "AC", "input_output": '{"inputs": ["1"], "outputs": ["2"]}'}
    (tmp_path / "log.jsonl").write_text(lines_of([row]))
    assert reading_of(tmp_path / "log.jsonl", {}).options["tests"] == "input_output"


def test_lines_of_earlier_harnesses_are_samples(tmp_path, run):
    """Of lm-evaluation-harness, before it wrote the names of filter and metrics; a line alone might be read as a table in two ways."""
    doc = {"task_id": "HumanEval/0", "prompt": "def f(x):\n", "canonical_solution": "    return 2*x", "entry_point": "f",
           "test": "def check(candidate):\n    assert candidate(1) == 2"}  # fmt: skip
    about = {"doc_id": 0, "doc": doc, "resps": [["x"]], "doc_hash": "x"}
    rows = [{**about, "filtered_resps": [code], "pass@1": score} for code, score in ((WRONG, 0.0), (ADD, 1.0))]
    (tmp_path / "log.jsonl").write_text(lines_of(rows))
    run(tmp_path / "log.jsonl", tmp_path / "a", "--no-check")
    assert [one.status for one in Archive(tmp_path / "a").verdicts()] == ["failed", "passed"]


def test_columns_that_a_known_table_may_lack_are_not_needed(tmp_path, run):
    csv(
        tmp_path / "log.csv",
        [{"SubjectID": "s", "ProblemID": "p", "Score": score, "Code": code} for score, code in ((1, ADD), (0.5, WRONG))],
    )
    run(tmp_path / "log.csv", tmp_path / "a", "--no-check")
    archive = Archive(tmp_path / "a")
    assert [one.status for one in archive.verdicts()] == ["passed", "failed"] and [one.task_id for one in archive.tasks()] == [
        "log/p"
    ]


@pytest.mark.parametrize("form", ["Jane Doe_{}_assignsubmission_file_/main.py", "doejane_late_{}_77_main.py"])
def test_folders_of_submissions_of_courses_are_named_after_authors(tmp_path, form):
    for at, code in enumerate((ADD, WRONG)):
        (file := tmp_path / "hw" / form.format(at)).parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code)
    assert reading_of(tmp_path / "hw", {}).tree["columns"]["author"] == "author"
