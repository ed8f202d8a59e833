"""How the policy uses this machine: precision, memory, packed weights."""

import re
from pathlib import Path

import pytest
import torch

import upsolve
from upsolve.config import ModelConfig, load_recipe
from upsolve.errors import TrainingError
from upsolve.policy import machine
from upsolve.policy.machine import GrownMemory, in_bfloat16, multiplies_bfloat16, packed_weights, precision_of
from upsolve.policy.model import load_model, load_policy
from upsolve.train.run.folder import settled

BFLOAT16 = "mkldnn._is_mkldnn_bf16_supported"


@pytest.mark.parametrize(
    ("kind", "able", "expected"),
    [
        ("x86_64", (), False),
        ("x86_64", (BFLOAT16,), False),  # AVX-512 without BF16: oneDNN converts
        ("x86_64", ("_is_avx512_bf16_supported",), True),
        ("x86_64", ("_is_amx_tile_supported",), True),
        ("aarch64", (BFLOAT16,), True),
        ("aarch64", (), False),
        ("arm64", (BFLOAT16,), False),  # macOS
    ],
)
def test_a_processor_computes_in_bfloat16_if_it_multiplies_it(kind, able, expected, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: kind)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda name=name: name in able)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: BFLOAT16 in able)
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
    monkeypatch.setattr(machine, "multiplies_bfloat16", lambda: able)
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

    monkeypatch.setattr(machine, "multiplies_bfloat16", lambda: True)
    assert train(1) == (1, True)
    monkeypatch.setattr(machine, "multiplies_bfloat16", lambda: False)
    assert train(2) == (2, True)
    with pytest.raises(TrainingError, match=r"model\.bf16 was True and is now False"):
        train(3, "model.bf16=false")
    assert train(1, fresh=True) == (1, False)


def test_a_folder_without_a_run_is_settled_by_the_processor(monkeypatch):
    monkeypatch.setattr(machine, "multiplies_bfloat16", lambda: False)
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


def test_memory_is_returned_after_growth(monkeypatch: pytest.MonkeyPatch):
    """The size one step after memory was returned is the usual one; growth is compared with the largest usual size."""
    sizes = iter([100, 104, 120, 110, 125, 130, 90, 125])
    returned: list[int] = []
    now = 0

    def resident() -> int:
        nonlocal now
        now = next(sizes)
        return now

    monkeypatch.setattr(machine, "resident_bytes", resident)
    monkeypatch.setattr(machine, "release_memory", lambda: returned.append(now))
    memory = GrownMemory()
    for _ in range(8):
        memory.after_step()
    assert returned == [120, 130]


def test_nothing_is_returned_where_the_size_is_unknown(monkeypatch: pytest.MonkeyPatch):
    """Without /proc a size of 0 is never a growth."""
    monkeypatch.setattr(machine, "resident_bytes", lambda: 0)
    monkeypatch.setattr(machine, "release_memory", lambda: pytest.fail("returned memory"))
    memory = GrownMemory()
    for _ in range(3):
        memory.after_step()


def test_the_size_of_this_process_is_known_on_linux():
    """An allocation of 64 MiB is seen."""
    before = machine.resident_bytes()
    held = bytearray(b"x" * 2**26)
    assert not before or machine.resident_bytes() - before > 2**25, len(held)


NEEDS_BFLOAT16 = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="oneDNN has no bfloat16 on this processor"
)
IDS = torch.arange(3, 40)[None]


def replaced(model):
    return [name for name, module in model.named_modules() if "forward" in vars(module)]


@NEEDS_BFLOAT16
@torch.inference_mode()
def test_packed_weights_compute_the_same_and_are_removed(tiny_model):
    model = load_model(tiny_model, dtype=torch.bfloat16)
    usual = model(IDS).logits
    with packed_weights(model, 100):
        assert {name.rsplit(".")[-1] for name in replaced(model)} >= {"q_proj", "o_proj", "gate_proj", "down_proj", "lm_head"}
        distance = (model(IDS).logits - usual).abs().max()
    assert distance <= 0.01 * usual.abs().max() and not replaced(model)
    with pytest.raises(RuntimeError), packed_weights(model, 100):
        raise RuntimeError
    assert not replaced(model) and torch.equal(model(IDS).logits, usual)


@NEEDS_BFLOAT16
@pytest.mark.parametrize(("steps", "dtype", "free"), [(3, "bfloat16", 2**40), (100, "float32", 2**40), (100, "bfloat16", 1000)])
def test_weights_are_packed_only_where_it_pays_off(tiny_model, monkeypatch, steps, dtype, free):
    monkeypatch.setattr(machine, "available_bytes", lambda: free)
    model = load_model(tiny_model, dtype=getattr(torch, dtype))
    with packed_weights(model, steps):
        assert not replaced(model)


def test_without_bfloat16_in_onednn_weights_stay_as_they_are(tiny_model, monkeypatch):
    monkeypatch.setattr(machine.ONEDNN, "_is_mkldnn_bf16_supported", lambda: False)
    model = load_model(tiny_model, dtype=torch.bfloat16)
    with packed_weights(model, 100):
        assert not replaced(model)
