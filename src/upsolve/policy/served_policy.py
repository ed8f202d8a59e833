"""The policy in training behind vLLM servers, which load its weights from a folder that they share with the trainer.

vLLM's calls ``/collective_rpc`` (``reload_weights``) and ``/reset_prefix_cache`` exist where a server is started with ``VLLM_SERVER_DEV_MODE=1``.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any

import httpx2

from upsolve.config import ModelConfig, SampleConfig
from upsolve.errors import ModelError
from upsolve.policy.model import codec_of, save_model
from upsolve.policy.request import Part, Request
from upsolve.policy.served import Place, RetryError, Server
from upsolve.policy.tokens import Codec
from upsolve.types import Attempt, Task

__all__ = ["PolicyServers", "UpdatedServer", "servers_with"]

LOAD_SECONDS = 600.0
"""Least time that a server has to load weights."""

log = logging.getLogger(__name__)


class UpdatedServer(Server):
    """Sample servers after they have loaded weights.

    A server that fails may come back with the weights that it was started with. So it gets no further request before it has loaded the
    weights again: at the next call, or as soon as all servers have failed.
    """

    def __init__(self, config: SampleConfig, model: ModelConfig, codec: Codec, weights: Path) -> None:
        """Set the folder of the weights; the servers load them at the first request."""
        with_ids = config.server.model_copy(update={"extra": {"return_token_ids": True, **config.server.extra}})
        super().__init__(with_ids, model.name, None if with_ids.prompt == "chat" else codec, style=model.prompt)
        self.weights, self.loading, self.failed_at, self.why = weights.absolute(), Lock(), 0.0, ""
        for place in self.places:
            place.is_outdated = True

    def prepare(self, client: httpx2.Client, over: Event) -> None:
        """Load the weights into all servers at once; return as soon as one has them, the others follow.

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
        """Load the weights again if every server has failed, or return why that fails; other requests wait meanwhile, and do not ask at once
        again."""
        with self.loading:
            if not all(place.is_outdated for place in self.places):
                return ""
            if time.monotonic() - self.failed_at > self.server.wait_seconds:
                self.why = self.load(over)
                self.failed_at = time.monotonic()
            return self.why

    def load(self, over: Event) -> str:
        """Load the weights into every server without them; return when one has them, or why none could."""
        missing, ended = [place for place in self.places if place.is_outdated], SimpleQueue[str]()

        def run(place: Place) -> None:
            try:
                self.update(place)
                place.is_outdated, place.is_lost, place.failures = False, False, 0
                ended.put("")
            except (RetryError, ModelError) as error:
                if not over.is_set():
                    self.rest(place, RetryError(f"the weights could not be loaded: {error}"))
                ended.put(f"{place.url}: {error}")

        for place in missing:
            Thread(target=run, args=(place,), daemon=True).start()
        why = [ended.get()]
        while why[-1] and len(why) < len(missing):
            why.append(ended.get())
        return "; ".join(why) if why[-1] else ""

    def update(self, place: Place) -> None:
        """Let a server load the weights and forget what it has computed with earlier ones; RetryError if it cannot now, ModelError if it
        refuses."""
        base = place.base.removesuffix("/v1")
        rpc = {"method": "reload_weights", "kwargs": {"weights_path": str(self.weights)}}
        seconds = max(LOAD_SECONDS, self.server.timeout_seconds)
        for route, body in (("/collective_rpc", rpc), ("/reset_prefix_cache", None)):
            try:
                reply = self.client.post(base + route, json=body, timeout=httpx2.Timeout(seconds, connect=30.0))
            except (httpx2.HTTPError, RuntimeError) as error:  # RuntimeError: the client was closed meanwhile
                raise RetryError(f"no answer: {error!r}", broken=True) from error
            if reply.status_code == 404:
                raise ModelError(f"{base + route}: 404: start vLLM with VLLM_SERVER_DEV_MODE=1, so that it loads new weights")
            if not reply.is_success:
                raise RetryError(f"{base + route}: {reply.status_code} {reply.text[:500].strip()}", broken=True)

    def rest(self, place: Place, error: RetryError) -> None:
        """Prefer the other servers, and send nothing to one that may have been restarted."""
        super().rest(place, error)
        place.is_outdated = place.is_outdated or error.broken


class PolicyServers:
    """Sample the policy in training: each call writes its weights to a folder, from which the servers load them."""

    def __init__(self, config: SampleConfig, model: ModelConfig, folder: Path) -> None:
        """Set the folder for the weights; nothing is requested yet."""
        self.config, self.model, self.folder = config, model, folder

    def __call__(
        self, model: Any, codec: Codec, tasks: Sequence[Task], *, config: SampleConfig, **how: Any
    ) -> Iterator[Attempt]:
        """Yield attempts as ``Server`` does, of the policy's current weights."""
        return self.ready(model, codec)(tasks, config=config, **how) if tasks else iter(())

    def sample_requests(
        self, model: Any, codec: Codec, requests: Sequence[Request], *, config: SampleConfig, **how: Any
    ) -> Iterator[Part]:
        """Yield attempts of requests, as a call does of tasks."""
        return self.ready(model, codec).sample_requests(requests, config=config, **how) if requests else iter(())

    def ready(self, model: Any, codec: Codec) -> UpdatedServer:
        """Write the policy's weights and return the servers, which load them at the first request."""
        save_model(model, codec, self.folder)
        return UpdatedServer(self.config, self.model, codec, self.folder)


def servers_with(config: SampleConfig, model: ModelConfig, folder: Path) -> UpdatedServer:
    """Return servers that load the weights in a folder at the first request, with a tokenizer of their own: they may sample in a thread."""
    return UpdatedServer(config, model, codec_of(model, config.server.tokenizer or str(folder)), folder)
