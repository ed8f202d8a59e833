"""Folders of archives and paths of sources: local ones, and URLs of object stores and other file systems (fsspec).

Object stores have neither renames nor locks. A file written in one piece is visible when it is complete, and parts are never changed, so
readers need neither. Of several writers to the same archive at once, the last one wins in ``archive.json``: let one write at a time.
"""

import fcntl
import re
import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from upsolve.archive.hub import copy_data_set, is_data_set, name_of, version_of
from upsolve.errors import ArchiveError, MissingExtraError, SourceError
from upsolve.extras import needs_extras
from upsolve.files import cache_folder, is_remote
from upsolve.types import content_id

__all__ = ["download", "fresh", "is_url", "listing", "local_place", "locked", "place_of", "remove_folder"]

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def is_url(name: str | Path) -> bool:
    """Return whether this is a URL, such as ``s3://bucket/archive``; ``humaneval:s3://...`` is none."""
    return bool(URL.match(str(name)))


def place_of(name: str | Path) -> Path:
    """Return a path: a local one, or one of universal_pathlib, which reads and writes other file systems, for a URL.

    Raises:
        MissingExtraError: the package that reads this kind of URL is not installed.
        ArchiveError: there is no such kind of URL.
    """
    if is_remote(name) or not is_url(name):
        return Path(name) if isinstance(name, str) else name
    with needs_extras():
        from upath import UPath
    try:
        place: Any = UPath(name)
        place.fs.invalidate_cache()  # creates the file system
        return Path(place.path) if place.protocol in ("file", "local") else place
    except ImportError as error:
        raise MissingExtraError(f"{name}: {error}; S3 comes with the extra `remote`: pip install 'upsolve[remote]'") from error
    except ValueError as error:
        raise ArchiveError(f"{name}: {error}") from error


def local_place(name: str | Path) -> Path:
    """Return a path to write to; ArchiveError for a URL."""
    if is_url(name):
        raise ArchiveError(
            f"{name}: is written to local paths alone; name one, then upload it: `upsolve archive copy` uploads archives"
        )
    return Path(name)


def fresh(place: Path) -> Path:
    """Return a path after forgetting what was known about its file system, which other processes change, too."""
    if is_remote(place):
        remote: Any = place
        remote.fs.invalidate_cache()
    return place


@contextmanager
def locked(file: Path, *, wait: bool = True) -> Generator[None]:
    """Hold the lock of a file; a remote one is not locked.

    Raises:
        BlockingIOError: another process holds it, and this one does not ``wait``.
    """
    if is_remote(file):
        yield
        return
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield


def remove_folder(folder: Path) -> None:
    """Remove a folder with its files, if it exists."""
    if is_remote(folder):
        remote: Any = folder
        if remote.fs.exists(remote.path):
            remote.fs.rm(remote.path, recursive=True)
    else:
        shutil.rmtree(folder, ignore_errors=True)


def listing(url: str) -> Iterator[tuple[str, int, str]]:
    """Yield path, size and version of a remote file, of the files below a remote folder, or of a data set of the Hub.

    Raises:
        SourceError: there is no such file, or it cannot be read.
    """
    if is_data_set(url):
        yield url, 0, version_of(url)
        return
    place: Any = fresh(place_of(url))
    try:
        found = place.fs.find(place.path, detail=True)
    except Exception as error:  # every store has its own exceptions
        raise SourceError(f"{url}: cannot be read: {type(error).__name__}: {error}") from error
    if not found:
        raise SourceError(f"{url}: no such file or folder")
    for path, about in sorted(found.items()):
        yield path, about["size"], str(about.get("ETag") or about.get("mtime") or about.get("created") or "")


def download(url: str) -> Path:
    """Copy a remote file or folder, or a data set of the Hub, into the cache folder; return the copy. Files that are there, of the same version, are not read again.

    Raises:
        SourceError: a file cannot be read.
    """
    files = [*listing(url)]
    folder = cache_folder() / "sources" / content_id(url)
    version = folder / content_id(repr(files))
    for old in folder.glob("*"):
        if old != version:
            remove_folder(old)
    if is_data_set(url):
        copy_data_set(url, version / name_of(url))
        return version / name_of(url)
    place: Any = place_of(url)
    copy = version / (place.name or "source")
    wanted = {path: (size, copy / Path(path).relative_to(place.path)) for path, size, _ in files}
    missing = [path for path, (size, file) in wanted.items() if not file.is_file() or file.stat().st_size != size]
    for start in range(0, len(missing), 1000):
        some = missing[start : start + 1000]
        try:
            place.fs.get(some, [str(wanted[path][1]) for path in some])
        except Exception as error:  # every store has its own exceptions
            raise SourceError(f"{url}: cannot be read: {type(error).__name__}: {error}") from error
    return copy
