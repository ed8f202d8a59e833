"""The new archive of derived tasks, written portion by portion."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from upsolve.archive.preference import is_recorded
from upsolve.archive.store import Archive
from upsolve.derive.answers import INPUT, OUTPUT, TEST, VERDICT
from upsolve.derive.derivation import Derivation, Origin
from upsolve.derive.programs import COMPLETE, FASTER, REPAIR, TRANSLATE
from upsolve.errors import ConfigError
from upsolve.importers.source import parse_options
from upsolve.plugins import find, reraise
from upsolve.suites.shrink import NewArchive, Portion
from upsolve.types import Group, OnProgress, Status, Verdict, no_progress
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.pool.pool import verify

__all__ = ["DERIVATIONS", "DeriveSettings", "derive", "derive_groups"]

PORTION = 32
"""Tasks from which tasks are derived, judged and written together."""
DERIVATIONS: Mapping[str, Derivation] = {
    "complete": COMPLETE,
    "faster": FASTER,
    "input": INPUT,
    "output": OUTPUT,
    "repair": REPAIR,
    "test": TEST,
    "translate": TRANSLATE,
    "verdict": VERDICT,
}
"""Built-in derivations by name."""


@dataclass(frozen=True, slots=True)
class DeriveSettings:
    """Settings of a derivation."""

    kind: str
    """Name of a derivation."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options of the derivation."""
    limit: int = 0
    """Most derived tasks, from tasks in an order by the seed; 0: no limit, and tasks in stored order."""
    seed: int = 0
    """Seed of all choices."""


def derive(
    archive: Archive,
    out: str | Path,
    how: DeriveSettings,
    *,
    settings: JudgeSettings | None = None,
    progress: OnProgress = no_progress,
) -> list[dict[str, Any]]:
    """Write an archive of derived tasks with judged answers; return a row for each task that was read.

    The same call resumes an interrupted one, and writes the same files. Verdicts have no times, because these differ between runs.

    Args:
        archive: the archive, which is only read.
        out: folder of the new archive.
        how: what is derived.
        settings: limits and isolation of the judge.
        progress: called with the tasks done and all tasks.

    Raises:
        ArchiveError: the folder holds something else.
        ConfigError: no derivation has this name, or an option is unknown or invalid.
        JudgeError: the sandbox broke, or a layer is missing.
    """
    how = checked(how)
    groups, own = archive.groups(), by_own_judge(archive)
    for one in groups[:1]:  # a wrong option or record is named before the folder exists
        for _ in derived_from(Origin(one, how.kind, Random(0), Counter()), how):
            pass
    new = NewArchive(out, "derive", archive, **{**asdict(how), "options": dict(how.options)})
    places = [*range(len(groups))]
    if how.limit:
        Random(f"{how.seed}/order").shuffle(places)
    made = sum(row["derived"] for row in new.rows)
    for start in range(len(new.rows), len(places), PORTION):
        if how.limit and made >= how.limit:
            break
        chosen = [detailed(groups[place], own[place] if own else None) for place in places[start : start + PORTION]]
        portion = derive_groups(chosen, how, settings or JudgeSettings(), left=how.limit - made if how.limit else None)
        new.write(portion)
        made += len(portion.tasks)
        progress("derive", *((made, how.limit) if how.limit else (len(new.rows), len(places))))
    return new.rows


def by_own_judge(archive: Archive) -> Sequence[Group] | None:
    """Return the groups of an archive with the verdicts of upsolve's judges; None if there are no recorded verdicts besides."""
    recorded = {is_recorded(judge) for judge in archive.column("verdicts", "judge")}
    return archive.groups(judge="upsolve") if len(recorded) > 1 else None


def detailed(group: Group, own: Group | None) -> Group:
    """Return a group in which upsolve's verdicts replace recorded ones that agree but lack times, or the outcome of each test."""

    def chosen(verdict: Verdict | None, mine: Verdict | None) -> Verdict | None:
        if not verdict or not mine or verdict.outcomes or Status.UNSCORED in (verdict.status, mine.status):
            return verdict
        return mine if (verdict.status is Status.PASSED) == (mine.status is Status.PASSED) else verdict

    return replace(group, verdicts=tuple(map(chosen, group.verdicts, own.verdicts))) if own else group


def checked(how: DeriveSettings) -> DeriveSettings:
    """Return the settings with options of the declared types; ConfigError if no derivation has this name, or an option is wrong."""
    try:
        record: Derivation = find("derivation", how.kind)
        options = parse_options(f"derivation {how.kind}", record.options, how.options)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if wrong := next((name for name, value in options.items() if isinstance(value, int | float) and value < 1), ""):
        raise ConfigError(f"derivation {how.kind}, option {wrong}: must be at least 1, got {options[wrong]}")
    return replace(how, options=options)


def derive_groups(groups: Sequence[Group], how: DeriveSettings, settings: JudgeSettings, *, left: int | None = None) -> Portion:
    """Return the tasks derived from some tasks, at most ``left``, with judged answers.

    A derived task is left out if all its answers fail, if it has several answers and all pass, or if none can be judged: its tests
    cannot tell right answers from wrong ones.
    """
    origins = [Origin(one, how.kind, Random(f"{how.seed}/{how.kind}/{one.task.task_id}"), Counter()) for one in groups]
    found = [[*derived_from(origin, how)] for origin in origins]
    settle = judged([group for each in found for group in each], settings)
    portion = Portion()
    for origin, each in zip(origins, found, strict=True):
        kept = list[Group]()
        for group in (next(settle) for _ in each):
            statuses = {one.status for one in group.verdicts if one is not None}
            if group.attempts and Status.PASSED not in statuses:
                unscored = statuses <= {Status.UNSCORED}
                origin.leave("the judge cannot score the answers" if unscored else "the judge rejects the reference answer")
            elif len(group.attempts) > 1 and statuses == {Status.PASSED}:
                origin.leave("the judge accepts the wrong answer")
            elif left is None or len(portion.tasks) + len(kept) < left:
                kept.append(group)
        portion.tasks += [group.task for group in kept]
        portion.attempts += [attempt for group in kept for attempt in group.attempts]
        portion.verdicts += [one for group in kept for one in group.verdicts if one is not None]
        row = {"task_id": origin.task.task_id, "derived": len(kept), "left_out": dict(origin.left_out)}
        portion.rows.append(row)
    return portion


def derived_from(origin: Origin, how: DeriveSettings) -> Iterator[Group]:
    """Yield the tasks derived from a task."""
    record: Derivation = find("derivation", how.kind)
    try:
        yield from record.rows(origin, **how.options)
    except Exception as error:
        reraise("derivation", how.kind, error)


def judged(groups: Sequence[Group], settings: JudgeSettings) -> Iterator[Group]:
    """Yield groups with a verdict on every attempt: the known one, else the judge's, without its times."""
    pairs = [
        (group.task, attempt)
        for group in groups
        for attempt, known in zip(group.attempts, group.verdicts, strict=True)
        if known is None
    ]
    differing: dict[str, Any] = dict.fromkeys(("wall_seconds", "cpu_seconds", "memory_bytes"))  # from run to run
    fresh = (replace(verdict, **differing) for verdict in verify(pairs, settings))
    for group in groups:
        verdicts = tuple(known or next(fresh) for known in group.verdicts)
        yield replace(group, verdicts=verdicts)
