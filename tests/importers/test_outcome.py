"""The outcome of a row, however it is recorded."""

import csv
import json
import math
import re

import pytest

from upsolve.archive.store import Archive
from upsolve.errors import SourceError
from upsolve.importers.ingest import ingest
from upsolve.importers.outcome import WORDS, check_counts, recorded_verdict, status_of
from upsolve.types import Status

P, F, U = Status.PASSED, Status.FAILED, Status.UNSCORED


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"status": "AC", "passed": 3, "total": 3}, (P, 3, 3)),
        ({"status": "WA", "passed": "2", "total": "3"}, (F, 2, 3)),
        ({"status": "accepted", "passed": True}, (P, 0, 0)),
        ({"status": "TLE", "passed": "no"}, (Status.TIMEOUT, 0, 0)),
        ({"passed": True}, (P, 0, 0)),
        ({"passed": "False"}, (F, 0, 0)),
        ({"passed": 1}, (P, 0, 0)),
        ({"passed": "0"}, (F, 0, 0)),
        ({"passed": 1.0}, (P, 0, 0)),
        ({"passed": 3, "total": 3}, (P, 3, 3)),
        ({"status": "Passed 2 of 3 tests"}, (F, 2, 3)),
        ({"status": "Accepted (50%)"}, (F, 0, 0)),
        ({"status": "KO"}, (F, 0, 0)),
        ({"passed": "Y"}, (P, 0, 0)),
        ({"status": "nicht bestanden"}, (F, 0, 0)),
        ({"status": "答案错误"}, (F, 0, 0)),
        ({"outcomes": [{"name": "a", "passed": True}, {"name": "b", "passed": False}]}, (F, 1, 2)),
        ({"passed": "0", "total": "1"}, (F, 0, 1)),
        ({"passed": 0, "total": 0}, (U, 0, 0)),
        ({"outcomes": ["AC", "WA"]}, (F, 1, 2)),
        ({"outcomes": '["AC", "AC"]'}, (P, 2, 2)),
        ({"outcomes": {"t1": True, "t2": False}}, (F, 1, 2)),
        (
            {"outcomes": '{"test_2": "AC", "test_10": "WA"' + "".join(f', "test_{n}": "AC"' for n in (1, *range(3, 10))) + "}"},
            (F, 9, 10),
        ),
        ({"outcomes": "AC, time limit exceeded,AC"}, (Status.TIMEOUT, 2, 3)),
        ({"outcomes": "ok ok"}, (P, 2, 2)),
        ({"outcomes": ["AC", "skipped", "TLE", "WA"]}, (Status.TIMEOUT, 1, 4)),
        ({"outcomes": ["AC", "skipped"]}, (U, 1, 2)),
        ({"passed": False, "outcomes": ["AC", "TLE"]}, (Status.TIMEOUT, 1, 2)),
        ({"status": "WA", "outcomes": ["AC", "AC"], "total": 5}, (F, 2, 5)),
        ({"passed": 0, "outcomes": ["AC", "WA"]}, (F, 1, 2)),
        ({"passed": 1, "outcomes": ["AC", "WA"]}, (F, 1, 2)),
        ({"passed": "1.0", "outcomes": ["AC", "AC"]}, (P, 2, 2)),
        ({"status": "AC", "total": 5}, (P, 5, 5)),
        ({"passed": True, "total": "5.0"}, (P, 5, 5)),
        ({"passed": "0.0"}, (F, 0, 0)),
        ({"status": "1.0", "passed": math.nan}, (P, 0, 0)),
        ({"passed": "2.0", "total": "3.0"}, (F, 2, 3)),
        ({"status": "success (0/5)"}, (F, 0, 5)),
        ({"status": "Passed (0 of 5 tests, 15 ms)"}, (F, 0, 5)),
        ({"passed": "Accepted (30/100)"}, (F, 30, 100)),
        ({"status": "Accepted (33.3/100)"}, (F, 0, 0)),
        ({"status": "Accepted (3/5)", "passed": 2, "total": 4}, (F, 2, 4)),
        ({"status": "AC (5/5)"}, (P, 0, 0)),
        ({"status": "7 / 10"}, (F, 7, 10)),
        ({"status": "10/10"}, (P, 0, 0)),
        ({"status": "Wrong answer (3/5)"}, (F, 0, 0)),
        ({"error": "disk full", "wall_seconds": 1.5}, (U, 0, 0)),
    ],
)
def test_an_outcome_is_never_lost(row, expected):
    verdict = recorded_verdict("a", row, "recorded:x")
    assert verdict and (verdict.status, verdict.passed, verdict.total) == expected
    assert verdict.error_message == row.get("error", "") and verdict.wall_seconds == row.get("wall_seconds")


