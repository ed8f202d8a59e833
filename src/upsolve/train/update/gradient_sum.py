"""The sum of gradients over all ranks, in buckets, while the backward pass still runs (as DDP does, 2006.15704).

PyTorch's DDP would need more code here: it averages where gradients are to be summed, every rank has to take part in every last backward
pass, and parameters without a gradient (experts that no token was routed to) are errors or cost a search.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["BUCKET", "GradientSum", "buckets"]

BUCKET = 2**24
"""Gradient elements per all-reduce (64 MB in float32)."""


class GradientSum:
    """All-reduces each bucket of gradients as soon as the last backward pass of a step has completed it; all ranks in the same order."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        """Watch trained parameters of one dtype, in the order of the forward pass."""
        self.buckets = buckets(parameters[::-1])  # the backward pass begins with the last layer
        self.bucket_of = {id(parameter): number for number, bucket in enumerate(self.buckets) for parameter in bucket}
        self.flats: list[Tensor] = []
        self.works: list[Any] = []
        self.missing: list[int] = []
        for parameter in parameters:
            parameter.register_post_accumulate_grad_hook(self.completed)

    def before_backward(self, *, last: bool) -> None:
        """Make all gradients views of flat tensors, one a bucket; ``last``: this rank's last backward pass of the step follows."""
        if not self.flats:
            for bucket in self.buckets:
                sizes = [parameter.numel() for parameter in bucket]
                self.flats.append(torch.zeros(sum(sizes), dtype=bucket[0].dtype, device=bucket[0].device))
                for parameter, part in zip(bucket, self.flats[-1].split(sizes), strict=True):
                    parameter.grad = part.view_as(parameter)
        self.missing = [len(bucket) for bucket in self.buckets] if last else []

    def completed(self, parameter: Tensor) -> None:
        """Note that the gradient of a parameter is complete; send its bucket, unless one before it is not ready."""
        if self.missing:
            self.missing[self.bucket_of[id(parameter)]] -= 1
            while len(self.works) < len(self.flats) and self.missing[len(self.works)] == 0:
                self.send()

    def send(self) -> None:
        """Start the all-reduce of the next bucket."""
        self.works.append(torch.distributed.all_reduce(self.flats[len(self.works)], async_op=True))

    def finish(self) -> None:
        """Send the other buckets, those without a gradient as zeros, and wait until all are summed. Collective."""
        self.missing = []
        if not self.flats:
            self.before_backward(last=False)
        while len(self.works) < len(self.flats):
            self.send()
        for work in self.works:
            work.wait()
        self.flats, self.works = [], []  # the gradients keep the memory, until they are set to None


def buckets(parameters: Sequence[nn.Parameter]) -> list[list[nn.Parameter]]:
    """Split parameters, in order, into lists of at most ``BUCKET`` elements; a larger one stands alone."""
    parts: list[list[nn.Parameter]] = []
    used = BUCKET + 1
    for parameter in parameters:
        if used + parameter.numel() > BUCKET:
            parts.append([])
            used = 0
        parts[-1].append(parameter)
        used += parameter.numel()
    return parts
