"""Logs and traces: inspect_ai 0.3.285, verifiers 0.4.0 and Harbor 0.25.0 wrote the files that these have the layout of."""

import json
import math
import struct
import zipfile
import zlib

import pyarrow as pa
import pytest
from imports import imported, rejected_rows
from test_rollouts import ANSWER, CODE, outcomes
from test_rollouts import lines_of as lines

from upsolve.archive.store import Archive
from upsolve.errors import SourceError
from upsolve.importers.door import preview, reading_of
from upsolve.importers.ingest import ingest
from upsolve.importers.logs.calls import SOURCE as CALLS_SOURCE
from upsolve.importers.logs.calls import call_in
from upsolve.importers.logs.calls import read as read_calls
from upsolve.records import from_row
from upsolve.types import Status, Task, Verdict


def sample(name, answer, *, epoch=1, **fields):
    """A sample as inspect_ai 0.3.285 writes it, without its events."""
    message = {"role": "assistant", "content": answer, "source": "generate", "model": "mockllm/model"}
    choices = [{"message": message, "stop_reason": "stop"}] if answer else []
    output = {"model": "mockllm/model", "choices": choices, "completion": answer or "", "usage": {"output_tokens": 7}}
    asked = {"role": "user", "content": f"Double x ({name}).", "source": "input"}
    return {
        "id": name,
        "epoch": epoch,
        "input": asked["content"],
        "target": "4",
        "messages": [asked, *([message] if answer else [])],
        "output": output,
        "scores": {},
        "metadata": {"difficulty": "easy"},
        "store": {},
        "events": [{"event": "sample_init"}],
        "completed_at": "2026-11-23T10:32:05+00:00",
        "attachments": {},
        **fields,
    }


def scores(value, **fields):
    """The scores of two scorers."""
    return {"ran": {"value": value, "history": [], **fields}, "length": {"value": 0.4, "history": []}}


FAILED = {"message": "RuntimeError('connection lost')", "traceback": "", "traceback_ansi": ""}
HEADER = {
    "version": 2,
    "status": "success",
    "eval": {"task": "tests/double", "model": "mockllm/model", "created": "2026"},
    "plan": {},
}
SAMPLES = [
    sample("a", ANSWER, scores=scores("C", explanation="2 of 2")),
    sample("a", "x", epoch=2, scores=scores("I")),
    sample("b", "y", scores=scores(math.nan, explanation="the sandbox died", reason="grader_error")),
    sample("b", "z", epoch=2, scores=scores("C"), error=FAILED),
    sample("b", "cancelled", epoch=3),
    sample("c", None, error=FAILED),
]


def zipped(file, header, samples, *, damage=False):
    """A log in the zip format: the header and the first samples by Zstandard, which Python's zipfile may not know, the last one deflated."""
    entries = {
        "_journal/start.json": header,
        **{f"samples/{i}.json": one for i, one in enumerate(samples)},
        "header.json": header,
    }
    marks, deflated = {}, f"samples/{len(samples) - 1}.json"
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in entries.items():
            data = json.dumps(content).encode()
            if name == deflated:
                archive.writestr(name, data, zipfile.ZIP_DEFLATED)
            else:
                archive.writestr(name, pa.compress(data, "zstd", asbytes=True))
                marks[name] = (zlib.crc32(data) + damage * (name == "samples/0.json"), len(data))
    with zipfile.ZipFile(file) as archive:
        offset, infos = archive.start_dir, archive.infolist()
    raw = bytearray(file.read_bytes())
    for info in infos:  # as stored -> compressed by method 93, with checksum and size of the content
        if info.filename in marks:
            crc, size = marks[info.filename]
            for at, begin in ((info.header_offset, 8), (offset, 10)):
                struct.pack_into("<H", raw, at + begin, 93)
                struct.pack_into("<I", raw, at + begin + 6, crc)
                struct.pack_into("<I", raw, at + begin + 14, size)
        offset += 46 + len(info.filename)
    file.write_bytes(raw)
    return file


