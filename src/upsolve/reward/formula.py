"""Groups -> rewards: a weighted sum of components. Attempts without a value are left out and counted."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upsolve.archive.preference import OUTCOME_FINDINGS
from upsolve.config import RewardConfig
from upsolve.errors import ConfigError
from upsolve.plugins import RecordError, find, reraise
from upsolve.reward.components import Component, answer_format, seconds_of
from upsolve.reward.credit import RULES
from upsolve.reward.hacks import hacks
from upsolve.reward.judged import Judged, Part, group_of
from upsolve.types import Attempt, Group, Status, Task, Verdict, content_id, is_scored

__all__ = ["Rewarded", "analyses_needed", "check_rewards", "reference_seconds", "reward"]

IN_PROCESS = "in_process"
"""Label of a verdict that the attempt's own process could have forged (docs/threat-model.md)."""
TRUNCATED = "truncated"
CONTROL = "control run, verdicts"
"""Prefix of the name under which ``Rewarded.flagged`` counts the replaced verdicts of a control run."""
Terms = Mapping[str, tuple[Component, float]]
"""Components with their weights, by name."""


def controlled(group: Group, config: RewardConfig) -> Group:
    """Return a group with its verdicts replaced according to ``reward.verdicts``; unjudged and unscored attempts stay so.

    ``shuffled``: outcomes (status, tests passed, points, error) are permuted among the group's scored attempts, by
    ``reward.verdicts_seed`` and the task. ``inverted``: attempts that passed now fail all tests, all others pass. ``ignored``:
    all pass. ``format``: attempts in the requested format (``answer_format``) that compile pass, all others are compile errors.
    Executed lines, the line of the error, and findings about the run of an attempt are removed; findings of analyses and times
    stay.
    """
    if config.verdicts == "as_judged":
        return group
    scored = [(i, v) for i, v in enumerate(group.verdicts) if is_scored(v)]
    if config.verdicts == "shuffled":
        seed = int(content_id(str(config.verdicts_seed), group.task.task_id), 16)
        outcomes = [scored[index][1] for index in np.random.default_rng(seed).permutation(len(scored))]
    else:
        outcomes = [outcome_of(config.verdicts, group.task, group.attempts[i], verdict) for i, verdict in scored]
    verdicts = [*group.verdicts]
    for (i, own), outcome in zip(scored, outcomes, strict=True):
        verdicts[i] = with_outcome(own, outcome, config.verdicts)
    return replace(group, verdicts=tuple(verdicts))


def outcome_of(kind: str, task: Task, attempt: Attempt, verdict: Verdict) -> Verdict:
    """Return a verdict with the outcome that a control assigns to an attempt."""
    passes = {
        "ignored": True,
        "inverted": verdict.status is not Status.PASSED,
        "format": verdict.status is not Status.COMPILE_ERROR and answer_format(attempt, task) == 0,
    }[kind]
    status = Status.PASSED if passes else Status.COMPILE_ERROR if kind == "format" else Status.FAILED
    counts = {"passed": verdict.total if passes else 0, "outcomes": (status,) * len(verdict.outcomes)}
    return replace(verdict, status=status, error_type="", error_message="", findings=(), **counts)


def with_outcome(own: Verdict, outcome: Verdict, kind: str) -> Verdict:
    """Return a verdict with the outcome of another verdict."""
    taken = ("status", "passed", "total", "outcomes", "error_type", "error_message")
    changes: dict[str, Any] = {name: getattr(outcome, name) for name in taken}
    about_code = (finding for finding in own.findings if finding.kind not in OUTCOME_FINDINGS)
    findings = (*about_code, *(finding for finding in outcome.findings if finding.kind == "points"))
    return replace(own, **changes, error_line=None, executed_lines=None, findings=findings, judge=f"{kind}:{own.judge}")


@dataclass(frozen=True, slots=True)
class Rewarded:
    """A group in which every attempt has a reward."""

    group: Group
    """The G attempts that have a reward, in their original order."""
    rewards_G: NDArray[np.float64]
    """float64 [G], rewards of the attempts, finite."""
    parts: tuple[tuple[Part, ...], ...]
    """Terms of each attempt's reward, [G]."""
    left_out: Counter[str]
    """Attempts left out, by reason."""
    flagged: Counter[str]
    """Scored attempts that are truncated (``truncated``) or that a detector flags (its name), whether left out or not."""
    weights_G: NDArray[np.float64] | None = None
    """float64 [G], factors of the advantages (``select.weight``); None: 1."""

    @property
    def passed(self) -> NDArray[np.bool_]:
        """bool [G]: which attempts passed (``has_passed``)."""
        return np.array([*map(self.has_passed, range(len(self.parts)))], dtype=np.bool_)

    def has_passed(self, index: int) -> bool:
        """Return whether an attempt passed; not if a rule for truncated or hacked attempts has set its reward."""
        verdict = self.group.verdicts[index]
        ruled = any(part.name in RULES for part in self.parts[index])
        return verdict is not None and verdict.status is Status.PASSED and not ruled

    def part(self, indices: Sequence[int]) -> "Rewarded":
        """Return a group of the attempts at these indices, with their rewards and weights; it counts nothing as left out."""
        chosen = [*indices]
        return Rewarded(
            group_of(self.group, chosen),
            self.rewards_G[chosen],
            tuple(self.parts[i] for i in chosen),
            Counter(),
            Counter(),
            None if self.weights_G is None else self.weights_G[chosen],
        )


