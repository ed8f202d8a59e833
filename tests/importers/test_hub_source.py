"""Data sets of the Hub by name, from folders in its layout: the library takes such a folder for a name, and asks nobody."""

import sys
from importlib.util import find_spec

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from upsolve.archive.places import download, is_data_set
from upsolve.archive.store import Archive
from upsolve.cli.main import main
from upsolve.errors import SourceError
from upsolve.importers.ingest import ingest

pytestmark = pytest.mark.skipif(not find_spec("datasets"), reason="needs the library datasets")

CARD = "---\nconfigs:\n- config_name: default\n  data_files: data/*.parquet\n- config_name: hard\n  data_files: hard/*.parquet\n---\n"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working folder with the data set ``org/codes``, and no connection."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    (tmp_path / "org" / "codes" / "data").mkdir(parents=True)
    for split, codes in (("train", ["x = 1", "x = 2"]), ("test", ["x = 3"])):
        table = pa.table(
            {"prompt": ["Set x."] * len(codes), "code": codes, "passed": [True] * len(codes), "user": ["a"] * len(codes)}
        )
        pq.write_table(table, tmp_path / "org" / "codes" / "data" / f"{split}-00000-of-00001.parquet")
    return tmp_path


def codes_of(archive):
    return sorted(attempt.code for attempt in archive.attempts())


def test_a_split_is_imported_by_the_command(here, monkeypatch, capfd):
    words = ["upsolve", "ingest", "table", "hf://org/codes:train", "archive", "--status", "passed", "--author", "user"]
    for said in ("5 records read = 5 stored (1 tasks, 2 attempts, 2 verdicts)", "already imported"):
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as ended:
            main()
        out = capfd.readouterr().out
        assert not ended.value.code and said in out, out
    archive = Archive(here / "archive")
    assert codes_of(archive) == ["x = 1", "x = 2"] and {a.author for a in archive.attempts()} == {"a"}
    assert [task.source for task in archive.tasks()] == ["codes"]
    assert not [*(here / "cache" / "sources").rglob("*.parquet")]  # copies are removed after the import


def test_all_splits_and_a_change_of_the_data(here):
    archive = Archive.create(here / "archive")
    ingest(archive, "table", "hf://org/codes", author="user")
    assert codes_of(archive) == ["x = 1", "x = 2", "x = 3"]
    assert ingest(archive, "table", "hf://org/codes", author="user").known
    copy = download("hf://org/codes:test")
    assert [file.name for file in copy.iterdir()] == ["test.parquet"] and download("hf://org/codes:test") == copy
    pq.write_table(pa.table({"prompt": ["Set x."], "code": ["x = 4"]}), here / "org/codes/data/test-00000-of-00001.parquet")
    assert download("hf://org/codes:test") != copy and not copy.exists()


def test_a_configuration(here):
    (here / "org" / "codes" / "README.md").write_text(CARD)
    (here / "org" / "codes" / "hard").mkdir()
    rows = [{"prompt": "Set y.", "code": "y = 1", "points": 3}, {"prompt": "Set y.", "code": "y = 2", "points": None}]
    pq.write_table(pa.Table.from_pylist(rows), here / "org/codes/hard/train.parquet")
    archive = Archive.create(here / "archive")
    ingest(archive, "table", "hf://org/codes/hard:train")
    assert codes_of(archive) == ["y = 1", "y = 2"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hf://org/codes:dev", r"hf://org/codes:dev: cannot be read: .*dev.*train.*test"),
        ("hf://org/codes/easy:train", "cannot be read: .*easy.* not found"),
        ("hf://org/none:train", "hf://org/none:train: cannot be read: .*org/none.*; HF_HUB_OFFLINE is set"),
    ],
)
def test_what_is_not_there(here, name, words):
    with pytest.raises(SourceError, match=words) as raised:
        ingest(Archive.create(here / "archive"), "table", name)
    assert "\n" not in str(raised.value)


def test_paths_of_the_file_system_are_no_names():
    assert (
        not is_data_set("hf://datasets/org/codes/data.parquet")
        and not is_data_set("s3://org/codes")
        and not is_data_set("org/codes")
    )
    assert is_data_set("hf://org/codes@main/hard:train[:10]")
