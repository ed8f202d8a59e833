"""Memory of a run, computed before anything is allocated and without loading weights.

Legend: N parameters, L layers, D hidden size, Q and K width of all query heads and of all key-value heads, I width of the MLP,
V vocabulary, G attempts of a group, T tokens of the largest micro-batch, S sampled sequences decoded at once.
"""

import logging
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from upsolve.archive.outline import longest_attempts, longest_prompts
from upsolve.config import ModelConfig, OptimConfig, Recipe, SampleConfig
from upsolve.errors import ConfigError
from upsolve.plugins import find
from upsolve.policy.decoding.kv_cache import attempts_that_fit, token_bytes
from upsolve.policy.locate import locate
from upsolve.policy.machine import available_bytes, in_bfloat16
from upsolve.policy.model import codec_of, linear_parameters, loading, with_adapters
from upsolve.policy.tokens import Codec
from upsolve.train.data.sources import parts_of_epoch
from upsolve.train.update.head_scores import block_elements
from upsolve.types import Group

__all__ = ["MemoryPlan", "announce", "beside_trainer", "memory_of"]

TOKENISED = 8
"""Number of longest texts, in characters, that are tokenized to find the text with the most tokens."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a decoder that determine its memory."""

    parameters: int
    """N, the number of parameters; tied weights count once."""
    layers: int
    """L, the number of layers."""
    hidden: int
    """D, the hidden size."""
    heads: int
    """Number of query heads."""
    queries: int
    """Q: query heads times head size."""
    keys: int
    """K: key-value heads times head size."""
    mlp: int
    """I, the width of the MLP."""
    vocabulary: int
    """V, the size of the vocabulary."""
    adapters: int = 0
    """Parameters of LoRA adapters; 0: every weight is trained."""
    linear: int = 0
    """Parameters of linear layers, except those shared with the embedding."""
    inner: int = 0
    """Parameters of all L layers together, without adapters."""
    quantized: int = 0
    """Parameters of linear layers that ``model.quantize`` stores in few bits."""
    largest: int = 0
    """Number of parameters of the largest quantised matrix."""

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
    """G, the number of attempts."""
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


def sizes_of(config: Any, model: ModelConfig) -> ModelShape:
    """Return the sizes of a model with this configuration of transformers."""
    from transformers.models.auto.modeling_auto import AutoModelForCausalLM

    from upsolve.policy.shards import layers_of

    with torch.device("meta"):
        blank: Any = AutoModelForCausalLM.from_config(config)
        blank.tie_weights()
        total = sum(parameter.numel() for parameter in blank.parameters())
        linear = sum(parameter.numel() for parameter in linear_parameters(blank))
        layers = layers_of(blank)
        inner = 0 if layers is None else sum(parameter.numel() for parameter in layers.parameters())
        head = blank.get_output_embeddings()
        layers_but_head = (each for each in blank.modules() if isinstance(each, torch.nn.Linear) and each is not head)
        matrices = [0, *(each.weight.numel() for each in layers_but_head)] if model.quantize != "none" else [0]
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
        inner=inner,
        quantized=sum(matrices),
        largest=max(matrices),
    )


def config_of(name: str) -> Any:
    """Return the configuration of a model without its weights; ModelError if it cannot be found or read."""
    from transformers.models.auto.configuration_auto import AutoConfig

    with loading(f"configuration of model {name}"):
        return AutoConfig.from_pretrained(locate(name).folder)


