"""Records that a source yields for rows, and values in rows."""

import ast
import json
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from itertools import islice
from math import ceil, isfinite
from pathlib import Path
from typing import Any

from upsolve.errors import one_line
from upsolve.records import KINDS, are_plain, checked
from upsolve.types import Attempt, Task, Verdict
from upsolve.yaml_text import read_yaml

__all__ = [
    "NOWHERE",
    "ODD",
    "SECONDS",
    "BadRow",
    "LeftOut",
    "Numbered",
    "Odd",
    "Row",
    "Rows",
    "answered_in",
    "as_json",
    "build_each",
    "chats_in",
    "columns_in",
    "counted",
    "data_in",
    "decoded",
    "emptied",
    "enough",
    "everywhere",
    "first_rows",
    "halves",
    "head_of",
    "is_message",
    "json_in",
    "keep_example",
    "known_words",
    "language_of_task",
    "languages_from",
    "left_out",
    "moment",
    "nested_columns",
    "nested_value",
    "odd_fields",
    "place_of_row",
    "reason_of",
    "text_of",
    "without",
]


@dataclass(frozen=True, slots=True)
class Refused:
    """A part of a file that is not stored."""

    file: str
    """File of the part; empty: the file of the row that is being read (``place_of_row``)."""
    line: int
    """Number of the line or row, from 1; 0 if unknown."""
    reason: str
    """Reason."""
    text: str
    """First 500 characters of the part."""


class BadRow(Refused):
    """A row that cannot be used; the import counts it, and stores it with its reason."""

    __slots__ = ()


class LeftOut(Refused):
    """A test that is left out because it cannot fail; the row is stored, and the import names and counts the test."""

    __slots__ = ()


class Odd(LeftOut):
    """An invalid optional field: the row is stored with the field in ``extra``, and the import names and counts the field."""

    __slots__ = ()


ODD = (ArithmeticError, AttributeError, LookupError, RecursionError, SyntaxError, TypeError, ValueError)
"""Exceptions that a reader may raise on values of an unexpected type or form."""

Row = Task | Attempt | Verdict | BadRow | LeftOut

Numbered = tuple[int, dict[str, Any] | BadRow]
"""A row with its number, from 1."""
Build = Callable[[dict[str, Any]], Iterable[Row]]
"""Returns the records of a row."""
Rows = Sequence[Mapping[str, Any]]
"""Rows by the names of their columns."""
HEAD, HEAD_SIZE = 1000, 1 << 20
"""Largest number of rows, and of their characters, that are inspected before the import."""
SECONDS = 1e8
LATEST = 2e9
"""Range of numbers that are read as seconds since 1970 (1973 to 2033). Larger numbers are dates without separators, such as 2024010112."""
CHUNK = 100
"""Most rows whose records are checked together."""
HELD = 10_000
"""Maximum number of tasks of rejected rows that are held for an attempt at them."""
USERS = ("user", "human")
TEXTS = ("content", "text", "parts", "value", "message", "kwargs", "data")
"""Names of what holds the text of a message or of one of its parts."""
NOWHERE: tuple[str, int] = ("", 0)
reading: list[tuple[str, int]] = [NOWHERE]
"""File and line of the row whose records ``build_each`` is yielding."""
counted: list[int] = [0]
"""Rows that ``build_each`` has read in this process."""


@cache
def data_in(name: str) -> dict[str, Any]:
    """Return the content of a YAML file beside this module."""
    return read_yaml(Path(__file__).with_name(name).read_text(encoding="utf-8"), words=True)


