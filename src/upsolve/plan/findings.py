"""The records of a plan, one for each question that it answers, and the sentence of advice that follows from them."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from upsolve.advantage.table import NEEDED, Needs
from upsolve.config.online import UNSOLVED
from upsolve.errors import counted
from upsolve.evaluate.intervals import Estimate, share_interval

__all__ = [
    "FEW_GROUPS",
    "BasePass",
    "Cost",
    "Groups",
    "Leaks",
    "Likelihood",
    "Noise",
    "Plan",
    "Share",
    "Tests",
    "checks_of",
    "deciding",
    "share",
]


@dataclass(frozen=True, slots=True)
class Share:
    """A proportion of a sample with its 95 % interval."""

    count: int
    """Number of members counted, 0..of."""
    of: int
    """Size of the sample, >= 0."""
    low: float
    """Lower end of the interval, in [0, 1]; 0 for an empty sample."""
    high: float
    """Upper end of the interval, in [0, 1]; 1 for an empty sample."""

    @property
    def value(self) -> float:
        """Return count / of; nan for an empty sample."""
        return self.count / self.of if self.of else math.nan


def share(count: int, of: int) -> Share:
    """Return the share count / of with its 95 % interval, which is accurate even near 0 and 1."""
    return Share(count, of, *share_interval(count, of))


@dataclass(frozen=True, slots=True)
class Groups:
    """Counts of tasks, groups and attempts that the recipe can train on."""

    tasks: int
    """Tasks of the archive."""
    attempts: int
    """Distinct attempts of the archive."""
    training_tasks: int
    """Tasks of the training split."""
    mixed: int
    """Training tasks whose attempts, after the recipe's filters, include a passed and a failed one."""
    others: Mapping[str, int]
    """Training tasks without such a group, by reason."""
    left_out: Mapping[str, int]
    """Attempts of training tasks without a reward, by reason."""
    passing: int = 0
    """Training tasks that have a passed attempt after the recipe's filters: imitation trains on these tasks."""


@dataclass(frozen=True, slots=True)
class Tests:
    """Number and strength of the tests."""

    __test__ = False  # not a pytest class

    fewest: int
    """Smallest number of tests of a task."""
    median: float
    """Median of tests per task."""
    most: int
    """Largest number of tests of a task."""
    discerning: Share
    """Share of the tasks with tests and a scored attempt whose tests fail at least one attempt."""
    visible: Share
    """Share of the attempts that pass every visible test but fail a hidden one."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Agreement of recorded verdicts with fresh ones, on a random sample of attempts."""

    agreement: Share
    """Attempts that passed in both verdicts or in neither, as a share of those scored in both."""
    false_passes: int
    """Attempts that passed by the recorded verdict only."""
    false_failures: int
    """Attempts that passed by the fresh verdict only."""
    unscored: int
    """Attempts whose fresh verdict is unscored; they do not count in ``agreement``."""


@dataclass(frozen=True, slots=True)
class Leaks:
    """Tasks to measure on that have a near-duplicate among the training and dev tasks."""

    counts: Mapping[str, int]
    """Number of tasks with a near-duplicate, by name of the task set: the test split, or a benchmark."""
    sizes: Mapping[str, int]
    """Number of tasks of each task set."""
    examples: tuple[str, ...]
    """Some pairs of near-duplicates, with what they share."""
    ignored_split: bool = False
    """Whether every task records its split (``split`` of ``Task.extra``) and the recipe splits in another way."""


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Likelihood of attempts under the model: mean log-probability per token, nats, averaged over attempts, with 95 % intervals."""

    passed: Estimate | None
    """Attempts that passed; None without any."""
    failed: Estimate | None
    """Attempts that did not pass; None without any."""
    own: Estimate | None
    """The model's own samples at temperature 1; None if no sample has a token."""
    by_model: Share
    """Share of the attempts whose author is the model."""


