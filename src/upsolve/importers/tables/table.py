"""Importer for any table (CSV, JSON, Parquet, Arrow, SQLite): each row is an attempt with its task and, if recorded, its outcome.

A map names the column of each field (``FIELDS``); without a map, columns have the names of the fields. Other columns are kept as JSON
in ``extra`` of the attempt. No ids are needed: ``task_id`` or the prompt identifies a task.
"""

import re
import warnings
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, groupby
from pathlib import Path, PurePosixPath
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.formats import Kind, Member, kind_of, member_of, members
from upsolve.importers.formats.texts import Quotes, delimiter_of
from upsolve.importers.outcome import OUTCOME_FIELDS, WORDS, is_given, unit_of
from upsolve.importers.rows import (
    BadRow,
    Row,
    Rows,
    build_each,
    columns_in,
    emptied,
    first_rows,
    nested_columns,
    nested_value,
)
from upsolve.importers.source import IMPORTS, SHARE_BYTES, Option, Source, Unit
from upsolve.importers.tables import FIELDS, KEYS, NAMED_ONLY, NAMES, PROGRAMS, REFERENCE
from upsolve.importers.tables import columns as guesses
from upsolve.importers.tables.grades import refuse_counts, tell_no_outcome, unfit_status
from upsolve.importers.tables.maps import Parser, read_map
from upsolve.importers.tables.plans import MAPS, Map
from upsolve.importers.tables.reader import Reader
from upsolve.importers.tables.rollouts import REWARD, ROLLOUT_OPTIONS, rollouts_in, score_columns
from upsolve.importers.tables.shaping import Shape, parents_first, path_columns
from upsolve.importers.tables.templates import refuse_escapes
from upsolve.importers.tables.trees import FILE, Files, in_words, reads, rows_in, unread
from upsolve.languages.names import is_language, language_in, language_looked_like, no_language
from upsolve.types import Status, content_id
from upsolve.verify.limits import prepared

__all__ = ["CASE", "SOURCE", "records_of", "source_of", "table_at"]

SETTINGS = ("name", "imports", "encoding", "quotes", "query", "rows", "passed_at", "full_points")
"""Options that are also keys of a map."""
PER_FILE, FULL = 1 << 10, 4
"""Bytes that are added for each file of a tree; and size of a folder, in units, from which it is divided."""
CASE = re.compile(r"(?i)(?:^|[^a-z])(?:test|case|subtask|check|input|stdin)|Test|Case")
"""Names of columns that may name single tests."""
JSON = (Kind.JSON, Kind.JSONL)
"""Formats in which a row may lack columns."""


def read(path: Path, *, plan: Map | None = None, names: Sequence[str] = (), **options: Any) -> Iterator[Row]:
    """Yield the records of a file, or of the files of a folder or archive. Names of attempts, and tasks without a prompt, are unique within a file.

    ``names``: the files that are read; empty: as ``split`` says. ``options`` (``planned``) override the map.
    """
    plan = planned(plan, options)
    scores, counts = str(options.get("score", "")), Counter[str]()
    if names:
        yield from read_file(path, plan, scores, names, counts)
        return
    for part in plan.parts or (plan,):
        for unit in units_of(path, part):
            name, rows = (unit.options.get(one, getattr(part, one)) for one in ("name", "rows"))
            yield from read_file(unit.path, replace(part, name=name, rows=rows), scores, unit.options.get("names", ()), counts)


def planned(given: Map | None, options: Mapping[str, Any]) -> Map:
    """Return a map with the options of the command line.

    Args:
        given: a map; None: the map in the file of the option ``map``, else one whose columns have the names of the fields.
        options: ``name``, ``imports``, ``encoding``, ``quotes``, ``query``, ``rows``, ``passed_at`` and ``full_points`` as in a map, and field=column, with dots
            for a value in an object (``meta.user``), several with plus signs (``contest+problem``), or a template (``{a}{b}``).

    Raises:
        SourceError: the map cannot be read, or a template has half of a pair of braces.
    """
    plan = given or (read_map(Path(options["map"]), FIELDS) if options.get("map") else Map())
    changes: dict[str, Any] = {name: options[name] for name in SETTINGS if options.get(name) not in (None, "")}
    columns, makers = dict[str, str](), {**plan.makers}
    for name in FIELDS:
        if options.get(name):
            columns[name], made = Parser(f"--{name}", [*FIELDS]).column(name, options[name])
            makers |= made
    parts = tuple(planned(part, options if "status" in part.columns else {**options, "passed_at": ""}) for part in plan.parts)
    constants = {name: value for name, value in plan.constants.items() if name not in columns}
    changes |= {"columns": {**plan.columns, **columns}, "makers": makers, "constants": constants, "parts": parts}
    unset = plan.unset | {name for name in FIELDS if options.get(name) == ""}
    return replace(plan, unset=unset - columns.keys(), **changes)


