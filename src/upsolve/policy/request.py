"""Requests to an engine, one per attempt, each with its own seed; and the interfaces of samplers."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from upsolve.config import SampleConfig
from upsolve.types import Attempt, Task

__all__ = ["JointSampler", "Part", "PolicySampler", "Request", "Sampler", "joint_requests", "requests"]


Part = tuple[int, Attempt]
"""The index of the settings, where there are several, and an attempt sampled with them."""


class Sampler(Protocol):
    """A model that can be sampled, in this process or behind a server."""

    def __call__(
        self,
        tasks: Sequence[Task],
        *,
        config: SampleConfig,
        author: str = "",
        on_done: Callable[[int], None] | None = None,
    ) -> Iterator[Attempt]:
        """Yield ``config.samples`` attempts per task, in the order in which they end.

        Args:
            tasks: tasks to sample.
            config: number of samples, temperature, top-p, length limit and seed.
            author: author of the attempts; empty: the model's name.
            on_done: called with the number of finished attempts.
        """
        ...


@runtime_checkable
class JointSampler(Protocol):
    """A ``Sampler`` that can also sample by several settings at once; settings with the same prompts share work."""

    def each(
        self,
        tasks: Sequence[Task],
        *,
        configs: Sequence[SampleConfig],
        author: str = "",
        on_done: Callable[[int], None] | None = None,
    ) -> Iterator[Part]:
        """Yield the index of the settings and the attempt, as ``Sampler`` does for each.

        Args:
            tasks: tasks to sample.
            configs: settings that differ in temperature, number of samples and seed alone.
            author: author of the attempts; empty: the model's name.
            on_done: called with the number of finished attempts, of all settings together.
        """
        ...


class PolicySampler(Protocol):
    """The policy in training, sampled with the weights it has at the time of the call."""

    def __call__(
        self,
        model: Any,
        codec: Any,
        tasks: Sequence[Task],
        *,
        config: SampleConfig,
        author: str = "",
        on_done: Callable[[int], None] | None = None,
    ) -> Iterator[Attempt]:
        """Yield attempts as ``Sampler`` does.

        Args:
            model: the policy, a causal language model of transformers.
            codec: its tokenizer (``upsolve.policy.tokens.Codec``).
            tasks: tasks to sample.
            config: number of samples, temperature, top-p, length limit and seed.
            author: author of the attempts; empty: the model's name.
            on_done: called with the number of finished attempts.
        """
        ...


@dataclass(frozen=True, slots=True)
class Request:
    """Request for one attempt."""

    task: Task
    """The task."""
    seed: int
    """Seed of the attempt's random numbers, in [0, 2^31)."""
    temperature: float
    """Sampling temperature."""
    part: int = 0
    """Index of the settings that the request belongs to, where there are several (``joint_requests``)."""


def requests(tasks: Sequence[Task], config: SampleConfig) -> Iterator[Request]:
    """Yield ``config.samples`` requests per task, all of one task before the next, so that prefix caches are used.

    seed = (SHA-256(config.seed, task_id) + number) mod 2^31: distinct within a task, independent of the other tasks.
    """
    for task in tasks:
        digest = hashlib.sha256(f"{config.seed}/{task.task_id}".encode()).digest()
        first = int.from_bytes(digest[:8])
        yield from (Request(task, (first + number) % 2**31, config.temperature) for number in range(config.samples))


def joint_requests(task: Task, configs: Sequence[SampleConfig]) -> Iterator[Request]:
    """Yield the requests for a task by each of several settings in turn."""
    for part, config in enumerate(configs):
        yield from (replace(request, part=part) for request in requests([task], config))
