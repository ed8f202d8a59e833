import os
from pathlib import Path

import pytest

from upsolve.archive.store import Archive
from upsolve.exports.exporting import export_archive
from upsolve.files import write_text
from upsolve.solve.asked import AnswerFile
from upsolve.types import Task


def test_a_file_is_written_with_its_folders_and_nothing_is_left_beside_it(tmp_path):
    file = tmp_path / "a" / "b" / "runs.v1.json"
    for text in ("é\n", "second"):
        write_text(file, text)
        assert file.read_text(encoding="utf-8") == text
    assert [*file.parent.iterdir()] == [file]


def test_what_was_there_stays_when_writing_fails(tmp_path, monkeypatch):
    file = tmp_path / "kept"
    write_text(file, "first")

    def full(_handle):
        raise OSError(28, "no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_text(file, "second")
    assert file.read_text(encoding="utf-8") == "first"


@pytest.mark.parametrize("device", ["pipe", "/dev/stdout"])
def test_no_file_takes_the_place_of_a_device(tmp_path, monkeypatch, device):
    """The real names of devices are not written to: as root, a rename would remove them from the machine."""
    os.mkfifo(tmp_path / "pipe")
    archive = Archive.create(tmp_path / "archive")
    archive.append(tasks=[Task("a", "Add.")])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: pytest.fail("renamed"))
    for write in (
        lambda: write_text(Path(device), "x"),
        lambda: export_archive(archive, device),
        lambda: AnswerFile(Path(device), "settings"),
    ):
        with pytest.raises(FileExistsError, match="device or a pipe; name a file"):
            write()
    assert (tmp_path / "pipe").is_fifo()
    assert Path("/dev/stdout").is_symlink()
