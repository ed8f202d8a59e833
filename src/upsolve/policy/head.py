"""The language-model head: hidden states -> logits.

Legend: N tokens, D hidden size, V vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["Head", "head_of"]


@dataclass(frozen=True, slots=True)
class Head:
    """logits = cap(scale (W h + b)), with cap(x) = c tanh(x / c), or x where c is None."""

    weight_VD: Tensor
    """W, weight [V, D]."""
    scale: float = 1.0
    """Factor of the logits."""
    cap: float | None = None
    """c, limit of the absolute value of the logits; None: no limit."""
    bias_V: Tensor | None = None
    """b, bias [V]; None: no bias."""

    def logits(self, hidden_ND: Tensor) -> Tensor:
        """Return float32 [N, V]."""
        return self.finished(self.product(hidden_ND))

    def product(self, hidden_ND: Tensor) -> Tensor:
        """Return W h + b [N, V], in the dtype of the weight."""
        return functional.linear(hidden_ND, self.weight_VD, self.bias_V)

    def finished(self, product_NV: Tensor) -> Tensor:
        """Return the logits, float32 [N, V], from W h + b."""
        logits = product_NV.float()
        if self.scale != 1.0:
            logits *= self.scale
        return logits if self.cap is None else torch.tanh(logits / self.cap) * self.cap

    def slope(self, logits_NV: Tensor) -> Tensor | float:
        """Return the derivative d logits / d (W h + b)."""
        return self.scale if self.cap is None else self.scale * (1 - (logits_NV / self.cap).square())


def head_of(model: Any) -> Head:
    """Return the head of a causal language model of transformers, with its scale, cap and bias."""
    head, config = model.get_output_embeddings(), model.config.get_text_config()
    scale = float(getattr(config, "logit_scale", None) or 1.0) / float(getattr(config, "logits_scaling", None) or 1.0)
    return Head(head.weight, scale, getattr(config, "final_logit_softcapping", None), getattr(head, "bias", None))
