"""Atomic writes of files and folders, rows of JSON, and the cache folder. Uses the standard library only."""

import errno
import json
import os
import shutil
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

__all__ = [
    "RowFile",
    "cache_folder",
    "commit_file",
    "commit_folder",
    "is_remote",
    "json_lines",
    "read_rows",
    "refuse_device",
    "replaced",
    "row_in",
    "write_text",
]


def cache_folder() -> Path:
    """Return the folder of caches: $UPSOLVE_CACHE, or upsolve/ under $XDG_CACHE_HOME or ~/.cache."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("UPSOLVE_CACHE") or Path(home) / "upsolve")


def is_remote(path: object) -> bool:
    """Return whether a path is in a remote file system (``upsolve.archive.places.place_of``)."""
    return not isinstance(path, str | Path)


def refuse_device(path: Path) -> None:
    """Raise FileExistsError for a device or pipe such as /dev/stdout: an atomic write would replace it by a file."""
    if path.absolute().parent in (Path("/dev"), Path("/dev/fd")) or (
        path.exists() and not path.is_file() and not path.is_dir()
    ):
        raise FileExistsError(errno.EEXIST, "is a device or a pipe; name a file", str(path))


def write_text(path: Path, text: str) -> None:
    """Write a small file atomically, with the folders above it; if several processes write it, the last one wins."""
    if is_remote(path):  # an object is visible when it is complete
        path.write_text(text, encoding="utf-8")
        return
    refuse_device(path)
    with replaced(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def replaced(path: Path) -> Generator[Path]:
    """Yield a local temporary file that is renamed to ``path`` when the context ends; after an exception no file is left.

    Missing folders above a local file are created. A remote file is uploaded as a whole.
    """
    if is_remote(path):
        remote: Any = path
        with TemporaryDirectory(prefix="upsolve-") as folder:
            temporary = Path(folder) / path.name
            yield temporary
            remote.fs.put_file(str(temporary), remote.path)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        commit_file(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def commit_file(temporary: Path, final: Path) -> None:
    """Flush a file to disk, then rename it: after a power cut, the name belongs to the old file or to the complete new one."""
    flush(temporary)
    temporary.replace(final)


def commit_folder(temporary: Path, final: Path) -> None:
    """Flush the files of a folder to disk, then rename the folder; an existing folder of that name is replaced."""
    for path in temporary.rglob("*"):
        if path.is_file() and not path.is_symlink():
            flush(path)
    old = final.with_name(f"{final.name}.{os.getpid()}.old")
    if final.exists():
        final.rename(old)
    temporary.rename(final)
    shutil.rmtree(old, ignore_errors=True)


def flush(file: Path) -> None:
    """Flush the system's buffers of a file to disk."""
    with file.open("rb") as handle:
        os.fsync(handle.fileno())


def json_lines(rows: Iterable[Any]) -> str:
    """Return rows as JSON, a line each."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def row_in(line: str) -> dict[str, Any] | None:
    """Return the JSON object in a line; None for any other text, such as the incomplete last line of a process that was killed."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON-lines file without unreadable lines; [] if there is no file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [row for row in map(row_in, lines) if row is not None]


class RowFile:
    """The rows of a command as JSON lines, after a line that identifies the command's settings. The same command resumes after the stored rows."""

    def __init__(self, path: Path, key: str) -> None:
        """Open the file, or begin it; ValueError, and the file stays as it is, if it was begun with another ``key``."""
        refuse_device(path)
        self.path, self.head = path, {"settings": key}
        stored = read_rows(path)
        if path.exists() and path.stat().st_size and stored[:1] != [self.head]:
            raise ValueError(f"{path}: holds rows of other settings; remove it, or name another file")
        self.rows: list[dict[str, Any]] = stored[1:]
        """All rows, those of earlier commands first."""
        self.write()

    def add(self, row: dict[str, Any]) -> None:
        """Append a row."""
        self.rows.append(row)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json_lines([row]))

    def write(self) -> None:
        """Write all rows, atomically."""
        write_text(self.path, json_lines([self.head, *self.rows]))
