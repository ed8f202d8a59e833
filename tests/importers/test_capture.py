"""The proxy that stores completions: real processes before a real server on random weights."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import pytest
import torch
from typer.testing import CliRunner

from upsolve.archive.store import Archive
from upsolve.cli.main import app
from upsolve.importers.capture import completions
from upsolve.policy.model import load_codec, load_model
from upsolve.types import Status, Task, TestCase, TestKind

ASKED = {"model": "tiny", "temperature": 1, "top_p": 1, "max_tokens": 4}


class Upstream(ThreadingHTTPServer):
    """Answers from a model on random weights; remembers what it was sent. ``fault``: ``refuse`` log-probabilities, ``error``, or ``die``."""

    def __init__(self, model, codec):
        super().__init__(("127.0.0.1", 0), Handler)
        self.model, self.codec, self.sent, self.fault, self.let_go = model, codec, [], "", threading.Event()

    def handle_error(self, *_):
        """Say nothing of connections that were dropped on purpose."""

    @torch.inference_mode()
    def draw(self, text, seed):
        ids, logps, noise = self.codec.tokenizer(text)["input_ids"], [], torch.Generator().manual_seed(seed)
        for _ in range(4):
            logp = self.model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
            ids.append(int(torch.multinomial(logp.exp(), 1, generator=noise)))
            logps.append(float(logp[ids[-1]]))
        return ids[-4:], logps


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Stay silent."""

    def answer(self, code, data, kind="application/json"):
        self.send_response(code)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(data)),
            "X-Kept": "yes",
            "Connection": "close",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.answer(200, json.dumps({"path": self.path, "key": self.headers["Authorization"]}).encode())

    def do_POST(self):
        body, home = json.loads(self.rfile.read(int(self.headers["Content-Length"]))), self.server
        home.sent.append(body)
        if home.fault == "refuse" and "logprobs" in body:
            self.answer(400, b'{"error": {"message": "logprobs is not supported"}}')
        elif home.fault == "error":
            self.answer(503, b'{"error": {"message": "the model is made of cheese"}}')
        else:
            chat = "messages" in body
            ids, logps = home.draw(body["messages"][-1]["content"] if chat else body["prompt"], body.get("seed", 0))
            texts = [home.codec.tokenizer.decode([one]) for one in ids]
            self.stream(chat, ids, texts, logps) if body.get("stream") else self.whole(body, chat, ids, texts, logps)

    def whole(self, body, chat, ids, texts, logps):
        text = "".join(texts)
        choice = {"index": 0, "finish_reason": "length", "token_ids": ids}
        choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        if body.get("logprobs"):
            choice["logprobs"] = {"content": [{"logprob": one} for one in logps]} if chat else {"token_logprobs": logps}
        self.answer(200, json.dumps({"model": "tiny-1", "choices": [choice], "usage": {"completion_tokens": 4}}).encode())

    def stream(self, chat, ids, texts, logps):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, (token, text, logp) in enumerate(zip(ids, texts, logps, strict=True)):
            choice = {"index": 0, "token_ids": [token]} | ({"delta": {"content": text}} if chat else {"text": text})
            choice["logprobs"] = {"content": [{"logprob": logp}]} if chat else {"token_logprobs": [logp]}
            self.event({"model": "tiny-1", "choices": [choice]})
            if number == 0 and self.server.fault == "die":
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
        self.event({"choices": [{"index": 0, "finish_reason": "stop"} | ({"delta": {}} if chat else {"text": ""})]})
        self.event(None)
        if self.server.fault == "linger":
            self.server.let_go.wait(60)
        self.wfile.write(b"0\r\n\r\n")

    def event(self, data):
        line = b"data: " + (json.dumps(data).encode() if data else b"[DONE]") + b"\n\n"
        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")


@pytest.fixture(scope="module")
def tiny(tiny_model):
    return load_model(tiny_model).eval(), load_codec(tiny_model)


@pytest.fixture
def upstream(tiny):
    with Upstream(*tiny) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.let_go.set()
        running.shutdown()
        thread.join()


@pytest.fixture
def start(upstream, tmp_path):
    """Start a proxy as a user does; returns its process and URL."""
    running = []

    def begin():
        words = [sys.executable, "-m", "upsolve", "capture", "--port", "0", str(tmp_path / "archive")]
        words += ["--upstream", f"http://127.0.0.1:{upstream.server_address[1]}/v1"]
        running.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        line = running[-1].stderr.readline()
        return running[-1], re.search(r"http://[\d.:]+/v1", line)[0]

    yield begin
    for one in running:
        one.kill()
        one.communicate()


def stop(process):
    process.send_signal(signal.SIGTERM)
    said, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return said


def post(url, route="chat/completions", **body):
    asked = ASKED | (
        {"messages": [{"role": "user", "content": "Say one."}]} if route[0] == "chat"[0] and "chat" in route else {}
    )
    return httpx2.post(f"{url}/{route}", json=asked | body, timeout=60)


