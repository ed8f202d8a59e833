"""Models without weights, and their files read and written a part at a time, in one process."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from upsolve.config import ModelConfig
from upsolve.policy import shards
from upsolve.policy.model import load_model, load_policy
from upsolve.policy.shards import base_weights, blank_policy, first_layers, materialise, parts_of, read_weights, write_weights


@pytest.mark.parametrize("rank", [0, 2])
def test_a_blank_policy_becomes_the_loaded_one(tiny_model, rank):
    config = ModelConfig(name=tiny_model, lora_rank=rank, bf16=bool(rank))
    folder = parts_of(config)
    blank, loaded = blank_policy(config, folder, seed=3), load_policy(config, seed=3)
    assert {weight.device.type for weight in base_weights(blank).values()} == {"meta"}
    materialise(blank, torch.device("cpu"))
    read_weights(blank, folder)
    pairs = [*zip(blank.named_parameters(), loaded.named_parameters(), strict=True)]
    assert all(a[0] == b[0] and a[1].dtype == b[1].dtype and torch.equal(a[1], b[1]) for a, b in pairs)
    assert [weight.requires_grad for weight in blank.parameters()] == [weight.requires_grad for weight in loaded.parameters()]


def test_weights_are_written_a_file_at_a_time(tiny_model, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "PART", 40_000)  # the largest weight has 33,024 bytes
    model, held = load_model(tiny_model), []
    weights = base_weights(model)

    def gather(name):
        held.append(len([*tmp_path.glob("*.safetensors")]))
        return weights[name].detach()

    write_weights(shards.blank_base(Path(tiny_model), tiny_model), gather, tmp_path)
    assert held == sorted(held) and max(held) > 1, "a file is written before the weights of the next one are gathered"
    shutil.copy(Path(tiny_model) / "config.json", tmp_path)
    again = load_model(str(tmp_path))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


def test_the_first_layers_compute_as_the_model_does_up_to_there(tiny_model):
    config = ModelConfig(name=tiny_model, bf16=False)
    part, whole = first_layers(config, parts_of(config), seed=0), load_model(tiny_model)
    assert len(part.model.layers) == 1 and len(whole.model.layers) == 2
    ids = torch.arange(5)[None]
    states = whole(ids, output_hidden_states=True).hidden_states[1]
    assert torch.allclose(part(ids).logits, whole.lm_head(whole.model.norm(states)), atol=1e-6)


def test_other_names_are_loaded_whole(tiny_model, tmp_path):
    shutil.copytree(tiny_model, tmp_path, dirs_exist_ok=True)
    file = tmp_path / "model.safetensors"
    save_file({name.replace("layers", "blocks"): weight for name, weight in load_file(file).items()}, file, {"format": "pt"})
    assert parts_of(ModelConfig(name=str(tmp_path))) is None