GIB = 2**30
QUANTIZED = {"none": 0.0, "nf4": 4 + 8 / 64 + 32 / (64 * 256), "int8": 8.0}
"""Bits of a parameter; ``nf4`` scales blocks of 64 by 8 bits, and 256 of these scales by 32. The scales of ``int8``, one a row, are left out."""
LORA, SHARD = "model.lora_rank: 16", "model.shard: fsdp2 over more processes"
SMALLER = {"none": f"model.quantize: nf4, or {SHARD}", "int8": "model.quantize: nf4", "nf4": ""}
"""``model.quantize`` -> settings that make frozen weights smaller still."""
ZERO = "model.deepspeed.zero_optimization"
MOMENTS = {
    "float32": (8, f"{LORA}, or {SHARD}, or optim.moments: bfloat16 or int8"),
    "bfloat16": (4, f"{LORA}, or {SHARD}, or optim.moments: int8"),
    "int8": (2, f"{LORA}, or {SHARD}"),
}
"""Kind of AdamW's moments -> bytes of both per trained parameter, and what reduces them."""
RESERVE, LEAST = 0.06, 0.1
"""Shares of a GPU's memory: the reserve for CUDA contexts and fragmentation, and the smallest share that vLLM is started with."""
LOGGER = logging.getLogger("upsolve.train")
SCORES = 3
"""Copies of the attention scores of one group held at once: before the softmax, after it, and their gradient."""
HEAD_COPIES = 3
"""Arrays of float32 that the head holds at once for a block of the vocabulary: logits in two precisions, exponentials and a product."""


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """One item of memory."""

    name: str
    """Name of the item, such as ``gradients``."""
    bytes: int
    """Size on one device."""
    phase: str
    """When it is allocated: ``always``, ``step`` or ``sampling``."""
    note: str
    """How the size is computed."""
    fix: str = ""
    """Setting of the recipe that makes it smaller."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Memory of a run on one device."""

    rows: tuple[MemoryRow, ...]
    """One row for each item of memory; items of 0 bytes are left out."""

    @property
    def peak_bytes(self) -> int:
        """Return the peak, bytes: memory that is always allocated, and the larger of training step and sampling."""
        return self.held("always") + max(self.held("step"), self.held("sampling"))

    def text(self) -> str:
        """Return a line for a log: the peak and its items."""
        parts = ", ".join(f"{row.name} {row.bytes / GIB:.2f}" for row in self.rows)
        return f"memory, GiB on one device: {self.peak_bytes / GIB:.2f} at the peak ({parts})"

    def warning(self, available: int) -> str:
        """Return a warning that the run will not fit, with the settings that shrink the largest parts at the peak; "" if the run fits."""
        if self.peak_bytes <= available:
            return ""
        phase = max(("step", "sampling"), key=self.held)
        largest = sorted((row for row in self.rows if row.phase in ("always", phase) and row.fix), key=lambda row: -row.bytes)
        advice = "; ".join(f"{row.name} {row.bytes / GIB:.2f}: {row.fix}" for row in largest[:3])
        return f"needs {self.peak_bytes / GIB:.2f} GiB, {available / GIB:.2f} are available. Largest parts: {advice}"

    def held(self, phase: str) -> int:
        """Return the bytes that a phase allocates."""
        return sum(row.bytes for row in self.rows if row.phase == phase)


def layer_bytes(shape: ModelShape, tokens: int, *, bf16: bool) -> int:
    """Return the activations of one layer that the backward pass needs, bytes; attention weights are recomputed.

    A gated decoder under autocast keeps, per token, 20 D (two norms: input and normalised input in float32, the input of the
    products in bfloat16), 6 Q + 6 K (queries and keys after their rotation in float32, values and the attention's output in
    bfloat16) and 8 I (gate, activation, other branch and product in bfloat16); in float32 24 D + 8 Q + 8 K + 16 I, with
    adapters 20 D.
    """
    d, q, k, i = shape.hidden, shape.queries, shape.keys, shape.mlp
    return tokens * (20 * d + 6 * (q + k) + 8 * i if bf16 else (20 if shape.adapters else 24) * d + 8 * (q + k) + 16 * i)


