"""Content of a report, and its parts in order: sentences, tables, costs. ``html`` and ``markdown`` render it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from upsolve.evaluate.capability import Capability, capability
from upsolve.evaluate.comparison import drops
from upsolve.evaluate.sweep import Sweep, by_task_set, defined_ks
from upsolve.report.examples import Example
from upsolve.report.tables import Table, cost_table, result_tables, reward_tables
from upsolve.reward.formula import Rewarded

__all__ = ["Change", "ReportContent", "changes_of", "tables_of"]


@dataclass(frozen=True, slots=True)
class ReportContent:
    """The content of a report."""

    title: str
    """Headline."""
    sweeps: tuple[Sweep, ...]
    """Sweeps of the compared models; the first is the baseline; may be empty."""
    ks: tuple[int, ...] = (1,)
    """Values of k for pass@k; those above the number of samples are left out."""
    training: tuple[Mapping[str, float], ...] = ()
    """Metrics of every optimizer step."""
    start: Mapping[str, float] = field(default_factory=dict[str, float])
    """Held-out metrics before the first step."""
    limits: Mapping[str, float] = field(default_factory=dict[str, float])
    """Metric -> value beyond which a monitor stops the run."""
    collapsed: str = ""
    """Why the run was stopped early; empty if it was not stopped."""
    kept_step: int | None = None
    """Step whose weights are the result; None: unknown."""
    rewarded: Sequence[Rewarded] = ()
    """Groups of the training tasks with their rewards."""
    recipe_yaml: str = ""
    """The resolved recipe."""
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Model, seeds, sampling, machine and versions, by label."""
    examples: tuple[Example, ...] = ()
    """Attempts of base and trained model at the same task."""


@dataclass(frozen=True, slots=True)
class Change:
    """The comparison of a model with the first one on one task set."""

    label: str
    """Name of the task set and a colon; empty for the first task set."""
    capability: Capability
    """The comparison."""
    drops: tuple[str, ...]
    """Sentences on what fell."""


def changes_of(content: ReportContent) -> list[Change]:
    """Return the comparisons, those on the first task set first."""
    sweeps, ks = content.sweeps, defined_ks(content.sweeps, content.ks)
    sets = [("", sweeps), *((f"{name}: ", measured) for name, measured in by_task_set(sweeps).items())] if sweeps else []
    return [change for label, measured in sets for change in compared(label, measured, defined_ks(measured, ks))]


def compared(label: str, sweeps: Sequence[Sweep], ks: Sequence[int]) -> list[Change]:
    """Return the comparison of every model but the first with the first."""
    first = sweeps[0]
    return [Change(label, capability(first, other, max(ks)), drops(first.many, other.many, ks)) for other in sweeps[1:]]


def tables_of(content: ReportContent) -> list[Table]:
    """Return the tables: results, those of further task sets, rewards and their parts, cost."""
    sweeps, ks = content.sweeps, defined_ks(content.sweeps, content.ks)
    tables = result_tables(sweeps, ks) if sweeps else []
    for name, measured in by_task_set(sweeps).items():
        further = result_tables(measured, defined_ks(measured, ks), further=True)
        tables += [replace(table, title=f"{name}: {table.title}") for table in further]
    tables += reward_tables(content.rewarded) if content.rewarded else []
    return [*tables, cost_table(sweeps, content.training)] if sweeps or content.training else tables
