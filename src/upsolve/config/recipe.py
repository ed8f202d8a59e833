"""The whole recipe, in and out of YAML."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from upsolve.config.learning import AdvantageConfig, ObjectiveConfig, RewardConfig
from upsolve.config.online import SourceConfig
from upsolve.config.running import DataConfig, EvalConfig, ModelConfig, MonitorConfig, OptimConfig, SampleConfig, VerifyConfig
from upsolve.config.strict import Strict
from upsolve.errors import ConfigError
from upsolve.files import write_text

__all__ = ["Recipe", "cache_folder", "dump_recipe", "load_recipe", "recipe_yaml"]


class Recipe(Strict):
    """Everything a run is made of."""

    name: str = "run"
    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    source: SourceConfig = SourceConfig()
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
    """Write the resolved recipe, atomically."""
    write_text(Path(path), recipe_yaml(recipe))


def cache_folder() -> Path:
    """Return where caches are kept: $UPSOLVE_CACHE, or upsolve/ under $XDG_CACHE_HOME or ~/.cache."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("UPSOLVE_CACHE") or Path(home) / "upsolve")
