"""Load, copy and save models and their tokenizers."""

import warnings
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from copy import copy, deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import init_empty_weights
from torch import Tensor, nn
from torch.nn import functional
from transformers.models.auto.modeling_auto import AutoModelForCausalLM
from transformers.models.auto.tokenization_auto import AutoTokenizer
from transformers.utils import logging as hf_logging

from upsolve.config import ModelConfig, PromptConfig
from upsolve.errors import ModelError, one_line
from upsolve.policy.locate import locate
from upsolve.policy.machine import choose_accelerator, in_bfloat16, release_memory, use_allowed_cores, watch_spinning
from upsolve.policy.prompt import PLAIN
from upsolve.policy.tokens import Codec

__all__ = [
    "adapters_off",
    "checkpoint_layers",
    "codec_of",
    "frozen_copy",
    "frozen_linear",
    "linear_parameters",
    "load_codec",
    "load_model",
    "load_policy",
    "loading",
    "quantized_layers",
    "rounded",
    "save_model",
    "start_copy",
    "trainable",
    "value_head",
    "with_adapters",
    "with_weights",
]


@contextmanager
def loading(what: str) -> Generator[None]:
    """Prepare the threads and hide progress bars while the context loads an object; ModelError names ``what`` if it cannot be read."""
    use_allowed_cores()
    watch_spinning()
    hf_logging.disable_progress_bar()
    try:
        yield
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ModelError(f"{what}: cannot be loaded: {one_line(error)}") from error


def load_model(name: str, *, dtype: torch.dtype = torch.float32, device: str = "cpu", offline: bool = False) -> Any:
    """Load a causal language model, after returning memory of earlier models to the system.

    LoRA adapters in a folder are merged into their base. ModelError if the model cannot be found or read; the message lists the places that were
    tried.
    """
    release_memory()
    location = locate(name, offline=offline)
    with loading(f"model {name}"):
        if location.adapters:
            return merged_adapters(location.where, dtype, offline=offline).to(device)
        model: Any = AutoModelForCausalLM.from_pretrained(location.folder, dtype=dtype, local_files_only=location.local)
    model.name_or_path = name
    return model.to(device)


class FrozenLinear(torch.autograd.Function):
    """Compute x W^T + b in the precision of x, with a frozen W that is stored in few bits or in less precision. Neither pass keeps a copy of W."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: Any) -> Tensor:
        """Return x W^T + b in the precision of x."""
        ctx.layer = layer
        return functional.linear(x, matrix_of(layer).to(x.dtype), None if layer.bias is None else layer.bias.to(x.dtype))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Return the gradient of x."""
        return gradients[0] @ matrix_of(ctx.layer).to(gradients[0].dtype), None


def frozen_linear(layer: Any, x: Tensor) -> Any:
    """Return the output of a frozen linear layer in the precision of x (``FrozenLinear``)."""
    return FrozenLinear.apply(x, layer)


def matrix_of(layer: Any) -> Tensor:
    """Return the matrix of a linear layer: a bitsandbytes layer dequantised to float16 or float32, any other as stored."""
    if layer.weight.is_floating_point():
        return layer.weight
    packed = getattr(layer.weight, "quant_state", None)
    if packed is None or packed.shape[-1] % packed.blocksize == 0:
        from transformers.integrations.bitsandbytes import dequantize_bnb_weight

        return dequantize_bnb_weight(layer.weight, getattr(layer, "state", None))
    from bitsandbytes.functional import dequantize_4bit

    # Blocks run on over the ends of rows, which bitsandbytes (0.50.2) overlooks on CPUs with AVX-512 unless there is one row
    row = copy(packed)
    row.shape = torch.Size([packed.shape.numel()])
    return dequantize_4bit(layer.weight.data, row).view(packed.shape)


def through_dequantized(layer: Any, x: Tensor) -> Any:
    """Return the output of a quantised layer, in the precision that autocast gives a linear layer.

    bitsandbytes itself computes differently. With ``int8`` it also rounds activations, on CPUs only in evaluation mode, so pi_old would not be pi.
    With ``nf4`` it packs weights in evaluation mode on CPUs with AVX-512-BF16, and computes no gradient through packed weights.
    """
    kind = x.device.type
    return frozen_linear(layer, x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x)


