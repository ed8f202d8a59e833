"""TRL (GRPO, RLOO): a reward function, and an environment that computes its own reward. Does not import TRL."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from upsolve.adapters.scoring import Scored, Scorer, shown, task_of, text_of_answer
from upsolve.importers.rows import text_of
from upsolve.types import Task

__all__ = ["Environment", "environment_factory", "reward_function"]

RewardFunction = Callable[..., list[float | None]]


def reward_function(tasks: Any = "", *, columns: Mapping[str, str] | None = None, **options: Any) -> RewardFunction:
    """Return a reward function for ``GRPOTrainer(reward_funcs=...)``.

    The completions of a batch are judged in parallel. An answer that cannot be judged has the reward None, which TRL ignores. The trainer's table of
    completions gets the columns ``upsolve_status`` and ``upsolve_reason``, its metrics ``upsolve/passed``, ``upsolve/unscored`` (shares of the batch)
    and ``upsolve/<status>``.

    Args:
        tasks: tasks that the column ``task_id`` names; empty: each row has its own ``tests`` (``upsolve.adapters.scoring.task_of``).
        columns: field of a task -> column of the data set with another name, such as ``{"tests": "test_list"}``.
        options: of ``upsolve.adapters.scoring.Scorer``.

    Raises:
        ConfigError, SourceError: an option or the tasks are wrong; in a call: a row does not say what its task is.
    """
    scorer = Scorer(tasks, **options)

    def upsolve(
        prompts: Sequence[Any],
        completions: Sequence[Any],
        *,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **data: Any,
    ) -> list[float | None]:
        known = [task_of(row, scorer.known) for row in rows_of(prompts, data, columns or {})]
        answers = [(task, text_of_answer(one)) for task, one in zip(known, completions, strict=True)]
        scored = scorer.score(answers, prompts=[*map(text_of, prompts)])
        if log_extra:
            log_extra("upsolve_status", [str(one.verdict.status) for one in scored])
            log_extra("upsolve_reason", [one.reason for one in scored])
        for name, value in shares(scored).items() if log_metric else ():
            log_metric(name, value)  # type: ignore[misc]
        return [one.reward for one in scored]

    return upsolve


def rows_of(prompts: Sequence[Any], data: Mapping[str, Any], columns: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the rows of a batch with the names of a task's fields; arguments that are not columns are left out."""
    lists = {name: values for name, values in data.items() if isinstance(values, list) and len(values) == len(prompts)}
    rows = [{"prompt": text_of(prompt), **{name: lists[name][index] for name in lists}} for index, prompt in enumerate(prompts)]
    return [row | {field: row.get(column) for field, column in columns.items()} for row in rows]


def shares(scored: Sequence[Scored]) -> dict[str, float]:
    """Return shares of a batch: passed, without a reward, and each status that occurs."""
    counts = Counter(str(one.verdict.status) for one in scored)
    without = sum(one.reward is None for one in scored)
    found = {"passed": 0, **counts, "unscored": without}
    return {f"upsolve/{name}": count / len(scored) for name, count in found.items()}


class Environment:
    """An environment of TRL: the model runs programs with the tool ``run_tests``, and the last one decides the reward.

    All tests decide the reward; the tool shows the outcomes of those that are not ``hidden``.
    """

    def __init__(self, scorer: Scorer, columns: Mapping[str, str] | None = None) -> None:
        self._scorer, self._columns = scorer, columns or {}
        self._task: Task | None = None
        self._last: Scored | None = None

    def reset(self, **row: Any) -> None:
        """Begin an episode with a row of the data set."""
        (fields,) = rows_of([row.get("prompt") or ""], {name: [value] for name, value in row.items()}, self._columns)
        self._task, self._last = task_of(fields, self._scorer.known), None

    def run_tests(self, code: str) -> str:
        """Run the tests of the task on a program, and make it the answer.

        Args:
            code: The whole program.

        Returns:
            The number of passed tests and the first error.
        """
        if self._task is None:
            raise ValueError("call reset before run_tests")
        (self._last,) = self._scorer.score([(self._task, code)])
        return shown(self._last)

    def get_reward(self) -> float | None:
        """Return the reward of the last program (None if it cannot be judged), or of an empty program if there is no program."""
        if self._last is None:
            self.run_tests("")
        return self._last.reward if self._last else None


def environment_factory(
    tasks: Any = "", *, columns: Mapping[str, str] | None = None, **options: Any
) -> Callable[[], Environment]:
    """Return a factory for ``GRPOTrainer(environment_factory=...)``; same arguments as ``reward_function``."""
    scorer = Scorer(tasks, **options)
    return lambda: Environment(scorer, columns)