@dataclass(frozen=True, slots=True)
class BasePass:
    """Pass rates of the model before training, on the tasks of one difficulty or on all."""

    difficulty: str
    """Difficulty of the tasks; ``all`` for all tasks."""
    tasks: int
    """Number of sampled tasks."""
    greedy: Share
    """Share of the scored greedy answers that passed."""
    sampled: Share
    """Share of the scored samples at temperature 1 that passed, with the interval over tasks."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Estimated memory and time of a run of the recipe on this machine."""

    peak_bytes: int
    """Peak memory of one process, bytes."""
    available_bytes: int
    """Free memory of this machine or its GPU, bytes."""
    score_tokens_per_second: float
    """Measured speed of forward passes."""
    sample_tokens_per_second: float
    """Measured speed of sampling; nan if nothing was sampled."""
    training_tokens: int
    """Tokens of all training steps, each with one forward and one backward pass."""
    training_seconds: float
    """Three times the time of a forward pass over the training tokens, because a backward pass costs as much as two forward passes."""
    rollout_seconds: float
    """Time of sampling during training; 0 offline."""
    evaluation_seconds: float
    """Time of sampling for the evaluations before and after training."""
    steps: int = 0
    """Optimizer steps; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class Check:
    """Measurement and threshold of one rule of the advice."""

    rule: str
    """Name of the rule's function."""
    name: str
    """Name of the measured quantity."""
    measured: str
    """The value, with its unit."""
    threshold: str
    """The values for which the rule gives no advice."""
    holds: bool
    """Whether the value is within the threshold."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan: contents of an archive, its effect on a model, cost of a run, and one sentence of advice."""

    archive: str
    """Folder of the archive."""
    model: str
    """Name or folder of the model; empty if only the archive was examined."""
    online: bool
    """True if the recipe samples the policy during training."""
    imitates: bool
    """True if the recipe trains only on passed attempts."""
    needs: Needs
    """Attempts that a group must have for the recipe's estimator (``Advantage.needs``)."""
    groups: Groups
    tests: Tests
    noise: Noise
    leaks: Leaks
    likelihood: Likelihood | None
    base: tuple[BasePass, ...]
    """One record for each difficulty, then one for all tasks; () without a model."""
    cost: Cost | None
    advice: str
    """One sentence, by rule (docs/plan.md)."""
    warnings: tuple[str, ...] = ()
    """Reasons why a run would be inconclusive: few tasks to measure on, few dev tasks, few optimizer steps."""
    rule: str = ""
    """Name of the rule that decided the advice; ``worth_it`` if no other applies."""
    checks: tuple[Check, ...] = ()
    """Measured values and thresholds of the rules that could be applied, in their order."""

    @property
    def usable(self) -> int:
        """Number of training tasks that offline training can use: those with ``needed``."""
        groups = self.groups
        empty = sum(count for reason, count in groups.others.items() if reason in ("no attempt", "no scored attempt"))
        return {
            "contrast": groups.mixed,
            "pass": max(groups.passing, groups.mixed),
            "attempt": groups.training_tasks - empty,
        }[self.needs]

    @property
    def needed(self) -> str:
        """Requirement for training on a group, in words."""
        return NEEDED[self.needs]

    @property
    def lacking(self) -> str:
        """Most frequent reason for tasks without the attempts that the estimator needs; "" if none lacks them."""
        return next((name for name in self.groups.others if not name.startswith(SUFFICE[self.needs])), "")


HELD = 0.95
"""Recorded verdicts count as noisy if the upper end of the interval of their agreement with fresh verdicts is below this share."""
FEW_GROUPS = 30
"""Smallest number of groups with a passed and a failed attempt (for imitation: with a passed one) for offline training."""
SUFFICE: Mapping[Needs, tuple[str, ...]] = {
    "contrast": (),
    "pass": ("all passed", "fewer than"),
    "attempt": ("all passed", "fewer than", "all failed", "one attempt"),
}
"""Beginnings of the reasons for tasks without both outcomes that still have the attempts that the estimator needs."""
LEAKED = 0.02
"""Share of test tasks with a near-duplicate in training above which a measured gain is partly memorisation."""
SOLVED = 0.9
"""Greedy pass rate above which there is little left to learn."""
UNLIKE = 0.5
"""Difference, nats per token, by which passed attempts must be less likely than the model's samples to count as unlike them."""
GAP = 0.1
"""Difference of the pass rates of greedy decoding and of temperature 1 above which a sharper distribution alone would be a gain."""
REMEDIES = {
    "no attempt": "sample some (`upsolve sample`) and judge them (`upsolve verify`)",
    "no scored attempt": "judge the archive (`upsolve verify`)",
    "no tests": "attempts cannot be judged without tests, so add some, or ingest the attempts with recorded outcomes",
    "one attempt": "sample more attempts per task (`upsolve sample`)",
    "all passed": "add harder tasks or stricter tests",
    "all failed": "add easier tasks, or attempts by a stronger author, or imitate these first (`upsolve train unsolved`)",
}


Reading = tuple[str, str, str]
"""Measurement of a rule: name, value and threshold, in words."""
Ruling = tuple[Reading | None, str]
"""Measurement of a rule (None if unknown, or not needed for the recipe), and its advice ("" if the rule does not apply)."""
NOTHING: Ruling = (None, "")