def read_file(path: Path, plan: Map, score: str, names: Sequence[str], counts: Counter[str]) -> Iterator[Row]:
    """Yield the records of a file, or of the files of a tree; ``score`` names columns of scores, as ``COLUMN=NAME,COLUMN``.

    ``names``: the files of the tree, empty: all; in an archive, the table. ``counts``: numbers of rows of earlier files.
    """
    named, mapped = {**plan.columns}, columns_of(plan)
    member = None if plan.files else table_at(path, names, plan.encoding)
    inside = PurePosixPath(member.name).parent if member and names else ""
    files, wheres = Files(path if plan.files or names else path.parent, plan.encoding, str(inside)), list[str]()
    path = Path(member.where) if member and names else path
    shape = Shape(
        plan, mapped, file=str(path), place=path_columns(path.name, path.parent), files=files, member=member, counts=counts
    )
    numbered = shape.rows(rows_in(member, plan)) if member else files.rows(plan, shape, wheres, names)
    head = first_rows(numbered)
    first = [row for _, row in head if isinstance(row, dict)]
    constant = "" if named.get("language") in shape.optional else language_of_all(first, named, mapped)
    may_lack = member is None or kind_of(member) in JSON or plan.is_ours
    if plan.attempts is None:
        needed = [name for name in (KEYS if may_lack else FIELDS) if name != "status" or plan.rollouts is None]  # unscored
        check_columns(path, first, named, mapped, shape, needed)
    scores = score_columns(path, first, score, may_lack=may_lack)
    guesses.refuse_opposite(path, first, named, plan.statuses)
    refuse_escapes(path, first, mapped.get("code", ""), mapped.get("prompt", ""))
    if word := unfit_status(first, named):
        del mapped["status"]
        warn(f"{path}: the column status holds no outcome ({word!r}) and is stored in extra; to use it: --status status")
    if not plan.full_points > 0:
        raise SourceError(f"--full-points {plan.full_points:g}: the points of a full answer must be positive")
    reader = rollouts_in(path, plan, mapped, first) or reader_in(path, plan, mapped, named, first, scores)
    reader.decimal_commas = guesses.has_decimal_commas(
        path, first, mapped.get("points", ""), full=plan.full_points, commas=has_free_commas(member, plan)
    )
    reader.root, reader.encoding, reader.constant = path.parent.resolve(), plan.encoding, constant or reader.constant
    reader.files = files if plan.files or names else None
    reader.has_prompts, reader.full_points = "prompt" not in plan.unset, plan.full_points
    if plan.attempts is None and plan.rollouts is None and not (plan.is_ours and "tests" in plan.columns):
        advise(path, reader, first)
    reader.any_language, first = plan.constants.get("language") == "any" or (not reader.constant and reader.mixed(first)), []
    rows = parents_first(chain(emptied(head), numbered), reader.columns)
    records = build_each(path, rows, reader.records)
    if plan.files:
        groups = groupby(rows, key=lambda row: row[0] >> FILE)
        own = ((wheres[at], ((number & ((1 << FILE) - 1), row) for number, row in group)) for at, group in groups)
        built = (build_each(Path(where), group, reader.records) for where, group in own)
        records = chain.from_iterable(built)
    yield from prepared(once(records) if plan.sides else records, plan.imports)
    tell_unused(path, reader, {} if plan.is_ours else {key: one for key, one in named.items() if one not in shape.optional})
    if shape.passed_over and not plan.is_ours:
        warn(f"{path}: {shape.passed_over} rows are skipped, because the map or an option selects other rows")


