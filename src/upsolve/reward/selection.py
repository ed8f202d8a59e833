"""Selection, weights and order of rewarded groups and attempts, by SQL expressions of a recipe (``select``)."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain
from sqlite3 import Connection
from typing import Any, NamedTuple

import numpy as np

from upsolve.config.select import QUERIES, SelectConfig, selection_table
from upsolve.errors import ConfigError
from upsolve.reward.formula import Rewarded
from upsolve.types import Attempt, Verdict, content_id

__all__ = ["HELD", "Likelihood", "Likelihoods", "Selected", "choose", "fill"]

HELD = 50_000
"""Largest number of attempts in memory while the expressions are evaluated; a small archive has at most as many."""


class Likelihood(NamedTuple):
    """Log-probabilities of an attempt's tokens under a model, nats."""

    mean: float
    """Mean log-probability over tokens."""
    least: float
    """Log-probability of the least likely token."""


OfGroup = Callable[[Rewarded], Any]
"""Computes the value of a column for a group."""
OfAttempt = Callable[[Rewarded, int], Any]
"""Computes the value of a column for an attempt of a group."""
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

    Columns such as ``reward_rank`` and ``passes`` are computed over all rewarded attempts of a group, before ``attempts``
    leaves some out. ``number`` is the round, ``seed`` that of the column ``chance``; ``likelihoods``, under the frozen start,
    is called only if needed.

    Raises:
        ConfigError: the weight of a selected attempt is not a finite number, or an expression fails on a value; names the expression.
    """
    if not config.is_on:
        return Selected(rewarded, Counter())
    try:
        starts = likelihoods(rewarded) if likelihoods and config.reads_start else None
        held = first_of(rewarded)
        answers = evaluate_queries(chain(held, rewarded[len(held) :]), config, number, seed, starts)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    groups = {g for (g,) in answers["groups"]} if config.groups else set(range(len(rewarded)))
    selected = set(answers["attempts"]) if config.attempts else None
    weights = {(g, i): value for g, i, value in answers.get("weight", ())}
    order = [g for (g,) in answers["order"]] if config.order else range(len(rewarded))
    chosen: list[Rewarded] = []
    for g in order:
        if g in groups:
            item = held[g] if g < len(held) else rewarded[g]
            indices = [i for i in range(len(item.rewards_G)) if selected is None or (g, i) in selected]
            # the weight of other attempts may be undefined
            weights_G = np.array([weight_of(weights.get((g, i), 1.0), config.weight) for i in indices], dtype=np.float64)
            left_out = item.left_out + Counter({"select.attempts": len(item.rewards_G) - len(indices)})
            chosen.append(replace(item.part(indices), left_out=left_out, flagged=item.flagged, weights_G=weights_G))
    dropped = len(rewarded) - len(groups)
    return Selected(chosen, Counter({"tasks: select.groups": dropped} if dropped else {}))


def first_of(rewarded: Sequence[Rewarded]) -> list[Rewarded]:
    """Return the first groups, up to ``HELD`` attempts, as a list: each access to a lazy group reads and rewards it again."""
    held: list[Rewarded] = []
    attempts = 0
    for item in rewarded:
        attempts += len(item.group.attempts)
        if attempts > HELD:
            break
        held.append(item)
    return held


def evaluate_queries(
    rewarded: Iterable[Rewarded], config: SelectConfig, number: int, seed: int, starts: Starts
) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows that each expression of a recipe returns, by the name of the expression."""
    with selection_table() as table:
        fill(table, rewarded, config.columns, number=number, seed=seed, starts=starts)
        return {name: config.ask(table, name) for name in QUERIES if getattr(config, name)}


def fill(
    table: Connection, rewarded: Iterable[Rewarded], read: Set[str], *, number: int, seed: int, starts: Starts = None
) -> None:
    """Insert the attempts of groups into a ``selection_table``, with the columns that are read."""
    all_group: dict[str, OfGroup] = {**GROUP, "round": lambda _: number}
    all_attempt: dict[str, OfAttempt] = {**ATTEMPT, "chance": lambda item, i: chance(item.group.attempts[i], number, seed)}
    of_group = {name: get for name, get in all_group.items() if name in read}
    of_attempt = {name: get for name, get in all_attempt.items() if name in read}
    of_start = {name: get for name, get in START.items() if name in read}
    names = ("group_id", "place", *of_group, *of_attempt, *of_start)
    rows = (
        (
            group_id,
            i,
            *shared,
            *(get(item, i) for get in of_attempt.values()),
            *(start and get(start) for get in of_start.values()),
        )
        for group_id, item in enumerate(rewarded)
        for shared in [[get(item) for get in of_group.values()]]
        for i in range(len(item.group.attempts))
        for start in [starts[group_id][i] if starts else None]
    )
    insert = f"INSERT INTO attempts ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608  names of ours
    table.executemany(insert, rows)


