"""AdamW, with moments in float32, in bfloat16 or in 8 bits, and the norm of the gradients."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from upsolve.config import OptimConfig

__all__ = ["BFloat16AdamW", "adamw", "gradient_norm", "rounded_at_random", "set_learning_rate"]

CHUNK = 1 << 17
"""Numbers that are computed in float32 at once: on CPUs, as many as the cache holds."""
CHUNK_ON_GPUS = 1 << 24
UPPER_HALF = 1 if sys.byteorder == "little" else 0
"""Index of the half of a float32 number that is the number in bfloat16."""
ADAMW: Mapping[str, Any] = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "amsgrad": False, "maximize": False}
"""The settings of ``torch.optim.AdamW``."""


class BFloat16AdamW(torch.optim.Optimizer):
    """AdamW (1711.05101) that computes in float32, as ``torch.optim.AdamW`` does, and stores both moments in bfloat16 in between.

    The second moment changes by a thousandth per step, where neighbours in bfloat16 are 1/256 apart, so it is rounded at random
    (``rounded_at_random``); the first is rounded to the nearest. The random bits depend on the number of the step and on the kind of device: a
    resumed run has the same ones. Gradients are divided by ``grad_scale``, and overwritten, as in torch's fused optimizers.
    """

    def __init__(self, params: Iterable[Any], *, lr: float, weight_decay: float) -> None:
        """Set the groups of parameters, the learning rate and the weight decay."""
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})
        self.grad_scale: Tensor | None = None

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # noqa: ARG002  as in the base class
        """Do one step of all parameters with a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    settings = {"lr": group["lr"], "weight_decay": group["weight_decay"], "grad_scale": self.grad_scale}
                    self.update(parameter, parameter.grad, **settings)

    def update(self, parameter: Tensor, gradient: Tensor, **settings: Any) -> None:
        """Do the step of one parameter, chunk by chunk."""
        state = self.state[parameter]
        if not state:
            zeros = [torch.zeros_like(parameter, dtype=torch.bfloat16) for _ in range(2)]
            state.update(step=torch.tensor(0.0), exp_avg=zeros[0], exp_avg_sq=zeros[1])
        device, size = parameter.device, CHUNK_ON_GPUS if parameter.is_cuda else CHUNK
        noise, buffers = random_bits(int(state["step"]), size, device), float_buffers(size, device)
        state["step"] += 1
        count = [on_device(float(state["step"]), device)]
        tensors = (parameter.detach(), gradient.contiguous(), state["exp_avg"], state["exp_avg_sq"])
        for values, slopes, first, second in zip(*(tensor.view(-1).split(size) for tensor in tensors), strict=True):
            mean, square = (buffer[: len(first)].copy_(moment) for buffer, moment in zip(buffers, (first, second), strict=True))
            torch.ops.aten._fused_adamw_([values], [slopes], [mean], [square], [], count, **ADAMW, **settings)
            first.copy_(mean)
            second.copy_(rounded_at_random(square, noise[: len(second)]))

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:  # type: ignore[override]
        """Load moments, which the base class converts to the type of their parameter."""
        super().load_state_dict({**state_dict})
        for state in self.state.values():
            state.update({name: state[name].bfloat16() for name in ("exp_avg", "exp_avg_sq")})


@lru_cache(maxsize=1)
def float_buffers(size: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return memory for ``size`` numbers of both moments, float32."""
    first, second = torch.empty(2, size, device=device)
    return first, second


@lru_cache(maxsize=1)
def on_device(number: float, device: torch.device) -> Tensor:
    """Return a number as a tensor; a number that is the same for all parameters is copied to the device once."""
    return torch.tensor(number, device=device)


@lru_cache(maxsize=1)
def random_bits(step: int, size: int, device: torch.device) -> Tensor:
    """Return random integers in [0, 2^16), int32 [size], made on the device, which ``step`` and the kind of device determine."""
    generator = torch.Generator(device).manual_seed(step)
    return torch.randint(1 << 16, (size,), dtype=torch.int32, device=device, generator=generator)


def rounded_at_random(values_N: Tensor, noise_N: Tensor) -> Tensor:
    """Round finite float32 to bfloat16, up or down at random so that the mean is exact: add 16 random bits to the 16 lowest
    bits, and cut these.

    ``noise_N`` are integers in [0, 2^16), int32. Overwrites ``values_N`` and returns a view of their upper halves.
    """
    values_N.view(torch.int32).add_(noise_N)
    return values_N.view(torch.bfloat16)[UPPER_HALF::2]


def adamw(parts: Mapping[str, Sequence[nn.Parameter]], optim: OptimConfig, *, value_lr: float, fused: bool) -> Any:
    """Return AdamW (1711.05101) over the parts of a policy (``policy`` and ``value``), each with its ``factor`` of the learning
    rate.

    With ``optim.moments: bfloat16`` both moments are stored in bfloat16 (``BFloat16AdamW``). With ``int8`` (torchao's
    ``AdamW8bit``, after 2110.02861) both moments of a tensor of at least 4,096 numbers, in a multiple of 256, are stored as
    8-bit codes with a float32 scale per block of 256; a step computes in float32. Smaller tensors keep float32. ``fused``: with
    moments in float32, one pass over the memory instead of eight; not for sharded parameters.
    """
    rates = {"policy": optim.lr, "value": value_lr}
    groups = [{"params": part, "factor": rates[name] / optim.lr} for name, part in parts.items()]
    if optim.moments == "float32":
        return torch.optim.AdamW(groups, lr=optim.lr, weight_decay=optim.weight_decay, fused=fused or None)
    if optim.moments == "bfloat16":
        return BFloat16AdamW(groups, lr=optim.lr, weight_decay=optim.weight_decay)
    from torchao.optim import AdamW8bit  # pyright: ignore[reportMissingImports]  an extra that is not among the tests' packages

    return AdamW8bit(groups, lr=optim.lr, weight_decay=optim.weight_decay)


def set_learning_rate(optimizer: Any, lr: float) -> None:
    """Set the learning rate of every part: ``lr`` times its factor."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):  # torchao's, whose step is compiled, keeps the tensor
            group["lr"].fill_(lr * group["factor"])
        else:
            group["lr"] = lr * group["factor"]


def gradient_norm(gradients: Sequence[Tensor]) -> Tensor:
    """Return the 2-norm of all gradients together, sqrt(sum of g^2); sharded if they are.

    On CPUs by dot products, which take half of the time of PyTorch's norm and round less: over 28 million numbers 7e-5 instead of 1.5e-3.
    """
    plain = [gradient.reshape(-1) for gradient in gradients if type(gradient) is Tensor and gradient.device.type == "cpu"]
    if not plain or len(plain) < len(gradients) or any(each.dtype != torch.float32 for each in plain):
        return nn.utils.get_total_norm(gradients)
    return torch.stack([torch.dot(each, each) for each in plain]).sum().sqrt()
