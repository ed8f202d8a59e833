"""Shared by the adapters: rows of a tool -> tasks, answers -> verdicts and rewards."""

import json
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn, cast

from upsolve.archive.store import read_tasks
from upsolve.config import Recipe, RewardConfig, load_recipe
from upsolve.errors import JudgeError, SourceError
from upsolve.importers.tables import FIELDS
from upsolve.importers.tables.reader import Reader
from upsolve.importers.tables.rollouts import KnownTasks, known_tasks
from upsolve.policy.answers import is_only_code, names_of, program_in
from upsolve.records import from_row
from upsolve.reward.formula import analyses_needed, reward
from upsolve.types import Attempt, Group, Status, Task, Verdict
from upsolve.verify.limits import judge_settings
from upsolve.verify.pool.pool import verify, worker_count
from upsolve.verify.service.client import remote

__all__ = [
    "Scored",
    "Scorer",
    "attempt_of",
    "rewards_of",
    "scorer_from_environment",
    "scorer_of",
    "shown",
    "task_of",
    "task_of_truth",
    "text_of_answer",
]

CELLS = frozenset({*FIELDS}) - {"code", "answer", "id", "parent"}
"""Columns of a row that describe its task."""


def text_of_answer(completion: Any) -> str:
    """Return a completion that is text, or its last assistant message; ValueError for any other completion."""
    if isinstance(completion, str):
        return completion
    messages = [one for one in completion or () if isinstance(one, Mapping) and one.get("role", "assistant") == "assistant"]
    if not messages:
        raise ValueError(f"a completion must be text, or messages with an assistant message, not {str(completion)[:80]!r}")
    content = messages[-1].get("content") or ""
    parts = [content] if isinstance(content, str) else [str(part.get("text", "")) for part in content]
    return "".join(parts)


def task_of(row: Mapping[str, Any], known: KnownTasks | None = None) -> Task:
    """Return the task of a row of a data set.

    Args:
        row: a record of upsolve as JSON in ``task``; or ``task_id`` of a known task; or ``tests`` (asserts, ``{"inputs", "outputs"[, "fn_name"]}`` or
            tests as in upsolve's JSONL) with further fields of a task such as ``entry_point``, ``language`` and ``setup``.
        known: tasks by id.

    Raises:
        SourceError: the row has no task; the message names its columns, or the unknown id.
    """
    record = row.get("task")
    if isinstance(record, Mapping) or (isinstance(record, str) and record.lstrip().startswith("{")):
        return task_of_json(record if isinstance(record, str) else json.dumps(record))
    name, tests = str(row.get("task_id") or ""), row.get("tests")
    if name and known and known.tasks:
        try:
            found = known.named(name)
        except ValueError as error:
            raise SourceError(str(error)) from error
        if found or tests is None:
            return found or refuse(f"no task {name!r} among the {len(known.tasks)} given, such as {known.tasks[0].task_id!r}")
    if tests is None:
        refuse(
            f"a row needs a column task, tests, or task_id of a known task; its columns are {', '.join(sorted(row)) or 'none'}"
        )
    cells = {key: value for key, value in row.items() if key in CELLS and value is not None}
    cells.setdefault("prompt", "")
    return task_of_cells(json.dumps(cells, sort_keys=True))


def task_of_truth(ground_truth: Any, about: Mapping[str, Any], known: KnownTasks | None = None) -> Task:
    """Return the task of a row of verl or SkyRL: ``task`` or a known ``task_id`` in ``about``, else from its tests."""
    if about.get("task") or (about.get("task_id") and known and known.tasks):
        return task_of(about, known)
    try:
        tests = json.loads(ground_truth) if isinstance(ground_truth, str) else ground_truth
    except ValueError as error:
        raise SourceError(f"ground_truth: is not JSON: {ground_truth[:80]!r}") from error
    if isinstance(tests, Mapping):
        tests = tests.get("assert_case", tests.get("tests", tests))
    fields = {name: about[name] for name in ("entry_point", "language") if about.get(name)}
    return task_of({**fields, "tests": tests})


def refuse(problem: str) -> NoReturn:
    """Raise SourceError."""
    raise SourceError(problem)