def reader_in(
    path: Path,
    plan: Map,
    mapped: Mapping[str, str],
    named: Mapping[str, str],
    rows: Rows,
    scores: Mapping[str, str],
) -> Reader:
    """Return the reader of rows; SourceError if the first rows have outcomes or languages that are unknown."""
    words, languages = words_in(plan, named), {word.lower(): language for word, language in plan.languages.items()}
    refuse_counts(path, rows, mapped)
    guesses.refuse_codes(path, rows, mapped, passed_at=plan.passed_at, words=words, languages=languages)
    return Reader(mapped, plan.name or path.name.partition(".")[0], words, languages, passed_at=plan.passed_at, scores=scores)


def once(records: Iterable[Row]) -> Iterator[Row]:
    """Yield records, but only one rejected row for each line and reason, since both sides of a pair have one line."""
    seen = set[tuple[str, int, str]]()
    for record in records:
        if isinstance(record, BadRow):
            place = (record.file, record.line, record.reason)
            if place in seen:
                continue
            seen = {place}
        yield record


def table_at(path: Path, names: Sequence[str] = (), encoding: str = "") -> Member:
    """Return the file of a table: the path itself or, in an archive, the file with the given name."""
    found = Files(path, encoding).member(names[0]) if names else member_of(path)
    if found is None:
        raise SourceError(f"{path}: {names[0]} was removed during the import: import again")
    return found


def has_free_commas(member: Member | None, plan: Map) -> bool:
    """Return whether a file is CSV with another delimiter than commas."""
    return member is not None and kind_of(member) is Kind.CSV and delimiter_of(member, plan.encoding, plan.quotes) != ","


def warn(text: str) -> None:
    """Warn, once for all files of a folder."""
    warnings.warn(text, stacklevel=2)


def words_in(plan: Map, named: Mapping[str, str]) -> dict[str, Status]:
    """Return the words for a status; the map's words take precedence."""
    given = {word.strip().lower(): Status(status) for word, status in plan.statuses.items()}
    outcomes = [named[name] for name in ("status", "passed", "outcomes") if name in named]
    vague = bool(outcomes) and all(map(guesses.says_opposite, outcomes))
    known = {word: status for word, status in WORDS.items() if not vague or word not in guesses.VAGUE}
    return {**known, **{word.replace("_", " ").replace("-", " "): status for word, status in given.items()}, **given}


def tell_unused(path: Path, reader: Reader, named: Mapping[str, str]) -> None:
    """Warn of named columns without a value, and of outcomes without a program."""
    if reader.used and (unused := [f"{key}={column}" for key, column in named.items() if key not in reader.used]):
        warn(f"{path}: no row has a value for {', '.join(unused)}")
    outcomes, programs = [name for name in OUTCOME_FIELDS if name in reader.used], {*PROGRAMS} & reader.used
    if outcomes and not programs:
        warn(
            f"{reader.name}: rows have {outcomes[0]} and no program, so only tasks are read; if a column holds the programs: --code COLUMN"
        )


def advise(path: Path, reader: Reader, rows: Rows) -> None:
    """Warn of columns that look like fields but are not used, of pairs of answers, and of the findings of ``tell_several``."""
    name, mapped = reader.name, reader.columns
    tell_languages(reader, rows)
    likely = likely_columns(rows, mapped)
    if likely:
        unjudged = "; without --status, no attempt has an outcome" if "status" in likely else ""
        warn(
            f"{name}: columns that no field has are stored in extra, and some look like fields: to use them, import into a new "
            f"archive with {guesses.options_for(likely)}{unjudged}"
        )
    without = () if {"status", "exit_code"} & likely.keys() or reader.files else tell_no_outcome(rows, mapped)
    units = [f"{mapped[one]} is read in {unit_of(one, mapped[one])[1]}, by its name" for one in reader.factors]
    for hint in (*guesses.hints_for(rows, mapped), *without, *units):
        warn(f"{name}: {hint}")
    if any({"chosen", "rejected"} <= row.keys() - {*mapped.values()} for row in rows):
        warn(f"{name}: the columns chosen and rejected are not read as attempts; for pairs of answers: upsolve ingest openrlhf")
    tell_several(path, reader, rows)


def language_of_all(rows: Rows, named: dict[str, str], mapped: dict[str, str]) -> str:
    """Return the language that ``--language`` names, and remove it from the named columns; empty if the option names a column of the rows."""
    word = named.get("language", "")
    if not word or any(word in nested_columns(row) for row in rows) or not (rows or is_language(word)):
        return ""
    if not is_language(word):
        raise SourceError(f"{no_language('--language', word)}; no column has it either")
    del named["language"], mapped["language"]
    return language_in(word)


