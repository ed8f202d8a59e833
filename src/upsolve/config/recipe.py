"""The recipe: all stages, reading and writing YAML."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError

from upsolve.config.keys import describe, meant
from upsolve.config.learning import AdvantageConfig, ObjectiveConfig
from upsolve.config.online import OwnConfig, SourceConfig
from upsolve.config.reward import RewardConfig
from upsolve.config.rules import RULES, unread_problems
from upsolve.config.running import DataConfig, EvalConfig, ModelConfig, MonitorConfig, OptimConfig, SampleConfig, VerifyConfig
from upsolve.config.select import SelectConfig
from upsolve.config.strict import Strict, broken
from upsolve.errors import ConfigError, one_line, several
from upsolve.files import write_text
from upsolve.yaml_text import read_yaml, yaml_line

__all__ = [
    "Recipe",
    "check_recipe",
    "dump_recipe",
    "explain",
    "leaves",
    "load_recipe",
    "recipe_changes",
    "recipe_names",
    "recipe_text",
    "recipe_yaml",
]

RECIPES = Path(__file__).parents[1] / "recipes"
"""The recipes that come with the package, one file each; those in a folder are named with it: ``papers/2605.28409_rloo``."""
WHOLE = ("source.mix", "source.mix_end")
"""Mappings that an override replaces instead of merging, since their shares only make sense together."""


NEAREST = 3
"""Most similar names that a message suggests for an unknown recipe."""


class Recipe(Strict):
    """All settings of a run."""

    name: str = "run"
    """Label of the run in reports, and author of its samples."""
    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    source: SourceConfig = SourceConfig()
    own: OwnConfig = OwnConfig()
    reward: RewardConfig = RewardConfig()
    select: SelectConfig = SelectConfig()
    advantage: AdvantageConfig = AdvantageConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    optim: OptimConfig = OptimConfig()
    monitor: MonitorConfig = MonitorConfig()
    sample: SampleConfig = SampleConfig()
    verify: VerifyConfig = VerifyConfig()
    evaluate: EvalConfig = EvalConfig()
    seed: int = Field(default=0, ge=0, lt=2**63)
    """Seed of training; grouping and sampling have their own."""

    @property
    def group_attempts(self) -> int:
        """Attempts of a group that is trained on: 2 if the objective is on pairs, else ``data.group_size``."""
        return 2 if self.objective.record.unit == "pair" else self.data.group_size


def check_recipe(recipe: Recipe) -> None:
    """Check the stages of a recipe against each other; ``load_recipe`` and ``train`` do. ConfigError has one line a problem,
    with its keys.

    ``load_recipe`` also refuses settings of a user's recipe and overrides that have no effect (``config.rules.READ``).
    """
    problems = [*broken(RULES, recipe)]
    if problems:
        raise ConfigError(several(problems))


@cache
def shipped() -> dict[str, Path]:
    """Return the files of the recipes that come with the package, by name."""
    return {file.relative_to(RECIPES).with_name(file.stem).as_posix(): file for file in sorted(RECIPES.rglob("*.yaml"))}


def recipe_names() -> dict[str, str]:
    """Return the recipes that come with the package: name -> the comment at the top of its file, in one line."""
    comments: dict[str, str] = {}
    for name, file in shipped().items():
        lines = file.read_text(encoding="utf-8").splitlines()
        comments[name] = " ".join(line.lstrip("# ") for line in takewhile(lambda line: line.startswith("#"), lines)).strip()
    return comments


def explain(key: str) -> str:
    """Return the explanation of a key such as ``optim.lr``: type, range, default, documentation; of a stage, its keys.
    ConfigError: no such key."""
    return describe(Recipe, key)


def recipe_file(name: str | Path) -> Path:
    """Return the file of a recipe, given by its path or its name in the package. A ConfigError names similar recipes, or the command that lists all."""
    path = Path(name)
    if path.is_file():
        return path
    recipes = shipped()
    if str(name) in recipes:
        return recipes[str(name)]
    stem = str(name).removesuffix(".yaml").rpartition("/")[2]
    close = [key for key in recipes if key.rpartition("/")[2] == stem] or get_close_matches(stem, recipes, n=NEAREST)
    close = close or [key for key in recipes if stem and stem in key][:NEAREST]
    beside = path.parent.iterdir() if path.parent.is_dir() else ()
    files = {file.stem: str(file) for file in beside if file.suffix in (".yaml", ".yml")}
    close = [*(files[one] for one in get_close_matches(path.stem, files, n=NEAREST)), *close][:NEAREST]
    hint = f"did you mean {' or '.join(close)}?" if close else "name a file, or a recipe that `upsolve recipes` lists"
    raise ConfigError(f"{name}: no such recipe; {hint}")


def recipe_text(path: str | Path) -> str:
    """Return the text of a recipe, then the keys that it inherits from its ``base``, and from the base of that, as comments, one key a line.
    ConfigError: no such recipe."""
    file = recipe_file(path)
    lines, above, taken = [file.read_text(encoding="utf-8").strip()], [file], {*leaves(read_mapping(path, file))}
    read_recipe(path)  # refuses a base that does not exist, and a circle
    while base := read_mapping(above[-1], above[-1]).get("base", ""):
        beside = above[-1].parent / base
        above.append(beside if beside.is_file() else recipe_file(base))
        values = leaves(read_mapping(base, above[-1]), whole=WHOLE)
        lines.append(f"# inherited from {base}:")
        lines += [f"#   {key}: {yaml_line(value)}" for key, value in values.items() if key not in taken and key != "base"]
        taken |= values.keys()
    return "\n".join([*lines, "# all other keys have their defaults: `upsolve explain KEY`"])


def read_recipe(path: str | Path, above: Sequence[Path] = ()) -> dict[str, Any]:
    """Read the YAML of a recipe, merged into the recipe that its key ``base`` names; ``above``: recipes that are based on this one."""
    beside = above[-1].parent / path if above else Path(path)
    try:
        file = beside if beside.is_file() else recipe_file(path)
    except ConfigError as error:
        raise ConfigError(f"{above[-1]}: base: {error}" if above else str(error)) from None
    own = read_mapping(path, file)
    base = own.pop("base", "")
    if not base:
        return own
    if not isinstance(base, str) or file.resolve() in [one.resolve() for one in above]:
        raise ConfigError(f"{path}: base: {base}: must be the name or the file of another recipe that is not based on this one")
    below = read_recipe(base, [*above, file])
    return merged(below, own) if own else below  # an empty mapping replaces what it is merged with


def read_mapping(path: str | Path, file: Path) -> dict[str, Any]:
    """Read the keys that the file of a recipe itself sets; a ConfigError names ``path``, under which the file was found."""
    try:
        data: Any = read_yaml(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read as YAML: {one_line(error)}") from error
    if not isinstance(data, dict | None):
        raise ConfigError(f"{path}: a recipe is a mapping of stages, not a {type(data).__name__}")
    return data or {}


def own_keys(path: str | Path) -> set[str]:
    """Return the keys that a user's recipe sets; empty for recipes of the package and for resolved recipes, which name all keys."""
    file = recipe_file(path)
    data = read_mapping(path, file)
    return set() if file in shipped().values() or data.keys() >= Recipe.model_fields.keys() else {*leaves(data)}


