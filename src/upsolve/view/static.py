"""The viewer as one self-contained page: files of ``web`` inlined, data compressed, nothing loaded, and it opens from a file."""

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from upsolve import __version__
from upsolve.files import write_text
from upsolve.view.answers import Answers, read_metrics
from upsolve.view.browse import COLUMNS
from upsolve.view.details import describe, read_tasks, records_of
from upsolve.view.heats import Heats, heat_maps, packed
from upsolve.view.server import WEB

__all__ = ["MOST_ATTEMPTS", "MOST_BYTES", "write_page"]

MOST_ATTEMPTS = 10_000
"""Attempts of a page."""
MOST_BYTES = 10_000_000
"""Size of a page, bytes; of an archive with more, the page has fewer heat maps, then fewer attempts."""
SLACK = 1_000
"""Bytes that the sentence about heat maps may take."""
CHUNK = 250
"""Attempts that are compressed together; the page opens only the chunks that are looked at."""
SCRIPTS = ("dom.js", "static.js", "code.js", "diff.js", "lists.js", "attempt.js", "curves.js", "main.js")
"""Modules in the order of their imports, with ``static.js`` in the place of ``source.js``."""
POLICY = "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; img-src data:; base-uri 'none'; form-action 'none'"


def write_page(answers: Answers, path: Path) -> str:
    """Write the page, atomically, and return a sentence about it.

    Args:
        answers: an archive or a run; the index is waited for.
        path: the HTML file.
    """
    answers.index.wait()
    (count,) = answers.index.query("select count(*) as n from entries")
    most = min(MOST_ATTEMPTS, count["n"])
    page, heats = page_of(answers, most)
    while len(page) > MOST_BYTES and most > CHUNK:
        most = max(CHUNK, int(most * 0.95 * MOST_BYTES / len(page)))
        page, heats = page_of(answers, most)
    write_text(path, page)
    left = f", the first of {count['n']:,}" if most < count["n"] else ""
    said = f"; {heats.note}" if answers.scores and heats.count < most else ""
    return f"{path}: {most:,} attempts{left}, {len(page) / 1e6:.1f} MB{said}"


def page_of(answers: Answers, most: int) -> tuple[str, Heats]:
    """Return the page with the first ``most`` attempts, and the heat maps that fit on it."""
    entries = answers.index.query(f"select * from entries order by place limit {int(most)}")  # noqa: S608  a number
    names = [*dict.fromkeys(entry["task_id"] for entry in entries)]
    tasks, scored = read_tasks(answers.index, names), answers.scored(names)
    records = records_of(answers.index, entries)
    full = [
        describe(entry, attempt, judged, tasks.get(attempt.task_id))
        for entry, (attempt, judged) in zip(entries, records, strict=True)
    ]
    overview: dict[str, Any] = {
        "info": {
            "title": answers.title,
            "note": note_of(answers, len(entries)),
            "version": __version__,
            "run": answers.run is not None,
        },
        "rows": [{name: entry[name] for name in [*COLUMNS.split(", "), "attempt_id", "parent_id"]} for entry in entries],
        "tasks": [asdict(task) for task in tasks.values()],
        "metrics": read_metrics(answers.run, 0)["rows"],
        "groups": {name: answers.scores.of_group(task) for name, task in scored.items()} if answers.scores else {},
        "chunk": CHUNK,
    }
    chunks = [packed(full[first : first + CHUNK]) for first in range(0, len(full), CHUNK)]
    plain = assemble([packed(overview), *chunks])
    heats = heat_maps(answers, entries, scored, chunk=CHUNK, room=MOST_BYTES - len(plain) - SLACK)
    if not answers.scores:
        return plain, heats
    overview["heats"] = {"count": heats.count, "note": heats.note}
    return assemble([packed(overview), *chunks, *heats.blocks]), heats


def note_of(answers: Answers, count: int) -> str:
    """Return the sentence below the headline."""
    whole = answers.index.query("select count(*) as n from entries")[0]["n"]
    shown = f"the first {count:,} of {whole:,} attempts" if count < whole else ""
    return "; ".join(part for part in (answers.note, shown) if part)


def assemble(data: Sequence[str]) -> str:
    """Return the page with its data (``packed``)."""
    style = (WEB / "style.css").read_text(encoding="utf-8")
    script = "\n".join(plain_script((WEB / name).read_text(encoding="utf-8")) for name in SCRIPTS)
    script = f'"use strict";\n(() => {{\n{script}\n}})();\n'
    policy = POLICY.format(script=digest(script), style=digest(style))
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>\n'
    blocks = "\n".join(f'<script type="application/octet-stream" class="data">{block}</script>' for block in data)
    page = (WEB / "index.html").read_text(encoding="utf-8")
    page = page.replace('<link rel="stylesheet" href="style.css">\n', head)
    page = page.replace('<script type="module" src="main.js"></script>\n', "")
    return page.replace("</body>", f"{blocks}\n<script>{script}</script>\n</body>")


def plain_script(module: str) -> str:
    """Return a module without the words for imports and exports."""
    return re.sub(r"^export ", "", re.sub(r"^import .*;\n", "", module, flags=re.MULTILINE), flags=re.MULTILINE)


def digest(text: str) -> str:
    """Return the SHA-256 of a text as a Content-Security-Policy writes it."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
