"""A real server in this process: OpenAI's protocol over the tiny model, with injected faults."""

import threading
import time

import pytest
import torch
from tiny_server import Handler, TinyServer, running

from upsolve.archive.store import Archive
from upsolve.config import ModelConfig, PromptConfig, Recipe, SampleConfig, ServerConfig
from upsolve.errors import ConfigError, ModelError
from upsolve.policy.collect import sample_attempts, samples_of
from upsolve.policy.decoding.sample import sample
from upsolve.policy.engines import sampler
from upsolve.policy.model import load_codec, load_model
from upsolve.policy.request import Request, requests
from upsolve.policy.served import RetryError, Server, ids_of, logps_of
from upsolve.types import Attempt, Task, Turn

TASKS = [Task("a", "short"), Task("b", "a rather longer statement"), Task("c", "middle")]
CONFIG = SampleConfig(samples=3, max_tokens=12, seed=3, batch=4)


@pytest.fixture(scope="module")
def tiny(tiny_model):
    return load_model(tiny_model).eval(), load_codec(tiny_model)


@pytest.fixture
def server(tiny):
    with running(*tiny) as one:
        yield one


def served(server, codec=None, **settings):
    settings = {"wait_seconds": 0.01, "retries": 3, **settings}
    return Server(ServerConfig(url=server.url, **settings), "tiny", codec or server.codec)


def key(attempt):
    return attempt.task_id, attempt.code


def test_sampled_ids_are_stored_if_the_server_returns_them(server):
    config = CONFIG.model_copy(update={"temperature": 1.0, "top_p": 1.0})
    found = list(served(server, extra={"return_token_ids": True})(TASKS, config=config))
    drawn = {(request.task.task_id, tuple(server.drawn[request.seed])) for request in requests(TASKS, CONFIG)}
    assert {(attempt.task_id, attempt.token_ids) for attempt in found} == drawn
    for attempt in found:
        assert len(attempt.token_logps) == attempt.tokens and sum(attempt.token_logps) == pytest.approx(attempt.behavior_logp)
    assert all(attempt.token_ids is None and attempt.token_logps is None for attempt in served(server)(TASKS, config=config))


@pytest.mark.parametrize(("changes", "extra"), [({"temperature": 0.8}, {}), ({"top_p": 0.95}, {}), ({}, {"top_k": 5})])
def test_a_server_does_not_say_how_likely_tokens_were_at_other_settings(server, changes, extra):
    """Its log-probabilities are those before temperature and nucleus."""
    config = CONFIG.model_copy(update={"temperature": 1.0, "top_p": 1.0, **changes})
    found = list(served(server, extra={"return_token_ids": True, **extra})(TASKS, config=config))
    assert all(attempt.token_ids and attempt.behavior_logp < 0 and attempt.token_logps is None for attempt in found)


@torch.inference_mode()
def test_the_recorded_log_probability_is_that_of_the_tokens_read_at_once(server, tiny):
    model, codec = tiny
    found = list(served(server)(TASKS, config=CONFIG))
    assert sorted(a.task_id for a in found) == ["a"] * 3 + ["b"] * 3 + ["c"] * 3
    by_code = {}
    for request in requests(TASKS, CONFIG):
        ids = server.drawn[request.seed]
        prompt = codec.prompt(request.task).ids_P
        logp = model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        by_code[request.task.task_id, codec.decode(ids)] = float(logp[range(len(ids)), ids].sum()), ids
    assert {key(a) for a in found} == set(by_code)
    for attempt in found:
        logp, ids = by_code[key(attempt)]
        assert attempt.behavior_logp == pytest.approx(logp, abs=1e-3) and attempt.tokens == len(ids)
        assert attempt.truncated == (codec.tokenizer.decode(ids[-1:]) not in ("```", "<eos>"))


@pytest.mark.parametrize("prompt", ["ids", "text"])
def test_at_temperature_zero_a_server_gives_the_attempts_of_transformers(server, tiny, prompt):
    config = CONFIG.model_copy(update={"temperature": 0.0, "samples": 1})
    here = sorted(sample(*tiny, TASKS, config=config, author="me"), key=key)
    there = sorted(served(server, prompt=prompt)(TASKS, config=config, author="me"), key=key)
    for one, other in zip(here, there, strict=True):
        assert (one.task_id, one.code, one.tokens, one.truncated) == (other.task_id, other.code, other.tokens, other.truncated)
        assert other.behavior_logp == pytest.approx(one.behavior_logp, abs=1e-3)
        assert other.author == "me" and other.entropy is None


