"""Importer for any table (CSV, JSON, Parquet, Arrow, SQLite): each row is an attempt with its task and, if recorded, its outcome.

A map names the column of each field (``FIELDS``); without a map, columns have the names of the fields. Other columns are kept as JSON
in ``extra`` of the attempt. No ids are needed: ``task_id`` or the prompt identifies a task.
"""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError, one_line
from upsolve.importers.outcome import OUTCOME_FIELDS, WORDS, is_given, whole
from upsolve.importers.rows import ARRAYS, LINES, UNREADABLE, BadRow, Row, build_each, data_files, ends_with, open_bytes
from upsolve.importers.source import IMPORTS, Option, Source, Unit
from upsolve.importers.tables.cells import (
    CONVERT,
    TABLES,
    Numbered,
    Quotes,
    emptied,
    first_rows,
    nested_columns,
    nested_value,
    table_rows,
)
from upsolve.importers.tables.columns import (
    VAGUE,
    column_of_programs,
    likely_fields,
    options_for,
    refuse_codes,
    refuse_opposite,
    says_opposite,
    unfit_status,
)
from upsolve.importers.tables.reader import FIELDS, KEYS, NAMED_ONLY, NAMES, PROGRAMS, Reader
from upsolve.languages.names import is_language, language_in, language_looked_like, no_language
from upsolve.types import Status
from upsolve.verify.contest import Imports, prepared

__all__ = ["SOURCE"]

DATA = (*TABLES, ".gz", ".zip", ".bz2", ".xz", ".zst", ".tar", ".tgz", ".7z", ".xls", ".xlsx")
"""Endings of files that may be meant to be read."""
JSON = (*LINES, *ARRAYS)
"""Endings of files of JSON."""


def read(
    path: Path,
    *,
    name: str = "",
    imports: Imports = Imports.NONE,
    encoding: str = "",
    quotes: Quotes = Quotes.DOUBLE,
    query: str = "",
    **columns: Any,
) -> Iterator[Row]:
    """Yield the records of a file, or of the files of a folder; names of attempts, and tasks without a prompt, hold within a file.

    ``columns`` are field=column, with dots for a value in an object (``meta.user``), or several with plus signs
    (``contest+problem``); ``map`` names a YAML file with ``columns`` (field: column), ``statuses`` (word: a status) and
    ``languages`` (word: a language); columns given here override those of the map. ``rows``: name of the list of rows in a JSON
    object; ``passed_at``: least score in ``status`` that counts as passed; ``score``: columns of scores, as ``COLUMN=NAME,COLUMN``.
    """
    if path.is_dir():
        for unit in split(path, name=name, rows=columns.get("rows", "")):
            given: dict[str, Any] = {**columns, **unit.options}
            yield from read(unit.path, imports=imports, encoding=encoding, quotes=quotes, query=query, **given)
        return
    defaults = {"map": "", "rows": "", "passed_at": None, "score": ""}
    file, rows, passed_at, score = (columns.pop(name, default) for name, default in defaults.items())
    plan = read_map(Path(file)) if file else {}
    named = {**plan.get("columns", {}), **columns}
    mapped = {**{field: field for field in FIELDS if field not in {*NAMED_ONLY, *named.values()}}, **named}
    words = words_in(plan, named, file)
    languages = {str(word).lower(): str(language) for word, language in plan.get("languages", {}).items()}
    numbered = joined(table_rows(path, encoding=encoding, query=query, quotes=quotes, rows=rows), mapped.values())
    head = first_rows(numbered)
    first = [row for _, row in head if isinstance(row, dict)]
    constant = language_of_all(first, named, mapped)
    check_columns(path, first, named, mapped, source=file or "the options")
    scores = score_columns(path, first, score)
    refuse_opposite(path, first, named, plan.get("statuses", {}))
    if word := unfit_status(first, named):
        del mapped["status"]
        warn(f"{path}: the column status is no outcome ({word!r}) and stored in extra; if it is one: --status status")
    refuse_codes(path, first, mapped, scores=passed_at is not None, words=words, languages=languages)
    reader = Reader(mapped, name or path.name.partition(".")[0], words, languages, passed_at=passed_at, scores=scores)
    reader.root, reader.encoding, reader.constant = path.parent.resolve(), encoding, constant
    advise(reader, first)
    reader.any_language, first = not constant and reader.mixed(first), []
    yield from prepared(build_each(path, reader.parents_first(chain(emptied(head), numbered)), reader.records), imports)
    tell_unused(path, reader, named)