@pytest.mark.parametrize(
    ("row", "status", "points", "overall"),
    [
        ({"points": 0.4}, F, (), 0.4),
        ({"points": "1.0"}, P, (), 1.0),
        ({"points": 0}, F, (), 0.0),
        ({"status": "TLE", "points": 0.25}, Status.TIMEOUT, (), 0.25),
        ({"points": [1, 0.5, 0]}, F, (1.0, 0.5, 0.0), None),
        ({"points": "1;0.5"}, F, (1.0, 0.5), None),
        ({"points": "[0.5, null, 1]"}, F, (0.5, 0.0, 1.0), None),
        ({"points": [1, None]}, U, (1.0, 0.0), None),
        ({"outcomes": ["AC", "TLE", "WA"], "points": [None, 0.1, 0.7]}, Status.TIMEOUT, (1.0, 0.1, 0.7), None),
        ({"outcomes": ["AC", "WA"], "points": 0.6}, F, (1.0, 0.0), 0.6),
        ({"passed": 2, "total": 3, "points": 0.9}, F, (), 0.9),
    ],
)
def test_points_are_recorded_beside_the_outcome(row, status, points, overall):
    verdict = recorded_verdict("a", row, "recorded:x")
    assert verdict and (verdict.status, verdict.points, verdict.overall_points) == (status, points, overall)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"points": 40}, "points '40': a number from 0 to 1 is needed"),
        ({"points": [0.5, -0.1]}, "points '-0.1'"),
        ({"points": "many"}, "points 'many'"),
        ({"status": "AC", "points": 0.5}, "status says passed, but points are 0.5 of 1"),
        ({"outcomes": ["AC"], "points": [0.5]}, "status says passed, but points are 0.5 of 1"),
        ({"outcomes": ["AC", "WA"], "points": [0.5]}, "points has 1 tests, but outcomes has 2; give one value for each test"),
    ],
)
def test_what_cannot_be_points(row, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        recorded_verdict("a", row, "recorded:x")


def test_points_of_a_named_column_of_a_table(tmp_path):
    file = tmp_path / "in.csv"
    file.write_text("prompt,code,points,passed,total\np,a,60,2.5,10\nq,b,100,,\nr,c,,2.5,10\ns,d,200,,\n")
    ingest(Archive.create(tmp_path / "named"), "table", file, points="points", full_points=100)
    ingest(Archive.create(tmp_path / "other"), "table", file)
    expected = {"named": [("a", F, 0.6), ("b", P, 1.0), ("c", F, 0.25)], "other": [("a", F, 0.25), ("c", F, 0.25)]}
    for name, rows in expected.items():
        archive = Archive(tmp_path / name)
        code = {attempt.attempt_id: attempt.code for attempt in archive.attempts()}
        found = [(code[one.attempt_id], one.status, one.overall_points) for one in archive.verdicts()]
        assert sorted(found) == rows
    assert any('"points": "60"' in attempt.extra for attempt in archive.attempts())


def test_points_of_a_verdict_in_json_lines(tmp_path):
    rows = [
        {"kind": "task", "task_id": "t", "prompt": "p"},
        {"kind": "attempt", "task_id": "t", "code": "x", "id": 1, "points": 70},
        {
            "kind": "verdict",
            "attempt_id": 1,
            "status": "WA",
            "passed": 1,
            "total": 2,
            "outcomes": ["AC", "WA"],
            "points": [1, 0.4],
        },
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ingest(Archive.create(tmp_path / "archive"), "jsonl", tmp_path / "in.jsonl")
    (verdict,) = Archive(tmp_path / "archive").verdicts()
    assert verdict.points == (1.0, 0.4)
    (attempt,) = Archive(tmp_path / "archive").attempts()
    assert json.loads(attempt.extra)["points"] == 70  # of an attempt that says nothing of their scale


@pytest.mark.parametrize("row", [{}, {"status": "", "error": None}, {"judge": "ci"}])
def test_a_row_that_records_nothing(row):
    assert recorded_verdict("a", row, "recorded:x") is None


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            {"passed": 7},
            "passed is 7: a number of tests needs their total; without it, rows of the same column with 1 count as passed",
        ),
        ({"passed": True, "outcomes": ["AC", "WA"]}, "status says passed, but 1 of 2 tests passed"),
        ({"status": "AC", "outcomes": ["AC", "WA", "WA"]}, "status says passed, but 1 of 3 tests passed"),
        (
            {"passed": False, "outcomes": ["AC", "AC"]},
            "status says failed, but all 2 outcomes are passed; if there are more tests",
        ),
        ({"outcomes": ["AC", "AC"], "total": 5}, "total is 5, but outcomes has 2: the outcomes of the other tests are missing"),
        ({"outcomes": ["AC", "WA", "WA"], "total": 2}, "1 of 3 outcomes are passed, but passed is 1 and total 2"),
        ({"passed": 2, "outcomes": ["AC", "WA"]}, "1 of 2 outcomes are passed, but passed is 2 and total 2"),
        ({"passed": "0.5"}, "passed is 0.5"),
        ({"status": "AC", "passed": 0}, r"`status` \(passed\) and `passed` \(0\) contradict"),
        ({"passed": "perhaps"}, "unknown status 'perhaps'"),
        ({"status": "AC", "passed": False}, r"`status` \(passed\) and `passed` \(failed\) contradict"),
        ({"passed": 1, "total": "many"}, "many"),
    ],
)
def test_what_cannot_be_an_outcome(row, said):
    with pytest.raises(ValueError, match=said):
        recorded_verdict("a", row, "recorded:x")


