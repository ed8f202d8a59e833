"""Bodies of requests: JSON objects, parsed within bounds that any record fits, whatever the client sends."""

import json
import re
from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from upsolve.verify.service.auth_middleware import RefusedError

__all__ = ["parsed", "read_object"]

M = TypeVar("M", bound=BaseModel)
BYTES_EACH = {"[{": 24, ":": 12}
"""Signs of JSON -> fewest bytes of a body for each of them: records have more, and an object takes up to 240 bytes of memory, a key 350."""
SPARE = 1000
"""Objects, lists and keys that any body may have."""
MOST_ENTRIES = 10_000
"""Largest number of entries of a field of a small request."""
TEXT = re.compile(r'"(?:[^"\\]++|\\.?)*+"?', re.DOTALL)
"""A JSON string; one without its end reaches to the end, so that removing all takes linear time."""


def read_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body.

    Raises:
        RefusedError: 422; it is no JSON object in UTF-8, is nested too deeply, has too many objects or keys for its size, or a key twice.
    """
    try:
        text = body.decode("utf-8")
        if is_crowded(text) and is_crowded(TEXT.sub("", text), len(text)):
            raise ValueError(f"more than one object or list in {BYTES_EACH['[{']} bytes, or key in {BYTES_EACH[':']}")
        found = json.loads(text, object_pairs_hook=object_of)
    except RecursionError as error:
        raise refused("nested too deeply") from error
    except ValueError as error:
        raise refused(str(error)[:300]) from error
    if not isinstance(found, dict):
        raise refused("is not an object")
    return found


def is_crowded(text: str, size: int = 0) -> bool:
    """Return whether a text has more of some sign than a body of a size (default: its own) may have."""
    size = size or len(text)
    return any(sum(map(text.count, signs)) > size // each + SPARE for signs, each in BYTES_EACH.items())


def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of its pairs; ValueError for a key that is there twice, of which JSON parsers choose different ones."""
    found = dict(pairs)
    if len(found) < len(pairs):
        seen = set[str]()
        double = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"an object has the key {double[:100]!r} twice")
    return found


def parsed(model: type[M], row: dict[str, Any]) -> M:
    """Return a small request; RefusedError names the first fields that are unknown or invalid, without their values."""
    if unknown := next((name for name in row if name not in model.model_fields), None):
        raise refused("unknown field", unknown[:100])
    for name, value in row.items():
        if isinstance(value, dict | list) and len(value) > MOST_ENTRIES:  # pyright: ignore[reportUnknownArgumentType]
            raise refused(f"has more than {MOST_ENTRIES} entries", name)
    try:
        return model.model_validate(row)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)[:5]
        raise RefusedError(422, [{**one, "loc": ["body", *one["loc"]]} for one in found]) from error


def refused(why: str, *where: str) -> RefusedError:
    """Return the refusal of a body, in the form of FastAPI's."""
    loc: Sequence[str] = ("body", *where)
    return RefusedError(422, [{"loc": loc, "msg": why, "type": "invalid"}])
