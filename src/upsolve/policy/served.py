"""A model behind servers that speak OpenAI's protocol: vLLM, SGLang, llama.cpp, ``transformers serve``, an API.

The policy in training is behind vLLM servers, which load its weights from a folder that they share with the trainer. vLLM's calls
``/collective_rpc`` (``reload_weights``) and ``/reset_prefix_cache`` exist where a server is started with ``VLLM_SERVER_DEV_MODE=1``.
"""

import json
import logging
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from random import Random
from threading import Event, Lock, Thread
from typing import Any

import httpx2

from upsolve.config import ModelConfig, PromptConfig, SampleConfig, ServerConfig
from upsolve.errors import ConfigError, ModelError
from upsolve.policy import blocks
from upsolve.policy.answers import names_of, program_in
from upsolve.policy.prompt import PLAIN, messages
from upsolve.policy.request import Follower, Part, Request, requests
from upsolve.policy.tokens import Codec
from upsolve.types import Attempt, Task

__all__ = ["FAULTS", "Place", "PolicyServers", "RetryError", "Server", "UpdatedServer", "ids_of", "logps_of"]

LONGEST_WAIT_SECONDS = 60.0
"""Longest wait before a retry, seconds, unless the server asks for a longer wait."""
CONNECT_SECONDS = 30.0
"""Time limit for connecting to a server, seconds."""
LOAD_SECONDS = 600.0
"""Smallest time limit for a server to load weights, seconds."""
BUSY = (408, 425, 429)
"""Status codes below 500 after which the request is retried."""
HARMLESS = {"cache_prompt", "n_probs", "return_token_ids"}
"""Keys of ``sample.server.extra`` that do not change the distribution; other keys, such as ``top_k``, may change it."""
FAULTS = ("abort", "error")
"""Finish reasons that report a fault of the server."""
Json = dict[str, Any]

log = logging.getLogger(__name__)


class RetryError(Exception):
    """The server gave no complete answer: retry, after ``seconds`` if the server asks for it. ``broken``: the server may have ended or been restarted."""

    def __init__(self, why: str, seconds: float = 0.0, *, broken: bool = False) -> None:
        super().__init__(why)
        self.seconds, self.broken = seconds, broken


class Place:
    """One of the servers of a model."""

    def __init__(self, base: str, route: str) -> None:
        self.base = base.rstrip("/")
        self.url = self.base + route
        self.running, self.failures, self.rests_until = 0, 0, 0.0
        """Requests in flight, failures since the last answer, and the time (``time.monotonic``) before which others are preferred."""
        self.is_outdated = False
        """Whether its weights are unknown: no request is sent to it."""


