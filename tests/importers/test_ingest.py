"""Imports: what is stored, repeated and rejected, and user tables."""

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from upsolve.archive.store import Archive
from upsolve.cli.main import app
from upsolve.errors import SourceError
from upsolve.importers import ingest as ingesting
from upsolve.importers.ingest import ingest
from upsolve.importers.outcome import status_of
from upsolve.importers.source import Option, Source
from upsolve.types import Attempt, Status, Task, TestKind, Verdict
from upsolve.verify.judge.outcomes import JUDGE

TASK = {"kind": "task", "task_id": "a", "prompt": "double"}
ROWS = [
    {"question": "Add.", "answer": "print(1)", "verdict": "AC", "who": 17, "points": 3},
    {"question": "Add.", "answer": "print(2)", "verdict": "Time Limit Exceeded", "who": "b", "points": None},
    {"question": "Sub.", "answer": "print(3)", "verdict": "wrong-answer", "who": "a", "points": 0},
    {"question": "Sub.", "answer": "print(4)", "verdict": None, "who": "a", "points": 0},
]
COLUMNS = {"prompt": "question", "code": "answer", "status": "verdict", "author": "who"}


def test_read_is_stored_and_repeated_and_rejected(archive, tmp_path, lines):
    attempt = {"kind": "attempt", "task_id": "a", "code": "x"}
    odd = [{**attempt, "code": None}, {**attempt, "author": 17}, "{broken", "[]", {"kind": "song"}]
    other = [{**TASK, "task_id": "c", "prompt": prompt} for prompt in ("double", "triple")]
    test = {**TASK, "task_id": "b", "tests": [{"kind": "call", "input": "f()", "expected": 4}]}
    report = ingest(
        archive, "jsonl", lines(tmp_path / "in.jsonl", [TASK, TASK, other[0], test, attempt, attempt, *odd, other[1]])
    )
    assert (report.read, report.added["tasks"], report.added["attempts"], report.added["repeated"], report.bad) == (
        12,
        2,
        1,
        2,
        7,
    )
    assert report.read == 3 + 2 + 7 and report.too_many
    reasons = {
        (row["line"], row["reason"].partition(":")[0]) for row in map(json.loads, report.rejected.read_text().splitlines())
    }
    assert {(4, "tests.0.expected"), (7, "code is missing"), (8, "author")} <= reasons
    assert any("different content" in reason for _, reason in reasons)
    assert "12 records read = 3 stored (2 tasks, 1 attempts, 0 verdicts) + 2 repeated + 7 rejected" in report.text()
    assert f"{tmp_path / 'in.jsonl'}, line 4: tests.0.expected: Input should be a valid string, not '4'" in report.text()


def test_a_row_of_a_table_with_an_outcome_and_no_program_is_rejected(archive, tmp_path):
    """A row without either describes a task."""
    (tmp_path / "in.csv").write_text("prompt,code,status,author\nadd,,failed,Ann\nadd,,,Ann\nadd,,,\nadd,x,failed,Ann\n")
    report = ingest(archive, "table", tmp_path / "in.csv", max_rejected=1)
    assert (len(archive.tasks()), len(archive.attempts()), report.bad) == (1, 1, 2)
    assert "in.csv, line 2: code is empty, but the row has author, status: an attempt needs a program" in report.text()


def test_a_recorded_failure_stays_whatever_its_judge_is_called(archive, tmp_path, lines):
    """A verdict of upsolve that rests on one sample test does not replace it."""
    attempt = {"kind": "attempt", "task_id": "a", "code": "x", "id": "1", "status": "WA", "judge": "ci"}
    verdict = {"kind": "verdict", "attempt_id": "1", "status": "failed"}
    rows = [TASK, attempt, verdict, {**verdict, "judge": "house"}, {**verdict, "judge": 17}]
    assert ingest(archive, "jsonl", lines(tmp_path / "in.jsonl", rows), max_rejected=1).bad == 1
    (tmp_path / "b.csv").write_text("prompt,code,status,judge\nadd,x,WA,ci\n")
    ingest(archive, "table", tmp_path / "b.csv")
    assert sorted(one.judge for one in archive.verdicts()) == ["recorded:ci", "recorded:ci", "recorded:house", "recorded:jsonl"]
    archive.append(verdicts=[Verdict(one.attempt_id, Status.PASSED, 1, 1, judge=JUDGE) for one in archive.attempts()])
    assert [verdict.status for group in archive.groups() for verdict in group.verdicts] == [Status.FAILED] * 2


