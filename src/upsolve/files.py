"""Atomic writes of files and folders, and the cache folder. Uses the standard library only."""

import errno
import os
import shutil
from pathlib import Path

__all__ = ["cache_folder", "commit_file", "commit_folder", "is_remote", "refuse_device", "write_text"]


def cache_folder() -> Path:
    """Return the folder of caches: $UPSOLVE_CACHE, or upsolve/ under $XDG_CACHE_HOME or ~/.cache."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("UPSOLVE_CACHE") or Path(home) / "upsolve")


def is_remote(path: object) -> bool:
    """Return whether a path is one of another file system (``upsolve.archive.places.place_of``)."""
    return not isinstance(path, str | Path)


def refuse_device(path: Path) -> None:
    """Raise FileExistsError for a device or pipe such as /dev/stdout, which a file that is renamed would replace."""
    if path.absolute().parent in (Path("/dev"), Path("/dev/fd")) or (
        path.exists() and not path.is_file() and not path.is_dir()
    ):
        raise FileExistsError(errno.EEXIST, "a device or pipe, not a file", str(path))


def write_text(path: Path, text: str) -> None:
    """Write a small file atomically, with the folders above it; if several processes write it, the last one wins."""
    if is_remote(path):  # an object is visible when it is complete
        path.write_text(text, encoding="utf-8")
        return
    refuse_device(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        commit_file(temporary, path)
    except BaseException:  # a full disk or an interrupt leaves no incomplete file
        temporary.unlink(missing_ok=True)
        raise


def commit_file(temporary: Path, final: Path) -> None:
    """Flush a file to disk and give it its name: after a power cut, the name is that of the old file or of the whole new one."""
    flush(temporary)
    temporary.replace(final)


def commit_folder(temporary: Path, final: Path) -> None:
    """Flush the files of a folder to disk and give it its name; a folder of that name is replaced."""
    for path in temporary.rglob("*"):
        if path.is_file() and not path.is_symlink():
            flush(path)
    old = final.with_name(f"{final.name}.{os.getpid()}.old")
    if final.exists():
        final.rename(old)
    temporary.rename(final)
    shutil.rmtree(old, ignore_errors=True)


def flush(file: Path) -> None:
    """Write what the system holds of a file to disk."""
    with file.open("rb") as handle:
        os.fsync(handle.fileno())
