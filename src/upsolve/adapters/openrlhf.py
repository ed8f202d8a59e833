"""OpenRLHF: a reward function for ``--reward.remote_url reward.py``, and the same function as a path of the service. Labels are tasks as JSON."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from upsolve.adapters.scoring import Scored, attempt_of, rewards_of, scorer_from_environment, task_of
from upsolve.config import RewardConfig
from upsolve.errors import JudgeError, SourceError
from upsolve.importers.tables.rollouts import KnownTasks, known_tasks
from upsolve.types import Task
from upsolve.verify.service.auth_middleware import RefusedError
from upsolve.verify.service.scheduler import Service

__all__ = ["reward_func", "reward_route"]


def reward_func(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[str], **_: Any) -> dict[str, Any]:
    """Return ``rewards``, ``scores`` (share of passed tests) and ``extra_logs`` as tensors.

    Args:
        queries: prompts with their answers.
        prompts: the prompts.
        labels: tasks as JSON (``upsolve archive export --as openrlhf``), or ids of the tasks in ``$UPSOLVE_TASKS``.

    Raises:
        JudgeError: an attempt could not be judged: OpenRLHF has no reward for "unknown", and a number would be trained on.
        SourceError: a label is not a task.
    """
    import torch

    judge = scorer_from_environment()
    answers = answers_of(queries, prompts, labels, judge.known)
    numbers = numbers_of(judge.score(answers, prompts=prompts))
    return {
        "rewards": torch.tensor(numbers["rewards"]),
        "scores": torch.tensor(numbers["scores"]),
        "extra_logs": {name: torch.tensor(values) for name, values in numbers["extra_logs"].items()},
    }


def answers_of(
    queries: Sequence[str], prompts: Sequence[str], labels: Sequence[str], known: KnownTasks
) -> list[tuple[Task, str]]:
    """Return tasks with answers: the text after the prompt in each query."""
    tasks = [task_of({"task": label} if label.lstrip().startswith("{") else {"task_id": label}, known) for label in labels]
    pairs = zip(queries, prompts, strict=True)
    return [(task, query.removeprefix(prompt)) for task, (query, prompt) in zip(tasks, pairs, strict=True)]


def numbers_of(scored: Sequence[Scored]) -> dict[str, Any]:
    """Return the numbers of a reply; JudgeError if a number is missing."""
    rewards = [one.number() for one in scored]
    scores = [one.share for one in scored]
    return {"rewards": rewards, "scores": scores, "extra_logs": {"passed": [float(one.passed) for one in scored]}}


def reward_route(config: RewardConfig) -> Callable[[Service, dict[str, Any]], Awaitable[dict[str, Any]]]:
    """Return the route that answers ``{"query", "prompts", "labels"}`` as ``reward_func`` does, with lists; status 503 for an answer without a reward."""
    none = known_tasks(())

    async def answer(service: Service, body: dict[str, Any]) -> dict[str, Any]:
        service.refuse_many(len(labels) if isinstance(labels := body.get("labels"), list) else 0, "labels")
        try:
            answers = answers_of(body["query"], body["prompts"], body["labels"], none)
        except KeyError as error:
            raise RefusedError(422, f"{error} is missing") from error
        except (AttributeError, TypeError, ValueError, SourceError) as error:
            raise RefusedError(422, f"labels: {error}") from error
        pairs = [(task, attempt_of(task, text, prompt)) for (task, text), prompt in zip(answers, body["prompts"], strict=True)]
        try:
            return numbers_of(await asyncio.to_thread(rewards_of, pairs, await service.verdicts(pairs), config))
        except JudgeError as error:
            raise RefusedError(503, str(error)) from error

    return answer
