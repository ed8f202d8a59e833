"""Requests: JSON bodies within bounds, the records and settings of ``/verify``, and ``/run_code`` in SandboxFusion's protocol.

An invalid record gets an unscored verdict; the other records of its request are judged. Settings (``limits.DECISIVE``) are checked against the
server's caps and installed tools.
"""

import base64
import binascii
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from difflib import get_close_matches
from operator import attrgetter
from pathlib import PurePosixPath
from typing import Any, TypeVar, cast

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from upsolve import __version__
from upsolve.errors import UpsolveError
from upsolve.languages import PYTHON, language
from upsolve.records import from_row
from upsolve.types import Attempt, Task, Verdict, content_id
from upsolve.verify.analysis.analyst import tools
from upsolve.verify.judge.outcomes import unjudged
from upsolve.verify.limits import DECISIVE, JudgeSettings, Limits, refuse_impossible
from upsolve.verify.pool.pool import Numbered, refuse_unknown
from upsolve.verify.sandbox.process import COMPILE_SECONDS, encode_text
from upsolve.verify.sandbox.runner import Exit
from upsolve.verify.service.auth_middleware import RefusedError
from upsolve.verify.service.run_code import Program, ProgramResult

__all__ = [
    "CodeRequest",
    "VerifyRequest",
    "answer_of",
    "broken",
    "pairs_of",
    "parsed",
    "program_of",
    "read_object",
    "settings_of",
]

M = TypeVar("M", bound=BaseModel)
BYTES_EACH = {"[{": 24, ":": 12}
"""JSON character -> fewest bytes of a body for each occurrence. An object takes up to 240 bytes of memory, a key 350; real records have more bytes
for each."""
SPARE = 1000
"""Number of objects, lists and keys that a body of any size may have."""
MOST_ENTRIES = 10_000
"""Largest number of entries of a field of a small request."""
TEXT = re.compile(r'"(?:[^"\\]++|\\.?)*+"?', re.DOTALL)
"""A JSON string; an unterminated string extends to the end of the text, so that removing all strings takes linear time."""


def read_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body.

    Raises:
        RefusedError: 422; the body is not a JSON object in UTF-8, is nested too deeply, repeats a key, or has too many objects or keys for its size.
    """
    try:
        text = body.decode("utf-8")
        if is_crowded(text) and is_crowded(TEXT.sub("", text), len(text)):
            raise ValueError(
                f"too many objects, lists or keys: more than one object or list in {BYTES_EACH['[{']} bytes, or one key in {BYTES_EACH[':']}"
            )
        found = json.loads(text, object_pairs_hook=object_of)
    except RecursionError as error:
        raise refused("nested too deeply") from error
    except ValueError as error:
        raise refused(str(error)[:300]) from error
    if not isinstance(found, dict):
        raise refused("is not an object")
    return found


def is_crowded(text: str, size: int = 0) -> bool:
    """Return whether a text has more of some JSON character than a body of this size (default: its own) may have."""
    size = size or len(text)
    return any(sum(map(text.count, signs)) > size // each + SPARE for signs, each in BYTES_EACH.items())


def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object with these pairs; ValueError for a repeated key, since JSON parsers choose different values."""
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
    """Return the refusal of a body, in the format of FastAPI."""
    return RefusedError(422, [{"loc": ("body", *where), "msg": why, "type": "invalid"}])


R = TypeVar("R", bound=Task | Attempt)