def load_quantized(config: ModelConfig, device: str) -> Any:
    """Load a model whose linear layers, except the head, are stored in ``config.quantize`` by bitsandbytes (QLoRA, 2305.14314).

    Everything else is in float32. ModelError: see ``load_model``; also raised if the model is a folder of adapters.
    """
    from transformers.utils.quantization_config import BitsAndBytesConfig

    location = locate(config.name, offline=config.offline)
    if location.adapters:
        raise ModelError(
            f"model.quantize: {config.name} is a folder of adapters, and their base is quantised as a whole model: write one with "
            f"`upsolve export {config.name} FOLDER`, and set model.name: FOLDER"
        )
    how: dict[str, Any] = {"load_in_8bit": True}
    if config.quantize == "nf4":
        how = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}
    with loading(f"model {config.name}"):
        model: Any = AutoModelForCausalLM.from_pretrained(
            location.folder,
            dtype=torch.float32,
            local_files_only=location.local,
            quantization_config=BitsAndBytesConfig(**how),
            device_map={"": device},
        )
    for layer in quantized_layers(model):
        layer.forward = partial(through_dequantized, layer)
    model.name_or_path = config.name
    return model


def quantized_layers(model: Any) -> list[Any]:
    """Return the linear layers that are stored in few bits."""
    return [each for each in model.modules() if isinstance(each, nn.Linear) and not each.weight.is_floating_point()]


def whole(model: Any, dtype: torch.dtype) -> Any:
    """Return a copy of a policy with a quantised base: dequantised, with its adapters merged, in the given dtype."""
    base = model.get_base_model()
    config, weights = deepcopy(base.config), dict[str, Tensor]()
    del config.quantization_config
    for name, module in base.named_modules():
        if ".lora_" in name or name.endswith(".base_layer"):
            continue
        layer = getattr(module, "base_layer", module)
        own: dict[str, Tensor] = {**dict(layer.named_parameters(recurse=False)), **dict(layer.named_buffers(recurse=False))}
        if isinstance(layer, nn.Linear):
            matrix = matrix_of(layer)
            own["weight"] = matrix if layer is module else matrix + module.get_delta_weight("default")
        parameters = {key for key, _ in layer.named_parameters(recurse=False)}
        weights |= {f"{name}.{key}": each.detach().to(dtype if key in parameters else each.dtype) for key, each in own.items()}
    with init_empty_weights(include_buffers=False):
        plain: Any = AutoModelForCausalLM.from_config(config, dtype=dtype)
    plain.load_state_dict({name: weights[name] for name in plain.state_dict()}, assign=True)
    plain.tie_weights()
    plain.generation_config, plain.name_or_path = base.generation_config, base.name_or_path
    return plain.to(base.device)


def merged_adapters(folder: str, dtype: torch.dtype, *, offline: bool) -> Any:
    """Load the base model of a folder of LoRA adapters, and merge the adapters into its weights."""
    from peft import PeftConfig, PeftModel

    settings: Any = PeftConfig.from_pretrained(folder)
    base = load_model(str(settings.base_model_name_or_path), dtype=dtype, offline=offline)
    untie_head(base, settings.target_modules)
    with peft_calls():
        merged: Any = PeftModel.from_pretrained(base, folder)
    return merged.merge_and_unload()


def codec_of(model: ModelConfig, name: str = "") -> Codec:
    """Load the tokenizer of a model (or of ``name``), with the model's format of prompts and completions; raises as ``load_codec``."""
    return load_codec(name or model.name, offline=model.offline, answers=model.answers, style=model.prompt)


def load_codec(name: str, *, offline: bool = False, answers: bool = False, style: PromptConfig = PLAIN) -> Codec:
    """Load the tokenizer of a model; for adapters without a tokenizer, that of their base model. ``answers`` and ``style``: see ``Codec``.

    ModelError: the model has no tokenizer, or only a slow one, or its chat template rejects the prompt.
    """
    location = locate(name, offline=offline)
    if location.adapters and not (Path(location.where) / "tokenizer.json").is_file():
        from peft import PeftConfig

        base = str(PeftConfig.from_pretrained(location.where).base_model_name_or_path)
        return load_codec(base, offline=offline, answers=answers, style=style)
    with loading(f"tokenizer of {name}"):
        tokenizer = AutoTokenizer.from_pretrained(location.folder, local_files_only=location.local)
        return Codec(tokenizer, answers=answers, style=style)


