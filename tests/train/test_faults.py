"""Regression tests of training runs."""

import math
import os
import shutil
import signal
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from upsolve.archive.split import split_archive
from upsolve.archive.store import open_archive
from upsolve.config import OptimConfig, Recipe
from upsolve.errors import TrainingError
from upsolve.policy.attention.bundled import TREE
from upsolve.train.data.encode import EncodedAttempt, EncodedGroup
from upsolve.train.data.pack import pack
from upsolve.train.loop import train
from upsolve.train.run import steps as runs
from upsolve.train.run.folder import changed_keys, link_or_copy, load_trained, replace_folder
from upsolve.train.run.monitor import read_steps
from upsolve.train.run.processes import Processes
from upsolve.train.run.steps import Run
from upsolve.train.update import reference
from upsolve.train.update.checkpoint import Progress, save_checkpoint
from upsolve.train.update.learner import Learner
from upsolve.train.update.logprobs import TokenScores, token_scores
from upsolve.train.update.placement import DeepSpeed, Replicated
from upsolve.train.update.reference import reference_logps
from upsolve.train.update.reference_scorer import CHECKED, checked_parameters, choose_scorer, padded_scores
from upsolve.train.update.scores import stored_scores

SETTINGS = {
    "data": {"train": 0.05, "dev": 0.05},
    "optim": {"tokens_per_step": 1500, "tokens_per_batch": 1500, "lr": 1e-3, "max_steps": 3, "schedule": "constant"},
    "monitor": {"heldout": 0, "save_every": 100},
}


@pytest.fixture(scope="module")
def groups():
    return split_archive(open_archive("embedded"), Recipe.model_validate(SETTINGS).data).groups["train"]


def recipe_for(name, **stages):
    merged = {name: {**SETTINGS.get(name, {}), **stages.get(name, {})} for name in {*SETTINGS, *stages}}
    return Recipe.model_validate({**merged, "model": {"name": name, "bf16": False, **stages.get("model", {})}})


def losses(folder):
    return [row["loss"] for row in read_steps(folder / "metrics.jsonl")]


@pytest.mark.slow
def test_a_second_run_of_a_process_may_have_another_precision(tiny_model, tmp_path, groups):
    for bf16 in (False, True):
        done = train(recipe_for(tiny_model, model={"bf16": bf16}, optim={"max_steps": 1}), groups, [], tmp_path / str(bf16))
        assert done.steps == 1


def test_a_finished_run_keeps_its_model_and_nothing_to_resume_from(tiny_model, tmp_path, groups):
    done = train(recipe_for(tiny_model, monitor={"save_every": 1}), groups, [], tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {
        "groups",
        "metrics.jsonl",
        "model",
        "recipe.yaml",
        "summary.json",
        "tensorboard",
    }
    assert done.scoring == f"packed rows in float32, attention {TREE}"
    with pytest.raises(
        TrainingError, match=r"larger optim.max_steps cannot continue it.*monitor.keep_checkpoints.*--keep-checkpoints"
    ):
        train(recipe_for(tiny_model, monitor={"save_every": 1}, optim={"max_steps": 4}), groups, [], tmp_path)
    assert train(recipe_for(tiny_model), groups, [], tmp_path) == done, "the refused command has changed nothing"


@pytest.mark.slow
def test_no_checkpoint_is_written_that_the_end_of_the_run_removes(tiny_model, tmp_path, groups, monkeypatch):
    written, save = [], Learner.save_checkpoint
    monkeypatch.setattr(
        Learner, "save_checkpoint", lambda self, folder, progress: (written.append(progress.step), save(self, folder, progress))
    )
    steps = train(recipe_for(tiny_model, monitor={"save_every": 1}), groups, [], tmp_path / "removed").steps
    assert steps > 1 and written == [*range(1, steps)]
    written.clear()
    train(recipe_for(tiny_model, monitor={"save_every": 1, "keep_checkpoints": True}), groups, [], tmp_path / "kept")
    assert written == [*range(1, steps + 1)]


@pytest.mark.parametrize("links", [True, False])
def test_the_best_weights_become_the_model_without_a_second_copy(tmp_path, links, monkeypatch):
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / "model.safetensors").write_bytes(b"weights")
    if not links:
        monkeypatch.setattr(os, "link", lambda *_: (tmp_path / "no such file").stat())
    replace_folder(tmp_path / "model", lambda path: shutil.copytree(tmp_path / "best", path, copy_function=link_or_copy))
    model = tmp_path / "model" / "model.safetensors"
    assert model.read_bytes() == b"weights" and model.samefile(tmp_path / "best" / model.name) == links


