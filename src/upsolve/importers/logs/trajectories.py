"""Trajectories of agents: Harbor's format ATIF, traces of verifiers and prime-rl, and logs of Inspect (inspect_ai), EvalLog version 2.

A log of Inspect is ``.json``, or ``.eval``: a zip archive with one entry for each sample. Entries of newer logs are compressed with Zstandard,
which ``zipfile`` reads only from Python 3.14 on; pyarrow decompresses them.
"""

import json
import re
import tomllib
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from upsolve.errors import SourceError
from upsolve.importers.formats import data_files, json_lines, json_object, json_value
from upsolve.importers.rows import ODD, BadRow, Numbered, Row, build_each, everywhere, text_of
from upsolve.importers.source import Option, Source
from upsolve.importers.tables.columns import says_opposite
from upsolve.importers.tables.rollouts import ROLLOUT_OPTIONS, names_of_rewards, number_of, rollout, rollouts_of

__all__ = ["ATIF", "INSPECT", "VERIFIERS"]

Json = dict[str, Any]

OWN_FAULTS = frozenset(
    "AgentTimeoutError ContextWindowExceededError ContextLengthExceededError OutputTokenExceededError OutputLengthExceededError "  # noqa: SIM905
    "AgentSafetyRefusalError ContentPolicyViolationError".split()
)
"""Exceptions of a trial after which its reward still measures the agent; after any other, it measures a failure of the infrastructure."""


def read_atif(path: Path, *, reward: str = "", **options: Any) -> Iterator[Row]:
    """Yield the tasks, attempts and verdicts of a trajectory or of all trajectories below a folder."""
    files = [path] if path.is_file() else sorted(path.rglob("trajectory.json"))
    if not files:
        raise SourceError(f"{path}: contains no trajectory.json")
    records = rollouts_of("atif", **options).records
    for file in files:
        as_row = partial(atif_row, file=file, reward=reward)
        yield from build_each(file, json_object(file), lambda row, as_row=as_row: records(as_row(row)))


def trial_of(file: Path) -> Json:
    """Return the result of a trajectory's trial or, in a trial with several steps, of its step; {} without a result."""
    for folder in list(file.resolve().parents)[1:4]:
        try:
            result = json.loads((folder / "result.json").read_bytes())
        except OSError:
            continue
        name = file.resolve().relative_to(folder).parts[1] if (folder / "steps") in file.resolve().parents else ""
        steps = [step for step in result.get("step_results") or [] if step.get("step_name") == name]
        about = {key: result.get(key) for key in ("task_name", "trial_name", "source", "task_checksum", "exception_info")}
        return {**about, "verifier_result": result.get("verifier_result"), **(steps[0] if steps else {})}
    return {}


def atif_row(trajectory: Json, *, file: Path, reward: str) -> Json:
    """Return the rollout of a trajectory; the answer is the last message of the agent."""
    if not str(trajectory.get("schema_version")).startswith("ATIF-v1."):
        raise ValueError("is not a trajectory: schema_version is not ATIF-v1.x")
    steps, trial = trajectory["steps"], trial_of(file)
    score, reason = atif_score(trajectory, trial, reward)
    agent_steps = [step for step in steps if step["source"] == "agent" and not step.get("is_copied_context")]
    answers = [step for step in agent_steps if text_of(step["message"]).strip()]
    questions = [text_of(step["message"]) for step in steps if step["source"] == "user"]
    if not answers or not questions:
        raise ValueError(f"has no {'answer' if questions else 'step of the user'}: {reason or 'the agent wrote no message'}")
    last, agent = answers[-1], trajectory["agent"]
    metrics = last.get("metrics") or {}
    names = [str(trial[key]) for key in ("task_name", "step_name") if trial.get(key)]
    rest = {name: value for name, value in trajectory.items() if name != "steps" or len(agent_steps) > 1}
    return rollout(
        {**rest, "trial": trial},
        {},
        prompt=questions[0],
        answer=text_of(last["message"]),
        status=score,
        error=reason,
        task_id="/".join(["atif", *names]) if names else "",
        author=last.get("model_name") or agent.get("model_name") or agent["name"],
        created=last.get("timestamp"),
        tokens=metrics.get("completion_tokens"),
        token_ids=metrics.get("completion_token_ids"),
        token_logps=metrics.get("logprobs"),
    )


def atif_score(trajectory: Json, trial: Json, name: str) -> tuple[float | None, str]:
    """Return the reward of a trial, or None and the reason, such as a failure of the infrastructure."""
    error = trial.get("exception_info") or {}
    if error and error.get("exception_type") not in OWN_FAULTS:
        return None, f"{error.get('exception_type')}: {error.get('exception_message')}"
    rewards = (trial.get("verifier_result") or {}).get("rewards") or {}
    if not rewards and "reward" in (trajectory.get("extra") or {}):
        rewards = {"reward": trajectory["extra"]["reward"]}
    if not rewards:
        return None, "no reward is recorded" + (f" after {error['exception_type']}" if error else "")
    wanted = name or ("reward" if "reward" in rewards or len(rewards) > 1 else next(iter(rewards)))
    if wanted not in rewards:
        raise ValueError(f"has no reward {wanted}: --reward must name one of {', '.join(rewards)}")
    return number_of(rewards[wanted]), ""


