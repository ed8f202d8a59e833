"""The columns of an archive, and records as an Arrow table. The schema version changes whenever a column does."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from upsolve.records import to_row
from upsolve.types import Attempt, Task, Verdict

__all__ = ["FINDING", "OLDEST", "SCHEMA", "TABLES", "to_table"]

SCHEMA = 5
"""Version written into every archive; earlier ones can be read, too.

2 added tasks.compare, tasks.checker, verdicts.executed_lines; 3 added verdicts.analyses and the values of findings;
4 added attempts.token_ids; 5 added attempts.token_logps, tasks.requires.
"""
OLDEST = 1
"""Oldest version that can be read."""

TEXT, WHOLE, REAL = pa.string(), pa.int64(), pa.float64()

TEST = pa.struct([("kind", TEXT), ("input", TEXT), ("expected", TEXT), ("hidden", pa.bool_())])
FINDING = pa.struct(
    [
        ("kind", TEXT),
        ("rule", TEXT),
        ("message", TEXT),
        ("line", WHOLE),
        ("column", WHOLE),
        ("end_line", WHOLE),
        ("end_column", WHOLE),
        ("value", REAL),
    ]
)

TABLES: Mapping[str, pa.Schema] = {
    "tasks": pa.schema(
        [
            ("task_id", TEXT),
            ("prompt", TEXT),
            ("tests", pa.list_(TEST)),
            ("entry_point", TEXT),
            ("language", TEXT),
            ("difficulty", TEXT),
            ("source", TEXT),
            ("reference", TEXT),
            ("setup", TEXT),
            ("compare", TEXT),
            ("checker", TEXT),
            ("official", pa.bool_()),
            ("extra", TEXT),
            ("requires", pa.list_(TEXT)),
        ]
    ),
    "attempts": pa.schema(
        [
            ("attempt_id", TEXT),
            ("task_id", TEXT),
            ("code", TEXT),
            ("language", TEXT),
            ("author", TEXT),
            ("created", TEXT),
            ("parent_id", TEXT),
            ("behavior_logp", REAL),
            ("tokens", WHOLE),
            ("entropy", REAL),
            ("truncated", pa.bool_()),
            ("count", WHOLE),
            ("token_ids", pa.list_(pa.int32())),
            ("token_logps", pa.list_(REAL)),
            ("extra", TEXT),
        ]
    ),
    "verdicts": pa.schema(
        [
            ("attempt_id", TEXT),
            ("status", TEXT),
            ("passed", WHOLE),
            ("total", WHOLE),
            ("outcomes", pa.list_(TEXT)),
            ("judge", TEXT),
            ("isolation", TEXT),
            ("wall_seconds", REAL),
            ("cpu_seconds", REAL),
            ("memory_bytes", WHOLE),
            ("error_type", TEXT),
            ("error_message", TEXT),
            ("error_line", WHOLE),
            ("stdout_head", TEXT),
            ("stderr_head", TEXT),
            ("findings", pa.list_(FINDING)),
            ("executed_lines", pa.list_(WHOLE)),
            ("analyses", pa.list_(TEXT)),
        ]
    ),
}
"""Columns of every table, in order."""


def clean(value: Any) -> Any:
    """Replace lone surrogates, which Parquet cannot store, everywhere in a value."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace") if not value.isascii() else value
    if isinstance(value, dict):
        return {key: clean(item) for key, item in value.items()}
    return [clean(item) for item in value] if isinstance(value, list | tuple) else value


def to_table(name: str, records: Sequence[Task | Attempt | Verdict]) -> Any:
    """Return the records of one kind as an Arrow table."""
    rows: list[dict[str, Any]] = []
    for record in records:
        row = clean(to_row(record))
        if not row.get("extra"):
            row["extra"] = None  # JSON functions of SQL fail on empty strings
        rows.append({"attempt_id": record.attempt_id, **row} if isinstance(record, Attempt) else row)
    return pa.Table.from_pylist(rows, schema=TABLES[name])