@cache
def known_words() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the sections of ``words.yaml``, each with names and words by their meaning."""
    sections = data_in("words.yaml").items()
    return {key: {name: tuple(words.split(", ")) for name, words in section.items()} for key, section in sections}


def place_of_row() -> tuple[str, int]:
    """Return file and line of the record that a reader has just yielded; ("", 0) if it does not read with ``build_each``.

    An error that only other records reveal, such as a task with other content, can thus name the line of its record.
    """
    return reading[0]


languages: list[Callable[[str], str]] = []
"""Functions that return the language of a task in another file or import (``languages_from``)."""


@contextmanager
def languages_from(language_of: Callable[[str], str]) -> Generator[None]:
    """Context manager: readers look up languages of tasks in other files or imports with ``language_of``."""
    languages.append(language_of)
    try:
        yield
    finally:
        languages.pop()


def language_of_task(task_id: str) -> str:
    """Return the language of a task in another file or import; empty if it is unknown, or may be any."""
    return languages[-1](task_id) if languages else ""


def build_each(file: Path, rows: Iterable[Numbered], build: Build) -> Iterator[Row]:
    """Yield the records that ``build`` returns for each row.

    A row becomes a ``BadRow`` with the reason if ``build`` raises, or if a field of a record has another type. Its tasks are yielded before the next
    attempt at them, or at the end: a reader that yields each task once does not yield them again.
    """
    numbered, held = iter(rows), dict[str, tuple[int, Task]]()
    try:
        while chunk := first_rows(numbered, CHUNK):
            built = [(number, row, *build_row(file, number, row, build)) for number, row in chunk]
            found: list[Any] = [record for _, _, records, _ in built for record in records]
            by_kind = {kind: [record for record in found if type(record) is kind] for kind in KINDS.values()}
            odd = tuple(kind for kind, some in by_kind.items() if some and not are_plain(some))
            for number, row, records, tasks in built:
                plain = not odd or not any(isinstance(record, odd) for record in records)
                sound, more = (records, []) if plain else build_row(file, number, row, partial(checked_rows, records))
                reading[0], counted[0] = (str(file), number), counted[0] + 1
                yield from with_tasks(sound, held) if held else sound
                held |= {task.task_id: (number, task) for task in [*tasks, *more]}
                while len(held) > HELD:
                    yield held.pop(next(iter(held)))[1]
        for number, task in held.values():
            reading[0] = (str(file), number)
            yield task
    finally:
        reading[0] = NOWHERE


def with_tasks(records: Iterable[Row], held: dict[str, tuple[int, Task]]) -> Iterator[Row]:
    """Yield records; before an attempt, its task if that is among the held ones. Held tasks are yielded or replaced."""
    for record in records:
        if isinstance(record, Attempt) and record.task_id in held:
            yield held.pop(record.task_id)[1]
        elif isinstance(record, Task):
            held.pop(record.task_id, None)
        yield record


def build_row(file: Path, number: int, row: dict[str, Any] | BadRow, build: Build) -> tuple[list[Row], list[Task]]:
    """Return the records of a row, or a ``BadRow`` with the reason and with the tasks that the row still has."""
    if isinstance(row, BadRow):
        return [row], []
    records: list[Row] = []
    try:
        for record in build(row):
            if isinstance(record, Attempt):
                refuse_surrogates(record.code)
            records.append(record)
        return records, []
    except ODD as error:
        tasks = [record for record in records if isinstance(record, Task) and is_sound(record)]
        return [BadRow(str(file), number, reason_of(error), head_of(row))], tasks


def enough(bad: int, rows: int) -> str:
    """Return the least ``--max-rejected`` that allows a number of rejected rows, rounded up to a hundredth."""
    return f"{min(1, ceil(100 * bad / max(1, rows)) / 100):g}"


def keep_example(shown: list[BadRow], row: BadRow) -> None:
    """Add a rejected row to the three that are shown, or replace one by it whose reason is that of another one."""
    reasons = [one.reason for one in shown]
    again = next((at for at, reason in enumerate(reasons) if reason in reasons[:at]), 3)
    if len(shown) < 3:
        shown.append(row)
    elif again < 3 and row.reason not in reasons:
        del shown[again]
        shown.append(row)


def is_sound(task: Task) -> bool:
    """Return whether the fields of a task have the right types."""
    try:
        checked(task)
    except ODD:
        return False
    return True


def head_of(value: Any) -> str:
    """Return the first 500 characters of a value; a note if the value is nested too deeply to be printed."""
    try:
        return str(value)[:500]
    except RecursionError:
        return "(nested too deeply to be shown)"


def left_out(refused: Iterable[tuple[str, str]]) -> Iterator[LeftOut]:
    """Yield the tests that cannot fail, given their reasons and texts."""
    for reason, text in refused:
        yield LeftOut("", 0, reason, text[:500])


def odd_fields(fields: Mapping[str, Any], reason: str) -> Iterator[Odd]:
    """Yield a record for each invalid optional field, by name."""
    for name, value in fields.items():
        yield Odd("", 0, f"({name}) {reason}", str(value)[:500])


ENCODE = json.JSONEncoder(default=str, allow_nan=False).encode


def as_json(value: Any) -> str:
    """Return a value as JSON that every reader understands: infinity, nan, and types that JSON does not have become text."""
    try:
        return ENCODE(value)
    except ValueError:
        return ENCODE(everywhere(value, lambda one: str(one) if isinstance(one, float) and not isfinite(one) else one))


def everywhere(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a JSON value after applying a function to each part that is neither an object nor a list."""
    if isinstance(value, Mapping):
        return {str(name): everywhere(one, change) for name, one in value.items()}
    return [everywhere(one, change) for one in value] if isinstance(value, list | tuple) else change(value)


