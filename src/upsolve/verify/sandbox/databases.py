"""Databases in memory, a class an engine, that one query may read and that refuse everything else.

Standard library only, but for the engine itself. They run in the attempt's process.
"""

from __future__ import annotations

import re
import time

TYPE_CHECKING = False  # typing itself is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ENGINES", "SyntaxFaultError", "line_and_column"]

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
NAMING = ("NoSuchColumn", "NoSuchTable", "NoSuchFunction", "AmbiguousColumn")
"""Errors whose messages end with a name that stands in the query."""


class SyntaxFaultError(Exception):
    """The query is not one statement: message, and where in the query (None if unknown)."""


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
        return (message, None) if "null character" in message or "surrogates not allowed" in message else None

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
        place = place_of(code, message.rpartition(": ")[2]) if kind in NAMING else None
        return [kind, message, line_and_column(code, place)[0]]

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


class Duckdb:
    """A DuckDB database, its query in a transaction that only reads: no files, no other settings, one thread, one seed."""

    def __init__(self, script: str) -> None:
        import duckdb

        self.duckdb: Any = duckdb
        self.base = duckdb.connect(":memory:", config={"threads": 1, "enable_external_access": False})
        self.base.execute(script)
        self.base.execute("SELECT setseed(0.5)")
        self.base.execute("SET lock_configuration = true")
        self.base.execute("BEGIN TRANSACTION READ ONLY")
        self.denied = ""

    def rows(self, code: str, seconds: float) -> Any:
        """Yield the rows of the query, a chunk at a time; errors as ``Sqlite.rows``."""
        import threading

        clock = threading.Timer(seconds, self.base.interrupt) if seconds else None
        try:
            statements = self.base.extract_statements(code)
            if len(statements) != 1:
                said = "more than one statement: a query is one" if statements else "not a query: it has no columns"
                raise SyntaxFaultError(said, None)
            if (kind := statements[0].type.name) != "SELECT":
                self.denied = f"{kind.lower()} is refused: a query may only read"
                raise PermissionError(self.denied)
            if clock:
                clock.start()
            self.base.execute(statements[0])
            while chunk := self.base.fetchmany(CHUNK):
                yield chunk
        except self.duckdb.ParserException as error:
            raise SyntaxFaultError(str(error).split("\n")[0], offset_in(code, str(error))) from error
        except self.duckdb.InterruptException as error:
            raise TimeoutError from error
        finally:
            if clock:
                clock.cancel()

    def described(self, error: BaseException, code: str) -> list[Any]:
        """Return ``[type, message, line]`` of an error."""
        message = str(error).split("\n")[0]
        if "read-only mode" in message or isinstance(error, self.duckdb.PermissionException):
            self.denied = f"{message}: a query may only read its database"
        if self.denied:
            return ["Refused", self.denied, None]
        kind = next((name for words, name in DUCKDB_KINDS if re.search(words, message)), type(error).__name__)
        return [kind, message, line_and_column(code, offset_in(code, str(error)))[0]]

    def close(self) -> None:
        """Free its memory."""
        self.base.close()


DUCKDB_KINDS = (
    ("^Binder Error: Referenced (column|table)", "NoSuchColumn"),
    ("^Catalog Error: Table", "NoSuchTable"),
    ("^Catalog Error: .*Function", "NoSuchFunction"),
    ("^Binder Error: Ambiguous", "AmbiguousColumn"),
    ("^Out of Memory Error", "MemoryError"),
)
"""Beginnings of DuckDB's messages -> what such an error is called."""


def offset_in(code: str, message: str) -> int | None:
    """Return the place in a query that the last two lines of a message of DuckDB point at: ``LINE 2: FORM t`` and a caret below."""
    found = re.search(r"^(LINE (\d+): )(.*)\n( *)\^", message, re.MULTILINE)
    if found is None:
        return None
    before = sum(len(line) + 1 for line in code.split("\n")[: int(found[2]) - 1])
    shown = found[3].removeprefix("...")
    line = code[before:].partition("\n")[0]
    start = max(0, line.find(shown.removesuffix("...")))
    return before + start + max(0, len(found[4]) - len(found[1]) - (len(found[3]) - len(shown)))


ENGINES: Any = {"sqlite": Sqlite, "duckdb": Duckdb}
