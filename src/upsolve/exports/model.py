"""Models -> folders for transformers and vLLM, with adapters merged, and GGUF files for llama.cpp."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import torch
from gguf import GGMLQuantizationType as Kind

from upsolve.errors import ArchiveError, ModelError
from upsolve.policy.model import load_codec, load_model, save_model
from upsolve.policy.tokens import Codec

__all__ = ["KINDS", "export_model"]

KINDS: Mapping[str, tuple[Kind, gguf.LlamaFileType]] = {
    "f32": (Kind.F32, gguf.LlamaFileType.ALL_F32),
    "f16": (Kind.F16, gguf.LlamaFileType.MOSTLY_F16),
    "bf16": (Kind.BF16, gguf.LlamaFileType.MOSTLY_BF16),
    "q8_0": (Kind.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0),
}
"""Name of a precision -> type of the matrices, and type of the file."""
ARCHITECTURES = {"llama": gguf.MODEL_ARCH.LLAMA, "qwen2": gguf.MODEL_ARCH.QWEN2, "qwen3": gguf.MODEL_ARCH.QWEN3}
"""``model_type`` of transformers -> architecture of llama.cpp."""
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPLITS = {CONTRACTIONS + r"\p{N}" + REST: "qwen2", CONTRACTIONS + r"\p{N}{1,3}" + REST: "llama-bpe"}
"""Regular expression by which a tokenizer splits text -> its name in llama.cpp."""


def export_model(name: str, out: str | Path, *, kind: str = "f16", offline: bool = False) -> Path:
    """Write a model with adapters merged: a new folder, or a .gguf file in a precision. ModelError if llama.cpp lacks it."""
    path = Path(out)
    if path.suffix != ".gguf" and path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise ArchiveError(f"{path}: exists; export a model into a new folder, or to a file that ends with .gguf")
    if kind not in KINDS:
        raise ModelError(f"--kind {kind}: must be one of {', '.join(KINDS)}")
    model, codec = load_model(name, offline=offline), load_codec(name, offline=offline)
    if path.suffix != ".gguf":
        save_model(model, codec, path)
        return path
    architecture = architecture_of(name, model.config)
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[architecture])
    writer.add_name(Path(name).name)
    add_shape(writer, model.config)
    writer.add_file_type(KINDS[kind][1])
    add_tokenizer(writer, name, codec, model.config.vocab_size)
    add_weights(writer, model, architecture, KINDS[kind][0])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def architecture_of(name: str, config: Any) -> gguf.MODEL_ARCH:
    """Return llama.cpp's architecture; ModelError if upsolve does not know the name of the architecture or of its position scaling."""
    scaling: dict[str, Any] = getattr(config, "rope_parameters", None) or {}
    kind = scaling.get("rope_type", "default")
    if config.model_type not in ARCHITECTURES or kind != "default":
        what = f"rope_type {kind}" if config.model_type in ARCHITECTURES else f"architecture {config.model_type}"
        raise ModelError(
            f"model {name}: {what} cannot be written as GGUF here, only {', '.join(ARCHITECTURES)}; export a folder, and convert it "
            "with convert_hf_to_gguf.py of llama.cpp"
        )
    return ARCHITECTURES[config.model_type]


def add_shape(writer: gguf.GGUFWriter, config: Any) -> None:
    """Write the sizes of a model."""
    heads = config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(size)
    writer.add_value_length(size)
    writer.add_rope_dimension_count(size)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_rope_freq_base((getattr(config, "rope_parameters", None) or {}).get("rope_theta", 10000.0))


def add_tokenizer(writer: gguf.GGUFWriter, name: str, codec: Codec, size: int) -> None:
    """Write a byte-level BPE tokenizer, and the token that ends a turn of its chat template; ModelError for others."""
    tokenizer = codec.tokenizer
    core = json.loads(tokenizer.backend_tokenizer.to_str())
    split = split_of(core.get("pre_tokenizer") or {})
    if core["model"]["type"] != "BPE" or not split or core.get("normalizer") not in (None, {"type": "NFC"}):
        raise ModelError(
            f"model {name}: upsolve does not know llama.cpp's name of its tokenizer; export a folder, and convert it with "
            "convert_hf_to_gguf.py of llama.cpp"
        )
    added = {token["id"]: token for token in core["added_tokens"]}
    words = {index: word for word, index in core["model"]["vocab"].items()} | {
        i: token["content"] for i, token in added.items()
    }
    types = [
        gguf.TokenType.UNUSED if index not in words
        else gguf.TokenType.NORMAL if index not in added
        else gguf.TokenType.CONTROL if added[index]["special"]
        else gguf.TokenType.USER_DEFINED
        for index in range(size)
    ]  # fmt: skip
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(split)
    writer.add_token_list([words.get(index, f"[PAD{index}]") for index in range(size)])
    writer.add_token_types(types)
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in core["model"]["merges"]])
    ids = (("bos", writer.add_bos_token_id), ("eos", writer.add_eos_token_id), ("pad", writer.add_pad_token_id))
    for token, add in ids:
        if (index := getattr(tokenizer, f"{token}_token_id")) is not None:
            add(index)
    writer.add_add_bos_token(bool(tokenizer("a").input_ids[:1] == [tokenizer.bos_token_id]))
    if tokenizer.chat_template:
        writer.add_chat_template(tokenizer.chat_template)
        if codec.end is not None:
            writer.add_eot_token_id(codec.end)


def split_of(rule: Mapping[str, Any]) -> str:
    """Return llama.cpp's name for the way in which a tokenizer splits text before merging; empty if upsolve does not know it."""
    parts = rule.get("pretokenizers", [rule])
    if not parts or parts[-1].get("type") != "ByteLevel" or parts[-1].get("add_prefix_space"):
        return ""
    first = [part["type"] for part in parts[:-1]]
    if parts[-1].get("use_regex", True):
        digits = first == ["Digits"] and parts[0].get("individual_digits")
        return "smollm" if digits else "" if first else "gpt-2"
    return SPLITS.get(parts[0].get("pattern", {}).get("Regex", ""), "") if first == ["Split"] else ""


def add_weights(writer: gguf.GGUFWriter, model: Any, architecture: gguf.MODEL_ARCH, kind: Kind) -> None:
    """Write the weights: matrices in a precision, vectors in F32. A matrix is written in F16 if its rows are not whole blocks of the precision."""
    config = model.config
    names = gguf.get_tensor_name_map(architecture, config.num_hidden_layers)
    tied = bool(config.tie_word_embeddings)
    for name, weight in model.state_dict().items():
        if tied and name == "lm_head.weight":
            continue
        found = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert found is not None, name
        data = weight.detach().to(torch.float32).cpu()
        if architecture is gguf.MODEL_ARCH.LLAMA and ".self_attn." in name and (".q_proj." in name or ".k_proj." in name):
            data = rotated(data, config.num_attention_heads if ".q_proj." in name else config.num_key_value_heads)
        fits = data.shape[-1] % gguf.GGML_QUANT_SIZES[kind][0] == 0
        used = Kind.F32 if data.dim() == 1 else kind if fits else Kind.F16
        writer.add_tensor(found, gguf.quants.quantize(data.numpy(), used), raw_dtype=used)


def rotated(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Return a query or key matrix with the rows of each head reordered: llama.cpp has pairs of positions side by side, transformers has two halves."""
    shape = weight.shape
    return weight.view(heads, 2, shape[0] // heads // 2, *shape[1:]).transpose(1, 2).reshape(shape)
