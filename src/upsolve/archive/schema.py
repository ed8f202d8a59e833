"""The columns of an archive, and records as an Arrow table. The schema version changes whenever a column does."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

import pyarrow as pa

from upsolve.types import Attempt, Finding, Task, Verdict

__all__ = ["FINDING", "OLDEST", "SCHEMA", "TABLES", "to_table"]

SCHEMA = 8
"""Version written into every archive; earlier ones can be read, too.

2 added tasks.compare, tasks.checker, verdicts.executed_lines; 3 added verdicts.analyses and the values of findings;
4 added attempts.token_ids; 5 added attempts.token_logps, tasks.requires; 6 added tasks.limit_seconds, tasks.limit_bytes, attempts.answer;
7 added verdicts.judge_version; 8 added attempts.prefix.
"""
OLDEST = 1
"""Oldest version that can be read."""

ARROW: Mapping[type, Any] = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}


def columns_of(kind: Any) -> list[tuple[str, Any]]:
    """Return the names and Arrow types of the fields of a record class."""
    return [(one.name, arrow_type(one.type)) for one in fields(kind)]


def arrow_type(hint: Any) -> Any:
    """Return the Arrow type of the values of a field; each may be null."""
    kind = next(part for part in (get_args(hint) if isinstance(hint, UnionType) else (hint,)) if part is not NoneType)
    if get_origin(kind) is tuple:
        return pa.list_(arrow_type(get_args(kind)[0]))
    return pa.struct(columns_of(kind)) if is_dataclass(kind) else next(ARROW[base] for base in kind.__mro__ if base in ARROW)


FINDING = pa.struct(columns_of(Finding))
TABLES: Mapping[str, pa.Schema] = {
    "tasks": pa.schema(columns_of(Task)),
    "attempts": pa.schema({"attempt_id": pa.string(), **dict(columns_of(Attempt)), "token_ids": pa.list_(pa.int32())}),
    "verdicts": pa.schema(columns_of(Verdict)),
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
        names = [inner.name for inner in field.type.value_type]
        values = [[{name: getattr(item, name) for name in names} for item in value] for value in values]
    elif field.name == "extra":
        values = [value or None for value in values]  # JSON functions of SQL fail on empty strings
    try:
        return pa.array(values, field.type)
    except UnicodeEncodeError:
        return pa.array(clean(values), field.type)
