"""Pages of attempts and tasks: filters, keyset pages, counts, all answered from the index."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from upsolve.archive.database import connect
from upsolve.view.index import Index

__all__ = ["CHOICES", "COLUMNS", "PAGE_ROWS", "Filters", "count_attempts", "facets", "list_attempts", "list_tasks"]

PAGE_ROWS = 100
"""Rows of a page."""
COLUMNS = "place, task_id, language, author, created, tokens, truncated, count, sampled, difficulty, status, passed, total, error_type, rules"
"""Fields of a row of the index that the list shows."""
CHOICES = (
    ("status", "status", "Outcome"),
    ("sampled", "sampled", "Task set and temperature"),
    ("difficulty", "difficulty", "Difficulty"),
    ("language", "language", "Language"),
    ("author", "author", "Author"),
    ("finding", "rules", "Finding"),
)
"""Filters whose values the page lists, in its order: name, column of the index, label. ``rules`` holds a list, the others one value."""
EQUAL = {name: column for name, column, _ in CHOICES if name != "finding"} | {"task": "task_id"}
"""Filters that compare, and their columns."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Which attempts are shown; an empty filter lets all through."""

    status: str = ""
    """Outcome, such as ``failed``; ``unjudged`` without a verdict."""
    difficulty: str = ""
    """Difficulty of the task."""
    author: str = ""
    """Author of the attempt."""
    language: str = ""
    """Language of the attempt."""
    sampled: str = ""
    """Task set and temperature of a sample of an evaluation."""
    finding: str = ""
    """A finding of the verdict, ``kind:rule``, such as ``lint:F401``, or a kind."""
    task: str = ""
    """Id of the task."""
    text: str = ""
    """Text in the code, in any case."""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Filters":
        """Return the filters of a request; other parameters are ignored."""
        return cls(**{name: query[name] for name in cls.__slots__ if query.get(name)})

    def condition(self) -> tuple[str, list[Any]]:
        """Return the filters except ``text`` as a condition of SQL, and its values."""
        given = [(column, getattr(self, name)) for name, column in EQUAL.items() if getattr(self, name)]
        parts, values = [f"{column} = ?" for column, _ in given], [value for _, value in given]
        if self.finding:
            parts.append("len(list_filter(rules, lambda r: r = ? or starts_with(r, ?))) > 0")
            values += [self.finding, f"{self.finding}:"]
        return " and ".join(parts) or "true", values


def list_attempts(index: Index, filters: Filters, *, after: int = -1) -> dict[str, Any]:
    """Return a page of attempts after a place in the order of the archive: ``rows``, and the ``next`` place or None."""
    if not index.ready:
        return {"rows": [{name: row[name] for name in COLUMNS.split(", ")} for row in index.preview[:PAGE_ROWS]], "next": None}
    if filters.text:
        return search(index, filters, after)
    condition, values = filters.condition()
    sql = f"select {COLUMNS} from entries where place > ? and {condition} order by place limit {PAGE_ROWS + 1}"  # noqa: S608
    rows = index.query(sql, [after, *values])
    return page_of(rows)


def page_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the page of rows, of which there is one more than a page has if another page follows."""
    return {"rows": rows[:PAGE_ROWS], "next": rows[PAGE_ROWS - 1]["place"] if len(rows) > PAGE_ROWS else None}


def search(index: Index, filters: Filters, after: int) -> dict[str, Any]:
    """Return a page of attempts whose code contains a text: the parts are searched in order, until the page is full."""
    condition, values = filters.condition()
    sql = f"select {COLUMNS} from entries where place in (select unnest(?::bigint[])) and {condition} order by place"  # noqa: S608
    rows: list[dict[str, Any]] = []
    for number in range(max(after, 0) >> 32, len(index.parts["attempts"])):
        places = [place for place in matches(index, number, filters.text) if place > after]
        rows += index.query(sql, [places, *values]) if places else []
        if len(rows) > PAGE_ROWS:
            break
    return page_of(rows)


def matches(index: Index, number: int, text: str) -> list[int]:
    """Return the places of the attempts of one part whose code contains a text, in any case."""
    with connect({"attempts": [index.parts["attempts"][number]]}, places=True) as connection:
        found = connection.execute("select place from attempts where contains(lower(code), lower(?))", [text]).fetchall()
    return [(number << 32) + place for (place,) in found]


def count_attempts(index: Index, filters: Filters) -> int:
    """Return the number of attempts that filters let through; with a text, all code is read. The index remembers it."""

    def count() -> int:
        condition, values = filters.condition()
        sql = f"select count(*) as n from entries where {condition}"  # noqa: S608
        if filters.text:
            places = [place for number in range(len(index.parts["attempts"])) for place in matches(index, number, filters.text)]
            sql, values = f"{sql} and place in (select unnest(?::bigint[]))", [*values, places]
        return int(index.query(sql, values)[0]["n"])

    return index.remember(filters, count)


def list_tasks(index: Index, *, after: int = -1, text: str = "", difficulty: str = "") -> dict[str, Any]:
    """Return a page of tasks in the order of the archive, with their numbers of attempts; no rows until the index is ready."""
    if not index.ready:
        return {"rows": [], "next": None}
    parts, values = ["place > ?"], list[Any]([after])
    if difficulty:
        parts.append("difficulty = ?")
        values.append(difficulty)
    if text:
        with connect({"tasks": index.parts["tasks"]}) as connection:
            sql = "select distinct task_id from tasks where contains(lower(task_id), lower(?)) or contains(lower(prompt), lower(?))"
            names = [name for (name,) in connection.execute(sql, [text, text]).fetchall()]
        parts.append("task_id in (select unnest(?::varchar[]))")
        values.append(names)
    rows = index.query(f"select * from task_rows where {' and '.join(parts)} order by place limit {PAGE_ROWS + 1}", values)  # noqa: S608
    return page_of(rows)


def facets(index: Index) -> dict[str, Any]:
    """Return the values of every filter with their numbers of attempts, most frequent first, and the numbers of all records."""

    def read() -> dict[str, Any]:
        values: dict[str, list[Any]] = {name: [] for name, _, _ in CHOICES}
        for row in index.query("select facet, value, attempts from facets order by attempts desc, value"):
            values[row["facet"]].append([row["value"], row["attempts"]])
        (counts,) = index.query("select (select count(*) from entries) as attempts, (select count(*) from task_rows) as tasks")
        return {"facets": values, "counts": counts}

    return index.remember("facets", read)
