"""The loss of a value head.

Legend: T tokens of all attempts of a batch.
"""

import torch
from torch import Tensor

__all__ = ["clipped_value_loss"]


def clipped_value_loss(values_T: Tensor, old_values_T: Tensor, returns_T: Tensor, *, clip: float) -> Tensor:
    """loss_t = max((V - R)^2, (clip(V, V_old - clip, V_old + clip) - R)^2) / 2 (the value clipping of PPO, 2005.12729).

    A value that has moved by more than ``clip`` towards its return has no gradient until the next batch. ``clip`` is in units of
    the return: 0.2 is usual, 2605.21180 uses 0.3.

    Args:
        values_T: [T] with gradient.
        old_values_T: [T], values of the head at the start of the round.
        returns_T: [T], regression targets, from ``advantage.gae``.
        clip: > 0.
    """
    near_T = torch.clamp(values_T, old_values_T - clip, old_values_T + clip)
    return torch.maximum((values_T - returns_T).square(), (near_T - returns_T).square()) / 2
