"""An archive for an import: a new one that the import leaves empty, because it ended with an error, is removed again."""

from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path

from upsolve.archive.places import fresh, place_of, remove_folder
from upsolve.archive.schema import TABLES
from upsolve.archive.store import META, Archive, create_archive
from upsolve.files import is_remote

__all__ = ["archive_for_import"]


@contextmanager
def archive_for_import(path: str | Path) -> Generator[Archive]:
    """Open the archive in a folder, or create one, for the time of an import.

    If the import raises and has stored nothing, an archive that was created here is removed, and so is its folder, unless there are other
    files in it or it was there before.
    """
    folder = place_of(path)
    made = [] if is_remote(folder) else [place for place in (folder, *folder.parents) if not place.exists()]
    is_new = not (folder / META).exists()
    archive = create_archive(path)
    try:
        yield archive
    except BaseException:
        if is_new and not any(archive.parts(name) for name in TABLES):
            remove_empty(archive)
            remove_empty_folders(made)
        raise


def remove_empty(archive: Archive) -> None:
    """Remove the files of an archive without parts, unless another import has begun in it."""
    with archive.lock():
        if len(list(fresh(archive.path / "imports").glob("*/plan.json"))) > 1:
            return
        remove_folder(archive.path / "imports")
        for name in (META, "lock"):
            (archive.path / name).unlink(missing_ok=True)
    remove_empty_folders([] if is_remote(archive.path) else [archive.path / name for name in TABLES])


def remove_empty_folders(folders: Iterable[Path]) -> None:
    """Remove folders in turn, up to the first that has files."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()