def with_adapters(model: Any, config: ModelConfig, *, seed: int) -> Any:
    """Return the model with LoRA adapters (2106.09685), W + (alpha / rank) B A, on ``lora_targets``; for rank 0 the model
    unchanged.

    ModelError: no linear layer has one of the names in ``lora_targets``; the message lists the layers' names.
    """
    if config.lora_rank == 0:
        return model
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    alpha: Any = config.lora_alpha  # annotated as int in PEFT, which accepts any number
    targets = config.lora_targets if isinstance(config.lora_targets, str) else list(config.lora_targets)
    check_targets(model, config)
    untie_head(model, targets)
    settings = LoraConfig(
        r=config.lora_rank,
        lora_alpha=alpha,
        lora_dropout=config.lora_dropout,
        target_modules=targets,
        task_type="CAUSAL_LM",
    )
    with peft_calls():
        adapted: Any = get_peft_model(model, settings)
    for layer in adapter_layers(adapted):
        # autocast casts inputs; PEFT's cast to float32 before it would keep copies
        layer.cast_input_dtype_enabled = not in_bfloat16(config)
    return adapted


def check_targets(model: Any, config: ModelConfig) -> None:
    """Refuse names in ``lora_targets`` that no linear layer has."""
    if isinstance(config.lora_targets, str):
        return
    layers = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if unknown := [name for name in config.lora_targets if not any(f".{layer}".endswith(f".{name}") for layer in layers)]:
        known = ", ".join(sorted({layer.rpartition(".")[2] for layer in layers}))
        raise ModelError(f"model.lora_targets: no linear layer of {config.name} is called {unknown[0]}; its layers: {known}")


def untie_head(model: Any, targets: str | Iterable[str]) -> None:
    """Give the head its own matrix if it has adapters and shares the embedding's matrix: merging adapters would change the embedding, too."""
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    if isinstance(targets, str) or head is None or head.weight is not embedding.weight:
        return
    name = next(name for name, module in model.named_modules() if module is head)
    if any(f".{name}".endswith(f".{target}") for target in targets):
        head.weight = nn.Parameter(head.weight.detach().clone(), requires_grad=head.weight.requires_grad)
        model.config.get_text_config().tie_word_embeddings = model.config.tie_word_embeddings = False


def adapter_layers(model: Any) -> list[Any]:
    """Return the layers that hold adapters."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    return [module for module in model.modules() if isinstance(module, BaseTunerLayer)]


def load_policy(config: ModelConfig, *, seed: int, device: str = "cpu") -> Any:
    """Load a model for training: in float32, with adapters (initialised by ``seed``) and activation checkpointing as
    configured.

    With adapters and ``bf16``, the frozen matrices of linear layers are stored in bfloat16. Autocast would round them in every forward pass, so all
    results are the same bit for bit, with half of the memory. Embeddings, norms and adapters stay in float32.
    """
    quantised = config.quantize != "none"
    base = load_quantized(config, device) if quantised else load_model(config.name, offline=config.offline)
    model = rounded(with_adapters(base, config, seed=seed), config)
    if config.gradient_checkpointing:
        checkpoint_layers(model, config.name)
    return model if quantised else model.to(device)


def rounded(model: Any, config: ModelConfig) -> Any:
    """Return the model; with ``bf16``, the frozen parameters of its linear layers, unless quantised, are cast to bfloat16."""
    for parameter in linear_parameters(model) if in_bfloat16(config) else ():
        if not parameter.requires_grad and parameter.is_floating_point():
            parameter.data = parameter.data.to(torch.bfloat16)
    return model


def checkpoint_layers(model: Any, name: str) -> None:
    """Enable activation checkpointing (1604.06174): the forward pass keeps each layer's input, the backward pass recomputes the rest."""
    # the latter in transformers < 5.20
    enable: Any = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    try:
        enable({"use_reentrant": False})
    except ValueError as error:
        raise ModelError(f"model {name}: {error} Set model.gradient_checkpointing: false") from error


