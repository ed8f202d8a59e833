"""Parts of a reward -> tokens: who is to blame for a finding.

Legend: R tokens of the completion; chosen_R, code_R bool; rewards_R float64. What is no code, such as the closing fence, gets nothing
but what ``last`` puts there.
"""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from upsolve.config import RewardConfig
from upsolve.reward.components import Judged, Part, findings_of, lint_cost
from upsolve.reward.spans import Bools, Offsets, characters, in_code, tokens, valid_characters
from upsolve.reward.tree import Function, parsed, reads
from upsolve.types import Finding, Status, Task, Verdict
from upsolve.verify.analysis.dead import unexecuted
from upsolve.verify.analysis.source import Source
from upsolve.verify.languages import PYTHON

__all__ = [
    "CREDITS",
    "USUAL",
    "TokenRewards",
    "blame_weights",
    "called",
    "error_findings",
    "executed",
    "last",
    "signed",
    "spread",
    "token_rewards",
]

Floats = NDArray[np.float64]
USUAL: Mapping[str, str] = {
    "outcome": "last",
    "fraction": "last",
    "functional": "each",
    "simulator": "each",
    "syntax": "prefix",
    "lint": "findings",
    "clean_lines": "lines",
    "security": "findings",
    "types": "findings",
    "complexity": "findings",
    "efficiency": "uniform",
    "dataflow": "each",
    "length": "uniform",
    "format": "last",
    "truncated": "last",
    "hacked": "uniform",
}
"""How a part is laid on tokens when a recipe does not say."""


@dataclass(frozen=True, slots=True)
class TokenRewards:
    """What a trainer needs of one attempt."""

    rewards_R: Floats
    """Reward of every token of the completion."""
    mask_R: Bools
    """False for tokens of statements that are known not to have run: no loss of theirs counts."""


@dataclass(frozen=True, slots=True)
class Laid:
    """A part of a reward on its way to tokens."""

    part: Part
    """The part; its weight is not applied yet."""
    judged: Judged
    """The attempt."""
    offsets: Offsets
    """Spans of the R tokens."""
    config: RewardConfig
    """Costs of findings."""

    def at(self, findings: Sequence[Finding], *, whole_lines: bool = False) -> Bools:
        """Return the tokens that findings point at, [R]."""
        code = self.judged.attempt.code
        return tokens(code, characters(code, findings, whole_lines=whole_lines), self.offsets)

    @property
    def code_R(self) -> Bools:  # noqa: N802  R is its axis
        """Return the tokens that are code, [R]."""
        return in_code(self.judged.attempt.code, self.offsets)


def token_rewards(judged: Judged, parts: Sequence[Part], offsets: Offsets, config: RewardConfig) -> TokenRewards:
    """Return r_t = sum over parts of weight times R_k(t), [R]; R_k by the part's way in ``CREDITS``.

    ``last``, ``uniform``, ``blame`` and ``findings`` share a value out: their tokens sum to it. ``each``, ``lines`` and ``prefix`` give
    every code token a value of its own, as 2605.21180 does: their sum grows with the length.

    Args:
        judged: the attempt.
        parts: of its reward, from ``Rewarded.parts``.
        offsets: span of every token of the completion, in characters.
        config: the recipe's.

    Raises:
        ValueError: there is no token.
    """
    if not offsets:
        raise ValueError(f"an attempt at {judged.task.task_id} has no tokens to reward")
    ways: Mapping[str, str] = {**USUAL, **config.credit}
    rewards_R = np.zeros(len(offsets))
    for part in parts:
        rewards_R += part.weight * CREDITS[ways[part.name]](Laid(part, judged, offsets, config))
    mask_R = executed(judged, offsets) if config.mask_unexecuted else np.ones(len(offsets), dtype=np.bool_)
    return TokenRewards(rewards_R, mask_R)


def blame_weights(judged: Judged, offsets: Offsets, share: float) -> Floats:
    """Return w_t = 1 - share + share R [t to blame] / |to blame|, [R]: mean 1; 1 everywhere where nothing is known to be to blame.

    To blame is what raised or failed (``error_findings``). Pushing down a failed attempt as a whole lowers the likelihood of correct
    ones that share its beginning (NTHR, 2505.18830); this pushes where it broke.
    """
    code = judged.attempt.code
    blamed_R = tokens(code, characters(code, error_findings(judged), whole_lines=False), offsets)
    if not blamed_R.any():
        return np.ones(len(offsets))
    return 1 - share + share * blamed_R * (len(offsets) / blamed_R.sum())


def last(value: float, size: int) -> Floats:
    """Return the value on the last of R tokens, 0 elsewhere."""
    rewards_R = np.zeros(size)
    rewards_R[-1] = value
    return rewards_R


def spread(value: float, chosen_R: Bools, code_R: Bools) -> Floats:
    """Return value / n on the n chosen tokens; on those of the code where none is chosen, on the last token where there is no code."""
    place_R = chosen_R if chosen_R.any() else code_R
    return place_R * (value / place_R.sum()) if place_R.any() else last(value, len(code_R))


