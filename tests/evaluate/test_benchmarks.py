"""A measure that is stopped goes on, and comes to the same samples."""

import json

import pytest

from upsolve.archive.store import open_archive
from upsolve.config import Recipe
from upsolve.evaluate import benchmarks
from upsolve.evaluate.benchmarks import evaluate_model
from upsolve.policy.engines import sampler


class StoppedError(Exception):
    """The measure is stopped here."""


def test_a_measure_that_is_stopped_goes_on(tiny_model, tmp_path, monkeypatch):
    monkeypatch.setattr(benchmarks, "PORTION", 2)
    asked = []

    def spied(config, model):
        draw = sampler(config, model)

        def noting(tasks, **how):
            asked.append([task.task_id for task in tasks])
            return draw(tasks, **how)

        return noting

    monkeypatch.setattr(benchmarks, "sampler", spied)
    recipe = Recipe.model_validate(
        {"sample": {"samples": 2, "max_tokens": 12}, "model": {"bf16": False}, "verify": {"workers": 1}}
    )
    tasks = open_archive("embedded").tasks()[:5]
    names = [task.task_id for task in tasks]
    told = []

    def measure(name, progress=None):
        evaluation, *_ = evaluate_model(
            recipe, tasks, model=tiny_model, name="x", keep=tmp_path / f"{name}.samples.jsonl", progress=progress
        )
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
