"""Rollouts: a prompt, an answer and a score become a task, an attempt and a verdict. Importers of the files that trainers write.

OpenRLHF  JSON lines of ``batch_inference``: input, output and, from a reward model, reward; or pairs (prompt, chosen, rejected, as text
          or messages, with a score of each if there is one), which are two attempts; ``chosen`` in ``extra`` says which
TRL       ``completions/completions_00010.parquet`` of the GRPO and RLOO trainers (``log_completions=True``): step, prompt, completion, a
          column for each reward function, columns of ``log_extra``, advantage
verl      ``<step>.jsonl`` in ``trainer.rollout_data_dir`` or ``validation_data_dir``: input, output, gts, score, step, and the reward
          function's other values
"""

import json
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from upsolve.archive.store import read_tasks
from upsolve.errors import SourceError
from upsolve.importers.formats import Kind, data_files, json_lines, rows_of_file
from upsolve.importers.rows import BadRow, Row, build_each
from upsolve.importers.source import Option, Source
from upsolve.importers.tables.columns import says_opposite
from upsolve.policy.answers import is_only_code, names_of, program_in
from upsolve.policy.prompt import messages
from upsolve.types import Attempt, Status, Task, Verdict, content_id

__all__ = [
    "OPENRLHF",
    "ROLLOUT_OPTIONS",
    "TASKS_HELP",
    "TRL",
    "VERL",
    "KnownTasks",
    "Rollout",
    "Rollouts",
    "known_tasks",
    "number_of",
    "read_known",
    "text_of",
    "time_of",
]

TASKS_HELP = "tasks of the attempts: an archive, or source:path, such as humaneval:HumanEval.jsonl.gz"
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
        """Set the first part of task ids, and what ``ROLLOUT_OPTIONS`` name.

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
        """Return the known task of a rollout, or one without tests; ValueError if the prompt lacks what ``statement`` describes."""
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
    filled = {key: plain(value) for key, value in values.items() if not (value is None or value in ("", [], {}, ()))}
    return json.dumps(filled, default=str) if filled else ""


def plain(value: Any) -> Any:
    """Replace numbers that JSON cannot express, everywhere in a value: NaN by None, infinity by text."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def number_of(value: Any) -> float | None:
    """Return a score as a number; None for null and NaN; ValueError if it is not a number."""
    if value is None:
        return None
    if not isinstance(value, bool | int | float):
        raise ValueError(f"the score {str(value)[:60]!r} is not a number")
    return None if math.isnan(value) else float(value)


def text_of(value: Any) -> str:
    """Return a prompt or a message's content as text; joins parts and messages by empty lines. ValueError for other types."""
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


Json = dict[str, Any]
SIDES = {"chosen": "rejected", "rejected": "chosen"}
"""Answer of a pair -> the other one."""
SCORES = ("{}_reward", "{}_score", "score_{}")
"""Fields of the score of an answer, which stands for ``{}``; the first one counts."""


def rollout_in(row: Mapping[str, Any], prompt: str, answer: str, score: str) -> Rollout:
    """Return the rollout in three fields of a row, with the other fields in ``extra``."""
    extra = {name: value for name, value in row.items() if name not in (prompt, answer, score)}
    return Rollout(prompt=text_of(row[prompt]), answer=text_of(row[answer]), score=number_of(row.get(score)), extra=extra)


def read_openrlhf(path: Path, **options: Any) -> Iterator[Row]:
    """Yield the tasks, attempts and verdicts of a file, or of all files of rows in a folder."""
    rollouts = Rollouts("openrlhf", **options)

    def records(row: Json) -> Iterator[Row]:
        pair = [side_of(row, side) for side in SIDES] if "chosen" in row else [rollout_in(row, "input", "output", "reward")]
        for rollout in pair:
            yield from rollouts.records(rollout)

    for file in data_files(path):
        yield from build_each(file, json_lines(file), records)


def side_of(row: Json, side: str) -> Rollout:
    """Return one answer of a pair, with the fields of the line for this answer and for the pair."""
    answer, prompt = row[side], row.get("prompt")
    if isinstance(answer, list):  # messages, which may begin with those of the prompt
        start = 1 + max((index for index, message in enumerate(answer) if message.get("role") == "user"), default=-1)
        answer, prompt = answer[start:], prompt or answer[:start]
    if not prompt:
        raise ValueError("neither a prompt nor messages that begin with one")
    score = next((name for form in SCORES if (name := form.format(side)) in row), "")
    of_other = {name for name in row if SIDES[side] in name.split("_")}
    rest = {name: value for name, value in row.items() if name not in {"prompt", side, score} | of_other}
    extra = {"chosen": side == "chosen", **rest}
    return Rollout(prompt=text_of(prompt), answer=text_of(answer), score=number_of(row.get(score)), extra=extra)


