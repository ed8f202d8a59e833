"""Export an archive: its items, as a recipe forms them, in a folder with a card or in a file, which is complete or absent."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from upsolve.config import DataConfig, PromptConfig, Recipe, load_recipe
from upsolve.errors import ArchiveError, ConfigError, counted
from upsolve.exports.record import COMPLETION, Column, Content, Export, LeftOut, Place, licence_of
from upsolve.files import refuse_device, replaced, write_text
from upsolve.importers.source import parse_options
from upsolve.plugins import find, name_of
from upsolve.reward.formula import Rewarded
from upsolve.reward.selection import choose
from upsolve.train.data.encode import draw_pairs
from upsolve.train.data.groups import (
    TrainGroup,
    decided_by_outcome,
    draw_groups,
    drawn_first,
    rewards_of,
    select,
    whole_groups,
    with_advantages,
)
from upsolve.types import Group, Task

__all__ = ["export_archive", "format_of"]

SPLITS = ("train", "dev", "test")
BATCH = 1000
"""Number of rows in memory at a time."""
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Exported:
    """Result of an export."""

    path: Path
    """The file or folder."""
    rows: Mapping[str, int]
    """Rows by split."""
    left_out: Mapping[str, int]
    """Reason -> number of attempts and tasks that are in no row."""

    def text(self) -> str:
        """Return the counts as lines of text."""
        lines = [f"{counted(count, 'row')}{f' of {split}' if split else ''}: {self.path}" for split, count in self.rows.items()]
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
        command: command that the card shows; empty: the export was made in Python.

    Raises:
        ConfigError: the format, option or split is unknown, the format cannot use the recipe, or there is nothing to export.
        ArchiveError: the folder is not empty or a URL, or a file cannot be written.
    """
    name, record, values = format_of(format, options or {})
    if recipe and COMPLETION in record.options:
        values = {COMPLETION.name: Content(recipe.model.completion), **values}
    used = recipe or load_recipe(record.recipe)
    work = Work(local_place(out), name, record, options=values, recipe=used, given=recipe is not None)
    work.check_settings(split, epoch)
    work.check_path()
    if record.unit == "record":
        work.write_file(stored_records({name: archive.parts(name) for name in TABLES}))
        return Exported(work.path, work.rows, work.left_out)
    parts = parts_of(archive, recipe and recipe.data, split, formed=work.formed)
    if record.output == "file":
        work.write_file(chain.from_iterable(work.items_of(part, epoch, Counter(), Counter()) for part in parts))
    else:
        work.write_folder(parts, epoch)
        shipped = (name for name, folder in SHIPPED.items() if folder == archive.path)
        card = card_text(work, parts, archive=next(shipped, archive.path.resolve().name), command=command)
        write_text(work.path / "README.md", card)
    return Exported(work.path, work.rows, work.left_out)


def format_of(name: str | Export, options: Mapping[str, Any]) -> tuple[str, Export, dict[str, Any]]:
    """Return the name, the record and the parsed options of a format; ConfigError for an unknown name or a wrong value."""
    try:
        record: Export = find("export", name.replace(".py:", ":") if isinstance(name, str) else name)
        label = name_of("export", name)
        return label, record, parse_options(f"format {label}", record.options, options)
    except ValueError as error:
        raise ConfigError(str(error)) from error


@dataclass(frozen=True, slots=True)
class Part:
    """A split of an archive."""

    split: str
    """``train``, ``dev`` or ``test``."""
    tasks: Sequence[Task]
    """All tasks of the split."""
    groups: Sequence[Group]
    """The tasks with attempts, judged or not."""


def parts_of(archive: Archive, data: DataConfig | None, split: str = "", *, formed: bool = False) -> list[Part]:
    """Return all splits of an archive, or one; ``formed``: for groups or pairs, in the language of the prompt."""
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


