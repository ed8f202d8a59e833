"""Selection, weights and order of rewarded groups and attempts, by SQL expressions of a recipe (``select``)."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from upsolve.config.select import COLUMNS, QUERIES, SelectConfig, selection_table
from upsolve.errors import ConfigError
from upsolve.reward.formula import Rewarded
from upsolve.reward.judged import group_of
from upsolve.types import Attempt, Status, Task, content_id

__all__ = ["Likelihood", "Likelihoods", "Selected", "choose"]


class Likelihood(NamedTuple):
    """Log-probabilities of an attempt's tokens under a model, nats."""

    mean: float
    """Mean log-probability over tokens."""
    least: float
    """Log-probability of the least likely token."""


Starts = Sequence[Sequence[Likelihood | None]] | None
Likelihoods = Callable[[Sequence[Rewarded]], Sequence[Sequence[Likelihood | None]]]
"""Maps groups to one list per group with one entry per attempt; None: unknown."""


@dataclass(frozen=True, slots=True)
class Selected:
    """Result of a selection."""

    rewarded: Sequence[Rewarded]
    """Selected groups in their new order, each with its selected attempts and their weights."""
    left_out: Counter[str]
    """Groups left out, by reason."""


def choose(
    rewarded: Sequence[Rewarded],
    config: SelectConfig,
    *,
    number: int = 0,
    seed: int = 0,
    likelihoods: Likelihoods | None = None,
) -> Selected:
    """Apply the expressions of a recipe: select groups, select attempts, then compute weights and order.

    Columns such as ``reward_rank`` and ``passes`` are computed over all rewarded attempts of a group, before ``attempts`` leaves some out.

    Args:
        rewarded: groups whose attempts have rewards.
        config: expressions over ``config.select.COLUMNS``.
        number: round or epoch, from 0.
        seed: seed of the column ``chance``.
        likelihoods: computes the likelihoods of attempts under the frozen start; called only if an expression names one of their columns.
            None: they are unknown.

    Raises:
        ConfigError: the weight of a selected attempt is not a finite number, or an expression fails on a value; names the expression.
    """
    if not config.is_on:
        return Selected(rewarded, Counter())
    try:
        starts = likelihoods(rewarded) if likelihoods and config.reads_start else None
        answers = evaluate_queries(rewarded, config, number, seed, starts)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    groups = {g for (g,) in answers["groups"]} if config.groups else set(range(len(rewarded)))
    selected = set(answers["attempts"]) if config.attempts else None
    weights = {(g, i): value for g, i, value in answers.get("weight", ())}
    order = [g for (g,) in answers["order"]] if config.order else range(len(rewarded))
    chosen: list[Rewarded] = []
    for g in order:
        if g in groups:
            item = rewarded[g]  # read and rewarded anew on every access, in archives that do not fit in memory
            indices = [i for i in range(len(item.rewards_G)) if selected is None or (g, i) in selected]
            # only of these: the weight of others may be undefined
            chosen.append(select_attempts(item, indices, [weight_of(weights.get((g, i), 1.0), config.weight) for i in indices]))
    dropped = len(rewarded) - len(groups)
    return Selected(chosen, Counter({"tasks: select.groups": dropped} if dropped else {}))


