"""Credit assignment: the parts of an attempt's reward -> a reward for every token of its completion.

Legend: R tokens of the completion; chosen_R, code_R bool; rewards_R float64. Tokens outside the code, such as the closing fence, have
reward 0, except that ``last`` rewards the last token.
"""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from upsolve.config import RewardConfig
from upsolve.languages import PYTHON
from upsolve.plugins import RecordError, find, reraise
from upsolve.reward.code import (
    Bools,
    Function,
    Offsets,
    characters,
    in_code,
    left_at,
    names_read,
    parse,
    token_distance,
    tokens,
    valid_characters,
)
from upsolve.reward.judged import Judged, Part
from upsolve.types import Finding, Status
from upsolve.verify.analysis import Source, findings_of, lint_cost
from upsolve.verify.analysis.syntax import unexecuted

__all__ = [
    "CREDITS",
    "EACH",
    "FINDINGS",
    "LAST",
    "LINES",
    "PREFIX",
    "UNIFORM",
    "Credit",
    "blame_weights",
    "distribute",
    "kept_negatives",
    "token_rewards",
]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TokenRewards:
    """Token rewards of one attempt."""

    rewards_R: Floats
    """Reward of every token of the completion."""
    mask_R: Bools
    """False for tokens of statements known not to have been executed, which are left out of the loss."""


@dataclass(frozen=True, slots=True)
class CreditInput:
    """Input of a credit assignment: one part of a reward, and the attempt whose tokens it is assigned to."""

    part: Part
    """The part of the reward; its weight is applied afterwards."""
    judged: Judged
    """The attempt with its verdict."""
    offsets: Offsets
    """Span (start, end) of each of the R tokens, in characters of the completion."""
    config: RewardConfig
    """The recipe's reward settings, with the costs of findings."""

    def tokens_at(self, findings: Sequence[Finding], *, whole_lines: bool = False) -> Bools:
        """Return True for the tokens that findings point at, [R]."""
        code = self.judged.attempt.code
        return tokens(code, characters(code, findings, whole_lines=whole_lines), self.offsets)

    @property
    def code_R(self) -> Bools:  # noqa: N802  R is its axis
        """Return True for the tokens that are code, [R]."""
        return in_code(self.judged.attempt.code, self.offsets)


@dataclass(frozen=True, slots=True)
class Credit:
    """A rule that assigns a component's value to tokens (``docs/extending.md`` shows how to add one)."""

    assign: Callable[[CreditInput], Floats]
    """Maps a part of a reward to its rewards_R, [R], unweighted and finite."""
    sums: bool = True
    """True if rewards_R sums to the part's value, whatever the length of the completion."""


def token_rewards(judged: Judged, parts: Sequence[Part], offsets: Offsets, config: RewardConfig) -> TokenRewards:
    """Return r_t = sum over parts of weight times R_k(t), [R], where R_k comes from the part's ``Credit``.

    ``last``, ``uniform``, ``blame`` and ``findings`` distribute a value over tokens, so that the token rewards sum to it.
    ``each``, ``lines`` and ``prefix`` give every code token a full value, as 2605.21180 does, so that their sum grows with the
    length. Components in ``config.gated`` count only on tokens where no other part's reward is negative.

    Raises:
        ValueError: there are no tokens.
        RecordError: a credit raised an exception, or did not return a finite reward for every token.
    """
    if not offsets:
        raise ValueError(f"an attempt at {judged.task.task_id} has no tokens, so that no token can be rewarded")
    rewards_R, gated_R, open_R = np.zeros(len(offsets)), np.zeros(len(offsets)), np.ones(len(offsets), dtype=np.bool_)
    for part in parts:
        chosen = config.credit.get(part.name)
        default = RULES.get(part.name)
        credit: Credit = find("credit", chosen) if chosen else default or find("component", part.name).credit
        kind, name = ("credit", chosen) if chosen else ("component", part.name)
        part_R = assigned(credit, CreditInput(part, judged, offsets, config), kind, name)
        if part.name in config.gated:
            gated_R += part.weight * part_R
        else:
            rewards_R += part.weight * part_R
            open_R &= part.weight * part_R >= 0
    rewards_R += gated_R * open_R
    mask_R = executed(judged, offsets) if config.mask_unexecuted else np.ones(len(offsets), dtype=np.bool_)
    return TokenRewards(rewards_R, mask_R)


