import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upsolve.archive.info import archive_info
from upsolve.archive.schema import FINDING, SCHEMA, TABLES
from upsolve.archive.store import Archive, copy_archive, open_archive
from upsolve.errors import ArchiveError, SchemaError
from upsolve.types import Attempt, Finding, Status, Task, TestCase, TestKind, Verdict

TASK = Task("t/1", "add one", (TestCase(TestKind.CALL, "f(1)", "2", True),), "f", difficulty="easy", source="t")
GOOD = Attempt("t/1", "def f(x):\n    return x + 1\n", author="a", behavior_logp=-3.25, tokens=9, entropy=0.5)
BAD = Attempt("t/1", "def f(x):\n    return x\n", author="b", parent_id=GOOD.attempt_id)
VERDICT = Verdict(
    BAD.attempt_id,
    Status.FAILED,
    passed=1,
    total=2,
    outcomes=(Status.PASSED, Status.FAILED),
    judge="upsolve-1",
    findings=(Finding("traceback", "ValueError", "no", 2),),
)


def store(path, *, verdicts=(VERDICT,)):
    archive = Archive.create(path)
    archive.append(tasks=[TASK], attempts=[GOOD, BAD], verdicts=verdicts)
    return archive


def test_what_is_written_is_read(tmp_path):
    store(tmp_path)
    again = Archive(tmp_path)
    assert again.tasks() == [TASK]
    assert again.attempts() == [GOOD, BAD]
    assert again.verdicts() == [VERDICT]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
sampled = st.lists(st.tuples(st.integers(0, 2**31 - 1), st.floats(-1e3, 0)))


def with_tokens(attempt, tokens):
    """Give an attempt its tokens, and their log-probabilities where the first token is even."""
    ids, logps = tuple(zip(*tokens, strict=True)) or ((), ())
    return replace(attempt, token_ids=ids, token_logps=logps if sum(ids[:1]) % 2 == 0 else None)


attempts = st.builds(
    Attempt,
    task_id=texts,
    code=texts,
    author=texts,
    created=texts,
    parent_id=texts,
    behavior_logp=st.none() | st.floats(-1e6, 0),
    tokens=st.none() | st.integers(1, 2**40),
    entropy=st.none() | st.floats(0, 20),
    truncated=st.booleans(),
    count=st.integers(1, 9),
)
attempts = attempts | st.builds(with_tokens, attempts, sampled)


@settings(max_examples=25)
@given(st.lists(attempts, max_size=5, unique_by=lambda a: a.attempt_id))
def test_any_attempt_survives(tmp_path_factory, some):
    archive = Archive.create(tmp_path_factory.mktemp("law"))
    archive.append(attempts=some)
    assert archive.attempts() == some


def test_an_attempt_seen_again_is_counted(tmp_path):
    archive = store(tmp_path)
    added = archive.append(attempts=[GOOD, replace(GOOD, author="c"), Attempt("t/1", "pass")])
    assert (added.attempts, added.repeated) == (1, 2)
    assert [(a.author, a.count) for a in archive.attempts()] == [("a", 2), ("b", 1), ("c", 1), ("", 1)]
    info = archive_info(archive)
    assert (info.seen, info.attempts, info.programs) == (5, 4, 3)


def test_an_attempt_without_a_task_may_have_a_verdict(tmp_path):
    archive, attempts = Archive.create(tmp_path), [Attempt("gone", code) for code in ("x", "y")]
    archive.append(attempts=attempts, verdicts=[Verdict(attempts[0].attempt_id, Status.PASSED, judge="recorded:a")])
    assert (archive_info(archive).unjudged, archive_info(archive).statuses) == (1, {})


