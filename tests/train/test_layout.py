"""Attention on CPUs in bundles of chains of tokens: the same as over whole rows with a mask."""

import gc

import numpy as np
import pytest
import torch

from upsolve.config import OptimConfig
from upsolve.policy.attention import layout as layouts
from upsolve.policy.attention.bundled import LAYOUTS, TREE, carrier_of, tree_attention
from upsolve.policy.attention.gpu import FLEX
from upsolve.policy.attention.layout import GroupSpan, bundled, chains, layout
from upsolve.policy.model import load_model
from upsolve.train.data.encode import EncodedAttempt, EncodedGroup
from upsolve.train.data.pack import PREFIX, pack, plan_scoring, plan_steps, shared_prefixes
from upsolve.train.update.logprobs import token_scores
from upsolve.train.update.reference_scorer import prompts_of

SIZES = [(11, (5, 9, 7)), (2, (5,)), (30, (1, 1)), (12, (6, 8, 6)), (3, (40, 2))]
"""Prompt and attempts of each group."""
ALIKE = [(60, 9, (5, 4)), (60, 3, (7,)), (60, 1, (2, 6)), (0, 12, (6,)), (55, 8, (3, 3)), (55, 30, (9,))]
"""Groups that share the beginnings of their prompts: tokens of the beginning, of the rest, of the attempts."""


def groups(sizes=SIZES, alike=()):
    rng = np.random.default_rng(0)
    beginnings = {shared: rng.integers(3, 250, shared).tolist() for shared in (0, 55, 60)}

    def group(shared, prompt, sizes):
        attempts = (EncodedAttempt(tuple(rng.integers(3, 250, size).tolist()), np.ones(size, np.float32)) for size in sizes)
        return EncodedGroup((*beginnings[shared], *rng.integers(3, 250, prompt).tolist()), tuple(attempts))

    return [*(group(0, *one) for one in sizes), *(group(*one) for one in alike)]


def batch():
    made = groups()
    return pack([made[:3], made[3:4], made[4:]])  # the first two rows are padded


def scores_and_gradients(name, *, blocks, bf16):
    model = load_model(name)
    model.set_attn_implementation(TREE)
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        logp_T = token_scores(model, batch(), blocks=blocks).logp_T
    logp_T.square().mean().backward()
    return torch.cat([logp_T.detach(), *(parameter.grad.flatten() for parameter in model.parameters())])


def test_bundles_equal_whole_rows(tiny_model):
    whole = scores_and_gradients(tiny_model, blocks=False, bf16=False)
    assert torch.allclose(scores_and_gradients(tiny_model, blocks=True, bf16=False), whole, atol=2e-6, rtol=1e-5)
    rounded = scores_and_gradients(tiny_model, blocks=False, bf16=True)
    error = (rounded - whole).norm()
    assert 0 < (scores_and_gradients(tiny_model, blocks=True, bf16=True) - whole).norm() < 1.5 * error


SPANS = [[GroupSpan(0, 100, (20,)), GroupSpan(120, 10, (3, 4), 0, 100)], [GroupSpan(0, 95, (30, 7)), GroupSpan(132, 5, ())]]
"""Groups of two rows of 140 tokens: one continues the prompt of another, one has no attempts; both rows end with padding."""


@pytest.fixture
def collected():
    """Return a function that collects the garbage of a test alone: a million objects of the libraries take a second each time."""
    gc.freeze()
    yield gc.collect
    gc.unfreeze()


def test_a_layout_lives_until_its_backward_pass_even_with_hooks_that_copy_tensors(tiny_model, collected):
    model = load_model(tiny_model)
    model.set_attn_implementation(TREE)
    collected()
    before = len(LAYOUTS)
    for pack_tensor in (lambda tensor: tensor, lambda tensor: tensor.detach().clone()):
        with torch.autograd.graph.saved_tensors_hooks(pack_tensor, lambda tensor: tensor):
            mean = token_scores(model, batch()).logp_T.mean()
        collected()
        assert len(LAYOUTS) == before + 1
        mean.backward()
        del mean
        collected()
        assert len(LAYOUTS) == before


def visible():
    mask = torch.zeros(2, 1, 140, 140, dtype=torch.bool)
    for row, spans in enumerate(SPANS):
        for span in spans:
            end = span.start + span.prompt
            seen = [*range(span.prefix_start, span.prefix_start + span.prefix), *range(span.start, end)]
            for query in range(span.start, end):
                mask[row, 0, query, [key for key in seen if key <= query]] = True
            for size in span.attempts:
                for query in range(end, end + size):
                    mask[row, 0, query, [*seen, *range(end, query + 1)]] = True
                end += size
        for query in range(end, 140):
            mask[row, 0, query, query] = True
    return mask


