"""The precision of `model.bf16: auto`: by the processor, once for a run."""

import re
from pathlib import Path

import pytest
import torch

import upsolve
from upsolve.config import ModelConfig, load_recipe
from upsolve.errors import TrainingError
from upsolve.policy import machine as precision
from upsolve.policy.machine import in_bfloat16, multiplies_bfloat16, precision_of
from upsolve.policy.model import load_policy
from upsolve.train.run.folder import settled

ONEDNN = "mkldnn._is_mkldnn_bf16_supported"


@pytest.mark.parametrize(
    ("machine", "able", "expected"),
    [
        ("x86_64", (), False),
        ("x86_64", (ONEDNN,), False),  # AVX-512 without BF16: oneDNN converts
        ("x86_64", ("_is_avx512_bf16_supported",), True),
        ("x86_64", ("_is_amx_tile_supported",), True),
        ("aarch64", (ONEDNN,), True),
        ("aarch64", (), False),
        ("arm64", (ONEDNN,), False),  # macOS
    ],
)
def test_a_processor_computes_in_bfloat16_if_it_multiplies_it(machine, able, expected, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda name=name: name in able)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: ONEDNN in able)
    assert multiplies_bfloat16.__wrapped__() is expected


@pytest.mark.parametrize(("capability", "expected"), [((7, 5), False), ((8, 0), True)])
def test_a_gpu_computes_in_bfloat16_if_it_multiplies_it(capability, expected, monkeypatch):
    properties = type("Properties", (), {"major": capability[0], "minor": capability[1]})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _device: properties)
    assert multiplies_bfloat16.__wrapped__() is expected


@pytest.mark.parametrize("able", [True, False])
def test_auto_asks_the_processor_and_a_setting_does_not(able, monkeypatch, tiny_model):
    monkeypatch.setattr(precision, "multiplies_bfloat16", lambda: able)
    assert ModelConfig().bf16 == "auto"
    assert [in_bfloat16(ModelConfig(bf16=choice)) for choice in ("auto", True, False)] == [able, True, False]
    assert precision_of(ModelConfig()) == (torch.bfloat16 if able else torch.float32)
    frozen = (
        load_policy(ModelConfig(name=tiny_model, lora_rank=2), seed=0).base_model.model.model.layers[0].mlp.up_proj.base_layer
    )
    assert frozen.weight.dtype == precision_of(ModelConfig())


@pytest.mark.slow
def test_a_run_keeps_the_precision_that_it_began_with(tmp_path, tiny_model, monkeypatch):
    settings = [
        f"model.name={tiny_model}",
        "data.train=0.1",
        "data.dev=0.1",
        "monitor.heldout=0",
        "monitor.keep_checkpoints=true",
    ]

    def train(steps, *more, fresh=False):
        recipe = load_recipe("rloo", [*settings, f"optim.max_steps={steps}", *more])
        split = upsolve.split_archive(upsolve.open_archive("embedded"), recipe.data)
        done = upsolve.train_policy(recipe, split.groups["train"], split.groups["dev"], tmp_path / "run", fresh=fresh)
        return done.steps, load_recipe(tmp_path / "run" / "recipe.yaml").model.bf16

    monkeypatch.setattr(precision, "multiplies_bfloat16", lambda: True)
    assert train(1) == (1, True)
    monkeypatch.setattr(precision, "multiplies_bfloat16", lambda: False)
    assert train(2) == (2, True)
    with pytest.raises(TrainingError, match=r"model\.bf16 was True and is now False"):
        train(3, "model.bf16=false")
    assert train(1, fresh=True) == (1, False)


def test_a_folder_without_a_run_is_settled_by_the_processor(monkeypatch):
    monkeypatch.setattr(precision, "multiplies_bfloat16", lambda: False)
    auto, chosen = ModelConfig(), ModelConfig(bf16=True)
    assert settled(auto, None) == ModelConfig(bf16=False)
    assert settled(chosen, None) == settled(auto, chosen) == settled(chosen, ModelConfig(bf16=False)) == chosen


def test_the_setting_is_read_in_one_place():
    """``auto`` is true in a condition. vllm.py names it in documentation, the others in text or as part of a key."""
    source = Path(upsolve.__file__).parent
    reading = {
        str(file.relative_to(source))
        for file in source.rglob("*.py")
        if re.search(r"\b(model|config)\.bf16\b", file.read_text())
    }
    assert reading == {"policy/machine.py", "policy/vllm.py", "train/run/folder.py", "evaluate/samples.py"}