def linear_parameters(model: Any) -> list[nn.Parameter]:
    """Return the weights and biases of linear layers, except those of a head that shares its matrix with the embedding."""
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    layers = (module for module in model.modules() if isinstance(module, nn.Linear))
    return [parameter for layer in layers for parameter in layer.parameters(recurse=False) if id(parameter) not in embeddings]


@contextmanager
def adapters_off(model: Any) -> Generator[None]:
    """Switch the adapters of a model off within the context, so that it computes as its base model.

    Unlike PEFT's ``disable_adapter``, ``requires_grad`` of the adapters stays as it is, because FSDP2 reads it only once.
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
    """Return a copy of a model with these weights, given in the order of its parameters; tied weights stay tied, buffers are copied."""
    pairs = zip(model.parameters(), weights, strict=True)
    return deepcopy(model, {id(old): nn.Parameter(new.detach(), requires_grad=old.requires_grad) for old, new in pairs})


def frozen_copy(model: Any, dtype: torch.dtype) -> Any:
    """Return a frozen copy of a model with its weights in the given dtype, dequantised, and adapters merged into them.

    Buffers keep their dtype: bfloat16 would round rotary frequencies by up to 0.4 %, an error that grows with the position.
    """
    if quantized_layers(model):
        return whole(model, dtype).requires_grad_(False).eval()
    adapted = hasattr(model, "merge_and_unload")
    copied = with_weights(model, (old.clone() if adapted else old.to(dtype, copy=True) for old in model.parameters()))
    if adapted:
        copied = copied.merge_and_unload()
        for parameter in copied.parameters():
            parameter.data = parameter.data.to(dtype)
    return copied.requires_grad_(False).eval()


def start_copy(model: Any, *, bf16: bool) -> Any:
    """Return a frozen copy with the same results; with ``bf16``, matrices of linear layers are stored as autocast would round them."""
    rounded = {id(parameter) for parameter in linear_parameters(model)} if bf16 else set[int]()
    weights = (old.to(torch.bfloat16) if id(old) in rounded else old.clone() for old in model.parameters())
    return with_weights(model, weights).requires_grad_(False).eval()


def value_head(model: Any, device: torch.device) -> torch.nn.Linear:
    """Return the value head V = w h + b on a model's last hidden states, [D] -> [1], initialised to 0."""
    head = torch.nn.Linear(model.config.get_text_config().hidden_size, 1)
    torch.nn.init.zeros_(head.weight)
    torch.nn.init.zeros_(head.bias)
    return head.to(device)


def trainable(model: Any) -> list[torch.nn.Parameter]:
    """Return the parameters that require a gradient."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def save_model(model: Any, codec: Codec, folder: str | Path, *, write: Callable[[Path], None] | None = None) -> None:
    """Write weights (of a model with adapters, the adapters only) and tokenizer in the format of transformers and PEFT.

    ``write`` writes the weights of a model that has none itself (``upsolve.policy.shards``). ``eos_token_id`` of ``generation_config.json`` gets the
    token that ends a turn of the chat template, in addition to the tokens already there.
    """
    choose_accelerator()
    adapted = hasattr(model, "merge_and_unload")
    config, end = getattr(model, "generation_config", None), codec.end
    if config is not None and end is not None:
        before = config.eos_token_id
        ends = [] if before is None else before if isinstance(before, list) else [before]
        config.eos_token_id = ends if end in ends else [*ends, end]
    if write is not None:
        for settings in (model.config, *(() if config is None else (config,))):
            settings.save_pretrained(folder)
        write(Path(folder))
    else:
        model.save_pretrained(
            folder, **({"save_embedding_layers": False} if adapted else {})
        )  # a head with adapters is the base's
    codec.tokenizer.save_pretrained(folder)


@contextmanager
def peft_calls() -> Generator[None]:
    """Ignore transformers' warning that PEFT reads an attribute by its old name."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".is_gradient_checkpointing", category=FutureWarning)
        yield
