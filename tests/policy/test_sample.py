from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from upsolve.config import PromptConfig, SampleConfig
from upsolve.errors import ModelError
from upsolve.policy.decoding import sample as decoder
from upsolve.policy.decoding import sample as sample_module
from upsolve.policy.decoding.kv_cache import BatchedCache, attempts_that_fit
from upsolve.policy.decoding.sample import (
    decode_batched,
    generate_attempts,
    of_like_length,
    prefill_runs,
    sample,
    sample_each,
    token_bytes_of,
)
from upsolve.policy.decoding.sampling import Lookup, inverse_cdf, sample_tokens
from upsolve.policy.model import load_codec, load_model
from upsolve.policy.request import by_prompt, requests
from upsolve.types import Task

TASKS = [Task("a", "short"), Task("b", "a rather longer statement than the other one"), Task("c", "middle one")]
CONFIG = SampleConfig(samples=3, max_tokens=12, seed=3, batch=4)


def test_as_many_attempts_are_decoded_as_the_memory_holds(tiny_model):
    model = load_model(tiny_model)
    one = model.config
    each = (
        2 * one.num_hidden_layers * one.num_key_value_heads * one.head_dim * 4 * 100
    )  # keys and values, float32, of 100 tokens
    token = token_bytes_of(model)
    assert [attempts_that_fit(token, 100, free) for free in (0, 2 * each, 21 * each)] == [1, 1, 10]


def test_one_long_prompt_does_not_lengthen_the_cache_of_the_others(tiny_model, monkeypatch):
    """The keys of prompts are stored with the length of the longest: a much longer one is decoded after the others."""
    model, codec = load_model(tiny_model), load_codec(tiny_model)
    stored, add = [], BatchedCache.add

    def record(self, prompt):
        number = add(self, prompt)
        stored.append(tuple(self.prompts[0][0].shape[::2]))
        return number

    monkeypatch.setattr(BatchedCache, "add", record)
    long = Task("long", "word " * 600)
    made = list(sample(model, codec, [long, *TASKS], config=CONFIG.model_copy(update={"samples": 1})))
    *others, alone = stored
    assert {tokens for _, tokens in others[1:]} == {64} and alone[0] == 1 and alone[1] > 600  # the first is the check's
    assert [attempt.task_id for attempt in made][-1] == "long"
    assert made[-1] == next(sample(model, codec, [long], config=CONFIG.model_copy(update={"samples": 1})))


@pytest.mark.parametrize(
    ("lengths", "parts"),
    [
        ([5], [[5]]),
        ([10, 30, 20], [[10, 20, 30]]),
        ([684, 100, 100], [[100, 100, 684]]),
        ([685, 100, 100], [[100, 100], [685]]),
        ([10, 500, 3000], [[10], [500], [3000]]),
        ([130] * 9 + [3751], [[130] * 9, [3751]]),
    ],
)
def test_prompts_of_like_length_are_decoded_together(lengths, parts):
    prompts = [(Task(str(place), ""), SimpleNamespace(ids_P=(0,) * length)) for place, length in enumerate(lengths)]
    assert [[len(prompt.ids_P) for _, prompt in part] for part in of_like_length(prompts)] == parts


def noise(count):
    return torch.rand(count, generator=torch.Generator().manual_seed(0))


A, B = (*range(200),), (*range(100), *range(300, 400))


@pytest.mark.parametrize(
    ("last", "prompts", "runs"),
    [
        ((), [(*A, 1), (*A, 2, 7), (*A, 3)], [(0, 1), (199, 2)]),
        (A, [(*A, 1, 2), (*A, 3, 4), (*A, 5, 6)], [(199, 3)]),
        (A, [(*A, 1), (*B, 2, 3), (*B, 4, 5)], [(199, 1), (100, 1), (200, 1)]),
        ((), [(1, 2, 3), (2, 3, 4), (3, 4)], [(0, 3)]),
        (A, [(*A, at, *range(59)) for at in range(24)], [(199, 16), (200, 8)]),
        (A, [], []),
    ],
    ids=["one prompt before the others", "all at once", "another beginning", "short ones", "many", "none"],
)
def test_prompts_that_go_on_alike_are_prefilled_in_one_pass(last, prompts, runs):
    found = [*prefill_runs(last, prompts)]
    assert [ids for _, run in found for ids in run] == prompts
    assert [(shared, len(run)) for shared, run in found] == runs


