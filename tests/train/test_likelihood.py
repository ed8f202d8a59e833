"""Columns of ``select`` with the likelihood of attempts under the frozen start."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from upsolve.config import Recipe, check_recipe, load_recipe
from upsolve.errors import ConfigError
from upsolve.reward.formula import reward
from upsolve.train.data.encode import Encoding
from upsolve.train.data.sources import RoundGroups
from upsolve.train.loop import form_groups
from upsolve.train.run.processes import Processes
from upsolve.train.update.learner import Learner
from upsolve.train.update.reference_scorer import probe
from upsolve.train.update.scores import start_likelihoods
from upsolve.types import Attempt, Group, Status, Task, Verdict

LIKELIEST = "passed AND start_logp = max(start_logp) FILTER (WHERE passed) OVER (PARTITION BY group_id)"


def rewarded_of(codes, recipe, passed=True):
    task = Task("t", "Say it.")
    attempts = tuple(Attempt("t", code) for code in codes)
    status = Status.PASSED if passed else Status.FAILED
    return reward(Group(task, attempts, tuple(Verdict(a.attempt_id, status, 1, 1) for a in attempts)), recipe.reward)


@pytest.fixture
def start(tiny_model, monkeypatch, tmp_path):
    """The frozen start of a run with its encoding."""
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path))
    recipe = Recipe.model_validate({"model": {"name": tiny_model, "bf16": False}, "data": {"max_tokens": 200, "group_size": 4}})
    learner = Learner(recipe.model, recipe.objective, recipe.optim, seed=0, values=False, processes=Processes())
    encoding = Encoding(learner.codec, recipe.data.max_tokens, recipe.reward, recipe.advantage, recipe.objective)
    learner.choose_scorer(probe(learner.codec, Task("t", "Say it.")))
    return recipe, learner, encoding


def test_mean_and_least_are_those_of_the_model(start, tiny_model):
    recipe, learner, encoding = start
    codes = ["x = 1", "y = 22", "x = 1", "z" * 300]
    found = start_likelihoods(learner, encoding, recipe.optim, [rewarded_of(codes, recipe)])
    assert found[0][3] is None and found[0][0] == found[0][2]
    model, codec = AutoModelForCausalLM.from_pretrained(tiny_model), learner.codec
    for code, got in zip(codes[:2], found[0], strict=False):
        prompt, ids = codec.prompt(Task("t", "Say it.")).ids_P, codec.ids_of(Attempt("t", code))
        with torch.no_grad():
            logits = model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        logps = logits[torch.arange(len(ids)), list(ids)].numpy()
        assert got == pytest.approx((logps.mean(), logps.min()), abs=1e-4)


def test_the_likeliest_of_the_strangers_programs_is_chosen(start):
    recipe, learner, encoding = start
    stored = [rewarded_of(["x = 1", "y = 22", "while q: pass"], recipe)]
    means = [one.mean for one in start_likelihoods(learner, encoding, recipe.optim, stored)[0]]
    chosen = load_recipe("sft", [f"select.attempts={LIKELIEST}"])
    formed = form_groups(
        [],
        stored,
        RoundGroups(0),
        data=recipe.data,
        advantage=chosen.advantage,
        objective=chosen.objective,
        select=chosen.select,
        likelihoods=lambda groups: start_likelihoods(learner, encoding, recipe.optim, groups),
    )
    kept = [attempt.code for one in formed.groups for attempt in one.group.attempts]
    assert kept == [stored[0].group.attempts[int(np.argmax(means))].code]


def test_online_reads_the_samplers_own():
    with pytest.raises(ConfigError, match="offline"):
        check_recipe(load_recipe("grpo", ["select.attempts=start_logp > -3"]))