def reward(group: Group, config: RewardConfig, baselines: Mapping[str, float] | None = None) -> Rewarded:
    """Return r_i = sum over components k of w_k v_k(i) for each judged attempt i of a group.

    Attempts that are unjudged, unscored or lack data for a component are left out and counted; their reward is not 0. The rules for
    truncated and hacked attempts (``config.truncated``, ``config.hacked``) take precedence over the components. In a control run
    (``config.verdicts``) the judge's verdicts are replaced, also in the returned group.

    Args:
        group: judged attempts at one task.
        config: components, weights and rules.
        baselines: processor times of references by their code, seconds (``reference_seconds``), for ``efficiency: reference``.

    Raises:
        RecordError: a component or detector raised an exception, or a component's value is not finite or outside its range.
    """
    group = controlled(group, config)
    scored_indices: list[int] = []
    parts: list[tuple[Part, ...]] = []
    left_out: Counter[str] = Counter()
    flagged: Counter[str] = Counter()
    if config.verdicts != "as_judged":
        flagged[f"{CONTROL} {config.verdicts}"] = sum(map(is_scored, group.verdicts))
    terms: Terms = {name: (find("component", name), weight) for name, weight in config.components.items()}
    baseline = baseline_seconds(group, config.efficiency, baselines or {}) if "efficiency" in config.read else None
    exact = measures_cost(group)
    ruled: list[tuple[int, Judged, tuple[Part, ...] | str]] = []
    for index in range(len(group.attempts)):
        if (verdict := group.verdicts[index]) is None or verdict.status is Status.UNSCORED:
            left_out[f"no reward for {verdict.status}" if verdict and not verdict.is_score else "not judged"] += 1
            continue
        judged = Judged(group.task, group.attempts[index], verdict, baseline if verdict.has_cost == exact else None)
        if config.in_process == "drop" and IN_PROCESS in verdict.isolation.split(","):
            left_out["tests ran in the attempt's own process"] += 1
            continue
        flags = ((TRUNCATED,) if judged.attempt.truncated else ()) + hacks(judged.attempt, judged.task, config.detectors)
        flagged.update(flags)
        ruled.append((index, judged, rule_parts(flags, config)))
    shared = group_values([judged for _, judged, rule in ruled if not rule], terms, config)
    for index, judged, rule in ruled:
        terms_or_reason = rule or component_parts(judged, terms, config, {name: next(of) for name, of in shared.items()})
        if isinstance(terms_or_reason, str):
            left_out[terms_or_reason] += 1
        else:
            scored_indices.append(index)
            parts.append(terms_or_reason)
    scored = group_of(group, scored_indices)
    values = [math.fsum(part.weight * part.value for part in attempt_parts) for attempt_parts in parts]
    return Rewarded(scored, np.array(values, dtype=np.float64), tuple(parts), left_out, flagged)


def analyses_needed(config: RewardConfig) -> tuple[str, ...]:
    """Return the analyses that the components of a recipe read, sorted."""
    return tuple(sorted({find("component", name).analysis for name in config.read} - {""}))


def baseline_seconds(group: Group, against: str, baselines: Mapping[str, float]) -> float | None:
    """Return the processor time that ``efficiency`` compares with: the median of the passed attempts, or the reference's; None:
    unknown."""
    if against == "reference":
        return baselines.get(group.task.reference)
    exact = measures_cost(group)
    seconds = [seconds_of(each, exact=exact) for each in passed_seconds(group.verdicts, exact=exact)]
    return float(np.median(seconds)) if seconds else None


def passed_seconds(verdicts: Iterable[Verdict | None], *, exact: bool) -> list[float]:
    """Return the processor times of attempts that passed: those measured as a cost in rounds if ``exact``, else all others."""
    passed = [verdict for verdict in verdicts if verdict is not None and verdict.status is Status.PASSED]
    return [one.cpu_seconds for one in passed if one.cpu_seconds is not None and one.has_cost == exact]