def test_temperature_zero_takes_the_likeliest():
    tokens, logps = sample_tokens(torch.tensor([[0.0, 2.0, 1.0]]), noise(1), temperature=0, top_p=1)
    assert tokens.tolist() == [1] and logps.tolist() == [0.0], "there is no choice"


def test_the_nucleus_cuts_the_tail():
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]])).repeat(4000, 1)
    tokens, logps = sample_tokens(logits, noise(4000), temperature=1.0, top_p=0.75)
    counts = torch.bincount(tokens, minlength=4)
    # 0.5 and 0.3 are the smallest set with mass >= 0.75: 5/8 and 3/8
    assert counts[2:].tolist() == [0, 0]
    assert counts[0] / 4000 == pytest.approx(0.625, abs=0.03)
    assert torch.allclose(logps.exp(), torch.tensor([5 / 8, 3 / 8])[tokens])


def test_without_a_nucleus_every_token_has_its_probability():
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]])).repeat(8000, 1)
    tokens, logps = sample_tokens(logits, noise(8000), temperature=1.0, top_p=1.0)
    counts = torch.bincount(tokens, minlength=4) / 8000
    assert torch.allclose(logps, logits[0][tokens])
    assert counts.tolist() == pytest.approx([0.5, 0.3, 0.15, 0.05], abs=0.02)
    # at temperature 0.5 the weights are squared: 0.25, 0.09, 0.0225, 0.0025 over 0.365
    tokens, logps = sample_tokens(logits, noise(8000), temperature=0.5, top_p=1.0)
    sharp = torch.bincount(tokens, minlength=4) / 8000
    assert torch.allclose(logps.exp(), torch.tensor([0.25, 0.09, 0.0225, 0.0025])[tokens] / 0.365)
    assert sharp.tolist() == pytest.approx([0.685, 0.247, 0.062, 0.007], abs=0.02)


@pytest.mark.parametrize("size", [3, 256, 700])
def test_tokens_are_found_in_blocks_as_in_one_running_sum(size):
    weights = torch.rand(2000, size, generator=torch.Generator().manual_seed(1)).double()
    uniform = noise(2000).double()
    whole = torch.searchsorted(weights.cumsum(-1), uniform[:, None] * weights.sum(-1, keepdim=True), right=True)[:, 0]
    assert torch.equal(inverse_cdf(weights, uniform), whole)


def test_rounding_never_samples_a_token_without_probability():
    weights = torch.zeros(2, 600)
    weights[:, [3, 290]] = torch.tensor([0.7, 0.3])
    assert inverse_cdf(weights, torch.tensor([0.0, 1.0])).tolist() == [3, 290]


def plain(model, codec, task, ids):
    """Untempered log-probabilities [R] and mean entropy of ids, by the model's own forward pass."""
    prompt = codec.prompt(task).ids_P
    logp = model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1].float().log_softmax(-1)
    entropy = -(logp.exp() * logp).sum(-1).mean()
    return logp[torch.arange(len(ids)), torch.tensor(ids)].tolist(), float(entropy)


@torch.inference_mode()
def test_samples_carry_the_log_probability_and_entropy_of_their_tokens(tiny_model):
    model, codec = load_model(tiny_model), load_codec(tiny_model)
    greedy = list(sample(model, codec, TASKS, config=SampleConfig(samples=1, temperature=0, max_tokens=6)))
    assert sorted(a.task_id for a in greedy) == ["a", "b", "c"]
    for attempt in greedy:
        task = next(t for t in TASKS if t.task_id == attempt.task_id)
        ids = list(codec.prompt(task).ids_P)
        picked = []
        for _ in range(attempt.tokens):
            picked.append(int(model(torch.tensor([ids + picked])).logits[0, -1].argmax()))
        assert attempt.code == codec.decode(picked)
        logps, entropy = plain(model, codec, task, picked)
        assert attempt.token_logps == (0.0,) * attempt.tokens and attempt.behavior_logp == pytest.approx(sum(logps), abs=1e-3)
        assert attempt.entropy == pytest.approx(entropy, abs=1e-4)


