"""Maps: YAML that says where the rows of attempts are and which column holds which field (``docs/maps.md``)."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError, one_line
from upsolve.importers.formats.files import size_of
from upsolve.importers.formats.texts import Quotes
from upsolve.importers.tables import templates
from upsolve.importers.tables.plans import TESTS, Choice, Join, Map, Match, TestFiles
from upsolve.types import Status
from upsolve.verify.limits import Imports

__all__ = ["Parser", "read_map"]

COLUMN = "a column, a template of columns in braces, or a list of such, of which the first with a value counts"


def read_map(file: Path, known: Iterable[str]) -> Map:
    """Return the map in a file, checked; ``known`` are the fields that columns can have.

    Raises:
        SourceError: the file cannot be read, or is not a map; the message names the file, the key, and the values that the key accepts.
    """
    import yaml

    from upsolve.yaml_text import read_yaml

    try:
        size_of(file)
        plan = read_yaml(file.read_text(encoding="utf-8"), words=True)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise SourceError(f"{file}: cannot be read as YAML: {one_line(error)}") from error
    if not isinstance(plan, dict):
        raise SourceError(f"{file}: a map has keys such as `columns` (field: column) and `statuses` (word: status)")
    return Parser(str(file), [*known]).map(plan)


class Parser:
    """Parses the YAML of a map into a ``Map``."""

    def __init__(self, file: str, known: list[str]) -> None:
        """Set the file, for messages, and the fields that columns can have."""
        self.file, self.known = file, known

    def error(self, key: str, needs: str) -> SourceError:
        """Return an error about a key."""
        return SourceError(f"{self.file}: {key}: {needs}")

    def refuse_others(self, key: str, given: Iterable[Any], *keys: str) -> None:
        """Raise SourceError for any key that is not allowed."""
        if unknown := [str(one) for one in given if one not in keys]:
            raise self.error(key, f"unknown {', '.join(unknown)}; keys are {', '.join(keys)}")

    def map(self, plan: Mapping[Any, Any]) -> Map:
        """Return the map of a YAML mapping; a part inherits keys that it lacks from the whole."""
        plan = {key: {} if value is None and key in TABLES else value for key, value in plan.items()}
        known = [*KEYS, *WIDE]
        if unknown := [key for key in plan if key not in known]:
            raise SourceError(f"{self.file}: unknown {', '.join(sorted(map(str, unknown)))}; keys are {', '.join(known)}")
        if "parts" in plan:
            whole = {key: value for key, value in plan.items() if key != "parts"}
            if not isinstance(plan["parts"], list) or not all(isinstance(part, dict) for part in plan["parts"]):
                raise self.error("parts", "must be a list of maps")
            return replace(self.map(whole), parts=tuple(self.map(joined(whole, part)) for part in plan["parts"]))
        found: dict[str, Any] = {"file": self.file, "columns": {}, "makers": {}}
        for key, value in plan.items():
            read = WIDE[key](self, key, value) if key in WIDE else {key: KEYS[key](self, key, value)}
            found |= {**read, **{name: {**found[name], **read.get(name, {})} for name in ("columns", "makers")}}
        made = found.pop("constant_makers", {})
        cases = found.pop("cases", ())
        own = {name: name for name in made if name in self.known}
        if twice := [name for name in (*made, *found.get("constants", ())) if name in found["columns"]]:
            raise self.error(f"constants.{twice[0]}", "is also in `columns`; give it once")
        found["columns"], found["makers"] = {**found["columns"], **own}, {**made, **found["makers"]}
        whole = self.with_status(Map(**{name: value for name, value in found.items() if name in NAMES}), found)
        return by_cases(whole, cases) if cases else whole

    def with_status(self, found: Map, given: Mapping[str, Any]) -> Map:
        """Return a map with the column of ``status``, which may also be one of ``columns``."""
        columns, makers, status = {**found.columns}, {**found.makers}, given.get("status", {})
        if status and "column" in status:
            if "status" in columns:
                raise self.error("status", "is also in `columns`; give it once")
            columns["status"], made = self.column("status.column", status["column"])
            makers |= made
        column = columns.get("status", "status")
        if status.get("match") or status.get("negate"):
            words = {**found.statuses, **status.get("words", {})}
            make = makers.get(column) or templates.maker_of(column)
            made = templates.status_in(make, status.get("match"), words, negate=bool(status.get("negate")))
            columns["status"] = f"status of {column}"
            makers[columns["status"]] = made
        statuses = {**found.statuses, **status.get("words", {})}
        negated, passed_at = bool(status.get("negate")), status.get("passed_at")
        return replace(found, columns=columns, makers=makers, statuses=statuses, negated=negated, passed_at=passed_at)

    def column(self, key: str, value: Any) -> tuple[str, dict[str, templates.Maker]]:
        """Return the name of a column, and the maker of its value if the rows do not have the column."""
        if isinstance(value, list) and value:
            makers = tuple(self.maker(key, one) for one in value)
            name = " or ".join(map(str, value))
            return name, {name: templates.first_of(makers)}
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            last = key.rpartition(".")[2]
            raise SourceError(
                f"{self.file}: {key} has no value, or not a text: `{last}: NAME`, or leave the line out; {COLUMN}"
            )
        text = str(value)
        return text, {text: self.maker(key, text)} if "{" in text or "}" in text else {}

    def maker(self, key: str, value: Any) -> templates.Maker:
        """Return the maker of a value of a row, from the name of a column or a template."""
        if not isinstance(value, str | int) or isinstance(value, bool) or value == "":
            raise self.error(key, f"must be {COLUMN}")
        try:
            return templates.maker_of(str(value))
        except ValueError as error:
            raise self.error(key, str(error)) from error

    def text(self, key: str, value: Any) -> str:
        """Check a text."""
        if not isinstance(value, str) or not value:
            raise self.error(key, f"must be a text: `{key}: TEXT`, or leave the line out")
        return value

    def texts(self, key: str, value: Any) -> tuple[str, ...]:
        """Check a text, or a list of texts."""
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(item, str) and item for item in items):
            raise self.error(key, f"must be a name, or a list of names: `{key}: [a, b]`")
        return tuple(items)

    def rollouts(self, key: str, value: Any) -> dict[str, Any] | None:
        """Check whether rows are rollouts."""
        if not isinstance(value, bool):
            raise self.error(key, "must be true or false")
        return {} if value else None

    def table(self, key: str, value: Any) -> dict[str, Any]:
        """Check a table."""
        if not isinstance(value, dict):
            raise self.error(key, f"must be a table: `{key}: {{name: value}}`")
        return {str(name): one for name, one in value.items()}

    def words(self, key: str, value: Any) -> dict[str, str]:
        """Check a table of words."""
        table = self.table(key, value)
        for name, word in table.items():
            if not isinstance(word, str) or not word:
                needs = f"has no value, or not a text: `{name}: NAME`, or leave the line out"
                raise SourceError(f"{self.file}: {key}.{name} {needs}")
            if key in ("statuses", "status.words") and word not in [*Status]:
                raise self.error(key, f"{word!r} is not a valid Status; known statuses are {', '.join(Status)}")
        return table

    def paths(self, key: str, value: Any) -> dict[str, str]:
        """Check the paths of texts."""
        return {name: self.text(f"{key}.{name}", one) for name, one in self.table(key, value).items()}

    def joins(self, key: str, value: Any) -> dict[str, Join]:
        """Check the tables whose rows belong to a row."""
        found: dict[str, Join] = {}
        for name, one in self.table(key, value).items():
            if not isinstance(one, dict) or "where" not in one or one.keys().isdisjoint(("file", "query")):
                needs = (
                    "needs `file`, a path, and `where`, {column there: column here}; or `query`, a table of the same database"
                )
                raise self.error(f"{key}.{name}", needs)
            self.refuse_others(f"{key}.{name}", one, "file", "query", "where", "order", "value", "along", "one")
            file, query, item = (
                self.text(f"{key}.{name}", one[part]) if part in one else "" for part in ("file", "query", "value")
            )
            along = [
                (column, there, here)
                for column, pair in self.table(key, one.get("along") or {}).items()
                for there, here in self.words(f"{key}.{name}.along", pair).items()
            ]
            order, where = self.texts(f"{key}.order", one.get("order", [])), self.words(key, one["where"])
            found[name] = Join(where, file, query, order, item, along[0] if along else None, is_one=one.get("one") is True)
        return found

    def matches(self, key: str, value: Any) -> tuple[Match, ...]:
        """Check regular expressions over columns."""
        found: list[Match] = []
        for column, one in self.table(key, value).items():
            entry = one if isinstance(one, dict) else {"regex": one}
            where = f"{key}.{column}"
            self.refuse_others(where, entry, "regex", "every")
            given = entry.get("regex")
            patterns = tuple(self.pattern(where, text) for text in (given if isinstance(given, list) else [given]))
            if any(not pattern.groupindex for pattern in patterns):
                raise self.error(where, "the expression names no column: write (?P<name>...)")
            found.append(Match(column, patterns, bool(entry.get("every"))))
        return tuple(found)

    def pattern(self, key: str, text: Any) -> re.Pattern[str]:
        """Return a regular expression."""
        try:
            return re.compile(self.text(key, text), re.MULTILINE)
        except re.error as error:
            raise self.error(key, f"is not a regular expression: {error}") from error

    def positive(self, key: str, value: Any) -> float:
        """Check a positive number."""
        if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
            raise self.error(key, "must be a positive number")
        return float(value)

    def wanted(self, key: str, value: Any) -> templates.Wanted:
        """Check which rows are wanted."""
        found: dict[str, Any] = {}
        for column, one in self.table(key, value).items():
            if not isinstance(one, dict):
                found[column] = tuple(one) if isinstance(one, list) else (one,)
            elif not one or {*one} - {"from", "to", "given"}:
                raise self.error(f"{key}.{column}", "must be a value, a list of values, `{from: X, to: Y}` or `{given: true}`")
            else:
                found[column] = templates.Bounds(one.get("from"), one.get("to"), one.get("given") is not False)
        return found

    def several(self, key: str, value: Any) -> tuple[Map, ...]:
        """Check cases of rows of several forms, or the attempts of a row."""
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self.error(key, f"must be a list of tables: `- {{{': ..., '.join(SEVERAL[key][:3])}: ...}}`")
        for number, one in enumerate(value, start=1):
            self.refuse_others(f"{key}, {key.removesuffix('s')} {number}", one, *SEVERAL[key])
        return tuple(map(self.map, value))

    def values(self, key: str, value: Any) -> dict[str, dict[str, Any]]:
        """Check the values that replace others."""
        table = {name: self.table(f"{key}.{name}", one) for name, one in self.table(key, value).items()}
        return {name: {word.lower(): new for word, new in one.items()} for name, one in table.items()}

    def choices(self, key: str, value: Any) -> tuple[Choice, ...]:
        """Check options of the command line."""
        found: list[Choice] = []
        for name, one in self.table(key, value).items():
            entry = one if isinstance(one, dict) else {"column": one}
            kinds = [kind for kind in CHOSEN if entry.get(kind)]
            if len(kinds) != 1 or {*entry} - {*CHOSEN, "date", "values", "default", "help"}:
                needs = f"needs one of {', '.join(CHOSEN)}; others are date, values, default and help"
                raise self.error(f"{key}.{name}", needs)
            words = entry.get("values" if kinds[0] != "files" else "files") or {}
            words = {str(word): word for word in words} if isinstance(words, list) else self.table(key, words)
            about, is_date = str(entry.get("help", "")), bool(entry.get("date"))
            found.append(Choice(name, about, kinds[0], str(entry[kinds[0]]), entry.get("default"), words, is_date))
        return tuple(found)

    def quotes(self, key: str, value: Any) -> Quotes:
        """Check the meaning of quotes."""
        if value not in [*Quotes]:
            raise self.error(key, f"must be one of {', '.join(Quotes)}")
        return Quotes(value)

    def exploded(self, key: str, value: Any) -> dict[str, Any]:
        """Check lists of attempts, or the columns that each hold an attempt: ``{answer: [chosen, rejected]}``."""
        if not isinstance(value, dict):
            return {key: self.texts(key, value)}
        return {"sides": {str(name): self.texts(key, one) for name, one in value.items()}}

    def columns(self, key: str, value: Any) -> dict[str, Any]:
        """Check the columns of fields."""
        table = self.table(key, value)
        if unknown := sorted({*table} - {*self.known}):
            raise SourceError(f"{self.file}: unknown {', '.join(unknown)}; columns can be {', '.join(self.known)}")
        found: dict[str, Any] = {"columns": {}, "makers": {}, "unset": frozenset(name for name in table if table[name] is None)}
        for name, one in table.items():
            if one is not None or name == "status":
                found["columns"][name], made = self.column(f"{key}.{name}", one)
                found["makers"] |= made
        return found

    def constants(self, key: str, value: Any) -> dict[str, Any]:
        """Check constants; ``imports`` is a constant for all attempts."""
        table = self.table(key, value)
        if odd := [name for name, one in table.items() if one is None]:
            raise self.error(f"{key}.{odd[0]}", "has no value")
        imports = table.pop("imports", Imports.NONE)
        if imports not in [*Imports]:
            raise self.error(f"{key}.imports", f"must be one of {', '.join(Imports)}")
        made = {name: one for name, one in table.items() if isinstance(one, str) and ("{" in one or "}" in one)}
        makers = {name: self.maker(f"{key}.{name}", one) for name, one in made.items()}
        constants = {name: one for name, one in table.items() if name not in made}
        return {"constants": constants, "constant_makers": makers, "imports": Imports(imports)}

    def tests(self, key: str, value: Any) -> dict[str, Any]:
        """Check the tests: files, a column or template, an object of these, or an expression over one."""
        if not isinstance(value, dict):
            column, made = self.column(key, value)
            return {"columns": {"tests": column}, "makers": made}
        if {*value} == {"column", "match"}:
            match, make = self.pattern(f"{key}.match", value["match"]), self.maker(f"{key}.column", value["column"])
            if {*match.groupindex} != {"input", "expected"}:
                raise self.error(f"{key}.match", "must have two groups: (?P<input>...) and (?P<expected>...)")
            return {"columns": {"tests": "tests in text"}, "makers": {"tests in text": templates.tests_in(make, match)}}
        if any("*" in str(one) for one in value.values()):
            name = "call" if "call" in value else "input"
            if {*value} != {name, "expected"} or "*" not in str(value[name]):
                raise self.error(key, 'files of tests are `{input: "*.in", expected: "*.out"}`')
            return {"columns": {"tests": TESTS}, "tests": TestFiles(str(value[name]), str(value["expected"]), name)}
        name = "tests of " + ", ".join(map(str, value.values()))
        return {"columns": {"tests": name}, "makers": {name: self.made(key, value)}}

    def made(self, key: str, value: Any) -> templates.Maker:
        """Return the maker of a value, from a column or template, a list of these, or an object of these."""
        if isinstance(value, dict):
            return templates.object_of({str(part): self.made(f"{key}.{part}", one) for part, one in value.items()})
        if isinstance(value, list):
            return templates.first_of([self.maker(key, one) for one in value])
        return self.maker(key, value)

    def status(self, key: str, value: Any) -> dict[str, Any]:
        """Check the source of the outcome."""
        table = {"column": value} if not isinstance(value, dict) else self.table(key, value)
        self.refuse_others(key, table, "column", "words", "match", "negate", "passed_at")
        table["words"] = self.words("status.words", table.get("words") or {})
        if "match" in table:
            table["match"] = self.pattern("status.match", table["match"])
            if table["match"].groups != 1:
                raise self.error("status.match", "must have one group, around the word: (...)")
        if not isinstance(table.get("negate", False), bool):
            raise self.error("status.negate", "must be true or false")
        if not isinstance(table.get("passed_at"), int | float | None) or isinstance(table.get("passed_at"), bool):
            raise self.error("status.passed_at", "must be a number, the lowest score that passes")
        return {"status": table}

    def stored(self, key: str, value: Any) -> dict[str, Any]:
        """Check which columns without a field are stored, with the attempt or with the task."""
        if not isinstance(value, dict):
            return {key: self.texts(key, value)}
        self.refuse_others(key, value, "task", "attempt", "without")
        found = {name: self.texts(f"{key}.{name}", one) for name, one in value.items()}
        return {"of_task": found.get("task", ()), "extra": found.get("attempt"), "without": found.get("without", ())}


NAMES = {one.name for one in fields(Map)}
KEYS: Mapping[str, Callable[[Parser, str, Any], Any]] = {
    **dict.fromkeys(("about", "name", "rows", "encoding", "query"), Parser.text),
    **dict.fromkeys(("detect", "files", "marks", "repeats"), Parser.texts),
    "rollouts": Parser.rollouts,
    "full_points": Parser.positive,
    "texts": Parser.paths,
    "joins": Parser.joins,
    "match": Parser.matches,
    **dict.fromkeys(("statuses", "languages"), Parser.words),
    **dict.fromkeys(("only", "reference"), Parser.wanted),
    "options": Parser.choices,
    **dict.fromkeys(("cases", "attempts"), Parser.several),
    "values": Parser.values,
    "versions": Parser.pattern,
    "quotes": Parser.quotes,
    "parts": Parser.table,
}
"""Key of a map that is a field of ``Map`` -> function that checks its value."""
WIDE: Mapping[str, Callable[[Parser, str, Any], dict[str, Any]]] = {
    "explode": Parser.exploded,
    "constants": Parser.constants,
    "columns": Parser.columns,
    "tests": Parser.tests,
    "status": Parser.status,
    "extra": Parser.stored,
}
"""Key of a map that sets several fields -> function that returns these."""
CHOSEN = ("column", "from", "to", "attempts", "constant", "files", "version", "first")
"""Keys of an option, one of which says what the option sets."""
SEVERAL = {
    "cases": ("only", "columns", "constants", "tests"),
    "attempts": ("explode", "columns", "constants", "values", "status", "only", "cases", "reference"),
}
"""Key with a list of tables -> their keys."""
TABLES = ("constants", "texts", "match", "columns", "statuses", "languages", "only", "options", "values")
"""Keys whose tables may be empty, for example if all lines are comments."""


def joined(whole: Mapping[Any, Any], part: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the keys of a part, completed by those of the whole map; tables are merged."""
    tables = {
        key: {**whole[key], **one} for key, one in part.items() if isinstance(one, dict) and isinstance(whole.get(key), dict)
    }
    return {**whole, **part, **tables}


def by_cases(whole: Map, cases: Iterable[Map]) -> Map:
    """Return a map with the columns and constants of cases."""
    names = dict.fromkeys(name for case in cases for name in (*case.constants, *case.columns, *case.unset))
    columns, makers, constants = {**whole.columns}, dict[str, templates.Maker](), {**whole.constants}
    for name in names:
        own: list[tuple[templates.Wanted, templates.Maker]] = []
        for case in (whole, *cases):
            if name in case.columns:
                column = case.columns[name]
                own.append((case.only if case is not whole else {}, case.makers.get(column) or templates.maker_of(column)))
            elif name in case.constants or name in case.unset:
                own.append((case.only if case is not whole else {}, templates.constant(case.constants.get(name))))
        is_field = any(name in case.columns or name in case.unset for case in (whole, *cases))
        made = f"{name} by case" if is_field else name
        makers[made] = templates.by_case(own)
        columns |= {name: made} if is_field else {}
        constants.pop(name, None)
    gone = {whole.columns.get(name) for name in names} - {*columns.values()}
    makers |= {name: make for name, make in whole.makers.items() if name not in gone}
    return replace(whole, columns=columns, makers=makers, constants=constants)
