"""Schemas as declared in train.txt, dev.txt and test.txt.

    == library                                    a schema
    book/books                                    a table: singular/plural; `planes = plane/planes` where its name differs
      id                                          its key
      pages count 80 900 ? ; number of pages ; with {} pages ; longest, shortest
      author_id > author by ; written a book      a foreign key: "books by the author ...", "has never written a book"

A column: name, kind of values, ``?`` where they may be missing; then a noun, a phrase for a condition, superlatives, each optional.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["SPLITS", "Column", "Link", "Schema", "Table", "plural", "read_schemas"]

SPLITS = ("train", "dev", "test")
FOLDER = Path(__file__).parent
TYPES = {"count": "INT", "int": "INT", "year": "INT", "real": "REAL", "money": "REAL"}
ROLES = {"count": "number", "int": "number", "real": "number", "money": "number", "year": "year", "date": "date"}
TEXTS = {"email", "phone"}
LABELS = {"person", "mix", "names"}


def plural(noun: str) -> str:
    """Return the plural of a noun: that of its first word where a preposition follows."""
    for word in (" of ", " in "):
        if word in noun:
            head, _, rest = noun.partition(word)
            return plural(head) + word + rest
    if noun.endswith(("s", "sh", "ch", "x")):
        return noun + "es"
    return noun[:-1] + "ies" if noun.endswith("y") and noun[-2] not in "aeiou" else noun + "s"


@dataclass(frozen=True, slots=True)
class Column:
    """A column with its values and its words."""

    table: str
    """Name of its table."""
    name: str
    """Its own."""
    role: str
    """``id``, ``fk``, ``label`` (one row, one value), ``category``, ``number``, ``year``, ``date`` or ``text``."""
    values: tuple[str, ...] = ()
    """Kind of values and what the kind needs."""
    nullable: bool = False
    noun: str = ""
    """Noun for its values."""
    phrase: str = ""
    """Condition on it, ``{}`` for the value: ``costing {} euros``."""
    most: str = ""
    """Superlative of its largest value, or empty."""
    least: str = ""
    """Superlative of its smallest."""

    @property
    def type(self) -> str:
        """Type in SQL."""
        return TYPES.get(self.values[0], "TEXT") if self.values else "TEXT" if self.name in ("code", "plate") else "INT"

    @property
    def additive(self) -> bool:
        """Whether a sum of its values is meaningful."""
        return self.values[:1] in (("count",), ("money",))


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its columns; the first is the key."""

    name: str
    one: str
    """A row: ``book``."""
    many: str
    """Rows: ``books``."""
    columns: tuple[Column, ...]

    @property
    def key(self) -> Column:
        """The key."""
        return self.columns[0]

    @property
    def label(self) -> Column:
        """Column that identifies a row for people: name or title, else the key."""
        return next((column for column in self.columns if column.role == "label"), self.key)

    def role(self, *roles: str) -> list[Column]:
        """Return the columns of some roles."""
        return [column for column in self.columns if column.role in roles]


@dataclass(frozen=True, slots=True)
class Link:
    """A foreign key."""

    child: Table
    column: Column
    parent: Table
    word: str
    """Between them: ``books`` *by* ``the author``."""
    deed: str
    """Phrase for a parent with children: ``written a book``; empty if not declared."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema and the split that it belongs to."""

    name: str
    split: str
    tables: tuple[Table, ...]
    links: tuple[Link, ...]

    @property
    def ddl(self) -> str:
        """The tables for a prompt, a line each."""
        return "\n".join(self.create(table, keys=False) for table in self.tables)

    def create(self, table: Table, *, keys: bool) -> str:
        """Return a CREATE TABLE; ``keys``: with its primary key, and with the columns that foreign keys refer to."""
        parents = {link.column.name: link.parent for link in self.links if link.child is table}
        columns: list[str] = []
        for column in table.columns:
            text = f"{column.name} {column.type}"
            if parent := parents.get(column.name):
                text = f"{column.name} {parent.key.type} REFERENCES {parent.name}" + (f"({parent.key.name})" if keys else "")
            columns.append(text + (" PRIMARY KEY" if keys and column is table.key else ""))
        return f"CREATE TABLE {table.name} ({', '.join(columns)})"


@dataclass(slots=True)
class Draft:
    """A schema while its lines are read."""

    name: str
    tables: list[Table] = field(default_factory=list[Table])
    links: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])

    def table(self, line: str) -> None:
        """Begin a table."""
        name, _, words = line.rpartition("=")
        one, _, many = words.strip().partition("/")
        self.tables.append(Table(name.strip() or one, one, many, ()))

    def column(self, line: str) -> None:
        """Add a column to the last table."""
        table = self.tables[-1]
        head, *words = [part.strip() for part in line.split(";")]
        nullable, head = head.endswith("?"), head.removesuffix("?").strip()
        name, _, spec = head.partition(" ")
        if spec.startswith(">"):
            column = Column(table.name, name, "fk", nullable=nullable, noun=name)
            self.links.append((table.name, name, f"{spec[1:].strip()};{words[0] if words else ''}"))
        elif not spec:
            column = Column(table.name, name, "id", noun="id" if name.endswith("id") else name)
        else:
            column = self.valued(table, name, spec, [*words, "", "", ""], nullable)
        self.tables[-1] = Table(table.name, table.one, table.many, (*table.columns, column))

    @staticmethod
    def valued(table: Table, name: str, spec: str, words: list[str], nullable: bool) -> Column:
        """Return a column that is not a key."""
        kind, _, rest = spec.partition(" ")
        values = (kind, *([rest] if kind in ("mix", "names", "pick") else rest.split()))
        first = kind in LABELS and not table.role("label")
        role = "label" if first else "text" if kind in TEXTS else ROLES.get(kind, "category")
        noun = words[0] or name.replace("_", " ")
        most, _, least = words[2].partition(", ")
        if role == "date" and not most:
            most, least = f"latest {noun}", f"earliest {noun}"
        return Column(table.name, name, role, values, nullable, noun, words[1] or f"whose {noun} is {{}}", most, least)

    def done(self, split: str) -> Schema:
        """Return the schema."""
        tables = {table.name: table for table in self.tables}
        links: list[Link] = []
        for child, column, text in self.links:
            target, deed = text.split(";")
            parent = max((t for t in self.tables if f"{target} ".startswith(f"{t.one} ")), key=lambda table: len(table.one))
            key = next(c for c in tables[child].columns if c.name == column)
            links.append(Link(tables[child], key, parent, target.removeprefix(parent.one).strip(), deed))
        return Schema(self.name, split, tuple(self.tables), tuple(links))


def read_schemas() -> Mapping[str, Schema]:
    """Return all schemas by name."""
    schemas: dict[str, Schema] = {}
    for split in SPLITS:
        draft: Draft | None = None
        for line in [*(FOLDER / f"{split}.txt").read_text(encoding="utf-8").splitlines(), "== "]:
            if line.startswith("== "):
                if draft:
                    schemas[draft.name] = draft.done(split)
                draft = Draft(line[3:].strip())
            elif draft and line.startswith("  "):
                draft.column(line)
            elif draft and line.strip():
                draft.table(line)
    return schemas
