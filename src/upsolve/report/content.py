"""Content of a report in order: sentences, tables, costs, examples of both models; ``html`` and ``markdown_of`` render it."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from upsolve.config import VerifyConfig
from upsolve.errors import UpsolveError
from upsolve.evaluate.calibration import Calibration
from upsolve.evaluate.capability import Capability, capability
from upsolve.evaluate.comparison import drops, interval_text
from upsolve.evaluate.intervals import Estimate
from upsolve.evaluate.runs import Stage
from upsolve.evaluate.scores import Sweep, TaskScore, by_task_set, defined_ks
from upsolve.report.programs import MOST_SHOWN, Reason, Sample, diff_lines, reason_of
from upsolve.report.tables import Table, calibration_tables, cost_table, result_tables, reward_tables, stage_table
from upsolve.reward.formula import Rewarded
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict, with_tests

__all__ = [
    "Change",
    "Example",
    "Gain",
    "ReportContent",
    "changes_of",
    "compared",
    "example",
    "got_of",
    "markdown_of",
    "markdown_text",
    "messages_of",
    "pick_examples",
    "samples_of",
    "tables_of",
    "with_outputs",
]

EACH = 6
"""Number of example tasks that got worse, and of example tasks that got better."""


@dataclass(frozen=True, slots=True)
class Example:
    """One task with an attempt of the base model and an attempt of the trained model."""

    task_id: str
    """The task."""
    prompt: str
    """Statement of the task."""
    before: str
    """Program of the base model."""
    before_status: str
    """Status of the base model's program."""
    after: str
    """Program of the trained model."""
    after_status: str
    """Status of the trained model's program."""
    counts: tuple[str, str] = ("", "")
    """Samples of the base and of the trained model that passed, such as ``3 of 8``."""
    change: float = 0.0
    """Share of the trained model's samples that passed, minus that of the base model's, [-1, 1]."""
    reasons: tuple[Reason, Reason] = (Reason(""), Reason(""))
    """Why the program of the base model, and why that of the trained model, did not pass."""
    language: str = ""
    """Language of the programs; empty: unknown."""


def pick_examples(
    folder: Path, sweeps: tuple[Sweep, Sweep], find: Callable[[Sequence[str]], Mapping[str, Task]], *, each: int = EACH
) -> tuple[Example, ...]:
    """Return examples of the largest changes at the best temperatures, falls first: a program of each model, one of which passed.

    ``find`` returns tasks by id; an example whose task is not found has no prompt.
    """
    first, second = (
        samples_of(folder / f"{sweep.name}.samples.jsonl", sweep.best.tasks, sweep.best.temperature) for sweep in sweeps
    )
    change = {name: rate(second[name]) - rate(first[name]) for name in first if name in second}
    worse = sorted((name for name in change if change[name] < 0), key=lambda name: change[name])
    better = sorted((name for name in change if change[name] > 0), key=lambda name: -change[name])
    chosen = (*worse[:each], *better[:each])
    tasks = find(chosen) if chosen else {}
    return tuple(example(tasks.get(name) or Task(name, ""), first[name], second[name]) for name in chosen)


SAMPLE = ("code", "status", "error", "error_type")
"""Fields of a stored sample that become a ``Sample``."""


def messages_of(folder: Path, sweeps: Sequence[Sweep]) -> dict[str, Sample]:
    """Return type of error (for samples without one, outcome) -> the first sample at the best temperatures with a message of the judge."""
    best = [(folder / f"{sweep.name}.samples.jsonl", sweep.best.tasks, sweep.best.temperature) for sweep in sweeps]
    samples = [one for place in best for some in samples_of(*place).values() for one in some]
    return {one.kind or one.status: one for one in reversed(samples) if one.error}


def samples_of(file: Path, tasks: str, temperature: float | None) -> dict[str, list[Sample]]:
    """Return the scored samples of a task set at a temperature, by task; files of earlier versions do not record set and temperature."""
    by_task: dict[str, list[Sample]] = {}
    source = (tasks, temperature)
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        row = json.loads(line)
        is_chosen = "task_set" not in row or (row["task_set"], row["temperature"]) == source
        if is_chosen and row["status"] != "unscored":
            by_task.setdefault(row["task_id"], []).append(Sample(*(row.get(name, "") for name in SAMPLE)))
    return by_task


def rate(samples: Sequence[Sample]) -> float:
    """Return the share of samples that passed."""
    return sum(sample.status == "passed" for sample in samples) / len(samples)


