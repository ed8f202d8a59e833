"""Which groups and attempts are trained on: SQL expressions over columns, checked when the recipe is read."""

import re
import sqlite3
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing, contextmanager
from difflib import get_close_matches
from typing import Self

from pydantic import model_validator

from upsolve.config.strict import Strict

__all__ = [
    "COLUMNS",
    "PAIRS",
    "QUERIES",
    "SelectConfig",
    "ask_pairs",
    "checked_pairs",
    "columns_read",
    "edit_distance",
    "pair_query",
    "selection_table",
]

COLUMNS: Mapping[str, tuple[str, str]] = {
    "task_id": ("TEXT", "id of the task"),
    "difficulty": ("TEXT", "label of the task, '' if unknown"),
    "source": ("TEXT", "source of the task"),
    "group_id": ("INTEGER", "number of the group, for PARTITION BY"),
    "attempts": ("INTEGER", "G, number of attempts of the group that have a reward"),
    "passes": ("REAL", "c, number of these attempts that passed"),
    "pass_rate": ("REAL", "share of the group's samples that passed, in [0, 1]; an attempt that occurs n times counts n times"),
    "author": ("TEXT", "author of the attempt"),
    "created": ("TEXT", "time of the attempt, ISO 8601, '' if unknown"),
    "status": ("TEXT", "status of the verdict: passed, failed, timeout, ..."),
    "passed": ("INTEGER", "1 if the attempt passed, else 0"),
    "tests_passed": ("INTEGER", "number of tests passed"),
    "tests": ("INTEGER", "number of tests of the task"),
    "reward": ("REAL", "reward of the attempt"),
    "reward_rank": ("INTEGER", "rank of the reward in the group, 1 the best; equal rewards have one rank"),
    "count": ("INTEGER", "number of occurrences of the same program in the group"),
    "length": ("INTEGER", "length of the program, characters"),
    "lines": ("INTEGER", "number of lines of the program"),
    "tokens": ("INTEGER", "number of sampled tokens, NULL if not sampled"),
    "truncated": ("INTEGER", "1 if sampling stopped at the token limit"),
    "logp": (
        "REAL",
        "mean log-probability of the attempt's tokens under the model that wrote it, at temperature 1, nats, NULL if unknown",
    ),
    "start_logp": (
        "REAL",
        "mean log-probability of the attempt's tokens under the start model of the run, nats; offline only",
    ),
    "start_min_logp": ("REAL", "smallest log-probability of a token under the start model, nats; offline only"),
    "entropy": (
        "REAL",
        "mean entropy of the next-token distributions of the model that wrote the attempt, nats, NULL if unknown",
    ),
    "cpu_seconds": ("REAL", "processor time of judging, seconds, NULL if unknown"),
    "memory_bytes": ("INTEGER", "peak memory, bytes, NULL if unknown"),
    "findings": ("INTEGER", "number of recorded findings of lint, security and types"),
    "scores": ("TEXT", "scores of the attempt by name as a JSON object, NULL if none: `scores->>'grader' > 0.5`"),
    "label_right": ("REAL", "probability that the label (passed or not) is right, in [0, 1], NULL if unknown; offline only"),
    "error_type": ("TEXT", "exception that ended the attempt, '' if none"),
    "language": ("TEXT", "language of the attempt, lower case"),
    "code": ("TEXT", "the program"),
    "extra": ("TEXT", "further fields of the attempt as a JSON object, NULL if none: `extra->>'points'`"),
    "task_extra": ("TEXT", "further fields of the task as a JSON object, NULL if none"),
    "round": ("INTEGER", "round (offline: epoch), from 0"),
    "chance": ("REAL", "random number in [0, 1), different for every attempt, round and data.seed"),
}
"""Name -> SQL type and meaning."""
ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}
RANDOM = {"random", "randomblob", "load_extension"}
CREATE = f"CREATE TABLE attempts ({', '.join(f'{name} {kind}' for name, (kind, _) in COLUMNS.items())}, place INTEGER, has_cost INTEGER)"
QUERIES = {
    "groups": "SELECT group_id FROM attempts GROUP BY group_id HAVING {}",
    "attempts": "SELECT group_id, place FROM (SELECT group_id, place, ({}) AS keep FROM attempts) WHERE keep",
    "weight": "SELECT group_id, place, ({}) FROM attempts",
    "order": "SELECT group_id FROM attempts GROUP BY group_id ORDER BY {}, group_id",
}
"""SQL query that evaluates each expression."""
PASSED_AND_FAILED = "chosen.passed AND NOT rejected.passed AND chosen.code <> rejected.code"
PAIRS: Mapping[str, str] = {
    "edit": f"{PASSED_AND_FAILED} ORDER BY edit_distance(chosen.code, rejected.code)",
    "efficiency": "chosen.passed AND rejected.passed AND chosen.cpu_seconds < rejected.cpu_seconds"
    " AND chosen.cpu_seconds <= 0.5 * rejected.cpu_seconds AND chosen.has_cost = rejected.has_cost",
    "outcome": PASSED_AND_FAILED,
    "reward": "chosen.reward > rejected.reward AND chosen.code <> rejected.code ORDER BY chosen.reward - rejected.reward DESC",
}
"""Name -> condition on a pair of attempts at a task, with the order of preference. A small edit isolates the mistake. Times are noisy, so the faster
attempt takes at most half of the time. Costs (``verify.cost``) exclude the start of a process, and are only compared with costs."""
PAIR_QUERY = """
SELECT chosen.place, rejected.place, {} FROM attempts AS chosen JOIN attempts AS rejected ON chosen.place <> rejected.place WHERE (
{}
) ORDER BY chosen.place, rejected.place
"""
NO_PAIR_COLUMNS = {"start_logp", "start_min_logp", "label_right"}
"""Columns whose value is computed for ``select`` alone, so that conditions on pairs cannot use them."""
SPLIT = re.compile(r"""'[^']*'|"[^"]*"|[()]|\border\s+by\b""", re.IGNORECASE)


