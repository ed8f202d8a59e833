"""Answers -> verdicts and rewards: what every adapter asks."""

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from upsolve.adapters.tasks import code_of
from upsolve.archive.known import KnownTasks, known_tasks, read_tasks
from upsolve.config import Recipe, RewardConfig, load_recipe
from upsolve.errors import JudgeError
from upsolve.reward.formula import analyses_needed, reward
from upsolve.types import Attempt, Group, Status, Task, Verdict
from upsolve.verify.limits import JudgeSettings, judge_settings
from upsolve.verify.pool.pool import verify, worker_count
from upsolve.verify.service.client import remote

__all__ = ["Scored", "Scorer", "attempt_of", "rewards_of", "scorer_from_environment", "shown", "with_analyses"]


@dataclass(frozen=True, slots=True)
class Scored:
    """An answer with its verdict and reward."""

    task: Task
    """The task."""
    attempt: Attempt
    """The program of the answer."""
    verdict: Verdict
    """Its verdict."""
    reward: float | None
    """Its reward; None if it could not be judged, or if a rule of the recipe leaves it out."""
    reason: str = ""
    """Why it has no reward; empty if it has one."""

    @property
    def passed(self) -> bool:
        """True if all tests passed."""
        return self.verdict.status is Status.PASSED

    @property
    def share(self) -> float:
        """Share of the tests that passed, in [0, 1]."""
        return self.verdict.passed / self.verdict.total if self.verdict.total else float(self.passed)

    def number(self) -> float:
        """Return the reward, for tools that take a number only.

        Raises:
            JudgeError: there is none; names the task and the reason.
        """
        if self.reward is None:
            raise JudgeError(f"task {self.task.task_id}: the attempt has no reward: {self.reason}")
        return self.reward


class Scorer:
    """Judges answers, here or at a service, and gives them the rewards of a recipe. Safe to call from several threads."""

    def __init__(
        self,
        tasks: str | Path | Iterable[Task] = "",
        *,
        recipe: str | Path | Recipe | None = None,
        overrides: Sequence[str] = (),
        url: str = "",
        token: str = "",
    ) -> None:
        """Configure the judge and the rewards.

        Args:
            tasks: tasks that rows name by ``task_id``: an archive, ``source:path`` or the tasks; empty: rows have their own tests.
            recipe: whose ``reward`` and ``verify`` sections apply; None: the defaults (passed 1, failed -0.1, ...).
            overrides: ``stage.key=value``, applied to a recipe given by name.
            url: a judge that ``upsolve verify --serve`` has started; empty: judge on this machine.
            token: its token.

        Raises:
            ConfigError, SourceError: the recipe or the tasks cannot be read.
        """
        config = recipe if isinstance(recipe, Recipe) else load_recipe(recipe, overrides)
        self.rewards = config.reward
        self.settings = judge_settings(config.verify)
        self.settings = replace(
            self.settings, analyses=tuple(sorted({*self.settings.analyses, *analyses_needed(self.rewards)}))
        )
        self.remote = remote(url, token) if url else None
        every = read_tasks(str(tasks), f"tasks {tasks}") if isinstance(tasks, str | Path) and str(tasks) else ()
        self.known: KnownTasks = known_tasks(every if isinstance(tasks, str | Path) else tasks)
        self.turns = threading.BoundedSemaphore(worker_count(self.settings))

    def score(self, answers: Sequence[tuple[Task, str]]) -> list[Scored]:
        """Judge answers in parallel and return them in order.

        Args:
            answers: tasks with whole answers of a model; the program is the longest fenced block, or the answer without a fence.

        Raises:
            IsolationError: a required layer of the sandbox is missing here.
            JudgeError: the service cannot be reached.
        """
        pairs = [(task, attempt_of(task, answer)) for task, answer in answers]
        with self.turns:
            if self.remote:
                found = dict(self.remote.judged(pairs, self.settings))
                verdicts = [found[index] for index in range(len(pairs))]
            else:
                verdicts = verify(pairs, self.settings)
        return rewards_of(pairs, verdicts, self.rewards)


def with_analyses(settings: JudgeSettings, config: RewardConfig) -> JudgeSettings:
    """Return the settings of a judge with the analyses that rewards need."""
    return replace(settings, analyses=tuple(sorted({*settings.analyses, *analyses_needed(config)})))


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
    kept = {id(attempt): float(value) for attempt, value in zip(given.group.attempts, given.rewards_G, strict=True)}
    out: list[Scored] = []
    for attempt, verdict in zip(group.attempts, group.verdicts, strict=True):
        assert verdict is not None
        value, reason = kept.get(id(attempt)), ""
        if value is None:
            broken = verdict.status is Status.UNSCORED
            reason = verdict.error_message or "unscored" if broken else "; ".join(given.left_out)
        out.append(Scored(group.task, attempt, verdict, value, reason))
    return out


def attempt_of(task: Task, answer: str) -> Attempt:
    """Return the attempt of an answer."""
    language = task.language or "python"
    code = code_of(answer, language)
    return Attempt(task.task_id, code, language, answer="" if code.strip() == answer.strip() else answer)


def shown(scored: Scored) -> str:
    """Return what a model may know of a verdict: the outcomes of visible tests, and an error that one of these raised."""
    verdict = scored.verdict
    if verdict.status is Status.UNSCORED:
        return f"could not be judged: {scored.reason}"
    passed = [outcome is Status.PASSED for outcome in verdict.outcomes]
    visible = [good for good, test in zip(passed, scored.task.tests, strict=False) if not test.hidden]
    if passed and not visible:
        return "the tests are hidden"
    first = passed.index(False) if False in passed else 0
    error = ": ".join(filter(None, (verdict.error_type, verdict.error_message)))
    said = f"; {error}" if error and not (passed and scored.task.tests[first].hidden) else ""
    return f"{sum(visible)} of {len(visible)} visible tests passed{said}" if passed else f"{verdict.status}{said}"


def scorer_from_environment() -> Scorer:
    """Return the scorer that ``UPSOLVE_TASKS``, ``UPSOLVE_RECIPE``, ``UPSOLVE_JUDGE`` (URL) and ``UPSOLVE_TOKEN`` describe.

    For tools that load a file and pass no arguments to it. Raises as ``Scorer``.
    """
    tasks, recipe, url, token = (os.environ.get(f"UPSOLVE_{name}", "") for name in ("TASKS", "RECIPE", "JUDGE", "TOKEN"))
    return Scorer(tasks, recipe=recipe or None, url=url, token=token)