def tell_languages(reader: Reader, rows: Rows) -> None:
    """If no column names the language, detect it in programs, provided that at least one in ten is not Python; warn of it."""
    if reader.constant or any(is_given(reader.value(row, reader.columns.get("language", "language"))) for row in rows):
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


def tell_several(path: Path, reader: Reader, rows: Rows) -> None:
    """Warn if many programs have rows with different outcomes; SourceError if a column names the tests of such rows."""
    found: dict[str, set[str]] = {}
    cases: dict[str, dict[str, set[str]]] = {}
    named = [name for name in columns_in(rows) if CASE.search(name) and name not in reader.columns.values()]
    for row in rows:
        cells = {name: reader.value(row, column) for name, column in reader.columns.items()}
        outcome = [cells.get(name) for name in ("status", "passed", "outcomes")]
        if any(cells.get(name) for name in PROGRAMS) and any(map(is_given, outcome)):
            same = repr([cells.get(name) for name in (*NAMES, *PROGRAMS, "language", "author", "created", "judge")])
            found.setdefault(same, set()).add(repr(outcome))
            for name in named:
                cases.setdefault(same, {}).setdefault(name, set()).add(repr(nested_value(row, name.split("."))))
    several = sum(len(outcomes) > 1 for outcomes in found.values())
    mixed = [cases[same] for same, outcomes in found.items() if len(outcomes) > 1 and same in cases]
    if column := next((name for name in named if mixed and all(len(one[name]) > 1 for one in mixed)), ""):
        raise SourceError(
            f"{path}: rows are outcomes of single tests, which {column} names: put those of an attempt into one row, as a list in the column "
            "of `outcomes`, such as with duckdb's `list(status order by test)`"
        )
    if several > len(found) / 10:
        warn(
            f"{reader.name}: {several} programs of the first rows have rows with different outcomes, and the last row counts; if rows are "
            "outcomes of single tests, put those of an attempt into one row, as a list in the column of `outcomes`"
        )


def likely_columns(rows: Rows, mapped: Mapping[str, str]) -> dict[str, str]:
    """Return field -> likely column for fields without a column: by the field's name in capitals, or a similar name (``likely_fields``)."""
    found = dict.fromkeys(name for row in rows for name in row)
    by_lower = {name.lower().replace(" ", "_"): name for name in found}
    capital = {field: by_lower[field] for field in FIELDS if field in by_lower and mapped.get(field) == field not in found}
    likely = {**capital, **guesses.likely_fields(rows, {**mapped, **capital})}
    pair = [likely.get(name) or mapped.get(name, "") for name in ("prompt", "tests")]
    if {*pair} <= {*found} and (likely.get("task_id") or mapped.get("task_id")) not in found:
        free = [name for name in found if name not in (*mapped.values(), *likely.values())]
        apart = tell_apart(rows, guesses.by_name("task_id", free), pair)
        likely |= {"task_id": apart[0]} if apart else {}
    return likely


def tell_apart(rows: Rows, columns: Iterable[str], pair: Sequence[str]) -> list[str]:
    """Return the columns that name tasks if some tasks share a prompt: each name has exactly one ``pair`` of prompt and tests, and vice versa."""
    contents = [tuple(str(row.get(name)) for name in pair) for row in rows]
    if len({*contents}) == len({prompt for prompt, _ in contents}):
        return []
    names = {column: [str(row.get(column)) for row in rows] for column in columns}
    return [one for one, of in names.items() if len({*of}) == len({*contents}) == len({*zip(of, contents, strict=True)})]


def split(path: Path, *, plan: Map | None = None, **options: Any) -> list[Unit]:
    """Return the files as units; only ``.json`` files if ``rows`` names their lists. The tasks of a folder's files are named after the folder.

    A map that describes several files, or their locations, is read as a whole.
    """
    plan = planned(plan, options)
    is_numbered = any("position" in make.names(None) for make in plan.makers.values())  # over all files
    return [Unit(path)] if plan.parts or plan.first or is_numbered else units_of(path, plan)


