"""Reads a repository through the program ``git``: no checkout, no hook, no network. Programs that the repository's settings name are not run."""

import ast
import json
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

from upsolve.errors import SourceError
from upsolve.importers.recogniser.asserts import imports_of, packages_in, parsed
from upsolve.importers.recogniser.suites import Test, absolute, is_test_file, module_name, package_of, prefixes, read_tests
from upsolve.importers.rows import BadRow
from upsolve.importers.source import SHARE_BYTES, Unit
from upsolve.types import Attempt, OnProgress, Task, no_progress

__all__ = ["Change", "Repository", "bad_commit", "changes_of", "commit_units", "outside", "prompt_of", "repository_name"]

SAFE = (
    *("--no-pager", "--no-replace-objects"),
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "protocol.allow=never"),
)
"""Options before every command: settings of a repository could name programs, which would run with the user's rights."""
FINDER = Path(__file__).with_name("finder.py")
START = "\x1e"
CHANGES = (
    *("--stdin", "-r", "-z", "--root", "--no-renames", "--name-status", "--no-ext-diff", "--no-textconv", "--always"),
    *("--encoding=UTF-8", "--format=format:%x1e%x00%H%x00%P%x00%an%x00%aI%x00%B%x00"),
)
"""Options that list the changes of commits, each after ``START`` and the facts about the commit."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit with one parent."""

    name: str
    """Hash of the commit."""
    parent: str
    """Hash of its parent; empty for the first commit."""
    author: str
    created: str
    """Time of writing, ISO 8601."""
    message: str
    changes: tuple[str, ...]
    """Change of each file: ``M src/a.py``; A: added, D: deleted, M: modified, T: another type."""


class Repository:
    """A repository, bare or with a working tree; use as a context manager."""

    def __init__(self, path: Path) -> None:
        """Set the path; SourceError if it is not a repository, or ``git`` is not installed."""
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
        """Return the output of a ``git`` command; SourceError, with git's own message, if it failed."""
        try:
            done = subprocess.run([*self.command(), *words], input=stdin, capture_output=True, check=False)
        except OSError as error:
            raise SourceError(f"git cannot be run: {error}; install the program git") from error
        if done.returncode != 0:
            raise SourceError(f"{self.path}: git {words[0]}: {done.stderr.decode('utf-8', 'replace').strip()[:300]}")
        return done.stdout.decode("utf-8", "replace")

    def commits(self, revision: str) -> Iterator[Commit]:
        """Yield the commits that lead to a revision, oldest first, without merges; SourceError if there is no such revision."""
        names = self.run("rev-list", "--reverse", "--topo-order", "--no-merges", "--end-of-options", revision)
        words = iter(self.run("diff-tree", *CHANGES, stdin=names.encode()).split("\0"))
        found: dict[tuple[str, ...], list[str]] = {}
        changes: list[str] = []
        for word in words:
            if word == START:
                changes = found.setdefault(tuple(islice(words, 5)), [])
            elif word.strip():
                changes.append(f"{word.strip()} {next(words)}")
        for (name, parent, author, created, message), changes in found.items():
            yield Commit(name, parent, author, created, message.strip(), tuple(changes))

    def files(self, commit: str) -> list[str]:
        """Return the files of a commit."""
        return [name for name in self.run("ls-tree", "-r", "-z", "--name-only", commit).split("\0") if name]

    def names(self, commits: Sequence[str]) -> list[str]:
        """Return the full hashes of commits that may be abbreviated; an empty text for an unknown commit."""
        lines_in = "".join(f"{commit}^{{commit}}\n" for commit in commits)
        lines = self.run("cat-file", "--batch-check=%(objectname)", stdin=lines_in.encode()).splitlines()
        return [line if " " not in line else "" for line in lines]

    def read(self, commit: str, path: str) -> str | None:
        """Return the text of a file in a commit; None if the file does not exist, or is not UTF-8."""
        return None if "\n" in path else read_blob(self, f"{commit}:{path}")


@lru_cache(maxsize=4096)
def read_blob(repository: Repository, name: str) -> str | None:
    """Return the text of a git object, such as ``HEAD:src/a.py``."""
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


def closure(
    sources: Iterable[tuple[str, str]], modules: Mapping[str, str], attempted: str, read: Callable[[str], str | None]
) -> dict[str, tuple[str, str]]:
    """Return the modules that some files import, directly or not, and the packages that contain the attempt: name -> (path, text)."""
    found: dict[str, tuple[str, str]] = {}
    waiting, names = [*sources], [attempted]
    while waiting or names:
        for part in (part for name in names for part in prefixes(name)):
            if part in modules and part not in found and part != attempted and (text := read(modules[part])) is not None:
                found[part] = modules[part], text
                waiting.append(found[part])
        path, source = waiting.pop() if waiting else ("", "")
        names = []
        for node in ast.walk(parsed(source) or ast.Module([], [])):
            if isinstance(node, ast.Import):
                names += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = absolute(node, package_of(path))
                names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return dict(sorted(found.items()))


