"""Judged answers -> rewards, and what a model may know of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from upsolve.config import RewardConfig
from upsolve.errors import JudgeError
from upsolve.policy.answers import is_only_code, names_of, program_in
from upsolve.reward.formula import reward
from upsolve.types import Attempt, Group, Status, Task, Verdict

__all__ = ["Scored", "attempt_of", "rewards_of", "shown"]


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


def attempt_of(task: Task, answer: str, prompt: str = "") -> Attempt:
    """Return the attempt of an answer; ``prompt``: its prompt, whose end may open a fence or a thought."""
    language = task.language or "python"
    code = program_in(answer, language, names_of(task), prompt=prompt)
    return Attempt(task.task_id, code, language, answer="" if is_only_code(answer, code) else answer)


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
