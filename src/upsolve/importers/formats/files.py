"""Files of folders, archives and compressed files, recognised by their content."""

import bz2
import gzip
import lzma
import os
import struct
import tarfile
import warnings
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import BufferedReader, RawIOBase
from operator import itemgetter
from pathlib import Path
from shutil import copyfileobj
from stat import S_ISDIR, S_ISREG
from tempfile import NamedTemporaryFile
from typing import IO, Any
from weakref import finalize
from zipfile import BadZipFile, ZipFile

from upsolve.errors import SourceError, one_line

__all__ = [
    "UNREADABLE",
    "Member",
    "files_of",
    "is_file",
    "is_hidden",
    "member_of",
    "members",
    "members_at",
    "names_in",
    "on_disk",
    "size_of",
    "unreadable",
]

UNREADABLE = (OSError, EOFError, zlib.error, lzma.LZMAError, BadZipFile, tarfile.TarError)
"""Errors raised when a missing or damaged file is read."""
DAMAGED = (*UNREADABLE, LookupError, RuntimeError, struct.error, ValueError)
"""Errors raised when a damaged archive is opened or read."""
HEAD, BLOCK, ENCRYPTED = 512, 1 << 18, 1
"""Number of bytes that decide the format of a file; bytes that are read at a time; flag of an encrypted file in a zip."""
MOST_GIB, RATIO, HARMLESS = 256, 200, 1 << 30
"""Limits of unpacking: GiB that a file may unpack to; above ``HARMLESS`` bytes, unpacked bytes for each packed byte. ``$UPSOLVE_UNPACKED_GIB``
replaces both."""
MADE = ("__MACOSX", "__pycache__", "Thumbs.db", "desktop.ini")
"""Files and folders that macOS, Python and Windows generate."""
DOCUMENT = ("[Content_Types].xml", "mimetype")
"""Files by which a zip is recognised as a document, such as a workbook of Excel."""


def open_zstd(file: IO[bytes]) -> Any:
    """Return the decompressed content of a zstd file as a stream without seek."""
    import pyarrow as pa

    return pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd")


COMPRESSED: dict[bytes, tuple[str, Callable[[IO[bytes]], Any]]] = {
    b"\x1f\x8b": (".gz", gzip.open),
    b"BZh": (".bz2", bz2.open),
    b"\xfd7zXZ\0": (".xz", lzma.open),
    b"(\xb5/\xfd": (".zst", open_zstd),
}
"""First bytes of a compressed file -> ending of its name, and function that decompresses it."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file of a folder or an archive."""

    name: str
    """Path in the folder or archive, with ``/``; in a nested archive ``a.zip/x.c``."""
    size: int
    """Size in bytes; of a compressed file, the compressed size."""
    open: Callable[[], IO[bytes]]
    """Returns the content from its start, decompressed, as often as it is called; opening and reading raise SourceError."""
    path: Path | None
    """The file on disk; None for a compressed file, or a file in an archive."""
    where: str
    """Path for messages: ``logs/a.zip/x.c``."""


@dataclass(slots=True)
class Outer:
    """The file on disk that holds a member."""

    packed: int
    """Size of the file, bytes."""
    encoding: str
    """Encoding of names in a zip without the UTF-8 flag; empty: code page 437."""
    listed: int = 0
    """Total bytes of the files that its archives list."""