@pytest.mark.slow
def test_a_run_can_be_made_longer(tiny_model, tmp_path, groups):
    keep = {"monitor": {"keep_checkpoints": True}}
    longer = {**keep, "optim": {"max_steps": 5, "warmup": 0.0}}
    train(recipe_for(tiny_model, **keep, optim={"warmup": 0.0}), groups, [], tmp_path / "run")
    assert train(recipe_for(tiny_model, **longer), groups, [], tmp_path / "run").steps == 5
    train(recipe_for(tiny_model, **longer), groups, [], tmp_path / "whole")
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")


def test_a_first_try_that_failed_does_not_claim_the_folder(tiny_model, tmp_path, groups):
    with pytest.raises(TrainingError, match="no group to train on"):
        train(recipe_for(tiny_model, data={"max_tokens": 16}), groups, [], tmp_path)
    assert train(recipe_for(tiny_model), groups, [], tmp_path).steps == 3
    with pytest.raises(TrainingError, match=r"\(optim.lr was 0.001 and is now 0.002\).*--fresh"):
        train(recipe_for(tiny_model, optim={"lr": 2e-3}), groups, [], tmp_path)
    assert train(recipe_for(tiny_model, optim={"lr": 2e-3}), groups, [], tmp_path, fresh=True).steps == 3


def test_differences_of_recipes_are_named():
    old, new = Recipe(), Recipe.model_validate({"optim": {"lr": 1.0}, "data": {"authors": ["ann"]}})
    assert changed_keys(old, new) == {"data.authors": ([], ["ann"]), "optim.lr": (old.optim.lr, 1.0)}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_run_after_a_step_with_a_checkpoint_of_it(tiny_model, tmp_path, groups, number):
    recipe = recipe_for(tiny_model)
    train(recipe, groups, [], tmp_path / "whole")
    before = signal.getsignal(number)

    def send(done, _all, _row):
        if done == 2:
            os.kill(os.getpid(), number)

    with pytest.raises(KeyboardInterrupt, match="stopped after step 2"):
        train(recipe, groups, [], tmp_path / "run", on_step=send)
    assert signal.getsignal(number) is before
    assert torch.load(tmp_path / "run" / "checkpoint.pt", weights_only=True)["progress"]["step"] == 2
    train(recipe, groups, [], tmp_path / "run")
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")


def test_a_signal_between_two_epochs_stops_after_the_next_step(tiny_model, tmp_path, groups, monkeypatch):
    """An epoch ends without a checkpoint, and other ranks are already in a collective of the next step."""
    remaining = Run.remaining

    def send_after(run, now):
        yield from remaining(run, now)
        if now.number == 0:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Run, "remaining", send_after)
    with pytest.raises(KeyboardInterrupt, match="stopped after step"):
        train(recipe_for(tiny_model, optim={"epochs": 2, "max_steps": 0}), groups, [], tmp_path)
    assert torch.load(tmp_path / "checkpoint.pt", weights_only=True)["progress"]["round"] == 1


def llama(**sizes):
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 97}
    return LlamaForCausalLM(LlamaConfig(**{**shape, "num_hidden_layers": 2, **sizes}))


def batch_of():
    def attempt(size):
        return EncodedAttempt(tuple(range(3, 3 + size)), np.ones(size, np.float32))

    return pack([[EncodedGroup((1, 2, 3), (attempt(5), attempt(7)))]])


def test_the_optimizer_does_not_step_on_a_gradient_that_is_not_finite():
    model = llama()
    placement = Replicated(model, None, token_scores, processes=Processes(), optim=OptimConfig(), value_lr=1e-4)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    for bad in (math.inf, math.nan):
        next(iter(model.parameters())).grad = torch.full_like(before[0], bad)
        assert not math.isfinite(placement.step(1e-3))
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert not placement.optimizer.state, "its moments are untouched as well"