def test_a_row_without_a_line_is_shown_without_one(archive, tmp_path, lines):
    file = lines(tmp_path / "in", [])
    report = ingest(archive, Source(lambda _: [Task("a", "double"), Task("a", "triple")], "a path"), file, max_rejected=1)
    assert f"  {file}: task a is stored with different content" in report.text()


@pytest.mark.parametrize("allowed", ["0.01", "1"])
def test_the_first_three_reasons_are_printed_with_file_and_line_also_by_an_import_that_fails(tmp_path, allowed, lines):
    """Of an import in one share and of one in several, where a task of another file has other content."""
    attempt = {"kind": "attempt", "task_id": "a", "code": None}
    file = lines(tmp_path / "in.jsonl", [TASK, {**TASK, "prompt": "triple"}, "{broken", {"kind": "song"}, attempt])
    done = CliRunner().invoke(app, ["ingest", "jsonl", str(file), str(tmp_path / "archive"), "--max-rejected", allowed])
    shown = [line for line in done.stdout.splitlines() if line.startswith("  ")]
    assert shown == [
        f"  {file}, line 2: task a is stored with different content; give one of the two a new id",
        f"  {file}, line 3: Expecting property name enclosed in double quotes (column 2)",
        f"  {file}, line 4: kind is song, it must be one of task, attempt, verdict",
    ]
    assert done.exit_code == (allowed != "1") and ("too many were rejected" in done.stdout) == (allowed != "1")


def test_a_task_that_another_file_has_with_other_content_is_rejected_with_its_line(archive, tmp_path, monkeypatch, lines):
    monkeypatch.setattr("upsolve.importers.shares.SHARE_BYTES", 1)
    (tmp_path / "in").mkdir()
    lines(tmp_path / "in" / "1.jsonl", [{**TASK, "task_id": "b"}, TASK])
    second = lines(tmp_path / "in" / "2.jsonl", [{**TASK, "task_id": "c"}, {**TASK, "prompt": "triple"}])
    (reason,) = ingest(archive, "jsonl", tmp_path / "in", max_rejected=1).reasons
    assert (reason.file, reason.line) == (str(second), 2) and "different content" in reason.reason


def test_a_byte_that_is_not_utf_8_costs_one_row(archive, tmp_path):
    (tmp_path / "in.jsonl").write_bytes(json.dumps(TASK).encode() + b'\n{"kind": "task", "prompt": "caf\xe9"}\n')
    assert ingest(archive, "jsonl", tmp_path / "in.jsonl").bad == 1
    (tmp_path / "in.csv").write_bytes(b"prompt,code\nadd,print(1)\nadd,'caf\xe9'\nadd,print(2)\n")
    report = ingest(archive, "table", tmp_path / "in.csv")
    assert (report.bad, report.added["attempts"]) == (1, 2)


def test_a_mended_file_takes_the_place_of_the_import_that_failed(archive, tmp_path, lines):
    attempt = {"kind": "attempt", "task_id": "a", "code": "x"}
    file = lines(tmp_path / "in.jsonl", [TASK, attempt, "{broken"])
    assert ingest(archive, "jsonl", file).too_many
    assert not ingest(archive, "jsonl", file).known
    report = ingest(archive, "jsonl", lines(file, [TASK, attempt, {**attempt, "code": "y"}]))
    assert not report.too_many and [attempt.count for attempt in archive.attempts()] == [1, 1]
    assert ingest(archive, "jsonl", file).known and "incomplete" not in archive.meta()


