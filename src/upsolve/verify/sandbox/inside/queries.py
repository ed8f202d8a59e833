"""Runs one query against several databases, each created in memory; one class per engine refuses everything but reading tables.

Standard library only, except for the engine. Runs in the attempt's process, which holds no expected rows; the query can read its database and nothing
else. Rows are written to standard output, one JSON array per line: NULL as null, a blob as ``{"blob": hex}``.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from typing import Any

__all__ = ["EXAMPLE", "run"]

EXAMPLE = {
    "kind": "queries",
    "engine": "sqlite",
    "code": "SELECT x, count(*) FROM t GROUP BY x ORDER BY 1",
    "databases": ["CREATE TABLE t(x TEXT, y REAL); INSERT INTO t VALUES('a', 0.5);"],
    "test_seconds": 0,
    "output_bytes": 999,
}
"""A job for the warm-up of the server of profile ``sql``."""


class RowsEndError(Exception):
    """The rows exceed the output limit."""


def run(job: dict[str, Any], report: Any) -> None:
    """Run a query against each database; report one record per database: the span of its rows in the output, or an error.

    The rows of a test are the bytes ``start:end`` of the output. A syntax error or too much output ends the run.

    Args:
        job: ``engine``, ``code``, ``databases`` (SQL scripts), ``test_seconds`` (0: no limit per test), ``output_bytes``.
        report: writes a record of JSON-serialisable fields to the results.
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
            message, offset = error.args
            report(compile=["SyntaxError", message, *line_and_column(job["code"], offset)])
            return
        except TimeoutError:
            report(test=index, timeout=True)
        except BaseException as error:
            report(test=index, error=connection.described(error, job["code"]))
        written = os.lseek(1, 0, os.SEEK_END)
        connection.base.close()
    report(done=True)


def write_rows(rows: Any, written: int, max_bytes: int) -> int:
    """Write rows to standard output; return the offset of their end, bytes; RowsEndError if the output is longer than ``max_bytes``."""
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=blob).encode
    for chunk in rows:
        data = "".join([encode(row) + "\n" for row in chunk]).encode("utf-8", "replace")[: max_bytes + 1 - written]
        written += len(data)
        while data:
            data = data[os.write(1, data) :]
        if written > max_bytes:
            raise RowsEndError
    return written


def blob(value: Any) -> Any:
    """Return the JSON form of a cell whose type JSON does not have."""
    if isinstance(value, bytes | bytearray | memoryview):
        return {"blob": bytes(value).hex()}
    if type(value).__name__ == "Decimal":
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value)


CHUNK = 200
"""Rows per fetch and write."""
STEPS = 100_000
"""SQLite VM instructions between two checks of the deadline."""
PREFIXES = 50
"""Maximum number of prefixes of a query that are parsed to locate a syntax error."""
REFUSED = {
    "randomblob": "a query must give the same rows each time",
    **dict.fromkeys(
        ("load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"), "a query may read its database alone"
    ),
}
"""Refused function -> reason."""
FIRST_USES = ("SELECT 1 FROM json_each('[]')", "SELECT 1 FROM json_tree('[]')")
"""Queries that use table-valued functions before the authorizer is set, which would report a first use as a change of the schema."""
PRAGMAS = (
    "table_info",
    "table_xinfo",
    "table_list",
    "index_list",
    "index_info",
    "index_xinfo",
    "foreign_key_list",
    "data_version",
)
"""Pragmas that describe the tables of the database, and change nothing. ``MATCH`` in tables of fts5 uses ``data_version``."""
QUERY = re.compile(
    r"""(?P<query> (?:[\s;]|--[^\n]*|/\*.*?\*/)*+ (?:'[^']*'|"[^"]*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/|[^;])++ ;)
    (?:[\s;]|--[^\n]*|/\*.*?(?:\*/|\Z))*+""",
    re.DOTALL | re.VERBOSE,
)
"""A statement and the empty statements after it: semicolons, white space and comments."""
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
"""Prefix of SQLite's message -> error type in the verdict."""
NAMING = ("NoSuchColumn", "NoSuchTable", "NoSuchFunction", "AmbiguousColumn")
"""Error types whose messages end with a name from the query."""


class SyntaxFaultError(Exception):
    """The query is not a single valid statement: message, and offset in the query (None if unknown)."""


def line_and_column(code: str, offset: int | None) -> tuple[int | None, int | None]:
    """Return the line and column of an offset, both counted from 1; (None, None) for None."""
    if offset is None:
        return None, None
    before = code[:offset]
    return before.count("\n") + 1, offset - before.rfind("\n")


