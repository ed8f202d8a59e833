"""Guesses which columns of a table, or unknown fields of JSON, hold which field, by names and contents. Only warnings and errors use the guesses."""

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers import outcome
from upsolve.importers.rows import SECONDS, Rows, chats_in, columns_in, is_message, known_words, nested_value
from upsolve.languages.names import language_looked_like

__all__ = [
    "OUTCOMES",
    "SERVED",
    "VAGUE",
    "are_programs",
    "bare",
    "by_name",
    "exploded_in",
    "explosions_in",
    "fits",
    "has_decimal_commas",
    "hints_for",
    "is_judged",
    "likely_fields",
    "lists_of_programs",
    "options_for",
    "refuse_codes",
    "refuse_opposite",
    "says_opposite",
]

KNOWN = known_words()
NAMES, STANDS_FOR = KNOWN["columns"], KNOWN["stands_for"]
"""Field -> names of columns that often hold it, and other fields that make it unnecessary. A map reads ``exit_code`` as ``status``."""
RESPONSES = NAMES["answer"]
COUNTS, PAIR = ("passed", "total", "exit_code"), ("passed", "total")
"""Fields with numbers, none of which is needed beside a status; and fields that need each other, such as numbers of tests."""
RIGHT = ("correct", "accepted", "success", "solved")
"""Endings of names of columns in which 1 is good."""
FAILURE, SUCCESS, NEGATION, SCORE, PART = (
    re.compile("|".join(KNOWN["meanings"][kind])) for kind in ("failure", "success", "negation", "score", "part")
)
VAGUE = ("true", "false", "yes", "no", "y", "n", "ja", "nein", "oui", "non", "sí", "是", "否")
"""Words for an outcome whose meaning depends on the column."""
MAPPED = "--map FILE with `columns: {{status: {}}}` and `statuses: {{0: passed, 1: failed}}`"
"""Options of a map that reads an exit code."""
OUTCOMES = ("status", "passed", "outcomes", "points", "share", "error")
"""Fields that hold an outcome."""
SERVED = frozenset(("success", "succeeded", "successful", "ok"))
"""Words in a column ``status`` of services that answered."""
TESTING = re.compile(r"\bassert|==|>>>|\bcheck\(|\bdef test|^\s*[\[{]")
"""Matches the text of a test, but not the name of a test."""
TEST_CODE = re.compile(r"^\s*(?:assert\b|>>> |(?:async )?def (?:test|check)|class \w+\(.*TestCase\))", re.MULTILINE)
NAMED_TEST = re.compile(r"^(?!.*(?:output|log|result|report|pass|fail|trace|error|stat)).*(?:test|assert|spec|check)")
"""Matches of tests as Python code, and of names of columns (without signs) that hold tests instead of their results."""
ITEMS = ("code", "answer", "language", "author", "created", "status", "passed")
"""Fields that items of a list of attempts often have."""
SHORT = 40
"""Largest number of characters of a word for an outcome."""
WORDS, PROSE, STATEMENT = 4, 8, re.compile("(?:statement|question|description|instruction|prompt|text)s?$")
"""Fewest words of a statement (shorter texts are names of tasks); fewest words of a text that is not a title; columns that need only two words."""