ATIF = Source(
    read_atif,
    "trajectory.json in Harbor's format ATIF, or the folder of a trial or a job",
    (Option("reward", str, "name of the reward that is the score (default: reward, or the only one)"), *ROLLOUT_OPTIONS),
)


def read_verifiers(path: Path, *, reward: str = "", **options: Any) -> Iterator[Row]:
    """Yield the tasks, attempts and verdicts of a run."""
    found = [path] if path.is_file() else sorted(path.rglob("traces.jsonl"))
    files = [file for file in found if file.parent.name != "effective" or file.parent.with_name("all") / file.name not in found]
    if not files:
        raise SourceError(f"{path}: contains no traces.jsonl")
    records, wanted = rollouts_of("verifiers", **options).records, names_of_rewards(reward)
    for file in files:
        as_row = partial(verifiers_row, config=config_of(file.parent), wanted=wanted)
        yield from build_each(file, traces_of(file), lambda trace, as_row=as_row: records(as_row(trace)))


def config_of(folder: Path) -> Json:
    """Return the configuration of a run; empty if there is none."""
    others = [file for pattern in ("configs/*.json", "configs/resolved/*.json") for file in sorted(folder.glob(pattern))]
    for file in [folder / "config.toml", *others]:
        try:
            text = file.read_text(encoding="utf-8")
            content: Any = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
        except (OSError, ValueError):
            continue
        if isinstance(content, dict):
            return content
    return {}


def traces_of(file: Path) -> Iterator[Numbered]:
    """Yield the traces of a file, each with the fields of its episode as ``episode``."""
    for number, row in json_lines(file):
        if isinstance(row, BadRow) or "traces" not in row:
            yield number, row
            continue
        episode = {name: value for name, value in row.items() if name not in ("traces", "task")}
        for trace in row["traces"] or [{}]:
            yield number, {**trace, "episode": episode}


def verifiers_row(trace: Json, *, config: Json, wanted: Sequence[str]) -> Json:
    """Return the rollout of a trace; the answer is its last sampled message with text.

    A trace without an answer has no program; judging an empty program would count as a failure. So the trace is rejected with its error.
    """
    episode = trace.get("episode") or {}
    score, reason = verifiers_score(trace, wanted)
    sampled = [node for node in trace.get("nodes") or [] if node.get("sampled")]
    answers = [node for node in sampled if text_of(node["message"].get("content") or "").strip()]
    if not answers:
        raise ValueError(f"has no answer: {last_error(trace) or last_error(episode) or reason or 'no model call'}")
    answer, task = answers[-1], trace["task"]
    call = next((one for one in trace.get("calls") or [] if one.get("node") == trace["nodes"].index(answer)), {})
    chosen = [token for token, kept in zip(answer.get("token_ids") or [], answer.get("mask") or [], strict=True) if kept]
    agent, step = trace.get("agent") or {}, ((episode.get("run") or {}).get("work") or {}).get("step")
    rest = {name: value for name, value in trace.items() if name not in ("nodes", "task", "episode")}
    messages = [node["message"] for node in trace["nodes"]] if len(sampled) > 1 else None
    return rollout(
        {"step": step, **rest, "episode": episode, "messages": messages},
        {name: value for name, value in task["data"].items() if name != "prompt"},
        prompt=statement_of(trace),
        answer=text_of(answer["message"]["content"]),
        status=score,
        error=reason,
        task_id=task_name(task, episode, config),
        known_as=str(task["data"].get("name") or task.get("key") or ""),
        author=call.get("model") or (agent.get("config") or {}).get("model") or agent.get("model") or config.get("model") or "",
        created=answer.get("timestamp"),
        truncated=call.get("finish_reason"),
        tokens=(call.get("usage") or {}).get("completion_tokens"),
        token_ids=chosen,
        token_logps=answer.get("logprobs"),
    )


