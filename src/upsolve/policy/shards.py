"""Models larger than the memory of one process: built without weights, which are read and written a part at a time."""

import json
import warnings
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import torch
from accelerate import init_empty_weights
from huggingface_hub import snapshot_download, split_torch_state_dict_into_shards
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.state_dict_loader import load
from transformers.generation.configuration_utils import GenerationConfig
from transformers.models.auto.configuration_auto import AutoConfig
from transformers.models.auto.modeling_auto import AutoModelForCausalLM

from upsolve.config import ModelConfig
from upsolve.errors import TrainingError
from upsolve.policy.locate import locate
from upsolve.policy.model import checkpoint_layers, loading, rounded, with_adapters, with_weights

__all__ = [
    "base_weights",
    "blank_policy",
    "deepspeed_library",
    "first_layers",
    "gather_layers",
    "layers_of",
    "materialise",
    "partition_weights",
    "parts_of",
    "read_weights",
    "write_weights",
]

GENERATION = "generation_config.json"
PART, LARGEST_PART, PARTS = 2**26, 5 * 10**9, 32
"""Bytes of a written file: a 32nd of the weights, but at least 64 MB and at most 5 GB."""


def parts_of(config: ModelConfig) -> Path | None:
    """Return the folder of a model whose files can be read a part at a time; None if the model has to be loaded whole.

    Models that are loaded whole: adapters (merged into their base), files other than safetensors, and architectures whose weights have other names or
    shapes than in their files, such as merged experts.
    """
    location = locate(config.name, offline=config.offline)
    if location.adapters:
        return None
    folder = Path(location.folder)
    if not folder.is_dir():
        wanted = ["*.json", "model*.safetensors"]
        with loading(f"model {config.name}"):
            folder = Path(snapshot_download(location.where, allow_patterns=wanted, local_files_only=location.local))
    if not any(folder.glob("*.safetensors")):
        return None
    stored = HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
    model = blank_base(folder, config.name)
    sizes = {name: getattr(stored.get(name), "size", None) for name in base_weights(model)}
    same = all(tensor.shape == sizes[name] for name, tensor in base_weights(model).items())
    return folder if same and layers_of(model) is not None else None


def blank_base(folder: Path, name: str) -> Any:
    """Return a model without weights (on the meta device), with its buffers, in evaluation mode; raises ModelError as ``load_model`` does."""
    with loading(f"model {name}"), init_empty_weights(include_buffers=False):
        settings = AutoConfig.from_pretrained(str(folder))
        model: Any = AutoModelForCausalLM.from_config(settings, dtype=torch.float32)
    model.tie_weights()
    if (folder / GENERATION).is_file():
        model.generation_config = GenerationConfig.from_pretrained(str(folder))
    model.name_or_path = name
    return model.eval()


def blank_policy(config: ModelConfig, folder: Path, *, seed: int, frozen: bool = False) -> Any:
    """Return the policy of ``load_policy`` without its base weights; adapters, which have no file, are initialised by ``seed``.

    ``frozen``: the base alone, as in ``start_copy``: nothing is trained, and matrices are rounded in bfloat16 runs.
    """
    model = blank_base(folder, config.name)
    if frozen:
        return rounded(model.requires_grad_(False), config)
    if config.lora_rank:  # PEFT moves adapters to the device of their layer: tensors that share one element take no memory
        model = with_weights(model, (torch.zeros(()).expand(weight.shape) for weight in model.parameters()))
        model = with_adapters(model, config, seed=seed)
        model = with_weights(model, (each if each.requires_grad else each.to("meta") for each in model.parameters()))
    model = rounded(model, config)
    if config.gradient_checkpointing:
        checkpoint_layers(model, config.name)
    return model


def layers_of(model: Any) -> nn.ModuleList | None:
    """Return the layers of a model without adapters; None if the architecture has no plain list of them."""
    lists = (child for child in model.get_decoder().children() if isinstance(child, nn.ModuleList))
    return next((each for each in lists if len(each) == model.config.get_text_config().num_hidden_layers), None)


def first_layers(config: ModelConfig, folder: Path, *, seed: int) -> Any:
    """Return the policy with its first layers only, at least one of each kind, and their weights: for checks of its computation."""
    model = blank_base(folder, config.name)
    layers = layers_of(model)
    assert layers is not None, "as parts_of has found"
    types = getattr(model.config.get_text_config(), "layer_types", None) or [""] * len(layers)
    kinds = [(kind, *(type(each) for each in layer.modules())) for kind, layer in zip(types, layers, strict=True)]
    del layers[next(n for n in count(1) if {*kinds[:n]} == {*kinds}) :]
    model = with_weights(model, (torch.empty(weight.shape, dtype=weight.dtype) for weight in model.parameters()))
    read_weights(model, folder)
    return rounded(with_adapters(model, config, seed=seed), config)


def base_weights(model: Any) -> dict[str, Tensor]:
    """Return the weights of a model by the names of its files, tied ones once, without adapters."""
    found: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if ".lora_" not in name:
            found.setdefault(id(tensor), (name.removeprefix("base_model.model.").replace(".base_layer.", "."), tensor))
    return dict(found.values())