@pytest.mark.parametrize("ending", ["json", "eval"])
def test_logs_of_inspect(tmp_path, ending):
    file = tmp_path / "logs" / f"log.{ending}"
    file.parent.mkdir()
    (file.parent / "logs.json").write_text("{}")  # a list of the logs
    if ending == "json":
        file.write_text(json.dumps({**HEADER, "samples": SAMPLES}))
    else:
        zipped(file, HEADER, SAMPLES)
    archive, report = imported(tmp_path, "inspect", file.parent)
    assert {task.task_id: task.prompt for task in archive.tasks()} == {
        "inspect/double/a": "Double x (a).",
        "inspect/double/b": "Double x (b).",
    }
    assert json.loads(archive.tasks()[0].extra) == {"target": "4", "metadata": {"difficulty": "easy"}}
    assert [attempt.code for attempt in archive.attempts()] == [CODE, "x", "y", "z", "cancelled"]
    assert outcomes(archive) == ["passed", "failed", "unscored", "unscored", "unscored"]
    assert [verdict.error_message for verdict in archive.verdicts()][2:] == [
        "the sandbox died",
        "RuntimeError('connection lost')",
        "no score; the evaluation's status is success",
    ]
    first = archive.attempts()[0]
    assert (first.author, first.created, first.tokens) == ("mockllm/model", "2026-11-23T10:32:05+00:00", 7)
    extra = json.loads(first.extra)
    assert extra["epoch"] == 1 and extra["scores"]["ran"]["explanation"] == "2 of 2" and "events" not in extra
    assert report.bad == 1 and report.reasons[0].reason == "has no answer: RuntimeError('connection lost')"
    by_length = Archive.create(tmp_path / "length")
    ingest(by_length, "inspect", file, scorer="length", passed_at=0.4, max_rejected=1)
    assert outcomes(by_length)[:2] == ["passed", "passed"]


def test_scores_of_inspect_in_other_forms(tmp_path):
    values = ["P", "N", True, "0.5", {"a": 1, "b": 0}, "odd"]
    samples = [sample(str(i), f"x{i}", scores=scores(value)) for i, value in enumerate(values)]
    samples += [
        sample("6", "x6", scores=scores("C"), invalidation={"reason": "leak"}),
        sample("7", "x7", limit={"type": "time"}),
    ]
    file = tmp_path / "log.json"
    file.write_text(json.dumps({**HEADER, "status": "cancelled", "samples": samples}))
    archive, report = imported(tmp_path, "inspect", file, passed_at=0.5)
    assert outcomes(archive) == ["passed", "failed", "passed", "passed", "unscored", "unscored"]
    assert [verdict.error_message for verdict in archive.verdicts()][4:] == [
        "the sample was invalidated: leak",
        "no score; the evaluation's status is cancelled time",
    ]
    several, odd = (row.reason for row in report.reasons)
    assert several.startswith("--scorer: ") and several.endswith("name one of them as ran.KEY")
    assert odd == "could not convert string to float: 'odd'"
    _, keyed = imported(tmp_path, "inspect", file, scorer="ran.a")
    assert keyed.bad == 1
    _, missing = imported(tmp_path, "inspect", file, scorer="run")
    assert missing.reasons[0].reason == "--scorer run: the sample has no score of run; its scores are ran, length"


