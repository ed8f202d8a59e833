"""Split by task, never by attempt; and leaks: nearly equal tasks in two splits, which let an evaluation measure memorisation."""

import json
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from upsolve.archive.database import connect
from upsolve.archive.groups import open_groups, pick, task_ids
from upsolve.archive.places import EMBEDDED
from upsolve.archive.schema import TABLES
from upsolve.archive.store import Archive
from upsolve.config import DataConfig
from upsolve.errors import ConfigError
from upsolve.languages.names import asking_for, language_in, same_language
from upsolve.types import Group, Task, TestKind, content_id, html_facts

__all__ = [
    "DERIVED_FROM",
    "RECORDED",
    "Leak",
    "Split",
    "features_of",
    "find_leaks",
    "origin_of",
    "recorded_name",
    "report_languages",
    "report_leaks",
    "shingles",
    "split_archive",
    "split_tasks",
    "tasks_of",
]

DERIVED_FROM = "derived_from"
"""Field of the ``extra`` of a derived task: the id of the task that it was derived from."""

RECORDED = {"train": "train", "dev": "dev", "validation": "dev", "test": "test"}
"""Names of splits as they occur in fields of tasks -> the split."""


@dataclass(frozen=True, slots=True)
class Split:
    """An archive split by task."""

    tasks: dict[str, list[Task]]
    """Tasks of ``train``, ``dev`` and ``test``."""
    groups: dict[str, Sequence[Group]]
    """The same tasks with all their attempts; tasks without attempts only if requested. The groups of a large archive are read when accessed."""

    def __repr__(self) -> str:
        counts = (f"{name}: {len(tasks)} tasks, {len(self.groups.get(name, ()))} groups" for name, tasks in self.tasks.items())
        return f"Split({'; '.join(counts)})"

    def _repr_html_(self) -> str:
        """Return the numbers of tasks and groups, for a notebook."""
        groups = {name: len(self.groups.get(name, ())) for name in self.tasks}
        return html_facts("Split", {name: f"{len(tasks)} tasks, {groups[name]} groups" for name, tasks in self.tasks.items()})


def split_tasks(
    tasks: Sequence[Task], fractions: Mapping[str, float], *, seed: int, ranked: bool = False, by: str = ""
) -> dict[str, list[Task]]:
    """Split tasks by a hash of seed and task id, so that a task stays in its split while the archive grows.

    A derived task (``upsolve.derive``) counts by the id of the task that it was derived from, and shares its split.

    Args:
        tasks: tasks to split.
        fractions: share of each split; they sum to one.
        seed: seed of the hash; another seed gives another split.
        ranked: take exact shares within each difficulty, in the order of the hash, instead of shares in expectation. An added task can
            then move other tasks into another split, so use this only for archives that do not grow.
        by: field of ``Task.extra``. Its value is hashed instead of the task id, so that tasks that share it share their split; with
            ``ranked``, exact shares of the values, whatever their difficulties. Values that name splits decide them
            (``recorded_split``).

    Raises:
        ValueError: the fractions do not sum to one.
        ConfigError: a task lacks the field; only some values name splits; the values are too few for all splits.
    """
    if abs(sum(fractions.values()) - 1) > 1e-9:
        raise ValueError(f"the fractions of the splits must sum to one, got {dict(fractions)}")
    names = field_values(tasks, by) if by else {task.task_id: origin_of(task) for task in tasks}
    if by and RECORDED.keys() & set(names.values()):
        chosen = recorded_split(tasks, names, fractions, seed=seed, by=by)
    elif by:
        chosen = split_names(names.values(), fractions, seed=seed, ranked=ranked)
        if empty := [split for split in fractions if split not in chosen.values()]:
            raise ConfigError(
                f"data.split_by: {len(chosen)} values of {by!r} leave the {empty[0]} split empty; set data.split: ranked, or another "
                "data.split_seed"
            )
        chosen = {task_id: chosen[name] for task_id, name in names.items()}
    else:
        chosen: dict[str, str] = {}
        for difficulty in {task.difficulty for task in tasks}:
            members = [names[task.task_id] for task in tasks if task.difficulty == difficulty]
            chosen |= split_names(members, fractions, seed=seed, ranked=ranked)
        chosen = {task_id: chosen[name] for task_id, name in names.items()}
    return {split: [task for task in tasks if chosen[task.task_id] == split] for split in fractions}


