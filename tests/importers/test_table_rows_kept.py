"""Rows of tables that are stored whole: parents that come later, other references, spaces in headers, arrays in a folder, Arrow files."""

import json

import pyarrow as pa
import pyarrow.feather
import pytest

from upsolve.archive.store import Archive
from upsolve.importers.ingest import ingest


@pytest.mark.parametrize("order", [(3, 2, 1), (1, 2, 3), (2, 3, 1), (3, 1, 2)])
def test_a_parent_may_come_later(archive, tmp_path, order, lines):
    rows = [{"prompt": "p", "code": f"x = {n}", "id": n, "parent": n - 1 or None} for n in order]
    report = ingest(archive, "table", lines(tmp_path / "in.jsonl", rows))
    attempts = {attempt.code: attempt for attempt in archive.attempts()}
    assert report.bad == 0 and len(attempts) == 3 and attempts["x = 1"].parent_id == ""
    assert all(attempts[f"x = {n}"].parent_id == attempts[f"x = {n - 1}"].attempt_id for n in (2, 3))


def test_a_parent_that_no_row_has_costs_its_row_alone(archive, tmp_path, lines):
    rows = [{"prompt": "p", "code": f"x = {n}", "id": n, "parent": parent} for n, parent in ((1, 9), (2, None), (3, 2))]
    report = ingest(archive, "table", lines(tmp_path / "in.jsonl", rows), max_rejected=1)
    assert (report.bad, report.added["attempts"], report.reasons[0].line) == (1, 2, 1)


def test_a_parent_whose_outcome_cannot_be_read_is_known(archive, tmp_path, lines):
    rows = [{"prompt": "p", "code": "x", "id": 1, "status": "what"}, {"prompt": "p", "code": "y", "id": 2, "parent": 1}]
    assert ingest(archive, "table", lines(tmp_path / "in.jsonl", rows), max_rejected=1).bad == 1


def test_attempts_with_other_references_are_stored_with_them(archive, tmp_path, lines):
    rows = [{"task_id": "t", "prompt": "p", "code": f"x = {n}", "reference": f"r = {n}"} for n in range(3)]
    report = ingest(archive, "table", lines(tmp_path / "in.jsonl", rows))
    assert (report.bad, report.added["attempts"]) == (0, 3)
    assert [json.loads(attempt.extra or "{}") for attempt in archive.attempts()] == [
        {},
        {"reference": "r = 1"},
        {"reference": "r = 2"},
    ]


def test_spaces_around_names_in_a_header(archive, tmp_path):
    (tmp_path / "in.csv").write_text(" prompt , code , status \np,x=1,AC\n")
    assert ingest(archive, "table", tmp_path / "in.csv").added["verdicts"] == 1


def test_a_folder_of_json_arrays(archive, tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    for name in "ab":
        (folder / f"{name}.json").write_text(json.dumps([{"prompt": "p", "code": f"{name} = 1"}]))
    (folder / "about.json").write_text('{"version": 1}')
    report = ingest(archive, "table", folder)
    assert (report.added["attempts"], report.bad) == (2, 0) and report.unread.endswith("1 file is not read: about.json")


@pytest.mark.parametrize("name", ["in.arrow", "in.feather"])
def test_arrow_files(archive, tmp_path, name):
    table = pa.table({"prompt": ["p", "p"], "code": ["x = 1", "x = 2"]})
    pyarrow.feather.write_feather(table, tmp_path / name)
    assert ingest(archive, "table", tmp_path / name).added["attempts"] == 2


@pytest.mark.parametrize(
    ("codes", "language"),
    [
        (["#include <iostream>\nint main(){std::cout<<2;}", "#include <vector>\nint main(){}"], "cpp"),
        (["fn main() {", "main ("], "rust"),
        (['fn main() { println!("1"); }'], "rust"),
    ],
)
def test_programs_not_in_python_need_a_language(archive, tmp_path, recwarn, codes, language, lines):
    rows = [{"task_id": "t", "prompt": "p", "code": code, "status": "AC"} for code in codes]
    ingest(archive, "table", lines(tmp_path / "in.jsonl", rows))
    assert {attempt.language for attempt in archive.attempts()} == {language} == {task.language for task in archive.tasks()}
    assert any(f"look like {language}" in str(warning.message) for warning in recwarn) is (language != "python")


CPP, PY = "#include <iostream>\nint main(){std::cout<<2;}", "print(2)"


def languages_of(tmp_path, rows, **options):
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    archive = Archive.create(tmp_path / "archive")
    report = ingest(archive, "table", tmp_path / "in.jsonl", **options)
    return sorted(one.language for one in archive.attempts()), [task.language for task in archive.tasks()], report.bad


def test_a_language_that_is_no_column_is_that_of_all_programs(tmp_path):
    rows = [{"prompt": "p", "code": code} for code in (CPP, PY)]
    assert languages_of(tmp_path, rows, language="C++") == (["cpp", "cpp"], ["cpp"], 0)


def test_a_column_with_the_name_of_a_language_is_a_column(tmp_path):
    rows = [{"prompt": "p", "code": CPP, "c": "c++"}]
    assert languages_of(tmp_path, rows, language="c") == (["cpp"], ["cpp"], 0)


def test_programs_show_their_languages_where_no_column_does(tmp_path):
    rows = [{"prompt": "p", "code": code} for code in (CPP, PY, "begin 2 end")]
    with pytest.warns(UserWarning, match="language"):
        assert languages_of(tmp_path, rows) == (["cpp", "python"], [""], 1)
