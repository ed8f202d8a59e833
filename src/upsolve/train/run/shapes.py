"""Sizes of models and groups, without loading weights.

Legend: N parameters, L layers, D hidden size, Q and K width of all query heads and of all key-value heads, I width of the MLP,
V vocabulary, G attempts of a group.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from upsolve.archive.outline import longest_attempts, longest_prompts
from upsolve.config import ModelConfig
from upsolve.errors import ModelError
from upsolve.policy.gguf import converted
from upsolve.policy.locate import locate
from upsolve.policy.tokens import Codec
from upsolve.types import Group

__all__ = ["GroupShape", "ModelShape", "group_shape", "shape_of", "sizes_of"]

TOKENISED = 8
"""Number of longest texts, in characters, that are tokenized to find the text with the most tokens."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a decoder that determine its memory."""

    parameters: int
    """N, tied weights once."""
    layers: int
    """L."""
    hidden: int
    """D."""
    heads: int
    """Query heads."""
    queries: int
    """Q: query heads times head size."""
    keys: int
    """K: key-value heads times head size."""
    mlp: int
    """I."""
    vocabulary: int
    """V."""
    adapters: int = 0
    """Parameters of LoRA adapters; 0: every weight is trained."""
    linear: int = 0
    """Parameters of linear layers, except those shared with the embedding."""

    @property
    def trained(self) -> int:
        """Return the number of parameters with a gradient."""
        return self.adapters or self.parameters


@dataclass(frozen=True, slots=True)
class GroupShape:
    """The sizes of a group."""

    prompt: int
    """Tokens of the prompt."""
    attempts: int
    """G."""
    longest: int
    """Tokens of the longest attempt."""

    @property
    def tokens(self) -> int:
        """Return the largest number of tokens of the packed group."""
        return self.prompt + self.attempts * self.longest

    @property
    def pairs(self) -> int:
        """Return the number of query-key pairs in the attention of the attempts."""
        return self.attempts * self.longest * (self.prompt + self.longest)


def shape_of(name: str, model: ModelConfig) -> ModelShape:
    """Return the sizes of a model from its configuration; no weights are loaded.

    Raises:
        ModelError: the configuration cannot be loaded.
    """
    return sizes_of(config_of(name), model)


def sizes_of(config: Any, model: ModelConfig) -> ModelShape:
    """Return the sizes of a model with this configuration of transformers."""
    import torch
    from transformers.models.auto.modeling_auto import AutoModelForCausalLM

    from upsolve.policy.model import linear_parameters, with_adapters

    with torch.device("meta"):
        blank: Any = AutoModelForCausalLM.from_config(config)
        blank.tie_weights()
        total = sum(parameter.numel() for parameter in blank.parameters())
        linear = sum(parameter.numel() for parameter in linear_parameters(blank))
        adapted = with_adapters(blank, model, seed=0)
    learning = sum(parameter.numel() for parameter in adapted.parameters() if parameter.requires_grad)
    text = config.get_text_config()
    heads: int = getattr(text, "num_attention_heads", None) or 1  # recurrent layers have none
    size: int = getattr(text, "head_dim", None) or text.hidden_size // heads
    return ModelShape(
        parameters=total,
        layers=text.num_hidden_layers,
        hidden=text.hidden_size,
        heads=heads,
        queries=heads * size,
        keys=(getattr(text, "num_key_value_heads", None) or heads) * size,
        mlp=getattr(text, "intermediate_size", None) or getattr(text, "n_inner", None) or 4 * text.hidden_size,
        vocabulary=text.vocab_size,
        adapters=learning if model.lora_rank else 0,
        linear=linear,
    )


def config_of(name: str) -> Any:
    """Return the configuration of a model without its weights.

    Raises:
        ModelError: the model cannot be found, or its configuration not be read.
    """
    from transformers.models.auto.configuration_auto import AutoConfig

    location = locate(name)
    try:
        return AutoConfig.from_pretrained(str(converted(location.gguf)) if location.gguf else location.where)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"model {name}: its configuration cannot be loaded: {error}") from error


def group_shape(groups: Sequence[Group], codec: Codec, *, attempts: int, max_tokens: int, longest: int = 0) -> GroupShape:
    """Return the sizes of the largest group in training.

    Args:
        groups: tasks with their stored attempts.
        codec: the model's tokenizer.
        attempts: G.
        max_tokens: limit of prompt and attempt together; longer attempts are left out of training.
        longest: limit of a sampled attempt, tokens; 0: offline.
    """
    prompt = max((len(codec.prompt(task, turns).ids_P) for task, turns in longest_prompts(groups, TOKENISED)), default=0)
    stored = max((len(codec.ids_of(attempt)) for attempt in longest_attempts(groups, TOKENISED)), default=0)
    return GroupShape(prompt, attempts, max(longest, min(stored, max(0, max_tokens - prompt))))