def origin_of(task: Task) -> str:
    """Return the id of the task that a derived task was derived from; of any other task its own id."""
    return str(json.loads(task.extra).get(DERIVED_FROM, task.task_id)) if DERIVED_FROM in task.extra else task.task_id


def field_values(tasks: Sequence[Task], name: str) -> dict[str, str]:
    """Return a field of each task's ``extra`` by task id: text as it is, other values as JSON; ConfigError if a task lacks it."""
    values: dict[str, str] = {}
    for task in tasks:
        extra = json.loads(task.extra or "{}")
        if extra.get(name) is None:
            lacking = sum(json.loads(other.extra or "{}").get(name) is None for other in tasks)
            known = ", ".join(sorted(extra)) or "none"
            raise ConfigError(
                f"data.split_by: {lacking} of {len(tasks)} tasks have no {name!r} in extra, such as {task.task_id} (fields: {known})"
            )
        values[task.task_id] = extra[name] if isinstance(extra[name], str) else json.dumps(extra[name], sort_keys=True)
    return values


def recorded_name(task: Task) -> str | None:
    """Return the split that a task names in ``split`` of its ``extra``, or None."""
    return RECORDED.get(str(json.loads(task.extra or "{}").get("split")))


def recorded_split(
    tasks: Sequence[Task], names: Mapping[str, str], fractions: Mapping[str, float], *, seed: int, by: str
) -> dict[str, str]:
    """Return the split that each task names in a field; ConfigError if a value names none.

    If no task names dev, a share dev / (train + dev) of the training tasks becomes dev, chosen by a hash of the (origin's) task id.
    """
    if unknown := [(task_id, name) for task_id, name in names.items() if name not in RECORDED]:
        (task_id, name), known = unknown[0], ", ".join(RECORDED)
        raise ConfigError(
            f"data.split_by: {by!r} of {len(unknown)} tasks is not one of {known}, such as {name[:100]!r} of {task_id}"
        )
    chosen = {task_id: RECORDED[name] for task_id, name in names.items()}
    if "dev" in chosen.values():
        return chosen
    total = fractions["train"] + fractions["dev"]
    shares = {split: fractions[split] / total for split in ("train", "dev")}
    origins = {task.task_id: origin_of(task) for task in tasks}
    return {name: by_hash(origins[name], shares, seed) if split == "train" else split for name, split in chosen.items()}


def split_names(names: Iterable[str], fractions: Mapping[str, float], *, seed: int, ranked: bool) -> dict[str, str]:
    """Return the split of each name: by rank or by hash."""
    single = [*dict.fromkeys(names)]
    return by_rank(single, fractions, seed) if ranked else {name: by_hash(name, fractions, seed) for name in single}


def by_hash(name: str, fractions: Mapping[str, float], seed: int) -> str:
    """Return the split of a name: where its hash, as a number in [0, 1), falls among the shares."""
    position, border = int(content_id(str(seed), name), 16) / 16**20, 0.0
    for split, fraction in fractions.items():
        border += fraction
        if position < border:
            return split
    return next(reversed([*fractions]))


def by_rank(names: Sequence[str], fractions: Mapping[str, float], seed: int) -> dict[str, str]:
    """Return the split of each name: exact shares, in the order of their hashes."""
    ordered = sorted(names, key=lambda name: content_id(str(seed), name))
    chosen: dict[str, str] = {}
    start = 0.0
    for split, fraction in fractions.items():
        low, high = round(start * len(names)), round((start + fraction) * len(names))
        chosen |= dict.fromkeys(ordered[low:high], split)
        start += fraction
    return chosen


