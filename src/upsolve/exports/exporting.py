"""Export an archive: its items by split with the rewards and advantages of a recipe, as a folder with a card, or a file.

Every file is complete or absent.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from upsolve import __version__
from upsolve.archive.database import stored_records
from upsolve.archive.groups import Lazy
from upsolve.archive.places import SHIPPED, local_place
from upsolve.archive.schema import TABLES
from upsolve.archive.split import report_languages, split_archive
from upsolve.archive.store import Archive
from upsolve.config import (
    AdvantageConfig,
    DataConfig,
    PromptConfig,
    Recipe,
    RewardConfig,
    SelectConfig,
    VerifyConfig,
    load_recipe,
)
from upsolve.errors import ArchiveError, ConfigError
from upsolve.exports.record import COMPLETION, Column, Content, Export, LeftOut, Place, licence_of
from upsolve.files import commit_file, write_text
from upsolve.importers.source import parse_options
from upsolve.plugins import find, spelled
from upsolve.reward.formula import Rewarded
from upsolve.reward.selection import choose
from upsolve.train.data.groups import (
    Formed,
    TrainGroup,
    decided_by_outcome,
    draw_groups,
    drawn_first,
    rewards_of,
    select,
    whole_groups,
    with_advantages,
)
from upsolve.train.data.pairs import draw_pairs
from upsolve.types import Group, Task

__all__ = ["export_archive", "format_of"]

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages of a recipe that an export reads."""

    name: str
    """Name of the recipe."""
    data: DataConfig
    """Splits, authors, judge; size and number of groups, number of pairs."""
    reward: RewardConfig
    """Rewards."""
    select: SelectConfig
    """Groups and attempts to keep, weights, order."""
    advantage: AdvantageConfig
    """Estimator."""
    pairs: str
    """Kind of pairs (``objective.preference.pairs``)."""
    verify: VerifyConfig
    """Limits for references, if the rewards need their times."""


@dataclass(frozen=True, slots=True)
class Part:
    """A split of an archive."""

    split: str
    """``train``, ``dev`` or ``test``."""
    tasks: Sequence[Task]
    """All tasks of the split."""
    groups: Sequence[Group]
    """The tasks with attempts, judged or not."""


@dataclass(frozen=True, slots=True)
class Items:
    """Items from which the rows of a split are made."""

    items: Iterable[Any]
    """Items of the format's unit (``Export.unit``), in the order of the rows."""
    left_out: Counter[str]
    """Attempts and tasks that are in no item, by reason; complete once all items are read."""
    flagged: Counter[str]
    """Attempts that are truncated or that a detector flags, by name, and replaced verdicts of a control."""


def stages_of(recipe: Recipe) -> Stages:
    """Return the stages that an export reads."""
    pairs = recipe.objective.preference.pairs
    return Stages(recipe.name, recipe.data, recipe.reward, recipe.select, recipe.advantage, pairs, recipe.verify)


def check_format(record: Export, stages: Stages, *, given: bool, split: str, epoch: int | None) -> None:
    """Refuse settings that a format does not read: ConfigError names the setting and the fix."""
    formed, values = record.unit in ("group", "pair"), stages.advantage
    with_recipe = f"one of {', '.join(SPLITS)}, with a --recipe whose `data` section splits the archive"
    turns = "a pair has one prompt, and each attempt its own conversation: leave it out, or choose another format"
    start = "start_logp and start_min_logp need the model that training starts from: leave them out of an export"
    problems = (
        (
            record.unit == "record" and (given or split),
            "--as: this format holds the whole archive: leave out --recipe, --set and --split",
        ),
        (split and (split not in SPLITS or not given), f"--split {split}: {with_recipe}"),
        (epoch is not None and not formed, "--epoch samples groups or pairs, and this format has neither: leave it out"),
        (record.unit == "pair" and stages.data.turns, f"data.turns: {turns}"),
        (formed and stages.select.reads_start, f"select: {start}"),
        (
            record.unit == "group" and values.needs_values,
            f"advantage.kind: {values.kind} computes advantages from a value head in training: choose another recipe",
        ),
    )
    if problem := next((text for is_wrong, text in problems if is_wrong), ""):
        raise ConfigError(problem)


def parts_of(archive: Archive, data: DataConfig | None, split: str = "", *, formed: bool = False) -> list[Part]:
    """Return the splits of an archive, or one; ``formed``: for groups or pairs, in the language of the prompt."""
    if data is None:
        groups = archive.groups(labels=formed)
        if formed:
            report_languages(archive, "")
            groups = Lazy(groups, lambda group: select(group, DataConfig()))
        return [Part("train", archive.tasks(), groups)]
    found, chosen = split_archive(archive, data, labels=formed), data
    return [
        Part(name, found.tasks[name], Lazy(found.groups[name], lambda group: select(group, chosen)))
        for name in SPLITS
        if split in ("", name)
    ]


