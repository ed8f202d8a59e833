"""Languages as judges and sites write them."""

import pytest

from upsolve.archive.ingest import ingest
from upsolve.archive.language_names import language_in
from upsolve.archive.store import Archive
from upsolve.errors import SourceError

WORDS = {
    "cpp": ["C++17 (GCC 9.2.1)", "GNU C++20 (64)", "c++", "GNU G++17 7.3.0", "Visual C++ 2017", "Clang++17 Diagnostics", "cpp"],
    "c": ["C (gcc)", "GNU C11", "C99", "c"],
    "python": ["PyPy 3-64", "Python 3.8.10", "python3", "PyPy3 (2.4.0)", "py", "PYTHON", "CPython 3.11", "PyPy"],
    "python2": ["Python (2.7.6)", "PyPy2 (5.6.0)", "Python 2", "python2", "PyPy 2-64"],
    "java": ["Java 11", "OpenJDK 17", "java"],
    "javascript": ["JavaScript (Node.js 12)", "Node.js", "js"],
    "c#": ["C#", "Mono C# 6.0", "MS C#", "C# 8, .NET Core 3.1"],
    "go": ["Go 1.19", "golang"],
    "kotlin": ["Kotlin 1.7", "kotlin"],
    "haskell": ["Haskell (GHC 8.8)"],
    "fortran": ["f90"],
    "sql": ["sqlite3", "SQL"],
    "mysql": ["MySQL 8"],
    "objective-c": ["Objective-C"],
    "pascalabc.net": ["PascalABC.NET"],
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
    monkeypatch.setattr("upsolve.archive.cells.HEAD", 2)
    archive = Archive.create(tmp_path / "archive")
    report = ingest(archive, "table", table_of(tmp_path, "C++17", "GNU C++20", "Java 8"), **COLUMNS)
    (group,) = archive.groups()
    assert report.bad == 0 and [attempt.language for attempt in group.attempts] == ["cpp", "cpp", "java"]


def test_a_map_names_languages(tmp_path):
    (tmp_path / "map.yaml").write_text(
        "columns: {prompt: problem, code: source, language: lang}\nlanguages: {17: cpp, 3: python}\n"
    )
    archive = Archive.create(tmp_path / "archive")
    ingest(archive, "table", table_of(tmp_path, "17", "3", "17"), map=str(tmp_path / "map.yaml"))
    assert [attempt.language for attempt in archive.attempts()] == ["cpp", "python", "cpp"]


def test_a_map_with_a_table_that_it_cannot_have(tmp_path):
    (tmp_path / "map.yaml").write_text("colums: {prompt: problem}\n")
    with pytest.raises(SourceError, match="unknown colums"):
        ingest(Archive.create(tmp_path / "archive"), "table", table_of(tmp_path, "c"), map=str(tmp_path / "map.yaml"))