def test_the_same_seed_gives_the_same_attempts_in_any_order(server):
    first = sorted(served(server)(TASKS, config=CONFIG), key=key)
    alone = served(server)(list(reversed(TASKS)), config=CONFIG.model_copy(update={"batch": 1}))
    assert sorted(alone, key=key) == first
    other = served(server)(TASKS, config=CONFIG.model_copy(update={"seed": 4}))
    assert sorted(other, key=key) != first


def test_what_is_sent(server, tiny, monkeypatch):
    monkeypatch.setenv("TINY_KEY", "secret")
    settings = {"model": "tiny-there", "key_variable": "TINY_KEY", "extra": {"top_k": 5}}
    list(served(server, **settings)(TASKS[:1], config=CONFIG.model_copy(update={"samples": 1})))
    [(path, body)] = server.sent
    [request] = requests(TASKS[:1], CONFIG.model_copy(update={"samples": 1}))
    assert path == "/v1/completions" and server.keys == ["Bearer secret"]
    assert body == {
        "model": "tiny-there",
        "max_tokens": 12,
        "temperature": 0.8,
        "top_p": 0.95,
        "seed": request.seed,
        "prompt": list(tiny[1].prompt(TASKS[0]).ids_P),
        "stop": ["```"],
        "logprobs": 1,
        "top_k": 5,
    }


def test_requests_are_sent_with_their_turns_and_prefixes(server, tiny):
    """Greedy: behind the first three characters of its program the model writes the rest; a chat has turns and no prefix."""
    greedy, turn = CONFIG.model_copy(update={"temperature": 0.0, "samples": 1}), Turn(Attempt("a", "x = 1"), None)
    (whole,) = served(server, extra={"return_token_ids": True})(TASKS[:1], config=greedy)
    asked = [Request(TASKS[0], 1, 0.0, part=4, prefix=whole.code[:3]), Request(TASKS[0], 2, 0.0, part=6, turns=(turn,))]
    found = dict(served(server).sample_requests(asked, config=greedy))
    assert found[4].code.startswith(whole.code) and found[4].prefix == whole.code[:3]
    assert found[6].parent_id == turn.attempt.attempt_id
    sent = {body["seed"]: body["prompt"] for _, body in server.sent[1:]}
    assert sent == {one.seed: list(tiny[1].prompt(*one.prompt_key).ids_P) for one in asked}
    chat = Server(ServerConfig(url=server.url, prompt="chat"), "large", None)
    [(_, answered)] = chat.sample_requests(asked[1:], config=greedy)
    assert answered.code == "x = 1" and [one["role"] for one in server.sent[-1][1]["messages"]] == ["user", "assistant", "user"]
    with pytest.raises(ConfigError, match="sample.server.prompt: chat: .* prefix .*; set ids or text"):
        [*chat.sample_requests(asked, config=greedy)]


def test_a_chat_has_no_log_probability_of_its_code_alone(server):
    recipe = Recipe(
        sample=CONFIG.model_copy(update={"engine": "server", "server": ServerConfig(url=server.url, prompt="chat")})
    )
    [attempt] = sampler(recipe.sample, ModelConfig(name="large"))(TASKS[:1], config=CONFIG.model_copy(update={"samples": 1}))
    assert (attempt.code, attempt.behavior_logp, attempt.tokens, attempt.author) == ("x = 1", None, 14, "large")
    [(path, body)] = server.sent
    assert path == "/v1/chat/completions" and body["messages"] == [{"role": "user", "content": "short"}]
    assert "stop" not in body and "logprobs" not in body
    styled = ModelConfig(name="large", prompt=PromptConfig(system="Be brief."))
    [_] = sampler(recipe.sample, styled)(TASKS[:1], config=CONFIG.model_copy(update={"samples": 1}))
    assert server.sent[-1][1]["messages"][0] == {"role": "system", "content": "Be brief."}


