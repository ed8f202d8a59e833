"""Decoding with recorded steps: the same attempts. On CPUs a recorded step runs the model again, on GPUs it is a CUDA graph."""

import logging

import pytest
import torch

from upsolve.config import SampleConfig
from upsolve.policy.decoding import batched_decode
from upsolve.policy.decoding import sample as decoder
from upsolve.policy.decoding.batched_decode import DecodeGraphs
from upsolve.policy.decoding.sample import sample
from upsolve.policy.model import load_codec, load_model
from upsolve.types import Task

TASKS = [Task(str(number), "a statement of some words " * (1 + number % 3)) for number in range(7)]


def sampled(tiny_model, device, **settings):
    config = SampleConfig(max_tokens=40, seed=3, temperature=1.0, top_p=1.0, **settings)
    model = load_model(tiny_model, device=device)
    attempts = sample(model, load_codec(tiny_model), TASKS, config=config)
    return sorted((attempt.task_id, attempt.token_ids, attempt.token_logps) for attempt in attempts)


def recorded_on(device, monkeypatch):
    """Record on this device; return the number of recordings, replays and steps that ran as usual."""
    counts = {"recorded": 0, "replayed": 0, "usual": 0}
    record, forward = batched_decode.record, batched_decode.forward

    def rerun(run):
        counts["recorded"] += 1
        if device == "cuda":
            launch, out = record(run)
        else:
            out = run()
            launch = lambda: out.copy_(run())  # noqa: E731

        def replay():
            counts["replayed"] += 1
            launch()

        return replay, out

    def usual(*given):
        counts["usual"] += 1
        return forward(*given)

    monkeypatch.setattr(batched_decode, "record", rerun)
    monkeypatch.setattr(batched_decode, "forward", usual)
    monkeypatch.setattr(decoder, "decoder_of", DecodeGraphs)
    return counts


@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
)
@pytest.mark.parametrize(
    ("samples", "batch", "lookup"),
    [(3, 4, 0), pytest.param(4, 12, 0, marks=pytest.mark.slow), (1, 3, 0), pytest.param(2, 4, 4, marks=pytest.mark.slow)],
)
def test_recorded_steps_give_the_same_attempts(tiny_model, monkeypatch, device, samples, batch, lookup):
    monkeypatch.setattr(
        decoder, "decoder_of", lambda model, cache: lambda tokens: batched_decode.decode_step(model, cache, tokens)
    )
    plain = sampled(tiny_model, device, samples=samples, batch=batch, lookup=lookup)
    counts = recorded_on(device, monkeypatch)
    with_graphs = sampled(tiny_model, device, samples=samples, batch=batch, lookup=lookup)
    assert [one[:2] for one in with_graphs] == [one[:2] for one in plain]
    for (*_, logps), (*_, expected) in zip(with_graphs, plain, strict=True):
        assert logps == pytest.approx(expected, abs=1e-4)
    assert counts["replayed"] > 2 * counts["recorded"] > 0


@pytest.mark.slow
def test_a_step_that_cannot_be_recorded_runs_as_usual(tiny_model, monkeypatch, caplog):
    plain = sampled(tiny_model, "cpu", samples=2, batch=4)

    def refuse(_run):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(batched_decode, "record", refuse)
    monkeypatch.setattr(decoder, "decoder_of", DecodeGraphs)
    with caplog.at_level(logging.WARNING, logger="upsolve.policy"):
        assert [one[:2] for one in sampled(tiny_model, "cpu", samples=2, batch=4)] == [one[:2] for one in plain]
    assert caplog.text.count("decoding without CUDA graphs, which is slower: operation not permitted") == 1