def as_sampled(logits_V, token, temperature, top_p):
    """Log-probability of a token in the nucleus at a temperature, from the definition, in double precision."""
    weights = np.exp((logits_V - logits_V.max()) / temperature)
    weights, order = weights / weights.sum(), np.argsort(-weights, kind="stable")
    nucleus = order[: int(np.searchsorted(np.cumsum(weights[order]), top_p)) + 1]
    assert token in nucleus
    return float(np.log(weights[token] / weights[nucleus].sum()))


@torch.inference_mode()
@pytest.mark.parametrize("decode", [decode_batched, generate_attempts])
@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.05, 1.0), (1.0, 0.4), (0.05, 0.8)])
def test_log_probabilities_of_tokens_are_of_the_distribution_that_was_sampled(tiny_model, decode, temperature, top_p):
    model, codec = load_model(tiny_model), load_codec(tiny_model)
    config = SampleConfig(samples=2, temperature=temperature, top_p=top_p, max_tokens=6)
    attempts = [attempt for ended in decode(model, codec, by_prompt(requests(TASKS, config)), config) for _, attempt in ended]
    assert len(attempts) == 6
    for attempt in attempts:
        task = next(t for t in TASKS if t.task_id == attempt.task_id)
        prompt, ids = codec.prompt(task).ids_P, list(attempt.token_ids)
        logits_RV = model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1].double().numpy()
        wanted = [as_sampled(logits_V, token, temperature, top_p) for logits_V, token in zip(logits_RV, ids, strict=True)]
        assert attempt.token_logps == pytest.approx(wanted, abs=1e-3)
        assert attempt.behavior_logp == pytest.approx(sum(plain(model, codec, task, ids)[0]), abs=1e-3)


def test_every_attempt_is_made_once_and_again_the_same(tiny_model):
    model, codec = load_model(tiny_model), load_codec(tiny_model)
    seen = []
    first = list(sample(model, codec, TASKS, config=CONFIG, author="me", on_done=seen.append))
    assert {t.task_id: sum(a.task_id == t.task_id for a in first) for t in TASKS} == {"a": 3, "b": 3, "c": 3}
    assert seen[-1] == 9 and {a.author for a in first} == {"me"}
    assert all((1 <= a.tokens <= 12 and a.truncated == (a.tokens == 12)) or not a.truncated for a in first)
    assert list(sample(model, codec, TASKS, config=CONFIG, author="me")) == first
    other = list(sample(model, codec, TASKS, config=CONFIG.model_copy(update={"seed": 4}), author="me"))
    assert [a.code for a in other] != [a.code for a in first]


def test_an_attempt_does_not_depend_on_what_else_is_sampled(tiny_model):
    model, codec = load_model(tiny_model), load_codec(tiny_model)
    together = {(a.task_id, a.code) for a in sample(model, codec, TASKS, config=CONFIG)}
    alone = {(a.task_id, a.code) for task in reversed(TASKS) for a in sample(model, codec, [task], config=CONFIG)}
    assert alone == together
    fewer = CONFIG.model_copy(update={"samples": 1, "batch": 1})
    assert {(a.task_id, a.code) for a in sample(model, codec, TASKS, config=fewer)} < together
    assert list(sample(model, codec, [], config=CONFIG)) == []