def test_completions_of_several_clients_are_stored_with_tokens_and_log_probabilities(start, upstream, tmp_path):
    task = Task("known", "Print one.", (TestCase(TestKind.STDIO, "", "1"),))
    Archive.create(tmp_path / "archive").append(tasks=[task])
    process, url = start()

    def ask(number):
        if number % 3 == 0:
            return post(url, "completions", prompt="x =", seed=number)
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Print one."}]
        return post(url, messages=messages, seed=number, stream=number % 3 == 1)

    with ThreadPoolExecutor(6) as pool:
        replies = [*pool.map(ask, range(12))]
    assert all(reply.status_code == 200 for reply in replies)
    assert "12 attempts added" in stop(process)
    archive = Archive(tmp_path / "archive")
    attempts, tasks = archive.attempts(), {task.prompt: task.task_id for task in archive.tasks()}
    assert sum(one.count for one in attempts) == 12 and {one.author for one in attempts} == {"tiny-1"}
    assert set(tasks) == {"Print one.", "x ="} and tasks["Print one."] == "known"
    drawn = {(prompt, n): upstream.draw(prompt, n) for n in range(12) for prompt in [("x =" if n % 3 == 0 else "Print one.")]}
    for (prompt, number), (ids, logps) in drawn.items():
        (found,) = (one for one in attempts if json.loads(one.extra)["request"]["seed"] == number)
        assert found.task_id == tasks[prompt] and found.token_ids == tuple(ids) and found.tokens == 4
        assert found.token_logps == pytest.approx(logps, abs=1e-4)
        assert (found.answer or found.code) == "".join(
            upstream.codec.tokenizer.decode([one]) for one in ids
        ) or not found.answer
    assert all(body["logprobs"] in (True, 1) for body in upstream.sent)
    assert not [*(tmp_path / "archive" / "captures").iterdir()]
    assert CliRunner().invoke(app, ["verify", str(archive.path), "--no-cache", "--no-check"]).exit_code == 0
    verdicts = {one.attempt_id: one.status for one in archive.verdicts()}
    known = [one.attempt_id for one in attempts if one.task_id == "known"]
    assert known and all(verdicts[one] is not Status.UNSCORED for one in known), "captured attempts are judged"


def test_requests_and_answers_pass_unchanged(start, upstream):
    process, url = start()
    reply = httpx2.get(f"{url}/models?limit=3", headers={"Authorization": "Bearer k"})
    assert reply.json() == {"path": "/v1/models?limit=3", "key": "Bearer k"} and reply.headers["x-kept"] == "yes"
    post(url, "embeddings", input="a")
    assert "logprobs" not in upstream.sent[-1] and upstream.sent[-1]["input"] == "a"
    post(url, logprobs=False)
    assert upstream.sent[-1]["logprobs"] is False
    upstream.fault = "refuse"
    assert [post(url).status_code for _ in range(2)] == [200, 200]
    assert ["logprobs" in body for body in upstream.sent[-3:]] == [True, False, False]
    stop(process)


def test_errors_of_the_upstream_reach_the_client(start, upstream):
    process, url = start()
    upstream.fault = "error"
    reply = post(url)
    assert reply.status_code == 503 and reply.json()["error"]["message"] == "the model is made of cheese"
    upstream.fault = "die"
    with pytest.raises(httpx2.RemoteProtocolError):
        post(url, stream=True)
    upstream.fault = ""
    assert post(url).status_code == 200
    upstream.shutdown()
    upstream.server_close()
    reply = post(url)
    assert reply.status_code == 502 and "no answer from the upstream" in reply.json()["error"]["message"]
    assert "1 attempts added" in stop(process)


def test_a_client_that_leaves_within_its_request_is_no_error_of_the_proxy(start):
    process, url = start()
    with socket.create_connection(("127.0.0.1", int(url.split(":")[2].split("/")[0]))) as line:
        line.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")
        time.sleep(0.2)  # the proxy waits for the body
    assert httpx2.get(f"{url}/models").status_code == 200
    process.send_signal(signal.SIGTERM)
    assert "Traceback" not in process.communicate(timeout=60)[1] and process.returncode == 0


def test_a_killed_proxy_loses_no_finished_completion(start, upstream, tmp_path):
    process, url = start()
    assert post(url, stream=True).status_code == post(url, seed=1).status_code == 200
    upstream.fault, failures = "linger", []  # the upstream does not end the stream, so the client does not get its end either

    def ask():
        try:
            post(url, seed=2, stream=True)
        except httpx2.HTTPError as error:
            failures.append(error)

    client = threading.Thread(target=ask)
    client.start()
    while len(upstream.sent) < 3:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    client.join()
    upstream.let_go.set()
    assert len(failures) == 1
    upstream.fault = ""
    again, url = start()
    post(url, seed=3)
    assert "3 attempts added" in stop(again)
    seeds = [json.loads(one.extra)["request"].get("seed") for one in Archive(tmp_path / "archive").attempts()]
    assert sorted(seeds, key=str) == [1, 3, None]


def test_what_a_completion_becomes():
    asked = {"messages": [{"role": "user", "content": "p"}], "temperature": 0.5, "top_p": 1}
    logprobs = {"content": [{"logprob": -1.0, "id": 3}, {"logprob": -2.0, "id": 4}]}
    choice = {
        "message": {"content": "```python\nx\n```", "reasoning_content": "hm"},
        "finish_reason": "stop",
        "logprobs": logprobs,
    }
    answer = {"model": "m", "choices": [choice, choice | {"finish_reason": None}, choice | {"finish_reason": "abort"}]}
    (found,) = completions(asked, json.dumps(answer).encode())
    assert found["answer"] == "<think>\nhm\n</think>\n\n```python\nx\n```" and found["prompt"] == "p"
    assert (found["ids"], found["logps"], found["extra"]["logps"]) == ((3, 4), (), (-1.0, -2.0))  # not those at temperature 0.5
    several = {"prompt": ["a", "b"], "n": 2}
    texts = [{"index": number, "text": str(number), "finish_reason": "length"} for number in range(4)]
    found = completions(several, json.dumps({"choices": texts}).encode())
    assert [(one["prompt"], one["answer"], one["truncated"]) for one in found] == [
        (p, str(n), True) for n, p in enumerate("aabb")
    ]
    assert completions(several, b'{"weather": "fine"}') == []
