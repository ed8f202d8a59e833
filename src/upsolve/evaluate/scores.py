"""Results of an evaluation: one score per task, pass@k and pass^k, and averages over samples."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from upsolve.evaluate.intervals import Estimate, mean_interval
from upsolve.extras import needs_extras
from upsolve.languages import PYTHON
from upsolve.types import Attempt, Status, Task, Verdict, html_facts
from upsolve.verify.analysis import analysed, findings_of, severity, unreadable

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "Choices",
    "Evaluation",
    "TaskChoice",
    "TaskScore",
    "error_mix",
    "lint_profile",
    "outcome_mix",
    "pass_at_k",
    "score_tasks",
    "task_all_pass_at_k",
    "task_pass_at_k",
    "weighted_mean",
]


@dataclass(frozen=True, slots=True)
class TaskScore:
    """Results of one task in an evaluation."""

    task_id: str
    """The task."""
    difficulty: str
    """Its label."""
    samples: int
    """n, scored samples, >= 0 (unscored ones are left out and counted in ``statuses``)."""
    passed: int
    """c, samples that passed every test, 0..n."""
    statuses: Mapping[str, int]
    """Number of samples by status, unscored included."""
    mean_tokens: float | None = None
    """Mean completion length, tokens."""
    mean_entropy: float | None = None
    """Mean over samples of their mean token entropy, nats."""
    errors: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of samples by exception name."""
    truncated: int = 0
    """Samples truncated at the token limit."""
    linted: int = 0
    """Samples that Ruff could read: Python that parses."""
    findings: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of lint and security findings in these, by kind and rule: ``lint:F401``."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Evaluation of a model on a set of tasks, with the settings that reproduce it."""

    name: str
    """Label in tables and pictures, such as ``base``."""
    model: str
    """Model name or folder."""
    tasks: str
    """Name of the task set, such as ``embedded:test``."""
    temperature: float | None
    """Sampling temperature, >= 0; None for pooled folds with different temperatures."""
    top_p: float
    """Nucleus mass, (0, 1]."""
    seed: int
    """Seed of the sampler."""
    max_tokens: int
    """Completion limit, tokens."""
    scores: tuple[TaskScore, ...]
    """One score per task, in a fixed order."""
    wall_seconds: float = 0.0
    """Time for sampling and judging."""
    prompts: str = ""
    """Version of the prompt and content id of the prompts of all tasks; empty in files of earlier versions."""

    def __repr__(self) -> str:
        at = "" if self.temperature is None else f", temperature={self.temperature:g}"
        return f"Evaluation({self.name!r}, model={self.model!r}, tasks={self.tasks!r}{at}, {len(self.scores)} scores)"

    def _repr_html_(self) -> str:
        """Return settings and pass@1, for a notebook."""
        facts = {"model": self.model, "tasks": self.tasks, "temperature": self.temperature, "number of tasks": len(self.scores)}
        if task_pass_at_k(self.scores, 1):
            one = self.pass_at(1)
            facts["pass@1"] = f"{100 * one.mean:.1f} % [{100 * one.low:.1f}, {100 * one.high:.1f}]"
        return html_facts(f"Evaluation {self.name}", facts)

    def pass_at(self, k: int) -> Estimate:
        """Return the mean pass@k over tasks, in [0, 1], with its 95 % interval (nan for one task); tasks with fewer than k samples are left out.

        Raises:
            ValueError: no task has k scored samples.
        """
        values = [*task_pass_at_k(self.scores, k).values()]
        if not values:
            raise ValueError(f"{self.name}: no task has {k} scored samples, so pass@{k} is unknown")
        return mean_interval(values)

    def to_pandas(self) -> "DataFrame":
        """Return a data frame with a row for each task: the fields of ``TaskScore``, and ``pass_at_1``; needs pandas (the extra ``hub``)."""
        with needs_extras():
            from pandas import DataFrame

        shares = task_pass_at_k(self.scores, 1)
        return DataFrame([{**asdict(score), "pass_at_1": shares.get(score.task_id)} for score in self.scores])


