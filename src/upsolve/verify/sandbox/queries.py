"""Runs one query against several databases, each created in memory.

Standard library only. Runs in the attempt's process, which holds no expected rows; the query can read its database and nothing
else. Rows are written to standard output, one JSON array per line: NULL as null, a blob as ``{"blob": hex}``.
"""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from typing import Any

    from upsolve.verify.sandbox.databases import ENGINES, SyntaxFaultError, line_and_column
else:
    from databases import ENGINES, SyntaxFaultError, line_and_column

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
        connection.close()
    report(done=True)


def write_rows(rows: Any, written: int, max_bytes: int) -> int:
    """Write rows to standard output; return the offset of their end, bytes.

    Raises:
        RowsEndError: the output is longer than ``max_bytes``.
    """
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
    """Return the JSON form of a cell whose type JSON lacks."""
    if isinstance(value, bytes | bytearray | memoryview):
        return {"blob": bytes(value).hex()}
    if type(value).__name__ == "Decimal":
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value)