class Sqlite:
    """An in-memory SQLite database with a read-only authorizer."""

    def __init__(self, script: str) -> None:
        import sqlite3

        self.sqlite3: Any = sqlite3
        self.base = sqlite3.connect(":memory:", isolation_level=None)
        self.base.text_factory = lambda data: data.decode("utf-8", "replace")  # pyright: ignore[reportUnknownLambdaType]
        self.base.executescript(f"PRAGMA temp_store = MEMORY;\n{script}")
        if self.base.in_transaction:
            self.base.commit()
        self.denied = ""

    def allow(self, action: int, first: str | None, second: str | None, _database: str | None, _inner: str | None) -> int:
        """Authorizer callback: allows reading tables, ``PRAGMAS`` and calling functions that are not in ``REFUSED``."""
        module = self.sqlite3
        if action in (module.SQLITE_SELECT, module.SQLITE_READ, module.SQLITE_RECURSIVE):
            return module.SQLITE_OK
        if action == module.SQLITE_PRAGMA and (first or "").lower() in PRAGMAS:
            return module.SQLITE_OK
        if action == module.SQLITE_FUNCTION and (second or "").lower() not in REFUSED:
            return module.SQLITE_OK
        if action == module.SQLITE_FUNCTION:
            self.denied = f"{second}() is refused: {REFUSED[(second or '').lower()]}"
        else:
            self.denied = f"{action_name(module, action)}{f' ({first})' if first else ''} is refused: a query may only read"
        return module.SQLITE_DENY

    def rows(self, code: str, seconds: float) -> Any:
        """Yield the rows of the query, in lists of up to CHUNK; SyntaxFaultError if it is not a single query, TimeoutError after ``seconds`` (0: no
        limit)."""
        described = [f"SELECT 1 FROM pragma_{name}('')" for name in PRAGMAS] if "pragma_" in code.lower() else []
        for query in (*FIRST_USES, *described):
            with contextlib.suppress(self.sqlite3.Error):  # the script has a table of that name
                self.base.execute(query).close()
        if "random" in code.lower():
            import random  # seldom needed

            chance = random.Random(0)  # the same rows each time
            self.base.create_function("random", 0, lambda: chance.getrandbits(64) - 2**63)
        self.base.set_authorizer(self.allow)
        if seconds:
            deadline = time.monotonic() + seconds
            self.base.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)
        try:
            match = QUERY.fullmatch(code)
            cursor = self.base.execute(match["query"] if match else code)
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
        """Return message and offset if an error message means that the query does not parse, else None."""
        if message.startswith("You can only execute one statement"):
            return "more than one statement: a query is one", None
        if message == "incomplete input":
            return "the query ends too early", len(code.rstrip())
        if match := re.fullmatch(r'near "(.*)": syntax error|unrecognized token: "(.*)"', message, re.DOTALL):
            return message, self.failing_place(code, match[1] or match[2] or "", message)
        return (message, None) if "null character" in message or "surrogates not allowed" in message else None

    def failing_place(self, code: str, token: str, message: str) -> int | None:
        """Return the offset of the failing token: the end of the shortest prefix that fails with the same message."""
        word = rf"(?<!\w){re.escape(token)}(?!\w)" if token[:1].isalnum() else re.escape(token)
        offsets = [match.start() for match in re.finditer(word, code)]
        for offset in offsets[:PREFIXES]:
            try:
                self.base.execute("EXPLAIN " + code[: offset + len(token)])
            except self.sqlite3.Error as error:
                if str(error) == message:
                    return offset
        return offsets[0] if offsets else None

    def described(self, error: BaseException, code: str) -> list[Any]:
        """Return ``[type, message, line]`` of an error."""
        if self.denied:
            return ["Refused", self.denied, None]
        message = str(error)
        kind = next((name for words, name in KINDS if message.startswith(words)), type(error).__name__)
        name = rf"(?<!\w){re.escape(message.rpartition(': ')[2])}(?!\w)"
        found = re.search(name, code, re.IGNORECASE) if kind in NAMING else None
        return [kind, message, line_and_column(code, found and found.start())[0]]


def action_name(module: Any, action: int) -> str:
    """Return the name of an authorizer action in words, such as ``drop table``."""
    names = [name for name in dir(module) if ACTION.match(name) and getattr(module, name) == action]
    return names[0].removeprefix("SQLITE_").replace("_", " ").lower() if names else f"action {action}"


ACTION = re.compile(
    "SQLITE_(CREATE|DROP|ALTER|ANALYZE|ATTACH|DELETE|DETACH|INSERT|PRAGMA|REINDEX|SAVEPOINT|TRANSACTION|UPDATE)(_|$)"
)


class Duckdb:
    """An in-memory DuckDB database; queries run read-only, without files, with locked settings, one thread, a fixed seed."""

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
        """Yield the rows of the query, in lists of up to CHUNK; raises as ``Sqlite.rows``."""
        import threading

        clock = threading.Timer(seconds, self.base.interrupt) if seconds else None
        try:
            statements = self.base.extract_statements(code)
            if len(statements) != 1:
                message = "more than one statement: a query is one" if statements else "not a query: it has no columns"
                raise SyntaxFaultError(message, None)
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


DUCKDB_KINDS = (
    ("^Binder Error: Referenced (column|table)", "NoSuchColumn"),
    ("^Catalog Error: Table", "NoSuchTable"),
    ("^Catalog Error: .*Function", "NoSuchFunction"),
    ("^Binder Error: Ambiguous", "AmbiguousColumn"),
    ("^Out of Memory Error", "MemoryError"),
)
"""Regular expression for DuckDB's message -> error type in the verdict."""


def offset_in(code: str, message: str) -> int | None:
    """Return the offset to which a DuckDB message points: a line such as ``LINE 2: FORM t`` with a caret below it."""
    match = re.search(r"^(LINE (\d+): )(.*)\n( *)\^", message, re.MULTILINE)
    if match is None:
        return None
    before = sum(len(line) + 1 for line in code.split("\n")[: int(match[2]) - 1])
    shown = match[3].removeprefix("...")
    line = code[before:].partition("\n")[0]
    start = max(0, line.find(shown.removesuffix("...")))
    return before + start + max(0, len(match[4]) - len(match[1]) - (len(match[3]) - len(shown)))


ENGINES: Any = {"sqlite": Sqlite, "duckdb": Duckdb}