def leaves(data: Any, key: str = "", whole: Sequence[str] = ()) -> dict[str, Any]:
    """Return the values of nested mappings by key, such as ``objective.clip.low``; mappings under the keys ``whole`` count as values."""
    if not isinstance(data, dict) or not data or key in whole:
        return {key: data}
    found = (leaves(inner, f"{key}.{name}".lstrip("."), whole) for name, inner in data.items())
    return {name: value for each in found for name, value in each.items()}


def load_recipe(path: str | Path | None, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe and apply ``stage.key=value`` overrides.

    Args:
        path: a YAML file, or the name of a recipe that comes with the package, such as ``rloo``; None: the defaults. Its key ``base``
            names a recipe that gives the values of all keys that the file does not set.
        overrides: one or several, applied in order; the value is YAML. A mapping is merged with the one that the recipe has.

    Raises:
        ConfigError: no such recipe, bad YAML, an unknown key, a value out of range, or keys that contradict each other or have no effect;
            names the file and the key.
    """
    data, given = (read_recipe(path), own_keys(path)) if path else ({}, set[str]())
    for override in [overrides] if isinstance(overrides, str) else overrides:
        given |= {*leaves(*reversed(set_key(data, override)))}
    try:
        recipe = Recipe.model_validate(data)
    except ValidationError as error:
        problems = [problem_text(problem) for problem in error.errors()]
        raise ConfigError(f"{path or 'recipe'}: {several(problems)}") from error
    try:
        check_recipe(recipe)
        if problems := [*unread_problems(recipe, given)]:
            raise ConfigError(several(problems))
    except ConfigError as error:
        raise ConfigError(f"{path or 'recipe'}: {error}") from None
    return recipe


def problem_text(error: Any) -> str:
    """Return a pydantic error in one line: the key and the problem."""
    path = [str(part) for part in error["loc"] if part != "[key]"]
    key, value = ".".join(path), error["input"]
    if error["type"] == "model_type":
        return f"{key}: must be a mapping of keys, as in {key}: {{key: value}}, not {value!r}"
    if error["type"] != "extra_forbidden":
        got = f", got {value!r}" if isinstance(value, str | int | float) and error["type"] != "value_error" else ""
        return one_line(f"{key}: {error['msg'].removeprefix('Value error, ')}{got}")
    close = meant(Recipe, path)
    return f"{key}: no such key; " + (f"did you mean {close}?" if close else f"`upsolve explain {path[0]}` lists its keys")


def set_key(data: dict[str, Any], override: str) -> tuple[str, Any]:
    """Apply one ``stage.key=value`` to a mapping in place, and return key and value; the value is YAML."""
    key, equals, text = override.partition("=")
    if not equals or not all(part.strip() for part in key.split(".")):
        raise ConfigError(f"override {override!r}: must be stage.key=value")
    try:
        value: Any = read_yaml(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"override {override!r}: the value cannot be read as YAML: {one_line(error)}") from error
    *stages, last = key.strip().split(".")
    for stage in stages:
        if data.get(stage) is None:
            data[stage] = {}
        if not isinstance(data[stage], dict):
            raise ConfigError(
                f"override {override!r}: {stage} is a key, not a stage, so it has no key of its own; leave out what follows it"
            )
        data = data[stage]
    data[last] = merged(data.get(last), value, key.strip())
    return key.strip(), value


def merged(old: Any, new: Any, key: str = "") -> Any:
    """Merge two values of a key: mappings name by name, except those in ``WHOLE``; any other value is replaced."""
    if not isinstance(old, dict) or not isinstance(new, dict) or not new or key in WHOLE:
        return new
    return {**old, **{name: merged(old.get(name), value, f"{key}.{name}".lstrip(".")) for name, value in new.items()}}


def recipe_yaml(recipe: Recipe) -> str:
    """Return the resolved recipe as YAML, every key written out."""
    return yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def recipe_changes(recipe: Recipe) -> tuple[str, dict[str, Any]]:
    """Return the recipe of upsolve with the name of a recipe, and the keys in which the two differ. Without such a recipe: the keys that differ from
    the defaults.

    ``bf16: auto``, which a run replaces by its choice, does not count as changed.
    """
    name = recipe.name if recipe.name in recipe_names() else ""
    before = (load_recipe(name) if name else Recipe()).model_dump(mode="json")
    after = recipe.model_dump(mode="json")
    after["model"]["bf16"] = before["model"]["bf16"] if before["model"]["bf16"] == "auto" else after["model"]["bf16"]
    return name, difference(before, after)


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of nested mappings that are new or have another value. A mapping that lost an entry is returned as a whole."""
    changed = {name: value for name, value in new.items() if name not in old or old[name] != value}
    for name, value in changed.items():
        if isinstance(value, dict) and isinstance(old.get(name), dict) and not old[name].keys() - value.keys():
            changed[name] = difference(old[name], value)
    return changed


def dump_recipe(recipe: Recipe, path: str | Path) -> None:
    """Write the resolved recipe, atomically."""
    write_text(Path(path), recipe_yaml(recipe))