def deciding(plan: Plan) -> tuple[str, str]:
    """Return name and advice of the first rule that applies; ``worth_it`` if no rule does."""
    advised = ((rule.__name__, rule(plan)[1]) for rule in RULES)
    return next(((name, advice) for name, advice in advised if advice), (worth_it.__name__, worth_it(plan)))


def checks_of(plan: Plan) -> tuple[Check, ...]:
    """Return the measurement and threshold of each rule whose value is known."""
    rulings = [(rule.__name__, *rule(plan)) for rule in RULES]
    return tuple(Check(name, *reading, not advice) for name, reading, advice in rulings if reading)


def noisy(plan: Plan) -> Ruling:
    """Rule on the agreement of recorded verdicts with fresh ones."""
    found = plan.noise.agreement
    if not found.of:
        return NOTHING
    measured = f"{found.count} of {found.of}, at most {found.high:.0%}"
    reading = ("recorded verdicts that hold", measured, f"{HELD:.0%} is possible")
    if found.high >= HELD:
        return reading, ""
    return reading, (
        f"Judge the archive again before training (`upsolve verify {plan.archive} --all`, data.judge: upsolve): only "
        f"{found.count} of {found.of} recorded verdicts hold, where {HELD:.0%} should."
    )


def scarce(plan: Plan) -> Ruling:
    """Rule on the number of groups for offline training."""
    groups = plan.groups
    if plan.online:
        return NOTHING
    name = f"training tasks with {plan.needed}"
    reading = (name, f"{plan.usable:,} of {groups.training_tasks:,}", f"at least {FEW_GROUPS}")
    if plan.usable >= FEW_GROUPS:
        return reading, ""
    remedy = REMEDIES.get(plan.lacking, "add tasks and attempts")
    most_often = f" (most often: {plan.lacking})" if plan.lacking else ""
    return reading, (
        f"Do not train on it yet: {plan.usable} of {groups.training_tasks} training tasks have {plan.needed}{most_often}, "
        f"and {FEW_GROUPS} are needed; {remedy}."
    )


def leaking(plan: Plan) -> Ruling:
    """Rule on the share of test tasks with a near-duplicate in training, for the task set with the highest share."""
    counts, sizes = plan.leaks.counts, plan.leaks.sizes
    worst = max(counts, key=lambda name: counts[name] / max(1, sizes[name]))
    count, size = counts[worst], sizes[worst]
    if not size:
        return NOTHING
    reading = (
        f"tasks of {worst} that are nearly a training task",
        f"{count} of {size}: {count / size:.0%}",
        f"at most {LEAKED:.0%}",
    )
    if count <= LEAKED * size:
        return reading, ""
    return reading, (
        f"Remove near-duplicates before training: {count} of {size} tasks of {worst} are nearly the same as a "
        f"training task (at most {LEAKED:.0%} may be), so a gain there would be partly memorisation."
    )


def too_large(plan: Plan) -> Ruling:
    """Rule on the memory of a run."""
    if plan.cost is None:
        return NOTHING
    needed, free = plan.cost.peak_bytes / 2**30, plan.cost.available_bytes / 2**30
    reading = ("memory", f"{needed:.1f} GiB", f"at most {free:.1f} GiB")
    if needed <= free:
        return reading, ""
    return reading, (
        f"It does not fit: {needed:.1f} GiB are needed and {free:.1f} are free; lower "
        "optim.tokens_per_batch, set model.lora_rank, or shard the run (model.shard)."
    )


def solved(plan: Plan) -> Ruling:
    """Rule on the greedy pass rate: the model should not pass nearly all tasks already."""
    found = plan.base[-1].greedy if plan.base else share(0, 0)
    if not found.of:
        return NOTHING
    reading = ("tasks passed greedily", f"{found.count} of {found.of}: {found.value:.0%}", f"below {SOLVED:.0%}")
    if found.value < SOLVED:
        return reading, ""
    return reading, (
        f"Add harder tasks: the model passes {found.count} of {found.of} of these greedily ({SOLVED:.0%} or more), so there is "
        "little left to learn."
    )


def passes_none(plan: Plan) -> bool:
    """Return whether tasks were sampled, and the model passed none of them."""
    shares = (plan.base[-1].greedy, plan.base[-1].sampled) if plan.base else ()
    return bool(shares) and all(share.of and not share.count for share in shares)


