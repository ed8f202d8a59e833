"""Make a plan: first from the archive alone, then with the model, which takes longer."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from upsolve.archive.split import Split
from upsolve.archive.store import open_filled
from upsolve.config import AdvantageConfig, ObjectiveConfig, Recipe
from upsolve.config.rules import few_dev_tasks, few_steps
from upsolve.plan.advice import advice_of
from upsolve.plan.findings import Plan
from upsolve.plan.stored import groups_of, leaks_of, noise_of, quiet_split, tests_of
from upsolve.progress import OnProgress, no_progress
from upsolve.types import Task

__all__ = ["plan_archive"]

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
    """Estimate whether training a recipe's model on its archive will help, and what it costs.

    Args:
        recipe: archive, model, filters, sampling and judging; ``seed`` is the seed of all random choices.
        with_model: load the model, sample it and score attempts with it; otherwise only the archive is examined.
        judged: number of attempts that are judged again, to compare with the recorded verdicts.
        tasks: number of tasks of ``evaluate.split`` that the model is sampled on.
        benchmarks: task sets by name, whose tasks should have no near-duplicate among the training tasks.
        progress: called with the stage, units done, and total units.

    Raises:
        ArchiveError: the archive cannot be read.
        ModelError: the model cannot be loaded.
    """
    split = quiet_split(open_filled(recipe.data.archive), recipe.data)
    plan = Plan(
        archive=recipe.data.archive,
        model="",
        online=recipe.source.rounds > 0,
        imitates=imitates(recipe.advantage, recipe.objective),
        groups=groups_of(split, recipe.data, recipe.reward),
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
    found = few_dev_tasks(dev, recipe.evaluate, recipe.data), few_steps(steps, recipe.optim)
    return replace(plan, advice=advice_of(plan), warnings=tuple(filter(None, found)))


def ask_model(plan: Plan, split: Split, recipe: Recipe, *, tasks: int, progress: OnProgress) -> Plan:
    """Return the plan with the findings that need the model: likelihoods, pass rates, cost."""
    from upsolve.plan.probed import base_of, cost_of, likelihood_of, load, sample_base, score_attempts, spread_tasks

    loaded = load(recipe.model)
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
    """Return whether a recipe trains on passed attempts alone: its estimator selects them, and its objective reads no other."""
    return advantage.record.selects and objective.record.unit == "attempt" and not objective.record.keeps_zero