@pytest.mark.parametrize(
    "faults", [["drop"], ["half"], ["abort"], [(500, ""), (500, "")], [(503, ""), "drop", (429, "0")]], ids=str
)
def test_transient_errors_are_retried_without_effect(server, faults):
    whole = sorted(served(server)(TASKS, config=CONFIG), key=key)
    server.sent.clear()
    server.faults = list(faults)
    assert sorted(served(server)(TASKS, config=CONFIG), key=key) == whole
    assert len(server.sent) == 9 + len(faults)


def test_retry_after_is_respected(server):
    server.faults = [(429, "1")]
    list(served(server)(TASKS[:1], config=CONFIG.model_copy(update={"samples": 1})))
    assert server.times[1] - server.times[0] >= 1


class Waits(threading.Event):
    """Notes the seconds that somebody waits, and does not wait."""

    def __init__(self):
        super().__init__()
        self.seconds = []

    def wait(self, timeout=None):
        self.seconds.append(timeout)
        return False


def test_waits_double(server):
    """5, 10, 20, 40, 60 and 60 seconds, each times something in [1/2, 1]."""

    def refused(_place):
        raise RetryError("500")

    [request], over = requests(TASKS[:1], CONFIG.model_copy(update={"samples": 1})), Waits()
    with pytest.raises(ModelError, match="7 requests failed"):
        served(server, wait_seconds=5, retries=6).attempt(request, refused, "me", over=over, is_plain=True)
    shares = [wait / most for wait, most in zip(over.seconds, (5, 10, 20, 40, 60, 60), strict=True)]
    assert all(0.5 <= share <= 1 for share in shares) and len({*shares}) == 6


def test_requests_to_a_hanging_server_are_retried(server):
    """As often as it takes: on a busy machine the answers after the first may be late as well."""
    server.faults = ["hang"]
    hasty = served(server, timeout_seconds=0.5, retries=100)
    assert len(list(hasty(TASKS[:1], config=CONFIG.model_copy(update={"samples": 1})))) == 1 and len(server.sent) >= 2


def test_several_servers_share_the_requests_and_do_the_work_of_one_that_dies(server, tiny, caplog):
    whole = sorted(served(server)(TASKS, config=CONFIG), key=key)
    with running(*tiny) as other:
        both = Server(ServerConfig(urls=[server.url, other.url], wait_seconds=0.01, retries=1), "tiny", tiny[1])
        server.sent.clear()
        assert sorted(both(TASKS, config=CONFIG), key=key) == whole and server.sent and other.sent
        assert len(server.sent) + len(other.sent) == 9 and not caplog.text
        other.die(after=1)
        assert sorted(both(TASKS, config=CONFIG), key=key) == whole
        assert "the other servers do its work" in caplog.text and other.drawn_now == 1
        server.die(after=0)
        with pytest.raises(
            ModelError,
            match=rf"{server.url}/completions, {other.url}/completions: the server gave no answer.*2 requests failed",
        ):
            list(both(TASKS, config=CONFIG))


def test_a_refusal_ends_at_once_with_the_servers_words(server):
    server.always = (400, "")
    with pytest.raises(ModelError, match=r"/v1/completions: task a: 400 Bad Request: .*made of cheese"):
        list(served(server)(TASKS[:1], config=CONFIG.model_copy(update={"batch": 1})))
    assert len(server.sent) == 1


def test_a_key_is_not_sent_on_to_where_a_server_redirects(server, tiny, monkeypatch):
    monkeypatch.setenv("TINY_KEY", "secret")
    with TinyServer(*tiny) as other:
        thread = threading.Thread(target=other.serve_forever, args=(0.01,))
        thread.start()
        server.always = {"Location": f"{other.url}/completions"}
        with pytest.raises(ModelError, match=r"307 .*redirects are not followed; set sample.server.url"):
            list(served(server, key_variable="TINY_KEY")(TASKS[:1], config=CONFIG.model_copy(update={"samples": 1})))
        other.shutdown()
        thread.join()
    assert (server.keys, other.keys) == (["Bearer secret"], [])


