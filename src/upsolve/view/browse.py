"""Pages of attempts and tasks, read from the index; and single attempts, tasks and groups, read in full from the parts of an archive."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from upsolve.archive.database import connect, read_from
from upsolve.archive.preference import preferred
from upsolve.archive.schema import TABLES
from upsolve.errors import ArchiveError
from upsolve.files import is_remote
from upsolve.records import from_row
from upsolve.report.programs import MOST_LINE, program_line, reason_of, reason_text, shortened, syntax_spans
from upsolve.types import Attempt, Group, Task, Verdict
from upsolve.view.index import Index, Scan

__all__ = [
    "CHOICES",
    "COLUMNS",
    "Filters",
    "count_attempts",
    "describe",
    "entry_at",
    "facets",
    "find_tasks",
    "list_attempts",
    "list_tasks",
    "preview_of",
    "previews",
    "read_attempt",
    "read_groups",
    "read_tasks",
    "records_of",
]

PAGE_ROWS = 100
"""Number of rows of a page."""
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
SORTS = {
    "task": "task_id",
    "outcome": "status",
    "tests": "passed / nullif(total, 0)",
    "author": "author",
    "difficulty": "difficulty",
    "findings": "len(rules)",
    "tokens": "tokens",
}
"""Name -> SQL expression by which the list of attempts can be sorted."""
TASK_SORTS = {
    "task": "task_id",
    "passed": "passed / nullif(scored, 0)",
    "attempts": "attempts",
    "difficulty": "difficulty",
    "language": "language",
}
"""Name -> SQL expression by which the list of tasks can be sorted."""
SCANNED = 4
"""Parts whose code is searched together, on all cores."""
EQUAL = {name: column for name, column, _ in CHOICES if name != "finding"} | {"task": "task_id"}
"""Filters that test equality -> their columns."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Filters for attempts; an empty filter accepts all."""

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
    """Text in the code; upper and lower case are equal."""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Filters":
        """Return the filters of a request; other parameters are ignored."""
        return cls(**{name: query[name] for name in cls.__slots__ if query.get(name)})

    def condition(self) -> tuple[str, list[Any]]:
        """Return all filters except ``text`` as an SQL condition, and its values."""
        given = [(column, getattr(self, name)) for name, column in EQUAL.items() if getattr(self, name)]
        parts, values = [f"{column} = ?" for column, _ in given], [value for _, value in given]
        if self.finding:
            parts.append("len(list_filter(rules, lambda r: r = ? or starts_with(r, ?))) > 0")
            values += [self.finding, f"{self.finding}:"]
        return " and ".join(parts) or "true", values


def list_attempts(index: Index, filters: Filters, *, after: int = -1, sort: str = "") -> dict[str, Any]:
    """Return a page of attempts after a place in the order of the archive: ``rows``, and the ``next`` place or None.

    ``sort`` is one of ``SORTS``; a leading ``-`` sorts from the largest value on. ``after`` and ``next`` then count rows.
    """
    if not index.ready:
        return {"rows": [{name: row[name] for name in COLUMNS.split(", ")} for row in index.preview[:PAGE_ROWS]], "next": None}
    if sort:
        return sorted_attempts(index, filters, sort, after=max(after, 0))
    if filters.text:
        return search(index, filters, after)
    condition, values = selected(index, filters)
    sql = f"select {COLUMNS} from entries where place > ? and {condition} order by place limit {PAGE_ROWS + 1}"  # noqa: S608
    rows = index.query(sql, [after, *values])
    return page_of(rows)


def sorted_attempts(index: Index, filters: Filters, sort: str, *, after: int) -> dict[str, Any]:
    """Return a page of attempts in the order of a column, without the first ``after`` rows; ValueError for an unknown column."""
    condition, values = selected(index, filters)
    order = order_of(sort, SORTS)
    sql = f"select {COLUMNS} from entries where {condition} order by {order} limit {PAGE_ROWS + 1} offset {after}"  # noqa: S608
    return counted_page(index.query(sql, values), after)


