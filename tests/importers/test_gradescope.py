"""Exports of Gradescope and results of its autograder: points of tests are kept, names of students are not."""

import json

import pytest
from imports import imported

from upsolve.errors import SourceError
from upsolve.importers.door import reading_of

METADATA = """---
submission_1:
  :submitters:
  - :name: Jane Doe
    :sid: '7'
    :email: jane@x.edu
  :created_at: !ruby/object:ActiveSupport::TimeWithZone
    utc: 2024-01-02 03:04:05.000000000 Z
  :score: 3.0
  :status: processed
  :results:
    tests:
    - {name: small, score: 1.0, max_score: 1.0, output: ok}
    - {name: large, score: 2.0, max_score: 4.0, output: too slow}
    - {name: hello, output: no points}
submission_2:
  :score: 5.0
  :results: {tests: [{name: small, score: 1, max_score: 1}, {name: large, score: 5, max_score: 4}]}
submission_3:
  :status: failed
  :results: {output: crashed}
submission_4:
  :submitters:
  - :name: Jane Doe
  :results: {tests: [{name: small, score: 0, max_score: 1}]}
"""


@pytest.mark.parametrize("ending", ["py", "cpp"])
def test_an_export_of_gradescope(tmp_path, ending):
    folder = tmp_path / "hw1"
    for number in range(1, 4):
        (folder / f"submission_{number}").mkdir(parents=True)
        (folder / f"submission_{number}" / f"main.{ending}").write_text(f"x = {number}")
        (folder / f"submission_{number}" / "notes.txt").write_text("Jane Doe")
    (folder / "submission_metadata.yml").write_text(METADATA)
    assert reading_of(folder, {}).source == "gradescope"
    archive, report = imported(tmp_path, "gradescope", folder)
    attempts, verdicts = archive.attempts(), archive.verdicts()
    assert [(one.author, one.code) for one in attempts] == [(f"submission_{n}", f"x = {n}") for n in (1, 2, 3)]
    assert {one.language for one in attempts} == {{"py": "python"}.get(ending, ending)}
    assert attempts[0].created.startswith("2024-01-02 03:04:05")
    assert json.loads(attempts[0].extra) == {"score": 3.0, "points": {"1. small": 1.0, "2. large": 2.0}}
    found = [(one.status, one.outcomes, one.points) for one in verdicts]
    assert found == [("failed", ("passed", "failed"), (1, 0.5)), ("passed", ("passed", "passed"), (1, 1)), ("unscored", (), ())]
    assert [one.error_message for one in verdicts] == ["too slow", "", "no test has points: crashed"]
    assert report.bad == 1 and "submission_4: needs one program, and has nothing" in report.reasons[0].reason
    assert "jane" not in f"{attempts}{verdicts}{report.rejected.read_text()}".lower()


@pytest.mark.parametrize("place", ["results.json", "results/results.json"])
def test_results_beside_programs(tmp_path, place):
    for name, score in (("a", 2), ("b", 1)):
        folder = tmp_path / "hw2" / name
        (folder / place).parent.mkdir(parents=True)
        (folder / "submission").mkdir(parents=True)
        (folder / "submission" / "main.py").write_text(f"x = {score}")
        (folder / "submission" / "helper.py").write_text("y = 1")
        (folder / place).write_text(json.dumps({"tests": [{"name": "t", "score": score, "max_score": 2, "output": "no"}]}))
    _, report = imported(tmp_path / "one", "gradescope", tmp_path / "hw2")
    assert report.bad == 2 and "has helper.py, main.py: --file NAME" in report.reasons[0].reason
    archive, _ = imported(tmp_path / "two", "gradescope", tmp_path / "hw2", file="main.py")
    assert [(one.status, one.points) for one in archive.verdicts()] == [("passed", (1,)), ("failed", (0.5,))]


@pytest.mark.parametrize(
    ("name", "code", "options", "language"),
    [
        ("prog", "#include <iostream>\nint main() {}", {}, "cpp"),
        ("prog.txt", "import sys\nprint(1)", {}, "python"),
        ("prog.pro", "x = 1", {"language": "C++17"}, "cpp"),
        ("prog.pro", "x = 1", {}, ""),
        ("prog", "first second: third", {}, ""),
    ],
)
def test_a_program_of_an_unknown_ending_is_not_taken_for_python(tmp_path, name, code, options, language):
    folder = tmp_path / "hw" / "a"
    folder.mkdir(parents=True)
    (folder / name).write_text(code)
    (folder / "results.json").write_text('{"tests": [{"score": 1, "max_score": 1}]}')
    archive, report = imported(tmp_path, "gradescope", tmp_path / "hw", file=name, **options)
    assert [one.language for one in archive.attempts()] == [language] * bool(language)
    assert [one.reason.endswith("--language NAME") for one in report.reasons] == [True] * (not language)


def test_a_folder_of_other_files_is_refused(tmp_path):
    with pytest.raises(SourceError, match=r"has neither submission_metadata.yml nor a folder with results.json"):
        imported(tmp_path, "gradescope", tmp_path)