def test_corrected_options_replace_the_import_that_failed(archive, tmp_path):
    """The attempts of the failed reading stayed beside those of the corrected one."""
    (tmp_path / "in.csv").write_text("question,note,text,ok\nadd,seen,x,1\nadd,,y,0\ndouble,,z,1\n")
    named = {"prompt": "question", "status": "ok", "language": "python"}
    assert ingest(archive, "table", tmp_path / "in.csv", code="note", **named).too_many and len(archive.attempts()) == 1
    assert not ingest(archive, "table", tmp_path / "in.csv", code="text", **named).too_many
    assert [attempt.code for attempt in archive.attempts()] == ["x", "y", "z"]
    assert "incomplete" not in archive.meta() and len(archive.tasks()) == 2


def test_records_without_their_other_half_are_counted(archive, tmp_path, lines):
    rows = [{"kind": "attempt", "task_id": "nowhere", "code": "x"}, {"kind": "verdict", "attempt_id": "no", "status": "passed"}]
    report = ingest(archive, "jsonl", lines(tmp_path / "in.jsonl", rows))
    assert report.orphans == {"attempts without a task": 1, "verdicts without an attempt": 1}
    assert report.text().endswith(
        "1 attempts without a task, such as nowhere: they belong to tasks that are imported under these ids\n1 verdicts without an attempt"
    )


def test_small_and_large_archives_are_counted_alike(archive, tmp_path, lines, monkeypatch):
    """Ids that are missing, known from before, written twice, and a task whose language its earlier attempts lack."""
    found = []

    def counted(parts):
        found.append(small(parts))
        assert found[-1] == ingesting.queried(parts)
        return found[-1]

    small = ingesting.counted
    monkeypatch.setattr(ingesting, "counted", counted)
    attempt = {"kind": "attempt", "task_id": "a", "code": "x", "language": "cpp"}
    lost, two = {"kind": "verdict", "attempt_id": "no", "status": "passed"}, {**attempt, "task_id": "b"}
    ingest(archive, "jsonl", lines(tmp_path / "1.jsonl", [attempt, two]))
    new = [
        {**TASK, "language": "python"},
        *2 * [{**attempt, "code": "y", "language": ""}],
        two,
        {**attempt, "task_id": "c"},
        lost,
    ]
    ingest(archive, "jsonl", lines(tmp_path / "2.jsonl", new), max_rejected=1)
    assert found == [((2, "a"), 0, 2, 2, (0, None, None, None)), ((2, "b"), 1, 4, 2, (1, "a", "cpp", "python"))]


def test_an_attempts_line_may_hold_its_outcome_and_names_of_its_own(archive, tmp_path, lines):
    rows = [
        TASK,
        {"kind": "attempt", "task_id": "a", "code": "x", "id": 1, "status": "WA", "passed": 2, "total": 3, "error": "no"},
        {"kind": "attempt", "task_id": "a", "code": "y", "parent_id": "1", "outcomes": [True, "AC", 1], "judge": "recorded:ci"},
        {"kind": "verdict", "attempt_id": "1", "status": "TLE", "outcomes": ["AC", 0], "judge": "recorded:other"},
    ]
    assert ingest(archive, "jsonl", lines(tmp_path / "in.jsonl", rows)).bad == 0
    first, second = archive.attempts()
    assert second.parent_id == first.attempt_id
    said = {(v.attempt_id, v.judge): (v.status, v.passed, v.total, v.error_message) for v in archive.verdicts()}
    assert said == {
        (first.attempt_id, "recorded:jsonl"): (Status.FAILED, 2, 3, "no"),
        (second.attempt_id, "recorded:ci"): (Status.PASSED, 3, 3, ""),
        (first.attempt_id, "recorded:other"): (Status.TIMEOUT, 0, 0, ""),
    }


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_a_table_becomes_an_archive_without_ids(archive, tmp_path, suffix, lines):
    file = tmp_path / f"log.{suffix}"
    if suffix == "jsonl":
        lines(file, ROWS)
    elif suffix == "csv":
        with file.open("w", newline="") as text:
            table = csv.DictWriter(text, ROWS[0])
            table.writeheader()
            table.writerows(ROWS)
    else:
        pq.write_table(pa.Table.from_pylist([{**row, "who": str(row["who"])} for row in ROWS]), file)
    report = ingest(archive, "table", file, **COLUMNS)
    assert (report.added["tasks"], report.added["attempts"], report.added["verdicts"], report.bad) == (2, 4, 3, 0)
    assert [task.prompt for task in archive.tasks()] == ["Add.", "Sub."]
    verdicts = {verdict.attempt_id: verdict.status for verdict in archive.verdicts()}
    assert [verdicts.get(a.attempt_id) for a in archive.attempts()] == [Status.PASSED, Status.TIMEOUT, Status.FAILED, None]
    assert [attempt.author for attempt in archive.attempts()] == ["17", "b", "a", "a"]
    points = archive.query("select extra->>'points' as points from attempts order by code").to_pylist()
    assert [row["points"] for row in points] == ["3", None, "0", "0"]