@pytest.mark.parametrize(
    "where", ["100", "100%", "100 points", "100/100", "5/5", "5 of 5", "5 out of 5 tests", "15 ms", "0.2 s, 3 MB"]
)
def test_what_may_follow_a_word_that_says_passed(where):
    assert status_of(f"Accepted ({where})") is P


@pytest.mark.parametrize(
    "where",
    [
        "(40 points)",
        "(partial)",
        "(not judged)",
        "(hidden tests failed)",
        "(50)",
        "(0/0)",
        "(7/5)",
        "on test 3",
        "(5/5) (rejudged)",
    ],
)
def test_a_restriction_that_is_not_understood_is_no_pass(where):
    with pytest.raises(ValueError, match="unknown status 'OK "):
        status_of(f"OK {where}")
    assert status_of(f"OK {where}", {**WORDS, f"ok {where}": F}) is F


CODES = {**WORDS, "-1": F, "4": Status.RUNTIME_ERROR}


@pytest.mark.parametrize(("word", "words"), [(0, CODES), ("1", CODES), (1.0, CODES), (2, WORDS), ("-1", WORDS)])
def test_numbers_beside_other_numbers_are_no_words(word, words):
    with pytest.raises(ValueError, match="name each number of the column, also 0 and 1, in `statuses`"):
        status_of(word, words)


@pytest.mark.parametrize("value", [0, "0", "0.0", 0.0])
def test_a_map_names_numbers(value):
    assert status_of(value, {**CODES, "0": P}) is P
    assert status_of(-1.0, CODES) is F
    assert status_of(value, {**WORDS, "gelöst": P}) is F


def test_counts_and_a_status_that_says_passed():
    check_counts(P, 3, 3)
    check_counts(P, 3, 0)
    check_counts(F, 3, 3)
    with pytest.raises(ValueError, match="status says passed, but 1 of 3 tests passed"):
        check_counts(P, 1, 3)