def verifiers_score(trace: Json, wanted: Sequence[str]) -> tuple[float | None, str]:
    """Return the sum of the chosen rewards, or the weighted sum of all; None and the reason if a reward is null or the trace failed."""
    rewards, error = trace.get("rewards") or {}, last_error(trace)
    if missing := [name for name in wanted if rewards and name not in rewards]:
        raise ValueError(f"--reward {missing[0]}: the trace has no such reward; its rewards are {', '.join(rewards)}")
    parts = [rewards.get(name) for name in wanted or rewards]
    if not trace.get("ok", not error) or not parts or None in parts:
        return None, error or f"not scored; stop condition: {trace.get('stop_condition')}"
    known: list[float] = []
    for part in parts:
        # of earlier versions, numbers that are weighted already
        score, weight = (part["score"], part.get("weight", 1.0)) if isinstance(part, dict) else (part, 1.0)
        if (value := number_of(score)) is not None:
            known.append(value if wanted else value * weight)
    return (sum(known), "") if len(known) == len(parts) else (None, "a reward is not a number")


def last_error(record: Json) -> str:
    """Return the last error of a trace or an episode; empty if there is none."""
    error = (record.get("errors") or [{}])[-1]
    return f"{error.get('type')}: {error.get('message')}" if error else ""


def task_name(task: Json, episode: Json, config: Json) -> str:
    """Return the id of a task by its environment and key; empty if it has no key, so that its prompt identifies it."""
    key = str(task.get("key") or task.get("hash") or "")
    if not key:
        return ""
    taskset = (config.get("env") or config).get("taskset") or {}
    where = (episode.get("env") or {}).get("id") or taskset.get("id") or task["type"]
    return f"verifiers/{where}/{key[:12] if key == task.get('hash') else key}"  # by default the key is the hash of the content


def statement_of(trace: Json) -> str:
    """Return the prompt of the task or, if the user opens the conversation, the first message of the user."""
    prompt = trace["task"]["data"].get("prompt")
    if isinstance(prompt, str):
        return prompt
    messages = prompt or [node["message"] for node in trace["nodes"] if not node.get("sampled")]
    users = [message for message in messages if message.get("role") == "user"]
    return text_of(users if prompt else users[:1])


VERIFIERS = Source(
    read_verifiers,
    "traces.jsonl of verifiers or prime-rl, or the folder of a run",
    (Option("reward", str, "rewards whose sum is the score (default: all, with their weights)"), *ROLLOUT_OPTIONS),
)


