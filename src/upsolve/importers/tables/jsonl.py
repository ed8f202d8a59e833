"""JSONL with one record per line: ``{"kind": "task" | "attempt" | "verdict", ...}`` with the fields of types.py."""

import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from upsolve.archive.preference import score_verdicts
from upsolve.importers import outcome
from upsolve.importers.formats import Kind, data_files, json_lines
from upsolve.importers.recogniser.code import sound_tests
from upsolve.importers.recogniser.failing import About
from upsolve.importers.rows import Row, as_json, build_each, emptied, first_rows, language_of_task, left_out, odd_fields
from upsolve.importers.source import IMPORTS, Source, split_files
from upsolve.importers.tables.columns import likely_fields
from upsolve.languages.names import comparison_of, language_in
from upsolve.policy.answers import names_of, program_in
from upsolve.records import KINDS, from_row, refuse_impossible
from upsolve.types import Attempt, Task, Verdict
from upsolve.verify.limits import Imports, prepared

__all__ = ["SOURCE"]

JUDGE = "recorded:jsonl"
CONTENT_ID = re.compile("[0-9a-f]{20}")
TaskFacts = tuple[str, tuple[str, ...], tuple[bool, ...]]
"""Language that a task asks for, names that its programs must define, and whether each of its tests is kept; () if all are kept."""
LOOKED_FOR = {"task": ("prompt", "tests", "language"), "attempt": ("answer", "code", "language", "author", "created", "status")}
"""Kind of a record -> fields for which an unknown field may be meant."""


def read(path: Path, *, imports: Imports = Imports.NONE) -> Iterator[Row]:
    """Yield the records of a file, or of the files of a folder; names of attempts are unique within a file."""
    for file in data_files(path, Kind.JSONL):
        numbered = json_lines(file)
        head = first_rows(numbered)
        advise([row for _, row in head if isinstance(row, dict)])
        build = partial(records_of, ids={}, known={}, kept={})
        yield from prepared(build_each(file, chain(emptied(head), numbered), build), imports)


def advise(rows: Sequence[dict[str, Any]]) -> None:
    """Warn of unknown fields that resemble known ones. The warning has the same words for all files of a folder, so that it is printed once."""
    for kind, looked_for in LOOKED_FOR.items():
        known = {
            name: name
            for name in (*KINDS[kind].__dataclass_fields__, *((*outcome.OUTCOME_FIELDS, "scores") if kind == "attempt" else ()))
        }
        if likely := likely_fields([row for row in rows if row.get("kind") == kind], known, looked_for):
            renamed = ", ".join(f"{column} to {field}" for field, column in likely.items())
            warnings.warn(
                f"unknown fields of {kind}s are stored in extra, and some look like known ones: rename {renamed}, and import "
                "into a new archive",
                stacklevel=3,
            )


def records_of(
    row: dict[str, Any], *, ids: dict[str, str], known: dict[str, TaskFacts], kept: dict[str, tuple[bool, ...]]
) -> Iterator[Row]:
    """Yield the records of a line; fields that upsolve does not know are kept in ``extra``."""
    fields = {name: value for name, value in row.items() if name != "kind" and value is not None and value == value}
    kind = str(row.get("kind"))
    if kind not in KINDS:
        problem = f"kind is {row['kind']}" if "kind" in row else "the field kind is missing"
        table = "" if "kind" in row else "; a file with an attempt and its task in each row is a table: upsolve ingest table"
        raise ValueError(f"{problem}, it must be one of {', '.join(KINDS)}{table}")
    if kind == "verdict":
        verdict = verdict_of(fields, ids)
        yield from filter(None, [outcome.without_left_out(verdict, kept.get(verdict.attempt_id, ()))])
    elif kind == "task":
        compare = comparison_of(str(fields.get("language", "")))
        task = from_row(Task, {"compare": compare, **with_extra(fields, Task)})
        facts, sound = (task.language, names_of(task)), tuple[bool, ...]()
        if task.language in ("", "python"):
            found = sound_tests(task.tests, About(task.entry_point, task.setup, lenient=True))
            yield from left_out(found.refused)
            task, sound = (replace(task, tests=found.tests), found.kept) if found.refused else (task, ())
        known.setdefault(task.task_id, (*facts, sound))
        yield task
    else:
        for record in attempt_of(with_program(with_language(fields, known), known), ids):
            if isinstance(record, Attempt) and record.task_id in known and (sound := known[record.task_id][2]):
                kept[record.attempt_id] = sound
            found = outcome.without_left_out(record, kept.get(record.attempt_id, ())) if isinstance(record, Verdict) else record
            if found:
                yield found


