"""The viewer as one self-contained page: the files of ``web`` inlined, data and token heat maps compressed, nothing loaded from elsewhere."""

import base64
import gzip
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from upsolve import __version__
from upsolve.errors import ArchiveError, UpsolveError, counted
from upsolve.files import write_text
from upsolve.report.blocks import digest, inline_script
from upsolve.report.overview import CURVES
from upsolve.view.answers import Answers, read_metrics
from upsolve.view.browse import CHOICES, COLUMNS, Filters, count_attempts, describe, read_tasks, records_of
from upsolve.view.scores import TaskScores
from upsolve.view.server import FILES, WEB, style_text, to_json

__all__ = ["MOST_ATTEMPTS", "MOST_BYTES", "first_entries", "heat_maps", "packed", "write_page"]

DIGITS = {"rewards": 3, "advantages": 3, "logps": 2}
"""Numbers of each token -> digits to which they are rounded."""


def packed(part: Any) -> str:
    """Return data as compressed JSON in base64, which has no character that ends an element."""
    return base64.b64encode(gzip.compress(to_json(part), mtime=0)).decode()


def heat_maps(
    answers: Answers, entries: Sequence[Mapping[str, Any]], scored: Mapping[str, TaskScores], *, chunk: int, room: int
) -> tuple[list[str], int, str]:
    """Return ``packed`` heat maps of as many first attempts as fit into ``room`` bytes, by ``chunk``; their number; and a note."""
    blocks, count = list[str](), 0
    maps = tokens_of(answers, entries, scored)
    try:
        while part := [*islice(maps, chunk)]:
            block = packed(part)
            room -= len(block) + len('<script type="application/octet-stream" class="data"></script>\n')
            if room < 0:
                break
            blocks.append(block)
            count += len(part)
    except UpsolveError as error:  # such as a missing model, which the rest of the page does not need
        return blocks, count, f"heat maps are missing: {error}"
    return blocks, count, f"heat maps are those of the first {count:,} attempts: use `upsolve view RUN` for the others"


def tokens_of(
    answers: Answers, entries: Sequence[Mapping[str, Any]], scored: Mapping[str, TaskScores]
) -> Iterator[dict[str, Any]]:
    """Yield the token scores of each attempt, with short numbers; nothing without a run."""
    if answers.scores is None:
        return
    for entry in entries:
        known = answers.scores.of_tokens(scored[entry["task_id"]], entry["place"])
        spans = known.pop("spans")
        ends = [0, *(end for _, end in spans)]
        steps = [[start - before, end - start] for before, (start, end) in zip(ends, spans, strict=False)]
        numbers = {
            kind: [float(f"{value:.{digits}g}") for value in known[kind]] for kind, digits in DIGITS.items() if kind in known
        }
        yield {**known, "steps": steps, **numbers}


MOST_ATTEMPTS = 10_000
"""Largest number of attempts on a page."""
MOST_PAIRS = 100
"""Largest number of tasks of each evaluation whose programs before and after training are on a page."""
MOST_BYTES = 10_000_000
"""Largest size of a page, bytes; for larger archives, the page has fewer heat maps, then fewer attempts."""
SLACK = 1_000
"""Bytes that the sentence about heat maps may take."""
CHUNK = 250
"""Number of attempts that are compressed together; the page only decompresses chunks that are viewed."""
SCRIPTS = (
    "dom.js",
    "static.js",
    "table.js",
    "code.js",
    "copy.js",
    "diff.js",
    "lists.js",
    "attempt.js",
    "changes.js",
    "overview.js",
    "curves.js",
    "ask.js",
    "main.js",
)
"""Modules in the order of their imports; ``static.js`` replaces ``source.js``."""
POLICY = "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; img-src data:; base-uri 'none'; form-action 'none'"


def write_page(answers: Answers, path: Path) -> str:
    """Write the page, atomically, once the index is built; return a sentence about it."""
    most = MOST_ATTEMPTS
    text, lacks, attempts, samples = page_of(answers, most)
    while len(text) > MOST_BYTES and most > CHUNK:
        most = max(CHUNK, int(max(attempts, samples) * 0.95 * MOST_BYTES / len(text)))
        text, lacks, attempts, samples = page_of(answers, most)
    write_text(path, text)
    shown = share_of(answers, attempts) or counted(attempts, "attempt")
    also = f", {samples:,} samples of evaluations" if samples else ""
    return f"{path}: {shown}{also}, {len(text) / 1e6:.1f} MB{lacks and f'; {lacks}'}"


