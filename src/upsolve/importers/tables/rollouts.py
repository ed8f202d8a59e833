"""Rollouts: scored answers of a model, at tasks that ``--tasks`` may name. Rows become a task, an attempt and a verdict."""

import math
import re
import warnings
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upsolve.archive.store import read_tasks
from upsolve.errors import SourceError
from upsolve.importers.outcome import WORDS
from upsolve.importers.rows import Rows, columns_in, everywhere, halves, text_of
from upsolve.importers.source import Option
from upsolve.importers.tables import OF_TASK, SPANS, hash_of
from upsolve.importers.tables.columns import says_opposite, values_of
from upsolve.importers.tables.plans import Map
from upsolve.importers.tables.reader import Reader
from upsolve.languages.names import is_language, language_in, no_language
from upsolve.policy.answers import is_only_code, names_of, program_in
from upsolve.policy.prompt import messages
from upsolve.types import Task

__all__ = [
    "REWARD",
    "ROLLOUT_OPTIONS",
    "TASKS_HELP",
    "KnownTasks",
    "Rollouts",
    "known_tasks",
    "names_of_rewards",
    "number_of",
    "read_known",
    "rollout",
    "rollouts_in",
    "rollouts_of",
    "score_columns",
]

TASKS_HELP = "tasks of the attempts: an archive, or source:path, such as humaneval:HumanEval.jsonl.gz"
REWARD = Option("reward", str, "columns whose sum is the score (default: that of the map, or the only one of real numbers)")
ROLLOUT_OPTIONS = (
    Option("passed_at", float, "lowest score that counts as passed (default: 1)"),
    Option("tasks", str, f"{TASKS_HELP}; found by name or prompt"),
    Option("statement", str, "regular expression whose first group is the statement in a prompt (default: the whole prompt)"),
    Option("language", str, "language of the programs (default: that of the fences of an answer, or python)"),
    Option("author", str, "author of the attempts (default: the model, if the file names it)"),
)
FIELDS = (
    *("prompt", "answer", "status", "error", "task_id", "known_as", "author", "created"),
    *("tokens", "truncated", "token_ids", "token_logps"),
)
"""Names of the arguments that ``rollout`` takes."""


@dataclass(frozen=True, slots=True)
class KnownTasks:
    """Tasks by the names that other tools give them."""

    tasks: tuple[Task, ...]
    """All tasks, in their order."""
    by_name: dict[str, list[Task]]
    """Lower-case id, and its endings after every ``/`` -> task: ``HumanEval/0`` is also found as ``humaneval/0`` and ``0``."""
    by_prompt: dict[str, Task]
    """Prompt -> task: the prompt alone, and with examples as upsolve shows it to models; surrounding white space is removed."""

    def named(self, name: str) -> Task | None:
        """Return the task that a name denotes; None if there is none. ValueError, with two of the tasks, if several have this name."""
        found = self.by_name.get(name.lower(), [])
        exact = [task for task in found if task.task_id.lower() == name.lower()]
        if exact:
            return exact[0]
        if len(found) > 1:
            raise ValueError(
                f"{name} may be the task {found[0].task_id} or {found[1].task_id}; name only one of the two sets in --tasks"
            )
        return found[0] if found else None

    def prompted(self, prompt: str) -> Task | None:
        """Return the first task with a prompt; None if there is none."""
        return self.by_prompt.get(prompt.strip())


def known_tasks(tasks: Iterable[Task]) -> KnownTasks:
    """Index tasks by the names and prompts that other tools use."""
    by_name: dict[str, list[Task]] = {}
    by_prompt: dict[str, Task] = {}
    every = tuple(tasks)
    for task in every:
        words = task.task_id.lower().split("/")
        for name in ("/".join(words[start:]) for start in range(len(words))):
            by_name.setdefault(name, []).append(task)
        for prompt in (task.prompt, messages(task)[0]["content"]):
            by_prompt.setdefault(prompt.strip(), task)
    return KnownTasks(every, by_name, by_prompt)


def read_known(place: str) -> KnownTasks | None:
    """Return the tasks of an archive or of ``source:path``; None for an empty text. SourceError if the text is neither, or cannot be read."""
    return known_tasks(read_tasks(place, f"--tasks {place}")) if place else None