@lru_cache(maxsize=65536)
def task_of_json(text: str) -> Task:
    """Return the task of a record as JSON."""
    try:
        return from_row(Task, cast("dict[str, Any]", json.loads(text)))
    except (TypeError, ValueError) as error:
        raise SourceError(f"column task: is not a task as JSON: {error}: {text[:80]!r}") from error


@lru_cache(maxsize=65536)
def task_of_cells(text: str) -> Task:
    """Return the task of the fields of a row."""
    cells: dict[str, Any] = json.loads(text)
    try:
        return Reader({name: name for name in cells}, "row", {}).task(cells)
    except (TypeError, ValueError) as error:
        raise SourceError(f"column tests: {error}: {str(cells['tests'])[:80]!r}") from error


@dataclass(frozen=True, slots=True)
class Scored:
    """An answer with its verdict and reward."""

    task: Task
    """The task."""
    attempt: Attempt
    """The program of the answer."""
    verdict: Verdict
    """Verdict of the answer."""
    reward: float | None
    """Reward of the answer; None if it could not be judged, or if a rule of the recipe leaves it out."""
    reason: str = ""
    """Why the answer has no reward; empty if it has one."""

    @property
    def passed(self) -> bool:
        """True if all tests passed."""
        return self.verdict.status is Status.PASSED

    @property
    def share(self) -> float:
        """Share of the tests that passed, in [0, 1]."""
        return self.verdict.passed / self.verdict.total if self.verdict.total else float(self.passed)

    @property
    def outcome(self) -> dict[str, Any]:
        """Status, and numbers of passed and of all tests."""
        return {"status": str(self.verdict.status), "passed": self.verdict.passed, "total": self.verdict.total}

    @property
    def error(self) -> str:
        """Type and message of the error; empty without one."""
        return ": ".join(filter(None, (self.verdict.error_type, self.verdict.error_message)))

    def number(self) -> float:
        """Return the reward, for tools that only take a number; JudgeError names the task and why it has no reward."""
        if self.reward is None:
            raise JudgeError(f"task {self.task.task_id}: the attempt has no reward: {self.reason}")
        return self.reward


def rewards_of(pairs: Sequence[tuple[Task, Attempt]], verdicts: Sequence[Verdict], config: RewardConfig) -> list[Scored]:
    """Return judged attempts with their rewards, in order; attempts at one task are a group."""
    groups: dict[Task, list[int]] = {}
    for index, (task, _) in enumerate(pairs):
        groups.setdefault(task, []).append(index)
    scored: dict[int, Scored] = {}
    for task, places in groups.items():
        group = Group(task, tuple(pairs[i][1] for i in places), tuple(verdicts[i] for i in places))
        scored.update(zip(places, rewards_of_group(group, config), strict=True))
    return [scored[index] for index in range(len(pairs))]


def rewards_of_group(group: Group, config: RewardConfig) -> list[Scored]:
    """Return the attempts of a group with their rewards."""
    given = reward(group, config)
    rewards = {id(attempt): float(value) for attempt, value in zip(given.group.attempts, given.rewards_G, strict=True)}
    out: list[Scored] = []
    for attempt, verdict in zip(group.attempts, group.verdicts, strict=True):
        assert verdict is not None
        value, reason = rewards.get(id(attempt)), ""
        if value is None:
            broken = verdict.status is Status.UNSCORED
            reason = verdict.error_message or "unscored" if broken else "; ".join(given.left_out)
        out.append(Scored(group.task, attempt, verdict, value, reason))
    return out


def attempt_of(task: Task, answer: str, prompt: str = "") -> Attempt:
    """Return the attempt of an answer; ``prompt``: its prompt, whose end may open a fence or a thought."""
    language = task.language or "python"
    code = program_in(answer, language, names_of(task), prompt=prompt)
    return Attempt(task.task_id, code, language, answer="" if is_only_code(answer, code) else answer)


