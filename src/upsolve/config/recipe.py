"""The whole recipe, in and out of YAML."""

import os
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from upsolve.config.learning import AdvantageConfig, ObjectiveConfig
from upsolve.config.online import SourceConfig
from upsolve.config.reward import RewardConfig
from upsolve.config.running import DataConfig, EvalConfig, ModelConfig, MonitorConfig, OptimConfig, SampleConfig, VerifyConfig
from upsolve.config.strict import Strict
from upsolve.errors import ConfigError
from upsolve.files import write_text

__all__ = ["RECIPES", "Recipe", "cache_folder", "dump_recipe", "load_recipe", "recipe_file", "recipe_yaml"]

RECIPES = Path(__file__).parents[1] / "recipes"
"""The recipes that come with the package, one file each."""


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


def recipe_file(name: str | Path) -> Path:
    """Return the file of a recipe: a path, or the name of a recipe that comes with the package.

    Raises:
        ConfigError: there is no such file and no such name; lists the names that are close, or all of them.
    """
    path = Path(name)
    if path.is_file():
        return path
    known = {file.stem: file for file in sorted(RECIPES.glob("*.yaml"))}
    if str(name) in known:
        return known[str(name)]
    close = [path.stem] if path.stem in known else get_close_matches(path.stem, known, n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else f"recipes that come with upsolve: {', '.join(known)}"
    raise ConfigError(f"{name}: no such recipe; {hint}")


def load_recipe(path: str | Path | None, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe and apply ``stage.key=value`` overrides.

    Args:
        path: a YAML file, or the name of a recipe that comes with the package, such as ``rloo``; None: the defaults.
        overrides: applied in order; the value is YAML.

    Raises:
        ConfigError: no such recipe, bad YAML, an unknown key or a value out of range; names the file and the key.
    """
    try:
        data: Any = yaml.safe_load(recipe_file(path).read_text(encoding="utf-8")) if path else None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
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
