"""The card of an exported folder: a README.md with the metadata that the Hugging Face Hub and ``datasets.load_dataset`` read."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from upsolve.exports.forming import Part
from upsolve.exports.record import Column, licence_of

__all__ = ["Card", "card_text", "judges_of", "licences_of"]

SIZES = (("n<1K", 10**3), ("1K<n<10K", 10**4), ("10K<n<100K", 10**5), ("100K<n<1M", 10**6), ("1M<n<10M", 10**7))
"""Names of the Hub's size categories, with the number of rows that each stays below."""
UNKNOWN = "(not stated by the source)"


@dataclass(frozen=True, slots=True)
class Card:
    """Content of a card."""

    title: str
    """Title of the data set."""
    archive: str
    """Name or folder of the archive."""
    name: str
    """Name of the format."""
    help: str
    """Content of a row."""
    files: Mapping[str, str]
    """Split -> file."""
    rows: Mapping[str, int]
    """Split -> number of rows."""
    tasks: Mapping[str, int]
    """Split -> number of tasks."""
    columns: Sequence[Column]
    """Columns of every file."""
    left_out: Mapping[str, int]
    """Reason -> attempts or tasks in no row."""
    flagged: Mapping[str, int]
    """Name -> flagged attempts, and replaced verdicts of a control."""
    licences: Mapping[str, int]
    """Licence -> attempts, or tasks where a row is a task."""
    judges: Mapping[str, int]
    """Judge -> attempts."""
    version: str
    """Version of upsolve."""
    command: str
    """Command that made the folder; empty: made in Python."""
    recipe: str
    """The sections of the recipe that decided splits, rewards and rows, as YAML; empty if none did."""


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


def card_text(card: Card) -> str:
    """Return the text of a card."""
    total = sum(card.rows.values())
    begin = [
        f"# {card.title}",
        f"{total:,} rows of the archive `{card.archive}`, exported by upsolve {card.version} in the format `{card.name}`: {card.help}.",
    ]
    splits = [(f"`{split}`", f"{card.tasks[split]:,}", f"{card.rows[split]:,}") for split in card.rows]
    columns = [(f"`{column.name}`", column.help) for column in card.columns]
    sections = [
        *("## Splits", table(("split", "tasks", "rows"), splits)),
        *("## Columns", table(("column", "meaning"), columns)),
        *counted("## Licences", "licence", card.licences),
        *counted("## Judges", "judge", card.judges),
        *counted("## Left out", "reason", card.left_out),
        *counted("## Flagged", "name", card.flagged),
        *("## How it was made", f"```\n{card.command}\n```" if card.command else "By `upsolve.export_archive` in Python."),
        *(
            [f"Splits, rewards, selection and advantages are those of this recipe:\n\n```yaml\n{card.recipe}```"]
            if card.recipe
            else []
        ),
    ]
    return f"---\n{yaml.safe_dump(metadata(card, total), sort_keys=False)}---\n\n" + "\n\n".join([*begin, *sections]) + "\n"


def metadata(card: Card, total: int) -> dict[str, Any]:
    """Return the metadata of a card: files by split, tags, size, and the licence if there is only one."""
    size = next((name for name, limit in SIZES if total < limit), "n>10M")
    licence = {} if len(card.licences) != 1 or UNKNOWN in card.licences else {"license": next(iter(card.licences)).lower()}
    files = [{"split": split, "path": file} for split, file in card.files.items()]
    return {
        **licence,
        "task_categories": ["text-generation"],
        "tags": ["code", "upsolve"],
        "size_categories": [size],
        "configs": [{"config_name": "default", "data_files": files}],
    }


def counted(title: str, label: str, counts: Mapping[str, int]) -> list[str]:
    """Return a section with counts, the highest first; nothing if there are none."""
    rows = [(name, f"{count:,}") for name, count in Counter(counts).most_common()]
    return [title, table((label, "number"), rows)] if rows else []


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
