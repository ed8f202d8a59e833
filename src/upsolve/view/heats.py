"""Heat maps of the attempts of a run for the page without a server: what is known of every token, compressed in blocks."""

import base64
import gzip
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from upsolve.errors import UpsolveError
from upsolve.view.answers import Answers
from upsolve.view.scores import TaskScores
from upsolve.view.server import to_json

__all__ = ["Heats", "heat_maps", "packed"]

DIGITS = {"rewards": 3, "advantages": 3, "logps": 2}
"""Numbers of each token, and the digits that are kept of them."""


@dataclass
class Heats:
    """The heat maps of the first attempts of a page."""

    count: int = 0
    """Attempts that have one."""
    note: str = ""
    """What the page says where an attempt has none."""
    blocks: list[str] = field(default_factory=list[str])
    """Compressed (``packed``), a list of attempts each."""


def packed(part: Any) -> str:
    """Return data as compressed JSON in base64, which has no character that ends an element."""
    return base64.b64encode(gzip.compress(to_json(part), mtime=0)).decode()


def heat_maps(
    answers: Answers, entries: Sequence[Mapping[str, Any]], scored: Mapping[str, TaskScores], *, chunk: int, room: int
) -> Heats:
    """Return the heat maps of the first attempts that fit.

    Args:
        answers: of a run; of anything else there are none.
        entries: rows of the index.
        scored: their tasks (``Answers.scored``).
        chunk: attempts of a block.
        room: bytes that the blocks may take.
    """
    heats = Heats()
    maps = tokens_of(answers, entries, scored)
    try:
        while part := [*islice(maps, chunk)]:
            block = packed(part)
            room -= len(block) + len('<script type="application/octet-stream" class="data"></script>\n')
            if room < 0:
                break
            heats.blocks.append(block)
            heats.count += len(part)
    except UpsolveError as error:  # such as a model that is gone: the rest of the page needs none
        heats.note = f"heat maps are missing: {error}"
        return heats
    heats.note = f"heat maps are those of the first {heats.count:,} attempts: use `upsolve view RUN` for the others"
    return heats


def tokens_of(
    answers: Answers, entries: Sequence[Mapping[str, Any]], scored: Mapping[str, TaskScores]
) -> Iterator[dict[str, Any]]:
    """Yield what is known of the tokens of each attempt, with short numbers; nothing if the answers are not of a run."""
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
