"""Attention on CPUs in bundles of groups and group by group: the same as over whole rows with a mask."""

import numpy as np
import pytest
import torch

from upsolve.policy import layout as layouts
from upsolve.policy.attention import TREE
from upsolve.policy.layout import Place, bundles, layout
from upsolve.policy.model import load_model
from upsolve.train.encode import EncodedAttempt, EncodedGroup
from upsolve.train.logprobs import token_scores
from upsolve.train.pack import pack

SIZES = [(11, (5, 9, 7)), (2, (5,)), (30, (1, 1)), (12, (6, 8, 6)), (3, (40, 2))]
"""Prompt and attempts of each group."""


def batch():
    rng = np.random.default_rng(0)

    def group(prompt, sizes):
        attempts = (EncodedAttempt(tuple(rng.integers(3, 250, size).tolist()), np.ones(size, np.float32)) for size in sizes)
        return EncodedGroup(tuple(rng.integers(3, 250, prompt).tolist()), tuple(attempts))

    made = [group(*one) for one in SIZES]
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
    short, long = [Place(at * 150, 100, (25, 25)) for at in range(10)], [Place(0, 700, (200,) * 8)]
    assert layout([short], 1500, torch.device("cpu")).bundles
    assert not layout([long], 2300, torch.device("cpu")).bundles


def test_bundles_hold_every_token_once_with_little_padding():
    rows = [[Place(0, 100, (20,)), Place(120, 10, (3, 4))], [Place(0, 95, (30,)), Place(125, 12, ())]]
    found = bundles(rows, 140, torch.device("cpu"))
    tokens = [part.token_NM.flatten()[part.own].tolist() for part in found]
    expected = [*range(137), *range(140, 140 + 137)]
    assert sorted(token for part in tokens for token in part) == expected
    rounding = layouts.STEP * 4  # four groups
    assert all(part.token_NM.numel() <= layouts.PADDED * len(part.own) + rounding for part in found)
