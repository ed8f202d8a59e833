import pytest
import torch

from upsolve.objective.clipped import clipped_value_loss

OLD = torch.tensor([0.0, 0.0, 0.0, 1.0])
RETURNS = torch.tensor([1.0, 1.0, -1.0, 1.0])


@pytest.mark.parametrize(
    ("clip", "expected"),
    [
        # new 0.5 towards 1: at 0.2, (0.2 - 1)^2 = 0.64 over 0.25; new 0.1: inside, 0.81;
        # new 0.5 away from -1: 2.25 over (0.2 + 1)^2; new 1.0 on its return: 0
        (0.2, [0.32, 0.405, 1.125, 0.0]),
        (0.3, [0.245, 0.405, 1.125, 0.0]),  # (0.3 - 1)^2 = 0.49
    ],
)
def test_value_clipping_by_hand(clip, expected):
    values = torch.tensor([0.5, 0.1, 0.5, 1.0], requires_grad=True)
    loss = clipped_value_loss(values, OLD, RETURNS, clip=clip)
    assert loss.tolist() == pytest.approx(expected)
    loss.sum().backward()
    # too far towards the return: no gradient; the others V - R
    assert values.grad.tolist() == pytest.approx([0.0, -0.9, 1.5, 0.0])


def test_a_wide_clip_is_half_the_square():
    values = torch.tensor([0.5, -2.0, 3.0, 1.5])
    assert clipped_value_loss(values, OLD, RETURNS, clip=100.0).tolist() == pytest.approx([0.125, 4.5, 8.0, 0.125])


def test_a_value_below_the_clip_has_no_gradient_either():
    # towards -1 by 0.5: (-0.2 + 1)^2 = 0.64 over 0.25
    values = torch.tensor([-0.5], requires_grad=True)
    loss = clipped_value_loss(values, torch.zeros(1), torch.tensor([-1.0]), clip=0.2)
    loss.sum().backward()
    assert loss.tolist() == pytest.approx([0.32]) and values.grad.tolist() == [0.0]
