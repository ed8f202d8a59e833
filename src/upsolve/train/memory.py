"""Memory of a run, computed before anything is allocated.

Legend: N parameters, L layers, D hidden size, Q and K width of all query heads and of all key-value heads, I width of the MLP,
V vocabulary, T tokens of the largest micro-batch, S sampled sequences decoded at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from upsolve.archive.store import open_archive
from upsolve.config import ModelConfig, OptimConfig, Recipe, SampleConfig
from upsolve.policy.model import load_codec
from upsolve.train.logprobs import CHUNK
from upsolve.train.shapes import GroupShape, ModelShape, group_shape, shape_of
from upsolve.verify.resources import usable_memory

__all__ = ["MemoryPlan", "MemoryRow", "activation_bytes", "available_bytes", "head_bytes", "memory_of", "plan_memory"]

GIB = 2**30
SEEN_GROUPS = 500
"""Groups of an archive whose lengths are measured."""
SCORES = 3
"""Copies of the attention scores of one group held at once: before the softmax, after it, and their gradient."""
HEAD_COPIES = 5
"""Arrays [CHUNK, V] of float32 that the head holds at once: logits, log-softmax, softmax and two products."""


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


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Memory of a run on one device."""

    rows: tuple[MemoryRow, ...]
    """One per item; items of 0 bytes are left out."""

    @property
    def peak_bytes(self) -> int:
        """Return the peak, bytes: what is always allocated, and the larger of training step and sampling."""
        return self.held("always") + max(self.held("step"), self.held("sampling"))

    def text(self) -> str:
        """Return one line for a log: the peak and its items."""
        parts = ", ".join(f"{row.name} {row.bytes / GIB:.2f}" for row in self.rows)
        return f"memory, GiB on one device: {self.peak_bytes / GIB:.2f} at the peak ({parts})"

    def held(self, phase: str) -> int:
        """Return the bytes of a phase."""
        return sum(row.bytes for row in self.rows if row.phase == phase)


def activation_bytes(shape: ModelShape, tokens: int, *, bf16: bool) -> int:
    """Return the activations kept for the backward pass, bytes: T L times the bytes below, and bfloat16 copies of the weights.

    A gated decoder under autocast keeps, per token and layer, 20 D (two norms: input and normalised input in float32, the input of
    the products in bfloat16), 6 Q + 6 K (queries and keys after their rotation in float32, values and the attention's output in
    bfloat16) and 8 I (gate, activation, other branch and product in bfloat16); in float32 24 D + 8 Q + 8 K + 16 I. Attention weights
    are recomputed.
    """
    d, q, k, i = shape.hidden, shape.queries, shape.keys, shape.mlp
    token = 20 * d + 6 * (q + k) + 8 * i if bf16 else 24 * d + 8 * (q + k) + 16 * i
    copies = 2 * shape.parameters if bf16 else 0
    return tokens * shape.layers * token + copies


def head_bytes(shape: ModelShape, tokens: int, *, bf16: bool) -> int:
    """Return the memory of the language-model head, bytes; logits are computed in chunks of C = ``CHUNK`` tokens.

    The larger of ``HEAD_COPIES`` chunks [C, V] of float32 (forward) and, where the head is trained, its gradient in float32, the summand
    of one chunk and that chunk's logits (backward).
    """
    width, chunk = 2 if bf16 else 4, min(CHUNK, tokens) * shape.vocabulary
    backward = 0 if shape.adapters else (4 + width) * (chunk + shape.vocabulary * shape.hidden)
    return max(HEAD_COPIES * 4 * chunk, backward)


def attention_bytes(shape: ModelShape, pairs: int) -> int:
    """Return the memory of the attention of one group, bytes: ``SCORES`` float32 scores per pair of tokens and head."""
    return SCORES * 4 * shape.heads * pairs


def plan_memory(
    shape: ModelShape,
    *,
    model: ModelConfig,
    optim: OptimConfig,
    group: GroupShape,
    reference: bool = False,
    rollout: SampleConfig | None = None,
    processes: int = 1,
) -> MemoryPlan:
    """Return the memory of a run on one device.

    Args:
        shape: sizes of the model.
        model: precision, adapters, sharding.
        optim: token budget of a micro-batch, ``tokens_per_batch``.
        group: the largest group.
        reference: a frozen copy of the start is kept (objectives with a reference, online).
        rollout: how the policy is sampled; None: offline.
        processes: number of ranks over which ``model.shard`` shards weights, gradients and moments.
    """
    share = processes if model.shard != "none" else 1
    tokens = max(optim.tokens_per_batch, group.tokens)
    copies = 2 if model.bf16 else 4
    fixed = [
        MemoryRow("weights", 4 * shape.parameters // share, "always", "4 bytes a parameter"),
        MemoryRow("adapters", 4 * shape.adapters // share, "always", "4 bytes a parameter of LoRA"),
        MemoryRow("optimiser", 8 * shape.trained // share, "always", "AdamW: 8 bytes a trained parameter"),
        MemoryRow("reference", 4 * shape.parameters if reference else 0, "always", "frozen start, 4 bytes a parameter"),
    ]
    held = max(head_bytes(shape, tokens, bf16=model.bf16), attention_bytes(shape, group.pairs))
    step = [
        MemoryRow("gradients", 4 * shape.trained // share, "step", "4 bytes a trained parameter"),
        MemoryRow("activations", activation_bytes(shape, tokens, bf16=model.bf16), "step", f"a micro-batch of {tokens} tokens"),
        MemoryRow("logits or attention scores", held, "step", f"{CHUNK} tokens, or a group of {group.tokens}, at once"),
    ]
    rows = [*fixed, *step, *sampling_rows(shape, rollout, group, copies)]
    return MemoryPlan(tuple(row for row in rows if row.bytes))


def memory_of(recipe: Recipe) -> MemoryPlan:
    """Return the memory of a recipe's run, for its model and the largest of the first ``SEEN_GROUPS`` groups of its archive."""
    rollout = recipe.source.rollout if recipe.source.rounds else None
    data = recipe.data
    groups = [*islice(open_archive(data.archive).groups(), SEEN_GROUPS)]
    return plan_memory(
        shape_of(recipe.model.name, recipe.model),
        model=recipe.model,
        optim=recipe.optim,
        group=group_shape(
            groups,
            load_codec(recipe.model.name),
            attempts=data.group_size,
            max_tokens=data.max_tokens,
            longest=rollout.max_tokens if rollout else 0,
        ),
        reference=recipe.objective.needs_reference and rollout is not None,
        rollout=rollout,
    )


def available_bytes() -> int:
    """Return the memory that this process may still allocate, bytes: of the GPU where there is one, else of the machine."""
    import torch

    return torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else usable_memory()


def sampling_rows(shape: ModelShape, rollout: SampleConfig | None, group: GroupShape, width: int) -> Sequence[MemoryRow]:
    """Return the memory of sampling beside the policy: a frozen copy, the key-value cache of all sequences, logits."""
    if rollout is None:
        return ()
    length = group.prompt + rollout.max_tokens
    cache = rollout.batch * length * shape.layers * 2 * shape.keys * width
    return (
        MemoryRow("sampling copy", width * shape.parameters, "sampling", f"{width} bytes a parameter"),
        MemoryRow("key-value cache", cache, "sampling", f"{rollout.batch} sequences of {length} tokens"),
        MemoryRow("sampling logits", 4 * rollout.batch * shape.vocabulary * 4, "sampling", f"{rollout.batch} rows, float32"),
    )
