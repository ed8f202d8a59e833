"""Which groups and attempts are trained on: SQL expressions over columns, checked when the recipe is read."""

import sqlite3
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Self

from pydantic import model_validator

from upsolve.config.strict import Strict

__all__ = ["COLUMNS", "QUERIES", "SelectConfig", "selection_table"]

COLUMNS: Mapping[str, tuple[str, str]] = {
    "task_id": ("TEXT", "the task"),
    "difficulty": ("TEXT", "label of the task, '' if unknown"),
    "source": ("TEXT", "where the task is from"),
    "group_id": ("INTEGER", "number of the group, for PARTITION BY"),
    "attempts": ("INTEGER", "G, attempts of the group that have a reward"),
    "passes": ("REAL", "c, how many of them passed"),
    "pass_rate": ("REAL", "share of the group's samples that passed, an attempt seen n times counts n times, 0..1"),
    "author": ("TEXT", "who wrote the attempt"),
    "created": ("TEXT", "when, ISO 8601, '' if unknown"),
    "status": ("TEXT", "its verdict: passed, failed, timeout, ..."),
    "passed": ("INTEGER", "1 if it passed, else 0"),
    "tests_passed": ("INTEGER", "tests it passed"),
    "tests": ("INTEGER", "tests of the task"),
    "reward": ("REAL", "its reward"),
    "reward_rank": ("INTEGER", "1 is the group's best; equal rewards have one rank"),
    "count": ("INTEGER", "how often this very program was seen"),
    "length": ("INTEGER", "characters of the program"),
    "lines": ("INTEGER", "its lines"),
    "tokens": ("INTEGER", "tokens as sampled, NULL if not sampled"),
    "truncated": ("INTEGER", "1 if sampling stopped at the token limit"),
    "logp": ("REAL", "mean log-probability of its tokens under its author, nats, NULL if unknown"),
    "start_logp": ("REAL", "mean log-probability of its tokens under the model that training starts from, nats; offline only"),
    "start_min_logp": ("REAL", "the least log-probability of one of its tokens under that model, nats; offline only"),
    "entropy": ("REAL", "mean entropy of its author's distributions, nats, NULL if unknown"),
    "cpu_seconds": ("REAL", "processor time of judging it, NULL if unknown"),
    "memory_bytes": ("INTEGER", "its peak memory, NULL if unknown"),
    "findings": ("INTEGER", "findings of lint, security and types, as far as they were recorded"),
    "error_type": ("TEXT", "exception that ended it, '' if none"),
    "round": ("INTEGER", "the round, offline the epoch, from 0"),
    "chance": ("REAL", "a random number in [0, 1), another one for every attempt, round and data.seed"),
}
"""Name -> SQL type and meaning."""
ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}
RANDOM = {"random", "randomblob", "load_extension"}
CREATE = f"CREATE TABLE attempts ({', '.join(f'{name} {kind}' for name, (kind, _) in COLUMNS.items())}, place INTEGER)"
QUERIES = {
    "groups": "SELECT group_id FROM attempts GROUP BY group_id HAVING {}",
    "attempts": "SELECT group_id, place FROM (SELECT group_id, place, ({}) AS keep FROM attempts) WHERE keep",
    "weight": "SELECT group_id, place, ({}) FROM attempts",
    "order": "SELECT group_id FROM attempts GROUP BY group_id ORDER BY {}, group_id",
}
"""What an expression becomes."""


def selection_table() -> sqlite3.Connection:
    """Return an empty table ``attempts`` in memory, with ``COLUMNS`` and the place of an attempt in its group."""
    connection = sqlite3.connect(":memory:")
    connection.execute(CREATE)
    return connection


def read_only(action: int, _first: str | None, second: str | None, _database: str | None, _trigger: str | None) -> int:
    """Let expressions read the table alone, and nothing that differs from run to run."""
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
        """True if an expression names a column that the frozen start has to score attempts for."""
        return any("start_logp" in text or "start_min_logp" in text for text in (getattr(self, name) for name in QUERIES))

    @model_validator(mode="after")
    def expressions_can_be_read(self) -> Self:
        """Refuse expressions with wrong syntax or unknown columns."""
        with selection_table() as table:
            for name in QUERIES:
                if getattr(self, name):
                    self.ask(table, name)
        return self

    def ask(self, table: sqlite3.Connection, name: str) -> list[tuple[object, ...]]:
        """Return the rows that an expression gives over a table.

        Raises:
            ValueError: SQLite cannot read the expression; says what it says, and the columns that are close.
        """
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