TASK = {"kind": "task", "task_id": "a", "prompt": "Double x."}
ATTEMPT = {"kind": "attempt", "task_id": "a", "code": "x"}
VERDICT = {"kind": "verdict", "attempt_id": "z", "judge": "ci"}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({**TASK, "limit_seconds": -1}, "task a: limit_seconds must be positive, got -1.0"),
        ({**ATTEMPT, "count": 0}, "count is 0, it must be at least 1"),
        ({**ATTEMPT, "behavior_logp": 3.0}, "behavior_logp is 3.0, a log-probability is at most 0"),
        ({**ATTEMPT, "status": "WA", "passed": 5, "total": 3}, "passed is 5, more than total, 3"),
        ({**ATTEMPT, "status": "AC", "passed": 1, "total": 3}, "status says passed, but 1 of 3 tests passed"),
        ({**ATTEMPT, "tokens": -1}, "tokens is -1, it must be at least 1"),
        (
            {**ATTEMPT, "outcomes": {"t2": True, "t3": True}},
            "outcomes: {'t2': True, 't3': True}: a list of words, or words between commas, is needed",
        ),
        (
            {**ATTEMPT, "outcomes": {"one": True, "two": True}},
            "outcomes: {'one': True, 'two': True}: a list of words, or words between commas, is needed",
        ),
        ({**ATTEMPT, "outcomes": 4}, "outcomes: 4: a list of words, or words between commas, is needed"),
        ({**VERDICT, "status": "AC", "passed": 4, "total": 3}, "passed is 4, more than total, 3"),
        ({**ATTEMPT, "code": "x = 'é\ud800'", "status": "AC"}, "code: '\\ud800' is half of a character (a lone surrogate)"),
        ('{"kind": "task", "prompt": "cut', "Unterminated string starting (column 28)"),
    ],
)
def test_a_value_that_cannot_be_sets_its_row_aside(tmp_path, line, reason):
    """A count of 0 or below would be the weight of an attempt when groups are sampled."""
    file = tmp_path / "in.jsonl"
    file.write_text("\n".join(one if isinstance(one, str) else json.dumps(one) for one in (TASK, line)))
    report = ingest(Archive.create(tmp_path / "archive"), "jsonl", file, max_rejected=1)
    assert [(row.line, row.reason) for row in report.reasons] == [(2, reason)]


def test_inputs_without_outputs_set_a_row_of_a_table_aside(tmp_path):
    file = tmp_path / "in.jsonl"
    file.write_text(json.dumps({"prompt": "Double x.", "code": "x", "tests": {"inputs": ["1"], "outputs": []}}))
    (row,) = ingest(Archive.create(tmp_path / "archive"), "table", file, max_rejected=1).reasons
    assert row.reason == "tests: 1 inputs, but 0 outputs"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (F, "SECURITY_VIOLATED, QLE, No response on stdout, no-output, Partially Accepted, Unaccepted, unresolved"),
        (P, "Correct answer, resolved"),
        (
            Status.TIMEOUT,
            "timelimit, Terminated due to timeout, Real Time Limit Exceeded, Time Limit Exceed, Time Exceeded, TL",
        ),
        (Status.MEMORY_LIMIT, "Memory Limit Exceed, Memory Exceeded, ML"),
        (Status.OUTPUT_LIMIT, "Output Limit Exceed, Output Exceeded, OL"),
        (Status.COMPILE_ERROR, "Compile Time Error"),
        (Status.RUNTIME_ERROR, "IR, RT, Run Time Error, run-error, Segmentation Fault, NZEC"),
        (
            U,
            "QU, Grading, Cancelled, IGN, Running & Judging, Pending Rejudging, Denial of judgement, WJ, Waiting for Re-judging, TESTING, SUBMITTED, INPUT_PREPARATION_CRASHED, Judging, SC, UKE, Validator Error, In queue",
        ),
    ],
)
def test_words_of_contest_sites(status, words):
    assert {word: status_of(word) for word in words.split(", ")} == dict.fromkeys(words.split(", "), status)


