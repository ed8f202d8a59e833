"""Recorded outcomes in common notations -> verdicts; and the names by which rows of a file refer to attempts."""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import compress
from operator import not_
from typing import Any

from upsolve.archive.preference import is_recorded
from upsolve.importers.rows import data_in, known_words, moment
from upsolve.records import from_row, refuse_impossible
from upsolve.types import Status, Verdict, with_points

__all__ = [
    "DECIMAL",
    "NO_POINTS",
    "OUTCOME_FIELDS",
    "PERCENT",
    "POINTS",
    "WORDS",
    "are_statuses",
    "check_counts",
    "graded_in",
    "in_units",
    "is_given",
    "judge_name",
    "name_attempt",
    "named_attempt",
    "number_in",
    "points_in",
    "recorded_verdict",
    "refuse_outcome",
    "score_in",
    "scored",
    "scores_in",
    "status_of",
    "unit_of",
    "whole",
    "with_given_points",
    "with_point",
    "with_points_for_commas",
    "without_left_out",
    "without_odd",
    "words_of",
]

WORDS: Mapping[str, Status] = {word: Status(name) for name, words in known_words()["statuses"].items() for word in words}
"""Status of other judges, in lower case with spaces -> status of upsolve."""
OF_TESTS = known_words()["tests"]["outcomes"]
"""Names of the field with the outcome in an object about a test."""
BITS: Mapping[str, Status] = {"1": Status.PASSED, "0": Status.FAILED}
"""Numbers that count as words for a status. If a map names numbers, these are codes instead, and 0 often means success."""
SHARE = re.compile(r"(\d+(?:\.\d+)?) ?(?:/|(?:out )?of) ?(\d+(?:\.\d+)?)(?: (?:tests?|test ?cases?|cases))?(?: passed)?")
"""How many tests passed of how many: ``30/100``, ``3 of 5 tests``."""
WHERE = re.compile(rf"(?<=\w)(?:[ ,]*(?:on (?:pre|sample )?test ?(?:case )?#?\d+|\([^()]*\)| {SHARE.pattern}))+$")
"""Text that judges write after a status: ``on test 3``, ``(SIGSEGV)``. After a pass only ``HARMLESS`` text, a percentage or ``SHARE`` is allowed."""
HARMLESS = re.compile(r"100(\.0+)? ?(%|points?)?|\d+(\.\d+)? ?(ms|s|secs?|seconds?|[kmg]i?b|bytes?)")
"""Text about all points, or about time or memory."""
PERCENT = re.compile(r" *-?\d+(?:[.,]\d+)? *% *")
"""A score in percent."""
NO_POINTS = ("-", "–", "n/a", "N/A")
"""Cells of an attempt that has no points."""
DECIMAL = re.compile(r" *-?(?:\d+,(?:\d\d?|\d{4,})|0,\d{3}|\d{4,},\d{3}) *")
"""A number with a decimal comma; a comma before three digits may instead separate thousands."""

OUTCOME_FIELDS: Mapping[str, str] = data_in("fields.yaml")["outcome"]
"""Field of an attempt's row about its outcome -> description."""
POINTS: Mapping[str, str] = data_in("fields.yaml")["points"]
"""Field about points -> description. Only a named column, or a verdict in JSON lines, can hold it. ``recorded_verdict`` reads shares, [0, 1]."""


def status_of(value: Any, words: Mapping[str, Status] = WORDS) -> Status:
    """Return the status for a word, a number or a bool; ValueError if it is unknown.

    0 and 1 are failed and passed, unless ``words`` has other numbers. ``passed (3 of 5)`` is failed.
    """
    return read_status(value, words)[0]