def test_parameters_whose_checkpoint_shares_a_step_count_it_once():
    """Earlier checkpoints of DeepSpeed runs hold one tensor for the step of all parameters; AdamW adds to it in place."""
    model = llama()
    placement = Replicated(model, None, token_scores, processes=Processes(), optim=OptimConfig(), value_lr=1e-4)
    weights, shared = [parameter.detach().clone() for parameter in model.parameters()], torch.tensor(2.0)
    zeros = [torch.zeros_like(weight) for weight in weights]
    moments = {at: {"step": shared, "exp_avg": zero, "exp_avg_sq": zero.clone()} for at, zero in enumerate(zeros)}
    placement.load(weights, moments, None)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    placement.step(1e-3)
    assert {float(state["step"]) for state in placement.optimizer.state.values()} == {3.0}


def test_steps_that_are_skipped_are_counted(tiny_model, tmp_path, groups, monkeypatch):
    real = Replicated.sum_gradients

    def broken(placement):
        real(placement)
        placement.parameters()[0].grad.fill_(math.nan)

    monkeypatch.setattr(Replicated, "sum_gradients", broken)
    recipe = recipe_for(tiny_model, monitor={"stop_on_collapse": False})
    done = train(recipe, groups, [], tmp_path)
    assert [row["skipped_steps"] for row in done.metrics] == [1, 2, 3]


def test_decisions_are_those_of_rank_0(tiny_model, tmp_path, groups, monkeypatch):
    """Another rank may have other floats: what it does with them is what rank 0 does."""
    seen = []
    real = runs.check_health
    monkeypatch.setattr(runs, "check_health", lambda row, start, config: (seen.append(row["loss"]), real(row, start, config)))
    monkeypatch.setattr(runs.Run, "agreed", lambda _self, row: {**row, "loss": 42.0})
    done = train(recipe_for(tiny_model), groups, [], tmp_path)
    assert seen == [42.0] * 3 and [row["loss"] for row in done.metrics] == [42.0] * 3


@pytest.mark.parametrize(("times", "chosen"), [(3, True), (5, False)])
def test_a_scorer_may_round_worse_than_the_padded_one_by_a_factor(times, chosen):
    """The largest errors of correct scorers over a few tokens vary."""
    model = llama()

    def rounding_worse(model, batch):
        with torch.autocast("cpu", enabled=False):
            exact = padded_scores(model, batch)
        if not torch.is_autocast_enabled("cpu"):
            return exact
        return replace(exact, logp_T=exact.logp_T + times * (padded_scores(model, batch).logp_T - exact.logp_T))

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("error" if chosen else "ignore", UserWarning)
        patch.setattr(
            "upsolve.train.update.reference_scorer.packed_scorers",
            lambda _: [(model.config._attn_implementation, rounding_worse)],
        )
        scorer = choose_scorer(model, batch_of(), lambda: torch.autocast("cpu", torch.bfloat16))
    assert scorer is (rounding_worse if chosen else padded_scores)


def test_the_check_of_the_scorers_holds_no_gradient_of_the_model():
    """Peak of what is allocated during the check, against the bytes of the weights."""
    model = llama(vocab_size=60_000, hidden_size=256, intermediate_size=1024, num_hidden_layers=4)
    size = sum(parameter.numel() for parameter in model.parameters())
    assert sum(parameter.numel() for parameter in checked_parameters(model)) < min(CHECKED, size / 3)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        choose_scorer(model, batch_of())
    live = peak = 0
    for event in sorted(profiler.profiler.kineto_results.events(), key=lambda each: each.start_ns()):
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    assert 0 < peak < 4 * size * 0.75, (peak, size)
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())


def test_deepspeed_has_no_moments_while_every_step_was_skipped(monkeypatch):
    """A gradient that is not finite in step 1 leaves AdamW without state: the checkpoint has no moments, and loading resets the step."""
    utils = pytest.importorskip("deepspeed.utils")

    class Inner:
        def __init__(self):
            self.state = {}

    class Alone(DeepSpeed):
        def __init__(self):
            self.linked, self.processes, self.weight = False, Processes(), torch.nn.Parameter(torch.ones(2))
            self.optimizer = SimpleNamespace(optimizer=Inner())

        def parameters(self):
            return [self.weight]

        def full(self, parameter, **_keep):
            return parameter.detach().clone()

        def score(self, _batch):
            return TokenScores(self.weight, self.weight, self.weight)

        def backward(self, loss, *, last):
            pass

        def step(self, _lr):
            self.optimizer.optimizer.state[self.weight], self.linked = {"step": torch.tensor(1.0)}, True
            return 0.0

    monkeypatch.setattr(utils, "safe_set_full_fp32_param", lambda parameter, value: parameter.data.copy_(value))
    weights, moments = Alone().state(keep=True)
    assert [one.tolist() for one in weights] == [[1.0, 1.0]] and moments == {}
    resumed = Alone()
    resumed.load([torch.tensor([3.0, 4.0])], moments, example=None)
    assert resumed.weight.tolist() == [3.0, 4.0] and resumed.states()[0]["step"].item() == 0.0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"steps": 1}', '{"steps": 1, "unknown": 2}'])