def test_attachments_conversations_and_log_probabilities_of_inspect(tmp_path):
    one = sample("a", CODE, scores=scores("C"), attachments={"0" * 32: "Double x."})
    one["input"] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"attachment://{'0' * 32}"}]
    one["output"]["choices"][0] |= {
        "stop_reason": "max_tokens",
        "logprobs": {"content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -1.0}]},
    }
    one["messages"] = [*one["messages"], one["messages"][-1]]
    file = tmp_path / "log.json"
    file.write_text(json.dumps({**HEADER, "samples": [one]}))
    archive, _ = imported(tmp_path, "inspect", file)
    assert archive.tasks()[0].prompt == "Double x."
    (attempt,) = archive.attempts()
    assert attempt.truncated and attempt.behavior_logp == -1.5 and attempt.token_ids is None
    assert json.loads(attempt.extra)["logps"] == [-0.5, -1.0] and len(json.loads(attempt.extra)["messages"]) == 3


def test_samples_of_inspect_join_known_tasks_by_their_id(tmp_path):
    Archive.create(tmp_path / "known").append(tasks=[Task("humaneval/0", "p")])
    file = tmp_path / "log.json"
    file.write_text(json.dumps({**HEADER, "samples": [sample("HumanEval/0", CODE, scores=scores("C"))]}))
    archive, _ = imported(tmp_path, "inspect", file, tasks=str(tmp_path / "known"))
    assert archive.attempts()[0].task_id == "humaneval/0"


def test_damaged_logs_of_inspect(tmp_path):
    file = zipped(tmp_path / "log.eval", HEADER, SAMPLES[:2], damage=True)
    archive, report = imported(tmp_path, "inspect", file)
    assert len(archive.attempts()) == 1 and "samples/0.json: its checksum is wrong" in report.reasons[0].reason
    with zipfile.ZipFile(tmp_path / "killed.eval", "w") as killed:
        killed.writestr("_journal/start.json", json.dumps({key: HEADER[key] for key in ("version", "eval", "plan")}))
        killed.writestr("samples/a_epoch_1.json", json.dumps(sample("a", "late")))
    archive, report = imported(tmp_path, "inspect", tmp_path / "killed.eval")
    assert report.bad == 0
    assert "status is started" in archive.verdicts()[-1].error_message
    for content, message in (
        ('{"version": 1, "eval": {}}', "version 1.*version 2"),
        ("[]", "has no `eval`"),
        ("{", "cannot be read"),
    ):
        (tmp_path / "x.json").write_text(content)
        with pytest.raises(SourceError, match=message):
            imported(tmp_path, "inspect", tmp_path / "x.json")
    (tmp_path / "x.eval").write_text("no zip")
    with pytest.raises(SourceError, match="cannot be read"):
        imported(tmp_path, "inspect", tmp_path / "x.eval")


def node(role, content, parent=None, **fields):
    """A node of a trace as verifiers 0.4.0 writes it."""
    sampled = role == "assistant"
    tokens = {"token_ids": [1, 2, 3, 7, 8], "mask": [False] * 3 + [True] * 2, "logprobs": [-0.5, -0.25]} if sampled else {}
    rest = {"sampled": sampled, "timestamp": 1795431969.0, "token_ids": [], "mask": [], "logprobs": [], "is_content": []}
    return {
        "message": {"role": role, "content": content},
        **({} if parent is None else {"parent": parent}),
        **rest,
        **tokens,
        **fields,
    }


def trace(answer, reward, *, error="", key="double-0", **fields):
    """A trace with one answer."""
    data = {"idx": 0, "name": "d0", "prompt": "Double x.", "network_allow": ["*"], "answer": "4"}
    nodes = [node("system", "Be brief."), node("user", "Double x.", 0), *([node("assistant", answer, 1)] if answer else [])]
    return {
        "version": 1,
        "id": "t",
        "verifiers": {"version": "0.4.0"},
        "task": {"type": "DoubleTask", "data": data, "key": key, "hash": "a" * 64},
        "agent": {"config": {"model": "org/model"}, "name": "agent", "trainable": True},
        "nodes": nodes,
        "calls": [
            {"node": 2, "model": "org/model", "finish_reason": "length", "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
        ],
        "rewards": {"tests": reward and {"score": reward - 1, "weight": 2.0}, "style": {"score": 0.5, "weight": 0.0}},
        "metrics": {"length": 3.0},
        "info": {},
        "is_completed": True,
        "ok": not error,
        "stop_condition": "error" if error else "agent_completed",
        "errors": [{"type": "SandboxError", "message": error}] if error else [],
        **fields,
    }


def episode(*traces, **fields):
    """An episode of a training run at step 5."""
    run = {"type": "train", "id": "run", "work": {"type": "train", "step": 5}}
    task = {"type": "DoubleTask", "data": {}}
    return {
        "id": "e",
        "env": {"id": "double"},
        "task": task,
        "group": {"id": "g"},
        "run": run,
        "ok": True,
        "errors": [],
        "traces": list(traces),
        **fields,
    }


def test_traces_of_verifiers(tmp_path):
    lines(
        tmp_path / "run" / "traces.jsonl",
        episode(trace(ANSWER, 2), trace("x", 1)),  # weighted scores: (2 - 1) * 2 and 0
        episode(trace("y", None, error="the sandbox died")),
        episode(trace("", None, error="no model")),
        episode(errors=[{"type": "EnvError", "message": "no trace"}], ok=False),
    )
    archive, report = imported(tmp_path, "verifiers", tmp_path / "run", passed_at=1)
    assert [(task.task_id, task.prompt) for task in archive.tasks()] == [("verifiers/double/double-0", "Double x.")]
    assert json.loads(archive.tasks()[0].extra)["answer"] == "4"
    assert [attempt.code for attempt in archive.attempts()] == [CODE, "x", "y"]
    assert outcomes(archive) == ["passed", "failed", "unscored"]
    assert archive.verdicts()[2].error_message == "SandboxError: the sandbox died"
    assert [row.reason for row in report.reasons] == [
        "has no answer: SandboxError: no model",
        "has no answer: EnvError: no trace",
    ]
    first, second, _ = archive.attempts()
    assert (first.author, first.created, first.truncated, first.tokens) == ("org/model", "2026-11-23T11:06:09+00:00", True, 2)
    assert (first.token_ids, first.token_logps, first.behavior_logp, second.behavior_logp) == (
        (7, 8),
        (-0.5, -0.25),
        None,
        -0.75,
    )
    extra = json.loads(first.extra)
    assert (extra["score"], extra["step"], extra["episode"]["group"]) == (2.0, 5, {"id": "g"}) and "messages" not in extra
    assert (
        outcomes(imported(tmp_path / "b", "verifiers", tmp_path / "run", reward="tests, style", passed_at=1.5)[0])[0]
        == "passed"
    )
    _, wrong = imported(tmp_path, "verifiers", tmp_path / "run", reward="test")
    assert wrong.reasons[0].reason == "--reward test: the trace has no such reward; its rewards are tests, style"


def test_traces_of_earlier_verifiers_and_of_prime_rl(tmp_path):
    old = trace("x", 1)
    for name in ("ok", "calls", "agent"):
        del old[name]
    old |= {
        "task": {"type": "DoubleTask", "data": {"prompt": [{"role": "user", "content": "Double x."}]}},
        "rewards": {"tests": 1.0},
    }
    file = lines(
        tmp_path / "old" / "traces.jsonl", old, {**old, "rewards": {}}, {**old, "errors": [{"type": "E", "message": "m"}]}
    )
    (file.parent / "config.toml").write_text('model = "org/old"\n[taskset]\nid = "double"\n')
    archive, _ = imported(tmp_path / "a", "verifiers", file)
    assert archive.tasks()[0].prompt == "Double x." and {attempt.author for attempt in archive.attempts()} == {"org/old"}
    messages = [verdict.error_message for verdict in verifiers_verdicts(archive)]
    assert messages == ["", "not scored; stop condition: agent_completed", "E: m"]
    for subset in ("all", "effective"):
        lines(tmp_path / "rollouts" / "step_1" / "train" / subset / "traces.jsonl", episode(trace("x", 1)))
    archive, report = imported(tmp_path / "c", "verifiers", tmp_path / "rollouts")
    assert report.read == 3 and archive.attempts()[0].count == 1
    with pytest.raises(SourceError, match=r"contains no traces.jsonl"):
        imported(tmp_path, "verifiers", tmp_path / "a")


def verifiers_verdicts(archive):
    """All verdicts, those of the same program included."""
    return [from_row(Verdict, row) for row in archive.table("verdicts").to_pylist()]


def test_a_conversation_of_verifiers_is_stored(tmp_path):
    several = trace("first", 2)
    several["nodes"] += [node("user", "Again.", 2), node("assistant", None, 3), node("assistant", "second", 4)]
    several["task"]["data"]["prompt"] = None
    several["task"]["key"] = several["task"]["hash"]
    archive, _ = imported(tmp_path, "verifiers", lines(tmp_path / "traces.jsonl", episode(several)), passed_at=1)
    (attempt,) = archive.attempts()
    assert attempt.code == "second" and len(json.loads(attempt.extra)["messages"]) == 6 and not attempt.truncated
    assert (archive.tasks()[0].task_id, archive.tasks()[0].prompt) == ("verifiers/double/aaaaaaaaaaaa", "Double x.")


def trajectory(folder, answer, *, step="", **fields):
    """A trajectory as Harbor 0.25.0 writes it."""
    steps = [
        {"step_id": 1, "source": "system", "message": "Be brief."},
        {"step_id": 2, "source": "user", "message": "Double x.", "timestamp": "2026-11-23T10:00:00Z"},
        {
            "step_id": 3,
            "source": "agent",
            "message": "I look.",
            "tool_calls": [{"tool_call_id": "c", "function_name": "ls", "arguments": {}}],
        },
    ]
    if answer:
        metrics = {"completion_tokens": 2, "completion_token_ids": [7, 8], "logprobs": [-0.5, -0.25]}
        message = [{"type": "text", "text": answer}]
        steps.append(
            {
                "step_id": 4,
                "source": "agent",
                "timestamp": "2026-11-23T10:01:00Z",
                "model_name": "org/model",
                "message": message,
                "metrics": metrics,
            }
        )
    else:
        steps[2]["is_copied_context"] = True
    place = folder / "steps" / step / "agent" if step else folder / "agent"
    place.mkdir(parents=True, exist_ok=True)
    agent = {"name": "terminus-2", "version": "2", "model_name": "org/default"}
    (place / "trajectory.json").write_text(
        json.dumps({"schema_version": "ATIF-v1.8", "session_id": "s", "agent": agent, "steps": steps, **fields})
    )


def result(folder, rewards, *, error="", **fields):
    """The result of a trial."""
    raised = {"exception_type": error, "exception_message": "it failed", "exception_traceback": ""} if error else None
    judged = rewards and {"rewards": rewards}
    (folder / "result.json").write_text(
        json.dumps(
            {"task_name": "double", "trial_name": folder.name, "verifier_result": judged, "exception_info": raised, **fields}
        )
    )


def test_trajectories_of_harbor(tmp_path):
    job = tmp_path / "job"
    trials = [
        ("a", ANSWER, {"reward": 1}, ""),
        ("b", "x", {"tests": 0.0}, ""),
        ("c", "y", {"reward": 0.0}, "SandboxBuildFailedError"),  # a reward of 0 that measures nothing
        ("d", "z", {"reward": 0.0}, "AgentTimeoutError"),
        ("e", "w", None, "VerifierTimeoutError"),
        ("f", "v", None, ""),
        ("g", "", None, "AgentSetupTimeoutError"),
        ("h", "u", {"speed": 1.0, "tests": 1.0}, ""),
    ]
    for name, answer, rewards, error in trials:
        trajectory(job / name, answer)
        result(job / name, rewards, error=error)
    archive, report = imported(tmp_path, "atif", job)
    assert [(task.task_id, task.prompt) for task in archive.tasks()] == [("atif/double", "Double x.")]
    assert [attempt.code for attempt in archive.attempts()] == [CODE, "x", "y", "z", "w", "v"]
    assert outcomes(archive) == ["passed", "failed", "unscored", "failed", "unscored", "unscored"]
    reasons = [verdict.error_message for verdict in archive.verdicts() if verdict.status is Status.UNSCORED]
    assert reasons == ["SandboxBuildFailedError: it failed", "VerifierTimeoutError: it failed", "no reward is recorded"]
    assert [row.reason for row in report.reasons] == [
        "has no answer: AgentSetupTimeoutError: it failed",
        "has no reward reward: --reward must name one of speed, tests",
    ]
    first = archive.attempts()[0]
    assert (first.author, first.created, first.token_ids, first.tokens) == ("org/model", "2026-11-23T10:01:00Z", (7, 8), 2)
    extra = json.loads(first.extra)
    assert extra["trial"]["trial_name"] == "a" and len(extra["steps"]) == 4 and extra["schema_version"] == "ATIF-v1.8"
    assert outcomes(imported(tmp_path / "named", "atif", job / "h", reward="tests")[0]) == ["passed"]


def test_trials_of_several_steps_and_trajectories_alone(tmp_path):
    trial = tmp_path / "job" / "a"
    for step in ("one", "two"):
        trajectory(trial, step, step=step)
    steps = [
        {"step_name": name, "verifier_result": {"rewards": {"reward": score}}} for name, score in (("one", 0.5), ("two", 1.0))
    ]
    result(trial, None, step_results=steps)
    archive, _ = imported(tmp_path, "atif", tmp_path / "job")
    assert [task.task_id for task in archive.tasks()] == ["atif/double/one", "atif/double/two"]
    assert outcomes(archive) == ["failed", "passed"]
    trajectory(tmp_path / "alone" / "x", "x", extra={"reward": 1.0})
    (tmp_path / "alone" / "trajectory.json").write_text('{"schema_version": "2"}')
    alone, report = imported(tmp_path / "b", "atif", tmp_path / "alone")
    assert outcomes(alone) == ["passed"] and "schema_version is not ATIF-v1.x" in report.reasons[0].reason
    with pytest.raises(SourceError, match=r"contains no trajectory.json"):
        imported(tmp_path, "atif", tmp_path / "archive")


ASKED = [{"role": "system", "content": "You write Python."}, {"role": "user", "content": "Double x."}]
BOTH = "You write Python.\n\nDouble x."
CHOICES = [{"index": at, "finish_reason": end, "message": {"role": "assistant", "content": text}}
           for at, (text, end) in enumerate([(ANSWER, "stop"), ("x", "length")])]  # fmt: skip
PARTS = [{"type": "text", "content": "Double x."}]
OTEL = {"gen_ai.request.model": "m", "gen_ai.input.messages": json.dumps([{"role": "user", "parts": PARTS}]),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}])}  # fmt: skip
SPAN = {"name": "chat", "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in OTEL.items()]}
LANGCHAIN = {"kwargs": {"content": "Double x.", "type": "human"}, "lc": 1, "type": "constructor"}
GEMINI = {"contents": [{"role": "user", "parts": [{"text": "Double x."}]}]}
CANDIDATES = [
    {"content": {"parts": [{"text": "hm", "thought": True}, {"text": ANSWER}], "role": "model"}, "finishReason": "STOP"}
]
OUTPUT = [{"type": "reasoning", "summary": []}, {"type": "message", "content": [{"type": "output_text", "text": ANSWER}]}]
CLAUDE = {
    "role": "assistant",
    "model": "m",
    "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": ANSWER}],
}
CALLS = {
    "openai": ([{"custom_id": "a", "url": "/v1/chat/completions", "body": {"model": "n", "messages": ASKED}}],
               [{"custom_id": "a", "response": {"body": {"model": "m", "choices": CHOICES}}, "error": None}], BOTH),
    "responses": ([{"custom_id": 1, "body": {"instructions": "You write Python.", "input": "Double x."}}],
                  [{"custom_id": 1, "response": {"body": {"model": "m", "status": "completed", "output": OUTPUT}}}], BOTH),
    "anthropic": ([{"custom_id": "a", "params": {"system": "You write Python.", "messages": ASKED[1:]}}],
                  [{"custom_id": "a", "result": {"type": "succeeded", "message": CLAUDE}}], BOTH),
    "gemini": ([{"key": "a", "request": GEMINI}], [{"key": "a", "response": {"candidates": CANDIDATES, "modelVersion": "m"}}], "Double x."),
    "bedrock": ([], [{"recordId": "a", "modelInput": {"messages": ASKED}, "modelOutput": CLAUDE}], BOTH),
    "litellm": ([], [{"status": "success", "messages": ASKED, "response": {"model": "m", "choices": CHOICES}}], BOTH),
    "langsmith": ([], [{"run_type": "llm", "status": "success", "inputs": {"messages": [[LANGCHAIN]]}, "outputs": {"generations": [[
        {"text": ANSWER}]], "llm_output": {"model_name": "m"}}, "feedback_stats": {"right": {"n": 1, "avg": 1.0}}},
        {"run_type": "chain", "inputs": {"input": "Double x."}, "outputs": {"output": ANSWER}}], "Double x."),
    "langfuse": ([], [{"id": "t", "type": "GENERATION", "model": "m", "input": ASKED, "output": {"role": "assistant", "content": ANSWER},
                       "scores": [{"name": "right", "value": 1}]}], BOTH),
    "otlp": ([], [{"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]}], "Double x."),
    "openllmetry": ([], [{"attributes": {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "Double x.", "gen_ai.request.model": "m",
                                         "gen_ai.completion.0.content": ANSWER}}], "Double x."),
    "chats": ([], [{"model": "m", "messages": [*ASKED, {"role": "assistant", "content": ANSWER}], "score": 0}], BOTH),
}  # fmt: skip
"""Name of an API or tool -> its requests, if these have a file of their own, its responses, and the statement."""


@pytest.mark.parametrize("case", CALLS)
def test_calls_of_model_apis_are_attempts(tmp_path, case):
    requests, responses, statement = CALLS[case]
    folder = tmp_path / "log"
    _ = requests and lines(folder / "requests.jsonl", *requests)
    lines(folder / "responses.jsonl", *responses)
    reading = reading_of(folder, {})
    assert reading.source == "calls"
    with pytest.warns(
        UserWarning, match="attempts are unscored: (rows have scores, (right|score): --reward NAME|no row has a score)"
    ):
        archive, _ = imported(tmp_path, "calls", folder)
    assert [task.prompt for task in archive.tasks()] == [statement]
    found = [(one.code, one.author, one.truncated) for one in archive.attempts()]
    assert found == [(CODE, "m", False), ("x", "m", True)][: 2 if case in ("openai", "litellm") else 1]
    assert {*outcomes(archive)} == {"unscored"}


@pytest.mark.parametrize("text", ['{"a": 1}', "[1, 2]", "{", '["x"]', '[{"b": 2}]'])
def test_texts_that_are_json_stay_texts(text):
    assert call_in({"prompt": text, "response": {"choices": [{"text": text}]}}) == (text, [{"text": text}])
    assert call_in({"prompt": text, "response": text}) == (text, [{"text": text}])


def test_scores_of_calls_count_if_they_are_named(tmp_path):
    rows = [{**CALLS["langfuse"][1][0], "id": at, "output": text, "scores": {"right": [good], "n_errors": 1 - good}}
            for at, (text, good) in enumerate([(ANSWER, 1), ("x", 0)])]  # fmt: skip
    file = lines(tmp_path / "log.jsonl", *rows)
    assert outcomes(imported(tmp_path, "calls", file, reward="right")[0]) == ["passed", "failed"]
    with pytest.raises(SourceError, match="--reward n_errors: by its name, larger values are worse"):
        ingest(Archive.create(tmp_path / "b"), "calls", file, reward="n_errors")


@pytest.mark.filterwarnings("ignore:.*1 requests have no answer, such as a")
@pytest.mark.parametrize(
    ("requests", "responses", "reason"),
    [
        (0, [{}], "no file has the request a: import a folder of both files"),
        (2, [{}], "files have different requests of a"),
        (1, [{"custom_id": None}], "no request; import"),
        (1, [{"response": None, "error": {"code": "batch_expired", "message": "too late"}}], "has no answer: too late"),
        (1, [{"response": {"status_code": 500, "body": {"error": {"message": "down"}}}}], "has no answer: down (status 500)"),
        (1, [{"response": {"status_code": 429, "body": {"message": "slow down"}}}], "has no answer: slow down (status 429)"),
        (1, [{"response": {"status_code": 502, "body": "<html>bad"}}], "has no answer: no text in the response (status 502)"),
        (1, [{"response": None, "result": {"type": "expired"}}], "has no answer: no text in the response (expired)"),
        (1, [{"response": None, "error": "timed out"}], "has no answer: timed out"),
        (
            1,
            [{"response": {"body": {"choices": [{"message": {"content": None, "tool_calls": [{}]}}]}}}],
            "has no answer: no text",
        ),
    ],
)
def test_calls_without_answer_or_request_are_rejected(tmp_path, requests, responses, reason):
    asked, (answered,), _ = CALLS["openai"]
    asked = [{**asked[0], "body": {"messages": [{"role": "user", "content": str(at)}]}} for at in range(requests)]
    folder = tmp_path / "log"
    _ = asked and lines(folder / "in.jsonl", *asked)
    lines(folder / "out.jsonl", *({**answered, **change} for change in responses))
    archive, report = imported(tmp_path, "calls", folder)
    assert reason in rejected_rows(report)[0]["reason"] and not archive.attempts()


def test_chats_without_answers_are_no_calls(tmp_path):
    with pytest.raises(SourceError, match="no column looks like"):
        reading_of(lines(tmp_path / "log.jsonl", *[{"messages": ASKED}] * 2), {})


CHAT = [*ASKED, {"role": "assistant", "content": ANSWER}]
SHARED = [{"from": "human", "value": BOTH}, {"from": "gpt", "value": ANSWER}]
CORRECTED = [*CHAT[:-1], {"role": "assistant", "content": "?"}, {"role": "user", "content": "No."}, CHAT[-1]]


@pytest.mark.parametrize(
    ("row", "statement"),
    [
        ({"messages": CHAT}, BOTH),
        ({"messages": json.dumps(CHAT)}, BOTH),
        ({"conversations": SHARED}, BOTH),
        ({"messages": CORRECTED}, f"{BOTH}\n\n?\n\nNo."),
        ({"request": {"messages": CHAT}}, BOTH),
        ({"prompt": ASKED, "completion": CHAT[-1:]}, BOTH),
        ({"messages": ASKED, "response": ANSWER}, BOTH),
        ({"messages": ASKED, "code": CODE}, BOTH),
    ],
)
@pytest.mark.parametrize(
    ("column", "words", "statuses"),
    [
        ("passed", (True, False), ["passed", "failed"]),
        ("verdict", ("AC", "TLE"), ["passed", "timeout"]),
        ("info", ({"resolved": True}, {"resolved": False}), ["passed", "failed"]),
    ],
)
def test_chats_with_outcomes_are_attempts_with_these(tmp_path, row, statement, column, words, statuses):
    other = json.loads(json.dumps(row).replace("return", "yield"))
    rows = [{**one, "model": model, column: word} for one, model, word in zip((row, other), "ab", words, strict=True)]
    path = lines(tmp_path / "log.jsonl", *rows)
    reading = reading_of(path, {})
    archive, report = imported(tmp_path, reading.source, path, **reading.options)
    assert ([task.prompt for task in archive.tasks()], outcomes(archive), report.bad) == ([statement], statuses, 0)
    assert [(one.code, one.author) for one in archive.attempts()] == [(CODE, "a"), (CODE.replace("return", "yield"), "b")]


FAILED = {
    "a": {"error": "timed out"},
    "b": {"status": "failure", "error_str": "429"},
    "c": {"response": {"status": 500, "message": "x"}},
}


@pytest.mark.filterwarnings("ignore:.*attempts are unscored")
@pytest.mark.parametrize("answers_first", [True, False])
def test_requests_that_failed_are_rejected_and_the_others_imported(tmp_path, answers_first):
    asked = [{"custom_id": str(at), "body": {"messages": ASKED}} for at in range(12)]
    answered = [{"custom_id": str(at), "response": {"choices": CHOICES[:1]}} for at in range(6)]
    failed = [{"custom_id": str(at), **row} for at, row in enumerate([*FAILED.values()] * 2, start=6)]
    lines(tmp_path / "log" / f"{'z' if answers_first else 'a'}.jsonl", *asked)
    lines(tmp_path / "log" / "out.jsonl", *failed, *answered)
    archive, report = imported(tmp_path, "calls", tmp_path / "log")
    assert (len(archive.attempts()), report.bad, report.too_many) == (6, 6, False)
    assert [row.reason for row in report.reasons] == [
        f"the request has no answer: {why}" for why in ("timed out", "429", "x (status 500)")
    ]
    assert preview(CALLS_SOURCE, tmp_path / "log", {}, whole=True).too_many is False


@pytest.mark.filterwarnings("ignore:.*attempts are unscored")
def test_answers_may_stand_before_their_requests(tmp_path):
    """In one file, across files, with a failure and an answer without request; an id with two requests belongs to neither."""
    asked = [{"custom_id": str(at), "body": {"messages": [{"role": "user", "content": f"Do {at}."}]}} for at in range(300)]
    answered = [{"custom_id": str(at), "response": {"choices": CHOICES[:1]}} for at in range(301)]
    other = {**asked[3], "body": {"messages": ASKED}}
    failed = {"custom_id": "2", **FAILED["a"]}
    lines(tmp_path / "log" / "a.jsonl", answered[1], answered[3], other, *asked[1:3], failed, *answered[4:], *asked[3:])
    lines(tmp_path / "log" / "b.jsonl", answered[0], answered[3], asked[0])
    archive, report = imported(tmp_path, "calls", tmp_path / "log")
    assert [task.prompt for task in archive.tasks()] == [f"Do {at}." for at in (1, *range(4, 300), 0)]
    assert (len(archive.attempts()), report.rows, report.bad) == (298, 603, 4)
    assert sorted((one["line"], one["reason"]) for one in rejected_rows(report)) == [
        (2, "files have different requests of 3"),
        (2, "files have different requests of 3"),
        (6, "the request has no answer: timed out"),
        (303, "no file has the request 300: import a folder of both files"),
    ]


@pytest.mark.filterwarnings("ignore:.*attempts are unscored")
@pytest.mark.parametrize(
    ("answers", "languages"),
    [
        (["```c++\nint main() {}\n```"], ["cpp"]),
        (["```python\nx = 1\n```", "```java\nclass A {}\n```", "```\nx = 2\n```"], ["python", "java", "python"]),
        (["Run this.\n```bash\npip list\n```\n```python\nx = 1\n```"], ["python"]),
    ],
)
def test_fences_name_the_languages_of_answers(tmp_path, answers, languages):
    calls = [{"messages": ASKED, "response": {"choices": [{"text": text}]}} for text in answers]
    archive, _ = imported(tmp_path, "calls", lines(tmp_path / "log.jsonl", *calls))
    assert [one.language for one in archive.attempts()] == languages
    assert [task.language for task in archive.tasks()] == languages[:1]


def test_one_log_of_answers_and_failures_is_recognised(tmp_path):
    good = {"messages": ASKED, "response": {"choices": CHOICES[:1]}, "status": "success"}
    path = lines(tmp_path / "log.jsonl", *[{"messages": ASKED, "response": None, **FAILED["b"]}] * 3, good)
    assert reading_of(path, {}).source == "calls"


@pytest.mark.filterwarnings("ignore:.*attempts are unscored")
def test_calls_are_parsed_once(tmp_path, monkeypatch):
    asked, answered, _ = CALLS["openai"]
    lines(tmp_path / "log" / "in.jsonl", *asked)
    lines(tmp_path / "log" / "out.jsonl", *answered)
    seen = []
    monkeypatch.setattr("upsolve.importers.logs.calls.calls_in", lambda row: seen.append(1) or iter([row]))
    assert len([*read_calls(tmp_path / "log")]) == 5 and len(seen) == 4  # the first row of each file once more


def test_a_chat_that_ends_with_the_user_is_rejected(tmp_path):
    path = lines(tmp_path / "log.jsonl", {"messages": CHAT, "passed": True}, {"messages": ASKED, "passed": False})
    _, report = imported(tmp_path, "table", path, prompt="messages", answer="messages")
    assert "messages is empty, but the row has passed" in report.reasons[0].reason


def test_a_service_that_answered_is_no_outcome(tmp_path):
    rows = [{"question": f"Double x, {at} times.", "output": ANSWER, "status": "success"} for at in (1, 2)]
    with pytest.raises(SourceError, match="no column has the outcome:[^}]*status: null"):
        reading_of(lines(tmp_path / "log.jsonl", *rows), {})
