"""Languages as judges and sites write them."""

import json
import re

import pytest

from upsolve.archive.store import Archive
from upsolve.errors import SourceError
from upsolve.importers.ingest import ingest
from upsolve.languages.names import language_in
from upsolve.types import Attempt

WORDS = {
    "cpp": [
        "C++17 (GCC 9.2.1)",
        "GNU C++20 (64)",
        "c++",
        "GNU G++17 7.3.0",
        "Visual C++ 2017",
        "Clang++17 Diagnostics",
        "cpp",
        "GCC C++",
        "clang 17 c++",
        "C/C++",
        "g++ 11",
        "cc.cc17o2",
        "CLANGX",
    ],
    "c": ["C (gcc)", "GNU C11", "C99", "c", "clang 17", "GCC"],
    "python": [
        "PyPy 3-64",
        "Python 3.8.10",
        "python3",
        "PyPy3 (2.4.0)",
        "py",
        "PYTHON",
        "CPython 3.11",
        "PyPy",
        "Python v3.2",
        "Python 3 (PyPy 2.7)",
        "py.py3",
        "py.pypy3",
        "pythondata",
    ],
    "python2": ["Python (2.7.6)", "PyPy2 (5.6.0)", "Python 2", "python2", "PyPy 2-64", "Python v2.7", "Python_2", "py.py2"],
    "java": ["Java 11", "OpenJDK 17", "java"],
    "javascript": ["JavaScript (Node.js 12)", "Node.js", "js", "js.node", "V8JS"],
    "c#": ["C#", "Mono C# 6.0", "MS C#", "C# 8, .NET Core 3.1", ".NET Core C#", "C Sharp", "C-Sharp", "csharp", "cs", "MONOCS"],
    "go": ["Go 1.19", "golang"],
    "kotlin": ["Kotlin 1.7", "kotlin", "kt"],
    "haskell": ["Haskell (GHC 8.8)", "GHC 8.10.1", "hs"],
    "pascal": ["Pascal (FPC 3.0.4)", "FPC 3.2.2", "Free Pascal 3.0", "Delphi 7", "pas"],
    "d": ["D (DMD 2.091.0)", "D DMD32 v2.105.0", "DMD32 v2.105.0", "LDC 1.20"],
    "ada": ["Ada 2012 (GNAT 9.2.1)", "GNAT"],
    "racket": ["Racket (7.6)"],
    "fortran": ["f90"],
    "sql": ["sqlite3", "SQL"],
    "mysql": ["MySQL 8"],
    "objective-c": ["Objective-C"],
    "objective-c++": ["Objective-C++"],
    "pascalabc.net": ["PascalABC.NET"],
    "visual basic": ["Visual Basic"],
    "": [""],
}


@pytest.mark.parametrize(("expected", "word"), [(name, word) for name, words in WORDS.items() for word in words])
def test_a_language_is_found_in_its_name(expected, word):
    assert language_in(word) == expected


def table_of(tmp_path, *languages, columns="problem,source,lang,verdict"):
    file = tmp_path / "log.csv"
    rows = [f"Add two numbers,program {number},{language},AC" for number, language in enumerate(languages)]
    file.write_text("\n".join([columns, *rows]) + "\n")
    return file


COLUMNS = {"prompt": "problem", "code": "source", "language": "lang", "status": "verdict"}


def test_attempts_at_a_task_may_be_in_several_languages(tmp_path):
    archive = Archive.create(tmp_path / "archive")
    report = ingest(archive, "table", table_of(tmp_path, "Python 3", "C++17", "PyPy 3-64", ""), **COLUMNS)
    (group,) = archive.groups()
    assert report.bad == 0 and group.task.language == ""
    assert [attempt.language for attempt in group.attempts] == ["python", "cpp", "python", "python"]
    assert [attempt.extra for attempt in group.attempts] == [
        '{"lang": "Python 3"}',
        '{"lang": "C++17"}',
        '{"lang": "PyPy 3-64"}',
        "",
    ]


def test_a_table_in_one_language_asks_for_it(tmp_path):
    archive = Archive.create(tmp_path / "archive")
    ingest(archive, "table", table_of(tmp_path, "C++17", "GNU C++20"), **COLUMNS)
    (group,) = archive.groups()
    assert group.task.language == "cpp" and {attempt.language for attempt in group.attempts} == {"cpp"}


def test_tasks_in_different_languages_keep_theirs(tmp_path):
    file = table_of(tmp_path, "Java 11")
    with file.open("a") as out:
        out.write("Subtract,program,Python 3,AC\n")
    archive = Archive.create(tmp_path / "archive")
    ingest(archive, "table", file, **COLUMNS)
    assert [task.language for task in archive.tasks()] == ["java", "python"]


def test_a_language_after_the_first_rows_is_stored_too(tmp_path, monkeypatch):
    monkeypatch.setattr("upsolve.importers.rows.HEAD", 2)
    archive = Archive.create(tmp_path / "archive")
    report = ingest(archive, "table", table_of(tmp_path, "C++17", "GNU C++20", "Java 8"), **COLUMNS)
    (group,) = archive.groups()
    assert report.bad == 0 and [attempt.language for attempt in group.attempts] == ["cpp", "cpp", "java"]


