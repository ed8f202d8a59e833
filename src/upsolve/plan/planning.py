"""Make a plan: groups, tests, label noise and leaks from the archive alone; then the findings that need the model."""

import random
import statistics
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from upsolve.archive.info import missing_signal
from upsolve.archive.split import Split, find_leaks, recorded_name, split_archive
from upsolve.archive.store import Archive, open_filled
from upsolve.config import AdvantageConfig, DataConfig, ObjectiveConfig, Recipe, RewardConfig, VerifyConfig
from upsolve.config.rules import few_dev_tasks, few_steps, few_tasks
from upsolve.plan.findings import Groups, Leaks, Noise, Plan, Tests, checks_of, deciding, share
from upsolve.reward.formula import reward
from upsolve.suites.grade import grade_group, totals
from upsolve.train.data.groups import passed, select
from upsolve.types import Attempt, Group, OnProgress, Task, is_scored, no_progress
from upsolve.verify.limits import judge_settings
from upsolve.verify.pool.pool import verify

__all__ = ["all_groups", "groups_of", "leaks_of", "noise_of", "plan_archive", "quiet_split", "tests_of"]

SCORED = 6
"""Number of passed attempts, and of failed attempts, whose likelihood is computed."""


def plan_archive(
    recipe: Recipe,
    *,
    with_model: bool = True,
    judged: int = 40,
    tasks: int = 12,
    benchmarks: Mapping[str, Sequence[Task]] | None = None,
    progress: OnProgress = no_progress,
) -> Plan:
    """Estimate whether training will help, and its cost. ``judged``: number of attempts to judge again; ``tasks``: number of tasks to sample."""
    split = quiet_split(open_filled(recipe.data.archive), recipe.data)
    data = recipe.data.model_copy(update={"group_size": recipe.group_attempts})
    plan = Plan(
        archive=recipe.data.archive,
        model="",
        online=recipe.source.rounds > 0,
        imitates=imitates(recipe.advantage, recipe.objective),
        needs=recipe.advantage.record.needs if recipe.objective.record.unit == "attempt" else "contrast",
        groups=groups_of(split, data, recipe.reward),
        tests=tests_of(split),
        noise=noise_of(split, recipe.verify, max_attempts=judged, seed=recipe.seed),
        leaks=leaks_of(split, benchmarks or {}),
        likelihood=None,
        base=(),
        cost=None,
        advice="",
    )
    if with_model:
        plan = ask_model(plan, split, recipe, tasks=tasks, progress=progress)
    dev = sum(bool(task.tests) for task in split.tasks["dev"])
    dev = min(dev, recipe.evaluate.dev_tasks or dev)
    steps = plan.cost.steps if plan.cost else 0
    test = sum(bool(task.tests) for task in split.tasks[recipe.evaluate.split][: recipe.evaluate.tasks or None])
    found = few_tasks(test, recipe.evaluate), few_dev_tasks(dev, recipe.evaluate, recipe.data), few_steps(steps, recipe.optim)
    rule, advice = deciding(plan)
    return replace(plan, advice=advice, rule=rule, checks=checks_of(plan), warnings=tuple(filter(None, found)))


def ask_model(plan: Plan, split: Split, recipe: Recipe, *, tasks: int, progress: OnProgress) -> Plan:
    """Return the plan with the findings that need the model: likelihoods, pass rates, cost."""
    from upsolve.plan.probed import base_of, cost_of, likelihood_of, sample_base, score_attempts, spread_tasks
    from upsolve.policy.engines import make_transformers

    loaded = make_transformers(recipe.sample, recipe.model)
    scores = score_attempts(loaded, split, recipe.data, max_attempts=SCORED)
    samples = sample_base(
        loaded, spread_tasks(split.tasks[recipe.evaluate.split], tasks), recipe.sample, judge=recipe.verify, progress=progress
    )
    return replace(
        plan,
        model=recipe.model.name,
        likelihood=likelihood_of(scores, samples, split, recipe.model.name),
        base=base_of(samples),
        cost=cost_of(loaded, split, recipe, usable=plan.usable, scores=scores, samples=samples),
    )


def imitates(advantage: AdvantageConfig, objective: ObjectiveConfig) -> bool:
    """Return whether a recipe trains only on passed attempts: its estimator selects them, and its objective reads no others."""
    return advantage.record.selects and objective.record.unit == "attempt" and not objective.record.keeps_zero


SHOWN = 3
"""Number of pairs of near-duplicate tasks that a plan shows."""