def order_of(sort: str, columns: Mapping[str, str]) -> str:
    """Return the order of a list as SQL; ValueError for an unknown column."""
    if sort.lstrip("-") not in columns:
        raise ValueError(f"sort: {sort!r} is not one of {', '.join(columns)}")
    return f"{columns[sort.lstrip('-')]} {'desc' if sort.startswith('-') else 'asc'} nulls last, place"


def counted_page(rows: list[dict[str, Any]], after: int) -> dict[str, Any]:
    """Return the page of rows after the first ``after`` rows; the query returns one row more than a page if another page follows."""
    return {"rows": rows[:PAGE_ROWS], "next": after + PAGE_ROWS if len(rows) > PAGE_ROWS else None}


def selected(index: Index, filters: Filters) -> tuple[str, list[Any]]:
    """Return all filters, including the text in the code, as an SQL condition, and its values."""
    condition, values = filters.condition()
    if not filters.text:
        return condition, values
    places = scanned(index, filters.text, len(index.parts["attempts"]))
    return f"{condition} and place in (select unnest(?::bigint[]))", [*values, places]


def previews(index: Index, places: Sequence[int]) -> dict[str, dict[str, str]]:
    """Return by place the first lines of the code of attempts, and the first error of their verdicts; at most one page."""
    sql = "select * from entries where place in (select unnest(?::bigint[]))"
    entries = index.query(sql, [[*places][:PAGE_ROWS]]) if index.ready else []
    tasks = read_tasks(index, [*{entry["task_id"] for entry in entries}])
    found: dict[str, dict[str, str]] = {}
    for entry, (attempt, judged) in zip(entries, records_of(index, entries), strict=True):
        best = preferred(judged, tasks.get(attempt.task_id) or Task(attempt.task_id, ""), index.judge)
        found[str(entry["place"])] = preview_of(attempt, best)
    return found


def preview_of(attempt: Attempt, verdict: Verdict | None) -> dict[str, str]:
    """Return the start of a program and of its error, each in one line."""
    error = reason_of(verdict.error_type, verdict.error_message, None).text if verdict else ""
    return {"code": program_line(attempt.code), "error": shortened(" ".join(error.split()), MOST_LINE)}


