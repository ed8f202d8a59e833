"""One key for judges here, on a cluster and at services: the same verdicts, also when a judge ends in the middle."""

import os
import signal
import socket
import threading
from collections import Counter
from dataclasses import replace

import pytest
from test_service import SETTINGS, TASK, Server, attempts
from typer.testing import CliRunner

from upsolve.cli.main import app
from upsolve.config import load_recipe
from upsolve.errors import ConfigError, JudgeError
from upsolve.types import Attempt
from upsolve.verify.limits import JudgeSettings, judge_settings
from upsolve.verify.pool.pool import judged, verify
from upsolve.verify.pool.services import PATIENCE_SECONDS, Services, services
from upsolve.verify.service import client

SERVE = ("-m", "upsolve", "verify", "--serve", "--workers", "1", "--no-cache", "--port")
TIMES = {"wall_seconds": None, "cpu_seconds": None, "memory_bytes": None}


def timeless(verdicts):
    return [replace(verdict, **TIMES) for verdict in verdicts]


@pytest.fixture(autouse=True)
def no_token(monkeypatch):
    monkeypatch.delenv("UPSOLVE_TOKEN", raising=False)
    services.cache_clear()
    yield
    services.cache_clear()


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    running = Server(tmp_path_factory.mktemp("judge"), *SERVE, "0")
    yield running
    running.stop()


def nobody():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


@pytest.mark.slow
def test_without_any_judge_one_sentence_says_so(judge, monkeypatch):
    settings = replace(SETTINGS, executor=f"{nobody()},{nobody()}")
    with pytest.raises(
        JudgeError, match=r"verify.executor: no judge answers \(http://.*; http://.*\); start one with `upsolve verify --serve`"
    ):
        verify(attempts(3), settings)
    gone = Services([judge.url], patience_seconds=0.2)
    monkeypatch.setattr("upsolve.verify.pool.pool.services", lambda _executor: gone)
    gone.slots()
    gone.places[0].client.url, gone.places[0].workers = nobody(), 0
    with pytest.raises(JudgeError, match="run the same command again: verdicts received so far are kept"):
        verify(attempts(3), replace(settings, workers=1))


@pytest.mark.slow
def test_a_judge_of_another_version_is_refused(judge, monkeypatch):
    monkeypatch.setattr("upsolve.verify.pool.services.JUDGE", "upsolve-9")
    with pytest.raises(JudgeError, match=r"runs upsolve .* \(upsolve-2\), and this is .* verdicts could differ"):
        verify(attempts(1), replace(SETTINGS, executor=judge.url))


@pytest.mark.slow
def test_what_a_service_does_not_take_at_once_is_sent_one_by_one(judge, monkeypatch):
    whole = client.body_of

    def limited(pairs, settings):
        if len(pairs) > 1:
            raise client.TooLargeError("413")
        return whole(pairs, settings)

    monkeypatch.setattr(client, "body_of", limited)
    assert [v.status for v in verify(attempts(5), replace(SETTINGS, executor=judge.url))] == [
        "failed",
        "passed",
        "passed",
    ] * 1 + [
        "failed",
        "passed",
    ]


@pytest.mark.slow
def test_a_batch_that_is_stopped_does_not_wait_for_a_service(judge):
    endless = [(TASK, Attempt("t", f"import time\n\ndef f(x):\n    time.sleep(9{k})\n")) for k in range(4)]
    found = judged([*attempts(1), *endless], replace(SETTINGS, executor=judge.url, workers=2))
    assert next(found)[0] == 0
    found.close()


def test_the_key_takes_names_and_addresses_and_nothing_else():
    for given in ("local", "ray", "http://a:8000", "https://a/judge,http://b:8000"):
        assert judge_settings(load_recipe(None, [f"verify.executor={given}"]).verify).executor == given
    for wrong in ("slurm", "a:8000", "http://a:8000,ray", "local,ray"):
        with pytest.raises(ConfigError, match="must be local, ray, or URLs of judges with commas"):
            load_recipe(None, [f"verify.executor={wrong}"])
        with pytest.raises(ValueError, match="executor must be local, ray or URLs"):
            JudgeSettings(executor=wrong)
    refused = CliRunner().invoke(app, ["verify", "--serve", "--executor", "http://a:8000"])
    assert refused.exit_code and "judges by local or ray" in str(refused.output) + str(refused.exception)


@pytest.mark.slow
def test_a_service_that_is_killed_loses_and_changes_no_verdict(tmp_path):
    """The first is killed after a third of the verdicts and started again after the second third; UPSOLVE_VERDICTS=100000 runs them all."""
    count = int(os.environ.get("UPSOLVE_VERDICTS", "3000"))
    for name in "ab":
        (tmp_path / name).mkdir()
    first, second = (Server(tmp_path / name, *SERVE, "0") for name in "ab")
    settings = replace(SETTINGS, executor=f"{first.url},{second.url}")
    assert services(settings.executor).patience_seconds == PATIENCE_SECONDS
    seen, wrong, again = Counter(), [], []
    kept = {}

    def restart():
        again.append(Server(tmp_path / "a", *SERVE, first.port))

    try:
        for done, (index, verdict) in enumerate(judged(iter(attempts(count)), settings), 1):
            seen[index] += 1
            if verdict.status != ("failed" if index % 3 == 0 else "passed"):
                wrong.append((index, verdict))
            if index < 200:
                kept[index] = verdict
            if done == count // 3:
                first.stop(signal.SIGKILL)
            if done == 2 * count // 3:
                threading.Thread(target=restart).start()
    finally:
        second.stop()
        for server in again:
            server.stop()
    assert len(seen) == count and set(seen.values()) == {1} and not wrong
    assert timeless(kept[k] for k in range(200)) == timeless(verify(attempts(200), SETTINGS))