def test_equal_code_of_another_author_keeps_who_when_after_what_and_its_tokens(tmp_path):
    archive = Archive.create(tmp_path)
    one = Attempt("t/1", "x", author="student", created="2020-01-01T00:00:00+00:00", parent_id=BAD.attempt_id)
    two = Attempt("t/1", "x", author="model", behavior_logp=-1.0, token_ids=(3, 4), token_logps=(-0.5, -0.5))
    archive.append(tasks=[TASK], attempts=[one, two, one], verdicts=[replace(VERDICT, attempt_id=one.attempt_id)])
    assert archive.attempts() == [replace(one, count=2), two]
    (group,) = archive.groups()
    assert group.verdicts[0] == group.verdicts[1] is not None


STRONG, WEAK = (
    replace(VERDICT, judge="recorded:ci", total=9, passed=1),
    replace(VERDICT, status=Status.PASSED, total=1, passed=1),
)
UNSCORED = replace(VERDICT, status=Status.UNSCORED, passed=0, total=0)
NO_TOTAL = replace(VERDICT, judge="recorded:codenet", passed=0, total=0)


@pytest.mark.parametrize(
    ("verdicts", "official", "best"),
    [
        ([STRONG, UNSCORED], False, STRONG),
        ([STRONG, UNSCORED], True, STRONG),
        ([STRONG, WEAK], False, STRONG),
        ([STRONG, replace(WEAK, total=9)], False, replace(WEAK, total=9)),
        ([NO_TOTAL, WEAK], False, NO_TOTAL),
        ([NO_TOTAL, WEAK], True, WEAK),
        ([WEAK, UNSCORED], False, WEAK),
        ([UNSCORED], False, UNSCORED),
        ([], False, None),
    ],
)
def test_the_verdict_that_rests_on_most_counts(tmp_path, verdicts, official, best):
    archive = Archive.create(tmp_path)
    archive.append(tasks=[replace(TASK, official=official)], attempts=[BAD], verdicts=verdicts)
    assert archive.groups()[0].verdicts == (best,)
    if STRONG in verdicts:
        assert archive.groups(judge="recorded")[0].verdicts == (STRONG,)
        assert archive.groups(judge="upsolve")[0].verdicts == (verdicts[1],)


def test_a_recorded_verdict_keeps_what_our_analyses_found_in_the_code(tmp_path):
    lint = Finding("lint", "F401", "unused", 1)
    ours = replace(WEAK, findings=(lint, Finding("traceback", "ValueError", "no", 2)), analyses=("lint: ruff 1",))
    archive = store(tmp_path, verdicts=[NO_TOTAL, ours])
    best = archive.groups()[0].verdicts[1]
    assert (best.status, best.analyses) == (Status.FAILED, ("lint: ruff 1",))
    assert best.findings == (*NO_TOTAL.findings, lint)


def test_the_embedded_archive_is_read_only_and_a_copy_is_not(tmp_path):
    embedded = open_archive("embedded")
    with pytest.raises(ArchiveError, match="archive copy embedded"):
        embedded.append(tasks=[TASK])
    copy = copy_archive(embedded, tmp_path / "copy")
    assert copy.append(tasks=[TASK]).tasks == 1
    assert len(copy.tasks()) == len(embedded.tasks()) + 1
    with pytest.raises(ArchiveError, match="is not empty"):
        copy_archive(embedded, tmp_path / "copy")


