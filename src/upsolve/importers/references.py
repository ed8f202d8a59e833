"""What rows refer to: attempts by the names that their file gives them, and tasks of other files and imports."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

from upsolve.types import Status, Verdict

__all__ = ["is_given", "language_of_task", "languages_from", "name_attempt", "named_attempt", "refuse_outcome", "whole"]

languages: list[Callable[[str], str]] = []
"""Tells the language of a task that another file or import has (``languages_from``)."""


@contextmanager
def languages_from(language_of: Callable[[str], str]) -> Generator[None]:
    """Let readers ask for the languages of tasks that another file or import has."""
    languages.append(language_of)
    try:
        yield
    finally:
        languages.pop()


def language_of_task(task_id: str) -> str:
    """Return the language of a task that another file or import has; empty if it is not known, or may be any."""
    return languages[-1](task_id) if languages else ""


def name_attempt(ids: dict[str, str], name: str, attempt_id: str) -> None:
    """Note the ``attempt_id`` of an attempt that a file calls by a name; of a name that two different attempts have, none."""
    ids[name] = attempt_id if ids.get(name, attempt_id) == attempt_id else ""


def named_attempt(ids: Mapping[str, str], name: str) -> str | None:
    """Return the ``attempt_id`` for a name (``name_attempt``); None if no earlier row has it.

    Raises:
        ValueError: different attempts have it.
    """
    attempt_id = ids.get(name)
    if attempt_id == "":
        raise ValueError(f"the id {name} is that of several different attempts in this file: give each its own")
    return attempt_id


def refuse_outcome(outcomes: dict[str, Status], name: str, verdict: Verdict, *, judge: str) -> None:
    """Note the outcome of an attempt that a file calls by a name; one that is unscored may get another later.

    Args:
        outcomes: those of earlier rows, by the name and, if it is not ``judge``, the judge.
        name: the attempt's name.
        verdict: its outcome.
        judge: the judge of rows that name none.

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
    """Return whether a cell has a value: neither null, empty text nor NaN."""
    return value is not None and value != "" and value == value


def whole(value: Any) -> Any:
    """Return a number such as 1.0, which pandas makes of 1 in a column with gaps, as an integer; others as they are."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
