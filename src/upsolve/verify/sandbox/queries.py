"""Runs one query against several databases, each of them new and in memory.

Standard library only. The query is data to this module, which runs in the attempt's process: it may read the databases and nothing else,
and no expected row is here. Rows go to standard output, one JSON array a line: NULL as null, a blob as ``{"blob": hex}``.
"""

from __future__ import annotations

import json
import os
import re
import time

TYPE_CHECKING = False  # typing itself is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from typing import Any

__all__ = ["EXAMPLE", "run"]

CHUNK = 200
"""Rows that are fetched and written at once."""
STEPS = 100_000
"""Instructions of SQLite's machine between two looks at the clock."""
PREFIXES = 50
"""Most beginnings of a query that are tried to find where its syntax error is."""
REFUSED = {
    **dict.fromkeys(("random", "randomblob"), "a query must give the same rows each time"),
    **dict.fromkeys(
        ("load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"), "a query may read its database alone"
    ),
}
"""Functions that no query may call, and why not."""
KINDS = (
    ("no such column", "NoSuchColumn"),
    ("no such table", "NoSuchTable"),
    ("no such function", "NoSuchFunction"),
    ("ambiguous column", "AmbiguousColumn"),
    ("misuse of", "Misuse"),
    ("wrong number of arguments", "WrongArguments"),
    ("string or blob too big", "MemoryError"),
    ("out of memory", "MemoryError"),
)
"""How messages begin -> what such an error is called."""


EXAMPLE = {
    "kind": "queries",
    "engine": "sqlite",
    "code": "SELECT x, count(*) FROM t GROUP BY x ORDER BY 1",
    "databases": ["CREATE TABLE t(x TEXT, y REAL); INSERT INTO t VALUES('a', 0.5);"],
    "test_seconds": 0,
    "output_bytes": 999,
}
"""A job that fills the caches of the server which forks for queries."""


class SyntaxFaultError(Exception):
    """The query is not one statement: message, and where in the query (None if unknown)."""


class RowsEndError(Exception):
    """The rows are more than may be written."""


def run(job: dict[str, Any], report: Any) -> None:
    """Run a query against each database; report for each where its rows end in the output, or its error.

    The rows of a test are the bytes from ``start`` to ``end`` of the output. After a syntax error or a flood nothing more is run.

    Args:
        job: ``engine``, ``code``, ``databases`` (one SQL script each), ``test_seconds`` (0: no limit of one test), ``output_bytes``.
        report: writes a record of plain fields to the results.
    """
    written = 0
    for index, script in enumerate(job["databases"]):
        try:
            connection = ENGINES[job["engine"]](script)
        except Exception as error:
            report(setup=[type(error).__name__, f"database {index + 1}: {error}", None])
            return
        try:
            end = write_rows(connection.rows(job["code"], job["test_seconds"]), written, job["output_bytes"])
            report(test=index, start=written, end=end)
        except RowsEndError:
            return
        except SyntaxFaultError as error:
            message, place = error.args
            report(compile=["SyntaxError", message, *line_and_column(job["code"], place)])
            return
        except TimeoutError:
            report(test=index, timeout=True)
        except BaseException as error:
            report(test=index, error=connection.described(error, job["code"]))
        written = os.lseek(1, 0, os.SEEK_END)
        connection.close()
    report(done=True)


def write_rows(rows: Any, written: int, most: int) -> int:
    """Write rows to standard output; return where they end.

    Raises:
        RowsEndError: the output is longer than ``most`` bytes.
    """
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=blob).encode
    for chunk in rows:
        data = "".join([encode(row) + "\n" for row in chunk]).encode("utf-8", "replace")[: most + 1 - written]
        written += len(data)
        while data:
            data = data[os.write(1, data) :]
        if written > most:
            raise RowsEndError
    return written


def blob(value: Any) -> Any:
    """Return what stands for a cell that JSON does not have."""
    return {"blob": bytes(value).hex()} if isinstance(value, bytes | bytearray | memoryview) else str(value)


def text(data: bytes) -> str:
    """Return a text cell, whatever its bytes."""
    return data.decode("utf-8", "replace")


def line_and_column(code: str, place: int | None) -> tuple[int | None, int | None]:
    """Return line and column of an offset, both from 1."""
    if place is None:
        return None, None
    before = code[:place]
    return before.count("\n") + 1, place - before.rfind("\n")


def place_of(code: str, name: str) -> int | None:
    """Return where a word first stands in a query, None where it does not."""
    found = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", code, re.IGNORECASE)
    return found.start() if found else None


