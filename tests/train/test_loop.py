"""The real loop on a tiny model."""

import os
import re
import signal
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import yaml

from upsolve.archive.split import split_archive
from upsolve.archive.store import open_archive
from upsolve.config import DataConfig, Recipe, dump_recipe
from upsolve.config.recipe import leaves
from upsolve.errors import ConfigError, TrainingError
from upsolve.evaluate.runs import load_sweep, save_evaluation
from upsolve.evaluate.scores import Evaluation, TaskScore
from upsolve.experiment import run_folds, run_recipe
from upsolve.train.data.sources import StoredSource
from upsolve.train.loop import train
from upsolve.train.run.folder import UNMEASURED, claim, is_unmeasured, load_trained, within
from upsolve.train.run.monitor import limits_of, read_steps

SETTINGS = {
    "data": {"train": 0.05, "dev": 0.05},
    "optim": {
        "tokens_per_step": 3000,
        "tokens_per_batch": 3000,
        "lr": 1e-3,
        "epochs": 4,
        "max_steps": 6,
        "schedule": "constant",
    },
    "monitor": {"save_every": 2, "eval_every": 2, "heldout": 4},
}


FEW_STEPS = {**SETTINGS["optim"], "max_steps": 2}
"""For tests of what comes after training."""


def recipe_for(model, **stages):
    return Recipe.model_validate({**SETTINGS, "model": {"name": model, "bf16": False}, **stages})


def losses(folder):
    return [row["loss"] for row in read_steps(Path(folder) / "metrics.jsonl")]


def run(recipe, folder):
    split = split_archive(open_archive("embedded"), recipe.data, untried=recipe.source.rounds > 0)
    return train(recipe, split.groups["train"], split.groups["dev"], folder)


