"""Commits that change one file of Python: the file before is an attempt, and so is the file after."""

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from upsolve.importers.history.modules import closure, module_name, outside, setup_of
from upsolve.importers.history.repository import Commit, Repository
from upsolve.importers.history.statements import Test, is_test_file, read_tests
from upsolve.importers.rows import BadRow
from upsolve.importers.source import SHARE_BYTES, Unit
from upsolve.progress import OnProgress, no_progress
from upsolve.types import Attempt, Task

__all__ = ["Change", "bad_commit", "changes_of", "commit_units", "repository_name"]

COMMITS, MOST_UNITS = 10, 256
"""Fewest commits of a unit, unless there are no more, and most units: each lists the history again."""


@dataclass(frozen=True, slots=True)
class Change:
    """A commit that changes one file of Python, other than tests."""

    repository: str
    """Name of the repository."""
    commit: Commit
    """The commit."""
    path: str
    """The file."""
    before: str
    """Its text before the commit."""
    after: str
    """Its text after it."""
    files: tuple[str, ...]
    """Files of Python in the commit."""
    source: str = "git"
    """First part of the task's id: ``git``, or ``ci`` where reports decide."""

    @property
    def task_id(self) -> str:
        """Id of the task: ``git/<repository>/<first digits of the commit>``."""
        return f"{self.source}/{self.repository}/{self.commit.name[:12]}"

    @property
    def modules(self) -> dict[str, str]:
        """The modules of the repository: name -> path."""
        return {module_name(path): path for path in self.files}

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The file before the commit, and the file after it, which repairs the former."""
        first = Attempt(self.task_id, self.before, author=f"git:{self.repository}")
        return first, Attempt(
            self.task_id, self.after, author=self.commit.author, created=self.commit.created, parent_id=first.attempt_id
        )

    def test_files(self, repository: Repository) -> dict[str, str]:
        """Return path -> text of the test files that the commit changes; if it changes none, of those that name the module.

        If none names it, those that import the package that contains it.
        """
        changed = [path for path in self.commit.modified() if is_test_file(path)]
        paths = changed or [path for path in self.files if is_test_file(path)]
        texts = {path: repository.read(self.commit.name, path) or "" for path in paths}
        name = module_name(self.path)
        naming = {path: text for path, text in texts.items() if changed or name.rpartition(".")[2] in text}
        package = re.compile(rf"^\s*(import|from) {name.partition('.')[0]}\b", re.MULTILINE)
        return naming or {path: text for path, text in texts.items() if package.search(text)}

    def tests(self, repository: Repository) -> list[Test]:
        """Return the tests of these files."""
        return [test for path, text in self.test_files(repository).items() for test in read_tests(path, text)]

    def task(self, repository: Repository) -> Task:
        """Return the task without prompt and tests: its setup makes the other modules importable."""
        attempted, own = module_name(self.path), [(self.path, self.before), (self.path, self.after)]
        sources = [*own, *self.test_files(repository).items()]
        needed = closure(sources, self.modules, attempted, lambda path: repository.read(self.commit.name, path))
        texts = [*(text for _, text in own), *(text for _, text in needed.values())]
        return Task(
            task_id=self.task_id,
            prompt="",
            source=self.source,
            reference=self.after,
            setup=setup_of(attempted, self.path, needed),
            official=True,
            requires=tuple(outside(texts, self.modules)),
        )


def repository_name(path: Path) -> str:
    """Return the name of a repository: that of its folder."""
    folder = path.resolve()
    return (folder.parent.name if folder.name == ".git" else folder.name).removesuffix(".git") or "repository"


def changes_of(
    repository: Repository,
    *,
    revision: str,
    name: str,
    max_kb: int,
    source: str = "git",
    only: Set[str] | None = None,
    on_progress: OnProgress = no_progress,
) -> Iterator[Change | BadRow]:
    """Yield the changes that lead to a revision, oldest first; commits that change no Python but tests are left out.

    ``only``: names of commits; others are left out.

    ``on_progress`` is called with the number of commits that are done, and all, before each change and after the last commit.

    A commit that changes several files, or adds or removes one, or whose file is larger than ``max_kb`` kB, is a ``BadRow``.
    """
    commits = [*repository.commits(revision)]
    last = max((number for number, commit in enumerate(commits, start=1) if only is None or commit.name in only), default=0)
    for number, commit in enumerate(commits[:last]):
        sources = [change for change in commit.changes if change.endswith(".py") and is_source(change[2:])]
        if not sources or (only is not None and commit.name not in only):
            continue
        on_progress("commits", number, len(commits))
        before, after = (repository.read(one, sources[0][2:]) or "" for one in (commit.parent, commit.name))
        problem = ""
        if len(sources) > 1:
            problem = f"it changes {len(sources)} files of Python; an attempt is one file"
        elif sources[0][0] != "M" or not before.strip() or not after.strip():
            problem = f"it adds or removes {sources[0][2:]}, or the file is empty: there are not two attempts"
        elif len(after.encode()) > max_kb * 1000:
            problem = f"{sources[0][2:]} is larger than {max_kb} kB (--max-kb)"
        if problem:
            yield BadRow(place_of(repository.path, commit, sources[0][2:]), 0, problem, commit.message[:500])
            continue
        files = tuple(path for path in repository.files(commit.name) if path.endswith(".py"))
        yield Change(name, commit, sources[0][2:], before, after, files, source)
    on_progress("commits", last, len(commits))


def commit_units(path: Path, names: Sequence[str]) -> list[Unit]:
    """Return units of consecutive commits, each a share of an import: tests are run for its commits."""
    size = max(COMMITS, -(-len(names) // MOST_UNITS))
    return [Unit(path, {"only": frozenset(names[start : start + size])}, SHARE_BYTES) for start in range(0, len(names), size)]


def is_source(path: str) -> bool:
    """Return whether a file of Python is part of the program: neither of tests, benchmarks, examples or documents, nor of the build."""
    parts = path.split("/")
    if any(part.startswith(("bench", "example")) for part in parts[:-1]):
        return False
    return (
        not is_test_file(path)
        and not {"tests", "test", "docs", "doc"} & {*parts[:-1]}
        and parts[-1] not in ("setup.py", "conftest.py")
    )


def place_of(path: Path, commit: Commit, file: str) -> str:
    """Return repository, commit and file as messages name them: ``kit@0123456789ab:src/a.py``."""
    return f"{path}@{commit.name[:12]}:{file}"


def bad_commit(path: Path, change: Change, reason: str) -> BadRow:
    """Return the row of a change that is set aside."""
    return BadRow(place_of(path, change.commit, change.path), 0, reason, change.commit.message[:500])