def test_a_map_names_languages(tmp_path):
    (tmp_path / "map.yaml").write_text(
        "columns: {prompt: problem, code: source, language: lang, status: verdict}\nlanguages: {17: cpp, 3: python}\n"
    )
    archive = Archive.create(tmp_path / "archive")
    ingest(archive, "table", table_of(tmp_path, "17", "3", "17"), map=str(tmp_path / "map.yaml"))
    assert [attempt.language for attempt in archive.attempts()] == ["cpp", "python", "cpp"]


def test_a_map_with_a_table_that_it_cannot_have(tmp_path):
    (tmp_path / "map.yaml").write_text("colums: {prompt: problem}\n")
    with pytest.raises(SourceError, match="unknown colums"):
        ingest(Archive.create(tmp_path / "archive"), "table", table_of(tmp_path, "c"), map=str(tmp_path / "map.yaml"))


def tables_of(tmp_path, **languages):
    folder = tmp_path / "judge"
    folder.mkdir(parents=True)
    for name, language in languages.items():
        (folder / f"{name}.csv").write_text(
            f"prompt,code,language,status\nAdd,program {name},{language},AC\nSub,{name},{language},WA\n"
        )
    return folder


@pytest.mark.parametrize("share_bytes", [1, 1 << 20])
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_task_in_files_of_different_languages_is_one_of_any_language(tmp_path, monkeypatch, share_bytes, workers):
    monkeypatch.setattr("upsolve.importers.shares.SHARE_BYTES", share_bytes)
    folder = tables_of(tmp_path, a="Python 3", b="C++17", c="Java 11", d="Python 3")
    archive = Archive.create(tmp_path / "archive")
    report = ingest(archive, "table", folder, workers=workers)
    assert (report.read, report.bad) == (24, 0)
    assert report.added == {"tasks": 2, "attempts": 8, "verdicts": 8, "repeated": 6}
    assert archive.column("tasks", "language") == ["", ""]
    assert [{attempt.language for attempt in group.attempts} for group in archive.groups()] == [{"python", "cpp", "java"}] * 2


def test_a_task_of_any_language_is_known_in_each(tmp_path):
    archive = Archive.create(tmp_path / "archive")
    ingest(archive, "table", tables_of(tmp_path, a="Python 3", b="C++17"))
    file = tmp_path / "judge.csv"
    file.write_text("prompt,code,language\nAdd,later,Java 11\n")
    report = ingest(archive, "table", file)
    assert report.bad == 0 and archive.column("tasks", "language") == ["", ""]


def test_another_import_in_another_language_says_what_to_do(tmp_path):
    archive = Archive.create(tmp_path / "archive")
    for name in ("a", "b"):
        folder = tables_of(tmp_path / name, **{name: {"a": "Python 3", "b": "C++17"}[name]})
        report = ingest(archive, "table", folder)
    assert report.bad == 2 and re.search("is stored in python, and here in cpp; import both at once", report.reasons[0].reason)
    assert archive.column("tasks", "language") == ["python", "python"]


def test_lines_of_json_name_languages_as_tables_do(tmp_path):
    rows = [
        {"kind": "task", "task_id": "a", "prompt": "Add.", "language": "C++17 (GCC 9.2.1)"},
        {"kind": "attempt", "task_id": "a", "code": "x", "language": "C++17 (GCC 9.2.1)", "id": 1, "status": "AC"},
        {
            "kind": "attempt",
            "task_id": "a",
            "code": "y",
            "language": "CPP",
            "cohort": "ann",
            "extra": {"when": 3},
            "parent_id": "1",
        },
        {"kind": "verdict", "attempt_id": Attempt("a", "y", "CPP").attempt_id, "status": "failed"},
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    archive = Archive.create(tmp_path / "archive")
    report = ingest(archive, "jsonl", tmp_path / "in.jsonl")
    (group,) = archive.groups()
    assert report.bad == 0 and not any(report.orphans.values())
    assert group.task.language == "cpp" and {attempt.language for attempt in group.attempts} == {"cpp"}
    assert [verdict.status for verdict in group.verdicts] == ["passed", "failed"]
    assert [json.loads(attempt.extra) for attempt in group.attempts] == [
        {"id": 1, "language": "C++17 (GCC 9.2.1)"},
        {"when": 3, "cohort": "ann"},
    ]
    assert group.attempts[1].parent_id == group.attempts[0].attempt_id


def test_text_in_extra_is_stored_beside_unknown_fields(tmp_path):
    rows = [
        {"kind": "attempt", "task_id": "a", "code": "x", "extra": "a note", "cohort": "ann"},
        {"kind": "attempt", "task_id": "a", "code": "y", "extra": '{"points": 2}', "cohort": "bob"},
        {"kind": "attempt", "task_id": "a", "code": "z", "extra": "a note"},
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    archive = Archive.create(tmp_path / "archive")
    ingest(archive, "jsonl", tmp_path / "in.jsonl")
    assert archive.column("attempts", "extra") == [
        '{"extra": "a note", "cohort": "ann"}',
        '{"points": 2, "cohort": "bob"}',
        "a note",
    ]
