"""A failed import leaves no empty archive behind."""

import json

import pytest
from typer.testing import CliRunner

from upsolve.archive.store import Archive
from upsolve.cli.main import app

ROW = {"prompt": "Double x.", "code": "def f(x):\n    return 2 * x", "status": "AC"}


def run(*words):
    return CliRunner().invoke(app, ["ingest", *map(str, words)])


@pytest.fixture
def table(tmp_path):
    file = tmp_path / "log.jsonl"
    file.write_text(json.dumps(ROW) + "\n")
    return file


@pytest.mark.parametrize(
    "words",
    [
        ["table", "none.jsonl"],
        ["tabel", "log.jsonl"],
        ["table", "log.jsonl", "--prompt", "question"],
        ["table", "log.jsonl", "--no-such", "option"],
        ["junit", "log.jsonl"],
    ],
    ids=["no file", "no source", "no column", "no option", "a missing option"],
)
def test_a_failed_import_leaves_no_folder_behind(tmp_path, table, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    source, path, *options = words
    assert run(source, path, "new/archive", *options).exit_code
    assert [file.name for file in tmp_path.iterdir()] == [table.name]


def test_other_files_and_archives_that_were_there_stay(tmp_path, table):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("kept")
    Archive.create(tmp_path / "old")
    for folder in ("mine", "old"):
        assert run("table", table, tmp_path / folder, "--prompt", "question").exit_code
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["notes.txt"]
    assert Archive(tmp_path / "old").tasks() == []
    assert run("table", table, tmp_path / "mine").exit_code == 0 and len(Archive(tmp_path / "mine").tasks()) == 1
