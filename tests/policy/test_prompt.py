from dataclasses import replace

import pytest
from tokenizers.processors import TemplateProcessing

from upsolve.config import ModelConfig, PromptConfig, SampleConfig, Shot, VerifyConfig
from upsolve.errors import ModelError
from upsolve.evaluate.samples import SampledModel
from upsolve.policy.model import codec_of, load_codec
from upsolve.policy.prompt import completion_text, messages, opening, plain_prompt, prompts_id
from upsolve.policy.tokens import Codec
from upsolve.types import Attempt, Task, TestCase, TestKind

TASK = Task("t", " Add one. ", tuple(TestCase(TestKind.CALL, f"f({i})", str(i + 1), hidden=i == 1) for i in range(6)), "f")


def test_hidden_tests_stay_hidden():
    assert messages(TASK) == [
        {"role": "user", "content": "Add one.\n\nExamples:\nassert f(0) == 1\nassert f(2) == 3\nassert f(3) == 4"}
    ]
    assert opening(TASK) == "```python\n"
    program = Task("p", "Sum.", (TestCase(TestKind.STDIO, "1 2\n", "3\n"),), language="c++")
    assert messages(program)[0]["content"].endswith("Input:\n1 2\nOutput:\n3") and opening(program) == "```c++\n"


STYLE = PromptConfig(system="You write Python.", shots=(Shot(prompt="Double x. ", code="def g(x):\n    return 2 * x\n"),))
SHOWN = "```python\ndef g(x):\n    return 2 * x\n```"
CHATML = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def test_a_system_message_and_examples_stand_before_the_task():
    chat = messages(TASK, STYLE)
    assert chat[:3] == [
        {"role": "system", "content": "You write Python."},
        {"role": "user", "content": "Double x."},
        {"role": "assistant", "content": SHOWN},
    ]
    assert chat[3:] == messages(TASK)
    assert plain_prompt(TASK, STYLE) == f"You write Python.\n\nDouble x.\n\n{SHOWN}\n\n{plain_prompt(TASK)}"
    query = messages(Task("q", "All.", language="sql"), STYLE)
    assert query[2]["content"].startswith("```sql\n"), "the examples are in the language of the task"


def test_the_model_sees_them_with_and_without_a_chat_template(tiny_model):
    plain, codec = load_codec(tiny_model), codec_of(ModelConfig(name=tiny_model, prompt=STYLE))
    assert codec.prompt_text(TASK) == plain_prompt(TASK, STYLE) and codec.prompt(TASK) != plain.prompt(TASK)
    answers = codec_of(ModelConfig(name=tiny_model, prompt=STYLE, completion="answer"))
    assert answers.prompt_text(TASK) + "```python\n" == codec.prompt_text(TASK)
    codec.tokenizer.chat_template = CHATML
    said = Codec(codec.tokenizer, style=STYLE).prompt_text(TASK)
    assert said.startswith(f"<|system|>You write Python.\n<|user|>Double x.\n<|assistant|>{SHOWN}\n<|user|>Add one.")
    assert said.endswith("<|assistant|>```python\n")


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (
            "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}",
            "no system role",
        ),
        (
            "{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}",
            r"model\.prompt\.system: .* remove the key",
        ),
        ("{{ messages[0].content + messages[-1].content }}", r"model\.prompt\.shots: .* remove the key"),
    ],
)
def test_a_template_that_does_not_show_all_of_it_is_refused(tiny_model, template, message):
    tokenizer = load_codec(tiny_model).tokenizer
    tokenizer.chat_template = template
    with pytest.raises(ModelError, match=message):
        Codec(tokenizer, style=STYLE)


def test_other_prompts_have_another_id():
    model = SampledModel(ModelConfig(name="m"), SampleConfig(), VerifyConfig())
    other = SampledModel(ModelConfig(name="m", prompt=STYLE), SampleConfig(), VerifyConfig())
    assert prompts_id([TASK], STYLE) != prompts_id([TASK])
    assert model.fingerprint([TASK], SampleConfig()) != other.fingerprint([TASK], SampleConfig())
    in_ruby = replace(TASK, language="ruby")
    assert model.fingerprint([TASK], SampleConfig()) != model.fingerprint([in_ruby], SampleConfig())


def test_the_prompt_requests_a_query():
    task = Task("q", "CREATE TABLE b (a);\n\nAll of a.", language="sql")
    assert messages(task)[0]["content"].endswith("All of a.\n\nAnswer with one query for SQLite.")
    assert opening(task) == "```sql\n"
    style = PromptConfig(system="Answer with one query for SQLite.", dialect=False)
    assert [message["content"] for message in messages(task, style)] == [style.system, task.prompt]


def test_completion_and_decoding_are_inverse(tiny_model):
    codec = load_codec(tiny_model)
    for code in ("def f(x):\n    return x + 1", "x = 'é → 🙂'", "a\r\nb"):
        ids = codec.completion(code)
        assert codec.decode(list(ids)) == code
        spans = codec.offsets(code)
        assert len(spans) == len(ids) and spans[0][0] == 0 and spans[-1][1] == len(completion_text(code))


def test_attempts_encoded_together_have_the_ids_of_each_alone(tiny_model, monkeypatch):
    codes = ["x = 1", "y = 'é'", "x = 1", "pass"]
    attempts = [Attempt("t", code, truncated=code == "pass") for code in codes]
    attempts[2] = replace(attempts[2], token_ids=load_codec(tiny_model).completion("x = 1", closed=False))
    attempts[3] = replace(attempts[3], token_ids=(1, 2))  # of another text
    alone = [load_codec(tiny_model).ids_of(attempt) for attempt in attempts]
    codec = load_codec(tiny_model)
    assert codec.ids_of_all(attempts) == alone and codec.ids_of_all([]) == []
    assert alone[2] == attempts[2].token_ids and alone[0] == codec.completion("x = 1") != alone[2]
    monkeypatch.setattr("upsolve.policy.tokens.CACHED", 2)
    few = load_codec(tiny_model)
    assert [few.ids_of_all(attempts), few.ids_of_all(attempts[:2])] == [alone, alone[:2]] and few.ids_of_all(
        attempts[1:]
    ) == alone[1:]
    few.completion("last")
    assert [*few.cached] == [("last", True)], "no more than CACHED once a new one comes"


def test_a_prompt_begins_as_the_tokenizer_begins_a_text_unless_a_template_says_how(tiny_model):
    codec = load_codec(tiny_model)
    plain, tokenizer = codec.prompt(TASK).ids_P, codec.tokenizer
    tokenizer.bos_token = "!"
    assert Codec(tokenizer).prompt(TASK).ids_P == plain, "a tokenizer that begins no text with it"
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing("! $A", special_tokens=[("!", tokenizer.bos_token_id)])
    assert Codec(tokenizer).prompt(TASK).ids_P == (tokenizer.bos_token_id, *plain)
    assert Codec(tokenizer).completion("x = 1") == codec.completion("x = 1")
    tokenizer.chat_template = "{{ messages[0].content + '\n\n' }}"
    assert Codec(tokenizer).prompt(TASK).ids_P == plain