def items_of(part: Part, record: Export, stages: Stages, *, epoch: int | None) -> Items:
    """Return the items of a split, as training forms them in an epoch; None: all attempts of a task in one group."""
    if record.unit in ("task", "attempts"):
        return Items(part.tasks if record.unit == "task" else part.groups, Counter(), Counter())
    groups = part.groups
    if record.unit == "group" and epoch is not None and decided_by_outcome(stages.reward, stages.select, stages.data):
        groups = drawn_first(groups, stages.data, epoch=epoch)
    rewarded = rewards_of(groups, stages.reward, stages.verify)
    if record.unit == "group" and epoch is None and not stages.select.is_on:
        left_out, flagged = Counter[str](), Counter[str]()
        return Items(one_by_one(rewarded, stages, left_out, flagged), left_out, flagged)
    pairs = record.unit == "pair"
    formed = form_groups(rewarded, stages, epoch=epoch, pairs=pairs)
    items = [with_advantages(item, stages.advantage, seed=stages.data.seed, pair=pairs) for item in formed.groups]
    return Items(items, formed.left_out, formed.flagged)


def one_by_one(
    rewarded: Iterable[Rewarded], stages: Stages, left_out: Counter[str], flagged: Counter[str]
) -> Iterator[TrainGroup]:
    """Yield whole groups with advantages, holding one in memory, and count what is left out and flagged."""
    for item in rewarded:
        formed = whole_groups([item])
        left_out.update(formed.left_out)
        flagged.update(formed.flagged)
        yield from (with_advantages(one, stages.advantage, seed=stages.data.seed) for one in formed.groups)


def form_groups(rewarded: Sequence[Rewarded], stages: Stages, *, epoch: int | None, pairs: bool) -> Formed:
    """Return selected groups, or pairs."""
    data, number = stages.data, epoch or 0
    chosen = choose(rewarded, stages.select, number=number, seed=data.seed)
    if pairs:
        formed = draw_pairs(chosen.rewarded, data, stages.pairs, epoch=number)
    elif epoch is None:
        formed = whole_groups(chosen.rewarded)
    else:
        imitates, ordered = stages.advantage.record.selects, bool(stages.select.order)
        formed = draw_groups(chosen.rewarded, data, imitates=imitates, epoch=number, in_order=ordered)
    return replace(formed, left_out=formed.left_out + chosen.left_out)


BATCH = 1000
"""Rows in memory at once."""
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Exported:
    """Result of an export."""

    path: Path
    """The file or folder."""
    rows: Mapping[str, int]
    """Rows by split."""
    left_out: Mapping[str, int]
    """Attempts and tasks in no row, by reason."""

    def text(self) -> str:
        """Return the counts as lines of text."""
        lines = [f"{count:,} rows{f' of {split}' if split else ''}: {self.path}" for split, count in self.rows.items()]
        return "\n".join([*lines, *(f"left out: {count:,} {reason}" for reason, count in Counter(self.left_out).most_common())])


def export_archive(
    archive: Archive,
    out: str | Path,
    format: str | Export = "jsonl",  # noqa: A002  the word that users say
    *,
    recipe: Recipe | None = None,
    split: str = "",
    epoch: int | None = None,
    options: Mapping[str, Any] | None = None,
    command: str = "",
) -> Exported:
    """Write an archive in the format of another tool (docs/exports.md).

    Args:
        archive: what to export.
        out: a new folder or, for a format that is one file, the file, which is replaced if it exists.
        format: name of a format, ``package.module:attribute``, or the record itself.
        recipe: splits, authors, judge, rewards, selection, advantages and pairs; None: all tasks in one split, with the rewards and
            advantages of the format's default recipe.
        split: only ``train``, ``dev`` or ``test``; empty: all.
        epoch: groups or pairs as training samples them in this epoch, from 0; None: one group of all attempts for each task.
        options: options of the format.
        command: command for the card; empty: made in Python.

    Raises:
        ConfigError: no such format, option or split, a recipe that the format cannot use, or nothing to export.
        ArchiveError: the folder is not empty or a URL, or a file cannot be written.
    """
    name, record, values = format_of(format, options or {})
    if recipe and COMPLETION in record.options:
        values = {COMPLETION.name: Content(recipe.model.completion), **values}
    stages = stages_of(recipe or load_recipe(record.recipe))
    check_format(record, stages, given=recipe is not None, split=split, epoch=epoch)
    work = Work(local_place(out), name, record, options=values, prompt=recipe.model.prompt if recipe else PromptConfig())
    if record.unit == "record":
        work.write_file(stored_records({name: archive.parts(name) for name in TABLES}))
        return Exported(work.path, work.rows, work.left_out)
    parts = parts_of(archive, recipe and recipe.data, split, formed=record.unit in ("group", "pair"))
    items = ((part.split, items_of(part, record, stages, epoch=epoch)) for part in parts)
    if record.output == "file":
        work.write_file(chain.from_iterable(found.items for _, found in items))
    else:
        work.write_folder(items)
        shipped = (name for name, folder in SHIPPED.items() if folder == archive.path)
        settings = card_recipe(record, stages, work.prompt, given=recipe is not None)
        card = card_text(work, parts, archive=next(shipped, archive.path.resolve().name), command=command, recipe=settings)
        write_text(work.path / "README.md", card)
    return Exported(work.path, work.rows, work.left_out)


