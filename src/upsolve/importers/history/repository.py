"""Reads a repository through the program ``git``: no checkout, no hook, no network, and no program that its settings name."""

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from upsolve.errors import SourceError

__all__ = ["Commit", "Repository"]

SAFE = (
    *("--no-pager", "--no-replace-objects"),
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "protocol.allow=never"),
)
"""Options before every command: settings of a repository could name programs, which then would run with the rights of the user."""
FORMAT = "--format=format:%H%x00%P%x00%an%x00%aI%x00%B%x00%x1e"


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit with one parent."""

    name: str
    """Its hash."""
    parent: str
    """Hash of its parent; empty for the first commit."""
    author: str
    """Name of its author."""
    created: str
    """When it was written, ISO 8601."""
    message: str
    """Its message."""
    changes: tuple[str, ...]
    """What it does to each file: ``M src/a.py``; A: added, D: deleted, M: modified, T: another type."""

    def modified(self) -> list[str]:
        """Return the files that it modifies or adds."""
        return [change[2:] for change in self.changes if change[0] in "AM"]


class Repository:
    """A repository, bare or with a working tree; use as a context manager."""

    def __init__(self, path: Path) -> None:
        """Set the path.

        Raises:
            SourceError: it is not a repository, or ``git`` is not installed.
        """
        self.path = path
        self.run("rev-parse", "--git-dir")
        self.blobs = subprocess.Popen(
            [*self.command(), "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def __enter__(self) -> "Repository":
        """Return the repository."""
        return self

    def __exit__(self, *_error: object) -> None:
        """End the process that reads files."""
        self.blobs.communicate()

    def command(self) -> list[str]:
        """Return the first words of a command."""
        return ["git", *SAFE, "-C", str(self.path)]

    def run(self, *words: str, stdin: bytes = b"") -> str:
        """Return the output of a command of ``git``.

        Raises:
            SourceError: it failed; the message is the program's own.
        """
        try:
            done = subprocess.run([*self.command(), *words], input=stdin, capture_output=True, check=False)
        except OSError as error:
            raise SourceError(f"git cannot be run: {error}; install the program git") from error
        if done.returncode != 0:
            raise SourceError(f"{self.path}: git {words[0]}: {done.stderr.decode('utf-8', 'replace').strip()[:300]}")
        return done.stdout.decode("utf-8", "replace")

    def commits(self, revision: str) -> Iterator[Commit]:
        """Yield the commits that lead to a revision, oldest first, without merges.

        Raises:
            SourceError: there is no such revision.
        """
        options = ("--reverse", "--topo-order", "--no-merges", "--end-of-options", revision)
        listed = self.run("rev-list", "--no-commit-header", "--encoding=UTF-8", FORMAT, *options)
        changes = self.changes(self.run("rev-list", *options))
        for record in listed.split("\0\x1e\n"):
            if record.strip("\0\x1e\n"):
                name, parent, author, created, message = record.removesuffix("\0\x1e").split("\0", 4)
                yield Commit(name, parent, author, created, message.strip(), tuple(changes.get(name, ())))

    def changes(self, names: str) -> dict[str, list[str]]:
        """Return the changes of commits, given by hash, one per line."""
        options = ("--stdin", "-r", "-z", "--root", "--no-renames", "--name-status", "--no-ext-diff", "--no-textconv")
        found: dict[str, list[str]] = {}
        words = iter(self.run("diff-tree", *options, stdin=names.encode()).split("\0"))
        changes: list[str] = []
        for word in words:
            if len(word) >= 40:
                changes = found.setdefault(word, [])
            elif word:
                changes.append(f"{word} {next(words)}")
        return found

    def files(self, commit: str) -> list[str]:
        """Return the files of a commit."""
        return [name for name in self.run("ls-tree", "-r", "-z", "--name-only", commit).split("\0") if name]

    def names(self, commits: Sequence[str]) -> list[str]:
        """Return the full hashes of commits that may be abbreviated; an empty text for one that does not exist."""
        asked = "".join(f"{commit}^{{commit}}\n" for commit in commits)
        lines = self.run("cat-file", "--batch-check=%(objectname)", stdin=asked.encode()).splitlines()
        return [line if " " not in line else "" for line in lines]

    def read(self, commit: str, path: str) -> str | None:
        """Return the text of a file in a commit; None if there is none, or it is not UTF-8."""
        return None if "\n" in path else read_blob(self, f"{commit}:{path}")


@lru_cache(maxsize=4096)
def read_blob(repository: Repository, name: str) -> str | None:
    """Return the text of an object, such as ``HEAD:src/a.py``."""
    pipe = repository.blobs
    assert pipe.stdin and pipe.stdout
    pipe.stdin.write(f"{name}\n".encode("utf-8", "surrogatepass"))
    pipe.stdin.flush()
    head = pipe.stdout.readline().split()
    if len(head) != 3:
        return None
    data = pipe.stdout.read(int(head[2]))
    pipe.stdout.read(1)
    try:
        return data.decode("utf-8").replace("\r\n", "\n") if head[1] == b"blob" else None
    except UnicodeDecodeError:
        return None
