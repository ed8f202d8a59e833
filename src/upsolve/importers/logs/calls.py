"""Calls of model APIs: requests and responses of batches, proxies and traces, and files of chats that end with an answer.

The names of fields identify requests and responses; no form has code of its own. Known forms are batches of OpenAI (also vLLM, Azure,
Groq, Mistral), Anthropic, Gemini and Bedrock, logs of LiteLLM, and traces of LangSmith, Langfuse and OpenTelemetry.
"""

import pickle
import re
import sqlite3
import warnings
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.formats import Kind, kind_of, rows_of
from upsolve.importers.formats.texts import lists_in
from upsolve.importers.rows import BadRow, Numbered, Row, build_each, first_rows, halves, json_in, known_words, text_of
from upsolve.importers.source import Option, Source
from upsolve.importers.tables.columns import SERVED, bare, likely_fields, says_opposite, values_of
from upsolve.importers.tables.rollouts import ROLLOUT_OPTIONS, rollout, rollouts_of
from upsolve.importers.tables.table import split, table_at

__all__ = ["SOURCE", "call_in", "log_in", "log_of_objects"]

MESSAGES, SYSTEM, REQUESTS, CHOICES, RESPONSES, SPANS, ERRORS, CODES, IDS, MODELS = known_words()["calls"].values()
"""Names of fields of a call by what they hold, as ``words.yaml`` says; ``MODELS``: roles of a model."""
OBJECTS = {
    ("version", "eval", "samples"): "inspect",
    ("eval", "hash"): "samples",
    ("question_id", "code_list"): "samples",
    ("doc", "resps"): "samples",
}
"""Names in the first object of a file -> source that reads such files."""
LISTS = re.compile(rb"\s*\[\s*\[\s*\"")
"""Beginning of the lists of programs of bigcode-evaluation-harness."""
HEADS, HEAD = 9, 100
"""Number of files, and of rows of each, that are read to recognise a path."""
INDEXED = re.compile(r"(gen_ai\.(?:prompt|completion))\.(\d+)\.(role|content)")
CACHE = 200_000
"""KiB of requests that are held in memory."""
ADD = "insert into asked (id, request) values (?, ?) on conflict do update set request = '' where request != excluded.request"
Json = dict[str, Any]
Call = tuple[Json, str | None, list[Json]]
"""A call, what was asked (empty if this is not known for sure, None if unknown), and its answers."""
text_in = partial(text_of, strict=False)


def opened(value: Any) -> Any:
    """Return the object or list of objects that a text holds as JSON, and attributes of OpenTelemetry as an object; other values unchanged."""
    if isinstance(value, str):
        found = json_in(value)
        are_objects = isinstance(found, list) and all(isinstance(one, dict | list) for one in found)
        value = found if found and (are_objects or isinstance(found, dict)) else value
    if isinstance(value, list) and value and all(isinstance(one, dict) and {"key", "value"} == one.keys() for one in value):
        value = {one["key"]: next(iter(one["value"].values()), None) for one in value}
    if isinstance(value, dict) and (found := [match for name in value if (match := INDEXED.fullmatch(name))]):
        value = {**value}
        for match in sorted(found, key=lambda one: int(one[2])):
            messages = value.setdefault(match[1], {})
            messages.setdefault(int(match[2]), {})[match[3]] = value[match[0]]
        value |= {match[1]: [*value[match[1]].values()] for match in found if isinstance(value[match[1]], dict)}
    return value


def request_in(value: Any) -> Any:
    """Return the messages or the text of the request in an object; None without a request."""
    if isinstance(value, str):
        inner = None if isinstance(found := opened(value), str) else request_in(found)
        return inner if text_in(inner) else value or None
    value = opened(value)
    if not isinstance(value, dict):
        return value or None
    asked = next((found for name in MESSAGES if (found := value.get(name))), None)
    if asked is None or (isinstance(asked, dict) and not text_in(asked)):
        return next(filter(None, (request_in(value[name]) for name in REQUESTS if name in value)), None)
    system = [value[name] for name in SYSTEM if value.get(name)]
    asked = request_in(asked) if isinstance(asked, str) else asked
    return [*system, *(asked if isinstance(asked, list) else [asked])] if system else asked


