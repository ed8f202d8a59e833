"""A proxy in front of an OpenAI-compatible server that stores the completions of its clients as attempts. Needs ``upsolve[serve]``.

A finished completion is written to a journal, ``captures/TAG.jsonl`` in the archive, before the client gets its end. Every ``FLUSH_SECONDS``, and
at the end, the journal becomes parts with its tag. A journal that a killed proxy left is stored by the next start.
"""

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import re
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

import httpx2

from upsolve.archive.store import Archive
from upsolve.errors import ConfigError
from upsolve.files import is_remote
from upsolve.importers.rows import as_json, text_of
from upsolve.importers.tables.rollouts import known_tasks
from upsolve.policy.answers import is_only_code, names_of, program_in
from upsolve.policy.served import FAULTS, ids_of, logps_of
from upsolve.types import Attempt, Task, content_id

__all__ = ["Captured", "Proxy", "completions", "serve"]

log = logging.getLogger(__name__)

FLUSH_SECONDS = 5.0
"""Time between two writes of parts, seconds: each write makes a file."""
ROUTES = ("/chat/completions", "/completions")
"""Ends of the paths whose completions are stored."""
OWN = frozenset(
    "host content-length connection keep-alive transfer-encoding content-encoding accept-encoding upgrade".split()  # noqa: SIM905
)
"""Header fields that belong to one connection, and are not forwarded."""
NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    **dict.fromkeys(("temperature", "top_p"), (None, 1)),
    **dict.fromkeys(("top_k", "min_p", "frequency_penalty", "presence_penalty"), (0, 0, None, -1)),
    "repetition_penalty": (1, 1, None),
}
"""Sampling parameter -> its value if absent (None: the server's own), and the values with which the distribution is the model's own."""
FINISHED, DONE = re.compile(rb'"finish_reason":\s*"|\[DONE\]'), re.compile(rb"\[DONE\]")
"""Beginning of the last event of a stream: of one completion, and of several completions."""
SETTINGS = (*NEUTRAL, "seed", "max_tokens", "max_completion_tokens", "stop", "n")
"""Fields of a request that are stored with the attempt."""
Json = dict[str, Any]