def split_archive(archive: Archive, data: DataConfig, *, untried: bool = False, labels: bool = False) -> Split:
    """Split an archive into training, dev and test tasks, with their groups.

    Args:
        archive: the archive to split.
        data: shares and seed of the split.
        untried: add training tasks without attempts as empty groups; online training samples them.
        labels: estimate the probability that each label is right (``Group.label_right``).

    Raises:
        ConfigError: ``data.train`` and ``data.dev`` leave no task for the test split; ``data.split_by`` does not fit the tasks.
    """
    ranked = data.split == "ranked" or archive.path == EMBEDDED
    stored = archive.tasks()
    tasks = tasks_of(tasks_in(archive, stored, data.language), data, ranked=ranked)
    report_leaks(tasks)
    report_languages(archive, data.language)
    split_of = {task.task_id: split for split, members in tasks.items() for task in members}
    groups = judged_groups(archive, stored, data, labels=labels)
    tried = task_ids(groups)
    items: dict[str, list[int | Group]] = {split: [] for split in tasks}
    for index, task_id in enumerate(tried):
        if task_id in split_of:
            items[split_of[task_id]].append(index)
    if untried:
        known = {*tried}
        items["train"] += [Group(task, (), ()) for task in tasks["train"] if task.task_id not in known]
    return Split(tasks, {split: pick(groups, members) for split, members in items.items()})


def tasks_in(archive: Archive, tasks: Sequence[Task], language: str) -> list[Task]:
    """Return the tasks in a language (empty: all); tasks in any language are set to this language. ConfigError if no task fits."""
    fitting = (task for task in tasks if not language or same_language(task.language or language, language))
    chosen = [asking_for(task, language) for task in fitting]
    if tasks and not chosen:
        known = ", ".join(sorted({task.language for task in tasks}))
        raise ConfigError(
            f"data.language: no task of {archive.path} is in {language}, or accepts any language; they are in {known}"
        )
    return chosen


IN_LANGUAGES = """
select tasks.language as asked, attempts.language as language, sum("count")::bigint as attempts
from attempts join tasks using (task_id) group by all order by attempts desc
"""


def report_languages(archive: Archive, language: str) -> None:
    """Warn of attempts in another language than their task asks for, which are not used."""
    left: Counter[str] = Counter()
    with connect({name: archive.parts(name) for name in ("tasks", "attempts")}, shared=True) as connection:
        rows = connection.sql(IN_LANGUAGES).to_arrow_table().to_pylist()
    for row in rows:
        if not same_language(row["asked"] or language, row["language"]):
            left[language_in(row["language"]) or "python"] += row["attempts"]
    if left:
        shown = ", ".join(f"{count:,} in {name}" for name, count in left.most_common(5))
        warnings.warn(
            f"{left.total():,} attempts are in another language than their task asks for, and are not used: {shown}; "
            "set data.language to choose the language of tasks that accept any (default: Python)",
            stacklevel=3,
        )


def tasks_of(tasks: Sequence[Task], data: DataConfig, *, ranked: bool) -> dict[str, list[Task]]:
    """Return the tasks of each split: by shares or, with ``data.folds``, one fold as the test split.

    Every task is in the test split of exactly one fold. ``dev`` is taken from the other tasks by a hash of another seed.

    Raises:
        ConfigError: no test task is left, or the tasks record their split themselves.
    """
    if not data.folds:
        shares = {"train": data.train, "dev": data.dev, "test": 1 - data.train - data.dev}
        if shares["test"] <= 0:
            raise ConfigError("data.train + data.dev must be below 1: the rest is the test split")
        return split_tasks(tasks, shares, seed=data.split_seed, ranked=ranked, by=data.split_by)
    if data.split_by and RECORDED.keys() & set(field_values(tasks, data.split_by).values()):
        raise ConfigError(
            f"data.folds: the tasks record their split in {data.split_by!r}; leave out data.split_by or data.folds"
        )
    folds = {f"fold {number}": 1 / data.folds for number in range(data.folds)}
    parts = split_tasks(tasks, folds, seed=data.split_seed, ranked=ranked, by=data.split_by)
    test = parts.pop(f"fold {data.fold}")
    others = {task.task_id for part in parts.values() for task in part}
    dev = data.dev / (1 - 1 / data.folds)
    rest = [task for task in tasks if task.task_id in others]
    shares = {"train": 1 - dev, "dev": dev}
    return {**split_tasks(rest, shares, seed=data.split_seed + 1, ranked=ranked, by=data.split_by), "test": test}