class Server:
    """Sample the model of a server, or of several that share the requests (``upsolve.policy.request.Sampler``).

    A request goes to the server with the fewest requests in flight; if that server fails, to the others before any retry.

    ``behavior_logp`` is the sum of the log-probabilities that the server returns, in nats, over all sampled tokens, including those of the closing
    fence; vLLM's are those of the untempered distribution. ``token_logps``, which are of the distribution that is sampled, are stored at temperature
    1 and top-p 1 alone, if the server also returns the token ids. ``behavior_logp`` is None if the server does not return one log-probability per
    token, and for ``chat``, where an answer contains text besides the code. ``entropy`` is None.
    """

    def __init__(self, server: ServerConfig, model: str, codec: Codec | None, *, style: PromptConfig = PLAIN) -> None:
        """Configure the client; no request is made yet. ConfigError without the server's key, or for ``model.prompt.date`` with
        ``chat``."""
        if (codec is None) != (server.prompt == "chat"):
            raise ValueError(
                f"sample.server.prompt: {server.prompt} needs {'codec=None, since the server tokenizes' if codec else 'a codec (the tokenizer)'}"
            )
        key = os.environ.get(server.key_variable, "")
        if server.key_variable and not key:
            raise ConfigError(f"sample.server.key_variable: the environment has no {server.key_variable}")
        if codec is None and style.date != PLAIN.date:
            raise ConfigError("model.prompt.date: with sample.server.prompt: chat the server writes the date; leave it out")
        self.server, self.model, self.codec, self.style = server, model, codec, style
        route = "/completions" if codec else "/chat/completions"
        self.places = [Place(base, route) for base in server.urls or (server.url,)]
        self.url = ", ".join(place.url for place in self.places)
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.guard = Lock()

    def __call__(self, tasks: Sequence[Task], *, config: SampleConfig, **how: Any) -> Iterator[Attempt]:
        """Yield ``config.samples`` attempts per task, in the order in which they end; ModelError if the server refuses or never answers."""
        for _, attempt in self.sample_requests([*requests(tasks, config)], config=config, **how):
            yield attempt

    def sample_requests(
        self,
        requests: Sequence[Request],
        *,
        config: SampleConfig,
        author: str = "",
        on_done: Callable[[int], None] | None = None,
    ) -> Iterator[Part]:
        """Yield (``part``, attempt) for each request (``upsolve.policy.request.RequestSampler``).

        Raises:
            ConfigError: a request has a prefix, and the prompt is ``chat``.
        """
        first = {request.prompt_key: request for request in requests}
        prompts = {key: self.prompt(request) for key, request in first.items()}
        self.warn_of_special([*first.values()])
        over, client = Event(), self.connect()
        self.prepare(client, over)
        is_plain = config.is_plain and self.server.extra.keys() <= HARMLESS

        def work(request: Request) -> Part:
            body = {**self.settings(request, config), **prompts[request.prompt_key], **self.server.extra}
            post = partial(self.post, client=client, body=body, task=request.task)
            return request.part, self.attempt(request, post, author, over=over, is_plain=is_plain)

        ended = run_concurrently(work, iter(requests), config.batch, over)
        try:
            for done in range(1, len(requests) + 1):
                part = ended.get()
                if isinstance(part, Exception):
                    raise part
                yield part
                if on_done:
                    on_done(done)
        finally:
            over.set()
            client.close()

    def prepare(self, client: httpx2.Client, over: Event) -> None:
        """Make the servers ready for requests: nothing to do for a model that does not change."""

    def connect(self) -> httpx2.Client:
        """Return a client with its own connections, to be closed by the caller."""
        seconds = self.server.timeout_seconds
        return httpx2.Client(
            headers=self.headers,
            timeout=httpx2.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS)),
            limits=httpx2.Limits(max_connections=None),  # ``sample.batch`` is the limit
            follow_redirects=False,  # the key is for this server alone
        )

    def prompt(self, request: Request) -> Json:
        """Return the part of the request body that depends on task, turns and prefix; ConfigError for a prefix in a chat."""
        if self.codec is None:
            if request.prefix:
                raise ConfigError(
                    "sample.server.prompt: chat: a chat cannot prescribe how the answer begins, which a prefix needs; set ids or text"
                )
            options = {"chat_template_kwargs": self.style.template} if self.style.template else {}
            return {"messages": messages(request.task, self.style, request.turns), **options}
        as_ids, key = self.server.prompt == "ids", request.prompt_key
        prompt = list(self.codec.prompt(*key).ids_P) if as_ids else self.codec.prompt_text(*key)
        return {"prompt": prompt, **self.stops(self.codec), "logprobs": 1}

    def stops(self, codec: Codec) -> Json:
        """Return the strings that end a completion; a server itself knows only the tokenizer's end-of-text token."""
        strings = {"stop": codec.stops} if codec.stops else {}
        known = codec.end is None or codec.end == codec.tokenizer.eos_token_id
        return strings if known else {**strings, "stop_token_ids": [codec.end]}

    def warn_of_special(self, requests: Sequence[Request]) -> None:
        """Log the number of prompts in which the server will read text as special tokens."""
        if (
            self.codec
            and self.server.prompt == "text"
            and (odd := sum(self.codec.marked_prompt(*request.prompt_key)[1].literal for request in requests))
        ):
            log.warning(
                "%s: %d of %d prompts contain the text of special tokens, which the server will read as control tokens; "
                "set sample.server.prompt: ids",
                self.url,
                odd,
                len(requests),
            )

    def settings(self, request: Request, config: SampleConfig) -> Json:
        """Return the sampling parameters of a request body."""
        return {
            "model": self.server.model or self.model,
            "max_tokens": config.max_tokens,
            "temperature": config.temperature,
            "top_p": config.top_p,
            "seed": request.seed,
        }

    def read(self, request: Request, reply: Json, author: str, *, is_plain: bool) -> Attempt:
        """Return the attempt in a server's answer; ``is_plain``: the sample was drawn at temperature 1 without a nucleus or penalties."""
        try:
            choice = reply["choices"][0]
            truncated = choice["finish_reason"] == "length"
            tokens: int | None = (reply.get("usage") or {}).get("completion_tokens") or None
            ids: tuple[int, ...] | None = None
            logps: tuple[float, ...] | None = None
            if self.codec is None:
                message: Json = choice["message"]
                thinking, text = (
                    message.get("reasoning_content") or message.get("reasoning") or "",
                    str(message["content"] or ""),
                )
                text = f"<think>\n{thinking}\n</think>\n\n{text}" if thinking else text  # returned separately by some servers
            else:
                text, ids = str(choice["text"]), ids_of(choice)
                logps = logps_of(choice.get("logprobs"), len(ids) if ids else tokens)
            code, answer = self.parts(text, request, truncated=truncated)
        except (AttributeError, KeyError, IndexError, TypeError) as error:
            raise ModelError(f"{self.url}: not an answer of the OpenAI protocol: {json.dumps(reply)[:500]}") from error
        if choice["finish_reason"] in FAULTS:
            raise RetryError("the server ended the request with an error")
        return Attempt(
            **request.origin,
            code=code,
            answer=answer,
            author=author or self.model,
            behavior_logp=sum(logps) if logps else None,
            tokens=tokens,
            truncated=truncated,
            token_ids=ids,
            token_logps=logps if ids and is_plain else None,
        )

    def parts(self, text: str, request: Request, *, truncated: bool) -> tuple[str, str]:
        """Return ``code`` and ``answer`` of a completion."""
        task, prefix = request.task, request.prefix
        if self.codec is None:
            return program_in(text, task.language, names_of(task)), text
        if self.codec.answers:
            return self.codec.of_answer(prefix + text, task)
        return prefix + before_fence(text, truncated=truncated), ""

    def attempt(self, request: Request, post: Callable[[Place], Json], author: str, *, over: Event, is_plain: bool) -> Attempt:
        """Request an attempt, from each server in turn until one answers; retry number n waits min(60, wait_seconds * 2^n) * u seconds,
        u uniform in [1/2, 1] by the request's seed."""
        jitter, tries, why = Random(request.seed), self.server.retries + 1, "no server has the weights"
        for number in range(tries):
            tried, asked = list[Place](), 0.0
            while (place := self.take(tried)) and not over.is_set():
                try:
                    attempt = self.read(request, post(place), author, is_plain=is_plain)
                    place.failures = 0
                    return attempt
                except RetryError as error:
                    tried.append(place)
                    why, asked = str(error), max(asked, error.seconds)
                    self.rest(place, error)
                finally:
                    self.release(place)
            if number + 1 < tries and not over.is_set():
                over.wait(max(self.wait_seconds(number) * jitter.uniform(0.5, 1), asked))
                why = self.revive(over) or why
            if over.is_set():
                break
        raise ModelError(
            f"{self.url}: {why}; {tries} requests failed for an attempt at task {request.task.task_id} of model {self.server.model or self.model}. "
            "Start the server and run the same command again: samples received so far are in the archive"
        )

    def wait_seconds(self, failures: int) -> float:
        """Return the longest wait after ``failures`` earlier failures, seconds."""
        return min(LONGEST_WAIT_SECONDS, self.server.wait_seconds * 2.0 ** min(failures, 30))

    def take(self, tried: Collection[Place]) -> Place | None:
        """Return the server for a request, which counts as in flight until ``release``; None if all servers were tried.

        Servers that answered last time come before servers that failed, then servers with fewer requests in flight.
        """
        now = time.monotonic()
        with self.guard:
            left = [place for place in self.places if place not in tried and not place.is_outdated]
            chosen = min(left, key=lambda place: (place.rests_until > now, place.running), default=None)
            if chosen:
                chosen.running += 1
        return chosen

    def release(self, place: Place) -> None:
        """Count a request as ended."""
        with self.guard:
            place.running -= 1

    def rest(self, place: Place, error: RetryError) -> None:
        """Prefer the other servers for a while; log only the first failure of an outage."""
        others = "; the other servers do its work" if len(self.places) > 1 else "; retrying"
        if not place.failures:
            log.warning("%s: %s%s", place.url, error, others)
        place.rests_until = time.monotonic() + max(self.wait_seconds(place.failures), error.seconds)
        place.failures += 1

    def revive(self, over: Event) -> str:
        """Return "": servers of a model that does not change are always ready. ``UpdatedServer`` loads weights here."""
        del over
        return ""

    def post(self, place: Place, *, client: httpx2.Client, body: Json, task: Task) -> Json:
        """Make one request; RetryError if a retry can help, ModelError if the server refuses the request."""
        try:
            reply = client.post(place.url, json=body)
            if reply.is_success:
                answer: Json = reply.json()
                return answer
        except (httpx2.HTTPError, ValueError) as error:  # a truncated answer is not JSON
            raise RetryError(f"the server gave no answer: {error!r}", broken=True) from error
        why = f"{reply.status_code} {reply.reason_phrase}: {reply.text[:2000].strip()}"
        if reply.status_code in BUSY or reply.status_code >= 500:
            wait = reply.headers.get("Retry-After", "")
            seconds = min(float(wait), 600.0) if wait.isdigit() else 0.0
            raise RetryError(why, seconds, broken=reply.status_code >= 500)
        if reply.is_redirect:
            why += f" (redirect to {reply.headers['Location']}: redirects are not followed; set sample.server.url)"
        raise ModelError(f"{place.url}: task {task.task_id}: {why}")