def unable(plan: Plan) -> Ruling:
    """Rule on the answers that passed, for recipes that do not imitate."""
    if plan.imitates or not plan.base:
        return NOTHING
    greedy, sampled = plan.base[-1].greedy, plan.base[-1].sampled
    measured = f"{greedy.count} of {greedy.of}, {sampled.count} of {sampled.of}"
    reading = ("greedy answers and samples that passed", measured, "at least 1")
    if not passes_none(plan):
        return reading, ""
    return reading, (
        f"Imitate first (`--recipe sft`): the model passes none of {greedy.of} tasks, greedily or in {sampled.of} samples, and has to see "
        "programs that pass before it can gain from the difference between passed and failed ones."
    )


def failed_alone(plan: Plan) -> Ruling:
    """Rule on tasks with only failed attempts, for recipes that imitate and a model that passes no task."""
    if not plan.imitates or not plan.base:
        return NOTHING
    failed, name = plan.groups.others.get("all failed", 0), "training tasks with failed attempts alone"
    limit = f"below {UNSOLVED} for each with a passed one" + ("" if passes_none(plan) else ", or the model passes some")
    reading = (name, f"{failed:,} beside {plan.usable:,} with a passed one", limit)
    if not passes_none(plan) or failed < UNSOLVED * plan.usable:
        return reading, ""
    return reading, (
        f"Imitate the failed attempts first (`upsolve train unsolved --archive {plan.archive}`), then the passed ones from its model: "
        f"{failed:,} training tasks have failed attempts alone, {plan.usable:,} a passed one ({UNSOLVED} times as many, or more), and the model passes none."
    )


def gap(plan: Plan) -> float:
    """Return by how many nats per token passed attempts are less likely than the model's own samples; nan if unknown."""
    found = plan.likelihood
    return found.own.mean - found.passed.mean if found and found.passed and found.own else math.nan


def sharper(plan: Plan) -> Ruling:
    """Rule on greedy decoding that passes far more often than temperature 1, for attempts that are like the model's own samples."""
    if not plan.base or math.isnan(gap(plan)):
        return NOTHING
    greedy, sampled = plan.base[-1].greedy.value, plan.base[-1].sampled.value
    if math.isnan(greedy - sampled):
        return NOTHING
    limit = f"below {100 * GAP:.0f} points, or attempts more than {UNLIKE} nats per token below own samples"
    reading = ("greedy pass rate above that of temperature 1", f"{100 * (greedy - sampled):.0f} points", limit)
    if gap(plan) > UNLIKE or greedy - sampled < GAP:
        return reading, ""
    return reading, (
        "Train beside the control without verdicts (`upsolve run ssd`): the attempts are as likely as the model's own samples, and greedy "
        f"decoding passes {greedy:.0%} where temperature 1 passes {sampled:.0%} ({100 * GAP:.0f} points less, or more), so the model may become sharper, not more capable."
    )


def unlike(plan: Plan) -> Ruling:
    """Rule on how much less likely attempts are than the model's own samples, for recipes that do not imitate."""
    found = plan.likelihood
    if plan.imitates or not (found and found.passed and found.own):
        return NOTHING
    reading = ("passed attempts below the model's own samples", f"{gap(plan):.2f} nats per token", f"at most {UNLIKE}")
    if gap(plan) <= UNLIKE:
        return reading, ""
    return reading, (
        f"Imitate first (`--recipe sft`): passed attempts have {found.passed.mean:.2f} nats per token under the model and its "
        f"own samples {found.own.mean:.2f} (more than {UNLIKE} apart), so they differ from its samples and can teach it something new."
    )


def worth_it(plan: Plan) -> str:
    """Return the advice if no other rule applies: train."""
    groups = f"{plan.usable} groups with {plan.needed}"
    measured = "" if plan.tests.most else " None of its tasks has tests, so measure on others (evaluate.archives)."
    if plan.cost is None:
        return f"The archive passes all checks: {groups}. Name a --model to check whether it can learn from them.{measured}"
    seconds = plan.cost.training_seconds + plan.cost.rollout_seconds + plan.cost.evaluation_seconds
    minutes = 0 if math.isnan(seconds) else max(1, round(seconds / 60))
    time = "an unknown time" if not minutes else f"about {counted(minutes, 'minute')} with both evaluations"
    return f"Train: {groups}, {time} and {plan.cost.peak_bytes / 2**30:.1f} GiB of memory.{measured}"


RULES: tuple[Callable[[Plan], Ruling], ...] = (noisy, scarce, leaking, too_large, solved, unable, failed_alone, sharper, unlike)
"""The rules in their order; ``worth_it`` follows if no rule applies."""
