"""Read YAML in which every key of a mapping occurs once, and write a value in one line."""

from typing import Any

import yaml

__all__ = ["read_yaml", "yaml_line"]

MOST = 100_000
"""Largest number of values in a text; a value that aliases repeat counts each time."""


class Unique:
    """Loader that rejects a repeated key of a mapping; PyYAML would silently keep the last value."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping; YAMLError for a repeated key."""
        lines: dict[Any, int] = {}
        for key, _ in node.value:
            name, line = getattr(key, "value", None), key.start_mark.line + 1
            if isinstance(name, str) and name in lines:
                raise yaml.YAMLError(f"line {line}: {name} is in line {lines[name]}, too; put both into one")
            if isinstance(name, str):
                lines[name] = line
        return super().construct_mapping(node, deep)  # type: ignore[misc]

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge the mappings of ``<<`` into a mapping; YAMLError for more than ``MOST`` keys."""
        super().flatten_mapping(node)  # type: ignore[misc]
        if len(node.value) > MOST:
            raise yaml.YAMLError(f"line {node.start_mark.line + 1}: merges more than {MOST:,} keys")


class Loader(Unique, yaml.SafeLoader):
    """PyYAML's safe loader."""


class FastLoader(Unique, yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]
    """PyYAML's safe loader in C: ten times as fast, but its errors name wrong lines."""


RESOLVERS: dict[str, Any] = Loader.yaml_implicit_resolvers
PLAIN = {first: [one for one in forms if first in "tTfF" or not one[0].endswith(":bool")] for first, forms in RESOLVERS.items()}
"""PyYAML's rules that turn words into values, without those for ``yes``, ``no``, ``on`` and ``off``."""


class Words(Loader):
    """Loader that reads ``yes``, ``no``, ``on`` and ``off`` as text."""

    yaml_implicit_resolvers = PLAIN


class FastWords(FastLoader):
    """Loader in C that reads ``yes``, ``no``, ``on`` and ``off`` as text."""

    yaml_implicit_resolvers = PLAIN


def read_yaml(text: str, *, words: bool = False) -> Any:
    """Return the value of a YAML text; with ``words``, ``yes``, ``no``, ``on`` and ``off`` are text.

    Raises:
        yaml.YAMLError: the text is not YAML, a mapping repeats a key, or aliases repeat too much; the message names the line.
    """
    try:
        try:
            found = yaml.load(text, FastWords if words else FastLoader)  # noqa: S506  a safe loader
        except yaml.YAMLError:
            found = yaml.load(text, Words if words else Loader)  # noqa: S506  a safe loader
        if size_of(found, {}) > MOST:
            raise yaml.YAMLError(f"aliases expand to more than {MOST:,} values")
    except RecursionError:
        raise yaml.YAMLError("nested too deeply, or an alias repeats itself") from None
    return found


def yaml_line(value: Any) -> str:
    """Return a value as YAML in one line."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=float("inf"))
    return text.removesuffix("...\n").strip()


def size_of(value: Any, known: dict[int, int]) -> int:
    """Return the number of values in a value; ``known`` has the sizes of lists and mappings that were counted before, by id."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        known[id(value)] = 1 + sum(size_of(one, known) for one in (value.values() if isinstance(value, dict) else value))
    return known[id(value)]
