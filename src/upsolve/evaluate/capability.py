"""Compare two models at several temperatures: is the second model more capable, or is only its distribution sharper?

Training on a model's own samples makes its distribution sharper. That raises pass@1 at temperature 1 just as a lower temperature would,
without any new capability. So each model is measured at the temperature that is best for it.
"""

import random
from dataclasses import dataclass
from typing import Literal

from upsolve.errors import counted
from upsolve.evaluate.comparison import DECIDABLE, Comparison, choice_line, chosen_change, compare, interval_text
from upsolve.evaluate.intervals import mcnemar
from upsolve.evaluate.scores import Evaluation, Sweep, TaskScore, pass_at_k, task_pass_at_k, temperature_name
from upsolve.types import html_facts

__all__ = ["Capability", "Conclusion", "Solved", "capability", "conclude", "solved"]

Conclusion = Literal["more capable", "sharper only", "no change", "worse", "too few tasks", "one temperature"]


@dataclass(frozen=True, slots=True)
class Solved:
    """Tasks that are solved by at least one of n samples, n the smaller number of samples that a task has in the two evaluations."""

    before: int
    """Tasks that the first model solves."""
    after: int
    """Tasks that the second one solves."""
    gained: int
    """Tasks that only the second one solves."""
    lost: int
    """Tasks that only the first one solves."""
    samples: int
    """Smallest n of a task."""

    @property
    def p_value(self) -> float:
        """Two-sided p-value of McNemar's exact test."""
        return mcnemar(self.gained, self.lost)


