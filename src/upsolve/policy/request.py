"""Requests to an engine, one per attempt, each with its own seed; and the interfaces of samplers."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

from upsolve.config import SampleConfig
from upsolve.errors import ConfigError
from upsolve.types import Attempt, Task, Turn

__all__ = [
    "Follower",
    "JointSampler",
    "Part",
    "PolicySampler",
    "Request",
    "RequestSampler",
    "Sampler",
    "by_prompt",
    "joint_requests",
    "of_policy",
    "request_sampler",
    "requests",
    "seed_of",
]


Part = tuple[int, Attempt]
"""``Request.part``, such as the index of the settings, and an attempt sampled for the request."""


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
        """Yield attempts of all settings, each with the index of its settings; ``on_done`` counts the attempts of all settings.

        ``configs`` differ in temperature, number of samples and seed alone.
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

        ``model`` is the policy, a causal language model of transformers, ``codec`` its tokenizer (``upsolve.policy.tokens.Codec``).
        """
        ...


@runtime_checkable
class RequestSampler(Protocol):
    """A ``Sampler`` that also samples single requests, each with its own seed, earlier turns and prefix."""

    def sample_requests(
        self,
        requests: Sequence["Request"],
        *,
        config: SampleConfig,
        author: str = "",
        on_done: Callable[[int], None] | None = None,
    ) -> Iterator[Part]:
        """Yield ``part``, which identifies the request, and the attempt of each request, in the order in which attempts end.

        ``config`` has top-p and length limit; temperature and seed are those of the requests.
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
    """Sampling temperature of the attempt."""
    part: int = 0
    """Index that identifies the request: the index of the settings (``joint_requests``), or one that the caller chose."""
    turns: tuple[Turn, ...] = ()
    """Earlier attempts at the task, oldest first: in the prompt, each is an answer of the assistant and the feedback of the user."""
    prefix: str = ""
    """Beginning of the answer, which the model continues: of the program or, with ``model.completion: answer``, of the whole answer."""

    @property
    def prompt_key(self) -> tuple[Task, tuple[Turn, ...], str]:
        """The fields that determine the prompt: task, earlier turns and prefix."""
        return self.task, self.turns, self.prefix

    @property
    def origin(self) -> dict[str, Any]:
        """Fields of the sampled attempt that the request determines; ``parent_id`` names the last of the earlier attempts."""
        parent = self.turns[-1].attempt.attempt_id if self.turns else ""
        language = self.task.language or "python"
        return {"task_id": self.task.task_id, "language": language, "parent_id": parent, "prefix": self.prefix}


class Follower:
    """A ``PolicySampler``, also of requests, with an engine that gets the policy's weights at each call."""

    def ready(self, model: Any, codec: Any, config: SampleConfig) -> Any:
        """Return the engine, a ``Sampler`` and ``RequestSampler``, with the policy's current weights."""
        raise NotImplementedError

    def __call__(self, model: Any, codec: Any, tasks: Sequence[Task], *, config: SampleConfig, **how: Any) -> Iterator[Attempt]:
        """Yield attempts as the engine does; without tasks nothing is loaded."""
        return self.ready(model, codec, config)(tasks, config=config, **how) if tasks else iter(())

    def sample_requests(
        self, model: Any, codec: Any, requests: Sequence[Request], *, config: SampleConfig, **how: Any
    ) -> Iterator[Part]:
        """Yield attempts of requests, as a call of the sampler does for tasks."""
        return self.ready(model, codec, config).sample_requests(requests, config=config, **how) if requests else iter(())


@dataclass(frozen=True, slots=True)
class PolicyNow:
    """The policy in training as a ``RequestSampler``."""

    run: Any
    """A ``PolicySampler`` that also has ``sample_requests``."""
    model: Any
    codec: Any

    def __call__(self, tasks: Sequence[Task], **options: Any) -> Iterator[Attempt]:
        """Yield attempts as ``Sampler`` does."""
        return self.run(self.model, self.codec, tasks, **options)

    def sample_requests(self, requests: Sequence[Request], **options: Any) -> Iterator[Part]:
        """Yield attempts as ``RequestSampler`` does."""
        return self.run.sample_requests(self.model, self.codec, requests, **options)


def of_policy(run: PolicySampler, model: Any, codec: Any) -> Sampler:
    """Return a sampler of the policy in training; it samples requests if ``run`` has ``sample_requests(model, codec, requests, ...)``."""
    return PolicyNow(run, model, codec) if hasattr(run, "sample_requests") else partial(run, model, codec)


def request_sampler(sampler: Any, why: str) -> RequestSampler:
    """Return a sampler that takes requests, made from a sampler of tasks or of the policy in training.

    Raises:
        ConfigError: the sampler takes only tasks; ``why`` names the setting that needs requests.
    """
    if not isinstance(sampler, RequestSampler):
        raise ConfigError(
            f"{why}: the engine samples tasks alone, without earlier turns or a prefix; use transformers, vllm or server, "
            "or give its sampler the method sample_requests (upsolve.policy.request)"
        )
    return sampler


def by_prompt(unordered: Iterable[Request]) -> list[list[Request]]:
    """Return requests grouped by prompt, in order of first appearance."""
    same: dict[Any, list[Request]] = {}
    for request in unordered:
        same.setdefault(request.prompt_key, []).append(request)
    return [*same.values()]


def requests(tasks: Sequence[Task], config: SampleConfig) -> Iterator[Request]:
    """Yield ``config.samples`` requests per task, all of one task before the next, so that prefix caches are used.

    seed = (SHA-256(config.seed, task_id) + number) mod 2^31: distinct within a task, independent of the other tasks.
    """
    for task in tasks:
        first = seed_of(config.seed, task.task_id)
        yield from (Request(task, (first + number) % 2**31, config.temperature) for number in range(config.samples))


def seed_of(seed: int, name: str) -> int:
    """Return the first seed for a name: SHA-256(seed, name) mod 2^31."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:8]) % 2**31


def joint_requests(task: Task, configs: Sequence[SampleConfig]) -> list[Request]:
    """Return the requests for a task by each of several settings in turn."""
    return [replace(request, part=part) for part, config in enumerate(configs) for request in requests([task], config)]
