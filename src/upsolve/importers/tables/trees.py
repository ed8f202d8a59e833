"""Files of a folder or an archive that a map names by patterns: files with rows, files of tests, and texts beside them."""

import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.benchmarks.nbgrader import as_program
from upsolve.importers.formats import Kind, Member, kind_of, members, rows_of
from upsolve.importers.formats.files import is_file, is_hidden, members_at, names_in
from upsolve.importers.rows import BadRow, Numbered, decoded
from upsolve.importers.tables.plans import Map

__all__ = ["FILE", "ROWS", "Files", "in_order", "in_words", "pattern_of", "reads", "rows_in", "unread"]

ENDINGS = (".gz", ".bz2", ".xz", ".zst")
"""Endings of compressed files, which ``members`` removes from names."""
KINDS = 6
"""Largest number of endings of unread files that a message names."""
WILD = re.compile(r"\{[^{}]*\}|\*\*/|\*")
"""Parts of a path template that vary from file to file."""
FILE = 40
"""Number of bits of a row's number below the number of its file."""
PART = re.compile(r"\*\*/|\*|\{(\w+)\}")
ROWS = re.compile(r"\.(?:jsonl?|ndjson|[ct]sv|parquet|arrow|feather|xlsx?|db|sqlite3?|duckdb)(?:\.\w+)?$", re.IGNORECASE)
"""Endings of files that hold rows, even beside files of text."""


def pattern_of(text: str) -> re.Pattern[str]:
    """Return the regular expression for a pattern of paths: ``*``, ``**/``, and ``{name}``, a part of the path; asterisks become unnamed groups."""
    found, at, known = "", 0, set[str]()
    for part in PART.finditer(text):
        found += re.escape(text[at : part.start()])
        at = part.end()
        if name := part[1]:
            found += f"(?P={name})" if name in known else f"(?P<{name}>[^/]+?)"
            known.add(name)
        else:
            found += "((?:.*/)?)" if part[0] == "**/" else "([^/]*)"
    return re.compile(found + re.escape(text[at:]))


@dataclass
class Files:
    """Files below a folder or in an archive."""

    root: Path
    """Folder, archive or file."""
    encoding: str = ""
    """Encoding of texts that are not UTF-8, and of names in a zip."""
    folder: str = ""
    """Folder within the root to which the paths of texts and tests are relative."""
    found: dict[tuple[str, str], list[dict[str, str]]] = field(default_factory=dict[tuple[str, str], list[dict[str, str]]])
    """Tests read so far, by the patterns of inputs and outputs."""
    archives: dict[str, dict[str, Member]] = field(default_factory=dict[str, dict[str, Member]])
    """Files of the archives in a folder, by archive name."""

    @cached_property
    def members(self) -> dict[str, Member]:
        """All files, by name."""
        return {member.name: member for member in members(self.root, encoding=self.encoding)}

    @cached_property
    def in_folder(self) -> bool:
        """Whether the root is a folder, so that a file can be looked up without listing all."""
        return self.root.is_dir()

    def member(self, name: str) -> Member | None:
        """Return a file by its name as ``members`` yields it; None if there is none."""
        if not self.in_folder:
            return self.members.get(name)
        above = [str(one) for one in PurePosixPath(name).parents][:-1]
        places = [] if is_hidden(name) else [name, *(f"{name}{ending}" for ending in ENDINGS), *above]
        place = next((one for one in places if is_file(self.root / one)), None)
        if place is None or place not in above:
            there = members_at(self.root, place, encoding=self.encoding) if place else ()
            return next((file for file in there if file.name == name), None)
        if place not in self.archives:
            self.archives[place] = {file.name: file for file in members_at(self.root, place, encoding=self.encoding)}
        return self.archives[place].get(name)

    def at(self, name: str) -> str:
        """Return the name of a file from the root, given its name in texts and tests."""
        return posixpath.normpath(posixpath.join(self.folder, name.lstrip("/")))

    def text(self, name: str) -> str | None:
        """Return the text of a file, by its path; None if the file does not exist; ValueError if it is not text."""
        member = self.member(self.at(name))
        return None if member is None else text_of(member, self.encoding)

    def tests(self, given: str, expected: str) -> list[dict[str, str]] | None:
        """Return the inputs and outputs in the files that match patterns; None if no file matches; ValueError if an input has no output."""
        key = (given, expected)
        if key not in self.found:
            self.found[key] = [*self.pairs(self.at(given), expected)]
        return self.found[key] or None

    def below(self, folder: str) -> Iterable[str]:
        """Return the names of files; at least those below a folder."""
        if not self.in_folder or not (self.root / folder).is_dir():
            return self.members
        names = (posixpath.join(folder, name) for name in names_in(self.root / folder))
        return (re.sub(rf"(?:{'|'.join(map(re.escape, ENDINGS))})$", "", name) for name in names)

    def pairs(self, given: str, expected: str) -> Iterator[dict[str, str]]:
        """Yield the texts of inputs and outputs, in the order of the numbers in their names."""
        pattern = pattern_of(given)
        folder = posixpath.dirname(given.partition("*")[0])
        names = [(name, match) for name in self.below(folder) if (match := pattern.fullmatch(name))]
        for name, match in sorted(names, key=lambda one: in_order(one[0])):
            stars = iter(match.groups())
            other = re.sub(r"\*\*/|\*", lambda _, stars=stars: next(stars, ""), expected)
            other = self.at(other) if "/" in other else posixpath.join(posixpath.dirname(name), other)
            output, text = (
                None if (file := self.member(one)) is None else text_of(file, self.encoding) for one in (other, name)
            )
            if output is None:
                raise ValueError(f"the test {name} has no expected output: add the file {other}")
            yield {"input": text or "", "output": output}

    def rows(self, plan: Map, shape: Any, wheres: list[str], names: Sequence[str]) -> Iterator[Numbered]:
        """Yield the shaped rows of the files that a map names; adds each file to ``wheres``, at the index in the upper bits of the row's number.

        ``names``: the files; empty: all that the map names.

        Raises:
            SourceError: no file has such a name.
        """
        if plan.is_listed and (missing := [name for name in plan.files if self.member(name) is None]):
            raise SourceError(
                f"{self.root}: needs {', '.join(missing)}: `files` of {plan.file} or an option asks for these files"
            )
        read = reads(plan, alone=not names and [*self.members] == [self.root.name])
        before = ""
        for name in names or sorted(self.members, key=in_order):  # 9.jsonl before 10.jsonl
            member = self.member(name) if names else self.members[name]
            if member is None or (parts := read(name)) is None:
                continue
            rows = guarded(member, plan, as_text="text" in shape.used)
            if plan.repeats:
                rows, last = [*rows], before
                before = repr([{**row, **dict.fromkeys(plan.repeats)} if isinstance(row, dict) else row for _, row in rows])
                if before == last:
                    continue
            shape.start(member.where, name, parts)
            at = len(wheres) << FILE
            wheres.append(member.where)
            for number, row in shape.rows(rows):
                yield at + number, row
        if not wheres:
            some = ", ".join([*self.members][:3])
            raise SourceError(
                f"{self.root}: no file matches `files` of {plan.file}, {', '.join(plan.files)}; there are {len(self.members)}, such as {some}"
                + (f"; it reads {plan.about}" if plan.about else "")
            )