def likely_fields(rows: Rows, mapped: Mapping[str, str], fields: Iterable[str] = tuple(NAMES)) -> dict[str, str]:
    """Return field -> column for those ``fields`` without a column that a column of the first rows may hold.

    ``mapped``: field -> its column, which need not exist.
    """
    found = columns_in(rows)
    free = [name for name in found if name not in mapped.values()]
    likely: dict[str, str] = {}
    for field in fields:
        if any(one in mapped and (mapped[one] != one or one in found) for one in (field, *STANDS_FOR.get(field, ()))):
            continue  # a named column may be in a list
        if field in (*COUNTS, "outcomes") and {"status", "outcomes"} & likely.keys():
            continue
        columns = [name for name in by_name(field, free) if fits(field, name, values_of(rows, name))]
        if field == "tests":
            columns += [name for name in free if NAMED_TEST.search(bare(name)) and are_tests(values_of(rows, name))]
        if field == "status" and has_totals(rows):  # 1 may be one of several tests
            columns = [name for name in columns if outcome.are_statuses(values_of(rows, name))]
        if field == "status":  # words for outcomes, whatever the column's name; yes and no, or true and false, may be anything
            held = {name: {*map(str, values_of(rows, name))} for name in free}
            sure = [name for name in free if {*map(str.lower, held[name])} - {*VAGUE} and outcome.are_statuses(held[name])]
            columns += [name for name in sure if len(values_of(rows, name)) == len(rows)]
            columns = [name for name in columns if not PART.search(bare(name))]
            columns.sort(key=lambda name: len(held[name]) == 1)  # the same in all rows, as of a service that answered
        if field == "code":  # rather than the site that is its source
            columns.sort(key=lambda name: not are_programs(values_of(rows, name)))
        if field == "prompt":  # rather than a title
            columns.sort(key=lambda name: is_short(values_of(rows, name)))
        if columns:
            likely[field] = columns[0]
            free.remove(columns[0])
    task = likely.get("task_id") or mapped.get("task_id", "")
    if task in found and "prompt" in fields and "prompt" not in likely and mapped.get("prompt") not in found:
        texts = [name for name in free if are_statements(rows, name, task)]
        likely |= {"prompt": texts[0]} if texts else {}
    known = {*likely, *(field for field, column in mapped.items() if column in found)}
    return {field: column for field, column in likely.items() if field not in PAIR or known.issuperset(PAIR)}


def is_short(texts: Sequence[Any]) -> bool:
    """Return whether at least half of some texts have fewer words than a statement."""
    return 2 * sum(len(str(text).split()) < PROSE for text in texts) > len(texts)


def are_statements(rows: Rows, column: str, task: str) -> bool:
    """Return whether a column has texts that are neither titles nor programs, and that differ from task to task in all of several rows."""
    texts, pairs = values_of(rows, column), {(repr(row.get(task)), repr(row.get(column))) for row in rows}
    same = len({*texts}) == len(pairs) == len({name for name, _ in pairs}) if all(isinstance(one, str) for one in texts) else 0
    return bool(same) and len(pairs) < len(texts) == len(rows) and not is_short(texts) and not are_programs(texts)


def by_name(field: str, columns: Iterable[str]) -> list[str]:
    """Return the columns with a name of a field (``NAMES``), the likeliest first; then columns whose names contain such a name."""
    before, after = ("|".join(KNOWN[side].get(field, ())) for side in ("before", "after"))
    plain = {column: bare(column) for column in columns}
    exact = [column for name in NAMES[field] for column in plain if plain[column] in (name, f"{name}id", f"{name}name")]
    form = re.compile(f"(?:{before})?(?:{'|'.join(NAMES[field])})(?:{after})?")
    return [*exact, *(column for column in plain if column not in exact and form.fullmatch(plain[column]))]


def bare(column: str) -> str:
    """Return the name of a column in lower case without signs: the last part of a path, or the part before ``$oid`` and the like."""
    return re.sub(r"[\W_]", "", column.partition(".$")[0].lower().rpartition(".")[2])


def values_of(rows: Iterable[Mapping[str, Any]], column: str) -> list[Any]:
    """Return the values of a column except null, NaN and empty text."""
    values = (row[column] if column in row else nested_value(row, column.split(".")) for row in rows)
    return [value for value in values if value not in (None, "") and value == value]


