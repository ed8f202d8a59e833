"""Importer for SWE-bench (2310.06770) and sets of its form: instances, predictions, and the reports of its harness."""

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.formats import Kind, data_files, json_value, kind_of_file, rows_of_file
from upsolve.importers.formats.texts import objects_in
from upsolve.importers.problems import judged, rest_of
from upsolve.importers.rows import BadRow, Numbered, Row, build_each
from upsolve.importers.source import Source
from upsolve.importers.tables.templates import loaded
from upsolve.types import Attempt, Status, Task

__all__ = ["SOURCE"]

JUDGE = "recorded:swe_bench"
LANGUAGE = "diff"
PASSED = ("resolved_ids", "resolved")
FAILED = (
    *("unresolved_ids", "completed_ids", "applied", "no_apply", "test_errored", "test_timeout"),
    *("empty_patch_ids", "no_generation"),
)
UNKNOWN = ("error_ids",)
BROKEN = ("infra_failure_ids", "install_fail", "reset_failed")
"""Fields of a summary with the ids of instances, by outcome: fields of the harness, and of the public experiments. A broken environment outweighs a
failure."""
TESTS = ("FAIL_TO_PASS", "PASS_TO_PASS")
TASK_FIELDS = ("instance_id", "problem_statement", "text", "patch")
UNREAD = "trajs"
"""Folder with the transcripts of agents in public experiments."""
Rows = Callable[[], Iterable[Numbered]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a prediction in a report."""

    status: Status
    passed: int = 0
    """Tests passed."""
    total: int = 0
    """Number of tests; 0 if the report has no counts."""
    broken: bool = False
    """Whether the environment of the tests failed, instead of the patch."""


@dataclass(frozen=True, slots=True)
class Reports:
    """Outcomes that the reports of a folder state."""

    outcomes: dict[str, list[tuple[Path, str, Outcome]]] = field(
        default_factory=lambda: defaultdict[str, list[tuple[Path, str, Outcome]]](list)
    )
    """Instance -> for each report: the folder of the predictions, the model's name or its beginning (may be empty), and the outcome."""
    models: dict[Path, set[str]] = field(default_factory=lambda: defaultdict[Path, set[str]](set))
    """Folder -> models of the predictions in it."""

    def add(self, file: Path, value: Mapping[str, Any]) -> bool:
        """Add a report of one instance or a summary; return False for other data."""
        if any(isinstance(value.get(name), list) for name in PASSED):
            self.add_summary(file, value)
            return True
        value = {str(value["instance_id"]): value} if "instance_id" in value and "model_patch" not in value else value
        reports = {name: one for name, one in value.items() if isinstance(one, dict) and isinstance(one.get("resolved"), bool)}
        folder = next((parent.parent for parent in file.parents if parent.name == "logs"), file.parent)
        model = "" if file.parent.parent.name == "logs" else file.parent.parent.name
        for name, one in reports.items():
            self.outcomes[name].append((folder, model, outcome_of(one)))
        return bool(reports)

    def add_summary(self, file: Path, value: Mapping[str, Any]) -> None:
        """Add a summary: ``MODEL.RUN.json`` of the harness beside the predictions, or ``results/results.json`` of a public experiment."""
        folder = file.parent.parent if file.parent.name == "results" else file.parent
        known = set[str]()
        broken, unknown = Outcome(Status.UNSCORED, broken=True), Outcome(Status.UNSCORED)
        passed, failed = Outcome(Status.PASSED), Outcome(Status.FAILED)
        for names, outcome in ((PASSED, passed), (BROKEN, broken), (UNKNOWN, unknown), (FAILED, failed)):
            ids = {str(name) for key in names for name in loaded(value.get(key) or [])} - known
            known |= ids
            for name in ids:
                self.outcomes[name].append((folder, "" if file.stem == "results" else file.name, outcome))

    def found(self, file: Path, instance: str, model: str) -> list[Outcome]:
        """Return the outcomes of all reports that concern a prediction."""
        start, known = f"{model.replace('/', '__')}.", self.outcomes.get(instance, ())
        found = [one for folder, name, one in known if not name and folder == file.parent]
        found += [one for folder, name, one in known if f"{name}.".startswith(start) and file.is_relative_to(folder)]
        if found or self.models[file.parent] != {model}:
            return found
        # no MODEL.RUN.json of others
        return [one for folder, name, one in known if folder == file.parent and name.count(".") < 2]

    def of(self, file: Path, instance: str, model: str) -> Outcome:
        """Return the outcome of a prediction in a file: from reports in this folder or above that name its model, and from reports of this folder
        that name no model."""
        found = self.found(file, instance, model)
        if any(outcome.broken for outcome in found):
            return Outcome(Status.UNSCORED)
        sure = [outcome for outcome in found if outcome.status is not Status.UNSCORED]
        if len({outcome.status for outcome in sure}) != 1:
            return Outcome(Status.UNSCORED)
        return max(sure, key=lambda outcome: outcome.total)


def outcome_of(report: Mapping[str, Any]) -> Outcome:
    """Return the outcome of a report of one instance."""
    lists = [(report.get("tests_status") or {}).get(name) or {} for name in TESTS]
    passed, failed = (sum(len(one.get(key) or ()) for one in lists) for key in ("success", "failure"))
    return Outcome(Status.PASSED if report["resolved"] else Status.FAILED, passed, passed + failed)


def read(path: Path) -> Iterator[Row]:
    """Yield a task and its maintainers' patch for each instance, and an attempt with the outcome of the reports for each prediction."""
    reports, rows = Reports(), list[tuple[Path, Rows]]()
    for file in data_files(path, Kind.JSON, Kind.JSONL, Kind.PARQUET, Kind.ARROW):
        if UNREAD in file.relative_to(path).parts:
            continue
        if kind_of_file(file) is not Kind.JSON:
            rows.append((file, partial(rows_of_file, file)))
        elif isinstance(value := json_value(file), list):
            rows.append((file, partial(objects_in, file, value)))
        elif isinstance(value, dict) and not reports.add(file, value):
            patches = {name: one for name, one in value.items() if isinstance(one, dict) and "model_patch" in one}
            items = [{"instance_id": name, **one} for name, one in patches.items()]
            rows += [(file, partial(objects_in, file, items))] if items else []
    if not rows:
        raise SourceError(f"{path}: no instances (.parquet, .jsonl) and no predictions (.jsonl, .json) in it or below")
    check_reports(path, rows, reports)
    for file, numbered in rows:
        yield from build_each(file, numbered(), partial(records_of, file=file, reports=reports))


def check_reports(path: Path, rows: Sequence[tuple[Path, Rows]], reports: Reports) -> None:
    """Read reports among rows; warn about models in a file of predictions without any reported outcome."""
    instances = defaultdict[tuple[Path, str], list[str]](list)
    for file, numbered in rows:
        for _, row in numbered():
            if isinstance(row, BadRow):
                continue
            if is_report(row):
                reports.add(file, row)
            elif row.get("model_patch") and not isinstance(row.get("resolved"), bool):
                model = str(row.get("model_name_or_path") or "")
                instances[file, model].append(str(row.get("instance_id")))
                reports.models[file.parent].add(model)
    reported = {
        (file, model): any(reports.found(file, name, model) for name in names) for (file, model), names in instances.items()
    }
    lost = [place for place, found in reported.items() if not found]
    missing = [f"{file.relative_to(path) if path.is_dir() else file.name} ({model or 'no model'})" for file, model in lost]
    names = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
    if missing and len(missing) == len(reported):
        raise SourceError(
            f"{path}: no report of the harness says which predictions of {names} resolve their instance: all would be unscored. "
            "Put a report beside the predictions: a .json with `resolved_ids`, report.json of each instance, rows with instance_id and resolved, or a field `resolved` in the predictions"
        )
    if missing:
        warnings.warn(f"{path}: no report names {names}, so that these predictions are unscored", stacklevel=2)


def is_report(row: Mapping[str, Any]) -> bool:
    """Return whether a row is the report of an instance, not an instance or a prediction."""
    return isinstance(row.get("resolved"), bool) and "instance_id" in row and not {"model_patch", "problem_statement"} & {*row}


def records_of(row: Mapping[str, Any], *, file: Path, reports: Reports) -> Iterator[Row]:
    """Yield the records of an instance or of a prediction."""
    if is_report(row):
        return
    name = str(row["instance_id"])
    task_id = f"swe_bench/{name}"
    if "problem_statement" in row:
        yield from instance(row, task_id)
        return
    if "model_patch" not in row:
        raise ValueError("has neither a problem_statement nor a model_patch")
    model, patch = str(row.get("model_name_or_path") or ""), row["model_patch"] or ""
    outcome = outcome_of(row) if isinstance(row.get("resolved"), bool) else reports.of(file, name, model)
    if not patch.strip():
        raise ValueError(f"the patch is empty ({outcome.status.value})")
    extra = rest_of(row, ("instance_id", "model_patch", "model_name_or_path"))
    counts = {"passed": outcome.passed, "total": outcome.total}
    yield from judged(Attempt(task_id, patch, LANGUAGE, model, extra=extra), outcome.status, JUDGE, **counts)


def instance(row: Mapping[str, Any], task_id: str) -> Iterator[Row]:
    """Yield the task of an instance, and the maintainers' patch, which passes all tests."""
    issue = str(row.get("text") or row["problem_statement"]).strip()
    where = f"{row.get('repo') or 'a repository'}" + (f" at commit {row['base_commit']}" if row.get("base_commit") else "")
    request = f"Write a patch in unified diff format for {where} that resolves this issue:\n\n{issue}"
    prompt, difficulty = issue if row.get("text") else request, str(row.get("difficulty") or "")
    extra = rest_of(row, TASK_FIELDS)
    yield Task(task_id, prompt, (), language=LANGUAGE, source="swe_bench", difficulty=difficulty, extra=extra)
    if row.get("patch"):
        tests = sum(len(loaded(row.get(name) or [])) for name in TESTS)
        known = Attempt(task_id, str(row["patch"]), LANGUAGE, "human")
        yield from judged(known, Status.PASSED, JUDGE, passed=tests, total=tests)


SOURCE = Source(
    read,
    "instances of SWE-bench, predictions and reports of its harness: a folder, or a file",
    max_rejected=1.0,
    detect=("instance_id", "problem_statement", "patch"),
)