VERSION, ZSTANDARD = 2, 93
WORDS = {"c": 1.0, "p": 0.5, "i": 0.0, "n": 0.0, "true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
"""Inspect's values -> words: correct, partially correct, incorrect, no answer."""
NOT_LOGS = frozenset({"logs.json", "eval-set.json"})
ATTACHED = re.compile(r"attachment://([0-9a-f]{32})")
TASK_FIELDS = ("target", "choices", "metadata")
LEFT_OUT = frozenset(
    {"id", "input", "output", "messages", "events", "events_data", "timelines", "attachments", "store", *TASK_FIELDS}
)
"""Fields of a sample that are not stored in ``extra``, or are stored in another form."""


def read_inspect(path: Path, *, scorer: str = "", **options: Any) -> Iterator[Row]:
    """Yield the tasks, attempts and verdicts of a log or of all logs in a folder."""
    records = rollouts_of("inspect", **options).records
    for file in data_files(path, suffixes=(".eval", ".json")):
        if file.name not in NOT_LOGS:
            header, samples = log_in(file)
            as_row = partial(inspect_row, header=header, scorer=scorer)
            yield from build_each(file, samples, lambda sample, as_row=as_row: records(as_row(sample)))


def log_in(file: Path) -> tuple[Json, Iterator[Numbered]]:
    """Return the header and the samples of a log: of one JSON object, or of a zip archive, which is read sample by sample."""
    if file.suffix != ".eval":
        log = json_value(file)
        return checked_header(file, log), enumerate(log.get("samples") or [], start=1)
    try:
        archive = zipfile.ZipFile(file)
        # an evaluation that was killed has no header
        start = "header.json" if "header.json" in archive.namelist() else "_journal/start.json"
        return checked_header(file, json.loads(entry_of(archive, start))), samples_of(file, archive)
    except (OSError, zipfile.BadZipFile, KeyError, ValueError) as error:
        raise SourceError(f"{file}: cannot be read: {error}") from error


def samples_of(file: Path, archive: zipfile.ZipFile) -> Iterator[Numbered]:
    """Yield the samples of a zip archive; a ``BadRow`` for a damaged sample."""
    with archive:
        names = [name for name in archive.namelist() if name.startswith("samples/") and name.endswith(".json")]
        for number, name in enumerate(names, start=1):
            try:
                yield number, json.loads(entry_of(archive, name))
            except (OSError, zipfile.BadZipFile, zlib.error, *ODD) as error:
                yield number, BadRow(str(file), number, f"{name}: {error}", name)


def entry_of(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return the content of an entry, decompressed and checked."""
    info = archive.getinfo(name)
    if info.compress_type != ZSTANDARD:
        return archive.read(info)
    stored = copy(info)
    stored.compress_type, stored.file_size, stored.CRC = zipfile.ZIP_STORED, info.compress_size, None  # type: ignore[assignment]
    content: bytes = pa.CompressedInputStream(pa.BufferReader(archive.read(stored)), "zstd").read(info.file_size + 1)
    if zlib.crc32(content) != info.CRC:
        raise zipfile.BadZipFile(f"{name}: its checksum is wrong")
    return content


def checked_header(file: Path, log: Any) -> Json:
    """Return a log or its header; SourceError if it is not a log of version 2."""
    if not isinstance(log, dict) or not isinstance(log.get("eval"), dict):
        raise SourceError(f"{file}: is not a log of Inspect: it has no `eval`")
    if log.get("version") != VERSION:
        raise SourceError(f"{file}: is a log of version {log.get('version')}, but only version {VERSION} can be read")
    return {key: value for key, value in log.items() if key != "samples"}


def inspect_row(sample: Json, header: Json, scorer: str) -> Json:
    """Return the rollout of a sample.

    A sample that failed before the model answered has no program; it is rejected with its error. A sample that failed later is unscored.
    """
    about, output = header["eval"], attached(sample.get("output") or {}, sample)
    choice = (output.get("choices") or [{}])[0]
    answer = text_of((choice.get("message") or {}).get("content") or output.get("completion") or "")
    score, reason = inspect_score(sample, header, scorer)
    if not answer.strip() and score is None:
        raise ValueError(f"has no answer: {reason}")
    extra = {name: value for name, value in sample.items() if name not in LEFT_OUT}
    turns = sum(message.get("role") == "assistant" for message in sample.get("messages") or [])
    given = attached(sample["input"], sample)
    users = [one for one in given if one.get("role") == "user"] if isinstance(given, list) else []
    return rollout(
        {**extra, **({"messages": attached(sample["messages"], sample)} if turns > 1 else {})},
        {name: sample.get(name) for name in TASK_FIELDS},
        prompt=text_of(users or given),
        answer=answer,
        status=score,
        error=reason,
        task_id=f"inspect/{about['task'].rpartition('/')[2]}/{sample['id']}",
        known_as=sample["id"],
        author=str(about.get("model") or output.get("model") or ""),
        created=sample.get("completed_at") or about.get("created") or "",
        truncated=choice.get("stop_reason"),
        tokens=(output.get("usage") or {}).get("output_tokens"),
        token_logps=[token["logprob"] for token in (choice.get("logprobs") or {}).get("content") or []],
    )


def inspect_score(sample: Json, header: Json, scorer: str) -> tuple[float | None, str]:
    """Return the score that decides, or None and the reason."""
    error, invalidated, scores = sample.get("error"), sample.get("invalidation"), sample.get("scores") or {}
    if error or invalidated:
        return None, str(error["message"]) if error else f"the sample was invalidated: {(invalidated or {}).get('reason')}"
    if not scores:
        why = sample.get("limit") or header.get("error") or {}
        status = f"{header.get('status', 'started')} {why.get('message', why.get('type', ''))}"
        return None, f"no score; the evaluation's status is {status}".strip()
    name, _, key = scorer.partition(".")
    if name and name not in scores:
        raise ValueError(f"--scorer {scorer}: the sample has no score of {name}; its scores are {', '.join(scores)}")
    if not name and says_opposite(next(iter(scores))):
        raise ValueError(
            f"--scorer is needed: by its name, a larger {next(iter(scores))}, the first score, is worse; name one of {', '.join(scores)}"
        )
    score: Mapping[str, Any] = scores[name or next(iter(scores))]
    value = score["value"]
    if isinstance(value, dict | list) and not (key and isinstance(value, dict)):
        raise ValueError(
            f"--scorer: the score has several values ({str(value)[:100]}); name one of them as {name or next(iter(scores))}.KEY"
        )
    value = value[key] if isinstance(value, dict) else value
    if isinstance(value, str):
        value = WORDS[value.lower()] if value.lower() in WORDS else float(value)
    number = number_of(value)  # None for NaN, Inspect's mark of an unscored sample
    return number, "" if number is not None else str(score.get("explanation") or score.get("reason") or "")


def attached(value: Any, sample: Json) -> Any:
    """Replace references to a sample's attachments by their texts, everywhere in a value."""
    texts = sample.get("attachments")
    change = partial(ATTACHED.sub, lambda found: str((texts or {}).get(found[1], found[0])))
    return everywhere(value, lambda one: change(one) if isinstance(one, str) else one) if texts else value


INSPECT = Source(
    read_inspect,
    "a .eval or .json log of Inspect, or a folder of logs",
    (
        Option("scorer", str, "name of the scorer that decides, name.key for a value with keys (default: the first)"),
        *ROLLOUT_OPTIONS,
    ),
    detect=("epoch", "input", "output.choices", "scores"),
    rows="samples",
    marks=("*.eval", "logs/*.eval"),
)
