"""Columns in which a large value, or true, is a failure are never read as outcomes without a map."""

import json

import pytest

from upsolve.errors import SourceError
from upsolve.importers.ingest import ingest
from upsolve.importers.tables.columns import says_opposite

WORSE = [
    "is_buggy",
    "n_errors",
    "failed",
    "has_error",
    "wrong",
    "num_failures",
    "incorrect",
    "is_wrong",
    "exit_code",
    "returncode",
    "errors",
    "isBuggy",
    "numFailures",
    "not_passed",
    "unsolved",
    "notPassed",
    "crashed",
    "test_exit_code",
    "judge.is_buggy",
    "errors.count",
    "rc",
    "docker.exitCode",
    "rejected",
    "exit_status",
    "failed_tests.0",
    "vulnerable",
    "timed_out",
]
BETTER = [
    "status",
    "passed",
    "verdict",
    "result",
    "is_correct",
    "correct",
    "ok",
    "valid",
    "no_errors",
    "error_free",
    "default",
    "resolved",
    "solved",
    "unbiased",
    "num_passed",
    "score",
    "mirror",
    "result.status",
    "result.status.id",
    "validity",
    "resolution",
]


@pytest.mark.parametrize(("name", "opposite"), [*((name, True) for name in WORSE), *((name, False) for name in BETTER)])
def test_names_say_whether_more_is_worse(name, opposite):
    assert says_opposite(name) is opposite


def table(file, column, values):
    names = column.split(".")

    def nested(value):
        for name in reversed(names):
            value = {name: value}
        return value

    rows = ({"prompt": "p", "code": f"x = {n}", **nested(value)} for n, value in enumerate(values))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("is_buggy", [True, False]),
        ("is_buggy", ["yes", "no"]),
        ("n_errors", [1, 0]),
        ("result.failed", ["1", "0"]),
        ("test_exit_code", [1, 0]),
        ("incorrect", [1.0, 0.0]),
    ],
)
@pytest.mark.parametrize("field", ["status", "passed"])
def test_labels_are_not_read_backwards(archive, tmp_path, column, values, field):
    file = table(tmp_path / "in.jsonl", column, values)
    with pytest.raises(SourceError, match="statuses"):
        ingest(archive, "table", file, **{field: column})
    words = {str(value).lower(): status for value, status in zip(values, ("failed", "passed"), strict=True)}
    (tmp_path / "map.yaml").write_text(json.dumps({"columns": {field: column}, "statuses": words}))
    ingest(archive, "table", file, map=str(tmp_path / "map.yaml"))
    assert [verdict.status.value for verdict in archive.verdicts()] == ["failed", "passed"]


def test_outcomes_of_single_tests_are_not_read_backwards(archive, tmp_path):
    with pytest.raises(SourceError, match="failures"):
        ingest(archive, "table", table(tmp_path / "in.jsonl", "failures", [[True, False], [False, False]]), outcomes="failures")


def test_scores_of_which_more_is_worse_are_refused(archive, tmp_path):
    with pytest.raises(SourceError, match="n_errors"):
        ingest(archive, "table", table(tmp_path / "in.jsonl", "n_errors", [3, 0]), status="n_errors", passed_at=1)


def test_words_that_say_what_happened_are_read_whatever_the_column_is_called(archive, tmp_path):
    report = ingest(archive, "table", table(tmp_path / "in.jsonl", "failure", ["AC", "Wrong Answer", "TLE"]), status="failure")
    assert report.added["verdicts"] == 3
    assert [verdict.status.value for verdict in archive.verdicts()] == ["passed", "failed", "timeout"]


def test_true_in_a_later_row_needs_a_map_too(archive, tmp_path):
    values = [*["AC"] * 1200, True]
    report = ingest(archive, "table", table(tmp_path / "in.jsonl", "failure", values), status="failure", max_rejected=1)
    assert (report.bad, report.added["verdicts"]) == (1, 1200)


def test_a_word_of_a_map_may_have_hyphens_and_a_code_after_it(archive, tmp_path):
    file = table(tmp_path / "in.jsonl", "status", ["non-zero exit (3)", "non-zero exit", "Non_zero exit"])
    (tmp_path / "map.yaml").write_text("statuses: {non-zero exit: runtime_error}")
    ingest(archive, "table", file, map=str(tmp_path / "map.yaml"))
    assert [verdict.status.value for verdict in archive.verdicts()] == ["runtime_error"] * 3


@pytest.mark.parametrize("text", ["columns: {status: }", "statuses: {1: }", "columns: {status: []}", "languages: {1: true}"])
def test_a_map_with_an_empty_line_is_refused(archive, tmp_path, text):
    (tmp_path / "map.yaml").write_text(text)
    with pytest.raises(SourceError, match="map.yaml"):
        ingest(archive, "table", table(tmp_path / "in.jsonl", "status", ["AC"]), map=str(tmp_path / "map.yaml"))