def refuse_surrogates(code: Any) -> None:
    """Raise ValueError for a program with lone surrogates, since its stored text and id would be those of another program."""
    if isinstance(code, str) and not code.isascii():
        try:
            code.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"code: {error.object[error.start]!a} is half of a character (a lone surrogate)") from None


def reason_of(error: Exception) -> str:
    """Return why a row could not be read, in one line."""
    if isinstance(error, KeyError):
        return f"no field {error}"
    return one_line(error if type(error) is ValueError else f"{type(error).__name__}: {error}")


def checked_rows(records: Iterable[Row], _row: Any) -> Iterator[Row]:
    """Yield records whose fields have the right types, and ``BadRow`` unchanged; ValueError names each field of another type."""
    yield from (record if isinstance(record, Refused) else checked(record) for record in records)


def first_rows(numbered: Iterator[Numbered], most: int = HEAD) -> deque[Numbered]:
    """Return the next rows: at most ``most``, with at most ``HEAD_SIZE`` characters."""
    rows: deque[Numbered] = deque()
    size = 0
    for number, row in islice(numbered, most):
        rows.append((number, row))
        size += length_of(row)
        if size > HEAD_SIZE:
            break
    return rows


def length_of(row: Any) -> int:
    """Return the approximate number of characters of a row."""
    values = row.values() if isinstance(row, dict) else ()
    try:
        return sum([len(value if type(value) is str else str(value)) for value in values])
    except RecursionError:  # a value that is nested too deeply
        return HEAD_SIZE


def emptied(rows: deque[Any]) -> Iterator[Any]:
    """Yield rows, each removed from the queue before, so that its memory is freed."""
    while rows:
        yield rows.popleft()


