"""Rows of a file -> rows with an attempt each, and a column for each field, as a map says."""

import os
import pickle
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from upsolve.importers.formats import Member, member_of, rows_of
from upsolve.importers.outcome import is_given, number_in, whole
from upsolve.importers.problems import split_of
from upsolve.importers.rows import BadRow, Numbered, head_of, json_in, reason_of, without
from upsolve.importers.tables import ATTEMPTS, FIELDS, OF_TASK, PROGRAMS, REFERENCE, templates
from upsolve.importers.tables.plans import TESTS, Map, Match
from upsolve.importers.tables.trees import ROWS, Files, in_order
from upsolve.types import Status

__all__ = ["Shape", "parents_first", "path_columns"]

PATH = ("file", "folder", "stem", "ending", "split", "line", "position")
"""Columns of every row: from the path of its file, and its number in the file (from 1) and in the split (from 0)."""


def path_columns(name: str, above: Path) -> dict[str, Any]:
    """Return the columns from the path of a file below the folder ``above``: file, folder, stem, ending and split (train, dev or test).

    The folder of a text also states its split: ``train`` for ``train/0000/question.txt``.
    """
    path = Path(name)
    folder = "" if str(path.parent) == "." else str(path.parent)
    stem, _, ending = path.name.partition(".")
    split = split_of(above / path) or ("" if ROWS.search(name) else split_of((above / path).parent))
    return {"file": name, "folder": folder, "stem": stem, "ending": ending.rpartition(".")[2], "split": split}


EMPTY = Map()
LEAVING = frozenset(
    "file about name detect marks repeats rollouts columns unset statuses languages passed_at full_points negated options encoding quotes query rows "  # noqa: SIM905
    "imports".split()
)
"""Keys of a map that leave rows unchanged."""


class Index:
    """An index of the rows of a table by the values of some columns, in a temporary file."""

    def __init__(self, file: Member, query: str, columns: Sequence[str]) -> None:
        self.connection = sqlite3.connect("")  # a file that SQLite removes; small ones stay in memory
        self.connection.execute("create table rows (key text, row blob)")
        self.bad: BadRow | None = None
        stored = ((key_in(row, columns), pickle.dumps(row)) for row in self.sound(rows_of(file, query=query)))
        self.connection.executemany("insert into rows values (?, ?)", stored)
        self.connection.execute("create index by_key on rows (key)")

    def sound(self, rows: Iterable[Numbered]) -> Iterator[dict[str, Any]]:
        """Yield the rows that can be read, and store the first one that cannot."""
        for _, row in rows:
            if isinstance(row, BadRow):
                self.bad = self.bad or row
            else:
                yield row

    def of(self, key: str) -> list[dict[str, Any]]:
        """Return the rows with a key (``key_in``), in the order of the file; ValueError if the table has an unreadable row, which may have this key."""
        if self.bad:
            raise ValueError(f"{self.bad.file}, line {self.bad.line}: {self.bad.reason}")
        found = self.connection.execute("select row from rows where key = ? order by rowid", (key,))
        return [pickle.loads(row) for (row,) in found]  # noqa: S301  written above


@dataclass(frozen=True, slots=True)
class Joined:
    """Key of the index of a joined table: its file in its current state, the table in a database, and columns."""

    where: tuple[str, int, int]
    query: str
    columns: tuple[str, ...]
    process: int
    """SQLite's connections do not survive a fork."""
    member: Member = field(compare=False)


@lru_cache(maxsize=4)
def index_of(table: Joined) -> Index:
    """Return the index of a table, built once in each process, since the files of an import join the same tables."""
    return Index(table.member, table.query, table.columns)


def key_in(row: Mapping[str, Any], columns: Iterable[str]) -> str:
    """Return the values of some columns, as lower-case text, joined into one text."""
    return repr([templates.text_of(templates.value_at(row, name)).lower() for name in columns])