def read_status(value: Any, words: Mapping[str, Status]) -> tuple[Status, Mapping[str, int]]:
    """Return ``status_of`` a value; and the numbers ``passed`` and ``total`` if the value says that only some tests passed."""
    word = str(value).strip().lower()
    number, plain = number_in(word), " ".join(word.replace("_", " ").replace("-", " ").split())
    for form in (word, number, plain):
        if form in words:
            return words[form], {}
    if number in BITS and not any(number_in(one) for one in words if one[-1:].isdigit()):
        return BITS[number], {}
    if SHARE.fullmatch(plain):
        status, counts = read_where(plain)
        if status:
            return status, counts
    where = WHERE.search(plain)
    status = words.get(plain[: where.start()]) if where else None
    counts: Mapping[str, int] = {}
    if where and status is Status.PASSED:
        status, counts = read_where(where[0])
    if status:
        return status, counts
    add = "name each number of the column, also 0 and 1, in" if number else "add it to"
    is_score = DECIMAL.fullmatch(word) or PERCENT.fullmatch(word)
    score = "for scores: --passed-at X, the lowest score that passes, such as 0.5 for 50%; else " if is_score else ""
    raise ValueError(f"unknown status {str(value)[:60]!r}: {score}{add} `statuses` in the map")


def read_where(where: str) -> tuple[Status | None, Mapping[str, int]]:
    """Return status and numbers of tests for a pass with the restriction ``where``; None if the restriction is not understood."""
    parts = [part for part in re.split(r" *[(),;] *", where.strip()) if part]
    share = next(filter(None, map(SHARE.fullmatch, parts)), None)
    passed, total = map(float, share.groups()) if share else (1.0, 1.0)
    if passed < total:
        whole = passed.is_integer() and total.is_integer()
        return Status.FAILED, {"passed": int(passed), "total": int(total)} if whole else {}
    if any(PERCENT.fullmatch(part) and (graded_in(part) or 0) < 1 for part in parts):
        return Status.FAILED, {}
    known = all(HARMLESS.fullmatch(part) or SHARE.fullmatch(part) for part in parts)
    return Status.PASSED if known and passed == total > 0 else None, {}


@lru_cache(maxsize=4096)
def number_in(word: str) -> str:
    """Return the number in a word as a map names it: ``1`` for ``1.0``; empty for other words."""
    return re.sub(r"\.0+$", "", word) if re.fullmatch(r"-?\d+(\.\d+)?", word) else ""


def are_statuses(values: Iterable[Any], words: Mapping[str, Status] = WORDS) -> bool:
    """Return whether all values except null and empty text are words for a status; not if all are numbers, which may mean anything."""
    given = [value for value in values if value not in (None, "")]
    try:
        known = [status_of(value, words) for value in given]
    except ValueError:
        return False
    return bool(known) and not all(number_in(str(value).strip()) for value in given)


def scored(cells: Mapping[str, Any], passed_at: float | None) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return a row's cells with outcomes (and shares of points) in place of scores; and the scores by field.

    Scores are numbers in ``status`` if ``passed_at`` is given, the lowest score that passes; or ``passed`` of ``total`` points if one of these is not
    an integer.
    """
    passed, total, score = (score_in(cells.get("passed")), score_in(cells.get("total")), graded_in(cells.get("status")))
    if passed is not None and total is not None and not (passed.is_integer() and total.is_integer()):
        left = {name: value for name, value in cells.items() if name != "total"}
        share = {"points": min(1.0, passed / total)} if passed >= 0 and total > 0 and "points" not in cells else {}
        return left | share | {"passed": passed >= total}, {name: cells[name] for name in ("passed", "total")}
    if passed_at is None or score is None:
        return cells, {}
    status = Status.PASSED if score >= passed_at else Status.FAILED
    return {**cells, "status": status.value}, {"status": cells["status"]}


def graded_in(value: Any) -> float | None:
    """Return the number in a column of scores, ``67%`` as 0.67; None for other values."""
    if isinstance(value, str) and PERCENT.fullmatch(value):
        return float(value.replace("%", "").replace(",", ".")) / 100
    return score_in(value)


def score_in(value: Any) -> float | None:
    """Return a value as a finite number; None for other values, including true and false."""
    try:
        number = math.nan if isinstance(value, bool) else float(with_point(value))
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def with_point(value: Any) -> Any:
    """Return a text with a point in place of a decimal comma; other values unchanged."""
    return value.replace(",", ".").strip() if isinstance(value, str) and DECIMAL.fullmatch(value) else value


def with_points_for_commas(cells: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the cells of a row with points in place of decimal commas: in measures, and in numbers of tests beside their total."""
    names = MEASURES_AND_COUNTS if "total" in cells else MEASURES
    if cells.keys().isdisjoint(names):
        return cells
    changed = {name: with_point(cells[name]) for name in names if isinstance(cells.get(name), str)}
    return {**cells, **changed} if changed else cells