def activation_bytes(shape: ModelShape, tokens: int, model: ModelConfig) -> int:
    """Return the activations kept for the backward pass, bytes, with the bfloat16 copies of the weights that autocast makes.

    ``layer_bytes`` for every layer; with ``gradient_checkpointing`` only the input of every layer, 4 D per token. With adapters the linear
    layers are stored in bfloat16, and the copy of the head is part of ``head_bytes``.
    """
    rounded_alone = shape.linear if model.gradient_checkpointing else 0  # one layer at a time
    copies = 0 if shape.adapters or not in_bfloat16(model) else 2 * (shape.parameters - rounded_alone)
    layer = 4 * shape.hidden * tokens if model.gradient_checkpointing else layer_bytes(shape, tokens, bf16=in_bfloat16(model))
    return shape.layers * layer + copies


def recomputed_bytes(shape: ModelShape, tokens: int, model: ModelConfig) -> int:
    """Return the memory of one layer while it is recomputed, bytes; 0 without ``gradient_checkpointing``."""
    if not model.gradient_checkpointing:
        return 0
    rounded = 0 if shape.adapters or not in_bfloat16(model) else 2 * shape.linear // shape.layers
    return layer_bytes(shape, tokens, bf16=in_bfloat16(model)) + rounded


def head_bytes(shape: ModelShape, tokens: int, *, bf16: bool, gpu: bool = False) -> int:
    """Return the memory of the language-model head, bytes: its rounded weight, the logits of a block of the vocabulary (``HEAD_COPIES`` times), and
    the gradient of the weight in float32 where it is trained."""
    weight = shape.vocabulary * shape.hidden
    gradient = 0 if shape.adapters else 4 * weight
    return HEAD_COPIES * 4 * block_elements(tokens, shape.vocabulary, gpu=gpu) + (2 * weight if bf16 else 0) + gradient


