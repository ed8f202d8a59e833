"""What commands print of an archive: readable in a narrow terminal, and never a command to the terminal."""

import json
import sys

import pytest

from upsolve.archive.store import Archive
from upsolve.cli.main import main
from upsolve.types import Attempt, Task

CODE = "def f(x):\n    return x  # [/red] :smile: \x1b]0;owned\x07 \x9b2J"


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run a command; return what it prints."""
    archive = Archive.create(tmp_path / "archive")
    archive.append(tasks=[Task("a", "prompt")], attempts=[Attempt("a", CODE, author=f"[{name}]") for name in "bcd"])
    monkeypatch.setenv("COLUMNS", "80")

    def of(*words):
        monkeypatch.setattr(sys, "argv", ["upsolve", *words])
        with pytest.raises(SystemExit) as done:
            main()
        assert done.value.code == 0
        return capsys.readouterr().out

    return lambda sql, *options: of("archive", "query", str(tmp_path / "archive"), sql, *options)


def test_wide_rows_are_printed_as_lists_of_their_values(run):
    said = run("select * from attempts limit 1")
    assert said.startswith("1 row\n\nrow 1\n  attempt_id: ") and "  author: [b]\n" in said
    assert "  code:\n    def f(x):\n        return x  # [/red] :smile: " in said
    assert "parent_id" not in said  # has no value


def test_narrow_rows_are_a_table(run):
    said = run("select author, code as c from attempts")
    assert "┃ author ┃ c" in said and "│ [b]    │ def f(x):" in said and "[/red] :smile:" in said


@pytest.mark.parametrize("columns", ["code", "*"])
def test_programs_cannot_command_the_terminal(run, columns):
    said = run(f"select {columns} from attempts")
    assert not {*said} & {"\x1b", "\x07", "\x9b"} and "\\x1b]0;owned\\x07 \\x9b2J" in said


def test_the_first_rows_are_printed_by_default(run):
    said = run("select author from attempts order by author", "--rows", "2")
    assert "[c]" in said and "[d]" not in said and "the first 2 of 3 rows; --rows 0 prints all" in said
    assert "[d]" in run("select author from attempts", "--rows", "0")
    assert len(json.loads(run("select author from attempts", "--json", "--rows", "1"))["rows"]) == 3