def test_a_part_that_cannot_be_written_leaves_nothing_behind(tmp_path, monkeypatch):
    archive = store(tmp_path)
    monkeypatch.setattr("upsolve.files.commit_file", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(ArchiveError, match="No space left"):
        archive.append(attempts=[GOOD])
    assert not list(tmp_path.rglob("*.tmp"))


def test_appending_reads_the_ids_alone(tmp_path, monkeypatch):
    archive = store(tmp_path)
    read = []
    real = pq.ParquetFile.read
    monkeypatch.setattr(pq.ParquetFile, "read", lambda file, columns: read.append(columns) or real(file, columns))
    archive.append(attempts=[GOOD])
    assert read == [["attempt_id"]]
    archive.write([], [GOOD], [])
    assert len(read) == 1


def test_the_same_task_is_welcome_and_another_of_its_name_is_not(tmp_path):
    archive = store(tmp_path)
    assert archive.append(tasks=[TASK]).tasks == 0
    with pytest.raises(ArchiveError, match="t/1"):
        archive.append(tasks=[replace(TASK, prompt="add two")])


APPEND = """
import sys
from upsolve.archive.store import Archive
from upsolve.errors import ArchiveError
from upsolve.types import Task
archive = Archive(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
try:
    print(archive.append(tasks=[Task("t/1", sys.argv[2]), Task("t/2", "the same")]).tasks)
except ArchiveError as error:
    print("different content" in str(error))
"""


def waiting(file):
    """Return how many processes wait for the lock of a file."""
    inode = f":{file.stat().st_ino} "
    return sum(inode in line and "->" in line for line in Path("/proc/locks").read_text().splitlines())


def test_of_two_writers_of_a_task_the_second_is_refused(tmp_path):
    """Both ask while another process holds the lock: what they compare their task with is what is there when they write."""
    archive = Archive.create(tmp_path / "archive")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    writers = [subprocess.Popen([sys.executable, "-c", APPEND, archive.path, prompt], **pipes) for prompt in ("one", "two")]
    with archive.lock():
        for writer in writers:
            assert writer.stdout.readline() == "ready\n"
            writer.stdin.write("\n")
            writer.stdin.flush()
        give_up = time.monotonic() + 2
        while waiting(archive.path / "lock") < 2 and time.monotonic() < give_up:
            time.sleep(0.01)
    assert sorted(writer.communicate()[0] for writer in writers) == ["2\n", "True\n"]
    assert len(archive.column("tasks", "task_id")) == 2


def test_the_last_verdict_of_a_judge_counts_and_ours_before_a_recorded_one_on_as_many_tests(tmp_path):
    recorded = replace(VERDICT, judge="recorded:x", status=Status.PASSED)
    archive = store(tmp_path, verdicts=[VERDICT, recorded])
    assert archive.groups()[0].verdicts == (None, VERDICT)
    assert archive.groups(judge="recorded:x")[0].verdicts == (None, recorded)
    later = replace(VERDICT, status=Status.TIMEOUT)
    archive.append(verdicts=[later])
    assert archive.groups()[0].verdicts == (None, later)
    assert len(archive.verdicts()) == 2


def test_a_half_written_part_is_named_and_the_rest_can_be_read(tmp_path):
    archive = store(tmp_path)
    archive.append(attempts=[Attempt("t/1", "x = 1")])
    first, second = archive.parts("attempts")
    second.write_bytes(second.read_bytes()[:100])
    with pytest.raises(ArchiveError, match=second.name):
        archive.attempts()
    assert archive.tasks() == [TASK]
    second.rename(tmp_path / "aside.parquet")
    assert archive.attempts() == [GOOD, BAD]
    assert first.exists()


def test_what_was_not_finished_is_not_seen(tmp_path):
    archive = store(tmp_path)
    (tmp_path / "attempts" / "00000009-abc.tmp").write_bytes(b"half")
    assert archive.attempts() == [GOOD, BAD]


def test_an_unknown_schema_is_refused(tmp_path):
    store(tmp_path)
    (tmp_path / "archive.json").write_text(json.dumps({"schema": 99}))
    with pytest.raises(SchemaError, match="99"):
        Archive(tmp_path)


def test_an_archive_of_the_first_version_is_read_and_gets_the_new_one_when_written_to(tmp_path):
    archive = store(tmp_path)
    for part in (tmp_path / "tasks").glob("*.parquet"):
        pq.write_table(pq.read_table(part).drop_columns(["compare", "checker"]), part)
    (tmp_path / "archive.json").write_text(json.dumps({"schema": 1, "ingested": ["x"]}))
    archive = Archive(tmp_path)
    assert [task.compare for task in archive.tasks()] == ["lines"] * len(archive.tasks())
    archive.append(attempts=[GOOD])
    assert archive.meta() == {"schema": SCHEMA, "ingested": ["x"]}


def test_attempts_of_the_fourth_version_have_no_log_probabilities_of_tokens(tmp_path):
    archive = Archive.create(tmp_path)
    archive.append(attempts=[replace(GOOD, token_ids=(1, 2), token_logps=(-0.25, -3.0))])
    (part,) = archive.parts("attempts")
    pq.write_table(pq.read_table(part).drop_columns(["token_logps"]), part)
    assert archive.attempts() == [replace(GOOD, token_ids=(1, 2))]


def test_log_probabilities_that_are_not_one_a_token_are_refused():
    with pytest.raises(ValueError, match="token_logps has 3 values for 2 token_ids"):
        replace(GOOD, token_ids=(1, 2), token_logps=(-0.25, -3.0, -1.0))
    with pytest.raises(ValueError, match="token_logps has 1 values for 0 token_ids"):
        replace(GOOD, token_logps=(-0.25,))


def test_verdicts_of_the_second_version_are_read(tmp_path):
    """Its findings had no value, its verdicts no analyses."""
    archive = Archive.create(tmp_path)
    archive.append(verdicts=[Verdict("x", Status.FAILED, findings=(Finding("lint", "F401", "m", 1),))])
    (part,) = archive.parts("verdicts")
    rows = pq.read_table(part).drop_columns(["analyses"]).to_pylist()
    for finding in rows[0]["findings"]:
        del finding["value"]
    second = pa.list_(pa.struct([field for field in FINDING if field.name != "value"]))
    kept = [field for field in TABLES["verdicts"] if field.name != "analyses"]
    columns = [field.with_type(second) if field.name == "findings" else field for field in kept]
    pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema(columns)), part)
    (verdict,) = archive.verdicts()
    assert verdict.findings == (Finding("lint", "F401", "m", 1, value=None),) and verdict.analyses == ()