def page_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the page of rows; the query returns one row more than a page if another page follows."""
    return {"rows": rows[:PAGE_ROWS], "next": rows[PAGE_ROWS - 1]["place"] if len(rows) > PAGE_ROWS else None}


def search(index: Index, filters: Filters, after: int) -> dict[str, Any]:
    """Return a page of attempts whose code contains a text: the parts are searched in order, until the page is full."""
    condition, values = filters.condition()
    sql = f"select {COLUMNS} from entries where place in (select unnest(?::bigint[])) and {condition} order by place"  # noqa: S608
    rows, seen, parts = list[dict[str, Any]](), 0, len(index.parts["attempts"])
    for known in range(min(SCANNED, parts), parts + SCANNED, SCANNED):
        new = scanned(index, filters.text, min(known, parts))[seen:]
        seen += len(new)
        places = [place for place in new if place > after]
        rows += index.query(sql, [places, *values]) if places else []
        if len(rows) > PAGE_ROWS:
            break
    return page_of(rows)


def scanned(index: Index, text: str, parts: int) -> list[int]:
    """Return the places of at least the attempts of the first parts whose code contains a text; the index caches them for the last text."""
    if index.scan.text != text:
        index.scan = Scan(text)
    scan = index.scan
    while scan.parts < parts:
        with scan.lock:
            if scan.parts < parts:
                scan.places += matches(index, scan.parts, text)
                scan.parts += SCANNED
    return scan.places


def matches(index: Index, number: int, text: str) -> list[int]:
    """Return the places of attempts whose code contains a text, ignoring case, in ``SCANNED`` parts from the given one on."""
    parts = index.parts["attempts"][number : number + SCANNED]
    with connect({"attempts": parts}, places=True, shared=True) as connection:
        found = connection.execute("select place from attempts where regexp_matches(code, ?, 'li')", [text]).fetchall()
    return sorted((number << 32) + place for (place,) in found)


def count_attempts(index: Index, filters: Filters) -> int:
    """Return the number of attempts that match the filters; with a text, all code is read. The index caches the number."""

    def count() -> int:
        condition, values = selected(index, filters)
        return int(index.query(f"select count(*) as n from entries where {condition}", values)[0]["n"])  # noqa: S608

    return index.remember(filters, count)


def list_tasks(index: Index, *, after: int = -1, text: str = "", difficulty: str = "", sort: str = "") -> dict[str, Any]:
    """Return a page of tasks in the order of the archive, with their numbers of attempts; no rows until the index is ready.

    ``sort``: one of ``TASK_SORTS``, with ``-`` as for attempts.
    """
    if not index.ready:
        return {"rows": [], "next": None}
    parts, values = ["place > ?"], list[Any]([-1 if sort else after])
    if difficulty:
        parts.append("difficulty = ?")
        values.append(difficulty)
    if text:
        with connect({"tasks": index.parts["tasks"]}) as connection:
            sql = "select distinct task_id from tasks where contains(lower(task_id), lower(?)) or contains(lower(prompt), lower(?))"
            names = [name for (name,) in connection.execute(sql, [text, text]).fetchall()]
        parts.append("task_id in (select unnest(?::varchar[]))")
        values.append(names)
    order, passed = (order_of(sort, TASK_SORTS), max(after, 0)) if sort else ("place", 0)
    sql = f"select * from task_rows where {' and '.join(parts)} order by {order} limit {PAGE_ROWS + 1} offset {passed}"  # noqa: S608
    rows = index.query(sql, values)
    return counted_page(rows, passed) if sort else page_of(rows)


GROUPS = """
select difficulty, count_if(passed = scored) as passed, count_if(passed between 1 and scored - 1) as mixed, count_if(passed = 0) as failed
from task_rows where scored > 0 and difficulty <> '' group by difficulty order by sum(passed) / sum(scored) desc, difficulty
"""
"""Groups of scored attempts by difficulty, the easiest first: in how many all, some or none passed."""


def facets(index: Index) -> dict[str, Any]:
    """Return the values of every filter with their numbers of attempts, most frequent first, and the numbers of all records."""

    def read() -> dict[str, Any]:
        values: dict[str, list[Any]] = {name: [] for name, _, _ in CHOICES}
        for row in index.query("select facet, value, attempts from facets order by attempts desc, value"):
            values[row["facet"]].append([row["value"], row["attempts"]])
        (counts,) = index.query("select (select count(*) from entries) as attempts, (select count(*) from task_rows) as tasks")
        return {"facets": values, "counts": counts, "groups": index.query(GROUPS)}

    return index.remember("facets", read)


GROUP_ROWS = 2_000
"""Largest number of attempts of a task that are read as one group, from the first on."""


def read_rows(index: Index, table: str, places: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return the stored rows at some places, by place."""
    rows: dict[int, dict[str, Any]] = {}
    with connect({}, shared=not any(map(is_remote, index.parts[table]))) as connection:
        for number in sorted({place >> 32 for place in places}):
            here = [place & 0xFFFFFFFF for place in places if place >> 32 == number]
            sql = (
                f"select * from read_parquet(?, file_row_number = true) where file_row_number in ({', '.join(map(str, here))})"  # noqa: S608
            )
            (part,) = read_from(connection, [index.parts[table][number]])
            found = connection.sql(sql, params=[str(part)]).to_arrow_table()
            for row in found.to_pylist():
                rows[(number << 32) + row["file_row_number"]] = {name: row.get(name) for name in TABLES[table].names}
    return rows


def entry_at(index: Index, place: int) -> dict[str, Any]:
    """Return the row of the index at a place; ArchiveError if no attempt is stored there."""
    found = index.query("select * from entries where place = ?", [place]) if index.ready else index.preview
    entry = next((row for row in found if row["place"] == place), None)
    if entry is None:
        raise ArchiveError(f"the archive has no attempt at place {place}")
    return entry


def read_tasks(index: Index, names: Sequence[str]) -> dict[str, Task]:
    """Return tasks by id; tasks that are missing in the archive are left out."""
    return find_tasks(index.parts["tasks"], names)