def with_language(fields: dict[str, Any], known: Mapping[str, TaskFacts]) -> dict[str, Any]:
    """Return the fields of an attempt; adds the language of its task if the attempt names no language."""
    task_id = fields.get("task_id")
    if fields.get("language", "") != "" or not isinstance(task_id, str):
        return fields
    language = known[task_id][0] if task_id in known else language_of_task(task_id)
    return {**fields, "language": language or "python"}


def with_program(fields: dict[str, Any], known: Mapping[str, TaskFacts]) -> dict[str, Any]:
    """Return the fields of an attempt; if it has no code, with the program in its answer."""
    if "answer" not in fields or "code" in fields:
        return fields
    names = known.get(str(fields.get("task_id")), ("", (), ()))[1]
    return {**fields, "code": program_in(str(fields["answer"]), str(fields.get("language") or "python"), names)}


def verdict_of(fields: dict[str, Any], ids: dict[str, str]) -> Verdict:
    """Return the verdict of a line, whose outcomes are words as in attempts."""
    name, judge = fields.get("attempt_id"), outcome.judge_name(fields.get("judge") or JUDGE)
    if "status" in fields:
        fields["status"] = outcome.status_of(fields["status"])
    if "outcomes" in fields:
        fields["outcomes"] = [*map(outcome.status_of, outcome.words_of(fields["outcomes"]))]
    points = outcome.points_in(fields.pop("points", None))
    attempt_id = outcome.named_attempt(ids, str(outcome.whole(name)))
    verdict = refuse_impossible(from_row(Verdict, {**fields, "attempt_id": attempt_id or name, "judge": judge}))
    if "passed" in fields:
        outcome.check_counts(verdict.status, verdict.passed, verdict.total)
    return outcome.with_given_points(verdict, *points) if points != ((), None) else verdict


def attempt_of(fields: dict[str, Any], ids: dict[str, str]) -> Iterator[Row]:
    """Yield an attempt, the verdict that its line records, and its scores."""
    names = [str(outcome.whole(fields[name])) for name in ("id", "attempt_id") if name in fields]
    if CONTENT_ID.fullmatch(names[-1] if "attempt_id" in fields else ""):
        del fields["attempt_id"]  # upsolve's own, which is computed
    recorded, odd = outcome.without_odd({name: fields.pop(name) for name in outcome.OUTCOME_FIELDS if name in fields})
    yield from odd_fields(odd, "is not a valid number")
    fields |= {f"recorded_{name}": value for name, value in odd.items()}
    scores = fields.pop("scores", {})
    if not isinstance(scores, dict):
        raise ValueError('scores must be an object of numbers by name, such as {"grader": 0.7}')
    parent = fields.get("parent_id", "")
    columns = {**with_extra(fields, Attempt), "parent_id": outcome.named_attempt(ids, str(outcome.whole(parent))) or parent}
    attempt = refuse_impossible(from_row(Attempt, columns))
    if fields.get("language", attempt.language) != attempt.language:
        names.append(replace(attempt, language=fields["language"]).attempt_id)
    verdict = outcome.recorded_verdict(attempt.attempt_id, recorded, JUDGE)
    for name in names:
        if name != attempt.attempt_id:
            outcome.name_attempt(ids, name, attempt.attempt_id)
    yield from filter(None, (attempt, verdict, *score_verdicts(attempt.attempt_id, outcome.scores_in(scores))))


def with_extra(fields: dict[str, Any], kind: type[Task] | type[Attempt]) -> dict[str, Any]:
    """Return the fields of a record with all unknown ones as JSON in ``extra``, and the language by upsolve's name (``language_in``)."""
    known = {name: value for name, value in fields.items() if name in kind.__dataclass_fields__}
    others = {name: value for name, value in fields.items() if name not in known}
    if isinstance(word := fields.get("language"), str):
        known["language"] = language_in(word)
        others |= {} if word.lower() in ("", known["language"]) else {"language": word}  # with the version
    given = known.get("extra", "")
    if not others and isinstance(given, str):
        return known
    return {**known, "extra": as_json({**object_in(given), **others})}


def object_in(extra: Any) -> dict[str, Any]:
    """Return ``extra`` as an object, parsed if it is JSON; any other value becomes its field ``extra``."""
    try:
        read = json.loads(extra) if isinstance(extra, str) and extra else extra or {}
    except ValueError:
        read = extra
    return read if isinstance(read, dict) else {"extra": extra}


SOURCE = Source(
    read,
    "a .jsonl file of upsolve's records, compressed or not, or a folder of such files",
    (IMPORTS,),
    split=partial(split_files, kinds=(Kind.JSONL,)),
    detect=("kind=task|attempt|verdict",),
)
