"""Databases of a schema: rows with missing values, repeated values, parents without children."""

import sqlite3
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random
from typing import Any

from sqlworld.query import literal
from sqlworld.schema import Column, Schema, Table

__all__ = ["Database", "World"]

FIRST = [
    "Anna",
    "Bruno",
    "Carla",
    "David",
    "Elena",
    "Felix",
    "Greta",
    "Hugo",
    "Irene",
    "Jonas",
    "Klara",
    "Leon",
    "Maria",
    "Nils",
    "Olga",
    "Paul",
    "Rita",
    "Simon",
    "Tina",
    "Viktor",
    "Wanda",
    "Yusuf",
    "Zoe",
    "Amir",
    "Bea",
    "Chen",
    "Dora",
    "Emil",
    "Farah",
    "Goran",
    "Hana",
    "Ivan",
    "Jana",
    "Kofi",
    "Lena",
    "Marco",
    "Nora",
    "Omar",
    "Petra",
    "Rosa",
]
LAST = [
    "Weber",
    "Silva",
    "Novak",
    "Rossi",
    "Dubois",
    "Larsen",
    "Keller",
    "Moreau",
    "Jansen",
    "Costa",
    "Fischer",
    "Lindgren",
    "Ivanov",
    "Okafor",
    "Tanaka",
    "Nguyen",
    "Garcia",
    "Brandt",
    "Holm",
    "Meyer",
    "Santos",
    "Kovacs",
    "Lopez",
    "Schmidt",
    "Bauer",
    "Adler",
    "Conti",
    "Duarte",
    "Ferrer",
    "Greco",
    "Haas",
    "Ito",
    "Jung",
    "Kaya",
    "Lund",
    "Maier",
    "Nowak",
    "Ortiz",
    "Peters",
    "Roth",
]
CITIES = ["Lyon", "Oslo", "Turin", "Graz", "Porto", "Ghent", "Krakow", "Malmo", "Leipzig", "Seville", "Brno", "Bergen"]
COUNTRIES = [
    "France",
    "Norway",
    "Italy",
    "Austria",
    "Portugal",
    "Belgium",
    "Poland",
    "Sweden",
    "Spain",
    "Chile",
    "Japan",
    "Kenya",
]
MISSING, REPEATED, CHILDLESS = 0.18, 0.1, 0.22


@dataclass(frozen=True, slots=True)
class Database:
    """The rows of one database."""

    script: str
    """CREATE TABLE and INSERT statements."""
    rows: dict[str, list[dict[str, Any]]]
    """Rows by table."""

    def open(self) -> sqlite3.Connection:
        """Return a database in memory that refuses writes."""
        connection = sqlite3.connect(":memory:")
        connection.executescript(self.script)
        connection.execute("PRAGMA query_only = 1")
        return connection


