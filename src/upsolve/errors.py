"""The error tree.

    UpsolveError                expected errors; the command line prints them without a traceback
    |-- ConfigError             a recipe or an option is wrong: names the key and the fix
    |-- ArchiveError            the store cannot be read or written: names the file
    |   `-- SchemaError         the store has a schema version that this version of upsolve does not know
    |-- SourceError             an import cannot start: wrong path or layout (a bad row is set aside, not raised)
    |-- JudgeError              the judge broke: the attempt is unscored, never failed
    |   `-- IsolationError      a required layer of the sandbox is missing on this machine
    |-- MissingExtraError       an optional dependency is not installed: names the extra (also an ImportError)
    |-- ModelError              a model or tokenizer cannot be loaded or used
    `-- TrainingError           a run cannot continue
        `-- CollapseError       the policy collapsed: names the monitor, the step and the last good checkpoint

A wrong argument of a library function is a plain ValueError.
"""

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
]


class UpsolveError(Exception):
    """Base class of all expected errors."""


class ConfigError(UpsolveError):
    """A recipe or an option is wrong."""


class ArchiveError(UpsolveError):
    """The archive cannot be read or written."""


class SchemaError(ArchiveError):
    """The archive has an unknown schema version."""


class SourceError(UpsolveError):
    """An import cannot start."""


class JudgeError(UpsolveError):
    """The judge broke; the attempt stays unscored."""


class IsolationError(JudgeError):
    """A required sandbox layer is missing."""


class MissingExtraError(UpsolveError, ImportError):
    """An optional dependency is not installed."""


class ModelError(UpsolveError):
    """A model cannot be loaded or used."""


class TrainingError(UpsolveError):
    """A training run cannot continue."""


class CollapseError(TrainingError):
    """The policy collapsed; with ``ahead``, a signal says that it is about to, and its weights are still good."""

    def __init__(self, message: str, *, ahead: bool = False) -> None:
        super().__init__(message)
        self.ahead = ahead