def fits(field: str, column: str, values: Sequence[Any]) -> bool:
    """Return whether the values fit a field: text or numbers; words for outcomes; names of tasks that are not statements; code in a fence.

    Numbers can be outcomes only if no others than 0 and 1 occur: both of them, unless the column's name says that 1 is good.
    """
    if field == "outcomes":
        return any(map(are_outcomes, values)) and all(are_outcomes(value) or outcome.are_statuses([value]) for value in values)
    if not values or any(isinstance(value, dict) or (isinstance(value, list) and field != "tests") for value in values):
        return False
    if field in ("language", "author") and re.search(r"(checker|interactor|validator|generator|reference)\.", column.lower()):
        return False  # of a program of the task
    if field == "tests":
        lists = [value for value in values if isinstance(value, list)]
        texts = [str(value) for value in values if not isinstance(value, list) and not outcome.number_in(str(value).strip())]
        if not column.lower().endswith("s"):  # may be the name of a test
            texts = [text for text in texts if TESTING.search(text)]
        return bool(lists or texts) and not any(map(are_results, lists))
    if (
        field in ("code", "prompt")
        and bare(column) in KNOWN["texts"]["code"]
        and (field == "code") != all(map(is_program, values[:50]))
    ):
        return False
    if field in ("task_id", "prompt"):
        least = 2 if STATEMENT.search(bare(column)) else WORDS
        return (max(len(str(value).split()) for value in values) >= least) == (field == "prompt")
    numbers = {outcome.number_in(str(value).strip()) for value in values}
    if field == "created":  # seconds since 1970, and not those of a run
        return "" in numbers or all(float(number) >= SECONDS for number in numbers)
    if field in ("code", "answer") and ("" not in numbers or column.lower().endswith("id")):
        return False
    if field == "code" and bare(column) == "code" and not any(re.search(r"\W", str(value)) for value in values):
        return False  # of an error, a country, ...
    if field == "answer":
        return any("```" in str(value) for value in values)
    if field != "status":
        return field not in COUNTS or "" not in numbers
    good = numbers == {"0", "1"} or (numbers <= {"0", "1"} and column.lower().endswith(RIGHT))
    return good or any(outcome.are_statuses([value]) for value in values)


def are_outcomes(value: Any) -> bool:
    """Return whether a value has several words for outcomes: in a list, or between commas."""
    with suppress(ValueError):
        return len([*map(outcome.status_of, outcome.words_of(value))]) > 1
    return False


def has_totals(rows: Rows) -> bool:
    """Return whether a column, by its name, is one of several numbers of tests in a row."""
    columns = columns_in(rows)
    totals = {*by_name("total", columns), *(name for name in columns if bare(name) == "total")}
    return any((outcome.graded_in(value) or 0) > 1 for name in totals for value in values_of(rows, name))


def are_tests(values: Sequence[Any]) -> bool:
    """Return whether all values are tests as code, or lists of them."""
    texts = ["\n".join(map(str, value)) if isinstance(value, list) else value for value in values]
    return bool(texts) and all(isinstance(text, str) and TEST_CODE.search(text) for text in texts)


def are_results(items: Sequence[Any]) -> bool:
    """Return whether a list holds outcomes of tests instead of tests: objects with a status or the like, and no input."""
    names = {*items[0]} if items and isinstance(items[0], dict) else set[str]()
    return names.isdisjoint(("input", "stdin", "inputs")) and not names.isdisjoint((*outcome.OF_TESTS, "score"))


def exploded_in(rows: Rows, taken: Collection[str]) -> tuple[str, dict[str, str]]:
    """Return a column with lists of objects that hold programs, and field -> its column in the objects; empty if there is none."""
    for name in columns_in(rows):
        is_taken = any(column == name or column.startswith(f"{name}.") for column in taken)
        lists = [value for value in values_of(rows[:50], name) if isinstance(value, list)] if not is_taken else []
        items = [item for value in lists for item in value if isinstance(item, dict)]
        if not items or any(map(is_message, items)) or {"input", "stdin", "inputs"} & {*items[0]}:
            continue
        own = {field: field for field in ITEMS if field in items[0]}
        found = {**own, **likely_fields(items, own, ITEMS)}
        found = {
            field: one for field, one in found.items() if bare(one) not in RESPONSES or are_programs(values_of(items, one))
        }
        if {"code", "answer"}.isdisjoint(found):
            texts = [one for one in columns_in(items) if are_programs(values_of(items, one))]
            found |= {"answer" if "```" in str(values_of(items, texts[0])) else "code": texts[0]} if texts else {}
        if not {"code", "answer"}.isdisjoint(found):
            return name, found
    return "", {}