def run_concurrently(
    work: Callable[[Request], Part], pending: Iterator[Request], threads: int, over: Event
) -> "SimpleQueue[Part | Exception]":
    """Run requests in threads until ``over`` is set or a request raises; the returned queue gets the results and the exception."""
    ended: SimpleQueue[Part | Exception] = SimpleQueue()
    taking = Lock()

    def run() -> None:
        while not over.is_set():
            with taking:
                request = next(pending, None)
            if request is None:
                return
            try:
                ended.put(work(request))
            except Exception as error:  # raised again in the caller's thread
                ended.put(error)
                over.set()

    for _ in range(threads):
        Thread(target=run, daemon=True).start()  # daemons, so that a server that hangs does not keep the program from ending
    return ended


def before_fence(text: str, *, truncated: bool) -> str:
    """Return the code of a completion, whether or not the server returns the closing fence."""
    code = blocks.before_fence(text)
    return code if truncated or code != text else code.removesuffix("\n")


def ids_of(choice: Json) -> tuple[int, ...] | None:
    """Return the sampled ids if the server returns them: ``token_ids`` (vLLM), or ``content`` with an ``id`` each (llama.cpp)."""
    content = (choice.get("logprobs") or {}).get("content") or []
    ids = choice.get("token_ids") or [entry.get("id") for entry in content]
    return tuple(ids) if ids and all(isinstance(token, int) for token in ids) else None


