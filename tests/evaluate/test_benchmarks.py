"""An evaluation that is stopped resumes with the same samples; several temperatures share one model."""

import json
from dataclasses import replace

import pytest
import torch

from upsolve import extras
from upsolve.archive.store import open_archive
from upsolve.config import EvalConfig, Recipe, VerifyConfig
from upsolve.errors import MissingExtraError
from upsolve.evaluate import samples
from upsolve.evaluate.benchmarks import HeldOut, evaluate_model, heldout_likelihood, sweep_model
from upsolve.evaluate.samples import SampledModel
from upsolve.policy import model as model_module
from upsolve.policy.engines import sampler
from upsolve.policy.model import load_codec, load_model
from upsolve.types import Status
from upsolve.verify.analysis import analyst


class StoppedError(Exception):
    """The evaluation is stopped here."""


def stages_of(model):
    recipe = Recipe.model_validate(
        {
            "sample": {"samples": 2, "max_tokens": 12},
            "model": {"name": model, "bf16": False},
            "verify": {"workers": 1},
        }
    )
    return {"model": recipe.model, "sample": recipe.sample, "verify": recipe.verify}


def test_a_measure_that_is_stopped_goes_on(tiny_model, tmp_path, monkeypatch):
    monkeypatch.setattr(samples, "PORTION", 2)
    asked = []

    def spied(config, model):
        draw = sampler(config, model)

        def noting(tasks, **settings):
            asked.append([task.task_id for task in tasks])
            return draw(tasks, **settings)

        return noting

    monkeypatch.setattr(samples, "sampler", spied)
    stages = stages_of(tiny_model)
    tasks = open_archive("embedded").tasks()[:5]
    names = [task.task_id for task in tasks]
    told = []

    def measure(name, progress=None):
        evaluation, *_ = evaluate_model(tasks, **stages, keep=tmp_path / f"{name}.samples.jsonl", progress=progress)
        rows = [json.loads(line) for line in (tmp_path / f"{name}.samples.jsonl").read_text().splitlines()]
        return evaluation.scores, rows

    def stop_in_the_second_portion(what, done, total):
        told.append((what, done, total))
        if done > 4:
            raise StoppedError

    with pytest.raises(StoppedError):
        measure("stopped", stop_in_the_second_portion)
    assert asked == [names[:2], names[2:4]] and {total for *_, total in told} == {10}
    scores, rows = measure("stopped")
    assert asked[2:] == [names[2:4], names[4:]], "what was complete is not sampled again"
    assert [row["task_id"] for row in rows] == [name for name in names for _ in range(2)]
    assert (scores, rows) == measure("whole") and all(score.samples == 2 for score in scores)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stopped.samples.jsonl", "whole.samples.jsonl"]


@pytest.mark.parametrize("joint", [False, True])
def test_a_sweep_loads_one_model_measures_what_it_chose_and_resumes(tiny_model, tmp_path, monkeypatch, joint):
    """An engine without ``each`` samples one temperature after the other."""
    loaded, asked = [], []

    def spied(config, model):
        loaded.append(model.name)
        draw = sampler(config, model)

        def noting(tasks, *, config, **settings):
            asked.append([(config.temperature, config.samples, len(tasks))])
            return draw(tasks, config=config, **settings)

        def each(tasks, *, configs, **settings):
            asked.append([(config.temperature, config.samples, len(tasks)) for config in configs])
            return draw.each(tasks, configs=configs, **settings)

        if joint:
            noting.each = each
        return noting

    monkeypatch.setattr(samples, "sampler", spied)
    tasks = open_archive("embedded").tasks()
    held = HeldOut("embedded", "test", tuple(tasks[:2]), tuple(tasks[2:5]))
    evaluate = EvalConfig(temperatures=(1.0, 0.0, 0.5), dev_samples=3)
    keep, told = tmp_path / "base.samples.jsonl", []

    def progress(what, done, total):
        told.append((what, total))
        if what == "base: test, greedy, T 0.5, T 1: sample" and done > 9 and len(loaded) == 1:
            raise StoppedError

    def sweep():
        return sweep_model(held, **stages_of(tiny_model), evaluate=evaluate, name="base", keep=keep, progress=progress)

    with pytest.raises(StoppedError):
        sweep()
    found = sweep()
    # no sample of an untrained model passes, so all temperatures are equal and the lowest is the best; T 1 is the highest
    assert loaded == [tiny_model] * (1 if joint else 2)  # all attempts end at the same step
    dev, test = [(0.0, 1, 2), (0.5, 3, 2), (1.0, 3, 2)], [(0.0, 1, 3), (0.5, 2, 3), (1.0, 2, 3)]
    if joint:
        assert asked == [dev, test]
    else:
        assert asked == [[one] for one in (*dev, *test, (1.0, 2, 3))]
    assert {total for what, total in told if what.startswith("base: test,")} == {15}
    assert ("base: test: choose", 3) in told and (found.choices.temperature, found.choices.samples) == (0.5, 3)
    assert [(task.samples, task.greedy, task.any, task.inputs) for task in found.choices.tasks] == [(3, False, False, 5)] * 3
    assert [one.temperature for one in found.dev] == [0.0, 0.5, 1.0] and found.best is found.greedy
    assert (found.best.temperature, found.many.temperature, found.hot.temperature) == (0.0, 0.5, 1.0)
    assert found.hot.tasks == "embedded:test" and {one.tasks for one in found.dev} == {"embedded:dev"}
    rows = [json.loads(line) for line in keep.read_text().splitlines()]
    assert len(rows) == 2 * (1 + 3 + 3) + 3 * (1 + 2 + 2) and [path.name for path in tmp_path.iterdir()] == [keep.name]


