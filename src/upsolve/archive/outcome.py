"""Recorded outcomes in common notations -> verdicts."""

from collections.abc import Mapping
from typing import Any

from upsolve.archive.preference import is_recorded
from upsolve.records import from_row
from upsolve.types import Status, Verdict

__all__ = ["OUTCOME_FIELDS", "WORDS", "judge_name", "recorded_verdict", "status_of"]

BY_STATUS: Mapping[Status, str] = {
    Status.PASSED: "passed, pass, ac, accepted, ok, success, succeeded, successful, correct, right, solved, true, yes, 1",
    Status.FAILED: "failed, fail, failure, wa, wrong answer, wrong, incorrect, pe, presentation error, rejected, partially correct, "
    "false, no, 0",
    Status.TIMEOUT: "timeout, timed out, tle, time limit exceeded, time limit, to",
    Status.MEMORY_LIMIT: "memory limit, mle, memory limit exceeded, oom, out of memory",
    Status.OUTPUT_LIMIT: "output limit, ole, output limit exceeded",
    Status.RUNTIME_ERROR: "runtime error, re, rte, error, exception, crashed, crash",
    Status.COMPILE_ERROR: "compile error, ce, compilation error, compiler error, syntax error, build failed",
    Status.UNSCORED: "unscored, ie, internal error, judge error, system error, se, skipped, pending, waiting, queued, unknown, flaky",
}
WORDS: Mapping[str, Status] = {word: status for status, words in BY_STATUS.items() for word in words.split(", ")}
"""Status as written by other judges, in lower case with spaces -> ours."""

OUTCOME_FIELDS = (
    "status",
    "passed",
    "total",
    "outcomes",
    "error",
    "error_type",
    "wall_seconds",
    "cpu_seconds",
    "memory_bytes",
    "judge",
)
"""Fields of an attempt's row about its outcome; ``error`` is the message."""


def status_of(value: Any, words: Mapping[str, Status] = WORDS) -> Status:
    """Return the status for a word, a number or a bool; ValueError if it is unknown."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    word = str(value).strip().lower()
    for spelled in (word, word.replace("_", " ").replace("-", " ")):
        if spelled in words:
            return words[spelled]
    raise ValueError(f"unknown status {str(value)[:60]!r}: add it to `statuses` in the map")


def recorded_verdict(
    attempt_id: str, row: Mapping[str, Any], judge: str, words: Mapping[str, Status] = WORDS
) -> Verdict | None:
    """Return the verdict that an attempt's row records; None where it has neither ``status`` nor ``outcomes``.

    Args:
        attempt_id: the attempt.
        row: values by the names of ``OUTCOME_FIELDS``; null and empty text mean that nothing is recorded.
        judge: name of the judge when the row names none.
        words: word of a status -> status.

    Raises:
        ValueError: a status is unknown, or a value has another type.
    """
    values = {name: row[name] for name in OUTCOME_FIELDS if row.get(name) not in (None, "")}
    outcomes = [status_of(value, words) for value in values.pop("outcomes", ())]
    if "status" in values:
        status = status_of(values.pop("status"), words)
    elif outcomes:
        status = next((outcome for outcome in outcomes if outcome is not Status.PASSED), Status.PASSED)
    else:
        return None
    counts = {"passed": outcomes.count(Status.PASSED), "total": len(outcomes)} if outcomes else {}
    message = str(values.pop("error", ""))[:500]
    named = {"judge": judge_name(values.pop("judge", judge))}
    fields = {**named, **counts, **values, "status": status, "outcomes": outcomes, "error_message": message}
    return from_row(Verdict, {**fields, "attempt_id": attempt_id})


def judge_name(name: Any) -> Any:
    """Return the name of a judge as it is stored: ``recorded:ci`` for ``ci``, since other names are those of upsolve's own verdicts.

    A value that is no text is returned as it is.
    """
    known = not isinstance(name, str) or name.startswith("recorded") or not is_recorded(name)
    return name if known else f"recorded:{name}"