@pytest.mark.parametrize("stop", [pytest.param(1, marks=pytest.mark.slow), 3, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_killed_run_goes_on_bit_by_bit(tiny_model, tmp_path, stop):
    recipe = recipe_for(tiny_model)
    whole = run(recipe, tmp_path / "whole")
    file = tmp_path / "recipe.yaml"
    file.write_text(yaml.safe_dump(recipe.model_dump(mode="json")))
    command = [sys.executable, "-m", "upsolve", "train", str(file), "--out", str(tmp_path / "killed")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    log = tmp_path / "killed" / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if log.exists() and len(log.read_text().splitlines()) >= stop:
            break
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    resumed = run(recipe, tmp_path / "killed")
    assert losses(tmp_path / "killed") == losses(tmp_path / "whole")
    assert (resumed.folder / "model.safetensors").read_bytes() == (whole.folder / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("advantage", "objective"),
    [
        pytest.param("passed", "reinforce", marks=pytest.mark.slow),
        ("leave_one_out", "reinforce"),
        pytest.param("standardised", "reinforce", marks=pytest.mark.slow),
        pytest.param("exponential", "reinforce", marks=pytest.mark.slow),
        ("leave_one_out", "topr"),
        pytest.param("asymre", "reinforce", marks=pytest.mark.slow),
        pytest.param("centred", "oapl", marks=pytest.mark.slow),
        pytest.param("leave_one_out", "dro", marks=pytest.mark.slow),
        pytest.param("awr", "reinforce", marks=pytest.mark.slow),
        pytest.param("passed", "dft", marks=pytest.mark.slow),
    ],
)
def test_every_method_runs_and_moves_the_weights(tiny_model, tmp_path, advantage, objective, monkeypatch):
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    recipe = recipe_for(
        tiny_model,
        advantage={"kind": advantage},
        objective={"kind": objective},
        optim={**SETTINGS["optim"], "max_steps": 2, "tokens_per_step": 1500},
    )
    trained = run(recipe, tmp_path / "run")
    assert trained.steps == 2 and not trained.collapsed
    before = (Path(tiny_model) / "model.safetensors").read_bytes()
    assert (trained.folder / "model.safetensors").read_bytes() != before
    row = trained.metrics[-1]
    assert {
        "loss",
        "grad_norm",
        "entropy",
        "logit_variance",
        "mass_up",
        "clipped",
        "tokens_per_second",
        "heldout_passed_logp",
    } <= row.keys()


def test_imitation_raises_the_likelihood_of_what_passed(tiny_model, tmp_path):
    recipe = recipe_for(tiny_model, advantage={"kind": "passed"}, objective={"reduce": "token_mean"})
    rows = run(recipe, tmp_path / "run").metrics
    assert rows[-1]["heldout_passed_logp"] > rows[1]["heldout_passed_logp"] + 0.05
    assert rows[-1]["logp_up"] > rows[0]["logp_up"] + 0.1


def test_adapters_train_and_load(tiny_model, tmp_path):
    from upsolve.policy.model import load_codec, load_model

    recipe = recipe_for(tiny_model, optim=FEW_STEPS)
    recipe = recipe.model_copy(update={"model": recipe.model.model_copy(update={"lora_rank": 4})})
    trained = run(recipe, tmp_path / "run")
    assert (trained.folder / "adapter_config.json").exists()
    assert load_model(str(trained.folder)).config.num_hidden_layers == 2
    assert load_codec(str(trained.folder)).completion("x") == load_codec(tiny_model).completion("x")


def test_a_collapse_stops_the_run_and_keeps_the_best(tiny_model, tmp_path):
    monitor = {**SETTINGS["monitor"], "eval_every": 1, "max_likelihood_drop": 0.01, "keep": "best"}
    optim = {**SETTINGS["optim"], "lr": 0.5}
    trained = run(recipe_for(tiny_model, monitor=monitor, optim=optim), tmp_path / "run")
    assert "held-out passed attempts" in trained.collapsed
    assert trained.steps < 6 and (trained.folder / "model.safetensors").exists()
    likelihoods = {row["step"]: row["heldout_passed_logp"] for row in trained.metrics}
    assert trained.kept_step == max(likelihoods, key=lambda step: likelihoods[step])


@pytest.mark.parametrize(
    ("keep", "advice"), [("last", "set monitor.keep: best"), ("best", "lower optim.lr, or monitor.eval_every")]
)
def test_a_collapse_before_any_saved_weights_names_the_remedy(tiny_model, tmp_path, keep, advice):
    monitor = {**SETTINGS["monitor"], "min_entropy": 99, "keep": keep}
    with pytest.raises(TrainingError, match=rf"step 1: entropy .* no earlier weights to end with: {advice}"):
        run(recipe_for(tiny_model, monitor=monitor), tmp_path / "run")


@pytest.mark.slow
def test_a_run_that_a_limit_stopped_goes_on_with_another_limit(tiny_model, tmp_path):
    whole = run(recipe_for(tiny_model), tmp_path / "whole")
    entropies = [row["entropy"] for row in whole.metrics]
    monitor = {**SETTINGS["monitor"], "save_every": 1, "min_entropy": min(entropies) + 1e-9}
    with pytest.raises(TrainingError, match="with another limit the same command resumes"):
        run(recipe_for(tiny_model, monitor=monitor), tmp_path / "run")
    resumed = run(recipe_for(tiny_model, monitor={**monitor, "min_entropy": 0}), tmp_path / "run")
    with pytest.raises(TrainingError, match=r"another recipe \(monitor.min_entropy was 0.0 and is now"):
        run(recipe_for(tiny_model, monitor=monitor), tmp_path / "run")
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")
    assert (resumed.folder / "model.safetensors").read_bytes() == (whole.folder / "model.safetensors").read_bytes()


def test_only_attempts_of_reached_steps_are_scored_under_the_frozen_start(tiny_model, tmp_path, monkeypatch):
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    stages = {"objective": {"kl": {"coefficient": 0.1}}, "optim": {**SETTINGS["optim"], "epochs": 1, "max_steps": 1}}
    run(recipe_for(tiny_model, **stages), tmp_path / "run")
    (file,) = (tmp_path / "cache" / "reference").glob("*.npz")
    (row,) = read_steps(tmp_path / "run" / "metrics.jsonl")
    with np.load(file) as stored:
        assert sum(stored[key].size for key in stored.files) == row["attempt_tokens"]


def test_a_sign_of_collapse_stops_the_run_with_its_last_weights(tiny_model, tmp_path):
    monitor = {**SETTINGS["monitor"], "eval_every": 1, "max_logit_variance": 1.001, "max_likelihood_drop": 99, "min_entropy": 0}
    optim = {**SETTINGS["optim"], "lr": 0.05}
    recipe = recipe_for(tiny_model, monitor=monitor, optim=optim)
    trained = run(recipe, tmp_path / "run")
    assert "max_logit_variance" in trained.collapsed and trained.kept_step == trained.steps < 6
    assert (trained.folder / "model.safetensors").exists()
    limit = limits_of(trained.start, recipe.monitor)["heldout_logit_variance"]
    assert trained.metrics[-1]["heldout_logit_variance"] > limit > trained.start["heldout_logit_variance"]


def test_a_folder_of_another_recipe_is_refused(tiny_model, tmp_path):
    run(recipe_for(tiny_model, optim=FEW_STEPS), tmp_path / "run")
    with pytest.raises(TrainingError, match=r"another recipe \(seed was 0 and is now 1\)"):
        run(recipe_for(tiny_model, optim=FEW_STEPS, seed=1), tmp_path / "run")


def test_the_main_job_end_to_end(tiny_model, tmp_path):
    stages = {"sample": {"samples": 2, "max_tokens": 12}, "evaluate": {"tasks": 3, "ks": [1, 2]}}
    recipe = recipe_for(tiny_model, **stages, optim={**SETTINGS["optim"], "max_steps": 4})
    seen = []
    before, after, _ = run_recipe(recipe, tmp_path / "run", progress=lambda what, done, total: seen.append((what, done, total)))
    assert [score.samples for score in before.hot.scores] == [2, 2, 2] and len(after.hot.scores) == 3
    assert [score.samples for score in before.greedy.scores] == [1, 1, 1] and before.heldout_logp < 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "pass@1" in page and "<svg" in page
    held_out = sum("heldout_margin" in row for row in load_trained(tmp_path / "run" / "training").metrics)
    first, second = re.findall(r"held-out passed minus failed, nats per token</b>.*?points=\"([^\"]*)\"", page)
    assert first == second and len(first.split()) == held_out + 1, "in the overview and below, and before the first step"
    facts = dict(re.findall("<dt>(\\w+)</dt><dd>(.*?)</dd>", page))
    assert {"model", "data", "recipe", "date", "duration", "cost", "command"} <= {*facts} and "trained on" in facts["data"]
    assert {what.split(" ")[0] for what, _, _ in seen} == {"base:", "train:", "trained:"}
    card = (tmp_path / "run" / "training" / "model" / "README.md").read_text()
    assert "interval_95:" in card and "trained on" in card and str(tmp_path) not in card and tiny_model not in card
    again = run_recipe(recipe, tmp_path / "run")
    assert again[0] == before and again[1] == after


@pytest.mark.slow
def test_a_run_of_one_step_is_warned_about(tiny_model, tmp_path, caplog):
    run(recipe_for(tiny_model, optim={"tokens_per_step": 10**6, "epochs": 1}), tmp_path / "run")
    assert "optim.tokens_per_step (now 1,000,000)" in caplog.text


def test_a_measured_base_is_reused_if_no_number_can_change(tmp_path):
    """What may change is listed: keys that are new, or forgotten, may not."""
    keys = leaves(Recipe().model_dump(mode="json"))
    assert all(any(within(key, [each]) for key in keys) for each in UNMEASURED)
    for key in (
        "data.language",
        "data.judge",
        "verify.repeats",
        "verify.analyses",
        "sample.seed",
        "model.prompt.system",
        "data.new",
        "new",
    ):
        assert not is_unmeasured(key, None, None), key
    given = {"started": ("base.json",), "allowed": is_unmeasured, "fresh": False}
    claim(tmp_path, Recipe(), **given)
    (tmp_path / "base.json").write_text("{}")
    claim(
        tmp_path, Recipe.model_validate({"optim": {"lr": 1e-3}, "data": {"group_size": 8}, "verify": {"workers": 1}}), **given
    )
    with pytest.raises(TrainingError, match="data.language was '' and is now 'cpp'"):
        claim(tmp_path, Recipe.model_validate({"data": {"language": "cpp"}}), **given)


def test_a_base_of_an_earlier_version_is_not_compared_with_several_temperatures(tiny_model, tmp_path):
    recipe = recipe_for(tiny_model, evaluate={"tasks": 3})
    dump_recipe(recipe, tmp_path / "run" / "recipe.yaml")
    scores = (TaskScore("a", "", 1, 0, {"failed": 1}),)
    save_evaluation(Evaluation("base", "m", "x:test", 0.8, 1.0, 0, 8, scores), tmp_path / "run" / "base.json")
    with pytest.raises(TrainingError, match=r"base.json: measured at temperature 0.8 alone, by an earlier version.*--fresh"):
        run_recipe(recipe, tmp_path / "run")


@pytest.mark.slow
def test_folds_are_run_and_pooled(tiny_model, tmp_path):
    recipe = recipe_for(
        tiny_model,
        data={"dev": 0.02},
        sample={"samples": 1, "max_tokens": 4},
        evaluate={"tasks": 3, "dev_tasks": 2, "dev_samples": 1, "temperatures": [0, 1], "likelihood_tasks": 0},
        optim={**SETTINGS["optim"], "max_steps": 1},
    )
    before, after = run_folds(recipe, tmp_path / "run", 2)
    assert len({score.task_id for score in before.best.scores}) == len(after.best.scores) == 6
    assert load_sweep(tmp_path / "run" / "trained.json") == after and (tmp_path / "run" / "report.html").exists()
    with pytest.raises(ConfigError, match="at least 2"):
        run_folds(recipe, tmp_path / "run", 1)


def test_a_finished_run_is_read_back(tiny_model, tmp_path, caplog):
    first = run(recipe_for(tiny_model, optim=FEW_STEPS), tmp_path / "run")
    assert "optim.tokens_per_step" not in caplog.text, "as many steps as it asks for"
    assert run(recipe_for(tiny_model, optim=FEW_STEPS), tmp_path / "run") == first
    assert first.groups > 0 and re.match(r"\d+ steps? on \d+ groups?, weights of step \d+", first.text())


def test_an_epoch_over_many_tasks_has_several_rounds_over_all_of_them():
    groups = [*split_archive(open_archive("embedded"), Recipe().data).groups["train"]][:10]
    source = StoredSource(groups, DataConfig(tasks_at_once=4), epochs=2)
    assert source.rounds == 6
    rounds = [[group.task.task_id for group in source.groups(number).stored] for number in range(6)]
    for epoch in (rounds[:3], rounds[3:]):
        assert sorted(chain(*epoch)) == sorted(group.task.task_id for group in groups)
    assert {len(part) for part in rounds} == {3, 4} and rounds[:3] != rounds[3:]


@pytest.mark.slow
def test_rounds_of_an_epoch_resume_and_are_scored_under_the_frozen_start(tiny_model, tmp_path):
    recipe = recipe_for(
        tiny_model,
        data={**SETTINGS["data"], "train": 0.2, "tasks_at_once": 4},
        optim={**SETTINGS["optim"], "tokens_per_step": 1500, "epochs": 2, "max_steps": 8, "schedule": "linear"},
        objective={"kl": {"coefficient": 0.1}},
    )
    whole = run(recipe, tmp_path / "whole")
    rows = read_steps(tmp_path / "whole" / "metrics.jsonl")
    assert [row["step"] for row in rows] == [*range(1, 9)] and rows[-1]["round"] >= 1
    assert rows[0]["lr"] > rows[-1]["lr"] > 0 and whole.steps == 8
    first = next(row for row in rows if row["round"] == 1)
    assert first["ess"] < 0.999  # 1 where the reference is the policy that this round starts from

    def stop(done, _total, _row):
        if done == 5:
            raise KeyboardInterrupt

    split = split_archive(open_archive("embedded"), recipe.data)
    with pytest.raises(KeyboardInterrupt):
        train(recipe, split.groups["train"], split.groups["dev"], tmp_path / "stopped", on_step=stop)
    run(recipe, tmp_path / "stopped")
    assert losses(tmp_path / "stopped") == losses(tmp_path / "whole")