def units_of(path: Path, plan: Map) -> list[Unit]:
    """Return the files of tables, or of a tree, as units."""
    found = [*members(path, encoding=plan.encoding)]
    if plan.files:
        return units_of_tree(path, plan, found)
    named = {"name": plan.name or path.name.partition(".")[0], **({"rows": "."} if plan.rows == "." else {})}
    if path.is_file() and len(found) == 1:
        return [Unit(path, named)]
    apart = {one.file.partition("/")[0] for one in plan.joins.values() if one.file}
    if path.name in apart:
        raise SourceError(f"{path}: is one of several related tables; name the folder above it")
    kinds = [(file, kind_of(file)) for file in found if file.name.rpartition("/")[0].rpartition("/")[2] not in apart]
    tables = [file for file, kind in kinds if kind not in (Kind.JSON, Kind.TEXT, Kind.BINARY)]
    arrays = [file for file, kind in kinds if kind is Kind.JSON and (plan.rows or (not tables and is_array(file)))]
    files = arrays or tables
    if not files and any(kind is Kind.JSON for _, kind in kinds):  # each is a row
        return units_of(path, replace(plan, rows="."))
    if not files:
        raise SourceError(f"{path}: contains no table: JSON, CSV, Parquet, Arrow, Excel, SQLite or DuckDB")
    left = in_words([file.name for file, _ in kinds if file not in files])
    units = [
        Unit(where, named) if (where := Path(file.where)).is_file() else Unit(path, {**named, "names": (file.name,)}, file.size)
        for file in of_version(files, plan)
    ]
    return [replace(units[0], unread=f"{path}: {left}" if left else ""), *units[1:]]


def of_version(files: Sequence[Member], plan: Map) -> Sequence[Member]:
    """Return the files of one version; files without a version in their names belong to every version."""
    names = {file.name: plan.versions.search(file.name.rpartition("/")[2]) for file in files if plan.versions}
    found = {name: match[0] for name, match in names.items() if match}
    known = sorted({*found.values()}, key=lambda name: [*map(int, re.findall(r"\d+", name))])
    wanted = plan.version or (known[-1] if known else "")
    if wanted not in [*known, ""]:
        raise SourceError(f"no file of version {wanted!r}; there are {', '.join(known) or 'none'}")
    return [file for file in files if found.get(file.name, wanted) == wanted]


def units_of_tree(path: Path, plan: Map, found: Sequence[Member]) -> list[Unit]:
    """Return the files of a tree that a map names, as units of about ``SHARE_BYTES``; small folders are not divided.

    Files of an archive, and rows that may refer to each other across files, are one unit.
    """
    left = "" if plan.is_ours else unread([file.name for file in found], [plan])
    unit, columns = Unit(path, unread=f"{path}: {left}" if left else ""), columns_of(plan)
    if not path.is_dir() or {"id", "parent"} & plan.columns.keys() or "text" not in Shape(plan, columns).used:
        return [unit]
    read, units, names, size = reads(plan, alone=False), list[Unit](), list[str](), 0
    for file in found:
        if read(file.name) is None:
            continue
        top = file.name.partition("/")[0]
        is_other = bool(names) and not names[-1].startswith(f"{top}/")
        if size > (SHARE_BYTES if is_other else FULL * SHARE_BYTES) and not (path / top).is_file():
            units.append(Unit(path, {"names": tuple(names)}, size))
            names, size = [], 0
        names.append(file.name)
        size += file.size + PER_FILE
    units += [Unit(path, {"names": tuple(names)}, size)] if names else [unit]
    return [replace(units[0], unread=unit.unread), *units[1:]]


def is_array(file: Member) -> bool:
    """Return whether a JSON file begins with an array."""
    with file.open() as content:
        return content.read(1000).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")


def check_columns(
    path: Path,
    rows: Rows,
    named: Mapping[str, str],
    mapped: Mapping[str, str],
    shape: Shape,
    needed: Container[str],
) -> None:
    """Raise SourceError if the first rows lack a named column of the ``needed`` fields, or have neither prompts nor ids of tasks."""
    source = shape.plan.file or "the options"
    found = columns_in(rows)
    in_lists = (one for one in named.values() if any(nested_value(row, one.split(".")) is not None for row in rows))
    known, shown = {*found, *in_lists}, ", ".join(shape.first or found)
    if shape.first and shape.lacking:
        raise SourceError(f"{path}: no column {shape.lacking}, which {source} explodes or searches; its columns are {shown}")
    if found and (
        missing := [
            f"{key}={column}" for key, column in named.items() if key in needed and column not in known | shape.optional
        ]
    ):
        raise SourceError(f"{path}: no column for {missing[0]} of {source}; its columns are {shown}")
    if twins := [name for name in mapped.values() if name not in known and f"{name} 2" in known]:
        raise SourceError(f"{path}: has two columns {twins[0]!r}: rename one of them, or name the one to read: {twins[0]} 1")
    if found and not {mapped.get(name) for name in NAMES} & known:
        likely = guesses.options_for(likely_columns(rows, mapped))
        advice = f"; perhaps {likely}" if likely else ""
        raise SourceError(
            f"{path}: no column is recognised as the prompt; name it with --prompt COLUMN, or write a map (--map FILE); its columns are {shown}{advice}"
        )