def find_tasks(parts: Sequence[Path], names: Sequence[str]) -> dict[str, Task]:
    """Return tasks by id from the parts of an archive that hold tasks, in the order of the part names."""
    with connect({"tasks": [*parts]}, shared=True) as connection:
        sql = "select * from tasks where task_id in (select unnest(?))"
        found = connection.sql(sql, params=[[*names]]).to_arrow_table().to_pylist()
    tasks = {row["task_id"]: from_row(Task, row) for row in found}
    return {name: tasks[name] for name in names if name in tasks}


def records_of(index: Index, entries: Sequence[dict[str, Any]]) -> list[tuple[Attempt, list[Verdict]]]:
    """Return the attempts of rows of the index, each with the last scored verdict of each judge."""
    attempts = read_rows(index, "attempts", [entry["place"] for entry in entries])
    verdicts = read_rows(index, "verdicts", [place for entry in entries for place in entry["verdicts"]])
    return [
        (
            from_row(Attempt, {**attempts[entry["place"]], "count": entry["count"]}),
            [from_row(Verdict, verdicts[place]) for place in entry["verdicts"]],
        )
        for entry in entries
    ]


def read_groups(index: Index, names: Sequence[str], most: int = GROUP_ROWS) -> dict[str, tuple[Group, list[int]]]:
    """Return by task the attempts with their preferred verdicts, and their places; at most the first ``most`` attempts of each task."""
    few = f"qualify row_number() over (partition by task_id order by place) <= {int(most)}"
    entries = index.query(f"select * from entries where task_id in (select unnest(?)) {few} order by place", [[*names]])  # noqa: S608
    tasks, found = read_tasks(index, names), {name: list[tuple[Attempt, Verdict | None, int]]() for name in names}
    for entry, (attempt, judged) in zip(entries, records_of(index, entries), strict=True):
        task = tasks.setdefault(attempt.task_id, Task(attempt.task_id, ""))
        found[task.task_id].append((attempt, preferred(judged, task, index.judge), entry["place"]))
    groups: dict[str, tuple[Group, list[int]]] = {}
    for name, rows in found.items():
        attempts, verdicts = tuple(row[0] for row in rows), tuple(row[1] for row in rows)
        groups[name] = Group(tasks.get(name) or Task(name, ""), attempts, verdicts), [row[2] for row in rows]
    return groups


def read_attempt(index: Index, place: int) -> dict[str, Any]:
    """Return all data about an attempt, the preferred verdict first; ArchiveError if no attempt is stored at this place."""
    entry = entry_at(index, place)
    ((attempt, judged),) = records_of(index, [entry])
    task = read_tasks(index, [attempt.task_id]).get(attempt.task_id)
    return {
        **describe(entry, attempt, judged, task=task, judge=index.judge),
        "task": task and asdict(task),
        "parent": relative(index, "attempt_id = ?", attempt.parent_id),
        "repairs": relative(index, "parent_id = ?", entry["attempt_id"]),
    }


def describe(
    entry: dict[str, Any], attempt: Attempt, judged: Sequence[Verdict], *, task: Task | None, judge: str = ""
) -> dict[str, Any]:
    """Return the fields of an attempt, without its tokens, and its verdicts, the preferred one first."""
    best = preferred(judged, task or Task(attempt.task_id, ""), judge)
    others = [one for one in judged if not one.is_score and (best is None or one.judge != best.judge)]
    fields = {name: value for name, value in asdict(attempt).items() if name not in ("token_ids", "token_logps")}
    fields["syntax"] = syntax_spans(attempt.code, attempt.language)
    verdicts = [
        {**asdict(verdict), "reason": reason_text(reason_of(verdict.error_type, verdict.error_message, task))}
        for verdict in ([best] if best else []) + others
    ]
    shown = {**fields, "attempt_id": entry["attempt_id"]}
    return {"place": entry["place"], "attempt": shown, "verdicts": verdicts, "preview": preview_of(attempt, best)}


def relative(index: Index, condition: str, name: str) -> list[dict[str, Any]]:
    """Return place and status of at most ten attempts that fulfil a condition on an id."""
    if not name or not index.ready:
        return []
    return index.query(f"select place, status, author from entries where {condition} order by place limit 10", [name])  # noqa: S608
