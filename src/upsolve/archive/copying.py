"""Copies of an archive."""

import shutil
from pathlib import Path

from upsolve.archive.store import Archive
from upsolve.errors import ArchiveError

__all__ = ["copy_archive"]


def copy_archive(archive: Archive, folder: str | Path) -> Archive:
    """Copy an archive into a new folder; ArchiveError if the folder is not empty or cannot be written."""
    target = Path(folder)
    if target.exists() and any(target.iterdir()):
        raise ArchiveError(f"{target}: the folder is not empty; copy the archive into a new folder")
    try:
        shutil.copytree(archive.path, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.tmp", "lock"))
    except OSError as error:
        raise ArchiveError(f"{target}: cannot be written: {error}") from error
    return Archive(target)
