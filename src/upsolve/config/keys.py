"""The keys of a recipe: listing, documentation, and suggestions for unknown keys."""

import ast
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, Literal, get_args, get_origin

import annotated_types
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from upsolve.errors import ConfigError
from upsolve.plugins import KINDS, names
from upsolve.yaml_text import yaml_line

__all__ = ["all_keys", "describe", "is_stage", "meant"]

BOUNDS = {
    annotated_types.Gt: ("gt", ">"),
    annotated_types.Ge: ("ge", ">="),
    annotated_types.Lt: ("lt", "<"),
    annotated_types.Le: ("le", "<="),
}


def all_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield ``stage`` and ``stage.key`` for every key of a model, in its order."""
    for name, field in model.model_fields.items():
        yield prefix + name
        inner: Any = field.annotation
        if is_model(inner):
            yield from all_keys(inner, f"{prefix}{name}.")


def is_model(annotation: Any) -> bool:
    """Return whether a key holds a stage with a fixed set of keys."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def meant(model: type[BaseModel], path: Sequence[str]) -> str:
    """Return the key closest in meaning to an unknown key, ``optim.lr`` for ``optim.learning_rate``; empty if none is
    close.

    Candidates are tried in this order: a key of the stage with a similar name; a key whose initials were given; the same last name in another stage;
    any similar key.
    """
    stage, last = ".".join(path[:-1]), path[-1]
    keys = sorted(all_keys(model), key=lambda key: key.count("."))
    beside = {key.rpartition(".")[2]: key for key in keys if key.rpartition(".")[0] == stage}
    initials = "".join(word[:1] for word in last.split("_"))
    near = [*get_close_matches(last, beside, n=1, cutoff=0.7), *([initials] if "_" in last and initials in beside else [])]
    elsewhere = [key for key in keys if key.rpartition(".")[2] == last and not is_stage(model, key)]
    alike = get_close_matches(".".join(path), (key for key in keys if key != stage), n=1, cutoff=0.75)
    return next(iter([*(beside[name] for name in near), *elsewhere, *alike]), "")


def is_stage(model: type[BaseModel], key: str) -> bool:
    """Return whether a key holds other keys."""
    parent, name = owner(model, key)
    return is_model(parent.model_fields[name].annotation)


def owner(model: type[BaseModel], key: str) -> tuple[type[BaseModel], str]:
    """Return the model that a key belongs to, and its last name; raises ConfigError for an unknown key and suggests the closest key."""
    current: Any = model
    parent, last = model, key.rpartition(".")[2]
    for stage in key.split("."):
        if not is_model(current) or stage not in current.model_fields:
            close = meant(model, key.split("."))
            raise ConfigError(f"no key {key!r} in a recipe" + (f"; did you mean {close}?" if close else ""))
        parent, current = current, current.model_fields[stage].annotation
    return parent, last


def describe(model: type[BaseModel], key: str) -> str:
    """Return the type, range, default and documentation of a key; for a stage, one line for each of its keys. ConfigError: no
    such key."""
    parent, name = owner(model, key)
    field = parent.model_fields[name]
    if is_model(field.annotation):
        inner: Any = field.annotation
        lines = [f"  {key}.{field}: {summary(inner, field)}" for field in inner.model_fields]
        return "\n".join([f"{key}: {(inspect.getdoc(inner) or '').splitlines()[0]}", *lines])
    plain = to_jsonable_python(field.get_default(call_default_factory=True))
    facts = {"type": allowed(parent, name), "default": yaml_line(plain)}
    return "\n".join([key, *(f"  {label}: {text}" for label, text in facts.items()), f"  {documentation(parent, name)}"])


def summary(model: type[BaseModel], name: str) -> str:
    """Return the first sentence of a key's documentation; for the key of a stage, of the stage's class."""
    annotation = model.model_fields[name].annotation
    text = (inspect.getdoc(annotation) or "") if is_model(annotation) else documentation(model, name)
    return text.splitlines()[0] if text else allowed(model, name)


def allowed(model: type[BaseModel], name: str) -> str:
    """Return the type of a key in words, with the values or the range that it may have."""
    field = model.model_fields[name]
    written = source(model)[name][0]
    kind = written.removesuffix("Name").lower()
    if kind in KINDS:
        return f"one of {', '.join(names(kind))}, or package.module:attribute"
    if get_origin(field.annotation) is Literal:
        return f"one of {', '.join(map(str, get_args(field.annotation)))}"
    bounds = [
        f"{sign} {getattr(bound, at)}"
        for bound in field.metadata
        for kind, (at, sign) in BOUNDS.items()
        if isinstance(bound, kind)
    ]
    return ", ".join([written, *bounds])


def documentation(model: type[BaseModel], name: str) -> str:
    """Return the docstring under a key in the source; empty if the key has none."""
    return " ".join(source(model)[name][1].split())


@cache
def source(model: type[BaseModel]) -> dict[str, tuple[str, str]]:
    """Return the annotation of every key as it is written, without pydantic's marks, and the docstring under it."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(tree, ast.ClassDef)
    keys: dict[str, tuple[str, str]] = {}
    for base in model.__bases__:
        if issubclass(base, BaseModel) and base.model_fields:
            keys |= source(base)
    for node, after in zip(tree.body, [*tree.body[1:], ast.Pass()], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
        written = node.annotation
        if (
            isinstance(written, ast.Subscript)
            and ast.unparse(written.value) == "Annotated"
            and isinstance(written.slice, ast.Tuple)
        ):
            written = written.slice.elts[0]
        keys[node.target.id] = (ast.unparse(written), str(text))
    return keys
