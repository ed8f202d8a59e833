"""Logs of Inspect (inspect_ai), EvalLog version 2: ``.json``, and ``.eval``, a zip archive with one entry for each sample.

Entries of newer logs are compressed with Zstandard, which ``zipfile`` reads only from Python 3.14 on; pyarrow decompresses them.
"""

import json
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from upsolve.errors import SourceError
from upsolve.importers.logs.rollouts import ROLLOUT_OPTIONS, Rollout, Rollouts, number_of, text_of
from upsolve.importers.rows import ODD, BadRow, Row, build_each, data_files
from upsolve.importers.source import Option, Source
from upsolve.importers.tables.columns import says_opposite

__all__ = ["SOURCE", "read"]

Json = dict[str, Any]

VERSION, ZSTANDARD = 2, 93
WORDS = {"c": 1.0, "p": 0.5, "i": 0.0, "n": 0.0, "true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
"""Inspect's values in words: correct, partially correct, incorrect, no answer."""
NOT_LOGS = frozenset({"logs.json", "eval-set.json"})
ATTACHED = re.compile(r"attachment://([0-9a-f]{32})")
TASK_FIELDS = ("target", "choices", "metadata")
LEFT_OUT = frozenset(
    {"id", "input", "output", "messages", "events", "events_data", "timelines", "attachments", "store", *TASK_FIELDS}
)
"""Fields of a sample that are not kept in ``extra``, or in another form."""


def read(path: Path, *, scorer: str = "", **options: Any) -> Iterator[Row]:
    """Yield the tasks, attempts and verdicts of a log or of all logs in a folder.

    Args:
        path: a ``.eval`` or ``.json`` file, or a folder.
        scorer: name of the scorer that decides, ``name.key`` for a value with keys; default: the first.
        options: of ``upsolve.importers.logs.rollouts.Rollouts``.

    Raises:
        SourceError: a file cannot be read or is not a log of version 2.
    """
    rollouts = Rollouts("inspect", **options)
    for file in data_files(path, suffixes=(".eval", ".json")):
        if file.name in NOT_LOGS:
            continue
        reader = read_zip if file.suffix == ".eval" else read_json
        yield from reader(file, scorer, rollouts)


def read_json(file: Path, scorer: str, rollouts: Rollouts) -> Iterator[Row]:
    """Yield the records of a log that is one JSON object."""
    try:
        log = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise SourceError(f"{file}: cannot be read: {error}") from error
    header = checked_header(file, log)
    build = partial(records_of, header=header, scorer=scorer, rollouts=rollouts)
    yield from build_each(file, enumerate(log.get("samples") or [], start=1), build)


def read_zip(file: Path, scorer: str, rollouts: Rollouts) -> Iterator[Row]:
    """Yield the records of a log that is a zip archive, sample by sample."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            start = (
                "header.json" if "header.json" in names else "_journal/start.json"
            )  # an evaluation that was killed has no header
            header = checked_header(file, json.loads(content_of(archive, start)))
            build = partial(records_of, header=header, scorer=scorer, rollouts=rollouts)
            yield from build_each(file, samples_of(file, archive), build)
    except (OSError, zipfile.BadZipFile, KeyError, ValueError) as error:
        raise SourceError(f"{file}: cannot be read: {error}") from error


def samples_of(file: Path, archive: zipfile.ZipFile) -> Iterator[tuple[int, Json | BadRow]]:
    """Yield the samples of a zip archive; a damaged one is a ``BadRow``."""
    names = [name for name in archive.namelist() if name.startswith("samples/") and name.endswith(".json")]
    for number, name in enumerate(names, start=1):
        try:
            yield number, json.loads(content_of(archive, name))
        except (OSError, zipfile.BadZipFile, zlib.error, *ODD) as error:
            yield number, BadRow(str(file), number, f"{name}: {error}", name)


def content_of(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return the content of an entry, decompressed and checked.

    Raises:
        KeyError: there is no such entry.
        OSError, ValueError, zipfile.BadZipFile: it is damaged.
    """
    info = archive.getinfo(name)
    if info.compress_type != ZSTANDARD:
        return archive.read(info)
    with Path(str(archive.filename)).open("rb") as data:
        data.seek(info.header_offset)
        header = data.read(30)
        data.seek(
            int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), 1
        )  # its name and extra field
        packed = data.read(info.compress_size)
    content: bytes = pa.CompressedInputStream(pa.BufferReader(packed), "zstd").read(info.file_size + 1)
    if zlib.crc32(content) != info.CRC:
        raise zipfile.BadZipFile(f"{name}: its checksum is wrong")
    return content


