"""Outcomes that the names of columns state: grades with their maximum, single tests, failures; and tasks that only ids name."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers import outcome
from upsolve.importers.rows import Rows, columns_in, nested_value
from upsolve.importers.tables import PROGRAMS
from upsolve.importers.tables.columns import (
    FAILURE,
    OUTCOMES,
    RESPONSES,
    SCORE,
    SERVED,
    SHORT,
    bare,
    fits,
    likely_fields,
    options_for,
    says_opposite,
    values_of,
)

__all__ = ["differ", "outcomes_in", "refuse_counts", "stated_in", "tell_no_outcome", "unfit_status", "with_each"]

FULL = re.compile(r"(?:[^\W\d]\s*/\s*|\bout of |\bmax\.? |total pts:\s*)(\d+(?:[.,]\d+)?)(?!\s*/)", re.IGNORECASE)
"""The points of a full answer in the name of a column: ``Grade/10.00``, ``Score (out of 20)``, ``HW 1 [Total Pts: 10 Score]``."""
TEST = re.compile(r"(.*?(?:test|case|tc|check|\bt)\D{0,9}?)(\d+)(\D*)", re.IGNORECASE)
"""The name of a column with the outcome of one test: what is before its number, the number, and what is after it."""
FAILED = re.compile(r"(?:is|has|was)?(?:fail(?:ed|s|ures?)?|incorrect|wrong|(?:un|not)(?:solved|passed|resolved))")
"""Names of columns, without signs, in which true, or a number of tests above 0, means that the attempt failed."""


def stated_in(path: Path, rows: Rows, chosen: Mapping[str, str], *, alone: bool) -> tuple[list[str], dict[str, Any]]:
    """Return what names of columns state; and the ``options`` of a table and keys of a ``map`` that read it so. ``chosen``: field -> column.

    ``alone``: whether no other table may describe the tasks. SourceError if the outcome may be in a column whose meaning is not clear.
    """
    why, options, plan = outcome_in(rows, chosen)
    if not why:
        refuse_unread(path, rows, chosen)
    names, stated = values_of(rows, chosen.get("task_id", "")), [why] * bool(why)
    own = bool(names) and not any("/" in str(name) for name in names)  # others may be those of a known set
    if alone and own and {*PROGRAMS} & chosen.keys() and {"prompt", "prompt_file", "tests"}.isdisjoint(chosen):
        stated, options = [*stated, "no column has statements"], {**options, "prompt": ""}
    return stated, {"options": options, "map": plan}


def outcome_in(rows: Rows, chosen: Mapping[str, str]) -> tuple[str, dict[str, str], dict[str, Any]]:
    """Return what names of columns state of the outcome, and options and keys of a map that read it; nothing if a field has the outcome."""
    tests = columns_of_tests(rows)
    if {*OUTCOMES} & {field for field, name in chosen.items() if name not in tests and field != "error"}:
        return "", {}, {}
    if tests:
        return f"{tests[0]} to {tests[-1]} have outcomes of tests", {"outcomes": ", ".join(f"{{{name}}}" for name in tests)}, {}
    free = [name for name in columns_in(rows) if name not in chosen.values()]
    full = {name: found[1].replace(",", ".") for name in free if (found := FULL.search(name))}
    full = {name: most for name, most in full.items() if are_points(values_of(rows, name), most)}
    if len(full) == 1:
        ((name, most),) = full.items()
        return f"{name} has points, and {most} passed", {"points": name, "full_points": most}, {}
    failed = [name for name in free if FAILED.fullmatch(bare(name)) and are_counts(values_of(rows, name))]
    if len(failed) == 1:
        return f"{failed[0]} says which attempts failed", {}, {"status": {"column": failed[0], "negate": True}}
    return "", {}, {}


def columns_of_tests(rows: Rows) -> list[str]:
    """Return the columns that have the outcomes of single tests, by their numbers: at least two with equal names and the numbers from 0 or 1 on."""
    found: dict[tuple[str, str], dict[int, str]] = {}
    for name in columns_in(rows):
        match = TEST.fullmatch(name)
        if match and re.search(r"[{}|?]", name) is None and (values := values_of(rows, name)) and all(map(is_outcome, values)):
            found.setdefault((match[1], match[3]), {})[int(match[2])] = name
    several = [one for one in found.values() if len(one) > 1 and sorted(one) in ([*range(len(one))], [*range(1, len(one) + 1)])]
    return [several[0][number] for number in sorted(several[0])] if len(several) == 1 else []


def is_outcome(value: Any) -> bool:
    """Return whether a value is a word for an outcome, true, false, 0 or 1."""
    return outcome.number_in(str(value).strip()) in ("0", "1") or outcome.are_statuses([value])


def are_points(values: Sequence[Any], most: str) -> bool:
    """Return whether values are points up to those of a full answer."""
    numbers = [outcome.score_in(value) for value in values if value not in outcome.NO_POINTS]
    return bool(numbers) and all(number is not None and 0 <= number <= float(most) for number in numbers)


def are_counts(values: Sequence[Any]) -> bool:
    """Return whether values are true, false or whole numbers."""
    words = {str(value).strip().lower() for value in values}
    return bool(words) and all(word in ("true", "false", "yes", "no") or word.isdigit() for word in words)


def refuse_unread(path: Path, rows: Rows, chosen: Mapping[str, str]) -> None:
    """Raise SourceError if attempts have neither tests nor an outcome, and the name of a column says that it may hold the outcome."""
    if not {*PROGRAMS} & chosen.keys() or {*OUTCOMES, "tests"} & chosen.keys():
        return
    found = {name: values_of(rows, name) for name in columns_in(rows) if name not in chosen.values()}
    plain = {name: one for name, one in found.items() if one and not any(isinstance(value, dict | list) for value in one)}
    bad = [name for name, one in plain.items() if (says_opposite(name) or FAILURE.search(bare(name))) and are_counts(one)]
    varied = {name: one for name, one in plain.items() if len({*map(str, one)}) > 1 or len(rows) == 1}
    good = [
        name
        for name, one in varied.items()
        if re.search(f"{SCORE.pattern}|passed|correct|solved", bare(name)) and max(len(str(value)) for value in one) <= SHORT
    ]
    if name := next(iter([*good, *bad]), ""):
        how = options_for({"status": name}) + " --passed-at X"
        if not good:
            how = f"--map FILE with `status: {{column: {name}, negate: true}}`"
        elif None in map(outcome.graded_in, plain[name]):
            how = f"--map FILE with `columns: {{status: {name}}}` and `statuses: {{{plain[name][0]}: passed, ...}}`"
        raise SourceError(
            f"{path}: no column is known to be the outcome, and {', '.join([*good, *bad][:9])} may be: {how}; to import without outcomes: --status ''"
        )


def with_each(
    ways: Iterable[tuple[dict[str, Any], str]], outcomes: Sequence[tuple[str, str | None]]
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each reading once for every field and column that may be the outcome."""
    for way, why in ways:
        bare = {name: column for name, column in way.items() if name != outcomes[0][0]}
        for key, name in outcomes:
            yield (
                {**bare, key: name},
                ", ".join(filter(None, (why, f"{name or 'no column'} has the outcome" * (len(outcomes) > 1)))),
            )