def verdict_of(rewarded: Rewarded, i: int) -> Verdict:
    """Return the verdict of an attempt."""
    verdict = rewarded.group.verdicts[i]
    assert verdict is not None, "only judged attempts have rewards"
    return verdict


def pass_rate(rewarded: Rewarded) -> float:
    """Return the share of a group's samples that passed; 0 for an empty group."""
    counts = [attempt.count for attempt in rewarded.group.attempts]
    return float(np.average(rewarded.passed, weights=counts)) if counts else 0.0


def mean_logp(rewarded: Rewarded, i: int) -> float | None:
    """Return the mean log-probability of an attempt's tokens under its author; None: unknown."""
    attempt = rewarded.group.attempts[i]
    return attempt.behavior_logp / attempt.tokens if attempt.behavior_logp is not None and attempt.tokens else None


GROUP: Mapping[str, OfGroup] = {
    "task_id": lambda rewarded: rewarded.group.task.task_id,
    "difficulty": lambda rewarded: rewarded.group.task.difficulty,
    "source": lambda rewarded: rewarded.group.task.source,
    "task_extra": lambda rewarded: rewarded.group.task.extra or None,
    "attempts": lambda rewarded: len(rewarded.group.attempts),
    "passes": lambda rewarded: int(rewarded.passed.sum()),
    "pass_rate": pass_rate,
}
"""Columns that the attempts of a group share."""
ATTEMPT: Mapping[str, OfAttempt] = {
    "author": lambda rewarded, i: rewarded.group.attempts[i].author,
    "created": lambda rewarded, i: rewarded.group.attempts[i].created,
    "count": lambda rewarded, i: rewarded.group.attempts[i].count,
    "length": lambda rewarded, i: len(rewarded.group.attempts[i].code),
    "lines": lambda rewarded, i: len(rewarded.group.attempts[i].code.splitlines()),
    "tokens": lambda rewarded, i: rewarded.group.attempts[i].tokens,
    "truncated": lambda rewarded, i: int(rewarded.group.attempts[i].truncated),
    "entropy": lambda rewarded, i: rewarded.group.attempts[i].entropy,
    "language": lambda rewarded, i: rewarded.group.attempts[i].language,
    "code": lambda rewarded, i: rewarded.group.attempts[i].code.encode("utf-8", "replace").decode(),
    "extra": lambda rewarded, i: rewarded.group.attempts[i].extra or None,
    "logp": mean_logp,
    "label_right": lambda rewarded, i: rewarded.group.label_right[i] if rewarded.group.label_right else None,
    "reward": lambda rewarded, i: float(rewarded.rewards_G[i]),
    "reward_rank": lambda rewarded, i: int((rewarded.rewards_G > float(rewarded.rewards_G[i])).sum()) + 1,
    "status": lambda rewarded, i: verdict_of(rewarded, i).status.value,
    "passed": lambda rewarded, i: int(rewarded.has_passed(i)),
    "tests_passed": lambda rewarded, i: verdict_of(rewarded, i).passed,
    "tests": lambda rewarded, i: verdict_of(rewarded, i).total,
    "cpu_seconds": lambda rewarded, i: verdict_of(rewarded, i).cpu_seconds,
    "has_cost": lambda rewarded, i: int(verdict_of(rewarded, i).has_cost),
    "memory_bytes": lambda rewarded, i: verdict_of(rewarded, i).memory_bytes,
    "findings": lambda rewarded, i: sum(one.kind not in ("score", "points") for one in verdict_of(rewarded, i).findings),
    "scores": lambda rewarded, i: json.dumps(scores) if (scores := verdict_of(rewarded, i).scores) else None,
    "error_type": lambda rewarded, i: verdict_of(rewarded, i).error_type,
}
"""Columns of an attempt; columns that no expression reads stay NULL, since computing all takes as long as the rewards."""
START: Mapping[str, Callable[[Likelihood], Any]] = {
    "start_logp": lambda likelihood: likelihood.mean,
    "start_min_logp": lambda likelihood: likelihood.least,
}
"""Columns of an attempt's likelihood under the frozen start."""


def chance(attempt: Attempt, number: int, seed: int) -> float:
    """Return a pseudo-random number in [0, 1) that depends only on attempt, round and seed."""
    return int(content_id(attempt.attempt_id, str(number), str(seed)), 16) / 16**20


def weight_of(value: Any, expression: str) -> float:
    """Return the value of a weight expression; ConfigError, which names the expression, if that is not a finite number."""
    if not isinstance(value, int | float) or not np.isfinite(value):
        raise ConfigError(
            f"select.weight: {expression!r} is {value!r} for an attempt; the weight must be a finite number (such as ifnull(..., 0))"
        )
    return float(value)