def signed(bad_R: Bools, code_R: Bools) -> Floats:
    """Return -1 on bad tokens of the code, +1 on the others, 0 outside of the code (2605.21180)."""
    return np.where(bad_R, -1.0, 1.0) * code_R


def uniform(laid: Laid) -> Floats:
    """Share the value out over the code."""
    return spread(laid.part.value, laid.code_R, laid.code_R)


def blame(laid: Laid) -> Floats:
    """Share a value below 0 out over what raised or failed (``error_findings``); any other over the code, as ``uniform`` does."""
    found = error_findings(laid.judged) if laid.part.value < 0 else []
    return spread(laid.part.value, laid.at(found), laid.code_R)


def of_findings(laid: Laid) -> Floats:
    """Share the value out over what the component has found, to each finding by its cost; where code does not parse, over the errors."""
    costs = costly(laid) or [(one, 1.0) for one in findings_of(laid.judged.verdict, "syntax")]
    total = sum(cost for _, cost in costs)
    if not total:
        return uniform(laid)
    shares = [spread(laid.part.value * cost / total, laid.at([one]), laid.code_R) for one, cost in costs]
    return np.sum(shares, axis=0)


def costly(laid: Laid) -> list[tuple[Finding, float]]:
    """Return the findings that a component counts, with what each has cost; all the same where costs are."""
    name, config = laid.part.name, laid.config
    found = findings_of(laid.judged.verdict, name)
    if name == "lint":
        return [(one, lint_cost(one.rule, config.severity)) for one in found]
    if name == "complexity":
        return [(one, max(0.0, (one.value or 0.0) - config.complexity)) for one in found]
    return [(one, 1.0) for one in found]


def lines(laid: Laid) -> Floats:
    """-1 on the lines that lint, security or syntax point at, +1 on all others."""
    found = findings_of(laid.judged.verdict, "lint", "security", "syntax")
    return signed(laid.at(found, whole_lines=True), laid.code_R)


def prefix(laid: Laid) -> Floats:
    """+1 before the first syntax error, -1 from there on."""
    code = laid.judged.attempt.code
    bad_N = np.arange(len(code.rstrip())) >= valid_characters(code, laid.judged.verdict)
    return signed(tokens(code, bad_N, laid.offsets), laid.code_R)


CREDITS: Mapping[str, Callable[[Laid], Floats]] = {
    "last": lambda laid: last(laid.part.value, len(laid.offsets)),
    "uniform": uniform,
    "blame": blame,
    "findings": of_findings,
    "each": lambda laid: np.where(laid.code_R, laid.part.value, 0.0),
    "lines": lines,
    "prefix": prefix,
}
"""Ways from a part to rewards_R, before its weight."""


def error_findings(judged: Judged) -> list[Finding]:
    """Return what is to blame for a status: the first syntax error, the line that raised, or the functions that a failed test calls.

    A line that raised and is an ``assert`` of the attempt's own is a test, too: the functions that it calls are to blame.
    """
    verdict = judged.verdict
    if verdict.status is Status.PASSED:
        return []
    if verdict.status is Status.COMPILE_ERROR:
        return findings_of(verdict, "syntax")[:1]
    tree = parsed(judged.attempt.code) if judged.attempt.language in PYTHON else None
    line = verdict.error_line
    if line and not (tree and any(asserts(tree, line))):
        return [Finding("traceback", verdict.error_type, verdict.error_message, line)]
    if tree is None:
        return []
    return called(tree, [*asserts(tree, line)] if line else [*failed_test(judged.task, verdict)])


def asserts(tree: ast.Module, line: int) -> Iterator[ast.AST]:
    """Yield the ``assert`` statements on a line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and node.lineno <= line <= (node.end_lineno or line):
            yield node


def failed_test(task: Task, verdict: Verdict) -> Iterator[ast.AST]:
    """Yield the tree of the first test that did not pass, if tests are noted and it is Python."""
    for test, outcome in zip(task.tests, verdict.outcomes, strict=False):
        if outcome is not Status.PASSED:
            if tree := parsed(test.input):
                yield tree
            return


def called(tree: ast.Module, sources: Sequence[ast.AST]) -> list[Finding]:
    """Return the functions and classes of a program that other code names, as findings from their first line to their last."""
    own = {node.name: node for node in tree.body if isinstance(node, Function | ast.ClassDef)}
    names = dict.fromkeys(name.id for source in sources for name in reads(source) if name.id in own)
    return [
        Finding("called", name, "a failed test calls this", own[name].lineno, end_line=own[name].end_lineno) for name in names
    ]


def executed(judged: Judged, offsets: Offsets) -> Bools:
    """Return False for tokens of statements that never ran, [R] (StepCoder, 2402.01391); all True where that is not known.

    A token that is in part of a line that ran stays True.
    """
    code, ran = judged.attempt.code, judged.verdict.executed_lines
    if ran is None or judged.attempt.language not in PYTHON:
        return np.ones(len(offsets), dtype=np.bool_)
    idle_N = characters(code, unexecuted(Source(code, executed=ran)), whole_lines=True)
    return tokens(code, ~idle_N, offsets) | ~in_code(code, offsets)