def warn(text: str) -> None:
    """Warn once for all files of a folder."""
    warnings.warn(text, stacklevel=2)


def joined(numbered: Iterable[Numbered], columns: Iterable[str]) -> Iterator[Numbered]:
    """Yield rows with a column for each name with a plus sign, such as ``contest+problem``: the values of both, with a hyphen between them."""
    parts = {name: [part.split(".") for part in name.split("+")] for name in columns if "+" in name}
    for number, row in numbered:
        if not isinstance(row, BadRow):
            found = {name: [nested_value(row, part) for part in paths] for name, paths in parts.items() if name not in row}
            whole_ones = {name: map(whole, values) for name, values in found.items() if all(map(is_given, values))}
            row |= {name: "-".join(map(str, values)) for name, values in whole_ones.items()}
        yield number, row


def words_in(plan: Mapping[str, Any], named: Mapping[str, str], file: str) -> dict[str, Status]:
    """Return the words for a status, first the map's words; SourceError if a word maps to no status."""
    given = {str(word).strip().lower(): status for word, status in plan.get("statuses", {}).items()}
    outcomes = [named[name] for name in ("status", "passed", "outcomes") if name in named]
    vague = bool(outcomes) and all(map(says_opposite, outcomes))
    known = {word: status for word, status in WORDS.items() if not vague or word not in VAGUE}
    try:
        mapped = {word: Status(status) for word, status in given.items()}
        return {**known, **{word.replace("_", " ").replace("-", " "): status for word, status in mapped.items()}, **mapped}
    except ValueError as error:
        raise SourceError(f"{file}: statuses: {error}; known statuses are {', '.join(Status)}") from error


def tell_unused(path: Path, reader: Reader, named: Mapping[str, str]) -> None:
    """Warn of named columns without a value, and of outcomes without a program."""
    if reader.used and (unused := [f"{key}={column}" for key, column in named.items() if key not in reader.used]):
        warn(f"{path}: no row has a value for {', '.join(unused)}")
    outcomes, programs = [name for name in OUTCOME_FIELDS if name in reader.used], {*PROGRAMS} & reader.used
    if outcomes and not programs:
        warn(f"{reader.name}: rows have {outcomes[0]} and no program, so they are tasks alone; --code COLUMN?")


def advise(reader: Reader, rows: Sequence[Mapping[str, Any]]) -> None:
    """Warn of columns that look like fields and are not used as such, of pairs of answers, and of what ``tell_several`` finds."""
    name, mapped = reader.name, reader.columns
    tell_languages(reader, rows)
    likely = likely_columns(rows, mapped)
    if likely:
        unjudged = "; without --status, no attempt has an outcome" if "status" in likely else ""
        warn(
            f"{name}: columns that no field has are stored in extra, and some look like fields: to use them, import into a new "
            f"archive with {options_for(likely)}{unjudged}"
        )
    if any({"chosen", "rejected"} <= row.keys() - {*mapped.values()} for row in rows):
        warn(f"{name}: the columns chosen and rejected are not read as attempts; for pairs of answers: upsolve ingest openrlhf")
    tell_several(reader, rows)


def language_of_all(rows: Sequence[Mapping[str, Any]], named: dict[str, str], mapped: dict[str, str]) -> str:
    """Return the language that ``--language`` names and take it from the columns; empty if a column has that name."""
    word = named.get("language", "")
    if not word or any(word in nested_columns(row) for row in rows):
        return ""
    if not is_language(word):
        raise SourceError(f"{no_language('--language', word)}; no column has it either")
    del named["language"], mapped["language"]
    return language_in(word)