def test_a_damaged_summary_is_named(tmp_path, text):
    (tmp_path / "summary.json").write_text(text)
    with pytest.raises(TrainingError, match=r"summary.json: not the summary of a run .*--fresh"):
        load_trained(tmp_path)


def events(monkeypatch):
    """What is flushed to disk and what gets a name, in order."""
    seen, flush, named = [], os.fsync, {name: getattr(Path, name) for name in ("replace", "rename")}

    def flushed(handle):
        seen.append(("flush", Path(f"/proc/self/fd/{handle}").readlink().name))
        flush(handle)

    monkeypatch.setattr(os, "fsync", flushed)
    for name, move in named.items():
        monkeypatch.setattr(Path, name, lambda file, new, move=move: seen.append(("name", Path(new).name)) or move(file, new))
    return seen


def test_a_checkpoint_is_on_disk_before_it_replaces_the_last_one(tmp_path, monkeypatch):
    seen = events(monkeypatch)
    save_checkpoint(tmp_path, SimpleNamespace(state=lambda **_: ({}, {}), in_parts=False), Progress())
    assert seen == [("flush", "checkpoint.pt.tmp"), ("name", "checkpoint.pt")]
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_a_model_is_on_disk_before_it_replaces_the_last_one(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "old").touch()
    seen = events(monkeypatch)
    replace_folder(tmp_path / "model", lambda path: (path.mkdir(), (path / "weights").write_text("new")))
    assert seen[0] == ("flush", "weights") and seen[-1] == ("name", "model")
    assert [path.name for path in tmp_path.rglob("*")] == ["model", "weights"]


def scored(batch):
    return SimpleNamespace(logp_T=torch.full((len(batch.attempt_T),), -1.0), values_T=None)


def batch_with(*numbers):
    attempts = tuple(EncodedAttempt((number, number), np.zeros(2, np.float32)) for number in numbers)
    return pack([[EncodedGroup((1,), attempts)]])


def test_the_cache_of_the_reference_is_bounded(tmp_path, monkeypatch):
    """Six tokens a model are three attempts of two: the oldest go, but never what a call asks for; and the oldest models."""
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path))
    monkeypatch.setattr(reference, "MOST_TOKENS", 6)
    monkeypatch.setattr(reference, "MODELS", 2)
    calls = []

    def asked(*numbers, model="one"):
        calls.clear()
        found = reference_logps(
            [batch_with(n) for n in numbers], score=lambda b: calls.append(b.keys) or scored(b), model_id=model
        )
        assert len(found) == len(numbers) and all(logps.tolist() == [-1.0, -1.0] for logps in found.values())
        return len(calls)

    assert asked(1, 2) == 2 and asked(1, 2) == 0 and asked(3) == 1 and asked(4) == 1
    assert asked(2, 3, 4) == 0 and asked(1) == 1, "1 was the oldest"
    assert asked(5, 6, 7, 8) == 4 and asked(5, 6, 7, 8) == 0, "more than fit, in one call"
    file = tmp_path / "reference" / "one.npz"
    file.write_bytes(file.read_bytes()[:-50])
    assert asked(5) == 1, "a damaged file is written anew"
    for age, model in enumerate(("one", "two", "three")):
        asked(1, model=model)
        os.utime(tmp_path / "reference" / f"{model}.npz", (age, age))
    asked(1, model="four")
    assert {file.stem for file in (tmp_path / "reference").iterdir()} == {"three", "four"}


def test_damaged_scores_of_a_round_are_named(tmp_path):
    (tmp_path / "00000000.npz").write_bytes(b"PK")
    with pytest.raises(TrainingError, match="00000000.npz: damaged"):
        stored_scores(tmp_path / "00000000.npz", dict, writes=True)
