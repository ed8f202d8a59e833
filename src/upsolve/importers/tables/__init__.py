"""Importers of tables and JSON lines of any columns, and what columns can hold: the fields of tasks, attempts and outcomes."""

from collections.abc import Mapping
from typing import Any

from upsolve.importers.outcome import OUTCOME_FIELDS, POINTS
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

TASK_FIELDS: Mapping[str, str] = {
    "task_id": "name of the task; without it, rows with the same prompt have the same task",
    "prompt": "statement",
    "tests": 'asserts, {"inputs": [...], "outputs": [...]}, or tests as in upsolve\'s JSONL',
    "entry_point": "function that the tests call",
    "difficulty": "difficulty",
    "reference": "correct program",
    "setup": "code that runs before the attempt",
    "compare": "how outputs are compared",
    "checker": "code of check(input, expected, output)",
    "limit_seconds": "processor time of one test, seconds",
    "limit_bytes": "memory, bytes",
    "official": "whether the recorded outcomes come from these tests",
    "requires": "packages that the program needs, a list or a name",
}
TEST_FIELDS: Mapping[str, str] = {
    "starter": "code to start from, which ends the prompt",
    "grader": "comparison as in contests or by a published grader: contest, contest:1e-9, exact, apps, livecodebench; unittest: each test runs all of the file",
    "hidden": "whether a prompt may not show the tests",
    "provided": "whether programs find imported what contests provide, as tests that call functions do",
    "imported": "whether the packages that tests and reference import are required",
}
ATTEMPT_FIELDS: Mapping[str, str] = {
    "code": "program",
    "answer": "whole response of a model, with its program in a fence",
    "language": "language of program and task; without a column of that name, such as `cpp`, the language of all",
    "author": "user or model",
    "created": "time, ISO 8601",
    "id": "name of the attempt in this table",
    "parent": "id, in another row, of the attempt that this one repairs",
}
SAMPLE_FIELDS: Mapping[str, str] = {
    "tokens": "length of the answer, tokens",
    "truncated": "whether sampling stopped at the token limit: true, length or max_tokens",
    "token_ids": "tokens of the answer",
    "token_logps": "their log-probabilities, nats",
}
FILE_FIELDS: Mapping[str, str] = {
    "prompt_file": "file with the statement, relative to the table",
    "code_file": "file with the program, relative to the table",
}
OUTCOMES = {**OUTCOME_FIELDS, **POINTS, "share": "share of the tests that passed"}
FIELDS = {**TASK_FIELDS, **TEST_FIELDS, **ATTEMPT_FIELDS, **SAMPLE_FIELDS, **FILE_FIELDS, **OUTCOMES}
"""What a column can hold -> what that is."""
NAMED_ONLY = ("answer", "official", "requires", "share", *TEST_FIELDS, *SAMPLE_FIELDS, *FILE_FIELDS, *POINTS)
"""Fields whose column must be named: a column ``answer`` often holds the expected answer, and ``points`` those of a contest."""
NAMES = ("task_id", "prompt", "prompt_file")
"""Fields that identify a task."""
PROGRAMS = ("code", "answer", "code_file")
OF_TASK = "of the task"
"""Column with the columns of a row of which several attempts come, and that no field has."""
CONTENT = tuple(name for name in TASK_FIELDS if name != "task_id")
"""Fields in which rows of one task must not differ."""
SPANS = {name: slice(8 * index, 8 * index + 8) for index, name in enumerate(CONTENT)}
"""Place of each in ``hashes_of``."""
REFERENCE = "reference among the attempts"
"""Column with the first attempt that a map takes as the reference."""
ATTEMPTS = "attempts of the task"
"""Column with the attempts of a row: values of fields, and of other columns."""
KEYS = (*NAMES, *PROGRAMS, "status", "passed")
"""Fields whose columns, if named, the first rows of JSON must have."""


def sampled(cells: Mapping[str, Any], answer: str, code: str) -> dict[str, Any]:
    """Return the fields of an attempt about its tokens, given those of a row; the log-probability of the code is known if the answer is nothing else."""
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
    """Return a hash of a field of a task, as ``hashes_of`` has it at its place in ``SPANS``."""
    return hash(getattr(task, name)).to_bytes(8, signed=True)