@dataclass(frozen=True, slots=True)
class Capability:
    """Comparisons of two sweeps over the same test tasks."""

    before: Sweep
    """The baseline."""
    after: Sweep
    """The other model."""
    best: Comparison
    """pass@1, each model at its own best temperature."""
    strongest: Comparison
    """pass@1 of the baseline at the temperature at which it passes most of the test tasks, against pass@1 of the other model as in ``best``."""
    greedy: Comparison | None
    """pass@1 of greedy decoding; None if one of the two models was not evaluated at temperature 0."""
    hot: Comparison
    """pass@1 at the highest temperature."""
    many: Comparison
    """pass@k, each model at its own best temperature for pass@k."""
    solved: Solved
    """Tasks solved by any sample, in the evaluations of ``many``."""

    def __repr__(self) -> str:
        return f"Capability({self.before.name!r}, {self.after.name!r}, {self.sentence!r})"

    def _repr_html_(self) -> str:
        """Return the conclusion and what limits it, for a notebook."""
        facts = {"details": self.best.details, "warnings": "\n".join(self.warnings)}
        return html_facts(self.sentence, {name: text for name, text in facts.items() if text})

    @property
    def conclusion(self) -> Conclusion:
        """The conclusion by the rule of ``conclude``."""
        if self.best.paired is None:
            return "too few tasks"
        if not self.before.dev or not self.after.dev:
            return "one temperature"
        return conclude(self.best, self.greedy, self.hot, self.strongest)

    @property
    def sentence(self) -> str:
        """The conclusion in one sentence, with the numbers that decide it."""
        smallest = self.best.detectable
        difference = f"show a difference of {100 * (smallest or 0):.1f} points in 80 % of cases"
        could_show = "no task differs" if smallest is None else f"{tasks_of(self.best)} {difference}"
        hot = "" if self.hot.temperatures == self.best.temperatures else f"{clause_of(self.hot)}, but "
        return {
            "more capable": f"More capable: {clause_of(self.best, own=True)}{self.greedily}{self.beside}.",
            "sharper only": f"Sharper only, not more capable: {hot}{clause_of(self.best, own=True)}{self.beside}.",
            "no change": f"No change in capability shown: {clause_of(self.best, own=True)}{self.greedily}{self.beside}; {could_show}.",
            "worse": f"Worse: {clause_of(self.best, own=True)}{self.greedily}.",
            "too few tasks": f"Too few tasks to tell: pass@1 of both is known for {tasks_of(self.best)}, {DECIDABLE} are needed.",
            "one temperature": (
                f"At one temperature only, so a gain in capability cannot be told from a sharper distribution: {clause_of(self.best)}."
            ),
        }[self.conclusion]

    @property
    def greedily(self) -> str:
        """The change in greedy decoding as a clause; empty if temperature 0 is the best temperature of both models."""
        if self.greedy is None or self.best.temperatures == (0, 0):
            return ""
        return f"; greedily {self.greedy.change}"

    @property
    def beside(self) -> str:
        """The gain over the baseline's strongest temperature, as a clause; "" if there is no gain, or if that temperature was chosen on dev tasks."""
        where, _ = self.strongest.temperatures
        if self.best.outcome != "gain" or where == self.best.temperatures[0]:
            return ""
        mean = 100 * self.strongest.means[0]
        own = f"{self.before.name} alone reaches {mean:.1f} % at another temperature ({temperature_name(where)})"
        return f"; {own}, and compared with that value the change is {self.strongest.change}"

    @property
    def choices(self) -> tuple[str, ...]:
        """One line for each model with chosen samples, about the choice among its samples."""
        lines = [choice_line(sweep.name, sweep.choices) for sweep in (self.before, self.after)]
        change = chosen_change(self.before.choices, self.after.choices)
        if change:
            lines[1] += f"; compared with the chosen samples of {self.before.name} {interval_text(change.difference)} points"
        return tuple(line for line in lines if line)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons to doubt the conclusion, one sentence each."""
        warnings = [*(doubt for doubt in self.best.doubts if doubt not in self.best.unlike), *self.hot.unlike]
        if self.greedy and self.greedy.outcome == "loss" and self.conclusion != "worse":
            warnings.append(f"Greedy decoding falls: {clause_of(self.greedy)}.")
        if self.many.k > 1 and self.many.outcome == "loss":
            warnings.append(f"pass@{self.many.k} falls: {clause_of(self.many, own=True)}.")
        return tuple(warnings)


def capability(before: Sweep, after: Sweep, k: int = 1) -> Capability:
    """Compare two models over the same test tasks, each at its own best temperatures.

    Args:
        before: the baseline.
        after: the other model.
        k: k of the comparison ``many``.

    Raises:
        ValueError: the models were measured on different tasks; the message names some.
    """
    greedy = compare(before.greedy, after.greedy) if before.greedy and after.greedy else None
    return Capability(
        before,
        after,
        best=compare(before.best, after.best),
        strongest=compare(strongest(before), after.best),
        greedy=greedy,
        hot=compare(before.hot, after.hot),
        many=compare(before.many, after.many, k),
        solved=solved(before.many, after.many),
    )


def strongest(sweep: Sweep) -> Evaluation:
    """Return the evaluation of the test tasks with the highest pass@1; on a tie, the temperature chosen on dev tasks."""

    def rate(evaluation: Evaluation) -> float:
        passed = task_pass_at_k(evaluation.scores, 1).values()
        return sum(passed) / max(1, len(passed))

    return max([sweep.best, *([sweep.greedy] if sweep.greedy else []), sweep.many, sweep.hot], key=rate)


def conclude(best: Comparison, greedy: Comparison | None, hot: Comparison, strongest: Comparison | None = None) -> Conclusion:
    """Return the conclusion: the first of these cases that applies. A gain (loss) is a paired interval above (below) zero and p < 0.05.

    1. ``too few tasks``: fewer than 6 tasks have pass@1 in both evaluations.
    2. ``worse``: pass@1 at each model's own best temperature is a loss.
    3. ``more capable``: pass@1 at each model's own best temperature is a gain, and greedy decoding is not a loss. The gain must also hold
       against the baseline at the temperature where it passes most of the test tasks (``strongest``).
    4. ``sharper only``: case 3 does not apply, pass@1 at the highest temperature is a gain, and greedy decoding does not block a gain.
    5. ``no change``: all other cases, including a gain with a loss in greedy decoding.

    A temperature chosen on few dev tasks may be bad for the baseline, which would look like a gain of the other model: hence ``strongest``.

    Greedy decoding blocks a gain only if its own interval lies below zero. One answer per task is so noisy (+-7 points on 104 tasks) that
    requiring proof of no fall would reject every true gain of less than 7 points.
    """
    if best.outcome == "too few tasks":
        return "too few tasks"
    if best.outcome == "loss":
        return "worse"
    if best.outcome == "gain" and greedy and greedy.outcome == "loss":
        return "no change"
    if best.outcome == "gain" and (strongest is None or strongest.outcome == "gain"):
        return "more capable"
    return "sharper only" if hot.outcome == "gain" else "no change"


def solved(before: Evaluation, after: Evaluation) -> Solved:
    """Count the tasks that each model solves with the same number of samples, over the tasks with scored samples in both evaluations."""
    first, second = ({score.task_id: score for score in run.scores if score.samples} for run in (before, after))
    pairs = [(first[name], second[name]) for name in first if name in second]
    sizes = [min(a.samples, b.samples) for a, b in pairs]
    found = [(solves(a, n), solves(b, n)) for (a, b), n in zip(pairs, sizes, strict=True)]
    return Solved(
        before=sum(a for a, _ in found),
        after=sum(b for _, b in found),
        gained=sum(b and not a for a, b in found),
        lost=sum(a and not b for a, b in found),
        samples=min(sizes, default=0),
    )


def solves(score: TaskScore, n: int) -> bool:
    """Return whether n samples of a task, drawn without replacement and seeded by its id, contain one that passed."""
    chance = pass_at_k(score.samples, score.passed, n) or 0.0
    return random.Random(score.task_id).random() < chance


def clause_of(comparison: Comparison, *, own: bool = False) -> str:
    """Return a comparison as a clause: both values, their temperatures, the difference with its interval."""
    first, second = (f"{100 * mean:.1f}" for mean in comparison.means)
    names = [temperature_name(temperature) for temperature in comparison.temperatures]
    if own:
        return (
            f"pass@{comparison.k} at each model's own best temperature goes from {first} % ({names[0]}) to {second} % ({names[1]}), "
            f"{comparison.change} points"
        )
    where = "greedily" if comparison.temperatures == (0, 0) else f"at {comparison.where}"
    return f"{where} pass@{comparison.k} goes from {first} to {second} %, {comparison.change} points"


def tasks_of(comparison: Comparison) -> str:
    """Return the number of tasks of a comparison as text."""
    return counted(comparison.paired.difference.tasks if comparison.paired else 0, "task")
