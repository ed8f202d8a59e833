"""Files of text that may be compressed (gzip, bzip2, xz, zstd, zip), and the endings of files' names."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterable
from io import BufferedReader
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile, ZipFile

__all__ = ["UNREADABLE", "ends_with", "named", "open_bytes", "packed_too"]


def open_zstd(path: Path) -> IO[bytes]:
    """Open a file compressed by zstd; it cannot be sought."""
    import pyarrow as pa

    stream: Any = pa.input_stream(path, compression="zstd")
    return BufferedReader(stream)


def open_zip(path: Path) -> IO[bytes]:
    """Open the only file in a zip, as pandas writes ``log.csv.zip``; OSError if it has none, several or an encrypted one."""
    archive = ZipFile(path)
    inside = [one for one in archive.infolist() if not one.is_dir() and not one.filename.startswith("__MACOSX/")]
    if len(inside) != 1 or inside[0].flag_bits & ENCRYPTED:
        raise OSError(f"has {len(inside)} files or is encrypted: unpack it")
    return archive.open(inside[0])


ENCRYPTED = 1
"""Flag of an encrypted file in a zip."""
OPEN: dict[str, Callable[[Path], Any]] = {
    "": lambda path: path.open("rb"),
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": open_zstd,
    ".zip": open_zip,
}
"""Last ending of a file's name -> function that opens it; the first one opens files that are not compressed."""
UNREADABLE = (OSError, EOFError, zlib.error, lzma.LZMAError, BadZipFile)
"""What reading a file raises that is missing, damaged, or not compressed as its name says."""


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file for reading what it contains, decompressed as the ending of its name says; ``UNREADABLE`` if that fails."""
    return OPEN.get(path.suffix.lower(), OPEN[""])(path)


def packed_too(*endings: str) -> tuple[str, ...]:
    """Return each ending alone and followed by that of each compression: ``.csv``, ``.csv.gz``, ..."""
    return tuple(ending + packed for ending in endings for packed in OPEN)


def named(endings: Iterable[str]) -> str:
    """Return some endings for a message, without those of compressed files: ``.csv, .tsv (or compressed: .gz, ...)``."""
    packed = tuple(one for one in OPEN if one)
    known = [*endings]
    alone = [ending for ending in known if not ending.endswith(packed)]
    return ", ".join(alone) + (f" (or compressed: {', '.join(packed)})" if len(alone) < len(known) else "")


def ends_with(path: Path, endings: Iterable[str]) -> bool:
    """Return whether a file's name has one of some endings, in small or in capital letters."""
    return path.name.lower().endswith((*endings,))