@dataclass
class Rollouts(Reader):
    """Builds the records of rollouts: answers with a score in the column of ``status`` or in ``rewards``. Without a score: ``UNSCORED``."""

    threshold: float | None = None
    """Lowest score that passes; None: 1, with a warning if a score is larger."""
    known: KnownTasks | None = None
    """Tasks that names and prompts may denote."""
    statement: re.Pattern[str] = re.compile("")
    """Expression whose first group is the statement in a prompt; without a group: the whole prompt."""
    author: str = ""
    """Author of all attempts; empty: that of the row."""
    rewards: Sequence[str] = ()
    """Columns whose sum is the score."""
    found: Task | None = None
    """Known task of the row that is being read."""
    shown: str = ""
    """Prompt of the row that is being read."""

    def cells(self, row: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the values of a row by field, with messages as text and the score's outcome; and the values of other columns.

        Raises:
            ValueError: the answer or the prompt is missing or not text, the score is not a number, or the prompt has no statement.
        """
        cells, rest = super().cells(row)
        rest = filled(rest) | ({OF_TASK: filled(rest[OF_TASK])} if OF_TASK in rest else {})
        cells = {name: value for name, value in cells.items() if value != []} | self.texts(row)
        score, self.found = self.score(row, cells), None
        self.built = {} if self.known else self.built
        if score is None:
            cells.setdefault("error", "no score is recorded")
        else:
            cells["status"] = "passed" if score >= (1.0 if self.threshold is None else self.threshold) else "failed"
        rest = {**({} if score is None else {"score": plain(score)}), **rest}
        cells |= {"author": self.author} if self.author else {}
        statement = self.shown = str(cells.get("prompt", ""))
        if self.statement.groups:
            if (match := self.statement.search(self.shown)) is None:
                raise ValueError(f"--statement {self.statement.pattern} is not found in the prompt")
            cells["prompt"] = statement = str(match[1])
        name = str(cells.pop("known_as", "") or cells.get("task_id", ""))
        if self.known and (known := (name and self.known.named(name)) or self.known.prompted(statement)):
            self.found = known
            rest.pop(OF_TASK, None)
        if self.shown != (self.found.prompt if self.found else statement):
            rest["prompt"] = self.shown
        return cells, rest

    def texts(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return prompt and answer as texts. In a list of messages, the prompt ends with the user's last message; the answer follows."""
        prompt, answer = (self.value(row, self.columns.get(name, "")) for name in ("prompt", "answer"))
        if answer is None and "answer" in self.columns:
            raise ValueError(f"field {self.columns['answer']!r} is missing or null")
        if isinstance(answer, list):
            asked, answer = halves(answer)
            prompt = prompt or asked
        if not prompt and "prompt" in self.columns:
            raise ValueError(f"neither a prompt ({self.columns['prompt']!r}) nor messages that begin with one")
        given = {"prompt": prompt, "answer": answer}
        return {name: text_of(value) for name, value in given.items() if name in self.columns}

    def score(self, row: Mapping[str, Any], cells: dict[str, Any]) -> float | None:
        """Return the score of a row, and remove it from its cells; None without a score. Warns of the first score above 1 without a threshold."""
        given = [cells.pop("status", None)] if not self.rewards else [self.value(row, name) for name in self.rewards]
        numbers = [number for value in given if (number := number_of(value)) is not None]
        score = sum(numbers) if numbers else None
        if score is not None and score > 1 and self.threshold is None:
            self.threshold = 1.0
            warnings.warn(
                f"{self.name}: scores above 1 occur, such as {score:g}, and each from 1 on counts as passed; if only the "
                "highest score is a pass, import into a new archive with --passed-at SCORE",
                stacklevel=2,
            )
        return score

    def refuse_other(self, task: Task, given: Container[str], extra: str, rest: dict[str, Any]) -> None:  # noqa: ARG002
        """Store the prompt with the attempt if the task has another prompt in an earlier row."""
        if self.tasks[task.task_id][0][SPANS["prompt"]] != hash_of(task, "prompt"):
            rest.setdefault("prompt", self.shown)

    def task(self, cells: Mapping[str, Any]) -> Task:
        """Return the known task of a row, or that of its name or prompt."""
        return self.found or super().task(cells)

    def language(self, cells: Mapping[str, Any]) -> str:
        """Return the language of a row; the language of its known task takes precedence."""
        return (self.found.language if self.found else "") or super().language(cells)

    def with_program(self, fields: Mapping[str, Any], cells: Mapping[str, Any], task: Task) -> dict[str, Any]:
        """Return the fields of an attempt with the program in its answer; the answer is left out if it has no other text."""
        answer = str(fields.get("answer", fields.get("code")))
        if "code" not in fields:
            fields = {**fields, "code": program_in(answer, fields["language"], names_of(task), prompt=self.shown)}
        made = super().with_program(fields, cells, task)
        return {**made, "answer": ""} if is_only_code(answer, str(made["code"])) else made


def rollouts_of(
    source: str,
    columns: Mapping[str, str] | None = None,
    *,
    passed_at: float | None = None,
    tasks: str = "",
    statement: str = "",
    language: str = "",
    author: str = "",
    reward: Sequence[str] = (),
) -> Rollouts:
    """Return the reader of a source's rollouts; ``columns`` None: the columns of ``rollout``. Other arguments: ``ROLLOUT_OPTIONS``.

    Raises:
        SourceError: the tasks cannot be read, the expression is invalid or has no group, or there is no such language.
    """
    try:
        pattern = re.compile(statement, re.DOTALL)
    except re.error as error:
        raise SourceError(f"--statement {statement}: is not a regular expression: {error}") from error
    if statement and not pattern.groups:
        raise SourceError(f"--statement {statement}: needs a group, (...), around the statement")
    if language and not is_language(language):
        raise SourceError(no_language("--language", language))
    columns = {name: f"@{name}" for name in FIELDS} if columns is None else columns
    facts: dict[str, Any] = {"known": read_known(tasks), "statement": pattern, "author": author, "rewards": reward}
    return Rollouts(columns, source, WORDS, constant=language_in(language), threshold=passed_at, **facts)


def rollout(extra: Mapping[str, Any], about: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a row of ``rollouts_of`` a source: fields by name, other values of the attempt (``extra``) and of the task (``about``)."""
    return {**extra, OF_TASK: {**about}, **{f"@{name}": value for name, value in fields.items()}}


def rollouts_in(path: Path, plan: Map, mapped: Mapping[str, str], rows: Rows) -> Reader | None:
    """Return the reader of rollouts; None for other rows. SourceError if no column is the score, or the named column is missing."""
    if plan.rollouts is None:
        return None
    options: dict[str, Any] = {"passed_at": plan.passed_at, **plan.rollouts}
    rewards = names_of_rewards(options.pop("reward", ""))
    if rewards or "status" not in mapped:
        rewards = reward_columns(path, rows, rewards, mapped.values())
    return rollouts_of(plan.name or path.name.partition(".")[0], mapped, **options, reward=rewards)


def score_columns(path: Path, rows: Rows, option: str, *, may_lack: bool) -> dict[str, str]:
    """Return column -> name of each score of ``--score``; SourceError if a table lacks the column, unless some rows may lack it."""
    pairs = (part.strip().partition("=") for part in option.split(",") if part.strip())
    scores = {column.strip(): name.strip() or column.strip() for column, _, name in pairs}
    found = columns_in(rows)
    missing = [column for column in scores if column not in found]
    if found and missing and not may_lack:
        raise SourceError(f"{path}: no column {missing[0]} for --score; its columns are {', '.join(found)}")
    return scores


def names_of_rewards(text: str) -> list[str]:
    """Return the names between the commas of ``--reward``."""
    return [name.strip() for name in text.split(",") if name.strip()]


def reward_columns(path: Path, rows: Rows, wanted: Sequence[str], taken: Iterable[str]) -> Sequence[str]:
    """Return the columns of the score: the named ones, or else the only column of real numbers, besides the advantage, in which more is better by its
    name.

    Raises:
        SourceError: a named column is missing or, without names, the column of the score is not clear.
    """
    found = columns_in(rows)
    free = [name for name in found if name not in {*taken, "advantage"}]
    reals = [name for name in free if any(isinstance(value, float) for value in values_of(rows, name))]
    if missing := [name for name in wanted if name not in found]:
        raise SourceError(f"{path}: has no column {missing[0]}; its columns are {', '.join(found)}")
    if found and not wanted and (len(reals) != 1 or says_opposite(reals[0])):
        raise SourceError(f"{path}: --reward must name the columns of the score, among {', '.join(reals or found)}")
    return wanted or reals


def filled(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are not empty, as JSON can express them (``plain``)."""
    return {key: plain(value) for key, value in values.items() if not (value is None or value in ("", [], {}, ()))}


def plain(value: Any) -> Any:
    """Replace numbers that JSON cannot express, everywhere in a value: NaN by None, infinity by text."""
    odd = {"nan": None, "inf": "inf", "-inf": "-inf"}
    return everywhere(value, lambda one: odd.get(str(one), one) if isinstance(one, float) else one)


def number_of(value: Any) -> float | None:
    """Return a score as a number; None for null, empty text and NaN; ValueError for other values."""
    try:
        number = math.nan if value in (None, "") else float(value)
    except (TypeError, ValueError):
        raise ValueError(f"the score {str(value)[:60]!r} is not a number") from None
    return None if math.isnan(number) else number
