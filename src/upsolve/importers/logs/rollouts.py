"""Rollouts of trainers and logs of evaluations: a prompt, an answer and a score become a task, an attempt and a verdict."""

import json
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.known import TASKS_HELP, read_known
from upsolve.importers.rows import Row
from upsolve.importers.source import Option
from upsolve.policy.answers import is_only_code, names_of, program_in
from upsolve.types import Attempt, Status, Task, Verdict, content_id

__all__ = ["ROLLOUT_OPTIONS", "Rollout", "Rollouts", "number_of", "text_of", "time_of"]

ROLLOUT_OPTIONS = (
    Option("passed_at", float, "score from which on an attempt counts as passed (default: 1)"),
    Option("tasks", str, f"{TASKS_HELP}; found by name or prompt"),
    Option("statement", str, "regular expression whose first group is the statement in a prompt (default: the whole prompt)"),
    Option("language", str, "language of the programs (default: python)"),
    Option("author", str, "author of the attempts (default: the model, if the file names it)"),
)


@dataclass(frozen=True, slots=True)
class Rollout:
    """One sampled answer as its file describes it."""

    prompt: str
    """The prompt, as text."""
    answer: str
    """The model's whole answer."""
    score: float | None
    """Its score; None if it has none."""
    reason: str = ""
    """Why it has no score."""
    name: str = ""
    """Name of the task; empty: rollouts with the same statement belong to the same task."""
    known_as: str = ""
    """Its name in ``tasks``; empty: ``name``."""
    author: str = ""
    """Name of the model."""
    created: str = ""
    """Time, ISO 8601."""
    truncated: bool = False
    """True when sampling stopped at the token limit."""
    tokens: int | None = None
    """Length of the answer, tokens; None: that of ``token_ids``, if given."""
    token_ids: Sequence[int] = ()
    """The sampled tokens."""
    logps: Sequence[float] = ()
    """Their log-probabilities, nats."""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """All other columns."""
    about: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Other fields of the task."""


class Rollouts:
    """Builds the records of rollouts; yields each task once."""

    def __init__(
        self,
        source: str,
        *,
        passed_at: float | None = None,
        tasks: str = "",
        statement: str = "",
        language: str = "python",
        author: str = "",
    ) -> None:
        """Configure the records.

        Args:
            source: name of the source, the first part of the tasks' ids.
            passed_at: score from which on an attempt counts as passed; None: 1, with a warning if a score is above it.
            tasks: tasks that rollouts may belong to (``upsolve.importers.known.read_known``).
            statement: regular expression whose first group is the statement in a prompt.
            language: language of the programs.
            author: author of all attempts.

        Raises:
            SourceError: the tasks cannot be read, or the expression is invalid or has no group.
        """
        self.source, self.language, self.author = source, language, author
        self.passed_at, self.is_sure = 1.0 if passed_at is None else passed_at, passed_at is not None
        self.known = read_known(tasks)
        try:
            self.statement = re.compile(statement, re.DOTALL)
        except re.error as error:
            raise SourceError(f"--statement {statement}: is not a regular expression: {error}") from error
        if statement and not self.statement.groups:
            raise SourceError(f"--statement {statement}: needs a group, (...), around the statement")
        self.seen: set[str] = set()

    def records(self, rollout: Rollout) -> Iterator[Row]:
        """Yield the task if it is new, the attempt, and its verdict; the verdict of a rollout without a score is ``UNSCORED``."""
        task = self.task(rollout)
        if task.task_id not in self.seen:
            self.seen.add(task.task_id)
            yield task
        attempt = self.attempt(rollout, task)
        yield attempt
        yield self.verdict(rollout, attempt)

    def task(self, rollout: Rollout) -> Task:
        """Return the known task of a rollout, or one without tests.

        Raises:
            ValueError: the prompt does not contain what ``statement`` describes.
        """
        statement = rollout.prompt
        if self.statement.groups:
            match = self.statement.search(rollout.prompt)
            if match is None:
                raise ValueError(f"--statement {self.statement.pattern} is not found in the prompt")
            statement = str(match[1])
        name = rollout.known_as or rollout.name
        known = self.known and ((name and self.known.named(name)) or self.known.prompted(statement))
        if known:
            return known
        return Task(
            f"{self.source}/{rollout.name or content_id(statement)[:12]}",
            statement,
            language=self.language,
            source=self.source,
            extra=as_json(rollout.about),
        )

    def attempt(self, rollout: Rollout, task: Task) -> Attempt:
        """Return the attempt: the program of the answer."""
        language = task.language or self.language
        code = program_in(rollout.answer, language, names_of(task), prompt=rollout.prompt)
        ids, logps = tuple(rollout.token_ids), tuple(rollout.logps)
        only_code = is_only_code(rollout.answer, code)
        rest = {"score": rollout.score, **rollout.extra}
        if rollout.prompt != task.prompt:
            rest["prompt"] = rollout.prompt
        if logps and len(logps) != len(ids):
            rest["logps"] = logps
        return Attempt(
            task.task_id,
            code,
            language,
            self.author or rollout.author,
            rollout.created,
            behavior_logp=sum(logps) if logps and only_code else None,  # that of an answer with other text is not the program's
            tokens=rollout.tokens or len(ids) or None,
            truncated=rollout.truncated,
            token_ids=ids or None,
            token_logps=logps if logps and len(logps) == len(ids) else None,
            extra=as_json(rest),
            answer="" if only_code else rollout.answer,
        )

    def verdict(self, rollout: Rollout, attempt: Attempt) -> Verdict:
        """Return the verdict: ``PASSED`` if the score is at least ``passed_at``, else ``FAILED``; ``UNSCORED`` without a score."""
        judge = f"recorded:{self.source}"
        if rollout.score is None or math.isnan(rollout.score):
            reason = rollout.reason or "no score is recorded"
            return Verdict(attempt.attempt_id, Status.UNSCORED, judge=judge, error_message=reason[:500])
        if rollout.score > 1 and not self.is_sure:
            self.is_sure = True
            warnings.warn(
                f"{self.source}: scores above 1 occur, such as {rollout.score:g}, and each from 1 on counts as passed; if only the "
                "highest score is a pass, import into a new archive with --passed-at SCORE",
                stacklevel=2,
            )
        status = Status.PASSED if rollout.score >= self.passed_at else Status.FAILED
        return Verdict(attempt.attempt_id, status, judge=judge)


def as_json(values: Mapping[str, Any]) -> str:
    """Return an object as JSON, without empty values; empty if none remains. NaN becomes null, since JSON has none."""
    kept = {key: plain(value) for key, value in values.items() if not (value is None or value in ("", [], {}, ()))}
    return json.dumps(kept, default=str) if kept else ""


def plain(value: Any) -> Any:
    """Replace numbers that JSON cannot express, everywhere in a value: NaN by None, infinity by text."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def number_of(value: Any) -> float | None:
    """Return a score as a number; None for null and NaN.

    Raises:
        ValueError: it is not a number.
    """
    if value is None:
        return None
    if not isinstance(value, bool | int | float):
        raise ValueError(f"the score {str(value)[:60]!r} is not a number")
    return None if math.isnan(value) else float(value)


def text_of(value: Any) -> str:
    """Return the text of a message's content or of a prompt: text, parts of a content, or messages, joined by empty lines.

    Raises:
        ValueError: it has none of these forms.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n\n".join(filter(None, map(text_of, value)))
    if isinstance(value, dict) and ("content" in value or "text" in value):
        return text_of(value.get("content", value.get("text")) or "")
    if isinstance(value, dict) and value.get("type"):
        return ""  # an image, a tool call
    raise ValueError(f"{str(value)[:60]!r} is neither text nor messages")


def time_of(seconds: Any) -> str:
    """Return a Unix time as ISO 8601; empty for null."""
    return "" if seconds is None else datetime.fromtimestamp(float(seconds), UTC).isoformat()