class Captured:
    """Completions on their way into an archive: a locked journal, and the parts of earlier journals."""

    def __init__(self, archive: Archive) -> None:
        """Store the journals that killed proxies left; ConfigError for an archive at a URL."""
        if is_remote(archive.path):
            raise ConfigError(f"{archive.path}: captures need a local archive; copy the archive with `upsolve archive copy`")
        self.archive, self.guard, self.stored = archive, Lock(), 0
        self.folder = Path(str(archive.path)) / "captures"
        self.folder.mkdir(exist_ok=True)
        self.known = known_tasks(archive.tasks())
        for file in sorted(self.folder.glob("*.jsonl")):
            with file.open("r+b") as journal, contextlib.suppress(BlockingIOError):  # that of a proxy that runs
                fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if file.stat().st_size:  # an empty one may be that of a proxy that starts
                    self.store(file)
        self.open()

    def open(self) -> None:
        """Begin a journal."""
        self.file = self.folder / f"{secrets.token_hex(8)}.jsonl"
        self.journal = self.file.open("ab")
        fcntl.flock(self.journal, fcntl.LOCK_EX)

    def keep(self, rows: Sequence[Json]) -> None:
        """Write completions to the journal; they are on disk when this returns."""
        with self.guard:
            self.journal.write(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
            self.journal.flush()
            os.fsync(self.journal.fileno())

    def flush(self, *, last: bool = False) -> None:
        """Store the journal in the archive; unless it is the ``last``, begin another one."""
        with self.guard:
            if not (self.file.stat().st_size or last):
                return
            self.store(self.file)
            self.journal.close()
            if not last:
                self.open()

    def store(self, file: Path) -> None:
        """Write a journal as parts with its tag, which replace those of an interrupted write, and remove the journal."""
        tasks, attempts, tag = dict[str, Task](), list[Attempt](), file.stem
        for line in file.read_bytes().splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break  # the proxy was killed in the middle: the client did not get the end of this completion
            fields: Json = json.loads(line)
            prompt, answer, extra = (fields.pop(name) for name in ("prompt", "answer", "extra"))
            asked = [text_of(one) for one in extra.get("messages") or () if one["role"] == "user"]
            task = self.known.prompted(asked[-1] if asked else prompt)
            task = task or Task(f"capture/{content_id(prompt)[:12]}", prompt, source="capture")
            code = program_in(answer, task.language, names_of(task), prompt=prompt)
            answer, extra = "" if is_only_code(answer, code) else answer, {**extra, "prompt": prompt}
            ids, logps = (tuple(fields.pop(name)) or None for name in ("ids", "logps"))
            behavior = sum(logps) if logps and not answer else None
            fields |= {"token_ids": ids, "token_logps": logps if ids else None, "behavior_logp": behavior}
            if logps and not ids:
                extra["logps"] = logps
            if prompt == task.prompt:
                del extra["prompt"]
            tasks[task.task_id] = task
            language = task.language or "python"
            attempts.append(Attempt(task.task_id, code, language, answer=answer, extra=as_json(extra), **fields))
        if attempts:
            self.archive.drop(tag)
            known = set(self.archive.column("tasks", "task_id"))
            self.archive.write([task for name, task in tasks.items() if name not in known], attempts, [], tag=tag)
            self.stored += len(attempts)
        file.unlink()


class Proxy:
    """The proxy as an ASGI application."""

    def __init__(self, upstream: str, captured: Captured) -> None:
        """Configure the client; ConfigError for an upstream that is no URL."""
        address = urlsplit(upstream)
        if address.scheme not in ("http", "https") or not address.netloc:
            raise ConfigError(f"--upstream {upstream}: must be a URL such as http://server:8000/v1")
        self.origin, self.base = f"{address.scheme}://{address.netloc}", address.path.rstrip("/")
        self.captured, self.gives_logps = captured, True
        self.client = httpx2.AsyncClient(timeout=None, limits=httpx2.Limits(max_connections=None), follow_redirects=False)

    async def __call__(self, scope: Json, receive: Any, send: Any) -> None:
        """Answer one request."""
        from starlette.requests import ClientDisconnect, Request
        from starlette.responses import JSONResponse, StreamingResponse

        request = Request(scope, receive)
        try:
            content = await request.body()
        except ClientDisconnect:  # nobody reads the answer
            return
        asked = request_in(request, content)
        try:
            reply = await self.reply(request, content, asked)
        except httpx2.HTTPError as error:
            why = {"message": f"{self.origin}: no answer from the upstream: {error!r}", "type": "upstream_error"}
            await JSONResponse({"error": why}, 502)(scope, receive, send)
            return
        headers = [(name, value) for name, value in reply.headers.multi_items() if name.lower() not in OWN]
        answer = StreamingResponse(self.body(reply, asked), reply.status_code)
        answer.raw_headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        try:
            await answer(scope, receive, send)
        finally:
            await reply.aclose()

    async def reply(self, request: Any, content: bytes, asked: Json | None) -> httpx2.Response:
        """Forward a request; ask for log-probabilities unless the client or an earlier refusal by the server forbids them."""
        path = request.url.path
        url = self.origin + (path if path.startswith(f"{self.base}/") else self.base + path)
        url += f"?{request.url.query}" if request.url.query else ""
        kept = [(name, value) for name, value in request.headers.items() if name.lower() not in OWN]
        build = partial(self.client.build_request, request.method, url, headers=[*kept, ("accept-encoding", "identity")])
        if asked is None or not self.gives_logps or asked.get("logprobs") is not None:
            return await self.client.send(build(content=content), stream=True)
        wider = json.dumps({**asked, "logprobs": True if path.endswith(ROUTES[0]) else 1}).encode()
        reply = await self.client.send(build(content=wider), stream=True)
        if reply.status_code not in (400, 422):
            return reply
        await reply.aclose()
        plain = await self.client.send(build(content=content), stream=True)
        self.gives_logps = not plain.is_success  # the log-probabilities were refused, not the client's request
        return plain

    async def body(self, reply: httpx2.Response, asked: Json | None) -> AsyncGenerator[bytes]:
        """Yield an answer as it arrives; its end only after its completions are on disk."""
        if asked is None or not reply.is_success:
            async for chunk in reply.aiter_bytes():
                yield chunk
            return
        whole, held, is_over = bytearray(), b"", not asked.get("stream")
        end = FINISHED if asked.get("n") in (None, 1) else DONE
        try:
            async for chunk in reply.aiter_bytes():
                whole += chunk
                held += chunk
                is_over = is_over or end.search(whole, max(0, len(whole) - len(chunk) - 30)) is not None
                if not is_over:
                    yield held
                    held = b""
        finally:
            if rollouts := completions(asked, bytes(whole)) if is_over else []:
                await asyncio.to_thread(self.captured.keep, rollouts)
        yield held


def request_in(request: Any, content: bytes) -> Json | None:
    """Return the body of a request whose completions are stored; None for any other request."""
    body: Any = None
    with contextlib.suppress(ValueError):
        body = json.loads(content) if request.method == "POST" and request.url.path.endswith(ROUTES) else None
    return body if isinstance(body, dict) else None


def completions(asked: Json, answer: bytes) -> list[Json]:
    """Return the finished completions in an answer, which is a JSON object or a stream of events; warns if it is neither."""
    try:
        reply = joined(answer) if asked.get("stream") else json.loads(answer)
        return [
            rollout_of(asked, reply, choice)
            for choice in reply["choices"]
            if choice.get("finish_reason") not in (None, "", *FAULTS)
        ]
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        log.warning(
            "a completion is not stored, because the answer does not follow the OpenAI protocol: %r: %s", error, answer[:300]
        )
        return []


def joined(answer: bytes) -> Json:
    """Return a stream of events as the equivalent answer without streaming."""
    whole: Json = {"choices": {}}
    for line in answer.splitlines():
        if not line.startswith(b"data:") or line[5:].strip() == b"[DONE]":
            continue
        event: Json = json.loads(line[5:])
        whole.update({key: value for key, value in event.items() if key != "choices" and value is not None})
        for part in event.get("choices") or ():
            choice = whole["choices"].setdefault(part.get("index", 0), {"message": {}, "text": "", "token_ids": []})
            choice["finish_reason"] = part.get("finish_reason") or choice.get("finish_reason")
            choice["text"] += part.get("text") or ""
            choice["token_ids"] += part.get("token_ids") or []
            for name, value in (part.get("delta") or {}).items():
                if isinstance(value, str | list) and name != "role":
                    choice["message"][name] = choice["message"].get(name, value[:0]) + value
            for name, values in (part.get("logprobs") or {}).items():
                if isinstance(values, list):
                    choice.setdefault("logprobs", {}).setdefault(name, []).extend(values)
    return {**whole, "choices": [*whole["choices"].values()]}


def rollout_of(asked: Json, reply: Json, choice: Json) -> Json:
    """Return one choice of an answer: text, tokens, log-probabilities, and the settings of the request."""
    message: Json = choice.get("message") or {}
    if "messages" in asked:
        prompts = [text_of(one) for one in asked["messages"]]
        text, thinking = text_of(message.get("content") or ""), message.get("reasoning_content") or message.get("reasoning")
        text = f"<think>\n{thinking}\n</think>\n\n{text}" if thinking else text
    else:
        several = isinstance(asked["prompt"], list) and all(isinstance(one, str) for one in asked["prompt"])
        per_prompt = int(asked.get("n") or 1)
        prompt = asked["prompt"][choice.get("index", 0) // per_prompt] if several else asked["prompt"]
        prompts, text = [prompt if isinstance(prompt, str) else json.dumps(prompt)], str(choice["text"])
    ids, usage = ids_of(choice) or (), reply.get("usage") or {}
    counted = usage.get("completion_tokens") if len(reply["choices"]) == 1 else None
    logps = logps_of(choice.get("logprobs"), len(ids) or counted) or ()
    is_plain = all(asked.get(name, absent) in values for name, (absent, *values) in NEUTRAL.items())
    extra: Mapping[str, Any] = {
        "request": {name: asked[name] for name in SETTINGS if asked.get(name) is not None},
        "messages": asked.get("messages") if len(prompts) > 1 else None,
        "finish_reason": choice["finish_reason"],
        "tool_calls": message.get("tool_calls"),
        "logps": () if is_plain else logps,  # not those of the distribution that was sampled, which ``token_logps`` are
    }
    return {
        "prompt": "\n\n".join(filter(None, prompts)),
        "answer": text,
        "author": str(reply.get("model") or asked.get("model") or ""),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "truncated": choice["finish_reason"] == "length",
        "tokens": counted or len(ids) or len(logps) or None,
        "ids": ids,
        "logps": logps if is_plain else (),
        "extra": {name: value for name, value in extra.items() if value},
    }


def serve(upstream: str, archive: Archive, port: int, *, say: Any = print) -> int:
    """Serve at 127.0.0.1 until SIGTERM or SIGINT; return the number of stored attempts. ConfigError: the port is not available."""
    import uvicorn

    from upsolve.verify.service.app import listening

    captured = Captured(archive)

    async def run() -> None:
        proxy = Proxy(upstream, captured)
        with listening("127.0.0.1", port, token=b"") as listener:
            say(f"upsolve captures at http://127.0.0.1:{listener.getsockname()[1]}{proxy.base} the completions of {upstream}")
            server = uvicorn.Server(
                uvicorn.Config(proxy, log_level="warning", timeout_graceful_shutdown=5, lifespan="off", ws="none")
            )
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                while not (await asyncio.wait({serving}, timeout=FLUSH_SECONDS))[0]:
                    await asyncio.to_thread(captured.flush)
            finally:
                server.should_exit = True
                with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises the signal that stopped it again, in this task
                    await serving
                await proxy.client.aclose()

    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(run())
    finally:
        captured.flush(last=True)
    return captured.stored
