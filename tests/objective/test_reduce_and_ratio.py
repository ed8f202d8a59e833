import math
from functools import partial

import pytest
import torch

from upsolve.objective.ratio import (
    constant_length,
    effective_sample_size,
    k1,
    k2,
    k3,
    mean_by_attempt,
    sequence_mean,
    sequence_sum,
    sum_by_attempt,
    token_mean,
)

LOGP = torch.tensor([-1.0, -2.0, -0.5])
ATTEMPT = torch.tensor([0, 0, 1])


def test_reductions_by_hand():
    loss = torch.tensor([1.0, 3.0, 5.0])
    assert float(sequence_sum(loss, ATTEMPT, attempts=2, tokens=3)) == 4.5
    assert float(token_mean(loss, ATTEMPT, attempts=2, tokens=3)) == 3.0
    assert float(sequence_mean(loss, ATTEMPT, attempts=2, tokens=3)) == 3.5  # (2 + 5) / 2
    assert float(constant_length(loss, ATTEMPT, attempts=2, tokens=3, length=4)) == 1.125  # 9 / (2 * 4)
    assert float(sequence_mean(loss[:0], ATTEMPT[:0], attempts=2, tokens=3)) == 0, "a micro-batch may be empty"


@pytest.mark.parametrize("reduction", [sequence_sum, token_mean, sequence_mean, partial(constant_length, length=4)])
def test_parts_add_up_to_the_whole(reduction):
    loss = torch.tensor([1.0, 3.0, 5.0])
    parts = reduction(loss[:2], ATTEMPT[:2], attempts=2, tokens=3) + reduction(
        loss[2:], torch.tensor([0]), attempts=2, tokens=3
    )
    assert float(parts) == pytest.approx(float(reduction(loss, ATTEMPT, attempts=2, tokens=3)))


def test_kl_estimates_by_hand():
    x = torch.tensor([math.log(2.0)])
    assert float(k1(x)) == pytest.approx(0.6931472)
    assert float(k2(x)) == pytest.approx(0.2402265)
    assert float(k3(x)) == pytest.approx(0.5 - 1 + 0.6931472)


def test_kl_is_finite_however_far_the_policy_is():
    far = torch.tensor([-100.0, 100.0], requires_grad=True)
    # e^20 - 1 - 20 at the limit; e^-20 - 1 + 20
    assert k3(far).tolist() == pytest.approx([485165174.4, 19.0], rel=1e-6)
    k3(far).sum().backward()
    assert far.grad.isfinite().all()


def test_ratio_statistics_by_hand():
    assert sum_by_attempt(LOGP, ATTEMPT, 2).tolist() == [-3.0, -0.5]
    assert sum_by_attempt(LOGP.double(), ATTEMPT, 2).dtype == torch.float64
    assert mean_by_attempt(LOGP, ATTEMPT, 3).tolist() == [-1.5, -0.5, 0.0]
    assert float(effective_sample_size(torch.zeros(4))) == pytest.approx(1.0)
    # weights 1 and 3: 16 / (2 * 10)
    assert float(effective_sample_size(torch.tensor([0.0, math.log(3.0)]))) == pytest.approx(0.8)