def shown(scored: Scored) -> str:
    """Return the part of a verdict that a model may see: the outcomes of visible tests, and an error that a visible test raised."""
    verdict = scored.verdict
    if verdict.status is Status.UNSCORED:
        return f"could not be judged: {scored.reason}"
    passed = [outcome is Status.PASSED for outcome in verdict.outcomes]
    visible = [good for good, test in zip(passed, scored.task.tests, strict=False) if not test.hidden]
    if passed and not visible:
        return "the tests are hidden"
    first = passed.index(False) if False in passed else 0
    detail = f"; {scored.error}" if scored.error and not (passed and scored.task.tests[first].hidden) else ""
    return f"{sum(visible)} of {len(visible)} visible tests passed{detail}" if passed else f"{verdict.status}{detail}"


class Scorer:
    """Judges answers, here or at a service, and computes their rewards by a recipe. Safe to call from several threads."""

    def __init__(
        self,
        tasks: str | Path | Iterable[Task] = "",
        *,
        recipe: str | Path | Recipe | None = None,
        overrides: Sequence[str] = (),
        url: str = "",
        token: str = "",
        prompt_end: str = "",
    ) -> None:
        """Configure the judge and the rewards.

        Args:
            tasks: tasks that rows name by ``task_id``: an archive, ``source:path`` or the tasks; empty: rows have their own tests.
            recipe: whose ``reward`` and ``verify`` sections apply; None: the defaults (passed 1, failed -0.1, ...).
            overrides: ``stage.key=value``, applied to a recipe given by name.
            url: a judge that ``upsolve verify --serve`` has started; empty: judge on this machine.
            token: its token.
            prompt_end: what the chat template writes behind every prompt, such as ``<think>``, where the tool does not pass it.

        Raises:
            ConfigError, SourceError: the recipe or the tasks cannot be read.
        """
        config = recipe if isinstance(recipe, Recipe) else load_recipe(recipe, overrides)
        self.rewards = config.reward
        settings = judge_settings(config.verify, here=not url).with_analyses(analyses_needed(self.rewards))
        self.settings = replace(settings, executor="local") if url else settings  # executor and packages are the server's
        self.remote = remote(url, token) if url else None
        every = read_tasks(str(tasks), f"tasks {tasks}") if isinstance(tasks, str | Path) and str(tasks) else ()
        self.known: KnownTasks = known_tasks(every if isinstance(tasks, str | Path) else tasks)
        self.prompt_end = prompt_end
        self.turns = threading.BoundedSemaphore(worker_count(self.settings))

    def score(self, answers: Sequence[tuple[Task, str]], *, prompts: Sequence[str] = ()) -> list[Scored]:
        """Judge whole answers of a model to tasks in parallel, and return them in order; raises JudgeError or IsolationError.

        If a prompt ends inside a fence or a thought, the answer is read as its continuation (``prompt_end``).
        """
        pairs = [
            (task, attempt_of(task, answer, prompt + self.prompt_end))
            for (task, answer), prompt in zip(answers, prompts or [""] * len(answers), strict=True)
        ]
        with self.turns:
            if self.remote:
                found = dict(self.remote.judged(pairs, self.settings))
                verdicts = [found[index] for index in range(len(pairs))]
            else:
                verdicts = verify(pairs, self.settings)
        return rewards_of(pairs, verdicts, self.rewards)


OPTIONS = ("tasks", "recipe", "overrides", "url", "token", "prompt_end")


def scorer_of(options: Any) -> Scorer:
    """Return the scorer for a tool's options; unknown and empty options are ignored. A process has one scorer for all calls."""
    own = {name: options.get(name) for name in OPTIONS if options.get(name)}
    return cached_scorer(json.dumps(own, sort_keys=True, default=list))


@lru_cache(8)
def cached_scorer(options: str) -> Scorer:
    """Return the cached scorer for options given as JSON."""
    return Scorer(**json.loads(options))


VARIABLES = {"tasks": "TASKS", "recipe": "RECIPE", "url": "JUDGE", "token": "TOKEN", "prompt_end": "PROMPT_END"}
"""Option -> its environment variable, without the prefix ``UPSOLVE_``."""


def scorer_from_environment() -> Scorer:
    """Return the scorer that ``VARIABLES`` describe, for tools that load a file without arguments."""
    return scorer_of({name: os.environ.get(f"UPSOLVE_{variable}", "") for name, variable in VARIABLES.items()})
