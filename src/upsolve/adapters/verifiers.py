"""verifiers and prime-rl: a taskset with tasks and rewards of upsolve, and stored attempts as ``traces.jsonl``, which ``vf-replay`` scores again."""
# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportUntypedFunctionDecorator=false

import asyncio
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.configs.agent import WireAgentConfig
from verifiers.v1.utils.trace_store import write_episode

from upsolve.adapters.scoring import scorer_of, task_of
from upsolve.archive.store import read_tasks
from upsolve.policy.prompt import fenced_answer, messages
from upsolve.records import to_row
from upsolve.types import Attempt, Group, Status, Task, Verdict, is_scored

__all__ = ["UpsolveTaskset", "write_traces"]


class UpsolveTaskConfig(vf.TaskConfig):
    """Options of the rewards, under ``--env.taskset.task.*``."""

    recipe: str = ""
    """Name or file of a recipe; empty: the defaults."""
    url: str = ""
    """URL of a judge on another machine; empty: judge on this machine."""
    token: str = ""
    """Token of the judge at ``url``."""
    prompt_end: str = ""
    """Text that the chat template writes after every prompt, such as ``<think>``."""


class UpsolveTasksetConfig(vf.TasksetConfig):
    """Options of the taskset, under ``--env.taskset.*``."""

    tasks: str = "embedded"
    """An archive, or ``source:path``."""
    task: UpsolveTaskConfig = UpsolveTaskConfig()


class UpsolveData(vf.TaskData):
    """A task as verifiers stores it."""

    record: str
    """The whole task as JSON, with its tests; it is written to ``traces.jsonl``, so that a replay needs no archive."""


class UpsolveTask(vf.Task[UpsolveData, vf.State, UpsolveTaskConfig]):
    """A task whose reward is upsolve's; the answer is the last message of the model."""

    @property
    def key(self) -> str:
        """Return the id of the task."""
        return str(self.data.name)

    @vf.reward(weight=1.0)
    async def upsolve(self, trace: Any) -> float:
        """Return the reward; ``trace.info["upsolve"]`` gets the outcome. An unscored attempt raises JudgeError, and its reward stays None."""
        scorer = scorer_of({name: getattr(self.config, name) for name in ("recipe", "url", "token", "prompt_end")})
        (scored,) = await asyncio.to_thread(scorer.score, [(task_of({"task": self.data.record}), trace.last_reply)])
        trace.info["upsolve"] = scored.outcome
        return scored.number()


class UpsolveTaskset(vf.Taskset[UpsolveTask, UpsolveTasksetConfig]):
    """The tasks of an archive, with the prompts that upsolve shows."""

    def load(self) -> Iterator[UpsolveTask]:
        """Yield the tasks."""
        for index, task in enumerate(read_tasks(self.config.tasks, f"tasks {self.config.tasks}")):
            yield UpsolveTask(data_of(task, index), self.config.task)


def data_of(task: Task, index: int) -> UpsolveData:
    """Return a task as verifiers stores it."""
    return UpsolveData(idx=index, name=task.task_id, prompt=messages(task)[0]["content"], record=json.dumps(to_row(task)))


def write_traces(groups: Iterable[Group], folder: Path, *, taskset: str = "upsolve_taskset") -> int:
    """Write stored attempts as a run of verifiers: ``traces.jsonl`` and ``configs/resolved/eval.json``; return their number.

    Args:
        groups: such as ``open_archive("my-archive").groups()``; a verdict becomes the reward ``recorded`` (1 passed, 0 not); none, or one that
            is unscored, becomes null.
        folder: a new folder.
        taskset: module that ``vf-replay`` imports, with ``UpsolveTaskset`` in its ``__all__``.
    """
    config = folder / "configs" / "resolved" / "eval.json"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps({"env": {"taskset": {"id": taskset}}}), encoding="utf-8")
    (folder / "traces.jsonl").touch()
    count = 0
    for index, group in enumerate(groups):
        task = UpsolveTask(data_of(group.task, index))
        for attempt, verdict in zip(group.attempts, group.verdicts, strict=True):
            trace = trace_of(task, attempt, verdict)
            write_episode(folder, vf.Episode(task=trace.task, traces=[trace], ok=trace.ok))
            count += 1
    return count


def trace_of(task: UpsolveTask, attempt: Attempt, verdict: Verdict | None) -> Any:
    """Return an attempt as a trace: the prompt, and the answer as the model's message."""
    reward = vf.Reward(score=float(verdict.status is Status.PASSED)) if is_scored(verdict) else None
    wire = vf.TraceTask[UpsolveData](type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
    agent = vf.AgentInfo(config=WireAgentConfig(model=attempt.author or None))
    trace: Any = vf.Trace(task=wire, agent=agent, rewards={"recorded": reward}, ok=True, is_completed=True)
    trace.nodes = [
        vf.MessageNode(message=vf.UserMessage(content=str(task.data.prompt))),
        vf.MessageNode(parent=0, message=vf.AssistantMessage(content=fenced_answer(attempt)), sampled=True),
    ]
    return trace