UNITS = (
    (re.compile(r"(?<![a-z])(?:ms|msecs?|millis|milliseconds?)\W*$"), "_seconds", 1e-3, "milliseconds"),
    (re.compile(r"(?<![a-z])(?:kb|kib|kilobytes?)\W*$"), "_bytes", 1024, "units of 1,024 bytes"),
    (re.compile(r"(?<![a-z])(?:mb|mib|megabytes?)\W*$"), "_bytes", 1024**2, "units of 1,048,576 bytes"),
)
"""Ending of a column's name, ending of a field's name, factor to the field's unit, and name of the column's unit."""


def unit_of(field: str, column: str) -> tuple[float, str]:
    """Return (factor to the field's unit, name of the unit) of a column by its name (``time_ms``); (1, "") for the field's own unit.

    Templates are not converted: a template converts units itself.
    """
    name = "" if "{" in column else re.sub(r"(?<=[a-z])(?=[A-Z])", "_", column).lower()
    found = ((factor, what) for end, kind, factor, what in UNITS if field.endswith(kind) and end.search(name))
    return next(found, (1, ""))


def in_units(cells: Mapping[str, Any], factors: Mapping[str, float]) -> Mapping[str, Any]:
    """Return the cells of a row with numbers in the units of their fields, given the factor of each field; other cells unchanged."""
    if not factors:
        return cells
    given = {name: score_in(cells[name]) for name in factors if name in cells}
    whole = {name: value * factors[name] for name, value in given.items() if value is not None}
    changed = {name: round(value) if name.endswith("_bytes") else value for name, value in whole.items()}
    return {**cells, **changed} if changed else cells


