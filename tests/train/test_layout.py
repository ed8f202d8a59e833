"""Attention on CPUs in bundles of groups and group by group: the same as over whole rows with a mask."""

import numpy as np
import pytest
import torch

from upsolve.config import OptimConfig
from upsolve.policy import layout as layouts
from upsolve.policy.attention import TREE
from upsolve.policy.flex import FLEX
from upsolve.policy.layout import GroupSpan, bundles, layout
from upsolve.policy.model import load_model
from upsolve.train.encode import EncodedAttempt, EncodedGroup
from upsolve.train.logprobs import token_scores
from upsolve.train.pack import PREFIX, pack, plan_steps, shared_prefixes
from upsolve.train.reference_scorer import prompts_of

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


@pytest.mark.parametrize("overhead", [0, 10**9], ids=["group by group", "in bundles"])
def test_both_ways_equal_whole_rows(tiny_model, overhead, monkeypatch):
    monkeypatch.setattr(layouts, "OVERHEAD", overhead)
    whole = scores_and_gradients(tiny_model, blocks=False, bf16=False)
    assert torch.allclose(scores_and_gradients(tiny_model, blocks=True, bf16=False), whole, atol=2e-6, rtol=1e-5)
    rounded = scores_and_gradients(tiny_model, blocks=False, bf16=True)
    error = (rounded - whole).norm()
    assert 0 < (scores_and_gradients(tiny_model, blocks=True, bf16=True) - whole).norm() < 1.5 * error


def test_short_groups_are_bundled_and_long_ones_are_not():
    short, long = [GroupSpan(at * 150, 100, (25, 25)) for at in range(10)], [GroupSpan(0, 700, (200,) * 8)]
    assert layout([short], 1500, torch.device("cpu")).bundles
    assert not layout([long], 2300, torch.device("cpu")).bundles


def test_bundles_hold_every_token_once_with_little_padding():
    rows = [[GroupSpan(0, 100, (20,)), GroupSpan(120, 10, (3, 4))], [GroupSpan(0, 95, (30,)), GroupSpan(125, 12, ())]]
    found = bundles(rows, 140, torch.device("cpu"))
    tokens = [part.token_NM.flatten()[part.own].tolist() for part in found]
    expected = [*range(137), *range(140, 140 + 137)]
    assert sorted(token for part in tokens for token in part) == expected
    rounding = layouts.STEP * 4  # four groups
    assert all(part.token_NM.numel() <= layouts.PADDED * len(part.own) + rounding for part in found)


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


@pytest.mark.parametrize("way", ["group by group", "in bundles", "whole rows"])
def test_a_shared_beginning_of_prompts_changes_no_score_and_no_gradient(tiny_model, way, monkeypatch):
    monkeypatch.setattr(layouts, "OVERHEAD", 10**9 if way == "in bundles" else 0)
    made = groups([], ALIKE)
    rows = [
        [group for unit in shared_prefixes(row, len(row)) for group in unit.groups] for row in (made, groups([], ALIKE[:2]))
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
    assert [[mixed.index(group) for group in unit.groups] for unit in shared_prefixes(mixed, 2)] == [
        [0],
        [1, 3],
        [2, 4],
        [5],
    ]
    assert [unit.shared for unit in shared_prefixes(mixed, 2)] == [0, 55, 60, 0]
    steps = plan_steps(mixed, OptimConfig(tokens_per_step=190, tokens_per_batch=190))
    assert [len(set(batch.group_S.tolist())) for step in steps for batch in step] == [3, 3]
    plain = groups()
    assert [unit.groups for unit in shared_prefixes(plain, 8)] == [(group,) for group in plain]
    assert shared_prefixes([made[0], made[0]], 8)[0].shared == len(made[0].prompt_P) - 1 > PREFIX


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_sees_the_shared_beginning(tiny_model):
    made = groups([], ALIKE)
    plain = plain_scores(tiny_model, [[g for unit in shared_prefixes(made, 9) for g in unit.groups]])
    model = load_model(tiny_model)
    model.set_attn_implementation(FLEX)
    with torch.no_grad():
        logp_T = token_scores(model, pack([made])).logp_T
    assert torch.allclose(logp_T, plain[: len(logp_T)], atol=1e-5)