def example(task: Task, before: Sequence[Sample], after: Sequence[Sample]) -> Example:
    """Return the example of a task: a passed and a failed program that show how its pass rate changed; if it did not change, the first ones."""
    change = rate(after) - rate(before)
    first = next((sample for sample in before if (sample.status == "passed") == (change < 0)), before[0])
    second = next((sample for sample in after if (sample.status == "passed") == (change > 0)), after[0])
    passed = [sum(one.status == "passed" for one in samples) for samples in (before, after)]
    counts = (f"{passed[0]} of {len(before)}", f"{passed[1]} of {len(after)}")
    reasons = reason_of(first.kind, first.error, task), reason_of(second.kind, second.error, task)
    programs = (first.code, first.status, second.code, second.status)
    return Example(task.task_id, task.prompt, *programs, counts, change, reasons, task.language)


def with_outputs(
    examples: Sequence[Example], find: Callable[[Sequence[str]], Mapping[str, Task]], verify: VerifyConfig
) -> tuple[Example, ...]:
    """Return examples with the results of failed programs on hidden tests, whose messages do not show them: these tests are run again as visible ones.

    An example stays unchanged if its test now has another outcome, or if this machine cannot judge.
    """
    tasks = find([one.task_id for one in examples]) if examples else {}
    hidden = [
        (at, side, with_tests(task, [number - 1]), code)
        for at, one in enumerate(examples)
        if (task := tasks.get(one.task_id))
        for side, (code, reason) in enumerate(zip((one.before, one.after), one.reasons, strict=True))
        if (number := reason.test) and number <= len(task.tests) and task.tests[number - 1].hidden and not reason.kind
    ]
    shown = [replace(task, tests=(replace(task.tests[0], hidden=False),)) for _, _, task, _ in hidden]
    found = list(examples)
    with suppress(UpsolveError):
        pairs = [(task, Attempt(task.task_id, code, task.language)) for task, (*_, code) in zip(shown, hidden, strict=True)]
        for (at, side, task, _), verdict in zip(hidden, judged_again(pairs, verify), strict=True):
            reasons = list(found[at].reasons)
            if verdict.status is Status.FAILED:
                reasons[side] = replace(reasons[side], got=got_of(verdict, task.tests[0])[:MOST_SHOWN])
            found[at] = replace(found[at], reasons=(reasons[0], reasons[1]))
    return tuple(found)


def judged_again(pairs: Sequence[tuple[Task, Attempt]], verify: VerifyConfig) -> Sequence[Verdict]:
    """Return the verdicts of attempts at tasks, judged now."""
    from upsolve.verify.limits import judge_settings
    from upsolve.verify.pool.pool import verify as judge

    return judge(pairs, judge_settings(verify)) if pairs else ()


def got_of(verdict: Verdict, test: TestCase) -> str:
    """Return what a failed attempt gave at its only test: its output, or the value in the judge's message."""
    if test.kind is TestKind.STDIO:
        return verdict.stdout_head.rstrip("\n") or "no output"
    return reason_of("", verdict.error_message, None).got