def test_without_dev_tasks_only_the_lowest_temperature_is_measured(tiny_model):
    held = HeldOut("embedded", "test", (), tuple(open_archive("embedded").tasks()[:2]))
    with pytest.warns(UserWarning, match=r"no dev task with tests to choose a temperature on \(data.dev\)"):
        found = sweep_model(held, **stages_of(tiny_model), evaluate=EvalConfig())
    assert found.dev == () and found.best is found.hot is found.greedy and found.best.temperature == 0


def test_a_missing_analysis_raises_before_sampling(tiny_model, monkeypatch):
    monkeypatch.setattr(samples, "sampler", lambda *_: pytest.fail("sampled"))
    stages = stages_of(tiny_model) | {"verify": VerifyConfig(analyses=("security",))}
    monkeypatch.setitem(analyst.TOOLS, "security", "peft_of_nobody")
    monkeypatch.setitem(extras.EXTRAS, "peft_of_nobody", "analysis")
    analyst.tools.cache_clear()
    with pytest.raises(MissingExtraError, match="comes with the extra `analysis`"):
        evaluate_model(open_archive("embedded").tasks()[:1], **stages)


def test_temperatures_are_sorted_and_at_least_one():
    assert EvalConfig(temperatures=(1, 0, 1)).temperatures == (0.0, 1.0)
    with pytest.raises(ValueError, match="must have at least one"):
        EvalConfig(temperatures=())


def test_the_likelihood_is_the_mean_over_tasks_of_the_mean_over_tokens(tiny_model):
    groups = [group for group in open_archive("embedded").groups() if any(v.status is Status.PASSED for v in group.verdicts)][
        :3
    ]
    failed = replace(groups[2], verdicts=tuple(replace(v, status=Status.FAILED) for v in groups[2].verdicts))
    config = SampledModel(**stages_of(tiny_model))
    found, tasks = heldout_likelihood([failed, *groups], config, max_tasks=2)
    model, codec, means = load_model(tiny_model), load_codec(tiny_model), []
    for group in groups[:2]:
        prompt = codec.prompt(group.task).ids_P
        ids = codec.ids_of(next(a for a, v in zip(group.attempts, group.verdicts, strict=True) if v.status is Status.PASSED))
        with torch.no_grad():
            scores = model(torch.tensor([[*prompt, *ids]])).logits[0].log_softmax(-1)
        means.append(sum(float(scores[len(prompt) - 1 + i, token]) for i, token in enumerate(ids)) / len(ids))
    assert (found, tasks) == (pytest.approx(sum(means) / 2, abs=1e-4), 2)
    foreign = replace(groups[0], attempts=tuple(replace(one, language="cpp") for one in groups[0].attempts))
    assert heldout_likelihood([foreign], config, max_tasks=9) == (None, 0), "the prompt asks for Python"
    assert heldout_likelihood([failed], config, max_tasks=9) == (None, 0) == heldout_likelihood(groups, config, max_tasks=0)


def test_samples_and_likelihood_come_from_one_loading_and_many_samples_from_one_temperature(tiny_model, monkeypatch):
    loaded, load = [], model_module.AutoModelForCausalLM.from_pretrained
    monkeypatch.setattr(
        model_module.AutoModelForCausalLM, "from_pretrained", lambda *a, **b: loaded.append(a[0]) or load(*a, **b)
    )
    archive = open_archive("embedded")
    tasks, stored = archive.tasks()[:3], [*archive.groups()[:3]]
    held = HeldOut("embedded", "test", tuple(tasks[:1]), tuple(tasks[1:]), stored)
    config = EvalConfig(temperatures=(0, 0.5, 1), dev_samples=1, many_samples=5)
    found = sweep_model(held, **stages_of(tiny_model), evaluate=config)
    assert len(loaded) == 1 and found.heldout_tasks > 0 and found.heldout_logp < 0
    assert [{score.samples for score in one.scores} for one in (found.best, found.many, found.hot)] == [{1}, {5}, {2}]
    assert found.many.temperature == 0.5 and {score.samples for score in found.dev[1].scores} == {1}