def measures_cost(group: Group) -> bool:
    """Return whether the cost of an attempt of the group was measured in rounds; only costs are then compared."""
    return any(verdict is not None and verdict.has_cost for verdict in group.verdicts)


def check_rewards(groups: Iterable[Group], config: RewardConfig, baselines: Mapping[str, float] | None = None) -> None:
    """Check that at least one passed attempt has a reward; otherwise ConfigError names the missing data and the command that adds it."""
    left_out: Counter[str] = Counter()
    for group in groups:
        scored = reward(group, config, baselines)
        if scored.passed.any():
            return
        left_out += scored.left_out
    if left_out:
        reasons = "; ".join(f"{reason}: {count} attempts" for reason, count in left_out.most_common(3))
        fix = "; judge them first: `upsolve verify ARCHIVE`" if "not judged" in left_out else ""
        raise ConfigError(f"reward: no passed attempt of the archive has a reward. {reasons}{fix}")


def rule_parts(flags: tuple[str, ...], config: RewardConfig) -> tuple[Part, ...] | str:
    """Return the reward that a rule sets, or the reason (str) for which a rule leaves the attempt out; "" if no rule applies."""
    caught = ", ".join(flag for flag in flags if flag != TRUNCATED)
    rules = (
        (TRUNCATED in flags, config.truncated, TRUNCATED, TRUNCATED),
        (caught, config.hacked, "hacked", f"hacked: {caught}"),
    )
    for applies, rule, name, reason in rules:
        if applies and rule == "drop":
            return reason
        if applies and not isinstance(rule, str):
            return (Part(name, rule, 1.0),)
    return ""


def group_values(members: Sequence[Judged], terms: Terms, config: RewardConfig) -> Mapping[str, Iterator[float | None]]:
    """Return the values of each component that reads the whole group, for its members in their order."""
    found: dict[str, Iterator[float | None]] = {}
    for name, (component, _) in terms.items():
        if component.group and members:
            try:
                values = [*component.values_of(members, config)]
            except Exception as error:
                reraise("component", name, error)
            if len(values) != len(members):
                raise RecordError(f"component {name}: {len(values)} values for the {len(members)} attempts of a group")
            found[name] = iter(values)
    return found


def component_parts(
    judged: Judged, terms: Terms, config: RewardConfig, shared: Mapping[str, float | None]
) -> tuple[Part, ...] | str:
    """Return the terms of a reward, or the reason (str) why a term has no value; ``shared``: values of components with ``group``."""
    parts: list[Part] = []
    for name, (component, weight) in terms.items():
        try:
            value = shared[name] if component.group else component.value_of(judged, config)
            if value is None:
                return component.why_missing(name, judged.verdict.status)
            fits = math.isfinite(value) and component.low <= value <= component.high
        except Exception as error:
            reraise("component", name, error)
        if not fits:
            raise RecordError(f"component {name}: value {value} is outside of its range [{component.low}, {component.high}]")
        parts.append(Part(name, value, weight))
    return tuple(parts)


Judge = Callable[[Sequence[tuple[Task, Attempt]]], Sequence[Verdict]]
"""The judge of a run: (task, attempt) pairs -> their verdicts, in order."""


def reference_seconds(groups: Sequence[Group], config: RewardConfig, judge: Judge) -> Mapping[str, float]:
    """Return the processor time of each task's reference by its code, seconds; {} if the recipe's rewards do not read it.

    The time of a reference is the median over the group's passed attempts with the same code. References without such attempts
    are judged, once each. A task without a reference, or whose reference does not pass, is missing in the result.
    """
    if config.efficiency != "reference" or "efficiency" not in config.read:
        return {}
    recorded = {group.task.reference: times for group in groups if (times := recorded_seconds(group))}
    tasks = {task.reference: task for group in groups if (task := group.task).reference.strip()}
    exact = {group.task.reference for group in groups if measures_cost(group)}
    pairs = [
        (task, Attempt(task.task_id, code, task.language or "python", "reference"))
        for code, task in tasks.items()
        if code not in recorded
    ]
    verdicts = judge(pairs) if pairs else ()
    for (task, _), verdict in zip(pairs, verdicts, strict=True):
        if seconds := passed_seconds([verdict], exact=task.reference in exact):
            recorded[task.reference] = seconds
    return {code: seconds_of(float(np.median(seconds)), exact=code in exact) for code, seconds in recorded.items()}


def recorded_seconds(group: Group) -> list[float]:
    """Return the processor times of the passed attempts that equal the reference."""
    pairs, reference = zip(group.attempts, group.verdicts, strict=True), group.task.reference.strip()
    equal = [verdict for attempt, verdict in pairs if attempt.code.strip() == reference]
    return passed_seconds(equal, exact=measures_cost(group))