class World:
    """A schema with a pool of databases."""

    def __init__(self, schema: Schema, seed: int, pool: int) -> None:
        self.schema = schema
        self.seed = f"{seed}/{schema.name}"
        self.choices = {
            (t.name, c.name): choices(c, Random(f"{self.seed}/{t.name}/{c.name}")) for t in schema.tables for c in t.columns
        }
        self.databases = [self.database(Random(f"{self.seed}/database/{number}")) for number in range(pool)]
        self.connections = [database.open() for database in self.databases]

    def values(self, column: Column) -> list[Any]:
        """Return the values of a column that are in at least half of the databases or, of numbers, in any; sorted."""
        counts: dict[Any, int] = {}
        for database in self.databases:
            for value in {row[column.name] for row in database.rows[column.table]} - {None}:
                counts[value] = counts.get(value, 0) + 1
        minimum = len(self.databases) / 2 if column.role in ("label", "category") else 1
        return sorted(value for value, times in counts.items() if times >= minimum)

    def database(self, random: Random) -> Database:
        """Return one database."""
        rows: dict[str, list[dict[str, Any]]] = {}
        for table in self.schema.tables:
            rows[table.name] = self.fill(table, rows, random)
        lines = [f"{self.schema.create(table, keys=True)};" for table in self.schema.tables]
        for name, table_rows in rows.items():
            values = ", ".join("(" + ", ".join(cell(value) for value in row.values()) + ")" for row in table_rows)
            lines.append(f"INSERT INTO {name} VALUES {values};")
        return Database("\n".join(lines) + "\n", rows)

    def fill(self, table: Table, rows: dict[str, list[dict[str, Any]]], random: Random) -> list[dict[str, Any]]:
        """Return the rows of a table: few in one that refers to no other, most in one that no other refers to."""
        parents = {link.column.name: link.parent for link in self.schema.links if link.child is table}
        referred = any(link.parent is table for link in self.schema.links)
        size = random.randint(6, 8) if not parents else random.randint(9, 12) if referred else random.randint(13, 18)
        columns: dict[str, list[Any]] = {}
        for column in table.columns:
            if parent := parents.get(column.name):
                keys = [row[parent.key.name] for row in rows[parent.name]]
                alive = [key for key in keys if random.random() > CHILDLESS] or keys
                columns[column.name] = random.choices(alive, [random.uniform(1, 4) for _ in alive], k=size)
            else:
                columns[column.name] = self.column(column, size, random)
                size = len(columns[column.name])
            if column.nullable:
                columns[column.name] = [None if random.random() < MISSING else value for value in columns[column.name]]
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=False)]

    def column(self, column: Column, size: int, random: Random) -> list[Any]:
        """Return the values of a column; of a label at most as many as there are different ones."""
        if column.role == "id":
            start = random.choice([1, 1, 11, 101])
            return [f"K{start + i:03d}" if column.type == "TEXT" else start + i for i in range(size)]
        pool = self.choices[column.table, column.name]
        if column.role == "label":
            return random.sample(pool, min(size, len(pool)))
        if pool:
            return random.choices(pool, [random.uniform(0.4, 3) for _ in pool], k=size)
        values: list[Any] = []
        for _ in range(size):
            repeated = values and random.random() < REPEATED
            values.append(random.choice(values) if repeated else single(column, random))
        return values


def choices(column: Column, random: Random) -> list[Any]:
    """Return the values that a column of names or categories can have in any database of the schema; empty for other columns."""
    kind, *rest = column.values or ("",)
    if kind == "mix":
        heads, tails = (part.strip().split("|") for part in rest[0].split(" + "))
        combinations = [f"{head} {tail}" for head in heads for tail in tails]
        return sorted(random.sample(combinations, min(len(combinations), 16)))
    if kind in ("names", "pick"):
        return rest[0].split("|")
    if kind == "person":
        number = 16 if column.role == "label" else 6
        return [f"{a} {b}" for a, b in zip(random.sample(FIRST, number), random.sample(LAST, number), strict=True)]
    pools = {"city": CITIES, "country": COUNTRIES, "first": FIRST}
    return sorted(random.sample(pools[kind], 5)) if kind in pools else []


def single(column: Column, random: Random) -> Any:
    """Return one value of a column of numbers, dates or texts."""
    kind, *bounds = column.values
    if kind == "email":
        return f"{random.choice(FIRST).lower()}.{random.choice(LAST).lower()}@{random.choice(['post', 'mail', 'web'])}.example"
    if kind == "phone":
        return f"0{random.randint(100, 999)} {random.randint(10000, 99999)}"
    low, high = (int(bound) for bound in bounds)
    if kind == "date":
        start = date(low, 1, 1)
        return (start + timedelta(days=random.randrange((date(high, 12, 31) - start).days))).isoformat()
    if kind == "money":
        return random.randint(low, high - 1) + random.choice([0.0, 0.25, 0.5, 0.75, 0.9])
    if kind == "real":
        return round(random.uniform(low, high), 1)
    step = 1 if high - low < 400 else 10 if high - low < 5000 else 100
    return low + step * random.randint(0, (high - low) // step)


def cell(value: Any) -> str:
    """Return a value of a row as SQL writes it."""
    return "NULL" if value is None else literal(value)
