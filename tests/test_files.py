import os

import pytest

from upsolve.files import write_text


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