def test_a_folder_that_is_no_archive(tmp_path):
    with pytest.raises(ArchiveError, match="archive.json is missing"):
        Archive(tmp_path)
    (tmp_path / "archive.json").write_text("{")
    with pytest.raises(ArchiveError, match="damaged"):
        Archive(tmp_path)


def test_questions_in_sql(tmp_path):
    archive = store(tmp_path)
    answer = archive.query("select author, status from attempts join verdicts using (attempt_id)")
    assert answer.to_pylist() == [{"author": "b", "status": "failed"}]
    with pytest.raises(ArchiveError, match="nothing"):
        archive.query("select * from nothing")


def test_text_that_parquet_cannot_hold_is_replaced(tmp_path):
    archive = Archive.create(tmp_path)
    archive.append(attempts=[Attempt("t/1", "x = '\ud800'")])
    assert "x = '" in archive.attempts()[0].code


def test_the_embedded_archive_keeps_its_promises():
    archive = open_archive("embedded")
    info, groups = archive_info(archive), archive.groups()
    assert info.tasks >= 240 and info.unjudged == 0 and info.bytes < 5_000_000
    assert {task.difficulty for task in archive.tasks()} == {"easy", "medium", "hard"}
    for group in groups:
        tests = group.task.tests
        assert sum(not t.hidden for t in tests) >= 5 and sum(t.hidden for t in tests) >= 5, group.task.task_id
        assert group.task.reference and len(group.attempts) >= 8, group.task.task_id
        statuses = {verdict.status for verdict in group.verdicts}
        assert Status.PASSED in statuses and len(statuses) > 1, group.task.task_id


def test_a_mistyped_archive_is_answered_with_the_nearest_names(tmp_path, monkeypatch):
    Archive.create(tmp_path / "my-archive")
    (tmp_path / "my-archivist").mkdir()
    with pytest.raises(ArchiveError, match=f"did you mean {tmp_path}/my-archive\\?$"):
        open_archive(tmp_path / "my-archve")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArchiveError, match="did you mean embedded or embedded-sql\\?$"):
        open_archive("embeded")
    with pytest.raises(ArchiveError, match="create one with `upsolve ingest`$"):
        open_archive("none/none")
