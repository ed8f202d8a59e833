"""Requests with earlier turns and a prefix: their prompts, what each sampler makes of them, and what training reads from the attempts."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from transformers import AutoTokenizer

from upsolve.archive.store import Archive
from upsolve.config import AdvantageConfig, ObjectiveConfig, RewardConfig, SampleConfig
from upsolve.errors import ConfigError
from upsolve.policy.decoding import sample as sample_module
from upsolve.policy.decoding.sample import LocalModel, PolicyModel, generate_attempts
from upsolve.policy.model import load_codec, load_model
from upsolve.policy.prompt import feedback
from upsolve.policy.request import Request, of_policy, request_sampler, requests
from upsolve.policy.tokens import Codec
from upsolve.policy.vllm import Vllm
from upsolve.reward.formula import Rewarded
from upsolve.train.data.encode import Encoding, encode_groups, tokenize_groups
from upsolve.types import Attempt, Group, Status, Task, Turn, Verdict

TASK = Task("t", "Double x.")
WRONG = Attempt("t", "def f(x): return x")
TURN = Turn(WRONG, Verdict(WRONG.attempt_id, Status.FAILED, 0, 1, error_message="test 1: f(2) gave 2, expected 4"))
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
SAID = f"```python\n{WRONG.code}\n```"
CONFIG = SampleConfig(samples=2, max_tokens=12, temperature=0.0, batch=4)


def codec_of(folder, template="", **options):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = template or None
    return Codec(tokenizer, **options)


@pytest.fixture(scope="module")
def local(tiny_model):
    return LocalModel(load_model(tiny_model), load_codec(tiny_model))


@pytest.mark.parametrize(
    ("template", "text"),
    [
        (TEMPLATE, f"<user>Double x.<assistant>{SAID}<user>{feedback(TURN.verdict)}<assistant>```python\ndef g"),
        ("", f"Double x.\n\n{SAID}\n\n{feedback(TURN.verdict)}\n\n```python\ndef g"),
    ],
)
def test_the_prompt_has_turns_and_prefix_in_the_tokens_of_the_template(tiny_model, template, text):
    codec = codec_of(tiny_model, template)
    key = Request(TASK, 0, 1.0, turns=(TURN,), prefix="def g").prompt_key
    assert codec.prompt_text(*key) == text and codec.tokenizer.decode(codec.prompt(*key).ids_P) == text
    answers = codec_of(tiny_model, template, answers=True)
    assert answers.prompt_text(*key) == text.removesuffix("```python\ndef g") + "def g"
    assert codec.prompt(TASK) == codec.prompt(TASK, (), "")


@pytest.mark.parametrize("batched", [True, False])
def test_a_model_continues_its_own_program(local, monkeypatch, batched):
    """Greedy, one token a character: behind the first four characters of its program the model writes the rest of it."""
    if not batched:
        monkeypatch.setattr(sample_module, "problem_of", lambda *_: "")
        monkeypatch.setattr(sample_module, "decode_batched", generate_attempts)
    (whole,) = local([TASK], config=CONFIG.model_copy(update={"samples": 1}))
    given = local.codec.text.decode(whole.token_ids[:4])
    asked = [
        Request(TASK, 7, 0.0, part=5, prefix=given),
        Request(TASK, 7, 0.0, part=9),
        Request(TASK, 8, 0.0, part=3, turns=(TURN,)),
    ]
    config = CONFIG.model_copy(update={"max_tokens": 8})
    found = dict(local.sample_requests(asked, config=config, author="me"))
    assert found[5].token_ids == whole.token_ids[4:] and found[5].code == whole.code
    assert (found[5].prefix, found[5].parent_id, found[5].author) == (given, "", "me")
    assert found[9].token_ids == whole.token_ids[:8] and found[9].prefix == ""
    assert (found[3].parent_id, found[3].prefix) == (WRONG.attempt_id, "")


def test_requests_of_tasks_give_the_attempts_of_the_tasks(local):
    config, tasks = CONFIG.model_copy(update={"temperature": 1.0}), [TASK, Task("u", "Say.")]
    of_tasks = sorted(local(tasks, config=config), key=lambda one: (one.task_id, one.token_ids))
    made = [one for _, one in local.sample_requests([*requests(tasks, config)], config=config)]
    assert [one.token_ids for one in sorted(made, key=lambda one: (one.task_id, one.token_ids))] == [
        one.token_ids for one in of_tasks
    ]
    policy = of_policy(PolicyModel(), local.model, local.codec)
    assert sorted(policy(tasks, config=config), key=lambda one: (one.task_id, one.token_ids)) == of_tasks
    assert [*request_sampler(policy, "x").sample_requests([], config=config)] == []


def test_a_sampler_of_tasks_alone_is_refused():
    def plain(tasks, *, config, author="", on_done=None):
        """Sample tasks."""

    for sampler in (plain, of_policy(plain, None, None)):
        with pytest.raises(
            ConfigError, match="--rounds: the engine samples tasks alone, without earlier turns or a prefix; use"
        ):
            request_sampler(sampler, "--rounds")


def test_vllm_gets_the_prompt_of_each_request(local):
    engine, given = object.__new__(Vllm), []

    def generate(batch, settings, **_):
        given.extend(zip((one["prompt_token_ids"] for one in batch), settings, strict=True))
        logprobs = [{33: SimpleNamespace(logprob=-0.5)}]
        return [SimpleNamespace(outputs=[SimpleNamespace(token_ids=[33], logprobs=logprobs, finish_reason="stop")])] * len(
            batch
        )

    engine.llm, engine.codec, engine.model = SimpleNamespace(generate=generate), local.codec, "m"
    engine.settings_of, engine.sleeps = lambda **settings: settings["seed"], False
    asked = [Request(TASK, 7, 0.0, part=2, turns=(TURN,), prefix="ab"), Request(TASK, 8, 0.0, part=1)]
    (first, continued), (second, plain) = engine.sample_requests(asked, config=CONFIG)
    assert given == [(list(local.codec.prompt(*one.prompt_key).ids_P), one.seed) for one in asked]
    assert (first, second, continued.code, continued.parent_id) == (2, 1, "ab" + plain.code, WRONG.attempt_id)
    assert continued.token_ids == plain.token_ids == (33,)


def test_only_what_the_author_wrote_is_trained_on(tiny_model, tmp_path):
    """Two attempts of which one was given its first line: two prompts, and the targets are the rests."""
    codec, code = codec_of(tiny_model), "a = 1\nprint(a)"
    continued = Attempt("t", code, prefix="a = 1\n", token_ids=tuple(codec.text.ids(["print(a)\n```"])[0]), author="me")
    whole = Attempt("t", code, author="you")
    archive = Archive.create(tmp_path / "archive")
    archive.append(tasks=[TASK], attempts=[continued, whole])
    assert archive.attempts() == [continued, whole]
    verdicts = tuple(Verdict(continued.attempt_id, status, 0, 1) for status in (Status.PASSED, Status.FAILED))
    rewarded = Rewarded(Group(TASK, (continued, whole), verdicts), np.array([1.0, 0.0]), ((), ()), {}, {})
    config = Encoding(codec, 1000, RewardConfig(), AdvantageConfig(kind="centred"), ObjectiveConfig())
    encoded, left_out, _ = encode_groups(tokenize_groups([rewarded], config), config)
    texts = [(codec.tokenizer.decode(one.prompt_P), codec.tokenizer.decode(one.attempts[0].ids_R)) for one in encoded]
    assert (
        texts
        == [
            ("Double x.\n\n```python\na = 1\n", "print(a)\n```"),
            ("Double x.\n\n```python\n", "a = 1\nprint(a)\n```"),
        ]
        and not left_out
    )
    assert codec.spans_of(continued)[:2] == [(6, 7), (7, 8)] and codec.spans_of(whole)[:2] == [(0, 1), (1, 2)]
    assert codec.ids_of(replace(continued, token_ids=None)) == continued.token_ids
    assert codec.prefix_of(replace(continued, prefix="b = 1\n")) == ""


def test_a_whole_answer_continues_too(tiny_model):
    codec = codec_of(tiny_model, answers=True)
    text = "print(a)\n```\nDone."
    code, answer = codec.code_and_answer(codec.text.ids([text])[0], TASK, "Easy.\n```python\na = 1\n")
    assert (code, answer) == ("a = 1\nprint(a)", "Easy.\n```python\na = 1\n" + text)
    attempt = Attempt("t", code, answer=answer, prefix="Easy.\n```python\na = 1\n")
    assert codec.text.decode(codec.ids_of(attempt)) == text + "<eos>"
    assert codec.spans_of(attempt)[0] == (6, 7), "counted from the start of the code"


def test_log_probabilities_after_a_parent_count_where_the_prompt_shows_it(tiny_model):
    codec = codec_of(tiny_model)
    child = Attempt("t", "b", parent_id=WRONG.attempt_id, token_ids=tuple(codec.text.ids(["b\n```"])[0]), behavior_logp=-2.0)
    child = replace(child, token_logps=(-2.0,) + (0.0,) * (len(child.token_ids) - 1))
    verdict = Verdict(child.attempt_id, Status.PASSED, 1, 1)
    config = Encoding(codec, 1000, RewardConfig(), AdvantageConfig(kind="passed"), ObjectiveConfig())
    found = []
    for turns in ((), ((TURN,),)):
        rewarded = Rewarded(Group(TASK, (child,), (verdict,), turns=turns), np.array([1.0]), ((),), {}, {})
        found.append(encode_groups(tokenize_groups([rewarded], config), config).groups[0].attempts[0].behavior)
    assert np.isnan(found[0]) and found[1] == -2.0
