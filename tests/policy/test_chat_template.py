"""What a chat template decides: the end of a turn, thoughts, arguments, the date."""

import datetime
from dataclasses import replace

import pytest

from upsolve.config import ModelConfig, PromptConfig, SampleConfig
from upsolve.errors import ModelError
from upsolve.policy.decoding.sample import sample
from upsolve.policy.model import load_codec, load_model
from upsolve.policy.prompt import prompts_id
from upsolve.policy.tokens import Codec
from upsolve.types import Attempt, Task

TASK = Task("t", "Double.", entry_point="f")
CODE = "def f(x):\n    return 2 * x"
TURNS = (
    "{% for m in messages %}<start_of_turn>{{ m.role }}\n{{ m.content }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
THINKS = TURNS.replace("model\n", "model\n<think>\n")
SWITCH = TURNS.replace("model\n", "model\n{% if enable_thinking is not defined or enable_thinking %}<think>\n{% endif %}")
DATED = "{{ date_string if date_string is defined else strftime_now('%d %b %Y') }}\n" + TURNS


@pytest.fixture(scope="module")
def tokenizer_of(tiny_model):
    def made(template):
        found = load_codec(tiny_model).tokenizer
        found.add_special_tokens({"additional_special_tokens": ["<start_of_turn>", "<end_of_turn>"]})
        found.add_tokens(["<think>", "</think>"])
        found.chat_template = template
        return found

    return made


def test_an_answer_ends_as_the_template_ends_a_turn(tokenizer_of):
    tokenizer = tokenizer_of(TURNS)
    codec, end = Codec(tokenizer, answers=True), tokenizer.convert_tokens_to_ids("<end_of_turn>")
    ids = codec.ids_of(Attempt("t", CODE, answer=f"So:\n```python\n{CODE}\n```"))
    assert ids[-1] == end and ids.count(end) == 1 and tokenizer.eos_token_id not in ids
    assert {end, tokenizer.eos_token_id} <= {*codec.stop_mask(len(tokenizer)).nonzero()[0]} <= {*codec.ends}
    assert codec.decode([*ids]) == f"So:\n```python\n{CODE}\n```"


@pytest.mark.parametrize("template", ["{% for m in messages %}{{ m.content }}\n{% endfor %}", "{{ messages[0].content }}"])
def test_without_a_token_that_ends_turns_an_answer_ends_with_the_text(tokenizer_of, template):
    tokenizer = tokenizer_of(template)
    assert Codec(tokenizer, answers=True).end == tokenizer.eos_token_id


def test_the_end_of_a_turn_ends_a_sample(tokenizer_of, tiny_model):
    import torch

    codec, model = Codec(tokenizer_of(TURNS), answers=True), load_model(tiny_model)
    model.resize_token_embeddings(len(codec.tokenizer))
    model.lm_head.bias = torch.nn.Parameter(torch.zeros(len(codec.tokenizer)))
    model.lm_head.bias.data[codec.end] = 1000.0
    (attempt,) = sample(model, codec, [TASK], config=SampleConfig(samples=1, max_tokens=8, temperature=0.0))
    assert attempt.token_ids == (codec.end,) and not attempt.truncated and attempt.answer == ""


@pytest.mark.parametrize("template", [THINKS, SWITCH])
def test_code_is_written_after_a_thought_that_the_prompt_opens(tokenizer_of, template):
    text = Codec(tokenizer_of(template)).prompt_text(TASK)
    assert text.endswith("```python\n") and text.count("<think>") == text.count("</think>")
    assert text.endswith("model\n```python\n" if template is SWITCH else "<think>\n\n</think>\n\n```python\n")


def test_answers_go_on_with_the_thought_that_the_prompt_opens(tokenizer_of):
    codec = Codec(tokenizer_of(THINKS), answers=True)
    assert codec.prompt_text(TASK).endswith("<think>\n") and codec.opened == "<think>\n"
    fence = f"```python\n{CODE}\n```"
    for answer, completion in (
        ("", f"\n</think>\n\n{fence}"),
        (f"Twice.\n</think>\n{fence}", f"Twice.\n</think>\n{fence}"),
        (f"<think>\nTwice.\n</think>\n{fence}", f"Twice.\n</think>\n{fence}"),
    ):
        attempt = Attempt("t", CODE, answer=answer)
        ids = codec.ids_of(attempt)
        assert codec.decode([*ids]) == completion and ids.count(codec.tokenizer.convert_tokens_to_ids("</think>")) == 1
        assert codec.code_and_answer(ids, TASK) == (CODE, f"<think>\n{completion}")
        spans = codec.spans_of(attempt)
        begin = completion.index(CODE)
        assert "".join(completion[begin + a : begin + b] for a, b in spans if a >= 0 and b <= len(CODE)) == CODE
        assert codec.ids_of(replace(attempt, answer=f"<think>\n{completion}", token_ids=ids)) is ids


def test_a_thought_that_was_cut_off_has_no_program(tokenizer_of):
    codec = Codec(tokenizer_of(THINKS), answers=True)
    thought = f"A draft:\n```python\n{CODE}\n```\nNo, wait"
    cut = codec.text.ids([thought])[0]
    code, answer = codec.code_and_answer(cut, TASK)
    assert code == "" and answer == f"<think>\n{thought}"
    for stopped in (True, False):
        attempt = Attempt("t", code, answer=answer, token_ids=cut, truncated=stopped)
        assert codec.ids_of(attempt) == cut


def test_arguments_reach_the_template(tokenizer_of, tiny_model):
    named = PromptConfig(template={"persona": "Ada"})
    tokenizer = tokenizer_of("{{ persona or 'nobody' }}\n" + TURNS)
    assert Codec(tokenizer, style=named).prompt_text(TASK).startswith("Ada\n")
    assert Codec(tokenizer).prompt_text(TASK).startswith("nobody\n")
    assert prompts_id([TASK], named) != prompts_id([TASK])
    for template, key in ((TURNS, "persona"), (TURNS, "messages"), (TURNS, "add_generation_prompt")):
        with pytest.raises(ModelError, match=rf"template\.{key}"):
            Codec(tokenizer_of(template), style=PromptConfig(template={key: 1}))
    with pytest.raises(ModelError, match=r"model\.prompt"):
        load_codec(tiny_model, style=named)


def test_a_requested_thought_is_not_closed_silently(tokenizer_of):
    asked = PromptConfig(template={"enable_thinking": True})
    with pytest.raises(ModelError, match="enable_thinking"):
        Codec(tokenizer_of(SWITCH), style=asked)
    assert Codec(tokenizer_of(SWITCH), style=asked, answers=True).opened == "<think>\n"


def test_prompts_have_the_date_of_the_recipe(tokenizer_of):
    tokenizer = tokenizer_of(DATED)
    assert Codec(tokenizer).prompt_text(TASK).startswith("26 Jul 2024\n")
    later = ModelConfig.model_validate({"prompt": {"date": "2025-02-01"}}).prompt
    assert later.date == datetime.date(2025, 2, 1)
    assert Codec(tokenizer, style=later).prompt_text(TASK).startswith("01 Feb 2025\n")
    assert Codec(tokenizer, style=PromptConfig(template={"date_string": "today"})).prompt_text(TASK).startswith("today\n")
    assert prompts_id([TASK], later) != prompts_id([TASK])
    for template in (TURNS, None):
        with pytest.raises(ModelError, match="date"):
            Codec(tokenizer_of(template), style=later)