@dataclass(frozen=True, slots=True)
class Gain:
    """The gain of a control run."""

    name: str
    """Name of the control run, with the kind of its verdicts."""
    gain: Estimate
    """Gain of the control in pass@1 over its base, each at its best temperature, a share."""
    beyond: Estimate
    """The gain of the run minus that of this control, paired by task."""
    scores: tuple[TaskScore, ...] = ()
    """Scores of the control's trained model at its best temperature."""

    @property
    def share(self) -> str:
        """A sentence with the part of the run's gain that the control also reaches, and the part that needs the judge's verdicts."""
        whole, part = self.gain.mean + self.beyond.mean, interval_text(self.gain)
        if whole <= 0:
            return f"Training with {self.name} gains {part}."
        needs = f"{100 * min(whole, self.beyond.mean):.1f} need" if self.beyond.low > 0 else "no part is shown to need"
        return f"Training with {self.name} reaches {part} of the {100 * whole:.1f} points; {needs} the true verdicts."


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
    stages: tuple[Stage, ...] = ()
    """Stages of a run with rounds of own samples, the control last."""
    calibrations: Sequence[Calibration] = ()
    """How the scores of the archive fit its verdicts."""
    recipe_yaml: str = ""
    """The resolved recipe."""
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Label -> model, seeds, sampling, machine and versions."""
    summary: Mapping[str, str] = field(default_factory=dict[str, str])
    """Label -> model, data, recipe, date, time, cost and command."""
    next_steps: Mapping[str, str] = field(default_factory=dict[str, str])
    """Purpose -> command that a reader may want next."""
    controls: tuple[Gain, ...] = ()
    """The gains of control runs beside this one."""
    warnings: tuple[str, ...] = ()
    """Reasons to doubt the numbers, besides those of the comparison."""
    messages: Mapping[str, Sample] = field(default_factory=dict[str, Sample])
    """Type of error of samples, or outcome without one -> a sample with a message of the judge."""
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
    """Sentences about the pass rates that fell."""


def changes_of(content: ReportContent) -> list[Change]:
    """Return the comparisons, those on the first task set first."""
    sweeps, ks = content.sweeps, defined_ks(content.sweeps, content.ks)
    sets = [("", sweeps), *((f"{name}: ", measured) for name, measured in by_task_set(sweeps).items())] if sweeps else []
    return [change for label, measured in sets for change in compared(label, measured, defined_ks(measured, ks))]


def compared(label: str, sweeps: Sequence[Sweep], ks: Sequence[int]) -> list[Change]:
    """Return the comparison of each further model with the first."""
    first = sweeps[0]
    return [Change(label, capability(first, other, max(ks)), drops(first.many, other.many, ks)) for other in sweeps[1:]]


def tables_of(content: ReportContent) -> list[Table]:
    """Return the tables: results, results on further task sets, rewards and their components, scores, cost."""
    sweeps, ks = content.sweeps, defined_ks(content.sweeps, content.ks)
    tables = result_tables(sweeps, ks) if sweeps else []
    for name, measured in by_task_set(sweeps).items():
        further = result_tables(measured, defined_ks(measured, ks), further=True)
        tables += [replace(table, title=f"{name}: {table.title}") for table in further]
    tables += [stage_table(sweeps[0], content.stages)] if content.stages else []
    tables += reward_tables(content.rewarded) if content.rewarded else []
    tables += calibration_tables(content.calibrations)
    return [*tables, cost_table(sweeps, content.training)] if sweeps or content.training else tables


def markdown_of(content: ReportContent) -> str:
    """Return the report as Markdown (GitHub's and GitLab's tables, ``details``, ```` ```diff ````); no plots."""
    return markdown_text(content, changes_of(content), tables_of(content), unfolded=1)


def markdown_text(
    content: ReportContent, changes: Sequence[Change], tables: Sequence[Table], *, unfolded: int, lead: Sequence[str] = ()
) -> str:
    """Return sentences (``lead`` first), tables (the first ones unfolded), facts and examples of a report as Markdown."""
    texts = [*map(table_text, tables)]
    parts = [f"## {plain(content.title)}", *(f"**{plain(line)}**" for line in lead), *(paragraph(change) for change in changes)]
    if content.collapsed:
        parts.append(f"**Training was stopped:** {plain(content.collapsed)}")
    parts += texts[:unfolded]
    if texts[unfolded:]:
        parts.append(folded("Tables", "\n\n".join(texts[unfolded:])))
    if content.examples:
        parts.append(folded("Tasks before and after", "\n\n".join(map(example_text, content.examples))))
    if content.facts:
        parts.append(folded("What was run", table_text(Table("", ("", ""), tuple(content.facts.items())))))
    if content.recipe_yaml:
        parts.append(folded("Recipe", fenced("yaml", content.recipe_yaml)))
    return "\n\n".join(parts) + "\n"


def paragraph(change: Change) -> str:
    """Return the sentence about a model, with details and warnings below it."""
    about = change.capability
    below = [about.best.details or "", *about.choices, *about.warnings, *change.drops]
    return "\n".join([f"**{plain(change.label + about.sentence)}**", *(f"\n{plain(line)}" for line in below if line)])


def table_text(table: Table) -> str:
    """Return a table, under its title."""
    rows = [table.header, tuple("---:" if right else "---" for right in table.numeric), *table.rows]
    lines = ["| " + " | ".join(plain(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([*([f"**{plain(table.title)}**", ""] if table.title else []), *lines])


def example_text(example: Example) -> str:
    """Return the programs before and after as a diff."""
    head = f"**{plain(example.task_id)}**: {example.before_status} before, {example.after_status} after"
    lines = [f"{sign}{line}" for sign, line in diff_lines(example.before, example.after)]
    return f"{head}\n\n{fenced('text', example.prompt)}\n\n{fenced('diff', chr(10).join(lines))}"


def folded(title: str, text: str) -> str:
    """Return a section that is folded until its title is clicked."""
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"


def fenced(kind: str, text: str) -> str:
    """Return a code block; its fence is longer than any fence in the text, which a model may have written."""
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    return f"{fence}{kind}\n{text.rstrip(chr(10))}\n{fence}"


def plain(text: str) -> str:
    """Return a text in one line that Markdown shows literally: HTML and emphasis are escaped."""
    return re.sub(r"([\\`*_<>\[\]])", r"\\\1", " ".join(text.split()))
