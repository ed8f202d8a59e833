"""Results of an evaluation: a score per task, pass@k and pass^k, averages over samples; and evaluations at several temperatures, pooled over folds."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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
    "Sweep",
    "TaskChoice",
    "TaskScore",
    "best_temperature",
    "by_task_set",
    "defined_ks",
    "error_mix",
    "lint_profile",
    "outcome_mix",
    "pass_at_k",
    "pooled",
    "renamed",
    "score_tasks",
    "single",
    "task_all_pass_at_k",
    "task_pass_at_k",
    "temperature_name",
    "weighted_mean",
]


@dataclass(frozen=True, slots=True)
class TaskScore:
    """Results of one task in an evaluation."""

    task_id: str
    """The task."""
    difficulty: str
    """Difficulty of the task, a label."""
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
    """Number of lint and security findings in the linted samples, by kind and rule: ``lint:F401``."""


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
            raise ValueError(f"{self.name}: no task has {k} scored samples, so pass@{k} is unknown; choose a smaller k")
        return mean_interval(values)

    def to_pandas(self) -> "DataFrame":
        """Return a data frame with a row for each task: the fields of ``TaskScore``, and ``pass_at_1``; needs pandas (the extra ``hub``)."""
        with needs_extras():
            from pandas import DataFrame

        shares = task_pass_at_k(self.scores, 1)
        return DataFrame([{**asdict(score), "pass_at_1": shares.get(score.task_id)} for score in self.scores])


@dataclass(frozen=True, slots=True)
class TaskChoice:
    """The sample of a task that is chosen by evidence. Hidden tests decide whether it passes, but do not count as evidence."""

    task_id: str
    """The task."""
    samples: int
    """n, the samples among which one is chosen, the greedy one included, >= 1."""
    tokens: int
    """Sum of the tokens of the samples."""
    greedy: bool | None
    """Whether the greedy sample passes every test; None if it is unscored, or there is none."""
    chosen: bool | None
    """Whether the chosen sample passes every test; None if it is unscored."""
    any: bool
    """Whether at least one of the samples passes every test."""
    early: bool | None
    """Whether the sample chosen after an early stop (``upsolve.solve.solving.why_stop``) passes every test; None if it is unscored."""
    early_samples: int
    """Samples that are drawn when sampling stops early, 1..n."""
    early_tokens: int
    """Tokens of the ``early_samples`` together."""
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
    """Time for running the samples on visible inputs and comparing the outputs; judging by all tests is not included."""

    @property
    def samples(self) -> int:
        """Largest n of a task."""
        return max((task.samples for task in self.tasks), default=0)

    def passed(self, part: Literal["greedy", "chosen", "any", "early"]) -> dict[str, float]:
        """Return 1.0 or 0.0 for each task by task id, for greedy (if any task has a greedy sample), chosen and early samples that are scored."""
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
    """Return the mean number of Ruff's findings per linted sample, by severity, most frequent first; {} if no sample was linted."""
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


@dataclass(frozen=True, slots=True)
class Sweep:
    """Evaluations of a model at several temperatures: the best temperatures are chosen on dev tasks and measured on test tasks."""

    name: str
    """Label in tables and pictures, such as ``base``."""
    dev: tuple[Evaluation, ...]
    """Dev tasks at every temperature, lowest first; () if there was only one temperature, so none had to be chosen."""
    best: Evaluation
    """Test tasks at the temperature with the highest pass@1 on dev tasks."""
    many: Evaluation
    """Test tasks at the temperature above 0 with the highest pass@k on dev tasks, k = ``evaluate.dev_samples``."""
    hot: Evaluation
    """Test tasks at the highest temperature."""
    greedy: Evaluation | None = None
    """Test tasks at temperature 0; None if 0 is not among the temperatures."""
    heldout_logp: float | None = None
    """Mean log-probability per token of stored passed attempts at test tasks, nats, <= 0, at temperature 1; None if not measured."""
    heldout_tasks: int = 0
    """Number of tasks that ``heldout_logp`` is the mean over."""
    choices: Choices | None = None
    """Test tasks: one sample chosen from the greedy sample and those of ``many`` (of ``hot``, if ``many`` is greedy); None if not measured."""
    others: "tuple[Sweep, ...]" = ()
    """Sweeps of the model on the task sets of ``evaluate.archives``, at the same temperatures; ``best.tasks`` names the task set of each."""

    def __repr__(self) -> str:
        return f"Sweep({self.name!r}, model={self.best.model!r}, tasks={self.best.tasks!r}, best at {temperature_name(self.best.temperature)})"

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """All evaluations without those of ``others``, each once."""
        parts = (*self.dev, self.best, self.many, self.hot, self.greedy)
        return tuple({id(one): one for one in parts if one}.values())

    def _repr_html_(self) -> str:
        """Return the evaluation at the best temperature, for a notebook."""
        return getattr(self.best, "_repr_html_")()  # noqa: B009


