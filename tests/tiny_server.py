"""A real server in this process: OpenAI's protocol over the tiny model, with injected faults, and vLLM's calls to load weights."""

import json
import socket
import struct
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from weakref import WeakKeyDictionary

import torch

from upsolve.policy.model import load_codec, load_model

FINISH = {True: "stop", False: "length"}
DRAWN = WeakKeyDictionary()
"""What models have drawn, by request."""


class TinyServer(ThreadingHTTPServer):
    """Answers from a model, after the faults that were asked for; remembers what it was sent and what it drew."""

    daemon_threads = False

    def __init__(self, model, codec, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.model, self.codec, self.lock = model, codec, threading.Lock()
        self.faults, self.always, self.sent, self.keys, self.times, self.drawn = [], None, [], [], [], {}
        self.open, self.let_go = 0, threading.Event()
        self.start, self.loaded, self.dies_after, self.drawn_now = model, [], None, 0
        self.holds, self.held, self.restarts, self.since = None, threading.Event(), None, 0

    def die(self, after):
        """Answer so many more requests, then drop each connection."""
        self.dies_after, self.drawn_now = after, 0

    def come_back(self):
        """Answer again, with the weights that the server was started with."""
        self.dies_after, self.model = None, self.start

    def handle_error(self, *_):
        """Say nothing of connections that were dropped on purpose."""

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def draw(self, body):
        """Return ids, their log-probabilities, and if it stopped; the same for equal requests to the same weights, so drawn once."""
        prompt = body["prompt"] if isinstance(body["prompt"], list) else self.codec.tokenizer(body["prompt"])["input_ids"]
        key = (*prompt, body["seed"], body["max_tokens"], body["temperature"])
        known = DRAWN.setdefault(self.model, {})
        if key not in known:
            known[key] = self.tokens(body, prompt)
        return known[key]

    @torch.inference_mode()
    def tokens(self, body, prompt):
        """Draw token by token, with transformers' own cache."""
        noise = torch.Generator().manual_seed(body["seed"])
        ids, logp, given, cache = [], [], prompt, None
        while len(ids) < body["max_tokens"]:
            out = self.model(torch.tensor([given]), past_key_values=cache, use_cache=True)
            logits, cache = out.logits[0, -1], out.past_key_values
            warm = (logits / body["temperature"]).softmax(-1) if body["temperature"] else None
            token = int(logits.argmax()) if warm is None else int(torch.multinomial(warm, 1, generator=noise))
            ids.append(token)
            logp.append(float(logits.log_softmax(-1)[token]))
            given = [token]
            if token == 0 or "```" in self.codec.tokenizer.decode([token]):
                return ids, logp, True
        return ids, logp, False


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        """Stay silent."""

    def setup(self):
        super().setup()
        with self.server.lock:
            self.server.open += 1

    def finish(self):
        super().finish()
        with self.server.lock:
            self.server.open -= 1

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"null")
        home = self.server
        if home.dies_after is not None and home.drawn_now >= home.dies_after:
            self.drop()
            return
        if self.path in ("/collective_rpc", "/reset_prefix_cache"):
            if self.path == "/collective_rpc":
                assert body["method"] == "reload_weights"
                place = Path(body["kwargs"]["weights_path"])
                home.model = load_model(str(place)).eval()
                print("loaded", place.name, flush=True)
                home.loaded.append(place.name)
                home.since = home.drawn_now
                if home.holds == place.name:
                    home.held.set()
                    home.let_go.wait(60)
            self.reply(200, {"results": [None]})
            return
        if home.loaded and home.restarts == home.loaded[-1] and home.drawn_now > home.since:
            home.restarts, home.model = None, home.start
            self.drop()
            return
        with home.lock:
            if home.dies_after is not None and home.drawn_now >= home.dies_after:  # another request was the last
                self.drop()
                return
            home.sent.append((self.path, body))
            home.keys.append(self.headers.get("Authorization"))
            home.times.append(time.monotonic())
            fault = home.faults.pop(0) if home.faults else home.always
            if fault is None:
                ids, logp, stopped = home.draw(body) if "prompt" in body else ([5, 6], [-1.0, -2.0], True)
                home.drawn[body["seed"]] = ids
                home.drawn_now += 1
        if fault == "drop":
            self.drop()
        elif fault == "hang":
            home.let_go.wait(60)
        elif fault == "half":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"choices": [')
        elif fault == "strange":
            self.reply(200, {"weather": "fine"})
        elif fault == "abort":
            self.reply(200, {"choices": [{"text": "", "finish_reason": "abort"}]})
        elif isinstance(fault, dict):
            self.reply(307, {}, fault)
        elif fault is not None:
            code, seconds = fault
            self.reply(code, {"error": {"message": "the model is made of cheese"}}, {"Retry-After": seconds} if seconds else {})
        elif "prompt" in body:
            text = home.codec.tokenizer.decode(ids, skip_special_tokens=True).partition("```")[0]
            choice = {"text": text, "finish_reason": FINISH[stopped], "logprobs": {"token_logprobs": logp}}
            if body.get("return_token_ids"):
                choice["token_ids"] = ids
            self.reply(200, {"choices": [choice], "usage": {"completion_tokens": len(ids)}})
        else:
            said = {"role": "assistant", "content": "Here it is:\n```python\nx = 1\n```\nEnjoy."}
            choice = {"message": said, "finish_reason": "stop", "logprobs": {"content": [{"logprob": -1.0}]}}
            self.reply(200, {"choices": [choice], "usage": {"completion_tokens": 14}})

    def reply(self, code, answer, headers=()):
        data = json.dumps(answer).encode()
        self.send_response(code)
        for name, value in {"Content-Length": str(len(data)), **dict(headers)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def drop(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


@contextmanager
def running(model, codec):
    """A server in a thread."""
    with TinyServer(model, codec) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.let_go.set()
            server.shutdown()
            thread.join()


if __name__ == "__main__":  # python tiny_server.py MODEL PORT
    torch.set_num_threads(1)
    TinyServer(load_model(sys.argv[1]).eval(), load_codec(sys.argv[1]), int(sys.argv[2])).serve_forever()