def plan_memory(
    shape: ModelShape,
    *,
    model: ModelConfig,
    optim: OptimConfig,
    group: GroupShape,
    reference: bool = False,
    rollout: SampleConfig | None = None,
    processes: int = 1,
    available: int | None = None,
) -> MemoryPlan:
    """Return the memory of a run on one device.

    ``reference``: attempts are scored under the frozen start. ``rollout``: how the policy is sampled; None: offline.
    ``available``: free memory before the run, bytes, to which the engine ``transformers`` fits the sequences that it decodes at
    once; None: ``rollout.batch``.
    """
    parts, all_share = (processes if shares else 1 for shares in (model.partitioned, model.shard != "none"))
    copies = 2 if in_bfloat16(model) else 4
    summed = 1 if model.zero_stage == 1 else all_share
    start = stored_bytes(shape, model)
    weights = start if shape.adapters else 4 * shape.parameters
    moments, less = MOMENTS[optim.moments]
    smaller = SMALLER[model.quantize] if shape.adapters and model.shard == "none" else SHARD
    fixed = [
        MemoryRow("weights", weights // parts, "always", f"{weights / shape.parameters:.1f} bytes per parameter", smaller),
        MemoryRow("adapters", 4 * shape.adapters // parts, "always", "4 bytes per parameter of LoRA"),
        MemoryRow(
            "optimiser", moments * shape.trained // all_share, "always", f"AdamW: {moments} bytes a trained parameter", less
        ),
        MemoryRow(
            "reference",
            0 if shape.adapters or not reference else start // parts,
            "always",
            "frozen start; with adapters none",
            LORA,
        ),
        MemoryRow("gradients", 4 * shape.trained // summed, "step", "4 bytes a trained parameter", LORA),
        MemoryRow("gathered", gathered_bytes(shape, model) if parts > 1 else 0, "step", "layers of a pass, whole"),
        *(zero_rows(shape, model, processes) if model.zero_stage and processes > 1 else ()),
    ]
    tokens = max(optim.tokens_per_batch, group.tokens)
    rest = None if available is None else available - sum(row.bytes for row in fixed if row.phase == "always")
    rows = [*fixed, *pass_rows(shape, tokens, model, group), *sampling_rows(shape, rollout, group, width=copies, free=rest)]
    return MemoryPlan(tuple(row for row in rows if row.bytes))


def zero_rows(shape: ModelShape, model: ModelConfig, processes: int) -> Sequence[MemoryRow]:
    """Return the memory that DeepSpeed holds beside weights, moments and gradients, by its settings and their defaults.

    A float32 copy of the trained weights, which the optimizer changes; a buffer of whole gradients; and the larger of what a step of the
    optimizer computes with (float32 gradients and two temporary tensors of AdamW) and the weights that ZeRO-3 keeps gathered.
    """
    zero: Any = model.deepspeed.get("zero_optimization", {})
    own, bucket = -(-shape.trained // processes), int(zero.get("reduce_bucket_size", 5e8))
    bucket = bucket if torch.cuda.is_available() else min(bucket, shape.trained)  # on CPUs memory that is written to counts
    live = min(shape.parameters, int(zero.get("stage3_max_live_parameters", 1e9))) if model.partitioned else 0
    step = 12 * min(own, int(zero.get("sub_group_size", 1e9)))
    return (
        MemoryRow("master copy", 4 * own, "always", "4 bytes a trained parameter", LORA),
        MemoryRow("gradient bucket", 4 * bucket, "always", f"{bucket:,} gradients", f"{ZERO}.reduce_bucket_size"),
        MemoryRow("a step of DeepSpeed", max(step, 4 * live), "step", "copies, or gathered weights", f"{ZERO}.sub_group_size"),
    )


def stored_bytes(shape: ModelShape, model: ModelConfig) -> int:
    """Return the memory of frozen weights, bytes: linear layers in the run's precision or quantised, the rest in float32."""
    width = 2 if in_bfloat16(model) else 4
    saved = (4 - width) * shape.linear + (width - QUANTIZED[model.quantize] / 8) * shape.quantized
    return 4 * shape.parameters - math.floor(saved)


def gathered_bytes(shape: ModelShape, model: ModelConfig) -> int:
    """Return the memory of the weights that a pass of a sharded policy gathers, bytes: a layer, its copy in one piece, and the next layer.

    Trained layers also have whole gradients, twice, until these are scattered. Weights outside of layers (embedding, head) stay whole during the
    pass, in float32.
    """
    layer, outer = shape.inner // max(1, shape.layers), shape.parameters - shape.inner
    gradients = 0 if shape.adapters else 4
    return layer * (3 * (2 if in_bfloat16(model) else 4) + 2 * gradients) + outer * (4 + gradients)


def pass_rows(shape: ModelShape, tokens: int, model: ModelConfig, group: GroupShape) -> Sequence[MemoryRow]:
    """Return the memory of a forward and backward pass: activations of all layers, and the larger of the head and of one layer."""
    smaller = "optim.tokens_per_batch" if model.gradient_checkpointing else "model.gradient_checkpointing: true"
    scores = SCORES * (2 if in_bfloat16(model) else 4) * shape.heads * group.pairs
    layer = scores + recomputed_bytes(shape, tokens, model)
    held = max(head_bytes(shape, tokens, bf16=in_bfloat16(model), gpu=torch.cuda.is_available()), layer)
    what = f"a block of logits, or a group of {group.tokens} tokens in attention"
    return (
        MemoryRow("activations", activation_bytes(shape, tokens, model), "step", f"a micro-batch of {tokens} tokens", smaller),
        MemoryRow("logits or one layer", held, "step", what, "data.max_tokens"),
        MemoryRow("dequantised matrix", (6 if in_bfloat16(model) else 4) * shape.largest, "step", "the largest, one at a time"),
    )


def memory_of(recipe: Recipe, groups: Sequence[Group], *, processes: int = 1, codec: Codec | None = None) -> MemoryPlan:
    """Return the plan of a recipe's run from the sizes of its model and of the largest of these groups; ``codec``: None loads
    it."""
    rollout = recipe.source.rollout if recipe.source.rounds else None
    model, data, longest = recipe.model, recipe.data, rollout.max_tokens if rollout else 0
    codec = codec or codec_of(model)
    prompt = max((len(codec.prompt(task, turns).ids_P) for task, turns in longest_prompts(groups, TOKENISED)), default=0)
    stored = max((len(codec.ids_of(attempt)) for attempt in longest_attempts(groups, TOKENISED)), default=0)
    longest = max(longest, min(stored, max(0, data.max_tokens - prompt)))
    objective, parted = recipe.objective, rollout is None and parts_of_epoch(groups, data) > 1
    of_start = objective.needs_reference or (parted and (objective.needs_old or recipe.select.reads_start))
    return plan_memory(
        sizes_of(config_of(model.name), model),
        model=model,
        optim=recipe.optim,
        group=GroupShape(prompt, recipe.group_attempts, longest),
        reference=of_start and (parted or rollout is not None),
        rollout=rollout,
        processes=processes,
        available=available_bytes(),
    )


def announce(plan: MemoryPlan) -> None:
    """Log the memory plan of a run before anything is allocated, and warn if it exceeds the available memory."""
    LOGGER.info(plan.text())
    if problem := plan.warning(available_bytes()):
        warnings.warn(problem, stacklevel=2)


def beside_trainer(rollout: SampleConfig, plan: MemoryPlan) -> SampleConfig:
    """Return how the policy is sampled, with the share of the GPU that vLLM may use beside the trainer, unless the recipe sets
    the share.

    While vLLM samples the trainer holds weights, optimizer state and reference; where vLLM does not sleep, its training step as
    well. ``RESERVE`` of the memory is left. ConfigError if too little is left.
    """
    if rollout.engine != "vllm" or rollout.vllm.memory is not None or not torch.cuda.is_available():
        return rollout
    total = torch.cuda.mem_get_info()[1]
    held = plan.held("always") + (0 if rollout.vllm.sleep else plan.held("step"))
    share = math.floor(100 * (1 - RESERVE - held / total)) / 100
    if share < LEAST:
        raise ConfigError(
            f"source.rollout.engine: vllm has {share:.0%} of {total / GIB:.0f} GiB beside a trainer that holds {held / GIB:.2f}; train "
            "adapters (model.lora_rank), shard the trainer (model.shard), or set source.rollout.vllm.memory"
        )
    return rollout.model_copy(update={"vllm": rollout.vllm.model_copy(update={"memory": share})})


def sampling_rows(
    shape: ModelShape, rollout: SampleConfig | None, group: GroupShape, *, width: int, free: int | None
) -> Sequence[MemoryRow]:
    """Return the memory of sampling beside the policy: a frozen copy, the key-value cache of all sequences that fit, logits;
    none offline. Servers have cache and logits in their own processes; the copy is what they load."""
    if rollout is None:
        return ()
    copy, length, fix = width * shape.parameters, group.prompt + rollout.max_tokens, "source.rollout.batch"
    copied = MemoryRow("sampling copy", copy, "sampling", f"{width} bytes per parameter")
    if find("engine", rollout.engine).beside is not None:
        return (copied,)
    each = token_bytes(shape.layers, shape.keys, width)
    fits = rollout.batch if free is None or rollout.engine != "transformers" else attempts_that_fit(each, length, free - copy)
    at_once = min(rollout.batch, fits)
    fewer = f", {rollout.batch} do not fit" if at_once < rollout.batch else ""
    return (
        copied,
        MemoryRow(
            "key-value cache", at_once * length * each, "sampling", f"{at_once} sequences of {length} tokens{fewer}", fix
        ),
        MemoryRow("sampling logits", 4 * at_once * shape.vocabulary * 4, "sampling", f"{at_once} rows, float32", fix),
    )
