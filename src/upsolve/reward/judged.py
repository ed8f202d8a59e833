"""The input of a reward component, and its contribution to a reward."""

from collections.abc import Sequence
from dataclasses import dataclass

from upsolve.types import Attempt, Group, Task, Turn, Verdict

__all__ = ["Judged", "Part", "conversations", "group_of", "turns_of"]


@dataclass(frozen=True, slots=True)
class Judged:
    """An attempt with its verdict: the input of every component."""

    task: Task
    """The task."""
    attempt: Attempt
    """The attempt."""
    verdict: Verdict
    """The attempt's verdict; its status is not ``UNSCORED``."""
    baseline_seconds: float | None = None
    """Processor time that the attempt's ``cpu_seconds`` is compared with, seconds, > 0; None if unknown."""
    passed: tuple[str, ...] = ()
    """Programs of its group that passed; () where only the attempt itself is read."""


@dataclass(frozen=True, slots=True)
class Part:
    """One term of a reward."""

    name: str
    """Name of the component; ``truncated`` or ``hacked`` where a rule sets the whole reward."""
    value: float
    """Value of the component, unweighted."""
    weight: float
    """Weight of the term: a reward is the sum of weight times value."""


def group_of(group: Group, indices: Sequence[int]) -> Group:
    """Return a group of some of the attempts."""
    return Group(
        group.task,
        tuple(group.attempts[i] for i in indices),
        tuple(group.verdicts[i] for i in indices),
        tuple(group.label_right[i] for i in indices) if group.label_right else (),
        tuple(group.turns[i] for i in indices) if group.turns else (),
    )


def turns_of(group: Group, index: int) -> tuple[Turn, ...]:
    """Return the earlier attempts that the prompt of an attempt shows."""
    return group.turns[index] if group.turns else ()


def conversations(group: Group) -> list[list[int]]:
    """Return lists of indices of the attempts with the same earlier turns, and so the same prompt, in order of first appearance."""
    same_turns: dict[tuple[str, ...], list[int]] = {}
    for index in range(len(group.attempts)):
        same_turns.setdefault(tuple(turn.attempt.attempt_id for turn in turns_of(group, index)), []).append(index)
    return [*same_turns.values()]