def outcomes_in(rows: Rows, chosen: Mapping[str, str]) -> list[tuple[str, str | None]]:
    """Return the fields and columns that may each be the outcome; none if one was chosen and no other column contradicts it.

    A column ``status`` with ``success`` in all rows may say that a service answered. A column without words for outcomes, or with the same word in all rows, holds no outcome if another column has several.
    """
    field = next((name for name in ("status", "passed", "outcomes") if name in chosen), "")
    if not field or "total" in chosen:
        return []
    column, left = chosen[field], {name: one for name, one in chosen.items() if name != field} | {"": chosen[field]}
    other = likely_fields(rows, left, ["status"]).get("status", chosen.get("passed", "") if field == "status" else "")
    values, others = values_of(rows, column), values_of(rows, other)
    if not other and bare(column) == "status" and {*map(str.lower, map(str, values))} <= SERVED:
        return [(field, column), (field, None)]
    fit = fits(field.replace("passed", "status"), column, values)
    if not other or (fit and not any(differ(row, column, other) for row in rows)):
        return []
    sole = not fit or len({*map(repr, values)}) == 1 < len({*map(repr, others)})
    return [("status", other)] if sole else [(field, column), ("status", other)]


def tell_no_outcome(rows: Rows, mapped: Mapping[str, str]) -> list[str]:
    """Return a hint with the columns that may be the outcome, if rows have programs and no outcome."""
    used = {*columns_in(rows)}
    given, programs = (
        {field for field in fields if mapped.get(field) in used} for fields in (OUTCOMES, ("code", "answer", "code_file"))
    )
    if given == {"error"} and programs:
        return [
            f"{mapped['error']} is no outcome, and attempts with one are unscored: if they failed and the others passed, --map FILE with "
            f"`constants: {{status: passed}}` and `cases: [{{only: {{{mapped['error']}: {{given: true}}}}, constants: {{status: failed}}}}]`"
        ]
    attempts = [row for row in rows if any(nested_value(row, mapped[field].split(".")) for field in programs)]
    found = possible_outcomes(attempts, mapped) if attempts and not given else []
    return [
        f"no attempt has an outcome; {', '.join(found[:9])} may have one: --status COLUMN, for scores with --passed-at X; where a large value "
        "is a failure: --map FILE with `status: {column: COLUMN, negate: true}`"
    ] * bool(found)


