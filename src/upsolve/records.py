"""Records <-> rows: the one place where a task, an attempt or a verdict becomes a JSON object, and an object becomes a record.

Rows come from archives, files, caches and HTTP; pydantic checks names and types, so that a wrong row is one clear ``ValueError``.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from itertools import islice
from operator import attrgetter
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from upsolve.checkers import program_from
from upsolve.types import Attempt, Finding, Task, TestCase, Verdict

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

__all__ = ["KINDS", "LOWEST", "are_plain", "checked", "from_row", "refuse_impossible", "to_row"]

R = TypeVar("R", bound=Task | Attempt | Verdict)

KINDS: Mapping[str, type[Task | Attempt | Verdict]] = {"task": Task, "attempt": Attempt, "verdict": Verdict}
"""Name of a kind in files and requests -> class of its records."""

NESTED = frozenset({"tests", "findings"})
"""Fields that hold a list of records."""
LARGEST = 2**63 - 1
"""Largest whole number that an archive stores."""
MOST_FIELDS = 64
"""Largest number of fields of a record in a list: each unknown field is one more problem, which takes memory."""
LOWEST: Mapping[type, Mapping[str, int]] = {
    Task: {},
    Attempt: {"count": 1, "tokens": 1, "entropy": 0},
    Verdict: dict.fromkeys(("passed", "total", "wall_seconds", "cpu_seconds", "memory_bytes", "judge_version"), 0)
    | {"error_line": 1},
}
"""Class -> field -> lowest value that it can have."""


@cache
def adapter(kind: type) -> "TypeAdapter[Any]":
    """Return the pydantic adapter of a record class; unknown fields are errors."""
    from pydantic import ConfigDict, TypeAdapter, with_config

    for nested in (kind, TestCase, Finding):
        with_config(ConfigDict(extra="forbid", revalidate_instances="always"))(nested)
    return TypeAdapter(kind)


@cache
def reader(kind: type) -> Any:
    """Return a validator of rows like ``adapter``, but stopping at the first invalid item of a list, since each problem takes memory."""
    from pydantic_core import SchemaValidator

    return SchemaValidator(failing_fast(adapter(kind).core_schema))


def failing_fast(schema: Any) -> Any:
    """Return a schema of pydantic in which lists and tuples stop at their first invalid item."""
    if isinstance(schema, list):
        return [failing_fast(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    fast = {"fail_fast": True} if schema.get("type") in ("list", "tuple") else {}
    return {**{key: failing_fast(part) for key, part in schema.items()}, **fast}


def refuse_unknown(fields: Mapping[str, Any], kind: type) -> None:
    """Raise ValueError for unknown fields of a record, of its tests or of its findings."""
    if unknown := [*islice((name for name in fields if name not in kind.__dataclass_fields__), 5)]:
        raise ValueError("; ".join(unknown_field(str(name)[:100], kind) for name in unknown))
    for name in NESTED & fields.keys():
        items = fields[name]
        for item in items if isinstance(items, list | tuple) else ():
            if isinstance(item, Mapping) and len(item) > MOST_FIELDS:
                raise ValueError(f"{name}: an item has {len(item)} fields, too many for a record")


def unknown_field(name: str, kind: type) -> str:
    """Return the message for an unknown field, with a similar name if there is one."""
    close = get_close_matches(name, kind.__dataclass_fields__, n=1)
    return f"unknown field {name}" + (f", did you mean {close[0]}?" if close else "")


def from_row(kind: type[R], row: Mapping[str, Any]) -> R:
    """Return the record of a row.

    Args:
        kind: ``Task``, ``Attempt`` or ``Verdict``.
        row: its fields, as JSON or Arrow gives them; an absent or null field gets its default. ``attempt_id`` of an attempt is computed
            from its content, so it is not read. A checker may be an object with the fields of a ``CheckerProgram``.

    Raises:
        ValueError: a field is missing, unknown or of another type; names each with its value.
    """
    computed = ("attempt_id",) if kind is Attempt else ()
    fields = {name: value for name, value in row.items() if value is not None and name not in computed}
    if kind is Task and isinstance(given := fields.get("checker"), Mapping):
        fields["checker"] = program_from(given).text
    refuse_unknown(fields, kind)
    try:
        record: R = reader(kind).validate_python(fields)
    except ValueError as error:  # pydantic's ValidationError
        raise ValueError(explain(error, kind)) from None
    return record


def checked(record: R) -> R:
    """Return a record whose fields have the types that types.py says; ValueError names each field of another type."""
    try:
        return adapter(type(record)).validate_python(record)
    except ValueError as error:  # pydantic's ValidationError
        raise ValueError(explain(error, type(record))) from None


def refuse_impossible(record: R) -> R:
    """Return a record that a file states; ValueError for impossible numbers, such as 5 of 3 tests passed."""
    for name, lowest in LOWEST[type(record)].items():
        value = getattr(record, name)
        if value is not None and not value >= lowest:
            raise ValueError(f"{name} is {value}, it must be at least {lowest}")
        if isinstance(value, int) and value > LARGEST:
            raise ValueError(f"{name} is larger than {LARGEST}, the largest number that an archive stores")
    if isinstance(record, Verdict) and 0 < record.total < record.passed:
        raise ValueError(f"passed is {record.passed}, more than total, {record.total}")
    if isinstance(record, Attempt) and record.behavior_logp is not None and not record.behavior_logp <= 0:
        raise ValueError(f"behavior_logp is {record.behavior_logp}, a log-probability is at most 0")
    return record


@cache
def scalars(kind: type) -> Mapping[str, frozenset[type]]:
    """Return the classes that the value of each field may have; for a sequence only ``tuple``, since its items are not checked."""
    hints = get_type_hints(kind)
    unions = {name: get_args(hint) if isinstance(hint := hints[name], UnionType) else (hint,) for name in kind.__slots__}  # type: ignore[attr-defined]
    return {
        name: frozenset({get_origin(part) or part for part in parts} | ({int} if float in parts else set()))
        for name, parts in unions.items()
    }


def are_plain(records: Sequence[Task | Attempt | Verdict]) -> bool:
    """Return whether records of one class certainly have fields of the right types. Compares only the classes of all values, without pydantic.

    False if a field holds a non-empty sequence or a value of another class: then use ``checked``.
    """
    for name, classes in scalars(type(records[0])).items():
        values = [*map(attrgetter(name), records)]
        if not {*map(type, values)} <= classes or (tuple in classes and any(values)):
            return False
    return True


def to_row(record: Task | Attempt | Verdict) -> dict[str, Any]:
    """Return the fields of a record as plain Python values; ``from_row`` gives an equal record back.

    Tuples stay tuples, which JSON writes as lists.
    """
    row: dict[str, Any] = adapter(type(record)).dump_python(record)
    return row


def explain(error: Any, kind: type) -> str:
    """Return the problems in one line: ``tests.0.expected: Input should be a valid string, not 4``."""
    return "; ".join(explain_one(part, kind) for part in error.errors()[:5])


def explain_one(part: "ErrorDetails", kind: type) -> str:
    """Return one problem: its key, and the invalid value or, for an unknown name, a similar field."""
    key = ".".join(map(str, part["loc"]))
    if part["type"] == "missing":
        return f"{key} is missing"
    if part["type"] == "value_error":  # of ``__post_init__``, which names the field
        return str(part.get("ctx", {}).get("error", part["msg"]))
    if part["type"] == "unexpected_keyword_argument":
        return unknown_field(key, kind)
    return f"{key}: {part['msg']}, not {str(part['input'])[:60]!r}"