def test_a_map_names_columns_and_words(archive, tmp_path, lines):
    file = lines(tmp_path / "log.jsonl", [{**row, "verdict": "grün"} for row in ROWS[:1]])
    (tmp_path / "map.yaml").write_text("columns: {prompt: question, code: answer, status: verdict}\nstatuses: {Grün: passed}\n")
    assert ingest(archive, "table", file, map=str(tmp_path / "map.yaml"), name="ci").bad == 0
    assert (archive.verdicts()[0].status, archive.verdicts()[0].judge) == (Status.PASSED, "recorded:ci")
    assert archive.tasks()[0].task_id.startswith("ci/")
    (tmp_path / "map.yaml").write_text("columns: {promt: question}\n")
    with pytest.raises(SourceError, match="unknown promt; columns can be task_id, prompt"):
        ingest(archive, "table", file, map=str(tmp_path / "map.yaml"))
    (tmp_path / "map.yaml").write_text("statuses: {Grün: passed}\nstatuses: {Rot: failed}\n")
    with pytest.raises(SourceError, match="line 2: statuses is in line 1, too"):
        ingest(archive, "table", file, map=str(tmp_path / "map.yaml"))


def test_tests_of_a_table_and_one_odd_row(archive, tmp_path, lines):
    stdio = {"inputs": ["1\n", ["2", "3"]], "outputs": ["1\n", "5\n"]}
    rows = [
        {"task_id": "f", "prompt": "p", "entry_point": "f", "tests": ["assert f(1) == 2", "assert all(f(1))"], "code": "x"},
        {"task_id": "f", "code": "y", "status": "odd"},
        {"task_id": "f", "code": "z", "status": 1.0},
        {"task_id": "g", "prompt": "q", "tests": json.dumps(stdio), "code": "z", "language": "C++"},
        {"task_id": "h", "author": "ann"},
        {"task_id": "f", "prompt": "other", "code": "z"},
    ]
    report = ingest(archive, "table", lines(tmp_path / "log.jsonl", rows))
    assert [(row.line, row.reason) for row in report.reasons] == [
        (2, "unknown status 'odd': add it to `statuses` in the map"),
        (5, "neither a program nor a prompt"),
        (6, "task log/f has different content in an earlier row: prompt"),
    ]
    first, second = archive.tasks()
    assert [test.kind for test in first.tests] == [TestKind.CALL, TestKind.CODE]
    assert [(test.input, test.expected) for test in second.tests] == [("1\n", "1\n"), ("2\n3\n", "5\n")]
    assert [(attempt.code, attempt.language) for attempt in archive.attempts()] == [
        ("x", "python"),
        ("z", "python"),
        ("z", "cpp"),
    ]


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("AC", "passed"),
        (True, "passed"),
        (1, "passed"),
        (0.0, "failed"),
        ("TIME_LIMIT_EXCEEDED", "timeout"),
        ("RE", "runtime_error"),
        ("Wrong answer on test 12", "failed"),
        ("Idleness limit exceeded on pretest 1", "timeout"),
        ("Runtime Error (SIGSEGV)", "runtime_error"),
    ],
)
def test_words_for_a_status(word, status):
    assert status_of(word) is Status(status)


@pytest.mark.parametrize("word", ["", 0.5, 2, "maybe", [1], "on test 3", "(3)", "Maybe on test 3"])
def test_a_word_that_is_no_status(word):
    with pytest.raises(ValueError, match="unknown status"):
        status_of(word)