def evaluate_queries(
    rewarded: Sequence[Rewarded], config: SelectConfig, number: int, seed: int, starts: Starts
) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows that each expression of a recipe returns, by the name of the expression."""
    insert = f"INSERT INTO attempts VALUES ({', '.join(f':{name}' for name in (*COLUMNS, 'place'))})"  # noqa: S608  names of ours
    extra = config.names("extra") or config.names("task_extra")  # of many attempts they are large
    draws = config.names("chance")
    with selection_table() as table:
        for group_id, item in enumerate(rewarded):
            shared = group_columns(item) | {"group_id": group_id, "round": number}
            for i, attempt in enumerate(item.group.attempts):
                row = (
                    shared
                    | attempt_columns(item, i)
                    | extra_columns(item.group.task, attempt if extra else None)
                    | start_columns(starts[group_id][i] if starts else None)
                    | {"place": i, "chance": chance(attempt, number, seed) if draws else None}
                )
                table.execute(insert, row)
        return {name: config.ask(table, name) for name in QUERIES if getattr(config, name)}


def extra_columns(task: Task, attempt: Attempt | None) -> dict[str, Any]:
    """Return the columns with what an import did not know; NULL if no attempt is given."""
    return {"extra": attempt and (attempt.extra or None), "task_extra": attempt and (task.extra or None)}


def start_columns(likelihood: Likelihood | None) -> dict[str, Any]:
    """Return the columns with an attempt's likelihood under the frozen start."""
    return {"start_logp": likelihood and likelihood.mean, "start_min_logp": likelihood and likelihood.least}


def group_columns(rewarded: Rewarded) -> dict[str, Any]:
    """Return the columns that the attempts of a group share."""
    task, counts = rewarded.group.task, [attempt.count for attempt in rewarded.group.attempts]
    passed = [verdict is not None and verdict.status is Status.PASSED for verdict in rewarded.group.verdicts]
    return {
        "task_id": task.task_id,
        "difficulty": task.difficulty,
        "source": task.source,
        "attempts": len(counts),
        "passes": sum(passed),
        "pass_rate": float(np.average(passed, weights=counts)) if counts else 0.0,
    }


def attempt_columns(rewarded: Rewarded, i: int) -> dict[str, Any]:
    """Return the columns of one attempt."""
    attempt, verdict, reward = rewarded.group.attempts[i], rewarded.group.verdicts[i], float(rewarded.rewards_G[i])
    assert verdict is not None, "only judged attempts have rewards"
    return {
        "author": attempt.author,
        "created": attempt.created,
        "status": verdict.status.value,
        "passed": int(verdict.status is Status.PASSED),
        "tests_passed": verdict.passed,
        "tests": verdict.total,
        "reward": reward,
        "reward_rank": int((rewarded.rewards_G > reward).sum()) + 1,
        "count": attempt.count,
        "length": len(attempt.code),
        "lines": len(attempt.code.splitlines()),
        "tokens": attempt.tokens,
        "truncated": int(attempt.truncated),
        "logp": attempt.behavior_logp / attempt.tokens if attempt.behavior_logp is not None and attempt.tokens else None,
        "entropy": attempt.entropy,
        "cpu_seconds": verdict.cpu_seconds,
        "memory_bytes": verdict.memory_bytes,
        "findings": len(verdict.findings),
        "label_right": rewarded.group.label_right[i] if rewarded.group.label_right else None,
        "error_type": verdict.error_type,
        "language": attempt.language,
    }


def chance(attempt: Attempt, number: int, seed: int) -> float:
    """Return a pseudo-random number in [0, 1) that depends only on attempt, round and seed."""
    return int(content_id(attempt.attempt_id, str(number), str(seed)), 16) / 16**20


def weight_of(value: Any, expression: str) -> float:
    """Return the value of a weight expression as a float.

    Raises:
        ConfigError: the value is not a finite number; names the expression.
    """
    if not isinstance(value, int | float) or not np.isfinite(value):
        raise ConfigError(
            f"select.weight: {expression!r} is {value!r} for an attempt; it must be a finite number (such as ifnull(..., 0))"
        )
    return float(value)


def select_attempts(rewarded: Rewarded, indices: Sequence[int], weights: Sequence[float]) -> Rewarded:
    """Return a group of the attempts at these indices, with their weights; the others are counted in ``left_out``."""
    left_out = rewarded.left_out + Counter({"select.attempts": len(rewarded.rewards_G) - len(indices)})
    return replace(
        rewarded,
        group=group_of(rewarded.group, indices),
        rewards_G=rewarded.rewards_G[list(indices)],
        parts=tuple(rewarded.parts[i] for i in indices),
        left_out=left_out,
        weights_G=np.array(weights, dtype=np.float64),
    )
