"""Reading YAML in which no key is there twice."""

from typing import Any

import yaml

__all__ = ["read_yaml"]


class Unique:
    """Refuses a key that a mapping has twice, of which PyYAML would let the second replace the first."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping; YAMLError for a key that it has twice."""
        lines: dict[Any, int] = {}
        for key, _ in node.value:
            name, line = getattr(key, "value", None), key.start_mark.line + 1
            if isinstance(name, str) and name in lines:
                raise yaml.YAMLError(f"line {line}: {name} is in line {lines[name]}, too; put both into one")
            if isinstance(name, str):
                lines[name] = line
        return super().construct_mapping(node, deep)  # type: ignore[misc]


class Loader(Unique, yaml.SafeLoader):
    """PyYAML's safe loader."""


class FastLoader(Unique, yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]
    """The same in C, ten times as fast, whose errors name wrong lines."""


def read_yaml(text: str) -> Any:
    """Return what a YAML text says.

    Raises:
        yaml.YAMLError: it is not YAML, or a mapping has a key twice; names the line.
    """
    try:
        return yaml.load(text, FastLoader)  # noqa: S506  a safe loader
    except yaml.YAMLError:
        return yaml.load(text, Loader)  # noqa: S506  a safe loader