@pytest.mark.parametrize(
    ("source", "name", "content"),
    [
        ("mbpp", "mbpp.json", [7, {"task_id": 1, "text": 3, "code": None, "test_list": 4}]),
        ("humaneval", "h.jsonl", [{"task_id": 1, "prompt": 3, "test": 4, "entry_point": "f", "canonical_solution": ""}]),
        ("ldb", "seed_x.jsonl", [{"task_id": "m/1", "prompt": "p", "test": "", "entry_point": "f", "canonical_solution": 3}]),
    ],
)
def test_wrong_types_set_a_row_aside(archive, tmp_path, source, name, content):
    (tmp_path / name).write_text(json.dumps(content) if name.endswith("json") else "\n".join(map(json.dumps, content)))
    report = ingest(archive, source, tmp_path if source == "ldb" else tmp_path / name)
    assert report.bad == len(content) == report.read


def read_words(path: Path, *, most: int = 9):
    for word in path.read_text().split()[:most]:
        yield Task(word, word)
        yield Attempt(word, 7 if word == "odd" else word)  # pyright: ignore[reportArgumentType]


SOURCE = Source(read_words, "a text file", (Option("most", int, "words read"),))


def test_a_source_of_ones_own_is_a_record_or_a_file(archive, tmp_path, monkeypatch):
    (tmp_path / "words.txt").write_text("one two odd four")
    report = ingest(archive, SOURCE, tmp_path / "words.txt", most="3")
    assert (report.added["tasks"], report.added["attempts"], report.bad) == (3, 2, 1)
    assert "code: Input should be a valid string" in report.reasons[0].reason
    with pytest.raises(SourceError, match="has no option mst; did you mean most"):
        ingest(archive, SOURCE, tmp_path / "words.txt", mst=3)
    with pytest.raises(SourceError, match="option most: 'few' is not of type int"):
        ingest(archive, SOURCE, tmp_path / "words.txt", most="few")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_reader.py").write_text(
        "from upsolve.importers.source import Source\nfrom upsolve.types import Task\n"
        "SOURCE = Source(lambda path: [Task('mine', path.read_text())], 'a text file')\n"
    )
    assert ingest(archive, "my_reader.py:SOURCE", tmp_path / "words.txt").added["tasks"] == 1


def test_the_simulator_is_a_source_like_the_others(archive):
    assert ingest(archive, "simulator", "robot").added["tasks"] > 10


DOCS = Path(__file__).parents[2] / "docs"


def block(page, kind):
    """Return the first block of a kind in the text of a page."""
    return (DOCS / page).read_text().partition(f"```{kind}\n")[2].partition("```")[0]


def test_the_documented_jsonl_is_read_as_it_stands(archive, tmp_path):
    (tmp_path / "in.jsonl").write_text(block("jsonl.md", "jsonl"))
    report = ingest(archive, "jsonl", tmp_path / "in.jsonl")
    assert (report.bad, report.added["tasks"], report.added["attempts"], report.added["verdicts"]) == (0, 1, 2, 2)
    assert [verdict.status for verdict in archive.groups()[0].verdicts] == [Status.PASSED, Status.FAILED]


def test_the_documented_map_is_read_as_it_stands(archive, tmp_path):
    (tmp_path / "map.yaml").write_text(block("tables.md", "yaml"))
    (tmp_path / "log.csv").write_text("question,answer,verdict,user\nAdd.,print(1),Gelöst,me\n")
    assert ingest(archive, "table", tmp_path / "log.csv", map=str(tmp_path / "map.yaml")).bad == 0
    assert archive.verdicts()[0].status is Status.PASSED and archive.attempts()[0].author == "me"


def test_whole_answers_of_tables_and_lines_give_their_code(archive, tmp_path, lines):
    answer = "<think>\nhm\n</think>\nSo:\n```python\nprint(1)\n```"
    rows = [{"prompt": "Add.", "answer": answer, "status": "AC"}, {"prompt": "Add.", "code": "print(2)", "answer": "no fence"}]
    with (tmp_path / "t.csv").open("w", newline="") as out:
        table = csv.DictWriter(out, ["prompt", "code", "answer", "status"])
        table.writeheader()
        table.writerows(rows)
    assert ingest(archive, "table", tmp_path / "t.csv", answer="answer").bad == 0
    assert [(a.code, a.answer) for a in archive.attempts()] == [("print(1)", answer), ("print(2)", "no fence")]
    (task,) = archive.tasks()
    line = {"kind": "attempt", "task_id": task.task_id, "answer": answer.replace("1", "3"), "status": "failed"}
    assert ingest(archive, "jsonl", lines(tmp_path / "in.jsonl", [line])).bad == 0
    assert archive.attempts()[-1].code == "print(3)" and json.loads(json.dumps(line["answer"])) == archive.attempts()[-1].answer


