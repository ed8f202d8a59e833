"""What rows refer to: attempts by the names that their file gives them, and tasks of other files and imports."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

__all__ = ["language_of_task", "languages_from", "name_attempt", "named_attempt", "whole"]

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


def whole(value: Any) -> Any:
    """Return a number such as 1.0, which pandas makes of 1 in a column with gaps, as an integer; others as they are."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