def materialise(model: Any, device: torch.device) -> None:
    """Give tensors of the meta device memory on a device, without values."""

    def made(tensor: Tensor) -> Tensor:
        return torch.empty_like(tensor, device=device) if tensor.device.type == "meta" else tensor

    model._apply(made)


def read_weights(model: Any, folder: Path) -> None:
    """Read the weights of a model from its safetensors files; of sharded tensors only this rank's part is read."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        load(dict(base_weights(model)), storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=True)


def read_each(
    model: Any, folder: Path, hand_over: Callable[[nn.Parameter], None], *, device: torch.device, reads: bool
) -> None:
    """Give tensors of the meta device memory and values one after the other, and hand each over before the next one.

    ``reads``: this rank reads the values; other ranks only get memory. A tied weight is handed over once.
    """
    weights = base_weights(model)
    names = {id(tensor): name for name, tensor in weights.items()}
    files: dict[str, Path] = {}
    for file in folder.glob("*.safetensors") if reads else ():
        with safe_open(file, "pt") as stored:
            files |= dict.fromkeys(stored.keys(), file)
    made: dict[int, nn.Parameter] = {}

    def value(name: str) -> Tensor:
        with safe_open(files[name], "pt") as stored:
            return stored.get_tensor(name)

    for module in model.modules():
        for key, old in module._parameters.items():
            if old is None or old.device.type != "meta":
                continue
            if id(old) not in made:
                made[id(old)] = new = nn.Parameter(torch.empty_like(old, device=device), requires_grad=old.requires_grad)
                if reads:
                    new.data.copy_(value(names[id(old)]))
                hand_over(new)
            module._parameters[key] = made[id(old)]
    for name, tensor in weights.items():
        if not isinstance(tensor, nn.Parameter):  # a buffer, which every rank has whole
            load({name: tensor}, storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=True)


def deepspeed_library() -> Any:
    """Return DeepSpeed; TrainingError if it is not installed."""
    try:
        import deepspeed
    except ImportError as error:
        raise TrainingError("model.shard: deepspeed needs DeepSpeed: pip install 'upsolve[deepspeed]'") from error
    return deepspeed


def partition_weights(model: Any, folder: Path, settings: dict[str, Any], *, device: torch.device, reads: bool) -> None:
    """Read the weights of a model on the meta device one after the other, and partition each by ZeRO-3 at once. Collective.

    ``settings``: DeepSpeed's configuration; ``reads``: this is rank 0, which reads for all.
    """
    config: dict[str, Any] = {"zero_optimization": {"stage": 3}, "train_micro_batch_size_per_gpu": 1, **settings}
    zero, first = deepspeed_library().zero, list[Any]()

    def hand_over(parameter: Any) -> None:
        if first:
            first[0].convert_to_zero_parameters([parameter])
            return
        zero.Init(module=nn.ParameterList([parameter]), config_dict_or_path=config)
        first.append(parameter)

    read_each(model, folder, hand_over, device=device, reads=reads)


def gather_layers(root: Any, model: Any) -> list[Any]:
    """Let each layer of a partitioned model be gathered for its forward pass, and the rest for that of ``root``; return the hooks.

    For a model without a DeepSpeed engine: before one is made, or if nothing is trained. An engine has hooks of its own.
    """
    gathered = deepspeed_library().zero.GatheredParameters
    kinds: set[str] = set(model._no_split_modules or ())
    layers: list[Any] = [module for module in model.modules() if type(module).__name__ in kinds]
    inner = {id(parameter) for layer in layers for parameter in layer.parameters()}
    parts = [(layer, [*layer.parameters()]) for layer in layers]
    hooks: list[Any] = []
    for module, parameters in [*parts, (root, [each for each in root.parameters() if id(each) not in inner])]:
        opened: list[Any] = []

        def before(*_: Any, opened: list[Any] = opened, parameters: Any = parameters) -> None:
            opened.append(gathered(parameters))
            opened[-1].__enter__()

        def after(*_: Any, opened: list[Any] = opened) -> None:
            opened.pop().__exit__(None, None, None)

        hooks += [module.register_forward_pre_hook(before), module.register_forward_hook(after, always_call=True)]
    return hooks


def write_weights(blank: Any, gather: Callable[[str], Tensor], folder: Path | None) -> None:
    """Write the weights of a model as safetensors files with an index, gathered a file at a time. Collective.

    Args:
        blank: the model on the meta device.
        gather: returns a weight whole, by its name; called on all ranks in the same order.
        folder: where rank 0 writes; None on other ranks.
    """
    weights = base_weights(blank)
    total = sum(weight.numel() * weight.element_size() for weight in weights.values())
    size = min(LARGEST_PART, max(PART, total // PARTS))
    plan = split_torch_state_dict_into_shards(weights, filename_pattern="model{suffix}.safetensors", max_shard_size=size)
    for file, names in plan.filename_to_tensors.items():
        part = {name: gather(name) for name in names}
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            save_file({name: tensor.contiguous() for name, tensor in part.items()}, folder / file, {"format": "pt"})
        del part
    if folder is not None and plan.is_sharded:
        index = {"metadata": plan.metadata, "weight_map": plan.tensor_to_filename}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1), encoding="utf-8")
