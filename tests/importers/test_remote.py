"""Archives and sources in an object store: moto's S3 server on loopback, read and written by s3fs."""

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest
from killing import stored
from typer.testing import CliRunner

from upsolve.archive import places
from upsolve.archive.compacting import compact
from upsolve.archive.info import archive_info
from upsolve.archive.store import Archive, copy_archive, open_archive
from upsolve.archive.unjudged import unjudged
from upsolve.cli.main import app
from upsolve.errors import ArchiveError, SourceError
from upsolve.importers.ingest import ingest
from upsolve.types import Attempt, Status, Task, Verdict

pytestmark = pytest.mark.skipif(not (find_spec("s3fs") and find_spec("upath")), reason="needs the extra remote")
ROWS = [
    {"question": f"do {task}", "code": f"print({task}, {number})", "status": "passed" if number else "failed"}
    for task in range(3)
    for number in range(4)
]


@pytest.fixture(scope="module")
def server():
    moto = pytest.importorskip("moto.server")
    started = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    started.start()
    host, port = started.get_host_and_port()
    yield f"http://{host}:{port}"
    started.stop()


@pytest.fixture
def files(server, monkeypatch, tmp_path):
    """The file system of the server, with the settings by which s3fs finds it."""
    for name, value in {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "key",
        "AWS_DEFAULT_REGION": "us-east-1",
        "UPSOLVE_CACHE": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    from s3fs import S3FileSystem

    S3FileSystem.clear_instance_cache()
    return S3FileSystem()


@pytest.fixture
def bucket(files, tmp_path):
    """The URL of an empty bucket."""
    name = f"bucket-{tmp_path.name.replace('_', '-')}"[:60].rstrip("-").lower()
    files.mkdir(name)
    return f"s3://{name}"


def local(tmp_path):
    archive = Archive.create(tmp_path / "local")
    tasks = [Task(f"t{number}", "do") for number in range(3)]
    attempts = [Attempt(task.task_id, f"print({number})") for task in tasks for number in range(4)]
    archive.append(tasks=tasks, attempts=attempts[:5])
    verdicts = [Verdict(one.attempt_id, Status.PASSED, judge="recorded:x") for one in attempts[:7]]
    archive.append(attempts=attempts[5:], verdicts=verdicts)
    return archive


@pytest.mark.slow
def test_an_archive_at_a_url_is_read_as_a_local_one(tmp_path, bucket, monkeypatch):
    here = local(tmp_path)
    copy_archive(here, f"{bucket}/archive")
    there = open_archive(f"{bucket}/archive")
    assert there.meta() == here.meta()
    assert [part.name for part in there.parts("attempts")] == [part.name for part in here.parts("attempts")]
    assert (there.tasks(), there.attempts(), there.verdicts()) == (here.tasks(), here.attempts(), here.verdicts())
    assert [*there.groups()] == [*here.groups()]
    assert archive_info(there) == archive_info(here)
    question = "select task_id, count(*) as n from attempts group by task_id order by task_id"
    assert there.query(question).to_pylist() == here.query(question).to_pylist()
    with unjudged(there, "upsolve-1") as programs:
        assert len(programs) == 12 and len([*programs]) == 12
    monkeypatch.setattr("upsolve.archive.groups.SMALL_BYTES", 0)
    assert [*there.groups()] == [*here.groups()] and [*(tmp_path / "cache" / "groups").glob("*/*.arrow")]
    back = copy_archive(there, tmp_path / "back")
    assert [*back.groups()] == [*here.groups()]


@pytest.mark.slow
def test_training_reads_an_archive_at_a_url(tmp_path, bucket, tiny_model):
    here = Archive.create(tmp_path / "local")
    tasks = [Task(f"t{number}", f"print {number}") for number in range(8)]
    attempts = [Attempt(task.task_id, f"print({number})") for task in tasks for number in range(4)]
    statuses = [Status.PASSED if number % 2 else Status.FAILED for number in range(len(attempts))]
    verdicts = [Verdict(one.attempt_id, status, judge="recorded:x") for one, status in zip(attempts, statuses, strict=True)]
    here.append(tasks=tasks, attempts=attempts, verdicts=verdicts)
    copy_archive(here, f"{bucket}/train")
    metrics = {}
    for place in (str(here.path), f"{bucket}/train"):
        sets = (f"data.archive={place}", f"model.name={tiny_model}", "optim.max_steps=2", "optim.tokens_per_step=256")
        out = tmp_path / f"run-{len(metrics)}"
        words = ["train", "rloo", "--out", str(out), *(word for value in sets for word in ("--set", value))]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        metrics[place] = [(row["loss"], row["grad_norm"]) for row in rows if "loss" in row]
    local_losses, remote_losses = metrics.values()
    assert local_losses == remote_losses and len(local_losses) == 2


def test_an_archive_at_a_url_is_written(tmp_path, bucket, files):
    here, there = local(tmp_path), Archive.create(f"{bucket}/new")
    assert there.groups() == [] and not files.exists(f"{bucket}/new/tasks")
    (tmp_path / "rows").mkdir()
    for number in range(2):
        rows = "".join(json.dumps(row) + "\n" for row in [*ROWS[number::2], {"code": "no prompt"}])
        (tmp_path / "rows" / f"{number}.jsonl").write_text(rows)
    for archive in (here, there):
        report = ingest(archive, "table", tmp_path / "rows", prompt="question", max_rejected=1)
        assert (report.added["attempts"], report.bad, len(report.rejected.read_text().splitlines())) == (12, 2, 2)
        assert ingest(archive, "table", tmp_path / "rows", prompt="question").known
    names = files.find(f"{bucket}/new", refresh=True)
    assert not [name for name in names if "imports" in name or name.endswith(("lock", ".tmp"))]
    assert there.attempts() == here.attempts()[12:]
    there.append(verdicts=[Verdict(there.attempts()[0].attempt_id, Status.FAILED, judge="upsolve-1")])
    assert len(Archive(f"{bucket}/new").verdicts()) == 13


@pytest.mark.slow
def test_an_archive_at_a_url_is_cleaned_filled_and_viewed(tmp_path, bucket):
    there = copy_archive(local(tmp_path), f"{bucket}/source")
    there.append(attempts=[Attempt("t0", "x = 1  # mail ann@corp.io")])
    words = ["archive", "doctor", f"{bucket}/source", "--check", "secrets", "--fix"]
    done = CliRunner().invoke(app, [*words, str(tmp_path / "fixed")])
    assert done.exit_code == 0, done.output
    assert "EMAIL_1" in Archive(tmp_path / "fixed").attempts()[-1].code
    assert CliRunner().invoke(app, ["archive", "fill-expected", f"{bucket}/source", f"{bucket}/filled"]).exit_code == 0
    assert Archive(f"{bucket}/filled").attempts() == there.attempts()
    page = tmp_path / "page.html"
    done = CliRunner().invoke(app, ["view", f"{bucket}/source", "--static", str(page)])
    assert done.exit_code == 0 and "13 attempts" in done.output and page.exists()
    for command in (
        words,
        ["archive", "export", f"{bucket}/source"],
        ["archive", "export", f"{bucket}/source", "--as", "pairs"],
    ):
        done = CliRunner().invoke(app, [*command, f"{bucket}/out"])
        assert isinstance(done.exception, ArchiveError) and f"{bucket}/out: results are written to local paths" in str(
            done.exception
        )


@pytest.mark.slow
def test_an_archive_at_a_url_is_compacted(tmp_path, bucket, files):
    here = local(tmp_path)
    copy_archive(here, f"{bucket}/parts")
    there = open_archive(f"{bucket}/parts")
    assert compact(there).after == 3 and compact(there, keep_hours=0).removed == 2
    assert stored(there) == stored(here) and [*there.groups()] == [*here.groups()]
    assert len(files.find(f"{bucket}/parts", refresh=True)) == 4


def test_what_another_process_adds_is_seen(bucket):
    archive = Archive.create(f"{bucket}/shared")
    assert archive.tasks() == [] and archive.ingested() == []
    script = f"""
from upsolve.archive.store import Archive
from upsolve.types import Task
archive = Archive({f"{bucket}/shared"!r})
archive.append(tasks=[Task("t", "do")])
with archive.lock():
    archive.remember_locked("one", "")
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    assert [task.task_id for task in archive.tasks()] == ["t"] and archive.ingested() == ["one"]


@pytest.mark.parametrize("folder", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_source_at_a_url_is_imported_once(tmp_path, bucket, files, folder):
    name = f"{bucket}/in/puzzles" + ("" if folder else ".jsonl")
    files.pipe_file(f"{name}/a.jsonl" if folder else name, "".join(json.dumps(row) + "\n" for row in ROWS).encode())
    archive = Archive.create(tmp_path / "archive")
    report = ingest(archive, "table", name, prompt="question")
    assert (report.added["tasks"], report.added["attempts"]) == (3, 12)
    assert {task.source for task in archive.tasks()} == {"puzzles"}
    assert ingest(archive, "table", name, prompt="question").known
    assert not [*(tmp_path / "cache" / "sources").glob("*")]
    files.pipe_file(f"{name}/a.jsonl" if folder else name, json.dumps({**ROWS[0], "code": "new"}).encode())
    assert ingest(archive, "table", name, prompt="question").added["attempts"] == 1


def test_a_stopped_download_goes_on(bucket, files):
    for number in range(3):
        files.pipe_file(f"{bucket}/tree/sub/{number}.txt", f"file {number}".encode())
    copy = places.download(f"{bucket}/tree")
    (copy / "sub" / "1.txt").write_text("fi")
    (copy / "sub" / "2.txt").unlink()
    kept = (copy / "sub" / "0.txt").stat().st_mtime_ns
    assert places.download(f"{bucket}/tree") == copy
    assert [(copy / "sub" / f"{number}.txt").read_text() for number in range(3)] == ["file 0", "file 1", "file 2"]
    assert (copy / "sub" / "0.txt").stat().st_mtime_ns == kept
    files.pipe_file(f"{bucket}/tree/sub/0.txt", b"FILE 0")  # as large, and another
    assert (places.download(f"{bucket}/tree") / "sub" / "0.txt").read_text() == "FILE 0" and not copy.exists()


@pytest.mark.slow
def test_the_commands_take_urls(tmp_path, bucket):
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    run = CliRunner().invoke
    words = ["ingest", "table", str(tmp_path / "in.jsonl"), f"{bucket}/cli", "--prompt", "question"]
    assert "stored (3 tasks, 12 attempts, 12 verdicts)" in run(app, words).output
    assert "12" in run(app, ["archive", "info", f"{bucket}/cli"]).output
    assert (
        "9" in run(app, ["archive", "query", f"{bucket}/cli", "select count(*) from verdicts where status = 'passed'"]).output
    )
    assert run(app, ["archive", "copy", f"{bucket}/cli", str(tmp_path / "copy")]).exit_code == 0
    assert len(Archive(tmp_path / "copy").attempts()) == 12


def test_errors_name_the_cause(bucket):
    with pytest.raises(ArchiveError, match="not an archive"):
        Archive(f"{bucket}/nothing")
    with pytest.raises(SourceError, match="no such file"):
        places.download(f"{bucket}/nothing")
    with pytest.raises(ArchiveError, match="nope"):
        Archive("nope://bucket/archive")


@pytest.mark.slow
@pytest.mark.parametrize("module", ["s3fs", "upath"])
def test_a_missing_package_is_named_with_its_extra(module):
    script = f"""
import sys
sys.modules[{module!r}] = None
from upsolve.archive.store import Archive
Archive("s3://bucket/archive")
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert "MissingExtraError" in done.stderr and "pip install 'upsolve[remote]'" in done.stderr


def test_other_file_systems_and_local_urls(tmp_path):
    assert Archive.create(f"file://{tmp_path}/local").path == tmp_path / "local"
    archive = Archive.create("memory://bucket/archive")
    archive.append(tasks=[Task("t", "do")], attempts=[Attempt("t", "print(1)")])
    assert len(archive.groups()) == 1
    assert not places.is_url("humaneval:s3://bucket/HumanEval.jsonl") and not places.is_url(tmp_path)