def page_of(answers: Answers, most: int) -> tuple[str, str, int, int]:
    """Return the page, a note on omitted records, and counts; at most ``most`` attempts and samples of evaluations."""
    entries = first_entries(answers, most)
    names = [*dict.fromkeys(entry["task_id"] for entry in entries)]
    scored = answers.scored(names)
    overview, blocks = part_of(answers, entries, first=1)
    overview["overview"] = answers.measured.overview() if answers.measured else ""
    overview["changes"], overview["pairs"], overview["change_previews"] = changes_of(answers)
    overview["groups"] = {name: answers.scores.of_group(task) for name, task in scored.items()} if answers.scores else {}
    count = 0
    if answers.open_samples:
        samples = answers.about("samples")
        rows, overview["samples"] = first_entries(samples, most), 1 + len(blocks)
        also, more = part_of(samples, rows, first=2 + len(blocks))
        blocks, count = [*blocks, packed(also), *more], len(rows)
    plain = assemble([packed(overview), *blocks])
    heats, shown, note = heat_maps(answers, entries, scored, chunk=CHUNK, room=MOST_BYTES - len(plain) - SLACK)
    if answers.scores:
        overview["heats"] = {"count": shown, "note": note, "first": 1 + len(blocks)}
        plain = assemble([packed(overview), *blocks, *heats])
    return plain, note if answers.scores and shown < len(entries) else "", len(entries), count


def changes_of(answers: Answers) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the tasks of a run's evaluations, and for each evaluation the programs at the first tasks that changed, and the previews."""
    if answers.measured is None:
        return {"sets": []}, [], []
    table, pairs = answers.measured.table(), list[dict[str, Any]]()
    for number, one in enumerate(table["sets"]):
        found = dict[str, Any]()
        for row in [row for row in one["rows"] if row["change"]][:MOST_PAIRS]:
            with suppress(ArchiveError):  # a file of samples is missing
                found[row["task_id"]] = answers.measured.pair(row["task_id"], number)
        pairs.append(found)
    return table, pairs, [answers.measured.previews(number) for number in range(len(pairs))]


def first_entries(answers: Answers, most: int) -> list[dict[str, Any]]:
    """Return the rows that a page shows: for a run, trained-on tasks come first; for samples, the first tasks with all their samples."""
    answers.index.wait()
    trained = answers.scores.recorded.tasks() if answers.scores else []
    order = "task_id not in (select unnest(?::varchar[])), if(sampled = '', '', task_id), place"
    return answers.index.query(
        f"select * from (select * from entries order by {order} limit ?) order by place",  # noqa: S608  ours
        [trained, most],
    )


def part_of(answers: Answers, entries: Sequence[dict[str, Any]], *, first: int) -> tuple[dict[str, Any], list[str]]:
    """Return an overview of attempts, and the blocks with their details; the first block gets the number ``first`` on the page."""
    tasks = read_tasks(answers.index, [*dict.fromkeys(entry["task_id"] for entry in entries)])
    full = [
        describe(entry, attempt, judged, task=tasks.get(attempt.task_id), judge=answers.index.judge)
        for entry, (attempt, judged) in zip(entries, records_of(answers.index, entries), strict=True)
    ]
    metrics = read_metrics(answers.run, 0)
    overview: dict[str, Any] = {
        "info": {
            "title": answers.title,
            "note": "; ".join(filter(None, (answers.note, share_of(answers, len(entries))))),
            "version": __version__,
            "run": answers.run is not None,
            "overview": answers.measured is not None,
            "changes": answers.measured is not None and bool(answers.measured.pairings()),
            "samples": answers.open_samples is not None,
            "filters": CHOICES,
            "curves": CURVES,
        },
        "rows": [{name: entry[name] for name in [*COLUMNS.split(", "), "attempt_id", "parent_id"]} for entry in entries],
        "tasks": [asdict(task) for task in tasks.values()],
        "metrics": metrics["rows"],
        "finished": metrics["finished"],
        "groups": {},
        "chunk": CHUNK,
        "first": first,
    }
    return overview, [packed(full[start : start + CHUNK]) for start in range(0, len(full), CHUNK)]


def share_of(answers: Answers, count: int) -> str:
    """Return a sentence about the attempts that a page shows; empty if it shows all."""
    whole = count_attempts(answers.index, Filters())
    if count == whole:
        return ""
    trained = answers.scores is not None and answers.scores.recorded.read() is not None
    return f"{count:,} of {whole:,} attempts, {'those at tasks that were trained on first' if trained else 'the first ones'}"


def assemble(data: Sequence[str]) -> str:
    """Return the page with its data (``packed``)."""
    style = style_text()
    modules = "\n".join(FILES[name].read_text(encoding="utf-8") for name in SCRIPTS)
    script = inline_script(modules)
    policy = POLICY.format(script=digest(script), style=digest(style))
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>\n'
    blocks = "\n".join(f'<script type="application/octet-stream" class="data">{block}</script>' for block in data)
    page = (WEB / "index.html").read_text(encoding="utf-8")
    page = page.replace('<link rel="stylesheet" href="style.css">\n', head)
    page = page.replace('<script type="module" src="main.js"></script>\n', "")
    return page.replace("</body>", f"{blocks}\n<script>{script}</script>\n</body>")
