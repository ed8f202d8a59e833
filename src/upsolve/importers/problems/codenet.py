"""Importer for Project CodeNet (2105.12655) in its published layout: metadata/, data/, problem_descriptions/.

Problems are read one after the other, with a streamed CSV, so that memory does not grow with the data set.
"""

import csv
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import lru_cache
from glob import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, ClassVar

from upsolve.errors import SourceError
from upsolve.importers.outcome import WORDS
from upsolve.importers.problems import extra_of, judged
from upsolve.importers.rows import ODD, BadRow, Row
from upsolve.importers.source import Option, Source, Unit
from upsolve.languages.names import language_in
from upsolve.types import Attempt, Status, Task, TestCase, TestKind

__all__ = ["SOURCE"]

JUDGE = "recorded:codenet"
ABOUT = ("name", "dataset", "time_limit", "memory_limit", "rating", "tags", "complexity")
"""Columns of problem_list.csv that ``extra`` of a task holds; limits in milliseconds and KB."""


class Reader(HTMLParser):
    """Converts the HTML of a statement to plain text."""

    BLOCKS = frozenset({"p", "div", "h1", "h2", "h3", "h4", "ul", "ol", "pre", "table", "tr", "section", "br", "hr", "li"})
    HEADINGS: ClassVar = {"h1": "\n\n# ", "h2": "\n\n## ", "h3": "\n\n### "}
    MARKS: ClassVar = {**HEADINGS, "li": "\n- ", "sup": "^", "sub": "_", "td": " | ", "th": " | "}

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.pre = 0
        self.skip = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open a tag."""
        del attrs
        self.skip += tag in ("script", "style")
        self.pre += tag == "pre"
        self.mark(self.MARKS.get(tag, "\n" if tag in self.BLOCKS else ""))

    def handle_endtag(self, tag: str) -> None:
        """Close a tag."""
        self.skip -= tag in ("script", "style") and self.skip > 0
        self.pre -= tag == "pre" and self.pre > 0
        self.mark("\n" if tag in self.BLOCKS else "")

    def mark(self, text: str) -> None:
        """Add the text that replaces a tag."""
        if text:
            self.parts.append(text)

    def handle_data(self, data: str) -> None:
        """Add text; white space is collapsed outside of <pre>."""
        if self.skip:
            return
        if not self.pre:
            data = re.sub(r"\s+", " ", data)
            starts_line = not self.parts or self.parts[-1].endswith(("\n", " "))
            data = data.lstrip() if starts_line else data
        if data:
            self.parts.append(data)


def readable(html: str) -> str:
    """Return a statement as plain text: headings as #, list items as -, x<sup>2</sup> as x^2."""
    reader = Reader()
    reader.feed(html)
    reader.close()
    text = "".join(reader.parts).replace("\r", "")
    lines = [line.rstrip() for line in text.split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


SAMPLE = re.compile(
    r"<h\d[^>]*>([^<]*(?:sample|example)[^<]*)</h\d>\s*(?:</?(?!pre|h\d)[^>]*>\s*)*<pre[^>]*>(.*?)</pre>", re.I | re.S
)


def samples(html: str) -> tuple[TestCase, ...]:
    """Return sample inputs and outputs as visible tests; () if their numbers differ."""
    texts: dict[str, list[str]] = {"input": [], "output": []}
    for title, body in SAMPLE.findall(html):
        reader = Reader()
        reader.feed(f"<pre>{body}</pre>")
        kind = "output" if "output" in title.lower() else "input"  # "Output for the Sample Input 1" is an output
        texts[kind].append("".join(reader.parts).replace("\r", "").strip("\n") + "\n")
    if len(texts["input"]) != len(texts["output"]):
        return ()
    return tuple(TestCase(TestKind.STDIO, a, b) for a, b in zip(texts["input"], texts["output"], strict=True))


def read(path: Path, *, language: str = "Python", most_correct: int = 0, problem: str = "") -> Iterator[Row]:
    """Yield every problem with its submissions in one language."""
    language = "" if language == "all" else language
    rows = listed(path)
    if language and not has_language(path, language):
        names = sorted({folder.name for folder in (path / "data").glob("*/*")})
        close = get_close_matches(language.lower(), {name.lower() for name in names}, n=3)
        similar = f"did you mean {', '.join(name for name in names if name.lower() in close)}? " if close else ""
        if names:
            raise SourceError(f"--language {language}: no submission is in it; {similar}all, or one of {', '.join(names)}")
    for row in rows:
        if problem in ("", row["id"]):
            yield task_of(path, row, language)
            yield from submissions(path, row["id"], language, most_correct)


def listed(path: Path) -> list[dict[str, str]]:
    """Return the rows of problem_list.csv; SourceError if files of CodeNet's layout are missing."""
    problems = path / "metadata" / "problem_list.csv"
    if not problems.is_file() or not (path / "data").is_dir():
        raise SourceError(f"{path}: not in Project CodeNet's layout: needs metadata/problem_list.csv and data/")
    return read_list(problems, problems.stat().st_mtime_ns)


@lru_cache(maxsize=1)
def read_list(problems: Path, _mtime_ns: int) -> list[dict[str, str]]:
    """Read problem_list.csv; cached for all units."""
    with problems.open(encoding="utf-8", newline="") as rows:
        return [*csv.DictReader(rows)]


@lru_cache(maxsize=16)
def has_language(path: Path, language: str) -> bool:
    """Return whether a problem has submissions in a language; cached for all units."""
    return any((path / "data").glob(f"*/{escape(language)}"))


def split(path: Path, *, problem: str = "", **_options: Any) -> list[Unit]:
    """Return a unit for each problem, as large as its list of submissions."""
    names = [row["id"] for row in listed(path) if problem in ("", row["id"])]
    lists = {name: path / "metadata" / f"{name}.csv" for name in names}
    return [Unit(path, {"problem": name}, file.stat().st_size if file.is_file() else 1) for name, file in lists.items()]


def task_of(path: Path, row: dict[str, str], language: str) -> Task:
    """Build a task from its row in problem_list.csv and its HTML statement."""
    file = path / "problem_descriptions" / f"{row['id']}.html"
    html = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    return Task(
        task_id=f"codenet/{row['id']}",
        prompt=readable(html) or row["name"],
        tests=samples(html),
        language=language_in(language),
        difficulty=row.get("rating") or "",
        source="codenet",
        extra=extra_of({name: row.get(name) for name in ABOUT}),
        limit_seconds=scaled(row.get("time_limit"), 1e-3),
        limit_bytes=None if (kib := scaled(row.get("memory_limit"), 1024)) is None else int(kib),
    )


def scaled(text: str | None, unit: float) -> float | None:
    """Return a positive number in a unit; None for any other text."""
    try:
        value = float(text or 0) * unit
    except ValueError:
        return None
    return value if 0 < value < float("inf") else None


def submissions(path: Path, name: str, language: str, most_correct: int) -> Iterator[Row]:
    """Yield the submissions to a problem with their recorded verdicts."""
    file = path / "metadata" / f"{name}.csv"
    if not file.is_file():
        yield BadRow(str(file), 0, "the problem's metadata is missing", name)
        return
    correct = 0
    with file.open(encoding="utf-8", newline="", errors="replace") as rows:
        for number, row in enumerate(csv.DictReader(rows), start=2):
            if language and row.get("language") not in (language, None):  # None: the row is cut off, and is rejected
                continue
            accepted = row.get("status") == "Accepted"
            if accepted and 0 < most_correct <= correct:
                continue
            records = submission(path, file, number, row)
            correct += accepted and not isinstance(records[0], BadRow)
            yield from records


def submission(path: Path, file: Path, number: int, row: dict[str, str]) -> list[Row]:
    """Return attempt and verdict of a row, or a ``BadRow`` with the reason."""
    text = ",".join(str(value) for value in row.values())[:500]
    status = WORDS.get((row.get("status") or "").lower().replace("-", " ").removeprefix("wa: "))
    if status is None:
        return [BadRow(str(file), number, f"unknown status {row.get('status')!r}", text)]
    try:
        source = path / "data" / row["problem_id"] / row["language"] / f"{row['submission_id']}.{row['filename_ext']}"
        code = source.read_text(encoding="utf-8", errors="replace")
        when = datetime.fromtimestamp(int(row["date"]), UTC).isoformat()
        cpu, memory = int(row["cpu_time"] or -1), int(row["memory"] or -1)
    except (OSError, *ODD) as error:
        return [BadRow(str(file), number, f"{type(error).__name__}: {error}", text)]
    extra = extra_of({name: row.get(name) for name in ("submission_id", "original_language", "accuracy")})
    attempt = Attempt(f"codenet/{row['problem_id']}", code, language_of(row), row["user_id"], when, extra=extra)
    outcome = {
        "cpu_seconds": cpu / 1000 if cpu >= 0 else None,
        "memory_bytes": memory * 1024 if memory >= 0 else None,
        "error_message": row["status"] if status is Status.UNSCORED else "",
    }
    return [*judged(attempt, status, JUDGE, **outcome)]


def language_of(row: dict[str, str]) -> str:
    """Return the language of a submission. Python 2, such as Aizu's ``Python``, is ``python2``, so that it is not judged as Python 3."""
    original = row.get("original_language") or ""
    is_old = row["language"] == "Python" and (original == "Python" or language_in(original) == "python2")
    return "python2" if is_old else language_in(row["language"])


SOURCE = Source(
    read,
    "the folder Project_CodeNet",
    (
        Option("language", str, "language as CodeNet names it, or all (default: Python)"),
        Option("most_correct", int, "most accepted submissions stored per problem, 50 in 2605.28409 (default: 0, all)"),
        Option("problem", str, "only this problem, such as p00001"),
    ),
    split=split,
    marks=("metadata/problem_list.csv",),
)