def best_temperature(evaluations: Sequence[Evaluation], k: int = 1) -> float:
    """Return the lowest temperature with the highest mean pass@k over tasks; at 0 there is one sample, so k = 1 only."""
    means: dict[float, float] = {}
    for evaluation in sorted(evaluations, key=lambda evaluation: evaluation.temperature or 0.0):
        if values := task_pass_at_k(evaluation.scores, k):
            means[evaluation.temperature or 0.0] = sum(values.values()) / len(values)
    return max(means, key=lambda temperature: means[temperature]) if means else min(e.temperature or 0.0 for e in evaluations)


def single(evaluation: Evaluation) -> Sweep:
    """Return an evaluation at one temperature as a sweep with that temperature only."""
    greedy = evaluation if evaluation.temperature == 0 else None
    return Sweep(evaluation.name, (), evaluation, evaluation, evaluation, greedy)


def renamed(sweep: Sweep, name: str) -> Sweep:
    """Return a sweep and its evaluations with another label; fields that share one evaluation still share it."""
    new = {id(one): replace(one, name=name) for one in sweep.evaluations}
    dev = tuple(new[id(one)] for one in sweep.dev)
    return replace(
        sweep,
        name=name,
        dev=dev,
        best=new[id(sweep.best)],
        many=new[id(sweep.many)],
        hot=new[id(sweep.hot)],
        greedy=sweep.greedy and new[id(sweep.greedy)],
        others=tuple(replace(renamed(one, name), dev=dev) for one in sweep.others),
    )


def pooled(sweeps: Sequence[Sweep]) -> Sweep:
    """Pool the folds of a cross-fitting: each test task appears once. ValueError if temperatures differ or tasks repeat."""
    first = sweeps[0] if sweeps else None
    if first is None or any([e.temperature for e in sweep.dev] != [e.temperature for e in first.dev] for sweep in sweeps):
        raise ValueError(
            "the folds were measured at different temperatures; measure all of them at the same ones"
            if sweeps
            else "no folds to pool"
        )
    logps = [(sweep.heldout_logp, sweep.heldout_tasks) for sweep in sweeps if sweep.heldout_logp is not None]
    tasks = sum(count for _, count in logps)
    greedy = [sweep.greedy for sweep in sweeps if sweep.greedy is not None]
    return Sweep(
        name=first.name,
        dev=tuple(joined([sweep.dev[index] for sweep in sweeps], distinct=False) for index in range(len(first.dev))),
        best=joined([sweep.best for sweep in sweeps]),
        many=joined([sweep.many for sweep in sweeps]),
        hot=joined([sweep.hot for sweep in sweeps]),
        greedy=joined(greedy) if len(greedy) == len(sweeps) else None,
        heldout_logp=sum(logp * count for logp, count in logps) / tasks if tasks else None,
        heldout_tasks=tasks,
        choices=joined_choices([sweep.choices for sweep in sweeps]),
    )


def joined(evaluations: Sequence[Evaluation], *, distinct: bool = True) -> Evaluation:
    """Return one evaluation with the scores of several; with ``distinct``, a task in two of them is an error (ValueError)."""
    scores = tuple(score for evaluation in evaluations for score in evaluation.scores)
    names = [score.task_id for score in scores]
    if distinct and len(names) != len(set(names)):
        raise ValueError("a test task is in two folds; split all folds with the same data.split_seed")
    temperatures = {evaluation.temperature for evaluation in evaluations}
    return replace(
        evaluations[0],
        scores=scores,
        temperature=temperatures.pop() if len(temperatures) == 1 else None,
        wall_seconds=sum(evaluation.wall_seconds for evaluation in evaluations),
    )


def joined_choices(folds: Sequence[Choices | None]) -> Choices | None:
    """Return the choices of several folds together; None if a fold has no choices, or chose by other evidence."""
    known = [choices for choices in folds if choices is not None]
    if len(known) < len(folds) or len({choices.kinds for choices in known}) != 1:
        return None
    temperatures = {choices.temperature for choices in known}
    return Choices(
        known[0].kinds,
        temperatures.pop() if len(temperatures) == 1 else None,
        tuple(task for choices in known for task in choices.tasks),
        sum(choices.sample_seconds for choices in known),
        sum(choices.choose_seconds for choices in known),
    )


def by_task_set(sweeps: Sequence[Sweep]) -> dict[str, tuple[Sweep, ...]]:
    """Return the sweeps of each task set of ``Sweep.others`` that all models were measured on, by its name."""
    sets = [{other.best.tasks: other for other in sweep.others} for sweep in sweeps]
    return {
        name: tuple(found[name] for found in sets) for name in (sets[0] if sets else ()) if all(name in one for one in sets)
    }


def defined_ks(sweeps: Sequence[Sweep], ks: Sequence[int]) -> tuple[int, ...]:
    """Return the k for which every sweep has enough samples for pass@k at its best temperature; (1,) if there is no such k."""
    max_k = min((max((score.samples for score in sweep.many.scores), default=1) for sweep in sweeps), default=1)
    return tuple(k for k in ks if k <= max_k) or (1,)


def temperature_name(temperature: float | None) -> str:
    """Return a temperature as words for tables and sentences, such as ``greedy`` for 0."""
    if temperature is None:
        return "each fold's own T"
    return f"T {temperature:g}" if temperature else "greedy"
