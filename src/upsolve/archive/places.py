"""Folders of archives and paths of sources: local, in the package, on the Hugging Face Hub, and URLs of other file systems (fsspec).

Object stores have neither renames nor locks. A file written in one piece is visible when it is complete, and parts are never changed, so
readers need neither. If several processes write to the same archive at once, the last one wins in ``archive.json``: let one write at a time.

``hf://ORG/NAME[@REVISION][/CONFIG][:SPLIT]`` is a data set, read by the library ``datasets``; ``hf://datasets/...`` is a path of fsspec.
"""

import fcntl
import re
import shutil
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from upsolve.errors import ArchiveError, MissingExtraError, SourceError, UpsolveError
from upsolve.extras import needs_extras
from upsolve.files import cache_folder, is_remote, replaced
from upsolve.types import content_id

__all__ = [
    "EMBEDDED",
    "SHIPPED",
    "download",
    "fresh",
    "is_url",
    "listing",
    "local_place",
    "locked",
    "place_of",
    "refuse_shipped",
    "remove_folder",
]

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def is_url(name: str | Path) -> bool:
    """Return whether a text is a URL, such as ``s3://bucket/archive``; ``humaneval:s3://...`` is not."""
    return bool(URL.match(str(name)))


def place_of(name: str | Path) -> Path:
    """Return a local path, or for a URL a path of universal_pathlib, which reads and writes other file systems.

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
            f"{name}: results are written to local paths only; name a local path, then upload the result: `upsolve archive copy` uploads archives"
        )
    return Path(name)


def fresh(place: Path) -> Path:
    """Return a path after clearing the cache of its file system, which other processes may have changed."""
    if is_remote(place):
        remote: Any = place
        remote.fs.invalidate_cache()
    return place


@contextmanager
def locked(file: Path, *, wait: bool = True) -> Generator[None]:
    """Hold the lock of a file; remote files are not locked.

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


NAME = re.compile(
    r"hf://(?!(?:buckets|datasets|kernels|models|spaces)/)"
    r"(?P<path>[^/:@]+/[^/:@]+)(?:@(?P<revision>[^/:]+))?(?:/(?P<name>[^/:]+))?(?::(?P<split>.+))?"
)


def is_data_set(url: str) -> bool:
    """Return whether a URL names a data set of the Hub."""
    return bool(NAME.fullmatch(url))


def name_of(url: str) -> str:
    """Return the name of a data set without its organisation."""
    return str(parts_of(url)["path"]).partition("/")[2]


def version_of(url: str) -> str:
    """Return the commit of a data set or, of a folder in the Hub's layout, a hash of its files; raises as ``reading``."""
    options = parts_of(url)
    del options["split"]
    with reading(url) as datasets:
        return str(datasets.load_dataset_builder(**options).hash)


def copy_data_set(url: str, folder: Path) -> None:
    """Write a split, or all, of a data set into a folder, as ``SPLIT.parquet``, some rows at a time; raises as ``reading``."""
    options = parts_of(url)
    with reading(url) as datasets:
        found = datasets.load_dataset(**options, streaming=True)
        for split, rows in ({options["split"]: found} if options["split"] else found).items():
            file = folder / f"{split}.parquet"
            if not file.exists():
                with replaced(file) as temporary:
                    rows.to_parquet(str(temporary))


def parts_of(url: str) -> dict[str, str | None]:
    """Return the parts of a URL of a data set as arguments of ``load_dataset``, by name."""
    match = NAME.fullmatch(url)
    assert match, "a data set of the Hub"
    return match.groupdict()


@contextmanager
def reading(url: str) -> Generator[Any]:
    """Yield the library; SourceError names the data set in one line, MissingExtraError if the extra ``hub`` is not installed."""
    with needs_extras():
        import datasets
        from huggingface_hub.constants import HF_HUB_OFFLINE
    try:
        yield datasets
    except UpsolveError:
        raise
    except Exception as error:  # of the library, of the connection, of the files
        offline = "; HF_HUB_OFFLINE is set: unset it, or name a folder" if HF_HUB_OFFLINE else ""
        raise SourceError(f"{url}: cannot be read: {str(error).splitlines()[0].rstrip('.')}{offline}") from error


EMBEDDED = Path(__file__).parent / "embedded"
"""The archive of Python tasks that comes with the package."""
SHIPPED: Mapping[str, Path] = {"embedded": EMBEDDED, "embedded-sql": EMBEDDED.with_name("embedded_sql")}
"""Archives that come with the package: name -> folder. All are read-only."""


def refuse_shipped(name: str | Path) -> None:
    """Raise ArchiveError if this is the name of an archive of the package, which is read-only."""
    if str(name) in SHIPPED:
        raise ArchiveError(
            f"{name} is part of the package and read-only: copy the archive (`upsolve archive copy {name} DIR`) and use the copy"
        )