class Content(RawIOBase):
    """Content of a member. Errors become SourceError with the member's name; content too large for its compressed file is an error."""

    def __init__(
        self, where: str, packed: int, opener: Callable[[], Any], decompress: Callable[[IO[bytes]], Any] | None
    ) -> None:
        """Open a member of a file of ``packed`` bytes; 0 if it is neither compressed nor in an archive."""
        self.where, self.packed, self.size, self.opener = where, packed, 0, opener
        self.open = list[Any]()
        try:
            self.open.append(opener())
            if decompress:
                self.open.append(decompress(self.open[0]))
        except DAMAGED as error:
            self.close()
            raise unreadable(where, error) from error

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes; SourceError if they are damaged, or exceed the limit."""
        try:
            count = self.open[-1].readinto(buffer)
        except DAMAGED as error:
            raise unreadable(self.where, error) from error
        self.size += count
        refuse_bomb(self.where, self.size, self.packed)
        return count

    def close(self) -> None:
        """Close the content and the file that it is decompressed from."""
        while self.open:
            self.open.pop().close()
        super().close()


def unreadable(where: str, error: Exception) -> SourceError:
    """Return the error for a file that cannot be read, with the remedy."""
    if isinstance(error, FileNotFoundError):
        return SourceError(f"{where}: no such file or folder")
    if isinstance(error, PermissionError):
        return SourceError(f"{where}: cannot be read: this user may not: chmod u+r")
    advice = "" if isinstance(error, SourceError) else "; if it is damaged or cut off, copy or download it again"
    return SourceError(f"{where}: cannot be read: {one_line(error)}{advice}")


def refuse_bomb(where: str, size: int, packed: int) -> None:
    """Raise SourceError for content that is too large, or too large for its compressed file."""
    if size <= HARMLESS or not packed:
        return
    given = os.environ.get("UPSOLVE_UNPACKED_GIB", "")
    most = (float(given) if given else MOST_GIB) * (1 << 30)
    if size > most or (not given and size > RATIO * packed):
        raise SourceError(
            f"{where}: {packed:,} bytes unpack to more than {size:,}; if the file is sound, raise the limit, GiB: UPSOLVE_UNPACKED_GIB=500"
        )


def content(
    where: str, packed: int, opener: Callable[[], Any], decompress: Callable[[IO[bytes]], Any] | None = None
) -> IO[bytes]:
    """Open the content of a member."""
    return BufferedReader(Content(where, packed, opener, decompress), BLOCK)


def member_of(path: Path) -> Member:
    """Return a file, decompressed, or the only file in an archive; SourceError if the archive has several."""
    found = [*members(path)]
    if len(found) != 1:
        raise SourceError(f"{path}: cannot be read: the archive has {len(found)} files; unpack it")
    return found[0]


def members(path: Path, *, encoding: str = "") -> Iterator[Member]:
    """Yield the files of a folder or an archive, nested archives included, sorted by name; any other file is one member.

    Hidden files and those of ``MADE`` are left out, links to folders are not followed, and a compressed file is decompressed. An archive
    that is compressed or in another one is copied to a temporary file. Names in archives are never used as paths.

    Args:
        path: folder, archive (zip or tar), or other file; each may be compressed by gzip, bzip2, xz or zstd.
        encoding: of names in a zip without the UTF-8 flag.

    Raises:
        SourceError: the path does not exist, or an archive is damaged, encrypted or too large.
    """
    if not path.is_dir():
        yield from within(plain(path, path.name), "", Outer(size_of(path), encoding))
        return
    for name in names_in(path):
        yield from members_at(path, name, encoding=encoding)


def members_at(folder: Path, name: str, *, encoding: str = "") -> Iterator[Member]:
    """Yield the files of an archive in a folder, or another file in it, named as ``members`` of the folder names them."""
    yield from within(plain(folder / name, name), f"{name}/", Outer(size_of(folder / name), encoding))


def names_in(folder: Path) -> Iterator[str]:
    """Yield the relative names of the files below a folder, in sorted order, without hidden ones; warns of pipes and links that are not read.

    SourceError if a file may not be read.
    """
    other = ""
    try:
        for name, found in files_of(str(folder), ""):
            if is_hidden(name):
                continue
            if S_ISREG(found.st_mode):
                yield name
            elif not S_ISDIR(found.st_mode):
                other = other or name
    except OSError as error:
        raise unreadable(str(error.filename or folder), error) from error
    if other:
        what = "pipes, devices, and links to folders or to nothing are not read"
        warnings.warn(f"{folder}: {what}, such as {other}", stacklevel=2)


def files_of(folder: str, above: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files of a folder with their relative names, in sorted order, holding one directory in memory at a time."""
    with os.scandir(folder) as there:
        entries = sorted(there, key=lambda entry: entry.name)
    for entry in entries:
        try:
            found = entry.stat(follow_symlinks=entry.is_file())
        except OSError:  # a link to itself
            found = entry.stat(follow_symlinks=False)
        yield f"{above}{entry.name}", found
        if entry.is_dir(follow_symlinks=False):
            yield from files_of(entry.path, f"{above}{entry.name}/")


def is_file(path: Path) -> bool:
    """Return whether a path is a file, or a link to one; False also for a name that no file can have."""
    return os.path.isfile(path)  # noqa: PTH113  that of Path raises for long names


def is_hidden(name: str) -> bool:
    """Return whether a file, or a folder above it, is hidden or made by the system or Python."""
    return any(part.startswith(".") or part in MADE for part in name.split("/"))