def tell_languages(reader: Reader, rows: Sequence[Mapping[str, Any]]) -> None:
    """Let programs show their language where no column does, if at least one in ten is not Python, and warn of it."""
    languages = [reader.value(row, reader.columns.get("language", "language")) for row in rows]
    if reader.constant or any(map(is_given, languages)):
        return
    programs = [str(code) for row in rows if is_given(code := reader.value(row, reader.columns.get("code", "code")))]
    found = Counter(map(language_looked_like, programs))
    others = [language for language in found if language not in ("", "python")]
    if sum(found[language] for language in others) < max(1, len(programs) / 10):
        return
    if len(others) == 1 and not found["python"] and found[""] <= found[others[0]]:
        reader.default, stored = others[0], others[0]
    else:
        reader.detects, stored = True, "such, and rejected if they look like none"
    shown = ", ".join(f"{language or 'none'} ({count})" for language, count in found.most_common())
    warn(
        f"{reader.name}: no column says the language of the programs; they look like {shown} and are stored as {stored}; "
        f"if this is wrong: --language COLUMN, or --language LANGUAGE for all"
    )


def tell_several(reader: Reader, rows: Sequence[Mapping[str, Any]]) -> None:
    """Warn if many programs have rows with different outcomes, such as those of single tests, and of programs in lists."""
    found: dict[str, set[str]] = {}
    for row in rows:
        cells = {name: reader.value(row, column) for name, column in reader.columns.items()}
        outcome = [cells.get(name) for name in ("status", "passed", "outcomes")]
        if any(cells.get(name) for name in PROGRAMS) and any(map(is_given, outcome)):
            same = [cells.get(name) for name in (*NAMES, *PROGRAMS, "language", "author", "created", "judge")]
            found.setdefault(repr(same), set()).add(repr(outcome))
    several = sum(len(outcomes) > 1 for outcomes in found.values())
    if several > len(found) / 10:
        warn(
            f"{reader.name}: {several} programs of the first rows have rows with different outcomes, of which the last counts; if rows are "
            "outcomes of single tests, put those of an attempt into one row, as a list in the column of `outcomes`"
        )
    if column := column_of_programs(rows):
        warn(
            f"{reader.name}: the column {column} has lists with programs, and a row is one attempt: none of them, or the one that is named, is "
            f"read; write a row for each, such as with jq -c '.{column}[] + del(.{column})'"
        )


def likely_columns(rows: Sequence[Mapping[str, Any]], mapped: Mapping[str, str]) -> dict[str, str]:
    """Return field -> likely column for fields without a column: the field's name in capitals, or a similar name (``likely_fields``)."""
    found = dict.fromkeys(name for row in rows for name in row)
    by_lower = {name.lower().replace(" ", "_"): name for name in found}
    capital = {field: by_lower[field] for field in FIELDS if field in by_lower and mapped.get(field) == field not in found}
    return {**capital, **likely_fields(rows, {**mapped, **capital})}


def split(path: Path, *, name: str = "", rows: str = "", **_columns: Any) -> list[Unit]:
    """Return the files as units, ``.json`` alone if ``rows`` names their lists; the tasks of a folder's files are named after the folder."""
    files = files_of(path, rows=rows)
    left = sorted({file for file in path.rglob("*") if ends_with(file, DATA) and file.is_file()} - {*files})
    if left:
        warn(f"{path}: {len(left)} files of data are not read, such as {left[0]}: {CONVERT}; import .json alone")
    return [Unit(file, {"name": name or path.name.partition(".")[0]}) for file in files]


def files_of(path: Path, *, rows: str) -> list[Path]:
    """Return the tables of a folder; JSON arrays only if no other table exists, since such files often describe the tables."""
    others = [ending for ending in TABLES if ending not in ARRAYS]
    files = [path] if path.is_file() else [file for file in sorted(path.rglob("*")) if file.is_file()]
    if rows:
        return data_files(path, suffixes=ARRAYS)
    if any(ends_with(file, others) for file in files):
        return data_files(path, suffixes=others)
    return [file for file in files if ends_with(file, ARRAYS) and is_array(file)] or data_files(path, suffixes=others)


def is_array(file: Path) -> bool:
    """Return whether a JSON file begins with an array; True for an unreadable file, whose reader reports the error."""
    try:
        with open_bytes(file) as content:
            return content.read(1000).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
    except UNREADABLE:
        return True


