"""Settings of adapters: dropout acts in training steps alone, and targets choose the layers."""

from pathlib import Path

import numpy as np
import pytest
import torch

from upsolve.archive.split import split_archive
from upsolve.archive.store import open_archive
from upsolve.config import ModelConfig, Recipe
from upsolve.errors import ModelError
from upsolve.policy.model import frozen_copy, load_codec, load_model, load_policy, save_model, trainable, with_adapters
from upsolve.train.loop import train
from upsolve.train.update.learner import Learner
from upsolve.train.update.reference_scorer import probe
from upsolve.types import Task


def recipe_for(model, dropout):
    return Recipe.model_validate(
        {
            "model": {"name": model, "bf16": False, "lora_rank": 4, "lora_dropout": dropout},
            "data": {"train": 0.05, "dev": 0.05},
            "optim": {"lr": 1e-2, "epochs": 4, "max_steps": 5, "tokens_per_step": 3000, "schedule": "constant"},
            "monitor": {"save_every": 2, "eval_every": 2, "heldout": 4},
        }
    )


def learner_of(model, dropout, folder):
    recipe = recipe_for(model, dropout)
    learner = Learner(recipe.model, recipe.objective, recipe.optim, seed=0)
    with torch.no_grad():  # adapters start at B = 0, where dropout changes nothing
        for name, parameter in learner.model.named_parameters():
            if "lora_B" in name:
                parameter.fill_(0.05)
    batch = probe(learner.codec, Task("t", "Add one."))
    learner.choose_scorer(batch)
    learner.start_training(folder, keep_start=True)
    return learner, batch


def test_dropout_acts_on_what_is_trained_on_and_not_on_what_is_scored(tiny_model, tmp_path):
    (plain, batch), (dropped, _) = (learner_of(tiny_model, share, tmp_path / str(share)) for share in (0.0, 0.5))
    assert torch.equal(plain.score(batch).logp_T, plain.score(batch).logp_T)
    assert not torch.equal(dropped.score(batch).logp_T, dropped.score(batch).logp_T)
    assert dropped.measure([batch]) == plain.measure([batch])
    for frozen in (False, True):
        (ours, _), (without, _) = (learner.read([batch], frozen=frozen) for learner in (dropped, plain))
        assert all(np.array_equal(ours[key], without[key]) for key in batch.keys)
    assert dropped.model.training, "the next step has dropout again"
    assert not dropped.sampling_copy(dropped.model).training


@pytest.mark.slow
def test_a_stopped_run_with_dropout_goes_on_bit_by_bit(tiny_model, tmp_path):
    def run(folder, dropout=0.5, stop_after=0):
        def on_step(done, _total, _row):
            if done == stop_after:
                raise KeyboardInterrupt

        recipe = recipe_for(tiny_model, dropout)
        split = split_archive(open_archive("embedded"), recipe.data)
        return train(recipe, split.groups["train"], split.groups["dev"], tmp_path / folder, on_step=on_step)

    def timeless(rows):
        return [{key: value for key, value in row.items() if "second" not in key} for row in rows]

    whole = run("whole")
    with pytest.raises(KeyboardInterrupt):
        run("stopped", stop_after=3)  # its checkpoint is of step 2
    resumed = run("stopped")
    assert timeless(resumed.metrics) == timeless(whole.metrics)
    weights = "adapter_model.safetensors"
    assert (Path(resumed.folder) / weights).read_bytes() == (Path(whole.folder) / weights).read_bytes()
    assert [row["loss"] for row in run("plain", dropout=0.0).metrics] != [row["loss"] for row in whole.metrics]


def test_targets_choose_the_layers_with_adapters(tiny_model):
    def adapted(**settings):
        model = with_adapters(load_model(tiny_model), ModelConfig(lora_rank=2, **settings), seed=0)
        names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
        return {name.split(".lora_")[0].rpartition(".")[2] for name in names}, sum(map(torch.numel, trainable(model)))

    chosen, size = adapted(lora_targets=["q_proj", "v_proj"])
    assert chosen == {"q_proj", "v_proj"}
    assert size == 2 * 2 * ((32 + 32) + (32 + 16))  # two layers, rank 2, inputs and outputs of q and v
    assert adapted()[0] == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}


def test_adapters_on_a_tied_head_compute_the_same_when_merged(tiny_model, tmp_path):
    base = load_model(tiny_model)
    base.config.tie_word_embeddings = True
    base.lm_head.weight = base.model.embed_tokens.weight
    base.save_pretrained(tmp_path / "base")
    load_codec(tiny_model).tokenizer.save_pretrained(tmp_path / "base")
    config = ModelConfig(name=str(tmp_path / "base"), lora_rank=2, bf16=False, lora_targets=("q_proj", "lm_head"))
    model = load_policy(config, seed=0).eval()
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter)
    save_model(model, load_codec(tiny_model), tmp_path / "adapters")
    ids = torch.arange(20)[None]
    with torch.no_grad():
        trained = model(ids).logits
        assert (trained - load_policy(config, seed=0).eval()(ids).logits).abs().max() > 0.1
        for copied in (load_model(str(tmp_path / "adapters")), frozen_copy(model, torch.float32)):
            torch.testing.assert_close(copied.eval()(ids).logits, trained, atol=1e-4, rtol=1e-4)
        load_model(str(tmp_path / "adapters")).save_pretrained(tmp_path / "merged")
        torch.testing.assert_close(load_model(str(tmp_path / "merged")).eval()(ids).logits, trained, atol=1e-4, rtol=1e-4)


def test_a_target_that_no_layer_has_is_named(tiny_model):
    with pytest.raises(
        ModelError, match="no linear layer of .* is called query; its layers: down_proj, gate_proj, k_proj, lm_head"
    ):
        with_adapters(
            load_model(tiny_model), ModelConfig(name=tiny_model, lora_rank=2, lora_targets=("q_proj", "query")), seed=0
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lora_dropout": 0.1}, "lora_dropout has no effect with lora_rank: 0"),
        ({"lora_targets": ["q_proj"]}, "lora_targets has no effect with lora_rank: 0"),
        ({"lora_rank": 4, "lora_targets": []}, "names no layer"),
        ({"lora_rank": 4, "lora_dropout": 0.1, "compile": "always"}, "does not go with lora_dropout"),
    ],
)
def test_settings_without_effect_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ModelConfig.model_validate(settings)