@contextmanager
def selection_table() -> Generator[sqlite3.Connection]:
    """Yield a database in memory with an empty table ``attempts``: ``COLUMNS`` and the place of an attempt in its group."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(CREATE)
        connection.create_function("edit_distance", 2, edit_distance, deterministic=True)
        yield connection


def edit_distance(text: str | None, other: str | None) -> int | None:
    """Return the Levenshtein distance: the smallest number of insertions, deletions and replacements of characters; None for NULL."""
    if text is None or other is None:
        return None
    import numpy as np

    codes = np.array([ord(letter) for letter in other], dtype=np.int64)
    columns = np.arange(len(other) + 1)
    row = columns
    for i, letter in enumerate(text, start=1):
        row = np.concatenate([[i], np.minimum(row[1:] + 1, row[:-1] + (codes != ord(letter)))])
        row = columns + np.minimum.accumulate(row - columns)  # insertions, from the left
    return int(row[-1])


def pair_query(kind: str) -> str:
    """Return the SQL query for pairs of attempts: by a name of ``PAIRS``, or by a condition with or without ``ORDER BY``.

    A row has the place of the chosen attempt, that of the rejected one, and the rank of the pair: 1 is the best, equal pairs share a rank.
    """
    text, depth = PAIRS.get(kind, kind), 0
    condition, order = text, ""
    for word in SPLIT.finditer(text):
        depth += {"(": 1, ")": -1}.get(word[0], 0)
        if depth == 0 and word[0][0] in "oO":
            condition, order = text[: word.start()], text[word.end() :]
    return PAIR_QUERY.format(f"dense_rank() OVER (ORDER BY {order})" if order else "1", condition)


def ask_pairs(table: sqlite3.Connection, kind: str) -> list[tuple[int, int, int]]:
    """Return the rows of ``pair_query`` over the attempts of one group; ValueError, with the known columns, if SQLite cannot read the query."""
    table.set_authorizer(read_only)
    try:
        return table.execute(pair_query(kind)).fetchall()
    except (sqlite3.Error, sqlite3.Warning) as error:
        known = ", ".join(sorted(COLUMNS.keys() - NO_PAIR_COLUMNS))
        raise ValueError(
            f"{kind!r}: {error}; a pair is one of {', '.join(PAIRS)}, or a condition on chosen.COLUMN and rejected.COLUMN, with the columns {known}"
        ) from error
    finally:
        table.set_authorizer(None)


def checked_pairs(kinds: str | tuple[str, ...]) -> str | tuple[str, ...]:
    """Return the checked names or conditions of pairs; ValueError for an empty list, a repeated entry, or an expression that SQLite cannot parse."""
    several = (kinds,) if isinstance(kinds, str) else kinds
    if not several or len({*several}) < len(several):
        raise ValueError("name at least one kind of pairs, and each only once")
    with selection_table() as table:
        for kind in several:
            ask_pairs(table, kind)
    if wrong := sorted(NO_PAIR_COLUMNS & columns_read(map(pair_query, several))):
        raise ValueError(f"{', '.join(wrong)}: available only in the keys of select; use select.attempts to leave attempts out")
    return kinds


def columns_read(queries: Iterable[str]) -> set[str]:
    """Return the columns that queries over the table ``attempts`` read."""
    read = set[str]()

    def note(_action: int, _table: str | None, name: str | None, _database: str | None, _trigger: str | None) -> int:
        read.add(name or "")
        return sqlite3.SQLITE_OK

    with selection_table() as table:
        table.set_authorizer(note)
        for query in queries:
            table.execute(query)
    return read


def read_only(action: int, _first: str | None, second: str | None, _database: str | None, _trigger: str | None) -> int:
    """Restrict expressions to reading the table, and to functions with the same result in every run."""
    fits = action in ALLOWED and not (action == sqlite3.SQLITE_FUNCTION and second in RANDOM)
    return sqlite3.SQLITE_OK if fits else sqlite3.SQLITE_DENY


class SelectConfig(Strict):
    """Groups and attempts that are trained on, after their rewards are known: SQLite expressions (docs/selection.md); '' means all."""

    groups: str = ""
    """Groups that stay, such as ``pass_rate BETWEEN 0.1 AND 0.9``; of a group's attempts with aggregates: ``max(reward) > 0``."""
    attempts: str = ""
    """Attempts that stay, such as ``passed OR reward_rank <= 2``; advantages are computed among them."""
    weight: str = ""
    """Factor of an attempt's advantage, such as ``1.0 / passes``; NULL is an error."""
    order: str = ""
    """Order of the groups, such as ``pass_rate DESC``; '': random."""

    @property
    def is_on(self) -> bool:
        """True if anything is selected, weighted or ordered."""
        return any(getattr(self, name) for name in QUERIES)

    @property
    def reads_start(self) -> bool:
        """True if an expression reads a column of likelihoods: the frozen start model must then score the attempts."""
        return self.names("start_logp") or self.names("start_min_logp")

    @property
    def reads_labels(self) -> bool:
        """True if an expression reads ``label_right``, the probability that a label is right: it must then be estimated."""
        return self.names("label_right")

    def names(self, column: str) -> bool:
        """Return whether an expression reads a column."""
        return column in self.columns

    @property
    def columns(self) -> set[str]:
        """The columns that the expressions read."""
        return columns_read(QUERIES[name].format(expression) for name in QUERIES if (expression := getattr(self, name)))

    @model_validator(mode="after")
    def expressions_can_be_read(self) -> Self:
        """Refuse expressions with wrong syntax or unknown columns."""
        with selection_table() as table:
            for name in QUERIES:
                if getattr(self, name):
                    self.ask(table, name)
        return self

    def ask(self, table: sqlite3.Connection, name: str) -> list[tuple[object, ...]]:
        """Return the rows that an expression selects from a table. ValueError, with similar column names, if SQLite cannot read the expression."""
        expression: str = getattr(self, name)
        table.set_authorizer(read_only)
        try:
            return table.execute(QUERIES[name].format(expression)).fetchall()
        except (sqlite3.Error, sqlite3.Warning) as error:
            unknown = str(error).removeprefix("no such column: ")
            close = get_close_matches(unknown, COLUMNS, n=2) or sorted(COLUMNS)
            hint = f"; did you mean {', '.join(close)}?" if unknown != str(error) else ""
            raise ValueError(f"select.{name}: {expression!r}: {error}{hint}") from error
        finally:
            table.set_authorizer(None)