def possible_outcomes(rows: Rows, mapped: Mapping[str, str]) -> list[str]:
    """Return the columns that may be the outcome if no field is: they have a few short values, several of them at one task."""
    tasks = [mapped[name] for name in ("task_id", "prompt") if name in mapped]
    found: list[str] = []
    for column in columns_in(rows):
        values = values_of(rows, column)
        short = all(isinstance(value, bool | int | float | str) and len(str(value)) <= SHORT for value in values)
        if (
            column in (*mapped.values(), "answer", *RESPONSES)
            or not short
            or not 2 <= len({*map(str, values)}) <= max(2, len(values) / 2)
        ):
            continue
        by_task: dict[str, set[str]] = {}
        for row in rows:
            by_task.setdefault(repr([nested_value(row, one.split(".")) for one in tasks]), set()).add(str(row.get(column)))
        found += [column] if any(len(one) > 1 for one in by_task.values()) else []
    return found


def refuse_counts(path: Path, rows: Rows, mapped: Mapping[str, str]) -> None:
    """Raise SourceError if ``passed`` is a number of tests beside a number of failed tests, so that 1 does not mean passed."""
    passed = mapped.get("passed", "")
    free = [name for name in columns_in(rows) if name not in mapped.values() and FAILURE.search(bare(name))]
    both = ((row, name) for row in rows for name in free if not isinstance(row.get(passed), bool))
    name = next((name for row, name in both if all((outcome.score_in(row.get(one)) or 0) > 0 for one in (passed, name))), "")
    if name and {mapped.get(field) for field in ("status", "outcomes", "total")}.isdisjoint(columns_in(rows)):
        raise SourceError(
            f"{path}: {passed} and {name} are numbers of tests: --map FILE with `columns: {{passed: null}}` and `status: {{column: {name}, "
            "negate: true}`"
        )


def unfit_status(rows: Rows, named: Mapping[str, str]) -> str:
    """Return a word of the column ``status`` if another column was named as the outcome and ``status`` has no word for a status."""
    values = values_of(rows, "status") if {"passed", "outcomes"} & named.keys() and "status" not in named else []
    fit = any(outcome.are_statuses([value]) or outcome.number_in(str(value).strip()) in ("0", "1") for value in values)
    return "" if fit or not values else str(values[0])


def differ(row: Mapping[str, Any], one: str, other: str) -> bool:
    """Return whether two columns of a row have outcomes that contradict each other: one passed, the other did not."""
    found: list[bool] = []
    for name in (one, other):
        with suppress(ValueError):
            found += [outcome.status_of(value) == "passed" for value in values_of([row], name)]
    return len({*found}) > 1