def checked_header(file: Path, log: Any) -> Json:
    """Return a log or its header; SourceError if it is not a log of version 2."""
    if not isinstance(log, dict) or not isinstance(log.get("eval"), dict):
        raise SourceError(f"{file}: is not a log of Inspect: it has no `eval`")
    if log.get("version") != VERSION:
        raise SourceError(f"{file}: is a log of version {log.get('version')}; version {VERSION} is read")
    return {key: value for key, value in log.items() if key != "samples"}


def records_of(sample: Json, *, header: Json, scorer: str, rollouts: Rollouts) -> Iterator[Row]:
    """Yield the records of a sample.

    A sample that failed before the model answered has no program; it is rejected with its error. One that failed later is unscored.
    """
    about, output = header["eval"], attached(sample.get("output") or {}, sample)
    choice = (output.get("choices") or [{}])[0]
    answer = text_of((choice.get("message") or {}).get("content") or output.get("completion") or "")
    score, reason = score_of(sample, header, scorer)
    if not answer.strip() and score is None:
        raise ValueError(f"has no answer: {reason}")
    extra = {name: value for name, value in sample.items() if name not in LEFT_OUT}
    turns = sum(message.get("role") == "assistant" for message in sample.get("messages") or [])
    rollout = Rollout(
        prompt=prompt_of(attached(sample["input"], sample)),
        answer=answer,
        score=score,
        reason=reason,
        name=f"{about['task'].rpartition('/')[2]}/{sample['id']}",
        known_as=str(sample["id"]),
        author=str(about.get("model") or output.get("model") or ""),
        created=sample.get("completed_at") or about.get("created") or "",
        truncated=choice.get("stop_reason") == "max_tokens",
        tokens=(output.get("usage") or {}).get("output_tokens") or None,
        logps=[token["logprob"] for token in (choice.get("logprobs") or {}).get("content") or []],
        extra={**extra, **({"messages": attached(sample["messages"], sample)} if turns > 1 else {})},
        about={name: sample.get(name) for name in TASK_FIELDS},
    )
    yield from rollouts.records(rollout)


def score_of(sample: Json, header: Json, scorer: str) -> tuple[float | None, str]:
    """Return the score that decides, or None and the reason.

    Raises:
        ValueError: the sample has no such scorer, or its value is not a number or one of ``WORDS``.
    """
    error, invalidated, scores = sample.get("error"), sample.get("invalidation"), sample.get("scores") or {}
    if error or invalidated:
        return None, str(error["message"]) if error else f"the sample was invalidated: {(invalidated or {}).get('reason')}"
    if not scores:
        why = sample.get("limit") or header.get("error") or {}
        return (
            None,
            f"no score; the evaluation's status is {header.get('status', 'started')} {why.get('message', why.get('type', ''))}".strip(),
        )
    name, _, key = scorer.partition(".")
    if name and name not in scores:
        raise ValueError(f"--scorer {scorer}: the sample has no score of {name}, but of {', '.join(scores)}")
    if not name and says_opposite(next(iter(scores))):
        raise ValueError(
            f"more is worse by the name of the first score, {next(iter(scores))}: --scorer names one of {', '.join(scores)}"
        )
    score: Mapping[str, Any] = scores[name or next(iter(scores))]
    value = score["value"]
    if isinstance(value, dict | list) and not (key and isinstance(value, dict)):
        raise ValueError(f"--scorer must name one value, {name or next(iter(scores))}.KEY, of {str(value)[:100]}")
    number = in_numbers(value[key] if isinstance(value, dict) else value)
    return number, "" if number is not None else str(score.get("explanation") or score.get("reason") or "")


def in_numbers(value: Any) -> float | None:
    """Return a score as a number; None for NaN, Inspect's mark of an unscored sample; ValueError for other words."""
    if isinstance(value, str):
        value = WORDS[value.lower()] if value.lower() in WORDS else float(value)
    return number_of(value)


def prompt_of(messages: Any) -> str:
    """Return the text of a sample's input: of the user's messages if it has several."""
    users = [one for one in messages if one.get("role") == "user"] if isinstance(messages, list) else []
    return text_of(users or messages)


def attached(value: Any, sample: Json) -> Any:
    """Replace references to a sample's attachments by their texts, everywhere in a value."""
    texts = sample.get("attachments")
    if not texts:
        return value
    if isinstance(value, str):
        return ATTACHED.sub(lambda found: str(texts.get(found[1], found[0])), value)
    if isinstance(value, dict):
        return {key: attached(item, sample) for key, item in value.items()}
    return [attached(item, sample) for item in value] if isinstance(value, list) else value


SOURCE = Source(
    read,
    "a .eval or .json log of Inspect, or a folder of logs",
    (
        Option("scorer", str, "name of the scorer that decides, name.key for a value with keys (default: the first)"),
        *ROLLOUT_OPTIONS,
    ),
)