class VerifyRequest(BaseModel, extra="allow"):
    """A request: records with the fields of types.py, and settings (``settings_of``).

    An attempt may refer to its task by ``task``, an index into ``tasks``.
    """

    tasks: list[Any]
    attempts: list[Any]

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the request holds."""
        return self.model_extra or {}


def pairs_of(request: VerifyRequest) -> tuple[Numbered, list[tuple[int, Verdict]]]:
    """Return the pairs that can be judged, by index, and unscored verdicts for the remaining pairs."""
    tasks = [build_record(Task, row) for row in request.tasks]
    indices = {task.task_id: index for index, task in enumerate(tasks) if isinstance(task, Task)}
    double = {name for name, times in Counter(t.task_id for t in tasks if isinstance(t, Task)).items() if times > 1}
    good: Numbered = []
    bad: list[tuple[int, Verdict]] = []
    for index, row in enumerate(request.attempts):
        fields = dict(row) if isinstance(row, dict) else row
        number = fields.pop("task", None) if isinstance(fields, dict) else None
        attempt = build_record(Attempt, fields)
        found: Any = f"attempt: {attempt}"
        if isinstance(attempt, Attempt):
            named = indices.get(attempt.task_id) if number is None else number
            if number is None and attempt.task_id in double:
                found = f"two tasks are called {attempt.task_id}: say which by `task`"
            elif named is None:
                found = f"task: no task of this request is called {attempt.task_id}"
            elif not isinstance(named, int) or not 0 <= named < len(tasks):
                found = f"task: {named!r} is not an index into `tasks`, which has {len(tasks)} items"
            else:
                found = tasks[named] if isinstance(tasks[named], Task) else f"task: {tasks[named]}"
        if isinstance(found, Task) and isinstance(attempt, Attempt):
            good.append((index, (found, attempt)))
        else:
            bad.append((index, refuse_record(row, str(found))))
    return good, bad


def build_record(kind: type[R], row: Any) -> R | str:
    """Return the record of a row, or why the row is invalid."""
    if not isinstance(row, dict):
        return "is not an object"
    try:
        return from_row(kind, {name: value for name, value in row.items() if name != "kind"})
    except ValueError as error:
        return str(error)[:300]


def refuse_record(row: Any, problem: str) -> Verdict:
    """Return the unscored verdict for an invalid record."""
    fields = row if isinstance(row, dict) else {}
    parts = [str(fields.get(name, default)) for name, default in (("task_id", ""), ("language", "python"), ("code", ""))]
    return unjudged(content_id(*parts), problem)


UNLIMITED = frozenset(field.name for field in fields(Limits) if field.default == math.inf)
"""Limits for which null means unlimited."""
MOST_REPEATS, MOST_NAMES = 10, 100


SETTINGS = TypeAdapter(JudgeSettings)


def settings_of(given: Mapping[str, Any], settings: JudgeSettings, caps: Limits) -> JudgeSettings:
    """Return the server's settings, overridden by the request's settings (null: the server's value).

    Args:
        given: settings by name.
        settings: settings of the server.
        caps: largest limits of a request.

    Raises:
        ValueError: a setting is unknown, invalid, above its cap, or needs a missing tool; the message names the setting.
    """
    refuse_names(given, DECISIVE, "")
    changes = {name: value for name, value in given.items() if value is not None}
    lists = {name: cast("list[Any]", value) for name, value in changes.items() if isinstance(value, list)}
    if long := next((name for name, value in lists.items() if len(value) > MOST_NAMES), ""):
        raise ValueError(f"{long}: more than {MOST_NAMES} names")
    changed_limits = limits_of(changes.pop("limits", {}))
    plain = {field.name: getattr(settings, field.name) for field in fields(JudgeSettings)}
    try:
        wanted = SETTINGS.validate_python({**plain, **changes, "limits": {**asdict(settings.limits), **changed_limits}})
    except ValidationError as error:
        found = error.errors(include_url=False)[:3]
        raise ValueError("; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg'][:500]}" for one in found)) from None
    refuse_above(
        wanted, repeats=MOST_REPEATS, cost=MOST_REPEATS, **{f"limits.{name}": getattr(caps, name) for name in changed_limits}
    )
    try:
        refuse_impossible(wanted)
        refuse_unknown(wanted)
        tools(wanted.analyses)
    except UpsolveError as error:
        raise ValueError(f"on the server: {error}") from error
    return wanted


def refuse_above(record: Any, **caps: float) -> None:
    """Raise ValueError for a field that is above its cap, or nan."""
    for name, cap in caps.items():
        if not (value := attrgetter(name)(record)) <= cap:
            raise ValueError(f"{name}: {value} is more than this server allows: {cap}")


def limits_of(given: Any) -> dict[str, Any]:
    """Return the limits in a request; null means no limit, or the server's limit if a limit is required."""
    if not isinstance(given, Mapping):
        raise ValueError("limits: must be a JSON object")
    limits = cast("Mapping[str, Any]", given)
    refuse_names(limits, [field.name for field in fields(Limits)], "limits.")
    wanted = {name: math.inf if value is None and name in UNLIMITED else value for name, value in limits.items()}
    return {name: value for name, value in wanted.items() if value is not None}


def refuse_names(given: Iterable[str], known: Iterable[str], where: str) -> None:
    """Raise ValueError for the first unknown name: a setting of a newer client, or a misspelling."""
    names = [*known]
    if unknown := next((name for name in given if name not in names), ""):
        close = get_close_matches(unknown[:100], names, n=1)
        remedy = f"did you mean {where}{close[0]}?" if close else "upgrade the server if a newer client has it"
        raise ValueError(f"unknown field {where}{unknown[:100]!r} for this server (upsolve {__version__}); {remedy}")


NAMES = {"nodejs": "javascript", "R": "r"}
"""SandboxFusion's name -> upsolve's name, for languages whose names differ."""


class CodeRequest(BaseModel, extra="forbid"):
    """A request; unknown fields are refused."""

    code: str
    language: str
    stdin: str | None = None
    compile_timeout: float = Field(default=10.0, gt=0, allow_inf_nan=False)
    run_timeout: float = Field(default=10.0, gt=0, allow_inf_nan=False)
    memory_limit_MB: int = -1
    files: dict[str, str | None] = {}
    fetch_files: list[str] = []
    args: list[str] = []


def program_of(request: CodeRequest, settings: JudgeSettings, caps: Limits) -> tuple[Program, JudgeSettings]:
    """Return the program and the settings of a request; ValueError names a field that is invalid or above its cap."""
    name = NAMES.get(request.language, request.language)
    if name not in PYTHON:
        try:
            language(name)
        except ValueError as error:
            raise ValueError(f"language: {error}") from error
    if request.args:
        raise ValueError("args: programs cannot get arguments; leave args out")
    refuse_above(
        request, compile_timeout=COMPILE_SECONDS, run_timeout=caps.wall_seconds, memory_limit_MB=caps.memory_bytes >> 20
    )
    memory = request.memory_limit_MB << 20 if request.memory_limit_MB > 0 else settings.limits.memory_bytes
    limits = replace(settings.limits, wall_seconds=request.run_timeout, cpu_seconds=caps.cpu_seconds, memory_bytes=memory)
    files = {relative("files", name): decoded(name, data) for name, data in request.files.items() if data is not None}
    fetch = tuple(relative("fetch_files", name) for name in request.fetch_files)
    program = Program(request.code, name, encode_text(request.stdin or ""), files, fetch, request.compile_timeout)
    return program, replace(settings, limits=limits)


def relative(field: str, name: str) -> str:
    """Return a file name relative to the working folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise ValueError(f"{field}: {name!r} is not a path within the program's folder")
    return str(path)


def decoded(name: str, data: str) -> bytes:
    """Return the decoded content of a file."""
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"files: {name!r} is not base64: {error}") from error


def answer_of(ran: ProgramResult, settings: JudgeSettings) -> dict[str, Any]:
    """Return the answer to a request: Failed if the program fails or exceeds a limit, SandboxError if the sandbox fails."""
    ends = [end for end in (ran.built, ran.ended) if end]
    good = all(end.returncode == 0 and not end.timed_out for end in ends)
    room = settings.limits.output_bytes
    message = f"output was cut after {room} bytes" if any(end.output_exceeded for end in ends) else ""
    message = "used more memory than the limit" if any(end.out_of_memory for end in ends) else message
    if ran.left_out:
        names = ", ".join(map(repr, ran.left_out[:5]))
        message = f"{message}; " * bool(message) + f"fetch_files: {names}: unreadable, or more than {room} bytes together"
    return answer("Success" if good else "Failed", message, ran)


def answer(status: str, message: str, ran: ProgramResult) -> dict[str, Any]:
    """Return an answer in SandboxFusion's protocol."""
    files = {name: base64.b64encode(data).decode() for name, data in ran.files.items()}
    results = {"compile_result": command(ran.built), "run_result": command(ran.ended)}
    return {"status": status, "message": message, **results, "executor_pod_name": None, "files": files}


def command(end: Exit | None) -> dict[str, Any] | None:
    """Return the result of a command; its return code is -n if signal n killed it."""
    if end is None:
        return None
    return {
        "status": "TimeLimitExceeded" if end.timed_out else "Finished",
        "execution_time": end.wall_seconds,
        "return_code": None if end.timed_out else end.returncode if end.returncode is not None else -end.signal,
        "stdout": end.stdout.decode("utf-8", "replace"),
        "stderr": end.stderr.decode("utf-8", "replace"),
    }


def broken(problem: str) -> dict[str, Any]:
    """Return the answer for a failure of the sandbox."""
    return answer("SandboxError", problem, ProgramResult())