@dataclass(frozen=True, slots=True)
class TaskChoice:
    """The sample of a task that is chosen by evidence; hidden tests decide whether it passes, and are no evidence."""

    task_id: str
    """The task."""
    samples: int
    """n, the samples among which one is chosen, the greedy one included, >= 1."""
    tokens: int
    """Their length, tokens."""
    greedy: bool | None
    """Whether the greedy sample passes every test; None if it is unscored, or there is none."""
    chosen: bool | None
    """Whether the chosen sample passes every test; None if it is unscored."""
    any: bool
    """Whether one of the samples passes every test."""
    early: bool | None
    """Whether the sample passes that is chosen when sampling stops early (``upsolve.solve.solving.why_stop``); None if it is unscored."""
    early_samples: int
    """Samples that are drawn when sampling stops early, 1..n."""
    early_tokens: int
    """Their length, tokens."""
    decided_by: str = ""
    """First kind of evidence by which the chosen sample is better than another; empty if all are equal."""
    inputs: int = 0
    """Inputs on which the samples were run: those of visible tests, or databases made from a schema."""


@dataclass(frozen=True, slots=True)
class Choices:
    """One chosen sample a task, of an evaluation's own samples: the greedy one, and those at one temperature above 0."""

    kinds: tuple[str, ...]
    """Kinds of evidence, the strongest first (``upsolve.solve.choose.EVIDENCE``)."""
    temperature: float | None
    """Temperature of the samples besides the greedy one, > 0; None for pooled folds with different temperatures."""
    tasks: tuple[TaskChoice, ...]
    """One choice per task, in the order of the evaluation."""
    sample_seconds: float = 0.0
    """Time of sampling, in the call that finished the evaluation."""
    choose_seconds: float = 0.0
    """Time in which they were run on visible inputs and compared; judging by all tests is not part of it."""

    @property
    def samples(self) -> int:
        """Largest n of a task."""
        return max((task.samples for task in self.tasks), default=0)

    def passed(self, part: Literal["greedy", "chosen", "any", "early"]) -> dict[str, float]:
        """Return 1.0 or 0.0 for each task where greedy (if any task has one), chosen and early sample are scored, by task id."""
        needs = ("chosen", "early", *(("greedy",) if any(task.greedy is not None for task in self.tasks) else ()))
        known = [task for task in self.tasks if all(getattr(task, name) is not None for name in needs)]
        return {task.task_id: float(getattr(task, part)) for task in known if getattr(task, part) is not None}


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """Return 1 - C(n - c, k) / C(n, k), the probability that k samples, taken from n without replacement, contain one of the c passed ones.

    The unbiased estimator of pass@k (2107.03374), in [0, 1]. Returns None for n < k, where it is undefined.
    """
    if not 0 <= c <= n or k < 1:
        raise ValueError(f"pass@k needs 0 <= c <= n and k >= 1, got n={n}, c={c}, k={k}")
    if n < k:
        return None
    return 1.0 if n - c < k else float(1.0 - np.prod(1.0 - k / np.arange(n - c + 1, n + 1)))


def all_pass_at_k(n: int, c: int, k: int) -> float | None:
    """Return C(c, k) / C(n, k), the probability that k samples, taken from n without replacement, are all among the c passed ones.

    The unbiased estimator of pass^k (2406.12045), in [0, 1]; for k = 1 it is pass@1. Returns None for n < k, where it is undefined.
    """
    missed = pass_at_k(n, n - c, k) if c <= n else pass_at_k(n, c, k)
    return None if missed is None else 1.0 - missed


def task_pass_at_k(scores: Sequence[TaskScore], k: int) -> dict[str, float]:
    """Return pass@k of every task for which it is defined, by task id."""
    values = ((score.task_id, pass_at_k(score.samples, score.passed, k)) for score in scores)
    return {name: value for name, value in values if value is not None}


