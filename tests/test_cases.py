"""Inputs that once gave wrong verdicts, labels or programs, in a folder beside the checkout: each gives its right answer."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from upsolve.archive.store import open_archive
from upsolve.cli.main import app

CASES = Path(os.environ.get("UPSOLVE_CASES") or Path(__file__).parents[2] / "shared" / "cases")
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason=f"the cases are not at {CASES} (set UPSOLVE_CASES)")


def upsolve(*words):
    """Run a command in this process; return its exit code."""
    try:
        code = app([*map(str, words)], standalone_mode=False)
    except SystemExit as stop:
        code = stop.code
    return code or 0


def judged(source, file, place, *options):
    """Import a file of cases and judge it: (attempt, verdict) in the order of the archive."""
    archive = place / "archive"
    assert upsolve("ingest", source, CASES / file, archive, *options) == 0
    upsolve("verify", archive, "--no-cache")
    groups = open_archive(archive).groups(judge="upsolve")
    return [pair for group in groups for pair in zip(group.attempts, group.verdicts, strict=True)]


def statuses(*words):
    """Return the sorted statuses of the verdicts of ``judged``."""
    return sorted(str(verdict.status.value) if verdict else "none" for _, verdict in judged(*words))


def recorded(place):
    """Return the sorted recorded statuses of the archive that ``judged`` made."""
    groups = open_archive(place / "archive").groups(judge="recorded")
    return sorted(str(one.status.value) for group in groups for one in group.verdicts if one)


@pytest.mark.parametrize(
    ("source", "file", "options", "wanted"),
    [
        ("jsonl", "01_int_digits.jsonl", [], ["passed"] * 3),
        ("jsonl", "03_big_array.jsonl", [], ["memory_limit"] * 2),
        ("apps", "05_apps.jsonl", [], ["passed"] * 4),
        ("table", "06_deepcoder_forms.jsonl", ["--tests", "tests"], ["passed"] * 5),
        ("table", "07_test_cells.jsonl", ["--tests", "tests"], ["failed", "passed", "passed"]),
        ("table", "tables/bare_eq.jsonl", ["--tests", "tests"], ["failed", "passed"]),
        ("table", "tables/blank.jsonl", ["--tests", "tests"], ["failed", "passed"]),
        ("table", "tables/check.jsonl", ["--tests", "tests"], ["failed", "passed"]),
        ("table", "tables/io_entry.jsonl", ["--tests", "tests"], ["passed"]),
    ],
)
def test_verdicts(source, file, options, wanted, tmp_path):
    assert statuses(source, file, tmp_path, *options) == wanted
    if source != "jsonl" and "deepcoder" not in file:
        assert recorded(tmp_path) == wanted


def test_partial_credit_counts_tests_alone(tmp_path):
    (failed,) = [
        v for _, v in judged("table", "07_test_cells.jsonl", tmp_path, "--tests", "tests") if v.status.value == "failed"
    ]
    assert (failed.passed, failed.total) == (0, 2)


def test_forms_of_tests(tmp_path):
    found = judged("table", "tables/d08_tests_forms.jsonl", tmp_path, "--tests", "tests", "--max-rejected", "1")
    assert {verdict.status.value for _, verdict in found if verdict and verdict.total} == {"passed"}
    assert sum(1 for _, verdict in found if verdict and verdict.total) >= 10


def test_one_program_of_six_answers(tmp_path):
    found = judged("table", "09_answers.jsonl", tmp_path, "--answer", "response", "--tests", "tests")
    assert {attempt.code.strip() for attempt, _ in found} == {"def f(x):\n    return 2*x"}
    assert sum(attempt.count for attempt, _ in found) == 6
    assert len({attempt.task_id for attempt, _ in found}) == 1 and {verdict.status.value for _, verdict in found} == {"passed"}


def test_statuses_that_authors_want(tmp_path):
    found = judged("jsonl", "20_judge.jsonl", tmp_path)
    for attempt, verdict in found:
        wanted = attempt.author.removeprefix("want:")
        if wanted.startswith("not passed"):
            assert verdict.status.value != "passed" or "in_process" in verdict.isolation, attempt.task_id
        else:
            assert verdict.status.value == wanted, (attempt.task_id, verdict)
    assert len(found) == 9


@pytest.mark.parametrize(
    ("file", "options", "tasks", "attempts"),
    [
        ("08_orphans.jsonl", ["--max-rejected", "1"], 1, 2),
        ("tables/first_bad.jsonl", ["--max-rejected", "1"], 1, 3),
        ("tables/cpp.jsonl", ["--tests", "tests", "--language", "cpp"], 1, 2),
        ("tables/d03_reference_differs.jsonl", [], 1, 3),
        ("tables/d06_newest_first_parents.jsonl", [], 1, 3),
        ("tables/d07_hyphen_word.csv", ["--map", CASES / "tables" / "d07_hyphen_word.yaml"], 1, 2),
        ("tables/a17_header_spaces.csv", [], 1, 1),
    ],
)
def test_no_row_is_lost(file, options, tasks, attempts, tmp_path):
    upsolve("ingest", "table", CASES / file, tmp_path / "archive", *options)
    archive = open_archive(tmp_path / "archive")
    assert (len([*archive.tasks()]), sum(one.count for one in archive.attempts())) == (tasks, attempts)


def test_cpp_without_a_language_is_not_taken_for_python(tmp_path):
    with pytest.warns(UserWarning, match="cpp"):
        upsolve("ingest", "table", CASES / "tables" / "cpp.jsonl", tmp_path / "archive", "--tests", "tests")
    assert {one.language for one in open_archive(tmp_path / "archive").attempts()} == {"cpp"}


def test_rollouts_of_verl(tmp_path):
    upsolve("ingest", "verl", CASES / "10_verl", tmp_path / "archive", "--max-rejected", "1")
    codes = sorted(one.code.strip() for one in open_archive(tmp_path / "archive").attempts())
    assert codes in (["", "def f(x):\n    return 2*x"], ["def f(x):\n    return 2*x"])


def printed(script, *arguments):
    """Return what a script of the cases prints, a line each."""
    done = subprocess.run([sys.executable, CASES / script, *arguments], capture_output=True, text=True, check=False)
    return done.stdout.splitlines(), done.stderr


@pytest.mark.slow
def test_tokens():
    lines, error = printed("11_tokens.py")
    assert len(lines) == 6, error
    assert all(wanted == found for wanted, found in re.findall(r"want (\w+): (\w+)", lines[0]))
    assert len({*lines[1].split()[-2:]}) == 1
    assert lines[2].endswith("<end_of_turn>")
    assert "<think>" not in lines[3] or "</think>" in lines[3]
    assert "<think>" not in lines[4] or "</think>" in lines[4]
    assert lines[5].endswith("''")


@pytest.mark.slow
def test_lora_of_a_tied_head(tmp_path):
    lines, error = printed("12_tied_lora.py", tmp_path)
    assert float(lines[-1].split()[-1]) < 0.01 if lines else "lm_head" in error


def test_intervals():
    lines, error = printed("13_intervals.py")
    low, high = (re.findall(r"(low|high)=(?:np\.float64\()?([\d.e-]+)", line) for line in lines[:2])
    assert float(dict(low)["low"]) == 0 and 0.01 <= float(dict(low)["high"]) <= 0.025, (lines, error)
    assert 0.8 <= float(dict(high)["low"]) <= 0.9 and float(dict(high)["high"]) == 1
    assert all(float(line.split()[-1]) >= 0.92 for line in lines[2:])


def test_trl_rewards():
    lines, error = printed("14_trl_plain.py")
    assert [line.split(":")[-1].strip() for line in lines] == ["[1.0]", "[1.0]"], error
