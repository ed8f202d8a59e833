"""Models written whole: read back by us and by llama.cpp."""

import json
from pathlib import Path
from urllib.request import Request, urlopen

import gguf
import pytest
import torch

from upsolve.config import ModelConfig
from upsolve.errors import ArchiveError, ModelError
from upsolve.exports.model import SPLITS, export_model, split_of
from upsolve.policy.model import load_codec, load_model, load_policy, save_model

TEXT = "def f(x):\n    return 2 * x  # 12 + 3"


def write_model(folder, kind):
    """Write a small random model with a tokenizer of two merges, and return its name."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import (
        LlamaConfig,
        LlamaForCausalLM,
        PreTrainedTokenizerFast,
        Qwen2Config,
        Qwen2ForCausalLM,
        Qwen3Config,
        Qwen3ForCausalLM,
    )

    letters = ["<eos>", *sorted(pre_tokenizers.ByteLevel.alphabet()), "re", "ret"]
    core = Tokenizer(models.BPE({letter: index for index, letter in enumerate(letters)}, [("r", "e"), ("re", "t")]))
    pattern = next(pattern for pattern, name in SPLITS.items() if name == "qwen2")
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind == "llama")
    core.pre_tokenizer = last if kind == "llama" else pre_tokenizers.Sequence([split, last])
    chat = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<eos>", chat_template=chat).save_pretrained(folder)
    torch.manual_seed(1)
    classes = {
        "llama": (LlamaConfig, LlamaForCausalLM),
        "qwen2": (Qwen2Config, Qwen2ForCausalLM),
        "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    }
    sizes = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    sizes |= {"head_dim": 32} if kind == "qwen3" else {}
    config = classes[kind][0](vocab_size=300, max_position_embeddings=512, tie_word_embeddings=kind != "llama", **sizes)
    config.initializer_range = 0.2
    classes[kind][1](config).save_pretrained(folder)
    return str(folder)


def logits(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0]


@pytest.fixture
def adapted(tmp_path):
    """A folder of adapters that change what the model computes, and its logits."""
    base = write_model(tmp_path / "base", "llama")
    model = load_policy(ModelConfig(name=base, lora_rank=2, bf16=False), seed=0)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.5)
    codec = load_codec(base)
    save_model(model, codec, tmp_path / "adapters")
    return str(tmp_path / "adapters"), logits(model, codec.tokenizer.encode(TEXT)), codec.tokenizer.encode(TEXT)


def test_adapters_are_merged_into_a_folder_without_peft(adapted, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    name, expected, ids = adapted
    out = export_model(name, tmp_path / "whole")
    assert not (out / "adapter_config.json").exists()
    assert AutoTokenizer.from_pretrained(out).encode(TEXT) == ids
    assert torch.allclose(logits(AutoModelForCausalLM.from_pretrained(out), ids), expected, atol=1e-4)
    with pytest.raises(ArchiveError, match="export a model into a new folder"):
        export_model(name, out)


@pytest.mark.parametrize(("kind", "near"), [("f32", 1e-5), ("f16", 0.01), ("bf16", 0.1), ("q8_0", 0.2)])
def test_a_gguf_file_has_the_same_weights(adapted, tmp_path, monkeypatch, kind, near):
    name, expected, ids = adapted
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    out = export_model(name, tmp_path / "model.gguf", kind=kind)
    assert load_codec(str(out)).tokenizer.encode(TEXT) == ids
    assert (logits(load_model(str(out)), ids) - expected).abs().mean() < near


@pytest.mark.parametrize(("kind", "near"), [("f32", 0.02), ("f16", 0.03), ("bf16", 0.15), ("q8_0", 0.6)])
@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_llama_cpp_loads_it_and_computes_the_same(tmp_path, architecture, kind, near):
    """``near`` is of log-probabilities; llama.cpp keeps keys and values in F16."""
    name = write_model(tmp_path / "model", architecture)
    out = export_model(name, tmp_path / "model.gguf", kind=kind)
    ids = load_codec(name).tokenizer.encode(TEXT)
    tokens, logps = by_llama_cpp(out, TEXT)
    assert tokens == ids
    assert torch.allclose(logps, logits(load_model(name), ids)[-1].log_softmax(0), atol=near)


def write_turns(name):
    """Let a model's chat template write turns that end with ``<|im_end|>``, and return the ids of ``<eos>`` and of it."""
    tokenizer = load_codec(name).tokenizer
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.chat_template = "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"
    tokenizer.save_pretrained(name)
    return tokenizer, tokenizer.convert_tokens_to_ids(["<eos>", "<|im_end|>"])