def test_large_tests_are_written_before_the_batch_is_full(tmp_path, monkeypatch):
    """A thousand tasks with megabytes of tests each must not wait in memory for twenty thousand records."""
    monkeypatch.setattr("upsolve.importers.importing.BATCH_CHARACTERS", 100)
    tests = [{"kind": "stdio", "input": "x" * 60, "expected": ""}]
    lines = [{"kind": "task", "task_id": f"a/{n}", "prompt": "p", "tests": tests} for n in range(5)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    archive, seen = Archive.create(tmp_path / "archive"), []
    report = ingest(archive, "jsonl", tmp_path / "in.jsonl", on_progress=lambda *told: seen.append(told))
    assert (report.added["tasks"], len(archive.tasks())) == (5, 5)
    assert seen == [("rows: 2", 0, 1), ("rows: 4", 0, 1), ("rows: 5", 0, 1), ("rows: 5", 1, 1)]


def test_a_column_named_answer_is_no_response_unless_it_is_named(archive, tmp_path, lines):
    path = lines(
        tmp_path / "in.jsonl", [{"prompt": "Add.", "code": "print(1)", "answer": "1"}, {"prompt": "Add.", "answer": "2"}]
    )
    assert ingest(archive, "table", path, max_rejected=1).added["attempts"] == 1
    assert archive.attempts()[0].answer == "" and json.loads(archive.attempts()[0].extra) == {"answer": "1"}
    assert ingest(archive, "table", path, code="answer").added["attempts"] == 2
    assert [(a.code, a.answer) for a in archive.attempts()[1:]] == [("1", ""), ("2", "")]


def test_a_name_of_several_different_attempts_is_refused_where_it_is_used(archive, tmp_path, lines):
    attempts = [{"kind": "attempt", "task_id": "a", "code": code, "id": 1} for code in ("x", "x", "y")]
    verdict = {"kind": "verdict", "attempt_id": 1, "status": "AC"}
    repair = {"kind": "attempt", "task_id": "a", "code": "z", "parent_id": 1.0}
    rows = [TASK, *attempts[:2], verdict, attempts[2], verdict, repair]
    report = ingest(archive, "jsonl", lines(tmp_path / "in.jsonl", rows), max_rejected=1)
    assert [row.line for row in report.reasons] == [6, 7]
    assert "several different attempts in this file have the id 1" in report.reasons[0].reason
    assert [verdict.attempt_id for verdict in archive.verdicts()] == [archive.attempts()[0].attempt_id]


def test_lines_keep_ids_and_refuse_outcomes_that_cannot_be(archive, tmp_path, lines):
    attempt = {"kind": "attempt", "task_id": "a", "code": "x", "id": "sub-991", "status": float("nan")}
    verdict = {"kind": "verdict", "attempt_id": "sub-991", "passed": 1, "total": 3}
    rows = [TASK, attempt, {**verdict, "status": "AC"}, {**verdict, "status": "WA"}]
    report = ingest(archive, "jsonl", lines(tmp_path / "in.jsonl", rows), max_rejected=1)
    assert [(row.line, row.reason) for row in report.reasons] == [(3, "status says passed, but 1 of 3 tests passed")]
    assert archive.column("attempts", "extra") == ['{"id": "sub-991"}']
    assert [(one.status, one.passed, one.total) for one in archive.verdicts()] == [(Status.FAILED, 1, 3)]
    own = {**attempt, "attempt_id": archive.attempts()[0].attempt_id, "id": "sub-992"}
    ingest(archive, "jsonl", lines(tmp_path / "other.jsonl", [own]))
    assert archive.column("attempts", "extra")[1] == '{"id": "sub-992"}'
