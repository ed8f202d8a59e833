"""The exports of judges and tools that docs/sources.md names, read by its own commands and maps, in the schemas of their publishers."""

import csv
import json
import re
import shlex
from pathlib import Path

import pytest

from upsolve.archive.store import Archive
from upsolve.importers.ingest import ingest

PAGE = (Path(__file__).parents[2] / "docs" / "sources.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Exports of judges and tools")[2].partition("\n## ")[0]
COMMANDS = {
    words[3]: (words[2], words[5:])
    for line in SECTION.splitlines()
    if line.startswith("upsolve ")
    for words in [shlex.split(line)]
}
"""File -> source and options."""


def objects(names, *rows):
    return [dict(zip(names.split(), row, strict=True)) for row in rows]


def written(name, rows):
    """Return the text of a file, whose ending says its form."""
    return "".join(json.dumps(row) + "\n" for row in rows) if name.endswith(("jsonl", "ndjson")) else json.dumps(rows)


CODEFORCES = [
    {
        "id": number,
        "creationTimeSeconds": 1700000000 + number,
        "problem": {"contestId": 4, "index": "A", "name": "Watermelon", "tags": ["math"]},
        "author": {"members": [{"handle": "ann"}], "participantType": "PRACTICE"},
        "programmingLanguage": language,
        "verdict": verdict,
        "passedTestCount": 3,
        "source": f"x{number}",
    }
    for number, (language, verdict) in enumerate([("C++20 (GCC 13-64)", "OK"), ("PyPy 3-64", "IDLENESS_LIMIT_EXCEEDED")])
]
PROMPTFOO = [
    {
        "prompt": {"raw": "Write add", "label": "p"},
        "provider": {"id": "openai:gpt-4o", "label": ""},
        "response": {"output": f"```python\nx = {reason}\n```"},
        "success": reason == 0,
        "failureReason": reason,
        "error": error,
    }
    for reason, error in ((0, None), (1, "returned false"), (2, "assertion had an error"))
]
HUSTOJ = "problem_id user_id in_date result language source"
QDUOJ = "problem_id username create_time result language code"
HYDRO = "pid uid judgeAt status lang code testCases"
AT, CASES = {"$date": "2022-01-01T00:00:00Z"}, [{"id": 1, "status": 1, "score": 100}]
DMOJ = "problem user date result language source"
LEETCODE = "title_slug timestamp status status_display lang code"
EXPORTS = {
    "user.status.json": (
        {"status": "OK", "result": CODEFORCES},
        [("ann", "cpp", "passed", "2023-11-14T22:13:20+00:00"), ("ann", "python", "timeout", "2023-11-14T22:13:21+00:00")],
    ),
    "leetcode.json": (
        {
            "submissions_dump": objects(
                LEETCODE, ("two-sum", 1600000000, 10, "Accepted", "python", "x"), ("two-sum", 1.6e9, 11, "Wrong Answer", "golang", "y")
            )
        },
        [("", "python2", "passed", "2020-09-13T12:26:40+00:00"), ("", "go", "failed", "2020-09-13T12:26:40+00:00")],
    ),
    "hustoj.jsonl": (
        objects(HUSTOJ, (1, "u", "2020-01-01 00:00:00", 4, 1, "x"), (1, "v", "", 0, 6, "y"), (1, "w", "", 11, 3, "z")),
        [("u", "cpp", "passed", "2020-01-01 00:00:00"), ("v", "python", "unscored", ""), ("w", "java", "compile_error", "")],
    ),
    "qduoj.json": (
        {"error": None, "data": {"total": 3, "results": objects(
            QDUOJ, (7, "u", "2021-01-01T00:00:00Z", 0, "C++", "x"), (7, "v", "", 1, "Python3", "y"), (7, "w", "", -2, "Golang", "z")
        )}},
        [("u", "cpp", "passed", "2021-01-01T00:00:00Z"), ("v", "python", "timeout", ""), ("w", "go", "compile_error", "")],
    ),
    "record.ndjson": (
        objects(HYDRO, (1000, 2, AT, 1, "cc.cc17o2", "x", CASES), (1000, 3, AT, 0, "py.py2", "y", []), (1000, 4, AT, 7, "py.pypy3", "z", CASES)),
        [("2", "cpp", "passed", AT["$date"]), ("3", "python2", "unscored", AT["$date"]), ("4", "python", "compile_error", AT["$date"])],
    ),
    "dmoj.jsonl": (
        objects(DMOJ, ("aplusb", "u", "2020-01-01", "AC", "CPP20", "x"), ("aplusb", "v", "", "IR", "PYPY3", "y"), ("aplusb", "w", "", "IE", "V8JS", "z"), ("aplusb", "t", "", "AB", "C", "t")),
        [("u", "cpp", "passed", "2020-01-01"), ("v", "python", "runtime_error", ""), ("w", "javascript", "unscored", ""), ("t", "c", "unscored", "")],
    ),
    "promptfoo.json": (
        {"evalId": "e", "results": {"version": 3, "results": PROMPTFOO, "prompts": [{"raw": "Write add"}]}, "config": {}},
        [("openai:gpt-4o", "python", status, "") for status in ("passed", "failed", "unscored")],
    ),
    "deepeval.json": (
        {"testCases": objects("name input actualOutput success", ("c1", "add", "x", True), ("c2", "sub", "y", False))},
        [("", "python", "passed", ""), ("", "python", "failed", "")],
    ),
}  # fmt: skip


