"""Configuration of rewards: components, weights, credit, rules for truncated and hacked attempts."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, FiniteFloat

from upsolve.config.strict import Rule, Strict
from upsolve.plugins import find, named
from upsolve.types import Status

__all__ = ["PRESETS", "Preset", "RewardConfig", "Severity"]

Severity = Literal["error", "warning", "convention", "security", "types"]
Preset = Literal["outcome", "tests", "tests+lint", "dense"]
if TYPE_CHECKING:  # a call is no type for pyright
    ComponentName: TypeAlias = str
    CreditName: TypeAlias = str
    DetectorName: TypeAlias = str
else:
    ComponentName, CreditName, DetectorName = named("component"), named("credit"), named("detector")

OUTCOMES: Mapping[Status, float] = {
    Status.PASSED: 1.0,
    Status.FAILED: -0.1,
    Status.TIMEOUT: -0.5,
    Status.RUNTIME_ERROR: -0.6,
    Status.COMPILE_ERROR: -1.0,
    Status.MEMORY_LIMIT: -0.5,
    Status.OUTPUT_LIMIT: -0.5,
}
SEVERITY: Mapping[Severity, float] = {"error": 0.3, "warning": 0.1, "convention": 0.02, "security": 0.3, "types": 0.1}
PRESETS: Mapping[Preset, Mapping[str, float]] = {
    "outcome": {"outcome": 1.0},
    "tests": {"fraction": 1.0},
    "tests+lint": {"fraction": 1.0, "lint": 0.2},
    "dense": {"syntax": 0.1, "clean_lines": 0.1, "functional": 0.7, "dataflow": 0.1},
}
"""Weights by component: 2605.28409; two arms of 2605.30478 (its weights are not published, 0.2 is ours); 2605.21180."""


def over(defaults: Mapping[Any, float]) -> BeforeValidator:
    """Merge a table of a recipe into its defaults: a key that the recipe does not name keeps its default."""

    def merged(table: Any) -> Any:
        return {**defaults, **table} if isinstance(table, dict) else table

    return BeforeValidator(merged)


def unweighted(reward: Any, names: Iterable[str]) -> str:
    """Return the components among ``names`` that have no weight, separated by commas."""
    return ", ".join(sorted({*names} - reward.components.keys()))


class RewardConfig(Strict):
    """Verdict -> reward: a weighted sum of components (docs/rewards.md)."""

    RULES = (
        Rule(lambda r: 0 <= r.length[0] < r.length[1], "length: must be two rising numbers of characters, not {0.length}"),
        Rule(
            lambda r: r.outcomes.get(Status.UNSCORED) is None,
            "outcomes.unscored: an attempt that could not be judged is left out and has no reward; remove it",
        ),
        Rule(
            lambda r: not r.verdicts_seed or r.verdicts == "shuffled",
            "verdicts_seed has no effect with verdicts: {0.verdicts}; remove it, or set verdicts: shuffled",
        ),
        Rule(lambda r: r.components, "weights: every weight is 0, so there is no reward"),
        Rule(
            lambda r: not unweighted(r, r.credit),
            lambda r: f"credit: {unweighted(r, r.credit)} has no weight; set reward.weights or remove it",
        ),
        Rule(
            lambda r: not r.dataflow_threshold or "dataflow" in r.read,
            "dataflow_threshold: dataflow has no weight; set reward.weights or remove it",
        ),
        Rule(
            lambda r: bool(r.score) == ("score" in r.read),
            "score: the component and the name of the score need each other; set reward.weights.score=1 and reward.score=NAME, or neither",
        ),
        Rule(
            lambda r: r.score or (r.score_center, r.score_scale) == (0.0, 1.0),
            "score_center, score_scale: score has no weight; set reward.weights and reward.score, or remove them",
        ),
        Rule(
            lambda r: not unweighted(r, r.gated),
            lambda r: f"gated: {unweighted(r, r.gated)} has no weight; set reward.weights or remove it",
        ),
        Rule(
            lambda r: "rank" not in r.components or not find("component", r.rank).group,
            "rank: {0.rank} is computed from the whole group already; name a component of a single attempt",
        ),
        Rule(
            lambda r: not r.gated or r.components.keys() - {*r.gated},
            "gated: components of this list count where no other component is negative, so the list cannot name all; remove one",
        ),
    )

    preset: Preset = "outcome"
    """Named set of components and weights."""
    weights: dict[ComponentName, FiniteFloat] = Field(default_factory=dict[str, float])
    """Weights by component, overriding the weights of the preset; 0 removes a component."""
    outcomes: Annotated[dict[Status, FiniteFloat | None], over(OUTCOMES)] = Field(default_factory=lambda: {**OUTCOMES})
    """Reward by status; statuses that a recipe does not name keep the default. ``null``: attempts of this status are left out, and counted."""
    severity: Annotated[dict[Severity, Annotated[float, Field(ge=0, le=1)]], over(SEVERITY)] = Field(
        default_factory=lambda: {**SEVERITY}
    )
    """Cost of one finding, by the severity of its rule; severities that a recipe does not name keep the default."""
    efficiency: Literal["group", "reference"] = "group"
    """Baseline of ``efficiency``: the median processor time of the group's passed attempts, or that of the task's reference."""
    rank: ComponentName = "fraction"
    """``rank``: the component whose values are ranked within the group."""
    complexity: int = Field(default=10, ge=1)
    """``complexity``: largest cyclomatic complexity with value 0 (McCabe's limit is 10); at twice that it is -1."""
    length: tuple[int, int] = (2000, 4000)
    """``length``: numbers of characters of code: up to the first the value is 0, from the second on -1."""
    dataflow_threshold: float = Field(default=0.0, ge=0, lt=1)
    """``dataflow``: similarity up to which the value is 0; above, the value is the similarity minus this (2605.21180: 0.5)."""
    score: str = ""
    """``score``: name of the score, such as ``grader`` (docs/scores.md); its value s gives (s - ``score_center``) / ``score_scale``."""
    score_center: FiniteFloat = 0.0
    """``score``: score with value 0."""
    score_scale: Annotated[FiniteFloat, Field(gt=0)] = 1.0
    """``score``: difference of scores that gives a difference of 1."""
    truncated: Literal["keep", "drop"] | FiniteFloat = "keep"
    """Attempts truncated at the token limit: reward them like all others, leave them out, or give each this reward."""
    hacked: Literal["keep", "drop"] | FiniteFloat = "keep"
    """Attempts that a detector flags: the same choice as for ``truncated``. Flagged attempts are counted in any case."""
    in_process: Literal["drop", "keep"] = "drop"
    """Attempts whose tests ran in the attempt's own process, which could have forged the outcome: leave these out and count them, or use them."""
    detectors: tuple[DetectorName, ...] = ("early_exit", "equality", "test_echo", "hard_coded", "stub")
    """Detectors of reward hacks."""
    credit: dict[ComponentName, CreditName] = Field(default_factory=dict[str, str])
    """How a component's value is assigned to tokens, overriding its default."""
    window: int = Field(default=2, ge=0)
    """Credit ``divergence``: tokens after each difference that count as well."""
    gated: tuple[ComponentName, ...] = ()
    """Components whose rewards count only on tokens where no other component's is negative (2605.21180): ``[functional, dataflow]``."""
    verdicts: Literal["as_judged", "shuffled", "inverted", "ignored", "format"] = "as_judged"
    """Control runs (docs/evaluation.md): the judge's verdicts; the same shuffled within each group; inverted; every attempt passed; passed
    if it has the format of an answer and compiles."""
    verdicts_seed: int = 0
    """``verdicts: shuffled``: seed of the permutations."""
    mask_unexecuted: bool = False
    """Mask the tokens of statements that no test executed, where executed lines are known (StepCoder, 2402.01391)."""

    @property
    def components(self) -> Mapping[str, float]:
        """Weights by component: the preset's weights, overridden by ``weights``, without zeros."""
        return {name: weight for name, weight in {**PRESETS[self.preset], **self.weights}.items() if weight}

    @property
    def read(self) -> set[str]:
        """Components whose values are computed: components with a weight, and the component that ``rank`` ranks."""
        return {*self.components, *([self.rank] if "rank" in self.components else [])}