def nested_columns(row: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the dotted names of the values of a row: ``meta``, ``meta.user``."""
    for name, value in row.items():
        yield prefix + name if prefix else name
        if isinstance(value, dict):
            yield from nested_columns(value, f"{prefix}{name}.")


def columns_in(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the dotted names of the values of rows, each once, in order of appearance (``nested_columns``)."""
    return [*dict.fromkeys(name for row in rows for name in nested_columns(row))]


def nested_value(row: Any, path: Sequence[str]) -> Any:
    """Return the value at a path of names and list indices, such as ``("messages", "0", "content")``; None if there is none."""
    for name in path:
        row = json_in(row) if isinstance(row, str) else row
        if isinstance(row, dict):
            row = row.get(name)
        else:
            row = row[int(name)] if isinstance(row, list) and name.isdigit() and int(name) < len(row) else None
    return row


def json_in(text: str) -> Any:
    """Parse a cell with an object or list, as JSON or as a Python literal; None for other text."""
    for read in (json.loads, ast.literal_eval) if text.lstrip().startswith(("{", "[")) else ():
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            return read(text)
    return None


def text_of(value: Any, *, strict: bool = True) -> str:
    """Return a prompt, a message or one of its parts as text, without thoughts; empty lines separate messages and parts.

    Raises:
        ValueError: a value is neither text nor a message, and ``strict``; else its text is empty.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n\n".join(filter(None, (text_of(one, strict=strict) for one in value)))
    given: Mapping[str, Any] = value if isinstance(value, dict) else {}
    if strict and given.keys().isdisjoint((*TEXTS, "type", "thought")):
        raise ValueError(f"{str(value)[:60]!r} is neither text nor messages")
    if given.get("thought") or given.get("type") in ("thinking", "reasoning"):
        return ""
    held = [given[name] for name in TEXTS if given.get(name) and (name != "data" or isinstance(given[name], dict))]
    return next(filter(None, (text_of(one, strict=False) for one in held)), "")


def is_message(item: Any) -> bool:
    """Return whether a value is a message of a chat."""
    return isinstance(item, dict) and any({*pair} <= item.keys() for pair in (("role", "content"), ("from", "value")))


def halves(messages: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return what a chat asks, which ends with the user's last message, and the messages after it; all are asked of a chat without a user."""
    roles = [one.get("role", one.get("from")) if isinstance(one, dict) else "" for one in messages]
    end = max((at for at, role in enumerate(roles, start=1) if role in USERS), default=0)
    return messages[:end], messages[end:]


def answered_in(prompt: Any, answer: Any) -> dict[str, str]:
    """Return the texts of ``prompt`` and ``answer`` of which one is a chat or both are, by these names; without those that are no chats.

    The prompt ends with the user's last message, the answer follows it; a prompt that is missing is that of the answer's chat.
    """
    asked, answered = (chat_in(prompt), chat_in(answer))
    found = {"prompt": text_of(halves(asked)[0] or asked)} if asked else {}
    if answered:
        before, after = halves(answered)
        found = ({} if prompt or not before else {"prompt": text_of(before)}) | found | {"answer": text_of(after)}
    return found


def chat_in(value: Any) -> list[Any]:
    """Return the messages that a value holds, perhaps as JSON; [] for other values."""
    value = json_in(value) if isinstance(value, str) else value
    return value if isinstance(value, list) and all(map(is_message, value)) else []


def chats_in(rows: Rows) -> dict[str, str]:
    """Return ``prompt`` and ``answer`` -> the first column of messages that ask, and that answer: both in one if its chats end with the answer."""
    found: dict[str, str] = {}
    for name in columns_in(rows):
        chats = [chat_in(value) for row in rows if (value := nested_value(row, name.split(".")))]
        if chats and all(chats):
            parts = [*map(halves, chats)]
            found |= {"prompt": name} if "prompt" not in found and any(asked for asked, _ in parts) else {}
            found |= {"answer": name} if "answer" not in found and any(answered for _, answered in parts) else {}
    return found


def without(row: Any, path: Sequence[str]) -> Any:
    """Return a copy of a row without the value at a path, and without objects and lists that become empty."""
    first, *rest = path
    if isinstance(row, list) and first.isdigit() and int(first) < len(row):
        left = [*row]
        left[int(first)] = (without(row[int(first)], rest) or None) if rest else None  # others keep their places
        return left if any(item is not None for item in left) else None
    if not isinstance(row, dict) or first not in row:
        return row
    inner = without(row[first], rest) if rest else None
    return {name: inner if name == first else value for name, value in row.items() if name != first or inner}


def decoded(data: bytes, encoding: str) -> str:
    """Return the text of a file in UTF-8, or else in the encoding that the user names; line ends as ``open`` reads them."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode(encoding or "utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def moment(value: Any) -> str:
    """Return a time as text: ISO 8601 for seconds or milliseconds since 1970; other values unchanged."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    seconds = number / 1000 if number > 9e11 else number
    return datetime.fromtimestamp(seconds, UTC).isoformat() if SECONDS <= seconds < LATEST else str(value)