@pytest.fixture
def maps(tmp_path, monkeypatch):
    """A folder for files."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def attempts_of(folder, name):
    """Import a file by the command of the page; return author, language, outcome and time of its attempts."""
    source, options = COMMANDS[name]
    given = {key.removeprefix("--").replace("-", "_"): value for key, value in zip(options[::2], options[1::2], strict=True)}
    archive = Archive.create(folder / "archive")
    report = ingest(archive, source, folder / name, **given)
    assert report.bad == 0, report.text()
    outcomes = {verdict.attempt_id: verdict.status.value for verdict in archive.verdicts()}
    return [(one.author, one.language, outcomes[one.attempt_id], one.created) for one in archive.attempts()]


def test_all_commands_of_the_page_are_tried():
    assert {*COMMANDS} == {*EXPORTS, "progsnap2.csv"}


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_is_read_as_the_page_says(name, maps):
    rows, expected = EXPORTS[name]
    (maps / name).write_text(written(name, rows), encoding="utf-8")
    assert attempts_of(maps, name) == expected


def test_tables_of_progsnap2_are_joined(maps):
    events = [
        ("EventID", "SubjectID", "EventType", "ProblemID", "ToolInstances", "CodeStateID", "ServerTimestamp", "Score"),
        (1, "s1", "Run.Program", 1, "Java 8;CodeWorkout", 0, "2019-02-01T00:00:00", 0.74),
        (2, "s1", "Compile", 1, "Java 8;CodeWorkout", 0, "2019-02-01T00:00:00", ""),
        (3, "s2", "Run.Program", 1, "Java 8;CodeWorkout", 1, "2019-02-01T00:00:01", 1.0),
    ]
    (maps / "CodeStates").mkdir()
    codes = [("CodeStateID", "Code"), (0, 'int f() {\n  return "a;b";\n}'), (1, "int f() { return 1; }")]
    for file, rows in (("MainTable.csv", events), ("CodeStates/CodeStates.csv", codes)):
        with (maps / file).open("w", newline="") as out:
            csv.writer(out).writerows(rows)
    (join,) = re.findall(r'^python -c (".*")$', SECTION, re.MULTILINE)
    exec(shlex.split(join)[0])
    expected = [("s1", "java", "failed", "2019-02-01T00:00:00"), ("s2", "java", "passed", "2019-02-01T00:00:01")]
    assert sorted(attempts_of(maps, "progsnap2.csv")) == expected
    assert '"Score": "0.74"' in "".join(one.extra for one in Archive(maps / "archive").attempts())