def task_all_pass_at_k(scores: Sequence[TaskScore], k: int) -> dict[str, float]:
    """Return pass^k of every task for which it is defined, by task id."""
    values = ((score.task_id, all_pass_at_k(score.samples, score.passed, k)) for score in scores)
    return {name: value for name, value in values if value is not None}


def score_tasks(tasks: Sequence[Task], attempts: Sequence[Attempt], verdicts: Sequence[Verdict]) -> tuple[TaskScore, ...]:
    """Return one score per task, in the order of the tasks; unscored samples are counted separately, never as failures."""
    by_task: dict[str, list[tuple[Attempt, Verdict]]] = {task.task_id: [] for task in tasks}
    for attempt, verdict in zip(attempts, verdicts, strict=True):
        by_task[attempt.task_id].append((attempt, verdict))
    return tuple(score(task, by_task[task.task_id]) for task in tasks)


def score(task: Task, judged: Sequence[tuple[Attempt, Verdict]]) -> TaskScore:
    """Score one task."""
    statuses = Counter(verdict.status.value for _, verdict in judged)
    tokens = [attempt.tokens for attempt, _ in judged if attempt.tokens is not None]
    entropies = [attempt.entropy for attempt, _ in judged if attempt.entropy is not None]
    linted = [
        verdict  # Ruff was run on the sample, and could parse all of it
        for attempt, verdict in judged
        if attempt.language in PYTHON and analysed(verdict, "lint") and not unreadable(verdict, "lint")
    ]
    findings = [finding for verdict in linted for finding in findings_of(verdict, "lint", "security")]
    return TaskScore(
        task_id=task.task_id,
        difficulty=task.difficulty,
        samples=len(judged) - statuses[Status.UNSCORED],
        passed=statuses[Status.PASSED],
        statuses=dict(statuses),
        mean_tokens=float(np.mean(tokens)) if tokens else None,
        mean_entropy=float(np.mean(entropies)) if entropies else None,
        errors=dict(Counter(verdict.error_type for _, verdict in judged if verdict.error_type)),
        truncated=sum(attempt.truncated for attempt, _ in judged),
        linted=len(linted),
        findings=dict(Counter(f"{finding.kind}:{finding.rule}" for finding in findings)),
    )


def outcome_mix(scores: Sequence[TaskScore]) -> dict[str, float]:
    """Return the share of samples by status, most frequent first."""
    return shares([item.statuses for item in scores], scores)


def error_mix(scores: Sequence[TaskScore]) -> dict[str, float]:
    """Return the share of samples by exception name, most frequent first."""
    return shares([item.errors for item in scores], scores)


def shares(counts: Iterable[Mapping[str, int]], scores: Sequence[TaskScore]) -> dict[str, float]:
    """Return the sums of counts as shares of all samples, most frequent first."""
    total, samples = Counter[str](), sum(sum(item.statuses.values()) for item in scores)
    for each in counts:
        total.update(each)
    return {name: count / samples for name, count in total.most_common()}


def lint_profile(scores: Sequence[TaskScore]) -> dict[str, float]:
    """Return the mean number of Ruff's findings per linted sample that parses, by severity, most frequent first; {} if none was linted."""
    linted = sum(item.linted for item in scores)
    total = Counter[str](dict.fromkeys(("error", "security", "warning", "convention"), 0))
    for item in scores:
        for name, count in item.findings.items():
            kind, _, rule = name.partition(":")
            total["security" if kind == "security" else severity(rule)] += count
    return {name: count / linted for name, count in total.most_common()} if linted else {}


def weighted_mean(scores: Sequence[TaskScore], field: str) -> float | None:
    """Return the mean over samples of the field ``mean_tokens`` or ``mean_entropy``; None if it was not measured."""
    pairs = [(getattr(item, field), sum(item.statuses.values())) for item in scores if getattr(item, field) is not None]
    weight = sum(n for _, n in pairs)
    return sum(value * n for value, n in pairs) / weight if weight else None