def logps_of(logprobs: Json | None, tokens: int | None) -> tuple[float, ...] | None:
    """Return the tokens' log-probabilities, nats, of OpenAI's and vLLM's ``token_logprobs`` or llama.cpp's ``content``; None
    unless there is one for each sampled token."""
    if not logprobs:
        return None
    listed = [entry["logprob"] for entry in logprobs["content"]] if "content" in logprobs else logprobs["token_logprobs"]
    logps = tuple(min(float(value), 0.0) for value in listed if value is not None)
    return logps if logps and len(logps) == len(listed) == (tokens or len(listed)) else None


class UpdatedServer(Server):
    """Sample servers after they have loaded weights.

    A server that fails may come back with the weights that it was started with. So such a server gets no request before it has loaded the weights
    again: at the next call, or as soon as all servers have failed.
    """

    def __init__(self, config: SampleConfig, model: ModelConfig, codec: Codec, weights: Path) -> None:
        """Set the folder of the weights; the servers load them at the first request."""
        with_ids = config.server.model_copy(update={"extra": {"return_token_ids": True, **config.server.extra}})
        super().__init__(with_ids, model.name, None if with_ids.prompt == "chat" else codec, style=model.prompt)
        self.weights, self.loading, self.failed_at, self.why = weights.absolute(), Lock(), 0.0, ""
        for place in self.places:
            place.is_outdated = True

    def prepare(self, client: httpx2.Client, over: Event) -> None:
        """Load the weights into all servers at once; return as soon as one server has them, while the others finish loading.

        Raises:
            ModelError: no server could load them, however often they were asked (``retries``).
        """
        self.client, why = client, ""
        for number in range(self.server.retries + 1):
            if why := self.load(over):
                over.wait(self.wait_seconds(number))
            if not why or over.is_set():
                return
        raise ModelError(
            f"{self.url}: no server could load the policy's weights ({why}). Start a server that reads the folder {self.weights.parent} "
            "(docs/online.md) and run the same command again: the run resumes"
        )

    def revive(self, over: Event) -> str:
        """Load the weights again if every server has failed; return "" or why loading fails. Concurrent requests wait for one
        load; a failed load is repeated after ``wait_seconds`` at the earliest."""
        with self.loading:
            if not all(place.is_outdated for place in self.places):
                return ""
            if time.monotonic() - self.failed_at > self.server.wait_seconds:
                self.why = self.load(over)
                self.failed_at = time.monotonic()
            return self.why

    def load(self, over: Event) -> str:
        """Load the weights into every server without them; return "" as soon as one server has them, else why no server could load."""
        missing, ended = [place for place in self.places if place.is_outdated], SimpleQueue[str]()

        def run(place: Place) -> None:
            try:
                self.update(place)
                place.is_outdated, place.failures = False, 0
                ended.put("")
            except (RetryError, ModelError) as error:
                if not over.is_set():
                    self.rest(place, RetryError(f"the server could not load the weights: {error}"))
                ended.put(f"{place.url}: {error}")

        for place in missing:
            Thread(target=run, args=(place,), daemon=True).start()
        why = [ended.get()]
        while why[-1] and len(why) < len(missing):
            why.append(ended.get())
        return "; ".join(why) if why[-1] else ""

    def update(self, place: Place) -> None:
        """Let a server load the weights and clear its prefix cache; RetryError if the server cannot now, ModelError if it refuses."""
        base = place.base.removesuffix("/v1")
        rpc = {"method": "reload_weights", "kwargs": {"weights_path": str(self.weights)}}
        seconds = max(LOAD_SECONDS, self.server.timeout_seconds)
        for route, body in (("/collective_rpc", rpc), ("/reset_prefix_cache", None)):
            try:
                reply = self.client.post(base + route, json=body, timeout=httpx2.Timeout(seconds, connect=30.0))
            except (httpx2.HTTPError, RuntimeError) as error:  # RuntimeError: the client was closed meanwhile
                raise RetryError(f"the server gave no answer: {error!r}", broken=True) from error
            if reply.status_code == 404:
                raise ModelError(f"{base + route}: 404: start vLLM with VLLM_SERVER_DEV_MODE=1, so that it loads new weights")
            if not reply.is_success:
                raise RetryError(f"{base + route}: {reply.status_code} {reply.text[:500].strip()}", broken=True)

    def rest(self, place: Place, error: RetryError) -> None:
        """Prefer the other servers, and send no request to a server that may have been restarted."""
        super().rest(place, error)
        place.is_outdated = place.is_outdated or error.broken


class PolicyServers(Follower):
    """Sample the policy in training: each call writes its weights to a folder, from which the servers load them."""

    def __init__(self, model: ModelConfig, folder: Path) -> None:
        """Set the folder for the weights; nothing is requested yet."""
        self.model, self.folder = model, folder

    def ready(self, model: Any, codec: Codec, config: SampleConfig) -> UpdatedServer:
        """Write the policy's weights and return the servers, which load them at the first request."""
        from upsolve.policy.model import save_model  # which imports torch

        save_model(model, codec, self.folder)
        return UpdatedServer(config, self.model, codec, self.folder)
