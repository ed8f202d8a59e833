"""An import that ends with an error leaves no empty archive behind."""

import pytest

from upsolve.archive.store import Archive, archive_for_import
from upsolve.types import Task


def test_what_was_stored_before_the_error_and_what_another_import_has_begun_stay(tmp_path):
    with pytest.raises(KeyboardInterrupt), archive_for_import(tmp_path / "archive") as archive:
        archive.append(tasks=[Task("a", "Double x.")])
        raise KeyboardInterrupt
    assert [task.task_id for task in Archive(tmp_path / "archive").tasks()] == ["a"]
    with pytest.raises(KeyboardInterrupt), archive_for_import(tmp_path / "other") as archive:
        for tag in ("1", "2"):
            (archive.path / "imports" / tag).mkdir(parents=True)
            (archive.path / "imports" / tag / "plan.json").write_text("{}")
        raise KeyboardInterrupt
    assert (tmp_path / "other" / "archive.json").exists()