def read_trl(path: Path, *, reward: str = "", **options: Any) -> Iterator[Row]:
    """Yield the tasks, attempts and verdicts of a run of TRL.

    A file that repeats the rows of the file before is skipped: files may be written more often than completions are sampled.
    """
    found = [*path.glob("completions_*.parquet"), *path.glob("completions/completions_*.parquet")]
    files = [path] if path.is_file() else sorted(found)
    if not files:
        raise SourceError(f"{path}: contains no completions_*.parquet; TRL writes them with log_completions=True")
    rollouts, before = Rollouts("trl", **options), ""
    for file in files:
        rows = [row for _, row in rows_of_file(file) if not isinstance(row, BadRow)]
        content = json.dumps([{name: value for name, value in row.items() if name != "step"} for row in rows], default=str)
        if content != before:
            names = reward_columns(file, [name.strip() for name in reward.split(",") if name.strip()])

            def records(row: Json, names: Sequence[str] = names) -> Iterator[Row]:
                scores = [score for name in names if (score := number_of(row[name])) is not None]
                score = sum(scores) if scores else None
                return rollouts.records(replace(rollout_in(row, "prompt", "completion", ""), score=score))

            yield from build_each(file, enumerate(rows, start=1), records)
        before = content


def reward_columns(file: Path, wanted: Sequence[str]) -> Sequence[str]:
    """Return the columns of the score: the wanted ones, or the only column of real numbers besides the advantage, if more is better by its name."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema: Any = pq.read_schema(file)
    reals = [field.name for field in schema if pa.types.is_floating(field.type) and field.name != "advantage"]
    if missing := [name for name in wanted if name not in schema.names]:
        raise SourceError(f"{file}: has no column {missing[0]}; its columns are {', '.join(schema.names)}")
    if not wanted and (len(reals) != 1 or says_opposite(reals[0])):
        raise SourceError(f"{file}: --reward must name the columns of the score, among {', '.join(reals or schema.names)}")
    return wanted or reals


def read_verl(path: Path, **options: Any) -> Iterator[Row]:
    """Yield the tasks, attempts and verdicts of a file or of all files of a folder, step by step."""
    rollouts, files = Rollouts("verl", **options), data_files(path, Kind.JSONL)
    for file in sorted(files, key=lambda file: (file.parent, len(file.stem), file.stem)):  # 9.jsonl before 10.jsonl
        yield from build_each(file, json_lines(file), lambda row: rollouts.records(rollout_in(row, "input", "output", "score")))


OPENRLHF = Source(
    read_openrlhf,
    "a file of samples that OpenRLHF's batch_inference saved, or of pairs (prompt, chosen, rejected)",
    ROLLOUT_OPTIONS,
    detect=("prompt", "chosen", "rejected"),
)
TRL = Source(
    read_trl,
    "output_dir of a trainer of TRL with log_completions=True, or one of its completions_*.parquet",
    (Option("reward", str, "columns whose sum is the score (default: the only column of real numbers)"), *ROLLOUT_OPTIONS),
    marks=("completions/completions_*.parquet", "completions_*.parquet"),
)
VERL = Source(
    read_verl,
    "trainer.rollout_data_dir of verl, or one of its .jsonl files",
    ROLLOUT_OPTIONS,
    detect=("input", "output", "score", "step"),
)


@dataclass(frozen=True, slots=True)
class KnownTasks:
    """Tasks by the names that other tools give them."""

    tasks: tuple[Task, ...]
    """All tasks, in their order."""
    by_name: dict[str, list[Task]]
    """Ids in lower case, and their ends after every ``/``: ``humaneval/0`` is found as ``HumanEval/0`` and as ``0``."""
    by_prompt: dict[str, Task]
    """Tasks by their prompt, alone and with examples as upsolve shows it to models, without white space around it."""

    def named(self, name: str) -> Task | None:
        """Return the task that a name denotes; None if there is none; ValueError if several tasks have this name; names two."""
        found = self.by_name.get(name.lower(), [])
        exact = [task for task in found if task.task_id.lower() == name.lower()]
        if exact:
            return exact[0]
        if len(found) > 1:
            raise ValueError(
                f"{name} may be the task {found[0].task_id} or {found[1].task_id}; give --tasks only one of the two sets"
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
    """Return the tasks of an archive or of ``source:path``; None for an empty text. SourceError if it is neither, or cannot be read."""
    return known_tasks(read_tasks(place, f"--tasks {place}")) if place else None