class Work:
    """An export in progress: files, rows by split, and what was left out."""

    def __init__(
        self, path: Path, name: str, record: Export, *, options: Mapping[str, Any], recipe: Recipe, given: bool
    ) -> None:
        """Store the path, the format with its options, and the recipe, which the user may have given."""
        self.path, self.name, self.record, self.options, self.recipe, self.given = path, name, record, options, recipe, given
        self.prompt = recipe.model.prompt if given else PromptConfig()
        self.formed = record.unit in ("group", "pair")
        self.rows, self.files = dict[str, int](), dict[str, str]()
        self.left_out, self.flagged = Counter[str](), Counter[str]()
        self.columns = record.columns(**options)

    def check_settings(self, split: str, epoch: int | None) -> None:
        """Refuse settings that a format does not read: ConfigError names the setting and the fix."""
        unit, recipe, kind = self.record.unit, self.recipe, self.recipe.advantage.kind
        with_recipe = f"one of {', '.join(SPLITS)}, with a --recipe whose `data` section splits the archive"
        turns = "a pair has one prompt, and each attempt its own conversation: leave it out, or choose another format"
        start = "start_logp and start_min_logp need the model that training starts from: leave them out of an export"
        values = f"{kind} computes advantages from a value head in training: choose another recipe"
        whole = "this format holds the whole archive: leave out --recipe, --set and --split"
        problems = (
            (unit == "record" and (self.given or split), f"--as: {whole}"),
            (split and (split not in SPLITS or not self.given), f"--split {split}: {with_recipe}"),
            (
                epoch is not None and not self.formed,
                "--epoch samples groups or pairs, and this format has neither: leave it out",
            ),
            (unit == "pair" and recipe.data.turns, f"data.turns: {turns}"),
            (self.formed and recipe.select.reads_start, f"select: {start}"),
            (unit == "group" and recipe.advantage.needs_values, f"advantage.kind: {values}"),
        )
        if problem := next((text for is_wrong, text in problems if is_wrong), ""):
            raise ConfigError(problem)

    def check_path(self) -> None:
        """Raise ArchiveError if the folder is not empty or the file is a folder; FileExistsError if the file is a device."""
        path, is_file = self.path, self.record.output == "file"
        refuse_device(path)
        if is_file and path.is_dir():
            raise ArchiveError(f"{path}: is a folder; the format {self.name} is one file, such as {path / 'out.jsonl'}")
        if not is_file and path.exists() and not (path.is_dir() and not any(path.iterdir())):
            raise ArchiveError(f"{path}: exists; the format {self.name} is a folder with a card: export into a new folder")

    def items_of(self, part: Part, epoch: int | None, left_out: Counter[str], flagged: Counter[str]) -> Iterable[Any]:
        """Return the items of a split as training forms them in an epoch; for the epoch None, all attempts of a task in one group.

        Data that is in no item is counted by reason, even while the items are read.
        """
        recipe, unit = self.recipe, self.record.unit
        if not self.formed:
            return part.tasks if unit == "task" else part.groups
        groups, data = part.groups, recipe.data
        if unit == "group" and epoch is not None and decided_by_outcome(recipe.reward, recipe.select, data):
            groups = drawn_first(groups, data, epoch=epoch)
        rewarded = rewards_of(groups, recipe.reward, recipe.verify)
        if unit == "group" and epoch is None and not recipe.select.is_on:
            return self.one_by_one(rewarded, left_out, flagged)
        chosen = choose(rewarded, recipe.select, number=epoch or 0, seed=data.seed)
        if unit == "pair":
            formed = draw_pairs(chosen.rewarded, data, recipe.objective.preference.pairs, epoch=epoch or 0)
        elif epoch is None:
            formed = whole_groups(chosen.rewarded)
        else:
            needs, ordered = recipe.advantage.record.needs, bool(recipe.select.order)
            formed = draw_groups(chosen.rewarded, data, needs=needs, epoch=epoch, in_order=ordered)
        left_out.update(formed.left_out + chosen.left_out)
        flagged.update(formed.flagged)
        advantage = recipe.advantage.at(epoch or 0, recipe.optim.epochs)
        return [with_advantages(item, advantage, seed=data.seed, pair=unit == "pair") for item in formed.groups]

    def one_by_one(self, rewarded: Iterable[Rewarded], left_out: Counter[str], flagged: Counter[str]) -> Iterator[TrainGroup]:
        """Yield whole groups with advantages, one in memory at a time, and count attempts that are left out and flagged."""
        for item in rewarded:
            formed = whole_groups([item])
            left_out.update(formed.left_out)
            flagged.update(formed.flagged)
            yield from (with_advantages(one, self.recipe.advantage, seed=self.recipe.data.seed) for one in formed.groups)

    def write_file(self, items: Iterable[Any]) -> None:
        """Write the only file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.rows[""] = self.write(self.path, items, "")
        self.check_rows()

    def write_folder(self, parts: Iterable[Part], epoch: int | None) -> None:
        """Write a file for each split that has rows."""
        self.path.mkdir(parents=True, exist_ok=True)
        for part in parts:
            file, left_out, flagged = self.path / f"{part.split}.{self.record.output}", Counter[str](), Counter[str]()
            self.rows[part.split] = self.write(file, self.items_of(part, epoch, left_out, flagged), part.split)
            self.left_out += left_out
            self.flagged += flagged
            if self.rows[part.split]:
                self.files[part.split] = file.name
            else:
                file.unlink()
        self.check_rows()

    def write(self, path: Path, items: Iterable[Any], split: str) -> int:
        """Write the rows of items to a file, atomically, and return their number; ArchiveError if the file cannot be written."""
        rows = self.rows_of(items, split)
        try:
            with replaced(path) as temporary:
                if self.record.output == "parquet":
                    return write_parquet(temporary, rows, self.columns)
                return write_lines(temporary, rows)
        except OSError as error:
            raise ArchiveError(f"{path}: cannot be written: {error}") from error

    def rows_of(self, items: Iterable[Any], split: str) -> Iterator[Row]:
        """Yield the rows of items; data that the format cannot hold is counted in ``left_out``."""
        index = 0
        for item in items:
            for row in self.record.rows(item, Place(split, index, self.prompt), **self.options):
                if isinstance(row, LeftOut):
                    self.left_out[row.reason] += row.count
                else:
                    index += 1
                    yield row

    def check_rows(self) -> None:
        """Raise ConfigError for an export without rows, with counts of omitted attempts; removes incomplete files."""
        if any(self.rows.values()):
            return
        self.path.unlink() if self.record.output == "file" else self.path.rmdir()
        reasons = "; ".join(f"{count} {reason}" for reason, count in self.left_out.most_common(3)) or "the archive has none"
        raise ConfigError(f"{self.path}: nothing to export in the format {self.name}: {reasons}")

    def card_recipe(self) -> str:
        """Return the part of the recipe that decided the export, as YAML; empty if no part did."""
        read = [*(["data"] if self.given else []), *(["reward", "select", "advantage"] if self.formed else [])]
        settings: dict[str, Any] = {"name": self.recipe.name}
        settings |= {key: getattr(self.recipe, key).model_dump(mode="json") for key in read}
        if self.record.unit == "pair":
            settings["objective"] = {"preference": self.recipe.objective.preference.model_dump(mode="json", include={"pairs"})}
        if self.prompt != PromptConfig():
            settings["model"] = {"prompt": self.prompt.model_dump(mode="json", exclude_defaults=True)}
        return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True) if read else ""


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
    return Counter("(not judged)" if not one or one.is_score else one.judge or "(no name)" for one in verdicts)


def card_text(work: Work, parts: Sequence[Part], *, archive: str, command: str) -> str:
    """Return the text of a card: README.md with the metadata that the Hugging Face Hub and ``datasets.load_dataset`` read."""
    total, tasks = sum(work.rows.values()), {part.split: len(part.tasks) for part in parts}
    of_tasks = work.record.unit == "task"
    licences = licences_of(parts, attempts=not of_tasks)
    about = f"exported by upsolve {__version__} in the format `{work.name}`: {work.record.help}."
    splits = [(f"`{split}`", f"{tasks[split]:,}", f"{count:,}") for split, count in work.rows.items()]
    sections = [
        f"# {work.path.name}",
        f"{counted(total, 'row')} of the archive `{archive}`, {about}",
        *("## Splits", table(("split", "tasks", "rows"), splits)),
        *("## Columns", table(("column", "meaning"), [(f"`{column.name}`", column.help) for column in work.columns])),
        *count_table("## Licences", "licence", licences),
        *count_table("## Judges", "judge", {} if of_tasks else judges_of(parts)),
        *count_table("## Left out", "reason", work.left_out),
        *count_table("## Flagged", "name", work.flagged),
        *("## How it was made", f"```\n{command}\n```" if command else "By `upsolve.export_archive` in Python."),
    ]
    if recipe := work.card_recipe():
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
    return f"---\n{yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True)}---\n\n" + "\n\n".join(sections) + "\n"


def count_table(title: str, label: str, counts: Mapping[str, int]) -> list[str]:
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
                    raise ValueError(
                        f"{path.name}: a row has the columns {sorted(row)}, but the format declares {sorted(schema.names)}"
                    )
            out.write_table(pa.Table.from_pylist(batch, schema=schema))
            count += len(batch)
    return count