def answers_in(value: Any) -> list[Json]:
    """Return the answers in a response, as objects; [] without answers."""
    if isinstance(value, str):
        inner = [] if isinstance(found := opened(value), str) else answers_in(found)
        return inner if any(map(text_in, inner)) else [{"text": value}] * bool(value)
    value = opened(value)
    if not isinstance(value, dict):
        return [{"text": value}] if value else []
    for name in CHOICES:
        found = opened(value.get(name)) or []
        while isinstance(found, list) and found and isinstance(found[0], list):
            found = [one for inner in found for one in inner]
        if found:
            return [one if isinstance(one, dict) else {"text": one} for one in found]
    for name in RESPONSES:
        if found := answers_in(value.get(name)):
            return [{**({"stop_reason": value["stop_reason"]} if "stop_reason" in value else {}), **one} for one in found]
    return []


def code_in(value: Any) -> int:
    """Return the HTTP code of a failed request, of a call or of its response; 0 without one."""
    if not isinstance(value := opened(value), dict):
        return 0
    codes = (str(value.get(name)) for name in CODES)
    found = (int(code) for code in codes if code.isdecimal() and 400 <= int(code) < 600)
    return next(found, 0) or next(filter(None, (code_in(value[name]) for name in ("response", "result") if name in value)), 0)


def has_failed(call: Mapping[str, Any]) -> bool:
    """Return whether a call says that its request failed."""
    return bool(code_in(call) or call.get("error") or call.get("error_str"))


def failure_in(call: Json) -> str:
    """Return why a request has no answer."""
    names = ("message", "errorMessage", "error_message", "detail")
    found = (first_of(one, names) or one for name in ERRORS if isinstance(one := opened(call.get(name)), str | dict))
    told = next((one for one in found if isinstance(one, str) and one.lower() not in SERVED), "")
    ends = ("finish_reason", "finishReason", "stop_reason", "status", "type")
    code, end = code_in(call), first_of(call.get("response") or call.get("result"), ends)
    return f"{told or 'no text in the response'}{f' (status {code})' if code else f' ({end})' if end and not told else ''}"[
        :200
    ]


def call_in(row: Mapping[str, Any]) -> tuple[str, list[Json]]:
    """Return what a row asks, empty if another row does, and its answers; chats end with theirs."""
    asked, answers = request_in({**row}), [] if code_in(row) else answers_in({**row})
    if not answers and isinstance(asked, list):
        before, after = halves(asked)
        if before and any(one.get("role", one.get("from")) in MODELS for one in after if isinstance(one, dict)):
            asked, answers = before, [{"text": after}]
    return text_in(asked), [one for one in answers if text_in(one).strip()]


def calls_in(row: Mapping[str, Any]) -> Iterator[Json]:
    """Yield the calls of models in a row: the row itself, or calls in its lists of spans; none for spans of other kinds."""
    name = next((name for name in SPANS if isinstance(row.get(name), list)), "")
    if name:
        for one in row[name]:
            yield from calls_in(one) if isinstance(one, dict) else ()
    elif row.get("run_type", "llm") == "llm" and row.get("type") not in ("SPAN", "EVENT"):
        yield {**row}


def id_of(row: Mapping[str, Any]) -> str:
    """Return the id that links a response to its request; empty without an id."""
    return next((str(row[name]) for name in IDS if row.get(name) not in (None, "")), "")


def log_of_objects(keys: Collection[str]) -> str:
    """Return the source that reads files whose objects have these names; empty if none is known by them."""
    return next((name for wanted, name in OBJECTS.items() if {*wanted} <= {*keys}), "")


def log_in(path: Path) -> str:
    """Return the source of a path that is not a table, by the fields of its first object; empty if no source fits."""
    with suppress(SourceError):
        unit = split(path)[0]
        with table_at(unit.path, unit.options.get("names", ())).open() as file:
            head = file.read(1000)
        if LISTS.match(head):
            return "samples"
        if b"<quiz" in head:
            return "coderunner"
        _, row = next(next(rows_at(path))[1], (0, None))
        keys = {*row} if isinstance(row, dict) else set[str]()
        if found := log_of_objects(keys):
            return found
    return "calls" if are_calls(path) else ""


def are_calls(path: Path) -> bool:
    """Return whether the rows of a path are calls of models without a column for the outcome; ``status`` may only say that a service answered."""
    with suppress(SourceError):
        heads = [row for _, rows in islice(rows_at(path), HEADS) for _, row in first_rows(rows, HEAD)]
        found = [(call, *call_in(call)) for row in heads if not isinstance(row, BadRow) for call in calls_in(row)]
        answered = [call for call, _, answers in found if answers]
        outcomes = {*likely_fields(answered, {}, ["status", "passed", "outcomes"]).values()} if answered else set[str]()
        outcomes = {name for name in outcomes if name.partition(".")[0] not in RESPONSES}
        judged = [name for name in outcomes if bare(name) != "status" or len({*map(str, values_of(answered, name))}) > 1]
        complete = sum(
            bool(asked and (answers or has_failed(call))) or bool(id_of(call) and (asked or answers))
            for call, asked, answers in found
        )
        return bool(answered) and 2 * complete > len(found) and not judged
    return False