def source_of(file: Path) -> Source:
    """Return the source that a map defines; its options are those of the map, or else those of a table."""
    plan = read_map(file, FIELDS)
    sampled = (REWARD, *ROLLOUT_OPTIONS) if plan.rollouts is not None else ()
    chosen = {choice.name for choice in (*plan.options, *sampled)}

    def read_mapped(path: Path, **options: Any) -> Iterator[Row]:
        """Yield the records of a path, as the map says."""
        return read(path, plan=plan.given(options), **{name: value for name, value in options.items() if name not in chosen})

    def split_mapped(path: Path, **options: Any) -> list[Unit]:
        """Return the units of a path."""
        return split(path, plan=plan.given(options), **{name: value for name, value in options.items() if name not in chosen})

    own = [Option(one.name, int if one.kind == "first" else str, one.help) for one in plan.options]
    offered = (*own, *sampled) or OPTIONS[1:]
    about, version = plan.about or f"files as the map {file} describes them", content_id(file.read_text(encoding="utf-8"))
    detect = tuple(name.removeprefix("?") for name in plan.detect)
    return Source(
        read_mapped, about, offered, split=split_mapped, version=version, detect=detect, rows=plan.rows, marks=plan.marks
    )


@cache
def map_named(name: str) -> Map:
    """Return the map of upsolve with a name."""
    return read_map(MAPS / f"{name}.yaml", FIELDS)


def records_of(name: str, row: Mapping[str, Any]) -> list[Row]:
    """Return the records of a row of another file, by the map of upsolve with a name; raises as a reader does."""
    plan = map_named(name)
    columns = columns_of(plan)
    reader = Reader(columns, plan.name, words_in(plan, plan.columns), plan.languages)
    rows = [shaped for _, shaped in Shape(plan, columns).rows([(1, {**row})])]
    if refused := next((one for one in rows if isinstance(one, BadRow)), None):
        raise ValueError(refused.reason)
    return [record for one in rows if not isinstance(one, BadRow) for record in reader.records(one)]


def columns_of(plan: Map) -> dict[str, str]:
    """Return the column of each field: the column in the map, or the column with the field's name."""
    named = plan.columns
    free = FIELDS if plan.attempts is None and plan.rollouts is None else ()
    own = {field: field for field in free if field not in {*NAMED_ONLY, *named.values(), *plan.unset}}
    if any(one.reference is not None for one in plan.attempts or ()):
        named = {"reference": REFERENCE, **named}
    return {**own, **named, **{name: name for name in (*plan.constants, *plan.makers) if name in FIELDS}}


OPTIONS = (
    Option("map", str, "YAML file that says which columns hold which fields (docs/maps.md)"),
    Option("name", str, "prefix of task ids (default: the name of the file or folder)"),
    Option("encoding", str, "encoding of CSV files and of files that rows name, such as latin-1 (default: UTF-8)"),
    Option("quotes", Quotes, "quotes in CSV files: double (default: a cell may be quoted, quotes in it are doubled) or none"),
    Option("query", str, "SQL that selects the rows of a SQLite file"),
    Option("rows", str, "list of the rows in a .json file that is an object, such as result, or data.results"),
    Option("passed_at", float, "lowest score in the column of `status` that counts as passed"),
    Option("full_points", float, "points of a full answer in the column of `points` (default: 1)"),
    Option("score", str, "columns of scores, as COLUMN or COLUMN=NAME, several with commas"),
    IMPORTS,
    *(Option(name, str, f"column of: {what}") for name, what in FIELDS.items()),
)
SOURCE = Source(
    read,
    "a CSV, JSON, Parquet, Arrow or SQLite file with one attempt per row, or a folder of such files",
    OPTIONS,
    split=split,
)