def assigned(credit: Credit, inputs: CreditInput, kind: str, name: str) -> Floats:
    """Return the rewards that a credit assigns to tokens, [R]; RecordError, with kind and name of the record, unless each is finite."""
    try:
        part_R = np.asarray(credit.assign(inputs), dtype=np.float64)
    except Exception as error:
        reraise(kind, name, error)
    if part_R.shape != (len(inputs.offsets),) or not np.isfinite(part_R).all():
        raise RecordError(
            f"credit of {inputs.part.name}: {part_R.shape} rewards for {len(inputs.offsets)} tokens; each token needs one finite reward, got {part_R}"
        )
    return part_R


def kept_negatives(name: str, judged: Judged, offsets: Offsets, config: RewardConfig) -> Bools:
    """Return bool [R]: True for the tokens to which the credit ``name`` assigns a part of a value of -1; these keep a negative advantage."""
    inputs = CreditInput(Part(name, -1.0, 1.0), judged, offsets, config)
    return assigned(find("credit", name), inputs, "credit", name) != 0


def blame_weights(judged: Judged, offsets: Offsets, share: float) -> Floats:
    """Return w_t = 1 - share + share R [t in B] / |B|, [R], with mean 1; B are the tokens of ``error_findings``. If B is empty, w_t = 1.

    Lowering the likelihood of a failed attempt as a whole also lowers that of correct attempts with the same beginning (NTHR,
    2505.18830); these weights concentrate the change on the code that raised or failed.
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


def distribute(value: float, chosen_R: Bools, code_R: Bools) -> Floats:
    """Return value / n on the n chosen tokens; without chosen tokens on the n code tokens; without code tokens on the last token."""
    target_R = chosen_R if chosen_R.any() else code_R
    return target_R * (value / target_R.sum()) if target_R.any() else last(value, len(code_R))


def signed(bad_R: Bools, code_R: Bools) -> Floats:
    """Return -1 on bad code tokens, +1 on the other code tokens, 0 outside the code (2605.21180)."""
    return np.where(bad_R, -1.0, 1.0) * code_R


def by_uniform(inputs: CreditInput) -> Floats:
    """Distribute the value evenly over the code tokens."""
    return distribute(inputs.part.value, inputs.code_R, inputs.code_R)


def by_blame(inputs: CreditInput) -> Floats:
    """Distribute a negative value over the code that raised or failed (``error_findings``), any other value evenly over all code."""
    findings = error_findings(inputs.judged) if inputs.part.value < 0 else []
    return distribute(inputs.part.value, inputs.tokens_at(findings), inputs.code_R)


def by_divergence(inputs: CreditInput) -> Floats:
    """Distribute a negative value over the tokens at which the program departs from the nearest passed program of its group.

    ``reward.window`` tokens after each also count. Any other value, or a group without a passed program: evenly over all code.
    """
    part, code, passed = inputs.part, inputs.judged.attempt.code, inputs.judged.passed
    if part.value >= 0 or not passed:
        return by_uniform(inputs)
    nearest = min(passed, key=lambda other: token_distance(code, other))
    marked_N, end = left_at(code, nearest, inputs.config.window), len(code.rstrip())
    chosen_R = tokens(code, marked_N[:end], inputs.offsets)
    if marked_N[end] and (after := [place for place, (_, stop) in enumerate(inputs.offsets) if stop > end]):
        chosen_R[after[0]] = True
    return distribute(part.value, chosen_R, inputs.code_R)


def by_findings(inputs: CreditInput) -> Floats:
    """Distribute the value over the component's findings, in proportion to their costs; over the syntax errors if the code does not parse."""
    name, verdict, config = inputs.part.name, inputs.judged.verdict, inputs.config
    costs: Mapping[str, Callable[[Finding], float]] = {
        "lint": lambda found: lint_cost(found.rule, config.severity),
        "complexity": lambda found: max(0.0, (found.value or 0.0) - config.complexity),
    }
    cost: Callable[[Finding], float] = costs.get(name) or (lambda _: 1.0)
    priced = [(found, cost(found)) for found in findings_of(verdict, name)]
    priced = priced or [(found, 1.0) for found in findings_of(verdict, "syntax")]
    total = sum(price for _, price in priced)
    if not total:
        return by_uniform(inputs)
    shares = [
        distribute(inputs.part.value * price / total, inputs.tokens_at([found]), inputs.code_R) for found, price in priced
    ]
    return np.sum(shares, axis=0)


