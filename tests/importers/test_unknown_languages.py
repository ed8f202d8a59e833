"""Words that name no language are refused, wherever a language is chosen."""

import ast
import json

import pytest

from upsolve.archive.store import Archive
from upsolve.errors import ConfigError, SourceError
from upsolve.importers.ingest import ingest
from upsolve.languages.names import asking_for, language_looked_like, languages_in
from upsolve.types import Task


def test_an_unknown_language_is_refused_with_similar_names(tmp_path):
    """By every option that takes a language: as the language of all rows, and to choose solutions."""
    archive, folder = Archive.create(tmp_path / "archive"), tmp_path / "folder"
    folder.mkdir()
    (folder / "row.jsonl").write_text(json.dumps({"prompt": "do", "code": "print(1)"}) + "\n")
    (folder / "problem.yaml").write_text("")
    (folder / "problem.xml").write_text("")
    for source in ("table", "code_contests", "codeforces", "polygon", "problem_package"):
        with pytest.raises(
            SourceError, match=r"--language pyhton: no language .* did you mean python\w*.* languages are ada, bash"
        ):
            ingest(archive, source, folder, language="pyhton")
    with pytest.raises(ConfigError, match=r"data\.language pyhton: no language .* did you mean python"):
        asking_for(Task("t", "p", language=""), "pyhton")
    assert asking_for(Task("t", "p", language=""), "C++17").language == "cpp" and not archive.attempts()


def test_names_between_commas_choose_languages():
    assert languages_in("C++17 (GCC 9.2.1), py,python2") == {"cpp", "python", "python2"} and languages_in("") == frozenset()


def test_a_language_that_codenet_lacks_is_refused(tmp_path):
    for name in ("metadata", "data/p1/Python", "data/p1/C++"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "metadata" / "problem_list.csv").write_text("id,name\np1,Add\n")
    archive = Archive.create(tmp_path / "archive")
    with pytest.raises(SourceError, match=r"--language python: .* did you mean Python\? all, or one of C\+\+, Python"):
        ingest(archive, "codenet", tmp_path, language="python")
    ingest(archive, "codenet", tmp_path, language="C++", max_rejected=1)
    assert [task.language for task in archive.tasks()] == ["cpp"]


@pytest.mark.parametrize(
    ("code", "language"),
    [
        ("SELECT count(*) FROM item", "sql"),
        ("select 1", "sql"),
        ("-- all\nselect name\nfrom item where price > 3", "sql"),
        ("WITH best AS (SELECT max(age) AS age FROM animal) SELECT name FROM best", "sql"),
        ("(select a from b) union (select c from d)", "sql"),
        ("Select one of these", ""),
        ("with open('x') as f:\n    print(f.read())", "python"),
        ("with x as (a)", ""),
    ],
)
def test_queries_look_like_sql(code, language):
    assert language_looked_like(code) == language


@pytest.mark.parametrize(
    ("line", "language"), [("x = 1\n", "python"), ("def f():\n    return [\n        1]\n", "python"), ("int x;\n", "cpp")]
)
def test_of_a_long_program_the_beginning_is_parsed(monkeypatch, line, language):
    lengths, parse = [], ast.parse
    monkeypatch.setattr("upsolve.languages.names.ast.parse", lambda text: lengths.append(len(text)) or parse(text))
    begin = "#include <vector>\n" if language == "cpp" else ""
    assert language_looked_like(begin + line * 50_000) == language
    assert lengths[0] <= 50_000
