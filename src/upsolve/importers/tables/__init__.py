"""Importers of tables and JSON lines with any columns, and the fields that columns can hold: of tasks, attempts and outcomes."""

from collections.abc import Mapping
from typing import Any

from upsolve.importers.outcome import POINTS
from upsolve.importers.rows import data_in
from upsolve.policy.answers import is_only_code
from upsolve.types import Task

__all__ = [
    "ATTEMPTS",
    "ATTEMPT_FIELDS",
    "CONTENT",
    "FIELDS",
    "FILE_FIELDS",
    "KEYS",
    "NAMED_ONLY",
    "NAMES",
    "OF_TASK",
    "PROGRAMS",
    "REFERENCE",
    "SAMPLE_FIELDS",
    "SPANS",
    "TASK_FIELDS",
    "hash_of",
    "hashes_of",
    "sampled",
]

SECTIONS: Mapping[str, Mapping[str, str]] = data_in("fields.yaml")
TASK_FIELDS = SECTIONS["task"]
TEST_FIELDS = SECTIONS["tests"]
ATTEMPT_FIELDS = SECTIONS["attempt"]
SAMPLE_FIELDS = SECTIONS["sample"]
FILE_FIELDS = SECTIONS["files"]
FIELDS = {name: what for section in SECTIONS.values() for name, what in section.items()}
"""Field that a column can hold -> description."""
NAMED_ONLY = ("answer", "official", "requires", "share", *TEST_FIELDS, *SAMPLE_FIELDS, *FILE_FIELDS, *POINTS)
"""Fields whose column must be named. A column ``answer`` often holds the expected answer, and ``points`` often the points of a contest."""
NAMES = ("task_id", "prompt", "prompt_file")
"""Fields that identify a task."""
PROGRAMS = ("code", "answer", "code_file")
OF_TASK = "of the task"
"""Internal column of a row with several attempts; it holds the columns that no field uses."""
CONTENT = tuple(name for name in TASK_FIELDS if name != "task_id")
"""Fields in which rows of one task must not differ."""
SPANS = {name: slice(8 * index, 8 * index + 8) for index, name in enumerate(CONTENT)}
"""Field in ``CONTENT`` -> its position in ``hashes_of``."""
REFERENCE = "reference among the attempts"
"""Internal column with the first attempt that a map takes as the reference."""
ATTEMPTS = "attempts of the task"
"""Internal column with the attempts of a row: values of fields, and of other columns."""
KEYS = (*NAMES, *PROGRAMS, "status", "passed")
"""Fields whose columns, if named, must occur in the first rows of JSON."""


def sampled(cells: Mapping[str, Any], answer: str, code: str) -> dict[str, Any]:
    """Return the fields of an attempt about its tokens from those of a row. The code's log-probability is known if the answer consists of only the code."""
    if cells.keys().isdisjoint(SAMPLE_FIELDS):
        return {}
    ids, logps = cells.get("token_ids") or (), cells.get("token_logps") or ()
    return {
        "tokens": cells.get("tokens") or len(ids) or None,
        "truncated": str(cells.get("truncated", "")).lower() in ("true", "1", "length", "max_tokens"),
        "token_ids": ids or None,
        "token_logps": logps if logps and len(logps) == len(ids) else None,
        "behavior_logp": sum(logps) if logps and is_only_code(answer, code) else None,
    }


def hashes_of(task: Task) -> bytes:
    """Return a hash of each field of a task in ``CONTENT``."""
    return b"".join(hash_of(task, name) for name in CONTENT)


def hash_of(task: Task, name: str) -> bytes:
    """Return the hash of one field of a task, which is at the field's position (``SPANS``) in ``hashes_of``."""
    return hash(getattr(task, name)).to_bytes(8, signed=True)
