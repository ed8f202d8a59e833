"""Run checks over an archive."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import yaml

from upsolve.archive.store import Archive
from upsolve.clean import language, outcomes, overlap, secrets
from upsolve.clean.check import Action, Check, Contents, Fault, open_contents
from upsolve.errors import ConfigError, IsolationError
from upsolve.extras import EXTRAS, absent, require
from upsolve.plugins import find, names
from upsolve.types import OnProgress, no_progress

__all__ = ["CHECKS", "NOTHING", "Examination", "Found", "examine", "parse_settings"]

EXAMPLES = 3
"""Number of examples of each row of the report."""
NOTHING = "nothing"
"""Kind of the report's row for a check that found no fault."""


@dataclass(slots=True)
class Found:
    """Findings of a check, one row of the report."""

    check: str
    """Name of the check."""
    kind: str
    """Kind of the findings."""
    table: str
    """``tasks`` or ``attempts``; empty if nothing was found."""
    of: int
    """Number of records of that table that the check examined; 0 if nothing was found."""
    cost: str
    """Cost of these faults for a run."""
    actions: dict[str, int] = field(default_factory=dict[str, int])
    """``report``, ``remove`` or ``redact`` -> number of records for which ``--fix`` takes this action."""
    examples: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """The first records found: ``record`` (task or attempt id) and ``reason``."""

    @property
    def found(self) -> int:
        """Number of records found."""
        return sum(self.actions.values())

    @property
    def share(self) -> float:
        """Share of the examined records, [0, 1]."""
        return self.found / self.of if self.of else 0.0


@dataclass(slots=True)
class Examination:
    """Findings of the checks in an archive."""

    found: list[Found] = field(default_factory=list[Found])
    """Rows of the report, in the order of the checks."""
    changes: dict[str, dict[int, list[tuple[str, Fault]]]] = field(default_factory=lambda: {"tasks": {}, "attempts": {}})
    """Table -> place -> name of the check and fault, for the records that ``--fix`` removes or redacts."""


def examine(
    archive: Archive,
    chosen: Sequence[str] = (),
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    complete: bool = False,
    progress: OnProgress = no_progress,
) -> Examination:
    """Run checks in order. Later checks do not see records that an earlier one would remove, so that no record is removed twice.

    Args:
        archive: the archive, which is only read.
        chosen: names of checks; empty: all whose packages are installed; the others are reported as not run.
        settings: check -> option -> value, as ``parse_settings`` returns them.
        complete: whether a missing package is an error, also without ``chosen``.
        progress: called with ``checks``, the number of checks done, and their number.

    Raises:
        ConfigError, MissingExtraError: a check or option is unknown, or a package of a check is missing.
    """
    checks = {name: check_named(name) for name in ordered(chosen)}
    options = {name: {**check.options, **(settings or {}).get(name, {})} for name, check in checks.items()}
    if chosen or complete:
        require(*(module for check in checks.values() for module in check.modules))
    done = Examination()
    with open_contents(archive, progress) as contents:
        for number, (name, check) in enumerate(checks.items()):
            progress(f"checks: {name}", number, len(checks))
            if lacking := absent(*check.modules):
                done.found.append(Found(name, f"not run: needs pip install 'upsolve[{EXTRAS[lacking[0]]}]'", "", 0, check.cost))
                continue
            if check.needs and not options[name][check.needs]:
                done.found.append(Found(name, f"not run: needs --set {name}.{check.needs}=...", "", 0, check.cost))
                continue
            try:
                take(done, name, check, contents, check.find(contents, options[name]))
            except IsolationError as error:
                done.found.append(Found(name, f"not run: {error}", "", 0, check.cost))
            for table, changes in done.changes.items():
                if places := [place for place, faults in changes.items() if removes(name, faults)]:
                    contents.remove(table, places)
    progress("checks", len(checks), len(checks))
    return done


def ordered(chosen: Sequence[str]) -> list[str]:
    """Return the names of the chosen checks (default: all) in the order of the table; checks of other packages come last."""
    known = [*CHECKS, *(name for name in names("check") if name not in CHECKS)]
    return [name for name in known if not chosen or name in chosen] + [name for name in chosen if name not in known]


def check_named(name: str) -> Check:
    """Return a check by name; ConfigError for an unknown name."""
    try:
        return find("check", name)
    except ValueError as error:
        raise ConfigError(f"--check {name}: {error}") from error


def take(done: Examination, name: str, check: Check, contents: Contents, faults: Iterable[Fault]) -> None:
    """Add the faults of a check to an examination; a record that is found twice under one kind counts once."""
    rows: dict[tuple[str, str], Found] = {}
    seen: dict[tuple[str, str], set[int]] = defaultdict(set)
    for fault in faults:
        key = (fault.table, fault.kind)
        if fault.place in seen[key]:
            continue
        seen[key].add(fault.place)
        row = rows.setdefault(key, Found(name, fault.kind, fault.table, 0, check.cost))
        row.actions[fault.action] = row.actions.get(fault.action, 0) + 1
        if len(row.examples) < EXAMPLES:
            row.examples.append({"record": fault.record, "reason": fault.reason})
        if fault.action is not Action.REPORT:
            done.changes[fault.table].setdefault(fault.place, []).append((name, fault))
    for row in rows.values():
        row.of = contents.count(row.table)
    done.found += rows.values() or [Found(name, NOTHING, "", 0, check.cost)]


def removes(name: str, faults: Iterable[tuple[str, Fault]]) -> bool:
    """Return whether a check removes the record of these faults, so that later checks do not see it."""
    return any(check == name and fault.action is Action.REMOVE for check, fault in faults)


def parse_settings(words: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return check -> option -> value of words such as ``balance.per_task=100``; ConfigError for other words."""
    settings: dict[str, dict[str, Any]] = {}
    for word in words:
        key, equals, text = word.partition("=")
        name, dot, option = key.rpartition(".")
        if not equals or not dot:
            raise ConfigError(f"--set {word}: must be check.option=value")
        defaults = check_named(name).options
        if option not in defaults:
            close = get_close_matches(option, defaults, n=1) or [*defaults]
            raise ConfigError(f"--set {word}: check {name} has no option {option}; its options: {', '.join(close) or 'none'}")
        settings.setdefault(name, {})[option] = convert(word, text, defaults[option])
    return settings


def convert(word: str, text: str, default: Any) -> Any:
    """Return the value of a text with the type of a default: a tuple of texts, or a number."""
    if isinstance(default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    value = yaml.safe_load(text)
    if type(value) is not type(default) and not (isinstance(default, float) and type(value) is int):
        raise ConfigError(f"--set {word}: {text!r} is not of type {type(default).__name__}")
    return type(default)(value)


CHECKS: Mapping[str, Check] = {
    "secrets": secrets.SECRETS,
    "language": language.LANGUAGE,
    "contradictions": outcomes.CONTRADICTIONS,
    "flaky": outcomes.FLAKY,
    "licences": secrets.LICENCES,
    "provenance": secrets.PROVENANCE,
    "contamination": overlap.CONTAMINATION,
    "duplicate_tasks": overlap.TASKS,
    "duplicates": overlap.ATTEMPTS,
    "balance": outcomes.BALANCE,
    "signal": outcomes.SIGNAL,
    "languages": outcomes.LANGUAGES,
    "tests": outcomes.TESTS,
    "sanity": outcomes.SANITY,
}
"""Name -> check."""