@pytest.mark.parametrize("temperature", [0.8, 0.1])
def test_generate_gives_the_attempts_of_batched_decoding(tiny_model, temperature):
    model, codec = load_model(tiny_model), load_codec(tiny_model)
    config = CONFIG.model_copy(update={"temperature": temperature})
    plain = [
        attempt for ended in generate_attempts(model, codec, by_prompt(requests(TASKS, config)), config) for _, attempt in ended
    ]
    batched = {attempt.token_ids: attempt for attempt in sample(model, codec, TASKS, config=config)}
    assert len(plain) == 9
    for attempt in plain:
        twin = batched[attempt.token_ids]
        numbers = {"behavior_logp": twin.behavior_logp, "entropy": twin.entropy, "token_logps": twin.token_logps}
        assert replace(attempt, **numbers) == twin
        assert attempt.token_logps == pytest.approx(twin.token_logps, abs=1e-4)
        assert attempt.entropy == pytest.approx(twin.entropy, abs=1e-4)


@pytest.mark.parametrize("temperatures", [(0.0,), (0.02, 0.0), (0.1, 0.0, 1.0)])
def test_attempts_that_are_equal_so_far_are_decoded_once(tiny_model, monkeypatch, temperatures):
    model, codec = load_model(tiny_model), load_codec(tiny_model)
    rows, usual = [], decoder.decoder_of

    def counted(model, cache):
        decode = usual(model, cache)
        return lambda tokens: rows.append(len(tokens)) or decode(tokens)

    monkeypatch.setattr(decoder, "decoder_of", counted)
    monkeypatch.setattr(decoder, "USED", 1)  # free slots are dropped at once
    configs = [CONFIG.model_copy(update={"temperature": t, "samples": 4, "batch": 64}) for t in temperatures]
    made = [attempt for _, attempt in sample_each(model, codec, TASKS, configs=configs)]
    distinct = {(attempt.task_id, attempt.token_ids[:at]) for attempt in made for at in range(attempt.tokens)}
    assert sum(rows) == len(distinct) < sum(attempt.tokens for attempt in made)
    assert len(made) == 12 * len(temperatures)


@pytest.mark.parametrize("batched", [True, False])
def test_several_temperatures_at_once_give_the_same_attempts(tiny_model, monkeypatch, batched):
    model, codec = load_model(tiny_model), load_codec(tiny_model)
    configs = [CONFIG.model_copy(update={"temperature": t, "samples": n, "seed": n}) for t, n in ((0.0, 1), (0.7, 2), (1.0, 3))]
    apart = [{a.token_ids: a for a in sample(model, codec, TASKS, config=config)} for config in configs]
    prefilled, usual = [], decoder.prefill
    monkeypatch.setattr(decoder, "prefill", lambda *given: prefilled.append(len(given[2])) or usual(*given))
    if not batched:
        monkeypatch.setattr(sample_module, "problem_of", lambda *_: "")
        monkeypatch.setattr(sample_module, "decode_batched", generate_attempts)
    together = list(sample_each(model, codec, TASKS, configs=configs))
    assert sorted(part for part, _ in together) == [0] * 3 + [1] * 6 + [2] * 9
    for part, attempt in together:
        assert attempt.token_logps == pytest.approx(apart[part][attempt.token_ids].token_logps, abs=1e-4)
        assert attempt.entropy == pytest.approx(apart[part][attempt.token_ids].entropy, abs=1e-4)
    assert sum(prefilled) == (len(TASKS) if batched else 0)


def test_settings_that_differ_in_more_are_not_sampled_together(tiny_model):
    configs = [CONFIG, CONFIG.model_copy(update={"max_tokens": 3})]
    with pytest.raises(ValueError, match="temperature, samples and seed alone"):
        next(sample_each(load_model(tiny_model), load_codec(tiny_model), TASKS, configs=configs))


def test_tokens_that_followed_before_are_proposed():
    lookup = Lookup((1, 2, 3, 4, 5, 1, 2))
    assert lookup.draft(2) == [3, 4] and lookup.draft(9) == [3, 4, 5, 1, 2]
    lookup.append(9)
    assert lookup.draft(4) == []
    for token in (7, 2, 3):
        lookup.append(token)
    assert lookup.draft(1) == [4]