def reads(plan: Map, *, alone: bool) -> Callable[[str], dict[str, str] | None]:
    """Return a function: path of a file -> the parts that a map names; None if the map does not read the file.

    ``alone``: there is only one file, so only the last part of a pattern must match; for rollouts any name does.
    """
    texts = [*plan.files, *(text.rpartition("/")[2] for text in plan.files if alone)]
    wanted = [pattern_of(text) for text in texts if not text.startswith("!")]
    unwanted = [pattern_of(text[1:]) for text in plan.files if text.startswith("!")]

    def parts_of(name: str) -> dict[str, str] | None:
        """Return the parts."""
        match = next(filter(None, (pattern.fullmatch(name) for pattern in wanted)), None)
        if match is None or any(pattern.fullmatch(name) for pattern in unwanted):
            return {} if alone and plan.rollouts is not None else None
        return match.groupdict()

    return parts_of


def unread(names: Iterable[str], plans: Iterable[Map]) -> str:
    """Return number and names of the files that no map reads, neither as rows nor as texts or tests; empty if all are read."""
    known = [reads(plan, alone=False) for plan in plans]
    beside = [re.compile(form) for plan in plans for form in forms_beside(plan)]
    return in_words(
        [name for name in names if all(one(name) is None for one in known) and not any(one.fullmatch(name) for one in beside)]
    )


def forms_beside(plan: Map) -> Iterator[str]:
    """Yield regular expressions for the names of files with texts and tests that a map may read."""
    tests = (plan.tests.input, plan.tests.expected) if plan.tests else ()
    for text in (*plan.texts.values(), *tests, *(join.file for join in plan.joins.values())):
        form = "".join(
            part if part == ".*" else re.escape(part) for part in re.split(r"(\.\*)", WILD.sub(".*", text.lstrip("/")))
        )
        yield form if "/" in text else f"(?:.*/)?{form}"


def in_words(names: Sequence[str]) -> str:
    """Return the number of unread files and their endings, as text."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        groups[posixpath.splitext(name)[1] or posixpath.basename(name)].append(name)
    ranked = sorted(groups.items(), key=lambda one: -len(one[1]))
    shown = [
        some[0] if len(some) == 1 else f"{len(some)} `{'*' * ending.startswith('.')}{ending}`"
        for ending, some in ranked[:KINDS]
    ]
    more = sum(len(some) for _, some in ranked[KINDS:])
    shown += [f"{more} more"] if more else []
    return f"{len(names)} file{'s are' if len(names) > 1 else ' is'} not read: {', '.join(shown)}" if names else ""


def in_order(name: str) -> list[tuple[int, str]]:
    """Return a sort key that orders files by the numbers in their names."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def guarded(member: Member, plan: Map, *, as_text: bool) -> Iterator[Numbered]:
    """Yield the rows of one of many files: a text becomes a row with ``text`` and ``file``; an unreadable file becomes a ``BadRow``."""
    try:
        if as_text and (not ROWS.search(member.name) or kind_of(member) is Kind.TEXT):
            yield 1, {"text": text_of(member, plan.encoding), "file": member.name}
        else:
            yield from rows_in(member, plan)
    except (SourceError, ValueError) as error:
        yield 1, BadRow(member.where, 0, str(error).removeprefix(f"{member.where}: "), member.name)


def rows_in(member: Member, plan: Map) -> Iterator[Numbered]:
    """Return the rows of a file."""
    return rows_of(member, encoding=plan.encoding, query=plan.query, quotes=plan.quotes, rows=plan.rows)


def text_of(member: Member, encoding: str) -> str:
    """Return the text of a file; ValueError if it is in another encoding."""
    try:
        with member.open() as file:
            return as_program(member.name, decoded(file.read(), encoding))
    except UnicodeError as error:
        raise ValueError(f"file {member.name}: {error}; name the encoding, such as --encoding latin-1") from error