def first_of(value: Any, names: Sequence[str]) -> Any:
    """Return the first value of the named fields in nested objects; None without such a field."""
    if not isinstance(value := opened(value), dict):
        return None
    own = (value[name] for name in names if value.get(name) not in (None, "") and not isinstance(value[name], dict | list))
    return next(own, None) or next(filter(None, (first_of(one, names) for one in value.values())), None)


def scores_of(row: Mapping[str, Any]) -> Json:
    """Return the scores and the feedback of a call by their names."""
    found: Json = {name: row[name] for name in ("score", "reward", "rating") if row.get(name) is not None}
    for given in (opened(row.get(name)) for name in ("scores", "feedback", "feedback_stats")):
        if isinstance(given, list):
            found |= {
                str(one.get("name", one.get("key"))): one.get("value", one.get("score"))
                for one in given
                if isinstance(one, dict)
            }
        elif isinstance(given, dict):
            found |= {name: one.get("avg") if isinstance(one, dict) else one for name, one in given.items()}
    return {name: one[0] if isinstance(one, list) and len(one) == 1 else one for name, one in found.items()}


def rows_at(path: Path) -> Iterator[tuple[Path, Iterator[Numbered]]]:
    """Yield the files of a path, each with its rows; a JSON object is one row."""
    for unit in split(path):
        member = table_at(unit.path, unit.options.get("names", ()))
        whole = kind_of(member) is Kind.JSON and bool(lists_in(member))
        yield Path(member.where), rows_of(member, rows="." if whole else "")


def read(path: Path, *, reward: str = "", **options: Any) -> Iterator[Row]:
    """Yield tasks, attempts and verdicts of a file of calls, or of a folder; requests and responses may be separate, in any order."""
    if reward and says_opposite(reward):
        raise SourceError(
            f"--reward {reward}: by its name, larger values are worse, but scores >= --passed-at count as passed; name another reward"
        )
    records, requests, names, answered = rollouts_of("calls", **options).records, Requests(), set[str](), False

    def build(_: Json) -> Iterator[Row]:
        nonlocal answered
        for call, asked, answers in requests.parsed.popleft():
            for one in attempts_in(call, asked, answers, reward):
                yield from records(one)
            names.update(scores_of(call))
            answered = True

    first = {file: next(rows, (0, None))[1] for file, rows in rows_at(path)}
    for file, rows in sorted(rows_at(path), key=lambda one: not asks(first[one[0]])):
        yield from build_each(file, requests.before(file, rows), build)
    for file, rows in requests.held():
        yield from build_each(file, rows, build)
    if left := requests.unanswered():
        warnings.warn(f"{path}: {left[0]} requests have no answer, such as {left[1]}", stacklevel=1)
    if answered and not reward:
        has = (
            f"rows have scores, {', '.join(sorted(names)[:9])}: --reward NAME"
            if names
            else "no row has a score; if a column has the outcome: --status COLUMN"
        )
        warnings.warn(f"{path}: attempts are unscored: {has}", stacklevel=1)


