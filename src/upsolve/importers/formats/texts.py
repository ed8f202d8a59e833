"""Rows of texts: JSON lines, JSON arrays and CSV, of any size."""

import codecs
import csv
import json
import re
import shlex
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from io import StringIO, TextIOWrapper
from itertools import count
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.formats.files import Member, unreadable
from upsolve.importers.rows import BadRow, Numbered, head_of

__all__ = [
    "DELIMITERS",
    "SEPARATOR",
    "Quotes",
    "csv_rows",
    "delimiter_of",
    "encoding_of",
    "json_rows",
    "line_rows",
    "lists_in",
    "names_of",
    "objects_in",
]

WRONG = "surrogateescape"
"""Error handler for bytes that are not text: they become lone surrogates, so that only their row is rejected."""
NO_ARRAY = "is not a JSON array of objects (pandas writes one with to_json(orient='records'))"
"""End of the message for JSON that is not an array of objects, with the remedy."""
SAMPLE = 1 << 20
"""Characters of a CSV file that show its format."""
CHUNK, NEAR_END = 1 << 20, 16
"""Number of characters of JSON that are read at a time; length of the longest JSON word, which the end of a chunk may cut."""
MARK = "\ufeff"
"""Byte order mark, which may occur twice."""
SPACE = re.compile(r"[ \t\r\n]*")


