"""Recorded outcomes in common notations -> verdicts."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from upsolve.archive.preference import is_recorded
from upsolve.records import from_row, refuse_impossible
from upsolve.types import Status, Verdict

__all__ = ["OUTCOME_FIELDS", "WORDS", "are_statuses", "judge_name", "recorded_verdict", "status_of", "words_of"]

BY_STATUS: Mapping[Status, str] = {
    Status.PASSED: "passed, pass, ac, accepted, ok, success, succeeded, successful, correct, right, solved, true, yes, 1",
    Status.FAILED: "failed, fail, failure, wa, wrong answer, wrong, incorrect, pe, presentation error, rejected, partially correct, "
    "partial, challenged, hacked, false, no, 0",
    Status.TIMEOUT: "timeout, timed out, tle, time limit exceeded, time limit, idleness limit exceeded, to",
    Status.MEMORY_LIMIT: "memory limit, mle, memory limit exceeded, oom, out of memory",
    Status.OUTPUT_LIMIT: "output limit, ole, output limit exceeded",
    Status.RUNTIME_ERROR: "runtime error, re, rte, error, exception, crashed, crash",
    Status.COMPILE_ERROR: "compile error, ce, compilation error, compiler error, syntax error, build failed",
    Status.UNSCORED: "unscored, ie, internal error, judge error, system error, se, skipped, pending, waiting, queued, unknown, flaky",
}
WORDS: Mapping[str, Status] = {word: status for status, words in BY_STATUS.items() for word in words.split(", ")}
"""Status as written by other judges, in lower case with spaces -> ours."""
WHERE = re.compile(r"(?<=\w)[ ,]*(on (pre|sample )?test ?(case )?#?\d+|\([^()]*\))$")
"""What judges write after a status: ``on test 3``, ``(SIGSEGV)``."""

OUTCOME_FIELDS: Mapping[str, str] = {
    "status": "outcome: AC, Wrong Answer, passed, 1, true, ...",
    "passed": "whether it passed, or number of tests that passed",
    "total": "number of tests",
    "outcomes": "outcomes of single tests: a list, or words between commas",
    "error": "error message",
    "error_type": "name of the error, such as IndexError",
    "wall_seconds": "time on the clock, seconds",
    "cpu_seconds": "processor time, seconds",
    "memory_bytes": "peak memory, bytes",
    "judge": "name of the judge",
}
"""Field of an attempt's row about its outcome -> what it is."""


def status_of(value: Any, words: Mapping[str, Status] = WORDS) -> Status:
    """Return the status for a word, a number or a bool; ValueError if it is unknown."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    word = str(value).strip().lower()
    if word in words:
        return words[word]
    plain = word.replace("_", " ").replace("-", " ")
    for spelled in (plain, WHERE.sub("", plain)):
        if spelled in words:
            return words[spelled]
    raise ValueError(f"unknown status {str(value)[:60]!r}: add it to `statuses` in the map")


def are_statuses(values: Iterable[Any], words: Mapping[str, Status] = WORDS) -> bool:
    """Return whether all values but null and empty text are words for a status, and not all are numbers, which may be anything."""
    given = [value for value in values if value not in (None, "")]
    try:
        known = [status_of(value, words) for value in given]
    except ValueError:
        return False
    return bool(known) and not all(re.fullmatch(r"[\d.]+", str(value)) for value in given)


def recorded_verdict(
    attempt_id: str, row: Mapping[str, Any], judge: str, words: Mapping[str, Status] = WORDS
) -> Verdict | None:
    """Return the verdict that an attempt's row records; None where it records nothing.

    The outcome is ``status``; else that of ``outcomes``, the outcomes of single tests; else that of ``passed``: a word or bool, or a number of
    tests, all of which passed if it is ``total``. A row that has another field, such as ``error``, is ``unscored``.

    Args:
        attempt_id: the attempt.
        row: values by the names of ``OUTCOME_FIELDS``; null and empty text mean that nothing is recorded.
        judge: name of the judge when the row names none.
        words: word of a status -> status.

    Raises:
        ValueError: a status is unknown, a value has another type or cannot be, or two values contradict each other.
    """
    values = {name: value for name, value in row.items() if name in OUTCOME_FIELDS and value not in (None, "")}
    named = {"judge": judge_name(values.pop("judge", judge))}
    if not values:
        return None
    outcomes = [status_of(value, words) for value in words_of(values.pop("outcomes", ()))]
    status = status_in(values, outcomes, words)
    counts = {"passed": outcomes.count(Status.PASSED), "total": len(outcomes)} if outcomes else {}
    message = str(values.pop("error", ""))[:500]
    values |= {"error_type": str(values["error_type"])} if "error_type" in values else {}  # or a number, such as an exit code
    fields = {**named, **counts, **values, "status": status, "outcomes": outcomes, "error_message": message}
    verdict = refuse_impossible(from_row(Verdict, {**fields, "attempt_id": attempt_id}))
    if verdict.status is Status.PASSED and verdict.passed < verdict.total and "passed" in values:
        raise ValueError(f"status says passed, but {verdict.passed} of {verdict.total} tests passed")
    return verdict


def status_in(values: dict[str, Any], outcomes: Sequence[Status], words: Mapping[str, Status]) -> Status:
    """Return the status that values record, and remove ``status`` from them, and ``passed`` where it is no number of tests."""
    given = status_of(values.pop("status"), words) if "status" in values else None
    told = None
    if "passed" in values and not is_count(values["passed"], counted=given is not None or outcomes or "total" in values):
        told = status_of(values.pop("passed"), words)
    if given and told and (given is Status.PASSED) != (told is Status.PASSED):
        raise ValueError(f"status says {given.value}, passed says {told.value}")
    if given or told:
        return given or told or Status.UNSCORED
    if outcomes:
        return next((outcome for outcome in outcomes if outcome is not Status.PASSED), Status.PASSED)
    if "passed" in values and float(values.get("total", 0)) > 0:
        return Status.PASSED if float(values["passed"]) == float(values["total"]) else Status.FAILED
    return Status.UNSCORED


def is_count(value: Any, *, counted: object) -> bool:
    """Return whether ``passed`` is a number of tests; without the number of all, 0 and 1 are words.

    Raises:
        ValueError: it is another number, and the number of all tests is not known.
    """
    if isinstance(value, bool) or not str(value).replace(".", "", 1).strip().isdigit():
        return False
    if not counted and float(value) not in (0, 1):
        raise ValueError(f"passed is {value}: a number of tests needs their total")
    return bool(counted)


def words_of(value: Any) -> Sequence[Any]:
    """Return the outcomes of single tests: a list, such a list in JSON, or words between commas, semicolons or bars, or else spaces."""
    if not isinstance(value, str | list | tuple):
        raise ValueError(f"outcomes: {value!r}: a list of words, or words between commas, is needed")
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return json.loads(value)
    return re.split(r"\s*[,;|]\s*", value.strip(" ,;|")) if re.search("[,;|]", value) else value.split()


def judge_name(name: Any) -> Any:
    """Return the name of a judge as it is stored: ``recorded:ci`` for ``ci``, since other names are those of upsolve's own verdicts.

    A value that is no text is returned as it is.
    """
    known = not isinstance(name, str) or name.startswith("recorded") or not is_recorded(name)
    return name if known else f"recorded:{name}"