class Oracle(Lookup):
    """Proposes the attempt that is known to be sampled, with a wrong token now and then."""

    known: ClassVar[dict[tuple[int, ...], list[list[int]]]] = {}
    used: ClassVar[list[int]] = []

    def __init__(self, prompt):
        super().__init__(prompt)
        self.prompt = tuple(prompt)

    def draft(self, most):
        so_far = self.ids[len(self.prompt) :]
        ids = next((ids for ids in self.known[self.prompt] if ids[: len(so_far)] == so_far and len(ids) > len(so_far)), [])
        draft = [token if at % 5 else 3 for at, token in enumerate(ids)][len(so_far) :][:most]
        self.used.append(len(draft))
        return draft


@pytest.mark.parametrize("batch", [2, pytest.param(4, marks=pytest.mark.slow), 16])
def test_proposals_leave_the_samples_as_they_are(tiny_model, monkeypatch, batch):
    model, codec = load_model(tiny_model), load_codec(tiny_model)
    config = CONFIG.model_copy(update={"batch": batch, "temperature": 1.0, "top_p": 1.0, "max_tokens": 24})
    plain = {attempt.token_ids: attempt for attempt in sample(model, codec, TASKS, config=config)}
    for task in TASKS:
        Oracle.known[codec.prompt(task).ids_P] = [list(a.token_ids) for a in plain.values() if a.task_id == task.task_id]
    steps, usual = [], decoder.decoder_of

    def counted(model, cache):
        decode = usual(model, cache)
        return lambda tokens: steps.append(tokens.shape[1]) or decode(tokens)

    monkeypatch.setattr(decoder, "decoder_of", counted)
    for lookup in (Lookup, Oracle):
        monkeypatch.setattr(decoder, "Lookup", lookup)
        steps.clear()
        again = list(sample(model, codec, TASKS, config=config.model_copy(update={"lookup": 6})))
        assert {attempt.token_ids for attempt in again} == plain.keys() and len(again) == 9
        for attempt in again:
            twin = plain[attempt.token_ids]
            assert attempt.token_logps == pytest.approx(twin.token_logps, abs=1e-4)
            assert attempt.entropy == pytest.approx(twin.entropy, abs=1e-4)
    assert max(steps) == 7 and sum(steps) > len(steps)
    assert len(steps) < 0.6 * sum(attempt.tokens for attempt in again) / min(batch, 9)


def test_only_the_own_engine_looks_up():
    with pytest.raises(ValidationError, match="only the engine transformers looks up tokens, not vllm"):
        SampleConfig(engine="vllm", lookup=4)


OUTCOME = PromptConfig(outcome="Outcome: {outcome}")


def guided_ids(model, codec, task, weight, tokens):
    """The greedy tokens of l + w (l - l'), each from whole forward passes."""
    ids, stops = [], codec.stop_mask(model.config.vocab_size)
    while len(ids) < tokens and not (ids and stops[ids[-1]]):
        own, other = (
            model(torch.tensor([[*one.prompt(task).ids_P, *ids]])).logits[0, -1].float() for one in (codec, codec.failing)
        )
        ids.append(int((own + weight * (own - other)).argmax()))
    return tuple(ids)


@torch.inference_mode()
def test_guidance_samples_from_the_difference_of_both_outcomes(tiny_model):
    model, codec = load_model(tiny_model).eval(), load_codec(tiny_model, style=OUTCOME)
    assert (
        codec.prompt_text(TASKS[0]).count("Outcome: passed")
        == codec.failing.prompt_text(TASKS[0]).count("Outcome: failed")
        == 1
    )
    plain = CONFIG.model_copy(update={"samples": 2, "temperature": 0.0, "batch": 3, "max_tokens": 10})
    for weight in (0.0, 25.0):
        made = [*sample(model, codec, TASKS, config=plain.model_copy(update={"guidance": weight}))]
        assert len(made) == 6
        for task in TASKS:
            expected = guided_ids(model, codec, task, weight, 10)
            assert {one.token_ids for one in made if one.task_id == task.task_id} == {expected}
    with pytest.raises(ModelError, match="prompts name no outcome"):
        [*sample(model, load_codec(tiny_model), TASKS, config=plain.model_copy(update={"guidance": 1.0}))]
