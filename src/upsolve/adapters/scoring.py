"""Answers -> verdicts and rewards: what every adapter asks."""

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from upsolve.adapters.scored import Scored, attempt_of, rewards_of
from upsolve.archive.store import read_tasks
from upsolve.config import Recipe, RewardConfig, load_recipe
from upsolve.importers.known import KnownTasks, known_tasks
from upsolve.reward.formula import analyses_needed
from upsolve.types import Task
from upsolve.verify.limits import JudgeSettings, judge_settings
from upsolve.verify.pool.pool import verify, worker_count
from upsolve.verify.service.client import remote

__all__ = ["Scorer", "scorer_from_environment", "with_analyses"]


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
        settings = with_analyses(judge_settings(config.verify, here=not url), self.rewards)
        self.settings = replace(settings, executor="local") if url else settings  # executor and packages are the server's
        self.remote = remote(url, token) if url else None
        every = read_tasks(str(tasks), f"tasks {tasks}") if isinstance(tasks, str | Path) and str(tasks) else ()
        self.known: KnownTasks = known_tasks(every if isinstance(tasks, str | Path) else tasks)
        self.prompt_end = prompt_end
        self.turns = threading.BoundedSemaphore(worker_count(self.settings))

    def score(self, answers: Sequence[tuple[Task, str]], *, prompts: Sequence[str] = ()) -> list[Scored]:
        """Judge answers in parallel and return them in order.

        Args:
            answers: tasks with whole answers of a model (``upsolve.policy.answers``).
            prompts: the prompt of each as text, if known, whose end may open a fence or a thought; ``prompt_end`` follows it.

        Raises:
            IsolationError: a required layer of the sandbox is missing here.
            JudgeError: the service cannot be reached.
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


def with_analyses(settings: JudgeSettings, config: RewardConfig) -> JudgeSettings:
    """Return the settings of a judge with the analyses that rewards need."""
    return replace(settings, analyses=tuple(sorted({*settings.analyses, *analyses_needed(config)})))


def scorer_from_environment() -> Scorer:
    """Return the scorer that ``UPSOLVE_TASKS``, ``UPSOLVE_RECIPE``, ``UPSOLVE_JUDGE`` (URL), ``UPSOLVE_TOKEN`` and ``UPSOLVE_PROMPT_END`` describe.

    For tools that load a file and pass no arguments to it. Raises as ``Scorer``.
    """
    tasks, recipe, url, token, end = (
        os.environ.get(f"UPSOLVE_{name}", "") for name in ("TASKS", "RECIPE", "JUDGE", "TOKEN", "PROMPT_END")
    )
    return Scorer(tasks, recipe=recipe or None, url=url, token=token, prompt_end=end)
