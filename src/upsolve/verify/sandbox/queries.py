"""Runs one query against several databases, each of them new and in memory.

Standard library only. The query is data to this module, which runs in the attempt's process: it may read the databases and nothing else,
and no expected row is here. Rows go to standard output, one JSON array a line: NULL as null, a blob as ``{"blob": hex}``.
"""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False  # typing itself is not imported: the fewer modules, the faster a fork
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
"""A job that fills the caches of the server which forks for queries."""


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
    if isinstance(value, bytes | bytearray | memoryview):
        return {"blob": bytes(value).hex()}
    if type(value).__name__ == "Decimal":
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value)
