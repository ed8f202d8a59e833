"""The parts a reward is made of, each with its range."""

from collections.abc import Mapping

from upsolve.types import Status, Verdict

__all__ = ["fraction_passed", "outcome"]


def outcome(verdict: Verdict, table: Mapping[Status, float]) -> float | None:
    """Return the table's value for the verdict's status, or None where it has none or the attempt is unscored.

    The default table (2605.28409, CodeNet): passed 1.0, failed -0.1, timeout -0.5, runtime error -0.6, compile error -1.0;
    memory and output limit -0.5 are our choice, the source is silent.
    """
    return None if verdict.status is Status.UNSCORED else table.get(verdict.status)


def fraction_passed(verdict: Verdict) -> float | None:
    """Return passed / total in [0, 1], or None when unscored or when the tests were not counted."""
    if verdict.status is Status.UNSCORED or verdict.total == 0:
        return None
    return verdict.passed / verdict.total
