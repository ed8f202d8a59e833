"""Files of a folder or an archive that a map names by patterns: those with rows, those of tests, and texts beside them."""

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.formats import Kind, Member, kind_of, members, rows_of
from upsolve.importers.rows import BadRow, Numbered, decoded
from upsolve.importers.tables.maps import Map

__all__ = ["FILE", "Files", "pattern_of"]

FILE = 40
"""Bits of a row's number below the number of its file."""
PART = re.compile(r"\*\*/|\*|\{(\w+)\}")
ROWS = re.compile(r"\.(?:jsonl?|ndjson|[ct]sv|parquet|arrow|feather|xlsx?|db|sqlite3?|duckdb)(?:\.\w+)?$", re.IGNORECASE)
"""Endings of files with rows, also beside files of text."""


def pattern_of(text: str) -> re.Pattern[str]:
    """Return the expression of a pattern of paths: ``*``, ``**/``, and ``{name}``, a part of the path; asterisks are groups without a name."""
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
    found: dict[tuple[str, str], list[dict[str, str]]] = field(default_factory=dict[tuple[str, str], list[dict[str, str]]])
    """Tests by the paths of inputs and of outputs."""

    @cached_property
    def members(self) -> dict[str, Member]:
        """The files by their names."""
        return {member.name: member for member in members(self.root, encoding=self.encoding)}

    def text(self, name: str) -> str | None:
        """Return the text of a file, by its path from the root; None if there is no such file; ValueError if it is not text."""
        member = self.members.get(posixpath.normpath(name.lstrip("/")))
        return None if member is None else text_of(member, self.encoding)

    def tests(self, given: str, expected: str) -> list[dict[str, str]] | None:
        """Return inputs and outputs of files by patterns; None if there is none; ValueError if an input lacks its output."""
        key = (given, expected)
        if key not in self.found:
            self.found[key] = [*self.pairs(posixpath.normpath(given.lstrip("/")), expected)]
        return self.found[key] or None

    def pairs(self, given: str, expected: str) -> Iterator[dict[str, str]]:
        """Yield the texts of inputs and outputs, in the order of the numbers in their names."""
        pattern = pattern_of(given)
        names = [(name, match) for name in self.members if (match := pattern.fullmatch(name))]
        for name, match in sorted(names, key=lambda one: in_order(one[0])):
            stars = iter(match.groups())
            other = re.sub(r"\*\*/|\*", lambda _, stars=stars: next(stars, ""), expected)
            other = other if "/" in other else posixpath.join(posixpath.dirname(name), other)
            output = self.text(other)
            if output is None:
                raise ValueError(f"the test {name} has no expected output: no file {other}")
            yield {"input": self.text(name) or "", "output": output}

    def rows(self, plan: Map, shape: Any, wheres: list[str]) -> Iterator[Numbered]:
        """Yield the rows of the files that a map names, shaped; adds the file of each to ``wheres``, by the upper bits of the number.

        Raises:
            SourceError: no file has such a name.
        """
        patterns = [pattern_of(text) for text in plan.files]
        if self.root.is_file() and [*self.members] == [self.root.name]:
            patterns += [pattern_of(text.rpartition("/")[2]) for text in plan.files]
        for name, member in self.members.items():
            match = next(filter(None, (pattern.fullmatch(name) for pattern in patterns)), None)
            if match is None:
                continue
            shape.start(member.where, name, match.groupdict())
            at = len(wheres) << FILE
            wheres.append(member.where)
            for number, row in shape.rows(guarded(member, plan, as_text="text" in shape.used)):
                yield at + number, row
        if not wheres:
            some = ", ".join([*self.members][:3])
            raise SourceError(
                f"{self.root}: no file matches `files` of {plan.file}, {', '.join(plan.files)}; there are {len(self.members)}, such as {some}"
            )


def in_order(name: str) -> list[tuple[int, str]]:
    """Return a key by which files are sorted by the numbers in their names."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def guarded(member: Member, plan: Map, *, as_text: bool) -> Iterator[Numbered]:
    """Yield the rows of a file of many: of text a row with ``text`` and ``file``; a ``BadRow`` for a file that cannot be read."""
    try:
        if as_text and (not ROWS.search(member.name) or kind_of(member) is Kind.TEXT):
            yield 1, {"text": text_of(member, plan.encoding), "file": member.name}
        else:
            yield from rows_of(member, encoding=plan.encoding, query=plan.query, quotes=plan.quotes, rows=plan.rows)
    except (SourceError, ValueError) as error:
        yield 1, BadRow(member.where, 0, str(error).removeprefix(f"{member.where}: "), member.name)


def text_of(member: Member, encoding: str) -> str:
    """Return the text of a file; ValueError if it is in another encoding."""
    try:
        with member.open() as file:
            return decoded(file.read(), encoding)
    except UnicodeError as error:
        raise ValueError(f"file {member.name}: {error}; name the encoding, such as --encoding latin-1") from error