class Sqlite:
    """A database in memory, open for reading."""

    def __init__(self, script: str) -> None:
        import sqlite3

        self.sqlite3: Any = sqlite3
        self.base = sqlite3.connect(":memory:", isolation_level=None)
        self.base.text_factory = text
        self.base.executescript(f"PRAGMA temp_store = MEMORY;\n{script}")
        if self.base.in_transaction:
            self.base.commit()
        self.denied = ""
        self.base.set_authorizer(self.allow)

    def allow(self, action: int, first: str | None, second: str | None, _database: str | None, _inner: str | None) -> int:
        """Say what the query may do: read tables, and call functions that are not refused."""
        here = self.sqlite3
        if action in (here.SQLITE_SELECT, here.SQLITE_READ, here.SQLITE_RECURSIVE):
            return here.SQLITE_OK
        if action == here.SQLITE_FUNCTION and (second or "").lower() not in REFUSED:
            return here.SQLITE_OK
        if action == here.SQLITE_FUNCTION:
            self.denied = f"{second}() is refused: {REFUSED[(second or '').lower()]}"
        else:
            self.denied = f"{action_name(here, action)}{f' ({first})' if first else ''} is refused: a query may only read"
        return here.SQLITE_DENY

    def rows(self, code: str, seconds: float) -> Any:
        """Yield the rows of the query, a chunk at a time.

        Raises:
            SyntaxFaultError: it does not parse, or is not one statement.
            TimeoutError: it took longer than ``seconds`` (0: no limit).
        """
        if seconds:
            deadline = time.monotonic() + seconds
            self.base.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)
        try:
            cursor = self.base.execute(code)
            if cursor.description is None:
                raise SyntaxFaultError("not a query: it has no columns", None)
            while chunk := cursor.fetchmany(CHUNK):
                yield chunk
        except (self.sqlite3.Error, self.sqlite3.Warning, ValueError) as error:
            if str(error) == "interrupted":
                raise TimeoutError from error
            if fault := self.syntax_fault(code, str(error)):
                raise SyntaxFaultError(*fault) from error
            raise

    def syntax_fault(self, code: str, message: str) -> tuple[str, int | None] | None:
        """Return message and place where an error says that a query does not parse, else None."""
        if message.startswith("You can only execute one statement"):
            return "more than one statement: a query is one", None
        if message == "incomplete input":
            return "the query ends too early", len(code.rstrip())
        if found := re.fullmatch(r'near "(.*)": syntax error|unrecognized token: "(.*)"', message, re.DOTALL):
            return message, self.failing_place(code, found[1] or found[2] or "", message)
        if self.denied or type(message) is not str:
            return None
        return (message, None) if "null character" in message or "surrogates" in message else None

    def failing_place(self, code: str, token: str, message: str) -> int | None:
        """Return where the token stands at which parsing fails: at the end of the shortest beginning that fails in the same way."""
        word = rf"(?<!\w){re.escape(token)}(?!\w)" if token[:1].isalnum() else re.escape(token)
        places = [found.start() for found in re.finditer(word, code)]
        for place in places[:PREFIXES]:
            try:
                self.base.execute("EXPLAIN " + code[: place + len(token)])
            except self.sqlite3.Error as error:
                if str(error) == message:
                    return place
        return places[0] if places else None

    def described(self, error: BaseException, code: str) -> list[Any]:
        """Return ``[type, message, line]`` of an error."""
        if self.denied:
            return ["Refused", self.denied, None]
        message = str(error)
        kind = next((name for words, name in KINDS if message.startswith(words)), type(error).__name__)
        name = (
            message.rpartition(": ")[2] if kind in ("NoSuchColumn", "NoSuchTable", "NoSuchFunction", "AmbiguousColumn") else ""
        )
        return [kind, message, line_and_column(code, place_of(code, name) if name else None)[0]]

    def close(self) -> None:
        """Free its memory."""
        self.base.set_progress_handler(None, 0)
        self.base.close()


def action_name(module: Any, action: int) -> str:
    """Return what SQLite's authorizer calls an action, in words: ``drop table``."""
    names = [name for name in dir(module) if ACTION.match(name) and getattr(module, name) == action]
    return names[0].removeprefix("SQLITE_").replace("_", " ").lower() if names else f"action {action}"


ACTION = re.compile(
    "SQLITE_(CREATE|DROP|ALTER|ANALYZE|ATTACH|DELETE|DETACH|INSERT|PRAGMA|REINDEX|SAVEPOINT|TRANSACTION|UPDATE)(_|$)"
)
ENGINES: Any = {"sqlite": Sqlite}
