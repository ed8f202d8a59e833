"""Importer for Gradescope: the programs of an assignment with the points that the autograder gave for each test."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from upsolve.errors import SourceError
from upsolve.importers.benchmarks.nbgrader import as_program
from upsolve.importers.outcome import number_in, status_for
from upsolve.importers.problems import extra_of
from upsolve.importers.rows import Row, build_each, decoded
from upsolve.importers.source import Option, Source
from upsolve.importers.tables.layouts import LANGUAGES
from upsolve.languages.names import is_language, language_in, language_looked_like, no_language
from upsolve.types import Attempt, Status, Task, Verdict, with_points

__all__ = ["SOURCE"]

METADATA, RESULTS = "submission_metadata.yml", "results.json"
"""File of an export, beside the folders of its submissions; file that an autograder writes for one submission."""


class Loader(yaml.SafeLoader):
    """Loads YAML of Ruby: objects as their fields."""


def plain(loader: yaml.SafeLoader, _: str, node: yaml.Node) -> Any:
    """Return a value with a tag of Ruby as if it had none."""
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    return loader.construct_sequence(node, deep=True) if isinstance(node, yaml.SequenceNode) else str(node.value)


Loader.add_multi_constructor("!ruby/", plain)


def read(path: Path, *, file: str = "", language: str = "") -> Iterator[Row]:
    """Yield the task of an assignment without its statement, and an attempt with its outcome for each submission."""
    if language and not is_language(language):
        raise SourceError(no_language("--language", language))
    rows = [*rows_in(path)]
    if not rows:
        raise SourceError(f"{path}: has neither {METADATA} nor a folder with {RESULTS}")
    task = Task(f"gradescope/{path.resolve().name}", "", source="gradescope")
    yield task
    yield from build_each(path, enumerate(rows, start=1), partial(records, task, file, language))


def rows_in(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the submissions of an export, or of folders with results: name, folders that may hold the program, and what is known."""
    if (metadata := path / METADATA).is_file():
        try:
            found = without_colons(yaml.load(metadata.read_bytes(), Loader))  # noqa: S506
        except (yaml.YAMLError, ValueError) as error:
            raise SourceError(f"{metadata}: cannot be read as YAML: {error}") from error
        for name, about in (found if isinstance(found, dict) else {}).items():
            known = (
                {key: about.get(key) for key in ("created_at", "score", "status", "results")} if isinstance(about, dict) else {}
            )
            yield {"name": name, "folders": [path / name], **known}
        return
    for results in sorted(path.rglob(RESULTS)):
        above = results.parent.parent if results.parent.name == "results" else results.parent
        yield {"name": above.name, "folders": [above / "submission", above], "status": "processed", "file": results}


def without_colons(value: Any) -> Any:
    """Return a value in which names lack the colon that Ruby's symbols begin with."""
    if isinstance(value, dict):
        return {str(name).removeprefix(":"): without_colons(one) for name, one in value.items()}
    return [*map(without_colons, value)] if isinstance(value, list) else value


def records(task: Task, wanted: str, language: str, row: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the attempt of a submission and its verdict; no name of a student is stored."""
    program = program_of(next((one for one in row["folders"] if one.is_dir()), Path(row["name"])), wanted)
    results = json.loads(row["file"].read_bytes()) if "file" in row else row.get("results")
    results = results if isinstance(results, dict) else {}
    tests = [one for one in results.get("tests") or () if isinstance(one, dict) and share_of(one) is not None]
    points = {f"{at}. {one.get('name', '')}".rstrip(". "): one.get("score") for at, one in enumerate(tests, start=1)}
    created = row.get("created_at", "")
    code = as_program(program.name, decoded(program.read_bytes(), "latin-1"))
    attempt = Attempt(
        task.task_id,
        code,
        language=language_in(language) or language_of(program, code),
        author=row["name"],
        created=str(created.get("utc", "") if isinstance(created, dict) else created),
        extra=extra_of({"score": results.get("score", row.get("score")), "points": points}),
    )
    yield attempt
    yield verdict_of(attempt, tests, str(results.get("output") or row.get("status") or ""))


def language_of(program: Path, code: str) -> str:
    """Return the language of a program by its ending or, without one, by its content; ValueError if neither tells it."""
    ending = program.suffix.lower()
    if found := LANGUAGES.get(ending) or (language_looked_like(code) if ending in ("", ".txt") else ""):
        return found
    raise ValueError(f"{program.name}: in which language is it? Neither ending nor content tells it: --language NAME")


def verdict_of(attempt: Attempt, tests: Sequence[Mapping[str, Any]], output: str) -> Verdict:
    """Return the outcome of a submission: passed with full points of all tests, unscored without tests."""
    shares = [share_of(one) for one in tests]
    outcomes = tuple(map(status_for, shares))
    failed = next((str(one.get("output") or "") for one, share in zip(tests, shares, strict=True) if share != 1), "")
    status = Status.UNSCORED if not tests else Status.FAILED if {*outcomes} - {Status.PASSED} else Status.PASSED
    message = failed if tests else f"no test has points: {output}"
    verdict = Verdict(attempt.attempt_id, status, outcomes=outcomes, judge="recorded:gradescope", error_message=message[:500])
    most = [float(one.get("max_score") or 0) for one in tests]
    overall = sum(share * of for share, of in zip(shares, most, strict=True) if share) / sum(most) if sum(most) else None
    return with_points(verdict, shares, overall)


def share_of(test: Mapping[str, Any]) -> float | None:
    """Return the share of points of a test, in [0, 1]; without points, that of its status; None for a test with neither."""
    score, most = (float(text) if (text := number_in(str(test.get(name)))) else None for name in ("score", "max_score"))
    if score is not None and most:
        return min(1.0, max(0.0, score / most))
    return {"passed": 1.0, "failed": 0.0}.get(str(test.get("status")))


def program_of(folder: Path, wanted: str) -> Path:
    """Return the program in the folder of a submission; ValueError if there is none, or several and none is ``wanted``."""
    found = [one for one in sorted(folder.rglob("*")) if one.is_file() and not one.is_symlink()]
    known = [one for one in found if one.suffix.lower() in LANGUAGES]
    chosen = [one for one in found if wanted in (one.name, one.relative_to(folder).as_posix())] if wanted else known
    if len(chosen) != 1:
        shown = ", ".join(one.relative_to(folder).as_posix() for one in (chosen or found)[:5]) or "nothing"
        raise ValueError(f"{folder.name}: needs one program, and has {shown}: --file NAME")
    return chosen[0]


SOURCE = Source(
    read,
    f"an export of Gradescope ({METADATA} and folders), or folders with a program and {RESULTS}",
    (
        Option("file", str, "name of the program, if submissions have several files"),
        Option("language", str, "language of the programs (default: by ending or content)"),
    ),
    max_rejected=1.0,
    marks=(METADATA,),
)