def size_of(path: Path) -> int:
    """Return the size of a file; SourceError if it does not exist, or can only be read once."""
    try:
        found = path.stat()
    except OSError as error:
        raise unreadable(str(path), error) from error
    if not S_ISREG(found.st_mode):
        raise SourceError(f"{path}: is a pipe, a device or a folder; name a file")
    return found.st_size


def plain(path: Path, name: str) -> Member:
    """Return a file on disk as a member."""
    return Member(name, size_of(path), partial(content, str(path), 0, partial(path.open, "rb")), path, str(path))


def within(member: Member, prefix: str, outer: Outer) -> Iterator[Member]:
    """Yield the files of a member that is an archive, with a prefix before their names; any other member is yielded itself, decompressed."""
    with member.open() as file:
        head = file.read(HEAD)
    read = zipped if head.startswith((b"PK\3\4", b"PK\5\6")) else tarred if head[257:262] == b"ustar" else None
    if read:
        try:
            last = dict(read(member, outer))  # of entries with the same name, which unpacking keeps
        except DAMAGED as error:
            raise unreadable(member.where, error) from error
        if read is zipped and not last.keys().isdisjoint(DOCUMENT):
            yield member
            return
        for _, entry in sorted(last.items(), key=itemgetter(0)):
            yield from entry_of(entry, prefix, outer) if entry else ()
    elif form := next((form for magic, form in COMPRESSED.items() if head.startswith(magic)), None):
        ending, decompress = form
        opener = partial(content, member.where, outer.packed, member.open, decompress)
        yield from within(Member(member.name.removesuffix(ending), member.size, opener, None, member.where), prefix, outer)
    else:
        yield member


def zipped(member: Member, outer: Outer) -> Iterator[tuple[str, Member | None]]:
    """Yield name and file of each entry of a zip; the file is None for a folder. SourceError if an entry is encrypted."""
    archive = opened(member, partial(ZipFile, metadata_encoding=outer.encoding or None))
    for entry in archive.infolist():
        if entry.flag_bits & ENCRYPTED:
            raise SourceError(f"{member.where}: is encrypted: unpack it with its password (7z x), and import the folder")
        file = Member(entry.filename, entry.file_size, partial(archive.open, entry), None, member.where)
        yield entry.filename, None if entry.is_dir() else file


def tarred(member: Member, _outer: Outer) -> Iterator[tuple[str, Member | None]]:
    """Yield name and file of each entry of a tar; the file is None if the entry is not a file."""
    archive = opened(member, lambda file: tarfile.TarFile(fileobj=file))
    for entry in archive.getmembers():
        file = Member(entry.name, entry.size, partial(archive.extractfile, entry), None, member.where)
        yield entry.name, file if entry.isreg() or entry.islnk() else None


def entry_of(entry: Member, prefix: str, outer: Outer) -> Iterator[Member]:
    """Yield the files of an entry, given its name in the archive and the archive's path; the entry itself may be an archive."""
    name = "/".join(part for part in entry.name.replace("\\", "/").split("/") if part not in ("", ".", ".."))
    where = f"{entry.where}/{name}"
    outer.listed += entry.size
    refuse_bomb(where, outer.listed, outer.packed)
    if name and not is_hidden(name):
        inner = Member(prefix + name, entry.size, partial(content, where, outer.packed, entry.open), None, where)
        yield from within(inner, f"{prefix}{name}/", outer)


def opened(member: Member, read: Callable[[IO[bytes]], Any]) -> Any:
    """Return the archive that a function opens from a member; a temporary copy, made if the member is not on disk, lives as long as the archive."""
    file = member.path.open("rb") if member.path else copied(member)
    try:
        archive = read(file)
    except BaseException:
        file.close()
        raise
    finalize(archive, file.close)
    return archive


def copied(member: Member) -> Any:
    """Return a temporary file, removed when it is closed, with the content of a member."""
    copy = NamedTemporaryFile(prefix="upsolve-", suffix=Path(member.name).suffix)  # noqa: SIM115
    try:
        with member.open() as file:
            copyfileobj(file, copy, BLOCK)
        copy.seek(0)
    except BaseException:
        copy.close()
        raise
    return copy


@contextmanager
def on_disk(member: Member) -> Generator[Path]:
    """Context manager: the path of a member; for a compressed or archived member, of a temporary copy."""
    if member.path:
        yield member.path
        return
    with copied(member) as copy:
        yield Path(copy.name)