def scores_in(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the scores of an attempt's row by name, without null, NaN and empty text; ValueError for a score that is not finite."""
    given = {str(name): value for name, value in values.items() if is_given(value)}
    found = {name: score_in(value) for name, value in given.items()}
    for name, value in found.items():
        if value is None:
            raise ValueError(f"score {name}: {str(given[name])[:60]!r} is not a finite number")
    return {name: value for name, value in found.items() if value is not None}


ISO = re.compile(r"\d{4}(-\d\d){0,2}(?![\d./-])|\d{8,14}$")
"""Beginning of a time in ISO 8601; times in other forms cannot be compared."""
MEASURES = ("wall_seconds", "cpu_seconds", "memory_bytes", "limit_seconds", "limit_bytes")
"""Optional numeric fields: a row with an invalid one is still usable."""
MEASURES_AND_COUNTS = (*MEASURES, "passed", "total")


def without_odd(cells: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Return the cells of a row without invalid optional numbers, and the invalid ones; beside a status, counts of tests are optional, too."""
    optional = MEASURES_AND_COUNTS if is_given(cells.get("status")) else MEASURES
    if "created" not in cells and cells.keys().isdisjoint(optional):
        return cells, {}
    odd = {name: cells[name] for name in optional if name in cells and not is_measure(name, cells[name])}
    odd |= {name: cells[name] for name in ("passed", "total") if name in cells and "total" in odd}
    odd |= {"created": cells["created"]} if "created" in cells and not ISO.match(moment(cells["created"])) else {}
    return ({name: value for name, value in cells.items() if name not in odd} if odd else cells), odd


def is_measure(name: str, value: Any) -> bool:
    """Return whether a value is possible for a field: a finite number, a whole one for bytes; for ``passed`` also a word, if allowed."""
    if not is_given(value):
        return True
    number = None if isinstance(value, list | dict) else score_in(value)
    if name == "passed":
        return number is None or number >= 0
    if name in ("total", "limit_bytes", "memory_bytes"):
        return number is not None and 0 <= number < 2**63 and number.is_integer()
    return number is not None and number >= 0


def check_counts(status: Status, passed: int, total: int) -> None:
    """Raise ValueError if an attempt is recorded as passed although tests failed; a total of 0 means unknown."""
    if status is Status.PASSED and passed < total:
        raise ValueError(f"status says passed, but {passed} of {total} tests passed")


def recorded_verdict(
    attempt_id: str, row: Mapping[str, Any], judge: str, words: Mapping[str, Status] = WORDS
) -> Verdict | None:
    """Return the verdict that an attempt's row (values by ``OUTCOME_FIELDS``) records; None if all of them are null, NaN or empty text.

    The outcome is ``status``; else that of ``outcomes``, the outcomes of single tests; else that of ``passed``: a word or bool, or a number of tests,
    all of which passed if it is ``total``; else passed for a share of ``points`` of 1. A row that has another field, such as ``error``, is
    ``unscored``. ``judge`` is used if the row names no judge.

    Raises:
        ValueError: a status is unknown, a value has another type or cannot be, or two values contradict each other.
    """
    given = {name: value for name, value in row.items() if name in OUTCOME_FIELDS or name in POINTS}
    values = {name: value for name, value in given.items() if value not in (None, "") and value == value}
    named = {"judge": judge_name(str(values.pop("judge", judge)))}
    if not values:
        return None
    points = points_in(values.pop("points", None))
    outcomes = [status_of(value, words) for value in words_of(values.pop("outcomes", ()))]
    outcomes = outcomes or [status_for(share) for share in points[0]]
    if points[1] is not None and not outcomes and values.keys().isdisjoint(("status", "passed")):
        values["status"] = status_for(points[1])
    status, counts = status_in(values, outcomes, words)
    if outcomes:
        counts = {"passed": outcomes.count(Status.PASSED), "total": len(outcomes)}
    elif "total" in values:
        counts = {"passed": values["total"]} if status is Status.PASSED else {}
    message = str(values.pop("error", ""))[:500]
    values |= {"error_type": str(values["error_type"])} if "error_type" in values else {}  # or a number, such as an exit code
    fields = {**named, **counts, **values, "status": status, "outcomes": outcomes, "error_message": message}
    verdict = refuse_impossible(from_row(Verdict, {**fields, "attempt_id": attempt_id}))
    check_outcomes(verdict)
    check_counts(verdict.status, verdict.passed, verdict.total)
    return with_given_points(verdict, *points)


def points_in(value: Any, full: float = 1.0) -> tuple[Sequence[float | None], float | None]:
    """Return the shares of points of single tests, and of all together, in a cell: a number, or a list (also as JSON or with commas).

    ``full``: points of a full answer. ValueError if a share is not in [0, 1]; null in a list means unknown.
    """
    if value in (None, *NO_POINTS):
        return (), None
    is_list = isinstance(value, list | tuple) or (isinstance(value, str) and re.search(r"[\[,;|]", value) is not None)
    shares: list[float | None] = []
    for one in words_of(value) if is_list else [value]:
        number = score_in(one)
        if is_given(one) and (number is None or not 0 <= number <= full):
            raise ValueError(f"points {str(one)[:60]!r}: a number from 0 to {full:g} is needed, the points of a full answer")
        shares.append(None if number is None else number / full)
    return (shares, None) if is_list else ((), shares[0])


def status_for(share: float | None) -> Status:
    """Return the outcome that a share of points implies."""
    return Status.UNSCORED if share is None else Status.PASSED if share == 1 else Status.FAILED


def with_given_points(verdict: Verdict, shares: Sequence[float | None], overall: float | None) -> Verdict:
    """Return a verdict with recorded points; ValueError if they have another number of tests, or if a passed attempt has less than full points."""
    if shares and len(shares) != len(verdict.outcomes):
        raise ValueError(
            f"points has {len(shares)} tests, but outcomes has {len(verdict.outcomes)}; give one value for each test"
        )
    outcomes = (*verdict.outcomes, verdict.status) if shares else (verdict.status,)
    for share, outcome in zip((*shares, overall), outcomes, strict=True):
        if outcome is Status.PASSED and share is not None and share < 1:
            raise ValueError(f"status says passed, but points are {share:g} of 1")
    return with_points(verdict, shares or [None] * len(verdict.outcomes), overall)


def check_outcomes(verdict: Verdict) -> None:
    """Raise ValueError if the outcomes of single tests contradict the outcome of all, or their number; a judge may stop at the first failure."""
    found, passed, total = len(verdict.outcomes), verdict.outcomes.count(Status.PASSED), verdict.total
    if not found:
        return
    if found > total or (found == total and verdict.passed != passed):
        raise ValueError(f"{passed} of {found} outcomes are passed, but passed is {verdict.passed} and total {total}")
    if passed == found < total and verdict.status is Status.PASSED:
        raise ValueError(f"total is {total}, but outcomes has {found}: the outcomes of the other tests are missing")
    if passed == total and verdict.status not in (Status.PASSED, Status.UNSCORED):
        raise ValueError(
            f"status says {verdict.status.value}, but all {found} outcomes are passed; if there are more tests, total must say so"
        )


def without_left_out(verdict: Verdict, kept: Sequence[bool]) -> Verdict | None:
    """Return a verdict on all tests of a task as a verdict on the kept tests; a verdict on another number of tests is returned unchanged.

    ``kept`` says for each test of the task whether it is kept; empty if no test was left out. Only the status stays if the number of kept tests that
    passed is unknown; None if the verdict says nothing about the kept tests.
    """
    found, total = verdict.outcomes, max(verdict.total, len(verdict.outcomes))
    if all(kept) or total != len(kept):
        return verdict
    stay, lost = tuple(compress(found, kept)), [*compress(found, map(not_, kept))]
    rest, passed = kept[len(found) :], max(0, verdict.passed - found.count(Status.PASSED))
    status, now = verdict.status, status_over(stay)
    if status_over(lost) not in (None, Status.PASSED):
        if rest and now in (None, Status.PASSED):
            return None
        is_derived = status is status_over(found) or (now is Status.PASSED and status is not Status.UNSCORED)
        status = now if now and is_derived else status
    if not any(kept):
        return None
    changes: dict[str, Any] = {"outcomes": (), "passed": 0, "total": 0}
    if not rest or all(rest) or passed in (0, len(rest)):
        more = 0 if not rest else passed if all(rest) or not passed else rest.count(True)
        changes = {"outcomes": stay, "passed": stay.count(Status.PASSED) + more, "total": kept.count(True)}
    if status is not verdict.status:
        changes |= {"status": status, "error_type": "", "error_message": "", "error_line": None}
    points = [*compress(verdict.points, kept)] if changes["outcomes"] else []
    return with_points(replace(verdict, **changes), points, verdict.overall_points)


def status_in(
    values: dict[str, Any], outcomes: Sequence[Status], words: Mapping[str, Status]
) -> tuple[Status, Mapping[str, int]]:
    """Return the status that values record, and numbers of tests in its words. Removes ``status``, and ``passed`` unless it is a number of tests."""
    given, counts = read_status(values.pop("status"), words) if "status" in values else (None, {})
    passed_status = None
    if "passed" in values and not is_count(values, outcomes, judged=given is not None):
        passed_status, more = read_status(values.pop("passed"), words)
        counts = counts or more
    alone = given is Status.PASSED and "total" not in values and not outcomes
    if alone and number_in(str(values.get("passed")).strip()) == "0":
        raise ValueError("the columns `status` (passed) and `passed` (0) contradict each other")
    if given and passed_status and (given is Status.PASSED) != (passed_status is Status.PASSED):
        raise ValueError(f"the columns `status` ({given.value}) and `passed` ({passed_status.value}) contradict each other")
    found = status_over(outcomes)
    counted = Status.UNSCORED
    if "passed" in values and float(values.get("total", 0)) > 0:
        counted = Status.PASSED if float(values["passed"]) == float(values["total"]) else Status.FAILED
    sure = None if passed_status is Status.PASSED or found in (Status.PASSED, Status.UNSCORED) else found
    return given or sure or passed_status or found or counted, counts


def status_over(outcomes: Sequence[Status]) -> Status | None:
    """Return the outcome of the first failed test; else ``UNSCORED`` if a test is unscored, else ``PASSED``; None without outcomes."""
    rest = [outcome for outcome in outcomes if outcome is not Status.PASSED]
    failed = (outcome for outcome in rest if outcome is not Status.UNSCORED)
    return next(failed, rest[0] if rest else Status.PASSED if outcomes else None)


def is_count(values: Mapping[str, Any], outcomes: Sequence[Status], *, judged: bool) -> bool:
    """Return whether ``passed`` is a number of tests; without the total, 0 and 1 are words."""
    passed = values["passed"]
    if isinstance(passed, bool) or not number_in(str(passed).strip()):
        return False
    if "total" in values:
        return True
    if float(passed) in (0, 1):
        return float(passed) == outcomes.count(Status.PASSED) if outcomes else judged
    if not outcomes and not judged:
        raise ValueError(
            f"passed is {passed}: a number of tests needs their total; without it, rows of the same column with 1 count as passed"
        )
    return True


def words_of(value: Any) -> Sequence[Any]:
    """Return the outcomes of single tests from a list, from an object with a number in each name (``{t1: true, t2: false}``), from JSON of these, or
    from words separated by commas, semicolons, bars or spaces."""
    given = json.loads(value) if isinstance(value, str) and value.lstrip().startswith(("[", '{"')) else value
    if isinstance(given, dict):
        named = {
            int(numbers[0]): one for name, one in given.items() if len(numbers := re.findall("[0-9]{1,6}", str(name))) == 1
        }
        counted = sorted(named) in ([*range(len(given))], [*range(1, len(given) + 1)])
        given = [named[number] for number in sorted(named)] if counted else None
    if isinstance(given, str):
        return re.split(r"\s*[,;|]\s*", given.strip(" ,;|")) if re.search("[,;|]", given) else given.split()
    if not isinstance(given, list | tuple):
        raise ValueError(f"outcomes: {value!r}: a list of words, or words between commas, is needed")
    return [next((one[name] for name in OF_TESTS if name in one), one) if isinstance(one, dict) else one for one in given]


def judge_name(name: Any) -> Any:
    """Return the stored name of a judge: ``recorded:ci`` for ``ci``; an empty name stays empty."""
    known = not isinstance(name, str) or name.startswith(("recorded", "score:")) or not is_recorded(name)
    return name if known else f"recorded:{name}"


def name_attempt(ids: dict[str, str], name: str, attempt_id: str) -> None:
    """Map a file's name of an attempt to the ``attempt_id``; a name of two different attempts maps to none."""
    ids[name] = attempt_id if ids.get(name, attempt_id) == attempt_id else ""


def named_attempt(ids: Mapping[str, str], name: str) -> str | None:
    """Return the ``attempt_id`` for a name (``name_attempt``); None if no earlier row has the name. ValueError if different attempts have it."""
    attempt_id = ids.get(name)
    if attempt_id == "":
        raise ValueError(f"several different attempts in this file have the id {name}; give each its own")
    return attempt_id


def refuse_outcome(outcomes: dict[str, Status], name: str, verdict: Verdict, *, judge: str) -> None:
    """Record the outcome of an attempt that a file names; ValueError for a second outcome, unless the first is unscored.

    ``outcomes``: outcomes of earlier rows by the attempt's name and, unless it is the default ``judge``, the judge.

    Raises:
        ValueError: an earlier row has another outcome by this judge, so that one of the two would be lost.
    """
    if verdict.status is Status.UNSCORED:
        return
    before = outcomes.setdefault(name if verdict.judge == judge else f"{name}\n{verdict.judge}", verdict.status)
    if before is not verdict.status:
        raise ValueError(
            f"the attempt {name} is {verdict.status.value} here, and {before.value} in an earlier row: a row is one attempt; if rows are "
            "outcomes of single tests, put those of an attempt into one row, as a list in the column of `outcomes`"
        )


def is_given(value: Any) -> bool:
    """Return whether a cell has a value: not null, empty text or NaN."""
    return value is not None and value != "" and value == value


def whole(value: Any) -> Any:
    """Return a number such as 1.0, which pandas makes of 1 in a column with gaps, as an integer; other values unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