def format_of(name: str | Export, options: Mapping[str, Any]) -> tuple[str, Export, dict[str, Any]]:
    """Return the name, the record and the parsed options of a format; ConfigError for an unknown name or a wrong value."""
    try:
        record: Export = find("export", name.replace(".py:", ":") if isinstance(name, str) else name)
        label = spelled("export", name)
        return label, record, parse_options(f"format {label}", record.options, options)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def card_recipe(record: Export, stages: Stages, prompt: PromptConfig, *, given: bool) -> str:
    """Return the part of a recipe that decided an export, as YAML; empty if none did."""
    read = ["data"] if given else []
    if record.unit in ("group", "pair"):
        read += ["reward", "select", "advantage"]
    settings: dict[str, Any] = {"name": stages.name, **{key: getattr(stages, key).model_dump(mode="json") for key in read}}
    if record.unit == "pair":
        settings["objective"] = {"preference": {"pairs": stages.pairs}}
    if prompt != PromptConfig():
        settings["model"] = {"prompt": prompt.model_dump(mode="json", exclude_defaults=True)}
    return yaml.safe_dump(settings, sort_keys=False) if read else ""


class Work:
    """An export in progress: files, rows by split, and what was left out."""

    def __init__(self, path: Path, name: str, record: Export, *, options: Mapping[str, Any], prompt: PromptConfig) -> None:
        """Check the path: ArchiveError if the folder is not empty, or the file is a folder."""
        self.path, self.name, self.record, self.options, self.prompt = path, name, record, options, prompt
        self.rows, self.files = dict[str, int](), dict[str, str]()
        self.left_out, self.flagged = Counter[str](), Counter[str]()
        self.columns = record.columns(**options)
        if record.output == "file" and path.is_dir():
            raise ArchiveError(f"{path}: is a folder; the format {name} is one file, such as {path / 'out.jsonl'}")
        if record.output != "file" and path.exists() and not (path.is_dir() and not any(path.iterdir())):
            raise ArchiveError(f"{path}: exists; the format {name} is a folder with a card: export into a new folder")

    def write_file(self, items: Iterable[Any]) -> None:
        """Write the only file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.rows[""] = self.write(self.path, items, "")
        self.check_rows()

    def write_folder(self, parts: Iterable[tuple[str, Items]]) -> None:
        """Write a file for each split that has rows."""
        self.path.mkdir(parents=True, exist_ok=True)
        for split, items in parts:
            file = self.path / f"{split}.{self.record.output}"
            self.rows[split] = self.write(file, items.items, split)
            self.left_out += items.left_out
            self.flagged += items.flagged
            if self.rows[split]:
                self.files[split] = file.name
            else:
                file.unlink()
        self.check_rows()

    def write(self, path: Path, items: Iterable[Any], split: str) -> int:
        """Write the rows of items to a file, atomically, and return their number; ArchiveError if the file cannot be written."""
        rows, temporary = self.rows_of(items, split), path.with_name(f"{path.name}.tmp")
        try:
            count = (
                write_parquet(temporary, rows, self.columns)
                if self.record.output == "parquet"
                else write_lines(temporary, rows)
            )
            commit_file(temporary, path)
        except OSError as error:
            raise ArchiveError(f"{path}: cannot be written: {error}") from error
        finally:
            temporary.unlink(missing_ok=True)
        return count

    def rows_of(self, items: Iterable[Any], split: str) -> Iterator[Row]:
        """Yield the rows of items; what the format cannot hold is added to ``left_out``."""
        index = 0
        for item in items:
            for row in self.record.rows(item, Place(split, index, self.prompt), **self.options):
                if isinstance(row, LeftOut):
                    self.left_out[row.reason] += row.count
                else:
                    index += 1
                    yield row

    def check_rows(self) -> None:
        """Refuse an export without a row, and remove what it left; the ConfigError says what was left out."""
        if any(self.rows.values()):
            return
        self.path.unlink() if self.record.output == "file" else self.path.rmdir()
        reasons = "; ".join(f"{count} {reason}" for reason, count in self.left_out.most_common(3)) or "the archive has none"
        raise ConfigError(f"{self.path}: nothing to export in the format {self.name}: {reasons}")


SIZES = (("n<1K", 10**3), ("1K<n<10K", 10**4), ("10K<n<100K", 10**5), ("100K<n<1M", 10**6), ("1M<n<10M", 10**7))
"""Names of the Hub's size categories, with the number of rows that each stays below."""
UNKNOWN = "(not stated by the source)"


