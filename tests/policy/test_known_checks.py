"""Checks of models that passed are kept between runs, for models of the same form alone."""

import importlib
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from upsolve.config import ModelConfig, ObjectiveConfig, OptimConfig, SampleConfig
from upsolve.policy.decoding.sample import sample
from upsolve.policy.known_checks import cache_check, cached_check, check_file
from upsolve.policy.model import load_codec, load_model
from upsolve.train.update.learner import Learner
from upsolve.train.update.logprobs import token_scores
from upsolve.train.update.reference_scorer import WHOLE_ROWS, padded_scores, probe
from upsolve.types import Task

TASK = Task("t", "Add.")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache folder that is read."""
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("UPSOLVE_CHECK")
    return tmp_path / "cache"


def small(**settings):
    """Return a random model of one layer."""
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 64}
    return LlamaForCausalLM(LlamaConfig(**sizes | settings))


def test_cached_checks_apply_to_models_of_the_same_form():
    cache_check(check_file("scorer", small()), "1")
    assert cached_check(check_file("scorer", small())) == "1"
    other = small()
    other.lm_head.requires_grad_(False)
    more = torch.nn.Sequential(other.model.norm)
    changed = small()
    changed.model.norm = more
    for model in (small(rope_theta=500.0), small().bfloat16(), small(num_hidden_layers=2), other, changed):
        assert cached_check(check_file("scorer", model)) is None
    assert cached_check(check_file("decoding", small())) is None


def test_another_attention_or_processor_or_other_code_is_checked_anew(monkeypatch, tmp_path):
    model, known = small(), check_file("scorer", small())
    model.set_attn_implementation("eager")
    assert check_file("scorer", model) != known
    with monkeypatch.context() as other:
        other.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "another")
        assert check_file("scorer", small()) != known
    (tmp_path / "own.py").write_text("import transformers\n\n\nclass Own(transformers.LlamaForCausalLM):\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    own = importlib.import_module("own").Own(small().config)
    before = check_file("scorer", own)
    assert check_file("scorer", own) == before
    (tmp_path / "own.py").write_text("# changed\n")
    changed = check_file("scorer", own)
    assert changed != before
    (tmp_path / "own.py").unlink()  # as for modules inside of an archive
    assert check_file("scorer", own) not in (before, changed)


def test_a_replaced_forward_pass_is_checked_anew():
    model = small()
    known = check_file("scorer", model)
    norm = model.model.layers[0].input_layernorm
    norm.forward = lambda hidden: hidden
    assert check_file("scorer", model) != known


def test_a_check_is_repeated_on_request(monkeypatch):
    file = check_file("scorer", small())
    cache_check(file, "1")
    monkeypatch.setenv("UPSOLVE_CHECK", "always")
    assert cached_check(file) is None


def test_a_cache_that_cannot_be_written_keeps_nothing(cache):
    Path(cache).write_text("a file")
    file = check_file("scorer", small())
    cache_check(file, "1")
    assert cached_check(file) is None


def test_batched_decoding_is_compared_once_for_a_kind_of_model(tiny_model, monkeypatch):
    checks = []
    monkeypatch.setattr(
        "upsolve.policy.decoding.sample.check_batched_decode", lambda model, _ids: checks.append(model.dtype) or ""
    )
    config, codec = SampleConfig(samples=1, max_tokens=2), load_codec(tiny_model)
    for dtype in (torch.float32, torch.float32, torch.bfloat16, torch.bfloat16):
        assert len([*sample(load_model(tiny_model).to(dtype), codec, [TASK], config=config)]) == 1
    assert checks == [torch.float32, torch.bfloat16]


def test_a_problem_is_found_in_every_run(tiny_model, monkeypatch):
    monkeypatch.setattr("upsolve.policy.decoding.sample.check_batched_decode", lambda *_: "it differs")
    for _ in range(2):
        with pytest.warns(UserWarning, match="it differs"):
            assert [
                *sample(load_model(tiny_model), load_codec(tiny_model), [TASK], config=SampleConfig(samples=1, max_tokens=2))
            ]


def chosen(tiny_model, monkeypatch, choice=None):
    """Return the scorer of a new learner; ``choice`` replaces ``choose_scorer``."""
    learner = Learner(ModelConfig(name=tiny_model), ObjectiveConfig(kind="reinforce"), OptimConfig(), seed=0)
    if choice:
        monkeypatch.setattr("upsolve.train.update.reference_scorer.choose_scorer", choice)
    learner.choose_scorer(probe(learner.codec, TASK))
    return learner.scorer, learner.model.config._attn_implementation


def forbidden(*_):
    """A check that must not run."""
    raise AssertionError("checked once more")


def test_the_scorer_of_another_run_is_taken_without_a_check(tiny_model, monkeypatch):
    first = chosen(tiny_model, monkeypatch)
    assert first[0] is token_scores
    assert chosen(tiny_model, monkeypatch, forbidden) == first


def test_a_slower_scorer_is_remembered_as_such(tiny_model, monkeypatch):
    def whole_rows(model, *_):
        model.set_attn_implementation("upsolve_tree")
        return WHOLE_ROWS

    assert chosen(tiny_model, monkeypatch, whole_rows)[0] is WHOLE_ROWS
    assert chosen(tiny_model, monkeypatch, forbidden)[0] is WHOLE_ROWS


def test_padded_texts_are_not_remembered(tiny_model, monkeypatch):
    assert chosen(tiny_model, monkeypatch, lambda *_: padded_scores)[0] is padded_scores
    with pytest.raises(AssertionError, match="checked once more"):
        chosen(tiny_model, monkeypatch, forbidden)
