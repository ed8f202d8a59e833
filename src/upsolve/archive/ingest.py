"""Import a source into an archive: streaming, once, with bad rows kept aside."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from upsolve.archive.rows import BadRow, Row
from upsolve.archive.sources import codenet, codet, humaneval, jsonl, ldb, mbpp, refactory
from upsolve.archive.store import Archive
from upsolve.errors import SourceError
from upsolve.files import write_text
from upsolve.types import Attempt, Task, Verdict, content_id

__all__ = ["SOURCES", "IngestReport", "ingest"]

Reader = Callable[..., Iterator[Row]]
SOURCES: Mapping[str, Reader] = {
    "codenet": codenet.read,
    "codet": codet.read,
    "humaneval": humaneval.read,
    "jsonl": jsonl.read,
    "ldb": ldb.read,
    "mbpp": mbpp.read,
    "refactory": refactory.read,
}
"""Source name -> reader."""

OPTIONS = {"codenet": frozenset({"language", "most_correct"})}
"""Source name -> what its reader takes beside the path."""

BATCH = 20_000


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What an import did."""

    added: Mapping[str, int]
    """New tasks and attempts, repeated attempts, verdicts."""
    bad: int
    """Rows that could not be used."""
    rejected: Path | None
    """Where they are kept, with the reason."""
    known: bool = False
    """True when this very import was in already, and nothing was done."""

    def text(self) -> str:
        """Return it as one line for a person."""
        if self.known:
            return "this import is in already, nothing was added"
        parts = [f"{count} {name}" for name, count in self.added.items()]
        aside = f"; {self.bad} bad rows kept in {self.rejected}" if self.bad else ""
        return ", ".join(parts) + aside


def import_id(source: str, path: Path, options: Mapping[str, Any]) -> str:
    """Return an id of a source, its options and its files: names, sizes and times of a folder, the content of a file.

    Raises:
        SourceError: the path is not there.
    """
    digest = sha256(json.dumps([source, sorted(options.items())]).encode())
    if path.is_file():
        with path.open("rb") as data:
            while block := data.read(1 << 20):
                digest.update(block)
    elif path.is_dir():
        for file in sorted(path.rglob("*")):
            stat = file.stat()
            digest.update(f"{file.relative_to(path)}|{stat.st_size}|{stat.st_mtime_ns}".encode())
    else:
        raise SourceError(f"{path}: no such file or folder")
    return f"{source}:{digest.hexdigest()[:20]}"


def ingest(
    archive: Archive,
    source: str,
    path: str | Path,
    *,
    on_rows: Callable[[int], None] | None = None,
    sources: Mapping[str, Reader] = SOURCES,
    **options: Any,
) -> IngestReport:
    """Import ``path`` by the reader named ``source``; an import that is in already is not counted twice, and one that was stopped
    starts over without leaving anything double.

    Args:
        archive: where to.
        source: a name in ``sources``.
        path: file or folder.
        on_rows: called with the number of rows read so far.
        sources: readers by name.
        options: more arguments of the reader, such as ``language`` and ``most_correct`` of CodeNet's.

    Raises:
        SourceError: unknown source, or the path is not what the source needs.
        ArchiveError: a task is there with another content.
    """
    if source not in sources:
        raise SourceError(f"unknown source {source!r}; known: {', '.join(sources)}")
    place = Path(path)
    if odd := options.keys() - OPTIONS.get(source, frozenset()):
        raise SourceError(f"source {source} has no option {', '.join(sorted(odd))}")
    name = import_id(source, place, options)
    tag = content_id(name)
    if name in archive.ingested():
        return IngestReport({}, 0, None, known=True)
    rejected = archive.path / "rejected" / f"{name.replace(':', '-')}.jsonl"
    added: Counter[str] = Counter()
    bad: list[BadRow] = []
    batch: list[Row] = []
    archive.drop(tag)
    for count, row in enumerate(sources[source](place, **options), start=1):
        (bad if isinstance(row, BadRow) else batch).append(row)  # type: ignore[arg-type]
        if len(batch) >= BATCH:
            added.update(add(archive, batch, tag))
            batch = []
            if on_rows:
                on_rows(count)
    added.update(add(archive, batch, tag))
    if bad:
        set_aside(bad, rejected)
    archive.remember(name)
    return IngestReport(dict(added), len(bad), rejected if bad else None)


def set_aside(bad: list[BadRow], file: Path) -> None:
    """Write down the rows that could not be used."""
    write_text(file, "".join(json.dumps(asdict(row)) + "\n" for row in bad))


def add(archive: Archive, batch: list[Row], tag: str) -> dict[str, int]:
    """Append a batch and return what was added."""
    done = archive.append(
        tasks=[row for row in batch if isinstance(row, Task)],
        attempts=[row for row in batch if isinstance(row, Attempt)],
        verdicts=[row for row in batch if isinstance(row, Verdict)],
        tag=tag,
    )
    return asdict(done)