@pytest.mark.parametrize(("before", "kept"), [(None, []), (0, [0]), ([0, 7], [0, 7])])
def test_a_folder_says_which_token_ends_a_turn(tmp_path, before, kept):
    name = write_model(tmp_path / "model", "qwen2")
    _, (_, end) = write_turns(name)
    (Path(name) / "generation_config.json").write_text(json.dumps({"eos_token_id": before}))
    out = export_model(name, tmp_path / "whole")
    assert json.loads((out / "generation_config.json").read_text())["eos_token_id"] == [*kept, end]
    export_model(str(out), tmp_path / "again")
    assert json.loads((tmp_path / "again" / "generation_config.json").read_text())["eos_token_id"] == [*kept, end]


def test_gguf_stores_the_token_that_ends_a_turn(tmp_path):
    """The end of a turn in the chat template, which is not the end of text; without a chat template there is none."""
    name = write_model(tmp_path / "model", "qwen2")

    def metadata():
        fields = gguf.GGUFReader(export_model(name, tmp_path / "m.gguf")).fields
        keys = (gguf.Keys.Tokenizer.EOS_ID, gguf.Keys.Tokenizer.EOT_ID)
        return [fields[key].contents() if key in fields else None for key in keys]

    tokenizer, ids = write_turns(name)
    assert metadata() == ids
    tokenizer.chat_template = None
    tokenizer.save_pretrained(name)
    (tmp_path / "model" / "chat_template.jinja").unlink()
    assert metadata() == [tokenizer.eos_token_id, None]


def by_llama_cpp(file, text):
    """Return the tokens of a text, and the log-probabilities of all tokens after it, from llama.cpp's server in this process."""
    llama_cpp = pytest.importorskip("xllamacpp", reason="xllamacpp (llama.cpp) is not installed")
    settings = llama_cpp.CommonParams()
    settings.model.path, settings.n_ctx, settings.n_parallel, settings.cpuparams.n_threads = str(file), 128, 1, 1
    settings.warmup = settings.fit_params = False
    server = llama_cpp.Server(settings)
    letter = [
        [20, 1e3]
    ]  # what is sampled must be whole letters, else the answer has no probabilities; these are from before the bias
    answer = server.handle_completions({"prompt": text, "n_predict": 1, "n_probs": 300, "logit_bias": letter})
    found = answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    body = json.dumps({"content": text}).encode()
    request = Request(f"{server.listening_address}/tokenize", body, {"content-type": "application/json"})
    with urlopen(request) as answered:
        tokens = json.load(answered)["tokens"]
    return tokens, torch.tensor([each["logprob"] for each in sorted(found, key=lambda each: each["id"])])


def test_what_llama_cpp_has_no_name_for_is_refused(tmp_path, tiny_model):
    config = Path(tiny_model) / "config.json"
    for file in Path(tiny_model).iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    data = json.loads(config.read_text())
    (tmp_path / "config.json").write_text(
        json.dumps(data | {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}})
    )
    with pytest.raises(ModelError, match=r"rope_type linear cannot be written as GGUF here, only llama, .*convert_hf_to_gguf"):
        export_model(str(tmp_path), tmp_path / "m.gguf")
    with pytest.raises(ModelError, match="--kind q4: must be one of f32, f16"):
        export_model(tiny_model, tmp_path / "m.gguf", kind="q4")
    assert split_of({"type": "Metaspace"}) == "" and split_of({}) == ""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    digits = {"type": "Digits", "individual_digits": True}
    assert split_of({"type": "Sequence", "pretokenizers": [digits, byte_level]}) == "smollm"
