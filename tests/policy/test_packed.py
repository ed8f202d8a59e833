import pytest
import torch

from upsolve.policy import machine
from upsolve.policy.machine import packed_weights
from upsolve.policy.model import load_model

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