@pytest.mark.parametrize("word", ["WR", "AB", "Aborted", "T", "F", "None"])
def test_words_that_mean_different_things_are_left_to_a_map(word):
    with pytest.raises(ValueError, match="add it to `statuses` in the map"):
        status_of(word)


def test_points_alone_are_the_outcome_of_their_own_row(tmp_path):
    file, archive = tmp_path / "in.csv", Archive.create(tmp_path / "archive")
    file.write_text("prompt,code,points\np,a,1\np,b,0.5\nq,c,0\nq,d,1\n")
    ingest(archive, "table", file, points="points")
    code = {attempt.attempt_id: attempt.code for attempt in archive.attempts()}
    assert {code[one.attempt_id]: one.status for one in archive.verdicts()} == {"a": P, "b": F, "c": F, "d": P}


DECIMALS = [
    (";", 2.0, ["2,0", "1,5", "0,0"], [(P, 1.0), (F, 0.75), (F, 0.0)]),
    ("\t", 10.0, ["10,0", "7,5", "0,0"], [(P, 1.0), (F, 0.75), (F, 0.0)]),
    (",", 2.0, ["2,0", "1,5", "0,0"], [(P, 1.0), (F, 0.75), (F, 0.0)]),  # 5 are no points of a test
    (",", 4.0, ["4,4", "4,3,0", "0,0"], [(P, None), (F, None), (F, None)]),
]


@pytest.mark.parametrize(("delimiter", "full", "points", "expected"), DECIMALS)
def test_points_with_decimal_commas_are_no_points_of_two_tests(tmp_path, delimiter, full, points, expected):
    file, programs = tmp_path / "in.csv", ["a", "b", "c"]
    with file.open("w", newline="", encoding="utf-8-sig") as text:
        rows = [["prompt", "code", "points"], *(["p", code, cell] for code, cell in zip(programs, points, strict=True))]
        csv.writer(text, delimiter=delimiter).writerows(rows)
    archive = Archive.create(tmp_path / "archive")
    ingest(archive, "table", file, points="points", full_points=full)
    code = {attempt.attempt_id: attempt.code for attempt in archive.attempts()}
    found = {code[one.attempt_id]: (one.status, one.overall_points) for one in archive.verdicts()}
    assert [found[one][0] for one in programs] == [status for status, _ in expected]
    assert [found[one][1] for one in programs] == [share for _, share in expected]


def test_points_that_may_be_one_number_or_those_of_two_tests(tmp_path):
    file = tmp_path / "in.csv"
    file.write_text('prompt,code,points\np,a,"7,5"\np,b,"10,0"\n')
    with pytest.raises(SourceError, match=r"points has '7,5': 7.5 points, or 7 and 5 of two tests\? Write 7.5, or \[7, 5\]"):
        ingest(Archive.create(tmp_path / "archive"), "table", file, points="points", full_points=10)


def test_scores_counts_and_times_with_decimal_commas(tmp_path):
    file, archive = tmp_path / "in.csv", Archive.create(tmp_path / "archive")
    file.write_text(
        "prompt;code;score;passed;total;cpu_seconds\np;a;0,75;;;1,5\np;b;0,5;;;1,250\nq;c;;3,0;3,0;\nq;d;;2,5;3,0;\n"
    )
    done = ingest(archive, "table", file, status="score", passed_at=0.6)
    code = {attempt.attempt_id: attempt for attempt in archive.attempts()}
    found = {code[one.attempt_id].code: (one.status, one.cpu_seconds) for one in archive.verdicts()}
    assert found == {"a": (P, 1.5), "b": (F, None), "c": (P, None), "d": (F, None)}
    assert (done.bad, '"cpu_seconds": "1,250"' in "".join(one.extra for one in code.values())) == (0, True)  # a thousand?
    with pytest.raises(ValueError, match="unknown status '0,5': for scores: --passed-at X"):
        status_of("0,5")