@pytest.mark.parametrize("cap", [None, 0.5])
@pytest.mark.parametrize("width", [8, 12], ids=["values as wide as keys", "values wider than keys"])
def test_attention_in_bundles_equals_attention_with_a_mask(cap, width, monkeypatch):
    monkeypatch.setattr(layouts, "OVERHEAD", 0)  # more bundles than one
    torch.manual_seed(0)
    given = [torch.randn(2, heads, 140, size, dtype=torch.float64) for heads, size in ((6, 8), (2, 8), (2, width))]
    found = []
    made = layout(SPANS, 140, torch.device("cpu"), torch.float64)
    for options in ({"layout": carrier_of(made)}, {}):
        inputs = [tensor.clone().requires_grad_() for tensor in given]
        out = attention(*inputs, scaling=0.3, softcap=cap, **options)
        real = torch.cat([out[0, :137], out[1, :137]])
        real.square().sum().backward()
        found.append([real, *(tensor.grad for tensor in inputs)])
    assert len(layout(SPANS, 140, torch.device("cpu")).bundles) > 1
    assert all(torch.allclose(one, other, atol=1e-12) for one, other in zip(*found, strict=True))


def attention(query, key, value, *, scaling, softcap, **options):
    if options:
        return tree_attention(None, query, key, value, None, scaling=scaling, softcap=softcap, **options)[0]
    scores = torch.einsum("bksqd,bktd->bksqt", query.unflatten(1, (2, 3)), key) * scaling
    scores = (softcap * torch.tanh(scores / softcap) if softcap else scores).masked_fill(~visible()[:, None], -torch.inf)
    return torch.einsum("bksqt,bktd->bqksd", scores.softmax(-1), value).flatten(2, 3)


def test_bundles_hold_every_token_once():
    made = layout(SPANS, 140, torch.device("cpu"))
    tokens = np.concatenate([part.query_NM.ravel() for part in made.bundles])
    assert sorted(tokens[tokens >= 0]) == [*range(137), *range(140, 140 + 137)]
    assert not layout([], 140, torch.device("cpu")).bundles


def test_chains_of_similar_length_share_a_bundle_that_fits_the_cache():
    short, long = [GroupSpan(at * 150, 100, (25, 25)) for at in range(10)], [GroupSpan(0, 700, (200,) * 8)]
    for rows, most in (([short], 4), ([long], 8)):
        found = bundled(chains(rows, 2300))
        assert len(found) <= most
        for part in found:
            scores = len(part) * max(chain.tokens for chain in part) * max(chain.keys for chain in part)
            assert len(part) == 1 or scores <= layouts.SCORES
    alike = bundled(chains([short], 1500))
    assert {chain.tokens for chain in alike[0]} == {125}
    assert {chain.tokens for chain in alike[-1]} == {25}


def shared_batch():
    made = groups([], ALIKE)
    return pack([made, groups([], ALIKE[:2])])


def plain_scores(name, rows):
    model = load_model(name)
    logps = []
    for group in (group for row in rows for group in row):
        for one in group.attempts:
            logp = model(torch.tensor([[*group.prompt_P, *one.ids_R]])).logits.log_softmax(-1)[0, len(group.prompt_P) - 1 : -1]
            logps.append(logp.gather(1, torch.tensor(one.ids_R)[:, None])[:, 0])
    logp_T = torch.cat(logps)
    logp_T.square().mean().backward()
    return torch.cat([logp_T.detach(), *(parameter.grad.flatten() for parameter in model.parameters())])


@pytest.mark.parametrize("way", ["in bundles", "whole rows"])
def test_a_shared_beginning_of_prompts_changes_no_score_and_no_gradient(tiny_model, way):
    made = groups([], ALIKE)
    rows = [
        [group for unit in shared_prefixes(row, len(row), 10**6) for group in unit.groups]
        for row in (made, groups([], ALIKE[:2]))
    ]
    plain = plain_scores(tiny_model, rows)
    model = load_model(tiny_model)
    model.set_attn_implementation(TREE)
    logp_T = token_scores(model, shared_batch(), blocks=way != "whole rows").logp_T
    logp_T.square().mean().backward()
    found = torch.cat([logp_T.detach(), *(parameter.grad.flatten() for parameter in model.parameters())])
    assert torch.allclose(found, plain, atol=1e-5, rtol=1e-4)