class Decoder:
    """Parses JSON, and records the keys that an object repeats with different values."""

    def __init__(self) -> None:
        """Begin without such keys."""
        self.twins: list[str] = []
        decoder = json.JSONDecoder(object_pairs_hook=self.object_of)
        self.decode, self.raw_decode = decoder.decode, decoder.raw_decode

    def object_of(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Return an object from its pairs; the last value of a repeated key counts."""
        found = dict(pairs)
        if len(found) != len(pairs):
            self.twins += [name for name, value in pairs if found[name] != value]
        return found

    def reason(self) -> str:
        """Return why the values parsed since the last call cannot be used; empty if they can."""
        twins, self.twins[:] = self.twins[:1], ()
        return f"the key {twins[0]!r} is there twice, with different values" if twins else ""


def encoding_of(head: bytes) -> str:
    """Return the encoding (UTF-8, UTF-16 or UTF-32) that the first bytes of a text show."""
    return "utf-8-sig" if json.detect_encoding(head).startswith("utf-8") else json.detect_encoding(head)


def opened(member: Member, encoding: str = "", errors: str = "strict") -> TextIOWrapper:
    """Open a text, by default in the encoding that its first bytes show; SourceError for an unknown encoding."""
    file = member.open()
    try:
        codecs.lookup(encoding or "utf-8")
        return TextIOWrapper(file, encoding or encoding_of(file.peek(4)[:4]), errors, newline="")  # type: ignore[attr-defined]
    except LookupError as error:
        file.close()
        raise SourceError(
            f"{member.where}: cannot be read: {error}; encodings are utf-8, utf-16, latin-1, cp1252, ..."
        ) from error


def line_rows(member: Member) -> Iterator[Numbered]:
    """Yield the objects of JSON lines; any other line becomes a ``BadRow``."""
    with member.open() as file:
        head = file.peek(SAMPLE)  # type: ignore[attr-defined]
        plain = "utf-8" in encoding_of(head[:4]) and (b"\n" in head or b"\r" not in head)
        lines: Any = file if plain else (line.encode("utf-8", WRONG) for line in opened(member, errors=WRONG))
        decoder = Decoder()
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield number, json_line(member.where, number, line, decoder)


def json_line(where: str, number: int, line: bytes, decoder: Decoder) -> dict[str, Any] | BadRow:
    """Return the JSON object of a line, or a ``BadRow`` with the reason."""
    try:
        row = decoder.decode(line.decode("utf-8").removeprefix(MARK))
        if isinstance(row, dict) and not decoder.twins:
            return row
        reason = decoder.reason() or "the line is not a JSON object"
    except UnicodeDecodeError:
        reason = "not UTF-8; convert the file, such as with iconv -f LATIN1 -t UTF-8"
    except json.JSONDecodeError as error:
        reason = f"{error.msg.removesuffix(' at')} (column {error.colno})"
    except (ValueError, RecursionError) as error:
        reason = str(error)
    return BadRow(where, number, reason, line[:500].decode("utf-8", "replace"))


class Values:
    """Values of a JSON text, parsed one after the other; only the current one is in memory."""

    def __init__(self, text: TextIOWrapper) -> None:
        """Begin at the start of a text."""
        self.text, self.held, self.at, self.ended, self.before = text, "", 0, False, 0
        self.decoder = Decoder()

    def more(self) -> None:
        """Read at least as many further characters as are held now."""
        left = self.held[self.at :]
        new = self.text.read(max(CHUNK, len(left)))
        self.before += self.held.count("\n", 0, self.at)
        self.held, self.at, self.ended = left + new, 0, not new

    def peek(self) -> str:
        """Return the next character other than white space; empty at the end."""
        while True:
            self.at = SPACE.match(self.held, self.at).end()  # type: ignore[union-attr]
            if self.at < len(self.held) or self.ended:
                return self.held[self.at : self.at + 1]
            self.more()

    def take(self, wanted: str) -> str:
        """Consume the next character, which must be among the wanted ones, and return it."""
        if (found := self.peek()) not in wanted or not found:
            raise json.JSONDecodeError(f"Expecting {' or '.join(map(repr, wanted))}", self.held, self.at)
        self.at += 1
        return found

    def value(self, *, may_grow: bool = True) -> Any:
        """Parse the next value; ValueError if the text is not a JSON value, or is cut off at the end of the file."""
        self.peek()
        while True:
            try:
                value, end = self.decoder.raw_decode(self.held, self.at)
                if end < len(self.held) or self.ended:
                    self.at = end
                    return value
            except json.JSONDecodeError as error:
                if self.ended or not (error.pos > len(self.held) - NEAR_END or error.msg.startswith("Unterminated")):
                    raise
            if not may_grow:
                raise EOFError
            self.more()

    def pairs(self) -> Iterator[str]:
        """Yield the names in an object; the caller must take the value before the next name."""
        self.take("{")
        while self.peek() != "}":
            name = self.value()
            self.take(":")
            yield name
            if self.peek() != "}":
                self.take(",")
        self.take("}")

    def items(self, read: Callable[[], Any]) -> Iterator[Any]:
        """Consume the next value; a long value is read in parts."""
        self.take("[")
        while self.peek() != "]":
            yield read()
            if self.peek() != "]":
                self.take(",")
        self.take("]")

    def skip(self) -> None:
        """Pass over the next value, in parts if it is long."""
        self.peek()
        if len(self.held) - self.at < CHUNK // 2 and not self.ended:
            self.more()
        try:
            self.value(may_grow=self.peek() not in "[{")
        except EOFError:
            if self.peek() == "{":
                for _ in self.pairs():
                    self.skip()
            else:
                for _ in self.items(self.skip):
                    pass

    def rows_at(self, path: Sequence[str]) -> Iterator[Any]:
        """Yield the items of the list at a path of names; ``*`` stands for all names or indices. LookupError if there is no list."""
        if not path:
            if self.peek() != "[":
                raise LookupError
            yield from self.items(self.value)
            return
        (first, *rest), start, found = path, self.peek(), False
        if start not in ("{", "["):
            raise LookupError
        names = self.pairs() if start == "{" else (str(place) for place, _ in enumerate(self.items(self.peek)))
        for name in names:
            if first not in ("*", name):
                self.skip()
                continue
            if found and first != "*":
                raise ValueError(f"an object has two different values named {name}")
            found = True
            if first != "*":
                yield from self.rows_at(rest)
            else:
                yield from (named(name, row) for row in (self.rows_at(rest) if rest else [self.value()]))
        if not found and first != "*":
            raise LookupError

    def lists(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Yield dotted name and length of the lists of objects in the next value."""
        start = self.peek()
        if start == "{":
            for name in self.pairs():
                yield from self.lists(f"{prefix}.{name}".strip("."))
        elif start == "[":
            first, length = "", 0
            for kind in self.items(self.peek):
                first, length = first or kind, length + 1
                self.skip()
            if first == "{":
                yield prefix, length
        else:
            self.value()

    def alike(self) -> int:
        """Return the number of values of an object, at least 2, that are objects with mostly the same names; 0 for other values."""
        first, count = set[str](), 0
        for _ in self.pairs() if self.peek() == "{" else ():
            inner = [name for name in self.pairs() if self.skip() is None] if self.peek() == "{" else []
            names = {*inner} if not is_numbered(inner) else set[str]()
            if 2 * len(names & (first or names)) <= len(names | first):
                return 0
            first, count = names, count + 1
        return count if count > 1 else 0


def named(name: str, row: Any) -> Any:
    """Return a row with the name under which it is stored, as ``key``."""
    return {"key": name, **row} if isinstance(row, dict) else {"key": name, "value": row}


def json_rows(member: Member, rows: str = "") -> Iterator[Numbered]:
    """Yield the items of a JSON array, or of the list at ``rows`` in an object; ``.``: the values of the file themselves.

    An item that is not an object is a ``BadRow``. Objects that follow one another without an array are rows, too.
    """
    try:
        with opened(member) as text:
            values = Values(text)
            if not rows and values.peek() == "{":
                values.skip()
                rows = "." if values.peek() else rows
        with opened(member) as text:
            values = Values(text)
            found = found_in(values, rows) if rows or values.peek() != "{" else table_in(values.value())
            yield from objects_in(member.where, found, values.decoder.reason)
    except LookupError as error:
        what = f"{rows} is not a list of rows" if rows else NO_ARRAY
        raise SourceError(f"{member.where}: {what}{advice_of(member)}") from error
    except (ValueError, RecursionError) as error:
        raise damaged(member, error) from error


def table_in(value: Any) -> list[dict[str, Any]]:
    """Return the rows of a table in an object, in the forms of pandas, MLflow and Weights & Biases: ``columns`` and ``data``, or a list or object of
    cells for each column. LookupError for another object."""
    names, rows = value.get("columns"), value.get("data")
    if not (isinstance(names, list) and isinstance(rows, list)):
        cells = [[*one.values()] if isinstance(one, dict) and is_numbered(one) else one for one in value.values()]
        if len(cells) < 2 or not all(isinstance(one, list) and len(one) == len(cells[0]) > 1 for one in cells):
            raise LookupError
        names, rows = [*value], [*map(list, zip(*cells, strict=True))]
    if not all(isinstance(row, list) and len(row) == len(names) for row in rows):
        raise LookupError
    return [dict(zip(map(str, names), row, strict=True)) for row in rows]


def is_numbered(names: Iterable[str]) -> bool:
    """Return whether names are the numbers from 0 on."""
    return all(name == str(number) for number, name in enumerate(names))


def found_in(values: Values, rows: str) -> Iterator[Any]:
    """Yield the rows of a JSON text; ValueError for text behind them."""
    if rows == ".":
        while values.peek():
            yield values.value()
    else:
        yield from values.rows_at(rows.split(".") if rows else ())
        if values.peek():
            raise ValueError("text follows the end of the JSON")


def lists_in(member: Member) -> list[tuple[str, int]]:
    """Return dotted name and length of the lists of objects in a JSON object, the longest first; none for an array or an unreadable text.

    ``*`` is the object itself, if its values are similar objects.
    """
    try:
        with opened(member) as text:
            found = sorted((one for one in Values(text).lists() if one[0]), key=lambda one: -one[1])
        with opened(member) as text:
            return [("*", count), *found] if (count := Values(text).alike()) else found
    except (ValueError, RecursionError):
        return []


def advice_of(member: Member) -> str:
    """Return the part of a message that lists the lists of objects in a JSON file; "" if there are none, or it cannot be read."""
    lists = lists_in(member)
    has = ", ".join(f"{name} ({length})" for name, length in lists[:5])
    return f"; it has lists of objects: {has}: --rows {shlex.quote(lists[0][0])}" if lists else ""


def damaged(member: Member, error: Exception) -> SourceError:
    """Return the error for a text that is not JSON, with its position."""
    if isinstance(error, UnicodeDecodeError):
        return SourceError(f"{member.where}: cannot be read: not UTF-8; convert it, such as with iconv -f LATIN1 -t UTF-8")
    where = f", at {error.doc[error.pos :][:40]!r}" if isinstance(error, json.JSONDecodeError) else ""
    return unreadable(member.where, ValueError(f"{getattr(error, 'msg', error)}{where}"))


def objects_in(where: Any, rows: Any, reason_of: Callable[[], str] = str) -> Iterator[Numbered]:
    """Yield the items of an array with their numbers; a ``BadRow`` for an item that is not an object, or that has a reason."""
    for number, row in enumerate(rows, start=1):
        reason = reason_of() or ("" if isinstance(row, dict) else "not a JSON object")
        yield number, BadRow(str(where), number, reason, head_of(row)) if reason else row


QUOTING = """a cell that begins with a quote must end with one, and quotes in it are doubled: "say ""hi\"""; if no cell is quoted, --quotes none"""
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
SEPARATOR = re.compile(r'"?sep=([^"\r\n])"?[\r\n]*', re.IGNORECASE)
"""First line of a CSV file of Excel that states its delimiter."""


class Quotes(StrEnum):
    """Meaning of quotes in CSV files."""

    DOUBLE = "double"
    """A cell may be enclosed in quotes; quotes within it are doubled."""
    NONE = "none"
    """No cell is quoted: quotes are ordinary text, and a cell has no newline."""


def csv_rows(member: Member, encoding: str = "", quotes: Quotes = Quotes.DOUBLE) -> Iterator[Numbered]:
    """Yield the rows of a CSV file. A row in another encoding, or with too many or too few cells, is a ``BadRow``; empty rows are skipped."""
    csv.field_size_limit(2**27)
    empty, end = 0, 0
    try:
        with opened(member, encoding, WRONG) as text:
            sample = text.read(SAMPLE)
        form, first = form_of(sample, quotes)
        with opened(member, encoding, WRONG) as text:
            for _ in range(first):
                text.readline()
            table = csv.reader(text, strict=True, **form)
            end = first
            names = names_of([name.strip(f"{MARK} \t\r\n") for name in next(filter(None, table), ())])
            end = first + table.line_num
            for cells in filter(None, table):
                end = first + table.line_num
                if any(cells):
                    yield end, checked_row(member.where, end, names, cells, encoding, form["delimiter"])
                else:
                    empty += 1
    except csv.Error as error:
        raise SourceError(
            f"{member.where}: the row that begins in line {end + 1} cannot be read: {error}; {QUOTING}"
        ) from error
    except UnicodeError as error:
        raise unreadable(member.where, error) from error
    if empty:
        warnings.warn(f"{member.where}: {empty} empty rows are left out", stacklevel=2)


def delimiter_of(member: Member, encoding: str = "", quotes: Quotes = Quotes.DOUBLE) -> str:
    """Return the delimiter of a CSV file."""
    with opened(member, encoding, WRONG) as text:
        return form_of(text.read(SAMPLE), quotes)[0]["delimiter"]


def checked_row(
    where: str, number: int, names: Sequence[str], cells: Sequence[str], encoding: str, delimiter: str
) -> dict[str, Any] | BadRow:
    """Return a row of a CSV file; a ``BadRow`` for a row with more or fewer cells than the header, or in another encoding."""
    reason, text = "", "".join(cells)
    if len(cells) != len(names):
        comma = DELIMITERS.get(delimiter, repr(delimiter))
        reason = f"{len(cells)} cells, and the header has {len(names)}; is a quote missing, or a {comma} not in quotes?"
    elif "\0" in text:
        reason = "has a NUL; is the file damaged, or in another encoding, such as --encoding utf-16-le?"
    elif not text.isascii() and not is_text(text):
        reason = f"not {encoding or 'UTF-8; name its encoding, such as --encoding latin-1'}"
    return BadRow(where, number, reason, ascii(cells)[:500]) if reason else dict(zip(names, cells, strict=True))


def is_text(text: str) -> bool:
    """Return whether a text has no lone surrogates, which ``WRONG`` makes of bytes in another encoding."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def names_of(names: Sequence[str]) -> list[str]:
    """Return the names of columns; repeated or missing names get free numbers: ``code 1``, ``code 2``, ``column 3``."""
    times, taken = Counter(names), {*names}
    found: list[str] = []
    for place, name in enumerate(names, start=1):
        if name and times[name] == 1:
            found.append(name)
            continue
        numbers = (f"{name} {number}" if name else f"column {number}" for number in count(1 if name else place))
        found.append(next(one for one in numbers if one not in taken))
        taken.add(found[-1])
    return found


def form_of(sample: str, quotes: Quotes) -> tuple[dict[str, Any], int]:
    """Return the format of a CSV file by its first characters, and the number of lines before its header.

    A first line ``sep=;`` states the delimiter. Otherwise the delimiter that gives the header most cells is taken; a comma on a tie. Quotes in cells
    are doubled. They are escaped by backslashes, or follow ignored spaces, if only then all rows have as many cells as the header.
    """
    declared = SEPARATOR.match(sample)
    body = sample[declared.end() :] if declared else sample
    plain = {"quoting": csv.QUOTE_NONE if quotes is Quotes.NONE else csv.QUOTE_MINIMAL}
    delimiters = [declared[1]] if declared else [*DELIMITERS]
    wide = {delimiter: len(next(rows_in(body, {**plain, "delimiter": delimiter}), [])) for delimiter in delimiters}
    plain = {**plain, "delimiter": max(wide, key=lambda delimiter: wide[delimiter])}
    others = [{"escapechar": "\\", "doublequote": False}] * ('\\"' in body) + [{"skipinitialspace": True}]
    others += [{**one, **others[-1]} for one in others[:-1]]
    forms = [plain, *({**plain, **other} for other in others if quotes is not Quotes.NONE)]
    return next((form for form in forms if is_even(body, form, cut=len(sample) == SAMPLE)), plain), int(bool(declared))


def rows_in(text: str, form: dict[str, Any]) -> Iterator[list[str]]:
    """Yield the rows of a text of CSV."""
    return csv.reader(StringIO(text, newline=""), **form)


def is_even(text: str, form: dict[str, Any], *, cut: bool) -> bool:
    """Return whether all rows of a text in a format have as many cells as the first; the last row may be cut off."""
    rows: list[int] = []
    try:
        rows.extend(map(len, rows_in(text, {**form, "strict": True})))
        rows = rows[:-1] if cut else rows
    except csv.Error as error:
        if not cut or "unexpected end" not in str(error):
            return False
    return len({*rows} - {0}) <= 1
