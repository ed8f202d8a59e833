"""Evaluation <-> JSON file."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from upsolve.errors import ArchiveError
from upsolve.files import write_text
from upsolve.types import Evaluation, TaskScore

__all__ = ["load_evaluation", "save_evaluation"]

VERSION = 1


def save_evaluation(evaluation: Evaluation, path: str | Path) -> None:
    """Write an evaluation, atomically."""
    write_text(Path(path), json.dumps({"version": VERSION, **asdict(evaluation)}, indent=1))


def load_evaluation(path: str | Path) -> Evaluation:
    """Read an evaluation.

    Raises:
        ArchiveError: it is not there, damaged, or of an unknown version; names the file.
    """
    try:
        data: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        version = data.pop("version")
        if version != VERSION:
            raise ArchiveError(f"{path}: version {version}, this program knows {VERSION}")
        data["scores"] = tuple(TaskScore(**score) for score in data["scores"])
        return Evaluation(**data)
    except FileNotFoundError as error:
        raise ArchiveError(f"{path}: no such evaluation") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArchiveError(f"{path}: not an evaluation: {error}") from error
