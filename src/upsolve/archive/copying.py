"""Copies of an archive."""

import shutil
from pathlib import Path

from upsolve.archive.places import place_of
from upsolve.archive.store import META, Archive
from upsolve.errors import ArchiveError
from upsolve.files import is_remote

__all__ = ["copy_archive"]


def copy_archive(archive: Archive, folder: str | Path) -> Archive:
    """Copy an archive into a new folder or to a URL, from either; ArchiveError if it is not empty or cannot be written."""
    target = place_of(folder)
    if target.exists() and any(target.iterdir()):
        raise ArchiveError(f"{target}: the folder is not empty; copy the archive into a new folder")
    try:
        files = [
            file
            for file in archive.path.rglob("*")
            if file.is_file() and file.suffix not in (".tmp", ".lock") and file.name != "lock"
        ]
        for file in sorted(files, key=lambda file: file.name == META):  # what an interrupt leaves is no archive
            copy_file(file, target.joinpath(*file.relative_to(archive.path).parts))
    except OSError as error:
        raise ArchiveError(f"{target}: cannot be written: {error}") from error
    return Archive.create(target)


def copy_file(file: Path, copy: Path) -> None:
    """Copy a file block by block."""
    if not is_remote(copy):
        copy.parent.mkdir(parents=True, exist_ok=True)
    with file.open("rb") as read, copy.open("wb") as written:
        shutil.copyfileobj(read, written, 1 << 20)