@dataclass
class Shape:
    """Rows shaped by a map."""

    plan: Map
    """The map."""
    columns: Mapping[str, str]
    """Field -> column, for all fields."""
    passed_over: int = 0
    """Number of rows that ``only`` left out."""
    place: dict[str, Any] = field(default_factory=dict[str, Any])
    """Columns from the path of the current file."""
    file: str = ""
    """Current file, for rejected rows."""

    files: Files | None = None
    """Files beside the file of the rows."""
    member: Member | None = None
    """File of the rows, if all rows are in one."""
    parts: dict[str, str] = field(default_factory=dict[str, str])
    """Columns from the named parts of the path."""
    first: tuple[str, ...] = ()
    """Columns of the first row."""
    counts: Counter[str] = field(default_factory=Counter[str])
    """Number of rows read so far, also in other files, by split; the total under the empty name."""

    def __post_init__(self) -> None:
        plan = self.plan
        several = plan.attempts or ()
        self.needed = [name for name in plan.detect if not name.startswith(("!", "?"))]
        self.several = [
            Shape(one, {**{name: name for name in (*one.constants, *one.makers) if name in FIELDS}, **one.columns})
            for one in several
        ]
        lists = [name.partition(".")[0] for one in several for name in one.explode]
        self.lists = {*lists, *(one.columns[name] for one in several for name in PROGRAMS if name in one.columns)}
        self.optional = {name for name, make in plan.makers.items() if make.kind == "choice"}
        """Columns that rows of some cases have, or of which some rows have another."""
        self.missing = {*plan.explode, *(one.column for one in plan.match)}
        made = {name for make in plan.makers.values() for name in make.names(None)}
        self.plain = {column for column in self.columns.values() if column not in plan.makers}
        self.joins = {name: tuple(name.split("+")) for name in self.plain if "+" in name}
        used = self.plain | made | {*plan.only} | {one.column for one in plan.match} | {*plan.texts, *plan.constants}
        self.used = used | {name.partition(".")[0] for name in used if "." in name}
        self.fields = self.plain | {*plan.makers} | {name.partition(".")[0] for name in self.plain if "." in name}
        self.prompt = self.columns.get("prompt")
        self.spent = (made | self.lists) - self.plain - {*plan.constants, *plan.makers, *plan.of_task}
        self.spent |= {*plan.without}
        texts = [*plan.texts.values(), *((plan.tests.input, plan.tests.expected) if plan.tests else ())]
        named = made | {*plan.only, *plan.of_task} | {one.column for one in plan.match}
        named |= {name for text in texts for name in path_of(text).names(None)} | (self.plain if plan.files else set())
        self.path = [name for name in PATH if name in named]
        self.spent |= {*self.path} - self.plain - {"file", *plan.of_task, *(plan.extra or ())}
        self.spent |= {"text", *(("file",) if plan.attempts is not None else ())} - self.plain if plan.files else set()
        some = {name for column in self.optional for name in plan.makers[column].names(None)}
        self.always = (self.spent - some) | {*plan.without} | self.lists
        """Columns that every row uses."""
        self.beside = {name: path_of(text) for name, text in plan.texts.items()}
        self.joined_at = {name: path_of(join.file) for name, join in plan.joins.items()}
        self.index = lru_cache(maxsize=4)(self.table_index)
        self.of_tests = (path_of(plan.tests.input), path_of(plan.tests.expected)) if plan.tests else None
        self.languages = {column for field, column in self.columns.items() if field == "language"} | {"language"}
        self.only = {self.columns.get(name, name): values for name, values in plan.only.items()}

    def start(self, where: str, name: str, parts: Mapping[str, str]) -> None:
        """Begin with another file; ``parts`` of its path become columns."""
        self.file, self.place, self.parts = where, path_columns(name, self.files.root if self.files else Path()), {**parts}

    @property
    def is_plain(self) -> bool:
        """Whether rows stay unchanged."""
        changed = (one.name for one in fields(Map) if getattr(self.plan, one.name) != getattr(EMPTY, one.name))
        return not (self.parts or self.path or self.joins or self.needed) and {*changed} <= LEAVING

    @property
    def lacking(self) -> str:
        """A column that the map explodes or searches, and that no row had so far; empty if there is none."""
        return next(iter(sorted(self.missing)), "")

    def rows(self, numbered: Iterable[Numbered]) -> Iterator[Numbered]:
        """Yield the shaped rows; a ``BadRow`` if shaping fails."""
        if self.is_plain:
            yield from numbered
            return
        for number, row in numbered:
            if self.plan.first and self.counts[""] >= self.plan.first:
                return
            self.place |= {"line": number, "position": self.counts[f"split {self.place.get('split')}"]}
            self.counts.update(("", f"split {self.place.get('split')}"))
            if isinstance(row, BadRow):
                yield number, row
                continue
            self.first = self.first or (*row,)
            try:
                found = [one for many in self.exploded(row) for one in self.finished(many)]
            except (ValueError, SyntaxError, RecursionError) as error:
                yield number, BadRow(self.file, number, reason_of(error), head_of(row))
                continue
            for one in found:
                yield number, one

    def exploded(self, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield a row for each item of a row's lists, or for each of its sides; the row itself if it has neither."""
        if not self.plan.explode:
            yield from sides_of(row, self.plan.sides) or [row]
            return
        items, outer = self.items(row)
        outer |= {"row_key": outer["key"]} if "key" in outer and items and "key" in items[0] else {}
        rest = {name: value for name, value in outer.items() if name not in self.used and is_given(value)}
        shared = {name: value for name, value in outer.items() if name not in rest} | ({OF_TASK: rest} if rest else {})
        if not items:
            yield shared
        for index, item in enumerate(items):
            yield {**shared, **({"index": index} if "index" in self.used else {}), **item}

    def items(self, row: dict[str, Any], *, whole: bool = False) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Return the columns of each item of the lists of a row, and the row without the lists.

        ``whole``: an object of lists holds parallel lists; a text counts as a list with itself as the only item.
        """
        outer = row = gathered(row, [name for name in self.plan.explode if "*" in name])
        lists = list[list[dict[str, Any]]]()
        for name in self.plan.explode:
            value = templates.value_at(row, name)
            self.missing -= {name} if value is not None else set()
            if isinstance(value, str) and whole:
                value = templates.loaded(value) if value.lstrip().startswith(("[", "{")) else [value] if value else None
            if isinstance(value, str):
                value = (value or None) if (found := json_in(value)) is None else found
            if whole and isinstance(value, dict) and all(isinstance(one, list) for one in value.values()):
                value = [dict(zip(value, one, strict=True)) for one in zip(*value.values(), strict=True)]
            items = [{"key": key, **as_row(name, item)} for key, item in value.items()] if isinstance(value, dict) else value
            if items is not None and not isinstance(items, list | tuple):
                raise ValueError(f"{name} is not a list, but the map explodes it: {str(value)[:60]!r}")
            lists.append([as_row(name, item) for item in items or ()])
            outer = without(outer, name.split(".")) if "." in name else {key: one for key, one in outer.items() if key != name}
        if len({*map(len, lists)}) > 1:
            sizes = ", ".join(f"{name} has {len(items)}" for name, items in zip(self.plan.explode, lists, strict=True))
            raise ValueError(f"lists that the map explodes differ in length: {sizes}")
        return [{name: one for part in parts for name, one in part.items()} for parts in zip(*lists, strict=True)], outer

    def attempts_in(self, row: dict[str, Any]) -> tuple[list[tuple[dict[str, Any], dict[str, Any]]], dict[str, Any]]:
        """Return the fields and other values of each attempt of a row that has a program; and the reference among the attempts, if any."""
        found, reference = list[tuple[dict[str, Any], dict[str, Any]]](), dict[str, Any]()
        for shape in self.several:
            counts, plan = Counter[str](), shape.plan
            for item in shape.items(row, whole=True)[0] if plan.explode else [{}]:
                for one in shape.made({**row, **item}):
                    values = {name: templates.value_at(one, column) for name, column in shape.columns.items()}
                    cells = {name: value for name, value in values.items() if is_given(value)}
                    if plan.reference is not None and templates.fits(one, plan.reference):
                        reference.setdefault(REFERENCE, cells.get("code"))
                    if not templates.fits(one, self.plan.kept, {*self.plan.kept}):
                        continue
                    counts[language := str(cells.get("language", ""))] += 1
                    is_more = 0 < self.plan.most < counts[language]
                    if not is_more and any(str(cells.get(name, "")).strip() for name in PROGRAMS):
                        rest = {name: value for name, value in item.items() if name not in shape.used and is_given(value)}
                        found.append((cells, rest))
        return found, reference

    def finished(self, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the wanted rows that a row becomes, with the columns that the map makes and their attempts."""
        for one in self.made(row):
            kept = self.stored(one if self.plan.attempts is None else {**one})
            if self.plan.attempts is None:
                yield kept
            else:
                attempts, reference = self.attempts_in(one)
                yield {**one, **reference, ATTEMPTS: (attempts, kept)}

    def made(self, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the wanted rows that a row becomes, with the columns that the map makes."""
        plan = self.plan
        if lost := [name for name in self.needed if name.partition(".")[0] not in row]:
            raise ValueError(f"no field {lost[0]!r}")
        row |= {name: self.place[name] for name in self.path if name not in row and name in self.place}
        row |= {name: part for name, part in self.parts.items() if name not in row}
        row |= {name: replaced(name, row[name], values) for name, values in plan.values.items() if is_given(row.get(name))}
        row |= plan.constants
        self.add_texts(row)
        for name in plan.joins:
            row |= {name: found} if (found := self.joined(row, name)) else {}
        self.missing -= {name for name in self.missing if templates.value_at(row, name) is not None} if self.missing else set()
        rows = [row]
        for match in plan.match:
            rows = [more for one in rows for more in matches_of(one, match)]
        for one in rows:
            for name, parts in self.joins.items():
                values = [templates.value_at(one, part) for part in parts]
                if name not in one and all(map(is_given, values)):
                    one[name] = "-".join(str(whole(value)) for value in values)
            self.add_tests(one)
            for name, make in plan.makers.items():
                if (value := make(one)) is not None:
                    one[name] = value.strip() if name == self.prompt and isinstance(value, str) else value
                elif make.kind == "template":
                    one.pop(name, None)
            names = plan.kept if plan.attempts is None else ()
            kept = {name: plan.kept[name] for name in names if is_given(one.get(name))}
            if templates.fits(one, self.only, self.languages) and templates.fits(one, kept, {*kept}):
                yield one
            else:
                self.passed_over += 1

    def add_texts(self, row: dict[str, Any]) -> None:
        """Add the texts of files beside a row's file."""
        for name, make in self.beside.items():
            path = make(row) if self.files else None
            if self.files and is_given(path) and (text := self.files.text(str(path))) is not None:
                row |= dict(templates.loaded(text)) if name == "*" else {name: text}

    def table_index(self, path: str, join: str) -> Index | None:
        """Return the index of the table with a path that a join names; None without such a table."""
        plan, found = self.plan.joins[join], self.member if not path else None
        if path and self.files and "*" not in path:
            found = self.files.member(self.files.at(path))
        if path and self.files and not found:
            near = (self.files.root, self.files.root.parent)
            found = next((member_of(one) for folder in near for one in sorted(folder.glob(path))), None)
        if not found:
            return None
        changed = found.path.stat().st_mtime_ns if found.path else 0
        return index_of(Joined((found.where, found.size, changed), plan.query, tuple(plan.where), os.getpid(), found))

    def joined(self, row: Mapping[str, Any], name: str) -> list[Any]:
        """Return the rows of another table that belong to a row, or their values; ValueError for rows of unknown meaning."""
        join, path = self.plan.joins[name], self.joined_at[name](row)
        index = self.index(str(path or ""), name) if path or not join.file else None
        rows = index.of(key_in(row, join.where.values())) if index else []
        if join.order:
            rows.sort(key=lambda one: in_order(next((str(one[name]) for name in join.order if is_given(one.get(name))), "0")))
        if join.is_one and len(rows) > 1:
            raise ValueError(
                f"join {name}: {len(rows)} rows match {', '.join(str(row.get(one)) for one in join.where.values())}, but exactly one is needed"
            )
        if join.along and rows:
            column, there, here = join.along
            by_key = {key_in(one, [here]): one for one in rows}
            keys = [key_in(one, [there]) for one in row.get(column, ())]
            if len(by_key) < len(rows) or not {*keys}.issuperset(by_key):
                raise ValueError(
                    f"join {name}: {len(rows)} rows for the {len(keys)} values of {column}; each value needs exactly one row"
                )
            rows = [by_key.get(key, {join.value: Status.UNSCORED.value}) for key in keys]
        return [one.get(join.value) if join.value else one for one in rows[: join.most or None]]

    def add_tests(self, row: dict[str, Any]) -> None:
        """Add the tests in files."""
        if self.files and self.of_tests:
            given, expected = (make(row) for make in self.of_tests)
            if given and expected and (tests := self.files.tests(given, expected)):
                calls = self.plan.tests is not None and self.plan.tests.name == "call"
                row[TESTS] = (
                    [f"assert ({one['input'].strip()}) == ({one['output'].strip()})" for one in tests] if calls else tests
                )

    def stored(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the columns of a row that fields use or that are stored otherwise; the task's columns are merged into one."""
        plan = self.plan
        if plan.extra is not None:
            kept = {*plan.extra, *plan.of_task, OF_TASK} | self.fields
            row = {name: value for name, value in row.items() if name in kept}
        elif self.spent:
            spent = self.spent  # of alternatives those that a row does not use are stored
            if self.optional:
                taken = {name for make in plan.makers.values() for name in make.names(row)}
                spent = spent & (taken | self.always | {*self.parts})
            row = {name: value for name, value in row.items() if name not in spent}
        own = {*self.columns.values()}
        if of_task := {name: row[name] if name in own else row.pop(name) for name in plan.of_task if is_given(row.get(name))}:
            row[OF_TASK] = {**row.get(OF_TASK, {}), **of_task}
        return row


def replaced(name: str, value: Any, values: Mapping[str, Any]) -> Any:
    """Return the replacement of a value in a map, else the value; ValueError for a number if the map replaces numbers, but not this one."""
    word = templates.text_of(value).lower()
    if word not in values and number_in(word) and any(values.values()) and all(map(number_in, values)):
        raise ValueError(f"{name} is {word}, which `values` of the map lacks")
    return values.get(word, value)


def parents_first(numbered: Iterable[Numbered], columns: Mapping[str, str]) -> Iterator[Numbered]:
    """Yield rows, each after its parent's row; rows whose parent is missing come last. Waiting rows are held in memory.

    ``columns``: field -> column.
    """
    own, other = columns.get("id", ""), columns.get("parent", "")
    seen, waiting = set[str](), dict[str, list[Numbered]]()
    for found in numbered:
        ready = [found]
        while ready:
            number, row = ready.pop(0)
            name, parent = name_in(row, own), name_in(row, other)
            if parent and parent != name and parent not in seen:
                waiting.setdefault(parent, []).append((number, row))
                continue
            yield number, row
            if name and name not in seen:
                seen.add(name)
                ready = waiting.pop(name, []) + ready
    yield from sorted((row for rows in waiting.values() for row in rows), key=lambda row: row[0])


def name_in(row: Mapping[str, Any] | BadRow, column: str) -> str:
    """Return the name of an attempt in a row, as text; empty if there is none."""
    value = None if not column or isinstance(row, BadRow) else templates.value_at(row, column)
    return str(whole(value)).removesuffix(".0") if is_given(value) else ""


def gathered(row: dict[str, Any], patterns: Sequence[str]) -> dict[str, Any]:
    """Return a row in which the columns that match a pattern such as ``grade *`` are one object: text of the asterisk -> value.

    An object has only entries for which all patterns have a column, and the first one a value.
    """
    if not patterns:
        return row
    found = [columns_like(pattern, row) for pattern in patterns]
    shared = [key for key in found[0] if all(key in names for names in found)]
    if not shared:
        return row
    taken = {names[key] for names in found for key in shared}
    keys = [key for key in shared if is_given(row[found[0][key]])]
    rest = {name: value for name, value in row.items() if name not in taken}
    return rest | {pattern: {key: row[names[key]] for key in keys} for pattern, names in zip(patterns, found, strict=True)}


def columns_like(pattern: str, row: Iterable[str]) -> dict[str, str]:
    """Return the columns that match a pattern, by the text of the asterisk."""
    before, _, after = pattern.partition("*")
    size = len(before) + len(after)
    found = [name for name in row if len(name) > size and name.startswith(before) and name.endswith(after)]
    return {name[len(before) : len(name) - len(after)]: name for name in found}


def sides_of(row: dict[str, Any], sides: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Return a row for each present column that holds an attempt; ``key`` is the column's name.

    Columns named after another side, such as ``rejected_score`` and ``score_rejected``, are left out of a side's row.
    """

    def own(side: str, others: set[str]) -> dict[str, Any]:
        return {name: value for name, value in row.items() if name != side and others.isdisjoint(name.split("_"))}

    found = [(name, side, {*columns} - {side}) for name, columns in sides.items() for side in columns if side in row]
    return [{**own(side, others), name: row[side], "key": side} for name, side, others in found]


def path_of(text: str) -> templates.Maker:
    """Return the maker of a file's path from a template."""
    return templates.maker_of(text) if "{" in text else templates.constant(text)


def as_row(name: str, item: Any) -> dict[str, Any]:
    """Return the columns of an item of a list: those of an object, else one column with the list's name."""
    return item if isinstance(item, dict) else {name: item}


def matches_of(row: dict[str, Any], match: Match) -> Iterator[dict[str, Any]]:
    """Yield a row with the groups of its first match, or a row for every match; ValueError without a match."""
    value = templates.value_at(row, match.column)
    text = templates.text_of(value) if is_given(value) else ""
    if match.every:
        found = [groups_of(one) for pattern in match.patterns for one in pattern.finditer(text)]
        if not found:
            raise ValueError(f"{match.column} has no match of {match.patterns[0].pattern!r}: {text[:60]!r}")
        yield from ({**row, **groups} for groups in found)
        return
    for pattern in match.patterns:
        if first := pattern.search(text):
            row = {**row, **groups_of(first)}
    yield row


def groups_of(found: Any) -> dict[str, Any]:
    """Return the named groups of a match that have text."""
    return {name: text for name, text in found.groupdict().items() if text is not None}