def test_connections_are_closed_when_sampling_ends(server, monkeypatch):
    monkeypatch.setattr(Handler, "protocol_version", "HTTP/1.1")  # the server keeps connections open
    monkeypatch.setattr(Handler, "timeout", 120)
    sampled = served(server)
    assert len(list(sampled(TASKS, config=CONFIG))) == 9
    until = time.monotonic() + 60
    while server.open and time.monotonic() < until:
        time.sleep(0.01)
    assert server.open == 0


def test_something_else_at_the_address_is_named(server):
    server.always = "strange"
    with pytest.raises(ModelError, match=r"not an answer of the OpenAI protocol: .*weather"):
        list(served(server)(TASKS, config=CONFIG))


def test_sampling_stops_clearly_and_goes_on_with_what_is_missing(server, tiny_model, tmp_path, monkeypatch):
    archive = Archive.create(tmp_path / "archive")
    archive.append(tasks=TASKS)
    there = ServerConfig(url=server.url, retries=1, wait_seconds=0.01)
    config, model = CONFIG.model_copy(update={"engine": "server", "batch": 1, "server": there}), ModelConfig(name=tiny_model)
    server.faults, server.always = [None] * 4, "drop"
    with pytest.raises(
        ModelError, match=r"127.0.0.1.* 2 requests failed .* task b .*Start the server and run the same command again"
    ):
        sample_attempts(archive, config, model=model)
    assert sum(a.count for a in archive.attempts()) == 4  # three at a, one at b
    server.always = None
    assert sample_attempts(archive, config, model=model) == 5
    assert len(server.drawn) == 9  # no seed was drawn twice
    assert {t: sum(a.count for a in archive.attempts() if a.task_id == t) for t in "abc"} == {"a": 3, "b": 3, "c": 3}
    assert sample_attempts(archive, config, model=model) == 0
    monkeypatch.setattr(Archive, "attempts", None)
    archive.append(attempts=[Attempt("a", "x = 1", author="another", count=9)])
    assert samples_of(archive, model.name) == {"a": 3, "b": 3, "c": 3} and samples_of(archive, "another") == {"a": 9}


def test_log_probabilities_count_only_when_there_is_one_a_token():
    assert logps_of({"token_logprobs": [-1.0, -0.5]}, 2) == (-1.0, -0.5)
    assert logps_of({"content": [{"logprob": -1.0}, {"logprob": -0.25}]}, None) == (-1.0, -0.25)
    assert logps_of({"token_logprobs": [-1.0, -0.5]}, 3) is None  # the fence's is missing
    assert logps_of({"token_logprobs": [None, -0.5]}, 2) is None
    assert logps_of({"token_logprobs": []}, None) is None
    assert logps_of(None, 2) is None


def test_ids_are_read_in_the_form_of_vllm_and_of_llama_cpp():
    assert ids_of({"token_ids": [3, 4]}) == (3, 4)
    assert ids_of({"logprobs": {"content": [{"id": 3, "logprob": -1.0}, {"id": 4, "logprob": -2.0}]}}) == (3, 4)
    assert ids_of({"logprobs": {"content": [{"token": "a", "logprob": -1.0}]}}) is None  # OpenAI gives the text alone
    assert ids_of({"logprobs": None}) is None


def test_wrong_settings_are_named(tiny, monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(ConfigError, match="the environment has no NO_SUCH_KEY"):
        Server(ServerConfig(key_variable="NO_SUCH_KEY"), "tiny", tiny[1])
    with pytest.raises(ValueError, match="sample.server.prompt: ids needs a codec"):
        Server(ServerConfig(), "tiny", None)
    with pytest.raises(ValueError, match="server.url"):
        SampleConfig.model_validate({"server": {"url": "localhost:8000"}})


def test_vllm_that_is_not_there_is_named(tiny_model, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "vllm", None)
    with pytest.raises(ModelError, match="pip install vllm"):
        sampler(SampleConfig(engine="vllm"), ModelConfig(name=tiny_model))


def test_seeds_of_a_task_differ_and_do_not_depend_on_other_tasks():
    seeds = [request.seed for request in requests(TASKS, SampleConfig(samples=300))]
    assert len({*seeds[:300]}) == 300 and all(0 <= seed < 2**31 for seed in seeds)
    assert [request.seed for request in requests(TASKS[2:], SampleConfig(samples=300))] == seeds[600:]
