"""The attempts that an attempt repairs, as earlier turns of a conversation."""

from collections.abc import Sequence

from upsolve.types import Attempt, Turn, Verdict

__all__ = ["earlier_turns"]


def earlier_turns(attempts: Sequence[Attempt], verdicts: Sequence[Verdict | None], most: int) -> tuple[tuple[Turn, ...], ...]:
    """Return the last ``most`` ancestors of each attempt at a task, oldest first, with their verdicts.

    Ancestors are found by ``parent_id`` among the given attempts; the chain ends where one is missing, or comes round to an attempt that it
    has already. () for all if no attempt has a parent here.
    """
    turns_of = {a.attempt_id: Turn(a, v) for a, v in zip(reversed(attempts), reversed(verdicts), strict=True)}
    found = tuple(ancestors(attempt, turns_of, most) for attempt in attempts)
    return found if any(found) else ()


def ancestors(attempt: Attempt, turns_of: dict[str, Turn], most: int) -> tuple[Turn, ...]:
    """Return the last ``most`` ancestors of an attempt, oldest first."""
    turns: list[Turn] = []
    seen = {attempt.attempt_id}
    parent = attempt.parent_id
    while len(turns) < most and parent not in seen and (turn := turns_of.get(parent)):
        seen.add(parent)
        turns.append(turn)
        parent = turn.attempt.parent_id
    return tuple(reversed(turns))