def judged_groups(archive: Archive, tasks: Sequence[Task], data: DataConfig, *, labels: bool) -> Sequence[Group]:
    """Return the groups of an archive with the verdicts of a judge, given its tasks; ConfigError if the judge has no verdict there."""
    judge = data.judge
    parts = {name: archive.parts(name) for name in TABLES}
    groups = open_groups(parts, lambda: tasks, judge=judge, labels=labels, turns=data.turns, language=data.language)
    if judge and not any(verdict for group in groups for verdict in group.verdicts):
        known = ", ".join(sorted({*archive.column("verdicts", "judge")})) or "none"
        raise ConfigError(f"data.judge: {archive.path} has no verdict by {judge!r}; its judges: {known}")
    return groups


MOST_PAIRS = 1_000_000
"""Most pairs of tasks whose prompts are compared by word trigrams."""
Run = tuple[str, ...]
"""Three consecutive words (a word trigram)."""


@dataclass(frozen=True, slots=True)
class Leak:
    """Two tasks of different splits that are too similar."""

    left: str
    """Task id."""
    right: str
    """Task id."""
    reason: str
    """Text or property that the two tasks share."""


def shingles(text: str, size: int = 3) -> set[Run]:
    """Return the word trigrams of a text."""
    words = text.lower().split()
    return {tuple(words[i : i + size]) for i in range(max(1, len(words) - size + 1))}


def find_leaks(left: Sequence[Task], right: Sequence[Task], *, threshold: float = 0.8) -> list[Leak]:
    """Return the pairs across two splits with the same reference, white space aside, or with prompts whose word trigrams overlap too much.

    Overlap is Jaccard's: |A and B| / |A or B| >= threshold. Prompts of simulations are not compared, because they share
    the description of their domain. Above ``MOST_PAIRS`` pairs only equal prompts are found.
    """
    few = len(left) * len(right) <= MOST_PAIRS
    leaks: list[Leak] = []
    others = [(task, features_of(task, few=few)) for task in right]
    by_reference, by_prompt = dict[str, list[Task]](), dict[frozenset[Run], list[Task]]()
    for task, words in others:
        by_reference.setdefault(" ".join(task.reference.split()), []).append(task)
        by_prompt.setdefault(words, []).append(task)
    holders: dict[Run, list[int]] = {}
    for index, (_, words) in enumerate(others):
        for run in words:
            holders.setdefault(run, []).append(index)
    for task in left:
        runs = features_of(task, few=few)
        equal = by_reference.get(" ".join(task.reference.split()), []) if task.reference.strip() else []
        found = {other.task_id: "same reference" for other in equal}
        if not few:
            alike, reason = by_prompt.get(runs, []) if runs else [], "the same prompt"
        else:
            most_missing = int((1 - threshold) * len(runs) + 1e-9)  # similar prompts share one of the k + 1 rarest runs
            rarest = sorted(runs, key=lambda run: len(holders.get(run, ())))[: most_missing + 1]
            close = [others[index] for index in sorted({index for run in rarest for index in holders.get(run, ())})]
            alike = [other for other, words in close if len(runs & words) >= threshold * len(runs | words)]
            reason = "nearly the same prompt"
        leaks += [Leak(task.task_id, name, why) for name, why in ({other.task_id: reason for other in alike} | found).items()]
    return leaks


def features_of(task: Task, *, few: bool) -> frozenset[Run]:
    """Return the features by which a prompt is compared: its word trigrams, or all of its words if there are fewer than three."""
    if any(test.kind is TestKind.SIMULATION for test in task.tests):
        return frozenset()
    return frozenset(shingles(task.prompt) if few else {tuple(task.prompt.lower().split())})


def report_leaks(tasks: Mapping[str, Sequence[Task]]) -> None:
    """Warn if training or dev tasks are nearly identical to test tasks: the evaluation then partly measures memorisation."""
    leaks = find_leaks([*tasks["train"], *tasks["dev"]], tasks["test"])
    if leaks:
        shown = ", ".join(f"{leak.left} and {leak.right} ({leak.reason})" for leak in leaks[:3])
        remedy = "`upsolve archive doctor ARCHIVE --check duplicate_tasks --fix NEW` removes them"
        warnings.warn(f"{len(leaks)} pairs of a training and a test task are nearly equal: {shown}; {remedy}", stacklevel=3)