def quiet_split(archive: Archive, data: DataConfig) -> Split:
    """Return the recipe's split without the warning about leaks, which a plan counts itself."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*too alike")
        return split_archive(archive, data)


def all_groups(split: Split) -> Iterator[Group]:
    """Yield the groups of all splits."""
    return chain.from_iterable(split.groups.values())


def groups_of(split: Split, data: DataConfig, config: RewardConfig) -> Groups:
    """Count the groups that the recipe can form and, by reason, the tasks without such a group."""
    reasons, left_out = Counter[str](), Counter[str]()
    passing = 0
    for group in split.groups["train"]:
        reason, passes = outcomes_of(group, data, config, left_out=left_out)
        reasons[reason] += 1
        passing += passes > 0
    if untried := len(split.tasks["train"]) - len(split.groups["train"]):
        reasons["no attempt"] = untried
    mixed = reasons.pop("", 0)
    return Groups(
        tasks=sum(map(len, split.tasks.values())),
        attempts=sum(len(group.attempts) for group in all_groups(split)),
        training_tasks=len(split.tasks["train"]),
        mixed=mixed,
        others=dict(reasons.most_common()),
        left_out=dict(left_out.most_common()),
        passing=passing,
    )


def outcomes_of(group: Group, data: DataConfig, config: RewardConfig, *, left_out: Counter[str]) -> tuple[str, int]:
    """Return why a task has no group with a passed and a failed attempt ("" if it has one), and its passed attempts; count attempts without a reward."""
    chosen = select(group, data)
    if not group.attempts:
        return "no attempt", 0
    if not chosen.attempts:
        by = "by data.authors " if data.authors else ""
        return f"no attempt {by}in the language of the task", 0
    if not any(map(is_scored, chosen.verdicts)):
        return "no scored attempt" if group.task.tests else "no tests", 0
    rewarded = reward(chosen, config)
    left_out.update(rewarded.left_out)
    passes = rewarded.passed.tolist()
    if not passes:
        return "filtered by reward", 0
    if reason := missing_signal(len(passes), len(passes), sum(passes)):
        return reason, sum(passes)
    few = rewarded.group.occurrences < data.group_size
    return f"fewer than {data.group_size} attempts" if few else "", sum(passes)


def tests_of(split: Split) -> Tests:
    """Count tests per task, the tasks with an attempt that fails the tests, and the wrong attempts that pass all visible tests."""
    counts = [len(task.tests) for tasks in split.tasks.values() for task in tasks] or [0]
    grades = [*map(grade_group, all_groups(split))]
    known = [grade.discerning for grade in grades if grade.totals.tests and grade.discerning is not None]
    all_tasks = totals(grades)
    return Tests(
        min(counts),
        statistics.median(counts),
        max(counts),
        share(sum(known), len(known)),
        share(all_tasks.visible_false, all_tasks.visible_passed),
    )


def scored_attempts(split: Split) -> Iterator[tuple[Task, Attempt, bool]]:
    """Yield (task, attempt, passed) for every scored attempt at a task with tests."""
    for group in all_groups(split):
        for attempt, verdict in zip(group.attempts, group.verdicts, strict=True):
            if is_scored(verdict) and group.task.tests:
                yield group.task, attempt, passed(verdict)


def noise_of(split: Split, config: VerifyConfig, *, max_attempts: int, seed: int) -> Noise:
    """Judge a random sample of scored attempts again, without the cache, and compare passes with the recorded verdicts."""
    count = sum(1 for _ in scored_attempts(split))
    indices = random.Random(seed).sample(range(count), min(max_attempts, count))
    wanted = {*indices}
    items = {index: item for index, item in enumerate(scored_attempts(split)) if index in wanted}
    chosen = [items[index] for index in indices]
    settings = replace(judge_settings(config), cache=None, analyses=(), repeats=1)
    fresh = verify([(task, attempt) for task, attempt, _ in chosen], settings)
    pairs = [(before, passed(verdict)) for (_, _, before), verdict in zip(chosen, fresh, strict=True) if is_scored(verdict)]
    return Noise(
        agreement=share(sum(before == now for before, now in pairs), len(pairs)),
        false_passes=sum(before and not now for before, now in pairs),
        false_failures=sum(now and not before for before, now in pairs),
        unscored=len(chosen) - len(pairs),
    )


def ignores_split(split: Split) -> bool:
    """Return whether every task records its split, and some differ from the recipe's split; without a recorded dev split, dev counts as train."""
    recorded = [(name, recorded_name(task)) for name, tasks in split.tasks.items() for task in tasks]
    names = {own for _, own in recorded}
    return None not in names and any(
        own != ("train" if name == "dev" and name not in names else name) for name, own in recorded
    )


def leaks_of(split: Split, benchmarks: Mapping[str, Sequence[Task]]) -> Leaks:
    """Find tasks of the test split and of benchmarks that have a near-duplicate among the training and dev tasks."""
    training_tasks = [*split.tasks["train"], *split.tasks["dev"]]
    measured = {"test split": split.tasks["test"], **benchmarks}
    leaks_by_set = {name: find_leaks(training_tasks, tasks) for name, tasks in measured.items()}
    examples = [f"{leak.left} and {leak.right} ({leak.reason})" for leaks in leaks_by_set.values() for leak in leaks[:SHOWN]]
    return Leaks(
        counts={name: len({leak.right for leak in leaks}) for name, leaks in leaks_by_set.items()},
        sizes={name: len(tasks) for name, tasks in measured.items()},
        examples=tuple(examples[:SHOWN]),
        ignored_split=ignores_split(split),
    )