def outside(sources: Iterable[str], modules: Iterable[str]) -> tuple[str, ...]:
    """Return the packages that files import when they are loaded, without the standard library and the repository's modules."""
    own = {name.partition(".")[0] for name in modules}
    return tuple(name for name in packages_in(imports_of(sources, top=True)) if name not in own)


def setup_of(attempted: str, path: str, needed: Mapping[str, tuple[str, str]]) -> str:
    """Return code that makes modules (name -> (path, text)) importable, with the attempt replacing module ``attempted``; binds no name."""
    finder = FINDER.read_text(encoding="utf-8")
    return (
        f'exec({finder!r} + "\\ninstall(space, attempted, path, modules)", '
        f'{{"__name__": "finder", "space": globals(), "attempted": {attempted!r}, "path": {path!r}, "modules": {dict(needed)!r}}})'
    )


COMMITS, MOST_UNITS = 10, 256
"""Fewest commits of a unit, unless there are no more; and most units, since each lists the history again."""


@dataclass(frozen=True, slots=True)
class Change:
    """A commit that changes one file of Python, other than tests."""

    repository: str
    """Name of the repository."""
    commit: Commit
    path: str
    """The file."""
    before: str
    after: str
    """Texts of the file before and after the commit."""
    files: tuple[str, ...]
    """Files of Python in the commit."""
    source: str = "git"
    """First part of the task's id: ``git``, or ``ci`` if reports decide."""

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
        """The file before the commit, and the file after it, which repairs the first."""
        first = Attempt(self.task_id, self.before, author=f"git:{self.repository}")
        author, when = self.commit.author, self.commit.created
        return first, Attempt(self.task_id, self.after, author=author, created=when, parent_id=first.attempt_id)

    def facts(self, repaired: Sequence[str], flaky: Sequence[str]) -> str:
        """Return ``Task.extra``: repository, file, commit, its parent, the tests that the commit repairs, and flaky tests."""
        facts = {"repository": self.repository, "path": self.path, "commit": self.commit.name, "parent": self.commit.parent}
        return json.dumps({**facts, "repaired": [*repaired], "flaky": [*flaky]})

    def test_files(self, repository: Repository) -> dict[str, str]:
        """Return path -> text of the test files that the commit changes; if it changes none, of the test files that name the module.

        If no test file names the module, those that import its package.
        """
        changed = [change[2:] for change in self.commit.changes if change[0] in "AM" and is_test_file(change[2:])]
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
            requires=outside(texts, self.modules),
        )


def repository_name(path: Path) -> str:
    """Return the name of a repository, which is the name of its folder."""
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
    """Yield the changes that lead to a revision, oldest first. Commits that change no Python except tests, or are not in ``only``, are left out.

    A commit that changes several files, or adds or removes one, or whose file is larger than ``max_kb`` kB, is a ``BadRow``.
    ``on_progress`` is called with the number of commits that are done, and all, before each change and after the last commit.
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
    """Return units of consecutive commits. Each unit is a share of an import, because its tests must be run."""
    size = max(COMMITS, -(-len(names) // MOST_UNITS))
    return [Unit(path, {"only": frozenset(names[start : start + size])}, SHARE_BYTES) for start in range(0, len(names), size)]


def is_source(path: str) -> bool:
    """Return whether a Python file is part of the program, not of tests, benchmarks, examples, documents or the build."""
    parts = path.split("/")
    if any(part.startswith(("bench", "example")) for part in parts[:-1]):
        return False
    beside = {"tests", "test", "docs", "doc"} & {*parts[:-1]} or parts[-1] in ("setup.py", "conftest.py")
    return not beside and not is_test_file(path)


def place_of(path: Path, commit: Commit, file: str) -> str:
    """Return repository, commit and file as messages name them: ``kit@0123456789ab:src/a.py``."""
    return f"{path}@{commit.name[:12]}:{file}"


def bad_commit(path: Path, change: Change, reason: str) -> BadRow:
    """Return the row of a change that is rejected."""
    return BadRow(place_of(path, change.commit, change.path), 0, reason, change.commit.message[:500])


MOST_NAMES, MOST_ERROR = 10, 500


def prompt_of(change: Change, failing: Sequence[str], error: str) -> str:
    """Return the statement: the author's message, the first ten failing tests, the first error (500 characters), and the file before."""
    tests = "\n".join(f"- {name}" for name in failing[:MOST_NAMES])
    parts = [
        f"Repair {change.path} of the repository {change.repository}. Give the whole file.",
        change.commit.message,
        *([f"These tests fail:\n{tests}"] if failing else []),
        *([f"The first fails with: {error[:MOST_ERROR]}"] if error else []),
        f"{change.path}:",
        f"```python\n{change.before.rstrip()}\n```",
    ]
    return "\n\n".join(parts)
