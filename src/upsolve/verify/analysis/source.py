"""Input of an analysis: the code of an attempt with its language, test names and executed lines."""

import json
import re
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from upsolve.errors import JudgeError
from upsolve.languages import PYTHON
from upsolve.types import Attempt, Task, Verdict

__all__ = ["Source", "column_of", "in_folder", "rows_of", "source_of"]

COMMENT = re.compile(r"#[^\n]*")
SUPPRESSION = re.compile(r"\b(?:noqa|nosec|ignore|forgives?)\b", re.IGNORECASE)
NAME = re.compile(r"[^\W\d]\w*")
SECONDS = 20
"""Time limit of a tool for one batch of programs, seconds."""


@dataclass(frozen=True, slots=True)
class Source:
    """One program."""

    code: str
    """Source code; comments that suppress findings are disabled at the same length, or a policy could learn to write them."""
    language: str = "python"
    """Language; ``python`` for all names of Python."""
    names: frozenset[str] = frozenset()
    """Names that the task's tests use."""
    executed: tuple[int, ...] | None = None
    """Executed lines, from 1; None if unknown."""


def source_of(task: Task, attempt: Attempt, verdict: Verdict) -> Source:
    """Return the analysis input of an attempt."""
    used = frozenset(NAME.findall(" ".join([task.entry_point, *(test.input for test in task.tests)])))
    code = COMMENT.sub(lambda comment: SUPPRESSION.sub(lambda word: "-" * len(word[0]), comment[0]), attempt.code)
    language = "python" if attempt.language in PYTHON else attempt.language
    return Source(code, language, used, verdict.executed_lines)


@contextmanager
def in_folder(sources: Sequence[Source]) -> Generator[Path]:
    """Context manager: write programs to a temporary folder, named by number, so that no program can import another."""
    with tempfile.TemporaryDirectory(prefix="upsolve-analysis-") as folder:
        for number, source in enumerate(sources):
            (Path(folder) / f"{number}.py").write_text(source.code, encoding="utf-8", errors="replace", newline="")
        yield Path(folder)


def rows_of(command: Sequence[str], folder: Path) -> list[dict[str, Any]]:
    """Run a tool in a folder and return the JSON rows of its output.

    Raises:
        JudgeError: the output is not JSON rows; says what the tool printed to standard error.
    """
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=SECONDS)
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise JudgeError(f"{Path(command[0]).name}: {done.stderr.decode('utf-8', 'replace')[:300]}") from error


@lru_cache(maxsize=4)
def split(code: str) -> list[str]:
    """Return the lines of a program, which has many findings."""
    return code.split("\n")


def column_of(code: str, line: int, offset: int) -> int:
    """Return the column (from 1, in characters) of a position given as line (from 1) and byte offset in that line (from 0)."""
    lines = split(code)
    text = lines[line - 1] if line <= len(lines) else ""
    return len(text.encode("utf-8", "replace")[:offset].decode("utf-8", "replace")) + 1