def explosions_in(rows: Rows, mapped: Iterable[str]) -> list[str]:
    """Return a column with lists of programs, and the columns with lists of the same lengths; empty without programs."""
    taken = {*mapped}
    sizes = {
        name: [len(one) if isinstance(one := row.get(name), list) else 0 for row in rows]
        for name in columns_in(rows)
        if name not in taken
    }
    programs = lists_of_programs(rows, taken)
    return [*programs[:1], *(name for name in sizes if programs and name not in programs and sizes[name] == sizes[programs[0]])]


def lists_of_programs(rows: Rows, taken: Collection[str]) -> list[str]:
    """Return the columns with lists of several programs, or of answers with one program each."""
    lists = {name: [one for row in rows[:50] if isinstance(one := row.get(name), list)] for name in columns_in(rows)}
    return [
        name
        for name, values in lists.items()
        if name not in taken and max(map(len, values), default=0) > 1 and are_programs([*chain.from_iterable(values)])
    ]


def is_program(value: Any) -> bool:
    """Return whether a text is a program, perhaps of one line, and no word or literal."""
    found = language_looked_like(value) if isinstance(value, str) else ""
    return bool(found) and (found != "python" or re.search(r"[^\W\d]\s*[=(]|^import ", value) is not None)


def are_programs(values: Sequence[Any], *, fenced: bool = True) -> bool:
    """Return whether at least half of the first values are programs of several lines or, ``fenced``, answers with a program."""
    texts = [value for value in values[:50] if isinstance(value, str)]
    found = [
        one for one in texts if (fenced and "```" in one) or (len(one.strip().splitlines()) > 1 and language_looked_like(one))
    ]
    return len(found) >= len(values[:50]) / 2 > 0


def tests_in_two(rows: Rows, mapped: Mapping[str, str]) -> str:
    """Return how a map reads two columns as tests if no single column holds tests; empty if no pair of columns does."""
    columns, used = columns_in(rows), {part for name in mapped.values() for part in (name, name.partition(".")[0])}
    beside: dict[str, dict[str, str]] = {}
    for name in columns:
        if name not in used:
            beside.setdefault(name.rpartition(".")[0], {})[bare(name)] = name
    pairs = [(one, other) for one, names in KNOWN["pairs"].items() for other in names]
    found = ((plain[one], plain[other]) for plain in beside.values() for one, other in pairs if {one, other} <= plain.keys())
    two = next(found, None)
    tests = mapped.get("tests", "tests")
    if two is None or tests != "tests" or tests in columns:
        return ""
    keys = ("public_tests", "private_tests") if bare(two[0]) == "publictests" else ("inputs", "outputs")
    pairs = ", ".join(f"{key}: {name}" for key, name in zip(keys, two, strict=True))
    return f"{two[0]} and {two[1]} look like tests, and are stored in extra: --map FILE with `tests: {{{pairs}}}`"