def read_map(file: Path) -> dict[str, Any]:
    """Return the columns and statuses of a map file, checked."""
    import yaml

    from upsolve.yaml_text import read_yaml

    try:
        plan = read_yaml(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise SourceError(f"{file}: cannot be read as YAML: {one_line(error)}") from error
    if isinstance(plan, dict):
        plan = {name: {} if part is None else part for name, part in plan.items()}  # a table of which all lines are comments
    if not isinstance(plan, dict) or not all(isinstance(part, dict) for part in plan.values()):
        raise SourceError(
            f"{file}: a map has the tables `columns` (field: column), `statuses` (word: status) and `languages` (word: language)"
        )
    if unknown := {*plan} - {"columns", "statuses", "languages"} | {*plan.get("columns", {})} - {*FIELDS}:
        raise SourceError(f"{file}: unknown {', '.join(sorted(map(str, unknown)))}; columns can be {', '.join(FIELDS)}")
    if odd := [f"{name}.{key}" for name, part in plan.items() for key, value in part.items() if not is_word(value, name)]:
        raise SourceError(
            f"{file}: {odd[0]} has no value, or not a text: `{odd[0].partition('.')[2]}: NAME`, or leave the line out"
        )
    return plan


def score_columns(path: Path, rows: Sequence[Mapping[str, Any]], option: str) -> dict[str, str]:
    """Return column -> name of each score of ``--score``; SourceError if a table lacks the column, which some rows of JSON may."""
    pairs = (part.strip().partition("=") for part in option.split(",") if part.strip())
    scores = {column.strip(): name.strip() or column.strip() for column, _, name in pairs}
    found = [*dict.fromkeys(name for row in rows for name in nested_columns(row))]
    missing = [column for column in scores if column not in found]
    if found and missing and not ends_with(path, JSON):
        raise SourceError(f"{path}: no column {missing[0]} for --score; its columns are {', '.join(found)}")
    return scores


def is_word(value: Any, table: str) -> bool:
    """Return whether a value of a map can name a column, a status or a language; columns of some files are numbers."""
    number = table == "columns" and isinstance(value, int) and not isinstance(value, bool)
    return number or (isinstance(value, str) and value != "")


def check_columns(
    path: Path, head: Iterable[dict[str, Any] | BadRow], named: Mapping[str, str], mapped: Mapping[str, str], *, source: str
) -> None:
    """Raise SourceError if the first rows lack a named column, or hold neither prompts nor ids of tasks; rows of JSON may lack some."""
    rows = [row for row in head if isinstance(row, dict)]
    found = [*dict.fromkeys(name for row in rows for name in nested_columns(row))]
    needed = KEYS if ends_with(path, JSON) else FIELDS
    in_lists = (one for one in named.values() if any(nested_value(row, one.split(".")) is not None for row in rows))
    known, shown = {*found, *in_lists}, ", ".join(found)
    if found and (missing := [f"{key}={column}" for key, column in named.items() if key in needed and column not in known]):
        raise SourceError(f"{path}: no column for {missing[0]} of {source}; its columns are {shown}")
    if found and not {mapped.get(name) for name in NAMES} & known:
        likely = options_for(likely_columns(rows, mapped))
        advice = f"; perhaps {likely}" if likely else ""
        raise SourceError(
            f"{path}: which column holds the prompt? --prompt COLUMN, or --map FILE; its columns are {shown}{advice}"
        )


SOURCE = Source(
    read,
    "a CSV, JSON, Parquet, Arrow or SQLite file with one attempt per row, or a folder of such files",
    (
        Option("map", str, "YAML file with the tables `columns` (field: column), `statuses` and `languages` (word: ours)"),
        Option("name", str, "prefix of task ids (default: the name of the file or folder)"),
        Option("encoding", str, "encoding of CSV files and of files that rows name, such as latin-1 (default: UTF-8)"),
        Option(
            "quotes", Quotes, "quotes in CSV files: double (default: a cell may be quoted, quotes in it are doubled) or none"
        ),
        Option("query", str, "SQL that selects the rows of a SQLite file"),
        Option("rows", str, "list of the rows in a .json file that is an object, such as result, or data.results"),
        Option("passed_at", float, "score in the column of `status` from which on an attempt counts as passed"),
        Option("score", str, "columns of scores, as COLUMN or COLUMN=NAME, several with commas"),
        IMPORTS,
        *(Option(name, str, f"column of: {what}") for name, what in FIELDS.items()),
    ),
    split=split,
)
