"""The error tree; a wrong argument of a library function is a plain ValueError.

A message has one to three lines; it names the file or key that is wrong, and what to do. ``one_line`` and ``several`` fold longer ones.
"""

from collections.abc import Sequence

__all__ = [
    "ArchiveError",
    "CollapseError",
    "ConfigError",
    "IsolationError",
    "JudgeError",
    "MissingExtraError",
    "ModelError",
    "SchemaError",
    "SourceError",
    "TrainingError",
    "UpsolveError",
    "counted",
    "one_line",
    "several",
]


SHOWN = 2
"""Largest number of problems that one message names."""


class UpsolveError(Exception):
    """Base class of all expected errors; the command line prints them without a traceback."""


class ConfigError(UpsolveError):
    """A recipe or an option is wrong: names the key and the fix."""


class ArchiveError(UpsolveError):
    """The archive cannot be read or written: names the file."""


class SchemaError(ArchiveError):
    """The archive has a schema version that this version of upsolve does not know."""


class SourceError(UpsolveError):
    """An import cannot start: wrong path or layout (a bad row is rejected, not raised)."""


class JudgeError(UpsolveError):
    """The judge broke: the attempt is unscored, never failed."""


class IsolationError(JudgeError):
    """A required layer of the sandbox is missing on this machine."""


class MissingExtraError(UpsolveError, ImportError):
    """An optional dependency is not installed: names the extra."""


class ModelError(UpsolveError):
    """A model or tokenizer cannot be loaded or used."""


class TrainingError(UpsolveError):
    """A training run cannot continue."""


class CollapseError(TrainingError):
    """The policy collapsed: names the monitor, the step and the last good checkpoint. With ``ahead`` the collapse is only predicted, and the weights
    are still good."""

    def __init__(self, message: str, *, ahead: bool = False) -> None:
        super().__init__(message)
        self.ahead = ahead


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, such as ``1 step`` and ``2,000 steps``."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def one_line(error: object) -> str:
    """Return the message of an error in one line; for a YAML error, its line, column and problem."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is not None and problem:
        return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"
    return " ".join(str(error).split())


def several(problems: Sequence[str]) -> str:
    """Return a line for each of the first ``SHOWN`` problems, then the number of further ones: three lines at most."""
    more = len(problems) - SHOWN
    return "\n".join([*problems[:SHOWN], *([f"and {more} more; correct these first"] if more > 0 else [])])