def hints_for(rows: Rows, mapped: Mapping[str, str]) -> list[str]:
    """Return how a map or an option would read lists of programs, messages and tests that no field holds, or cannot hold."""
    found = [hint] if (hint := tests_in_two(rows, mapped)) else list[str]()
    taken = [mapped[name] for name in ("tests", "outcomes", "points") if name in mapped]
    several, fields, more = explosions_in(rows, taken), dict[str, str](), ""
    if several:
        fields = {"answer" if any("```" in str(row.get(several[0])) for row in rows) else "code": several[0]}
        more = f"; status: {several[1]}" if len(several) > 1 else ""
    else:
        name, fields = exploded_in(rows, [*mapped.values()])
        several = [name] if name else []
    if len(programs := lists_of_programs(rows, taken)) > 1:
        ways = ", ".join(f"{{explode: {one}, columns: {{code: {one}}}, constants: {{status: {'failed' if says_opposite(one) else 'passed'}}}}}"
                         for one in programs)  # fmt: skip
        named = "`columns: {task_id: COLUMN, prompt: COLUMN}`"
        found.append(f"{' and '.join(programs)} have lists of programs: --map FILE with {named} and `attempts: [{ways}]`")
    elif several:
        shown = ", ".join(f"{field}: {name}" for field, name in fields.items())
        found.append(f"{several[0]} has lists of programs, and a row is one attempt: --map FILE with `explode: [{', '.join(several)}]` and "
                     f"`columns: {{{shown}, ...}}`{more}")  # fmt: skip
    used = [column.partition(".")[0] for column in mapped.values()]
    chats = {field: name for field, name in chats_in(rows[:1]).items() if name.partition(".")[0] not in used}
    return [*found, f"{' and '.join({*chats.values()})} has messages: {options_for(chats)}"] if chats else found


def is_judged(rows: Rows, chosen: Mapping[str, str]) -> bool:
    """Return whether a column of rows is the outcome; one that only says that a service answered is none."""
    named = [chosen[name] for name in OUTCOMES if name in chosen and name != "error"]
    return any({str(value).lower() for value in values_of(rows, name)} - SERVED for name in named)


def options_for(likely: Mapping[str, str]) -> str:
    """Return the options of the command line that name these columns. For an exit code, the map that reads it, since 0 means success only there."""
    code = likely.get("exit_code")
    named = [f"--{field} {shlex.quote(column)}" for field, column in likely.items() if field != "exit_code"]
    return " ".join([*named, MAPPED.format(code)] if code else named)


def says_opposite(column: str) -> bool:
    """Return whether a column, by its name, has 1, true or a large number for a failed attempt: ``is_buggy``, ``n_errors``, ``exit_code``.

    In a dotted name the last part counts, or the part before if the last is neutral (``errors.count``). A negation inverts the meaning:
    ``not_passed`` is opposite, ``no_errors`` is not.
    """
    for part in reversed(column.split(".")):
        words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", part).lower())
        if not {*words} <= {*KNOWN["meanings"]["neutral"]}:
            failures = (
                any(FAILURE.search(word) for word in words) or "".join(words) in KNOWN["meanings"]["codes"] or "exit" in words
            )
            negated = any(NEGATION.match(word) for word in words)
            return failures != negated if failures or any(map(SUCCESS.search, words)) else False
    return False


def refuse_opposite(path: Path, rows: Rows, named: Mapping[str, str], statuses: Iterable[Any]) -> None:
    """Raise SourceError if a column's name suggests that 1, true or yes means failure, and the map does not define these words."""
    known = {outcome.number_in(str(word).strip().lower()) or str(word).strip().lower() for word in statuses}
    for name in ("status", "passed", "outcomes"):
        column = named.get(name, "")
        if not says_opposite(column):
            continue
        words = {word for value in values_of(rows, column) for word in vague_in(value)}
        if left := sorted(words - known):
            shown = ", ".join(
                f"{word}: {'passed' if outcome.WORDS.get(word, word) in ('0', 'failed') else 'failed'}" for word in left[:9]
            )
            raise SourceError(
                f"{path}: --{name}: by its name, the column {column} has {left[-1]} where an attempt failed, which would be read as its opposite. Write a map: "
                f"--map FILE with `columns: {{{name}: {column}}}` and `statuses: {{{shown}}}`"
            )


def vague_in(value: Any) -> Iterator[str]:
    """Yield the numbers, and the words for true and false, in an outcome or in the outcomes of single tests."""
    items: Any = value if isinstance(value, list | tuple) else re.split(r"[\[\],;|\s]+", str(value))
    for item in items:
        word = str(item).strip().strip("'\"").lower()
        if outcome.number_in(word) or word in VAGUE:
            yield outcome.number_in(word) or word