def test_a_shared_beginning_is_packed_once():
    batch = shared_batch()
    single = sum(len(g.prompt_P) + sum(len(one.ids_R) - 1 for one in g.attempts) for g in groups([], ALIKE))
    assert batch.ids_BL.shape[1] == single - 2 * 60 - 1 * 55
    assert int((batch.prefix_BL[0] >= 0).sum()) == single - 3 * 60 - 2 * 55 - 12 - 5
    assert prompts_of(batch)[:2] == [groups([], ALIKE)[0].prompt_P] * 2


def test_groups_that_begin_alike_come_together_in_the_order_of_the_first():
    made = groups([], ALIKE)
    mixed = [made[at] for at in (3, 5, 0, 4, 1, 2)]
    assert [[mixed.index(group) for group in unit.groups] for unit in shared_prefixes(mixed, 2, 10**6)] == [
        [0],
        [1, 3],
        [2, 4],
        [5],
    ]
    assert [unit.shared for unit in shared_prefixes(mixed, 2, 10**6)] == [0, 55, 60, 0]
    steps = plan_steps(mixed, OptimConfig(tokens_per_step=190, tokens_per_batch=190, prefix_groups=4))
    assert [len(set(batch.group_S.tolist())) for step in steps for batch in step] == [3, 3]
    plain = groups()
    assert [unit.groups for unit in shared_prefixes(plain, 8, 10**6)] == [(group,) for group in plain]
    assert shared_prefixes([made[0], made[0]], 8, 10**6)[0].shared == len(made[0].prompt_P) - 1 > PREFIX


@pytest.mark.parametrize("limit", [{"tokens_per_batch": 100}, {"tokens_per_batch": 200, "row_tokens": 100}])
def test_a_shared_beginning_keeps_rows_within_their_limit(limit):
    made = groups([], ALIKE[:3]) * 2
    assert any(unit.tokens > 100 for unit in shared_prefixes(made, 4, 10**6))
    optim = OptimConfig(tokens_per_step=400, prefix_groups=4, **limit)
    batches = [batch for step in plan_steps(made, optim) for batch in step]
    assert sum(len(set(batch.group_S.tolist())) for batch in batches) == len(made)
    assert max(batch.ids_BL.shape[1] for batch in batches) <= 100


def test_groups_that_begin_alike_fill_half_of_a_step():
    made = groups([], ALIKE[:3]) * 8
    steps = plan_steps(made, OptimConfig(tokens_per_step=400, tokens_per_batch=400))
    starts = [int((batch.group_BL[0] == batch.prefix_BL[0].max()).sum()) for step in steps for batch in step]
    units = shared_prefixes(made, len(made), 200)
    assert max(unit.tokens for unit in units) <= 200 < 100 + min(unit.tokens for unit in units[:-1])
    assert len(steps) == -(-len(units) // 2) and set(starts) == {60}
    quarter = plan_steps(made, OptimConfig(tokens_per_step=200, tokens_per_batch=200))
    assert len(quarter) == len(units)  # 60 tokens are more than a quarter
    large = groups([], [(60, 10, (70,)), (60, 20, (60,))] * 4)
    steps = plan_steps(large, OptimConfig(tokens_per_step=310, tokens_per_batch=310))
    assert len(steps) == 3  # two groups are more than half of a step, and three fit into one
    by_attempts = plan_steps(made, OptimConfig(attempts_per_step=40, tokens_per_batch=400))
    assert [len(step) for step in by_attempts] == [1] and len(set(by_attempts[0][0].group_S.tolist())) == len(made)


def test_scoring_packs_any_number_of_groups_behind_a_shared_beginning():
    made = groups([], ALIKE[:3]) * 4
    keys = sorted(key for group in made for key in group.attempt_keys())
    (batch,) = plan_scoring(made, OptimConfig(tokens_per_batch=1000))
    assert (sorted(batch.keys), batch.ids_BL.shape[1]) == (
        keys,
        60 + sum(group.tokens - 60 - len(group.attempts) for group in made),
    )
    several = plan_scoring(made, OptimConfig(tokens_per_batch=100))
    assert sorted(key for batch in several for key in batch.keys) == keys and max(b.ids_BL.shape[1] for b in several) <= 100


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_sees_the_shared_beginning(tiny_model):
    made = groups([], ALIKE)
    plain = plain_scores(tiny_model, [[g for unit in shared_prefixes(made, 9, 10**6) for g in unit.groups]])
    model = load_model(tiny_model)
    model.set_attn_implementation(FLEX)
    with torch.no_grad():
        logp_T = token_scores(model, pack([made])).logp_T
    assert torch.allclose(logp_T, plain[: len(logp_T)], atol=1e-5)