def licences_of(parts: Iterable[Part], *, attempts: bool) -> Counter[str]:
    """Return the number of attempts, or of tasks, by licence."""
    if not attempts:
        return Counter(licence_of(task) or UNKNOWN for part in parts for task in part.tasks)
    groups = (group for part in parts for group in part.groups)
    return Counter(licence_of(group.task, attempt) or UNKNOWN for group in groups for attempt in group.attempts)


def judges_of(parts: Iterable[Part]) -> Counter[str]:
    """Return the number of attempts by judge."""
    verdicts = (verdict for part in parts for group in part.groups for verdict in group.verdicts)
    return Counter("(not judged)" if verdict is None else verdict.judge or "(no name)" for verdict in verdicts)


def card_text(work: Work, parts: Sequence[Part], *, archive: str, command: str, recipe: str) -> str:
    """Return the text of a card: README.md with the metadata that the Hugging Face Hub and ``datasets.load_dataset`` read."""
    total, tasks = sum(work.rows.values()), {part.split: len(part.tasks) for part in parts}
    of_tasks = work.record.unit == "task"
    licences = licences_of(parts, attempts=not of_tasks)
    about = f"exported by upsolve {__version__} in the format `{work.name}`: {work.record.help}."
    splits = [(f"`{split}`", f"{tasks[split]:,}", f"{count:,}") for split, count in work.rows.items()]
    sections = [
        f"# {work.path.name}",
        f"{total:,} rows of the archive `{archive}`, {about}",
        *("## Splits", table(("split", "tasks", "rows"), splits)),
        *("## Columns", table(("column", "meaning"), [(f"`{column.name}`", column.help) for column in work.columns])),
        *counted("## Licences", "licence", licences),
        *counted("## Judges", "judge", {} if of_tasks else judges_of(parts)),
        *counted("## Left out", "reason", work.left_out),
        *counted("## Flagged", "name", work.flagged),
        *("## How it was made", f"```\n{command}\n```" if command else "By `upsolve.export_archive` in Python."),
    ]
    if recipe:
        sections.append(f"Splits, rewards, selection and advantages are those of this recipe:\n\n```yaml\n{recipe}```")
    metadata = {
        **({} if len(licences) != 1 or UNKNOWN in licences else {"license": next(iter(licences)).lower()}),
        "task_categories": ["text-generation"],
        "tags": ["code", "upsolve"],
        "size_categories": [next((name for name, limit in SIZES if total < limit), "n>10M")],
        "configs": [
            {"config_name": "default", "data_files": [{"split": split, "path": file} for split, file in work.files.items()]}
        ],
    }
    return f"---\n{yaml.safe_dump(metadata, sort_keys=False)}---\n\n" + "\n\n".join(sections) + "\n"


def counted(title: str, label: str, counts: Mapping[str, int]) -> list[str]:
    """Return a section with counts, the highest first; nothing if there are none."""
    rows = [(name, f"{count:,}") for name, count in Counter(counts).most_common()]
    return [title, table((label, "number"), rows)] if rows else []


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def write_lines(path: Path, rows: Iterator[Row]) -> int:
    """Write JSON lines."""
    count = 0
    with path.open("w", encoding="utf-8") as out:
        for row in rows:
            out.write(json.dumps(row) + "\n")
            count += 1
    return count


def write_parquet(path: Path, rows: Iterator[Row], columns: Sequence[Column]) -> int:
    """Write a Parquet file batch by batch."""
    schema = pa.schema([(column.name, column.type) for column in columns])
    count = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as out:
        while batch := list(islice(rows, BATCH)):
            for row in batch:
                if {*row} != {*schema.names}:
                    raise ValueError(f"{path.name}: a row has the columns {sorted(row)}, the format {sorted(schema.names)}")
            out.write_table(pa.Table.from_pylist(batch, schema=schema))
            count += len(batch)
    return count
