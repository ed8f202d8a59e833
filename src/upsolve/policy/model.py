"""Load and save a policy: the model and its tokenizer."""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as hf_logging

from upsolve.config import ModelConfig
from upsolve.errors import ModelError
from upsolve.policy.gguf import converted
from upsolve.policy.locate import locate
from upsolve.policy.tokens import Codec

__all__ = [
    "adapters_off",
    "checkpoint_layers",
    "frozen_copy",
    "linear_parameters",
    "load_codec",
    "load_model",
    "load_policy",
    "rounded",
    "save_model",
    "start_copy",
    "trainable",
    "value_head",
    "with_adapters",
    "with_weights",
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
    adapted: Any = get_peft_model(model, settings)
    for layer in adapter_layers(adapted):
        layer.cast_input_dtype_enabled = (
            not config.bf16
        )  # autocast casts inputs; PEFT's cast to float32 before it would keep copies
    return adapted


def adapter_layers(model: Any) -> list[Any]:
    """Return the layers that hold adapters."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    return [module for module in model.modules() if isinstance(module, BaseTunerLayer)]


def load_policy(config: ModelConfig, *, seed: int, device: str = "cpu") -> Any:
    """Load a model to train: float32, with its adapters if there are any, and activation checkpointing if asked for.

    With adapters and ``bf16`` the frozen matrices of linear layers are stored in bfloat16: autocast rounds them in every pass anyway, so
    that all results are the same bit for bit, in half of the memory. Embeddings, norms and adapters stay in float32.

    Args:
        config: which model, its adapters and precision.
        seed: of the adapters' initial weights.
        device: where it goes.

    Raises:
        ModelError: it cannot be found or read, or has no activation checkpointing.
    """
    model = rounded(with_adapters(load_model(config.name, offline=config.offline), config, seed=seed), config)
    if config.gradient_checkpointing:
        checkpoint_layers(model, config.name)
    return model.to(device)


def rounded(model: Any, config: ModelConfig) -> Any:
    """Return a model, with frozen matrices of linear layers in bfloat16 where the run computes so."""
    for parameter in linear_parameters(model) if config.bf16 else ():
        if not parameter.requires_grad:
            parameter.data = parameter.data.to(torch.bfloat16)
    return model


def checkpoint_layers(model: Any, name: str) -> None:
    """Let the backward pass recompute every decoder layer from its input, of which alone the forward pass keeps a copy (1604.06174)."""
    enable: Any = (
        getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    )  # transformers < 5.20
    try:
        enable({"use_reentrant": False})
    except ValueError as error:
        raise ModelError(f"model {name}: {error} Set model.gradient_checkpointing: false") from error


def linear_parameters(model: Any) -> list[nn.Parameter]:
    """Return the weights and biases of linear layers, without a head that shares its matrix with the embedding."""
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    layers = (module for module in model.modules() if isinstance(module, nn.Linear))
    return [parameter for layer in layers for parameter in layer.parameters(recurse=False) if id(parameter) not in embeddings]


@contextmanager
def adapters_off(model: Any) -> Generator[None]:
    """Let a model with adapters compute as its base for a while.

    Unlike PEFT's ``disable_adapter`` it leaves ``requires_grad`` of the adapters alone, which FSDP2 reads only once.
    """
    layers = adapter_layers(model)
    for layer in layers:
        layer._disable_adapters = True
    try:
        yield
    finally:
        for layer in layers:
            layer._disable_adapters = False


def with_weights(model: Any, weights: Iterable[Tensor]) -> Any:
    """Return a copy of a model with other weights, in the order of its parameters; tied weights stay tied, buffers are copied."""
    pairs = zip(model.parameters(), weights, strict=True)
    return deepcopy(model, {id(old): nn.Parameter(new.detach(), requires_grad=old.requires_grad) for old, new in pairs})


def frozen_copy(model: Any, dtype: torch.dtype) -> Any:
    """Return a frozen copy with its weights in another dtype, adapters merged into them.

    Buffers keep their dtype: bfloat16 would round rotary frequencies by up to 0.4 %, which adds up over positions.
    """
    adapted = hasattr(model, "merge_and_unload")
    copied = with_weights(model, (old.clone() if adapted else old.to(dtype, copy=True) for old in model.parameters()))
    if adapted:
        copied = copied.merge_and_unload()
        for parameter in copied.parameters():
            parameter.data = parameter.data.to(dtype)
    return copied.requires_grad_(False).eval()


def start_copy(model: Any, *, bf16: bool) -> Any:
    """Return a frozen copy that computes the same; with ``bf16`` (under autocast) matrices of linear layers are stored as it rounds them."""
    rounded = {id(parameter) for parameter in linear_parameters(model)} if bf16 else set[int]()
    weights = (old.to(torch.bfloat16) if id(old) in rounded else old.clone() for old in model.parameters())
    return with_weights(model, weights).requires_grad_(False).eval()


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
