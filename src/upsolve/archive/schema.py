"""The columns of an archive, and records as an Arrow table. The schema version changes whenever a column does."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import pyarrow as pa

from upsolve.types import Attempt, Task, Verdict

__all__ = ["FINDING", "OLDEST", "SCHEMA", "TABLES", "to_table"]

SCHEMA = 8
"""Version written into every archive; earlier ones can be read, too.

2 added tasks.compare, tasks.checker, verdicts.executed_lines; 3 added verdicts.analyses and the values of findings;
4 added attempts.token_ids; 5 added attempts.token_logps, tasks.requires; 6 added tasks.limit_seconds, tasks.limit_bytes, attempts.answer;
7 added verdicts.judge_version; 8 added attempts.prefix.
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
            ("limit_seconds", REAL),
            ("limit_bytes", WHOLE),
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
            ("answer", TEXT),
            ("prefix", TEXT),
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
            ("judge_version", WHOLE),
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
    return pa.Table.from_arrays([to_column(records, field) for field in TABLES[name]], schema=TABLES[name])


def to_column(records: Sequence[Task | Attempt | Verdict], field: Any) -> Any:
    """Return one field of the records as an Arrow array."""
    values: list[Any] = [*map(attrgetter(field.name), records)]
    if pa.types.is_list(field.type) and pa.types.is_struct(field.type.value_type):
        values = [[to_struct(item, field.type.value_type) for item in value] for value in values]
    elif field.name == "extra":
        values = [value or None for value in values]  # JSON functions of SQL fail on empty strings
    try:
        return pa.array(values, field.type)
    except UnicodeEncodeError:
        return pa.array(clean(values), field.type)


def to_struct(record: Any, struct: Any) -> dict[str, Any]:
    """Return a test or a finding as a value of an Arrow struct."""
    return {field.name: getattr(record, field.name) for field in struct}