class Requests:
    """Requests by their ids, and rows that answer a request of a later row; both in a temporary file."""

    def __init__(self) -> None:
        """Create the file."""
        self.data, self.parsed = sqlite3.connect(""), deque[list[Call]]()
        self.data.executescript(
            f"pragma cache_size = -{CACHE}; create table asked (id text primary key, request text, answered int default 0);"
            "create table held (id text, file text, number int, row blob); create index by_id on held (id)"
        )

    def before(self, file: Path, rows: Iterable[Numbered]) -> Iterator[Numbered]:
        """Yield the rows of a file, with their answers in ``parsed``; hold those that answer a request that has not been read."""
        for number, row in rows:
            calls = [] if isinstance(row, BadRow) else [(call, *call_in(call)) for call in calls_in(row)]
            lacking = [name for call, text, _ in calls if not text and (name := id_of(call)) and self.lacks(name)]
            self.data.executemany(ADD, [(id_of(call), text) for call, text, found in calls if is_request(call, text, found)])
            if lacking:
                blobs = [pickle.dumps(row), *[None] * (len(lacking) - 1)]
                held = [(name, str(file), number, blob) for name, blob in zip(lacking, blobs, strict=True)]
                self.data.executemany("insert into held values (?, ?, ?, ?)", held)
            else:
                self.parsed += [] if isinstance(row, BadRow) else [[*self.joined(calls)]]
                yield number, row

    def lacks(self, name: str) -> bool:
        """Return whether no row has had the request with an id, or an earlier answer to it is held."""
        known = "select 1 from asked where id = ? and not exists (select 1 from held where held.id = asked.id)"
        return self.data.execute(known, (name,)).fetchone() is None

    def joined(self, calls: Iterable[Call]) -> Iterator[Call]:
        """Yield the calls that are no requests alone, with what they answer."""
        for call, text, answers in calls:
            if not is_request(call, text or "", answers):
                asked = self.answered(id_of(call))
                yield call, text or asked, answers

    def held(self) -> Iterator[tuple[Path, Iterator[Numbered]]]:
        """Yield the files of the held rows, each with these rows; their answers are in ``parsed``."""
        found = self.data.execute("select file, number, row from held where row is not null order by rowid")
        for file, same in groupby(found, key=itemgetter(0)):
            yield Path(file), self.loaded(same)

    def loaded(self, stored: Iterable[Any]) -> Iterator[Numbered]:
        """Yield held rows, with their answers in ``parsed``."""
        for _, number, content in stored:
            row = pickle.loads(content)  # noqa: S301  written above
            self.parsed.append([*self.joined((call, *call_in(call)) for call in calls_in(row))])
            yield number, row

    def answered(self, name: str) -> str | None:
        """Return the request with an id, and count it as answered; empty if several requests have the id, None without one."""
        found = self.data.execute("update asked set answered = 1 where id = ? returning request", (name,)).fetchone()
        return found and found[0]

    def unanswered(self) -> tuple[int, str] | None:
        """Return the number of requests without an answer, and the id of the first; None if all have one."""
        found = self.data.execute("select count(*) over (), id from asked where not answered order by rowid limit 1")
        return found.fetchone()


def is_request(call: Json, text: str, answers: Sequence[Json]) -> bool:
    """Return whether a call is a request whose answer another row has."""
    return bool(text and id_of(call)) and not answers and not has_failed(call)


def asks(row: Any) -> bool:
    """Return whether the first row of a file is a request, so that the file is read before those with the answers."""
    return isinstance(row, dict) and any(is_request(call, *call_in(call)) for call in calls_in(row))


def attempts_in(call: Json, asked: str | None, answers: Sequence[Json], reward: str) -> Iterator[Json]:
    """Yield the rollout of each answer of a call. ValueError if the call has no answer, or its request is missing."""
    name, scores = id_of(call), scores_of(call)
    if not answers:
        raise ValueError(f"the request has no answer: {failure_in(call)}")
    if not asked:
        why = f"files have different requests of {name}"
        why = f"no file has the request {name}: import a folder of both files" if asked is None else why
        raise ValueError(why if name else "the row has an answer, but no request; import a file or folder with both")
    if reward and scores and reward not in scores:
        raise ValueError(f"--reward {reward}: the call has no such score; its scores are {', '.join(scores)}")
    model, alone = ("model", "modelVersion", "model_name", "gen_ai.response.model", "gen_ai.request.model"), len(answers) == 1
    response = next((call[one] for one in RESPONSES if isinstance(opened(call.get(one)), dict)), call)
    for answer in answers:
        yield rollout(
            {key: one for key, one in call.items() if key in (*IDS, "id", "trace_id", "traceId", "name")} | scores,
            {},
            prompt=asked,
            answer=text_in(answer),
            status=scores.get(reward),
            known_as=name,
            author=str(first_of(response, model) or first_of(call, model) or ""),
            created=first_of(call, ("created", "created_at", "startTime", "start_time", "timestamp")),
            truncated=first_of(answer, ("finish_reason", "finishReason", "stop_reason")),
            tokens=first_of(response, ("completion_tokens", "output_tokens", "candidatesTokenCount")) if alone else None,
        )


SOURCE = Source(
    read,
    "calls of model APIs: a file, or a folder of requests and responses",
    (Option("reward", str, "name of the score (default: none, attempts are unscored)"), *ROLLOUT_OPTIONS),
    max_rejected=1.0,  # requests that failed are no sign of a wrong file
)
