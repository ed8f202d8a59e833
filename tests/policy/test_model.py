"""Finding and loading models: names, the hub, GGUF, adapters."""

import json
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from upsolve.config import ModelConfig
from upsolve.errors import ModelError
from upsolve.policy import gguf
from upsolve.policy.locate import BUILTIN, locate
from upsolve.policy.model import load_codec, load_model, with_adapters
from upsolve.types import Task


def write_gguf(file, hidden=32, vocabulary=259):
    """Write a random Llama of two layers as GGUF, with the smallest tokenizer that transformers converts."""
    import gguf as format_

    writer = format_.GGUFWriter(file, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(hidden)
    writer.add_block_count(2)
    writer.add_feed_forward_length(48)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(vocabulary)
    writer.add_tokenizer_model("gpt2")
    alphabet = [chr(number) for number in range(256, 256 + vocabulary - 4)]
    writer.add_token_list(["<unk>", "<s>", "</s>", *alphabet, alphabet[0] + alphabet[1]])
    writer.add_token_types([3, 3, 3, *[1] * (vocabulary - 3)])
    writer.add_token_merges([f"{alphabet[0]} {alphabet[1]}"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    noise = np.random.default_rng(0)

    def put(name, *shape):
        writer.add_tensor(name, noise.normal(0, 0.1, shape).astype(np.float32))

    put("token_embd.weight", vocabulary, hidden)
    put("output.weight", vocabulary, hidden)
    put("output_norm.weight", hidden)
    for layer in range(2):
        for part, shape in {
            "attn_norm": (hidden,), "attn_q": (hidden, hidden), "attn_k": (hidden // 2, hidden), "attn_v": (hidden // 2, hidden),
            "attn_output": (hidden, hidden), "ffn_norm": (hidden,), "ffn_gate": (48, hidden), "ffn_up": (48, hidden),
            "ffn_down": (hidden, 48),
        }.items():  # fmt: skip
            put(f"blk.{layer}.{part}.weight", *shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def small(tmp_path, monkeypatch):
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "small.gguf"
    write_gguf(file)
    return file


def conversions(tmp_path):
    return sorted(one.name for one in (tmp_path / "cache" / "models").iterdir() if one.is_dir())


def test_quick_parsing_reads_the_same(small):
    """Tokens and weights, by the library's reader as it is and by the quick one; afterwards the library is as it was."""
    import gguf as library

    plain = library.GGUFReader
    with gguf.quick_parsing():
        readers = (plain(small), library.GGUFReader(small))
        table = library.get_tensor_name_map(library.MODEL_ARCH.LLAMA, 1)
        assert library.get_tensor_name_map(library.MODEL_ARCH.LLAMA, 1) is table
    assert library.GGUFReader is plain
    assert readers[0].fields.keys() == readers[1].fields.keys()
    for before, now in zip(*((*reader.fields.values(), *reader.tensors) for reader in readers), strict=True):
        assert before.name == now.name
        parts = [tensor.parts if hasattr(tensor, "parts") else [tensor.data] for tensor in (before, now)]
        assert all(a.dtype == b.dtype and (a == b).all() for a, b in zip(*parts, strict=True))


def test_a_gguf_file_is_converted_once_and_read_the_same_later(small, tmp_path, monkeypatch, capfd):
    direct, _ = gguf.loaded(small)
    first = load_model(str(small))
    assert len(conversions(tmp_path)) == 1

    def again(_file):
        raise AssertionError("converted twice")

    monkeypatch.setattr(gguf, "loaded", again)
    second, codec = load_model(str(small), dtype=torch.bfloat16), load_codec(str(small))
    assert (
        first.name_or_path == second.name_or_path == str(small) and codec.prompt_text(Task("t", "add")) == "add\n\n```python\n"
    )
    for name, weight in direct.state_dict().items():
        assert torch.equal(first.state_dict()[name], weight)
        assert torch.equal(second.state_dict()[name], weight.bfloat16())
    assert not hasattr(first.config, "quantization_config")
    torch.nn.init.zeros_(first.lm_head.weight)  # training in place leaves the conversion as it is
    assert torch.equal(load_model(str(small)).lm_head.weight, direct.lm_head.weight)
    assert "Converting" not in capfd.readouterr().err


@pytest.mark.skipif(torch.accelerator.is_available(), reason="DeepSpeed finds the GPU")
def test_deepspeed_does_not_say_on_standard_output_that_there_is_no_gpu(small, monkeypatch):
    monkeypatch.delenv("DS_ACCELERATOR", raising=False)
    gguf.converted(small)
    assert os.environ["DS_ACCELERATOR"] == "cpu"


def test_a_changed_file_is_converted_anew_and_old_conversions_go(small, tmp_path, monkeypatch):
    monkeypatch.setattr(gguf, "CACHED", 2)
    names = []
    for number in range(3):
        write_gguf(small, vocabulary=259 + number)
        names.append(gguf.converted(small).name)
    assert len({*names}) == 3 and conversions(tmp_path) == sorted(names[1:])


def test_processes_that_ask_at_once_convert_once(small, tmp_path, monkeypatch):
    loaded, times, places = gguf.loaded, [], []

    def slow(file):
        times.append(time.monotonic())
        time.sleep(0.3)
        return loaded(file)

    monkeypatch.setattr(gguf, "loaded", slow)
    threads = [threading.Thread(target=lambda: places.append(gguf.converted(small))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(times) == 1 and len({*places}) == 1 and len(conversions(tmp_path)) == 1


@pytest.mark.parametrize("keep", [0, 10, 200, 5000])
def test_a_damaged_gguf_file_is_named(small, tmp_path, keep):
    small.write_bytes(small.read_bytes()[:keep])
    for load in (load_model, load_codec):
        with pytest.raises(ModelError, match=r"small.gguf: cannot be read as GGUF .* is the file complete"):
            load(str(small))
    assert conversions(tmp_path) == []


def test_a_mistyped_name_is_answered_at_once(tiny_model, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trained").symlink_to(tiny_model)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "model").symlink_to(tiny_model)
    started = time.monotonic()
    for name, expected in {
        "smolm2-135m": rf"no such folder, .*did you mean {BUILTIN}\?",
        "traind": r"did you mean trained\?",
        "runs/modell": r"runs/modell: no such folder; did you mean runs/model\?",
        "./nowhere": r"\./nowhere: no such folder$",
        "runs": r"holds neither config.json nor adapter_config.json; name runs/model$",
        "runs/x.gguf": r"no such file",
        "a bad name": r"no such model on the hub",
    }.items():
        with pytest.raises(ModelError, match=expected):
            locate(name, offline=name in ("smolm2-135m", "traind"))
    assert time.monotonic() - started < 60


def test_offline_makes_no_request_to_the_hub(monkeypatch):
    import huggingface_hub

    def asked(*_args, **_how):
        raise AssertionError("the hub was asked")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", asked)
    with pytest.raises(ModelError, match="not in the local cache of the hub"):
        load_model("someone/something-large", offline=True)
    monkeypatch.setattr(huggingface_hub, "is_offline_mode", lambda: True)
    with pytest.raises(ModelError, match="not in the local cache of the hub"):
        load_codec("someone/something-large")


def test_errors_of_the_hub_for_a_name(monkeypatch):
    import huggingface_hub
    from huggingface_hub.errors import RepositoryNotFoundError

    def missing(*_args, **_how):
        raise RepositoryNotFoundError.__new__(RepositoryNotFoundError)

    def unreachable(*_args, **_how):
        raise OSError("Name or service not known")

    monkeypatch.setattr(huggingface_hub, "is_offline_mode", lambda: False)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", missing)
    with pytest.raises(ModelError, match="someone/something: no such folder, and no such model on the hub"):
        locate("someone/something")
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", unreachable)
    with pytest.raises(ModelError, match="the hub cannot be reached .*Name or service not known"):
        locate("someone/something")
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_: "/somewhere/config.json")
    assert locate("someone/something").local  # downloaded before: that is used
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *_args, **_how: None)
    assert not locate("someone/something").local


def test_a_scale_of_adapters_below_one_is_preserved(tiny_model, tmp_path):
    model = with_adapters(load_model(tiny_model), ModelConfig(lora_rank=2, lora_alpha=0.5), seed=0)
    layer = model.base_model.model.model.layers[0].self_attn.q_proj
    assert layer.scaling["default"] == 0.25  # 0.5 / 2
    torch.nn.init.ones_(layer.lora_B["default"].weight)
    model.save_pretrained(tmp_path)
    assert json.loads((Path(tmp_path) / "adapter_config.json").read_text())["lora_alpha"] == 0.5
    before = load_model(tiny_model).model.layers[0].self_attn.q_proj.weight
    merged = load_model(str(tmp_path)).model.layers[0].self_attn.q_proj.weight
    added = 0.25 * layer.lora_B["default"].weight @ layer.lora_A["default"].weight
    assert torch.allclose(merged, before + added, atol=1e-6) and bool(added.any())
