"""Load and save a policy: the model and its tokenizer."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as hf_logging

from upsolve.config import ModelConfig
from upsolve.errors import ModelError
from upsolve.policy.gguf import converted
from upsolve.policy.locate import locate
from upsolve.policy.tokens import Codec

__all__ = [
    "frozen_copy",
    "load_codec",
    "load_model",
    "save_model",
    "trainable",
    "value_head",
    "with_adapters",
]


def load_model(name: str, *, dtype: torch.dtype = torch.float32, device: str = "cpu", offline: bool = False) -> Any:
    """Load a causal language model.

    Args:
        name: the built-in one, a folder (adapters included: they are merged), a .gguf file or a name on the hub.
        dtype: of the weights.
        device: where they go.
        offline: do not ask the hub.

    Raises:
        ModelError: it cannot be found or read; names it and what was tried.
    """
    found = locate(name, offline=offline)
    hf_logging.disable_progress_bar()
    where = str(converted(found.gguf)) if found.gguf else found.where
    try:
        if found.adapters:
            return merged_adapters(where, dtype, offline=offline).to(device)
        model: Any = AutoModelForCausalLM.from_pretrained(where, dtype=dtype, local_files_only=found.local)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ModelError(f"model {name}: cannot be loaded: {error}") from error
    model.name_or_path = name
    return model.to(device)


def merged_adapters(folder: str, dtype: torch.dtype, *, offline: bool) -> Any:
    """Load the base that adapters were trained on and add them to its weights."""
    from peft import PeftConfig, PeftModel

    base = load_model(str(PeftConfig.from_pretrained(folder).base_model_name_or_path), dtype=dtype, offline=offline)
    merged: Any = PeftModel.from_pretrained(base, folder)
    return merged.merge_and_unload()


def load_codec(name: str, *, offline: bool = False) -> Codec:
    """Load the tokenizer of a model.

    Args:
        name: as for ``load_model``; of adapters without a tokenizer, their base's is loaded.
        offline: do not ask the hub.

    Raises:
        ModelError: there is none, or it is not a fast one.
    """
    found = locate(name, offline=offline)
    if found.adapters and not (Path(found.where) / "tokenizer.json").is_file():
        from peft import PeftConfig

        return load_codec(str(PeftConfig.from_pretrained(found.where).base_model_name_or_path), offline=offline)
    hf_logging.disable_progress_bar()
    where = str(converted(found.gguf)) if found.gguf else found.where
    try:
        return Codec(AutoTokenizer.from_pretrained(where, local_files_only=found.local))
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"tokenizer of {name}: cannot be loaded: {error}") from error


def with_adapters(model: Any, config: ModelConfig, *, seed: int) -> Any:
    """Return the model with LoRA adapters (2106.09685) on every linear layer, W + (alpha / rank) B A; as it is for rank 0."""
    if config.lora_rank == 0:
        return model
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    alpha: Any = config.lora_alpha  # peft says int, and only divides it
    settings = LoraConfig(r=config.lora_rank, lora_alpha=alpha, target_modules="all-linear", task_type="CAUSAL_LM")
    return get_peft_model(model, settings)


def frozen_copy(model: Any, dtype: torch.dtype) -> Any:
    """Return a frozen copy in another dtype, adapters merged into the weights."""
    copied = deepcopy(model)
    if hasattr(copied, "merge_and_unload"):
        copied = copied.merge_and_unload()
    return copied.to(dtype).requires_grad_(False).eval()


def value_head(model: Any) -> torch.nn.Linear:
    """Return the value head V = w h + b on a model's last hidden states, [D] -> [1], initialised to 0."""
    head = torch.nn.Linear(model.config.get_text_config().hidden_size, 1)
    torch.nn.init.zeros_(head.weight)
    torch.nn.init.zeros_(head.bias)
    return head.to(next(model.parameters()).device)


def trainable(model: Any) -> list[torch.nn.Parameter]:
    """Return the parameters with requires_grad."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def save_model(model: Any, codec: Codec, folder: str | Path) -> None:
    """Write weights (adapters only, where there are any) and tokenizer so that ``load_model`` and others can read them."""
    model.save_pretrained(folder)
    codec.tokenizer.save_pretrained(folder)