def by_lines(inputs: CreditInput) -> Floats:
    """Assign -1 to the lines with a finding of lint, security or syntax, +1 to all other lines."""
    findings = findings_of(inputs.judged.verdict, "lint", "security", "syntax")
    return signed(inputs.tokens_at(findings, whole_lines=True), inputs.code_R)


def by_prefix(inputs: CreditInput) -> Floats:
    """Assign +1 to the tokens before the first syntax error, -1 to all later tokens."""
    code = inputs.judged.attempt.code
    bad_N = np.arange(len(code.rstrip())) >= valid_characters(code, inputs.judged.verdict)
    return signed(tokens(code, bad_N, inputs.offsets), inputs.code_R)


EACH = Credit(lambda inputs: np.where(inputs.code_R, inputs.part.value, 0.0), sums=False)
FINDINGS = Credit(by_findings)
LAST = Credit(lambda inputs: last(inputs.part.value, len(inputs.offsets)))
LINES = Credit(by_lines, sums=False)
PREFIX = Credit(by_prefix, sums=False)
UNIFORM = Credit(by_uniform)
CREDITS: Mapping[str, Credit] = {
    "last": LAST,
    "uniform": UNIFORM,
    "blame": Credit(by_blame),
    "divergence": Credit(by_divergence),
    "findings": FINDINGS,
    "each": EACH,
    "lines": LINES,
    "prefix": PREFIX,
}
"""Built-in credits by name (``reward.credit``)."""
RULES: Mapping[str, Credit] = {"truncated": LAST, "hacked": UNIFORM}
"""Credits of rewards that the rules for truncated and hacked attempts set, by the rule's name."""


def error_findings(judged: Judged) -> list[Finding]:
    """Return the cause of the status: the first syntax error, the line that raised, or the functions that the first failed test calls.

    If the line that raised is an ``assert`` of the attempt itself, it is treated as a failed test: the functions that it calls are returned.
    """
    verdict = judged.verdict
    if verdict.status is Status.PASSED:
        return []
    if verdict.status is Status.COMPILE_ERROR:
        return findings_of(verdict, "syntax")[:1]
    tree = parse(judged.attempt.code) if judged.attempt.language in PYTHON else None
    line = verdict.error_line
    if line and not (tree and any(asserts(tree, line))):
        return [Finding("traceback", verdict.error_type, verdict.error_message, line)]
    if tree is None:
        return []
    if line:
        return called(tree, [*asserts(tree, line)])
    outcomes = zip(judged.task.tests, verdict.outcomes, strict=False)
    failed = next((test for test, outcome in outcomes if outcome is not Status.PASSED), None)
    source = parse(failed.input) if failed else None
    return called(tree, [source] if source else [])


def asserts(tree: ast.Module, line: int) -> Iterator[ast.AST]:
    """Yield the ``assert`` statements on a line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and node.lineno <= line <= (node.end_lineno or line):
            yield node


def called(tree: ast.Module, sources: Sequence[ast.AST]) -> list[Finding]:
    """Return the top-level functions and classes of a program that are named in ``sources``, as findings over all of their lines."""
    own = {node.name: node for node in tree.body if isinstance(node, Function | ast.ClassDef)}
    names = dict.fromkeys(name.id for source in sources for name in names_read(source) if name.id in own)
    return [
        Finding("called", name, "a failed test calls this", own[name].lineno, end_line=own[name].end_lineno) for name in names
    ]


def executed(judged: Judged, offsets: Offsets) -> Bools:
    """Return False for tokens of statements that were never executed, [R] (StepCoder, 2402.01391); True where an executed line
    overlaps, or if unknown."""
    code, ran = judged.attempt.code, judged.verdict.executed_lines
    if ran is None or judged.attempt.language not in PYTHON:
        return np.ones(len(offsets), dtype=np.bool_)
    idle_N = characters(code, unexecuted(Source(code, executed=ran)), whole_lines=True)
    return tokens(code, ~idle_N, offsets) | ~in_code(code, offsets)