def refuse_codes(
    path: Path,
    rows: Rows,
    mapped: Mapping[str, str],
    *,
    passed_at: float | None,
    words: Iterable[str],
    languages: Iterable[str],
) -> None:
    """Raise SourceError if outcomes or languages are numbers with a meaning at one judge only and no map explains them, or if scores are missing.

    ``passed_at``: lowest score that passes, None if numbers are not scores; ``words`` and ``languages``: known words.
    """
    status, language = mapped.get("status", ""), mapped.get("language", "")
    if passed_at is not None and not any(outcome.graded_in(value) is not None for value in values_of(rows, status)):
        free = [
            name
            for name in columns_in(rows)
            if name not in mapped.values() and None not in [*map(outcome.graded_in, values_of(rows, name) or [None])]
        ]
        name = shlex.quote(max(free, key=lambda one: bool(SCORE.search(bare(one))), default="COLUMN"))
        lacks = f"{status} has no scores" if values_of(rows, status) else "no column is the outcome"
        numbers = f"{name} has numbers: " if free else ""
        raise SourceError(f"{path}: --passed-at {passed_at:g}, but {lacks}; {numbers}--status {name} --passed-at {passed_at:g}")
    percents = [outcome.PERCENT.fullmatch(str(value)) is not None for value in values_of(rows, status)]
    unsaid = passed_at is None and all(percents) and not any(map(outcome.PERCENT.fullmatch, words))
    if any(percents) and (unsaid or (passed_at or 0) > 1):
        raise SourceError(
            f"{path}: {status} has scores in percent, which are read as shares: 67% is 0.67. --passed-at X, the lowest share that passes, "
            "such as 0.5 for 50%"
        )
    codes = numbers_in(rows, status)
    if codes - {"0", "1"} and passed_at is None and not any(map(outcome.number_in, words)):
        shown = ", ".join(sorted(codes, key=float)[:9])
        raise SourceError(
            f"{path}: {status} has numbers, {shown}, either codes or scores. For codes: --map FILE with `columns: {{status: {status}}}` "
            "and `statuses: {4: passed, 6: failed, ...}`, one for each number. For scores: --passed-at X, the lowest score that passes"
        )
    if codes := numbers_in(rows, language) - {*languages}:
        raise SourceError(
            f"{path}: {language} has numbers, {', '.join(sorted(codes, key=float)[:9])}, whose meaning differs between judges; name their languages: --map FILE "
            f"with `languages: {{{min(codes, key=float)}: cpp, ...}}`, one for each number"
        )


def has_decimal_commas(path: Path, rows: Rows, column: str, *, full: float, commas: bool) -> bool:
    """Return whether ``1,5`` in a column of points is one number instead of the points of two tests, as all first rows allow.

    ``full``: points of a full answer; ``commas``: whether commas do not separate cells, so that commas are decimal if both readings are possible.

    Raises:
        SourceError: both readings are possible, and nothing in the file decides.
    """
    texts = [value for value in values_of(rows, column) if isinstance(value, str) and "," in value]
    if not texts or not all(map(outcome.DECIMAL.fullmatch, texts)):
        return False
    fit = [all(are_points(value, full) for value in values) for values in (texts, [*map(outcome.with_point, texts)])]
    if all(fit) and not commas:
        one, two = texts[0].split(",")
        raise SourceError(
            f"{path}: {column} has {texts[0]!r}: {one}.{two} points, or {one} and {two} of two tests? Write {one}.{two}, or [{one}, {two}]"
        )
    return fit[1]


def are_points(value: Any, full: float) -> bool:
    """Return whether a value can be points, given the points of a ``full`` answer."""
    try:
        outcome.points_in(value, full)
    except ValueError:
        return False
    return True


def numbers_in(rows: Rows, column: str) -> set[str]:
    """Return the numbers in a column; empty if the column also has other values."""
    found = {"" if isinstance(value, bool) else outcome.number_in(str(value).strip()) for value in values_of(rows, column)}
    return set[str]() if "" in found else found
